"""Protection domains, and what is made in them beside queue pairs."""

from collections.abc import Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any

from rdmadiag.verbs.abi import IbvAhAttr, IbvSrqAttr
from rdmadiag.verbs.model.address import AHAttr
from rdmadiag.verbs.model.completion import CQ, WorkCompletion
from rdmadiag.verbs.model.constants import GRH_BYTES, Access, QPType
from rdmadiag.verbs.model.lifetime import Held, Mismatch, Session
from rdmadiag.verbs.model.memory import MR, SGE, flat
from rdmadiag.verbs.model.numbers import within
from rdmadiag.verbs.model.queue_pair import QP
from rdmadiag.verbs.model.states import QPCapacity
from rdmadiag.verbs.model.work_request import RecvWR, linked, receives, refused
from rdmadiag.verbs.objects import AddressHandle, ProtectionDomain, SharedReceiveQueue
from rdmadiag.verbs.open_context import PostFailed

if TYPE_CHECKING:
    from rdmadiag.verbs.model.device import OpenDevice


class AH(Held[AddressHandle]):
    """ibv_create_ah: the way to a peer, for UD."""

    kind = "address handle"

    def __init__(self, session: Session, made: AddressHandle, pd: "PD") -> None:
        super().__init__(session, made, pd)
        self.pd = pd


class SRQ(Held[SharedReceiveQueue]):
    """ibv_create_srq: one receive queue for several queue pairs."""

    kind = "shared receive queue"

    def __init__(
        self,
        session: Session,
        made: SharedReceiveQueue,
        pd: "PD",
        max_sge: int,
        *stands_on: Held[Any],
    ) -> None:
        super().__init__(session, made, pd, *stands_on)
        self.pd = pd
        self.max_sge = max_sge

    def post_recv(self, wr: RecvWR) -> None:
        """Post a list of receives; raises PostFailed, Closed, Mismatch and ValueError."""
        wrs = linked(wr)
        with self.session.lock:
            made = self.made
            self.pd.check([each.sg_list for each in wrs], self.max_sge)
            requests = receives(wrs)
            try:
                made.post_recv(requests[0])
            except PostFailed as failed:
                at = failed.refused
                raise refused(failed.call, failed.errno, at, requests, wrs) from failed

    def modify(self, *, srq_limit: int | None = None, max_wr: int | None = None) -> None:
        """ibv_modify_srq: the number of receives below which an event comes, or the room.

        Raises CallFailed.
        """
        with self.session.lock:
            if max_wr is not None:
                self.made.resize(within(max_wr, 32, "max_wr"))
            if srq_limit is not None:
                self.made.limit(within(srq_limit, 32, "srq_limit"))

    def query(self) -> IbvSrqAttr:
        """ibv_query_srq; raises CallFailed."""
        with self.session.lock:
            return self.made.query()


class PD(Held[ProtectionDomain]):
    """ibv_alloc_pd: what memory, address handles and queue pairs share."""

    kind = "protection domain"

    def __init__(self, session: Session, made: ProtectionDomain, device: "OpenDevice") -> None:
        super().__init__(session, made, device)
        self.device = device

    def reg_mr(self, buffer: Any, access: Access = Access.LOCAL_WRITE) -> MR:
        """ibv_reg_mr of a writable buffer (bytearray, mmap, array…), which it keeps.

        Raises CallFailed, TypeError for a buffer that cannot be written, ValueError for an
        empty one.
        """
        view = flat(buffer)
        with self.session.lock:
            return MR(self.session, self.made.reg_buffer(view, int(access)), self, view, access)

    def reg_mr_buffer(self, size: int, access: Access = Access.LOCAL_WRITE) -> MR:
        """Memory of its own, page-aligned, registered; raises CallFailed and ValueError."""
        if size < 1:
            raise ValueError(f"{size} bytes")
        with self.session.lock:
            made = self.made.reg_mr(size, int(access))
            return MR(self.session, made, self, made.memory, access)

    def create_srq(self, max_wr: int, max_sge: int = 1) -> SRQ:
        """ibv_create_srq; raises CallFailed."""
        with self.session.lock:
            made = self.made.create_srq(
                within(max_wr, 32, "max_wr"), within(max_sge, 32, "max_sge")
            )
            return SRQ(self.session, made, self, max_sge)

    def create_ah(self, attributes: AHAttr) -> AH:
        """ibv_create_ah; raises CallFailed."""
        with self.session.lock:
            return AH(self.session, self.made.create_ah(attributes.struct()), self)

    def create_ah_from_wc(self, wc: WorkCompletion, grh: SGE, port: int = 1) -> AH:
        """ibv_create_ah_from_wc: the way back to the sender of a UD message.

        `grh` is where the message was received: its first 40 bytes. Raises CallFailed.
        """
        with self.session.lock:
            made = self.made.create_ah_from_wc(wc.entry(), _grh(grh), port)
            return AH(self.session, made, self)

    def init_ah_from_wc(self, wc: WorkCompletion, grh: SGE, port: int = 1) -> AHAttr:
        """ibv_init_ah_from_wc: the same as attributes; raises CallFailed."""
        found = IbvAhAttr()
        context = self.device.made.handle
        entry = wc.entry()
        with self.session.lock:
            self.session.call(
                "ibv_init_ah_from_wc",
                self.device.name,
                context,
                port,
                byref(entry),
                _grh(grh),
                byref(found),
            )
        return AHAttr.of(found)

    def create_qp(
        self,
        qp_type: QPType,
        send_cq: CQ,
        recv_cq: CQ | None = None,
        *,
        cap: QPCapacity | None = None,
        srq: SRQ | None = None,
        sq_sig_all: bool = False,
    ) -> QP:
        """ibv_create_qp: a queue pair in RESET; raises CallFailed and Mismatch."""
        return QP.create(
            self, qp_type, send_cq, recv_cq or send_cq, cap or QPCapacity(), srq, all_=sq_sig_all
        )

    def check(self, lists: Sequence[Sequence[SGE]], most: int) -> None:
        """Raises Closed, Mismatch and ValueError where work requests cannot use this memory."""
        for elements in lists:
            if len(elements) > most:
                raise ValueError(f"{len(elements)} elements in a work request, at most {most}")
            for each in elements:
                if each.mr.made and each.mr.pd is not self:
                    raise Mismatch(f"{each.mr!r} is of another protection domain")


def _grh(place: SGE) -> int:
    if place.length < GRH_BYTES:
        raise ValueError(f"{place.length} bytes: a GRH has {GRH_BYTES}")
    return place.addr
