"""Two hosts' reports held against each other: which addresses meet, and by which way each end
sends to the other. No packet is sent.

A host's own addresses are those of the netdevs that its RDMA devices use in this network
namespace: its GID table also shows rows of netdevs of others.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Final

from rdmadiag.facts import Address, Missing, NetDev, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.routing import Link, Neighbour, RouteKind, TowardsFacts
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NOT_HERE
from rdmadiag.view.cm_device import PortFinder
from rdmadiag.view.peer_picks import End
from rdmadiag.view.peer_route import PeerRoute, owner, peer_route
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, ports
from rdmadiag.view.routing import holds, length_of

MOST_MEETINGS: Final = 64
_ALL_HOSTS: Final = "255.255.255.255"
_POINT_TO_POINT: Final = 31
BY_ADDRESS: Final = (Protocol.ROCE, Protocol.IWARP)


@dataclass(frozen=True, slots=True)
class HostEnd:
    """One host, by its report."""

    name: str
    evidence: Evidence
    devices: tuple[DeviceView, ...]


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """An address that an RDMA device of the host can send from."""

    device: str
    port: int
    protocol: Protocol
    is_software: bool
    netdev: NetDev
    address: str
    prefix_length: int

    @property
    def place(self) -> str:
        """ "rxe0/1"."""
        return f"{self.device}/{self.port}"

    def holds(self, address: str) -> bool:
        """Whether its own subnet has the address."""
        return holds(f"{self.address}/{self.prefix_length}", address)


@dataclass(frozen=True, slots=True)
class Towards:
    """What one end's report shows of its way to an address of the other."""

    near: HostEnd
    far: HostEnd
    mine: OwnAddress
    theirs: OwnAddress
    route: PeerRoute  # as a program's packets leave: not bound to a netdev
    owner: str | None  # the netdev here that has the peer's address

    @property
    def neighbour(self) -> Neighbour | None:
        """The entry of the next hop, where there is one."""
        hop = self.route.next_hop
        return hop.entry if hop and isinstance(hop.entry, Neighbour) else None

    @property
    def heard(self) -> Neighbour | None:
        """The far host's entry of this end's address."""
        routing = known(self.far.evidence.routing)
        entries = known(routing.neighbours) if routing else None
        return next(
            (
                each
                for each in entries or ()
                if each.address == self.mine.address and each.netdev == self.theirs.netdev.name
            ),
            None,
        )

    @property
    def is_direct(self) -> bool:
        """Whether the peer itself is the next hop."""
        hop = self.route.next_hop
        return hop is not None and not hop.is_gateway

    @property
    def link(self) -> Link | None:
        """Of the netdev of `mine`."""
        return link_of(self.near.evidence, self.mine.netdev.name)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two addresses that may meet, seen from both ends."""

    here: Towards
    there: Towards
    # An address of it is one that a route, or a program, gives: not one that an IPv6 host chose.
    by_route: bool = False

    @property
    def is_on_one_subnet(self) -> bool:
        """By the prefix length of either."""
        here, there = self.here.mine, self.there.mine
        return here.holds(there.address) or there.holds(here.address)


@dataclass(frozen=True, slots=True)
class Named:
    """An address that a program was given, and the host that has it."""

    near: HostEnd
    far: HostEnd
    address: str
    netdev: str
    link: Link | None
    flags: Address | None  # None: of a netdev without RDMA


def link_of(evidence: Evidence, name: str) -> Link | None:
    """As the routing tables' source has it."""
    routing = known(evidence.routing)
    return next((each for each in routing.links if each.name == name), None) if routing else None


def own_addresses(evidence: Evidence, devices: Sequence[DeviceView]) -> tuple[OwnAddress, ...]:
    """Each once: of several ports of one netdev the first is shown."""
    facts = known(evidence.netdev)
    found: dict[tuple[str, str], OwnAddress] = {}
    for port in ports(devices):
        if facts is None or port.protocol not in BY_ADDRESS:
            continue
        for netdev in filter(None, map(facts.netdev, _netdevs(port))):
            for each in netdev.addresses:
                if _is_used(each):
                    own = OwnAddress(
                        port.device,
                        port.number,
                        port.protocol,
                        port.is_software,
                        netdev,
                        each.address,
                        each.prefix_length,
                    )
                    found.setdefault((netdev.name, each.address), own)
    return tuple(found.values())


