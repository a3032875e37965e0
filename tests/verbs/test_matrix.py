"""Which cells there are: what each transport can do, InfiniBand specification 10.3."""

from typing import Any

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.capability import DeviceCap
from rdmadiag.facts.exercise import CellState, Operation, Via
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.facts.resources import DeviceResources, Owner, QueuePair, ResourceFacts
from rdmadiag.verbs.exercise import holders
from rdmadiag.verbs.matrix import MATRIX, QP_TYPES, unclaimed, untried, wanted
from rdmadiag.verbs.operation import OPERATIONS
from rdmadiag.view.reconcile import Protocol

ABLE = {
    "atomic_cap": 1,
    "max_srq": 16,
    "max_sge": 16,
    "max_mcast_grp": 16,
    "device_cap_flags": sum(each.number for each in DeviceCap),
}
WINDOWS_2 = {Operation.MW_TYPE_2, Operation.SEND_INV}
FRAMES = {
    Operation.FRAME_ETH,
    Operation.FRAME_IPV4,
    Operation.FRAME_TCP,
    Operation.FRAME_UDP,
}


def test_iwarp_has_what_rfc_5040_has() -> None:
    cells = wanted(kinds=["rc", "ud"])
    absent = tuple(unclaimed(cells, ABLE, {Protocol.IWARP}))
    assert {each.operation for each in absent if each.qp_type == "rc"} == {
        *(Operation.SEND_IMM, Operation.WRITE_IMM, Operation.CMP_SWAP, Operation.FETCH_ADD)
    }
    left = {each.qp_type for each in cells} - {"ud"}
    assert {each.qp_type for each in absent if each.cause == "RFC 5040 has no atomics"} == left
    assert {each.operation for each in absent if each.qp_type == "ud"} == {
        each.operation for each in cells if each.qp_type == "ud"
    }


def test_by_the_connection_manager_what_it_does_not_connect_is_not_tried_and_says_why() -> None:
    left = tuple(untried(wanted(), ["sqd", "alt_path"], {Protocol.ROCE}, by_cm=True))
    assert {each.qp_type for each in left if "connects RC alone" in (each.cause or "")} == {
        *QP_TYPES[1:]
    }
    of_rc = {each.operation for each in left if each.qp_type == "rc"}
    assert of_rc == {Operation.RESET, Operation.ALT_PATH}
    assert all(each.state is CellState.NOT_TRIED for each in left)


def test_every_operation_can_be_made_and_has_a_cell() -> None:
    assert set(OPERATIONS) == set(Operation)
    assert {operation for cells in MATRIX.values() for operation in cells} == set(Operation)


@pytest.mark.parametrize(
    ("kind", "cannot"),
    [
        ("uc", {Operation.READ, Operation.CMP_SWAP, Operation.FETCH_ADD, Operation.FENCE}),
        (
            "ud",
            {
                *(Operation.WRITE, Operation.WRITE_IMM, Operation.READ, Operation.FENCE),
                *(Operation.CMP_SWAP, Operation.FETCH_ADD),
            },
        ),
    ],
    ids=["UC reads nothing", "UD has messages alone"],
)
def test_what_a_transport_cannot_is_no_cell(kind: str, cannot: set[Operation]) -> None:
    cells = {each.operation for each in wanted(kinds=[kind])}
    assert cells
    assert not cells & cannot


def test_a_choice_of_operations_and_types() -> None:
    cells = wanted(["send", "read"], ["rc"])
    assert {(each.operation, each.via) for each in cells} == {
        (Operation.SEND, Via.POLL),
        (Operation.SEND, Via.CHANNEL),
        (Operation.SEND, Via.SRQ),
        (Operation.READ, Via.POLL),
        (Operation.READ, Via.CHANNEL),
    }
    assert wanted(["read"], ["ud"]) == ()
    assert QP_TYPES == ("rc", "uc", "ud", "xrc", "raw_packet")


@pytest.mark.parametrize(
    ("field", "gone"),
    [
        ("atomic_cap", {Operation.CMP_SWAP, Operation.FETCH_ADD}),
        ("max_srq", {Operation.SEND, Operation.SEND_IMM, Operation.WRITE_IMM, Operation.SRQ_LIMIT}),
        ("max_sge", {Operation.SGE_LIST}),
    ],
)
def test_what_a_device_does_not_claim_is_not_tried(field: str, gone: set[Operation]) -> None:
    cells = tuple(unclaimed(wanted(kinds=["rc", "uc", "ud"]), ABLE | {field: 0}))
    assert {each.operation for each in cells} == gone
    assert {each.state for each in cells} == {CellState.NOT_CLAIMED}
    assert all(field in (each.cause or "") for each in cells)
    if field == "max_srq":
        assert {each.via for each in cells} == {Via.SRQ}


