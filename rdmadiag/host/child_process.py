"""A child of ours: it ends with its parent, and one that cannot be killed is known.

On Linux the kernel kills it when its parent ends: prctl(2), PR_SET_PDEATHSIG. Elsewhere a
forked child gets SIGIO when its parent's end of the pipe between them closes (fcntl(2),
O_ASYNC), and ends itself and the commands that it has started: a system call is interrupted
for that, a call into a library is not.
"""

import fcntl
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

PR_SET_PDEATHSIG: Final = 1
"""linux/prctl.h; it outlives an exec."""

_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL
_STREAMS: Final = 3  # stdin, stdout, stderr

running: Final[set[int]] = set()
"""Process groups of the commands that this process has started and that have not ended."""


class _Start:
    """Of a command: it is not in `running` before it has been started."""

    under_way = False
    owed: Callable[[], None] | None = None


@contextmanager
def starting() -> Iterator[None]:
    """Around what starts a command and adds it to `running`: in between nothing ends this child,
    which would leave the command behind."""
    _Start.under_way = True
    try:
        yield
    finally:
        _Start.under_way = False
        if _Start.owed:
            _Start.owed()


def prepare() -> None:
    """In the parent, before a fork: loads what the child needs to be bound to it."""
    if sys.platform == "linux":
        _prctl()


def bind(parent: int, pipe: int) -> None:
    """In a forked child: from here on it ends when `parent` does; at once where that has ended.

    `pipe` is the child's end of a pipe of which `parent` alone holds the other.
    """
    if sys.platform == "linux":
        _killed_with(_prctl(), parent)
    else:
        _signalled_by(pipe)


def before_exec() -> Callable[[], None] | None:
    """What a child of Popen calls before it becomes the program, so that it ends with us.

    None where the kernel knows no such thing: `bind` then ends it, from whoever started it.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = _prctl(), os.getpid()
    return lambda: _killed_with(prctl, parent)


def leave_streams(kept: int, *, stdin: bool = False) -> int:
    """In a forked child: the caller's stdin, stdout and stderr are none of its own.

    They become /dev/null, but for stdin where the child reads it. `kept` stays open, under a
    number of its own: that is returned.
    """
    first = 1 if stdin else 0
    if kept < _STREAMS:
        kept = fcntl.fcntl(kept, fcntl.F_DUPFD_CLOEXEC, _STREAMS)
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:
        os.closerange(first, _STREAMS)
        return kept
    for stream in range(first, _STREAMS):
        os.dup2(null, stream)
    if null >= _STREAMS:
        os.close(null)
    return kept


def is_stuck(pid: int) -> bool:
    """Whether a killed process is in an uninterruptible sleep, and not merely slow to go.

    Where there is no /proc, one that has not gone counts as stuck.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"D"]
    except OSError:
        return not os.path.exists("/proc/self/stat")


@cache
def _prctl() -> Callable[..., int]:
    import ctypes

    library = ctypes.CDLL(None)
    library.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    call: Callable[..., int] = library.prctl
    return call


def _killed_with(prctl: Callable[..., int], parent: int) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that was set
        os._exit(0)


def _signalled_by(pipe: int) -> None:
    other_end = select.poll()
    other_end.register(pipe, select.POLLOUT)

    def end(*_: object) -> None:
        if not any(events & _GONE for _, events in other_end.poll(0)):
            return  # the parent has read, and there is room to write
        if _Start.under_way:
            _Start.owed = end
            return
        for group in running:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGIO, end)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    end()
