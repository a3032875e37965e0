"""From where GPUs and adapters stand to a verdict: pure, so that a record can be judged as well."""

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.topology import RULES
from rdmadiag.preflight.verdict import Finding, Status, weighed


@dataclass(frozen=True, slots=True)
class TopologyVerdict:
    """What the place of the adapters comes to."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


def judge(case: Case) -> TopologyVerdict:
    """Of the devices in the case."""
    return TopologyVerdict(*weighed(each for rule in RULES for each in rule.check(case)))
