"""A file that the user names: read whole, but neither without end nor for ever.

It may be what a shell makes of `<(…)`, or /dev/stdin: a pipe is waited for, until a deadline.
"""

import errno
import os
import select
import stat
import time
from typing import Final

WAIT: Final = 10.0
"""Seconds that a pipe is given."""

_CHUNK: Final = 1 << 20


def read_given(path: str, limit: int, deadline: float) -> bytes:
    """The content, of what is longer than `limit` bytes one byte more than those.

    `deadline` is absolute on time.monotonic's clock, and for pipes alone. Raises OSError, also
    for what is neither a regular file nor a pipe, and for a pipe that nobody writes to.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:  # a NUL in the path
        raise OSError(errno.EINVAL, str(error)) from error
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "neither a regular file nor a pipe")
        content = _read(handle, limit, deadline)
        if not content and stat.S_ISFIFO(mode):
            raise OSError(errno.ENODATA, "a pipe that nothing was written to")
        return content
    finally:
        os.close(handle)


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
