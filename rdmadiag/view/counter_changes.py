"""From two samples to differences: rises, wraps, resets, and what is not known.

>>> difference(7, 12, Meaning(Group.OTHER, Unit.EVENTS), 1.0)
(<Event.ROSE: 'rose'>, 5)
>>> difference(2**32 - 2, 3, Meaning(Group.OTHER, Unit.EVENTS, bits=32), 1.0)
(<Event.WRAPPED: 'wrapped'>, 5)
>>> difference(12, 7, Meaning(Group.OTHER, Unit.EVENTS), 1.0)[0]
<Event.RESET: 'reset'>
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counter_catalogue import ONLY_EXTENDED, Group, Meaning, Unit, meaning
from rdmadiag.facts.counters import CounterFacts, CounterSet, CounterSource
from rdmadiag.frozen import dataclass


class Event(StrEnum):
    """What became of a counter between two samples."""

    STEADY = "steady"
    ROSE = "rose"
    WRAPPED = "wrapped"  # it ran over its width, and the rise is known
    SATURATED = "saturated"  # at its greatest value: what came since is not counted
    RESET = "reset"  # smaller, or of another object, with no wrap possible: the rise is not known
    FELL = "fell"  # a gauge
    APPEARED = "appeared"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Change:
    """One counter in two samples."""

    source: CounterSource
    device: str
    port: int | None
    netdev: str | None
    name: str
    group: Group
    event: Event
    before: int | None  # raw
    after: int | None
    difference: int | Missing  # raw counts; at least this many where it is saturated
    unit: Unit
    amount: int | Missing  # difference in `unit`
    seconds: float | Missing  # between the two readings
    per_second: float | Missing  # amount each second

    @property
    def place(self) -> str:
        """DEVICE/PORT, or DEVICE."""
        return self.device if self.port is None else f"{self.device}/{self.port}"

    @property
    def moved(self) -> bool:
        """Whether there is anything to say of it."""
        return self.event is not Event.STEADY

    @property
    def rise(self) -> int:
        """The amount that it rose by; 0 where that is not known."""
        return 0 if isinstance(self.amount, Missing) else max(0, self.amount)


_MOST_PER_SECOND: Final = {Unit.BYTES: 4e11}  # 3.2 Tb/s: no port is as fast
_MOST_EVENTS: Final = 4e9  # packets of 64 bytes at 2 Tb/s
_MAY_BE_ANY: Final = (Group.TRAFFIC, Group.OTHER, Group.WAIT, Group.PAUSE)
"""Groups whose counters may run over half of their width; what goes wrong is rarer."""


def difference(
    before: int, after: int, what: Meaning, seconds: float | Missing
) -> tuple[Event, int | Missing]:
    """What became of one counter of the same object, and its rise in raw counts."""
    greatest = 2**what.bits - 1
    if max(before, after) > greatest:  # a driver that keeps more bits than the specification has
        what, greatest = Meaning(what.group, what.unit, what.scale), 2**64 - 1
    if what.saturates and after == greatest:
        return Event.SATURATED, max(0, after - before)
    if after == before:
        return Event.STEADY, 0
    if what.group is Group.GAUGE:
        return (Event.ROSE if after > before else Event.FELL), after - before
    if after > before:
        return Event.ROSE, after - before
    if not what.saturates and _could_wrap(
        wrapped := (after - before) % 2**what.bits, what, seconds
    ):
        return Event.WRAPPED, wrapped
    return Event.RESET, Missing(Why.UNSUPPORTED, f"{before} → {after}: reset, no wrap explains it")


def _could_wrap(rise: int, what: Meaning, seconds: float | Missing) -> bool:
    """Whether a counter can have run so far in so long: less than half of its width.

    One of errors less than a sixteenth: 3 000 000 000 → 10 is rather a reset than a wrap.
    """
    share = 1 if what.group in _MAY_BE_ANY else 4
    if isinstance(seconds, Missing) or rise >= 2 ** (what.bits - share):
        return False
    return rise * what.scale <= _MOST_PER_SECOND.get(what.unit, _MOST_EVENTS) * max(seconds, 0.0)


def changes(before: CounterFacts, after: CounterFacts, *, steady: bool = False) -> Iterator[Change]:
    """The counters of both samples that moved, in the order of the later one.

    With `steady` those that stand still too: of a large host's ten thousand that is nearly all.
    Sets that only one sample has give nothing, and nldev's counters are left out where sysfs
    shows them: the second witness counts nothing that the first has not.
    """
    shown = {
        (later.device, later.port): old.keys() & new.keys()
        for _, old, later, new in pairs(before, after)
        if later.source is CounterSource.HW
    }
    for first, old, later, new in pairs(before, after):
        known: AbstractSet[str] = frozenset()
        if later.source is CounterSource.NLDEV:
            known = shown.get((later.device, later.port), known)
        driver = _driver(after, later.device)
        yield from _set(first, old, later, new, driver, known, steady=steady)


def pairs(
    before: CounterFacts, after: CounterFacts
) -> Iterator[tuple[CounterSet, dict[str, int], CounterSet, dict[str, int]]]:
    """The sets that both samples could read, each with its values."""
    earlier = {each.key: each for each in before.sets}
    for later in after.sets:
        first = earlier.get(later.key)
        if (
            first
            and not isinstance(first.values, Missing)
            and not isinstance(later.values, Missing)
        ):
            yield first, first.values, later, later.values


def _driver(facts: CounterFacts, name: str) -> str | None:
    device = facts.device(name)
    return None if device is None or isinstance(device.driver, Missing) else device.driver


def is_another(first: CounterSet, later: CounterSet) -> bool:
    """Whether the device or netdev was made anew in between: its counters began at 0."""
    known = first.identity is not None and later.identity is not None
    return known and first.identity != later.identity


def _set(
    first: CounterSet,
    old: dict[str, int],
    later: CounterSet,
    new: dict[str, int],
    driver: str | None,
    witnessed: AbstractSet[str],
    *,
    steady: bool,
) -> Iterator[Change]:
    another = is_another(first, later)
    if old == new and not (steady or another or _any_full(later.source, new)):
        return
    seconds = _elapsed(first, later)
    extended = _is_extended(old) or _is_extended(new)
    for name in dict.fromkeys((*new, *old)):
        before, value = old.get(name), new.get(name)
        if name in witnessed:
            continue
        what = meaning(later.source, name, driver, extended=extended)
        rise: int | Missing
        if before is None or value is None:
            event = Event.APPEARED if before is None else Event.GONE
            rise = Missing(Why.ABSENT, f"{name}: not in both samples")
        elif another:
            event = Event.RESET
            rise = Missing(Why.ABSENT, f"{name}: of another object, which began at 0")
        else:
            event, rise = difference(before, value, what, seconds)
        if event is Event.STEADY and not steady:
            continue
        amount = rise if isinstance(rise, Missing) else rise * what.scale
        yield Change(
            source=later.source,
            device=later.device,
            port=later.port,
            netdev=later.netdev,
            name=name,
            group=what.group,
            event=event,
            before=before,
            after=value,
            difference=rise,
            unit=what.unit,
            amount=amount,
            seconds=seconds,
            per_second=_rate(amount, seconds),
        )


def _any_full(source: CounterSource, values: dict[str, int]) -> bool:
    """Whether a value that stands still could be a greatest one: 15 and so on, all bits set."""
    if source is not CounterSource.PORT:
        return False
    return any(value and value & (value + 1) == 0 for value in values.values())


def _is_extended(values: dict[str, int]) -> bool:
    return bool(ONLY_EXTENDED & values.keys()) or any(
        values.get(name, 0) >= 2**32
        for name in ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
    )


def _elapsed(first: CounterSet, later: CounterSet) -> float | Missing:
    for each in (first.seconds, later.seconds):
        if isinstance(each, Missing):
            return each
    assert not isinstance(first.seconds, Missing)
    assert not isinstance(later.seconds, Missing)
    return round(later.seconds - first.seconds, 6)


def _rate(amount: int | Missing, seconds: float | Missing) -> float | Missing:
    if isinstance(amount, Missing):
        return amount
    if isinstance(seconds, Missing):
        return seconds
    if seconds <= 0:
        return Missing(Why.MALFORMED, "no time between the samples")
    return round(amount / seconds, 3)


def saturated(facts: CounterFacts) -> Iterator[tuple[CounterSet, str]]:
    """The counters of one sample that are at their greatest value."""
    for each in facts.sets:
        if each.source is CounterSource.PORT and not isinstance(each.values, Missing):
            extended = _is_extended(each.values)
            for name, value in each.values.items():
                what = meaning(each.source, name, None, extended=extended)
                if what.saturates and value == 2**what.bits - 1:
                    yield each, name
