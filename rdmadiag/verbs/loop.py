"""The timed loop of a pingpong: posts and polls without a look at anything else.

_loop.c runs it where it was compiled, and Python where not: the same steps and the same
results, about a microsecond later for each half round trip; `overhead_us` measures that.
It makes no object and destroys none; whoever calls it hands over addresses, and keeps what
stands there alive.

One thread runs one side, or both of a loopback. At the start a side has one receive posted
and no send outstanding; at the end it has so again.
"""

import ctypes
import os
import time
from collections.abc import Iterator, Sequence
from ctypes import CFUNCTYPE, byref, c_char, c_int, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.lib import CallFailed

COMPILED: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_loop.so")
"""What hatch_build.py makes of _loop.c, where there is a compiler."""

SEND: Final = 1
"""wr_id of every send; of a failed completion, opcode is not valid."""

RECEIVE: Final = 2
"""wr_id of every receive."""

BATCH: Final = 4
"""Completions taken at once; a side has one receive and rarely more than one send."""


@dataclass(frozen=True, slots=True)
class Side:
    """One queue pair, as addresses; both of its queues complete into one completion queue."""

    device: str
    qp: int
    cq: int
    post_send: int  # of struct ibv_context_ops
    post_recv: int
    poll_cq: int
    send_request: int  # struct ibv_send_wr: wr_id SEND, signaled
    receive_request: int  # struct ibv_recv_wr: wr_id RECEIVE
    starts: bool  # sends first, and takes the times
    payload: int  # bytes of every message


class Cause(StrEnum):
    """Why a loop stopped."""

    CALL_FAILED = "call_failed"
    BAD_COMPLETION = "bad_completion"
    UNEXPECTED = "unexpected"  # a receive beyond the last or before we sent; a send never posted
    WRONG_LENGTH = "wrong_length"


class Stopped(Exception):
    """The loop cannot go on. It is not to be run again: completions may be lost."""

    def __init__(
        self,
        cause: Cause,
        side: int,
        device: str,
        *,
        call: str | None = None,
        errno: int = 0,
        completion: IbvWc | None = None,
    ) -> None:
        self.cause = cause
        self.side = side
        """Its place among the sides."""
        self.device = device
        self.call = call
        """post_send, post_recv or poll_cq, where the cause is CALL_FAILED."""
        self.errno = errno
        self.status: int | None = None
        """Of the completion that stopped it; None where it was a call."""
        self.vendor_error = 0
        self.is_receive = False
        self.wrong_length: int | None = None
        """Bytes that arrived in place of the payload, where the cause is WRONG_LENGTH."""
        if completion is not None:
            self.status = completion.status
            # Of a success it is not defined.
            self.vendor_error = completion.vendor_err if completion.status else 0
            self.is_receive = completion.wr_id == RECEIVE
            if cause is Cause.WRONG_LENGTH:
                self.wrong_length = completion.byte_len
        what = f"{call}: errno {errno}" if call else f"{cause}: status {self.status}"
        super().__init__(f"{device}: {what}")


class Loop(Protocol):
    """So many rounds; both implementations."""

    kind: str
    """compiled or python."""

    completions: "ctypes.Array[IbvWc]"
    """What poll_cq fills."""

    def run(self, until: float) -> bool:
        """Go on until it is done (True), or until that time of time.monotonic (False).

        Returns within about a millisecond of it, if the library's calls do. Raises Stopped.
        """

    @property
    def rounds(self) -> int:
        """Messages that have arrived; of two sides, at the one with fewer."""

    @property
    def times_ns(self) -> list[int]:
        """Each full round trip of the side that starts; none where that is elsewhere."""


def open_loop(
    sides: Sequence[Side], iterations: int, depth: int, library: str | None = COMPILED
) -> Loop:
    """A loop of one side, or of two of which one starts; `depth` bounds the sends outstanding.

    Compiled where `library` can be loaded and is of this version, else in Python. Raises
    CallFailed where a device lacks one of the calls.
    """
    if not 1 <= len(sides) <= _MAX_SIDES or iterations < 1 or depth < 1:
        raise ValueError(f"{len(sides)} sides, {iterations} iterations, depth {depth}")
    if len(sides) == _MAX_SIDES and sides[0].starts == sides[1].starts:
        raise ValueError("of two sides, one starts")
    if not all(each.post_send and each.post_recv and each.poll_cq for each in sides):
        raise CallFailed("ibv_context_ops", 0)
    run = _compiled(library) if library else None
    if run is None:
        return PythonLoop(sides, iterations, depth)
    return CompiledLoop(run, sides, iterations, depth)


# --- compiled ------------------------------------------------------------------------------

_MAX_SIDES: Final = 2
_LAYOUT_REVISION: Final = 1
_DONE: Final = 0
_AGAIN: Final = 1
_CAUSES: Final = {
    2: Cause.CALL_FAILED,
    3: Cause.BAD_COMPLETION,
    4: Cause.UNEXPECTED,
    5: Cause.WRONG_LENGTH,
}
_CALLS: Final = ("post_send", "post_recv", "poll_cq")


