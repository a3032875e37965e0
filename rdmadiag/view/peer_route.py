"""The way that rdma_cm takes towards a peer, by which device, port and GID, and what stops it.

rdma_resolve_addr looks up the way as any program's packet is routed, or binds to the netdev of
the source address first (rdma_bind_addr), and then takes a device: rdmadiag.view.cm_device.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Address, Missing, Why, known
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import GidType, roce_mtu
from rdmadiag.facts.routing import (
    LOCAL_TABLE,
    Asked,
    Hop,
    Link,
    Neighbour,
    Route,
    RouteKind,
    RoutingFacts,
    TowardsFacts,
)
from rdmadiag.frozen import dataclass
from rdmadiag.view.cm_device import (
    ENODEV,
    Call,
    Obstacle,
    PortFinder,
    Stop,
    Taken,
    netdev_facts,
    ports_in_order,
    roce_mode,
    stop_at,
    taken_of,
    unread_part,
)
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol
from rdmadiag.view.routing import (
    ERRNO,
    Flow,
    NoWay,
    Way,
    holds,
    length_of,
    lookup,
)
from rdmadiag.view.source_address import preferred_source

_EINVAL, _EADDRNOTAVAIL = 22, 99
_LOOPBACK: Final = ("127.0.0.0/8", "0.0.0.0/8", "::1/128", "::/128")  # cma_any_addr
_LINK_LOCAL: Final = "fe80::/10"


class Witness(StrEnum):
    """Where the route is from."""

    KERNEL = "kernel"  # RTM_GETROUTE with the destination
    TABLES = "tables"  # rules and routes, looked up here


@dataclass(frozen=True, slots=True)
class NextHop:
    """Who gets the packets, and what the neighbour table has of it."""

    address: str
    is_gateway: bool
    entry: Neighbour | Missing  # absent: no entry, the kernel asks when it is needed


@dataclass(frozen=True, slots=True)
class PeerRoute(WithNumbers):
    """The answer."""

    destination: str
    asked_source: str | None
    witness: Witness | None = None  # None: it came to no way
    netdev: str | None = None
    source: str | None = None
    prefix: str | None = None  # the row of the table, "192.0.2.0/24"; None: the kernel's answer
    table: int | None = None
    rule: int | None = None  # its priority
    loopback: bool = False  # the peer is this host
    assumed_on_link: bool = False
    # Several hops by the tables, between which the kernel chooses by a hash.
    choices: tuple[Hop, ...] = ()
    next_hop: NextHop | None = None  # None: none is needed, or known
    vlan_id: int | None = None
    mtu: int | None = None  # bytes, of the netdev
    path_mtu: int | None = None  # of RoCE: what fits the netdev's
    roce_mode: GidType | Missing = field(default=Missing(Why.NOT_COLLECTED))
    taken: Taken | None = None
    stop: Stop | None = None
    unknown: Missing | None = None  # why it is not known
    # The netdev by which packets from the source to the peer leave where nobody has bound them:
    # TCP's, ARP's, those of rxe, and what a listener here compares (validate_ipv4_net_dev).
    unbound_netdev: str | NoWay | None = None
    tables_netdev: str | None = None  # where the tables say another than the kernel
    is_redirected: bool = False  # by an ICMP message, until it is forgotten


# --- addresses and netdevs -------------------------------------------------------------------


def is_loopback(address: str) -> bool:
    """What rdma_cm takes for this host without a look at any table."""
    return any(holds(prefix, address) for prefix in _LOOPBACK)


def owner(evidence: Evidence, facts: RoutingFacts, address: str) -> str | None:
    """The netdev that has an address: of RDMA's by rtnetlink, of the others by the local table,
    where older kernels have lo for IPv6.
    """
    netdevs = known(evidence.netdev)
    for each in netdevs.netdevs if netdevs else ():
        if any(holds(f"{own.address}/{_whole(address)}", address) for own in each.addresses):
            return each.name
    if isinstance(facts.routes, Missing):
        return None
    order = {each.name: each.ifindex for each in facts.links}
    found = [
        hop.netdev
        for row in facts.routes
        if row.kind is RouteKind.LOCAL
        and row.table == LOCAL_TABLE
        and length_of(row.destination) == _whole(row.destination)
        and holds(row.destination, address)
        for hop in row.hops
    ]
    return min(found, key=lambda name: order.get(name, 0), default=None)


def _whole(address: str) -> int:
    """The length of a prefix that is one address."""
    return 128 if ":" in address else 32


def bound_to(
    evidence: Evidence, facts: RoutingFacts, source: str | None, scope: str | None
) -> str | None:
    """The netdev that rdma_cm looks on alone: of the source address, or of the scope."""
    if scope:  # a name or an index: getaddrinfo(3)
        named = (each.name for each in facts.links if scope in (each.name, str(each.ifindex)))
        return next(named, None)
    return owner(evidence, facts, source) if source else None


def questions(
    evidence: Evidence, destination: str, source: str | None, scope: str | None
) -> tuple[Asked, ...]:
    """What the kernel is to be queried for: as rdma_cm looks it up, and as a packet is routed."""
    routing = evidence.routing
    if isinstance(routing, Missing) or is_loopback(destination):
        return ()
    bound = bound_to(evidence, routing, source, scope)
    link = _link(routing, bound)
    first = Asked(destination, source, link.ifindex if link else None)
    return (first, Asked(destination, source)) if source and link else (first,)


def _link(facts: RoutingFacts, name: str | None) -> Link | None:
    return next((each for each in facts.links if each.name == name), None)


def _addresses(evidence: Evidence, name: str) -> tuple[Address, ...]:
    found = netdev_facts(evidence, name)
    return found.addresses if found else ()


# --- the way ---------------------------------------------------------------------------------


def peer_route(
    evidence: Evidence,
    devices: Sequence[DeviceView],
    destination: str,
    source: str | None = None,
    scope: str | None = None,
    towards: TowardsFacts | Missing = Missing(Why.NOT_COLLECTED),  # noqa: B008  # frozen
    finder: PortFinder | None = None,
) -> PeerRoute:
    """What rdma_cm takes towards `destination`, an address; `scope` a netdev's name or index.

    `finder`: that of these devices, for who looks for many routes.
    """
    found = PeerRoute(destination, source)
    routing = evidence.routing
    if isinstance(routing, Missing):
        return replace(found, unknown=routing)
    if source and (":" in source) != (":" in destination):
        return _stopped(found, Obstacle.FAMILIES_DIFFER, Call.RESOLVE_ADDR, _EINVAL)
    if is_loopback(destination):
        return _to_itself(found, devices)
    if holds(_LINK_LOCAL, destination) and not scope and ":" in destination:
        return _stopped(found, Obstacle.NO_SCOPE, Call.RESOLVE_ADDR, _EINVAL)
    bound = bound_to(evidence, routing, source, scope)
    if (scope or source) and bound is None:
        return _not_bound(found, routing, scope)
    flow = Flow(destination, source, bound)
    ours = lookup(routing, flow)
    if isinstance(ours, Way) and len(ours.hops) > 1:
        found = replace(found, choices=ours.hops)
    way, witness, other = _way(routing, flow, ours, towards)
    if isinstance(way, Missing):
        return replace(found, unknown=way)
    if isinstance(way, NoWay):
        obstacle = Obstacle.NO_ROUTE if way is NoWay.NO_ROUTE else Obstacle.ROUTE_REFUSED
        return _stopped(found, obstacle, Call.RESOLVE_ADDR, ERRNO[way])
    found = replace(
        found,
        witness=witness,
        prefix=way.prefix if witness is Witness.TABLES else None,
        table=way.table,
        rule=way.rule,
        assumed_on_link=way.assumed_on_link,
        tables_netdev=other,
        is_redirected=way.is_redirected,
    )
    finder = finder or PortFinder(devices, evidence, routing)
    return _by(found, evidence, devices, routing, way, towards, finder)


def _not_bound(found: PeerRoute, routing: RoutingFacts, scope: str | None) -> PeerRoute:
    """Where no netdev is the scope, or has the source's address."""
    if scope:
        return replace(found, unknown=Missing(Why.ABSENT, f"no netdev is {scope!a}"))
    if isinstance(routing.routes, Missing):
        return replace(found, unknown=routing.routes)
    return _stopped(found, Obstacle.SOURCE_NOT_HERE, Call.BIND_ADDR, _EADDRNOTAVAIL)


