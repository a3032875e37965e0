"""Which packets nftables drops: of a software device, and of any program's sockets.

A NIC's own RDMA passes no chain of the host. A packet passes every chain of a hook, whatever
another one has accepted.
"""

from collections.abc import Sequence

from rdmadiag.facts.packet_filter import FilterChain, PacketFilter
from rdmadiag.facts.traffic_control import TrafficFilter
from rdmadiag.frozen import dataclass
from rdmadiag.view.traffic import Dropped, Packet, dropped_by


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that drops a packet, or may."""

    chain: FilterChain
    rule: TrafficFilter
    how: Dropped  # not surely: of some peers or ports, or a rule before lets some through
    is_own_doubt: bool  # the rule's own conditions leave it open
    above_rate: TrafficFilter | None = None  # what lets so many a time through, before it

    @property
    def is_policy(self) -> bool:
        """What the chain does with what no rule of it has decided."""
        return self.rule.priority == 0

    @property
    def place(self) -> str:
        """ "ip filter INPUT, handle 4"."""
        chain = f"{self.chain.family} {self.chain.table} {self.chain.name}"
        return f"{chain}, policy" if self.is_policy else f"{chain}, handle {self.rule.priority}"


def refused(found: PacketFilter, netdev: str, packet: Packet) -> Refusal | None:
    """The first rule that surely drops a packet at this netdev, else the first that may."""
    perhaps = None
    for chain in found.chains:
        if chain.direction != packet.direction:
            continue
        rows = [each for each in chain.rules if each.netdev in ("", netdev)]
        rule, how = dropped_by(rows, packet)
        if rule is None:
            continue
        _, own = dropped_by([rule], packet)
        refusal = Refusal(chain, rule, how, own is Dropped.PERHAPS, _above_rate(rows, packet))
        if how is Dropped.SURELY:
            return refusal
        perhaps = perhaps or refusal
    return perhaps


def _above_rate(rows: Sequence[TrafficFilter], packet: Packet) -> TrafficFilter | None:
    """The rule that lets packets through up to a rate, where without it each was dropped."""
    up_to = [each for each in rows if each.up_to_rate and each.ends and not each.drops]
    if not up_to:
        return None
    _, how = dropped_by([each for each in rows if each not in up_to], packet)
    return up_to[0] if how is Dropped.SURELY else None
