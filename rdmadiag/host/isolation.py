"""Tasks in forked children, under one absolute deadline.

A read of sysfs or a netlink request can hang in the kernel where no signal reaches it,
and a process with such a thread cannot end. A child can be killed and left behind. It holds
nothing of the caller's streams, and ends when its parent does.

What this host is asked runs side by side, each task in a child of its own. What is in files
that a user names, which may lie on a file system that has gone and may hold anything, is read
in one child, whose memory is bounded.
"""

import contextlib
import gc
import os
import pickle
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from math import inf
from typing import Any, Final, NamedTuple, NoReturn

from rdmadiag.facts import Missing, Why
from rdmadiag.host import child_process
from rdmadiag.host.answers import not_started
from rdmadiag.host.in_turn import Waiting, bug, ran_out

_CHUNK: Final = 1 << 20
_EXIT_SECONDS: Final = 1.0  # for a child that has answered
_KILLED_SECONDS: Final = 0.05
_ENDS_ITSELF_SECONDS: Final = 0.3
_TICK_SECONDS: Final = 1.0


MEMORY: Final = 1 << 30
"""Bytes of address space that a child which reads what a user names may add to its own."""

_PAGE: Final = resource.getpagesize()


class _Child(NamedTuple):
    names: tuple[str, ...]  # of its tasks
    pid: int
    pipe: int


class _Children:
    """Children whose tasks have names; `collect` waits for all of them."""

    def __init__(self) -> None:
        self._children: list[_Child] = []
        self._refused: dict[str, Missing] = {}
        self.not_started: OSError | None = None

    def _fork(
        self, tasks: Mapping[str, Callable[[], Any]], deadline: float = inf, memory: int = 0
    ) -> None:
        try:
            others = [child.pipe for child in self._children]
            pid, pipe = _start(tasks, others, deadline, memory)
        except OSError as error:
            self.not_started = error
            for name in tasks:
                what = f"{name}: no process could be started"
                self._refused[name] = not_started(error, what)
        else:
            self._children.append(_Child(tuple(tasks), pid, pipe))

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """Each task's result; a Missing for one that raised, died or came late.

        `waiting_for` is called with the names of tasks that are late by a second, then each second.
        `deadline` is absolute on `time.monotonic`'s clock. A late child is killed and
        not waited for; its pid stands in the Missing.
        """
        received = {child: bytearray() for child in self._children}
        waiting = set(received)
        with selectors.DefaultSelector() as selector:
            for child in self._children:
                selector.register(child.pipe, selectors.EVENT_READ, child)
            while waiting:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                ready = selector.select(min(left, _TICK_SECONDS) if waiting_for else left)
                if waiting_for and not ready:
                    waiting_for([name for child in waiting for name in child.names])
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    received[key.data] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
                        waiting.discard(key.data)
        results: dict[str, Any | Missing] = dict(self._refused)
        for child, content in received.items():
            os.close(child.pipe)
            if child in waiting:
                fate = "was killed" if _abandon(child.pid) else "cannot be killed"
                why, ending = (
                    Why.TIMEOUT,
                    f"no answer before the deadline; process {child.pid} {fate}",
                )
            else:
                # Its pipe is closed: it has written all and is exiting.
                why, ending = Why.MALFORMED, _ending(_reap(child.pid, _EXIT_SECONDS))
            answers = _answers(bytes(content))
            for name in child.names:
                results[name] = answers.get(name, Missing(why, f"{name}: {ending}"))
        self._children.clear()
        self._refused.clear()
        return results


class SideBySide(_Children):
    """Tasks by name, each running since `start` in a child of its own."""

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Run `task` in a forked child; its result travels back by pickle."""
        self._fork({name: task})


class InOneChild(_Children):
    """Tasks by name, one after the other in one child, within MEMORY.

    What one has answered is kept where a later one takes too long.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, Callable[[], Any]] = {}

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Take `task` on; `collect` runs it."""
        self._tasks[name] = task

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """As of every child."""
        if self._tasks:
            self._fork(self._tasks, deadline, MEMORY)
            self._tasks = {}
        return super().collect(deadline, waiting_for)


def in_one_child(
    name: str, task: Callable[[], Any], deadline: float, waiting_for: Waiting | None = None
) -> Any | Missing:
    """What `task` returns, which is of what a user has named; a Missing as of every child.

    Raises OSError where no child could be started.
    """
    child = InOneChild()
    child.start(name, task)
    found = child.collect(deadline, waiting_for)[name]
    if child.not_started:
        raise child.not_started
    return found


def _start(
    tasks: Mapping[str, Callable[[], Any]], others: Sequence[int], deadline: float, memory: int
) -> tuple[int, int]:
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
    return _child(tasks, writer, parent, (reader, *others), deadline, memory)


def _child(
    tasks: Mapping[str, Callable[[], Any]],
    writer: int,
    parent: int,
    others: Sequence[int],
    deadline: float,
    memory: int,
) -> NoReturn:
    # Its life is short: collecting would copy the pages that it shares with the parent.
    gc.disable()
    try:
        for pipe in others:
            os.close(pipe)
        # A file that the user names may be /dev/stdin.
        writer = child_process.leave_streams(writer, stdin=bool(memory))
        child_process.bind(parent, writer)
        if memory:
            _bound(memory)
        with os.fdopen(writer, "wb") as out:
            for name, task in tasks.items():
                out.write(_answer(name, task, deadline))
                out.flush()
    finally:
        # No cleanup of the parent's: its buffers and atexit handlers are not ours.
        os._exit(0)


def _bound(memory: int) -> None:
    """`memory` more bytes of address space than now; a library may have reserved many."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = int(file.read().split()[0]) * _PAGE + memory
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _answer(name: str, task: Callable[[], Any], deadline: float) -> bytes:
    if time.monotonic() >= deadline:
        return _sent(name, True, Missing(Why.TIMEOUT, f"{name}: not read before the deadline"))
    try:
        return _sent(name, True, task())
    except MemoryError:
        return _sent(name, True, Missing(Why.EXHAUSTED, f"{name}: takes more memory than it may"))
    except Exception as error:  # noqa: BLE001  # one source's bug must not cost the others
        import traceback

        failed = (repr(error), traceback.format_exc(), ran_out(error))
        return _sent(name, False, failed)


def _sent(name: str, succeeded: bool, value: Any) -> bytes:
    return pickle.dumps((name, succeeded, value), pickle.HIGHEST_PROTOCOL)


def _answers(content: bytes) -> dict[str, Any | Missing]:
    """By name; none of a task whose answer was cut short or cannot be put together again."""
    found: dict[str, Any | Missing] = {}
    sent = BytesIO(content)
    while sent.tell() < len(content):
        try:
            name, succeeded, value = pickle.load(sent)  # noqa: S301  # written by our own child
        except Exception:  # noqa: BLE001  # whatever a class raises
            break
        found[name] = value if succeeded else bug(name, *value)
    return found


def _abandon(pid: int) -> bool:
    """Kill it and hardly wait; False for one that is stuck in the kernel."""
    # On macOS the end of its pipe, closed by now, makes it end the commands that it has started.
    if sys.platform != "linux" and _reap(pid, _ENDS_ITSELF_SECONDS) is not None:
        return True
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


def _ending(status: int | None) -> str:
    if status is not None and os.WIFSIGNALED(status):
        return f"its process was ended by signal {os.WTERMSIG(status)}"
    return "its process ended without an answer"
