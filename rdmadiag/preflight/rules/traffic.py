"""Traffic control of the netdevs below ports: filters that drop, netem."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.facts import Missing, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.routing import Link
from rdmadiag.facts.traffic_control import (
    ARP,
    IN,
    OUT,
    TCP,
    Netem,
    Qdisc,
    TrafficControl,
    TrafficFilter,
)
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.traffic import (
    Dropped,
    Packet,
    action_of,
    described,
    dropped_by,
    of_device,
    verb_of,
)

_TC: Final = "https://man7.org/linux/man-pages/man8/tc-flower.8.html"
LOOK: Final = (
    "tc -s filter show dev {netdev} {way}   # how many packets it has dropped",
    "sudo tc filter del dev {netdev} {way} prio {priority}",
)
_ETHERNET_HEADER: Final = 14  # bytes, which a qdisc counts
_SLOW: Final = 100_000_000 // 8  # bytes a second
_BLACKHOLE: Final = "blackhole"
_WAY: Final = {IN: "ingress", OUT: "egress"}


def _control(case: Case) -> TrafficControl | None:
    routing = known(case.evidence.routing)
    return known(routing.traffic_control) if routing else None


def netdevs(case: Case) -> Iterator[tuple[PortView, str]]:
    """Each port of RoCE or iWARP with a netdev of this namespace; each netdev once."""
    seen: set[str] = set()
    for _, port in case.ports:
        if port.protocol not in (Protocol.ROCE, Protocol.IWARP):
            continue
        names = set(port.netdevs_here)
        if not isinstance(port.netdev, Missing) and not port.netdevs:
            names.add(port.netdev)
        for name in sorted(names - seen):
            seen.add(name)
            yield port, name


def filters_of(control: TrafficControl, netdev: str) -> list[TrafficFilter]:
    """Those of a netdev, as far as they were read."""
    return [each for each in known(control.filters) or () if each.netdev == netdev]


def links_of(evidence: Evidence) -> Sequence[Link]:
    """The netdevs to which filters may lead packets."""
    routing = known(evidence.routing)
    return routing.links if routing else ()


def dropping(
    this: Rule,
    found: TrafficFilter,
    what: str,
    device: str,
    port: int,
    severity: Severity | None = None,
    when: str = "",
) -> Finding:
    """The finding about a filter; `what` it drops, and where."""
    way = _WAY[found.direction]
    where = f"filter of {found.netdev}, {way}, priority {found.priority}"
    return this.finding(
        f"{what}: {described(found)}",
        device=device,
        port=port,
        severity=severity,
        when=when,
        evidence=[Proof("routing", where, f"{described(found)}: {action_of(found)}")],
        fill={"netdev": found.netdev, "way": way, "priority": found.priority},
    )


@rule(
    "filter-drops-rdma",
    Severity.CRITICAL,
    "A filter drops the device's own packets",
    "A filter of traffic control at the port's netdev drops UDP port 4791, which RoCE v2 is, or "
    "TCP, which iWARP is. Packets of a software device (rxe, siw) all pass there; those of a NIC's "
    "own RDMA do where the NIC executes the filter (in_hw). A warning where only some are dropped, "
    "of one peer or one port, or what exceeds a rate (police), or the filter has conditions that "
    "are not read. A filter that redirects packets of a software device to another netdev "
    "(mirred) is one, too: for sure where that is a dummy, not where it is an ifb. What a program "
    "(bpf) decides by itself is not read: it may drop some.",
    (_TC,),
    remedy=LOOK,
    needs=("ports", "software device", "traffic control"),
)
def filter_drops_rdma(this: Rule, case: Case) -> Iterator[Finding]:
    """The first of each netdev and direction."""
    control = _control(case)
    for port, netdev in netdevs(case) if control else ():
        assert control is not None
        every = [e for e in filters_of(control, netdev) if port.is_software or e.in_hardware]
        links = links_of(case.evidence) if port.is_software else ()
        for direction in (IN, OUT):
            found, how = dropped_by(every, of_device(port.protocol, direction), links)
            if found is None:
                continue
            what = "iWARP's TCP" if port.protocol is Protocol.IWARP else "RoCE v2 (UDP 4791)"
            some = "" if how is Dropped.SURELY else "some of "
            said = f"a filter of {netdev} {verb_of(found)} {some}{what} of {port.name}"
            severity = None if how is Dropped.SURELY else Severity.WARN
            yield dropping(this, found, said, port.device, port.number, severity)


@rule(
    "filter-drops-tcp",
    Severity.WARN,
    "A filter drops TCP at an RDMA netdev",
    "A filter of traffic control at the port's netdev drops TCP, of some ports or peers or of all: "
    "what programs exchange addresses and keys by before they use RDMA. Where they meet over this "
    "netdev, and by one of these ports, they wait for each other.",
    (_TC,),
    remedy=LOOK,
    needs=("ports", "traffic control"),
)
def filter_drops_tcp(this: Rule, case: Case) -> Iterator[Finding]:
    """Where the other rule has not named the filter."""
    control = _control(case)
    for port, netdev in netdevs(case) if control else ():
        assert control is not None
        every, links = filters_of(control, netdev), links_of(case.evidence)
        for direction in (IN, OUT):
            if port.is_software:
                own, _ = dropped_by(every, of_device(port.protocol, direction), links)
                if own is not None:
                    continue
            found, _ = dropped_by(every, Packet(direction, TCP, None), links)
            if found is not None:
                said = f"a filter of {netdev} {verb_of(found)} TCP"
                yield dropping(this, found, said, port.device, port.number)


@rule(
    "filter-drops-arp",
    Severity.CRITICAL,
    "A filter drops ARP at an RDMA netdev",
    "A filter of traffic control at the port's netdev drops ARP, in or out: this host finds no "
    "peer's MAC address, or no peer finds its own. Without one there is no TCP, no rdma_cm and no "
    "address handle of RoCE, of a NIC's own RDMA neither; what is known already goes on for a "
    "while. A warning where it drops some, by conditions that are not read.",
    (_TC,),
    remedy=LOOK,
    needs=("ports", "traffic control"),
)
def filter_drops_arp(this: Rule, case: Case) -> Iterator[Finding]:
    """Of filters for ARP alone: one of all packets is the other rules'."""
    control = _control(case)
    for port, netdev in netdevs(case) if control else ():
        assert control is not None
        every, links = filters_of(control, netdev), links_of(case.evidence)
        for direction in (IN, OUT):
            found, how = dropped_by(every, Packet(direction, None, None), links)
            if found is not None and found.ether_type == ARP:
                severity = None if how is Dropped.SURELY else Severity.WARN
                said = f"a filter of {netdev} {verb_of(found)} ARP"
                yield dropping(this, found, said, port.device, port.number, severity)


