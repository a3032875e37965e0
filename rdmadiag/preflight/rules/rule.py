"""What a rule is, and how its findings are made."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from rdmadiag.documentation import page_of_rule
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.needs import EVERY_PORT
from rdmadiag.preflight.remedy import documented, filled
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import DeviceView, PortView
from rdmadiag.view.unused import is_unused

C = TypeVar("C")

RECORD_ANEW: Final = "rdmadiag snapshot DIR   # on that host: an older record does not hold this"
"""The remedy where a record leaves out what a rule of `counters` or `resources` needs."""

_NO_VALUES: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: a stable code, what it means, and a pure function from case to findings.

    Rules of `counters` and `resources` are given cases of their own.
    """

    code: str
    severity: Severity  # of its findings, unless one says otherwise
    title: str
    meaning: str  # for docs/rules.md and `explain`: when it fires and what follows
    references: tuple[str, ...]
    remedies: Mapping[str, tuple[str, ...]]
    """When → the templates of its lines (see `preflight.remedy`); "" is always."""
    function: Callable[["Rule", Any], Iterable[Finding]]
    needs: tuple[str, ...] = ()  # names of rows in `preflight.needs`

    @property
    def remedy(self) -> tuple[str, ...]:
        """All its lines as documentation prints them, behind a comment that says when."""
        lines: list[str] = []
        for when, templates in self.remedies.items():
            lines += [f"# {when}:"] if when else []
            lines += map(documented, templates)
        return tuple(lines)

    def check(self, case: Any) -> Iterable[Finding]:
        """What it finds."""
        return self.function(self, case)

    def finding(
        self,
        summary: str,
        *,
        device: str | None = None,
        port: int | None = None,
        evidence: Iterable[Proof] = (),
        when: str = "",
        lines: Iterable[str] | None = None,
        fill: Mapping[str, Any] = _NO_VALUES,
        severity: Severity | None = None,
        expected: str | None = None,
        actual: str | None = None,
    ) -> Finding:
        """One finding; severity and references are the rule's unless given.

        Its remedy is the one of `when`, or `lines`, with the values of `fill`, and with
        {device} and {port}, which are the finding's own unless they are there.
        """
        templates = self.remedies[when] if lines is None else lines
        values = {"device": device, "port": port, **fill}
        return Finding(
            rule=self.code,
            severity=severity or self.severity,
            device=device,
            port=port,
            summary=summary,
            evidence=tuple(evidence),
            remedy=tuple(filled(templates, values)),
            references=self.references,
            expected=expected,
            actual=actual,
            see=page_of_rule(self.code),
        )


def rule(
    code: str,
    severity: Severity,
    title: str,
    meaning: str,
    references: tuple[str, ...] = (),
    remedy: tuple[str, ...] | Mapping[str, tuple[str, ...]] = (),
    needs: tuple[str, ...] = (),
) -> Callable[[Callable[[Rule, C], Iterable[Finding]]], Rule]:
    """Makes a Rule of a function (rule, case) → findings.

    `remedy` is its lines, or where they differ lines by when each applies. Without one of its
    `needs` it is skipped: see `preflight.needs`.
    """
    remedies = {"": remedy} if isinstance(remedy, tuple) else remedy

    def make(function: Callable[[Rule, C], Iterable[Finding]]) -> Rule:
        return Rule(code, severity, title, meaning, references, remedies, function, needs)

    return make


def idle_or_broken(case: Case) -> Severity:
    """An idle port beside a working one is often just unused; it is critical when asked for.

    Unknown where another port may be working, and could not be looked at.
    """
    if case.selected:
        return Severity.CRITICAL
    if any(port.is_active for _, port in case.ports):
        return Severity.WARN
    unseen = any(not port.states for _, port in case.ports) or any(EVERY_PORT.lacks(case))
    return Severity.UNKNOWN if unseen else Severity.CRITICAL


def without_link(case: Case, device: DeviceView, port: PortView) -> Severity:
    """The same of a port without a link: a note where nobody seems to use it."""
    severity = idle_or_broken(case)
    if severity is not Severity.WARN:
        return severity
    unused = is_unused(device, port, case.devices, case.evidence)
    if unused is None or (unused and any(EVERY_PORT.lacks(case))):
        return Severity.UNKNOWN
    return Severity.INFO if unused else Severity.WARN


UNUSED: Final = "; nobody seems to use it"
