"""Which cells there are, and which of them a device's claims leave to be tried; pure."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.capability import DeviceCap
from rdmadiag.facts.exercise import Cell, CellState, Operation, Via, Wanted
from rdmadiag.facts.verbs import Numbers
from rdmadiag.view.reconcile import Protocol

O = Operation  # noqa: E741

_MESSAGES: Final = (O.SEND, O.SEND_IMM, O.SEND_INLINE, O.SGE_LIST, O.WR_LIST, O.UNSIGNALED)
_RC: Final = (*_MESSAGES, O.WRITE, O.WRITE_IMM, O.READ, O.CMP_SWAP, O.FETCH_ADD, O.FENCE)

_FRAMES: Final = (O.FRAME_ETH, O.FRAME_IPV4, O.FRAME_TCP, O.FRAME_UDP)

MATRIX: Final[dict[tuple[str, Via], tuple[Operation, ...]]] = {
    ("rc", Via.POLL): (
        *_RC,
        O.RESIZE_CQ,
        O.FLUSH,
        O.RESET,
        O.MW_TYPE_1,
        O.MW_TYPE_2,
        O.SEND_INV,
        O.SQD,
        O.ALT_PATH,
    ),
    ("rc", Via.CHANNEL): (O.SEND, O.SEND_SOLICITED, O.WRITE_IMM, O.READ),
    ("rc", Via.SRQ): (O.SEND, O.SEND_IMM, O.WRITE_IMM, O.SRQ_LIMIT),
    ("uc", Via.POLL): (*_MESSAGES, O.WRITE, O.WRITE_IMM, O.FLUSH),
    ("uc", Via.CHANNEL): (O.SEND, O.WRITE_IMM),
    ("ud", Via.POLL): (*_MESSAGES, O.REPLY, O.FLUSH, O.MULTICAST),
    ("ud", Via.CHANNEL): (O.SEND, O.SEND_SOLICITED),
    ("xrc", Via.SRQ): (
        O.SEND,
        O.SEND_IMM,
        O.WRITE,
        O.WRITE_IMM,
        O.READ,
        O.CMP_SWAP,
        O.FETCH_ADD,
    ),
    ("raw_packet", Via.POLL): _FRAMES,
}
"""What each type can do by the InfiniBand specification, 10.3, table 10-1 and annex A14."""

QP_TYPES: Final = tuple(dict.fromkeys(kind for kind, _ in MATRIX))

NAMED_ALONE: Final = frozenset({O.SQD, O.ALT_PATH, *_FRAMES})
"""Never tried but by name: they change paths and steering."""

ONE_HOST_ALONE: Final = dict.fromkeys(
    _FRAMES, "both ends on one host alone: a frame of any content is not sent for a peer"
)
"""Cells that two hosts do not try, and why."""

BY_HAND_ALONE: Final = {
    O.RESET: "a queue pair of the connection manager is connected once",
    O.ALT_PATH: "librdmacm loads no alternate path",
}
"""Operations that are not tried where the connection manager connects, and why."""

_NOT_IN_IWARP: Final = {
    **dict.fromkeys((O.SEND_IMM, O.WRITE_IMM), "RFC 5040 has no immediate data"),
    **dict.fromkeys((O.CMP_SWAP, O.FETCH_ADD), "RFC 5040 has no atomics"),
}
_IWARP_TYPES: Final = "RFC 5040 has reliable connections alone"

_ON_THUNDERBOLT: Final = frozenset({Wanted(O.SEND, "uc", Via.POLL)})
"""TN3205: queue pairs of type UC, SEND and RECEIVE."""

_NEEDS: Final = {
    O.CMP_SWAP: "atomic_cap",
    O.FETCH_ADD: "atomic_cap",
    O.SRQ_LIMIT: "max_srq",
    O.MULTICAST: "max_mcast_grp",
}
"""Field of ibv_device_attr that is 0 where the device cannot."""

_WINDOWS_2: Final = DeviceCap.MEM_WINDOW_TYPE_2A, DeviceCap.MEM_WINDOW_TYPE_2B
_FLAGS: Final = {
    O.MW_TYPE_1: (DeviceCap.MEM_WINDOW,),
    O.MW_TYPE_2: _WINDOWS_2,
    O.SEND_INV: _WINDOWS_2,
    O.ALT_PATH: (DeviceCap.AUTO_PATH_MIG,),
    **dict.fromkeys(_FRAMES, (DeviceCap.MANAGED_FLOW_STEERING,)),
}
"""Of device_cap_flags, of which one is set where the device can."""

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


def untried(
    cells: Iterable[Wanted],
    only: Collection[str],
    protocols: Collection[Protocol],
    *,
    two_hosts: bool = False,
    by_cm: bool = False,
) -> Iterator[Cell]:
    """The cells that are left alone, and why."""
    for cell in cells:
        why = ONE_HOST_ALONE.get(cell.operation) if two_hosts else None
        if by_cm:
            why = BY_HAND_ALONE.get(cell.operation)
            if cell.qp_type != "rc":
                kind = cell.qp_type.replace("_", " ").upper()
                why = f"--cm connects RC alone: {kind} without it"
        if why:
            pass
        elif cell.operation in NAMED_ALONE and cell.operation not in only:
            why = "only where --only names it"
        elif cell.operation is O.MULTICAST and Protocol.INFINIBAND in protocols:
            why = "its group would have to be created at the subnet manager"
        if why:
            yield Cell(cell.operation, cell.qp_type, cell.via, CellState.NOT_TRIED, cause=why)


def unclaimed(
    cells: Iterable[Wanted],
    attributes: Numbers | Missing,
    protocols: Collection[Protocol] = (),
) -> Iterator[Cell]:
    """The cells that a device says it cannot; where it said nothing, those of Thunderbolt."""
    for cell in cells:
        why = None
        if Protocol.THUNDERBOLT in protocols:
            why = None if cell in _ON_THUNDERBOLT else "TN3205: UC, SEND and RECEIVE alone"
        elif Protocol.IWARP in protocols and (not_there := _not_in_iwarp(cell)):
            why = not_there
        elif not isinstance(attributes, Missing):
            why = _lacking(cell, attributes)
        if why:
            yield Cell(cell.operation, cell.qp_type, cell.via, CellState.NOT_CLAIMED, cause=why)


def _not_in_iwarp(cell: Wanted) -> str | None:
    return _IWARP_TYPES if cell.qp_type != "rc" else _NOT_IN_IWARP.get(cell.operation)


def _lacking(cell: Wanted, attributes: Numbers) -> str | None:
    flags = _FLAGS.get(cell.operation, ())
    if cell.qp_type == "xrc":
        flags = (DeviceCap.XRC,)
    field = "max_srq" if cell.via is Via.SRQ else _NEEDS.get(cell.operation)
    if field and attributes.get(field) == 0:
        return f"ibv_query_device: {field} is 0"
    if cell.operation is O.SGE_LIST and attributes.get("max_sge", SGE) < SGE:
        return f"ibv_query_device: max_sge is {attributes['max_sge']}"
    has = attributes.get("device_cap_flags")
    if flags and has is not None and not any(has & each.number for each in flags):
        names = " or ".join(each.name for each in flags)
        return f"ibv_query_device: device_cap_flags has no {names}"
    return None
