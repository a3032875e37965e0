"""From the chains of each port to a verdict: pure, so that a record can be judged as well."""

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules import lossless, lossless_unknown
from rdmadiag.preflight.verdict import Finding, Status, weighed


@dataclass(frozen=True, slots=True)
class LosslessVerdict:
    """What this host's side comes to: switches are not seen from here."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


def judge(case: Case) -> LosslessVerdict:
    """Of the stacks in the case."""
    rules = (*lossless.RULES, *lossless_unknown.RULES)
    return LosslessVerdict(*weighed(each for rule in rules for each in rule.check(case)))
