"""Bit errors below the packets: what forward error correction mends, and what it cannot."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.counter_catalogue import Group, Unit
from rdmadiag.facts.counters import CounterFacts, CounterSet, CounterSource
from rdmadiag.preflight.rules.counters.case import CounterCase, place, proof
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.counter_changes import Change

_JUNIPER: Final = (
    "https://www.juniper.net/documentation/us/en/software/junos/ai-ml-evo/topics/concept/"
    "optics-pre-fec-ber-rate.html"
)


@rule(
    "bit-errors-before-fec",
    Severity.WARN,
    "More bit errors than a sound link has",
    "What this port receives is damaged on the wire, and forward error correction (FEC) mends it, "
    "or can no longer do so. A block that could not be corrected is packets lost: "
    "from uncorrectable_blocks on. Corrected errors are normal, on PAM4 links (50 Gb/s a lane and "
    "more) at all times; their share of all bits received is the bit error rate before FEC, and "
    "from bit_error_rate on little is left of what FEC can mend: RS(528,514) is made for up to "
    "5e-5, RS(544,514) for 2.4e-4. Where the driver counts corrected blocks alone, each counts as "
    "one bit, and the rate is at least that; without the link's speed there is none. An optic, a "
    "cable or a dirty connector shows here long before packets are lost.",
    (
        "https://docs.kernel.org/networking/ethtool-netlink.html#fec-get",
        "https://docs.kernel.org/networking/statistics.html",
        _JUNIPER,
    ),
    remedy=(
        "ethtool --include-statistics --show-fec {netdev}",
        "sudo ethtool --module-info {netdev}   # received power, by lane",
        "# clean the connectors, reseat the cable, then try another one",
    ),
)
def bit_errors_before_fec(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """One finding a netdev: a port on a bond has several."""
    for (device, port), rises in _by_netdev(case):
        lost = sum(each.rise for each in rises if each.group is Group.UNCORRECTABLE)
        corrected = next(iter(_corrected(rises)), None)
        counted = _counted(case.after, rises[0])
        speed = counted.speed_mbps if counted else None
        rate = None if corrected is None else _rate(corrected, speed)
        if lost >= case.thresholds.uncorrectable_blocks:
            blocks = "1 block" if lost == 1 else f"{lost} blocks"
            says = f"receives bit errors that FEC could not correct: {blocks}"
        elif rate is not None and rate >= case.thresholds.bit_error_rate:
            least = "at least " if corrected and corrected.unit is Unit.BLOCKS else ""
            says = f"has a bit error rate of {least}{rate:.1e} before FEC"
        else:
            continue
        netdev = rises[0].netdev
        leg = f" ({netdev})" if counted and counted.leg else ""
        yield this.finding(
            f"{place(device, port)}{leg} {says}{_worst_lane(case, counted)}",
            device=device,
            port=port,
            evidence=[*map(proof, rises), *_speed_proof(netdev, speed)],
            fill={"netdev": netdev},
        )


def _corrected(rises: Sequence[Change]) -> list[Change]:
    """Bits before blocks."""
    found = [each for each in rises if each.group is Group.CORRECTED]
    return sorted(found, key=lambda each: each.unit is not Unit.BITS)


def _by_netdev(case: CounterCase) -> Iterator[tuple[tuple[str, int | None], list[Change]]]:
    for place_of_all, rises in case.risen(Group.UNCORRECTABLE, Group.CORRECTED):
        for netdev in dict.fromkeys(each.netdev for each in rises):
            yield place_of_all, [each for each in rises if each.netdev == netdev]


def _counted(facts: CounterFacts, change: Change) -> CounterSet | None:
    """The counters of FEC of this change's netdev."""
    where = (CounterSource.FEC, change.device, change.port, change.netdev)
    own = (e for e in facts.sets if (e.source, e.device, e.port, e.netdev) == where)
    return next(own, None)


def _rate(change: Change, speed: int | Missing | None) -> float | None:
    """Bit errors by bit received; None where it is not known how many those were."""
    if isinstance(speed, Missing) or not speed or isinstance(change.per_second, Missing):
        return None
    return change.per_second / (speed * 1e6)


def _speed_proof(netdev: str | None, speed: int | Missing | None) -> Iterator[Proof]:
    if speed is not None:
        seen = str(speed) if isinstance(speed, Missing) else f"{speed} Mb/s"
        yield Proof("fec", f"ETHTOOL_A_LINKMODES_SPEED of {netdev}", seen)


def _worst_lane(case: CounterCase, counted: CounterSet | None) -> str:
    """Of several lanes that are counted, the one that has most of it."""
    if counted is None or isinstance(counted.values, Missing):
        return ""
    own = [
        each
        for each in case.changes
        if (each.source, each.device, each.port, each.netdev)
        == (counted.source, counted.device, counted.port, counted.netdev)
    ]
    for name in _LANES:
        if sum(each.startswith(f"{name}/") for each in counted.values) < 2:
            continue
        lanes = {each.name: each.rise for each in own if each.name.startswith(f"{name}/")}
        worst = max(lanes, key=lanes.__getitem__, default="")
        if lanes and lanes[worst] > sum(lanes.values()) / 2:
            return f", most on lane {worst.removeprefix(f'{name}/lane')}"
    return ""


_LANES: Final = ("uncorrectable_blocks", "corrected_bits", "corrected_blocks")


RULES: Final[tuple[Rule, ...]] = (bit_errors_before_fec,)
