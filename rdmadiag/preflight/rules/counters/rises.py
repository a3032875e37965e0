"""What a rise means: one rule for each thing that goes wrong, with the counters that show it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counter_catalogue import Group
from rdmadiag.facts.counters import CounterFacts, CounterSource
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.preflight.rules.counters.case import ABI, MLX5, CounterCase, place, proof
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.view.counter_changes import Change


def _rose(rises: Iterable[Change]) -> str:
    """ "out_of_sequence rose by 12 (12/s)", and how many others did."""
    first, *others = rises
    pace = "" if isinstance(first.per_second, Missing) else f" ({first.per_second:.3g}/s)"
    more = f", and {len(others)} more" if others else ""
    return f"{first.name} rose by {first.rise}{pace}{more}"


def _by_threshold(
    group: Group, threshold: str, says: str, when: Callable[[str], str] = lambda netdev: ""
) -> Callable[[Rule, CounterCase], Iterator[Finding]]:
    """Finds ports where the rises of a group reach a threshold, and its rate.

    `when` chooses of the rule's remedies by the port's netdev.
    """

    def check(this: Rule, case: CounterCase) -> Iterator[Finding]:
        least = getattr(case.thresholds, threshold)
        pace = getattr(case.thresholds, f"{threshold}_per_second", 0.0)
        for (device, port), rises in case.risen(group):
            if sum(each.rise for each in rises) < least or _per_second(rises) < pace:
                continue
            netdev = _netdev(case.after, device, port)
            yield this.finding(
                f"{place(device, port)} {says}: {_rose(rises)}",
                device=device,
                port=port,
                evidence=map(proof, rises),
                when=when(netdev),
                fill={"netdev": netdev},
            )

    return check


def _per_second(rises: Iterable[Change]) -> float:
    """The sum of the rates; without a clock, as fast as can be: the rise itself is known."""
    rates = [each.per_second for each in rises]
    known = [rate for rate in rates if not isinstance(rate, Missing)]
    return sum(known) if len(known) == len(rates) else float("inf")


# --- the link ------------------------------------------------------------------------------


_RESEAT: Final = "# reseat or change the cable; look at the switch port's log"


@rule(
    "link-went-down",
    Severity.WARN,
    "A link went down in between",
    "The link of a port was lost and came back, or is still down: link_downed on InfiniBand, "
    "carrier_down_count of the netdev (before Linux 4.16 carrier_changes, two for each time), "
    "IOLinkActiveCount on a Mac. Connections "
    "over it broke, or waited until their retries ran out. From link_flaps times on it is "
    "critical. A cable that was pulled and an interface that was set down count too.",
    (ABI, "https://github.com/NVIDIA/nccl/issues/905"),
    remedy={
        "": ("ip -statistics link show {netdev:INTERFACE}", _RESEAT),
        "on a Mac": ("ifconfig {netdev:INTERFACE}", _RESEAT),
        "on InfiniBand, or where no netdev is known": ("ibstat {device} {port}", _RESEAT),
    },
)
def link_went_down(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """Of several counters of one port the greatest: they count the same event."""
    for (device, port), rises in case.risen(Group.LINK_DOWN):
        times = max(_times(each, case) for each in rises)
        if times < case.thresholds.link_downed:
            continue
        severe = times >= case.thresholds.link_flaps
        netdev = _netdev(case.after, device, port)
        when = ""
        if any(each.source is CounterSource.REGISTRY for each in rises):
            when = "on a Mac"
        elif _link_layer(case.after, device, port) is LinkLayer.INFINIBAND or netdev == _UNNAMED:
            when = "on InfiniBand, or where no netdev is known"
        yield this.finding(
            f"{place(device, port)} lost its link {'once' if times == 1 else f'{times} times'}",
            device=device,
            port=port,
            severity=Severity.CRITICAL if severe else Severity.WARN,
            evidence=map(proof, rises),
            when=when,
            fill={"netdev": netdev},
        )


def _times(change: Change, case: CounterCase) -> int:
    if change.name != "carrier_changes":
        return change.rise
    # A link that comes back is a change too: where the kernel counts losses, they alone count.
    exact = any(
        (each.source, each.device, each.port) == (change.source, change.device, change.port)
        and not isinstance(each.values, Missing)
        and "carrier_down_count" in each.values
        for each in case.after.sets
    )
    return 0 if exact else (change.rise + 1) // 2


_UNNAMED: Final = "INTERFACE"


def _netdev(facts: CounterFacts, device: str, port: int | None) -> str:
    """The port's netdev, or the word that stands for it."""
    for owner, each in facts.ports:
        if (owner.name, each.number) == (device, port) and not isinstance(each.netdev, Missing):
            return each.netdev
    return _UNNAMED


