"""What the reports of a job's hosts, held against each other, say of what failed or only stopped.

A program that waits says nothing: where two reports show that packets of one host cannot reach the
other, that is the answer. Where they show nothing, what is between the hosts is left.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rdmadiag.explain.causes import stated
from rdmadiag.explain.job.odd_host import OddHost, of_settings, without_address
from rdmadiag.explain.job.story import FirstFailure, OfReports, PrintedEnd, Story
from rdmadiag.explain.log.account import Failure, LikelyCause, Standing
from rdmadiag.explain.log.kind import STOPPED
from rdmadiag.explain.log.ranking.by_report import MOST_WITH_REPORT
from rdmadiag.facts import known
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.naming import NamingFacts
from rdmadiag.preflight.judge_ends import NOTHING_PASSES, EndFinding, EndsVerdict
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.quoting import shell_word
from rdmadiag.view.ends import Has, Odd

LABELS: Final = {
    "ends-no-carrier": "port-down",
    "cm-no-way": "no-route",
    "cm-leaves-by-other-netdev": "no-route",
    "cm-no-device": "no-rdma-at-address",
    "cm-no-gid": "no-rdma-at-address",
    "cm-address-of-other-netdev": "no-rdma-at-address",
    "cm-port-not-active": "port-down",
    "ends-peer-address-here": "peer-is-own-address",
    "ends-mac-twice": "peer-unreachable",
    "ends-answers-no-arp": "peer-unreachable",
    "ends-neighbour-wrong": "peer-unreachable",
    "ends-asks-no-neighbour": "peer-unreachable",
    "ends-reverse-path": "peer-unreachable",
    "ends-subnets-differ": "subnets-differ",
    "ends-hops-few": "no-path",
    "cm-redirected": "peer-unreachable",
    "ends-gateway-on-link": "peer-unreachable",
    "ends-traffic-dropped": "firewall",
    "ends-mtu-differs": "mtu-too-large",
    "ends-class-differs": "no-path",
    "ends-protocols-differ": "link-layers-differ",
    "ends-no-common-gid": "gid-index-or-family",
    "ends-no-common-partition": "no-path",
    "ends-named-address-unusable": "peer-unreachable",
    "ends-connection-not-taken": "peer-not-ready",
    "ends-program-stopped": "peer-not-ready",
    "ends-layers-differ": "peer-unreachable",
    "ends-not-heard": "peer-unreachable",
    "cm-neighbour-failed": "peer-unreachable",
    "ends-checksums-wrong": "no-path",
    "ends-tcp-unanswered": "firewall",
}
"""Rule of two reports → the cause of a failure that it proves; of one severity the first counts."""

OWN_WAY: Final = {
    "address-not-local": "peer-unreachable",
    "queue-too-short": "no-path",
    "netem-at-port": "no-path",
    "shaper-at-port": "slow-path",
    "neighbours-not-asked": "peer-unreachable",
    "reverse-path-filter": "peer-unreachable",
    "hop-limit-low": "no-path",
    "filter-drops-arp": "peer-unreachable",
    "filter-drops-rdma": "roce-port-dropped",
    "firewall-drops-rdma": "roce-port-dropped",
    "filter-drops-tcp": "firewall",
    "firewall-drops-tcp": "firewall",
    "xdp-at-port": "roce-port-dropped",
}
"""Rule of one host, about what it sends or gets → the cause that it is of a failure on the way."""
_OF_RDMA_PACKETS: Final = frozenset({"filter-drops-rdma", "firewall-drops-rdma"})

_ORDER: Final = {rule: place for place, rule in enumerate(LABELS)}
_OF_DATA: Final = frozenset({"ends-mtu-differs"})
"""What lets a connection be made, and breaks it later."""
_OF_NEIGHBOURS: Final = frozenset(
    {"cm-neighbour-failed", "ends-not-heard", "ends-layers-differ", "ends-tcp-unanswered"}
)
"""Once data was to be sent the ends had met: what is lost since is lost on the way."""
_AT_NEITHER: Final = frozenset({"cm-neighbour-failed", "ends-no-carrier", "ends-tcp-unanswered"})
_OF_BOTH_LINKS: Final = frozenset({"ends-no-carrier"})
_CONNECTING: Final = frozenset({Stage.CONNECT, Stage.RESOLVE_ADDRESS, Stage.RESOLVE_ROUTE})

_ON_THE_WAY: Final = frozenset(
    {
        *(Stage.CONNECT, Stage.AGREE, Stage.RESOLVE_ADDRESS, Stage.RESOLVE_ROUTE, Stage.RTR),
        *(Stage.RTS, Stage.ESTABLISH, Stage.DATA),
    }
)
_HEARD_FROM_PEER: Final = frozenset(
    {"peer-not-listening", "peer-not-started", "peer-refused", "other-program", "firewall-rejects"}
)
"""Causes in which the peer's host got a packet and answered."""
_PERHAPS_OF_A_HOST: Final = frozenset({"firewall", "roce-port-dropped"})
"""What silence is taken for first, and would stand in the report of the host that does it."""
_ON_A_WAY: Final = _PERHAPS_OF_A_HOST | {
    "no-path",
    "peer-unreachable",
    "mtu-too-large",
    "slow-path",
}
_OF_TCP: Final = frozenset({"ends-tcp-unanswered", "ends-checksums-wrong"})
_PEER_LEFT: Final = "peer-left"
"""`what` of a line that says that the peer has closed what had been connected."""
_OF_RDMA_ALONE: Final = frozenset({"ends-traffic-dropped"})
_OF_THE_LINK: Final = frozenset({"peer-unreachable", "no-route", "peer-host-down"})
_OF_ROUTES: Final = frozenset({"no-route", "route-unreachable"})
_BY_RDMA_CM: Final = re.compile(r"RDMA_CM_EVENT|\bCM event|\brdma_", re.IGNORECASE)
RDMA_CM: Final = "/dev/infiniband/rdma_cm"


