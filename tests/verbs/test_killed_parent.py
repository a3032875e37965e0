"""The query's child ends with its parent, in a call that never returns."""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.samples import roce_host
from lab.transcript import script
from rdmadiag.verbs import child
from rdmadiag.verbs.bounds import HARD_SECONDS

CHECKOUT = Path(__file__).parent.parent.parent
SOON = 10.0

PARENT = """
import sys, time
from rdmadiag.host.isolation import SideBySide
from rdmadiag.verbs import child

running = SideBySide()
limit = time.monotonic() + 600
running.start("verbs", lambda: child.ask("linux", sys.argv[1], 8, limit))
running.collect(limit)
"""


@pytest.fixture
def hanging(fake_verbs: Any, tmp_path: Path) -> Any:
    """A library whose first call never returns, under a name by which no other test has it."""
    found = fake_verbs(script(roce_host().transcribed()) + "on ibv_open_device hang\n")
    return replace(found, library=Path(shutil.copy(found.library, tmp_path)))


def wait_for_the_call(fake: Any) -> None:
    end = time.monotonic() + 30
    while not any(line.startswith("ibv_open_device") for line in fake.calls):
        assert time.monotonic() < end
        time.sleep(0.01)


def who_runs(library: Path) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if str(library).encode() in line and int(name) != os.getpid():
            found.append(int(name))
    return found


def test_a_query_that_hangs_ends_with_the_command_that_was_killed(hanging: Any) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(hanging.library)],
        stdout=subprocess.PIPE,
        env={**os.environ, **hanging.environ, "PYTHONPATH": str(CHECKOUT)},
    ) as parent:
        assert parent.stdout
        try:
            wait_for_the_call(hanging)
            assert len(who_runs(hanging.library)) == 3, "the command, its source, the query"
        finally:
            parent.kill()
        began = time.monotonic()
        try:
            assert select.select([parent.stdout], [], [], SOON)[0], "nobody holds it open"
            assert parent.stdout.read() == b""
            while who_runs(hanging.library):
                assert time.monotonic() - began < SOON
                time.sleep(0.02)
        finally:
            for pid in who_runs(hanging.library):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_where_nothing_kills_it_its_alarm_ends_it(hanging: Any) -> None:
    """A signal's default action needs no handler: it ends a call that never returns."""
    start = time.monotonic()
    argv = ["linux", str(hanging.library), "8", repr(start), repr(start + 1.0)]
    query = subprocess.run(
        [*child.program("query"), *argv],
        env={**os.environ, **hanging.environ},
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    assert query.returncode == -signal.SIGALRM
    lived = time.monotonic() - start
    assert 1.0 + HARD_SECONDS - 0.1 < lived < 1.0 + HARD_SECONDS + SOON
