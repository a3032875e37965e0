"""The device, port and GID that rdma_cm takes for a source address on a netdev.

The first device, in the order in which devices were registered, that has a GID of the address on
that netdev, of the port's default type (cma_acquire_dev_by_src_ip, cma_validate_port:
drivers/infiniband/core/cma.c).
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from rdmadiag.facts import GidEntry, Missing, NetDev, Why, known
from rdmadiag.facts.address import packed_ipv4, packed_ipv6
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.errnos import errno_name
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.gid import IPV4_MAPPED, Gid
from rdmadiag.facts.ib import GidType
from rdmadiag.facts.routing import RoutingFacts
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NOT_HERE, netdev_state
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol
from rdmadiag.view.unshown import why_unknown

ENODEV: Final = 19
_INFINIBAND: Final = 32  # ARPHRD_INFINIBAND
IPOIB_OCTETS: Final = 20  # of a hardware address
_GID_IN_ADDRESS: Final = 4  # of IPoIB's 20 bytes (rdma_addr_gid_offset)


class Obstacle(StrEnum):
    """What stops rdma_cm on this side of the network."""

    NO_ROUTE = "no_route"
    ROUTE_REFUSED = "route_refused"  # unreachable, prohibit, blackhole
    SOURCE_NOT_HERE = "source_not_here"
    FAMILIES_DIFFER = "families_differ"
    NO_SCOPE = "no_scope"  # fe80:: without %netdev
    NO_SOURCE = "no_source"  # the netdev has no address of the family
    NO_DEVICE = "no_device"  # the netdev is below no RDMA device
    OTHER_NETDEV = "other_netdev"  # a device has the address, by another netdev
    NO_GID = "no_gid"  # the netdev's device has no GID of the address
    OTHER_TYPE = "other_type"  # it has, and not of the default type
    LOOPBACK_ADDRESS = "loopback_address"  # 127.0.0.1, but over InfiniBand


class Call(StrEnum):
    """Where a program sees it."""

    BIND_ADDR = "rdma_bind_addr"
    RESOLVE_ADDR = "rdma_resolve_addr"
    ADDR_ERROR = "RDMA_CM_EVENT_ADDR_ERROR"
    RESOLVE_ROUTE = "rdma_resolve_route"


@dataclass(frozen=True, slots=True)
class Stop:
    """What a program of this host sees instead of a connection."""

    obstacle: Obstacle
    call: Call
    errno: int
    name: str  # "ENODEV"


@dataclass(frozen=True, slots=True)
class Taken(WithNumbers):
    """The port and the row that it sends from."""

    device: str
    port: int
    protocol: Protocol
    active: bool
    gid_index: int | None  # None: iWARP uses none
    gid: str | None
    gid_type: GidType | None


def stop_at(obstacle: Obstacle, call: Call, errno: int) -> Stop:
    """With the errno's name."""
    return Stop(obstacle, call, errno, errno_name(errno, "linux"))


def as_gid(address: str) -> Gid:
    """rdma_ip2gid: ::ffff:a.b.c.d of an IPv4 address."""
    try:
        if ":" in address:
            return Gid(packed_ipv6(address))
        return Gid(IPV4_MAPPED + packed_ipv4(address))
    except (OSError, ValueError):
        return Gid.ZERO  # of an edited report: no row is of that


def netdev_facts(evidence: Evidence, name: str) -> NetDev | None:
    """By rtnetlink; None where it does not show it."""
    facts = known(evidence.netdev)
    return facts.netdev(name) if facts else None


def registered(devices: Sequence[DeviceView]) -> tuple[DeviceView, ...]:
    """In the order of cma.c's list: DEV_INDEX grows with each device that is registered."""
    return tuple(sorted(devices, key=lambda each: each.nldev.index if each.nldev else 0))


def ports_in_order(devices: Sequence[DeviceView]) -> Iterator[PortView]:
    """Of `registered` devices."""
    for device in registered(devices):
        yield from device.ports


def roce_mode(port: PortView, routing: RoutingFacts) -> GidType | Missing:
    """Of configfs; else the default: RoCE v2 where the port has it (cma_add_one)."""
    modes = routing.roce_modes
    if isinstance(modes, Missing):
        return modes
    found = (each.type for each in modes if each.port == port.name)
    return next(found, Missing(Why.ABSENT, "no folder of the device in configfs"))


def _default_type(port: PortView, routing: RoutingFacts) -> GidType:
    mode = roce_mode(port, routing)
    if not isinstance(mode, Missing):
        return mode
    return GidType.ROCE_V2 if any(each.is_v2 for each in port.entries) else GidType.ROCE_V1


def hardware_address(netdev: NetDev | None) -> bytes:
    """Nothing where there is none; of IPoIB it ends in the port's GID."""
    mac = known(netdev.mac) if netdev else None
    try:
        return bytes.fromhex((mac or "").replace(":", ""))
    except ValueError:
        return b""


