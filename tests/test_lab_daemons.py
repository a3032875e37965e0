"""lab/daemons.py: servers that a part of the lab starts on this machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from lab.attempt import until

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
SECONDS = 60.0  # on a busy machine


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
        assert until(lambda: runs(pid), SECONDS)  # setpriv is replaced by it
        os.kill(parent.pid, signal.SIGKILL)
    assert until(lambda: not runs(pid), SECONDS)
