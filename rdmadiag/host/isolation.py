"""Tasks in forked children, under one absolute deadline.

A read of sysfs or a netlink request can hang in the kernel where no signal reaches it,
and a process with such a thread cannot end. A child can be killed and left behind. It holds
nothing of the caller's streams, and ends when its parent does.

Queries of this host run side by side, in a child for each task or in a few that share the
tasks. What is in files that a user names, which may lie on a file system that has gone and may
hold anything, is read in one child, or in two, whose memory is bounded.
"""

import contextlib
import gc
import os
import pickle
import resource
import select
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_PATIENCE_SECONDS: Final = 0.05  # without an answer, before one more child shares the tasks
_AT_FIRST: Final = 4  # children that share tasks, where there are as many processors
_OF_GIVEN: Final = 2  # children that share what is in files that a user names
_LENGTH: Final = 8  # bytes, before each message of a child


MEMORY: Final = 1 << 30
"""Bytes of address space that a child which reads what a user names may add to its own."""

_PAGE: Final = resource.getpagesize()


class _Heard:
    """What one child has sent so far."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.at = ""
        """The task that it has begun, while there is no answer to it."""

    def answers_in(self, chunk: bytes) -> dict[str, Any | Missing]:
        """Those that are whole with `chunk`; none of one that cannot be put together again."""
        self._rest += chunk
        found: dict[str, Any | Missing] = {}
        while len(self._rest) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._rest[:_LENGTH], "little")
            if len(self._rest) < end:
                break
            pickled = bytes(self._rest[_LENGTH:end])
            del self._rest[:end]
            try:
                message = pickle.loads(pickled)  # noqa: S301  # written by our own child
            except Exception:  # noqa: BLE001  # whatever a class raises
                found[self.at] = Missing(Why.MALFORMED, f"{self.at}: its answer cannot be read")
                continue
            if isinstance(message, str):
                self.at = message
            else:
                name, succeeded, value = message
                found[name] = value if succeeded else bug(name, *value)
                self.at = ""
        return found


class _Child(NamedTuple):
    pid: int
    pipe: int
    names: frozenset[str]  # of the tasks that no other child has
    heard: _Heard


class _Children:
    """Children that run tasks by name; `collect` waits for all of them."""

    _patience = _TICK_SECONDS

    def __init__(self) -> None:
        self._names: list[str] = []
        self._children: list[_Child] = []
        self._refused: dict[str, Missing] = {}
        self.not_started: OSError | None = None

    def begin(self) -> None:
        """Nothing: each runs since `start`, or as soon as `collect` is called."""

    def _fork(
        self,
        tasks: Mapping[str, Callable[[], Any]],
        taken: Iterable[str],
        memory: int = 0,
    ) -> _Child | None:
        """A child that runs those of `tasks` that it takes; None where none could be started."""
        try:
            others = [child.pipe for child in self._children]
            pid, pipe = _start(tasks, taken, others, memory)
        except OSError as error:
            self.not_started = error
            for name in tasks:
                what = f"{name}: no process could be started"
                self._refused[name] = not_started(error, what)
            return None
        child = _Child(pid, pipe, frozenset(tasks if taken is tasks else ()), _Heard())
        self._children.append(child)
        return child

    def _one_more(self, running: int) -> _Child | None:
        """One more child beside those, where there are tasks that none has taken."""
        return None

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """Each task's result; a Missing for one that raised, died or came late.

        `waiting_for` is called with the names of tasks that are late by a second, then each second.
        `deadline` is absolute on `time.monotonic`'s clock. A late child is killed and
        not waited for; its pid stands in the Missing.
        """
        self.begin()
        answers: dict[str, Any | Missing] = {}
        late = self._listen(answers, deadline, waiting_for)
        without = [name for name in self._names if name not in answers]
        for child in self._children:
            ended = _late(child) if child in late else _gone(child)
            for name in without:
                if name in child.names or name == child.heard.at:
                    answers[name] = Missing(ended.why, f"{name}: {ended.detail}")
        for name in without:
            not_taken = Missing(Why.TIMEOUT, f"{name}: not read before the deadline")
            answers.setdefault(name, self._refused.get(name, not_taken))
        in_order = {name: answers[name] for name in self._names}
        self._names.clear()
        self._children.clear()
        self._refused.clear()
        return in_order

    def _listen(
        self, answers: dict[str, Any | Missing], deadline: float, waiting_for: Waiting | None
    ) -> set[_Child]:
        """Adds to `answers` until the deadline; the children that have not ended by then."""
        latest = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for child in self._children:
                selector.register(child.pipe, selectors.EVENT_READ, child)
            while selector.get_map() and (now := time.monotonic()) < deadline:
                ready = selector.select(min(deadline - now, self._patience))
                idle = not ready
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    answers |= key.data.heard.answers_in(chunk)
                    if not chunk:
                        selector.unregister(key.fd)
                        idle = True
                if idle and (more := self._one_more(len(selector.get_map()))):
                    selector.register(more.pipe, selectors.EVENT_READ, more)
                now = time.monotonic()
                if ready:
                    latest = now
                elif waiting_for and now - latest >= _TICK_SECONDS:
                    waiting_for([name for name in self._names if name not in answers])
                    latest = now
            return {key.data for key in selector.get_map().values()}


class SideBySide(_Children):
    """Tasks by name, each running since `start` in a child of its own."""

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Run `task` in a forked child; its result travels back by pickle."""
        self._names.append(name)
        tasks = {name: task}
        self._fork(tasks, tasks)