def all_addresses(evidence: Evidence) -> frozenset[str]:
    """All that the host has, on whichever netdev."""
    facts, routing = known(evidence.netdev), known(evidence.routing)
    found = {own.address for each in (facts.netdevs if facts else ()) for own in each.addresses}
    found |= {
        row.destination.partition("/")[0]
        for row in (known(routing.routes) if routing else None) or ()
        if row.kind is RouteKind.LOCAL
    }
    return frozenset(found)


def named(near: HostEnd, far: HostEnd, address: str) -> Named | None:
    """Where `near` has the address; None where it has not."""
    facts, routing = known(near.evidence.netdev), known(near.evidence.routing)
    netdev = owner(near.evidence, routing, address) if routing else None
    if netdev is None:
        return None
    of_rdma = facts.netdev(netdev) if facts else None
    flags = (each for each in (of_rdma.addresses if of_rdma else ()) if each.address == address)
    return Named(near, far, address, netdev, link_of(near.evidence, netdev), next(flags, None))


def routed_without_device(near: HostEnd, far: HostEnd) -> tuple[tuple[str, str], ...]:
    """Addresses of `far` to which `near` has a route of their own, and the netdev there, by which
    no RDMA device sends: loopback addresses that routers announce, a network of management.
    """
    routing = known(near.evidence.routing)
    rows = (known(routing.routes) if routing else None) or ()
    used = {each.address for each in own_addresses(far.evidence, far.devices)}
    whole = {
        row.destination.partition("/")[0]
        for row in rows
        if row.kind is RouteKind.UNICAST
        and not row.is_cached
        and length_of(row.destination) == (128 if ":" in row.destination else 32)
    }
    there = ((address, named(near=far, far=near, address=address)) for address in sorted(whole))
    return tuple((address, it.netdev) for address, it in there if it and address not in used)


class Odd(StrEnum):
    """Why an address is of no other host."""

    LOOPBACK = "an address of the host itself, wherever it is used"
    MULTICAST = "a multicast address"
    BROADCAST = "the broadcast address of the subnet"


def odd(end: HostEnd, address: str) -> Odd | None:
    """What an address that a program of this host was given is, where no host can have it."""
    try:
        given = ip_address(address)
    except ValueError:
        return None
    if given.is_loopback or given.is_unspecified:
        return Odd.LOOPBACK
    if given.is_multicast:
        return Odd.MULTICAST
    return Odd.BROADCAST if _is_broadcast(end, address) else None


def _is_broadcast(end: HostEnd, address: str) -> bool:
    """Of all networks, or of one of the host's own; one of two addresses has none (RFC 3021)."""
    facts = known(end.evidence.netdev)
    own = [each for netdev in (facts.netdevs if facts else ()) for each in netdev.addresses]
    return address == _ALL_HOSTS or any(
        ":" not in each.address
        and each.prefix_length < _POINT_TO_POINT
        and address == str(ip_network(f"{each.address}/{each.prefix_length}", False)[-1])
        for each in own
    )


@dataclass(frozen=True, slots=True)
class Has:
    """What a host has now of what a program may have used; None: not all of it was read."""

    devices: frozenset[str] | None
    gids: frozenset[str] | None


def has(end: HostEnd) -> Has:
    """By its report."""
    tables = [port.gids for port in ports(end.devices)]
    unread = [each for each in tables if isinstance(each, Missing) or each.unreadable]
    sysfs = known(end.evidence.sysfs)
    whole = sysfs is not None and not isinstance(sysfs.devices, Missing)
    return Has(
        frozenset(each.name for each in end.devices) if whole else None,
        None
        if unread or not whole
        else frozenset(
            str(entry.gid)
            for each in tables
            if not isinstance(each, Missing)
            for entry in each.entries
        ),
    )


