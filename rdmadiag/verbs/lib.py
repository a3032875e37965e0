"""The symbols of the verbs library: arguments, result, and how each one says that it failed."""

import ctypes
from collections.abc import Callable, Mapping
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_size_t,
    c_ssize_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_void_p,
)
from enum import Enum
from errno import EOPNOTSUPP
from typing import Any, Final

from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import (
    IbvAhAttr,
    IbvAsyncEvent,
    IbvCompChannel,
    IbvDevice,
    IbvDeviceAttr,
    IbvFlow,
    IbvFlowAttr,
    IbvGid,
    IbvGidEntry,
    IbvMr,
    IbvMw,
    IbvMwBind,
    IbvQp,
    IbvQpAttr,
    IbvQpInitAttr,
    IbvQpInitAttrEx,
    IbvSrqAttr,
    IbvSrqInitAttr,
    IbvSrqInitAttrEx,
    IbvWc,
    IbvXrcdInitAttr,
)
from rdmadiag.verbs.context_calls import in_ops, in_verbs_context


class Failure(Enum):
    """The error conventions of verbs(7)."""

    NULL = "a null pointer, and errno"
    POSITIVE = "the errno itself"
    MINUS_ONE = "-1, and errno"
    NEGATIVE = "the negative errno; else a count"
    NEVER = "none"


@dataclass(frozen=True, slots=True)
class Symbol:
    """One exported function."""

    arguments: tuple[Any, ...]
    result: Any
    failure: Failure
    optional: bool = False  # not needed for looking, or newer than IBVERBS_1.1


_DEVICES = POINTER(POINTER(IbvDevice))

