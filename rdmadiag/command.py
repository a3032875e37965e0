"""One command run under a deadline: killed and abandoned when late, its output capped."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Final

from rdmadiag.answers import Ran, refusal
from rdmadiag.facts import Missing, Why

OUTPUT_LIMIT: Final = 4 * 1024 * 1024
"""Bytes kept of what a command prints; the rest is read and dropped."""

_REAP_SECONDS: Final = 0.05  # for a killed child to end; one that does not is left to init


def run(argv: Sequence[str], deadline: float) -> Ran | Missing:
    """The command's output, with LC_ALL=C; `deadline` is absolute on time.monotonic's clock."""
    subject = argv[0]
    try:
        child = subprocess.Popen(  # noqa: S603  # argv is a constant of a source, never a shell line
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        return refusal(error, subject)
    out, err = _Capped(child.stdout), _Capped(child.stderr)
    try:
        # Not subprocess.run(timeout=): it waits without end for a child stuck in the kernel.
        returncode = child.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _abandon(child)
        return Missing(
            Why.TIMEOUT, f"{subject}: no end before the deadline, pid {child.pid} killed"
        )
    if not (out.finish(deadline) and err.finish(deadline)):
        _abandon(child)
        return Missing(Why.TIMEOUT, f"{subject}: a child of it holds its output open")
    return Ran(returncode, out.content(), err.content())


class _Capped:
    """Drains a pipe in the background and keeps its first OUTPUT_LIMIT bytes."""

    def __init__(self, stream: object) -> None:
        self._stream = stream
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._stream as stream:  # type: ignore[attr-defined]  # Popen.stdout: IO[bytes]
            while chunk := stream.read1(65536):
                self._kept += chunk[: max(0, OUTPUT_LIMIT - len(self._kept))]

    def finish(self, deadline: float) -> bool:
        """Whether the other end was closed before `deadline`."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def content(self) -> bytes:
        return bytes(self._kept)


def _abandon(child: "subprocess.Popen[bytes]") -> None:
    """Kill the whole group and hardly wait: the child may be stuck in the kernel."""
    # PermissionError: all that is left of the group runs as somebody else.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=_REAP_SECONDS)
    child.returncode = -signal.SIGKILL  # so that Popen neither waits nor warns
