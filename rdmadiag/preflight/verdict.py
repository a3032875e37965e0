"""Findings of rules, and the verdict that they add up to."""

from collections.abc import Iterable
from enum import StrEnum

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import LinkLayer, PortState
from rdmadiag.frozen import dataclass
from rdmadiag.gid.route import Route
from rdmadiag.preflight.safety import Reason
from rdmadiag.view.reconcile import PortView, Protocol


class Severity(StrEnum):
    """How much a finding matters; `unknown` is a question that could not be answered."""

    INFO = "info"
    WARN = "warn"
    UNKNOWN = "unknown"
    CRITICAL = "critical"


class Status(StrEnum):
    """A verdict in one word, from best to worst."""

    OK = "ok"
    WARN = "warn"
    UNKNOWN = "unknown"
    CRITICAL = "critical"


_STATUS_OF = {
    Severity.INFO: Status.OK,
    Severity.WARN: Status.WARN,
    Severity.UNKNOWN: Status.UNKNOWN,
    Severity.CRITICAL: Status.CRITICAL,
}
_ORDER = list(Status)


def status_of(severity: Severity) -> Status:
    """What a finding of this severity makes of a verdict that has no worse one."""
    return _STATUS_OF[severity]


def worse(first: Status, second: Status) -> Status:
    """Of two."""
    return max(first, second, key=_ORDER.index)


@dataclass(frozen=True, slots=True)
class Proof:
    """One piece of evidence: where it was seen, and what stood there."""

    source: str  # "sysfs", "nldev", "netdev", "process", "system", "verbs", "kernel_log", …
    subject: str  # the file, netlink attribute or command
    value: str  # as found


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says of one host, device or port."""

    rule: str
    severity: Severity
    device: str | None
    port: int | None
    summary: str  # one line
    evidence: tuple[Proof, ...]
    remedy: tuple[str, ...]  # shell lines to paste; advice stands behind "#"
    references: tuple[str, ...]
    expected: str | None = None  # of an expectation that is not met
    actual: str | None = None  # None beside `expected`: it could not be looked at
    see: str | None = None  # the rule's page, by its place on the documentation's site


class Rung(StrEnum):
    """From the lowest to the highest."""

    SEEN = "seen"  # a source shows the port
    OPENED = "opened"  # the verbs library opens the device
    LINK = "link"  # the port is ACTIVE
    ADDRESSED = "addressed"  # a LID and a partition key, or a GID to send from
    ROUTABLE = "routable"  # the GID's netdev is up, here, and answers by itself
    LOSSLESS = "lossless"  # some priority has PFC, and no class that is set misses it
    PERMITTED = "permitted"  # one bounded RTR attempt
    PROVEN = "proven"  # a pingpong has verified its data


class Footing(StrEnum):
    """How a port stands on a rung."""

    REACHED = "reached"
    NOT_NEEDED = "not_needed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    NOT_TRIED = "not_tried"


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One rung of one port."""

    rung: Rung
    footing: Footing
    why: str | None = None  # a reason against RTR, or a rule, by its code
    text: str = ""  # one line
    remedy: tuple[str, ...] = ()  # shell lines to paste


@dataclass(frozen=True, slots=True)
class PortVerdict(WithNumbers):
    """One port, and whether one bounded RTR attempt on it is permitted."""

    device: str
    port: int
    link_layer: LinkLayer | Missing
    state: PortState | Missing
    state_number: int | None
    rate_gbps: float | Missing
    netdev: str | Missing
    safe_to_attempt_rtr: bool
    route_gid_index: int | None
    route_gid: str | None
    route_reason: str
    reasons: tuple[Reason, ...]
    pkey_index: int | None = None  # of the partition key that an attempt uses; InfiniBand
    pkey: str | None = None  # "0xffff"; None: not read
    ladder: tuple[LadderStep, ...] = ()  # with --ladder: the lowest rung first


@dataclass(frozen=True, slots=True)
class Skipped:
    """A rule that could not be checked, on the whole host or at one device or port."""

    rule: str
    device: str | None
    port: int | None
    need: str  # what it needs, by its name in docs/rules.md
    source: str | None  # the source that gave nothing at all; None: a part of one
    why: Why  # it could not be read
    detail: str


@dataclass(frozen=True, slots=True)
class ExpectationCount:
    """How many comparisons there were: what is expected of each port counts for each."""

    compared: int
    met: int
    unknown: int  # could not be looked at


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: a status, whether RTR may be attempted, and everything behind it."""

    status: Status
    safe_to_attempt_rtr: bool
    ports: tuple[PortVerdict, ...]
    findings: tuple[Finding, ...]  # the worst first
    rules_asked: tuple[str, ...] = ()  # every rule that is for this host
    expectations: ExpectationCount | None = None  # None: nothing was expected
    reasons: tuple[Reason, ...] = ()  # of the host: why an attempt is permitted, or why not
    skipped: tuple[Skipped, ...] = ()  # of `rules_asked`, what could not be checked, and where


def weighed(findings: Iterable[Finding]) -> tuple[Status, tuple[Finding, ...]]:
    """The status that findings add up to, and the findings, the worst first."""
    ranked = tuple(sorted(findings, key=lambda each: -_ORDER.index(_STATUS_OF[each.severity])))
    return (_STATUS_OF[ranked[0].severity] if ranked else Status.OK), ranked


def conclude(
    ports: Iterable[tuple[PortView, tuple[Reason, ...]]],
    findings: Iterable[Finding],
    *,
    reasons: Iterable[Reason] = (),
    rules: Iterable[str] = (),
    skipped: Iterable[Skipped] = (),
    expectations: ExpectationCount | None = None,
) -> Verdict:
    """The verdict over ports, each with its reasons against RTR, `reasons` of the host, findings.

    One attempt concerns one port: the host permits it where a port does.
    """
    judged = tuple(_port(view, reasons) for view, reasons in ports)
    status, ranked = weighed(findings)
    return Verdict(
        status=status,
        safe_to_attempt_rtr=any(port.safe_to_attempt_rtr for port in judged),
        ports=judged,
        findings=ranked,
        rules_asked=tuple(rules),
        skipped=tuple(skipped),
        expectations=expectations,
        reasons=tuple(reasons),
    )


def _port(view: PortView, reasons: tuple[Reason, ...]) -> PortVerdict:
    route = view.route if isinstance(view.route, Route) else None
    return PortVerdict(
        device=view.device,
        port=view.number,
        link_layer=view.link_layer,
        state=view.state,
        state_number=None if isinstance(view.state, Missing) else view.state.number,
        rate_gbps=view.rate_gbps,
        netdev=view.netdev,
        safe_to_attempt_rtr=not reasons,
        route_gid_index=route.index if route else None,
        route_gid=str(route.gid) if route else None,
        route_reason=view.route.reason,
        reasons=reasons,
        pkey_index=view.pkey_index if view.protocol is Protocol.INFINIBAND else None,
        pkey=None if isinstance(view.pkey, Missing) else f"{view.pkey:#06x}",
    )
