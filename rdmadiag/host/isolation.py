"""Tasks side by side, each in a forked child, under one absolute deadline.

A read of sysfs or a netlink request can hang in the kernel where no signal reaches it,
and a process with such a thread cannot end. A child can be killed and left behind. It holds
nothing of the caller's streams, and ends when its parent does.
"""

import contextlib
import gc
import os
import pickle
import selectors
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from rdmadiag.facts import Missing, Why
from rdmadiag.host import child_process
from rdmadiag.host.answers import not_started
from rdmadiag.host.in_turn import Waiting, bug, ran_out

_CHUNK: Final = 1 << 20
_EXIT_SECONDS: Final = 1.0  # for a child that has answered
_KILLED_SECONDS: Final = 0.05
_TICK_SECONDS: Final = 1.0


class SideBySide:
    """Tasks by name, each running since `start`; `collect` waits for all of them."""

    def __init__(self) -> None:
        self._children: dict[str, tuple[int, int]] = {}
        self._refused: dict[str, Missing] = {}

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Run `task` in a forked child; its result travels back by pickle."""
        try:
            others = [pipe for _, pipe in self._children.values()]
            self._children[name] = _start(task, others)
        except OSError as error:
            self._refused[name] = not_started(error, f"{name}: no process could be started")

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """Each task's result; a Missing for one that raised, died or came late.

        `waiting_for` is called with the names of tasks that are late by a second, then each second.
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
                ready = selector.select(min(left, _TICK_SECONDS) if waiting_for else left)
                if waiting_for and not ready:
                    waiting_for(waiting)
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    received[key.data] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
                        waiting.discard(key.data)
        results: dict[str, Any | Missing] = dict(self._refused)
        for name, (pid, pipe) in self._children.items():
            os.close(pipe)
            if name in waiting:
                fate = "was killed" if _abandon(pid) else "cannot be killed"
                results[name] = Missing(
                    Why.TIMEOUT, f"{name}: no answer before the deadline; process {pid} {fate}"
                )
            else:
                # Its pipe is closed: it has written all and is exiting.
                status = _reap(pid, _EXIT_SECONDS)
                results[name] = _result(name, bytes(received[name]), status)
        self._children.clear()
        self._refused.clear()
        return results


def _start(task: Callable[[], Any], others: Sequence[int]) -> tuple[int, int]:
    """`others` are the pipes of the children before it: one that it held would not close."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, broken or closed
            stream.flush()
    child_process.prepare()
    parent = os.getpid()
    reader, writer = os.pipe()
    # Python raises a Ctrl-C of that moment in the child, between fork(2) and what os.fork()
    # does after it: a traceback on the terminal, and a parent that goes on.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pid = os.fork()
        if not pid and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if pid:
        os.close(writer)
        return pid, reader
    return _child(task, writer, parent, (reader, *others))


def _child(task: Callable[[], Any], writer: int, parent: int, others: Sequence[int]) -> NoReturn:
    # Its life is short: collecting would copy the pages that it shares with the parent.
    gc.disable()
    try:
        for pipe in others:
            os.close(pipe)
        writer = child_process.leave_streams(writer)
        child_process.bind(parent, writer)
        try:
            answer = pickle.dumps((True, task()), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001  # one source's bug must not cost the others
            import traceback

            failed = (repr(error), traceback.format_exc(), ran_out(error))
            answer = pickle.dumps((False, failed))
        with os.fdopen(writer, "wb") as out:
            out.write(answer)
    finally:
        # No cleanup of the parent's: its buffers and atexit handlers are not ours.
        os._exit(0)


def _abandon(pid: int) -> bool:
    """Kill it and hardly wait; False for one that is stuck in the kernel."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    # Reaped if it dies at once; one that is stuck in the kernel is left to init.
    return _reap(pid, _KILLED_SECONDS) is not None or not child_process.is_stuck(pid)


def _reap(pid: int, seconds: float) -> int | None:
    """The child's wait status; None for one that has not ended within `seconds`."""
    end = time.monotonic() + seconds
    while True:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # who started us ignores SIGCHLD: the kernel has reaped it
            return None
        if ended:
            return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.0002)


def _result(name: str, content: bytes, status: int | None) -> Any | Missing:
    try:
        succeeded, value = pickle.loads(content)  # noqa: S301  # written by our own child
    except Exception:  # noqa: BLE001  # cut short, or a value that cannot be put together again
        ending = "ended without an answer"
        if status is not None and os.WIFSIGNALED(status):
            ending = f"was ended by signal {os.WTERMSIG(status)}"
        return Missing(Why.MALFORMED, f"{name}: its process {ending}")
    if succeeded:
        return value
    return bug(name, *value)