def with_reports(
    story: Story,
    judged: Mapping[tuple[str, str], EndsVerdict],
    addresses: Mapping[str, frozenset[str]],
    present: Mapping[str, Has] = MappingProxyType({}),
    own: Mapping[str, Sequence[Finding]] = MappingProxyType({}),
    odd: Sequence[OddHost] = (),
) -> Story:
    """The story with what each pair of hosts came to.

    `addresses`: of each host that has a report, all its own. `present`: its devices and GIDs.
    `own`: what `preflight` finds of each by itself. `odd`: of each pair the host that alone has
    settings which a kernel has not by itself.
    """
    if not judged:
        return story
    findings = tuple(
        each
        for severity in (Severity.CRITICAL, Severity.WARN)
        for verdict in judged.values()
        for each in verdict.findings
        if each.finding.severity is severity
    )
    unknown = tuple(dict.fromkeys(one for each in judged.values() for one in each.unknown))
    clear = not unknown and all(each.pairs for each in judged.values())
    found = OfReports(
        tuple(judged),
        findings,
        clear and not findings,
        unknown,
        None,
        (),
        "",
        _ask(judged, findings),
    )
    chosen = _chosen(findings, story.first)
    of_no_peer = _of_no_peer(story, judged) or _of_itself(story, addresses)
    if of_no_peer is not None:
        chosen = None
        found = _placed(found, of_no_peer, proven=True)
    else:
        gone = next(_gone(story.printed, present), None)
        if gone is not None and not (chosen and chosen.finding.severity is Severity.CRITICAL):
            found = _placed(found, gone, proven=True)
        elif chosen is not None:
            found = _of_finding(found, chosen, story.first)
        elif (place := _of_own_way(story, own)) is not None:
            found = _placed(found, place, proven=place[0].standing is Standing.CONFIRMED)
        elif (bare := without_address(story.first, story.printed, addresses)) is not None:
            found = _placed(found, bare, proven=True)
        else:
            found = _of_no_finding(found, story, judged, addresses)
        if not found.hosts and not (chosen and chosen.finding.rule in _OF_BOTH_LINKS):
            found = _at_the_odd_host(found, story, odd)
    first = story.first
    if first is not None and _is_of_the_way(first.failure):
        heard = _answers(story, judged, addresses)
        link = first.failure.stage in _CONNECTING and any(v.heard for v in judged.values())
        failure = _ranked(first.failure, found, chosen, heard=heard, link=heard or link)
        if _is_the_peers(story, addresses) and not _peer_waits(story, addresses):
            failure = _rather_not_listening(failure)
        first = replace(first, failure=failure)
    return replace(story, first=first, of_reports=found)


