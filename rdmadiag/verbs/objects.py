"""The object chain of the manual, 3.7 and 8.1: Device, Context, PD, MR, CQ, QP.

Each object destroys what it made, once; `Objects` holds those of one device and destroys them
in TEARDOWN_ORDER. Every call goes through a `Caller`, which writes it down before and after.
Nothing is retried.
"""

import ctypes
import mmap
import os
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_int, c_void_p
from dataclasses import dataclass
from errno import EAGAIN
from typing import Any, Final, Protocol, TypeVar

from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs.abi import (
    IbvAhAttr,
    IbvAsyncEvent,
    IbvContext,
    IbvQpAttr,
    IbvQpInitAttr,
    IbvRecvWr,
    IbvSendWr,
    IbvSge,
    IbvSrqAttr,
    IbvSrqInitAttr,
    IbvWc,
)
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE
from rdmadiag.verbs.transitions import Attribute, transition

LOCAL_WRITE: Final = 1
"""IBV_ACCESS_LOCAL_WRITE: what a receive buffer needs."""

REMOTE_WRITE: Final = 2
REMOTE_READ: Final = 4
REMOTE_ATOMIC: Final = 8
"""IBV_ACCESS_REMOTE_*: what RDMA by the other end needs."""

WR_SEND: Final = 2
"""IBV_WR_SEND."""

SEND_SIGNALED: Final = 2
"""IBV_SEND_SIGNALED."""

SRQ_LIMIT: Final = 2
"""IBV_SRQ_LIMIT."""

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

    def alloc_pd(self) -> "ProtectionDomain":
        """A protection domain."""
        return ProtectionDomain(self._call, self)

    def create_channel(self) -> "CompletionChannel":
        """Where completion queues say that something has completed."""
        return CompletionChannel(self._call, self)

    def create_cq(
        self, entries: int, channel: "CompletionChannel | None" = None
    ) -> "CompletionQueue":
        """A completion queue of at least `entries`; without a channel it is polled."""
        return CompletionQueue(self._call, self, entries, channel)

    def post_send(self, qp: Any, request: IbvSendWr) -> None:
        """Hand a work request to the send queue; raises CallFailed."""
        _posted("post_send", self._post_send(qp, byref(request), byref(c_void_p())))

    def post_recv(self, qp: Any, request: IbvRecvWr) -> None:
        """Hand a buffer to the receive queue; raises CallFailed."""
        _posted("post_recv", self._post_recv(qp, byref(request), byref(c_void_p())))

    def post_srq_recv(self, srq: Any, request: IbvRecvWr) -> None:
        """Hand a buffer to a shared receive queue; raises CallFailed."""
        _posted("post_srq_recv", self._post_srq_recv(srq, byref(request), byref(c_void_p())))

    def req_notify_cq(self, cq: Any, *, solicited_only: bool) -> None:
        """The next completion, or solicited one, makes an event; raises CallFailed."""
        _posted("req_notify_cq", self._req_notify_cq(cq, int(solicited_only)))

    def async_event(self) -> int | None:
        """ibv_get_async_event, acknowledged: its type, None where there is none."""
        os.set_blocking(self.async_fd, False)
        event = IbvAsyncEvent()
        try:
            self._call("ibv_get_async_event", self.device, self.handle, byref(event))
        except CallFailed as failed:
            if failed.errno == EAGAIN:
                return None
            raise
        self._call("ibv_ack_async_event", self.device, byref(event))
        found: int = event.event_type
        return found

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


def _posted(name: str, result: int) -> None:
    if result:
        raise CallFailed(name, abs(result))


class ProtectionDomain(_Made):
    """ibv_alloc_pd: what memory and queue pairs must share."""

    def __init__(self, call: Caller, context: Context) -> None:
        handle = call("ibv_alloc_pd", context.device, context.handle)
        super().__init__(call, context.device, "ibv_dealloc_pd", handle)
        self.context = context

    def reg_mr(self, size: int, access: int = LOCAL_WRITE) -> "MemoryRegion":
        """Registered memory of `size` bytes, page-aligned."""
        return MemoryRegion(self._call, self, size, access)

    def create_srq(self, depth: int) -> "SharedReceiveQueue":
        """A receive queue for several queue pairs."""
        return SharedReceiveQueue(self._call, self, depth)

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
    """ibv_reg_mr on memory of its own: mmap, as Apple's library refuses the heap."""

    def __init__(self, call: Caller, pd: ProtectionDomain, size: int, access: int) -> None:
        self._memory = mmap.mmap(-1, size)
        # Keeps the mapping where it is for as long as the library knows its address.
        self._pin = (c_char * size).from_buffer(self._memory)
        self.address = ctypes.addressof(self._pin)
        self.size = size
        handle = call("ibv_reg_mr", pd.device, pd.handle, self.address, size, access)
        super().__init__(call, pd.device, "ibv_dereg_mr", handle)
        self.lkey: int = handle.contents.lkey
        self.rkey: int = handle.contents.rkey

    def write(self, offset: int, content: bytes) -> None:
        """Put `content` at `offset`."""
        self._memory[offset : offset + len(content)] = content

    def read(self, offset: int, length: int) -> bytes:
        """What stands at `offset`."""
        return self._memory[offset : offset + length]


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
        """ibv_get_cq_event, acknowledged: whether there was one; raises CallFailed."""
        cq, context = c_void_p(), c_void_p()
        try:
            self._call("ibv_get_cq_event", self.device, self.handle, byref(cq), byref(context))
        except CallFailed as failed:
            if failed.errno == EAGAIN:
                return False
            raise
        self._call("ibv_ack_cq_events", self.device, cq, 1)
        return True


