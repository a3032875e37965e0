"""The parent of an attempt: starts its child, reads it, passes signals on, kills it when late."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Final

from rdmadiag.facts import Missing
from rdmadiag.frozen import dataclass
from rdmadiag.host.answers import refusal
from rdmadiag.host.command import abandon
from rdmadiag.verbs.child import program
from rdmadiag.verbs.records import Connected, Malformed, Record, Request, encode, parse

AFTER_SIGNAL_SECONDS: Final = 1.0
"""For the child to put everything back, once a signal was passed on to it."""

_OUTPUT_LIMIT: Final = 1 << 20
_WARNINGS: Final = 4096  # bytes kept of what the library writes on stderr


@dataclass(frozen=True, slots=True)
class Watched:
    """What a child wrote, and how it ended."""

    records: tuple[Record, ...]
    returncode: int | None  # None: killed
    unkillable: bool  # and SIGKILL did not end it
    signal: int | None  # that was passed on to it
    pid: int
    seconds: float  # of its life, on the clock of the records' `at`
    stderr: str


def watch(
    request: Request,
    grace: float,
    seen: Callable[[Record], None] = lambda record: None,
    module: str = "pingpong_child",
) -> Watched | Missing:
    """Runs one attempt by `module`; `seen` gets each record as it comes.

    The child ends by itself at `request.deadline`, to which what it waited for its peer
    is added; `grace` seconds later it is killed, as it is AFTER_SIGNAL_SECONDS after a
    SIGINT or SIGTERM of this process. Missing where no process could be started.
    """
    try:
        child = subprocess.Popen(  # noqa: S603  # our own program
            program(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,  # ^C of a terminal is for this process, which passes it on
        )
    except OSError as error:
        return refusal(error, "python")
    assert child.stdin
    assert child.stdout
    assert child.stderr
    with _signals(child.pid) as passed, _open_to(child.stdin), child.stdout, child.stderr:
        with suppress(BrokenPipeError):
            child.stdin.write(encode(request))
            child.stdin.flush()
        lines = _Lines(seen)
        warnings = bytearray()
        limit = _Limit(request, grace)
        ended = _read(child, passed, lines, warnings, limit)
        unkillable = False
        if ended:
            returncode: int | None = child.wait()
        else:
            returncode, unkillable = None, not abandon(child)
        lines.rest()
    return Watched(
        records=tuple(lines.records),
        returncode=returncode,
        unkillable=unkillable,
        signal=passed.signal,
        pid=child.pid,
        seconds=round(time.monotonic() - request.start, 6),
        stderr=warnings[:_WARNINGS].decode("utf-8", "backslashreplace"),
    )


@contextmanager
def _open_to(child: IO[bytes]) -> Iterator[None]:
    """The child ends where this ends, so it stays open until the child has ended."""
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # what a child that was gone before did not read
            child.close()


class _Limit:
    """When the child is killed."""

    def __init__(self, request: Request, grace: float) -> None:
        self._deadline = request.deadline + grace
        self._until = request.until
        self._waiting = request.meet == "listen"
        self._began = time.monotonic()

    def at(self, records: list[Record], passed: "_PassedOn") -> float:
        """On time.monotonic's clock."""
        if passed.at is not None:
            return passed.at + AFTER_SIGNAL_SECONDS
        if self._waiting and any(isinstance(each, Connected) for each in records):
            self._waiting = False
            self._deadline += time.monotonic() - self._began
        if self._waiting:
            return max(self._deadline, self._until + AFTER_SIGNAL_SECONDS)
        return self._deadline


class _Lines:
    """Records out of a stream of bytes; what is none is dropped."""

    def __init__(self, seen: Callable[[Record], None]) -> None:
        self.records: list[Record] = []
        self._seen = seen
        self._held = b""
        self._size = 0

    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > _OUTPUT_LIMIT:
            return
        *whole, self._held = (self._held + chunk).split(b"\n")
        for line in whole:
            self._line(line)

    def rest(self) -> None:
        self._line(self._held)
        self._held = b""

    def _line(self, line: bytes) -> None:
        record = parse(line)
        if not isinstance(record, Malformed):
            self.records.append(record)
            self._seen(record)


def _read(
    child: "subprocess.Popen[bytes]",
    passed: "_PassedOn",
    lines: _Lines,
    warnings: bytearray,
    limit: _Limit,
) -> bool:
    """Whether the child ended before its time was up."""
    assert child.stdout
    assert child.stderr
    with selectors.DefaultSelector() as selector:
        streams: list[IO[bytes]] = [child.stdout, child.stderr]
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        selector.register(passed.woken, selectors.EVENT_READ)
        while child.stdout in selector.get_map():
            left = limit.at(lines.records, passed) - time.monotonic()
            if left <= 0:
                return False
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 1 << 16)
                if key.fileobj is passed.woken:
                    continue
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is child.stdout:
                    lines.take(chunk)
                else:
                    warnings += chunk[: max(0, _WARNINGS - len(warnings))]
    try:
        child.wait(timeout=max(0.0, limit.at(lines.records, passed) - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


class _PassedOn:
    """The first signal that came, and the pipe that wakes the wait."""

    def __init__(self, child: int, woken: IO[bytes]) -> None:
        self.signal: int | None = None
        self.at: float | None = None
        self.woken = woken
        self._child = child

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Passes the first signal on to the child."""
        if self.signal is None:
            self.signal, self.at = number, time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(self._child, number)


@contextmanager
def _signals(child: int) -> Iterator[_PassedOn]:
    """SIGINT and SIGTERM go to the child for as long as this lasts."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    with open(read, "rb", buffering=0) as woken:
        passed = _PassedOn(child, woken)
        handlers = {
            number: signal.signal(number, passed.note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield passed
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            os.close(write)
