"""`rdmadiag exercise` between two kernels: every cell, and a peer that is not there to the end."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.attempt import Attempt

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = 60.0
WAITED_SECONDS = 25.0  # more than any listener waits for the other end

Barrier = Callable[..., None]
Exchange = Callable[..., Any]
Start = Callable[..., Attempt]


@pytest.fixture
def exercise(start: Start) -> Start:
    def call(*options: str, deadline: float = SECONDS) -> Attempt:
        return start(*options, deadline=deadline, command="exercise")

    return call


def states(document: Any) -> dict[tuple[str, str, str], tuple[str, str | None]]:
    return {
        (each["operation"], each["qp_type"], each["via"]): (each["state"], each["cause"])
        for each in document["cells"]
    }


def test_every_cell_is_verified_between_two_hosts_and_both_say_so(
    role: str, exercise: Start, exchange: Exchange
) -> None:
    ended = exercise().end(waits=WAITED_SECONDS)
    ours = ended.document
    others = {cell: said for cell, said in states(ours).items() if said[0] != "verified"}
    assert (others, ours["outcome"], ours["teardown"]) == ({}, "done", "clean")
    assert (ended.code, ours["role"]) == (0, "listen" if role == "left" else "connect")
    assert len(ours["cells"]) >= 44
    assert exchange("cells", [*map(list, states(ours))]) == [*map(list, states(ours))]
