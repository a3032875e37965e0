"""How each of two hosts learns the other's MAC address: ARP, and the tables of neighbours."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, known
from rdmadiag.facts.routing import UNANSWERED, Neighbour, NeighbourState
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.ends_values import values_of
from rdmadiag.preflight.rules.neighbours import MEND, SYSCTL, conf, unsought
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import Towards
from rdmadiag.view.routing import holds

_ARP: Final = "https://github.com/torvalds/linux/blob/v6.1/net/ipv4/arp.c"
_ETHERNET: Final = 1  # ARPHRD_ETHER
_NO_ANSWER: Final = 8  # arp_ignore
_OWN_SUBNET: Final = 2  # arp_ignore: a request from another subnet is not answered
_SETTLED: Final = (NeighbourState.PERMANENT, NeighbourState.NOARP)
_APART_SECONDS: Final = 60.0
"""Between two hosts' reports, at most, where the ages of their neighbour entries are compared."""


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
        fill=values_of(case) | {"netdev": entry.netdev},
    )


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
    (_ARP, SYSCTL),
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
        fill=values_of(case),
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
        fill=values_of(case),
    )


def _is_used(entry: Neighbour) -> bool:
    return not isinstance(entry.state, Missing) and entry.state.is_valid
