"""One program run to its end: wall time, CPU time and peak memory of that very child. Linux only.

CPU time and peak memory are wait4's: they take in the descendants that the child has waited for,
CPU time as a sum, memory as that of the largest one. A peak is never below the peak of the
process that starts the child (exec keeps it), so the bench imports little and says its own.
"""

import os
import resource
import select
import signal
import tempfile
import time
from dataclasses import dataclass

KIB = 1024
_SAID = 4096  # bytes of its error output that are looked at
_OURS = ("PYTHON", "RDMADIAG_", "COVERAGE", "VIRTUAL_ENV")


class CouldNotRun(Exception):
    """A program is not there, was late, or ended in another way than it should."""


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    wall: float  # seconds, from before the start to after the end
    cpu: float  # seconds, user and system, with all descendants waited for
    peak: int  # bytes resident, of the child or of its largest descendant


@dataclass(frozen=True)
class Command:
    """A program, and how to tell that it did what is measured."""

    name: str  # as in the table
    argv: tuple[str, ...]
    codes: frozenset[int] = frozenset({0})  # the exit codes that are no failure
    key: bytes = b""  # counted in what it prints, before anything is measured …
    count: int = 0  # … this often

    def environment(self) -> dict[str, str]:
        """This process's, without what would change how Python or rdmadiag runs."""
        return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def measure(command: Command, seconds: float, stdout: str = os.devnull) -> Cost:
    """Run it once; CouldNotRun after `seconds` or for an exit code that is not its own."""
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        pid = start(command, stdout, errors.fileno())
        usage, status = _end(pid, command.name, seconds)
        wall = time.perf_counter() - began
        code = os.waitstatus_to_exitcode(status)
        if code not in command.codes:
            errors.seek(0)
            said = errors.read(_SAID).decode(errors="replace").strip().splitlines()
            raise CouldNotRun(": ".join((command.name, f"exit code {code}", *said[-1:])))
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KIB)


def start(command: Command, stdout: str = os.devnull, stderr: int | None = None) -> int:
    """The pid of the child, which leads its own process group and has no standard input.

    `stderr` is a descriptor; None: thrown away.
    """
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        return os.posix_spawnp(
            command.argv[0],
            command.argv,
            command.environment(),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, stdout, write, 0o644),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
                if stderr is None
                else (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setpgroup=0,
        )
    except OSError as error:
        raise CouldNotRun(f"{command.name}: {error.strerror}") from None


def stop(pid: int) -> None:
    """Kill the child with its whole process group and collect it."""
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _end(pid: int, name: str, seconds: float) -> tuple[resource.struct_rusage, int]:
    try:
        ended = _wait(pid, seconds)
    except BaseException:  # Ctrl-C: the child is in a process group of its own
        stop(pid)
        raise
    if not ended:
        stop(pid)
        raise CouldNotRun(f"{name}: no end within {seconds:g} s")
    _, status, usage = os.wait4(pid, 0)
    return usage, status


def _wait(pid: int, seconds: float) -> bool:
    """Whether the child has ended within `seconds`; it is not collected."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def own_peak() -> int:
    """Bytes: the floor of every peak that is measured here."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
