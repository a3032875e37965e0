"""A command for each event: without a shell, one at a time, each under a deadline.

The event is its standard input. What it prints goes to stderr: stdout is the document's.
"""

import os
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from rdmadiag.frozen import dataclass
from rdmadiag.host import child_process
from rdmadiag.host.command import abandon

WAITING: Final = 1000
"""Events that wait for the command; one more is not handed over, which is said."""

_PIPE: Final = 64 * 1024  # bytes that a pipe takes without anybody reading: pipe(7)


@dataclass(frozen=True, slots=True)
class Ran:
    """How the command for one event ended."""

    number: int  # of the event
    why: str | None  # None: with 0


class OnChange:
    """Runs `argv` for what is handed over, in its order."""

    def __init__(self, argv: Sequence[str], seconds: float) -> None:
        self._argv = list(argv)
        self.seconds = seconds
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._child: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._until = 0.0
        self.left_out = 0  # events that were too many
        self.stderr: int | None = 2

    @property
    def deadline(self) -> float | None:
        """When the one that runs will be killed; None without one."""
        return self._until if self._child else None

    @property
    def busy(self) -> bool:
        """Whether one runs, or waits to."""
        return self._child is not None or bool(self._waiting)

    def ended(self) -> bool:
        """Whether the one that runs has ended by itself."""
        return self._child is None or self._child.poll() is not None

    def hand_over(self, number: int, content: bytes) -> None:
        """An event; it waits until those before it are done."""
        if len(self._waiting) >= WAITING or len(content) > _PIPE:
            self.left_out += 1
            return
        self._waiting.append((number, content))

    def run_no_more(self) -> None:
        """What waits is left out; what runs goes on."""
        self.left_out += len(self._waiting)
        self._waiting.clear()

    def step(self) -> list[Ran]:
        """Reaps the one that has ended or is late, starts the next; those that have ended."""
        ended: list[Ran] = []
        if self._child is not None:
            found = self._reap(self._child)
            if found is not None:
                self._child = None
                ended.append(found)
        while self._child is None and self._waiting:
            number, content = self._waiting.popleft()
            self._number = number
            why = self._start(content)
            if why is not None:
                ended.append(Ran(number, why))
        return ended

    def close(self) -> None:
        """Kills the one that still runs."""
        if self._child is not None:
            child_process.running.discard(self._child.pid)
            if not self.ended():
                abandon(self._child)
            self._child = None

    def _start(self, content: bytes) -> str | None:
        with child_process.starting():
            try:
                child = subprocess.Popen(  # noqa: S603  # the user's own argv, no shell
                    self._argv,
                    stdin=subprocess.PIPE,
                    stdout=self.stderr,
                    stderr=self.stderr,
                    start_new_session=True,
                    preexec_fn=child_process.before_exec(),  # noqa: PLW1509  # takes no lock
                )
            except OSError as error:
                return f"{self._argv[0]}: {os.strerror(error.errno or 0)}"
            child_process.running.add(child.pid)
        self._child, self._until = child, time.monotonic() + self.seconds
        assert child.stdin is not None
        try:
            os.set_blocking(child.stdin.fileno(), False)
            os.write(child.stdin.fileno(), content)
        except OSError:  # it has closed it, or has ended: it does not want to know
            pass
        finally:
            child.stdin.close()
        return None

    def _reap(self, child: "subprocess.Popen[bytes]") -> Ran | None:
        code = child.poll()
        if code is None and time.monotonic() < self._until:
            return None
        child_process.running.discard(child.pid)
        if code is None:
            fate = "was killed" if abandon(child) else "cannot be killed"
            return Ran(self._number, f"no end within {self.seconds:g} s: it {fate}")
        if code < 0:
            return Ran(self._number, f"ended by signal {-code}")
        return Ran(self._number, f"exit code {code}" if code else None)
