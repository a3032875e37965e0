"""Which capabilities a run of `exercise` has proven, by the cells that need them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from rdmadiag.facts.exercise import BY_WINDOW, Cell, CellState, Operation, Via
from rdmadiag.view.capabilities import DeviceCapabilities

_XRC: Final = "xrc"
_OF_XRC: Final = ("xrc", "op_open_xrcd", "op_close_xrcd", "op_create_srq_ex", "op_create_qp_ex")
"""For all others the cells of XRC prove and disprove nothing: they may fail by XRC itself."""

_PROVEN_BY: Final[dict[str, Callable[[Cell], bool]]] = {
    "atomic_cap": lambda cell: cell.operation in (Operation.CMP_SWAP, Operation.FETCH_ADD),
    "max_srq": lambda cell: cell.via is Via.SRQ,
    "max_sge": lambda cell: cell.operation is Operation.SGE_LIST,
    "op_post_srq_recv": lambda cell: cell.via is Via.SRQ,
    "op_req_notify_cq": lambda cell: cell.via is Via.CHANNEL,
    "op_poll_cq": lambda cell: cell.operation is Operation.SEND,
    "op_post_recv": lambda cell: cell.operation is Operation.SEND,
    "op_post_send": lambda cell: cell.operation is Operation.SEND,
    "mem_window": lambda cell: cell.operation is Operation.MW_TYPE_1,
    **dict.fromkeys(
        ("mem_window_type_2a", "mem_window_type_2b"),
        lambda cell: cell.operation in (Operation.MW_TYPE_2, Operation.SEND_INV),
    ),
    "op_bind_mw": lambda cell: cell.operation is Operation.MW_TYPE_1,
    **dict.fromkeys(("op_alloc_mw", "op_dealloc_mw"), lambda cell: cell.operation in BY_WINDOW),
    "max_mcast_grp": lambda cell: cell.operation is Operation.MULTICAST,
    "auto_path_mig": lambda cell: cell.operation is Operation.ALT_PATH,
    **dict.fromkeys(
        ("managed_flow_steering", "op_ibv_create_flow", "op_ibv_destroy_flow"),
        lambda cell: cell.qp_type == "raw_packet",
    ),
    **dict.fromkeys(_OF_XRC, lambda cell: cell.qp_type == _XRC),
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
        states = [
            cell.state
            for cell in tried
            if needs and needs(cell) and (cell.qp_type != _XRC or name in _OF_XRC)
        ]
        return all(state is CellState.VERIFIED for state in states) if states else None

    # What is not claimed is not proven either: of windows of type 2 a device has A or B.
    rows = (
        replace(row, proven=None if row.is_there is False else proven(row.name))
        for row in device.capabilities
    )
    return replace(device, capabilities=tuple(rows))