class _Side(ctypes.Structure):
    """struct side of _loop.c."""

    _fields_ = (
        ("qp", c_void_p),
        ("cq", c_void_p),
        ("post_send", c_void_p),
        ("post_recv", c_void_p),
        ("poll_cq", c_void_p),
        ("send_request", c_void_p),
        ("receive_request", c_void_p),
        ("last", c_uint64),
        ("rounds", c_uint64),
        ("payload", c_uint32),
        ("starts", c_uint32),
        ("owed", c_uint32),
        ("outstanding", c_uint32),
    )


class _Loop(ctypes.Structure):
    """struct loop of _loop.c."""

    _fields_ = (
        ("iterations", c_uint64),
        ("times", c_void_p),
        ("completions", c_void_p),
        ("depth", c_uint32),
        ("side_count", c_uint32),
        ("sides", _Side * _MAX_SIDES),
        ("result", c_uint32),
        ("stopped_side", c_uint32),
        ("failed_call", c_uint32),
        ("padding", c_uint32),
        ("error", c_int64),
        ("completion", IbvWc),
    )


def _compiled(library: str) -> Any | None:
    """Its function; None where it cannot be loaded or is of another version."""
    layout = [_LAYOUT_REVISION, ctypes.sizeof(_Loop), ctypes.sizeof(_Side), BATCH]
    try:
        loaded = ctypes.CDLL(library)
        found = (c_uint32 * len(layout)).in_dll(loaded, "rdmadiag_loop_layout")
        run = loaded.rdmadiag_loop_run
    except (OSError, ValueError, AttributeError):
        return None
    if list(found) != layout:
        return None
    run.argtypes = (c_void_p, c_uint64)
    run.restype = c_uint32
    return run


class CompiledLoop:
    """_loop.c."""

    kind = "compiled"

    def __init__(self, run: Any, sides: Sequence[Side], iterations: int, depth: int) -> None:
        self._run = run
        self._devices = [each.device for each in sides]
        self._times = (c_uint64 * (iterations if any(each.starts for each in sides) else 0))()
        self.completions = (IbvWc * BATCH)()
        self._loop = _Loop(
            iterations=iterations,
            times=ctypes.addressof(self._times),
            completions=ctypes.addressof(self.completions),
            depth=depth,
            side_count=len(sides),
        )
        for made, side in zip(self._loop.sides, sides, strict=False):
            for name in ("qp", "cq", *_CALLS, "send_request", "receive_request", "payload"):
                setattr(made, name, getattr(side, name))
            made.starts = made.owed = side.starts

    def run(self, until: float) -> bool:
        """Loop.run."""
        loop = self._loop
        result = self._run(byref(loop), max(0, int(until * 1e9)))
        if result in (_DONE, _AGAIN):
            return bool(result == _DONE)
        cause, at = _CAUSES[result], loop.stopped_side
        if cause is Cause.CALL_FAILED:
            call = _CALLS[loop.failed_call]
            raise Stopped(cause, at, self._devices[at], call=call, errno=loop.error)
        raise Stopped(cause, at, self._devices[at], completion=loop.completion)

    @property
    def rounds(self) -> int:
        """Loop.rounds."""
        rounds: list[int] = [each.rounds for each in self._loop.sides[: len(self._devices)]]
        return min(rounds)

    @property
    def times_ns(self) -> list[int]:
        """Loop.times_ns."""
        starting = [each.rounds for each in self._loop.sides if each.starts]
        return self._times[: starting[0]] if starting else []


# --- in Python -----------------------------------------------------------------------------

_MAX_STRIDE: Final = 64  # passes from one look at the clock to the next
_LONG_STRIDE: Final = 500_000  # ns; calls this slow are not made often without a look
_PATIENCE: Final = 50_000  # ns without a completion, after which others may have the CPU

# Declared arguments are converted at each call: these calls get what was made before.
_CALL: Final = CFUNCTYPE(c_int)


def _pointer(address: int) -> Any:
    """What ctypes passes fastest."""
    return byref(c_char.from_address(address))


