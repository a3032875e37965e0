"""What keeps two hosts apart, as far as the reports of both show it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, NetDev, known
from rdmadiag.facts.routing import UNANSWERED, Neighbour, NeighbourState
from rdmadiag.facts.traffic_control import IN, OUT
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules import hop_limits
from rdmadiag.preflight.rules.ends_programs import connection_not_taken, program_stopped
from rdmadiag.preflight.rules.neighbours import MEND, SYSCTL, conf, unsought
from rdmadiag.preflight.rules.packet_filter import refusal_fill, refusal_proof
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.rules.traffic import LOOK, dropping, filters_of, links_of
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.compat import Compat, NoTalk
from rdmadiag.view.ends import Named, Towards, own_addresses
from rdmadiag.view.packet_filter import refused
from rdmadiag.view.peer_picks import Talks
from rdmadiag.view.routing import holds
from rdmadiag.view.traffic import Dropped, described, dropped_by, of_device, verb_of

_ARP: Final = "https://github.com/torvalds/linux/blob/v6.1/net/ipv4/arp.c"
_SYSCTL: Final = "https://docs.kernel.org/networking/ip-sysctl.html"
_ETHERNET: Final = 1  # ARPHRD_ETHER
_STRICT: Final = 1  # rp_filter
_NO_ANSWER: Final = 8  # arp_ignore
_OWN_SUBNET: Final = 2  # arp_ignore: a request from another subnet is not answered
_ONE_HOP: Final = 1
_SETTLED: Final = (NeighbourState.PERMANENT, NeighbourState.NOARP)
_APART_SECONDS: Final = 60.0
"""Between two hosts' reports, at most, where the ages of their neighbour entries are compared."""
_LAYERS: Final = frozenset(
    ("bond", "bridge", "geneve", "ipvlan", "macsec", "macvlan", "team", "vlan", "vxlan")
)
"""IFLA_INFO_KIND of netdevs that stand on others."""
_LEAST_MTU: Final = 1500  # of Ethernet, IEEE 802.3


def _fill(case: Towards) -> dict[str, object]:
    mine, theirs = case.mine, case.theirs
    return {"peer": theirs.address, "own": mine.address, "netdev": mine.netdev.name}


@rule(
    "ends-peer-address-here",
    Severity.CRITICAL,
    "Both hosts have one address",
    "The address of the peer's RDMA netdev is an address of this host too, on whichever of its "
    "netdevs, loopback included: what is sent to it here never leaves the host, and others reach "
    "the one or the other by chance.",
    ("https://www.rfc-editor.org/rfc/rfc5227",),
    remedy=(
        "ip -brief address show to {peer}   # and at the other host",
        "sudo ip address del {peer} dev {on}   # where it does not belong",
    ),
)
def peer_address_here(this: Rule, case: Towards) -> Iterator[Finding]:
    """By the host's own addresses and its table of local routes."""
    if case.owner is not None:
        yield this.finding(
            f"{case.near.name} has {case.theirs.address} too, on {case.owner}: it is the address "
            f"of {case.theirs.place} of {case.far.name}",
            evidence=[
                Proof(
                    "routing", f"{case.theirs.address} on {case.owner}", "an address of this host"
                ),
                Proof("netdev", f"{case.far.name}: {case.theirs.netdev.name}", case.theirs.address),
            ],
            fill=_fill(case) | {"on": case.owner},
        )


@rule(
    "ends-mac-twice",
    Severity.CRITICAL,
    "Both hosts have one MAC address",
    "The netdevs of both ends have the same MAC address: a switch learns it at one port, then at "
    "the other, and the frames of each go to whoever sent last. Virtual machines and namespaces "
    "that were copied have it.",
    ("https://www.rfc-editor.org/rfc/rfc7042",),
    remedy=("ip link show {netdev}   # at both hosts", "sudo ip link set dev {netdev} address MAC"),
)
def mac_twice(this: Rule, case: Towards) -> Iterator[Finding]:
    """Of Ethernet; 00:00:00:00:00:00 is none."""
    mac = case.mine.netdev.mac
    if isinstance(mac, Missing) or mac != case.theirs.netdev.mac or not mac.strip("0:"):
        return
    if len(mac) == len("00:00:00:00:00:00"):
        yield this.finding(
            f"{case.mine.netdev.name} of {case.near.name} and {case.theirs.netdev.name} of "
            f"{case.far.name} both have {mac}",
            device=case.mine.device,
            port=case.mine.port,
            evidence=[
                Proof("netdev", f"{name}: {own.netdev.name} IFLA_ADDRESS", mac)
                for name, own in ((case.near.name, case.mine), (case.far.name, case.theirs))
            ],
            fill=_fill(case),
        )


