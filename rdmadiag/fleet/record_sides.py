"""Two records beside each other: are they of one host, and which adapter is which."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.fleet.changed import Sameness
from rdmadiag.fleet.fact_names import place_of
from rdmadiag.fleet.fact_table import NONE, HostFacts, facts_of
from rdmadiag.frozen import dataclass

_NO_NAMES: Final = ("", "localhost", "localhost.localdomain", "(none)", "unknown")
"""What hosts are called that nobody has named."""


@dataclass(frozen=True, slots=True)
class Side:
    """One record: the `preflight` document of it, and its facts."""

    document: Mapping[str, Any]
    facts: HostFacts
    places: Mapping[int, Mapping[int | None, list[str]]]
    """Adapter → port → what is said of it; None: of the adapter."""
    wholes: Mapping[str, Any]
    """Name of a fact → the object or list that it is the text of."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Side":
        """Of a document."""
        wholes: dict[str, Any] = {}
        facts = facts_of(document, wholes)
        places: dict[int, dict[int | None, list[str]]] = {}
        for name in facts:
            adapter, port, rest = place_of(name)
            if adapter is not None:
                places.setdefault(adapter, {}).setdefault(port, []).append(rest)
        return cls(document, facts, places, wholes)

    @property
    def hostname(self) -> str:
        """As the host calls itself."""
        host = self.document.get("host")
        name = host.get("hostname") if isinstance(host, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def is_named(self) -> bool:
        """Whether the record says whose it is; a bare folder of sysfs is called by its own name."""
        host = self.document.get("host")
        return isinstance(host, dict) and bool(host.get("kernel"))

    def adapters(self) -> tuple[int, ...]:
        """Their numbers in the names of facts."""
        return tuple(self.places)

    def ports(self, adapter: int) -> tuple[int, ...]:
        """Of one adapter."""
        return tuple(port for port in self.places[adapter] if port is not None)

    def fact(self, adapter: int, rest: str) -> str | None:
        """A fact of an adapter that was read, and of which there is one."""
        found = self.facts.get(f"adapter[{adapter}].{rest}")
        return found if isinstance(found, str) and found != NONE else None


# --- which host -------------------------------------------------------------------------


def sameness(before: Side, after: Side) -> Sameness:
    """By GUIDs and MACs, which a host keeps whatever it is called; else by its name."""
    for what, found in (("node GUID", _guids), ("MAC address", _macs)):
        common = sorted(found(before) & found(after))
        if common:
            return Sameness(is_same=True, by=f"{what} {common[0]}")
    name = before.hostname if before.is_named and after.is_named else ""
    if name not in _NO_NAMES and name == after.hostname:
        return Sameness(is_same=True, by=f"the name {name}")
    if _guids(before) and _guids(after):
        return Sameness(is_same=False, by="their node GUIDs")
    if name in _NO_NAMES or after.hostname in _NO_NAMES:
        return Sameness(is_same=False, by="nothing that both have in common")
    return Sameness(is_same=False, by="their names")


def _guids(side: Side) -> set[str]:
    found = (side.fact(number, "node_guid") for number in side.adapters())
    return {each for each in found if each and each.strip("0:x")}


def _macs(side: Side) -> set[str]:
    found = (
        side.fact(number, f"port[{port}].netdev.mac")
        for number in side.adapters()
        for port in side.ports(number)
    )
    return {each for each in found if each and each.strip("0:")}


# --- which adapter ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pairing:
    """The adapters, or GPUs, of two records, by number."""

    pairs: tuple[tuple[int, int], ...]
    gone: tuple[int, ...]  # numbers of the first alone
    new: tuple[int, ...]  # of the second alone


def adapters(before: Side, after: Side, *, same: bool) -> Pairing:
    """Of one host by GUID, PCI address and name.

    Of two by PCI address and name, and those that are left in their order, since a card in
    another slot shifts the buses of all.
    """
    keys = ("node_guid", "pci.address", "name") if same else ("pci.address", "name")
    tables = [[_by_adapter(side, key) for side in (before, after)] for key in keys]
    return _paired(before.adapters(), after.adapters(), tables, in_order=not same)


def _by_adapter(side: Side, key: str) -> dict[int, str]:
    found = {number: side.fact(number, key) for number in side.adapters()}
    return {number: value for number, value in found.items() if value is not None}


def gpus(before: Side, after: Side, *, same: bool) -> Pairing:
    """By PCI address, and of two hosts those that are left in their order."""
    tables = [_by_gpu(side) for side in (before, after)]
    return _paired(tuple(tables[0]), tuple(tables[1]), [tables], in_order=not same)


def _by_gpu(side: Side) -> dict[int, str]:
    found = {}
    for name, value in side.facts.items():
        if name.startswith("gpu[") and name.endswith("].address") and isinstance(value, str):
            found[int(name[4 : name.index("]")])] = value
    return found


def _paired(
    first: tuple[int, ...],
    second: tuple[int, ...],
    keys: list[list[dict[int, str]]],
    *,
    in_order: bool,
) -> Pairing:
    left, right = list(first), list(second)
    pairs: list[tuple[int, int]] = []
    for of_first, of_second in keys:
        by_key: dict[str, int] = {}
        for number in right:
            key = of_second.get(number)
            if key is not None:
                by_key.setdefault(key, number)
        for number in tuple(left):
            key = of_first.get(number)
            if key is not None and key in by_key:
                other = by_key.pop(key)
                pairs.append((number, other))
                left.remove(number)
                right.remove(other)
    if in_order:
        rest = list(zip(left, right, strict=False))
        pairs += rest
        left, right = left[len(rest) :], right[len(rest) :]
    return Pairing(tuple(sorted(pairs)), tuple(left), tuple(right))


@dataclass(frozen=True, slots=True)
class Renamed:
    """What the first record calls a device, a netdev or a PCI address of the second."""

    names: Mapping[str, str]

    def of(self, name: str) -> str:
        """Its own name where the first record has no other."""
        return self.names.get(name, name)


def renamed(before: Side, after: Side, pairing: Pairing) -> Renamed:
    """By the adapters that are each other's."""
    found: dict[str, str] = {}
    for first, second in pairing.pairs:
        for rest in ("name", "pci.address", *_netdevs(after, second)):
            one, other = before.fact(first, rest), after.fact(second, rest)
            if one and other and one != other:
                found[other] = one
    return Renamed(found)


def _netdevs(side: Side, adapter: int) -> Iterator[str]:
    for port in side.ports(adapter):
        yield f"port[{port}].netdev.name"


def netdevs(side: Side) -> dict[str, tuple[str, int]]:
    """Of ports, with the device and the port: their facts are given as facts of these."""
    found = {}
    for number in side.adapters():
        device = side.fact(number, "name")
        for port in side.ports(number):
            name = side.fact(number, f"port[{port}].netdev.name")
            if device and name:
                found[name] = device, port
    return found


def functions(*sides: Side) -> frozenset[str]:
    """The PCI addresses of the adapters of all."""
    found = (side.fact(number, "pci.address") for side in sides for number in side.adapters())
    return frozenset(each for each in found if each)


def is_listed(side: Side) -> bool:
    """Whether it is known which adapters the host has."""
    return not isinstance(side.facts.get("adapters"), Missing)
