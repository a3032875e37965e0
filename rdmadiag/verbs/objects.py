"""The object chain of the manual, 3.7 and 8.1: Device, Context, PD, MR, CQ, QP.

Each object destroys what it made, once; `Objects` holds those of one device and destroys them
in TEARDOWN_ORDER. Every call goes through a `Caller`, which writes it down before and after.
Nothing is retried.
"""

import ctypes
import mmap
import os
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_int, c_uint32, c_void_p
from errno import EAGAIN
from typing import Any, Final, Protocol, TypeVar

from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import (
    IbvAhAttr,
    IbvAsyncEvent,
    IbvContext,
    IbvGid,
    IbvMwBind,
    IbvMwBindInfo,
    IbvQpAttr,
    IbvQpCap,
    IbvQpInitAttr,
    IbvQpInitAttrEx,
    IbvRecvWr,
    IbvSendWr,
    IbvSrqAttr,
    IbvSrqInitAttr,
    IbvSrqInitAttrEx,
    IbvWc,
    IbvXrcdInitAttr,
)
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE
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

_POST_SEND: Final = CFUNCTYPE(c_int, c_void_p, POINTER(IbvSendWr), POINTER(c_void_p))
_POST_RECV: Final = CFUNCTYPE(c_int, c_void_p, POINTER(IbvRecvWr), POINTER(c_void_p))
_POST_SRQ_RECV: Final = CFUNCTYPE(c_int, c_void_p, POINTER(IbvRecvWr), POINTER(c_void_p))
_REQ_NOTIFY_CQ: Final = CFUNCTYPE(c_int, c_void_p, c_int)
_POLL_CQ: Final = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(IbvWc))


class Caller(Protocol):
    """How a call is made: by name, on behalf of a device; raises CallFailed."""

    def __call__(self, name: str, device: str, *arguments: Any) -> Any: ...


