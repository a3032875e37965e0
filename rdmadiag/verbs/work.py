"""What an operation hands to a side and gets back: numbers and bytes, no pointer; pure."""

from typing import Final

from rdmadiag.frozen import dataclass
from rdmadiag.verbs.matrix import LENGTH

AREA: Final = 4096  # bytes from one part of an end's memory to the next
OUT, IN, THIRD = 0, AREA, 2 * AREA
MEMORY: Final = 3 * AREA  # bytes of an end
GRH: Final = 40  # bytes before a UD message, infiniband/verbs.h: struct ibv_grh

WRITE, WRITE_IMM, MESSAGE, MESSAGE_IMM, READ, CMP_SWAP, FETCH_ADD = range(7)
LOCAL_INV, BIND_MW, MESSAGE_INV = range(7, 10)
"""enum ibv_wr_opcode."""
FENCE, SIGNALED, SOLICITED, AS_INLINE = 1, 2, 4, 8
"""enum ibv_send_flags."""

Piece = tuple[int, int]
"""Offset in an end's memory, and bytes."""


class NotConnected(Exception):
    """The connection manager gave another event than was to come, or none; one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """Memory of the other end."""

    address: int
    rkey: int


@dataclass(frozen=True, slots=True)
class Work:
    """A work request of a send queue."""

    opcode: int = MESSAGE
    pieces: tuple[Piece, ...] = ((OUT, LENGTH),)
    flags: int = SIGNALED
    immediate: int = 0
    target: Target | None = None
    operands: tuple[int, int] | None = None  # of an atomic one: compare_add and swap
    invalidate: int | None = None  # rkey of a window, of MESSAGE_INV and LOCAL_INV
    srq: int = 0  # of XRC: the number of the receive queue at the other end


@dataclass(frozen=True, slots=True)
class Completed:
    """A work request that has completed; of a failure only `vendor_error` is known beside it."""

    is_receive: bool
    status: int
    length: int = 0  # of a receive; of UD with the GRH
    immediate: int | None = None
    source: int = 0  # the queue pair that a UD message came from
    invalidated: int | None = None  # the rkey of a window, by MESSAGE_INV
    vendor_error: int = 0  # of a failure: what the provider adds
