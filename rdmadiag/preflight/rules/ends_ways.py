"""What lies on the way from one host to the other: reverse path, filters, gateways, hop limits."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, known
from rdmadiag.facts.routing import Route
from rdmadiag.facts.traffic_control import IN, OUT
from rdmadiag.preflight.rules import hop_limits
from rdmadiag.preflight.rules.ends_values import values_of
from rdmadiag.preflight.rules.packet_filter import refusal_fill, refusal_proof
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.rules.traffic import LOOK, dropping, filters_of, links_of
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import Towards, own_addresses
from rdmadiag.view.packet_filter import refused
from rdmadiag.view.traffic import Dropped, described, dropped_by, of_device, verb_of

_STRICT: Final = 1  # rp_filter
_ONE_HOP: Final = 1


@rule(
    "ends-reverse-path",
    Severity.CRITICAL,
    "rp_filter drops what the peer sends",
    "rp_filter is 1 (strict) for the netdev of the address, and the way back to the peer leads by "
    "another netdev: the IP stack drops each packet of the peer that arrives here, ARP requests, "
    "TCP, and RoCE of a software device. A warning for a hardware device, whose RoCE does not pass "
    "the IP stack.",
    (hop_limits.SYSCTL, "https://www.rfc-editor.org/rfc/rfc3704"),
    remedy=(
        "ip route get {peer}",
        "sudo sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.{netdev}.rp_filter=2",
        "# or a route back by {netdev}",
    ),
)
def reverse_path(this: Rule, case: Towards) -> Iterator[Finding]:
    """fib_validate_source: IPv4 alone has rp_filter."""
    facts, netdev, route = case.near.evidence.netdev, case.mine.netdev, case.route
    if isinstance(facts, Missing) or route.loopback or ":" in case.mine.address:
        return
    values = [facts.rp_filter, netdev.rp_filter]
    known = [each for each in values if not isinstance(each, Missing)]
    if len(known) < len(values) or max(known) != _STRICT:
        return
    if route.netdev is None or route.netdev == netdev.name:
        return
    yield this.finding(
        f"{case.near.name} drops what comes from {case.theirs.address} by {netdev.name}: its way "
        f"back leads by {route.netdev}, and rp_filter is 1",
        device=case.mine.device,
        port=case.mine.port,
        severity=None if case.mine.is_software else Severity.WARN,
        evidence=[
            Proof("netdev", f"rp_filter of {netdev.name}", str(netdev.rp_filter)),
            Proof("netdev", "/proc/sys/net/ipv4/conf/all/rp_filter", str(facts.rp_filter)),
            Proof("routing", f"way to {case.theirs.address}", f"dev {route.netdev}"),
        ],
        fill=values_of(case),
    )


@rule(
    "ends-traffic-dropped",
    Severity.CRITICAL,
    "A filter drops what the two devices send each other",
    "A filter of traffic control at the netdev of one end drops RoCE v2 (UDP port 4791), or the "
    "TCP of iWARP, between these two addresses. Of a NIC's own RDMA only filters that the NIC "
    "executes (in_hw) count, and of a software device the rules of nftables, too.",
    ("https://man7.org/linux/man-pages/man8/tc-flower.8.html",),
    remedy={
        "traffic control": LOOK,
        "nftables": ("sudo nft -a list chain {family} {table} {chain}   # handle {handle}",),
    },
)
def traffic_dropped(this: Rule, case: Towards) -> Iterator[Finding]:
    """Where every condition of the filter fits the packets."""
    mine, routing = case.mine, case.near.evidence.routing
    if isinstance(routing, Missing) or isinstance(routing.traffic_control, Missing):
        return
    filters = filters_of(routing.traffic_control, mine.netdev.name)
    every = [each for each in filters if mine.is_software or each.in_hardware]
    chains = routing.packet_filter
    for direction in (IN, OUT):
        packet = replace(
            of_device(mine.protocol, direction), own=mine.address, peer=case.theirs.address
        )
        if mine.is_software and not isinstance(chains, Missing):
            refusal = refused(chains, mine.netdev.name, packet)
            if refusal is not None and refusal.how is Dropped.SURELY:
                yield this.finding(
                    f"{case.near.name} drops what {mine.place} "
                    f"{'sends to' if direction == OUT else 'gets from'} {case.theirs.address}: "
                    f"nftables, {refusal.place}: {described(refusal.rule)}",
                    device=mine.device,
                    port=mine.port,
                    evidence=[refusal_proof(refusal)],
                    fill=refusal_fill(refusal),
                    when="nftables",
                )
                continue
        links = links_of(case.near.evidence) if mine.is_software else ()
        found, how = dropped_by(every, packet, links)
        if found is not None and how is Dropped.SURELY:
            way = "sends to" if direction == OUT else "gets from"
            what = f"what {mine.place} {way} {case.theirs.address}"
            said = f"{case.near.name} {verb_of(found)} {what}"
            yield dropping(this, found, said, mine.device, mine.port, when="traffic control")


@rule(
    "ends-gateway-on-link",
    Severity.WARN,
    "A gateway to a peer that is on the link",
    "The peer's address is in the subnet of this host's RDMA netdev, and a narrower route sends "
    "packets for it to a gateway. Where that gateway is gone, or does not pass RoCE v2 on, nothing "
    "arrives; on the link itself there would be a way.",
    (),
    remedy=(
        "ip route get {peer}",
        "ip neigh show {gateway}   # FAILED: it is not there",
        "ping -c 1 {gateway}   # sends packets",
        "sudo ip route del {peer} via {gateway}   # the way on the link is left",
    ),
)
def gateway_on_link(this: Rule, case: Towards) -> Iterator[Finding]:
    """By the tables."""
    hop = case.route.next_hop
    if hop is None or not hop.is_gateway or case.route.netdev != case.mine.netdev.name:
        return
    own = own_addresses(case.far.evidence, case.far.devices)
    if not case.mine.holds(case.theirs.address) or any(hop.address == each.address for each in own):
        return
    yield this.finding(
        f"{case.near.name} sends packets for {case.theirs.address}, which is in the subnet of "
        f"{case.mine.netdev.name}, to the gateway {hop.address}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof("routing", f"{case.theirs.address} via {hop.address}", f"dev {case.route.netdev}")
        ],
        fill=values_of(case) | {"gateway": hop.address},
    )


@rule(
    "ends-hops-few",
    Severity.CRITICAL,
    "No router passes on what this host sends",
    "The way to the peer leads by a gateway, and packets of this host's kernel may take one hop "
    "(net.ipv4.ip_default_ttl, or hop_limit of the netdev's IPv6): the first router drops TCP and "
    "what rdma_cm connects, and says so to this host alone. The peer's packets arrive here, and "
    "get no answer. RoCE whose program sets a hop limit of its own (perftest) passes.",
    (hop_limits.SYSCTL,),
    remedy=hop_limits.MEND,
)
def hops_few(this: Rule, case: Towards) -> Iterator[Finding]:
    """By the route to this peer, or the sysctl that a packet begins with."""
    hop, facts, row = case.route.next_hop, known(case.near.evidence.netdev), _row(case)
    if hop is None or not hop.is_gateway or facts is None or case.route.netdev is None:
        return
    limit = hop_limits.limited(facts, case.route.netdev, row) if row else None
    if limit is None or limit.most != _ONE_HOP:
        return
    yield this.finding(
        f"{case.near.name} sends by the gateway {hop.address} to {case.theirs.address}, and "
        f"{limit.name} is {limit.most}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            limit.proof,
            Proof("routing", f"{case.theirs.address} via {hop.address}", case.route.netdev),
        ],
        when=limit.when,
        fill=limit.fill,
    )


def _row(case: Towards) -> Route | None:
    """The row of a table by which packets leave."""
    routing, way = known(case.near.evidence.routing), case.route
    rows = (known(routing.routes) if routing else None) or ()
    fitting = (
        each
        for each in rows
        if (each.destination, each.table) == (way.prefix, way.table)
        and any(hop.netdev == way.netdev for hop in each.hops)
    )
    return min(fitting, key=lambda each: each.metric, default=None)