Place = tuple[LikelyCause, str, str]
"""A cause, the host that it is at, and the object there."""


def _placed(found: OfReports, place: Place, *, proven: bool = False) -> OfReports:
    cause, host, what = place
    return replace(found, cause=cause, hosts=(host,), object=what, is_proven=proven)


def _of_finding(found: OfReports, chosen: EndFinding, first: FirstFailure | None) -> OfReports:
    of_data = first is not None and first.failure.stage is Stage.DATA
    if of_data and chosen.finding.rule in _OF_NEIGHBOURS:
        cause, hosts = _cause(chosen, "no-path"), tuple[str, ...]()
    else:
        cause, hosts = _cause(chosen), _where(chosen)
    proven = chosen.finding.severity is Severity.CRITICAL
    return replace(found, cause=cause, hosts=hosts, object=chosen.object, is_proven=proven)


def _of_own_way(story: Story, own: Mapping[str, Sequence[Finding]]) -> Place | None:
    """The one host that has a setting of its own by which packets do not pass, where the failure,
    or the silence, is of the way.
    """
    first = story.first
    if first is None and not _is_silent(story):
        return None
    if first is not None and not (_is_of_the_way(first.failure) or _is_own_way(first.failure)):
        return None
    by_tcp = first is not None and first.failure.stage is Stage.CONNECT
    found = [
        (host, each)
        for host, findings in own.items()
        for each in findings
        if each.rule in OWN_WAY and each.severity in (Severity.CRITICAL, Severity.WARN)
        if not (by_tcp and each.rule in _OF_RDMA_PACKETS)
    ]
    critical = [each for each in found if each[1].severity is Severity.CRITICAL]
    among = critical or found
    if len({host for host, _ in among}) != 1:
        return None
    rules = tuple(OWN_WAY)
    host, finding = min(among, key=lambda each: rules.index(each[1].rule))
    text = f"the report of {host}: {finding.rule}: {finding.summary}"
    label = OWN_WAY[finding.rule]
    standing = Standing.CONFIRMED if critical else Standing.POSSIBLE
    cause = LikelyCause(label, stated(label, finding.rule).text, standing, (text,))
    return cause, host, finding.evidence[0].subject if finding.evidence else finding.rule


def _of_no_finding(
    found: OfReports,
    story: Story,
    judged: Mapping[tuple[str, str], EndsVerdict],
    addresses: Mapping[str, frozenset[str]],
) -> OfReports:
    """What the reports say where none of them has anything against the other host."""
    clear = not found.unknown and all(each.pairs for each in judged.values())
    if clear and (_waits_to_connect(story.first) or (story.first is None and _is_silent(story))):
        asked = _looked_for(judged) or _without_device(judged)
        if asked is not None:
            return _placed(found, asked)
        if story.first is None:
            return replace(found, cause=_of_silence(judged))
    without = _without_rdma_cm(story.first, judged)
    if without is not None:
        return _placed(found, without, proven=True)
    other = (
        _stranger(story, judged, addresses)
        or _without_route(story, found)
        or _of_other_service(story, found)
        or _ended(story.first, found)
    )
    return found if other is None else _placed(found, other)


def _at_the_odd_host(found: OfReports, story: Story, odd: Sequence[OddHost]) -> OfReports:
    """What is on the way, and at neither host so far, is at the one that alone has settings of
    somebody's own; the cause stays as it is.
    """
    first = story.first
    if found.unknown:
        return found
    if found.cause is not None:
        label = found.cause.label
    elif first is not None and first.failure.causes and _is_of_the_way(first.failure):
        label = first.failure.causes[0].label
        label = "no-path" if label in _PERHAPS_OF_A_HOST and found.is_clear else label
    else:
        return found
    place = of_settings(odd, label) if label in _ON_A_WAY else None
    if place is None:
        return found
    cause, host, what = place
    if found.cause is not None:
        cause = replace(found.cause, evidence=(*found.cause.evidence, *cause.evidence))
    return replace(found, cause=cause, hosts=(host,), object=what)