@rule(
    "ends-neighbour-wrong",
    Severity.CRITICAL,
    "The neighbour entry of the peer has another MAC address",
    "This host's neighbour table gives the peer's address a MAC address that no netdev of the peer "
    "has: frames go to another host, or to nobody. Critical for a permanent entry, which the "
    "kernel never asks anew; a warning for a learnt one: somebody else answers for the address, a "
    "proxy, or a host that has it too.",
    (_ARP,),
    remedy=(
        "ip neigh show {peer} dev {netdev}",
        "sudo ip neigh del {peer} dev {netdev}   # the kernel asks when it is needed",
    ),
)
def neighbour_wrong(this: Rule, case: Towards) -> Iterator[Finding]:
    """Of the peer as the next hop itself."""
    entry = case.neighbour
    if entry is None or entry.mac is None or not case.is_direct:
        return
    macs = _macs_of_far(case)
    if macs is None or entry.mac in macs or not _is_used(entry):
        return
    yield this.finding(
        f"{case.near.name} sends to {entry.mac} for {case.theirs.address}, and "
        f"{case.theirs.netdev.name} of {case.far.name} has {case.theirs.netdev.mac}",
        device=case.mine.device,
        port=case.mine.port,
        severity=None if entry.state in _SETTLED else Severity.WARN,
        evidence=[
            Proof(
                "routing",
                f"neighbour entry of {entry.address} on {entry.netdev}",
                f"{entry.mac} {seen(entry.state)}",
            ),
            Proof(
                "netdev",
                f"{case.far.name}: {case.theirs.netdev.name} IFLA_ADDRESS",
                str(case.theirs.netdev.mac),
            ),
        ],
        fill=_fill(case) | {"netdev": entry.netdev},
    )


def _is_used(entry: Neighbour) -> bool:
    return not isinstance(entry.state, Missing) and entry.state.is_valid


def _macs_of_far(case: Towards) -> frozenset[str] | None:
    """Of all its netdevs that are known; None where that of the peer's netdev is not."""
    facts, own = case.far.evidence.netdev, case.theirs.netdev.mac
    if isinstance(facts, Missing) or isinstance(own, Missing):
        return None
    return frozenset(str(each.mac) for each in facts.netdevs)


@rule(
    "ends-answers-no-arp",
    Severity.CRITICAL,
    "The netdev answers no ARP",
    "The netdev of the address has ARP switched off, or arp_ignore is 8: this host never sends its "
    "MAC address, and the peer finds no way to it but by a permanent neighbour entry. It does not "
    "send it to this peer where arp_ignore is 2 and the peer's address is of no subnet of the "
    "netdev, or where arp_filter is 1 and the way back to the peer leads by another netdev.",
    (_ARP, _SYSCTL),
    remedy={
        "where ARP is off": ("sudo ip link set dev {netdev} arp on",),
        "where arp_ignore is 8": (
            "sudo sysctl -w net.ipv4.conf.all.arp_ignore=0",
            "sudo sysctl -w net.ipv4.conf.{netdev}.arp_ignore=0",
        ),
        "where arp_ignore is 2": (
            "ip -brief address show dev {netdev}   # at both hosts: do the prefix lengths agree?",
            "sudo sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.{netdev}.arp_ignore=1",
        ),
        "where arp_filter is 1": (
            "ip route get {peer}",
            "sudo sysctl -w net.ipv4.conf.all.arp_filter=0",
            "sudo sysctl -w net.ipv4.conf.{netdev}.arp_filter=0",
        ),
    },
)
def answers_no_arp(this: Rule, case: Towards) -> Iterator[Finding]:
    """IFF_NOARP of an Ethernet netdev; the larger of conf/all and the netdev's own."""
    link = case.link
    if ":" in case.mine.address or link is None or link.type != _ETHERNET:
        return
    name, found = case.mine.netdev.name, _no_answer(case)
    if link.no_arp:
        proof, when = Proof("routing", f"{name} IFF_NOARP", "set"), "where ARP is off"
    elif found is not None:
        sysctl, value = found
        proof = Proof("netdev", f"{name} {sysctl}", str(value))
        when = f"where {sysctl} is {value}"
    else:
        return
    yield this.finding(
        f"{case.near.name} answers no ARP for {case.mine.address} on {name}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[proof],
        when=when,
        fill=_fill(case),
    )


