"""What is in a file that the user names: read and understood within a budget.

It may lie on a network file system that has gone, where no signal ends a read; it may be made
to cost time or memory. So it is read in one child, which can be killed or left behind, and
what the child has understood comes back: `understood`.

It may be what a shell makes of `<(…)`, or /dev/stdin: a pipe is waited for, until a deadline.
"""

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from io import FileIO
from typing import Final, TypeVar

from rdmadiag.facts import Missing
from rdmadiag.host.in_turn import Waiting

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

WAIT: Final = 10.0
"""Seconds for a file whose reader has no deadline of its own."""

OF_PROC: Final = "a file of /proc, which may never end: copy what it holds into a file first"
_CHUNK: Final = 1 << 20
_HAND_OVER: Final = 0.2  # seconds for what `read` itself says at the deadline


def understood(
    path: str,
    read: Callable[[], T],
    error: type[E],
    deadline: float,
    waiting_for: Waiting | None = None,
) -> T:
    """What `read` makes of the file at `path`, in a child; raises the `error` that it raises.

    `deadline` is absolute on time.monotonic's clock. An `error` too, of one line, for what
    takes longer than that, or more memory than `isolation.MEMORY`. OSError where no child could
    be started, which says nothing of the file.
    """
    from rdmadiag.host.isolation import in_one_child

    def task() -> T | tuple[E, PermissionError | None]:
        try:
            return read()
        except error as raised:
            cause = raised.__cause__  # which pickle leaves out
            return raised, cause if isinstance(cause, PermissionError) else None

    found = in_one_child(path, task, deadline + _HAND_OVER, waiting_for)
    if isinstance(found, tuple) and isinstance(found[0], error):
        raise found[0] from found[1]
    if isinstance(found, Missing):
        raise error(found.detail)
    return found  # type: ignore[no-any-return]


def read_given(path: str, limit: int, deadline: float) -> bytes:
    """The content, of what is longer than `limit` bytes one byte more than those.

    `deadline` is absolute on time.monotonic's clock, and for pipes alone. Raises OSError, also
    for what is neither a regular file nor a pipe, and for a pipe that nobody writes to.
    """
    handle = open_given(path)
    try:
        content = _read(handle, limit, deadline)
        if not content and stat.S_ISFIFO(os.fstat(handle).st_mode):
            raise OSError(errno.ENODATA, "a pipe that nothing was written to")
        return content
    finally:
        os.close(handle)


def open_given(path: str) -> int:
    """A regular file or a pipe, open for reads that do not wait; raises OSError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:  # a NUL in the path
        raise OSError(errno.EINVAL, str(error)) from error
    found = os.fstat(handle)
    mode = found.st_mode
    if not is_of_proc(found) and (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        return handle
    os.close(handle)
    if is_of_proc(found):
        raise OSError(errno.EINVAL, OF_PROC)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "neither a regular file nor a pipe")


def is_of_proc(found: os.stat_result) -> bool:
    """Whether it is the kernel's, whose reads may wait for ever (/proc/kmsg)."""
    try:
        return found.st_dev == os.stat("/proc").st_dev
    except OSError:
        return False


def open_log(path: str, deadline: float) -> FileIO:
    """What is read as it comes, however long that takes, once its first byte is there.

    `deadline` is absolute on time.monotonic's clock, and for that byte. Raises OSError.
    """
    handle = open_given(path)
    try:
        _await(handle, deadline)
        os.set_blocking(handle, True)
        return FileIO(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def begin(path: str) -> None:
    """Reads a byte in a child, which a file system that has gone may hold; raises OSError.

    Not of a pipe, whose writer would find its reader gone, nor of what has no size: the kernel's
    own logs give each byte once.
    """
    try:
        found = os.stat(path)
    except ValueError as error:  # a NUL in the path
        raise OSError(errno.EINVAL, str(error)) from error
    if stat.S_ISREG(found.st_mode) and found.st_size:
        handle = open_given(path)
        try:
            os.pread(handle, 1, 0)
        finally:
            os.close(handle)


def _await(handle: int, deadline: float) -> None:
    readable = select.poll()
    readable.register(handle, select.POLLIN)
    if not readable.poll(1000 * max(0.0, deadline - time.monotonic())):
        raise OSError(errno.ETIMEDOUT, "nothing was written to it before the deadline")


def _read(handle: int, limit: int, deadline: float) -> bytes:
    content = bytearray()
    while len(content) <= limit:
        try:
            more = os.read(handle, min(_CHUNK, limit + 1 - len(content)))
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise OSError(errno.ETIMEDOUT, "a pipe that nobody closes") from None
            continue
        if not more:
            break
        content += more
    return bytes(content)
