"""Kinds of hosts: those that have the same hardware are compared with each other, and no others."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.fleet.fact_names import folded, kind_of_name
from rdmadiag.fleet.fact_rows import Kind
from rdmadiag.fleet.fact_table import named_values
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import HardwareClass
from rdmadiag.fleet.nodes import fold
from rdmadiag.frozen import dataclass

LEAST: Final = 3
"""Hosts of a class in which one can differ from a majority."""

_NOT_READ: Final = "(not read)"
_NOT_THERE: Final = "(not there)"

Hardware = Mapping[str, str]
"""The hardware facts that were read, by name."""


@dataclass(frozen=True, slots=True)
class HostClass:
    """A class and its hosts."""

    named: HardwareClass
    reports: tuple[HostReport, ...]


def classes(reports: Iterable[HostReport]) -> tuple[HostClass, ...]:
    """The largest first.

    A host of which some of the hardware was not read belongs to the one class that all that was
    read fits; where that is several, or none, to one of its own.
    """
    by_key: dict[tuple[tuple[str, str | None], ...], list[HostReport]] = {}
    for report in reports:
        by_key.setdefault(_key(report.facts), []).append(report)
    groups: dict[tuple[tuple[str, str], ...], list[HostReport]] = {}
    partial: dict[tuple[tuple[str, str], ...], list[HostReport]] = {}
    for key, hosts in by_key.items():
        known = tuple((name, value) for name, value in key if value is not None)
        (groups if len(known) == len(key) else partial).setdefault(known, []).extend(hosts)
    whole = tuple(groups)
    seen: dict[tuple[str, ...], dict[tuple[tuple[str, str], ...], list[int]]] = {}
    for known, hosts in partial.items():
        names = tuple(name for name, _ in known)
        if names not in seen:
            seen[names] = _by_part(whole, names)
        fitting = seen[names].get(known, ())
        groups.setdefault(whole[fitting[0]] if len(fitting) == 1 else known, []).extend(hosts)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    found: list[HostClass] = []
    for number, (key_of, hosts) in enumerate(ranked):
        hardware = dict(key_of)
        like, unlike = _nearest(hardware, found)
        named = HardwareClass(
            name=_letters(number),
            nodes=fold(each.node for each in hosts),
            count=len(hosts),
            hardware=folded(hardware),
            compared=len(hosts) >= LEAST,
            like=like,
            unlike=unlike,
        )
        found.append(HostClass(named, tuple(hosts)))
    return tuple(found)


def _key(facts: Mapping[str, str | Missing]) -> tuple[tuple[str, str | None], ...]:
    names, values = named_values(facts)
    every = ((names[at], values[at]) for at in _places(names))
    return tuple((name, None if isinstance(each, Missing) else each) for name, each in every)


@lru_cache(maxsize=4096)
def _places(names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(at for at, name in enumerate(names) if kind_of_name(name) is Kind.HARDWARE)


def _by_part(
    whole: Sequence[tuple[tuple[str, str], ...]], names: tuple[str, ...]
) -> dict[tuple[tuple[str, str], ...], list[int]]:
    """Which of the whole keys have which values of these facts."""
    wanted = set(names)
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for at, key in enumerate(whole):
        part = tuple(item for item in key if item[0] in wanted)
        found.setdefault(part, []).append(at)
    return found


def _nearest(hardware: Hardware, larger: Sequence[HostClass]) -> tuple[str | None, dict[str, str]]:
    """The larger class that differs in the fewest facts, and how, as this one has it."""
    best: tuple[str | None, dict[str, str]] = (None, {})
    for each in larger[:_COMPARED]:
        other = _hardware(each)
        names = dict.fromkeys((*hardware, *other))
        differ = {
            name: hardware.get(name, _NOT_THERE)
            for name in names
            if hardware.get(name) != other.get(name)
        }
        if best[0] is None or len(differ) < len(best[1]):
            best = (each.named.name, differ)
    return best[0], folded(best[1])


_COMPARED: Final = 16
"""Classes that a smaller one is held against: the largest."""


def _hardware(each: HostClass) -> dict[str, str]:
    """Of its first host, which has the whole of it where any has."""
    key = _key(each.reports[0].facts)
    return {name: _NOT_READ if value is None else value for name, value in key}


def _letters(number: int) -> str:
    """ "A" to "Z", "AA", …"""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text
