"""Facts that ought to be equal among hosts of one kind and are not: the majority, who differs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.classes import HostClass
from rdmadiag.fleet.fact_names import folded, kind_of_name
from rdmadiag.fleet.fact_rows import Kind
from rdmadiag.fleet.fact_table import Value, named_values, value_of
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Drift, Odd
from rdmadiag.fleet.nodes import fold
from rdmadiag.frozen import dataclass

MOST_VALUES: Final = 16
"""Of one fact; of more the rest stands together."""


PICK: Final = ".pick."
"""In the name of what a stack picks: "adapter[0].port[1].pick.nccl 2.27"."""

_UNREAD: Final = Missing(Why.NOT_COLLECTED, "no picks were worked out")
_NAMED: Final = 3

Picks = Mapping[str, Mapping[str, Value]]
"""By node, as rdmadiag.fleet.compatibility.stack_picks gives them."""


def drift(every: Sequence[HostClass], picks: Picks | None = None) -> tuple[Drift, ...]:
    """The rows of `drifting`."""
    return tuple(each.row for each in drifting(every, picks))


@dataclass(frozen=True, slots=True)
class Drifting:
    """A row, and the names that its folded ones stand for."""

    row: Drift
    nodes: tuple[tuple[str, tuple[str, ...]], ...]  # as in row.odd: a value, and who has it


def drifting(every: Sequence[HostClass], picks: Picks | None = None) -> tuple[Drifting, ...]:
    """By class, in the order of facts; adapters that differ alike are one line, stacks too.

    A value that could not be read is neither the majority's nor odd. The majority is more than
    half of those that were read; without one every value is named.
    """
    found: list[Drifting] = []
    for each in every:
        if each.named.compared:
            found.extend(_within(each, picks or {}))
    return tuple(found)


def odd_of_nodes(found: Iterable[Drifting]) -> dict[str, dict[str, str]]:
    """By node: its value of each fact of which most others have another."""
    by_node: dict[str, dict[str, str]] = {}
    for each in found:
        for value, nodes in each.nodes if each.row.majority is not None else ():
            for node in nodes:
                by_node.setdefault(node, {})[each.row.fact] = value
    return by_node


def _within(one: HostClass, picks: Picks) -> Iterator[Drifting]:
    parted = {name: _parted(values) for name, values in _columns(one.reports)}
    parted |= _by_stacks({name: _parted(each) for name, each in _picked(one.reports, picks)})
    sets: dict[tuple[int, ...], str] = {}

    def nodes(at: tuple[int, ...]) -> str:
        if at not in sets:  # a release that half of the hosts have shows in many facts
            sets[at] = fold(one.reports[number].node for number in at)
        return sets[at]

    for name, each in folded({name: each for name, each in parted.items() if each}).items():
        row = Drift(
            fact=name,
            hardware_class=one.named.name,
            majority=each.majority,
            count=each.count,
            odd=tuple(Odd(value, nodes(at), len(at)) for value, at in each.odd),
            unread=nodes(each.unread) if each.unread else "",
        )
        names = (
            (value, tuple(one.reports[number].node for number in at)) for value, at in each.odd
        )
        yield Drifting(row, tuple(names))


@dataclass(frozen=True, slots=True)
class _Parted:
    """The hosts of a class by their value of one fact; hosts are numbers."""

    majority: str | None
    count: int
    odd: tuple[tuple[str, tuple[int, ...]], ...]
    unread: tuple[int, ...]


def _parted(values: Sequence[Value]) -> _Parted | None:
    """None where all that were read are equal."""
    by_value: dict[str, list[int]] = {}
    unread: list[int] = []
    for at, value in enumerate(values):
        if isinstance(value, Missing):
            unread.append(at)
        else:
            by_value.setdefault(value, []).append(at)
    if len(by_value) < 2:
        return None
    ranked = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[0]))
    read = len(values) - len(unread)
    majority = ranked[0][0] if 2 * len(ranked[0][1]) > read else None
    count = 0 if majority is None else len(ranked.pop(0)[1])
    odd = [(value, tuple(at)) for value, at in ranked[:MOST_VALUES]]
    if rest := ranked[MOST_VALUES:]:
        others = tuple(sorted(at for _, each in rest for at in each))
        odd.append((f"({len(rest)} other values)", others))
    return _Parted(majority, count, tuple(odd), tuple(unread))


def _columns(reports: Sequence[HostReport]) -> Iterator[tuple[str, Sequence[Value]]]:
    """The values of each fact that ought to be equal and of which two differ."""
    rows = [named_values(each.facts) for each in reports]
    first = rows[0][0]
    if all(names is first or names == first for names, _ in rows):
        for name, column in zip(
            first, zip(*(values for _, values in rows), strict=True), strict=True
        ):
            if column.count(column[0]) < len(column) and kind_of_name(name) is Kind.EQUAL:
                yield name, column
        return
    for name in dict.fromkeys(name for names in {names for names, _ in rows} for name in names):
        if kind_of_name(name) is Kind.EQUAL:
            values = [value_of(each.facts, name) for each in reports]
            if values.count(values[0]) < len(values):
                yield name, values


def _picked(reports: Sequence[HostReport], picks: Picks) -> Iterator[tuple[str, Sequence[Value]]]:
    every = [picks.get(each.node, {}) for each in reports]
    distinct = {id(each): each for each in every}
    if len(distinct) > 1:
        for name in dict.fromkeys(name for each in distinct.values() for name in each):
            yield name, [each.get(name, _UNREAD) for each in every]


def _by_stacks(parted: Mapping[str, _Parted | None]) -> dict[str, _Parted | None]:
    """One name for stacks that pick alike on a port."""
    alike: dict[tuple[str, _Parted | None], list[str]] = {}
    for name, each in parted.items():
        port, _, stack = name.partition(PICK)
        alike.setdefault((port, each), []).append(stack)
    found = {}
    for (port, each), names in alike.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        found[f"{port}{PICK}{', '.join(names[:_NAMED])}{more}"] = each
    return found