def _no_answer(case: Towards) -> tuple[str, int] | None:
    """The sysctl by which a request of the peer is not answered (arp_ignore, arp_filter of
    net/ipv4/arp.c), and its value.
    """
    facts, netdev = known(case.near.evidence.netdev), case.mine.netdev
    own = (known(netdev.arp_ignore), known(facts.arp_ignore) if facts else None)
    ignore = max(filter(None, own), default=0)
    if ignore == _NO_ANSWER:
        return "arp_ignore", ignore
    if not case.theirs.holds(case.mine.address):
        return None  # the peer asks a gateway, and not this host
    if ignore == _OWN_SUBNET and not _has_subnet_of(case):
        return "arp_ignore", ignore
    filtered = (known(netdev.arp_filter), known(facts.arp_filter) if facts else None)
    way = case.route.netdev
    return ("arp_filter", 1) if any(filtered) and way not in (None, netdev.name) else None


def _has_subnet_of(case: Towards) -> bool:
    """Whether an address of the netdev shares its subnet with the peer's (inet_confirm_addr)."""
    own = [each for each in case.mine.netdev.addresses if ":" not in each.address]
    return any(holds(f"{each.address}/{each.prefix_length}", case.theirs.address) for each in own)


@rule(
    "ends-reverse-path",
    Severity.CRITICAL,
    "rp_filter drops what the peer sends",
    "rp_filter is 1 (strict) for the netdev of the address, and the way back to the peer leads by "
    "another netdev: the IP stack drops each packet of the peer that arrives here, ARP requests, "
    "TCP, and RoCE of a software device. A warning for a hardware device, whose RoCE does not pass "
    "the IP stack.",
    (_SYSCTL, "https://www.rfc-editor.org/rfc/rfc3704"),
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
        fill=_fill(case),
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
        fill=_fill(case) | {"gateway": hop.address},
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
    """By the sysctl that a packet to this peer begins with."""
    hop, facts = case.route.next_hop, known(case.near.evidence.netdev)
    if hop is None or not hop.is_gateway or facts is None or case.route.netdev is None:
        return
    version = 6 if ":" in case.mine.address else 4
    limit = hop_limits.limit_of(facts, case.route.netdev, version)
    if limit is None or limit[1] != _ONE_HOP:
        return
    sysctl, value = limit
    yield this.finding(
        f"{case.near.name} sends by the gateway {hop.address} to {case.theirs.address}, and "
        f"{sysctl} is {value}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof("netdev", sysctl, str(value)),
            Proof("routing", f"{case.theirs.address} via {hop.address}", case.route.netdev),
        ],
        fill={"sysctl": sysctl},
    )


@rule(
    "ends-mtu-differs",
    Severity.WARN,
    "The two netdevs have different MTUs",
    "Both addresses are in one subnet, and their netdevs have different MTUs. What the one with "
    "the larger sends at full size the other, or a switch on the way, drops without a word, and "
    "queue pairs of the larger path MTU fail at RTR or in the middle.",
    ("https://github.com/ROCm/rocSHMEM/pull/214",),
    remedy=(
        "sudo ip link set dev {netdev} mtu {mtu}   # or the larger one at the peer, and the switch",
    ),
)
def mtu_differs(this: Rule, case: Towards) -> Iterator[Finding]:
    """At the end of the larger one, whose frames get lost; at the other one's below 1500."""
    here, there = case.mine.netdev, case.theirs.netdev
    if isinstance(here.mtu, Missing) or isinstance(there.mtu, Missing) or here.mtu <= there.mtu:
        return
    if case.mine.holds(case.theirs.address):
        yield this.finding(
            f"{here.name} of {case.near.name} has MTU {here.mtu}, {there.name} of "
            f"{case.far.name} {there.mtu}",
            device=case.mine.device,
            port=case.mine.port,
            evidence=[
                Proof("netdev", f"{case.near.name}: {here.name} IFLA_MTU", str(here.mtu)),
                Proof("netdev", f"{case.far.name}: {there.name} IFLA_MTU", str(there.mtu)),
            ],
            fill=_fill(case) | {"mtu": there.mtu},
        )


