"""One guest: tests/lab/guest on it, or a shell for a person."""

import subprocess
import sys
import time
from collections.abc import Sequence

from lab.boot import GUEST_OUT, Boot, Guest, vng, watch, write_job
from lab.failure import LabFailure
from lab.image import image
from lab.prepare import prepare
from lab.results import claim


def guest(pytest_args: Sequence[str], seconds: float) -> int:
    """Run tests/lab/guest in one guest; pytest's exit code. Results are in lab/out/guest.

    `seconds` is for all of it: boot, tests, power off.
    """
    out = claim("guest")
    kernel = prepare()
    argv = pytest_argv("guest", pytest_args)
    boot = Boot(Guest("guest", out, cpus=2), kernel, image(), argv, {"RDMADIAG_LAB": "guest"})
    watch([boot], time.monotonic() + seconds)
    return boot.exit_code()


def shell() -> int:
    """An interactive shell on a guest with rxe0 and rxe1; ends when the person leaves it."""
    if not sys.stdin.isatty():
        raise LabFailure("the shell needs a terminal")
    out = claim("shell")
    person = Guest("shell", out, cpus=2)
    kernel = prepare()
    start = "python -m lab.rxe && exec bash --norc -i"
    job = write_job(person, image(), ["bash", "-c", start], {"RDMADIAG_LAB": "guest"})
    job.chmod(0o755)
    job.write_text(f"#!/bin/bash\n{job.read_text()}")
    return subprocess.run([*vng(person, kernel), "--shell", str(job)], check=False).returncode


def pytest_argv(lab: str, extra: Sequence[str]) -> list[str]:
    """The command that tests/lab/<lab>, or what `extra` names of it, takes in a guest."""
    folder = [] if any(arg.startswith("tests/lab/") for arg in extra) else [f"tests/lab/{lab}"]
    report = f"--junitxml={GUEST_OUT}/junit.xml"
    return ["pytest", "-p", "no:cacheprovider", "--tb=short", report, *folder, *extra]
