"""What is wrong with each of two hosts by itself, on the ports that are held against each other.

Whether two ports can talk is not known where one of them has a critical finding of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.judge_ends import EndFinding, EndsVerdict
from rdmadiag.preflight.verdict import Finding, Severity, Status
from rdmadiag.view.compat import Compat, PortsBeside, limited, with_ports
from rdmadiag.view.ends import HostEnd, at_home
from rdmadiag.view.peer_picks import End, Talks
from rdmadiag.view.reconcile import ports


@dataclass(frozen=True, slots=True)
class EachEnd:
    """The critical findings of `preflight` on either host."""

    here: tuple[Finding, ...]
    there: tuple[Finding, ...]


def each_end(here: HostEnd, there: HostEnd) -> EachEnd:
    """Both judged by themselves; not on ports of other network namespaces."""
    return EachEnd(_critical(here), _critical(there))


def _critical(end: HostEnd) -> tuple[Finding, ...]:
    every = tuple(ports(end.devices))
    own = {each.device for each in at_home(every)} or {each.device for each in every}
    elsewhere = {each.device for each in every} - own
    return tuple(
        each
        for each in judge(end.evidence).findings
        if each.severity is Severity.CRITICAL and each.device not in elsewhere
    )


def with_each_end(found: Compat, own: EachEnd) -> Compat:
    """The answer of `compat`, which is no better than not known on such ports."""
    return with_ports(found, (_by_itself(each, own) for each in found.ports))


def _by_itself(pair: PortsBeside, own: EachEnd) -> PortsBeside:
    said = []
    for name, end, findings in (("A", pair.here, own.here), ("B", pair.there, own.there)):
        held = [each for each in findings if _is_of(each, end)]
        if held:
            more = f" and {len(held) - 1} more" if held[1:] else ""
            said.append(f"{name} by itself: {held[0].rule}{more}")
    if not said:
        return pair
    # What is wrong says more than what is not known.
    known = replace(pair, talks=Talks.ROUTED) if pair.talks is Talks.UNKNOWN else pair
    return limited(known, Talks.UNKNOWN, "; ".join(said))


def _is_of(finding: Finding, end: End) -> bool:
    """Of the port, its device or the whole host."""
    return finding.device in (None, end.device) and finding.port in (None, end.port)


def beside_ways(
    judged: EndsVerdict, found: Compat, here: HostEnd, there: HostEnd, own: EachEnd
) -> EndsVerdict:
    """What stands in the way between the hosts, with what each has of its own before it."""
    first = _on_ports(own.here, [each.here for each in found.ports], here, there)
    second = _on_ports(own.there, [each.there for each in found.ports], there, here)
    findings = (*first, *second)
    if not findings:
        return judged
    return replace(judged, status=Status.CRITICAL, findings=(*findings, *judged.findings))


def _on_ports(
    findings: Sequence[Finding], ends: Sequence[End], near: HostEnd, far: HostEnd
) -> Iterator[EndFinding]:
    """All where no two ports are held against each other: they may say why."""
    for each in findings:
        if not ends or any(_is_of(each, end) for end in ends):
            subject = each.evidence[0].subject if each.evidence else each.rule
            yield EndFinding((near.name,), subject, far.name, None, each)
