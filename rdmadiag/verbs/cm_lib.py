"""The symbols of librdmacm, and both libraries as one; the conventions are rdma_cm(7)'s."""

from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_void_p
from typing import Any, Final

from rdmadiag.verbs.abi import IbvQpInitAttr
from rdmadiag.verbs.cm_abi import (
    RdmaAddrinfo,
    RdmaCmId,
    RdmaConnEvent,
    RdmaConnParam,
    RdmaEventChannel,
)
from rdmadiag.verbs.lib import Failure, Library, Symbol

_ID = POINTER(RdmaCmId)
_CHANNEL = POINTER(RdmaEventChannel)
_EVENT = POINTER(RdmaConnEvent)
_INFO = POINTER(RdmaAddrinfo)

SYMBOLS: Final = {
    "rdma_create_event_channel": Symbol((), _CHANNEL, Failure.NULL),
    "rdma_destroy_event_channel": Symbol((_CHANNEL,), None, Failure.NEVER),
    "rdma_get_cm_event": Symbol((_CHANNEL, POINTER(_EVENT)), c_int, Failure.MINUS_ONE),
    "rdma_ack_cm_event": Symbol((_EVENT,), c_int, Failure.MINUS_ONE),
    "rdma_create_id": Symbol((_CHANNEL, POINTER(_ID), c_void_p, c_int), c_int, Failure.MINUS_ONE),
    "rdma_destroy_id": Symbol((_ID,), c_int, Failure.MINUS_ONE),
    "rdma_bind_addr": Symbol((_ID, c_void_p), c_int, Failure.MINUS_ONE),
    "rdma_listen": Symbol((_ID, c_int), c_int, Failure.MINUS_ONE),
    "rdma_get_src_port": Symbol((_ID,), c_uint16, Failure.NEVER),
    "rdma_getaddrinfo": Symbol(
        (c_char_p, c_char_p, _INFO, POINTER(_INFO)), c_int, Failure.MINUS_ONE
    ),
    "rdma_freeaddrinfo": Symbol((_INFO,), None, Failure.NEVER),
    "rdma_resolve_addr": Symbol((_ID, c_void_p, c_void_p, c_int), c_int, Failure.MINUS_ONE),
    "rdma_resolve_route": Symbol((_ID, c_int), c_int, Failure.MINUS_ONE),
    "rdma_create_qp": Symbol((_ID, c_void_p, POINTER(IbvQpInitAttr)), c_int, Failure.MINUS_ONE),
    "rdma_destroy_qp": Symbol((_ID,), None, Failure.NEVER),
    "rdma_connect": Symbol((_ID, POINTER(RdmaConnParam)), c_int, Failure.MINUS_ONE),
    "rdma_accept": Symbol((_ID, POINTER(RdmaConnParam)), c_int, Failure.MINUS_ONE),
    "rdma_reject": Symbol((_ID, c_void_p, c_uint8), c_int, Failure.MINUS_ONE),
    "rdma_disconnect": Symbol((_ID,), c_int, Failure.MINUS_ONE),
    "rdma_set_option": Symbol((_ID, c_int, c_int, c_void_p, c_size_t), c_int, Failure.MINUS_ONE),
    "rdma_join_multicast": Symbol((_ID, c_void_p, c_void_p), c_int, Failure.MINUS_ONE),
    "rdma_leave_multicast": Symbol((_ID, c_void_p), c_int, Failure.MINUS_ONE),
}
"""Name → what the header declares."""


class Libraries(Library):
    """librdmacm, and the verbs library that it is linked with."""

    def __init__(self, verbs: str, cm: str) -> None:
        """Raises as Library does."""
        super().__init__(verbs)
        self._cm = Library(cm, SYMBOLS)

    def has(self, name: str) -> bool:
        return self._cm.has(name) or super().has(name)

    def call(self, name: str, *arguments: Any) -> Any:
        return (self._cm.call if name in SYMBOLS else super().call)(name, *arguments)
