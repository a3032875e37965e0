"""What two ends have beside each other, row by row: of the hosts, and of two of their ports."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

from rdmadiag.facts import Missing, Why, known, present
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS
from rdmadiag.facts.gid import Scope
from rdmadiag.frozen import dataclass
from rdmadiag.gid.reach import Address
from rdmadiag.view.cabling import cabling
from rdmadiag.view.partitions import NOT_KNOWN, NOT_SHARED, in_one_partition, partition_keys
from rdmadiag.view.peer_picks import Addresses, Side
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, devices


class Agreement(StrEnum):
    """How a row stands at both ends."""

    SAME = "same"
    DIFFERS = "differs"  # and the two can talk all the same
    STOPS = "stops"  # the two cannot talk for it
    UNKNOWN = "unknown"  # one end was not looked at


@dataclass(frozen=True, slots=True)
class CompatRow:
    """One thing at both ends."""

    subject: str  # "active_mtu"
    here: str | Missing
    there: str | Missing
    agreement: Agreement
    why: str = ""  # what follows; "" where they are the same


MOST_ROWS: Final = 128
"""Of a GID table that are held against another's."""


@dataclass(frozen=True, slots=True)
class EndPort:
    """A port with what its rows are made of: found once, whatever number of pairs it is in."""

    side: Side
    view: PortView
    device: DeviceView | None
    addresses: tuple[Address, ...]  # the first MOST_ROWS of its GID table
    netdev_mtu: str | Missing
    families: str | Missing
    subnets: str | Missing


def active_ports(side: Side) -> tuple[EndPort, ...]:
    """The active ones of a host."""
    by_name = {each.name: each for each in devices(side.evidence)}
    known_addresses, mtus = Addresses(side.evidence), _mtus(side)
    found = []
    for port in side.ports:
        if port.is_active:
            rows = tuple(known_addresses.address(port, each) for each in port.entries[:MOST_ROWS])
            found.append(
                EndPort(
                    side,
                    port,
                    by_name.get(port.device),
                    rows,
                    _netdev_mtu(port, mtus),
                    _families(port),
                    _subnets(rows),
                )
            )
    return tuple(found)


# --- of hosts ---------------------------------------------------------------------------


def of_hosts(here: Side, there: Side) -> Iterator[CompatRow]:
    """Of what two hosts run; nothing of what only one of them can have."""
    for subject, value in _HOST:
        first, second = (value(side) for side in (here, there))
        if first in _FOREIGN or second in _FOREIGN:
            continue
        if isinstance(first, Missing) and isinstance(second, Missing):
            continue
        yield _row(subject, first, second, "")


_FOREIGN: Final = (LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS)


def _macos(name: str) -> Callable[[Side], str | Missing]:
    def value(side: Side) -> str | Missing:
        found = side.evidence.macos
        return _text(found if isinstance(found, Missing) else getattr(found, name))

    return value


def _kernel(side: Side) -> str | Missing:
    system = side.evidence.system
    return _text(system if isinstance(system, Missing) else system.kernel)


def _library(side: Side) -> str | Missing:
    verbs = side.evidence.verbs
    return _text(verbs if isinstance(verbs, Missing) else verbs.library)


_HOST: Final[tuple[tuple[str, Callable[[Side], str | Missing]], ...]] = (
    ("kernel", _kernel),
    ("macos_version", _macos("version")),
    ("macos_build", _macos("build")),
    ("macos_rdma", _macos("rdma_enabled")),
    ("verbs_library", _library),
)


# --- of ports ---------------------------------------------------------------------------


def without_gid(local: PortView, remote: PortView) -> str:
    """ "the second has no GID"; "" where both have one, or a table was not read."""
    without = [
        name
        for port, name in ((local, "the first"), (remote, "the second"))
        if not isinstance(port.gids, Missing) and not port.gids.entries
    ]
    if without[1:]:
        return "neither has a GID"
    return f"{without[0]} has no GID" if without else ""


def of_ports(local: EndPort, remote: EndPort) -> Iterator[CompatRow]:
    """Of two ports of one protocol, and of their devices."""
    yield from _of_devices(local, remote)
    yield from _of_ports(local, remote)