@rule(
    "ends-subnets-differ",
    Severity.CRITICAL,
    "Two subnets, and no route between them",
    "The two addresses are in different subnets, and neither host has a route to the other's: one "
    "of them was given a wrong address or prefix length, or a router or its route is missing.",
    (),
    remedy=(
        "ip -brief address show dev {netdev}   # at both hosts",
        "sudo ip route add {peer} via GATEWAY dev {netdev}   # where a router joins the two",
    ),
)
def subnets_differ(this: Rule, case: Towards) -> Iterator[Finding]:
    """Looked at where neither end has a way."""
    mine, theirs = case.mine, case.theirs
    yield this.finding(
        f"{case.near.name} has {mine.address}/{mine.prefix_length}, {case.far.name} "
        f"{theirs.address}/{theirs.prefix_length}, and neither has a route to the other",
        device=mine.device,
        port=mine.port,
        evidence=[
            Proof("netdev", f"{name}: {own.netdev.name}", f"{own.address}/{own.prefix_length}")
            for name, own in ((case.near.name, mine), (case.far.name, theirs))
        ],
        fill=_fill(case),
    )


@dataclass(frozen=True, slots=True)
class PortsCase:
    """The ports of both hosts beside each other."""

    here: str  # the hosts' names
    there: str
    found: Compat


@rule(
    "ends-protocols-differ",
    Severity.CRITICAL,
    "The two hosts' ports have different protocols",
    "No active port of one host has the protocol of one of the other: RoCE, iWARP, InfiniBand. "
    "None of them understands another.",
    (),
    remedy=("rdmadiag devices   # at both hosts: which of them were meant?",),
)
def protocols_differ(this: Rule, case: PortsCase) -> Iterator[Finding]:
    """Where both have active ports, and no two of one protocol."""
    if case.found.talks is Talks.NO and case.found.reason is NoTalk.PROTOCOLS:
        yield this.finding(
            f"{case.here} and {case.there}: {case.found.why}",
            evidence=[Proof("sysfs", "protocols of active ports", case.found.why)],
        )


@rule(
    "ends-no-common-gid",
    Severity.CRITICAL,
    "No GID of one host reaches one of the other",
    "Each two rows of the GID tables of the two ports differ in what cannot be bridged: RoCE v1 "
    "against v2, IPv4 against IPv6, link-local against global, different VLANs.",
    (),
    remedy=("rdmadiag gids   # at both hosts", "ip -brief address   # at both hosts"),
)
def no_common_gid(this: Rule, case: PortsCase) -> Iterator[Finding]:
    """As `compat` holds the tables against each other."""
    yield from _by_reason(this, case, NoTalk.GIDS, "GID tables")


@rule(
    "ends-no-common-partition",
    Severity.CRITICAL,
    "No partition has both ports",
    "Two InfiniBand ports exchange packets in a partition that both are in, one of them as a full "
    "member (bit 15 of the P_Key). These two have none.",
    ("https://docs.nvidia.com/networking/display/ufmenterpriseumv6191/partitions",),
    remedy=(
        "grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000   # at both hosts",
        "# at the subnet manager: add both ports to one partition, one as full",
    ),
)
def no_common_partition(this: Rule, case: PortsCase) -> Iterator[Finding]:
    """By the partition tables of both."""
    yield from _by_reason(this, case, NoTalk.PARTITIONS, "P_Key tables")


