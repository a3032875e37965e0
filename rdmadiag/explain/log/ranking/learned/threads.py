"""Known cases that are like a log, with the addresses of their threads."""

from typing import Final

from rdmadiag.explain.log.ranking.learned.cases import Cases, lines_of, shipped
from rdmadiag.frozen import dataclass

MOST: Final = 5
LEAST: Final = 0.15
"""Likeness below which words are shared by chance."""


@dataclass(frozen=True, slots=True)
class Similar:
    """A thread with a log like this one."""

    address: str
    causes: tuple[str, ...]  # labels; empty where the thread did not find one that is known
    found: str  # what the thread found out, in words; may be empty
    line: str  # of its log, cut off
    likeness: float  # 0 to 1


def similar(text: str, cases: Cases | None = None, most: int = MOST) -> tuple[Similar, ...]:
    """The most like, each thread once; at one likeness those with a cause first."""
    cases = cases or shipped()
    rows = lines_of("threads")
    found: dict[str, Similar] = {}
    for each in cases.near(text):
        if each.likeness < LEAST:
            break
        address, said, line = rows[each.case].split("\t")
        if not address:
            continue
        labels = cases.labels[each.case]
        found.setdefault(address, Similar(address, labels, said, line, round(each.likeness, 2)))
    ordered = sorted(found.values(), key=lambda each: (-each.likeness, not each.causes))
    return tuple(ordered[:most])
