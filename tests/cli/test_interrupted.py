"""Ctrl-C where CPython cannot raise it."""

import subprocess
import sys

CODE = """
import signal, sys, weakref
from rdmadiag import __main__

class Lock:
    pass

def run(argv):
    lock = Lock()
    found = weakref.ref(lock, lambda _: signal.raise_signal(signal.SIGINT))
    del lock
    print("went on")
    return 0

import rdmadiag.cli
rdmadiag.cli.run = run
__main__.main()
"""


def test_a_callback_that_swallows_it_ends_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
