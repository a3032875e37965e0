"""What a rule is, what it is given, and how it speaks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import DeviceView, PortView

if TYPE_CHECKING:  # imported where `--stack` or `--expect` asks for one
    from rdmadiag.gid.registry import Chosen
    from rdmadiag.preflight.expectations.compare import Compared

C = TypeVar("C")

RECORD_ANEW = "rdmadiag snapshot DIR   # on that host: an older record does not hold this"
"""The remedy where a record leaves out what a rule of `counters` or `resources` needs."""


@dataclass(frozen=True, slots=True)
class Case:
    """What there is to judge: all the evidence, and the devices that were selected."""

    evidence: Evidence
    devices: tuple[DeviceView, ...]
    selected: bool = False  # the user named devices; an unused port is then no longer plausible
    stacks: "tuple[Chosen, ...]" = ()  # those that the user named
    expected: tuple["Compared", ...] = ()  # what was asked of this host, and whether it is so

    @property
    def ports(self) -> Iterator[tuple[DeviceView, PortView]]:
        """The selected ports with their devices."""
        for device in self.devices:
            for port in device.ports:
                yield device, port


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
    remedy: tuple[str, ...]  # for the same readers: words in capitals stand for names of a host
    check: Callable[[Any], Iterable[Finding]]


def rule(
    code: str,
    severity: Severity,
    title: str,
    meaning: str,
    references: tuple[str, ...] = (),
    remedy: tuple[str, ...] = (),
) -> Callable[[Callable[["Speaker", C], Iterable[Finding]]], Rule]:
    """Makes a Rule of a function (speaker, case) → findings."""

    def make(function: Callable[["Speaker", C], Iterable[Finding]]) -> Rule:
        speaker = Speaker(code, severity, references)
        return Rule(
            code, severity, title, meaning, references, remedy, lambda case: function(speaker, case)
        )

    return make


@dataclass(frozen=True, slots=True)
class Speaker:
    """Builds the findings of one rule."""

    code: str
    severity: Severity
    references: tuple[str, ...]

    def finding(
        self,
        summary: str,
        *,
        device: str | None = None,
        port: int | None = None,
        evidence: Iterable[Proof] = (),
        remedy: Iterable[str] = (),
        severity: Severity | None = None,
        expected: str | None = None,
        actual: str | None = None,
    ) -> Finding:
        """One finding; severity and references are the rule's unless given."""
        return Finding(
            rule=self.code,
            severity=severity or self.severity,
            device=device,
            port=port,
            summary=summary,
            evidence=tuple(evidence),
            remedy=tuple(remedy),
            references=self.references,
            expected=expected,
            actual=actual,
        )


def seen(value: Any) -> str:
    """A value as evidence prints it: the number beside an enum's word, or why it is missing."""
    if isinstance(value, Missing):
        return str(value)
    number = getattr(value, "number", None)
    return str(value) if number is None else f"{number}: {value}"


def port_attribute(port: PortView, name: str, value: Any) -> Proof:
    """A file below the port's folder in sysfs."""
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
    return Proof("sysfs", f"{folder}/{name}", seen(value))


def verbs_answer(port: PortView, name: str, value: Any) -> Proof:
    """A field of what ibv_query_port or ibv_query_gid gave for the port."""
    call = "ibv_query_gid" if name.startswith("gid") else "ibv_query_port"
    return Proof("verbs", f"{call} {port.name}: {name}", seen(value))


def idle_or_broken(case: Case) -> Severity:
    """An idle port beside a working one is often just unused; it is critical when asked for."""
    others = any(port.is_active for _, port in case.ports)
    return Severity.WARN if others and not case.selected else Severity.CRITICAL
