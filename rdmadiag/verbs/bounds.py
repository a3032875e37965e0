"""What ends an attempt from outside: its deadline, a signal, a parent that is gone."""

import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Final, Literal

HARD_SECONDS: Final = 3.0
"""After the deadline SIGALRM ends the process: a call that hangs must not outlive a parent
that was killed."""


class Late(Exception):
    """The deadline came."""


class Interrupted(Exception):
    """A signal came, or the parent went; the message says which."""


class Bounds:
    """Every wait of the child goes through here, so that all of them end."""

    def __init__(self, parent: int) -> None:
        """`parent` is a pipe that the parent holds open for as long as it lives."""
        self._parent = parent
        self._deadline = float("inf")
        self._signal: int | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self._signal = number

    @property
    def left(self) -> float:
        """Seconds until the deadline, never below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def start(self, deadline: float) -> None:
        """Set the deadline, absolute on time.monotonic's clock."""
        self._deadline = deadline
        signal.setitimer(signal.ITIMER_REAL, self.left + HARD_SECONDS)

    def check(self) -> None:
        """Raises Interrupted or Late where there is a reason to end."""
        if self._signal is not None:
            raise Interrupted(signal.Signals(self._signal).name)
        if not self.left:
            raise Late

    def soon(self, seconds: float) -> float:
        """That many seconds from now, or the deadline if it comes before."""
        return min(self._deadline, time.monotonic() + seconds)

    def wait(
        self, descriptor: int, way: Literal["read", "write"], until: float = float("inf")
    ) -> bool:
        """Whether `descriptor` was ready before `until`; raises as `check` does."""
        return bool(
            self._ready([descriptor], [], until)
            if way == "read"
            else self._ready([], [descriptor], until)
        )

    def ready(self, descriptors: Sequence[int], until: float) -> set[int]:
        """Those that can be read, none at `until`; raises as `check` does."""
        return self._ready(descriptors, [], until)

    def _ready(self, reading: Sequence[int], writing: Sequence[int], until: float) -> set[int]:
        own = [self._parent, self._woken]
        while True:
            self.check()
            seconds = min(self.left, until - time.monotonic())
            timeout = None if seconds == float("inf") else max(0.0, seconds)
            readable, writable, _ = select.select([*own, *reading], writing, [], timeout)
            if self._woken in readable:
                os.read(self._woken, 64)
                continue
            if found := {*readable, *writable}.difference(own):
                return found
            if self._parent in readable:
                # Nothing is ever sent on it: it can be read because it has ended.
                raise Interrupted("the command was killed")
            if time.monotonic() >= until:
                return set()

    def glance(self) -> None:
        """As `check`, and of the parent too; costs a system call."""
        self.check()
        if select.select([self._parent], [], [], 0)[0]:
            raise Interrupted("the command was killed")