@rule(
    "netem-at-port",
    Severity.WARN,
    "Loss or delay is put into what a software device sends",
    "netem, which makes a network bad for a test, is the qdisc of the netdev of a software device: "
    "it loses, damages, doubles, delays or slows down what the device sends. Critical where it "
    "loses or damages all, or has room for no packet. A NIC's own RDMA does not pass it.",
    ("https://man7.org/linux/man-pages/man8/tc-netem.8.html",),
    remedy=("tc -s qdisc show dev {netdev}", "sudo tc qdisc del dev {netdev} root"),
    needs=("ports", "software device", "traffic control"),
)
def netem_at_port(this: Rule, case: Case) -> Iterator[Finding]:
    """By TCA_NETEM_*."""
    control = _control(case)
    for port, netdev in netdevs(case) if control else ():
        assert control is not None
        for each in control.qdiscs:
            if each.netdev != netdev or each.netem is None or not port.is_software:
                continue
            said = _said(each.netem)
            if said:
                nothing_fits = each.netem.most_packets == 0
                all_of_it = each.is_root and (
                    nothing_fits or 1.0 in (each.netem.loss, each.netem.corrupt)
                )
                yield this.finding(
                    f"netem of {netdev}: {said} of what {port.name} sends",
                    device=port.device,
                    port=port.number,
                    severity=Severity.CRITICAL if all_of_it else None,
                    evidence=[Proof("routing", f"qdisc of {netdev}", f"netem {said}")],
                    fill={"netdev": netdev},
                )


def _said(netem: Netem) -> str:
    parts = [
        f"{name} {share * 100:g} %"
        for name, share in (
            ("loss", netem.loss),
            ("damage", netem.corrupt),
            ("doubles", netem.duplicate),
        )
        if share > 0
    ]
    if netem.delay_ms > 0:
        parts.append(f"delay {netem.delay_ms:g} ms")
    if netem.bytes_per_second is not None and netem.bytes_per_second < _SLOW:
        parts.append(f"all but {netem.bytes_per_second * 8 / 1e6:g} Mbit/s")
    if netem.most_packets == 0:
        parts.append("a queue of no packet")
    return ", ".join(parts)


