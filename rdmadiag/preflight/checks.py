"""A verdict as a list of checks, for those that count cases: each rule at each place."""

from collections.abc import Iterable

from rdmadiag.facts import Why
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Finding, Severity, Skipped, Status, Verdict, status_of


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: at each device or port that it has findings on or could not be checked at.

    Else once for the host.
    """

    rule: str
    device: str | None
    port: int | None
    status: Status
    findings: tuple[Finding, ...]  # the worst first; none where it found nothing
    lacks: tuple[Skipped, ...] = ()  # where it has none: what kept it from being checked

    @property
    def place(self) -> str:
        """ "mlx5_0/1", "mlx5_0", or "" for the host."""
        if self.device is None:
            return ""
        return self.device if self.port is None else f"{self.device}/{self.port}"


def checks(verdict: Verdict) -> tuple[Check, ...]:
    """In the order in which rules were run.

    A rule without findings is one check that is ok, or unknown where it could not be checked.
    """
    rules: dict[str, _Places] = {rule: {} for rule in verdict.rules_asked}
    for finding in verdict.findings:
        places = rules.setdefault(finding.rule, {})
        places.setdefault((finding.device, finding.port), ([], []))[0].append(finding)
    for each in verdict.skipped:
        rules[each.rule].setdefault((each.device, each.port), ([], []))[1].append(each)
    return tuple(check for rule, places in rules.items() for check in _of_rule(rule, places))


_Places = dict[tuple[str | None, int | None], tuple[list[Finding], list[Skipped]]]


def _of_rule(rule: str, places: _Places) -> Iterable[Check]:
    for (device, port), (findings, lacks) in places.items():
        if findings:
            yield Check(rule, device, port, status_of(findings[0].severity), tuple(findings))
        else:
            yield Check(rule, device, port, Status.UNKNOWN, (), tuple(lacks))
    if not places:
        yield Check(rule, None, None, Status.OK, ())


def skipped_by_why(verdict: Verdict) -> dict[Why, int]:
    """How many rules could not be checked, or not everywhere, by the reason; of all reasons."""
    rules = {why: {each.rule for each in verdict.skipped if each.why is why} for why in Why}
    return {why: len(codes) for why, codes in rules.items()}


def counted(verdict: Verdict) -> dict[Severity, int]:
    """How many findings of each severity."""
    severities = [finding.severity for finding in verdict.findings]
    return {severity: severities.count(severity) for severity in Severity}
