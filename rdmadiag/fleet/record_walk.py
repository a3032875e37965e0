"""What differs between two `preflight` documents where no fact with a name reads it.

Lists are compared by what their items are called, so that one more in front shifts nothing. What
names the device, netdev and PCI address of an adapter in the second document is taken for what
the first one calls it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.fleet.changed import Part
from rdmadiag.fleet.fact_rows import FACTS, Kind, is_named, kind_of
from rdmadiag.fleet.fact_table import NONE, Value, plain
from rdmadiag.fleet.parts import parts
from rdmadiag.fleet.record_sides import Renamed
from rdmadiag.frozen import dataclass

MOST: Final = 20_000
"""Differences that are looked at; a record that has more is not of one kind with the other."""

_DEEPEST: Final = 16
_KEYS: Final = (
    ("name",),
    ("netdev",),
    ("address", "prefix_length"),
    ("address",),
    ("device",),
    ("number",),
    ("index",),
    ("receptacle",),
)
"""What items of a list are called by: the first of which each item has one of its own."""

_OWN_KEYS: Final = {"evidence.sysfs.uverbs[]": ("device",)}
"""Of lists whose items have a name that is another after each boot."""

_TOLD: Final = frozenset({"evidence.process.environment"})
"""Of which all is read as facts with names, of which there is no list."""

_FUNCTIONS: Final = "evidence.sysfs.candidates[]"
"""PCI functions, those of the adapters too, which are given as facts of these."""

_DEVICES: Final = (
    "evidence.sysfs.devices[]",
    "evidence.nldev.devices[]",
    "evidence.verbs.devices[]",
)

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

_OF_HOST: Final = frozenset({("evidence.process.nodes[]", "rdma_cm")})
"""Items of these that are of no adapter."""

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


Place = tuple[str, int]
"""A device and its port."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One value that differs."""

    place: str  # "netdev.netdevs[veth1].mtu"; of a device or port, what stands below that
    device: str | None
    port: int | None
    kind: Kind
    before: Value
    after: Value
    parts: tuple[Part, ...] = ()


def seen(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    renamed: Renamed,
    netdevs: Mapping[str, Place],
    functions: frozenset[str],
) -> Iterator[Seen]:
    """Of the evidence; all names are those of the first record.

    `netdevs` are those of ports, with these, and `functions` the PCI addresses of adapters: they
    have facts with names.
    """
    walk = _Walk(renamed, netdevs, functions)
    yield from walk.objects(
        "evidence", "", _mapping(before.get("evidence")), _mapping(after.get("evidence")), 0
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


class _Walk:
    def __init__(
        self, renamed: Renamed, netdevs: Mapping[str, Place], functions: frozenset[str]
    ) -> None:
        self._renamed, self._netdevs, self._functions = renamed, netdevs, functions
        self._left = MOST
        self._below_other_netdev = False
        self._device: str | None = None
        self._port: int | None = None
        self._said: set[tuple[object, ...]] = set()  # of ports: each of three sources shows them

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
        if one == other or self._left <= 0 or path in _TOLD:
            return
        if kind_of(path) is Kind.NOISE and path not in _ABOVE:
            yield from self._told(place, Kind.NOISE, NONE, NONE)
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
        yield from self._told(place, kind, before, after, parts(one, other))

    def _told(
        self,
        place: str,
        kind: Kind,
        before: Value,
        after: Value,
        differs_in: tuple[Part, ...] = (),
    ) -> Iterator[Seen]:
        self._left -= 1
        if self._port is not None:
            place = place.replace("gids.entries[", "gids[")
            key = (self._device, self._port, place, before, after)
            if key in self._said:
                return
            self._said.add(key)
        yield Seen(place, self._device, self._port, kind, before, after, differs_in)

    def _lists(
        self, path: str, place: str, one: list[Any], other: list[Any], depth: int
    ) -> Iterator[Seen]:
        fitting = (each for each in _KEYS if _fits(each, one) and _fits(each, other))
        key = _OWN_KEYS.get(path) or next(fitting, None)
        if key is None or not (_fits(key, one) and _fits(key, other)):
            yield from self._unnamed(path, place, one, other, depth)
            return
        first = {_called(each, key): each for each in one}
        second = {self._renamed.of(_called(each, key)): each for each in other}
        for name in first | second:
            label = f"{place}[{name}]"
            if path == _FUNCTIONS and name in self._functions:
                continue
            if name in first and name in second:
                one_of, other_of = (_without(key, each[name]) for each in (first, second))
                yield from self._item(path, label, name, one_of, other_of, depth)
            elif path not in _ADAPTERS or (path, name) in _OF_HOST:
                yield from self._leaf(path, label, first.get(name), second.get(name))

    def _item(
        self,
        path: str,
        place: str,
        name: str,
        one: dict[str, Any],
        other: dict[str, Any],
        depth: int,
    ) -> Iterator[Seen]:
        """What both have, with what it is known to be of."""
        held = self._device, self._port, self._below_other_netdev
        if path in _DEVICES:
            self._device, place = name, ""
        elif self._device is not None and path.endswith(".ports[]") and name.isdecimal():
            self._port, place = int(name), ""
        elif path in _NETDEVS and name in self._netdevs:
            (self._device, self._port), place = self._netdevs[name], "netdev"
        elif path in _NETDEVS:
            self._below_other_netdev = True
        yield from self.objects(path, place, one, other, depth)
        self._device, self._port, self._below_other_netdev = held

    def _unnamed(
        self, path: str, place: str, one: list[Any], other: list[Any], depth: int
    ) -> Iterator[Seen]:
        """Items that nothing distinguishes: those that both have are left out, in any order."""
        left: dict[str, list[Any]] = {}
        for each in other:
            left.setdefault(_text(each), []).append(each)
        gone = []
        for each in one:
            alike = left.get(_text(each))
            if alike:
                alike.pop()
            else:
                gone.append(each)
        new = [each for alike in left.values() for each in alike]
        for at in range(max(len(gone), len(new))):
            first, second = (each[at] if at < len(each) else None for each in (gone, new))
            if first is None or second is None:
                yield from self._leaf(path, f"{place}[]", first, second)
            else:
                yield from self._values(path, f"{place}[]", first, second, depth)


def _is_missing(value: Any) -> bool:
    return value is None or (type(value) is dict and value.keys() == {"why", "detail"})


def _are_objects(one: list[Any], other: list[Any]) -> bool:
    return all(type(each) is dict for each in (*one, *other))


def _fits(key: tuple[str, ...], items: list[Any]) -> bool:
    names = [_called(each, key) for each in items if all(_is_name(each.get(part)) for part in key)]
    return len(names) == len(items) == len(set(names))


def _is_name(value: Any) -> bool:
    return type(value) is str or type(value) is int


def _text(item: Any) -> str:
    from json import dumps

    return dumps(item, sort_keys=True)


def _without(key: tuple[str, ...], item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in key}


def _called(item: Mapping[str, Any], key: tuple[str, ...]) -> str:
    return "/".join(str(item[part]) for part in key)
