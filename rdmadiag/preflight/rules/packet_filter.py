"""nftables at the netdevs below ports: rules that drop RoCE, iWARP, and TCP."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import known
from rdmadiag.facts.packet_filter import PacketFilter
from rdmadiag.facts.traffic_control import IN, OUT, TCP
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.rules.traffic import netdevs
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.packet_filter import Refusal, refused
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.traffic import Dropped, Packet, described, of_device

_NFT: Final = "https://man7.org/linux/man-pages/man8/nft.8.html"
_REMEDY: Final = {
    "a rule": (
        "sudo nft -a list chain {family} {table} {chain}   # or iptables-save, firewall-cmd",
        "sudo nft delete rule {family} {table} {chain} handle {handle}",
    ),
    "the policy": (
        "sudo nft -a list chain {family} {table} {chain}   # or iptables-save, firewall-cmd",
        "# a rule there that accepts what comes from the subnet of the RDMA netdevs",
    ),
}


def _filter(case: Case) -> PacketFilter | None:
    routing = known(case.evidence.routing)
    return known(routing.packet_filter) if routing else None


def refusal_proof(found: Refusal) -> Proof:
    """The rule as a piece of evidence."""
    return Proof("routing", f"nftables: {found.place}", f"{described(found.rule)}: drop")


def refusal_fill(found: Refusal) -> dict[str, object]:
    """For the remedy of a rule about it."""
    return {
        "family": found.chain.family,
        "table": found.chain.table,
        "chain": found.chain.name,
        "handle": found.rule.priority,
    }


def refusal_when(found: Refusal) -> str:
    """Which remedy."""
    return "the policy" if found.is_policy else "a rule"


@rule(
    "firewall-drops-rdma",
    Severity.CRITICAL,
    "The host's firewall drops a software device's packets",
    "A rule of nftables, or the policy of a chain, drops UDP port 4791, which RoCE v2 is, or TCP, "
    "which iWARP is, of a software device (rxe, siw): its packets pass the chains of the host as "
    "those of any program do, but have no process as their owner. A NIC's own RDMA does not. A "
    "warning where the rule drops only some, of one peer, above a rate or by conditions that are "
    "not read; a note where a rule before it may let those of the peers through. Rules of "
    "iptables-legacy are not read.",
    (_NFT,),
    remedy=_REMEDY,
    needs=("ports", "software device", "packet filter"),
)
def firewall_drops_rdma(this: Rule, case: Case) -> Iterator[Finding]:
    """One of each netdev and direction."""
    filters = _filter(case)
    for port, netdev in netdevs(case) if filters else ():
        assert filters is not None
        for direction in (IN, OUT) if port.is_software else ():
            found = refused(filters, netdev, of_device(port.protocol, direction))
            if found is None:
                continue
            what = "iWARP's TCP" if port.protocol is Protocol.IWARP else "RoCE v2 (UDP 4791)"
            some = "" if found.how is Dropped.SURELY else "some of "
            of_rate = " above the rate of a rule before it" if found.above_rate else ""
            yield this.finding(
                f"nftables drops {some}{what} of {port.name}{of_rate}: {found.place}: "
                f"{described(found.rule)}",
                device=port.device,
                port=port.number,
                severity=_severity(found),
                evidence=[refusal_proof(found)],
                fill=refusal_fill(found),
                when=refusal_when(found),
            )


def _severity(found: Refusal) -> Severity | None:
    if found.how is Dropped.SURELY:
        return None
    return Severity.WARN if found.is_own_doubt or found.above_rate else Severity.INFO


@rule(
    "firewall-drops-tcp",
    Severity.WARN,
    "The host's firewall drops TCP at an RDMA netdev",
    "A rule of nftables, or the policy of a chain, drops every new TCP connection at the port's "
    "netdev: what programs exchange addresses and keys by before they use RDMA. A note where it "
    "drops those of some ports or peers alone, or a rule before it lets some through.",
    (_NFT,),
    remedy=_REMEDY,
    needs=("ports", "packet filter"),
)
def firewall_drops_tcp(this: Rule, case: Case) -> Iterator[Finding]:
    """Where the other rule does not say it of iWARP."""
    filters = _filter(case)
    for port, netdev in netdevs(case) if filters else ():
        assert filters is not None
        if port.is_software and port.protocol is Protocol.IWARP:
            continue
        for direction in (IN, OUT):
            found = refused(filters, netdev, Packet(direction, TCP, None))
            if found is not None:
                some = "" if found.how is Dropped.SURELY else "some "
                yield this.finding(
                    f"nftables drops {some}TCP at {netdev}: {found.place}: {described(found.rule)}",
                    device=port.device,
                    port=port.number,
                    severity=None if found.how is Dropped.SURELY else Severity.INFO,
                    evidence=[refusal_proof(found)],
                    fill=refusal_fill(found),
                    when=refusal_when(found),
                )


_DROPPING: Final = ("filter", "raw", "mangle", "security")


@rule(
    "legacy-firewall-unread",
    Severity.INFO,
    "Rules of iptables-legacy are not read",
    "Tables of iptables-legacy are in use beside nftables, and what their rules drop is not looked "
    "at: a list of them would be made by a socket that may load a module.",
    ("https://wiki.nftables.org/wiki-nftables/index.php/Legacy_xtables_tools",),
    remedy=("sudo iptables-legacy-save", "sudo ip6tables-legacy-save"),
    needs=("ports", "packet filter"),
)
def legacy_firewall_unread(this: Rule, case: Case) -> Iterator[Finding]:
    """Of tables that drop, on a host with a netdev below a port."""
    filters = _filter(case)
    tables = known(filters.legacy) if filters else None
    used = [each for each in tables or () if each.partition(" ")[2] in _DROPPING]
    if used and any(netdevs(case)):
        yield this.finding(
            f"iptables-legacy has tables, and their rules are not read: {', '.join(used)}",
            evidence=[Proof("routing", "/proc/net/ip_tables_names", ", ".join(used))],
        )


RULES: Final[tuple[Rule, ...]] = (
    firewall_drops_rdma,
    firewall_drops_tcp,
    legacy_firewall_unread,
)
"""Lowest cause first."""