def _by(
    found: PeerRoute,
    evidence: Evidence,
    devices: Sequence[DeviceView],
    routing: RoutingFacts,
    way: Way,
    towards: TowardsFacts | Missing,
    finder: PortFinder,
) -> PeerRoute:
    destination = found.destination
    hop = way.hops[0] if way.hops else None
    loopback = way.kind is RouteKind.LOCAL
    # A way by lo leads to the netdev that has the address (rdma_set_src_addr_rcu).
    netdev = owner(evidence, routing, destination) if loopback else hop.netdev if hop else None
    if netdev is None:
        missing = Missing(Why.ABSENT, f"no netdev has {destination}")
        return replace(found, unknown=missing, loopback=loopback)
    if len({each.netdev for each in way.hops}) > 1:
        missing = Missing(Why.UNSUPPORTED, "one of several netdevs, by a hash of the kernel's")
        return replace(found, unknown=missing)
    gateway = None if loopback or hop is None else hop.gateway
    addresses = _addresses(evidence, netdev)
    labels = routing.address_labels
    source = way.source or (
        destination
        if loopback
        else preferred_source(addresses, destination, gateway, labels, netdev)
    )
    if isinstance(source, Missing):
        return replace(found, unknown=source, netdev=netdev, loopback=loopback)
    below = netdev_facts(evidence, netdev)
    mtu = known(below.mtu) if below else None
    found = replace(
        found,
        netdev=netdev,
        source=source,
        loopback=loopback,
        vlan_id=known(below.vlan_id) if below else None,
        mtu=mtu,
    )
    if source is None:
        obstacle = Obstacle.NO_SOURCE if below else Obstacle.NO_DEVICE
        return _stopped(found, obstacle, Call.ADDR_ERROR, ENODEV)
    # An id that was bound has its device by its own netdev and address.
    place = owner(evidence, routing, source) if found.asked_source else netdev
    taken = finder.take(source, place or netdev)
    if isinstance(taken, Stop):
        call = Call.BIND_ADDR if found.asked_source else taken.call
        found = replace(found, stop=Stop(taken.obstacle, call, taken.errno, taken.name))
        if unread := unread_part(devices, evidence):
            found = replace(found, stop=None, unknown=unread)
    else:
        port = _port(devices, taken)
        is_roce = taken.protocol is Protocol.ROCE
        found = replace(
            found,
            taken=taken,
            path_mtu=roce_mtu(mtu) if is_roce and mtu is not None else None,
            roce_mode=roce_mode(port, routing) if is_roce else found.roce_mode,
        )
    return replace(
        found,
        next_hop=_next_hop(routing, found, gateway, towards),
        unbound_netdev=_unbound(routing, found, towards),
    )


