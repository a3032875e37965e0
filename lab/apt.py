"""apt-get, which one program at a time may run: we wait for the others, and show its own words."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from lab.command import run
from lab.failure import EX_LATE, LabFailure

_LOCKED = "Could not get lock"  # of the lists, the archives or dpkg's; the rest names who has it
_PAUSE_SECONDS = 1.0
_SHOWN = 3  # of its last lines


def apt_get(argv: Sequence[str], *, timeout: float, cwd: Path | None = None) -> None:
    """Run it, waiting for its locks; LabFailure with what it said. `timeout` is for all of it."""
    deadline = time.monotonic() + timeout
    waits = False
    while True:
        done = run(
            ["apt-get", "-qq", *argv],
            timeout=max(1.0, deadline - time.monotonic()),
            cwd=cwd,
            env=dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C"),
        )
        if done.returncode == 0:
            return
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        locked = [line for line in said if _LOCKED in line]
        if not locked:
            raise LabFailure("\n".join(["apt-get failed:", *said[-_SHOWN:]]))
        if not waits:
            print(f"waiting for another apt: {locked[0]}", flush=True)
            waits = True
        if time.monotonic() + _PAUSE_SECONDS > deadline:
            raise LabFailure(f"apt-get waited for {timeout:g} s: {locked[0]}", EX_LATE)
        time.sleep(_PAUSE_SECONDS)
