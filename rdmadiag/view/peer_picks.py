"""What each stack would pick at both ends, and whether those two can talk. No traffic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from rdmadiag.facts import GidEntry, Missing, NetDev, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.gid import Scope
from rdmadiag.frozen import dataclass
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.reach import Address, mismatches, same_subnet
from rdmadiag.gid.registry import Chosen
from rdmadiag.view.partitions import NOT_KNOWN, NOT_SHARED, in_one_partition
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.stack_picks import BY_GID, made_for, picks


class Talks(StrEnum):
    """Whether two picks can exchange packets."""

    YES = "yes"
    ROUTED = "routed"  # by a router between their subnets, if there is one
    UNKNOWN = "unknown"  # nothing is known against it, and the prefix length is not known
    NO = "no"


BEST_FIRST: Final = tuple(Talks)


@dataclass(frozen=True, slots=True)
class StackPair:
    """One stack, at both ends."""

    stack: str
    version: str
    local: Pick
    remote: Pick
    talks: Talks
    why: str


@dataclass(frozen=True, slots=True)
class End:
    """A port."""

    device: str
    port: int


@dataclass(frozen=True, slots=True)
class PortPair:
    """A port here and one of the peer."""

    local: End
    remote: End
    protocol: Protocol
    stacks: tuple[StackPair, ...]


_NOT_THERE: Final = (Outcome.NOT_USED, Outcome.UNSUPPORTED, Outcome.ADDRESS)


@dataclass(frozen=True, slots=True)
class Side:
    """One end: its ports, what it knows of addresses, and the variables of its process."""

    ports: tuple[PortView, ...]
    evidence: Evidence
    environment: Mapping[str, str] | Missing


def pairs(here: Side, there: Side, stacks: Sequence[Chosen]) -> tuple[PortPair, ...]:
    """Ports of one name at both ends; where the peer has no such port, with each of its own."""
    mine, theirs = _Picks(here, stacks), _Picks(there, stacks)
    others = _talking(there)
    return tuple(
        PortPair(
            End(local.device, local.number),
            End(remote.device, remote.number),
            local.protocol,
            tuple(_stacks(mine, local, theirs, remote)),
        )
        for local in _talking(here)
        for remote in opposite(local, others)
    )


def _talking(side: Side) -> tuple[PortView, ...]:
    return tuple(
        port
        for port in side.ports
        if port.is_active and port.protocol in BY_GID and not isinstance(port.gids, Missing)
    )


def opposite(local: PortView, ports: Sequence[PortView]) -> Iterator[PortView]:
    """Those of its protocol: that of its name, else each."""
    fitting = [port for port in ports if port.protocol is local.protocol]
    same = [port for port in fitting if port.name == local.name]
    yield from same or fitting


class _Picks:
    """Each port's picks and the addresses of their rows, made once."""

    def __init__(self, side: Side, stacks: Sequence[Chosen]) -> None:
        self._side = side
        self._stacks = stacks
        self._made: dict[str, tuple[Pick, ...]] = {}
        self._addresses = Addresses(side.evidence)
        self._rows: dict[tuple[str, int], Address] = {}

    def of(self, port: PortView) -> tuple[Pick, ...]:
        if port.name not in self._made:
            stacks = made_for(self._stacks, port)
            self._made[port.name] = picks(port, stacks, self._side.environment)
        return self._made[port.name]

    def address(self, port: PortView, entry: GidEntry) -> Address:
        row = port.name, entry.index
        if row not in self._rows:
            self._rows[row] = self._addresses.address(port, entry)
        return self._rows[row]


def _stacks(mine: _Picks, local: PortView, theirs: _Picks, remote: PortView) -> Iterator[StackPair]:
    said: dict[tuple[int | None, int | None], tuple[Talks, str]] = {}
    for ours, other in zip(mine.of(local), theirs.of(remote), strict=True):
        if ours.outcome in _NOT_THERE or other.outcome in _NOT_THERE:
            continue
        failed = _fails(ours, other)
        rows = _index(ours), _index(other)
        if failed is None and rows not in said:
            said[rows] = _talk(ours.entry, mine, local, other.entry, theirs, remote)
        talks, why = failed or said[rows]
        yield StackPair(ours.stack, ours.version, ours, other, talks, why)


def _index(pick: Pick) -> int | None:
    return None if pick.entry is None else pick.entry.index


def _fails(ours: Pick, other: Pick) -> tuple[Talks, str] | None:
    """Where a stack has nothing to connect by at one end."""
    for pick, where in ((ours, "here"), (other, "at the peer")):
        if pick.outcome not in (Outcome.ENTRY, Outcome.LID):
            return Talks.NO, f"{where}: {pick.problem or pick.why}"
    return None


