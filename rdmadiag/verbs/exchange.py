"""What two connected ends send each other: payloads that are compared, and a timed loop.

One end or both may be held by this process. Each end's part is a generator that yields
whenever it has to wait, so that both run in one thread and every wait has an end.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rdmadiag.verbs.end import DEPTH, End
from rdmadiag.verbs.loop import Loop, Side, open_loop

STALL_SECONDS: Final = 4.0
"""Without anything arriving: a queue pair with our retry limits has given up before that
(8 transmissions, 4 x TIMEOUT each at most, are 2.1 s)."""

_SLICE_SECONDS: Final = 0.02  # between two looks at the peer, the signals and the deadline


class Stalled(Exception):
    """Nothing arrives any more, and no completion says why."""


class Differs(Exception):
    """A message that is not the one that was sent."""

    def __init__(self, end: End, text: str) -> None:
        super().__init__(text)
        self.end = end


def content(seed: int, turn: int, from_first: bool, length: int) -> bytes:
    """What one message carries; both ends can make it, and no two turns share it."""
    return random.Random(f"{seed} {turn} {from_first}").randbytes(length)  # noqa: S311  # a pattern


def verified(
    ends: Sequence[tuple[End, bool]], seed: int, turn: int, glance: Callable[[], None]
) -> None:
    """One message each way, compared byte by byte; `ends` with whether each sends first.

    Raises Differs, Stalled, and what the ends and `glance` raise.
    """
    until = time.monotonic() + STALL_SECONDS
    waiting = [_turn(end, seed, turn, starts=starts) for end, starts in ends]
    looked = time.monotonic()
    while waiting:
        waiting = [each for each in waiting if next(each, _OVER) is not _OVER]
        now = time.monotonic()
        if now - looked > _SLICE_SECONDS:
            looked = now
            glance()
        if waiting and now > until:
            raise Stalled


_OVER: Final = object()


def _turn(end: End, seed: int, turn: int, *, starts: bool) -> Iterator[None]:
    length = end.local.payload
    mine, theirs = (content(seed, turn, who, length) for who in (starts, not starts))
    if starts:
        end.send(mine)
    while (got := end.arrived()) is None:
        yield
    if got != theirs:
        raise Differs(end, _difference(got, theirs))
    if not starts:
        end.send(mine)
    while end.sends:
        end.poll()
        yield


def _difference(got: bytes, expected: bytes) -> str:
    if len(got) != len(expected):
        return f"{len(got)} bytes arrived, {len(expected)} were sent"
    places = [at for at, (one, other) in enumerate(zip(got, expected, strict=True)) if one != other]
    return f"{len(places)} of {len(expected)} bytes differ, the first at offset {places[0]}"


def timed(
    sides: Sequence[Side],
    iterations: int,
    glance: Callable[[], None],
    progress: Callable[[int], None],
) -> Loop:
    """`iterations` round trips; raises Stalled, loop.Stopped and what `glance` raises.

    `progress` is told the round trips that are done, at most once a slice.
    """
    loop = open_loop(sides, iterations, DEPTH)
    rounds, since = 0, time.monotonic()
    while not loop.run(time.monotonic() + _SLICE_SECONDS):
        now = time.monotonic()
        if loop.rounds != rounds:
            rounds, since = loop.rounds, now
            progress(rounds)
        glance()
        if now - since > STALL_SECONDS:
            raise Stalled
    return loop