class _PythonSide:
    """struct side of _loop.c, and what it does."""

    def __init__(self, at: int, side: Side, iterations: int, depth: int) -> None:
        self._at = at
        self._side = side
        self._iterations = iterations
        self._depth = depth
        self.rounds = 0
        self.times: list[int] = []
        self.done = False

    def passes(self, entries: "ctypes.Array[IbvWc]") -> Iterator[int]:  # noqa: C901
        """At first the send of the side that starts; then pass after pass.

        Each gives how many completions there were, or raises Stopped. All in one place and
        in local variables: a call of Python's costs as much as one of the library's.
        """
        side, iterations, depth, times = self._side, self._iterations, self._depth, self.times
        starts, payload, now = side.starts, side.payload, time.monotonic_ns
        post_send, post_recv = _CALL(side.post_send), _CALL(side.post_recv)
        poll_cq = _CALL(side.poll_cq)
        qp, cq, bad = _pointer(side.qp), _pointer(side.cq), byref(c_void_p())
        send_request, receive_request = _pointer(side.send_request), _pointer(side.receive_request)
        # Each element that an array is asked for is another object.
        batch, completions = byref(entries), list(entries)
        owed, outstanding, rounds, count, last = starts, 0, 0, 0, now()
        while True:
            if owed and outstanding < depth:
                owed = False
                outstanding += 1
                error = post_send(qp, send_request, bad)
                if error:
                    raise self._failed("post_send", error)
            yield count
            count = poll_cq(cq, BATCH, batch)
            if not count:
                continue
            if count < 0:
                raise self._failed("poll_cq", count)
            for completion in completions[:count]:
                if completion.status:
                    raise self._refused(Cause.BAD_COMPLETION, completion)
                number = completion.wr_id
                if number == SEND and outstanding:
                    outstanding -= 1
                    continue
                if number != RECEIVE or owed or rounds == iterations:
                    raise self._refused(Cause.UNEXPECTED, completion)
                if completion.byte_len != payload:
                    raise self._refused(Cause.WRONG_LENGTH, completion)
                if starts:
                    arrived = now()
                    times.append(arrived - last)
                    last = arrived
                self.rounds = rounds = rounds + 1
                owed = not starts or rounds < iterations
                error = post_recv(qp, receive_request, bad)
                if error:
                    raise self._failed("post_recv", error)
            self.done = rounds == iterations and not owed and not outstanding

    def _failed(self, call: str, given: int) -> Stopped:
        cause, errno = Cause.CALL_FAILED, abs(given)
        return Stopped(cause, self._at, self._side.device, call=call, errno=errno)

    def _refused(self, cause: Cause, completion: IbvWc) -> Stopped:
        return Stopped(cause, self._at, self._side.device, completion=completion)


class PythonLoop:
    """The loop of _loop.c in Python."""

    kind = "python"

    def __init__(self, sides: Sequence[Side], iterations: int, depth: int) -> None:
        self.completions = (IbvWc * BATCH)()
        self._sides = [_PythonSide(at, side, iterations, depth) for at, side in enumerate(sides)]
        self._passes = [side.passes(self.completions).__next__ for side in self._sides]
        self._begun = False

    def run(self, until: float) -> bool:
        """Loop.run."""
        if self._done():
            return True
        clock = _Clock(until)
        if not self._begun:
            self._begun = True
            for send in self._passes:
                send()
        while True:
            found = 0
            for _ in range(clock.stride):
                for pass_once in self._passes:
                    count = pass_once()
                    if count:
                        found = count
                        if self._done():
                            return True
            if clock.is_up(found):
                return False

    def _done(self) -> bool:
        return self._sides[0].done and self._sides[-1].done

    @property
    def rounds(self) -> int:
        """Loop.rounds."""
        return min(side.rounds for side in self._sides)

    @property
    def times_ns(self) -> list[int]:
        """Loop.times_ns."""
        return [each for side in self._sides for each in side.times]


class _Clock:
    """When to look at it, and what then."""

    def __init__(self, until: float) -> None:
        self._until = int(until * 1e9)
        self._looked = self._busy = time.monotonic_ns()
        self.stride = 1
        """Passes until the next look."""

    def is_up(self, found: int) -> bool:
        """Whether the time is over; gives way to other processes where nothing happens."""
        now = time.monotonic_ns()
        if now >= self._until:
            return True
        slow = now - self._looked > _LONG_STRIDE
        self.stride = 1 if slow else min(2 * self.stride, _MAX_STRIDE)
        if found:
            self._busy = now
        elif now - self._busy > _PATIENCE:
            os.sched_yield()
        self._looked = now
        return False


# --- what the loop costs -------------------------------------------------------------------

_SAMPLES: Final = 5


def overhead_us(library: str | None = COMPILED, iterations: int = 2000) -> float:
    """µs that the loop of `library` adds to a half round trip, at most.

    A half round trip is one message of one side: a poll that finds the receive, post_recv,
    post_send. Here they are stand-ins that do nothing but succeed, and every poll gives the
    send before and the next receive, so that an iteration is one half round trip and is
    all loop. It also counts a completed send, which a real one does while it waits, and
    looks at the clock, which a real one does every other time. What the library does within
    its calls is not in it.
    """
    samples = sorted(_idle_us(library, iterations) for _ in range(_SAMPLES))
    return samples[_SAMPLES // 2]


def _idle_us(library: str | None, iterations: int) -> float:
    # abs(0) is a post that succeeds, abs(2) a poll with two completions: arguments that a
    # function does not take are ignored by every calling convention that we meet.
    nothing = ctypes.cast(ctypes.CDLL(None).abs, c_void_p).value
    assert nothing
    side = Side("", 0, 2, nothing, nothing, nothing, 0, 0, starts=True, payload=1)
    loop = open_loop([side], iterations, 1, library)
    loop.completions[0] = IbvWc(wr_id=SEND)
    loop.completions[1] = IbvWc(wr_id=RECEIVE, byte_len=side.payload)
    while not loop.run(time.monotonic() + 1.0):
        pass
    return sum(loop.times_ns) / iterations / 1000
