"""What a command may cost that works on files which the user named, in its own process.

They are read in a child with a budget of its own (rdmadiag.host.given_file). This one is for
what is thought of them afterwards: a record is as large, and as odd, as whoever made it wants.
"""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from rdmadiag.cli.exits import Refused

MEMORY: Final = 3 << 29
"""Bytes of address space beside those that the process has."""

_PAGE: Final = resource.getpagesize()


class _TooLong(BaseException):
    """Not an Exception: what catches the bugs of a rule must not catch it."""


@contextmanager
def budget(seconds: float, refusal: type[Refused] = Refused) -> Iterator[None]:
    """Raises `refusal` for what takes more than `seconds` of processor time, or than MEMORY.

    Of processor time, since a pager may stop us for an hour.
    """
    before = signal.signal(signal.SIGPROF, _raise)
    limits = _bound_memory()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except _TooLong:
        raise refusal(f"what is in the record takes more than {seconds:g} s (--timeout)") from None
    except MemoryError:
        raise refusal("what is in the record takes more memory than it may") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        if limits:
            resource.setrlimit(resource.RLIMIT_AS, limits)


def _raise(*_: Any) -> None:
    raise _TooLong


def _bound_memory() -> tuple[int, int] | None:
    """The limits of before, if there is a new one; without /proc there is none."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        most = int(file.read().split()[0]) * _PAGE + MEMORY
        if limits[0] == resource.RLIM_INFINITY or most < limits[0]:
            resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
            return limits
    return None
