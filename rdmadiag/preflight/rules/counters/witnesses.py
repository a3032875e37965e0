"""What is wrong with the counters themselves: full, set back, repeated, refused, gone."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why, or_else
from rdmadiag.facts.counter_catalogue import Group, meaning
from rdmadiag.facts.counters import CounterFacts, CounterSet, CounterSource
from rdmadiag.preflight.rules.counters.case import ABI, CounterCase, place, proof, subject
from rdmadiag.preflight.rules.rule import RECORD_ANEW, Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.counter_changes import Change, Event, is_another, pairs, saturated


@rule(
    "counter-saturated",
    Severity.WARN,
    "A counter is full",
    "A counter of the InfiniBand specification is at its greatest value (15, 255, 65535 or "
    "4294967295) and stays there: whether there are more errors is not known until it is "
    "cleared. A warning where it filled up between the samples; a note where it was full "
    "before, perhaps since the host started. Traffic counters of ports without "
    "PortCountersExtended fill in seconds and are not named here.",
    (ABI, "https://linux.die.net/man/8/perfquery"),
    remedy=("sudo perfquery -C {device} -P {port} -R   # sets its counters to 0",),
)
def counter_saturated(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """Of a port what is new and what is not; data, packets and waiting say nothing of errors."""
    full: dict[tuple[str, int | None, bool], list[tuple[CounterSet, str]]] = {}
    for each, name in saturated(case.after):
        if not name.endswith(("_data", "_packets", "_wait")):
            dated = (each.device, each.port, name) in case.filled
            full.setdefault((each.device, each.port, dated), []).append((each, name))
    for (device, port, dated), rows in full.items():
        names = ", ".join(name for _, name in rows)
        when = "is now" if dated else "was already"
        yield this.finding(
            f"{place(device, port)}: {names} {when} at the greatest value: more cannot be counted",
            device=device,
            port=port,
            severity=None if dated else Severity.INFO,
            evidence=[
                Proof(
                    each.source, subject(each.source, device, port, None, name), _value(each, name)
                )
                for each, name in rows
            ],
        )


def _value(found: CounterSet, name: str) -> str:
    assert not isinstance(found.values, Missing)
    return str(found.values[name])


@rule(
    "device-made-anew",
    Severity.WARN,
    "A device was made anew between the samples",
    "The device has another number in the kernel than before (DEV_INDEX), or its netdev has: "
    "its driver was loaded again, its firmware reset, or it was removed and added. All its "
    "queue pairs are gone with it. Its counters began at 0, so that a difference would mean "
    "nothing.",
    remedy=("sudo dmesg --ctime | tail -50   # who removed it, and why",),
)
def device_made_anew(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """One finding a device; of a netdev alone only where the device is the same."""
    earlier = {each.key: each for each in case.before.sets} if case.before else {}
    done = set()
    for each in case.after.sets:
        first = earlier.get(each.key)
        if first is None or not is_another(first, each) or each.device in done:
            continue
        done.add(each.device)
        what = f"{each.device}'s netdev {each.netdev}" if each.netdev else each.device
        kind = "ifindex" if each.netdev else "RDMA_NLDEV_ATTR_DEV_INDEX"
        yield this.finding(
            f"{what} was made anew: its counters began at 0",
            device=each.device,
            evidence=[Proof("nldev", kind, f"{first.identity} → {each.identity}")],
        )


@rule(
    "device-gone",
    Severity.WARN,
    "A device is gone since the first sample",
    "A device, or a port of it, was there in the first sample and is not in the second.",
    remedy=("rdmadiag devices   # at which step it is lost",),
)
def device_gone(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """By the list of names, where both samples have one."""
    before = case.before.names if case.before else ()
    after = case.after.names
    if isinstance(before, Missing) or (isinstance(after, Missing) and after.why is not Why.ABSENT):
        return
    here = or_else(after, ())
    for name in before:
        if name not in here:
            yield this.finding(
                f"{name} is gone",
                device=name,
                evidence=[Proof("sysfs", "/sys/class/infiniband", ", ".join(here) or "empty")],
            )


@rule(
    "first-sample-lacks",
    Severity.UNKNOWN,
    "The first sample lacks counters of the second",
    "Counters can be read now, and the sample to compare with has none of them: they were left "
    "out then, or could not be read, or the device came later. Whether they rose is not known.",
    remedy=("rdmadiag counters   # from now on",),
)
def first_sample_lacks(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """One finding a source that had failed, and one a device."""
    if case.before is None:
        return
    for missing in case.before.failed:
        yield this.finding(
            f"the first sample has no counters: {missing}",
            evidence=[Proof("counters", "counters", str(missing))],
        )
    if case.before.failed and not case.before.sets:
        return
    devices: dict[str, list[tuple[CounterSet, str]]] = {}
    for each, why in _lacking(case.before, case.after):
        devices.setdefault(each.device, []).append((each, why))
    for device, rows in devices.items():
        places = ", ".join(f"{each.place} {each.source}" for each, _ in rows[:3])
        more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        yield this.finding(
            f"the first sample has no counters of {places}{more}: their rise is not known",
            device=device,
            evidence=[
                Proof("counters", f"{each.place} {each.source}", why) for each, why in rows[:_SHOWN]
            ],
        )


_OF_ETHTOOL: Final = (CounterSource.PAUSE, CounterSource.FEC, CounterSource.PHY)


def _lacking(before: CounterFacts, after: CounterFacts) -> Iterator[tuple[CounterSet, str]]:
    """The sets of the later sample with nothing to compare with, and why; a second witness's
    not where there is a first."""
    earlier = {each.key: each for each in before.sets}
    sysfs = {
        (each.device, each.port)
        for each in after.sets
        if each.source is CounterSource.HW and each.values and not isinstance(each.values, Missing)
    }
    for each in after.sets:
        if isinstance(each.values, Missing) or not each.values:
            continue
        if each.source is CounterSource.NLDEV and (each.device, each.port) in sysfs:
            continue
        first = earlier.get(each.key)
        if first is None and each.source in _OF_ETHTOOL:
            continue  # with its netdev's set, which is what the first sample lacks
        if first is None:
            left_out = each.device in before.excluded
            yield each, "left out with --exclude-device" if left_out else "not in the first sample"
        elif isinstance(first.values, Missing):
            yield each, str(first.values)
        elif not first.values.keys() & each.values.keys():
            yield each, "none of them in the first sample"


@rule(
    "counters-were-reset",
    Severity.INFO,
    "Counters were set back",
    "A counter is smaller than before, the device is the same, and no wrap explains it: somebody "
    "cleared it (perfquery -R), or the firmware did. How far it had risen until then is not known.",
    remedy=("rdmadiag counters",),
)
def counters_were_reset(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """One finding a port."""
    found: dict[tuple[str, int | None], list[Change]] = {}
    anew = _made_anew(case)
    for each in case.changes:
        # One that is not known may be no counter, but a number that goes up and down.
        known = each.group is not Group.OTHER
        if each.event is Event.RESET and each.device not in anew and known:
            found.setdefault((each.device, each.port), []).append(each)
    for (device, port), rows in found.items():
        names = ", ".join(each.name for each in rows[:3])
        more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        yield this.finding(
            f"{place(device, port)}: {names}{more} were set back: their rise is not known",
            device=device,
            port=port,
            evidence=map(proof, rows),
        )


def _made_anew(case: CounterCase) -> set[str]:
    earlier = {each.key: each for each in case.before.sets} if case.before else {}
    return {
        each.device
        for each in case.after.sets
        if (first := earlier.get(each.key)) is not None and is_another(first, each)
    }


@rule(
    "counters-repeated",
    Severity.UNKNOWN,
    "The kernel repeats old values",
    "The kernel keeps the values of hw_counters for as long as the file lifespan beside them "
    "says, and that is longer than the time between the samples: what stands still may have "
    "risen.",
    (ABI,),
    remedy=(
        "rdmadiag counters --interval {seconds}",
        "echo 10 | sudo tee {file:/sys/class/infiniband/DEVICE/ports/PORT/hw_counters/lifespan}",
    ),
)
def counters_repeated(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """10 ms is the kernel's default; it can be set to 10 s."""
    for each, lifespan, seconds in _repeated(case):
        file = subject(each.source, each.device, each.port, None, "lifespan")
        yield this.finding(
            f"{each.place}: the kernel repeats hw_counters for {lifespan} ms; the samples are "
            f"{seconds:g} s apart",
            device=each.device,
            port=each.port,
            evidence=[Proof(each.source, file, str(lifespan))],
            fill={"seconds": f"{lifespan / 1000 + 1:g}", "file": file},
        )


