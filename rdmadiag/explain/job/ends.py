"""What the reports of a job's hosts, held against each other, say of what failed or only stopped.

A program that waits says nothing: where two reports show that packets of one host cannot reach the
other, that is the answer. Where they show nothing, what is between the hosts is left.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.explain.causes import stated
from rdmadiag.explain.job.story import FirstFailure, OfReports, Story
from rdmadiag.explain.log.account import Failure, LikelyCause, Standing
from rdmadiag.facts.attempt import Stage
from rdmadiag.preflight.judge_ends import NOTHING_PASSES, EndFinding, EndsVerdict
from rdmadiag.preflight.verdict import Severity
from rdmadiag.quoting import shell_word

LABELS: Final = {
    "cm-no-way": "no-route",
    "cm-no-device": "no-rdma-at-address",
    "cm-no-gid": "no-rdma-at-address",
    "cm-address-of-other-netdev": "no-rdma-at-address",
    "cm-neighbour-failed": "peer-unreachable",
    "cm-port-not-active": "port-down",
    "ends-peer-address-here": "peer-is-own-address",
    "ends-mac-twice": "peer-unreachable",
    "ends-answers-no-arp": "peer-unreachable",
    "ends-neighbour-wrong": "peer-unreachable",
    "ends-reverse-path": "peer-unreachable",
    "ends-subnets-differ": "subnets-differ",
    "ends-gateway-on-link": "peer-unreachable",
    "ends-traffic-dropped": "firewall",
    "ends-mtu-differs": "mtu-too-large",
    "ends-protocols-differ": "link-layers-differ",
    "ends-no-common-gid": "gid-index-or-family",
    "ends-no-common-partition": "no-path",
}
"""Rule of two reports → the cause of a failure that it proves."""

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
_OF_RDMA_ALONE: Final = frozenset({"ends-traffic-dropped"})
_OF_ROUTES: Final = frozenset({"no-route", "route-unreachable"})
_CONNECTS_TO: Final = re.compile(r"\bconnect to ([0-9a-fA-F.:]{3,45}?)(?::[0-9]{1,5})?(?:\s|$)")
"""perftest's and ibv_*_pingpong's line of the TCP connection."""
_MOST_CAUSES: Final = 6


def with_reports(
    story: Story,
    judged: Mapping[tuple[str, str], EndsVerdict],
    addresses: Mapping[str, frozenset[str]],
) -> Story:
    """The story with what each pair of hosts came to.

    `addresses`: of each host that has a report, all its own.
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
    chosen = next((each for each in findings if each.finding.rule in LABELS), None)
    if chosen is not None:
        found = replace(found, cause=_cause(chosen), hosts=chosen.hosts, object=chosen.object)
    elif (stranger := _stranger(story.first, addresses)) is not None:
        cause, host, address = stranger
        found = replace(found, cause=cause, hosts=(host,), object=f"address {address}")
    first = story.first
    if first is not None and _is_of_the_way(first.failure):
        first = replace(first, failure=_ranked(first.failure, found, chosen))
    return replace(story, first=first, of_reports=found)


def _cause(found: EndFinding) -> LikelyCause:
    finding = found.finding
    label = LABELS[finding.rule]
    text = stated(label, finding.rule).text
    return LikelyCause(
        label, text, Standing.CONFIRMED, (f"the reports: {finding.rule}: {finding.summary}",)
    )


def _stranger(
    first: FirstFailure | None, addresses: Mapping[str, frozenset[str]]
) -> tuple[LikelyCause, str, str] | None:
    """The host of the first failure and the address it names, where no report has that."""
    host = first.who.host if first else None
    if first is None or host is None or host not in addresses or len(addresses) < 2:
        return None
    if first.whom is not None and first.whom.host is not None:
        return None
    named = (first.whom.address if first.whom else None, *first.failure.peers)
    found = _CONNECTS_TO.search(first.failure.text)
    address = next((each for each in (*named, found and found[1]) if each), None)
    if address is None or not _is_address(address):
        return None
    if any(address in own for own in addresses.values()):
        return None
    text = f"the reports: none of {len(addresses)} hosts has the address {address}"
    cause = LikelyCause(
        "peer-address-wrong", stated("peer-address-wrong").text, Standing.POSSIBLE, (text,)
    )
    return cause, host, address


def _is_address(text: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_of_the_way(failure: Failure) -> bool:
    if any(each.standing == Standing.CONFIRMED for each in failure.causes[:1]):
        return False
    return failure.stage is None or failure.stage in _ON_THE_WAY


def _ranked(failure: Failure, found: OfReports, chosen: EndFinding | None) -> Failure:
    """What the reports prove first, and what they contradict last."""
    causes = list(failure.causes)
    against: dict[str, str] = {}
    if chosen is not None and chosen.finding.severity is Severity.CRITICAL:
        if chosen.finding.rule in NOTHING_PASSES - _OF_RDMA_ALONE:
            text = f"the reports: {chosen.finding.rule}: nothing of it gets there"
            against = dict.fromkeys(_HEARD_FROM_PEER, text)
    elif found.is_clear:
        text = "the reports: both hosts have a route to the other"
        against = dict.fromkeys(_OF_ROUTES, text)
    causes = [
        replace(each, standing=Standing.CONTRADICTED, evidence=(against[each.label],))
        if each.label in against
        else each
        for each in causes
    ]
    if found.is_clear and causes and causes[0].label in _PERHAPS_OF_A_HOST:
        text = "the reports: neither host's own routes, addresses and traffic control keep it back"
        between = [each for each in causes if each.label == "no-path"]
        rest = [each for each in causes if each.label != "no-path"]
        causes = [*(replace(each, evidence=(text,)) for each in between), *rest]
    causes.sort(key=lambda each: each.standing == Standing.CONTRADICTED)
    if found.cause is not None:
        causes = [found.cause, *(each for each in causes if each.label != found.cause.label)]
    remedy = chosen.finding.remedy if chosen else ()
    steps = tuple(dict.fromkeys((*remedy, *failure.next)))
    return replace(failure, causes=tuple(causes[:_MOST_CAUSES]), next=steps)


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
