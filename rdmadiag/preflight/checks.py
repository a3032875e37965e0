"""A verdict as a list of checks, for those that count cases: each rule at each place."""

from collections.abc import Iterable
from dataclasses import dataclass

from rdmadiag.preflight.verdict import Finding, Severity, Status, Verdict, status_of


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: at each device or port that it has findings on, else once for the host."""

    rule: str
    device: str | None
    port: int | None
    status: Status
    findings: tuple[Finding, ...]  # the worst first; none where it found nothing

    @property
    def place(self) -> str:
        """ "mlx5_0/1", "mlx5_0", or "" for the host."""
        if self.device is None:
            return ""
        return self.device if self.port is None else f"{self.device}/{self.port}"


def checks(verdict: Verdict) -> tuple[Check, ...]:
    """In the order in which rules were run.

    A rule without findings is one check that is ok: what it looks for was not there, or could
    not be seen, of which other rules have findings.
    """
    places: dict[str, dict[tuple[str | None, int | None], list[Finding]]] = {
        rule: {} for rule in verdict.rules_asked
    }
    for finding in verdict.findings:
        of_rule = places.setdefault(finding.rule, {})
        of_rule.setdefault((finding.device, finding.port), []).append(finding)
    return tuple(check for rule, found in places.items() for check in _of_rule(rule, found.items()))


def _of_rule(
    rule: str, found: Iterable[tuple[tuple[str | None, int | None], list[Finding]]]
) -> Iterable[Check]:
    every = [
        Check(rule, device, port, status_of(findings[0].severity), tuple(findings))
        for (device, port), findings in found
    ]
    return every or [Check(rule, None, None, Status.OK, ())]


def counted(verdict: Verdict) -> dict[Severity, int]:
    """How many findings of each severity."""
    severities = [finding.severity for finding in verdict.findings]
    return {severity: severities.count(severity) for severity in Severity}
