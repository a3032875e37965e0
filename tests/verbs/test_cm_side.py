"""Cells of `exercise` that the connection manager connects, on the fake librdmacm."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import free_port
from rdmadiag.facts.attempt import Stage, Teardown
from rdmadiag.facts.exercise import CellState, Exercise, Operation, RunOutcome, Via, Wanted
from rdmadiag.verbs.exercise import conclude
from rdmadiag.verbs.matrix import MATRIX
from rdmadiag.verbs.records import ExerciseRequest, Malformed, Record, encode, parse
from rdmadiag.verbs.watchdog import Watched, watch
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT
from tests.verbs.test_exercise_child import BOTH, states

ADDRESS = "192.0.2.1"
ADDRESSES = f"address {ADDRESS} mlx5_0 1\naddress 198.51.100.1 mlx5_0 2\n"
SEND = Wanted(Operation.SEND, "rc", Via.POLL)
READ = Wanted(Operation.READ, "rc", Via.CHANNEL)
POLLED_READ = Wanted(Operation.READ, "rc", Via.POLL)
FLUSH = Wanted(Operation.FLUSH, "rc", Via.POLL)

PROGRAM = Path(__file__).with_name("cm_two_ends.py")

Run = Callable[..., tuple[Exercise, Any, str]]


@pytest.fixture
def run(fake_cm: Any, tmp_path: Path) -> Run:
    node = tmp_path / "rdma_cm"
    node.touch()

    def tried(
        cm_rules: str = "",
        *cells: Wanted,
        rules: str = "",
        address: str = ADDRESS,
        seconds: float = 60.0,
        node: Path = node,
    ) -> tuple[Exercise, Any, str]:
        fake = fake_cm(LINUX_SCRIPT + rules, ADDRESSES + cm_rules)
        start = time.monotonic()
        asked = ExerciseRequest(
            platform="linux",
            library=str(fake.verbs.library),
            start=start,
            deadline=start + seconds,
            ends=(LINUX_END, LINUX_END),
            meet=None,
            host="",
            port=0,
            until=0.0,
            secret=None,
            cells=cells or (SEND, READ),
            cm_library=str(fake.library),
            node=str(node),
            addresses=((address,), (address,)),
        )
        with pytest.MonkeyPatch.context() as patch:
            for name, value in fake.environ.items():
                patch.setenv(name, value)
            watched = watch(asked, 1.0, module="exercise_child")
        assert isinstance(watched, Watched)
        return conclude(watched, BOTH, asked.cells, (), "linux"), fake, watched.stderr

    return tried


def test_cells_are_connected_verified_and_everything_is_destroyed(run: Run) -> None:
    found, fake, stderr = run("", SEND, READ, FLUSH)
    assert (found.outcome, states(found)) == (RunOutcome.DONE, [CellState.VERIFIED] * 3)
    assert (found.teardown, found.touched, stderr) == (Teardown.CLEAN, True, "")
    for made, destroyed in (
        ("rdma_create_qp", "rdma_destroy_qp"),
        ("rdma_create_event_channel", "rdma_destroy_event_channel"),
    ):
        assert fake.calls.count(made) == fake.calls.count(destroyed) > 0
    # One that listens, and two of each cell: librdmacm makes that of a request.
    assert (fake.calls.count("rdma_create_id"), fake.calls.count("rdma_destroy_id")) == (4, 7)


@pytest.mark.parametrize("via", Via)
def test_every_operation_of_a_connected_queue_pair_is_verified_or_refused_as_by_hand(
    run: Run, via: Via
) -> None:
    left = (Operation.RESET, Operation.ALT_PATH, Operation.SQD)
    cells = [Wanted(each, "rc", via) for each in MATRIX.get(("rc", via), ()) if each not in left]
    found, _, stderr = run("", *cells)
    refused = {each.call for each in found.cells if each.state is CellState.REFUSED}
    bad = [each for each in found.cells if each.state is CellState.FAILED]
    assert (found.outcome, bad, stderr, found.teardown) == (
        RunOutcome.DONE,
        [],
        "",
        Teardown.CLEAN,
    )
    assert refused <= {"ibv_create_srq", "ibv_alloc_mw", "ibv_resize_cq"}


@pytest.mark.parametrize(
    ("call", "stage"),
    [
        ("rdma_resolve_addr", Stage.RESOLVE_ADDRESS),
        ("rdma_resolve_route", Stage.RESOLVE_ROUTE),
        ("rdma_create_qp", Stage.CREATE_QP),
        ("rdma_connect", Stage.ESTABLISH),
        ("rdma_accept", Stage.ESTABLISH),
    ],
)
def test_a_refused_cell_names_the_call_and_its_stage(run: Run, call: str, stage: Stage) -> None:
    found, _, stderr = run(f"on {call} errno=12\n", SEND)
    (cell,) = found.cells
    assert (cell.state, cell.call, cell.errno_name) == (CellState.REFUSED, call, "ENOMEM")
    assert cell.stage is stage
    assert (found.outcome, found.teardown, stderr) == (RunOutcome.DONE, Teardown.CLEAN, "")


@pytest.mark.parametrize(
    ("rule", "stage", "words"),
    [
        ("instead ADDR_RESOLVED ADDR_ERROR -110", Stage.RESOLVE_ADDRESS, "ADDR_ERROR"),
        ("instead ROUTE_RESOLVED ROUTE_ERROR -22", Stage.RESOLVE_ROUTE, "ROUTE_ERROR"),
        ("instead ESTABLISHED REJECTED 8", Stage.ESTABLISH, "8 invalid_service_id"),
        ("instead ESTABLISHED UNREACHABLE -110", Stage.ESTABLISH, "ETIMEDOUT"),
    ],
)
def test_another_event_than_was_to_come_is_a_failed_cell(
    run: Run, rule: str, stage: Stage, words: str
) -> None:
    found, _, stderr = run(f"{rule}\n", SEND)
    (cell,) = found.cells
    assert (cell.state, cell.stage) == (CellState.FAILED, stage)
    assert words in (cell.cause or "")
    assert (found.outcome, found.teardown, stderr) == (RunOutcome.DONE, Teardown.CLEAN, "")


def test_strangers_at_the_listener_are_rejected_and_end_nothing(run: Run) -> None:
    found, fake, stderr = run("request -\nrequest 00ff\n")
    assert states(found) == [CellState.VERIFIED] * 2
    assert fake.calls.count("rdma_reject") == 2
    assert (found.teardown, stderr) == (Teardown.CLEAN, "")


def test_an_address_of_another_port_ends_it_before_anything_is_made(run: Run) -> None:
    found, fake, _ = run(address="198.51.100.1")
    assert found.outcome is RunOutcome.MISMATCH
    assert found.problems[0].code == "another_device"
    assert "rdma_create_qp" not in fake.calls
    assert not found.touched


def test_without_its_node_librdmacm_is_never_loaded(run: Run) -> None:
    found, fake, _ = run(node=Path("/nonexistent/rdma_cm"))
    assert (found.outcome, found.touched) == (RunOutcome.CALL_FAILED, False)
    assert fake.calls == []
    assert "/nonexistent/rdma_cm" in found.summary


@pytest.mark.slow
def test_an_event_that_never_comes_is_a_failed_cell(run: Run) -> None:
    found, _, stderr = run("drop ROUTE_RESOLVED\n", SEND)
    (cell,) = found.cells
    assert (cell.state, cell.cause) == (
        CellState.FAILED,
        "no RDMA_CM_EVENT_ROUTE_RESOLVED came",
    )
    assert stderr == ""


# --- between two -------------------------------------------------------------------------


@pytest.fixture
def two(fake_cm: Any, tmp_path: Path) -> Callable[..., tuple[list[Record], list[Record]]]:
    """Both ends in one process, over the fake libraries: their records."""

    def run(
        cells: tuple[Wanted, ...] = (SEND, POLLED_READ),
        *,
        managed: tuple[bool, bool] = (True, True),
        secrets: tuple[str | None, str | None] = (None, None),
        cm_rules: str = "",
    ) -> tuple[list[Record], list[Record]]:
        fake = fake_cm(LINUX_SCRIPT, ADDRESSES + cm_rules)
        node = tmp_path / "node"
        node.touch()
        number, now = free_port(), time.monotonic()
        requests = [
            ExerciseRequest(
                platform="linux",
                library=str(fake.verbs.library),
                start=now,
                deadline=now + 40.0,
                ends=(LINUX_END,),
                meet=meet,  # type: ignore[arg-type]
                host="127.0.0.1",
                port=number,
                until=now + 20.0,
                secret=secret,
                cells=cells,
                cm_library=str(fake.library) if by_cm else "",
                node=str(node),
                addresses=((ADDRESS,),),
            )
            for meet, by_cm, secret in zip(("listen", "connect"), managed, secrets, strict=True)
        ]
        files = [tmp_path / "here", tmp_path / "there"]
        ran = subprocess.run(
            [sys.executable, PROGRAM, *files],
            input=b"".join(map(encode, requests)),
            env=os.environ | fake.environ | {"PYTHONPATH": str(PROGRAM.parents[2])},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")
        found = [[parse(line) for line in file.read_bytes().splitlines()] for file in files]
        assert not any(isinstance(each, Malformed) for records in found for each in records)
        return found[0], found[1]  # type: ignore[return-value]

    return run


def of(found: list[Record], role: Any, cells: tuple[Wanted, ...]) -> Exercise:
    how: Any = {"unkillable": False, "signal": None, "pid": 1, "seconds": 1.0, "stderr": ""}
    watched = Watched(tuple(found), 0, **how)
    return conclude(watched, BOTH[:1], cells, (), "linux", role)


@pytest.mark.parametrize("secret", [None, bytes(range(32)).hex()], ids=["none", "secret"])
def test_two_hosts_connect_each_cell_and_both_say_what_came_of_it(
    two: Any, secret: str | None
) -> None:
    cells = (SEND, POLLED_READ)
    for role, records in zip(
        ("listen", "connect"), two(cells, secrets=(secret, secret)), strict=True
    ):
        found = of(records, role, cells)
        assert (found.outcome, states(found)) == (RunOutcome.DONE, [CellState.VERIFIED] * 2)
        assert (found.teardown, found.touched) == (Teardown.CLEAN, True)


def test_strangers_at_the_manager_of_the_end_that_listens_end_nothing(two: Any) -> None:
    here, there = two(cm_rules="request -\nrequest 00ff\n")
    for role, records in (("listen", here), ("connect", there)):
        found = of(records, role, (SEND, POLLED_READ))
        assert states(found) == [CellState.VERIFIED] * 2
        assert found.teardown is Teardown.CLEAN


@pytest.mark.parametrize("managed", [(True, False), (False, True)])
def test_an_end_by_hand_and_one_by_the_manager_do_not_fit(
    two: Any, managed: tuple[bool, bool]
) -> None:
    for role, records in zip(("listen", "connect"), two(managed=managed), strict=True):
        found = of(records, role, (SEND, POLLED_READ))
        assert (found.outcome, found.touched) == (RunOutcome.MISMATCH, False)
        assert [each.code for each in found.problems] == ["cm_mismatch"]
