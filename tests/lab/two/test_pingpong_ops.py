"""`rdmadiag pingpong` by WRITE and READ, by events and as a window, between two kernels."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.attempt import Attempt

pytestmark = pytest.mark.usefixtures("nothing_left")

WAITED_SECONDS = 20.0  # more than any listener waits for the other end

Start = Callable[..., Attempt]
Exchange = Callable[..., Any]


@pytest.mark.other_kernels(4)
@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [
        ("--op=write", "--iterations=600"),
        ("--op=write", "--qp=uc", "--bytes=4097"),
        ("--op=read", "--bytes=65536"),
        ("--events",),
        ("--sge=3", "--inline=64", "--sq-depth=4"),
    ],
    ids=" ".join,
)
def test_data_is_verified_both_ways(
    options: tuple[str, ...], role: str, start: Start, exchange: Exchange
) -> None:
    ended = start(*options).end(waits=WAITED_SECONDS)
    assert ended.result() == (0, "verified", "done"), ended.document["summary"]
    ours = ended.document
    assert (ours["data_verified"], ours["teardown"]) == (True, "clean")
    assert (ours["latency_us"] is None) is (role == "left")
    assert exchange("rounds", None) is None


@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", ["write", "read"])
def test_a_window_has_a_figure_at_the_end_that_connects(op: str, role: str, start: Start) -> None:
    ended = start(f"--op={op}", "--bandwidth=1", "--bytes=65536").end(waits=WAITED_SECONDS)
    assert ended.result() == (0, "verified", "done"), ended.document["summary"]
    found = ended.document["bandwidth"]
    if role == "left":
        assert found is None
        return
    assert (found["op"], found["bytes"], found["data_verified"]) == (op, 65536, True)
    assert 0 < found["seconds"] < 4
    assert found["messages"] >= 1


def test_ends_of_two_minds_open_no_device(role: str, start: Start) -> None:
    ended = start("--op=write" if role == "left" else "--op=read").end(waits=WAITED_SECONDS)
    assert ended.result() == (3, "mismatch", "agree")
    assert [each["code"] for each in ended.document["problems"]] == ["op_mismatch"]
    assert not ended.document["touched"]
