"""What two connected ends send each other: payloads that are compared, and a timed loop.

One end or both may be held by this process. Each end's part is a generator that yields
whenever it has to wait, so that both run in one thread and every wait has a deadline.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rdmadiag.facts.ib import QpType
from rdmadiag.verbs.loop import Loop
from rdmadiag.verbs.open_end import OpenEnd

STALL_SECONDS: Final = {QpType.RC: 8.0, QpType.UC: 4.0}
"""Without anything arriving: RC with our retry limits has mostly given up before that (7
transmissions, TIMEOUT each at least, are 3.8 s); UC never says that it lost anything."""

SMALL_BYTES: Final = 64
"""What larger payloads send first: less than the smallest MTU, so that a path that loses
large frames alone can be told from one that loses all."""

_SLICE_SECONDS: Final = 0.02  # between two looks at the peer, the signals and the deadline


class Stalled(Exception):
    """Nothing arrives any more, and no completion says why."""


class Differs(Exception):
    """A message that is not the one that was sent."""

    def __init__(self, end: OpenEnd, text: str) -> None:
        super().__init__(text)
        self.end = end


def content(seed: int, turn: int, from_first: bool, length: int) -> bytes:
    """What one message carries; both ends can make it, and no two turns share it."""
    return random.Random(f"{seed} {turn} {from_first}").randbytes(length)  # noqa: S311  # a pattern


def verified(
    ends: Sequence[tuple[OpenEnd, bool]], seed: int, turn: int, glance: Callable[[], None]
) -> None:
    """One message each way, compared byte by byte; `ends` with whether each sends first.

    Turn 0 is of SMALL_BYTES at most. Raises Differs, Stalled, and what the ends and `glance`
    raise.
    """
    until = time.monotonic() + _stall_seconds(ends)
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


def _turn(end: OpenEnd, seed: int, turn: int, *, starts: bool) -> Iterator[None]:
    length = end.facts.payload_bytes
    if not turn:
        length = min(length, SMALL_BYTES)
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


def _stall_seconds(ends: Sequence[tuple[OpenEnd, bool]]) -> float:
    return max(STALL_SECONDS[end.facts.qp_type] for end, _ in ends)


def timed(
    loop: Loop, stall_seconds: float, glance: Callable[[], None], progress: Callable[[int], None]
) -> None:
    """All round trips of `loop`; raises Stalled, loop.Stopped and what `glance` raises.

    Stalled is nothing that arrives for `stall_seconds`.

    `progress` is called with the round trips that are done, at most once a slice.
    """
    rounds, since = 0, time.monotonic()
    while not loop.run(time.monotonic() + _SLICE_SECONDS):
        now = time.monotonic()
        if loop.rounds != rounds:
            rounds, since = loop.rounds, now
            progress(rounds)
        glance()
        if now - since > stall_seconds:
            raise Stalled


def untimed(
    ends: Sequence[tuple[OpenEnd, bool]],
    seed: int,
    iterations: int,
    glance: Callable[[], None],
    progress: Callable[[int], None],
) -> None:
    """As many round trips as the peer's timed loop makes, where this host has none compiled.

    That loop sends the first turn's message again and again. Raises what `verified` raises.
    """
    looked = time.monotonic()
    for done in range(1, iterations + 1):
        verified(ends, seed, 1, glance)
        if time.monotonic() - looked > _SLICE_SECONDS or done == iterations:
            looked = time.monotonic()
            progress(done)
            glance()