def _repeated(case: CounterCase) -> Iterator[tuple[CounterSet, int, float]]:
    """The sets whose later values may be the earlier ones, their lifespan, and the interval."""
    earlier = {each.key: each for each in case.before.sets} if case.before else {}
    for each in case.after.sets:
        first = earlier.get(each.key)
        if first is None or each.lifespan_ms is None:
            continue
        if isinstance(each.seconds, Missing) or isinstance(first.seconds, Missing):
            continue
        if each.lifespan_ms / 1000 >= each.seconds - first.seconds:
            yield each, each.lifespan_ms, round(each.seconds - first.seconds, 3)


@rule(
    "counters-disagree",
    Severity.WARN,
    "Two witnesses count differently",
    "RDMA netlink and sysfs show the same counter of the driver. nldev was read after sysfs in "
    "both samples, so that its values lie between sysfs's; one of them does not. The rise that "
    "is shown may be wrong.",
    remedy=("rdma statistic show link {device}/{port}",),
)
def counters_disagree(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """first sysfs ≤ first nldev ≤ last sysfs ≤ last nldev, for counters that only rise."""
    if case.before is None:
        return
    spared = {(each.device, each.port) for each, _, _ in _repeated(case)}
    both = {
        (later.source, later.device, later.port): (old, later, new)
        for first, old, later, new in pairs(case.before, case.after)
        if not is_another(first, later)
    }
    for (source, device, port), (old, later, new) in both.items():
        other = both.get((CounterSource.NLDEV, device, port))
        if source is not CounterSource.HW or other is None or (device, port) in spared:
            continue
        names = [name for name in new if not _in_order((old, other[0], new, other[2]), name)]
        if names:
            lines = [
                Proof(witness, subject(witness, device, port, None, name), _seen(*seen, name))
                for witness, seen in (
                    (CounterSource.HW, (old, new)),
                    (CounterSource.NLDEV, (other[0], other[2])),
                )
                for name in names
            ]
            yield this.finding(
                f"{later.place}: sysfs and RDMA netlink disagree about {', '.join(names[:3])}",
                device=device,
                port=port,
                evidence=lines,
            )


def _seen(old: dict[str, int], new: dict[str, int], name: str) -> str:
    return f"{old.get(name)} → {new.get(name)}"


def _in_order(values: tuple[dict[str, int], ...], name: str) -> bool:
    """Of a counter that all four readings have, and that did not start over in between."""
    line = [found.get(name) for found in values]
    numbers = [value for value in line if value is not None]
    if len(numbers) < len(line) or numbers == sorted(numbers):
        return True
    first, other, last, last_other = numbers
    what = meaning(CounterSource.HW, name, None, extended=False)
    return last < first or last_other < other or what.group in (Group.GAUGE, Group.OTHER)


@rule(
    "counters-unreadable",
    Severity.UNKNOWN,
    "Counters could not be read",
    "Counters are there, and reading them was refused, took too long, or gave no number. What "
    "they count is not known. A device that refuses (a restricted physical function) may "
    "flood the kernel log at each try: leave it out with --exclude-device.",
    ("https://github.com/prometheus/node_exporter/issues/3434",),
    remedy={
        "where a device refuses": ("rdmadiag counters --exclude-device {device}",),
        "where a source failed": ("rdmadiag preflight   # which device is in trouble",),
        "where a record leaves them out": (RECORD_ANEW,),
    },
)
def counters_unreadable(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """One finding a source that failed, and one a device; what is not offered is a note.

    What the first sample could read was offered: it is unknown since.
    """
    for missing in case.after.failed:
        recorded = missing.why is Why.NOT_COLLECTED
        yield this.finding(
            str(missing.detail) if recorded else f"no counters: {missing}",
            evidence=[Proof("counters", "/sys/class/infiniband/*/ports/*", str(missing))],
            when="where a record leaves them out" if recorded else "where a source failed",
        )
    devices: dict[str, list[tuple[str, Missing]]] = {}
    earlier = {each.key: each.values for each in case.before.sets} if case.before else {}
    lost: set[str] = set()  # counters that the first sample has
    single: set[str] = set()  # counters that have a file each
    for each in case.after.sets:
        rows = devices.setdefault(each.device, [])
        if isinstance(each.values, Missing) and each.source is not CounterSource.PAUSE:
            rows.append((f"{each.place} {each.source}", each.values))
        before = earlier.get(each.key, {})
        for name, why in each.refused.items():
            what = subject(each.source, each.device, each.port, each.netdev, name)
            rows.append((what, why))
            if each.source in _FILES:
                single.add(what)
            if not isinstance(before, Missing) and name in before:
                lost.add(what)
    for device, rows in devices.items():
        failed = [(what, why) for what, why in rows if why.why not in _PLAIN or what in lost]
        refused = [
            (what, why)
            for what, why in rows
            if why.why is Why.UNSUPPORTED and what in single and what not in lost
        ]
        for chosen, severity in ((failed, Severity.UNKNOWN), (refused, Severity.INFO)):
            if chosen:
                yield this.finding(
                    f"{device}: {len(chosen)} counters or sets of them could not be read: "
                    f"{chosen[0][1]}",
                    device=device,
                    severity=severity,
                    evidence=[Proof("counters", what, str(why)) for what, why in chosen[:_SHOWN]],
                    when="where a device refuses",
                )


_FILES: Final = (
    CounterSource.PORT,
    CounterSource.HW,
    CounterSource.DEVICE_HW,
    CounterSource.NETDEV,
)
_PLAIN: Final = (Why.ABSENT, Why.UNSUPPORTED, Why.NOT_COLLECTED)
_SHOWN: Final = 8


@rule(
    "no-counters",
    Severity.UNKNOWN,
    "There is nothing to count",
    "No RDMA device was found, or none of them has a counter that can be read: nothing can be "
    "said of errors.",
    remedy=("rdmadiag devices   # at which step they are lost",),
)
def no_counters(this: Rule, case: CounterCase) -> Iterator[Finding]:
    """Whatever was left out on purpose is named."""
    after = case.after
    if after.failed or any(
        each.values and not isinstance(each.values, Missing) for each in after.sets
    ):
        return
    if isinstance(after.names, Missing):
        reason = f"no RDMA device ({after.names})"
    elif not after.names:
        reason = "no RDMA device"
    elif not after.devices:
        reason = f"of {', '.join(after.names)} none was read: --device and --exclude-device"
    else:
        reason = f"no counter of {', '.join(each.name for each in after.devices)} can be read"
    yield this.finding(
        reason,
        evidence=[Proof("sysfs", "/sys/class/infiniband", _listed(after.names))],
    )


def _listed(names: tuple[str, ...] | Missing) -> str:
    return str(names) if isinstance(names, Missing) else ", ".join(names) or "empty"


RULES: Final[tuple[Rule, ...]] = (
    no_counters,
    device_made_anew,
    device_gone,
    first_sample_lacks,
    counters_unreadable,
    counters_repeated,
    counters_disagree,
    counter_saturated,
    counters_were_reset,
)
"""Lowest cause first."""