def _chosen(findings: Sequence[EndFinding], first: FirstFailure | None) -> EndFinding | None:
    """What is proven, else what points at the way, where that may be what failed."""
    among = [each for each in findings if each.finding.rule in LABELS]
    if not _was_not_answered(first):
        among = [each for each in among if each.finding.rule not in _OF_TCP]
    if first is not None:
        of_the_way = _is_of_the_way(first.failure)
        connecting = first.failure.stage in _CONNECTING
        among = [
            each
            for each in among
            if each.finding.severity is Severity.CRITICAL
            or (of_the_way and not (connecting and each.finding.rule in _OF_DATA))
        ]
    proven = [each for each in among if each.finding.severity is Severity.CRITICAL]
    if proven:
        return next((each for each in proven if each.finding.rule in _AT_NEITHER), proven[0])
    return min(among, key=lambda each: _ORDER[each.finding.rule], default=None)


def _was_not_answered(first: FirstFailure | None) -> bool:
    """Whether nothing was printed, or that TCP did not connect: of a peer that closed a connection,
    or of a transfer that failed, what TCP still sends again is a consequence.
    """
    if first is None:
        return True
    return first.failure.stage is Stage.CONNECT and first.failure.what != _PEER_LEFT


def _gone(printed: Sequence[PrintedEnd], present: Mapping[str, Has]) -> Iterator[Place]:
    """What a program printed as its own end, and its host's report has not."""
    for each in printed:
        seen = present.get(each.host)
        for label, kind, name, every in (
            ("device-removed", "device", each.device, seen and seen.devices),
            ("gid-row-removed", "GID", each.gid, seen and seen.gids),
        ):
            if name is None or not every or name in every:
                continue
            text = f"{each.where} has the {kind} {name}, and the report of {each.host} has not"
            cause = stated(label, "after the failure").text
            yield (
                LikelyCause(label, cause, Standing.CONFIRMED, (text,)),
                each.host,
                f"{kind} {name}",
            )


def _is_silent(story: Story) -> bool:
    """Programs that wait for each other say nothing; one that works prints its result."""
    return bool(story.silent) and not story.not_understood and not story.behind


def _waits_to_connect(first: FirstFailure | None) -> bool:
    """Whether a test has only said that it waits for the other end."""
    return (
        first is not None and first.failure.what == STOPPED and first.failure.stage is Stage.CONNECT
    )


def _of_silence(judged: Mapping[tuple[str, str], EndsVerdict]) -> LikelyCause:
    """What is between the hosts: RoCE alone where they hear each other on the link."""
    heard = any(each.heard for each in judged.values())
    label = "roce-port-dropped" if heard else "no-path"
    text = "the reports: nothing of either host keeps it back, and no log says anything"
    return LikelyCause(label, stated(label).text, Standing.POSSIBLE, (text,))


def _where(chosen: EndFinding) -> tuple[str, ...]:
    """Where it is; at neither host where the peer does not answer, and nothing says why, or where
    both have lost their link.
    """
    return () if chosen.finding.rule in _AT_NEITHER else chosen.hosts


def _answers(
    story: Story,
    judged: Mapping[tuple[str, str], EndsVerdict],
    addresses: Mapping[str, frozenset[str]],
) -> bool:
    """Whether the address that could not be connected to answers on the link."""
    first, address = story.first, tried(story)
    if first is None or first.failure.stage not in _CONNECTING or address is None:
        return False
    return any(
        first.who.host in verdict.heard
        and any(address in addresses.get(name, ()) for name in pair if name != first.who.host)
        for pair, verdict in judged.items()
    )


def _is_the_peers(story: Story, addresses: Mapping[str, frozenset[str]]) -> bool:
    """Whether the address that was tried is one of another host that has a report."""
    first, address = story.first, tried(story)
    if first is None or first.who.host not in addresses or address is None:
        return False
    return any(address in own for name, own in addresses.items() if name != first.who.host)


def _peer_waits(story: Story, addresses: Mapping[str, frozenset[str]]) -> bool:
    """Whether the log of the host that was looked for says that its program waits: then it is at
    another port.
    """
    address = tried(story)
    return any(each.waits and address in addresses.get(each.host, ()) for each in story.printed)


def _rather_not_listening(failure: Failure) -> Failure:
    """Where the address is the peer's, that nobody listens there comes before another address."""
    labels = [each.label for each in failure.causes]
    if labels[:1] != ["peer-address-wrong"] or "peer-not-listening" not in labels:
        return failure
    wrong, *others = failure.causes
    at = labels.index("peer-not-listening")
    return replace(failure, causes=(*others[:at], wrong, *others[at:]))


