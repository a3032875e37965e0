"""Where the functions of an open context are, for which libibverbs has no symbol.

infiniband/verbs.h reaches them by inline functions: some stand in struct ibv_context_ops,
newer ones in the struct verbs_context that ends right before the struct ibv_context.
"""

import ctypes
from ctypes import c_size_t, c_void_p

from rdmadiag.verbs.abi import ABI_IS_EXTENDED, IbvContext, IbvContextOps, VerbsContext


def in_ops(context: int, name: str) -> int:
    """The address of a function of struct ibv_context_ops, or 0."""
    offset = IbvContext.ops.offset + getattr(IbvContextOps, name).offset
    return c_void_p.from_address(context + offset).value or 0


def in_verbs_context(context: int, name: str) -> int:
    """verbs_get_ctx_op: the address of a function of struct verbs_context, or 0.  Linux alone."""
    if IbvContext.from_address(context).abi_compat != ABI_IS_EXTENDED:
        return 0
    base = context - ctypes.sizeof(VerbsContext)
    size = c_size_t.from_address(base + VerbsContext.sz.offset).value
    offset = getattr(VerbsContext, name).offset
    if size < ctypes.sizeof(VerbsContext) + ctypes.sizeof(IbvContext) - offset:
        return 0
    return c_void_p.from_address(base + offset).value or 0
