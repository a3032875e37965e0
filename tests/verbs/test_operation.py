"""Operations that soft RoCE refuses, on the fake library; and the events that come meanwhile.

What soft RoCE can do is verified on it: tests/lab/guest/test_exercise.py.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rdmadiag.facts.attempt import Stage, Teardown
from rdmadiag.facts.events import AsyncEvent
from rdmadiag.facts.exercise import Cell, CellState, Exercise, Operation, RunOutcome, Via, Wanted
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.preflight.candidate import Candidate
from rdmadiag.verbs.exercise import conclude
from rdmadiag.verbs.matrix import MATRIX
from rdmadiag.verbs.records import ExerciseRequest
from rdmadiag.verbs.watchdog import Watched, watch
from rdmadiag.view.reconcile import Protocol
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT

XRC = LINUX_SCRIPT.replace("max_qp=16", "max_qp=16 device_cap_flags=0x100000", 1)
XRC += "extended mlx5_0\n"
STEERING = XRC.replace("0x100000", "0x20000000")
MIGRATING = STEERING.replace("0x20000000", "0x10").replace("link_layer=2", "link_layer=1 lid=7")
LID_END = replace(
    LINUX_END, link_layer=LinkLayer.INFINIBAND, gid_index=None, gid=None, gid_type=None, lid=7
)

XRC_CELLS = tuple(Wanted(each, "xrc", Via.SRQ) for each in MATRIX["xrc", Via.SRQ])
FRAMES = tuple(Wanted(each, "raw_packet", Via.POLL) for each in MATRIX["raw_packet", Via.POLL])
ALT_PATH = Wanted(Operation.ALT_PATH, "rc", Via.POLL)
SEND = Wanted(Operation.SEND, "rc", Via.POLL)
WRITE_XRC = Wanted(Operation.WRITE, "xrc", Via.SRQ)

Run = Callable[..., tuple[Exercise, list[str], str]]


@pytest.fixture
def run(fake_verbs: Any) -> Run:
    """The run, what was called, and what the library said on stderr."""

    def tried(
        script: str, *cells: Wanted, end: Any = LINUX_END, seconds: float = 20.0
    ) -> tuple[Exercise, list[str], str]:
        fake = fake_verbs(script, "linux")
        start = time.monotonic()
        request = ExerciseRequest(
            platform="linux",
            library=str(fake.library),
            start=start,
            deadline=start + seconds,
            ends=(end, end),
            meet=None,
            host="",
            port=0,
            until=0.0,
            secret=None,
            cells=cells,
        )
        with pytest.MonkeyPatch.context() as patch:
            for name, value in fake.environ.items():
                patch.setenv(name, value)
            watched = watch(request, 1.0, module="exercise_child")
        assert isinstance(watched, Watched)
        both = (Candidate(end, Protocol.ROCE, (), (), "", 0, 0xFFFF),) * 2
        return conclude(watched, both, cells, (), "linux"), fake.calls, watched.stderr

    return tried


def others(found: Exercise) -> dict[Operation, Any]:
    """The cells that are not verified."""
    return {
        each.operation: (each.state, each.cause)
        for each in found.cells
        if each.state is not CellState.VERIFIED
    }


def balanced(calls: list[str]) -> bool:
    """Whether each object that was made was destroyed."""
    names = [each.split()[0] for each in calls]
    pairs = (
        ("ibv_open_xrcd", "ibv_close_xrcd"),
        ("ibv_create_srq_ex", "ibv_destroy_srq"),
        ("ibv_create_flow", "ibv_destroy_flow"),
        ("ibv_alloc_pd", "ibv_dealloc_pd"),
    )
    return all(names.count(made) == names.count(destroyed) for made, destroyed in pairs)


@pytest.mark.parametrize(
    ("script", "cells", "end"),
    [(XRC, XRC_CELLS, LINUX_END), (STEERING, FRAMES, LINUX_END), (MIGRATING, (ALT_PATH,), LID_END)],
    ids=["XRC", "raw frames and their rules", "alternate path"],
)
def test_what_a_device_can_is_verified_and_nothing_is_left(
    script: str, cells: tuple[Wanted, ...], end: Any, run: Run
) -> None:
    found, calls, stderr = run(script, *cells, end=end)
    assert others(found) == {}
    assert len(found.cells) == len(cells)
    assert (found.outcome, found.teardown, stderr) == (RunOutcome.DONE, Teardown.CLEAN, "")
    assert balanced(calls)


def test_the_other_end_is_told_that_the_path_has_migrated(run: Run) -> None:
    found, _, _ = run(MIGRATING, ALT_PATH, end=LID_END)
    (event,) = found.events
    assert (event.name, event.end, event.port) == ("IBV_EVENT_PATH_MIG", "remote", None)
    assert event.queue_pair is not None
    assert "alternate path" in (event.meaning or "")


@pytest.mark.parametrize(
    ("script", "cell", "end", "call"),
    [
        (LINUX_SCRIPT, WRITE_XRC, LINUX_END, "ibv_create_qp"),
        (LINUX_SCRIPT, FRAMES[0], LINUX_END, "ibv_create_qp"),
        (LINUX_SCRIPT, ALT_PATH, LINUX_END, "ibv_modify_qp"),
        (XRC.replace("extended mlx5_0\n", ""), WRITE_XRC, LINUX_END, "ibv_open_xrcd"),
        (XRC.replace("mlx5_0\n", "mlx5_0 sz=330\n"), WRITE_XRC, LINUX_END, "ibv_open_xrcd"),
    ],
    ids=[
        "XRC",
        "raw packets",
        "alternate path of RoCE",
        "a provider without struct verbs_context",
        "a struct verbs_context that ends before",
    ],
)
def test_what_a_device_cannot_is_refused_by_the_name_of_the_call(
    script: str, cell: Wanted, end: Any, call: str, run: Run
) -> None:
    found, calls, stderr = run(script, cell, SEND, end=end)
    refused, verified = found.cells
    assert (refused.state, refused.call) == (CellState.REFUSED, call)
    assert refused.errno_name in ("EOPNOTSUPP", "EINVAL")
    assert verified.state is CellState.VERIFIED
    assert (found.teardown, stderr) == (Teardown.CLEAN, "")
    assert balanced(calls)


@pytest.mark.parametrize(
    ("script", "cell", "call", "stage"),
    [
        (XRC, WRITE_XRC, "ibv_open_xrcd", Stage.CREATE_QP),
        (XRC, WRITE_XRC, "ibv_create_srq_ex", Stage.CREATE_QP),
        (XRC, WRITE_XRC, "ibv_create_qp_ex", Stage.CREATE_QP),
        (XRC, WRITE_XRC, "ibv_get_srq_num", Stage.CREATE_QP),
        (XRC, XRC_CELLS[0], "post_srq_recv", Stage.DATA),
        (STEERING, FRAMES[0], "ibv_create_flow", Stage.DATA),
        (STEERING, FRAMES[0], "ibv_destroy_flow", Stage.DATA),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_each_call_that_fails_is_named_and_what_was_made_is_destroyed(
    script: str, cell: Wanted, call: str, stage: Stage, run: Run
) -> None:
    found, _, stderr = run(f"{script}on {call} times=1 errno=12\n", cell, SEND)
    refused, verified = found.cells
    assert (refused.state, refused.call, refused.errno_name) == (
        CellState.REFUSED,
        call,
        "ENOMEM",
    )
    assert refused.stage is stage
    assert verified.state is CellState.VERIFIED
    if call == "ibv_destroy_flow":  # what could not be destroyed is said
        assert found.teardown is Teardown.FAILED
    else:
        assert (found.teardown, stderr) == (Teardown.CLEAN, "")


def only(found: Exercise) -> Cell:
    (cell,) = found.cells
    return cell


@pytest.mark.parametrize("cell", [XRC_CELLS[0], *FRAMES], ids=lambda cell: cell.operation)
def test_other_bytes_than_were_sent_are_a_failed_cell(cell: Wanted, run: Run) -> None:
    script = XRC if cell.qp_type == "xrc" else STEERING
    found = only(run(f"{script}on post_send corrupt\n", cell)[0])
    assert found.state is CellState.FAILED
    assert "bytes differ in what arrived" in (found.cause or "")


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_frame_that_does_not_come_is_a_failed_cell(run: Run) -> None:
    found, calls, stderr = run(f"{STEERING}on post_send drop\n", FRAMES[0])
    assert only(found).state is CellState.FAILED
    assert only(found).cause == ("the frame did not come back to the port that sent it: name two")
    assert (found.teardown, stderr) == (Teardown.CLEAN, "")
    assert balanced(calls)


@pytest.mark.parametrize("event", list(AsyncEvent), ids=lambda event: event.constant)
def test_each_asynchronous_event_is_named_with_what_it_means(event: AsyncEvent, run: Run) -> None:
    found, calls, _ = run(f"{LINUX_SCRIPT}on post_send times=1 event={event.number}\n", SEND)
    assert only(found).state is CellState.VERIFIED
    assert {each.name for each in found.events} == {event.constant}
    assert all(each.meaning and each.device == "mlx5_0" for each in found.events)
    if event.of == "port":
        assert {each.port for each in found.events} == {1}
    assert calls.count("ibv_ack_async_event") == len(found.events)


def test_an_event_that_is_newer_than_the_table_keeps_its_number(run: Run) -> None:
    found, _, _ = run(f"{LINUX_SCRIPT}on post_send times=1 event=99\n", SEND)
    assert [(each.number, each.name, each.meaning) for each in found.events] == [(99, None, None)]


@pytest.mark.slow
def test_events_without_end_do_not_keep_a_run_from_its_end(run: Run) -> None:
    found, _, _ = run(f"{LINUX_SCRIPT}on poll_cq times=400 event=9\n", SEND, SEND)
    assert found.outcome is RunOutcome.DONE
    assert len(found.events) <= 2 * 256
