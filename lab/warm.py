"""Runs of rdmadiag that start at once: forks of one process that has imported it.

Importing is two thirds of the time that `preflight` takes in a guest, and the tests start
hundreds of commands. A fork is a process of its own, with the program's signals and exit code.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import IO, NamedTuple, NoReturn, Self

from lab.failure import EX_LATE, LabFailure

MODULES = (
    *("rdmadiag.cli.pingpong", "rdmadiag.cli.output", "rdmadiag.verbs.attempt", "rdmadiag.host"),
    *("rdmadiag.host.command", "rdmadiag.host.netlink", "rdmadiag.verbs.child"),
    *("rdmadiag.sources.netdev", "rdmadiag.sources.nldev", "rdmadiag.sources.process"),
    *("rdmadiag.sources.sysfs", "rdmadiag.sources.verbs"),
    *("rdmadiag.render.json", "rdmadiag.render.pingpong", "rdmadiag.render.exercise"),
    *("rdmadiag.cli.exercise", "rdmadiag.verbs.exercise"),
    *("rdmadiag.cli.preflight", "rdmadiag.cli.gids", "rdmadiag.preflight.rules"),
    *("rdmadiag.sources.pyroute2_messages", "rdmadiag.sources.table"),
)
START_SECONDS = 60.0  # for the imports
SERVER_SECONDS = 30.0  # for the process to end


class _Request(NamedTuple):
    """What a run has of the process that asks for it; all else it has of the server."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    umask: int


class Fork:
    """One run."""

    def __init__(self, report: int) -> None:
        self._report = os.fdopen(report, "rb", buffering=0)
        line = self._line(START_SECONDS)
        if not line:  # a pid of 0 would be, to kill(2), the group of who tests
            raise LabFailure(f"no run began within {START_SECONDS:g} s", EX_LATE)
        self.pid = int(line)

    def wait(self, timeout: float) -> tuple[int, int] | None:
        """Exit code (negative: a signal's number) and its peak of memory in KiB; None if late.

        The peak is the largest of its own and of each child's that it has waited for.
        """
        line = self._line(timeout)
        if line is None:
            return None
        self.close()
        status, peak = map(int, line.split())
        return os.waitstatus_to_exitcode(status), peak

    def close(self) -> None:
        """Ask no more."""
        self._report.close()

    def _line(self, timeout: float) -> bytes | None:
        ready = select.select([self._report], [], [], timeout)[0]
        return self._report.readline() if ready else None


class Warm:
    """The process that has imported rdmadiag."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "lab.warm", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def start(self, argv: Sequence[str], stdout: int, stderr: int) -> Fork:
        """`rdmadiag ARGV…` with these two descriptors, and what this process has of _Request."""
        report, theirs = os.pipe()
        mask = os.umask(0)
        os.umask(mask)
        request = _Request(list(argv), dict(os.environ), os.getcwd(), mask)
        try:
            with output_file("request") as file:
                file.write(json.dumps(request).encode())
                file.flush()
                streams = [stdout, stderr, file.fileno(), theirs]
                socket.send_fds(self._requests, [b"start"], streams)
        finally:
            os.close(theirs)
        return Fork(report)

    def run(self, argv: Sequence[str], timeout: float) -> tuple[int, str, str]:
        """`rdmadiag ARGV…` to its end: exit code, stdout, stderr.

        Killed after `timeout` seconds: LabFailure.
        """
        with output_file("out") as out, output_file("err") as err:
            began = time.monotonic()
            fork = self.start(argv, out.fileno(), err.fileno())
            ended = fork.wait(max(0.0, timeout - (time.monotonic() - began)))
            if ended is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(fork.pid, signal.SIGKILL)
                fork.close()
                raise LabFailure(f"rdmadiag {' '.join(argv)} did not end in time", EX_LATE)
            return ended[0], content(out), content(err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._server.wait(SERVER_SECONDS)


def output_file(name: str) -> IO[bytes]:
    """In memory, and without a name."""
    return os.fdopen(os.memfd_create(name), "w+b")


def content(file: IO[bytes]) -> str:
    """All that was written to it."""
    file.seek(0)
    return file.read().decode()


def serve(requests: socket.socket) -> None:
    """Until the other end of `requests` is closed."""
    ended, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C of a terminal is for who started this
    reports: dict[int, int] = {}
    while True:
        ready = select.select([requests.fileno(), ended], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
            _reap(reports)
        if requests.fileno() not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(requests, 16, 4)
        if not request:
            return
        *streams, report = descriptors
        pid = os.fork()
        if not pid:
            for each in (requests.fileno(), ended, waker, report, *reports.values()):
                os.close(each)
            _become(*streams)
        for each in streams:
            os.close(each)
        os.write(report, f"{pid}\n".encode())
        reports[pid] = report


def _reap(reports: dict[int, int]) -> None:
    while reports:
        pid, status, usage = os.wait3(os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # nobody asks any more
            os.write(report, f"{status} {usage.ru_maxrss}\n".encode())
        os.close(report)


def _become(stdout: int, stderr: int, request: int) -> NoReturn:
    """This fork is the program from here on."""
    try:
        with os.fdopen(request, "rb") as file:
            asked = _Request(*json.loads(content(file)))
        os.environ.clear()
        os.environ.update(asked.environment)
        os.chdir(asked.folder)
        os.umask(asked.umask)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for standard, stream in enumerate((stdout, stderr), 1):
            os.dup2(stream, standard)
            os.close(stream)
        sys.argv = ["rdmadiag", *asked.argv]
        import_module("rdmadiag.__main__").main()
    finally:
        os._exit(70)


if __name__ == "__main__":
    for module in MODULES:
        import_module(module)
    serve(socket.socket(fileno=int(sys.argv[1])))
