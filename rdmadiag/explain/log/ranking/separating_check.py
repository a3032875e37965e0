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
    r"(?!.*(?:>|\b(?:set|add|del|delete|flush|unlimited)\b))(?:rdmadiag|ls|cat|ulimit|id|ps|free|uptime"
    r"|ibv_devinfo|ibv_devices|ibstat|sminfo|(?:sudo )?rdma (?:link|res|resource|system|dev)"
    r"|ip (?:-brief |route|neigh|link|m?addr(?:ess)?)|(?:sudo )?ss|ldconfig -p|ldd|dpkg -[ls]"
    r"|rpm -qa?|lsmod|grep|env|ethtool|(?:sudo )?devlink (?:health show|dev (?:info|param show))"
    r"|lspci|ucx_info|fi_info|ompi_info|ofed_info -s|route -n get|arp|ifconfig|rdma_ctl status"
    r"|nvidia-smi|system_profiler|ioreg|pmset -g|sudo (?:dmesg|lspci|sminfo|ibtracert|nft list"
    r"|log show|firewall-cmd --list-all)|systemctl status|getenforce|mokutil --sb-state|uname"
    r"|modinfo|sysctl (?:-n )?\w+\.|head|tail|sort|uniq|cut)\b"
)
"""One command that changes nothing. Of those of a line, each has to be one."""
_BETWEEN: Final = late(r" (?:\|\|?|&&) |; ")  # a pattern of grep has its bars without spaces


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
            if _only_reads(line):
                checks.setdefault(line, []).append(label)
    found = [(_left((shown,), some), Apart(line, tuple(shown))) for line, shown in checks.items()]
    ruled = [label for label in some if CAUSES[label].proofs]
    if ruled:  # each has rules of its own
        cells = tuple([each] for each in ruled)
        found.append((_left(cells, some), Apart(PREFLIGHT_THERE, tuple(ruled))))
    found = [each for each in found if each[0] < _left((), some)]
    return min(found, key=lambda each: each[0])[1] if found else None


def _only_reads(line: str) -> bool:
    command, _, _ = line.partition("   # ")
    return all(_READS.match(each) for each in _BETWEEN.split(command))


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