def _without_rdma_cm(
    first: FirstFailure | None, judged: Mapping[tuple[str, str], EndsVerdict]
) -> Place | None:
    """The peer that refuses rdma_cm, where its report shows that no program there can use it."""
    if first is None or not _BY_RDMA_CM.search(first.failure.text):
        return None
    if not any(each.label in _HEARD_FROM_PEER for each in first.failure.causes[:1]):
        return None
    for pair, verdict in judged.items():
        other = [name for name in pair if name != first.who.host]
        if len(other) == 1 and other[0] in verdict.without_rdma_cm:
            text = f"the reports: no program of {other[0]} can open /dev/infiniband/rdma_cm"
            label = "rdma-ucm-not-loaded"
            cause = LikelyCause(label, stated(label).text, Standing.CONFIRMED, (text,))
            return cause, other[0], RDMA_CM
    return None


def tried(story: Story) -> str | None:
    """The address at which the peer was looked for."""
    first = story.first
    if first is None:
        return None
    printed = (each.tried for each in story.printed if each.where == first.where)
    named = (first.whom.address if first.whom else None, *first.failure.peers, *printed)
    return next((each for each in named if each and _is_address(each)), None)


def with_names(story: Story, naming: Mapping[str, NamingFacts]) -> Story:
    """With the address that the host of a program has in its own files for the name that the
    program was given, where it has one alone; else with who is asked for the name.
    """

    def looked_up(each: PrintedEnd) -> PrintedEnd:
        files = naming.get(each.host)
        if files is None or each.tried is None or _is_address(each.tried):
            return each
        found = files.addresses_of(each.tried)
        if not found and files.asks_others_for(each.tried):
            return replace(each, asked=(*files.others, *(known(files.servers) or ())))
        return replace(each, tried=found[0], name=each.tried) if len(found) == 1 else each

    return replace(story, printed=tuple(map(looked_up, story.printed)))


def _cause(found: EndFinding, label: str = "") -> LikelyCause:
    finding = found.finding
    label = label or LABELS[finding.rule]
    text = stated(label, finding.rule).text
    return LikelyCause(
        label, text, Standing.CONFIRMED, (f"the reports: {finding.rule}: {finding.summary}",)
    )


def _stranger(
    story: Story,
    judged: Mapping[tuple[str, str], EndsVerdict],
    addresses: Mapping[str, frozenset[str]],
) -> Place | None:
    """The host of the first failure and the address it names, where no report has that; where it
    names none, the one address that it looked for lately, and that did not answer.
    """
    first = story.first
    host = first.who.host if first else None
    if first is None or host is None or host not in addresses or len(addresses) < 2:
        return None
    named = _named(story)
    if first.whom is not None and first.whom.host is not None and named is None:
        return None
    address = tried(story)
    if address is None and first.failure.stage in _CONNECTING and _is_of_the_way(first.failure):
        asked = {each for one in judged.values() for each in one.unanswered if each[0] == host}
        address = next(iter(asked))[1] if len(asked) == 1 else None
    if address is None:
        return None
    if any(address in own for own in addresses.values()):
        return None
    text = f"the reports: none of {len(addresses)} hosts has the address {address}"
    listens = next((each for each in story.printed if each.listens_at == address), None)
    # Both were given it, and the host that listens lacks it, if that one's report was read.
    if listens is not None and listens.host != host and listens.host in addresses:
        label = "not-this-hosts-address"
        # Possible: it could bind to it, so that its host had it then, or binds to any.
        cause = LikelyCause(label, stated(label).text, Standing.POSSIBLE, (text,))
        return cause, listens.host, f"address {address}"
    if named is not None:
        text += f", which /etc/hosts of {host} has for {named}"
    return _wrong_address(text), host, f"address {address}"


