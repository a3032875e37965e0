"""The kernel's log as it is written: records of /dev/kmsg, numbered without gaps.

    6,416,17717449968,-;mlx5_core 0000:08:00.0 eth0: Link down

Of the lines those that are about RDMA, its drivers, links and PCI functions, or about what ends
a host. The others are counted, so that a gap in their numbers is seen, and not kept.
"""

import re
from typing import Final

from rdmadiag.sources.kernel_log import WORDS
from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value

_ENDS: Final = (
    "Oops", "BUG:", "Kernel panic", "blocked for more than", "soft lockup", "Out of memory",
    "Call Trace", "IOMMU", "DMAR",
)  # fmt: skip
_WANTED: Final = re.compile(
    b"|".join(re.escape(word).encode() for word in (*WORDS, *_ENDS)), re.IGNORECASE
)
_PRIVATE: Final = b"command line"
"""Logged at each start: an installer's passwords have been in it."""

_HEADER: Final = re.compile(rb"([0-9]{1,10}),([0-9]{1,19}),([0-9]{1,18}),[^;]{0,200};")
_LONGEST: Final = 1000  # characters


def parse_record(record: bytes) -> tuple[int, Happened | None] | None:
    """Number of a record, and the event where its line is kept; None for what is no record."""
    match = _HEADER.match(record)
    if match is None:
        return None
    line = record[match.end() :].partition(b"\n")[0]
    if not _WANTED.search(line) or _PRIVATE in line.lower():
        return int(match[2]), None
    details: dict[str, Value] = {
        "level": int(match[1]) % 8,
        "seconds": f"{int(match[3]) / 1_000_000:.6f}",  # since the kernel started
        "line": line.decode("utf-8", "backslashreplace")[:_LONGEST],
    }
    said = Happened(Source.KERNEL, Kind.LINE, Action.LOGGED, "kernel", details, NOTHING)
    return int(match[2]), said
