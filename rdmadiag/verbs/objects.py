"""The object chain of the manual, 3.7 and 8.1: Device, Context, PD, MR, CQ, QP.

Each object destroys what it made, once; `teardown.Objects` holds those of one device and destroys
them in TEARDOWN_ORDER. Every call goes through a `Caller`, which writes it down before and after.
Nothing is retried.
"""

import ctypes
import mmap
import os
from ctypes import byref, c_char, c_uint32, c_void_p
from typing import Any, Final, Protocol

from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import (
    IbvAhAttr,
    IbvGid,
    IbvMwBind,
    IbvMwBindInfo,
    IbvQpAttr,
    IbvQpCap,
    IbvQpInitAttr,
    IbvQpInitAttrEx,
    IbvRecvWr,
    IbvSrqAttr,
    IbvSrqInitAttr,
    IbvSrqInitAttrEx,
    IbvWc,
    IbvXrcdInitAttr,
)
from rdmadiag.verbs.completion import CompletionChannel, CompletionQueue
from rdmadiag.verbs.made import Caller, Made
from rdmadiag.verbs.open_context import OpenContext
from rdmadiag.verbs.requests import SEND_SIGNALED, ReceiveRequest, SendRequest
from rdmadiag.verbs.transitions import Attribute, transition

LOCAL_WRITE: Final = 1
"""IBV_ACCESS_LOCAL_WRITE: what a receive buffer needs."""

REMOTE_WRITE: Final = 2
REMOTE_READ: Final = 4
REMOTE_ATOMIC: Final = 8
"""IBV_ACCESS_REMOTE_*: what RDMA by the other end needs."""

MW_BIND: Final = 16
"""IBV_ACCESS_MW_BIND: what a region needs that windows are bound to."""

SRQ_MAX_WR: Final = 1
SRQ_LIMIT: Final = 2
"""enum ibv_srq_attr_mask."""


class Context(OpenContext):
    """ibv_open_device: an open device."""

    def __init__(self, call: Caller, device: str, pointer: Any) -> None:
        super().__init__(call, device, "ibv_close_device", call("ibv_open_device", device, pointer))
        self._operate()

    def alloc_pd(self) -> "ProtectionDomain":
        """A protection domain."""
        return ProtectionDomain(self._call, self)

    def open_xrcd(self) -> "XrcDomain":
        """An XRC domain of this process alone."""
        return XrcDomain(self._call, self)

    def create_xrc_receiver(self, xrcd: "XrcDomain") -> "XrcReceiver":
        """The receiving end of an XRC connection, in RESET."""
        return XrcReceiver(self._call, self, xrcd)

    def create_channel(self) -> CompletionChannel:
        """Where completion queues say that something has completed."""
        return CompletionChannel(self._call, self)

    def create_cq(
        self, entries: int, channel: CompletionChannel | None = None, vector: int = 0
    ) -> CompletionQueue:
        """A completion queue of at least `entries`; without a channel it is polled.

        `vector` is the interrupt of its events, below ibv_context.num_comp_vectors.
        """
        return CompletionQueue(self._call, self, entries, channel, vector)


class ProtectionDomain(Made):
    """ibv_alloc_pd: what memory and queue pairs must share."""

    def __init__(self, call: Caller, context: Context) -> None:
        handle = call("ibv_alloc_pd", context.device, context.handle)
        super().__init__(call, context.device, "ibv_dealloc_pd", handle)
        self.context = context

    def reg_mr(self, size: int, access: int = LOCAL_WRITE) -> "MemoryRegion":
        """Registered memory of `size` bytes, page-aligned."""
        return MemoryRegion(self._call, self, size, access)

    def reg_buffer(self, buffer: memoryview, access: int) -> "MemoryRegion":
        """Somebody's writable buffer, which cannot be resized or closed as long as it is held."""
        return MemoryRegion(self._call, self, buffer.nbytes, access, buffer)

    def create_srq(self, depth: int, sge: int = 1) -> "SharedReceiveQueue":
        """A receive queue for several queue pairs."""
        return SharedReceiveQueue(self._call, self, depth, sge)

    def create_xrc_srq(self, xrcd: "XrcDomain", cq: CompletionQueue, depth: int) -> "XrcQueue":
        """A receive queue that senders of an XRC domain name by its number."""
        return XrcQueue(self._call, self, xrcd, cq, depth)

    def alloc_mw(self, kind: int) -> "MemoryWindow":
        """A memory window of type 1 or 2, bound to nothing."""
        return MemoryWindow(self._call, self, kind)

    def create_ah(self, attributes: IbvAhAttr) -> "AddressHandle":
        """The way to a peer, for UD."""
        arguments = ("ibv_create_ah", self.device, self.handle, byref(attributes))
        return AddressHandle(self._call, self, arguments)

    def create_ah_from_wc(self, entry: IbvWc, grh: int, port: int) -> "AddressHandle":
        """The way back to whom a UD message came from; `grh` is the address of its 40 bytes."""
        arguments = ("ibv_create_ah_from_wc", self.device, self.handle, byref(entry), grh, port)
        return AddressHandle(self._call, self, arguments)

    def create_qp(
        self,
        cq: CompletionQueue,
        kind: QpType,
        depth: int,
        shape: "Shape | None" = None,
    ) -> "QueuePair":
        """A queue pair in RESET, with one completion queue for both of its queues."""
        return QueuePair(self._call, self, cq, kind, depth, shape or Shape())