def _of_devices(local: EndPort, remote: EndPort) -> Iterator[CompatRow]:
    for subject in ("driver", "hca_type", "firmware"):
        one, other = _of_device(local.device, subject), _of_device(remote.device, subject)
        if not (isinstance(one, Missing) and isinstance(other, Missing)):
            yield _row(subject, one, other, "")


def _of_device(device: DeviceView | None, subject: str) -> str | Missing:
    if device is None:
        return _UNSEEN
    if subject == "driver":
        # nldev names the driver of verbs, by another name than the PCI function's.
        return _UNSEEN if device.sysfs is None else _text(device.driver)
    for witness in (device.sysfs, device.nldev, device.verbs):
        found = getattr(witness, subject, None)
        if found is not None and not isinstance(found, Missing):
            return _text(found)
    return _UNSEEN


_UNSEEN: Final = Missing(Why.NOT_COLLECTED, "no source shows it")


def _of_ports(here: EndPort, there: EndPort) -> Iterator[CompatRow]:
    local, remote = here.view, there.view
    yield _row("link_layer", _text(local.link_layer), _text(remote.link_layer), "")
    yield _row("rate", *_rates(local, remote), "the slower one bounds both")
    yield _row(
        "active_mtu",
        _mtu(local),
        _mtu(remote),
        "a queue pair must take the smaller one: who takes more has its packets dropped",
    )
    if local.protocol is Protocol.INFINIBAND:
        yield _partitions(local, remote)
        yield _row(
            "subnet_prefix", _prefix(local), _prefix(remote), "an InfiniBand router is needed"
        )
        return
    yield _row(
        "netdev_mtu",
        here.netdev_mtu,
        there.netdev_mtu,
        "packets above the smaller one are dropped where the way does not say so",
    )
    if not all(isinstance(port.gids, Missing) for port in (local, remote)):
        yield _kinds(here, there)
        if not without_gid(local, remote):
            yield _networks(here.subnets, there.subnets)
    if local.protocol is Protocol.THUNDERBOLT:
        yield _cable(here, there)


def _rates(local: PortView, remote: PortView) -> tuple[str | Missing, str | Missing]:
    """By one witness: the verbs library, which stands in for sysfs, shows another width."""
    both = local.sysfs is not None and remote.sysfs is not None
    neither = local.sysfs is None and remote.sysfs is None
    here, there = (
        _text(port.rate) if both or neither or port.sysfs is not None else _UNSEEN
        for port in (local, remote)
    )
    return here, there


def _partitions(local: PortView, remote: PortView) -> CompatRow:
    first, second = _keys(partition_keys(local)), _keys(partition_keys(remote))
    shared = in_one_partition(local, remote)
    if shared is None:
        return CompatRow("pkeys", first, second, Agreement.UNKNOWN, NOT_KNOWN)
    if not shared:
        return CompatRow("pkeys", first, second, Agreement.STOPS, NOT_SHARED)
    return _row("pkeys", first, second, "they share one partition")


def _keys(keys: dict[int, int] | Missing) -> str | Missing:
    if isinstance(keys, Missing):
        return keys
    return ", ".join(f"{each:#06x}" for each in keys.values()) or "(none)"


def _prefix(port: PortView) -> str | Missing:
    first = next((each for each in port.entries if each.index == 0), None)
    return _NO_GID if first is None else first.gid.raw[:8].hex(":", 2)


_NO_GID: Final = Missing(Why.ABSENT, "no GID at index 0")


def _mtu(port: PortView) -> str | Missing:
    return _text(port.verbs.active_mtu if port.verbs else _NO_VERBS)


_NO_VERBS: Final = Missing(Why.NOT_COLLECTED, "the verbs library does not show the port")


def _mtus(side: Side) -> dict[str, str | Missing]:
    """By netdev."""
    found: dict[str, str | Missing] = {}
    for source, items in (("netdev", "netdevs"), ("mac_network", "interfaces")):
        seen = getattr(side.evidence, source)
        for each in () if isinstance(seen, Missing) else present(getattr(seen, items)):
            found.setdefault(each.name, _text(each.mtu))
    return found


def _netdev_mtu(port: PortView, mtus: dict[str, str | Missing]) -> str | Missing:
    name = port.netdev
    return name if isinstance(name, Missing) else mtus.get(name, _UNSEEN)


