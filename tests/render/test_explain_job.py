"""The story of a job as text: the answer in the first line, the lists cut."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from rdmadiag.explain.job.alignment import Setting
from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.compose import compose
from rdmadiag.explain.job.progress import Behind
from rdmadiag.explain.job.story import NotUnderstood, Silence, Silent, Story
from rdmadiag.render.console import console
from rdmadiag.render.explain_job import answer, show_job
from tests.explain.job.planted import Job
from tests.explain.job.telling import placed

NOTHING = compose(Collected())
LINK = (
    "[2026-03-13 12:00:00] node4:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n"
)


def text(story: Story, *, quiet: bool = False) -> str:
    out = io.StringIO()
    show_job(story, console(out), quiet=quiet)
    return out.getvalue()


def silent(why: Silence, *ranks: int, host: str | None = None) -> Silent:
    return Silent(host, ranks, why, "x")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda story: story, "there is nothing in these files"),
        (
            lambda story: replace(story, silent=(silent(Silence.DEAD, 1, 2),)),
            "nothing of RDMA is said to have failed; 2 ranks are silent",
        ),
        (
            lambda story: replace(story, silent=(silent(Silence.DEAD, 1, host="n1"),)),
            "nothing of RDMA is said to have failed; 1 host is silent: n1",
        ),
        (
            lambda story: replace(story, not_understood=(NotUnderstood("a", 1, "b", 2),)),
            "something failed here that may be RDMA: a line is not understood",
        ),
        (
            lambda story: replace(story, behind=(Behind("ras", "c", None, 9, (), (), 1),)),
            (
                "nothing of RDMA is said to have failed; 1 rank waits in an operation 9, which "
                "rank some did not enter"
            ),
        ),
    ],
)
def test_the_answer_where_nothing_failed(change: Callable[[Story], Story], expected: str) -> None:
    story = change(NOTHING)
    assert answer(story) == expected
    assert text(story).startswith(f"UNKNOWN  {expected}")


def test_a_port_that_failed_has_no_peer() -> None:
    assert answer(placed({"log": LINK})) == "node4 (mlx5_0) failed at data: port error at 12:00:00"


def test_quiet_is_the_answer_alone() -> None:
    assert text(placed({"log": LINK}), quiet=True).count("\n") == 1


def test_lists_that_are_long_are_cut_and_say_so() -> None:
    story = replace(
        NOTHING,
        silent=tuple(silent(Silence.NO_LOG, 2 * each, 2 * each + 1) for each in range(20)),
        behind=(Behind("ras", "c", "AllReduce", 9, (1, 2, 3, 7), ("n1",), 12),),
        clocks=tuple(
            Setting(f"n{each}", "uptime", offset, basis, 1)
            for each, (offset, basis) in enumerate(
                [(1.5, "two-clocks"), (None, "none"), (9.0, "broken-connection")] * 3
            )
        ),
        not_understood=tuple(NotUnderstood("a", each, f"line {each}", 3) for each in range(9)),
        unused_reports=tuple(f"report {each}" for each in range(9)),
        dropped=4,
    )
    shown = text(story)
    for each in (
        "and 8 more; --json has all of them",
        "ranks 1-3, 7 (n1) did not enter AllReduce 9, where 12 are  [ras]",
        "+1.5 s, by lines that name both",
        "its lines are not ordered",
        "and 3 more; --json has them",
        "(3 times)",
        "4 further lines left out.",
    ):
        assert each in shown, each


def test_many_kinds_of_failures_are_cut() -> None:
    lines = "".join(
        f"n:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with {number} x, on dev mlx5_0:1, "
        "next state RTR\n"
        for number in (22, 110, 113, 101, 12, 14, 19, 5)
    )
    story = placed({"a.log": lines, "b.log": LINK})
    shown = text(story)
    assert "more kinds; --json has all of them" in shown
    assert "Not all lines have a clock that compares" in shown


def test_what_hosts_write_reaches_no_terminal() -> None:
    files = {
        f"\x1b[31m{number}": LINK.replace("port error", "port error \x1b]0;x\x07")
        for number in range(2)
    }
    assert "\x1b" not in text(placed(files))


def test_who_spoke_of_it_is_told_by_spans() -> None:
    shown = text(
        placed(
            {
                f"rank{rank}": "".join(f"{line}\n" for _, line in Job().stamped(rank))
                for rank in range(16)
            }
        )
    )
    assert "0 to 1 s:" in shown
    assert "1 to 10 s:" in shown
    assert "12 lines of aborts and watchdogs" in shown