SYMBOLS: Final = {
    "ibv_get_device_list": Symbol((POINTER(c_int),), _DEVICES, Failure.NULL),
    "ibv_free_device_list": Symbol((_DEVICES,), None, Failure.NEVER),
    "ibv_get_device_name": Symbol((POINTER(IbvDevice),), c_char_p, Failure.NEVER),
    "ibv_open_device": Symbol((POINTER(IbvDevice),), c_void_p, Failure.NULL),
    "ibv_close_device": Symbol((c_void_p,), c_int, Failure.MINUS_ONE),
    "ibv_query_device": Symbol((c_void_p, POINTER(IbvDeviceAttr)), c_int, Failure.POSITIVE),
    "ibv_query_port": Symbol((c_void_p, c_uint8, c_void_p), c_int, Failure.POSITIVE),
    "ibv_query_gid": Symbol((c_void_p, c_uint8, c_int, POINTER(IbvGid)), c_int, Failure.MINUS_ONE),
    "ibv_query_pkey": Symbol(
        (c_void_p, c_uint8, c_int, POINTER(c_uint16)), c_int, Failure.MINUS_ONE, optional=True
    ),
    "ibv_fork_init": Symbol((), c_int, Failure.POSITIVE, optional=True),
    "ibv_event_type_str": Symbol((c_int,), c_char_p, Failure.NULL, optional=True),
    "ibv_alloc_pd": Symbol((c_void_p,), c_void_p, Failure.NULL, optional=True),
    "ibv_dealloc_pd": Symbol((c_void_p,), c_int, Failure.POSITIVE, optional=True),
    "ibv_reg_mr": Symbol(
        (c_void_p, c_void_p, c_size_t, c_int), POINTER(IbvMr), Failure.NULL, optional=True
    ),
    "ibv_dereg_mr": Symbol((POINTER(IbvMr),), c_int, Failure.POSITIVE, optional=True),
    "ibv_create_cq": Symbol(
        (c_void_p, c_int, c_void_p, c_void_p, c_int), c_void_p, Failure.NULL, optional=True
    ),
    "ibv_destroy_cq": Symbol((c_void_p,), c_int, Failure.POSITIVE, optional=True),
    "ibv_create_qp": Symbol(
        (c_void_p, POINTER(IbvQpInitAttr)), POINTER(IbvQp), Failure.NULL, optional=True
    ),
    "ibv_modify_qp": Symbol(
        (POINTER(IbvQp), POINTER(IbvQpAttr), c_int), c_int, Failure.POSITIVE, optional=True
    ),
    "ibv_query_qp": Symbol(
        (POINTER(IbvQp), POINTER(IbvQpAttr), c_int, POINTER(IbvQpInitAttr)),
        c_int,
        Failure.POSITIVE,
        optional=True,
    ),
    "ibv_destroy_qp": Symbol((POINTER(IbvQp),), c_int, Failure.POSITIVE, optional=True),
    "ibv_create_ah": Symbol((c_void_p, POINTER(IbvAhAttr)), c_void_p, Failure.NULL, optional=True),
    "ibv_create_ah_from_wc": Symbol(
        (c_void_p, POINTER(IbvWc), c_void_p, c_uint8), c_void_p, Failure.NULL, optional=True
    ),
    "ibv_init_ah_from_wc": Symbol(
        (c_void_p, c_uint8, POINTER(IbvWc), c_void_p, POINTER(IbvAhAttr)),
        c_int,
        Failure.POSITIVE,
        optional=True,
    ),
    "ibv_destroy_ah": Symbol((c_void_p,), c_int, Failure.POSITIVE, optional=True),
    "ibv_create_comp_channel": Symbol(
        (c_void_p,), POINTER(IbvCompChannel), Failure.NULL, optional=True
    ),
    "ibv_destroy_comp_channel": Symbol(
        (POINTER(IbvCompChannel),), c_int, Failure.POSITIVE, optional=True
    ),
    "ibv_get_cq_event": Symbol(
        (POINTER(IbvCompChannel), POINTER(c_void_p), POINTER(c_void_p)),
        c_int,
        Failure.MINUS_ONE,
        optional=True,
    ),
    "ibv_ack_cq_events": Symbol((c_void_p, c_uint32), None, Failure.NEVER, optional=True),
    "ibv_resize_cq": Symbol((c_void_p, c_int), c_int, Failure.POSITIVE, optional=True),
    "ibv_create_srq": Symbol(
        (c_void_p, POINTER(IbvSrqInitAttr)), c_void_p, Failure.NULL, optional=True
    ),
    "ibv_modify_srq": Symbol(
        (c_void_p, POINTER(IbvSrqAttr), c_int), c_int, Failure.POSITIVE, optional=True
    ),
    "ibv_query_srq": Symbol(
        (c_void_p, POINTER(IbvSrqAttr)), c_int, Failure.POSITIVE, optional=True
    ),
    "ibv_destroy_srq": Symbol((c_void_p,), c_int, Failure.POSITIVE, optional=True),
    "ibv_get_async_event": Symbol(
        (c_void_p, POINTER(IbvAsyncEvent)), c_int, Failure.MINUS_ONE, optional=True
    ),
    "ibv_ack_async_event": Symbol((POINTER(IbvAsyncEvent),), None, Failure.NEVER, optional=True),
    "ibv_attach_mcast": Symbol(
        (POINTER(IbvQp), POINTER(IbvGid), c_uint16), c_int, Failure.POSITIVE, optional=True
    ),
    "ibv_detach_mcast": Symbol(
        (POINTER(IbvQp), POINTER(IbvGid), c_uint16), c_int, Failure.POSITIVE, optional=True
    ),
    "_ibv_query_gid_table": Symbol(
        (c_void_p, POINTER(IbvGidEntry), c_size_t, c_uint32, c_size_t),
        c_ssize_t,
        Failure.NEGATIVE,
        optional=True,
    ),
}
"""Name → what the header declares."""


@dataclass(frozen=True, slots=True)
class Inline:
    """A function of infiniband/verbs.h that calls one of the context of its first argument."""

    find: Callable[[int, str], int]
    member: str
    symbol: Symbol
    context_at: int | None = 0  # in what the argument points to; None: it is the context


def _of_ops(member: str, *given: Any) -> Inline:
    return Inline(in_ops, member, Symbol(*given))


def _of_context(member: str, arguments: tuple[Any, ...], result: Any, failure: Failure) -> Inline:
    return Inline(in_verbs_context, member, Symbol(arguments, result, failure), None)


def _of_object(member: str, arguments: tuple[Any, ...], result: Any, failure: Failure) -> Inline:
    return Inline(in_verbs_context, member, Symbol(arguments, result, failure))


