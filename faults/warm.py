"""Runs of rdmadiag that start at once: forks of this process, which has imported it.

One for a host of the lab enters the namespaces of a process that holds them. Not for a process
with threads.
"""

import ctypes
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from lab.failure import LabFailure

_MODULES: Final = (
    *("rdmadiag.__main__", "rdmadiag.cli.snapshot", "rdmadiag.host.recording", "rdmadiag.report"),
    *("rdmadiag.host.command", "rdmadiag.host.netlink", "rdmadiag.verbs.child"),
    *("rdmadiag.cli.preflight", "rdmadiag.cli.explain", "rdmadiag.preflight.judge"),
    *("rdmadiag.explain.log.scan", "rdmadiag.explain.log.ranking.by_report"),
    "rdmadiag.render.documents",
    *("rdmadiag.sources.nldev", "rdmadiag.sources.sysfs", "rdmadiag.sources.verbs"),
)

VERBS_SECONDS: Final = 20.0


def load() -> None:
    """Import what a snapshot, a preflight and a log take."""
    for module in _MODULES:
        import_module(module)


def rehearse(*argv: str) -> None:
    """Run it once in this process, and drop what it prints: each fork has what that has loaded."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        import_module("rdmadiag.cli").run(list(argv))
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def start(argv: list[str], out: Path, *, holder: int = 0) -> int:
    """`rdmadiag ARGV…`, its output in a file, in the namespaces of a process; the pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        said = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said if holder else os.open(os.devnull, os.O_WRONLY), 2)
        # Not those of a test that captures what is printed.
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
        if holder:
            _enter(holder)
        main(argv)
    finally:
        os._exit(70)


def main(argv: list[str]) -> None:
    """The program, which waits for libibverbs as long as a guest without processor time takes."""
    vars(import_module("rdmadiag.sources.verbs"))["SECONDS"] = VERBS_SECONDS
    sys.argv = ["rdmadiag", *argv]
    import_module("rdmadiag.__main__").main()


def finish(pid: int, seconds: float) -> int:
    """Its exit code; 124 where it was late and was killed."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    code = os.waitstatus_to_exitcode(status)
    return 124 if code == -signal.SIGKILL else code


def _enter(holder: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    # Descriptors first: /proc of the other mount namespace is another one.
    spaces = [os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY) for kind in ("net", "uts", "mnt")]
    for space in spaces:
        if libc.setns(space, 0):
            raise LabFailure(f"setns: {os.strerror(ctypes.get_errno())}")
        os.close(space)
    os.chdir("/tmp")  # noqa: S108  # of the guest


if __name__ == "__main__":
    main(sys.argv[1:])
