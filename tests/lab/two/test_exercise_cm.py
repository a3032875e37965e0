"""`exercise --cm` between two kernels: the matrix on soft RoCE and soft iWARP, and who goes."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, until
from lab.resources import is_connected, unchanged
from lab.rxe import Rxe
from tests.lab.two.test_cm import device  # noqa: F401  # a fixture
from tests.lab.two.test_exercise import secret, states

SECONDS = 90.0
WAITED_SECONDS = 60.0  # more than any listener waits for the other end
READY_SECONDS = 60.0
BY_HAND_ALONE = {"reset", "sqd", "alt_path"}
LEFT_ON_SIW = {
    *("send_imm", "write_imm", "cmp_swap", "fetch_add", "send_solicited"),
    *("resize_cq", "mw_type_1", "mw_type_2", "send_inv"),
}
"""As in tests/lab/guest/test_exercise_cm.py, which says why."""

Exchange = Callable[..., Any]
Start = Callable[..., Attempt]


@pytest.fixture
def exercise(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    device: str,  # noqa: F811
    attempts: Attempts,
    exchange: Exchange,
) -> Iterator[Start]:
    """`exercise(*options)`: this host's end; the left one listens. Afterwards nothing is left."""

    def call(*options: str, deadline: float = SECONDS) -> Attempt:
        own = ("--allow-rtr", f"--device={device}", *options)
        how: Any = {"deadline": deadline, "command": "exercise"}
        if role == "left":
            attempt, number = attempts.listen(rxe.ipv4, *own, **how)
            exchange("listening", number)
            return attempt
        number = exchange("listening", None)
        return attempts.start(*own, f"{peer.ipv4}:{number}", **how)

    with unchanged():
        yield call


@pytest.mark.other_kernels(2)
@pytest.mark.stock
def test_each_cell_that_it_can_is_connected_and_verified_between_two_hosts(
    exercise: Start,
    exchange: Exchange,
    device: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    ended = exercise("--cm", "--qp=rc", secret(tmp_path, "left")).end(waits=WAITED_SECONDS)
    ours = ended.document
    left = {cell[0]: said[0] for cell, said in states(ours).items() if said[0] != "verified"}
    absent = LEFT_ON_SIW if device == "siw0" else set()
    assert left.keys() == BY_HAND_ALONE | absent, ours["cells"]
    # Of an alternate path soft iWARP claims nothing.
    assert {left[each] for each in BY_HAND_ALONE if each != "alt_path"} == {"not_tried"}
    assert left["alt_path"] == ("not_claimed" if device == "siw0" else "not_tried")
    assert (ours["outcome"], ours["teardown"]) == ("done", "clean")
    assert ended.code == (2 if absent else 0)
    said = sorted([*cell, state] for cell, (state, _) in states(ours).items())
    assert exchange("cells", said) == said


def test_an_end_by_hand_and_one_by_the_manager_do_not_fit(
    role: str,
    exercise: Start,
    device: str,  # noqa: F811
) -> None:
    if device == "siw0":
        pytest.skip("by hand there is nothing on iWARP")
    options = ("--cm", "--only=send") if role == "left" else ("--only=send",)
    ended = exercise(*options).end(waits=WAITED_SECONDS)
    assert (ended.code, ended.document["outcome"]) == (3, "mismatch"), ended.document
    assert ended.document["problems"][0]["code"] == "cm_mismatch"


@pytest.mark.sampled(2)
def test_a_peer_that_is_killed_is_lost_and_nothing_is_left(
    role: str,
    exercise: Start,
    exchange: Exchange,
    device: str,  # noqa: F811
) -> None:
    started = exercise("--cm", "--qp=rc")
    if role == "left":
        assert until(lambda: started.has_ended() or is_connected(device), READY_SECONDS)
        child = started.child()
        started.kill(signal.SIGKILL)
        exchange("killed", child)
        return
    exchange("killed", None)
    ended = started.end(waits=WAITED_SECONDS)
    assert ended.document["outcome"] in ("peer_lost", "peer_failed"), ended.document
    assert (ended.code, ended.document["teardown"]) == (2, "clean")