def _link_layer(facts: CounterFacts, device: str, port: int | None) -> LinkLayer | Missing:
    for owner, each in facts.ports:
        if (owner.name, each.number) == (device, port):
            return each.link_layer
    return Missing(Why.ABSENT)


link_retrained: Final = rule(
    "link-retrained",
    Severity.WARN,
    "A link trained anew",
    "link_error_recovery rose: the link failed and recovered without going down. It is the "
    "step before a link that goes down: a cable, a transceiver, or a port.",
    (ABI,),
    remedy=("rdmadiag counters --watch --device {device}:{port}", "# reseat or change the cable"),
)(
    _by_threshold(
        Group.LINK_RECOVERY,
        "link_recoveries",
        "trained its link anew",
    )
)

damaged_on_the_wire: Final = rule(
    "damaged-on-the-wire",
    Severity.WARN,
    "Packets or symbols are damaged on the wire",
    "Symbol errors, receive errors, CRC errors: bits were turned between this port and its "
    "neighbour. A few a day are within the specification; a steady rise is a bad cable, a dirty "
    "or loose transceiver, or a port, and each damaged packet is one that must be sent again.",
    (ABI, "https://linux.die.net/man/8/ibqueryerrors"),
    remedy={
        "": (
            "sudo ethtool --module-info {netdev:INTERFACE}",
            "# reseat, clean or change the cable to its neighbour",
        ),
        "where no netdev is known": (
            "sudo mlxlink -d {device} --port {port} --show_counters --show_module",
            "# reseat, clean or change the cable to its neighbour",
        ),
    },
)(
    _by_threshold(
        Group.PHYSICAL,
        "physical_errors",
        "receives damaged data",
        lambda netdev: "where no netdev is known" if netdev == _UNNAMED else "",
    )
)

# --- packets -------------------------------------------------------------------------------

packets_discarded: Final = rule(
    "packets-discarded",
    Severity.WARN,
    "Packets are discarded at this end",
    "The port or the NIC had to drop packets: nowhere to send them (port_xmit_discards: the link "
    "was down or too slow for too long), or no room to receive them (rx_missed_errors, "
    "rx_roce_discards). On a network that ought to be lossless, flow control does not reach "
    "this port.",
    (ABI,),
    remedy=(
        "ethtool -S {netdev:INTERFACE} | grep -iE 'discard|drop|pause'",
        "# compare PFC or pause settings with the switch's",
    ),
)(
    _by_threshold(
        Group.DISCARD,
        "discards",
        "discards packets",
    )
)

packets_retransmitted: Final = rule(
    "packets-retransmitted",
    Severity.WARN,
    "Packets are lost and sent again",
    "Packets arrived out of order or not at all, acknowledgements did not come in time: the "
    "path loses packets, and RoCE slows down by much at little loss. Usual reasons: PFC, ECN or "
    "DSCP settings that differ between NIC and switch, or a bad link further on. With adaptive "
    "routing out_of_sequence alone rises without any loss.",
    (MLX5, "https://github.com/NVIDIA/nccl/issues/1333"),
    remedy=(
        "rdmadiag counters --watch --device {device}",
        "# on both ends: where do pauses and discards rise?",
        "# compare PFC, ECN and DSCP with the switch's",
    ),
)(
    _by_threshold(
        Group.RETRANSMISSION,
        "retransmissions",
        "has packets lost or out of order",
    )
)

