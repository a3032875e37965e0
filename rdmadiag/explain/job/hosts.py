"""What reports say of the hosts of a job: whose an address is, and what is wrong there."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Finding, Status

MOST_ADDRESSES: Final = 20_000  # of one host
_LOOPBACK: Final = re.compile(r"127\.|::1$|fe80:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an address is."""

    host: str
    device: str | None = None
    port: int | None = None
    gid_index: int | None = None


@dataclass(frozen=True, slots=True)
class KnownHost:
    """One host, by its newest report."""

    name: str
    where: str  # the file
    generated_at: str
    status: Status
    findings: tuple[Finding, ...]
    places: Mapping[str, Place]  # by GID or address, as `canonical` writes them
    has_evidence: bool  # a document of counters has none


def canonical(address: str) -> str:
    """One writing for a GID, an IPv4 address and the GID that stands for it."""
    text = address.strip("[]").partition("%")[0]
    try:
        gid = Gid.parse(text)
    except ValueError:
        return text.lower()
    return gid.ipv4 if gid.is_ipv4_mapped and gid.ipv4 else str(gid)


def places_of(host: str, document: Mapping[str, Any]) -> dict[str, Place]:
    """The addresses that a report of preflight has; of each the RDMA device, where it has one.

    Link-local ones, which many hosts have, are left out.
    """
    evidence = document.get("evidence")
    found: dict[str, Place] = {}
    if not isinstance(evidence, dict):
        return found
    own: dict[object, set[str]] = {}
    for netdev in _tables(evidence.get("netdev"), "netdevs"):
        of_netdev = own.setdefault(netdev.get("name"), set())
        for each in _tables(netdev, "addresses"):
            address = each.get("address")
            if isinstance(address, str) and not _LOOPBACK.match(address):
                of_netdev.add(canonical(address))
                _add(found, address, Place(host))
    for device in _tables(evidence.get("sysfs"), "devices"):
        for port in _tables(device, "ports"):
            for gid, place in _of_port(host, device.get("name"), port, own):
                _add(found, gid, place)
    return found


def _of_port(
    host: str, name: object, port: Mapping[str, Any], own: Mapping[object, set[str]]
) -> Iterator[tuple[str, Place]]:
    """Its GIDs, but for those of a netdev that only has the same name: in another namespace."""
    number = port.get("number")
    for entry in _tables(port.get("gids"), "entries"):
        gid, index, netdev = entry.get("gid"), entry.get("index"), entry.get("netdev")
        if not isinstance(name, str) or not isinstance(gid, str) or not _is_own(gid):
            continue
        if isinstance(netdev, str) and canonical(gid) not in own.get(netdev, {canonical(gid)}):
            continue
        place = Place(
            host,
            name[:64],
            number if isinstance(number, int) else None,
            index if isinstance(index, int) else None,
        )
        yield gid, place


def _add(found: dict[str, Place], address: str, place: Place) -> None:
    key = canonical(address)
    before = found.get(key)
    if (before is None or before.device is None) and len(found) < MOST_ADDRESSES:
        found[key] = place
    elif before is not None and before.device == place.device:
        # RoCE v1 and v2 rows of one address: the later one is v2
        found[key] = place


def _is_own(gid: str) -> bool:
    try:
        parsed = Gid.parse(gid)
    except ValueError:
        return False
    return parsed.is_ipv4_mapped or parsed.scope is not Scope.LINK_LOCAL


def _tables(value: object, name: str) -> Iterable[Mapping[str, Any]]:
    inner = value.get(name) if isinstance(value, Mapping) else None
    return [each for each in inner if isinstance(each, Mapping)] if isinstance(inner, list) else ()


def newest(hosts: Iterable[KnownHost]) -> dict[str, KnownHost]:
    """One a name: findings of several documents together, the addresses of the newest."""
    found: dict[str, KnownHost] = {}
    for each in sorted(hosts, key=lambda host: (host.has_evidence, host.generated_at)):
        before = found.get(each.name)
        beside = before.findings if before is not None and not before.has_evidence else ()
        found[each.name] = replace(each, findings=(*each.findings, *beside))
    return found
