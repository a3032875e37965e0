"""What differs between two `preflight` documents where no fact with a name reads it.

Lists are compared by what their items are called, so that one more in front shifts nothing. What
names the device, netdev and PCI address of an adapter in the second document is taken for what
the first one calls it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.fleet.fact_rows import FACTS, Kind, is_named, kind_of
from rdmadiag.fleet.fact_table import NONE, Value, plain
from rdmadiag.fleet.record_sides import Renamed
from rdmadiag.frozen import dataclass

MOST: Final = 20_000
"""Differences that are looked at; a record that has more is not of one kind with the other."""

_DEEPEST: Final = 16
_KEYS: Final = (
    ("name",),
    ("netdev",),
    ("device",),
    ("address", "prefix_length"),
    ("address",),
    ("number",),
    ("index",),
    ("receptacle",),
)
"""What items of a list are called by: the first of which each item has one of its own."""

_ADAPTERS: Final = frozenset(
    {
        "evidence.sysfs.devices[]",
        "evidence.sysfs.devices[].ports[]",
        "evidence.nldev.devices[]",
        "evidence.nldev.devices[].ports[]",
        "evidence.verbs.devices[]",
        "evidence.verbs.devices[].ports[]",
        "evidence.sysfs.uverbs[]",
        "evidence.process.nodes[]",
        "evidence.devlink.devices[]",
        "evidence.topology.adapters[]",
        "evidence.topology.gpus[]",
        "evidence.system.paths[]",
        "evidence.pci.functions[]",
    }
)
"""Lists whose items come and go with an adapter, a port or a GPU, which is said once of it."""

_NETDEVS: Final = (
    "evidence.netdev.netdevs[]",
    "evidence.sysfs.netdevs[]",
    "evidence.dcb.netdevs[]",
    "evidence.ethtool.netdevs[]",
    "evidence.mac_network.interfaces[]",
)
"""Lists that also hold netdevs of which no port is: none of these has facts with a name."""


_ABOVE: Final = frozenset(
    path[:at]
    for fact in FACTS
    if fact.kind is not Kind.NOISE
    for path in fact.paths
    for at in range(len(path))
    if path[at] in ".[" or path[at - 1] == "]"
)
"""Paths with a row below them that is no noise: what is noise otherwise is looked into there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One value that differs."""

    place: str  # "netdev.netdevs[veth1].mtu"
    kind: Kind
    before: Value
    after: Value


def seen(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    renamed: Renamed,
    netdevs: frozenset[str],
) -> Iterator[Seen]:
    """Of the evidence; `netdevs` are those whose facts have names, as the first record has them."""
    walk = _Walk(renamed, netdevs)
    yield from walk.objects(
        "evidence", "", _mapping(before.get("evidence")), _mapping(after.get("evidence")), 0
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


class _Walk:
    def __init__(self, renamed: Renamed, netdevs: frozenset[str]) -> None:
        self._renamed, self._netdevs = renamed, netdevs
        self._left = MOST
        self._below_other_netdev = False

    def objects(
        self, path: str, place: str, first: dict[str, Any], second: dict[str, Any], depth: int
    ) -> Iterator[Seen]:
        for name in first | second:
            if name.endswith("_number"):  # a word's, beside it
                continue
            label = f"{place}.{name}" if place else name
            one, other = first.get(name), second.get(name)
            yield from self._values(f"{path}.{name}", label, one, other, depth)

    def _values(self, path: str, place: str, one: Any, other: Any, depth: int) -> Iterator[Seen]:
        if one == other or self._left <= 0:
            return
        if kind_of(path) is Kind.NOISE and path not in _ABOVE:
            self._left -= 1
            yield Seen(place, Kind.NOISE, NONE, NONE)
            return
        if _is_missing(one) or _is_missing(other) or type(one) is not type(other):
            yield from self._leaf(path, place, one, other)
        elif type(one) is dict and depth < _DEEPEST:
            yield from self.objects(path, place, one, other, depth + 1)
        elif type(one) is list and depth < _DEEPEST and _are_objects(one, other):
            yield from self._lists(f"{path}[]", place, one, other, depth + 1)
        else:
            yield from self._leaf(path, place, one, other)

    def _leaf(self, path: str, place: str, one: Any, other: Any) -> Iterator[Seen]:
        if is_named(path) and not self._below_other_netdev:
            return
        kind = kind_of(path) or Kind.MAY_DIFFER
        if self._below_other_netdev and kind is not Kind.NOISE:
            kind = Kind.MAY_DIFFER
        before, after = plain(one), plain(other)
        if type(before) is type(after) and (before == after or isinstance(before, Missing)):
            return
        self._left -= 1
        yield Seen(place, kind, before, after)

    def _lists(
        self, path: str, place: str, one: list[Any], other: list[Any], depth: int
    ) -> Iterator[Seen]:
        key = next((key for key in _KEYS if _fits(key, one) and _fits(key, other)), None)
        if key is None:
            yield from self._unnamed(path, place, one, other, depth)
            return
        first = {_called(each, key): each for each in one}
        second = {self._renamed.of(_called(each, key)): each for each in other}
        for name in first | second:
            label = f"{place}[{name}]"
            if name in first and name in second:
                other_netdev = path in _NETDEVS and name not in self._netdevs
                above, self._below_other_netdev = (
                    self._below_other_netdev,
                    self._below_other_netdev or other_netdev,
                )
                yield from self._values(path, label, first[name], second[name], depth)
                self._below_other_netdev = above
            elif path not in _ADAPTERS:
                yield from self._leaf(path, label, first.get(name), second.get(name))

    def _unnamed(
        self, path: str, place: str, one: list[Any], other: list[Any], depth: int
    ) -> Iterator[Seen]:
        """Items that nothing tells apart: those that both have are left out, in any order."""
        left = list(other)
        gone = []
        for each in one:
            if each in left:
                left.remove(each)
            else:
                gone.append(each)
        for at in range(max(len(gone), len(left))):
            pair = [each[at] if at < len(each) else None for each in (gone, left)]
            if None in pair:
                yield from self._leaf(path, f"{place}[]", *pair)
            else:
                yield from self._values(path, f"{place}[]", *pair, depth)


def _is_missing(value: Any) -> bool:
    return value is None or (type(value) is dict and value.keys() == {"why", "detail"})


def _are_objects(one: list[Any], other: list[Any]) -> bool:
    return all(type(each) is dict for each in (*one, *other))


def _fits(key: tuple[str, ...], items: list[Any]) -> bool:
    names = [_called(each, key) for each in items if all(_is_name(each.get(part)) for part in key)]
    return len(names) == len(items) == len(set(names))


def _is_name(value: Any) -> bool:
    return type(value) is str or type(value) is int


def _called(item: Mapping[str, Any], key: tuple[str, ...]) -> str:
    return "/".join(str(item[part]) for part in key)
