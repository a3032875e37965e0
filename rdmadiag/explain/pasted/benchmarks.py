"""Whether what a benchmark of MPI has measured went by something else than RDMA.

>>> is_by_others(["# OSU MPI Bandwidth Test v7.1", "1048576    1160.22"])
True
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.late import late

BY_TCP: Final = 5000.0
"""MB/s between two processes, which TCP of one connection does not reach."""
BY_RDMA: Final = 5.0
"""Microseconds of a message, which TCP does not come below."""
_OF_MPI: Final = late(r"^# ?OSU |\bIntel\(R\) MPI Benchmarks\b")
_ROW: Final = late(r" *\d+((?: +\d+(?:\.\d+)?)+) *$")


def is_by_others(texts: Sequence[str]) -> bool:
    """Whether it prints results, and none is one that TCP does not reach."""
    heads = [text for text in texts if _OF_MPI.search(text)]
    rows = [[float(each) for each in found[1].split()] for found in map(_ROW.match, texts) if found]
    if not heads or not rows:
        return bool(heads)
    if any("Latency" in each for each in heads):
        return min(row[0] for row in rows) > BY_RDMA
    column = 0 if any("OSU" in each for each in heads) else -1  # of Intel's the last one
    return max(row[column] for row in rows) < BY_TCP
