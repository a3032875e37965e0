"""Memory windows: part of a region, open to the peer until it is unbound."""

import ctypes
from enum import IntEnum
from typing import Final

from rdmadiag.verbs.abi import IbvSendWr
from rdmadiag.verbs.model.constants import Access
from rdmadiag.verbs.model.domain import PD
from rdmadiag.verbs.model.lifetime import Held, Mismatch
from rdmadiag.verbs.model.memory import MR, check
from rdmadiag.verbs.model.numbers import within
from rdmadiag.verbs.model.queue_pair import QP
from rdmadiag.verbs.objects import MemoryWindow, window_of
from rdmadiag.verbs.requests import SEND_SIGNALED

_BIND_MW: Final = 8  # IBV_WR_BIND_MW


class MWType(IntEnum):
    """enum ibv_mw_type."""

    TYPE_1 = 1  # of a protection domain; bound and unbound by ibv_bind_mw
    TYPE_2 = 2  # of a queue pair; bound by a work request


class MW(Held[MemoryWindow]):
    """ibv_alloc_mw. While it is bound its region is in use."""

    kind = "memory window"

    def __init__(self, made: MemoryWindow, pd: PD, mw_type: MWType) -> None:
        super().__init__(pd.session, made, pd)
        self.pd = pd
        self.mw_type = mw_type
        self.mr: MR | None = None  # that it is bound to

    @property
    def rkey(self) -> int:
        """What the peer needs; another after each bind."""
        return self.made.rkey

    def bind(self, qp: QP, mr: MR, offset: int = 0, length: int = 0, *, wr_id: int = 0) -> int:
        """Post the request that binds it, for remote WRITE; its rkey once that has completed.

        The region needs Access.MW_BIND. A length of 0 unbinds one of type 1. Raises CallFailed,
        Mismatch and ValueError.
        """
        if length:
            check(mr.len, offset, length)
        elif self.mw_type is MWType.TYPE_2:
            raise ValueError("a window of type 2 is not unbound by a bind of nothing")
        if qp.pd is not self.pd or mr.pd is not self.pd:
            raise Mismatch("queue pair, region and window are of different protection domains")
        if not mr.access & Access.MW_BIND:
            raise ValueError(f"{mr!r} was registered without Access.MW_BIND")
        with self.session.lock:
            if self.mw_type is MWType.TYPE_1:
                self.made.bind(qp.made, within(wr_id, 64, "wr_id"), mr.made, offset, length)
            else:
                self._post(qp, mr, offset, length, wr_id)
            self._leave()
            if length:
                self.mr = mr
                mr.used_by[id(self)] = self
            return self.rkey

    def _post(self, qp: QP, mr: MR, offset: int, length: int, wr_id: int) -> None:
        request = IbvSendWr(
            wr_id=within(wr_id, 64, "wr_id"), opcode=_BIND_MW, send_flags=SEND_SIGNALED
        )
        request.bind_mw.mw = ctypes.cast(self.made.handle, ctypes.c_void_p).value
        request.bind_mw.rkey = self.made.next_rkey()
        request.bind_mw.bind_info = window_of(mr.made, offset, length)
        qp.made.context.post_send(qp.made.handle, request)
        self.made.rkey = request.bind_mw.rkey

    def let_go(self) -> MemoryWindow:
        """The region can be closed again."""
        self._leave()
        return super().let_go()

    def _leave(self) -> None:
        if self.mr is not None:  # a closed one has no length, and so no truth
            self.mr.used_by.pop(id(self), None)
        self.mr = None


def alloc_mw(pd: PD, mw_type: MWType = MWType.TYPE_1) -> MW:
    """ibv_alloc_mw; raises CallFailed."""
    with pd.session.lock:
        return MW(pd.made.alloc_mw(int(mw_type)), pd, mw_type)