@rule(
    "shaper-at-port",
    Severity.WARN,
    "A rate limits what a software device sends",
    "The qdisc of the netdev of a software device lets less than 100 Mbit/s out, a token bucket "
    "(tbf), cake, fq of each flow, or the default class of htb; or its bucket is smaller than a "
    "full frame. RoCE does not "
    "slow down for a full queue: what exceeds it is dropped and sent again until the queue pair "
    "gives up. Critical where no full frame fits into the bucket: each is dropped. A NIC's own "
    "RDMA does not pass it.",
    ("https://man7.org/linux/man-pages/man8/tc-tbf.8.html",),
    remedy=("tc -s qdisc show dev {netdev}", "sudo tc qdisc del dev {netdev} root"),
    needs=("ports", "software device", "traffic control"),
)
def shaper_at_port(this: Rule, case: Case) -> Iterator[Finding]:
    """By TCA_TBF_PARMS, and the rates of others."""
    control, facts = _control(case), known(case.evidence.netdev)
    for port, name in netdevs(case) if control else ():
        assert control is not None
        netdev = facts.netdev(name) if facts else None
        mtu = known(netdev.mtu) if netdev else None
        for each in control.qdiscs:
            bucket, rate = each.bucket, each.bytes_per_second
            if each.netdev != name or not port.is_software:
                continue
            if rate is not None and rate < _SLOW:
                yield _limited(this, port, each, rate)
            if bucket is None:
                continue
            frame = None if mtu is None else mtu + _ETHERNET_HEADER
            small = each.is_root and frame is not None and bucket.burst_bytes < frame
            if not small and bucket.bytes_per_second >= _SLOW:
                continue
            said = (
                f"{bucket.bytes_per_second * 8 / 1e6:g} Mbit/s, {bucket.burst_bytes} bytes at once"
            )
            yield this.finding(
                f"a token bucket of {name} lets out what {port.name} sends at {said}"
                + (f": no full frame of {frame} bytes" if small else ""),
                device=port.device,
                port=port.number,
                severity=Severity.CRITICAL if small else None,
                evidence=[Proof("routing", f"qdisc of {name}", f"tbf {said}")],
                fill={"netdev": name},
            )


def _limited(this: Rule, port: PortView, qdisc: Qdisc, rate: int) -> Finding:
    said = f"{rate * 8 / 1e6:g} Mbit/s"
    flow = " of one flow" if qdisc.kind == _BY_FLOWS else ""
    return this.finding(
        f"{qdisc.kind} of {qdisc.netdev} lets out what {port.name} sends at {said}{flow}",
        device=port.device,
        port=port.number,
        evidence=[Proof("routing", f"qdisc of {qdisc.netdev}", f"{qdisc.kind} {said}")],
        fill={"netdev": qdisc.netdev},
    )


_BY_FLOWS: Final = "fq"
_CLASSLESS: Final = frozenset({"netem", "tbf"})
"""Kinds of a root by which all goes into its one queue."""


@rule(
    "queue-too-short",
    Severity.CRITICAL,
    "No full frame of a software device fits into its netdev's queue",
    "The qdisc of the netdev of a software device has room for less than one full frame (bfifo), "
    "for no packet (pfifo), or drops all (blackhole): what is longer than the queue is dropped "
    "before it leaves, and short packets (ARP, a TCP handshake, acknowledgements) may pass. A "
    "warning where the queue is that of one class of several. A NIC's own RDMA does not pass it.",
    ("https://man7.org/linux/man-pages/man8/tc-bfifo.8.html",),
    remedy=(
        "tc -s qdisc show dev {netdev}   # dropped",
        "sudo tc qdisc del dev {netdev} root",
    ),
    needs=("ports", "software device", "traffic control"),
)
def queue_too_short(this: Rule, case: Case) -> Iterator[Finding]:
    """By struct tc_fifo_qopt, and what the netdev's MTU makes of a frame."""
    control, facts = _control(case), known(case.evidence.netdev)
    for port, name in netdevs(case) if control else ():
        assert control is not None
        netdev = facts.netdev(name) if facts else None
        mtu = known(netdev.mtu) if netdev else None
        qdiscs = [each for each in control.qdiscs if each.netdev == name]
        is_one = any(each.is_root and each.kind in _CLASSLESS for each in qdiscs)
        for each in qdiscs if port.is_software else ():
            room = _room(each, mtu)
            if room is not None:
                yield this.finding(
                    f"the queue of {name} ({each.kind}) takes {room} of what {port.name} sends",
                    device=port.device,
                    port=port.number,
                    severity=None if each.is_root or is_one else Severity.WARN,
                    evidence=[Proof("routing", f"qdisc of {name}", f"{each.kind}: {room}")],
                    fill={"netdev": name},
                )


def _room(qdisc: Qdisc, mtu: int | None) -> str | None:
    """What fits into a queue that is too short."""
    if qdisc.kind == _BLACKHOLE:
        return "nothing"
    if qdisc.queue is None:
        return None
    if qdisc.queue.most_packets == 0:
        return "no packet"
    most = qdisc.queue.most_bytes
    if most is None or mtu is None or most >= mtu + _ETHERNET_HEADER:
        return None
    return f"{most} bytes, and no full frame of {mtu + _ETHERNET_HEADER},"


RULES: Final[tuple[Rule, ...]] = (
    filter_drops_rdma,
    filter_drops_arp,
    queue_too_short,
    netem_at_port,
    shaper_at_port,
    filter_drops_tcp,
)
"""Lowest cause first."""
