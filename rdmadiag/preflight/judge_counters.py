"""From samples to a verdict: pure, so that saved ones can be judged as well."""

from datetime import datetime
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import CounterFacts, CounterSource
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules.counters import RULES
from rdmadiag.preflight.rules.counters.case import CounterCase
from rdmadiag.preflight.thresholds import DEFAULT, Thresholds
from rdmadiag.preflight.verdict import Finding, Status, weighed
from rdmadiag.view.counter_changes import Change, changes, pairs


@dataclass(frozen=True, slots=True)
class CounterVerdict:
    """What a sample says beside the one before it."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


@dataclass(frozen=True, slots=True)
class Compared:
    """A sample, how it differs from an earlier one, and what that means."""

    sample: CounterFacts
    changes: tuple[Change, ...] | Missing  # of counters that moved; not collected: one sample
    still: int  # counters that did not
    seconds: float | Missing  # between the samples
    since: datetime | None  # when the earlier one was made, of a saved one
    verdict: CounterVerdict


_ONE: Final = Missing(Why.NOT_COLLECTED, "one sample")


def compare(
    after: CounterFacts,
    before: CounterFacts | None = None,
    thresholds: Thresholds = DEFAULT,
    since: datetime | None = None,
    *,
    steady: bool = False,
) -> Compared:
    """What changed, and what rules say; of one sample alone, no changes.

    `steady`: counters that stand still are among the changes too.
    """
    found = () if before is None else tuple(changes(before, after, steady=steady))
    case = CounterCase(after, before, found, thresholds)
    status, ranked = weighed(each for rule in RULES for each in rule.check(case))
    return Compared(
        sample=after,
        changes=_ONE if before is None else found,
        seconds=_ONE if before is None else _between(before.seconds, after.seconds),
        still=0 if before is None else _counters(before, after) - sum(each.moved for each in found),
        since=since,
        verdict=CounterVerdict(status, ranked),
    )


def _counters(before: CounterFacts, after: CounterFacts) -> int:
    """Of both samples; those that two witnesses show, once."""
    found = {later.key: old.keys() & new.keys() for _, old, later, new in pairs(before, after)}
    twice = sum(
        len(names & found.get((CounterSource.HW, device, port, None), set()))
        for (source, device, port, _), names in found.items()
        if source is CounterSource.NLDEV
    )
    return sum(map(len, found.values())) - twice


def _between(first: float | Missing, later: float | Missing) -> float | Missing:
    if isinstance(first, Missing) or isinstance(later, Missing):
        return first if isinstance(first, Missing) else later
    return round(later - first, 3)
