"""The timed loop of a pingpong: _loop.c posts and polls without a look at anything else.

Where it was not compiled nothing is timed: a loop of ctypes calls took 46 us for what
ib_send_lat did in 11 and _loop.c in 13 (soft RoCE, 64 bytes), so that its figures were of
Python more than of the path. That data arrives whole is shown without it.

It makes no object and destroys none; whoever calls it hands over addresses, and keeps what
stands there alive. One thread runs one end, or both of a loopback. At the start an end has
one receive posted and no send outstanding; at the end it has so again.
"""

import ctypes
import os
import time
from collections.abc import Sequence
from ctypes import byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from enum import StrEnum
from typing import Any, Final

from rdmadiag.facts.ib import DataOp
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.lib import CallFailed

COMPILED: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_loop.so")
"""What hatch_build.py makes of _loop.c, where there is a compiler."""

SEND: Final = 1
"""wr_id of every send; of a failed completion, opcode is not valid."""

RECEIVE: Final = 2
"""wr_id of every receive."""

BATCH: Final = 4
"""Completions taken at once; an end has one receive and rarely more than one send."""


@dataclass(frozen=True, slots=True)
class TimedChannel:
    """The completion channel of an end, whose next event was asked for; as addresses."""

    handle: int
    fd: int  # that does not block
    get_cq_event: int
    ack_cq_events: int
    req_notify_cq: int  # of struct ibv_context_ops


@dataclass(frozen=True, slots=True)
class TimedEnd:
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
    op: DataOp = DataOp.SEND
    stamp: int = 0  # of WRITE: the last byte of what it writes
    watch: int = 0  # and of what the other end writes here
    channel: "TimedChannel | None" = None  # None: it polls


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
        end: int,
        device: str,
        *,
        call: str | None = None,
        errno: int = 0,
        completion: IbvWc | None = None,
    ) -> None:
        self.cause = cause
        self.end = end
        """Its place among the ends."""
        self.device = device
        self.call = call
        """Of _CALLS, where the cause is CALL_FAILED."""
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


# --- what _loop.c takes --------------------------------------------------------------------

_MAX_ENDS: Final = 2
_LAYOUT_REVISION: Final = 2
_DONE: Final = 0
_AGAIN: Final = 1
_CAUSES: Final = {
    2: Cause.CALL_FAILED,
    3: Cause.BAD_COMPLETION,
    4: Cause.UNEXPECTED,
    5: Cause.WRONG_LENGTH,
}
_CALLS: Final = ("post_send", "post_recv", "poll_cq", "req_notify_cq")
_WAYS: Final = (DataOp.SEND, DataOp.WRITE, DataOp.READ)


_SAME: Final = (
    *("qp", "cq", "post_send", "post_recv", "poll_cq", "send_request", "receive_request"),
    *("payload", "stamp", "watch"),
)
"""Of a TimedEnd and of _End."""


class _End(ctypes.Structure):
    """struct end of _loop.c."""

    _fields_ = (
        ("qp", c_void_p),
        ("cq", c_void_p),
        ("post_send", c_void_p),
        ("post_recv", c_void_p),
        ("poll_cq", c_void_p),
        ("send_request", c_void_p),
        ("receive_request", c_void_p),
        ("channel", c_void_p),
        ("get_cq_event", c_void_p),
        ("ack_cq_events", c_void_p),
        ("req_notify_cq", c_void_p),
        ("stamp", c_void_p),
        ("watch", c_void_p),
        ("last", c_uint64),
        ("rounds", c_uint64),
        ("payload", c_uint32),
        ("starts", c_uint32),
        ("owed", c_uint32),
        ("outstanding", c_uint32),
        ("way", c_uint32),
        ("event_fd", c_int32),
    )


class _Loop(ctypes.Structure):
    """struct loop of _loop.c."""

    _fields_ = (
        ("iterations", c_uint64),
        ("times", c_void_p),
        ("completions", c_void_p),
        ("depth", c_uint32),
        ("end_count", c_uint32),
        ("ends", _End * _MAX_ENDS),
        ("result", c_uint32),
        ("stopped_end", c_uint32),
        ("failed_call", c_uint32),
        ("padding", c_uint32),
        ("error", c_int64),
        ("completion", IbvWc),
    )


