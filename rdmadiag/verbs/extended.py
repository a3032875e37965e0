"""What libibverbs has no symbol for: the functions of a context, and whose they are.

The inline functions of infiniband/verbs.h reach them through struct verbs_context, which
stands in memory right before a struct ibv_context. Linux alone.
"""

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint8, c_void_p
from typing import Final

from rdmadiag.verbs.abi import (
    PORT_ATTR_BUFFER,
    IbvContextOps,
    IbvDeviceAttrEx,
    IbvPortAttr,
    Struct,
    VerbsContext,
)
from rdmadiag.verbs.context_calls import in_ops, in_verbs_context
from rdmadiag.verbs.lib import CallFailed

_UNSUPPORTED: Final = (38, 95)  # ENOSYS, EOPNOTSUPP: then verbs.h itself goes without it
_LIBRARYS_OWN: Final = frozenset({"query_port", "create_cq_ex"})
"""set_lib_ops of libibverbs/device.c puts its own here: the provider's cannot be seen."""

_QueryDeviceEx = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)
_QueryPort = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint8, c_void_p, c_size_t)


class _DlInfo(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("dli_fname", c_char_p),
        ("dli_fbase", c_void_p),
        ("dli_sname", c_char_p),
        ("dli_saddr", c_void_p),
    )


def _names(structure: type[Struct]) -> list[str]:
    return [name for name, kind, *_ in structure._fields_ if kind is c_void_p and name[0] != "_"]


def query_device_ex(context: int) -> dict[str, int]:
    """The numbers of struct ibv_device_attr_ex; none where the provider has no such call.

    Raises CallFailed.
    """
    address = in_verbs_context(context, "query_device_ex")
    if not address:
        return {}
    attributes = IbvDeviceAttrEx()
    errno = _QueryDeviceEx(address)(context, None, byref(attributes), ctypes.sizeof(attributes))
    if errno in _UNSUPPORTED:
        return {}
    if errno:
        raise CallFailed("ibv_query_device_ex", errno)
    numbers = attributes.numbers()
    return {name: each for name, each in numbers.items() if not name.startswith("orig_attr.")}


def query_port(context: int, port: int) -> dict[str, int] | None:
    """The numbers of struct ibv_port_attr, port_cap_flags2 too; None in older libraries.

    Raises CallFailed.
    """
    address = in_verbs_context(context, "query_port")
    if not address:
        return None
    buffer = ctypes.create_string_buffer(PORT_ATTR_BUFFER)
    errno = _QueryPort(address)(context, port, buffer, ctypes.sizeof(IbvPortAttr))
    if errno:
        raise CallFailed("ibv_query_port", errno if errno > 0 else ctypes.get_errno())
    return IbvPortAttr.from_buffer(buffer).numbers()


def operations(context: int, library: int) -> dict[str, str | None]:
    """By name, the file that a function of this context is in: the provider's.

    None where there is none: a null pointer, or one of the functions of libibverbs that
    only refuse (dummy_ops.c). `library` is the address of any function of libibverbs.
    """
    process = ctypes.CDLL(None)
    if not hasattr(process, "dladdr"):  # glibc before 2.34 has it in libdl
        return {}
    found = {name: in_ops(context, name) for name in _names(IbvContextOps)}
    found |= {
        name: in_verbs_context(context, name)
        for name in _names(VerbsContext)
        if name not in _LIBRARYS_OWN
    }
    own, _ = _owner(process, library)
    return {name: _provider(process, address, own) for name, address in sorted(found.items())}


def _provider(process: ctypes.CDLL, address: int, own: bytes) -> str | None:
    if not address:
        return None
    file, symbol = _owner(process, address)
    # ibv_cmd_*, which libibverbs exports to providers, does the operation by a command.
    if not file or (file == own and not symbol.startswith(b"ibv_cmd_")):
        return None
    return file.rpartition(b"/")[2].decode("utf-8", "backslashreplace")


def _owner(process: ctypes.CDLL, address: int) -> tuple[bytes, bytes]:
    """The file that a function is in, and its name where it is exported."""
    info = _DlInfo()
    process.dladdr.argtypes = (c_void_p, c_void_p)
    process.dladdr.restype = c_int
    if not process.dladdr(address, byref(info)):
        return b"", b""
    named = info.dli_sname if info.dli_saddr == address else None
    return info.dli_fname or b"", named or b""