def _netdevs(port: PortView) -> Iterator[str]:
    """Those that its GIDs name, and its own where no other namespace has it."""
    yield from sorted(port.netdevs_here)
    own = port.netdev
    if not isinstance(own, Missing) and port.netdevs.get(own) not in NOT_HERE:
        yield own


def ports_on(end: HostEnd, netdev: str) -> frozenset[End]:
    """The ports that send from this netdev's addresses."""
    every = ports(end.devices)
    return frozenset(End(each.device, each.number) for each in every if netdev in _netdevs(each))


def _is_used(address: Address) -> bool:
    unusable = True in (address.tentative, address.duplicate)
    return address.scope not in ("link", "host", "nowhere") and not unusable


def at_home(views: Iterable[PortView]) -> tuple[PortView, ...]:
    """The ports but for those whose netdevs are all in other network namespaces."""
    return tuple(
        each
        for each in views
        if not each.netdevs or any(state not in NOT_HERE for state in each.netdevs.values())
    )


def goes_by_address(end: HostEnd) -> bool:
    """Whether it has a port whose packets go by IP addresses: RoCE, iWARP."""
    return any(each.protocol in BY_ADDRESS for each in ports(end.devices))


def not_seen(end: HostEnd) -> Missing | None:
    """Why the way from this host is not known."""
    netdev, routing = end.evidence.netdev, end.evidence.routing
    if isinstance(routing, Missing):
        return routing
    control = routing.traffic_control
    filters = control if isinstance(control, Missing) else control.filters
    parts = (netdev, routing.routes, routing.rules, routing.neighbours, filters)
    return next((each for each in parts if isinstance(each, Missing)), None)


def is_one_host(here: HostEnd, there: HostEnd) -> bool:
    """Whether both reports are of one host: all its addresses, on the same MAC addresses."""
    ends = [
        {
            (known(each.netdev.mac), each.address)
            for each in own_addresses(end.evidence, end.devices)
        }
        for end in (here, there)
    ]
    return bool(ends[0]) and ends[0] == ends[1]


def meetings(
    here: HostEnd, there: HostEnd, among: frozenset[str] = frozenset()
) -> tuple[tuple[Meeting, ...], int]:
    """Of each family the addresses that share a subnet, or where none do all; of several those of
    ports of one name. Where addresses of `among` are an end's, those alone, and the one that the
    other end's packets come from; beside these what an ICMP redirect is about. Where packets
    between two of these leave by another source, that is one more, within MOST_MEETINGS. With how
    many others are left out, beyond those.
    """
    ours = own_addresses(here.evidence, here.devices)
    theirs = own_addresses(there.evidence, there.devices)
    near = [*_near(ours, theirs, 4), *_near(ours, theirs, 6)]
    both_named = [(a, b) for a, b in product(ours, theirs) if {a.address, b.address} <= {*among}]
    one_named = [(a, b) for a, b in near if not among.isdisjoint((a.address, b.address))]
    both = _Ways(here), _Ways(there)
    given = [(a, b) for a, b in both_named if _version(a) == _version(b)] or one_named
    routed = [] if given else [*_to_named(ours, theirs, among, both[0])]
    routed += [] if given else [(a, b) for b, a in _to_named(theirs, ours, among, both[1])]
    given = given or ([] if routed else near)
    routed += _to_named(ours, theirs, _redirected(here), both[0])
    routed += [(a, b) for b, a in _to_named(theirs, ours, _redirected(there), both[1])]
    every = [*given, *routed]
    first = every[:MOST_MEETINGS]
    leaving = [(_source(ours, a, both[0].to(b.address)), b) for a, b in first]
    coming = [(a, _source(theirs, b, both[1].to(a.address))) for a, b in first]
    met = tuple(
        Meeting(
            both[0].towards(a, there, b),
            both[1].towards(b, here, a),
            (a, b) not in given
            and not ((a, b) in leaving and both[0].chooses(a, b.address))
            and not ((a, b) in coming and both[1].chooses(b, a.address)),
        )
        for a, b in _once([*first, *leaving, *coming])[:MOST_MEETINGS]
    )
    return met, len(every) - len(first)