def _by_reason(this: Rule, case: PortsCase, reason: NoTalk, what: str) -> Iterator[Finding]:
    if case.found.talks is not Talks.NO:
        return
    for pair in case.found.ports:
        if pair.reason is reason:
            here, there = (f"{each.device}/{each.port}" for each in (pair.here, pair.there))
            yield this.finding(
                f"{here} of {case.here} and {there} of {case.there}: {pair.why}",
                device=pair.here.device,
                port=pair.here.port,
                evidence=[Proof("sysfs", f"{what} of {here} and {there}", pair.why)],
            )


@rule(
    "ends-not-heard",
    Severity.WARN,
    "One host hears the other, and is not heard",
    "This host has learnt the peer's MAC address while the peer was looking for this host's, and "
    "the peer's neighbour entry says that nothing answered: what the peer sends arrives here, and "
    "what this host sends does not arrive there. It does not answer (ARP switched off, a filter, "
    "an answer by another netdev), or the way back is cut.",
    (_ARP,),
    remedy=(
        "sudo tcpdump -eni {netdev} arp   # does this host answer, and by which netdev?",
        "sudo nft list ruleset; sudo arptables -S; sudo ebtables -L",
        "ip route get {peer} from {own}",
    ),
)
def not_heard(this: Rule, case: Towards) -> Iterator[Finding]:
    """By both neighbour tables, and the ages of their entries."""
    mine, theirs = case.neighbour, case.heard
    if mine is None or theirs is None or not case.is_direct or not _is_used(mine):
        return
    if mine.state in _SETTLED or theirs.state not in UNANSWERED:
        return
    if mine.updated_s is None or theirs.updated_s is None:
        return
    if mine.updated_s > theirs.updated_s + _APART_SECONDS:
        return
    yield this.finding(
        f"{case.near.name} has heard {case.theirs.address}, and {case.far.name} gets no answer of "
        f"{case.mine.address}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof(
                "routing",
                f"{name}: neighbour entry of {entry.address} on {entry.netdev}",
                f"{seen(entry.state)}, {entry.updated_s:.0f} s ago",
            )
            for name, entry in ((case.near.name, mine), (case.far.name, theirs))
        ],
        fill=_fill(case),
    )


@rule(
    "ends-asks-no-neighbour",
    Severity.CRITICAL,
    "This host does not look for the peer's MAC address",
    "mcast_solicit and app_solicit of the netdev are 0, and this host has no entry of the peer, or "
    "of the gateway to it, that would do: it sends no ARP request, or neighbour solicitation of "
    "IPv6, and so nothing to the peer. The peer may reach this host, and gets no answer.",
    (SYSCTL,),
    remedy=MEND,
)
def asks_no_neighbour(this: Rule, case: Towards) -> Iterator[Finding]:
    """By the netdev's row of the neighbour tables, and the entry of the next hop."""
    routing, name = known(case.near.evidence.routing), case.mine.netdev.name
    row = routing.solicits(name, 6 if ":" in case.mine.address else 4) if routing else None
    if row is None or not row.finds_none or case.route.loopback:
        return
    entry = case.neighbour
    # One that is stale is asked once more, by unicast alone, when it is used.
    will_do = row.unicast or (entry and entry.state in (*_SETTLED, NeighbourState.REACHABLE))
    if entry is not None and _is_used(entry) and will_do:
        return
    yield this.finding(
        f"{case.near.name} looks for no neighbour on {name}, and has no way to "
        f"{case.theirs.address}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[unsought(row, name)],
        fill={"conf": conf(row, name)},
    )


