"""What an open device does by calls that have no symbol, and its asynchronous events.

libibverbs makes those calls inline jumps through the context: infiniband/verbs.h.
"""

import ctypes
import os
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_void_p
from errno import EAGAIN
from typing import Any, Final

from rdmadiag.verbs.abi import IbvAsyncEvent, IbvContext, IbvRecvWr, IbvSendWr, IbvWc
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.made import Made

_POST_SEND: Final = CFUNCTYPE(c_int, c_void_p, POINTER(IbvSendWr), POINTER(c_void_p))
_POST_RECV: Final = CFUNCTYPE(c_int, c_void_p, POINTER(IbvRecvWr), POINTER(c_void_p))
_POST_SRQ_RECV: Final = CFUNCTYPE(c_int, c_void_p, POINTER(IbvRecvWr), POINTER(c_void_p))
_REQ_NOTIFY_CQ: Final = CFUNCTYPE(c_int, c_void_p, c_int)
_POLL_CQ: Final = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(IbvWc))


class OpenContext(Made):
    """struct ibv_context of a device, however it was opened."""

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
