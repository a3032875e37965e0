"""What two connected ends move: payloads that are compared, a timed loop, and a window.

One end or both may be held by this process. Each end's part is a generator that yields
whenever it has to wait, so that both run in one thread and every wait has a deadline.

By WRITE a payload has arrived once it stands in memory: both ends can make what is to come. By
READ each end fetches what the other one offers, which both must have done: a barrier.
"""

import random
import select
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.verbs.loop import Loop
from rdmadiag.verbs.open_end import OpenEnd
from rdmadiag.verbs.protocol import BANDWIDTH_BYTES_MAX

STALL_SECONDS: Final = {QpType.RC: 8.0, QpType.UC: 4.0, QpType.UD: 4.0}
"""Without anything arriving: RC with our retry limits has mostly given up before that (7
transmissions, TIMEOUT each at least, are 3.8 s); UC and UD never say that they lost anything."""

SMALL_BYTES: Final = 64
"""What larger payloads send first: less than the smallest MTU, so that a path that loses
large frames alone can be distinguished from one that loses all."""

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
    ends: Sequence[tuple[OpenEnd, bool]],
    seed: int,
    turn: int,
    glance: Callable[[], None],
    barrier: Callable[[str], object] = lambda step: None,
) -> None:
    """One message each way, compared byte by byte; `ends` with whether each sends first.

    Turn 0 is of SMALL_BYTES at most. Raises Differs, Stalled, and what the ends, `glance` and
    `barrier` raise.
    """
    fetches = ends[0][0].facts.op is DataOp.READ
    if fetches:
        for end, starts in ends:
            end.offer(content(seed, turn, starts, _length(end, turn)))
        barrier(f"offered{turn}")
    until = time.monotonic() + _stall_seconds(ends)
    part = _TURNS[ends[0][0].facts.op]
    _through([part(end, seed, turn, starts=starts) for end, starts in ends], ends, until, glance)
    if fetches:
        barrier(f"fetched{turn}")


def _through(
    waiting: "list[Iterator[None]]",
    ends: Sequence[tuple[OpenEnd, bool]],
    until: float,
    glance: Callable[[], None],
) -> None:
    """All parts to their end; raises Stalled."""
    looked = time.monotonic()
    while waiting:
        waiting = [each for each in waiting if next(each, _OVER) is not _OVER]
        now = time.monotonic()
        if now - looked > _SLICE_SECONDS:
            looked = now
            glance()
        if waiting and now > until:
            raise Stalled
        if waiting:
            _doze([end for end, _ in ends])


def _doze(ends: Sequence[OpenEnd]) -> None:
    """Where they have completion channels, until one of them has an event, or a slice."""
    by_fd = {end.channel.fd: end for end in ends if end.channel}
    if by_fd:
        for descriptor in select.select(list(by_fd), [], [], _SLICE_SECONDS)[0]:
            by_fd[descriptor].woken()


_OVER: Final = object()


def _length(end: OpenEnd, turn: int) -> int:
    length = end.facts.payload_bytes
    return length if turn else min(length, SMALL_BYTES)


def _turn(end: OpenEnd, seed: int, turn: int, *, starts: bool) -> Iterator[None]:
    length = _length(end, turn)
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


def _write_turn(end: OpenEnd, seed: int, turn: int, *, starts: bool) -> Iterator[None]:
    length = _length(end, turn)
    mine, theirs = (content(seed, turn, who, length) for who in (starts, not starts))
    half = time.monotonic() + _patience(end)
    if starts:
        end.send(mine)
    while (got := end.received(length)) != theirs:
        if any(got) and time.monotonic() > half:
            raise Differs(end, _difference(got, theirs))
        end.poll()
        yield
    end.clear()  # the other end writes again only after an answer
    if not starts:
        end.send(mine)
    while end.sends:
        end.poll()
        yield


def _read_turn(end: OpenEnd, seed: int, turn: int, *, starts: bool) -> Iterator[None]:
    length = _length(end, turn)
    end.post(length)
    while end.sends:
        end.poll()
        yield
    theirs = content(seed, turn, not starts, length)
    if (got := end.received(length)) != theirs:
        raise Differs(end, _difference(got, theirs))


_TURNS: Final = {DataOp.SEND: _turn, DataOp.WRITE: _write_turn, DataOp.READ: _read_turn}


def _patience(end: OpenEnd) -> float:
    """For the rest of a WRITE of which a part has come, to memory that was all zeros."""
    return STALL_SECONDS[end.facts.qp_type] / 2


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

    That loop sends the first turn's message again and again, by WRITE with the number of the
    round as its last byte, or fetches it. Raises what `verified` raises.
    """
    looked = time.monotonic()
    for done in range(1, iterations + 1):
        op = ends[0][0].facts.op
        if op is DataOp.SEND:
            verified(ends, seed, 1, glance)
        else:
            until = time.monotonic() + _stall_seconds(ends)
            part = _counted_write if op is DataOp.WRITE else _fetch
            _through([part(end, done, starts=starts) for end, starts in ends], ends, until, glance)
        if time.monotonic() - looked > _SLICE_SECONDS or done == iterations:
            looked = time.monotonic()
            progress(done)
            glance()


def _counted_write(end: OpenEnd, done: int, *, starts: bool) -> Iterator[None]:
    length, count = end.facts.payload_bytes, bytes([done & 0xFF])
    if starts:
        end.count(count)
        end.post(length)
    while end.received(length)[-1:] != count:
        end.poll()
        yield
    if not starts:
        end.count(count)
        end.post(length)
    while end.sends:
        end.poll()
        yield


def _fetch(end: OpenEnd, _done: int, *, starts: bool) -> Iterator[None]:
    if starts:
        end.post(end.facts.payload_bytes)
    while end.sends:
        end.poll()
        yield


def streamed(
    end: OpenEnd, window: int, seconds: float, glance: Callable[[], None]
) -> tuple[int, float]:
    """How many messages a window of so many moved, and the time from first to last in seconds.

    Nothing is posted after `seconds`, or BANDWIDTH_BYTES_MAX. Raises Stalled, and what the end
    and `glance` raise.
    """
    length = end.facts.payload_bytes
    left = max(1, BANDWIDTH_BYTES_MAX // length)
    messages = 0
    began = looked = arrived = time.monotonic()
    until = began + seconds
    stall_seconds = STALL_SECONDS[end.facts.qp_type]
    while True:
        now = time.monotonic()
        while left and end.sends < window and (now < until or not messages):
            end.post(length)
            left -= 1
            messages += 1
        if not end.sends:
            return messages, arrived - began
        before = end.sends
        end.poll()
        now = time.monotonic()
        if end.sends < before:
            arrived = now
        elif now - arrived > stall_seconds:
            raise Stalled
        else:
            _doze([end])
        if now - looked > _SLICE_SECONDS:
            looked = now
            glance()


def stands(end: OpenEnd, seed: int, turn: int, *, from_first: bool) -> None:
    """What a window left at this end is what the other one sent; raises Differs."""
    length = end.facts.payload_bytes
    theirs = content(seed, turn, from_first, length)
    until = time.monotonic() + _LEFT_SECONDS
    while (got := end.received(length)) != theirs:
        if time.monotonic() > until:
            raise Differs(end, _difference(got, theirs))
        time.sleep(_SLICE_SECONDS)
    end.clear()


_LEFT_SECONDS: Final = 1.0  # UC: a WRITE that has completed has left, no more