class CompletionQueue(_Made):
    """ibv_create_cq."""

    def __init__(
        self,
        call: Caller,
        context: Context,
        entries: int,
        channel: CompletionChannel | None = None,
    ) -> None:
        told = channel.handle if channel else None
        handle = call("ibv_create_cq", context.device, context.handle, entries, None, told, 0)
        super().__init__(call, context.device, "ibv_destroy_cq", handle)
        self.context = context
        self._entries = (IbvWc * entries)()

    def poll(self) -> tuple[Completion, ...]:
        """What has completed since the last look, perhaps nothing; raises CallFailed."""
        count = self.context.poll_cq(self.handle, self._entries)
        return tuple(
            Completion(
                entry.wr_id,
                entry.status,
                entry.vendor_err,
                entry.wr_id == RECEIVE,  # opcode is not valid where the status is not 0
                entry.byte_len,
                IbvWc.from_buffer_copy(entry),
            )
            for entry in self._entries[:count]
        )

    def notify(self, *, solicited_only: bool = False) -> None:
        """The next completion makes an event on the channel; raises CallFailed."""
        self.context.req_notify_cq(self.handle, solicited_only=solicited_only)

    def resize(self, entries: int) -> None:
        """ibv_resize_cq; raises CallFailed."""
        self._call("ibv_resize_cq", self.device, self.handle, entries)


class SharedReceiveQueue(_Made):
    """ibv_create_srq."""

    def __init__(self, call: Caller, pd: ProtectionDomain, depth: int) -> None:
        wanted = IbvSrqInitAttr()
        wanted.attr.max_wr, wanted.attr.max_sge = depth, 1
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
        wanted = IbvQpInitAttr(send_cq=cq.handle, recv_cq=cq.handle, qp_type=kind.number)
        wanted.sq_sig_all = int(shape.all_signaled)
        wanted.srq = shape.srq.handle if shape.srq else None
        wanted.cap.max_send_wr = depth
        wanted.cap.max_recv_wr = 0 if shape.srq else depth
        wanted.cap.max_send_sge = wanted.cap.max_recv_sge = shape.sge
        wanted.cap.max_inline_data = shape.inline
        handle = call("ibv_create_qp", pd.device, pd.handle, byref(wanted))
        super().__init__(call, pd.device, "ibv_destroy_qp", handle)
        self.kind = kind
        self.context = pd.context
        self.number: int = handle.contents.qp_num

    def modify(self, after: QpState, attributes: IbvQpAttr) -> None:
        """One step of transitions.BRINGUP, with exactly the attributes that it requires."""
        step = transition(self.kind, after)
        attributes.qp_state = after.number
        self._call("ibv_modify_qp", self.device, self.handle, byref(attributes), int(step.required))

    def end(self, after: QpState) -> None:
        """To ERR or RESET, from any state; raises CallFailed."""
        attributes = IbvQpAttr(qp_state=after.number)
        mask = int(Attribute.STATE)
        self._call("ibv_modify_qp", self.device, self.handle, byref(attributes), mask)

    def state(self) -> QpState | None:
        """ibv_query_qp: the state as the kernel has it; None for a number of no table."""
        attributes, initial = IbvQpAttr(), IbvQpInitAttr()
        mask = int(Attribute.STATE)
        self._call(
            "ibv_query_qp", self.device, self.handle, byref(attributes), mask, byref(initial)
        )
        return QpState.from_number(attributes.qp_state)

    def post_send(self, request: "SendRequest") -> None:
        """SEND, signaled; raises CallFailed."""
        self.context.post_send(self.handle, request.request)

    def post_recv(self, request: "ReceiveRequest") -> None:
        """A buffer for one message; raises CallFailed."""
        self.context.post_recv(self.handle, request.request)


TEARDOWN_ORDER: Final[tuple[type[_Made], ...]] = (
    QueuePair,
    SharedReceiveQueue,
    AddressHandle,
    MemoryRegion,
    CompletionQueue,
    CompletionChannel,
    ProtectionDomain,
    Context,
)
"""First to last. Thunderbolt wants memory regions gone before completion queues (llama.cpp's
RDMA transport), and verbs leaves those two free: they do not depend on each other."""

M = TypeVar("M", bound=_Made)


def _turn(made: _Made) -> int:
    return next(at for at, kind in enumerate(TEARDOWN_ORDER) if isinstance(made, kind))


class Objects:
    """What was made on one device, in whatever order."""

    def __init__(self) -> None:
        self._made: list[_Made] = []

    def add(self, made: M) -> M:
        """Hold it until `close`."""
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


class SendRequest:
    """struct ibv_send_wr for one SEND out of a memory region, made once and posted often."""

    def __init__(self, number: int, region: MemoryRegion, offset: int, length: int) -> None:
        self._element = _element(region, offset, length)
        self.request = IbvSendWr(wr_id=number, num_sge=1, opcode=WR_SEND, send_flags=SEND_SIGNALED)
        self.request.sg_list = ctypes.pointer(self._element)

    @property
    def length(self) -> int:
        """Bytes that it sends."""
        found: int = self._element.length
        return found

    @length.setter
    def length(self, length: int) -> None:
        self._element.length = length


class ReceiveRequest:
    """struct ibv_recv_wr into a memory region, made once and posted often."""

    def __init__(self, number: int, region: MemoryRegion, offset: int, length: int) -> None:
        self._element = _element(region, offset, length)
        self.request = IbvRecvWr(wr_id=number, num_sge=1)
        self.request.sg_list = ctypes.pointer(self._element)


def _element(region: MemoryRegion, offset: int, length: int) -> IbvSge:
    if offset < 0 or length < 0 or offset + length > region.size:
        raise ValueError(f"{length} bytes at {offset} of a region of {region.size}")
    return IbvSge(addr=region.address + offset, length=length, lkey=region.lkey)
