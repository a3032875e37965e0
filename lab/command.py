"""Run a program with a deadline; it is killed with all its children when that passes."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.failure import EX_LATE, LabFailure


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Exit code, stdout and stderr as text; LabFailure if missing, or late after `timeout` s."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise LabFailure(f"{argv[0]} is not installed") from None
    try:
        stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise LabFailure(f"{argv[0]} did not end within {timeout:g} s", EX_LATE) from None
    finally:
        if child.poll() is None:
            stop(child)
    return subprocess.CompletedProcess(argv, child.returncode, stdout, stderr)


def stop(child: subprocess.Popen[str] | subprocess.Popen[bytes], grace: float = 2.0) -> None:
    """End a child that leads its own process group: asked first, killed after `grace` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            continue
