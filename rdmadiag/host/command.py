"""One command run under a deadline: killed and abandoned when late, its output capped."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.frozen import dataclass
from rdmadiag.host import child_process
from rdmadiag.host.answers import OUTPUT_LIMIT, Ran, not_started

_DRAIN_SECONDS: Final = 0.5  # for the output of a command that has ended, past its deadline
_REAP_SECONDS: Final = 0.05  # for a killed child to end; one that does not is left to init


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command came to its end, and what it had printed by then."""

    pid: int
    returncode: int | None  # None: killed, as it was late
    output_held: bool  # it ended, and a child of it holds its output open
    reaped: bool  # False: killed, and still there; it is stuck in the kernel
    stdout: bytes
    stderr: bytes


def run(argv: Sequence[str], deadline: float) -> Ran | Missing:
    """The command's output, with LC_ALL=C; `deadline` is absolute on time.monotonic's clock."""
    ended = finish(argv, deadline)
    subject = argv[0]
    if isinstance(ended, Missing):
        return ended
    if ended.output_held:
        return Missing(Why.TIMEOUT, f"{subject}: a child of it holds its output open")
    if ended.returncode is None:
        fate = "killed" if ended.reaped else "cannot be killed"
        return Missing(
            Why.TIMEOUT, f"{subject}: no end before the deadline, pid {ended.pid} {fate}"
        )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


def finish(argv: Sequence[str], deadline: float) -> Ended | Missing:
    """As `run`, and of a command that was killed what it had printed."""
    if time.monotonic() >= deadline:
        return Missing(Why.TIMEOUT, f"{argv[0]}: the deadline had passed before it was started")
    with child_process.starting():
        try:
            child = subprocess.Popen(  # noqa: S603  # argv is a constant of ours, never a shell line
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
                preexec_fn=child_process.before_exec(),  # noqa: PLW1509  # takes no lock
            )
        except OSError as error:
            return not_started(error, argv[0])
        child_process.running.add(child.pid)
    out, err = _Capped(child.stdout), _Capped(child.stderr)
    held, reaped = False, True
    try:
        # Not subprocess.run(timeout=): it waits without end for a child stuck in the kernel.
        returncode: int | None = child.wait(timeout=max(0.0, deadline - time.monotonic()))
        # What it wrote is in the pipe, however late it is: cut off, it would be another answer.
        drained_by = max(deadline, time.monotonic() + _DRAIN_SECONDS)
        held = not (out.finish(drained_by) and err.finish(drained_by))
        if held:
            abandon(child)
    except subprocess.TimeoutExpired:
        returncode = None
        reaped = abandon(child)
        out.finish(time.monotonic() + _REAP_SECONDS)
    finally:
        child_process.running.discard(child.pid)
    return Ended(child.pid, returncode, held, reaped, out.content(), err.content())


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


def abandon(child: "subprocess.Popen[bytes]") -> bool:
    """Kill a child's whole group and hardly wait; False for one that is stuck in the kernel."""
    # PermissionError: all that is left of the group runs as somebody else.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.wait(timeout=_REAP_SECONDS)
    except subprocess.TimeoutExpired:
        child.returncode = -signal.SIGKILL  # so that Popen neither waits nor warns
        return not child_process.is_stuck(child.pid)
    return True
