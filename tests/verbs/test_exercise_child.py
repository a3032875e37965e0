"""A run of `exercise` on the fake library: cells that are verified, refused, and worse."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from rdmadiag.facts.attempt import Stage, Teardown
from rdmadiag.facts.exercise import Cell, CellState, Exercise, Operation, RunOutcome, Via, Wanted
from rdmadiag.preflight.candidate import Candidate
from rdmadiag.verbs.exercise import _cell, conclude
from rdmadiag.verbs.records import CellEnded, EndName, ExerciseRequest, encode, parse
from rdmadiag.verbs.watchdog import Watched, watch
from rdmadiag.view.reconcile import Protocol
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT

SEND = Wanted(Operation.SEND, "rc", Via.POLL)
SEND_UC = Wanted(Operation.SEND, "uc", Via.POLL)
SEND_BY_EVENT = Wanted(Operation.SEND, "rc", Via.CHANNEL)
SRQ = Wanted(Operation.SEND, "rc", Via.SRQ)
BOTH = (Candidate(LINUX_END, Protocol.ROCE, (), (), "", 0, 0xFFFF),) * 2

Run = Callable[..., tuple[Exercise, list[str], str]]


def asked(library: object, cells: tuple[Wanted, ...], seconds: float) -> ExerciseRequest:
    start = time.monotonic()
    return ExerciseRequest(
        platform="linux",
        library=str(library),
        start=start,
        deadline=start + seconds,
        ends=(LINUX_END, LINUX_END),
        meet=None,
        host="",
        port=0,
        until=0.0,
        secret=None,
        cells=cells,
    )


@pytest.fixture
def run(fake_verbs: Any) -> Run:
    """The run, what was called, and what the library said on stderr."""

    def tried(
        rules: str = "", *cells: Wanted, seconds: float = 20.0
    ) -> tuple[Exercise, list[str], str]:
        fake = fake_verbs(LINUX_SCRIPT + rules, "linux")
        wanted = cells or (SEND, SEND_UC)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in fake.environ.items():
                patch.setenv(name, value)
            watched = watch(asked(fake.library, wanted, seconds), 1.0, module="exercise_child")
        assert isinstance(watched, Watched)
        return conclude(watched, BOTH, wanted, (), "linux"), fake.calls, watched.stderr

    return tried


def states(found: Exercise) -> list[CellState]:
    return [each.state for each in found.cells]


def test_the_request_is_read_as_it_was_written() -> None:
    request = asked("/lib/verbs.so", (SEND, SRQ), 5.0)
    assert parse(encode(request)) == request


def test_cells_are_verified_and_everything_is_destroyed(run: Run) -> None:
    found, calls, stderr = run()
    assert (found.outcome, states(found)) == (RunOutcome.DONE, [CellState.VERIFIED] * 2)
    assert (found.teardown, found.touched, stderr) == (Teardown.CLEAN, True, "")
    assert found.summary == "2 verified"
    for made, destroyed in (("ibv_create_qp", "ibv_destroy_qp"), ("ibv_reg_mr", "ibv_dereg_mr")):
        assert sum(each.startswith(made) for each in calls) == 4
        assert sum(each.startswith(destroyed) for each in calls) == 4


@pytest.mark.parametrize(
    ("call", "named", "stage"),
    [
        ("ibv_alloc_pd", "ibv_alloc_pd", Stage.CREATE_QP),
        ("ibv_reg_mr", "ibv_reg_mr", Stage.CREATE_QP),
        ("ibv_create_cq", "ibv_create_cq", Stage.CREATE_QP),
        ("ibv_create_qp", "ibv_create_qp", Stage.CREATE_QP),
        ("modify_qp_to_init", "ibv_modify_qp", Stage.INIT),
        ("modify_qp_to_rtr", "ibv_modify_qp", Stage.RTR),
        ("modify_qp_to_rts", "ibv_modify_qp", Stage.RTS),
        ("post_recv", "post_recv", Stage.DATA),
        ("post_send", "post_send", Stage.DATA),
        ("poll_cq", "poll_cq", Stage.DATA),
    ],
)
def test_a_refused_cell_names_the_call_and_the_next_one_is_tried(
    call: str, named: str, stage: Stage, run: Run
) -> None:
    found, _, stderr = run(f"on {call} times=1 errno=12\n")
    refused, verified = found.cells
    assert (refused.state, verified.state) == (CellState.REFUSED, CellState.VERIFIED)
    assert (refused.call, refused.errno, refused.errno_name) == (named, 12, "ENOMEM")
    assert refused.stage is stage
    assert (found.outcome, found.teardown, stderr) == (RunOutcome.DONE, Teardown.CLEAN, "")


def only(found: Exercise) -> Cell:
    (cell,) = found.cells
    return cell


def test_a_completion_with_an_error_is_a_failed_cell_with_its_status(run: Run) -> None:
    cell = only(run("on poll_cq wc=12,129\n", SEND)[0])
    assert (cell.state, cell.status, cell.vendor_error) == (CellState.FAILED, 12, 129)
    assert cell.status_name == "RETRY_EXC_ERR"
    assert cell.cause
    assert cell.cause.partition(" of ")[0] in ("a send", "a receive")
    assert cell.cause.endswith(
        " completed with status 12 (IBV_WC_RETRY_EXC_ERR: transport retry counter exceeded), "
        "vendor error 129"
    )


def test_other_bytes_than_were_sent_are_a_failed_cell(run: Run) -> None:
    cell = only(run("on post_send corrupt\n", SEND)[0])
    assert (cell.state, cell.status) == (CellState.FAILED, None)
    assert cell.cause == "1 of 256 bytes differ in what arrived"


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_message_that_is_lost_is_a_failed_cell(run: Run) -> None:
    cell = only(run("on post_send drop\n", SEND_UC)[0])
    assert cell.state is CellState.FAILED
    assert "no completion" in (cell.cause or "")


def test_a_completion_channel_says_that_something_completed(run: Run) -> None:
    found, calls, stderr = run("", SEND_BY_EVENT)
    assert (only(found).state, found.teardown, stderr) == (CellState.VERIFIED, Teardown.CLEAN, "")
    taken = sum(each.startswith("ibv_get_cq_event") for each in calls)
    acknowledged = sum(each.startswith("ibv_ack_cq_events") for each in calls)
    assert taken == acknowledged > 0


def test_a_library_without_a_call_refuses_its_cell(run: Run) -> None:
    found, _, stderr = run("", SRQ, SEND)
    assert (found.cells[0].state, found.cells[0].call) == (CellState.REFUSED, "ibv_create_srq")
    assert found.cells[1].state is CellState.VERIFIED
    assert (found.teardown, stderr) == (Teardown.CLEAN, "")


def test_a_device_that_does_not_open_ends_the_run(run: Run) -> None:
    found, _, _ = run("on ibv_open_device errno=13\n")
    assert (found.outcome, states(found)) == (
        RunOutcome.CALL_FAILED,
        [CellState.NOT_TRIED] * 2,
    )
    assert found.summary.startswith("ibv_open_device failed: ")


@pytest.mark.slow
def test_a_call_that_never_returns_is_named_and_what_follows_is_not_tried(run: Run) -> None:
    found, _, _ = run("on ibv_create_qp after=2 hang\n", SEND, SEND_UC, SEND_BY_EVENT, seconds=3.0)
    assert found.outcome is RunOutcome.WATCHDOG
    assert states(found) == [CellState.VERIFIED, CellState.FAILED, CellState.NOT_TRIED]
    assert found.cells[1].cause == "ibv_create_qp never returned"
    assert found.teardown is Teardown.ABANDONED


def test_a_provider_that_crashes_is_said(run: Run) -> None:
    found, _, _ = run("on ibv_create_qp crash\n")
    assert found.outcome is RunOutcome.DIED
    assert states(found) == [CellState.FAILED, CellState.NOT_TRIED]


@pytest.mark.parametrize("two_hosts", [True, False])
def test_the_other_device_of_one_host_is_no_peer(two_hosts: bool) -> None:
    ended = CellEnded(
        state=CellState.FAILED, stage=Stage.DATA, text="bad", status=12, end=EndName.REMOTE
    )
    cell = _cell(SEND, ended, "linux", two_hosts=two_hosts)
    assert cell.at_peer is two_hosts
    assert (cell.cause or "").startswith("at the peer: ") is two_hosts
