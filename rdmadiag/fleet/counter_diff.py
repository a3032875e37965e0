"""What two samples of counters say that differs: the findings, not the numbers."""

from rdmadiag.facts import Missing
from rdmadiag.facts.counters import CounterFacts
from rdmadiag.fleet.changed import (
    Change,
    Differences,
    Folded,
    NotCompared,
    Sameness,
    Statuses,
)
from rdmadiag.fleet.finding_changes import finding_changes
from rdmadiag.fleet.record_sides import Renamed
from rdmadiag.preflight.judge_counters import CounterVerdict, compare
from rdmadiag.preflight.verdict import Verdict


def counter_differences(
    before: CounterFacts, after: CounterFacts, hosts: Sameness, *, comparable: bool
) -> Differences:
    """What rules say of the rise between two samples, and did not say of the first alone.

    Not `comparable` are those between which counters began anew, or of two hosts: then each is
    judged alone. Counters that moved are noise, and folded.
    """
    first = compare(before).verdict
    compared = compare(after, before if comparable else None)
    moved = 0 if isinstance(compared.changes, Missing) else len(compared.changes)
    found = tuple(
        finding_changes(
            _verdict(first),
            _verdict(compared.verdict),
            Renamed({}),
            (_names(before), _names(after)),
        )
    )
    return Differences(
        hosts,
        Statuses(first.status, compared.verdict.status),
        tuple(each for each in found if isinstance(each, Change)),
        tuple(each for each in found if isinstance(each, NotCompared)),
        Folded(noise=moved),
        compared.still,
    )


def _verdict(said: CounterVerdict) -> Verdict:
    return Verdict(said.status, safe_to_attempt_rtr=False, ports=(), findings=said.findings)


def _names(sample: CounterFacts) -> frozenset[str]:
    return frozenset() if isinstance(sample.names, Missing) else frozenset(sample.names)