class InFewChildren(_Children):
    """Tasks by name that a few children share: a fork costs more than most of them.

    Each child takes the next task when it has answered one. Where none answers for a moment while
    tasks are left, or where one dies, another child is started: a task that hangs holds up no
    other. They run since `begin`. With `memory`, each is within so many bytes, and there are no
    more than two at a time: for what a user names, where what holds up one holds up any.
    """

    _patience = _PATIENCE_SECONDS

    def __init__(self, memory: int = 0) -> None:
        super().__init__()
        self._memory = memory
        self._tasks: dict[str, Callable[[], Any]] = {}
        self._next = -1  # a pipe that holds a byte for each task that no child has taken

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Take `task` on; its result travels back by pickle."""
        self._names.append(name)
        self._tasks[name] = task

    def begin(self) -> None:
        """Start the first children; a second call does nothing."""
        if self._next >= 0 or not self._tasks:
            return
        self._next, writer = os.pipe()
        os.write(writer, bytes(range(len(self._tasks))))
        os.close(writer)
        for running in range(min(len(self._tasks), self._at_first())):
            self._one_more(running)

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """As of every child."""
        try:
            return super().collect(deadline, waiting_for)
        finally:
            if self._next >= 0:
                os.close(self._next)
                self._next = -1
            self._tasks = {}

    def _at_first(self) -> int:
        return _OF_GIVEN if self._memory else min(_AT_FIRST, max(2, len(os.sched_getaffinity(0))))

    def _one_more(self, running: int) -> _Child | None:
        if self._next < 0 or (self._memory and running >= _OF_GIVEN):
            return None
        left = select.poll()
        left.register(self._next, select.POLLIN)
        if not any(events & select.POLLIN for _, events in left.poll(0)):
            return None
        return self._fork(self._tasks, self._taken(), memory=self._memory)

    def _taken(self) -> Iterator[str]:
        names = tuple(self._tasks)
        while number := os.read(self._next, 1):
            yield names[number[0]]


def in_one_child(
    name: str, task: Callable[[], Any], deadline: float, waiting_for: Waiting | None = None
) -> Any | Missing:
    """What `task` returns, which is of what a user has named; a Missing as of every child.

    Raises OSError where no child could be started.
    """
    child = InFewChildren(MEMORY)
    child.start(name, task)
    found = child.collect(deadline, waiting_for)[name]
    if child.not_started:
        raise child.not_started
    return found


def _start(
    tasks: Mapping[str, Callable[[], Any]],
    taken: Iterable[str],
    others: Sequence[int],
    memory: int,
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
    return _child(tasks, taken, writer, parent, (reader, *others), memory)


def _child(
    tasks: Mapping[str, Callable[[], Any]],
    taken: Iterable[str],
    writer: int,
    parent: int,
    others: Sequence[int],
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
            for name in taken:
                out.write(_message(name))
                out.flush()
                out.write(_answer(name, tasks[name]))
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


def _answer(name: str, task: Callable[[], Any]) -> bytes:
    try:
        return _sent(name, True, task())
    except MemoryError:
        return _sent(name, True, Missing(Why.EXHAUSTED, f"{name}: takes more memory than it may"))
    except Exception as error:  # noqa: BLE001  # one source's bug must not cost the others
        import traceback

        failed = (repr(error), traceback.format_exc(), ran_out(error))
        return _sent(name, False, failed)


def _sent(name: str, succeeded: bool, value: Any) -> bytes:
    return _message((name, succeeded, value))


def _message(sent: str | tuple[str, bool, Any]) -> bytes:
    """The name of a task that is begun, or how it ended and with what."""
    pickled = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL)
    return len(pickled).to_bytes(_LENGTH, "little") + pickled


def _late(child: _Child) -> Missing:
    os.close(child.pipe)
    fate = "was killed" if _abandon(child.pid) else "cannot be killed"
    return Missing(Why.TIMEOUT, f"no answer before the deadline; process {child.pid} {fate}")


def _gone(child: _Child) -> Missing:
    """Of one whose pipe is closed: it has written all and is exiting."""
    os.close(child.pipe)
    return Missing(Why.MALFORMED, _ending(_reap(child.pid, _EXIT_SECONDS)))


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