INLINE: Final = {
    "ibv_alloc_mw": _of_ops("alloc_mw", (c_void_p, c_int), POINTER(IbvMw), Failure.NULL),
    "ibv_bind_mw": _of_ops(
        "bind_mw",
        (POINTER(IbvQp), POINTER(IbvMw), POINTER(IbvMwBind)),
        c_int,
        Failure.POSITIVE,
    ),
    "ibv_dealloc_mw": _of_ops("dealloc_mw", (POINTER(IbvMw),), c_int, Failure.POSITIVE),
    "ibv_open_xrcd": _of_context(
        "open_xrcd", (c_void_p, POINTER(IbvXrcdInitAttr)), c_void_p, Failure.NULL
    ),
    "ibv_close_xrcd": _of_object("close_xrcd", (c_void_p,), c_int, Failure.POSITIVE),
    "ibv_create_srq_ex": _of_context(
        "create_srq_ex", (c_void_p, POINTER(IbvSrqInitAttrEx)), c_void_p, Failure.NULL
    ),
    "ibv_get_srq_num": _of_object(
        "get_srq_num", (c_void_p, POINTER(c_uint32)), c_int, Failure.POSITIVE
    ),
    "ibv_create_qp_ex": _of_context(
        "create_qp_ex", (c_void_p, POINTER(IbvQpInitAttrEx)), POINTER(IbvQp), Failure.NULL
    ),
    "ibv_create_flow": _of_object(
        "ibv_create_flow", (POINTER(IbvQp), POINTER(IbvFlowAttr)), POINTER(IbvFlow), Failure.NULL
    ),
    "ibv_destroy_flow": Inline(
        in_verbs_context,
        "ibv_destroy_flow",
        Symbol((POINTER(IbvFlow),), c_int, Failure.POSITIVE),
        IbvFlow.context.offset,
    ),
}
"""Name → what the header defines."""


class CallFailed(Exception):
    """A call failed by its own convention; `errno` is 0 where it gave none."""

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: errno {errno}")
        self.call = call
        self.errno = errno


class Library:
    """A loaded library: libibverbs, or another with a table of symbols."""

    def __init__(self, path: str, symbols: Mapping[str, Symbol] = SYMBOLS) -> None:
        """Raises OSError where it cannot be loaded, AttributeError where a symbol is missing."""
        loaded = ctypes.CDLL(path, use_errno=True)
        self._symbols = symbols
        self._functions: dict[str, Any] = {}
        for name, symbol in symbols.items():
            if symbol.optional and not hasattr(loaded, name):
                continue
            function = getattr(loaded, name)
            # Without these a 64-bit pointer is cut to an int.
            function.argtypes = symbol.arguments
            function.restype = symbol.result
            self._functions[name] = function

    def has(self, name: str) -> bool:
        """Whether this library exports an optional symbol."""
        return name in self._functions

    def address(self, name: str) -> int:
        """Where a function is in memory."""
        return ctypes.cast(self._functions[name], c_void_p).value or 0

    def call(self, name: str, *arguments: Any) -> Any:
        """The result; raises CallFailed, without an errno where the library has no such call."""
        inline = INLINE.get(name)
        function = _function(inline, arguments[0]) if inline else self._functions.get(name)
        if function is None:
            raise CallFailed(name, EOPNOTSUPP if inline else 0)  # as verbs.h itself says
        ctypes.set_errno(0)
        result = function(*arguments)
        failure = (inline.symbol if inline else self._symbols[name]).failure
        if failure is Failure.NULL and not result:
            raise CallFailed(name, ctypes.get_errno())
        if failure is Failure.POSITIVE and result:
            # Before rdma-core 14 some providers returned -1 and set errno.
            raise CallFailed(name, result if result > 0 else ctypes.get_errno())
        if failure is Failure.MINUS_ONE and result:
            raise CallFailed(name, ctypes.get_errno())
        if failure is Failure.NEGATIVE and result < 0:
            raise CallFailed(name, -result)
        return result


def _function(inline: Inline, argument: Any) -> Any:
    """What the context has, None where it has none."""
    context = ctypes.cast(argument, c_void_p).value or 0
    if inline.context_at is not None:
        context = c_void_p.from_address(context + inline.context_at).value or 0
    address = inline.find(context, inline.member)
    symbol = inline.symbol
    made = ctypes.CFUNCTYPE(symbol.result, *symbol.arguments, use_errno=True)
    return made(address) if address else None
