"""From two hosts' reports to what keeps them apart: pure. No packet was sent.

Each address of one that may meet one of the other is looked at from both ends: by the rules of
`route`, which judge one end's way, and by those that need both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules import ends, peer_route
from rdmadiag.preflight.rules.peer_route import PeerCase
from rdmadiag.preflight.verdict import Finding, Severity, Status, status_of, worse
from rdmadiag.view.compat import Compat, compat
from rdmadiag.view.ends import (
    HostEnd,
    Meeting,
    Towards,
    at_home,
    goes_by_address,
    is_one_host,
    meetings,
    not_seen,
)
from rdmadiag.view.peer_picks import Side, Talks
from rdmadiag.view.peer_route import Obstacle
from rdmadiag.view.reconcile import ports


@dataclass(frozen=True, slots=True)
class EndFinding:
    """What one rule says of one host, or of both, on their way to each other."""

    hosts: tuple[str, ...]  # where it is to be mended; both where the two do not fit each other
    object: str  # "neighbour entry of 192.0.2.2 on eth0"
    towards: str  # the host that is not reached
    addresses: tuple[str, str] | None  # of the first host, of the other; None: of ports
    finding: Finding


@dataclass(frozen=True, slots=True)
class EndsVerdict:
    """All of it."""

    status: Status
    findings: tuple[EndFinding, ...]  # the worst first
    stops: EndFinding | None  # one that stops each pair of addresses, where each is stopped
    pairs: int  # of addresses that were held against each other
    unknown: tuple[str, ...]  # what of which host was not read, one line each


_OF_BOTH: Final = frozenset(
    {"ends-mtu-differs", "ends-mac-twice", "ends-subnets-differ"},
)
_OF_ROUTE: Final = tuple(
    each
    for each in peer_route.RULES
    if each.code not in ("cm-way-unknown", "cm-ways-differ", "cm-other-device")
)
NOTHING_PASSES: Final = frozenset(
    {
        *("cm-no-way", "ends-peer-address-here", "ends-answers-no-arp", "ends-neighbour-wrong"),
        *("ends-reverse-path", "ends-subnets-differ", "ends-traffic-dropped"),
    }
)
"""Rules whose critical finding stops all packets between two addresses, not those of rdma_cm
alone."""
_ORDER: Final = (Severity.CRITICAL, Severity.UNKNOWN, Severity.WARN, Severity.INFO)


def judge(here: HostEnd, there: HostEnd, among: frozenset[str] = frozenset()) -> EndsVerdict:
    """What the two reports show. `among`: addresses that were used, where that is known."""
    if is_one_host(here, there):
        one = f"{here.name} and {there.name} have the same addresses: one host, by two reports"
        return EndsVerdict(Status.UNKNOWN, (), None, 0, (one,))
    met = meetings(here, there, among)
    judged = [(each, tuple(_of(each))) for each in met]
    beside = _beside(here, there)
    findings = tuple(_once([*beside, *(found for _, several in judged for found in several)]))
    seen = (here, there) if all(map(goes_by_address, (here, there))) else ()
    unknown = tuple(f"{end.name}: {why}" for end in seen if (why := not_seen(end)) is not None)
    status = Status.UNKNOWN if unknown or not met else Status.OK
    for each in findings:
        status = worse(status, status_of(each.finding.severity))
    return EndsVerdict(status, findings, _stops(judged), len(met), unknown)


def with_ways(found: Compat, judged: EndsVerdict) -> Compat:
    """The answer of `compat`, where ports would do and ways between them are stopped."""
    if found.talks is Talks.NO:
        return found
    stop = judged.stops
    if stop is not None:
        return replace(found, talks=Talks.NO, why=f"{stop.finding.summary}  [{stop.finding.rule}]")
    some = next((each for each in judged.findings if _is_stop(each)), None)
    if some is None or some.addresses is None:
        return found
    between = " and ".join(some.addresses)
    return replace(found, why=f"{found.why}; but not between {between}  [{some.finding.rule}]")


def _is_stop(each: EndFinding) -> bool:
    return each.finding.severity is Severity.CRITICAL and each.finding.rule in NOTHING_PASSES


def _beside(here: HostEnd, there: HostEnd) -> Iterator[EndFinding]:
    """What the ports of both differ in."""
    first, second = (Side(at_home(ports(end.devices)), end.evidence, {}) for end in (here, there))
    case = ends.PortsCase(here.name, there.name, compat(first, second, ()))
    for rule in ends.OF_PORTS:
        for each in rule.check(case):
            hosts = (here.name, there.name)
            yield EndFinding(hosts, each.evidence[0].subject, there.name, None, each)


def _of(meeting: Meeting) -> Iterator[EndFinding]:
    if _are_apart(meeting):
        for each in ends.subnets_differ.check(meeting.here):
            yield _found(each, meeting.here)
        return
    for case in (meeting.here, meeting.there):
        for rule in ends.OF_EACH_WAY:
            for each in rule.check(case):
                yield _found(each, case)
        if case.owner is not None:
            continue  # it leads back to the host itself
        for rule in _OF_ROUTE:
            for each in rule.check(PeerCase(case.route, (), bool(case.near.devices))):
                yield _found(each, case)


def _are_apart(meeting: Meeting) -> bool:
    here, there = meeting.here, meeting.there
    stops = [each.route.stop for each in (here, there)]
    return all(each and each.obstacle is Obstacle.NO_ROUTE for each in stops) and not (
        here.mine.holds(here.theirs.address) or there.mine.holds(there.theirs.address)
    )


def _found(finding: Finding, case: Towards) -> EndFinding:
    hosts = (case.near.name, case.far.name)
    proof = next(iter(finding.evidence), None)
    return EndFinding(
        hosts if finding.rule in _OF_BOTH else hosts[:1],
        proof.subject if proof else finding.rule,
        case.far.name,
        (case.mine.address, case.theirs.address),
        finding,
    )


def _once(found: Iterable[EndFinding]) -> list[EndFinding]:
    """One of each rule and object of a host: several addresses may show the same."""
    kept: dict[tuple[object, ...], EndFinding] = {}
    for each in found:
        pair = len(each.hosts) > 1  # each end would name its own object
        what = frozenset(each.addresses or ()) if pair else each.object
        where = each.finding.device if each.addresses is None else None
        kept.setdefault((each.finding.rule, frozenset(each.hosts), what, where), each)
    return sorted(kept.values(), key=lambda each: _ORDER.index(each.finding.severity))


def _stops(judged: Iterable[tuple[Meeting, tuple[EndFinding, ...]]]) -> EndFinding | None:
    """The first of what stops them, where no pair of addresses is left."""
    found = [next(filter(_is_stop, several), None) for _, several in judged]
    return found[0] if found and all(each is not None for each in found) else None