def _talk(
    ours: GidEntry | None,
    mine: _Picks,
    local: PortView,
    other: GidEntry | None,
    theirs: _Picks,
    remote: PortView,
) -> tuple[Talks, str]:
    if local.protocol is Protocol.INFINIBAND:
        return _over_infiniband(local, remote)
    if ours is None or other is None:
        return Talks.UNKNOWN, "a row is not known"
    near, far = mine.address(local, ours), theirs.address(remote, other)
    wrong = next(mismatches(near, far), None)
    if wrong:
        return Talks.NO, wrong.text
    if near.gid == far.gid and near.gid.scope is not Scope.LINK_LOCAL:
        return Talks.UNKNOWN, f"both ends have {near.gid}: one host, or an address given twice"
    subnet = same_subnet(near, far)
    if subnet is False:
        return Talks.ROUTED, "different subnets: a router must pass RoCE v2 (UDP 4791)"
    if subnet is None:
        return Talks.UNKNOWN, "same type and family; the prefix length is not known"
    return Talks.YES, "same type, family and subnet"


def _over_infiniband(local: PortView, remote: PortView) -> tuple[Talks, str]:
    """By the partitions and the LIDs of both."""
    shared = in_one_partition(local, remote)
    if shared is False:
        return Talks.NO, NOT_SHARED
    talks, why = by_lid(local, remote)
    if shared is None and talks is not Talks.NO:
        return Talks.UNKNOWN, NOT_KNOWN
    return talks, why


def by_lid(local: PortView, remote: PortView) -> tuple[Talks, str]:
    """Of two InfiniBand ports, by their subnet prefixes; in one subnet each has a LID of its own.

    Subnets that are not joined may have one prefix, the default one, and LIDs of one range.
    """
    if local.is_omni_path is not remote.is_omni_path:
        if None in (local.is_omni_path, remote.is_omni_path):
            return Talks.UNKNOWN, "whether both ends are of one fabric is not known"
        return Talks.NO, "one end is Omni-Path and the other InfiniBand: different fabrics"
    gids = [
        next((entry.gid for entry in port.gids.entries if entry.index == 0), None)
        for port in (local, remote)
        if not isinstance(port.gids, Missing)
    ]
    if len(gids) < 2 or gids[0] is None or gids[1] is None:
        return Talks.UNKNOWN, "a subnet prefix is not known"
    if gids[0].raw[:8] != gids[1].raw[:8]:
        return Talks.ROUTED, "different subnet prefixes: an InfiniBand router must join them"
    if gids[0] == gids[1]:
        return Talks.UNKNOWN, f"both ends have {gids[0]}: one port, or a GUID given twice"
    for port in (local, remote):
        if isinstance(port.lid, Missing):
            return Talks.UNKNOWN, f"one subnet prefix; a LID is not known: {port.lid}"
    if local.lid == remote.lid:
        return Talks.NO, (
            f"both have LID {local.lid} and one subnet prefix: a LID given twice, or two subnets "
            "that are not joined"
        )
    return Talks.YES, "one subnet prefix, by LID"


_NO_TYPE: Final = Missing(Why.UNSUPPORTED, "Thunderbolt has no GID types")


class Addresses:
    """Prefix lengths and VLANs of the addresses in GIDs."""

    def __init__(self, evidence: Evidence) -> None:
        self._prefixes: dict[tuple[str, str], int] = {}
        self._vlans: dict[str, int | None] = {}
        if not isinstance(evidence.netdev, Missing):
            for netdev in evidence.netdev.netdevs:
                self._vlans[netdev.name] = _vlan(netdev)
                for each in netdev.addresses:
                    self._add(netdev.name, each.address, each.prefix_length)
        if not isinstance(evidence.mac_network, Missing):
            for interface in present(evidence.mac_network.interfaces):
                for address in interface.addresses:
                    self._add(interface.name, address.address, address.prefix_length)

    def _add(self, netdev: str, address: str, prefix_length: int) -> None:
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:  # a saved report that somebody has edited
            return
        self._prefixes[netdev, str(parsed)] = prefix_length

    def address(self, port: PortView, entry: GidEntry) -> Address:
        """The row with what is known of the network of its address."""
        netdev = entry.netdev_name
        text = entry.gid.ipv4 or str(entry.gid)
        if port.protocol is Protocol.THUNDERBOLT:
            entry = replace(entry, type=_NO_TYPE)
        return Address(
            entry,
            None if netdev is None else self._prefixes.get((netdev, text)),
            None if netdev is None else self._vlans.get(netdev),
        )


def _vlan(netdev: NetDev) -> int | None:
    """0 for untagged; None for a VLAN of unknown number."""
    if not isinstance(netdev.vlan_id, Missing):
        return netdev.vlan_id
    return None if netdev.kind == "vlan" else 0
