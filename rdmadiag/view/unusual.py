"""What somebody set on a host's way out and in, and a kernel by itself does not have.

None of it is a fault by itself. Of two hosts that do not reach each other the one that alone has
such a setting is the odd one.
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, NetDev, NetDevFacts, known
from rdmadiag.facts.routing import NeighbourState, Route, RouteKind, RoutingFacts
from rdmadiag.facts.routing import Rule as PolicyRule
from rdmadiag.frozen import dataclass
from rdmadiag.view.ends import HostEnd, own_addresses
from rdmadiag.view.routing import length_of

_TTL: Final = 64  # IPDEFTTL, and hop_limit of a netdev
_ARP_SETTINGS: Final = ("arp_ignore", "arp_filter")
_STRICT: Final = 1  # rp_filter
_TTL_SETTING, _FILTER, _HOPS = "default_ttl", "rp_filter", "hop_limit"
_RULES, _ROUTES, _NEIGHBOURS = "rules", "routes", "neighbours"
_QDISCS, _FILTERS, _PACKETS = "qdiscs", "filters", "packet filter"
_OWN_RULES: Final = frozenset({0, 1000, 32766, 32767})
"""Priorities of rules that the kernel makes: local, l3mdev, main, default."""
_OWN_QDISCS: Final = frozenset(
    {
        *("noqueue", "pfifo_fast", "fq_codel", "fq", "mq", "mqprio", "pfifo", "clsact", "ingress"),
        *("cake", "sfq"),
    }
)
"""Kinds that kernels and distributions set by themselves, or that only hold filters."""
_REFUSES: Final = (RouteKind.BLACKHOLE, RouteKind.UNREACHABLE, RouteKind.PROHIBIT, RouteKind.THROW)
_KERNEL_METRIC: Final = 0xFFFFFFFF  # of the route that IPv6 has where it knows none


@dataclass(frozen=True, slots=True)
class Unusual:
    """One such setting."""

    object: str  # "filter of traffic control on eth0, out"
    value: str  # "u32"
    kind: str  # what has to be read for it: "filters"


def unusual(end: HostEnd) -> tuple[Unusual, ...]:
    """All that its report shows of the netdevs that its RDMA devices use; what was not read shows
    nothing.
    """
    facts, routing = known(end.evidence.netdev), known(end.evidence.routing)
    netdevs = {each.netdev.name: each.netdev for each in own_addresses(end.evidence, end.devices)}
    found: list[Unusual] = []
    if facts is not None:
        found += _of_sysctls(facts, netdevs)
    if routing is not None:
        found += _of_tables(routing, netdevs)
        found += _of_packets(routing, netdevs)
    return tuple(dict.fromkeys(found))


def odd_one(here: HostEnd, there: HostEnd) -> tuple[HostEnd, tuple[Unusual, ...]] | None:
    """The host that alone has such settings, and which; None where neither or both have.

    Of what was not read of the other host none counts: it may have the same.
    """
    ours, theirs = unusual(here), unusual(there)
    alone = [
        (end, tuple(each for each in own if each not in others and each.kind in _read(other)))
        for end, own, others, other in ((here, ours, theirs, there), (there, theirs, ours, here))
    ]
    having = [each for each in alone if each[1]]
    return having[0] if len(having) == 1 else None


def _read(end: HostEnd) -> frozenset[str]:
    """The kinds that its report has."""
    facts, routing = known(end.evidence.netdev), known(end.evidence.routing)
    found = dict[str, object]()
    if facts is not None:
        found = {name: getattr(facts, name) for name in (_TTL_SETTING, *_ARP_SETTINGS, _FILTER)}
        found |= {
            _of_netdev(name): next(
                (
                    value
                    for each in facts.netdevs
                    if isinstance(value := getattr(each, name), Missing)
                ),
                None,
            )
            for name in (*_ARP_SETTINGS, _HOPS)
        }
    if routing is not None:
        control = routing.traffic_control
        found |= {
            _RULES: routing.rules,
            _ROUTES: routing.routes,
            _NEIGHBOURS: routing.neighbours,
            _QDISCS: control,
            _FILTERS: control if isinstance(control, Missing) else control.filters,
            _PACKETS: routing.packet_filter,
        }
    return frozenset(kind for kind, value in found.items() if not isinstance(value, Missing))


def _of_netdev(setting: str) -> str:
    return f"{setting} of netdevs"


def _of_sysctls(facts: NetDevFacts, netdevs: dict[str, NetDev]) -> Iterator[Unusual]:
    ttl = known(facts.default_ttl)
    if ttl is not None and ttl != _TTL:
        yield Unusual("net.ipv4.ip_default_ttl", str(ttl), _TTL_SETTING)
    for name in _ARP_SETTINGS:
        if value := known(getattr(facts, name)):
            yield Unusual(f"net.ipv4.conf.all.{name}", str(value), name)
    if known(facts.rp_filter) == _STRICT:
        yield Unusual("net.ipv4.conf.all.rp_filter", str(_STRICT), _FILTER)
    for name, netdev in netdevs.items():
        for setting in _ARP_SETTINGS:
            if value := known(getattr(netdev, setting)):
                yield Unusual(f"{setting} of {name}", str(value), _of_netdev(setting))
        limit = known(netdev.hop_limit)
        if limit is not None and limit != _TTL:
            yield Unusual(f"hop_limit of {name}", str(limit), _of_netdev(_HOPS))


def _of_tables(routing: RoutingFacts, netdevs: dict[str, NetDev]) -> Iterator[Unusual]:
    for rule in known(routing.rules) or ():
        if rule.priority not in _OWN_RULES:
            yield Unusual(f"rule of priority {rule.priority}", _selects(rule), _RULES)
    for route in known(routing.routes) or ():
        if refuses(route):
            yield Unusual(f"route {route.destination}", str(route.kind), _ROUTES)
    for each in known(routing.neighbours) or ():
        if each.state is NeighbourState.PERMANENT and each.netdev in netdevs:
            where = f"permanent neighbour {each.address} on {each.netdev}"
            yield Unusual(where, each.mac or "", _NEIGHBOURS)


def refuses(route: Route) -> bool:
    """Whether it was made to lead nowhere."""
    own = route.metric == _KERNEL_METRIC and length_of(route.destination) == 0
    return route.kind in _REFUSES and not own


def _selects(rule: PolicyRule) -> str:
    source, target = rule.source or "all", rule.destination or "all"
    return f"IPv{rule.version} from {source} to {target}, {rule.action}, table {rule.table}"


def _of_packets(routing: RoutingFacts, netdevs: dict[str, NetDev]) -> Iterator[Unusual]:
    control = known(routing.traffic_control)
    if control is not None:
        for qdisc in control.qdiscs:
            if qdisc.netdev in netdevs and qdisc.kind not in _OWN_QDISCS:
                yield Unusual(f"queueing discipline of {qdisc.netdev}", qdisc.kind, _QDISCS)
        for each in () if isinstance(control.filters, Missing) else control.filters:
            if each.netdev in netdevs:
                where = f"filter of traffic control on {each.netdev}, {each.direction}"
                yield Unusual(where, each.kind, _FILTERS)
    packets = known(routing.packet_filter)
    for chain in packets.chains if packets else ():
        if any(rule.drops or rule.limits for rule in chain.rules):
            name = f"{chain.family} {chain.table} {chain.name}"
            yield Unusual(f"packet filter {name}", "drops or limits", _PACKETS)
