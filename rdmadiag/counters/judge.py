"""From samples to a verdict: pure, so that saved ones can be judged as well."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rdmadiag.counters.change import Change, changes
from rdmadiag.counters.rules import RULES
from rdmadiag.counters.rules.case import CounterCase
from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.counters import CounterFacts
from rdmadiag.preflight.verdict import Finding, Status, status_of
from rdmadiag.thresholds import DEFAULT, Thresholds


@dataclass(frozen=True, slots=True)
class CounterVerdict:
    """What a sample says beside the one before it."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


@dataclass(frozen=True, slots=True)
class Compared:
    """A sample, how it differs from an earlier one, and what that means."""

    sample: CounterFacts
    changes: tuple[Change, ...] | Missing  # of every counter of both; not collected: one sample
    seconds: float | Missing  # between the samples
    since: datetime | None  # when the earlier one was made, of a saved one
    verdict: CounterVerdict

    @property
    def moved(self) -> tuple[Change, ...]:
        """The changes of counters that did not stand still."""
        return tuple(each for each in present(self.changes) if each.moved)


_ONE: Final = Missing(Why.NOT_COLLECTED, "one sample")


def compare(
    after: CounterFacts,
    before: CounterFacts | None = None,
    thresholds: Thresholds = DEFAULT,
    since: datetime | None = None,
) -> Compared:
    """Every counter's change, and what rules say; of one sample alone, no changes."""
    found = () if before is None else tuple(changes(before, after))
    case = CounterCase(after, before, found, thresholds)
    status, ranked = status_of(each for rule in RULES for each in rule.check(case))
    return Compared(
        sample=after,
        changes=_ONE if before is None else found,
        seconds=_ONE if before is None else _between(before.seconds, after.seconds),
        since=since,
        verdict=CounterVerdict(status, ranked),
    )


def _between(first: float | Missing, later: float | Missing) -> float | Missing:
    if isinstance(first, Missing) or isinstance(later, Missing):
        return first if isinstance(first, Missing) else later
    return round(later - first, 3)
