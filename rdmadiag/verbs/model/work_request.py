"""Work requests, linked into lists, and the structures that the library reads them from."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from socket import htonl
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rdmadiag.verbs.abi import IbvRecvWr, IbvSendWr, IbvSge
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.model.constants import ATOMIC, WITH_IMM, Opcode, SendFlags
from rdmadiag.verbs.model.lifetime import Held
from rdmadiag.verbs.model.memory import SGE
from rdmadiag.verbs.model.numbers import within
from rdmadiag.verbs.objects import AddressHandle

if TYPE_CHECKING:
    from rdmadiag.verbs.model.domain import AH


@dataclass(eq=False, slots=True)
class RecvWR:
    """struct ibv_recv_wr: buffers for one message."""

    sg_list: Sequence[SGE] = ()
    wr_id: int = 0
    next: "RecvWR | None" = None


@dataclass(eq=False, slots=True)
class SendWR:
    """struct ibv_send_wr.

    `signaled`, `inline`, `solicited` and `fence` are flags that gordma has as fields;
    `flags` has the rest, and all of them when it is read by `send_flags`.
    """

    sg_list: Sequence[SGE] = ()
    wr_id: int = 0
    opcode: Opcode = Opcode.SEND
    flags: SendFlags = SendFlags.NONE
    signaled: bool = True
    inline: bool = False
    solicited: bool = False
    fence: bool = False
    imm_data: int | None = None  # in the order of this host
    remote_addr: int = 0  # of WRITE, READ and atomics
    rkey: int = 0
    compare_add: int = 0
    swap: int = 0
    ah: "AH | None" = None  # of UD
    remote_qpn: int = 0
    remote_qkey: int = 0
    remote_srqn: int = 0  # of XRC: XRCSRQ.srq_num of the receive queue
    next: "SendWR | None" = None

    @property
    def send_flags(self) -> SendFlags:
        """enum ibv_send_flags."""
        found = self.flags
        for is_set, flag in (
            (self.signaled, SendFlags.SIGNALED),
            (self.inline, SendFlags.INLINE),
            (self.solicited, SendFlags.SOLICITED),
            (self.fence, SendFlags.FENCE),
        ):
            found |= flag if is_set else SendFlags.NONE
        return found


W = TypeVar("W", RecvWR, SendWR)

LONGEST: Final = 1 << 16
"""Work requests of one list; no queue holds more."""


class PostFailed(CallFailed):
    """A list of which the device took the first `posted`, and not `refused` nor what follows."""

    def __init__(self, call: str, errno: int, posted: int, refused: RecvWR | SendWR) -> None:
        super().__init__(call, errno)
        self.posted = posted
        self.refused = refused


def linked(first: W) -> list[W]:
    """The list that begins with it; raises ValueError for a ring."""
    found: list[W] = []
    seen: set[int] = set()
    at: W | None = first
    while at is not None:
        if id(at) in seen or len(found) == LONGEST:
            raise ValueError(f"the list of work requests has no end: {len(found)} and on")
        seen.add(id(at))
        found.append(at)
        at = at.next
    return found


def link(wrs: Sequence[W]) -> None:
    """Make a list of them, in this order."""
    for one, following in pairwise(wrs):
        one.next = following
    if wrs:
        wrs[-1].next = None


def _elements(wrs: Sequence[RecvWR] | Sequence[SendWR]) -> "ctypes.Array[IbvSge]":
    flat = [sge for wr in wrs for sge in wr.sg_list]
    made = (IbvSge * max(1, len(flat)))()
    for at, sge in enumerate(flat):
        made[at] = IbvSge(sge.addr, sge.length, sge.lkey)
    return made


def _place(
    requests: Any,
    elements: "ctypes.Array[IbvSge]",
    wrs: Sequence[Any],
) -> None:
    """Numbers, elements and links, which both kinds have."""
    before = 0
    for at, wr in enumerate(wrs):
        request = requests[at]
        request.wr_id = within(wr.wr_id, 64, "wr_id")
        request.num_sge = len(wr.sg_list)
        if wr.sg_list:
            request.sg_list = ctypes.pointer(elements[before])
        before += len(wr.sg_list)
        if at + 1 < len(wrs):
            request.next = ctypes.addressof(requests[at + 1])


def receives(wrs: Sequence[RecvWR]) -> "ctypes.Array[IbvRecvWr]":
    """The list as the library reads it, while it is held; raises Closed."""
    made = (IbvRecvWr * len(wrs))()
    _place(made, _elements(wrs), wrs)
    return made


def sends(wrs: Sequence[SendWR]) -> "ctypes.Array[IbvSendWr]":
    """The list as the library reads it, while it is held; raises Closed."""
    made = (IbvSendWr * len(wrs))()
    _place(made, _elements(wrs), wrs)
    for at, wr in enumerate(wrs):
        request = made[at]
        request.opcode = wr.opcode
        request.send_flags = wr.send_flags
        request.qp_type = within(wr.remote_srqn, 24, "remote_srqn")  # a union: xrc.remote_srqn
        if wr.opcode in WITH_IMM:
            request.imm_data = htonl(within(wr.imm_data or 0, 32, "imm_data"))
        if wr.ah:
            ah: Held[AddressHandle] = wr.ah
            request.wr.ud.ah = ah.address
            request.wr.ud.remote_qpn = within(wr.remote_qpn, 24, "remote_qpn")
            request.wr.ud.remote_qkey = within(wr.remote_qkey, 32, "remote_qkey")
            continue
        there = request.wr.atomic if wr.opcode in ATOMIC else request.wr.rdma
        there.remote_addr = within(wr.remote_addr, 64, "remote_addr")
        there.rkey = within(wr.rkey, 32, "rkey")
        if wr.opcode in ATOMIC:
            there.compare_add = within(wr.compare_add, 64, "compare_add")
            there.swap = within(wr.swap, 64, "swap")
    return made


def refused(
    call: str,
    errno: int,
    address: int,
    requests: "ctypes.Array[IbvSendWr] | ctypes.Array[IbvRecvWr]",
    wrs: Sequence[RecvWR] | Sequence[SendWR],
) -> PostFailed:
    """What the library says of a list: the address is of the request that it did not take."""
    size = ctypes.sizeof(requests[0])
    at = (address - ctypes.addressof(requests)) // size
    posted = at if 0 <= at < len(wrs) else 0
    return PostFailed(call, errno, posted, wrs[posted])
