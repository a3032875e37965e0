"""The kernel's log, read without a program: /dev/kmsg, one record a read(2).

    6,416,17717449968,-;mlx5_core 0000:08:00.0 eth0: Link down

Opened without waiting and for reading alone, which takes nothing out of the log.
"""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host.answers import refusal

DEVICE: Final = "/dev/kmsg"

_RECORD: Final = 8192  # bytes; CONSOLE_EXT_LOG_MAX, no record is longer
_KEPT: Final = 2000  # records
_MICROSECONDS: Final = 1_000_000
_PRIVATE: Final = b"command line"
"""Logged at each start: an installer's passwords have been in it."""


def read(path: str, seconds: float, words: Sequence[str], deadline: float) -> bytes | Missing:
    """The records of the last `seconds` with one of `words` in them; `deadline` is absolute.

    Of very many the last ones. Refused to those without CAP_SYSLOG where
    kernel.dmesg_restrict is set, and not there in most containers.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return refusal(error, path)
    try:
        # printk's clock is not adjusted to the time of day, and over months they drift apart.
        now = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        oldest = max(0, int((now - seconds) * _MICROSECONDS))  # a host may be up for less
        kept: deque[bytes] = deque(maxlen=_KEPT)
        wanted = tuple(word.lower().encode() for word in words)
        for record in _records(handle):
            if time.monotonic() >= deadline:
                return Missing(Why.TIMEOUT, f"{path}: not at its end before the deadline")
            if _microseconds(record) >= oldest:
                text = record.lower()
                if _PRIVATE not in text and any(word in text for word in wanted):
                    kept.append(record)
    except OSError as error:
        return refusal(error, path)
    finally:
        os.close(handle)
    return b"".join(kept)


def _records(handle: int) -> Iterator[bytes]:
    while True:
        try:
            record = os.read(handle, _RECORD)
        except BlockingIOError:  # the end
            return
        except BrokenPipeError:  # overwritten meanwhile: the next read gives the oldest there is
            continue
        if not record:
            return
        yield record


def _microseconds(record: bytes) -> int:
    """When it was written; a record that makes no sense counts as long ago."""
    fields = record[:80].split(b",", 3)
    return int(fields[2]) if len(fields) > 2 and fields[2].isdigit() else -1