@rule(
    "ends-layers-differ",
    Severity.WARN,
    "The two addresses are on netdevs of different kinds, and one is not reached",
    "The address of one host is on a VLAN, a bond, a bridge or the like, the other's is not, or is "
    "in another VLAN, and the neighbour table says that the peer does not answer. Frames of a VLAN "
    "reach one without only where a switch port takes the tag off; a bond sends by the leg that "
    "its own monitor calls up.",
    (),
    remedy=(
        "ip -d link show {netdev}   # at both hosts: VLAN, bond and its active leg, bridge",
        "# the switch's ports: which VLAN is tagged there, and which is not?",
    ),
)
def layers_differ(this: Rule, case: Towards) -> Iterator[Finding]:
    """Where either end's look for the other has failed."""
    mine, theirs = _layer(case.mine.netdev), _layer(case.theirs.netdev)
    if mine is None or mine == theirs:
        return
    entries = (case.neighbour, case.heard)
    if not any(each is not None and each.state in UNANSWERED for each in entries):
        return
    here, there = case.mine.netdev, case.theirs.netdev
    yield this.finding(
        f"{case.mine.address} of {case.near.name} is on {here.name} ({mine}), "
        f"{case.theirs.address} of {case.far.name} on {there.name} ({theirs or 'no layer'}), and "
        "the one does not answer the other",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof("netdev", f"{case.near.name}: {here.name} IFLA_INFO_KIND", mine),
            Proof("netdev", f"{case.far.name}: {there.name} IFLA_INFO_KIND", theirs or "none"),
        ],
        fill=_fill(case),
    )


def stands_on_others(netdev: NetDev) -> bool:
    """Whether it is a VLAN, a bond, a bridge or the like."""
    return _layer(netdev) is not None


def is_below_ethernets(netdev: NetDev) -> bool:
    """Whether its MTU is below what every Ethernet link takes: then it is the odd one of two."""
    return not isinstance(netdev.mtu, Missing) and netdev.mtu < _LEAST_MTU


def _layer(netdev: NetDev) -> str | None:
    """ "vlan 100", "bond"; None of a netdev that stands on no other."""
    if isinstance(netdev.kind, Missing) or netdev.kind not in _LAYERS:
        return None
    vlan = netdev.vlan_id
    return f"{netdev.kind} {vlan}" if not isinstance(vlan, Missing) else netdev.kind


@rule(
    "ends-named-address-unusable",
    Severity.CRITICAL,
    "The address that was used does not work at its host",
    "A program was given this address, and the netdev that has it is down, has no carrier, or the "
    "address is tentative or a duplicate (duplicate address detection): nothing is received at it.",
    ("https://www.rfc-editor.org/rfc/rfc4862#section-5.4",),
    remedy=(
        "ip address show dev {netdev}   # DOWN, NO-CARRIER, tentative, dadfailed?",
        "sudo ip link set dev {netdev} up",
    ),
)
def named_address_unusable(this: Rule, case: Named) -> Iterator[Finding]:
    """By the netdev's flags, and the address's."""
    found = _unusable(case)
    if found is not None:
        said, proof = found
        yield this.finding(
            f"{case.address} of {case.near.name} is on {case.netdev}, which {said}"
            if proof.source == "routing"
            else f"{case.address} of {case.near.name}, on {case.netdev}, {said}",
            evidence=[proof],
            fill={"netdev": case.netdev},
        )


def _unusable(case: Named) -> tuple[str, Proof] | None:
    link, flags = case.link, case.flags
    if link is not None and link.up is False:
        return "is down", Proof("routing", f"{case.netdev} IFF_UP", "not set")
    if link is not None and link.carrier is False:
        return "has no carrier", Proof("routing", f"{case.netdev} IFF_LOWER_UP", "not set")
    if flags is not None and flags.duplicate is True:
        proof = Proof("netdev", f"{case.address} on {case.netdev}", "IFA_F_DADFAILED")
        return "is a duplicate of another host's", proof
    if flags is not None and flags.tentative is True:
        proof = Proof("netdev", f"{case.address} on {case.netdev}", "IFA_F_TENTATIVE")
        return "is tentative still", proof
    return None


RULES: Final[tuple[Rule, ...]] = (
    peer_address_here,
    mac_twice,
    answers_no_arp,
    neighbour_wrong,
    asks_no_neighbour,
    reverse_path,
    traffic_dropped,
    hops_few,
    gateway_on_link,
    connection_not_taken,
    program_stopped,
    not_heard,
    layers_differ,
    mtu_differs,
    subnets_differ,
    protocols_differ,
    no_common_gid,
    no_common_partition,
    named_address_unusable,
)
"""Lowest cause first."""

OF_EACH_WAY: Final = RULES[: RULES.index(subnets_differ)]
OF_PORTS: Final = RULES[RULES.index(protocols_differ) : RULES.index(named_address_unusable)]