def _port(devices: Sequence[DeviceView], taken: Taken) -> PortView:
    place = taken.device, taken.port
    return next(port for port in ports_in_order(devices) if (port.device, port.number) == place)


def _to_itself(found: PeerRoute, devices: Sequence[DeviceView]) -> PeerRoute:
    """cma_bind_loopback: the first port that is active, else the first there is.

    It asks for a partition key, which iWARP has none of; over RoCE the id has no netdev then,
    and rdma_resolve_route fails (cma_iboe_set_path_rec_l2_fields).
    """
    every = list(ports_in_order(devices))
    port = next((each for each in every if each.is_active), next(iter(every), None))
    found = replace(found, loopback=True, source=found.destination)
    if port is None:
        return _stopped(found, Obstacle.NO_DEVICE, Call.RESOLVE_ADDR, ENODEV)
    taken = taken_of(
        port, next(iter(port.entries), None) if port.protocol is not Protocol.IWARP else None
    )
    if port.protocol is Protocol.ROCE:
        found = _stopped(found, Obstacle.LOOPBACK_ADDRESS, Call.RESOLVE_ROUTE, ENODEV)
    if port.protocol is Protocol.IWARP:
        found = _stopped(found, Obstacle.LOOPBACK_ADDRESS, Call.RESOLVE_ADDR, _EINVAL)
    return replace(found, taken=taken, witness=Witness.TABLES)


def _way(
    routing: RoutingFacts, flow: Flow, ours: Way | NoWay | Missing, towards: TowardsFacts | Missing
) -> tuple[Way | NoWay | Missing, Witness, str | None]:
    """The kernel's answer where it was queried, and the netdev of the tables where that differs."""
    link = _link(routing, flow.netdev)
    asked = Asked(flow.destination, flow.source, link.ifindex if link else None)
    theirs = _answered(towards, asked)
    if theirs is None or (not isinstance(ours, Missing) and _asks_for_protocol(routing)):
        return ours, Witness.TABLES, None
    if _hashed_otherwise(ours, towards):
        return ours, Witness.TABLES, None
    if isinstance(theirs, Way) and isinstance(ours, Way):
        theirs = Way(
            theirs.kind,
            theirs.hops,
            theirs.source,
            theirs.prefix,
            theirs.table,
            ours.rule if ours.table == theirs.table else None,
            ours.assumed_on_link,
            theirs.is_redirected,
        )
        names = {each.netdev for each in ours.hops}
        local = RouteKind.LOCAL in (ours.kind, theirs.kind)
        differ = not local and not names & {each.netdev for each in theirs.hops}
        return theirs, Witness.KERNEL, min(names) if differ else None
    if theirs is NoWay.NO_ROUTE and ours is NoWay.UNREACHABLE:
        return ours, Witness.KERNEL, None  # EHOSTUNREACH and ENETUNREACH are one reason
    return theirs, Witness.KERNEL, None


