"""rdmadiag exercise, as far as it comes on a host without a device."""

from collections.abc import Callable

import pytest

from rdmadiag.cli.exercise import _code
from rdmadiag.facts.attempt import Teardown
from rdmadiag.facts.exercise import Cell, CellState, Exercise, Operation, RunOutcome, Via
from rdmadiag.verbs.exercise import Ran

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


def test_without_leave_nothing_is_looked_at(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("exercise")
    assert (code, err) == (3, "")
    assert out.startswith("NOT ATTEMPTED  ")
    assert "--allow-rtr" in out
    document = rdmadiag("exercise", "--json").document
    assert (document["outcome"], document["cells"], document["touched"]) == (
        "not_allowed",
        [],
        False,
    )


@pytest.mark.parametrize("command", ["pingpong", "exercise"])
@pytest.mark.parametrize(
    "asked", [(), ("--device", "mlx5_0", "192.0.2.1"), ("--listen", "192.0.2.1")], ids=" ".join
)
def test_the_line_to_paste_is_for_what_was_asked(
    command: str, asked: tuple[str, ...], rdmadiag: Rdmadiag
) -> None:
    lines = [line.strip() for line in rdmadiag(command, *asked).out.splitlines()]
    assert " ".join(("rdmadiag", command, "--allow-rtr", *asked)) in lines


def test_leave_is_not_taken_from_a_variable(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_EXERCISE_ALLOW_RTR", "1")
    assert rdmadiag("exercise").code == 3


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--only", "send,fly"], "fly"),
        (["--qp", "dc"], "dc"),
        (["--only", "read", "--qp", "ud"], "read"),
        (["--device", "a", "--device", "b", "--device", "c"], "--device"),
        (["--accept-risk", "nonsense"], "nonsense"),
        (["--listen", "192.0.2.1", "192.0.2.2"], "--listen"),
        (["--listen", "0.0.0.0"], "never all of them"),
        (["--device", "a", "--device", "b", "192.0.2.2"], "--device"),
        (["--secret-file", "/nonexistent/secret", "192.0.2.2"], "/nonexistent/secret"),
        ([""], "empty"),
    ],
    ids=[
        "an operation",
        "a type",
        "no cell at all",
        "three devices",
        "a risk",
        "both ways to meet",
        "every address",
        "two devices and a peer",
        "a secret that is not there",
        "no address",
    ],
)
def test_what_makes_no_sense_is_one_line(argv: list[str], word: str, rdmadiag: Rdmadiag) -> None:
    code, _, err = rdmadiag("exercise", "--allow-rtr", *argv)
    assert (code, err.count("\n")) == (64, 1)
    assert word in err


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ((), 3),
        ((CellState.NOT_CLAIMED, CellState.NOT_TRIED), 3),
        ((CellState.VERIFIED, CellState.NOT_CLAIMED), 0),
        ((CellState.VERIFIED, CellState.REFUSED), 2),
        ((CellState.FAILED,), 2),
    ],
)
def test_a_run_that_tried_nothing_is_not_one_that_verified_all(
    states: tuple[CellState, ...], code: int
) -> None:
    run = Exercise(
        outcome=RunOutcome.DONE,
        summary="",
        platform="linux",
        device="mlx5_0",
        port=1,
        peer_device=None,
        gid_index=1,
        cells=tuple(Cell(Operation.SEND, "rc", Via.POLL, each) for each in states),
        teardown=Teardown.CLEAN,
        touched=True,
        seconds=1.0,
    )
    assert _code(Ran(run, (), ())) == code
