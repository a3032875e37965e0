"""Guests on their way: started, watched until they end or are late, and gone afterwards."""

import os
import resource
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lab.command import stop
from lab.failure import EX_LATE, LabFailure
from lab.places import CHECKOUT

GUEST_OUT = "/run/lab/out"  # where a guest has its out folder, and RDMADIAG_LAB_OUT points
CONSOLE = "console.txt"  # in a guest's out folder: everything it printed
POWER_OFF_SECONDS = 20.0
"""After a guest's results are there. User Mode Linux of 7.2 may say "Power down" and wait for
one of its threads for ever; nothing of the run is lost then."""


@dataclass(frozen=True)
class Guest:
    name: str
    out: Path  # the one folder of this machine that the guest can write to
    cpus: int = 2
    prefix: str = ""  # put before every line that it prints


@dataclass(frozen=True)
class Job:
    """What runs in a guest as root, in the checkout."""

    argv: Sequence[str]
    env: Mapping[str, str]

    def write(self, guest: Guest, settings: Mapping[str, str]) -> Path:
        """The script that the guest starts with, with these settings for lab/guest.sh."""
        exported = dict(self.env) | {
            "LAB_CHECKOUT": str(CHECKOUT),
            "LAB_NAME": guest.name,
            "LAB_OUT": str(guest.out),
            "LAB_VENV": sys.prefix,
            **settings,
        }
        lines = ["#!/bin/bash"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
        lines.append(shlex.join(["exec", "bash", str(CHECKOUT / "lab" / "guest.sh"), *self.argv]))
        guest.out.mkdir(parents=True, exist_ok=True)
        job = guest.out / "job.sh"
        job.write_text("\n".join(lines) + "\n")
        job.chmod(0o755)
        return job


class Boot:
    """A guest that was started; `resources` are closed when it is gone."""

    def __init__(
        self,
        guest: Guest,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        resources: ExitStack | None = None,
    ) -> None:
        self.guest = guest
        self.seconds = 0.0  # from its start to its end
        self.processor = 0.0  # seconds of it that the guest and what it ran have taken
        self._results_at = 0.0
        self._resources = resources or ExitStack()
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )

    def exit_code(self) -> int:
        """That of what ran in the guest; LabFailure if it never came to an end there."""
        try:
            return int((self.guest.out / "exitcode").read_text())
        except FileNotFoundError:
            lines = (self.guest.out / CONSOLE).read_text(errors="replace").strip().splitlines()
            last = lines[-1] if lines else "it printed nothing"
            raise LabFailure(f"the guest {self.guest.name} did not boot or died: {last}") from None

    def is_stuck(self) -> bool:
        """Whether it still runs, long after it wrote its results."""
        now = time.monotonic()
        if not self._results_at and (self.guest.out / "exitcode").exists():
            self._results_at = now
        return bool(self._results_at) and now - self._results_at > POWER_OFF_SECONDS

    def close(self) -> None:
        """Kill it, with all its processes, if it is still there."""
        if not self.seconds:
            before = _taken()
            stop(self.process)  # one at a time: what is more after it is this one's
            self.processor = _taken() - before
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.seconds = time.monotonic() - self._began
            self._resources.close()


def _taken() -> float:
    """Seconds of processor time of all children that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def watch(
    starts: Iterable[Callable[[], Boot]], deadline: float, *, side_by_side: int
) -> list[Boot]:
    """Start guests, so many at a time, and pass on what they print until all have ended.

    At `deadline` (monotonic) those that run are killed: LabFailure with exit code 124, or 69 if
    one of them had not even booted.
    """
    waiting, boots = list(starts), list[Boot]()
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or selector.get_map():
                while waiting and len(selector.get_map()) < side_by_side:
                    boot = waiting.pop(0)()
                    boots.append(boot)
                    assert boot.process.stdout is not None
                    selector.register(boot.process.stdout, selectors.EVENT_READ, _Printer(boot))
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _late([key.data.guest for key in selector.get_map().values()])
                for key in list(selector.get_map().values()):
                    if key.data.boot.is_stuck():
                        selector.unregister(key.fileobj)
                        key.data.boot.close()
                for key, _ in selector.select(min(left, 1.0)):
                    data = os.read(key.fd, 65536)
                    key.data.put(data)
                    if not data:
                        selector.unregister(key.fileobj)
                        key.data.boot.close()
        finally:
            for boot in boots:
                boot.close()
    return boots


def _late(guests: Sequence[Guest]) -> LabFailure:
    asleep = [guest.name for guest in guests if not (guest.out / "started").exists()]
    if asleep:
        return LabFailure(f"not booted at the deadline, killed: {', '.join(asleep)}")
    names = ", ".join(guest.name for guest in guests)
    return LabFailure(f"still running at the deadline, killed: {names}", EX_LATE)


class _Printer:
    """Writes a guest's lines to its console file and, with its prefix, to our stdout."""

    def __init__(self, boot: Boot) -> None:
        self.boot, self.guest = boot, boot.guest
        self._rest = b""
        (self.guest.out / CONSOLE).write_bytes(b"")

    def put(self, data: bytes) -> None:
        """Some bytes as they came; none at the end."""
        with (self.guest.out / CONSOLE).open("ab") as file:
            file.write(data)
        if not self.guest.prefix:
            sys.stdout.buffer.write(data)
        else:
            *lines, self._rest = (self._rest + data).split(b"\n")
            if not data and self._rest:
                lines.append(self._rest)
            for line in lines:
                sys.stdout.buffer.write(self.guest.prefix.encode() + line + b"\n")
        sys.stdout.buffer.flush()