def _of_other_service(story: Story, found: OfReports) -> Place | None:
    """The host whose program was given a name that no file of it has, and met nobody, where
    nothing is in the way between the hosts: whoever is asked for the name may have another
    address for it.
    """
    first = story.first
    if first is None or first.who.host is None or not found.is_clear:
        return None
    if first.failure.stage not in _CONNECTING:
        return None
    if not any(each.label in _OF_THE_LINK for each in first.failure.causes[:1]):
        return None
    given = next((p for p in story.printed if p.where == first.where and p.asked), None)
    if given is None:
        return None
    text = (
        f"the reports: /etc/hosts of {first.who.host} has no {given.tried}: its address is what "
        f"{' '.join(given.asked)} says, and that was not asked for"
    )
    return _wrong_address(text), first.who.host, f"name {given.tried}"


def _ended(first: FirstFailure | None, found: OfReports) -> Place | None:
    """The host whose program somebody ended while it only waited, where nothing of either host
    keeps back what it waits for.
    """
    if first is None or first.who.host is None or not found.is_clear:
        return None
    label = "interrupted"
    if first.failure.what != STOPPED or all(each.label != label for each in first.failure.causes):
        return None
    text = f"{first.where}: it was ended (SIGTERM), and the reports have nothing against the way"
    cause = LikelyCause(label, stated(label).text, Standing.POSSIBLE, (text,))
    return cause, first.who.host, "its process"


def _wrong_address(text: str) -> LikelyCause:
    label = "peer-address-wrong"
    return LikelyCause(label, stated(label).text, Standing.POSSIBLE, (text,))


def _named(story: Story) -> str | None:
    """The name for which the host of the first failure has the address in its own files."""
    where = story.first.where if story.first else None
    return next((each.name for each in story.printed if each.where == where and each.name), None)


def _of_no_peer(story: Story, judged: Mapping[tuple[str, str], EndsVerdict]) -> Place | None:
    """The host whose program was given an address that is of no other host, by itself."""
    first, address = story.first, tried(story)
    if first is None or first.who.host is None or address is None:
        return None
    if not any(_is_at_the_peer(each.label) for each in first.failure.causes[:1]):
        return None  # the address may be the one to listen at
    kind = next(
        (of[address] for each in judged.values() if address in (of := dict(each.odd))), None
    )
    if kind is None:
        return None
    label = "peer-is-this-host" if kind is Odd.LOOPBACK else "peer-address-wrong"
    name = _named(story)
    where = f", which /etc/hosts of {first.who.host} has for {name}" if name else ""
    text = f"{first.where} goes to {address}{where}: {kind}"
    cause = LikelyCause(label, stated(label, kind.name.lower()).text, Standing.CONFIRMED, (text,))
    return cause, first.who.host, f"address {address}"


def _of_itself(story: Story, addresses: Mapping[str, frozenset[str]]) -> Place | None:
    """The host whose program was given an address of that host itself for its peer."""
    first, address = story.first, tried(story)
    host = first.who.host if first else None
    if first is None or host is None or address is None or len(addresses) < 2:
        return None
    if first.failure.stage not in _CONNECTING or not first.failure.causes:
        return None
    own = [name for name, every in addresses.items() if address in every]
    if own != [host] or not _is_at_the_peer(first.failure.causes[0].label):
        return None
    label = "peer-is-own-address"
    text = f"the reports: {address}, to which {first.where} goes, is of {host} itself"
    cause = LikelyCause(label, stated(label).text, Standing.CONFIRMED, (text,))
    return cause, host, f"address {address}"


def _is_at_the_peer(label: str) -> bool:
    return label.startswith("peer-") or label in _OF_THE_LINK | _OF_ROUTES | _PERHAPS_OF_A_HOST


def _without_route(story: Story, found: OfReports) -> Place | None:
    """The host whose kernel knew no route to what its program was given, and knows one to each
    address of the peer: it was given another one.
    """
    first = story.first
    if first is None or first.who.host is None or not found.is_clear or tried(story) is not None:
        return None
    if first.failure.stage not in _CONNECTING or not first.failure.causes:
        return None
    if first.failure.causes[0].label not in _OF_ROUTES:
        return None
    text = f"the reports: {first.who.host} has a route to each address of the peer"
    return _wrong_address(text), first.who.host, "its peer's address"


def _looked_for(
    judged: Mapping[tuple[str, str], EndsVerdict],
) -> Place | None:
    """Of programs that say nothing: the one address that was looked for lately, of no host."""
    asked = {each for one in judged.values() for each in one.unanswered}
    if len(asked) != 1:
        return None
    host, address = next(iter(asked))
    text = f"the reports: {host} has looked for {address}, which no host has, and got no answer"
    return _wrong_address(text), host, f"address {address}"


