"""From two hosts' reports to what keeps them apart: pure. No packet was sent.

Each address of one that may meet one of the other is looked at from both ends: by the rules of
`route`, which judge one end's way, and by those that need both.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Final

from rdmadiag.facts import known, present
from rdmadiag.facts.job import TcpState
from rdmadiag.facts.routing import UNANSWERED, NeighbourState
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules import ends, peer_route
from rdmadiag.preflight.rules.ends_addresses import named_address_unusable, subnets_differ
from rdmadiag.preflight.rules.ends_netdevs import (
    is_below_ethernets,
    layers_differ,
    mtu_differs,
    stands_on_others,
)
from rdmadiag.preflight.rules.ends_ports import PortsCase
from rdmadiag.preflight.rules.peer_route import PeerCase
from rdmadiag.preflight.verdict import Finding, Severity, Status, status_of, worse
from rdmadiag.view.cm_device import Obstacle
from rdmadiag.view.compat import Compat, PortsBeside, compat, limited, limited_stack, with_ports
from rdmadiag.view.ends import (
    BY_ADDRESS,
    HostEnd,
    Meeting,
    Odd,
    Towards,
    all_addresses,
    at_home,
    goes_by_address,
    is_one_host,
    meetings,
    named,
    not_seen,
    odd,
    own_addresses,
    ports_on,
    routed_without_device,
)
from rdmadiag.view.peer_picks import BEST_FIRST, End, Side, StackPair, Talks
from rdmadiag.view.reconcile import Protocol, ports


@dataclass(frozen=True, slots=True)
class EndFinding:
    """What one rule says of one host, or of both, on their way to each other."""

    hosts: tuple[str, ...]  # where it is to be mended; both where the two do not fit each other
    object: str  # "neighbour entry of 192.0.2.2 on eth0"
    towards: str  # the host that is not reached
    addresses: tuple[str, str] | None  # of the first host, of the other; None: of ports
    finding: Finding


@dataclass(frozen=True, slots=True)
class Ways:
    """Between two addresses: what the reports of both hosts leave of it."""

    here: frozenset[End]  # the ports that send from the address
    there: frozenset[End]
    protocol: Protocol
    addresses: tuple[str, str]
    talks: Talks  # no better than this
    finding: EndFinding | None  # for this; None where nothing is against it


@dataclass(frozen=True, slots=True)
class EndsVerdict:
    """All of it."""

    status: Status
    findings: tuple[EndFinding, ...]  # the worst first
    stops: EndFinding | None  # one that stops each pair of addresses, where each is stopped
    pairs: int  # of addresses that were held against each other
    unknown: tuple[str, ...]  # what of which host was not read, one line each
    ways: tuple[Ways, ...] = ()  # of each such pair
    heard: tuple[str, ...] = ()  # hosts to which the other answers, by their neighbour tables
    # What a host looked for lately, and nobody answered: (host, address) of neither's addresses.
    unanswered: tuple[tuple[str, str], ...] = ()
    # Of the addresses that were used those that no host can have, and why.
    odd: tuple[tuple[str, Odd], ...] = ()
    without_rdma_cm: tuple[str, ...] = ()  # hosts whose programs cannot open the node of rdma_cm
    left_out: int = 0  # pairs that were not held against each other, for their number
    # Addresses that the other host has a route of their own to, and no RDMA device is behind:
    # (host that has it, address, netdev).
    without_device: tuple[tuple[str, str, str], ...] = ()


_LINK_LOCAL: Final = "fe80:"
LATELY: Final = 120.0
"""Seconds in which a look for a neighbour may be that of what failed."""
_NO_WAY: Final = frozenset({"cm-no-way", "ends-subnets-differ"})
_OF_BOTH: Final = frozenset({"ends-mac-twice", "ends-no-carrier", "ends-subnets-differ"})
_OF_ROUTE: Final = tuple(
    each
    for each in peer_route.RULES
    if each.code not in ("cm-way-unknown", "cm-ways-differ", "cm-other-device")
)
NOTHING_PASSES: Final = frozenset(
    {
        *("cm-no-way", "ends-peer-address-here", "ends-answers-no-arp", "ends-neighbour-wrong"),
        *("ends-reverse-path", "ends-subnets-differ", "ends-traffic-dropped"),
        *("cm-leaves-by-other-netdev", "ends-asks-no-neighbour", "ends-no-carrier"),
    }
)
"""Rules whose critical finding stops all packets between two addresses, not those of rdma_cm
alone."""
_NOTHING_ON_ONE_SUBNET: Final = frozenset({"ends-mac-twice"})
"""The same where no router is between the two."""
_ORDER: Final = (Severity.CRITICAL, Severity.UNKNOWN, Severity.WARN, Severity.INFO)


def judge(here: HostEnd, there: HostEnd, among: frozenset[str] = frozenset()) -> EndsVerdict:
    """What the two reports show. `among`: addresses that were used, where that is known."""
    if is_one_host(here, there):
        one = f"{here.name} and {there.name} have the same addresses: one host, by two reports"
        return EndsVerdict(Status.UNKNOWN, (), None, 0, (one,))
    met, left_out = meetings(here, there, among)
    own = all_addresses(here.evidence) | all_addresses(there.evidence)
    strangers = tuple(sorted(among - own))
    shared = _shared(here, there)
    judged = [(each, tuple(_at_the_odd_one(_of(each, strangers), each, shared))) for each in met]
    beside = [*_beside(here, there), *_of_named(here, there, among)]
    findings = tuple(_once([*beside, *(found for _, several in judged for found in several)]))
    seen = (here, there) if all(map(goes_by_address, (here, there))) else ()
    unknown = tuple(f"{end.name}: {why}" for end in seen if (why := not_seen(end)) is not None)
    if left_out:
        more = f"{left_out} more pairs of addresses, beyond {len(met)}"
        unknown = (*unknown, f"{here.name} and {there.name}: {more}")
    status = Status.UNKNOWN if unknown or not met else Status.OK
    for each in findings:
        status = worse(status, status_of(each.finding.severity))
    ways = tuple(_ways(here, there, *each) for each in judged)
    stopped = bool(ways) and all(each.talks is Talks.NO for each in ways)
    heard = tuple(dict.fromkeys(name for each in met for name in _answered(each)))
    return EndsVerdict(
        status,
        findings,
        ways[0].finding if stopped else None,
        len(met),
        unknown,
        ways,
        heard,
        tuple(_unanswered(here, own)) + tuple(_unanswered(there, own)),
        tuple(_odd(here, there, among)),
        tuple(each.name for each in (here, there) if _has_no_rdma_cm(each)),
        left_out=left_out,
        without_device=tuple(
            (far.name, *each)
            for near, far in ((here, there), (there, here))
            for each in routed_without_device(near, far)
        ),
    )


def with_ways(found: Compat, judged: EndsVerdict) -> Compat:
    """The answer of `compat`, where ports would do and ways between them are stopped."""
    return with_ports(found, (_on_its_ways(each, judged) for each in found.ports))


def _on_its_ways(pair: PortsBeside, judged: EndsVerdict) -> PortsBeside:
    ways = [
        each
        for each in judged.ways
        if pair.here in each.here and pair.there in each.there and pair.protocol is each.protocol
    ]
    if not ways:
        may_be_stopped = judged.stops is not None or judged.left_out
        if not may_be_stopped or pair.protocol not in BY_ADDRESS:
            return pair
        return limited(pair, Talks.UNKNOWN, f"{pair.why}; that way was not looked at")
    stacks = tuple(_on_its_way(each, ways) for each in pair.stacks)
    best = min(ways, key=lambda each: BEST_FIRST.index(each.talks))
    less = next((each for each in ways if each.finding is not None), None)
    pair = replace(pair, stacks=stacks)
    if best.finding is not None:
        return limited(pair, best.talks, _said(best.finding))
    if less is None or less.finding is None or pair.talks is Talks.NO:
        return pair
    # Which of its addresses a program takes is its own choice.
    stopped = f"{'not' if less.talks is Talks.NO else 'not known'} between"
    why = f"{stopped} {' and '.join(less.addresses)}  [{less.finding.finding.rule}]"
    if pair.talks is Talks.UNKNOWN:
        return replace(pair, why=f"{pair.why}; {why}")
    free = " and ".join(best.addresses)
    return limited(pair, Talks.UNKNOWN, f"{why}; nothing is known against {free}")


def _on_its_way(stack: StackPair, ways: Iterable[Ways]) -> StackPair:
    """No better than the way between the addresses that it would take."""
    entries = stack.local.entry, stack.remote.entry
    taken = tuple(each.gid.ipv4 or str(each.gid) for each in entries if each is not None)
    way = next((each for each in ways if each.addresses == taken), None)
    if way is None or way.finding is None:
        return stack
    return limited_stack(stack, way.talks, _said(way.finding))


def _said(found: EndFinding) -> str:
    return f"{found.finding.summary}  [{found.finding.rule}]"


def _ways(here: HostEnd, there: HostEnd, meeting: Meeting, found: tuple[EndFinding, ...]) -> Ways:
    mine, theirs = meeting.here.mine, meeting.there.mine
    critical = [each for each in found if each.finding.severity is Severity.CRITICAL]
    stops = NOTHING_PASSES | (_NOTHING_ON_ONE_SUBNET if meeting.is_on_one_subnet else frozenset())
    stop = next((each for each in critical if each.finding.rule in stops), None)
    talks = Talks.NO if stop else Talks.UNKNOWN if critical else Talks.YES
    return Ways(
        ports_on(here, mine.netdev.name),
        ports_on(there, theirs.netdev.name),
        mine.protocol,
        (mine.address, theirs.address),
        talks,
        stop or next(iter(critical), None),
    )


def _beside(here: HostEnd, there: HostEnd) -> Iterator[EndFinding]:
    """What the ports of both differ in."""
    first, second = (Side(at_home(ports(end.devices)), end.evidence, {}) for end in (here, there))
    case = PortsCase(here.name, there.name, compat(first, second, ()))
    for rule in ends.OF_PORTS:
        for each in rule.check(case):
            hosts = (here.name, there.name)
            yield EndFinding(hosts, each.evidence[0].subject, there.name, None, each)


def _of_named(here: HostEnd, there: HostEnd, among: frozenset[str]) -> Iterator[EndFinding]:
    """Of the addresses that a program was given: whether they work at the host that has them."""
    for near, far in ((here, there), (there, here)):
        for address in sorted(among):
            case = named(near, far, address)
            for each in named_address_unusable.check(case) if case else ():
                where = f"{address} on {case.netdev}" if case else address
                yield EndFinding((near.name,), where, far.name, None, each)


def _of(meeting: Meeting, strangers: Sequence[str]) -> Iterator[EndFinding]:
    if _are_apart(meeting):
        for each in subnets_differ.check(meeting.here):
            found = _found(each, meeting.here)
            yield replace(found, hosts=_off(meeting, strangers) or found.hosts)
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
    no_route = all(each and each.obstacle is Obstacle.NO_ROUTE for each in stops)
    return no_route and not meeting.is_on_one_subnet


def _answered(meeting: Meeting) -> Iterator[str]:
    for case in (meeting.here, meeting.there):
        entry, mac = case.neighbour, case.theirs.netdev.mac
        if not case.is_direct or entry is None or entry.mac != mac:
            continue
        if entry.state is NeighbourState.REACHABLE:
            yield case.near.name


def _unanswered(end: HostEnd, own: frozenset[str]) -> Iterator[tuple[str, str]]:
    routing = known(end.evidence.routing)
    netdevs = {each.netdev.name for each in own_addresses(end.evidence, end.devices)}
    for each in (known(routing.neighbours) if routing else None) or ():
        lately = each.updated_s is not None and each.updated_s <= LATELY
        if not lately:
            continue
        if each.address.startswith(_LINK_LOCAL):
            # Of another netdev: of a host that has the address on this link somebody answers.
            if each.state in UNANSWERED and each.netdev not in netdevs:
                yield end.name, f"{each.address}%{each.netdev}"
        elif each.netdev in netdevs and each.address not in own:
            to_all = odd(end, each.address) is Odd.BROADCAST
            if each.state in UNANSWERED or to_all:
                yield end.name, each.address
    programs = known(end.evidence.programs)
    mine = {each.address for each in own_addresses(end.evidence, end.devices)}
    for row in present(programs.unanswered) if programs else ():
        if row.state is TcpState.SYN_SENT and row.local in mine and row.remote not in own:
            yield end.name, row.remote


def _odd(here: HostEnd, there: HostEnd, among: frozenset[str]) -> Iterator[tuple[str, Odd]]:
    for address in sorted(among):
        kind = odd(here, address) or odd(there, address)
        if kind is not None:
            yield address, kind


def _has_no_rdma_cm(end: HostEnd) -> bool:
    process = known(end.evidence.process)
    nodes = known(process.nodes) if process else None
    if nodes is None:
        return False
    node = next((each for each in nodes if each.name == "rdma_cm"), None)
    return node is None or node.openable is False


def _off(meeting: Meeting, strangers: Sequence[str]) -> tuple[str, ...]:
    """The host whose address is of another subnet than the one at which it was looked for."""
    here, there = meeting.here, meeting.there
    for each in strangers:
        held = [case.mine.holds(each) for case in (here, there)]
        if held[0] is not held[1]:
            return (there.near.name if held[0] else here.near.name,)
    return ()


def _shared(here: HostEnd, there: HostEnd) -> frozenset[str]:
    """Addresses of both by which they are on one subnet, by the prefix length of either."""
    ours, theirs = (own_addresses(each.evidence, each.devices) for each in (here, there))
    pairs = [
        (one.address, other.address)
        for one, other in product(ours, theirs)
        if (":" in one.address) is (":" in other.address)
        if one.holds(other.address) or other.holds(one.address)
    ]
    return frozenset(chain.from_iterable(pairs))


def _at_the_odd_one(
    found: Iterable[EndFinding], meeting: Meeting, shared: frozenset[str]
) -> Iterator[EndFinding]:
    """Where no way leads between two addresses, of which one is of a subnet that both hosts have
    and the other is not, it is the host of the other that uses one which does not fit; of an
    address that a route of somebody's own gives, it is the host that has no way to it.
    """
    cases = (meeting.here, meeting.there)
    odd_ones = [each.near.name for each in cases if each.mine.address not in shared]
    only = not (meeting.is_on_one_subnet or meeting.by_route) and len(odd_ones) == 1
    for each in found:
        yield (
            replace(each, hosts=tuple(odd_ones)) if only and each.finding.rule in _NO_WAY else each
        )


def _hosts(finding: Finding, case: Towards) -> tuple[str, ...]:
    hosts = (case.near.name, case.far.name)
    if finding.rule in _OF_BOTH:
        return hosts
    if finding.rule == layers_differ.code and stands_on_others(case.theirs.netdev):
        return hosts
    if finding.rule == mtu_differs.code and is_below_ethernets(case.theirs.netdev):
        return hosts[1:]
    return hosts[:1]


def _found(finding: Finding, case: Towards) -> EndFinding:
    proof = next(iter(finding.evidence), None)
    return EndFinding(
        _hosts(finding, case),
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