@pytest.mark.parametrize(
    ("flags", "gone"),
    [
        ((DeviceCap.MEM_WINDOW,), {Operation.MW_TYPE_1}),
        ((DeviceCap.MEM_WINDOW_TYPE_2A, DeviceCap.MEM_WINDOW_TYPE_2B), WINDOWS_2),
        ((DeviceCap.MEM_WINDOW_TYPE_2A,), set()),
        ((DeviceCap.AUTO_PATH_MIG,), {Operation.ALT_PATH}),
        ((DeviceCap.MANAGED_FLOW_STEERING,), FRAMES),
    ],
    ids=[
        "no windows of type 1",
        "no windows of type 2",
        "one of the two types 2",
        "no path migration",
        "no rules",
    ],
)
def test_a_flag_that_a_device_does_not_have_is_named(
    flags: tuple[DeviceCap, ...], gone: set[Operation]
) -> None:
    has = ABLE["device_cap_flags"] - sum(each.number for each in flags)
    cells = tuple(unclaimed(wanted(), ABLE | {"device_cap_flags": has}))
    assert {each.operation for each in cells} == gone
    assert all(flags[0].name in (each.cause or "") for each in cells)


def test_without_xrc_its_column_is_not_claimed() -> None:
    has = ABLE["device_cap_flags"] - DeviceCap.XRC.number
    cells = tuple(unclaimed(wanted(), ABLE | {"device_cap_flags": has}))
    assert {each.qp_type for each in cells} == {"xrc"}
    assert len(cells) == len(wanted(kinds=["xrc"]))


@pytest.mark.parametrize(
    "attributes", [ABLE, Missing(Why.TIMEOUT, "verbs")], ids=["said", "silent"]
)
def test_on_thunderbolt_what_tn3205_names_is_claimed_alone(attributes: Any) -> None:
    cells = wanted()
    absent = tuple(unclaimed(cells, attributes, {Protocol.THUNDERBOLT}))
    left = {(each.operation, each.qp_type, each.via) for each in cells}
    left -= {(each.operation, each.qp_type, each.via) for each in absent}
    assert left == {(Operation.SEND, "uc", Via.POLL)}
    assert {each.cause for each in absent} == {"TN3205: UC, SEND and RECEIVE alone"}


def test_what_changes_paths_or_steering_is_tried_by_its_name_alone() -> None:
    cells = wanted()
    left = {each.operation for each in untried(cells, (), {Protocol.ROCE})}
    assert left == {Operation.SQD, Operation.ALT_PATH, *FRAMES}
    named = {each.operation for each in untried(cells, ["sqd", "send"], {Protocol.ROCE})}
    assert named == left - {Operation.SQD}


def test_no_group_is_created_at_a_subnet_manager() -> None:
    (cell,) = untried(wanted(["multicast"]), ["multicast"], {Protocol.INFINIBAND})
    assert (cell.operation, cell.state) == (Operation.MULTICAST, CellState.NOT_TRIED)
    assert "subnet manager" in (cell.cause or "")
    assert not list(untried(wanted(["multicast"]), ["multicast"], {Protocol.ROCE}))


def test_a_device_that_said_nothing_is_tried() -> None:
    assert tuple(unclaimed(wanted(), Missing(Why.TIMEOUT, "verbs"))) == ()
    assert tuple(unclaimed(wanted(), ABLE)) == ()


def held(*types: KernelQpType, initial: bool = True) -> ResourceFacts:
    """rxe0 with a queue pair of each type on port 1."""
    pairs = tuple(
        QueuePair(number, 0, 1, kind, QpState.RTS, Owner(7, None))
        for number, kind in enumerate(types)
    )
    return ResourceFacts((DeviceResources(0, "rxe0", {}, pairs, {}),), {}, initial)


def test_the_kernels_own_queue_pairs_are_nobody() -> None:
    assert holders(held(KernelQpType.GSI, KernelQpType.SMI), "rxe0", 1) == 0
    assert holders(held(KernelQpType.GSI, KernelQpType.RC), "rxe0", 1) == 1
    assert holders(held(KernelQpType.RC), "rxe0", 2) == 0


def test_what_is_not_shown_is_not_taken_for_nobody() -> None:
    assert isinstance(holders(held(), "rxe1", 1), Missing)
    assert isinstance(holders(held(initial=False), "rxe0", 1), Missing)
    unread = DeviceResources(0, "rxe0", {}, Missing(Why.DENIED, "EPERM"), {})
    found = ResourceFacts((unread,), {}, True)
    assert holders(found, "rxe0", 1) == Missing(Why.DENIED, "EPERM")