def _without_device(judged: Mapping[tuple[str, str], EndsVerdict]) -> Place | None:
    """Of programs that say nothing: the one address to which one host has a route of its own, and
    which the other has by no RDMA device.
    """
    known = {each for one in judged.values() for each in one.without_device}
    if len(known) != 1:
        return None
    host, address, netdev = next(iter(known))
    text = f"the reports: {host} has {address} on {netdev}, of no RDMA device, and a route leads"
    text += " to it: programs that meet there by rdma_cm find no device"
    label = "no-rdma-at-address"
    cause = LikelyCause(label, stated(label).text, Standing.POSSIBLE, (text,))
    return cause, host, f"address {address}"


def _is_address(text: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_own_way(failure: Failure) -> bool:
    """Whether a report confirms a cause of the way, which is then at the host of that report."""
    return any(
        each.standing == Standing.CONFIRMED and each.label in OWN_WAY.values()
        for each in failure.causes[:1]
    )


def _is_of_the_way(failure: Failure) -> bool:
    if any(each.standing == Standing.CONFIRMED for each in failure.causes[:1]):
        return False
    return failure.stage is None or failure.stage in _ON_THE_WAY


def _ranked(
    failure: Failure, found: OfReports, chosen: EndFinding | None, *, heard: bool, link: bool
) -> Failure:
    """What the reports prove first, and what they contradict last.

    `heard`: the address that was used answers on the link; `link`: any of the peer's does.
    """
    causes = list(failure.causes)
    against: dict[str, str] = {}
    if chosen is not None and chosen.finding.severity is Severity.CRITICAL:
        if chosen.finding.rule in NOTHING_PASSES - _OF_RDMA_ALONE:
            text = f"the reports: {chosen.finding.rule}: nothing of it gets there"
            against = dict.fromkeys(_HEARD_FROM_PEER, text)
    elif found.is_clear:
        text = "the reports: both hosts have a route to the other"
        against = dict.fromkeys(_OF_ROUTES, text)
    if heard and (chosen is None or chosen.finding.severity is not Severity.CRITICAL):
        text = "the report: the peer answers on the link, by the neighbour table"
        against |= dict.fromkeys(_OF_THE_LINK, text)
        causes.sort(key=lambda each: each.label == "firewall-rejects")
    causes = [
        replace(each, standing=Standing.CONTRADICTED, evidence=(against[each.label],))
        if each.label in against
        else each
        for each in causes
    ]
    if found.is_clear and not link and causes and causes[0].label in _PERHAPS_OF_A_HOST:
        text = "the reports: neither host's own routes, addresses and traffic control keep it back"
        between = [each for each in causes if each.label == "no-path"]
        rest = [each for each in causes if each.label != "no-path"]
        causes = [*(replace(each, evidence=(text,)) for each in between), *rest]
    causes.sort(key=lambda each: each.standing == Standing.CONTRADICTED)
    if found.cause is not None:
        causes = [found.cause, *(each for each in causes if each.label != found.cause.label)]
    remedy = chosen.finding.remedy if chosen else ()
    steps = tuple(dict.fromkeys((*remedy, *failure.next)))
    return replace(failure, causes=tuple(causes[:MOST_WITH_REPORT]), next=steps)


def _ask(
    judged: Mapping[tuple[str, str], EndsVerdict], findings: Sequence[EndFinding]
) -> tuple[str, ...]:
    """What mends it, or what shows more."""
    lines: list[str] = []
    for each in findings[:2]:
        hosts = " and ".join(map(shell_word, each.hosts))
        lines += [f"# on {hosts}", *each.finding.remedy]
    if not findings:
        here, there = next(iter(judged))
        lines += [
            f"# on {shell_word(there)}",
            "rdmadiag pingpong --allow-rtr --listen ADDRESS",
            f"# on {shell_word(here)}: it says which step does not get through",
            "rdmadiag pingpong --allow-rtr ADDRESS",
            "sudo nft list ruleset   # at both: does a rule drop UDP port 4791, or the TCP port?",
            "# between them: the switch's ports, their VLAN and MTU, an ACL for UDP port 4791",
        ]
    return tuple(dict.fromkeys(lines))