class MemoryRegion(Made):
    """ibv_reg_mr, by default on memory of its own: mmap, as Apple's library refuses the heap."""

    def __init__(
        self,
        call: Caller,
        pd: ProtectionDomain,
        size: int,
        access: int,
        memory: memoryview | None = None,
    ) -> None:
        self.memory = memoryview(mmap.mmap(-1, size)) if memory is None else memory
        # Keeps the mapping where it is for as long as the library knows its address.
        self._pin = (c_char * size).from_buffer(self.memory)
        self.address = ctypes.addressof(self._pin)
        self.size = size
        handle = call("ibv_reg_mr", pd.device, pd.handle, self.address, size, access)
        super().__init__(call, pd.device, "ibv_dereg_mr", handle)
        self.lkey: int = handle.contents.lkey
        self.rkey: int = handle.contents.rkey

    def write(self, offset: int, content: bytes) -> None:
        """Put `content` at `offset`."""
        self.memory[offset : offset + len(content)] = content

    def read(self, offset: int, length: int) -> bytes:
        """What stands at `offset`."""
        return bytes(self.memory[offset : offset + length])


class SharedReceiveQueue(Made):
    """ibv_create_srq."""

    def __init__(self, call: Caller, pd: ProtectionDomain, depth: int, sge: int = 1) -> None:
        wanted = IbvSrqInitAttr()
        wanted.attr.max_wr, wanted.attr.max_sge = depth, sge
        handle = call("ibv_create_srq", pd.device, pd.handle, byref(wanted))
        super().__init__(call, pd.device, "ibv_destroy_srq", handle)
        self._context = pd.context

    def post_recv(self, request: IbvRecvWr) -> None:
        """A buffer for one message; raises CallFailed."""
        self._context.post_srq_recv(self.handle, request)

    def limit(self, requests: int) -> None:
        """ibv_modify_srq: an event when fewer are left; raises CallFailed."""
        attributes = IbvSrqAttr(srq_limit=requests)
        self._call("ibv_modify_srq", self.device, self.handle, byref(attributes), SRQ_LIMIT)

    def resize(self, requests: int) -> None:
        """ibv_modify_srq: room for so many, where the device can; raises CallFailed."""
        attributes = IbvSrqAttr(max_wr=requests)
        self._call("ibv_modify_srq", self.device, self.handle, byref(attributes), SRQ_MAX_WR)

    def query(self) -> IbvSrqAttr:
        """ibv_query_srq; raises CallFailed."""
        found = IbvSrqAttr()
        self._call("ibv_query_srq", self.device, self.handle, byref(found))
        return found


class XrcDomain(Made):
    """ibv_open_xrcd, without a file: nobody else can open it."""

    def __init__(self, call: Caller, context: Context) -> None:
        wanted = IbvXrcdInitAttr(comp_mask=_XRCD_FD | _XRCD_OFLAGS, fd=-1, oflags=os.O_CREAT)
        handle = call("ibv_open_xrcd", context.device, context.handle, byref(wanted))
        super().__init__(call, context.device, "ibv_close_xrcd", handle)


