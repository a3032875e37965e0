"""Which cells there are: what each transport can do, InfiniBand specification 10.3."""

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.exercise import CellState, Operation, Via
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.facts.resources import DeviceResources, Owner, QueuePair, ResourceFacts
from rdmadiag.verbs.exercise import holders
from rdmadiag.verbs.matrix import MATRIX, QP_TYPES, unclaimed, wanted
from rdmadiag.verbs.operation import OPERATIONS

ABLE = {"atomic_cap": 1, "max_srq": 16, "max_sge": 16}


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
    assert QP_TYPES == ("rc", "uc", "ud")


@pytest.mark.parametrize(
    ("field", "gone"),
    [
        ("atomic_cap", {Operation.CMP_SWAP, Operation.FETCH_ADD}),
        ("max_srq", {Operation.SEND, Operation.SEND_IMM, Operation.WRITE_IMM, Operation.SRQ_LIMIT}),
        ("max_sge", {Operation.SGE_LIST}),
    ],
)
def test_what_a_device_does_not_claim_is_not_tried(field: str, gone: set[Operation]) -> None:
    cells = tuple(unclaimed(wanted(), ABLE | {field: 0}))
    assert {each.operation for each in cells} == gone
    assert {each.state for each in cells} == {CellState.NOT_CLAIMED}
    assert all(field in (each.cause or "") for each in cells)
    if field == "max_srq":
        assert {each.via for each in cells} == {Via.SRQ}


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
