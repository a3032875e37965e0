"""Which cells there are, and which of them a device's claims leave to be tried; pure."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.exercise import Cell, CellState, Operation, Via, Wanted
from rdmadiag.facts.verbs import Numbers

O = Operation  # noqa: E741

_MESSAGES: Final = (O.SEND, O.SEND_IMM, O.SEND_INLINE, O.SGE_LIST, O.WR_LIST, O.UNSIGNALED)
_RC: Final = (*_MESSAGES, O.WRITE, O.WRITE_IMM, O.READ, O.CMP_SWAP, O.FETCH_ADD, O.FENCE)

MATRIX: Final[dict[tuple[str, Via], tuple[Operation, ...]]] = {
    ("rc", Via.POLL): (*_RC, O.RESIZE_CQ, O.FLUSH, O.RESET),
    ("rc", Via.CHANNEL): (O.SEND, O.SEND_SOLICITED, O.WRITE_IMM, O.READ),
    ("rc", Via.SRQ): (O.SEND, O.SEND_IMM, O.WRITE_IMM, O.SRQ_LIMIT),
    ("uc", Via.POLL): (*_MESSAGES, O.WRITE, O.WRITE_IMM, O.FLUSH),
    ("uc", Via.CHANNEL): (O.SEND, O.WRITE_IMM),
    ("ud", Via.POLL): (*_MESSAGES, O.REPLY, O.FLUSH),
    ("ud", Via.CHANNEL): (O.SEND, O.SEND_SOLICITED),
}
"""What each type can do by the InfiniBand specification, 10.3 and table 10-1."""

QP_TYPES: Final = tuple(dict.fromkeys(kind for kind, _ in MATRIX))

_NEEDS: Final = {
    O.CMP_SWAP: "atomic_cap",
    O.FETCH_ADD: "atomic_cap",
    O.SRQ_LIMIT: "max_srq",
}
"""Field of ibv_device_attr that is 0 where the device cannot."""

LENGTH: Final = 256
"""Bytes of a message; fits the smallest MTU."""

SGE: Final = 3
"""Buffers of a work request of SGE_LIST."""


def wanted(only: Collection[str] = (), kinds: Collection[str] = ()) -> tuple[Wanted, ...]:
    """The cells of these operations and types; all of them by default."""
    return tuple(
        Wanted(operation, kind, via)
        for (kind, via), operations in MATRIX.items()
        for operation in operations
        if (not only or operation in only) and (not kinds or kind in kinds)
    )


def unclaimed(cells: Iterable[Wanted], attributes: Numbers | Missing) -> Iterator[Cell]:
    """The cells that the device says it cannot; where it said nothing, none."""
    if isinstance(attributes, Missing):
        return
    for cell in cells:
        field = "max_srq" if cell.via is Via.SRQ else _NEEDS.get(cell.operation)
        why = None
        if field and attributes.get(field) == 0:
            why = f"ibv_query_device: {field} is 0"
        elif cell.operation is O.SGE_LIST and attributes.get("max_sge", SGE) < SGE:
            why = f"ibv_query_device: max_sge is {attributes['max_sge']}"
        if why:
            yield Cell(cell.operation, cell.qp_type, cell.via, CellState.NOT_CLAIMED, cause=why)
