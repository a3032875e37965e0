"""From what is held to a verdict: pure, so that a record can be judged as well."""

from collections.abc import Sequence

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.resources import ResourceFacts
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules.resources import RULES, ResourceCase
from rdmadiag.preflight.thresholds import DEFAULT, Thresholds
from rdmadiag.preflight.verdict import Finding, Status, weighed
from rdmadiag.view.reconcile import DeviceView
from rdmadiag.view.resource_usage import Usage, usages


@dataclass(frozen=True, slots=True)
class ResourceVerdict:
    """What the use of resources adds up to."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


def judge(
    devices: Sequence[DeviceView],
    facts: ResourceFacts | Missing,
    evidence: Evidence,
    thresholds: Thresholds = DEFAULT,
) -> tuple[tuple[Usage, ...], ResourceVerdict]:
    """What each device's holders have, and what rules say; on a Mac, preflight's rules."""
    found = usages(devices, facts, evidence)
    case = ResourceCase(found, facts, thresholds)
    findings = [each for rule in RULES for each in rule.check(case)]
    if evidence.is_mac:
        from rdmadiag.preflight.case import Case
        from rdmadiag.preflight.rules import thunderbolt_resources

        mac = Case(evidence, tuple(devices), selected=True)
        exhausted = [each for rule in thunderbolt_resources.RULES for each in rule.check(mac)]
        named = {each.device for each in exhausted}
        findings = [*exhausted, *(each for each in findings if each.device not in named)]
    status, ranked = weighed(findings)
    return found, ResourceVerdict(status, ranked)