def _octets(evidence: Evidence, name: str) -> bytes:
    return hardware_address(netdev_facts(evidence, name))


def _hardware_gid(evidence: Evidence, name: str) -> bytes | None:
    """The port GID in IPoIB's hardware address."""
    octets = _octets(evidence, name)
    return octets[_GID_IN_ADDRESS:] if len(octets) == IPOIB_OCTETS else None


def _serves_iwarp(port: PortView, evidence: Evidence, netdev: str) -> bool:
    """Whether an iWARP device's one netdev is this; by its MAC where nothing names it."""
    own = port.netdev
    if not isinstance(own, Missing):
        return own == netdev
    octets = _octets(evidence, netdev)
    return bool(octets) and any(each.gid.raw.startswith(octets) for each in port.entries)


class PortFinder:
    """The port that rdma_cm takes for an address of a netdev (cma_validate_port), for as many
    addresses as there are: each port may have 256, and so have their netdevs.
    """

    def __init__(
        self, devices: Sequence[DeviceView], evidence: Evidence, routing: RoutingFacts
    ) -> None:
        self._ports = tuple(ports_in_order(devices))
        self._evidence = evidence
        self._links = {each.name: each for each in reversed(routing.links)}
        self._types = {
            place: _default_type(port, routing)
            for place, port in enumerate(self._ports)
            if port.protocol is Protocol.ROCE
        }
        self._iwarp: list[int] = []
        self._rows: dict[tuple[Protocol, bytes], list[tuple[int, GidEntry]]] = {}
        for place, port in enumerate(self._ports):
            if port.protocol is Protocol.IWARP:
                self._iwarp.append(place)
                continue
            for entry in port.entries:
                self._rows.setdefault((port.protocol, entry.gid.raw), []).append((place, entry))

    def take(self, source: str, netdev: str) -> Taken | Stop:
        """The first port that fits, or what is wrong with those that nearly do."""
        found = [
            (place, None)
            for place in self._iwarp
            if _serves_iwarp(self._ports[place], self._evidence, netdev)
        ][:1] + self._fitting(source, netdev)[:1]
        if found:
            place, entry = min(found, key=lambda each: each[0])
            return taken_of(self._ports[place], entry)
        return stop_at(self._why_none(source, netdev), Call.ADDR_ERROR, ENODEV)

    def stop(self, source: str, netdev: str) -> Stop | None:
        """As of `take`; None where a port fits."""
        if self._fitting(source, netdev):
            return None
        found = self.take(source, netdev)
        return found if isinstance(found, Stop) else None

    def _fitting(self, source: str, netdev: str) -> list[tuple[int, GidEntry | None]]:
        """The rows that fit, in the order of the ports; the lowest of a table is taken."""
        link = self._links.get(netdev)
        if link and link.type == _INFINIBAND:
            wanted = _hardware_gid(self._evidence, netdev)
            return [*self._rows.get((Protocol.INFINIBAND, wanted), ())] if wanted else []
        return [
            (place, entry)
            for place, entry in self._rows.get((Protocol.ROCE, as_gid(source).raw), ())
            if entry.netdev_name == netdev
            and entry.known_type in (None, self._types[place])
            # Another namespace's netdev may have this name.
            and netdev_state(entry, self._ports[place].netdevs) not in NOT_HERE
        ]

    def _why_none(self, source: str, netdev: str) -> Obstacle:
        with_address = self._rows.get((Protocol.ROCE, as_gid(source).raw), ())
        if any(entry.netdev_name == netdev for _, entry in with_address):
            return Obstacle.OTHER_TYPE
        if with_address:
            return Obstacle.OTHER_NETDEV
        roce = (self._ports[place] for place in self._types)
        if any(netdev in (*port.netdevs, port.netdev) for port in roce):
            return Obstacle.NO_GID
        return Obstacle.NO_DEVICE


def unread_part(devices: Sequence[DeviceView], evidence: Evidence) -> Missing | None:
    """Why there may be a device, a port or a row that nobody could look at."""
    for source in (evidence.sysfs, evidence.netdev):
        if isinstance(source, Missing):
            return source
    if unknown := why_unknown(evidence):
        return Missing(Why.NOT_COLLECTED, unknown)
    for port in ports_in_order(devices):
        gids = port.gids
        unread = [gids] if isinstance(gids, Missing) else [*gids.unreadable.values()]
        if unread and port.protocol is not Protocol.IWARP:
            return unread[0]
    return None


def taken_of(port: PortView, entry: GidEntry | None) -> Taken:
    """That port with that row; None of iWARP."""
    return Taken(
        port.device,
        port.number,
        port.protocol,
        port.is_active,
        entry.index if entry else None,
        str(entry.gid) if entry else None,
        entry.known_type if entry else None,
    )