def _kinds(here: EndPort, there: EndPort) -> CompatRow:
    first, second = here.families, there.families
    without = without_gid(here.view, there.view)
    if without and not isinstance(first, Missing) and not isinstance(second, Missing):
        return CompatRow("gids", first, second, Agreement.STOPS, without)
    return _row("gids", first, second, "not every row has one to talk to")


def _families(port: PortView) -> str | Missing:
    """ "roce_v2 IPv4, roce_v2 IPv6 link-local": the kinds of rows, each once."""
    if isinstance(port.gids, Missing):
        return port.gids
    if not port.entries and port.gids.unreadable:
        return Missing(Why.MALFORMED, "rows of the table could not be read")
    found = dict.fromkeys(
        " ".join(
            filter(
                None,
                (
                    str(each.known_type or ""),
                    str(each.gid.family),
                    "link-local" if each.gid.scope is Scope.LINK_LOCAL else "",
                ),
            )
        )
        for each in port.entries[:MOST_ROWS]
    )
    return ", ".join(sorted(found)) or "(none)"


def _subnets(rows: Iterable[Address]) -> str | Missing:
    """Of the addresses in its GIDs, but link-local ones."""
    from ipaddress import ip_interface

    found: dict[str, None] = {}
    unknown = False
    for each in rows:
        if each.gid.scope is Scope.LINK_LOCAL:
            continue
        if each.prefix_length is None:
            unknown = True
            continue
        text = f"{each.gid.ipv4 or each.gid}/{each.prefix_length}"
        try:
            found[str(ip_interface(text).network)] = None
        except ValueError:  # a saved report that somebody has edited
            unknown = True
    if not found and unknown:
        return Missing(Why.NOT_COLLECTED, "no prefix length is known")
    return ", ".join(found) or _NO_SUBNET


_NO_SUBNET: Final = "(none)"


def _networks(here: str | Missing, there: str | Missing) -> CompatRow:
    if isinstance(here, Missing) or isinstance(there, Missing):
        return _row("subnets", here, there, "")
    if _NO_SUBNET in (here, there):
        why = "link-local GIDs alone at one end: a router passes none of them on"
    elif {*here.split(", ")}.isdisjoint(there.split(", ")):
        why = "none is common: a router is needed"
    else:
        why = "one is common"
    return _row("subnets", here, there, why)


def _cable(here: EndPort, there: EndPort) -> CompatRow:
    """Whether the cable of one leads to the other, by the domains that both name."""
    ends = [cabling(each.view.device, each.side.evidence) for each in (here, there)]
    seen = [{str(known(peer.domain_uuid)) for peer in each.hosts} - {"None"} for each in ends]
    own = [
        str(each.bus.domain_uuid) if each.bus and known(each.bus.domain_uuid) else None
        for each in ends
    ]
    texts = [
        f"{mine or '(not known)'} → {', '.join(sorted(others))}" if others else _NO_CABLE
        for mine, others in zip(own, seen, strict=True)
    ]
    if own[0] is not None and own[0] == own[1]:
        why = f"both ends are domain {own[0]}: one Mac, by two records"
        return CompatRow("cable", texts[0], texts[1], Agreement.UNKNOWN, why)
    if own[1] in seen[0] or own[0] in seen[1]:
        return CompatRow("cable", texts[0], texts[1], Agreement.SAME)
    if (seen[0] and own[1]) or (seen[1] and own[0]):
        why = f"the cable of {here.view.device} leads to another computer than the peer"
        return CompatRow("cable", texts[0], texts[1], Agreement.STOPS, why)
    return CompatRow(
        "cable", texts[0], texts[1], Agreement.UNKNOWN, "cable is not known at both ends"
    )


_NO_CABLE: Final = Missing(Why.ABSENT, "no computer is seen on it")


def _text(value: Any) -> str | Missing:
    if isinstance(value, Missing):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _row(subject: str, here: str | Missing, there: str | Missing, why: str) -> CompatRow:
    if isinstance(here, Missing) or isinstance(there, Missing):
        return CompatRow(subject, here, there, Agreement.UNKNOWN)
    if here == there:
        return CompatRow(subject, here, there, Agreement.SAME)
    return CompatRow(subject, here, there, Agreement.DIFFERS, why)
