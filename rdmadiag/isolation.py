"""Tasks side by side, each in a forked child, under one absolute deadline.

A read of sysfs or a netlink request can hang in the kernel where no signal reaches it,
and a process with such a thread cannot end. A child can be killed and left behind.
"""

import os
import pickle
import selectors
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from rdmadiag.facts import Missing, Why

_CHUNK: Final = 1 << 20


class SideBySide:
    """Tasks by name, each running since `start`; `collect` waits for all of them."""

    def __init__(self) -> None:
        self._children: dict[str, tuple[int, int]] = {}

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Run `task` in a forked child; its result travels back by pickle."""
        self._children[name] = _start(task)

    def collect(self, deadline: float) -> dict[str, Any | Missing]:
        """Each task's result; a Missing for one that raised, died or came late.

        `deadline` is absolute on `time.monotonic`'s clock. A late child is killed and
        not waited for; its pid stands in the Missing.
        """
        received: dict[str, bytearray] = {name: bytearray() for name in self._children}
        waiting = set(received)
        with selectors.DefaultSelector() as selector:
            for name, (_, pipe) in self._children.items():
                selector.register(pipe, selectors.EVENT_READ, name)
            while waiting:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, _CHUNK)
                    received[key.data] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
                        waiting.discard(key.data)
        results = {}
        for name, (pid, pipe) in self._children.items():
            os.close(pipe)
            if name in waiting:
                _abandon(pid)
                results[name] = Missing(
                    Why.TIMEOUT, f"{name}: no answer before the deadline; process {pid} was killed"
                )
            else:
                os.waitpid(pid, 0)  # its pipe is closed: it has written all and is exiting
                results[name] = _result(name, bytes(received[name]))
        self._children.clear()
        return results


def _start(task: Callable[[], Any]) -> tuple[int, int]:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    return _child(task, writer)


def _child(task: Callable[[], Any], writer: int) -> NoReturn:
    try:
        try:
            answer = (True, task())
        except Exception as error:  # noqa: BLE001  # one source's bug must not cost the others
            import traceback

            answer = (False, (repr(error), traceback.format_exc()))
        with os.fdopen(writer, "wb") as out:
            pickle.dump(answer, out, pickle.HIGHEST_PROTOCOL)
    finally:
        # No cleanup of the parent's: its buffers and atexit handlers are not ours.
        os._exit(0)


def _abandon(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    # Reaped if it dies at once; one that is stuck in the kernel is left to init.
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.005)


def _result(name: str, content: bytes) -> Any | Missing:
    try:
        succeeded, value = pickle.loads(content)  # noqa: S301  # written by our own child
    except (EOFError, pickle.UnpicklingError):
        return Missing(Why.MALFORMED, f"{name}: its process ended without an answer")
    if succeeded:
        return value
    summary, trace = value
    if os.environ.get("RDMADIAG_DEBUG"):
        sys.stderr.write(trace)
    return Missing(Why.MALFORMED, f"{name}: a bug of rdmadiag: {summary}")
