"""A matrix of pairs as squares of one picture, for as many ends as there are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from statistics import median
from typing import Final

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.pair_results import Cell, Matrix

MOST: Final = 512
"""Rows and columns of a picture; with more ends several of them share one."""

MOST_BLOCKS: Final = 256
"""Rows where nothing but the order of the ends says which of them belong together."""


class Row(StrEnum):
    """What a row and a column stand for."""

    END = "end"
    GROUP = "group"  # as the matrix names it, such as a leaf
    NODE = "node"  # with all its rails
    BLOCK = "block"  # ends that follow each other in the matrix


@dataclass(slots=True)
class Tally:
    """Pairs that share a square, a row or a column."""

    tried: int = 0
    failed: int = 0
    outcome: Outcome | None = None  # of the first that failed; None: it was not reported
    slower: list[float] = field(default_factory=list)
    """Of each that passed: how many times the median's latency, or its bandwidth over this one's,
    whichever is worse."""
    worst: float | None = None  # of `slower`
    latency_us: float | None = None  # of the pair that is the worst
    gbps: float | None = None

    def add(self, cell: Cell, slower: float | None) -> None:
        """One more pair."""
        self.tried += 1
        if cell.outcome is not Outcome.VERIFIED:
            self.outcome = self.outcome if self.failed else cell.outcome
            self.failed += 1
        elif slower is not None:
            self.slower.append(slower)
            if self.worst is None or slower > self.worst:
                self.worst = slower
                self.latency_us, self.gbps = cell.latency_us, cell.gbps

    @property
    def middle(self) -> float | None:
        """Of those that passed and were measured: the median."""
        return median(self.slower) if self.slower else None

    @property
    def rank(self) -> tuple[float, float]:
        """The worst is the greatest."""
        return (self.failed / self.tried if self.tried else 0.0, self.middle or 0.0)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Rows are senders, columns receivers, both in this order."""

    row: Row
    labels: tuple[str, ...]
    squares: Mapping[tuple[int, int], Tally]  # those in which a pair was tried
    ends: Mapping[str, tuple[Tally, Tally]]  # of each end as sender, and as receiver
    senders: tuple[Tally, ...]  # of each row the end that is the worst as a sender
    receivers: tuple[Tally, ...]  # of each column
    latency_us: float | None  # the median of all pairs that passed
    gbps: float | None

    def worst(self, count: int) -> list[str]:
        """The ends that stand out most, as a sender or as a receiver, the worst first."""
        tried = (end for end, of in self.ends.items() if any(tally.tried for tally in of))
        ranked = sorted(
            tried, key=lambda end: max(tally.rank for tally in self.ends[end]), reverse=True
        )
        return ranked[:count]


def heat_map(matrix: Matrix) -> HeatMap:
    """The picture of at most MOST rows; their order is that of the matrix's first end in each."""
    row, names = _rows(matrix)
    labels = tuple(dict.fromkeys(names.values()))
    numbers = {label: number for number, label in enumerate(labels)}
    passed = [cell for cell in matrix.cells if cell.outcome is Outcome.VERIFIED]
    latency_us = _median(cell.latency_us for cell in passed)
    gbps = _median(cell.gbps for cell in passed)
    squares: dict[tuple[int, int], Tally] = defaultdict(Tally)
    ends = {end: (Tally(), Tally()) for end in names}
    for cell in matrix.cells:
        square = squares[numbers[names[cell.sender]], numbers[names[cell.receiver]]]
        slower = _slower(cell, latency_us, gbps)
        for tally in (square, ends[cell.sender][0], ends[cell.receiver][1]):
            tally.add(cell, slower)
    rows: dict[str, list[tuple[Tally, Tally]]] = {label: [] for label in labels}
    for end, tallies in ends.items():
        rows[names[end]].append(tallies)
    senders, receivers = (
        tuple(max((each[side] for each in rows[label]), key=_rank) for label in labels)
        for side in (0, 1)
    )
    return HeatMap(row, labels, dict(squares), ends, senders, receivers, latency_us, gbps)


def _rank(tally: Tally) -> tuple[float, float]:
    return tally.rank


def _rows(matrix: Matrix) -> tuple[Row, dict[str, str]]:
    """The name of the row of each end."""
    pairs = (end for cell in matrix.cells for end in (cell.sender, cell.receiver))
    ends = tuple(dict.fromkeys((*matrix.ends, *pairs)))
    if len(ends) <= MOST:
        return Row.END, {end: end for end in ends}
    of_group = dict(zip(matrix.ends, matrix.groups, strict=False))
    groups = {end: of_group.get(end, "") for end in ends}
    if 1 < len(set(groups.values())) <= MOST:
        return Row.GROUP, groups
    nodes = {end: end.rpartition(":")[0] or end for end in ends}
    if len(set(nodes.values())) <= MOST:
        return Row.NODE, nodes
    return Row.BLOCK, _blocks(ends)


def _blocks(ends: Sequence[str]) -> dict[str, str]:
    size = -(-len(ends) // MOST_BLOCKS)
    blocks = (ends[start : start + size] for start in range(0, len(ends), size))
    return {end: f"{block[0]} … {block[-1]}" for block in blocks for end in block}


def _median(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value is not None and _is_measured(value)]
    return median(measured) if measured else None


def _slower(cell: Cell, latency_us: float | None, gbps: float | None) -> float | None:
    ratios = [
        over / under
        for over, under in ((cell.latency_us, latency_us), (gbps, cell.gbps))
        if over is not None and under is not None and _is_measured(over) and _is_measured(under)
    ]
    return max(ratios, default=None)


def _is_measured(value: float) -> bool:
    return isfinite(value) and value > 0
