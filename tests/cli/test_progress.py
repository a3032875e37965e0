"""Progress: in a terminal alone, after a second, and gone at the end."""

import os
import pty
import subprocess
import sys
import time

import pytest

PROGRAM = """
import time
from rdmadiag.cli.progress import progress
from rdmadiag.host.isolation import SideBySide

start = time.monotonic()
with progress(start, start + 20, quiet={quiet}) as waiting:
    running = SideBySide()
    running.start("slow", lambda: time.sleep({seconds}))
    running.start("quick", lambda: 1)
    running.collect(start + 20, waiting)
"""


def in_terminal(seconds: float, *, quiet: bool = False, term: str = "xterm") -> str:
    """What a terminal at stderr gets."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(seconds=seconds, quiet=quiet)],
        stderr=theirs,
        env={**os.environ, "TERM": term},
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    assert child.wait(timeout=30) == 0
    return shown.decode()


@pytest.mark.slow
def test_a_wait_of_seconds_is_told_by_name_and_wiped_away() -> None:
    shown = in_terminal(2.5)
    assert "waiting for slow: " in shown
    assert " of at most 20 s" in shown
    assert "quick" not in shown
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("seconds", "quiet", "term"),
    [(0.2, False, "xterm"), (1.6, True, "xterm"), (1.6, False, "dumb")],
    ids=["a short wait", "quiet", "a terminal that cannot wipe"],
)
def test_nothing_is_shown_for(seconds: float, quiet: bool, term: str) -> None:
    assert in_terminal(seconds, quiet=quiet, term=term) == ""


def test_what_is_no_terminal_gets_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(seconds=1.6, quiet=False)],
        stderr=subprocess.PIPE,
        check=True,
        timeout=30,
    )
    assert done.stderr == b""
