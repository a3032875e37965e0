"""Registered memory, and the pieces of it that work requests name."""

import ctypes
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rdmadiag.frozen import dataclass
from rdmadiag.verbs.model.constants import Access
from rdmadiag.verbs.model.lifetime import Held, Session
from rdmadiag.verbs.objects import MemoryRegion

if TYPE_CHECKING:
    from rdmadiag.verbs.model.domain import PD


def flat(buffer: Any) -> memoryview:
    """The bytes of a writable, C-contiguous buffer, without a copy; raises TypeError."""
    view = memoryview(buffer)
    if view.readonly:
        raise TypeError(f"a {type(buffer).__name__} is read-only: the device writes into memory")
    if not view.c_contiguous:
        raise TypeError("the buffer is not contiguous")
    if not view.nbytes:
        raise ValueError("the buffer is empty")
    return view.cast("B")


def packets(count: int, size: int) -> memoryview:
    """Memory for `count` packets of `size` bytes each, page-aligned: shape (count, size)."""
    if count < 1 or size < 1:
        raise ValueError(f"{count} packets of {size} bytes")
    return memoryview(mmap.mmap(-1, count * size)).cast("B", (count, size))


class MR(Held[MemoryRegion]):
    """ibv_reg_mr. It keeps its buffer: what the device may write to is not freed or resized."""

    kind = "memory region"

    def __init__(
        self, session: Session, made: MemoryRegion, pd: "PD", buffer: memoryview, access: Access
    ) -> None:
        super().__init__(session, made, pd)
        self.pd = pd
        self.access = access
        self._buffer: memoryview | None = buffer

    def _label(self) -> str:
        return "" if self.closed else f" of {self.len} bytes"

    def let_go(self) -> MemoryRegion:
        """The buffer can be resized again, once it is destroyed."""
        self._buffer = None
        return super().let_go()

    @property
    def bytes(self) -> memoryview:
        """The memory itself, which can be read and written; no copy."""
        self.made  # noqa: B018 raises Closed
        assert self._buffer is not None
        return self._buffer

    @property
    def lkey(self) -> int:
        """What names it in a work request."""
        return self.made.lkey

    @property
    def rkey(self) -> int:
        """What the peer needs, beside `addr`, to read or write it."""
        return self.made.rkey

    @property
    def addr(self) -> int:
        """The virtual address of its first byte."""
        return self.made.address

    @property
    def len(self) -> int:
        """Bytes."""
        return self.made.size

    def __len__(self) -> int:
        return self.len

    def sge(self, offset: int = 0, length: int | None = None) -> "SGE":
        """A piece of it, up to its end by default; raises ValueError outside of it."""
        return SGE(self, offset, self.len - offset if length is None else length)


@dataclass(frozen=True, slots=True)
class SGE:
    """struct ibv_sge: `length` bytes of a memory region from `offset` on; raises ValueError."""

    mr: MR
    offset: int
    length: int

    def __post_init__(self) -> None:
        check(self.mr.len, self.offset, self.length)

    @property
    def addr(self) -> int:
        """The virtual address."""
        return self.mr.addr + self.offset

    @property
    def lkey(self) -> int:
        """The local key of its memory region."""
        return self.mr.lkey


_MOST: Final = 1 << 31
"""Bytes of one element: the 32-bit length, of which providers take half."""


def check(size: int, offset: int, length: int) -> None:
    """Raises ValueError where `length` bytes from `offset` on are not within `size`.

    A length of 0 means 2 GiB to some devices (mlx4, mlx5).
    """
    if offset < 0 or not 0 < length <= _MOST or offset + length > size:
        raise ValueError(f"{length} bytes from {offset} on are not in a region of {size}")


def paddings(npad: int | Sequence[int], count: int) -> list[int]:
    """One for each of `count` buffers; raises ValueError."""
    found = [npad] * count if isinstance(npad, int) else list(npad)
    if len(found) != count:
        raise ValueError(f"{len(found)} paddings for {count} buffers")
    return found


def pieces(
    shapes: Sequence[tuple[int, int]], num_wr: int, npad: int | Sequence[int] = 0
) -> list[list[tuple[int, int]]]:
    """For each work request its (offset, length) in each buffer; raises ValueError.

    `shapes` are (packets, bytes of a packet with its padding) of the buffers, `npad` the
    bytes of padding at the end of each packet, one number or one for each buffer.
    """
    pads = paddings(npad, len(shapes))
    if len({count for count, _ in shapes}) > 1:
        counts = ", ".join(str(count) for count, _ in shapes)
        raise ValueError(f"the buffers are for different numbers of packets: {counts}")
    for (count, size), pad in zip(shapes, pads, strict=True):
        if not 0 < num_wr <= count:
            raise ValueError(f"{num_wr} work requests, the buffers are for {count} packets")
        if not 0 <= pad < size:
            raise ValueError(f"a padding of {pad} bytes in packets of {size}")
    return [
        [(at * size, size - pad) for (_, size), pad in zip(shapes, pads, strict=True)]
        for at in range(num_wr)
    ]


def shape(buffer: Any) -> tuple[int, int]:
    """(packets, bytes of each) of a buffer of two or more dimensions; raises ValueError."""
    view = memoryview(buffer)
    if view.ndim < 2 or not view.shape or not view.nbytes:
        raise ValueError("a buffer of packets has two dimensions: packets, and bytes of each")
    return view.shape[0], view.nbytes // view.shape[0]


def create_sges(
    bufs: Sequence[Any], mrs: Sequence[MR], num_wr: int, npad: int | Sequence[int] = 0
) -> list[list[SGE]]:
    """For each of `num_wr` work requests the list that points to its packet in every buffer.

    `bufs` are buffers of shape (packets, bytes), as `packets` makes them, and `mrs` the memory
    regions that hold them, in the same order. Raises ValueError.
    """
    if len(bufs) != len(mrs):
        raise ValueError(f"{len(mrs)} memory regions for {len(bufs)} buffers")
    starts = []
    for buffer, mr in zip(bufs, mrs, strict=True):
        view = flat(buffer)
        start = address(view) - mr.addr
        check(mr.len, start, view.nbytes)
        starts.append(start)
    return [
        [
            SGE(mr, start + offset, length)
            for mr, start, (offset, length) in zip(mrs, starts, row, strict=True)
        ]
        for row in pieces([shape(each) for each in bufs], num_wr, npad)
    ]


def address(view: memoryview) -> int:
    """Where its first byte is."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