def _asks_for_protocol(routing: RoutingFacts) -> bool:
    """Whether rules look at the protocol: RTM_GETROUTE asks for UDP's way, rdma_cm for none's."""
    rules = () if isinstance(routing.rules, Missing) else routing.rules
    return any("protocol" in each.other for each in rules)


def _hashed_otherwise(ours: Way | NoWay | Missing, towards: TowardsFacts | Missing) -> bool:
    """Whether the kernel's answer is for a flow that may have another of several hops.

    IPv4: fib_multipath_hash takes the protocol in for every policy but 0, and RTM_GETROUTE has
    that of UDP. IPv6: every lookup takes the next one in turn where no neighbour entry is there
    (rt6_check_neigh without CONFIG_IPV6_ROUTER_PREF), or one that failed.
    """
    if not isinstance(ours, Way) or isinstance(towards, Missing):
        return False
    if len({each.netdev for each in ours.hops}) < 2:
        return False
    if ":" not in ours.prefix:
        return towards.ipv4_hash_policy != 0
    valid = {
        (each.netdev, each.address)
        for each in known(towards.neighbours) or ()
        if not isinstance(each.state, Missing) and each.state.is_valid
    }
    return any(each.gateway and (each.netdev, each.gateway) not in valid for each in ours.hops)


def _answered(towards: TowardsFacts | Missing, asked: Asked) -> Way | NoWay | Missing | None:
    """None where the kernel was not queried, or did not say."""
    if isinstance(towards, Missing):
        return None
    route = next((each.route for each in towards.answers if each.asked == asked), None)
    if route is None:
        return None
    if isinstance(route, Missing):
        return _NO_WAYS.get(route.why)
    if isinstance(route.kind, Missing):
        return route.kind
    return _way_of(route, asked)


_NO_WAYS: Final = {
    Why.ABSENT: NoWay.NO_ROUTE,
    Why.DENIED: NoWay.PROHIBIT,
    Why.UNSUPPORTED: NoWay.BLACKHOLE,
}
"""ENETUNREACH and EHOSTUNREACH, EACCES, EINVAL."""


def _way_of(route: Route, asked: Asked) -> Way | NoWay:
    refused = {
        RouteKind.UNREACHABLE: NoWay.UNREACHABLE,
        RouteKind.PROHIBIT: NoWay.PROHIBIT,
        RouteKind.BLACKHOLE: NoWay.BLACKHOLE,
    }
    assert not isinstance(route.kind, Missing)
    if route.kind in refused:
        return refused[route.kind]
    source = asked.source or route.source
    redirected = route.is_redirected
    return Way(
        route.kind, route.hops, source, route.destination, route.table, None, False, redirected
    )


def _next_hop(
    routing: RoutingFacts, found: PeerRoute, gateway: str | None, towards: TowardsFacts | Missing
) -> NextHop | None:
    """None for this host itself, and for a netdev that asks for no MAC."""
    link = _link(routing, found.netdev)
    if found.loopback or link is None or link.no_arp:
        return None
    address = gateway or found.destination
    entry: Neighbour | Missing
    if isinstance(towards, Missing):
        entry = towards
    elif isinstance(towards.neighbours, Missing):
        entry = towards.neighbours
    else:
        entry = next(
            (
                each
                for each in towards.neighbours
                if each.netdev == found.netdev and each.address == address
            ),
            Missing(Why.ABSENT, "not in the neighbour table"),
        )
    return NextHop(address, gateway is not None, entry)


def _unbound(
    routing: RoutingFacts, found: PeerRoute, towards: TowardsFacts | Missing
) -> str | NoWay | None:
    if found.source is None or found.loopback:
        return None
    flow = Flow(found.destination, found.source)
    ours = lookup(routing, flow)
    answered = _answered(towards, Asked(found.destination, found.source))
    way = ours if answered is None or _hashed_otherwise(ours, towards) else answered
    if isinstance(way, Missing):
        return None
    if isinstance(way, NoWay):
        return way
    if way.kind is RouteKind.LOCAL:
        return None  # the other end of a cable of this host: nothing of it leaves unbound
    names = {each.netdev for each in way.hops}
    return found.netdev if found.netdev in names else min(names, default=None)


def _stopped(found: PeerRoute, obstacle: Obstacle, call: Call, errno: int) -> PeerRoute:
    return replace(found, stop=stop_at(obstacle, call, errno))
