"""From samples to a verdict: pure, so that saved ones can be judged as well."""

from dataclasses import dataclass

from rdmadiag.counters.change import Change, changes
from rdmadiag.counters.rules import RULES
from rdmadiag.counters.rules.case import CounterCase
from rdmadiag.facts.counters import CounterFacts
from rdmadiag.preflight.verdict import Finding, Status, status_of
from rdmadiag.thresholds import DEFAULT, Thresholds


@dataclass(frozen=True, slots=True)
class CounterVerdict:
    """What a sample says beside the one before it."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


def judge(
    after: CounterFacts, before: CounterFacts | None = None, thresholds: Thresholds = DEFAULT
) -> tuple[tuple[Change, ...], CounterVerdict]:
    """Every counter's change, and what rules say; of one sample alone, no changes."""
    found = () if before is None else tuple(changes(before, after))
    case = CounterCase(after, before, found, thresholds)
    status, ranked = status_of(each for rule in RULES for each in rule.check(case))
    return found, CounterVerdict(status, ranked)