def _near(
    ours: Sequence[OwnAddress], theirs: Sequence[OwnAddress], version: int
) -> Iterator[tuple[OwnAddress, OwnAddress]]:
    pairs = [
        (one, other)
        for one, other in product(ours, theirs)
        if _version(one) == _version(other) == version
    ]
    pairs = [(a, b) for a, b in pairs if a.holds(b.address) or b.holds(a.address)] or pairs
    alike = {a.place for a, b in pairs if a.place == b.place}
    for a, b in pairs:
        if a.place == b.place or alike.isdisjoint((a.place, b.place)):
            yield a, b


def _to_named(
    ours: Sequence[OwnAddress],
    theirs: Sequence[OwnAddress],
    among: frozenset[str],
    ways: "_Ways",
) -> Iterator[tuple[OwnAddress, OwnAddress]]:
    """To each address of theirs that is named from the one that packets to it leave by; from the
    first of its family where no way leads there.
    """
    for other in theirs:
        own = next((each for each in ours if _version(each) == _version(other)), None)
        if other.address in among and own is not None:
            yield _source(ours, own, ways.to(other.address)), other


def _redirected(end: HostEnd) -> frozenset[str]:
    """Destinations that this host has learned another way to."""
    routing = known(end.evidence.routing)
    rows = (known(routing.routes) if routing else None) or ()
    return frozenset(each.destination.partition("/")[0] for each in rows if each.is_redirected)


def _source(ours: Sequence[OwnAddress], own: OwnAddress, route: PeerRoute) -> OwnAddress:
    """The address by which packets leave, where that is an RDMA device's; else this one."""
    return next((each for each in ours if each.address == route.source), own)


def _once(
    pairs: Iterable[tuple[OwnAddress, OwnAddress]],
) -> list[tuple[OwnAddress, OwnAddress]]:
    of = {(a.netdev.name, a.address, b.netdev.name, b.address): (a, b) for a, b in pairs}
    return [*of.values()]


def _version(own: OwnAddress) -> int:
    return 6 if ":" in own.address else 4


class _Ways:
    """The ways of one host."""

    def __init__(self, near: HostEnd) -> None:
        self._near = near
        routing = near.evidence.routing
        seen = routing if isinstance(routing, Missing) else routing.neighbours
        self._towards = TowardsFacts((), seen)
        self._finder = None
        if not isinstance(routing, Missing):
            self._finder = PortFinder(near.devices, near.evidence, routing)
        self._routes: dict[str, PeerRoute] = {}

    def to(self, address: str) -> PeerRoute:
        """By which packets leave to that address, from wherever."""
        if address not in self._routes:
            near, towards = self._near, self._towards
            self._routes[address] = peer_route(
                near.evidence, near.devices, address, towards=towards, finder=self._finder
            )
        return self._routes[address]

    def chooses(self, mine: OwnAddress, address: str) -> bool:
        """Whether packets to the address have this IPv6 source, and no route says so."""
        way, routing = self.to(address), known(self._near.evidence.routing)
        rows = (known(routing.routes) if routing else None) or ()
        if ":" not in mine.address:
            return False
        of_rows = {(each.destination, each.table, each.source) for each in rows}
        given = (way.prefix, way.table, mine.address) in of_rows
        return way.source == mine.address and not given

    def towards(self, mine: OwnAddress, far: HostEnd, theirs: OwnAddress) -> Towards:
        near, routing = self._near, self._near.evidence.routing
        has = (
            None if isinstance(routing, Missing) else owner(near.evidence, routing, theirs.address)
        )
        return Towards(near, far, mine, theirs, self.to(theirs.address), has)
