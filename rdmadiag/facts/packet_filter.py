"""What nftables does with the packets of this host's own sockets, by iptables' rules, too."""

from rdmadiag.facts import Missing
from rdmadiag.facts.traffic_control import TrafficFilter
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class FilterChain:
    """NFT_MSG_GETCHAIN: a chain that packets of the host pass, with what it does to them."""

    family: str  # "inet", "ip", "ip6", "netdev"
    table: str
    name: str
    direction: str  # IN: prerouting, input, ingress; OUT: output, postrouting, egress
    priority: int  # the lowest comes first; a packet passes each, whatever another accepts
    # In their order, those of chains that it jumps to in the place of the jump, its policy last.
    # The netdev is "" where a rule asks for none, and the priority is the rule's handle.
    rules: tuple[TrafficFilter, ...]


@dataclass(frozen=True, slots=True)
class PacketFilter:
    """All of this network namespace; none where nf_tables is not there."""

    chains: tuple[FilterChain, ...]
    # /proc/net/ip_tables_names, ip6_tables_names: "ip filter". iptables-legacy keeps its rules
    # there, beside nftables; they are not read.
    legacy: tuple[str, ...] | Missing = ()
