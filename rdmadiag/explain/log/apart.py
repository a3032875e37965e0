"""Which check of a host separates the likeliest causes of a failure best.

A check is a line of a cause's remedy that only reads, or the preflight, which has rules for
some causes. It shows whether it is one of the causes that have it: the one that leaves least
uncertain (the entropy of the causes' weights) is chosen.

>>> apart(("memlock", "mr-exhausted"), "linux", {}).line
'ulimit -l'
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rdmadiag.explain.causes import CAUSES, remedy
from rdmadiag.explain.remedies import PREFLIGHT_THERE, fill
from rdmadiag.frozen import dataclass
from rdmadiag.late import late

LIKELIEST: Final = 3
"""Causes that are compared."""
_WEIGHTS: Final = (0.5, 0.3, 0.2)
_READS: Final = late(
    r"(?:rdmadiag|ls|cat|ulimit|id|ibv_devinfo|ibv_devices|ibstat|rdma (?:link|res|system show|dev)"
    r"|ip (?:-brief |route|neigh|link|addr)|ss|ldconfig -p|ldd|dpkg -[ls]|rpm -q|lsmod|grep|env"
    r"|ethtool|lspci|ucx_info|fi_info|route -n get|arp|ifconfig|rdma_ctl status|nvidia-smi"
    r"|system_profiler|ioreg|sudo (?:dmesg|lspci|sminfo|ibtracert|nft list|log show)|uname|modinfo"
    r"|sysctl -n)\b(?!.*>)"
)


@dataclass(frozen=True, slots=True)
class Apart:
    """One check, and the causes that it shows."""

    line: str  # to paste
    shows: tuple[str, ...]  # labels


def apart(labels: Sequence[str], platform: str, facts: Mapping[str, str]) -> Apart | None:
    """The check that separates the first few best; None where none does."""
    some = tuple(labels[:LIKELIEST])
    if len(some) < 2:
        return None
    checks: dict[str, list[str]] = {}
    for label in some:
        for line in fill(remedy(label, platform), {"on": "", **facts}):
            if _READS.match(line):
                checks.setdefault(line, []).append(label)
    found = [(_left((shown,), some), Apart(line, tuple(shown))) for line, shown in checks.items()]
    ruled = [label for label in some if CAUSES[label].proofs]
    if ruled:  # each has rules of its own
        cells = tuple([each] for each in ruled)
        found.append((_left(cells, some), Apart(PREFLIGHT_THERE, tuple(ruled))))
    found = [each for each in found if each[0] < _left((), some)]
    return min(found, key=lambda each: each[0])[1] if found else None


def _left(cells: Iterable[Sequence[str]], some: Sequence[str]) -> float:
    """What stays uncertain, in bits, where a check shows which cell it is, or that it is none."""
    cells = tuple(cells)
    shown = {each for cell in cells for each in cell}
    rest = [each for each in some if each not in shown]
    return sum(_entropy(cell, some) for cell in (*cells, rest))


def _entropy(cell: Sequence[str], some: Sequence[str]) -> float:
    """Times the weight of the cell."""
    weights = [_WEIGHTS[some.index(each)] for each in cell]
    whole = sum(weights)
    return -sum(each * math.log2(each / whole) for each in weights)