_XRCD_FD, _XRCD_OFLAGS = 1, 2  # enum ibv_xrcd_init_attr_mask
_SRQ_OF_XRC: Final = 1  # IBV_SRQT_XRC
_SRQ_ATTRIBUTES: Final = 0b1111  # enum ibv_srq_init_attr_mask: type, PD, XRC domain and CQ
_QP_XRCD: Final = 2  # IBV_QP_INIT_ATTR_XRCD


class XrcQueue(SharedReceiveQueue):
    """ibv_create_srq_ex of type XRC; its completions come to the queue `cq`."""

    def __init__(
        self, call: Caller, pd: ProtectionDomain, xrcd: XrcDomain, cq: CompletionQueue, depth: int
    ) -> None:
        context = pd.context
        wanted = IbvSrqInitAttrEx(
            attr=IbvSrqAttr(max_wr=depth, max_sge=1),
            comp_mask=_SRQ_ATTRIBUTES,
            srq_type=_SRQ_OF_XRC,
            pd=pd.handle,
            xrcd=xrcd.handle,
            cq=cq.handle,
        )
        handle = call("ibv_create_srq_ex", pd.device, context.handle, byref(wanted))
        Made.__init__(self, call, pd.device, "ibv_destroy_srq", handle)
        self._context = context

    def number(self) -> int:
        """ibv_get_srq_num: what a sender writes into its work requests; raises CallFailed."""
        number = c_uint32()
        self._call("ibv_get_srq_num", self.device, self.handle, byref(number))
        return number.value


class MemoryWindow(Made):
    """ibv_alloc_mw."""

    def __init__(self, call: Caller, pd: ProtectionDomain, kind: int) -> None:
        handle = call("ibv_alloc_mw", pd.device, pd.handle, kind)
        super().__init__(call, pd.device, "ibv_dealloc_mw", handle)
        self.kind = kind

    @property
    def rkey(self) -> int:
        """Of what it is bound to."""
        found: int = self.handle.contents.rkey
        return found

    @rkey.setter
    def rkey(self, rkey: int) -> None:
        """The application's to keep, of type 2: ibv_alloc_mw(3)."""
        self.handle.contents.rkey = rkey

    def next_rkey(self) -> int:
        """ibv_inc_rkey: the next key of this window."""
        return self.rkey & ~0xFF | (self.rkey + 1) & 0xFF

    def bind(
        self, qp: "QueuePair", number: int, region: MemoryRegion, offset: int, length: int
    ) -> None:
        """ibv_bind_mw, for type 1: a work request of `qp`; a length of 0 unbinds it."""
        info = window_of(region, offset, length)
        wanted = IbvMwBind(wr_id=number, send_flags=SEND_SIGNALED, bind_info=info)
        self._call("ibv_bind_mw", self.device, qp.handle, self.handle, byref(wanted))


def window_of(region: MemoryRegion, offset: int, length: int) -> IbvMwBindInfo:
    """Part of a region that may be written to from far."""
    return IbvMwBindInfo(
        mr=ctypes.cast(region.handle, c_void_p).value,
        addr=region.address + offset,
        length=length,
        mw_access_flags=REMOTE_WRITE,
    )


