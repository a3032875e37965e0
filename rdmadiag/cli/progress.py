"""What a person waits for, on stderr: only in a terminal, and only after a second."""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rdmadiag.quoting import printable

AFTER: Final = 1.0  # seconds
_CLEAR: Final = "\r\x1b[K"

Waiting = Callable[[Collection[str]], None]
"""Called about once a second with what has not answered yet."""


@contextmanager
def progress(start: float, deadline: float, *, quiet: bool = False) -> Iterator[Waiting | None]:
    """A line that is drawn anew, and gone at the end; None where nobody would see it."""
    if quiet or not _is_terminal():
        yield None
        return
    line = _Line(start, deadline)
    try:
        yield line.show
    finally:
        line.clear()


@contextmanager
def meanwhile(say: Callable[[float], str], *, quiet: bool = False) -> Iterator[None]:
    """The same around a wait that calls nobody back: `say` is given the seconds so far.

    By a thread, so for what starts no process: a sleep, the reading of a file.
    """
    if quiet or not _is_terminal():
        yield
        return
    from threading import Event, Thread

    start = time.monotonic()
    line, ended = _Line(start, start), Event()

    def draw() -> None:
        while not ended.wait(AFTER):
            line.write(say(time.monotonic() - start))

    drawing = Thread(target=draw, daemon=True)
    drawing.start()
    try:
        yield
    finally:
        ended.set()
        drawing.join()
        line.clear()


class _Line:
    def __init__(self, start: float, deadline: float) -> None:
        self._start, self._deadline = start, deadline
        self._shown = False

    def show(self, waiting: Collection[str]) -> None:
        now = time.monotonic()
        if now - self._start < AFTER:
            return
        names = ", ".join(sorted(waiting))
        whole = self._deadline - self._start
        self.write(f"waiting for {names}: {now - self._start:.0f} of at most {whole:.0f} s")

    def write(self, text: str) -> None:
        self._write(f"{_CLEAR}{printable(text)[: _width() - 1]}")
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal has gone
            sys.stderr.write(text)
            sys.stderr.flush()


def _is_terminal() -> bool:
    return (
        sys.stderr is not None
        and not sys.stderr.closed
        and sys.stderr.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
