"""Progress: in a terminal alone, after a second, and gone at the end."""

import os
import pty
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.samples import roce_host

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
    return shown_by([sys.executable, "-c", PROGRAM.format(seconds=seconds, quiet=quiet)], term)


def shown_by(argv: Sequence[str], term: str = "xterm", stdin: int | None = None) -> str:
    """The same of a command that exits with 0, whose stdout is no terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
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


RDMADIAG = (sys.executable, "-m", "rdmadiag")


@pytest.mark.slow
def test_a_log_that_comes_slowly_is_waited_for_in_sight() -> None:
    reading, writing = os.pipe()
    writer = subprocess.Popen(["sh", "-c", "sleep 8; echo end"], stdout=writing)
    os.close(writing)
    shown = shown_by([*RDMADIAG, "explain", "--log", "-"], stdin=reading)
    os.close(reading)
    assert writer.wait(timeout=30) == 0
    assert "reading standard input: 0.0 MB in " in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.slow
def test_the_pause_between_two_samples_is_waited_for_in_sight(tmp_path: Path) -> None:
    program = "from rdmadiag.cli.comparing import *; Sampler(None, quiet=False).pause(2.5)"
    shown = shown_by([sys.executable, "-c", program])
    assert "waiting for the second sample: 1 of 2.5 s" in shown
    assert shown.endswith("\r\x1b[K")
    assert shown_by([sys.executable, "-c", program.replace("False", "True")]) == ""


OPENING = """
import os, sys, time
from rdmadiag.cli import run
from rdmadiag.host import recorded
opened = recorded.open_snapshot
recorded.open_snapshot = lambda path: time.sleep(2.5) or opened(path)
os.chdir(sys.argv[1])
sys.exit(run(["gids", "--from", "record"]))
"""


@pytest.mark.slow
def test_a_record_that_takes_long_to_open_is_waited_for_in_sight(tmp_path: Path) -> None:
    roce_host().write(str(tmp_path / "record"), "A healthy host.")
    shown = shown_by([sys.executable, "-c", OPENING, str(tmp_path)])
    assert "waiting for record: " in shown
    assert shown.endswith("\r\x1b[K")


def test_a_wait_that_fails_leaves_no_line_and_no_thread() -> None:
    program = """
import threading
from rdmadiag.cli.progress import meanwhile
try:
    with meanwhile(lambda seconds: "x"):
        assert threading.active_count() == 2
        raise ValueError
except ValueError:
    raise SystemExit(threading.active_count() - 1)
"""
    assert shown_by([sys.executable, "-c", program]) == ""