class AddressHandle(Made):
    """ibv_create_ah."""

    def __init__(self, call: Caller, pd: ProtectionDomain, arguments: tuple[Any, ...]) -> None:
        super().__init__(call, pd.device, "ibv_destroy_ah", call(*arguments))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a queue pair can hold."""

    sge: int = 1  # buffers of a work request
    inline: int = 0  # bytes
    all_signaled: bool = True
    srq: SharedReceiveQueue | None = None
    receive_cq: CompletionQueue | None = None  # None: one for both queues
    receive_depth: int | None = None  # None: as many as sends
    receive_sge: int | None = None  # None: as many as of a send


def initial(cq: CompletionQueue, kind: QpType, depth: int, shape: Shape) -> IbvQpInitAttr:
    """What a queue pair of that shape is created with; `depth` is of the send queue."""
    receives = shape.receive_cq or cq
    wanted = IbvQpInitAttr(send_cq=cq.handle, recv_cq=receives.handle, qp_type=kind.number)
    wanted.sq_sig_all = int(shape.all_signaled)
    wanted.srq = shape.srq.handle if shape.srq else None
    wanted.cap.max_send_wr = depth
    receive_depth = depth if shape.receive_depth is None else shape.receive_depth
    wanted.cap.max_recv_wr = 0 if shape.srq else receive_depth
    wanted.cap.max_send_sge = shape.sge
    wanted.cap.max_recv_sge = shape.sge if shape.receive_sge is None else shape.receive_sge
    wanted.cap.max_inline_data = shape.inline
    return wanted


class QueuePair(Made):
    """ibv_create_qp, and the steps that make it usable."""

    def __init__(
        self,
        call: Caller,
        pd: ProtectionDomain,
        cq: CompletionQueue,
        kind: QpType,
        depth: int,
        shape: Shape,
    ) -> None:
        wanted = initial(cq, kind, depth, shape)
        handle = call("ibv_create_qp", pd.device, pd.handle, byref(wanted))
        super().__init__(call, pd.device, "ibv_destroy_qp", handle)
        self.kind = kind
        self.context = pd.context
        self.number: int = handle.contents.qp_num
        self.granted: IbvQpCap = wanted.cap  # the library writes what there is

    def modify(self, after: QpState, attributes: IbvQpAttr) -> None:
        """One step of transitions.BRINGUP, with exactly the attributes that it requires."""
        step = transition(self.kind, after)
        attributes.qp_state = after.number
        self._call("ibv_modify_qp", self.device, self.handle, byref(attributes), int(step.required))

    def modify_by(self, attributes: IbvQpAttr, mask: Attribute) -> None:
        """ibv_modify_qp with these; raises CallFailed."""
        self._call("ibv_modify_qp", self.device, self.handle, byref(attributes), int(mask))

    def query(self, mask: Attribute) -> tuple[IbvQpAttr, IbvQpInitAttr]:
        """ibv_query_qp; raises CallFailed."""
        attributes, initial = IbvQpAttr(), IbvQpInitAttr()
        self._call(
            "ibv_query_qp", self.device, self.handle, byref(attributes), int(mask), byref(initial)
        )
        return attributes, initial

    def end(self, after: QpState) -> None:
        """To ERR or RESET, from any state; raises CallFailed."""
        attributes = IbvQpAttr(qp_state=after.number)
        mask = int(Attribute.STATE)
        self._call("ibv_modify_qp", self.device, self.handle, byref(attributes), mask)

    def state(self) -> QpState | None:
        """ibv_query_qp: the state as the kernel has it; None for a number of no table."""
        attributes, _ = self.query(Attribute.STATE)
        return QpState.from_number(attributes.qp_state)

    def post_send(self, request: SendRequest) -> None:
        """SEND, signaled; raises CallFailed."""
        self.context.post_send(self.handle, request.request)

    def post_recv(self, request: ReceiveRequest) -> None:
        """A buffer for one message; raises CallFailed."""
        self.context.post_recv(self.handle, request.request)


class XrcReceiver(QueuePair):
    """ibv_create_qp_ex of type XRC_RECV: it has no queues, XrcQueue has what arrives."""

    def __init__(self, call: Caller, context: Context, xrcd: XrcDomain) -> None:
        kind = QpType.XRC_RECV
        wanted = IbvQpInitAttrEx(qp_type=kind.number, comp_mask=_QP_XRCD, xrcd=xrcd.handle)
        handle = call("ibv_create_qp_ex", context.device, context.handle, byref(wanted))
        Made.__init__(self, call, context.device, "ibv_destroy_qp", handle)
        self.kind = kind
        self.context = context
        self.number = handle.contents.qp_num


class GroupMember(Made):
    """ibv_attach_mcast: a UD queue pair that gets what is sent to a multicast group."""

    def __init__(self, call: Caller, qp: QueuePair, group: bytes) -> None:
        self._group = IbvGid(*group)
        super().__init__(call, qp.device, "ibv_detach_mcast", qp.handle)
        self._open = False
        call("ibv_attach_mcast", qp.device, qp.handle, byref(self._group), 0)
        self._open = True

    def close(self) -> None:
        """ibv_detach_mcast; raises CallFailed."""
        if self._open:
            self._open = False
            self._call(self._destroyer, self.device, self.handle, byref(self._group), 0)


class Steering(Protocol):
    """Which frames: a pointer to struct ibv_flow_attr with its specs behind it."""

    attributes: Any


class FlowRule(Made):
    """ibv_create_flow: frames that this rule steers to a queue pair."""

    def __init__(self, call: Caller, qp: QueuePair, rule: Steering) -> None:
        handle = call("ibv_create_flow", qp.device, qp.handle, rule.attributes)
        super().__init__(call, qp.device, "ibv_destroy_flow", handle)
