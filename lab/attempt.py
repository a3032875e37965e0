"""`rdmadiag pingpong` and `exercise` as a test has them: started, looked at, signalled, ended."""

import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, Any

from lab.failure import EX_LATE, LabFailure
from lab.ports import listening
from lab.warm import Warm, content, output_file

BEYOND_DEADLINE = 2.0  # seconds that a run may take beyond its own deadline
CHILDREN = (
    "rdmadiag.verbs.pingpong_child",
    "rdmadiag.verbs.cm_child",
    "rdmadiag.verbs.exercise_child",
)
"""In the command line of the process that has the device."""
CHILD_SECONDS = 30.0  # from a start to the child, and to its listening


@dataclass(frozen=True)
class Ended:
    """What came of one run."""

    code: int  # negative: the number of the signal that ended it
    document: Any  # its JSON; None where it printed none
    stderr: str
    seconds: float
    peak: int  # KiB of memory, of the process or of its largest child

    def result(self) -> tuple[int, str, str]:
        """Exit code, outcome, stage."""
        document = self.document or {}
        return self.code, document.get("outcome", ""), document.get("stage", "")


class Attempt:
    """One run. It starts without the program's imports, so its time is all its own."""

    def __init__(
        self, warm: Warm, arguments: tuple[str, ...], deadline: float, command: str
    ) -> None:
        self.deadline = deadline
        self._streams = ExitStack()
        self._out, self._err = self._stream("out"), self._stream("err")
        argv = [command, "--json", f"--deadline={deadline:g}", *arguments]
        self._began = time.monotonic()
        self._fork = warm.start(argv, self._out.fileno(), self._err.fileno())
        self.pid = self._fork.pid
        self._ended: Ended | None = None

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.monotonic() - self._began

    def child(self) -> int:
        """The process that has the device, once there is one."""
        late = time.monotonic() + CHILD_SECONDS
        while time.monotonic() < late:
            for pid in children():
                if _parent(pid) == self.pid:
                    return pid
            time.sleep(0.05)
        raise LabFailure(f"no child after {CHILD_SECONDS:g} s", EX_LATE)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the command itself."""
        os.kill(self.pid, number)

    def end(self, waits: float = 0.0) -> Ended:
        """Wait for it: for its deadline, `waits` seconds more (for a peer), and 2 s.

        LabFailure if it takes longer.
        """
        limit = self.deadline + waits + BEYOND_DEADLINE
        ended = self._wait(max(0.0, limit - self.seconds))
        if ended is None or ended.seconds > limit:
            raise LabFailure(f"a run did not end within {limit:g} s", EX_LATE)
        return ended

    def has_ended(self) -> bool:
        """Whether `end` does not wait."""
        return self._wait(0.0) is not None

    def _wait(self, timeout: float) -> Ended | None:
        if self._ended is None and (found := self._fork.wait(timeout)) is not None:
            code, peak = found
            seconds = self.seconds
            out, err = content(self._out), content(self._err)
            self._ended = Ended(code, json.loads(out) if out else None, err, seconds, peak)
        return self._ended

    def close(self) -> None:
        """Kill what is still there."""
        if self._ended is None:
            with suppress(ProcessLookupError):
                self.kill()
            self._fork.close()
        self._streams.close()

    def _stream(self, name: str) -> IO[bytes]:
        return self._streams.enter_context(output_file(name))


class Attempts:
    """All runs of one test; `close` ends those that it left."""

    def __init__(self, warm: Warm) -> None:
        self._warm = warm
        self._all: list[Attempt] = []

    def start(self, *arguments: str, deadline: float = 40.0, command: str = "pingpong") -> Attempt:
        """`rdmadiag COMMAND --json --deadline=DEADLINE ARGUMENTS…`."""
        self._all.append(Attempt(self._warm, arguments, deadline, command))
        return self._all[-1]

    def listen(
        self, address: str, *arguments: str, deadline: float = 40.0, command: str = "pingpong"
    ) -> "tuple[Attempt, int]":
        """The same with --listen at a port that is free, and the port; it listens already."""
        port = free_port()
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        attempt = self.start(f"--listen={where}", *arguments, deadline=deadline, command=command)
        if not until(lambda: listening(port) or attempt.has_ended(), CHILD_SECONDS):
            raise LabFailure(f"nothing listens on port {port}", EX_LATE)
        if attempt.has_ended():
            raise LabFailure(f"it did not listen: {attempt.end()}")
        return attempt, port

    def close(self) -> None:
        """Kill what is still there."""
        for each in self._all:
            each.close()


_ports = itertools.count(20000)  # below those that the kernel gives to connections


def free_port() -> int:
    """A TCP port that no other test has, and no program of the lab."""
    return next(_ports)


def children() -> list[int]:
    """Every process that has a device for a run; one that is only not reaped has none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
                if any(each.encode() in line for each in CHILDREN):
                    found.append(int(name))
    return found


def _parent(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
    return 0


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true in that time."""
    late = time.monotonic() + seconds
    while not true():
        if time.monotonic() > late:
            return False
        time.sleep(0.05)
    return True
