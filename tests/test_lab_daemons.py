"""lab/daemons.py: servers that a part of the lab starts on this machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# Prints the process of a server, and is killed before its block ends.
KILLED = """
import time
from lab.daemons import Daemons

class Sleeps(Daemons):
    NAME = "sleeps"
    def begin(self):
        self.start(["sleep", "60"], {})

with Sleeps() as daemons:
    print(daemons.running[0].pid, flush=True)
    time.sleep(60)
"""
SECONDS = 20.0


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().endswith(b"sleep\x0060\x00")
    except OSError:
        return False


def test_a_server_goes_with_the_process_that_started_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        late = time.monotonic() + SECONDS
        while not runs(pid) and time.monotonic() < late:  # setpriv is replaced by it
            time.sleep(0.01)
        assert runs(pid)
        os.kill(parent.pid, signal.SIGKILL)
    while runs(pid) and time.monotonic() < late:
        time.sleep(0.01)
    assert not runs(pid)
