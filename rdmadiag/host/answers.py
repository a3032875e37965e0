"""What a host answers beside content: why it refused, what a file is, how a command ended."""

import errno
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.frozen import dataclass

OUTPUT_LIMIT: Final = 4 * 1024 * 1024
"""Bytes kept of what a command prints; the rest is read and dropped."""

_WHY: Final = {
    errno.ENOENT: Why.ABSENT,
    errno.ENOTDIR: Why.ABSENT,
    errno.ENODEV: Why.ABSENT,
    errno.ENXIO: Why.ABSENT,
    errno.ENETUNREACH: Why.ABSENT,  # of RTM_GETROUTE: there is no route
    errno.EHOSTUNREACH: Why.ABSENT,
    errno.EACCES: Why.DENIED,
    errno.EPERM: Why.DENIED,
    errno.EINVAL: Why.UNSUPPORTED,
    errno.EOPNOTSUPP: Why.UNSUPPORTED,
    errno.ENOTSUP: Why.UNSUPPORTED,
    errno.ENOSYS: Why.UNSUPPORTED,
    errno.EPROTONOSUPPORT: Why.UNSUPPORTED,
    errno.EAFNOSUPPORT: Why.UNSUPPORTED,
    errno.ETIMEDOUT: Why.TIMEOUT,
    errno.EMFILE: Why.EXHAUSTED,
    errno.ENFILE: Why.EXHAUSTED,
    errno.ENOMEM: Why.EXHAUSTED,
    errno.ENOBUFS: Why.EXHAUSTED,
}


def refusal(error: OSError | ValueError, subject: str) -> Missing:
    """What an error means for the reader: the reason, and "subject: ENAME".

    A ValueError is Python's refusal of a path with a NUL in it.
    """
    if isinstance(error, ValueError):
        return Missing(Why.MALFORMED, f"{subject!r}: not a path")
    number = error.errno or 0
    name = errno.errorcode.get(number, type(error).__name__)
    return Missing(_WHY.get(number, Why.MALFORMED), f"{subject}: {name}")


def not_started(error: OSError, subject: str) -> Missing:
    """As `refusal`, where a process was to be started.

    EAGAIN of fork(2) is a limit that was reached: RLIMIT_NPROC, pids.max of the cgroup.
    """
    if error.errno == errno.EAGAIN:
        return Missing(Why.EXHAUSTED, f"{subject}: EAGAIN")
    return refusal(error, subject)


def utf8(text: str) -> str:
    r"""Text from the system that can be printed: each byte that is not UTF-8 becomes \xNN."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class NodeStat:
    """What stat(2) says of a file."""

    mode: int  # st_mode
    uid: int
    gid: int
    dev: str | None  # "major:minor" of a device node


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that came to its end."""

    returncode: int
    stdout: bytes
    stderr: bytes