receiver_not_ready: Final = rule(
    "receiver-not-ready",
    Severity.WARN,
    "Messages find no receive posted",
    "The receiving program posts its receives too late or too few (out_of_buffer, RNR NAKs): the "
    "sender waits and tries again. Nothing is wrong with the network; a program, or a CPU that "
    "is too busy for it.",
    (MLX5,),
    remedy=(
        "rdmadiag resources --device {device}   # which programs hold queue pairs",
        "# the receiving one should post more receives, or have more of a CPU",
    ),
)(
    _by_threshold(
        Group.RECEIVER,
        "receiver_not_ready",
        "has messages without a receive",
    )
)

retries_ran_out: Final = rule(
    "retries-ran-out",
    Severity.CRITICAL,
    "Connections broke: retries ran out",
    "A queue pair gave up sending: its program saw completion error 12 (transport retries) or 13 "
    "(RNR retries). The peer, or the path to it, was gone for longer than timeout times retries.",
    (MLX5,),
    remedy=("rdmadiag explain wc 12", "rdmadiag preflight --device {device}"),
)(
    _by_threshold(
        Group.RETRIES,
        "retries_exceeded",
        "gave up on a connection",
    )
)

requests_refused: Final = rule(
    "requests-refused",
    Severity.WARN,
    "A program's requests are refused",
    "Requests were refused for their address, key or length (completion errors 9, 10 and 11): "
    "one of the two programs uses memory that is not registered, no longer or otherwise. With "
    "GPU memory, PCI access control (ACS) does it too.",
    (MLX5,),
    remedy=("rdmadiag explain wc 10", "rdmadiag preflight --device {device}"),
)(
    _by_threshold(
        Group.REFUSED,
        "refused_requests",
        "has requests refused",
    )
)

# --- congestion ----------------------------------------------------------------------------

congestion_ignored: Final = rule(
    "congestion-ignored",
    Severity.WARN,
    "Congestion notifications are ignored",
    "The far end said that the path is congested (CNP) and this port did not slow down: "
    "congestion control may be off on this side, or for this priority. Whether it is on can be "
    "read with MLNX_OFED's drivers alone.",
    (MLX5,),
    remedy=(
        "grep . /sys/class/net/{netdev:INTERFACE}/ecn/roce_rp/enable/*   # 1: on, by priority",
        "# no such file: unsupported by this driver, which does not mean off",
    ),
)(
    _by_threshold(
        Group.IGNORED,
        "congestion_ignored",
        "ignores congestion notifications",
    )
)


@rule(
    "congestion",
    Severity.INFO,
    "The path is congested",
    "Packets were marked by a switch, or this end was asked to send slower (ECN, CNP), or waited "
    "for credits (port_xmit_wait, in ticks that the device does not name). That is congestion "
    "control at work: worth knowing where something is slower than it should be.",
    (ABI, MLX5),
    remedy=("rdmadiag counters --watch --device {device}",),
)
def congestion(this: Rule, case: CounterCase) -> Iterator[Finding]:
    for (device, port), rises in case.risen(Group.CONGESTION, Group.WAIT):
        yield this.finding(
            f"{place(device, port)} met congestion: {_rose(rises)}",
            device=device,
            port=port,
            evidence=map(proof, rises),
        )


pause_frames: Final = rule(
    "pause-frames",
    Severity.WARN,
    "Pause frames",
    "Global pause frames are sent or received at a high rate. Sent: this host cannot take what "
    "arrives (PCI Express, memory, NUMA). Received: the switch holds this port back. Priority "
    "flow control has counters of its own, which ethtool -S shows.",
    ("https://www.kernel.org/doc/html/latest/networking/ethtool-netlink.html#pause-get",),
    remedy=(
        "ethtool -S {netdev:INTERFACE} | grep -iE 'prio.*pause'",
        "rdmadiag preflight --device {device}   # PCI Express, NUMA",
    ),
)(
    _by_threshold(
        Group.PAUSE,
        "pause_frames",
        "is slowed by pause frames",
    )
)

RULES: Final[tuple[Rule, ...]] = (
    link_went_down,
    retries_ran_out,
    link_retrained,
    damaged_on_the_wire,
    packets_discarded,
    packets_retransmitted,
    congestion_ignored,
    pause_frames,
    receiver_not_ready,
    requests_refused,
    congestion,
)
"""Lowest cause first."""
