"""Which capabilities a run of `exercise` has proven, by the cells that need them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from rdmadiag.facts.exercise import Cell, CellState, Operation, Via
from rdmadiag.view.capabilities import DeviceCapabilities

_PROVEN_BY: Final[dict[str, Callable[[Cell], bool]]] = {
    "atomic_cap": lambda cell: cell.operation in (Operation.CMP_SWAP, Operation.FETCH_ADD),
    "max_srq": lambda cell: cell.via is Via.SRQ,
    "max_sge": lambda cell: cell.operation is Operation.SGE_LIST,
    "op_post_srq_recv": lambda cell: cell.via is Via.SRQ,
    "op_req_notify_cq": lambda cell: cell.via is Via.CHANNEL,
    "op_poll_cq": lambda cell: cell.operation is Operation.SEND,
    "op_post_recv": lambda cell: cell.operation is Operation.SEND,
    "op_post_send": lambda cell: cell.operation is Operation.SEND,
}
"""Capability → the cells that cannot be verified without it."""


def with_proof(device: DeviceCapabilities, cells: Iterable[Cell]) -> DeviceCapabilities:
    """The rows with `proven`: true where each cell that needs it was verified, false where one
    was refused or failed, None where none was tried."""
    tried = [
        cell for cell in cells if cell.state not in (CellState.NOT_TRIED, CellState.NOT_CLAIMED)
    ]

    def proven(name: str) -> bool | None:
        needs = _PROVEN_BY.get(name)
        states = [cell.state for cell in tried if needs and needs(cell)]
        return all(state is CellState.VERIFIED for state in states) if states else None

    rows = (replace(row, proven=proven(row.name)) for row in device.capabilities)
    return replace(device, capabilities=tuple(rows))
