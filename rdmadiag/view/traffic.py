"""Which packets the filters of a netdev drop: RoCE v2's, iWARP's, TCP's.

Traffic control sees what the kernel sends and receives: all of a software device (rxe sends UDP
through the stack, siw TCP), and nothing of a NIC's own RDMA, but by a filter that the NIC executes.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from rdmadiag.facts.ib import ROCE_V2_PORT
from rdmadiag.facts.routing import Link
from rdmadiag.facts.traffic_control import ANY, ARP, IPV4, IPV6, OUT, TCP, UDP, TrafficFilter
from rdmadiag.frozen import dataclass
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.routing import holds, length_of


class Dropped(StrEnum):
    """Whether a filter drops a packet."""

    SURELY = "surely"
    PERHAPS = "perhaps"  # of some peers or ports, or by a condition that is not understood
    NO = "no"


@dataclass(frozen=True, slots=True)
class Packet:
    """What is known of it; None: it may be any."""

    direction: str
    protocol: int | None  # IPPROTO_*; None: it is of ARP
    port: int | None  # of the destination
    own: str | None = None  # this host's address
    peer: str | None = None
    is_of_kernel: bool = False  # no process has sent it

    @property
    def source(self) -> str | None:
        """The address that it is from."""
        return self.own if self.direction == OUT else self.peer

    @property
    def destination(self) -> str | None:
        """The address that it is to."""
        return self.peer if self.direction == OUT else self.own


def of_device(protocol: Protocol, direction: str) -> Packet:
    """What an RDMA device's own packets are."""
    if protocol is Protocol.IWARP:
        return Packet(direction, TCP, None, is_of_kernel=True)
    return Packet(direction, UDP, ROCE_V2_PORT, is_of_kernel=True)


def dropped_by(
    filters: Iterable[TrafficFilter], packet: Packet, links: Sequence[Link] = ()
) -> tuple[TrafficFilter | None, Dropped]:
    """The filter that drops it, of those of one netdev in the order in which they are tried.

    So does one that leads it to another netdev: of `links`, those of the host. Without them what
    becomes of it there is not judged.
    """
    sure = True
    for each in filters:
        if each.direction != packet.direction or not each.ends:
            continue
        match = _matches(each, packet)
        if match is Dropped.NO:
            continue
        if each.drops:
            return each, match if sure else Dropped.PERHAPS
        lost = _lost(each, links)
        if lost is not Dropped.NO:
            surely = sure and match is lost is Dropped.SURELY
            return each, Dropped.SURELY if surely else Dropped.PERHAPS
        if match is Dropped.SURELY:
            return None, Dropped.NO
        sure = False
    return None, Dropped.NO


def _lost(each: TrafficFilter, links: Sequence[Link]) -> Dropped:
    """What a filter that does not drop does otherwise to a packet that matches."""
    if each.leads_to is not None and links:
        kind = next((link.kind for link in links if link.name == each.leads_to), None)
        return {"dummy": Dropped.SURELY, "ifb": Dropped.NO}.get(kind or "", Dropped.PERHAPS)
    return Dropped.PERHAPS if each.limits or each.by_program else Dropped.NO


def _matches(each: TrafficFilter, packet: Packet) -> Dropped:
    """Whether each condition fits what is known of the packet."""
    found = [
        _ether(each, packet),
        _same(each.protocol, packet.protocol),
        _among(each, packet.port),
        Dropped.SURELY if each.source_port is None else Dropped.PERHAPS,
        _in(each.source, packet.source),
        _in(each.destination, packet.destination),
        Dropped.SURELY if each.understood and not each.up_to_rate else Dropped.PERHAPS,
    ]
    if each.of_owner:
        found.append(Dropped.NO if packet.is_of_kernel else Dropped.PERHAPS)
    if Dropped.NO in found:
        return Dropped.NO
    return Dropped.PERHAPS if Dropped.PERHAPS in found else Dropped.SURELY


def _ether(each: TrafficFilter, packet: Packet) -> Dropped:
    if each.ether_type == ANY:
        return Dropped.SURELY
    if packet.protocol is None:
        return Dropped.SURELY if each.ether_type == ARP else Dropped.NO
    if each.ether_type not in (IPV4, IPV6):
        return Dropped.NO
    if packet.peer is None:
        return Dropped.PERHAPS if each.ether_type == IPV6 else Dropped.SURELY
    wide = ":" in packet.peer
    return Dropped.SURELY if wide == (each.ether_type == IPV6) else Dropped.NO


def _same(wanted: int | None, given: int | None) -> Dropped:
    if wanted is None:
        return Dropped.SURELY
    if given is None:
        return Dropped.PERHAPS
    return Dropped.SURELY if wanted == given else Dropped.NO


def _among(each: TrafficFilter, port: int | None) -> Dropped:
    first, last = each.destination_port, each.destination_port_last
    if first is None or last is None:
        return _same(first, port)
    if port is None:
        return Dropped.PERHAPS
    return Dropped.SURELY if first <= port <= last else Dropped.NO


def _in(prefix: str | None, address: str | None) -> Dropped:
    if prefix is None or length_of(prefix) == 0:
        return Dropped.SURELY
    if address is None:
        return Dropped.PERHAPS
    return Dropped.SURELY if holds(prefix, address) else Dropped.NO


def action_of(each: TrafficFilter) -> str:
    """ "drop", "redirect to dummy0"."""
    if each.by_program:
        return "what its program says"
    if each.drops or not (each.leads_to or each.limits):
        return "drop"
    return f"redirect to {each.leads_to}" if each.leads_to else "drop what exceeds a rate"


def verb_of(each: TrafficFilter) -> str:
    """What it does to a packet, in a sentence."""
    if each.by_program:
        return "may drop"
    return "leads away" if each.leads_to and not each.drops else "drops"


def described(each: TrafficFilter) -> str:
    """ "flower in: protocol 17, port 4791"."""
    parts = []
    if each.protocol is not None:
        parts.append({TCP: "TCP", UDP: "UDP"}.get(each.protocol, f"protocol {each.protocol}"))
    if each.destination_port is not None:
        last = each.destination_port_last
        more = "" if last is None else f" to {last}"
        parts.append(f"port {each.destination_port}{more}")
    if each.source:
        parts.append(f"from {each.source}")
    if each.destination:
        parts.append(f"to {each.destination}")
    if each.of_owner:
        parts.append("of an owner")
    if each.up_to_rate:
        parts.append("by a rate")
    if not each.understood:
        parts.append("by more conditions")
    every = {IPV4: "all IPv4", IPV6: "all IPv6", ARP: "ARP"}
    what = ", ".join(parts) or every.get(each.ether_type, "all")
    return f"{each.kind}, {'outwards' if each.direction == OUT else 'inwards'}: {what}"