class _Made:
    """An object of the library that is destroyed once, by the call that the manual names."""

    def __init__(self, call: Caller, device: str, destroyer: str, handle: Any) -> None:
        self._call = call
        self.device = device
        self._destroyer = destroyer
        self.handle = handle
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether nobody has tried to destroy it."""
        return self._open

    def close(self) -> None:
        """Destroy it; raises CallFailed, and does not try again."""
        if self._open:
            self._open = False
            self._call(self._destroyer, self.device, self.handle)


class Context(_Made):
    """ibv_open_device: an open device."""

    def __init__(self, call: Caller, device: str, pointer: Any) -> None:
        super().__init__(call, device, "ibv_close_device", call("ibv_open_device", device, pointer))
        self._operate()

    def _operate(self) -> None:
        """The calls that have no symbol, out of the context."""
        self.ops = ctypes.cast(self.handle, POINTER(IbvContext)).contents.ops
        self._post_send = _operation(_POST_SEND, self.ops.post_send)
        self._post_recv = _operation(_POST_RECV, self.ops.post_recv)
        self._poll_cq = _operation(_POLL_CQ, self.ops.poll_cq)
        self._post_srq_recv = _operation(_POST_SRQ_RECV, self.ops.post_srq_recv)
        self._req_notify_cq = _operation(_REQ_NOTIFY_CQ, self.ops.req_notify_cq)
        self.async_fd: int = ctypes.cast(self.handle, POINTER(IbvContext)).contents.async_fd
        self.vectors: int = ctypes.cast(self.handle, POINTER(IbvContext)).contents.num_comp_vectors

    def alloc_pd(self) -> "ProtectionDomain":
        """A protection domain."""
        return ProtectionDomain(self._call, self)

    def open_xrcd(self) -> "XrcDomain":
        """An XRC domain of this process alone."""
        return XrcDomain(self._call, self)

    def create_xrc_receiver(self, xrcd: "XrcDomain") -> "XrcReceiver":
        """The receiving end of an XRC connection, in RESET."""
        return XrcReceiver(self._call, self, xrcd)

    def create_channel(self) -> "CompletionChannel":
        """Where completion queues say that something has completed."""
        return CompletionChannel(self._call, self)

    def create_cq(
        self, entries: int, channel: "CompletionChannel | None" = None, vector: int = 0
    ) -> "CompletionQueue":
        """A completion queue of at least `entries`; without a channel it is polled.

        `vector` is the interrupt of its events, below ibv_context.num_comp_vectors.
        """
        return CompletionQueue(self._call, self, entries, channel, vector)

    def post_send(self, qp: Any, request: IbvSendWr) -> None:
        """Hand a work request to the send queue; raises PostFailed."""
        _post("post_send", self._post_send, qp, request)

    def post_recv(self, qp: Any, request: IbvRecvWr) -> None:
        """Hand a buffer to the receive queue; raises PostFailed."""
        _post("post_recv", self._post_recv, qp, request)

    def post_srq_recv(self, srq: Any, request: IbvRecvWr) -> None:
        """Hand a buffer to a shared receive queue; raises PostFailed."""
        _post("post_srq_recv", self._post_srq_recv, srq, request)

    def req_notify_cq(self, cq: Any, *, solicited_only: bool) -> None:
        """The next completion, or solicited one, makes an event; raises CallFailed."""
        if errno := self._req_notify_cq(cq, int(solicited_only)):
            raise CallFailed("req_notify_cq", abs(errno))

    def async_event(self) -> int | None:
        """The type of the next asynchronous event, None where there is none."""
        found = self.async_event_of()
        return found[0] if found else None

    def async_event_of(self) -> tuple[int, int] | None:
        """ibv_get_async_event, acknowledged: its type, and the address or port that it is of."""
        os.set_blocking(self.async_fd, False)
        event = IbvAsyncEvent()
        try:
            self._call("ibv_get_async_event", self.device, self.handle, byref(event))
        except CallFailed as failed:
            if failed.errno == EAGAIN:
                return None
            raise
        self._call("ibv_ack_async_event", self.device, byref(event))
        return event.event_type, event.element or 0

    def poll_cq(self, cq: Any, entries: "ctypes.Array[IbvWc]") -> int:
        """How many completions were put into `entries`; raises CallFailed."""
        count: int = self._poll_cq(cq, len(entries), entries)
        if count < 0:
            raise CallFailed("poll_cq", -count)
        return count


def _operation(kind: Any, pointer: int | None) -> Callable[..., int]:
    """A call that has no symbol: libibverbs makes it an inline jump through the context."""
    if not pointer:

        def missing(*_: Any) -> int:
            raise CallFailed("ibv_context_ops", 0)

        return missing
    made: Callable[..., int] = kind(pointer)
    return made


class PostFailed(CallFailed):
    """A list of work requests that was refused from the one at `refused`, an address, on."""

    def __init__(self, call: str, errno: int, refused: int) -> None:
        super().__init__(call, errno)
        self.refused = refused


def _post(name: str, call: Callable[..., int], queue: Any, request: IbvSendWr | IbvRecvWr) -> None:
    refused = c_void_p()
    if errno := call(queue, byref(request), byref(refused)):
        raise PostFailed(name, abs(errno), refused.value or 0)


class ProtectionDomain(_Made):
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

    def create_xrc_srq(self, xrcd: "XrcDomain", cq: "CompletionQueue", depth: int) -> "XrcQueue":
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
        cq: "CompletionQueue",
        kind: QpType,
        depth: int,
        shape: "Shape | None" = None,
    ) -> "QueuePair":
        """A queue pair in RESET, with one completion queue for both of its queues."""
        return QueuePair(self._call, self, cq, kind, depth, shape or Shape())


class MemoryRegion(_Made):
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


@dataclass(frozen=True, slots=True)
class Completion:
    """One entry of a completion queue: struct ibv_wc."""

    work_request: int  # wr_id
    status: int
    vendor_error: int
    is_receive: bool
    byte_length: int
    entry: IbvWc  # a copy, for what a UD or immediate receiver needs


class CompletionChannel(_Made):
    """ibv_create_comp_channel; its descriptor does not block."""

    def __init__(self, call: Caller, context: Context) -> None:
        handle = call("ibv_create_comp_channel", context.device, context.handle)
        super().__init__(call, context.device, "ibv_destroy_comp_channel", handle)
        self.fd: int = handle.contents.fd
        os.set_blocking(self.fd, False)

    def event(self) -> bool:
        """Take an event and acknowledge it: whether there was one; raises CallFailed."""
        cq = self.take()
        if cq is None:
            return False
        self._call("ibv_ack_cq_events", self.device, cq, 1)
        return True

    def take(self) -> int | None:
        """ibv_get_cq_event: the address of the queue that it is of, None where there is none.

        The queue cannot be destroyed before the event is acknowledged. Raises CallFailed.
        """
        cq, context = c_void_p(), c_void_p()
        try:
            self._call("ibv_get_cq_event", self.device, self.handle, byref(cq), byref(context))
        except CallFailed as failed:
            if failed.errno == EAGAIN:
                return None
            raise
        return cq.value


class CompletionQueue(_Made):
    """ibv_create_cq."""

    def __init__(
        self,
        call: Caller,
        context: Context,
        entries: int,
        channel: CompletionChannel | None = None,
        vector: int = 0,
    ) -> None:
        notified = channel.handle if channel else None
        handle = call(
            "ibv_create_cq", context.device, context.handle, entries, None, notified, vector
        )
        super().__init__(call, context.device, "ibv_destroy_cq", handle)
        self.context = context
        self._entries = (IbvWc * entries)()

    def poll(self) -> tuple[Completion, ...]:
        """What has completed since the last look, perhaps nothing; raises CallFailed."""
        return tuple(
            Completion(
                entry.wr_id,
                entry.status,
                entry.vendor_err,
                entry.wr_id == RECEIVE,  # opcode is not valid where the status is not 0
                entry.byte_len,
                IbvWc.from_buffer_copy(entry),
            )
            for entry in self.take()
        )

    def take(self, limit: int | None = None) -> list[IbvWc]:
        """As `poll`, at most `limit`: the entries as they are until the next look."""
        whole = limit is None or limit >= len(self._entries)
        entries = self._entries if whole else (IbvWc * max(0, limit or 0))()
        return entries[: self.context.poll_cq(self.handle, entries)]

    def notify(self, *, solicited_only: bool = False) -> None:
        """The next completion makes an event on the channel; raises CallFailed."""
        self.context.req_notify_cq(self.handle, solicited_only=solicited_only)

    def ack(self, events: int) -> None:
        """ibv_ack_cq_events: so many that were taken from its channel."""
        self._call("ibv_ack_cq_events", self.device, self.handle, events)

    def resize(self, entries: int) -> None:
        """ibv_resize_cq; raises CallFailed."""
        self._call("ibv_resize_cq", self.device, self.handle, entries)


class SharedReceiveQueue(_Made):
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


class XrcDomain(_Made):
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
        _Made.__init__(self, call, pd.device, "ibv_destroy_srq", handle)
        self._context = context

    def number(self) -> int:
        """ibv_get_srq_num: what a sender writes into its work requests; raises CallFailed."""
        number = c_uint32()
        self._call("ibv_get_srq_num", self.device, self.handle, byref(number))
        return number.value


class MemoryWindow(_Made):
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


class AddressHandle(_Made):
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


class QueuePair(_Made):
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
        _Made.__init__(self, call, context.device, "ibv_destroy_qp", handle)
        self.kind = kind
        self.context = context
        self.number = handle.contents.qp_num


class GroupMember(_Made):
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


class FlowRule(_Made):
    """ibv_create_flow: frames that this rule steers to a queue pair."""

    def __init__(self, call: Caller, qp: QueuePair, rule: Steering) -> None:
        handle = call("ibv_create_flow", qp.device, qp.handle, rule.attributes)
        super().__init__(call, qp.device, "ibv_destroy_flow", handle)


TEARDOWN_ORDER: Final[tuple[type[_Made], ...]] = (
    FlowRule,
    GroupMember,
    MemoryWindow,
    QueuePair,
    SharedReceiveQueue,
    AddressHandle,
    MemoryRegion,
    CompletionQueue,
    CompletionChannel,
    ProtectionDomain,
    XrcDomain,
    Context,
)
"""First to last. Thunderbolt wants memory regions gone before completion queues (llama.cpp's
RDMA transport), and verbs leaves those two free: they do not depend on each other."""

M = TypeVar("M", bound=_Made)


class Objects:
    """What was made on one device, in whatever order."""

    def __init__(self) -> None:
        self._made: list[_Made] = []

    def add(self, made: M) -> M:
        """Keeps an object, which `close` destroys; the last one first."""
        self._made.append(made)
        return made

    def close(self) -> None:
        """Destroy everything in TEARDOWN_ORDER, of one kind the newest first.

        What refuses does not keep the rest; raises the first CallFailed.
        """
        refused: CallFailed | None = None
        newest_first = reversed(self._made)
        for made in sorted(newest_first, key=_turn):
            try:
                made.close()
            except CallFailed as failed:
                refused = refused or failed
        if refused:
            raise refused


def _turn(made: _Made) -> int:
    return next(at for at, kind in enumerate(TEARDOWN_ORDER) if isinstance(made, kind))
