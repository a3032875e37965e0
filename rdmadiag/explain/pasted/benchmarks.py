"""What a benchmark of MPI has measured: whether it went by something else than RDMA.

>>> is_by_others(["# OSU MPI Bandwidth Test v7.1", "1048576    1160.22"])
True
>>> measured_by_osu(["# OSU MPI Bandwidth Test v7.1", "1048576    1160.22"]).highest
1160.22
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rdmadiag.late import late

BY_TCP: Final = 5000.0
"""MB/s between two processes, which TCP of one connection does not reach."""
BY_RDMA: Final = 5.0
"""Microseconds of a message, which TCP does not come below."""
LARGE: Final = 1 << 20  # bytes of a message from which on the rate is that of the way
_OF_MPI: Final = late(r"^# ?OSU |\bIntel\(R\) MPI Benchmarks\b")
_OF_TWO: Final = late(r"^# ?OSU MPI(?:-\w+)? (?:Bi-Directional )?(Bandwidth|Latency) Test\b")
_ROW: Final = late(r" *(\d+)((?: +\d+(?:\.\d+)?)+) *$")


class Measured(NamedTuple):
    """A table of one test between two processes."""

    highest: float | None  # MB/s of large messages; None of latencies, or without such rows
    is_by_others: bool  # no row is one that TCP does not reach


def measured_by_osu(texts: Sequence[str]) -> Measured | None:
    """Of OSU's tests of bandwidth and of latency; None where there are no rows."""
    head = next((found for each in texts if (found := _OF_TWO.match(each))), None)
    rows = {int(found[1]): float(found[2].split()[0]) for found in map(_ROW.match, texts) if found}
    if head is None or not rows:
        return None
    if head[1] == "Latency":
        return Measured(None, min(rows.values()) > BY_RDMA)
    highest = max((rate for size, rate in rows.items() if size >= LARGE), default=None)
    return Measured(highest, highest is not None and highest < BY_TCP)


def is_by_others(texts: Sequence[str]) -> bool:
    """Whether it prints results, and none is one that TCP does not reach."""
    heads = [text for text in texts if _OF_MPI.search(text)]
    rows = [[float(each) for each in found[2].split()] for found in map(_ROW.match, texts) if found]
    if not heads or not rows:
        return bool(heads)
    if any("Latency" in each for each in heads):
        return min(row[0] for row in rows) > BY_RDMA
    column = 0 if any("OSU" in each for each in heads) else -1  # of Intel's the last one
    return max(row[column] for row in rows) < BY_TCP