class Loop:
    """So many rounds of one end, or of two of which one starts."""

    def __init__(self, run: Any, ends: Sequence[TimedEnd], iterations: int, depth: int) -> None:
        """`run` is what `compiled` gives; `depth` bounds the sends outstanding.

        Raises CallFailed where a device lacks one of the calls.
        """
        if not 1 <= len(ends) <= _MAX_ENDS or iterations < 1 or depth < 1:
            raise ValueError(f"{len(ends)} ends, {iterations} iterations, depth {depth}")
        if len(ends) == _MAX_ENDS and ends[0].starts == ends[1].starts:
            raise ValueError("of two ends, one starts")
        if any((each.op is DataOp.WRITE) != bool(each.stamp and each.watch) for each in ends):
            raise ValueError("what is written counts its rounds")
        if any(each.op is DataOp.READ for each in ends) and (len(ends) > 1 or not ends[0].starts):
            raise ValueError("only the end that starts reads")
        if not all(each.post_send and each.post_recv and each.poll_cq for each in ends):
            raise CallFailed("ibv_context_ops", 0)
        self._run = run
        self._devices = [each.device for each in ends]
        self._times = (c_uint64 * (iterations if any(each.starts for each in ends) else 0))()
        self.completions = (IbvWc * BATCH)()
        """What poll_cq fills."""
        self._loop = _Loop(
            iterations=iterations,
            times=ctypes.addressof(self._times),
            completions=ctypes.addressof(self.completions),
            depth=depth,
            end_count=len(ends),
        )
        for made, end in zip(self._loop.ends, ends, strict=False):
            for name in _SAME:
                setattr(made, name, getattr(end, name))
            made.starts = made.owed = end.starts
            made.way = _WAYS.index(end.op)
            made.event_fd = -1
            if end.channel:
                made.channel, made.event_fd = end.channel.handle, end.channel.fd
                made.get_cq_event = end.channel.get_cq_event
                made.ack_cq_events = end.channel.ack_cq_events
                made.req_notify_cq = end.channel.req_notify_cq

    def run(self, until: float) -> bool:
        """Go on until it is done (True), or until that time of time.monotonic (False).

        Returns within about a millisecond of it, if the library's calls do. Raises Stopped.
        """
        loop = self._loop
        result = self._run(byref(loop), max(0, int(until * 1e9)))
        if result in (_DONE, _AGAIN):
            return bool(result == _DONE)
        cause, at = _CAUSES[result], loop.stopped_end
        if cause is Cause.CALL_FAILED:
            call = _CALLS[loop.failed_call]
            raise Stopped(cause, at, self._devices[at], call=call, errno=loop.error)
        raise Stopped(cause, at, self._devices[at], completion=loop.completion)

    @property
    def rounds(self) -> int:
        """Messages that have arrived; of two ends, at the one with fewer."""
        rounds: list[int] = [each.rounds for each in self._loop.ends[: len(self._devices)]]
        return min(rounds)

    @property
    def times_ns(self) -> list[int]:
        """Each full round trip of the end that starts; none where that is elsewhere."""
        starting = [each.rounds for each in self._loop.ends if each.starts]
        return self._times[: starting[0]] if starting else []


def compiled(library: str = COMPILED) -> Any | None:
    """_loop.c's function; None where there is none, or one of another version."""
    layout = [_LAYOUT_REVISION, ctypes.sizeof(_Loop), ctypes.sizeof(_End), BATCH]
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


# --- what the loop costs -------------------------------------------------------------------

_SAMPLES: Final = 5


def overhead_us(run: Any, iterations: int = 2000) -> float:
    """µs that the loop adds to a half round trip, at most; `run` is what `compiled` gives.

    A half round trip is one message of one end: a poll that finds the receive, post_recv,
    post_send. Here they are stand-ins that do nothing but succeed, and every poll gives the
    send before and the next receive, so that an iteration is one half round trip and is
    all loop. It also counts a completed send, which a real one does while it waits, and
    looks at the clock, which a real one does every other time. What the library does within
    its calls is not in it.
    """
    samples = sorted(_idle_us(run, iterations) for _ in range(_SAMPLES))
    return samples[_SAMPLES // 2]


def _idle_us(run: Any, iterations: int) -> float:
    # abs(0) is a post that succeeds, abs(2) a poll with two completions: arguments that a
    # function does not take are ignored by every calling convention that we meet.
    nothing = ctypes.cast(ctypes.CDLL(None).abs, c_void_p).value
    assert nothing
    end = TimedEnd("", 0, 2, nothing, nothing, nothing, 0, 0, starts=True, payload=1)
    loop = Loop(run, [end], iterations, 1)
    loop.completions[0] = IbvWc(wr_id=SEND)
    loop.completions[1] = IbvWc(wr_id=RECEIVE, byte_len=end.payload)
    while not loop.run(time.monotonic() + 1.0):
        pass
    return sum(loop.times_ns) / iterations / 1000
