"""nftables at the netdev of a port: a healthy host and one change."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.packet_filter import PacketFilter
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.packet_filter import RULES
from tests.preflight.rules.test_traffic import nic, siw, soft
from tests.sources.test_packet_filter import (
    ACCEPT,
    DROP,
    ESTABLISHED,
    LIMIT,
    ROCE,
    TCP_,
    UDP_,
    chain,
    compare,
    meta,
    payload,
    rule,
    verdict,
)

CODES = {each.code for each in RULES}
RDMA, TCP = "firewall-drops-rdma", "firewall-drops-tcp"
PEER = payload(1, 12, 4) + compare(bytes((192, 0, 2, 9)))
OF_A_USER = rule("in", meta(10), compare(bytes(4)), verdict(ACCEPT))
SSH_LIMITED = rule("in", TCP_, payload(2, 2, 2), compare(b"\0\x16"), LIMIT, verdict(ACCEPT))
SSH = rule("in", TCP_, payload(2, 2, 2), compare(b"\0\x16"), verdict(ACCEPT))


def nft(*rules: bytes, policy: int = ACCEPT, hook: int = 1) -> dict[str, bytes]:
    chains = chain("in", hook, policy=policy)
    return {"nft-getchain": chains, "nft-getrule": b"".join(rules)}


def said(machine: Machine) -> list[tuple[str, str]]:
    found = judge(machine.evidence()).findings
    return [(each.rule, each.severity.value) for each in found if each.rule in CODES]


DROPS_ROCE = rule("in", UDP_, ROCE, verdict(DROP))
LETS_ESTABLISHED = rule("in", ESTABLISHED, verdict(ACCEPT))
CASES = {
    "a chain without rules": (soft(**nft()), []),
    "UDP 4791": (soft(**nft(DROPS_ROCE)), [(RDMA, "critical")]),
    "UDP 4791, outwards": (soft(**nft(DROPS_ROCE, hook=3)), [(RDMA, "critical")]),
    "UDP 4791 that is forwarded": (soft(**nft(DROPS_ROCE, hook=2)), []),
    "UDP 4791 at a NIC": (nic(**nft(DROPS_ROCE)), []),
    "UDP 4791 of a peer": (soft(**nft(rule("in", PEER, UDP_, verdict(DROP)))), [(RDMA, "warn")]),
    "another port of UDP": (
        soft(**nft(rule("in", UDP_, payload(2, 2, 2), compare(b"\0\x35"), verdict(DROP)))),
        [],
    ),
    "all but established connections": (
        soft(**nft(LETS_ESTABLISHED, policy=DROP)),
        [(RDMA, "critical"), (TCP, "warn")],
    ),
    "all but ssh": (soft(**nft(SSH, policy=DROP)), [(RDMA, "critical"), (TCP, "info")]),
    "all but ssh, at a NIC": (nic(**nft(SSH, policy=DROP)), [(TCP, "info")]),
    "all but a peer": (
        soft(**nft(rule("in", PEER, verdict(ACCEPT)), policy=DROP)),
        [(RDMA, "info"), (TCP, "info")],
    ),
    "what a user sends alone": (
        soft(**nft(OF_A_USER, policy=DROP, hook=3)),
        [(RDMA, "critical"), (TCP, "info")],
    ),
    "all that exceeds a rate": (
        soft(**nft(rule("in", UDP_, LIMIT, verdict(ACCEPT)), rule("in", UDP_, verdict(DROP)))),
        [(RDMA, "warn")],
    ),
    "a rate of another port, and all but a peer": (
        soft(**nft(SSH_LIMITED, rule("in", PEER, verdict(ACCEPT)), policy=DROP)),
        [(RDMA, "info"), (TCP, "info")],
    ),
    "a rate that a rule below lets through": (
        soft(**nft(rule("in", UDP_, LIMIT, verdict(ACCEPT)), rule("in", UDP_, verdict(ACCEPT)))),
        [],
    ),
    "TCP at a NIC": (nic(**nft(rule("in", TCP_, verdict(DROP)))), [(TCP, "warn")]),
    "TCP of soft iWARP": (siw(**nft(rule("in", TCP_, verdict(DROP)))), [(RDMA, "critical")]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    machine, wanted = CASES[name]
    assert said(machine) == wanted


def test_a_finding_names_the_rule_and_how_it_is_taken_away() -> None:
    found = judge(soft(**nft(DROPS_ROCE)).evidence()).findings[0]
    assert found.evidence[0].subject == "nftables: inet t in, handle 7"
    assert "sudo nft delete rule inet t in handle 7" in found.remedy
    assert found.summary.endswith("nft, inwards: UDP, port 4791")


def test_a_policy_is_no_rule_to_take_away() -> None:
    found = judge(soft(**nft(policy=DROP)).evidence()).findings[0]
    assert "inet t in, policy" in found.summary
    assert not any("delete" in line for line in found.remedy)


@pytest.mark.parametrize(
    ("why", "status"), [(Why.DENIED, "ok"), (Why.TIMEOUT, "unknown"), (Why.MALFORMED, "unknown")]
)
def test_what_was_not_read_is_skipped_and_of_root_alone(why: Why, status: str) -> None:
    evidence = soft().evidence()
    assert not isinstance(evidence.routing, Missing)
    routing = replace(evidence.routing, packet_filter=Missing(why, "late"))
    verdict_ = judge(replace(evidence, routing=routing))
    assert {each.rule for each in verdict_.skipped} >= CODES
    assert verdict_.status == status


def test_a_record_from_before_has_no_such_rule() -> None:
    verdict_ = judge(soft().evidence())
    assert CODES.isdisjoint(each.rule for each in (*verdict_.findings, *verdict_.skipped))


@pytest.mark.parametrize(
    ("tables", "severities"),
    [(("ip filter", "ip nat"), ["info"]), (("ip nat",), []), ((), [])],
    ids=["one that drops", "one that only translates", "none"],
)
def test_tables_of_iptables_legacy_are_a_note(
    tables: tuple[str, ...], severities: list[str]
) -> None:
    evidence = soft(**nft()).evidence()
    assert not isinstance(evidence.routing, Missing)
    routing = replace(evidence.routing, packet_filter=PacketFilter((), tables))
    found = judge(replace(evidence, routing=routing)).findings
    notes = [each for each in found if each.rule == "legacy-firewall-unread"]
    assert [each.severity.value for each in notes] == severities
    assert all(each.summary.endswith(": ip filter") for each in notes)


def test_without_the_source_the_rules_are_skipped_whatever_the_reason() -> None:
    for why in (Why.ABSENT, Why.UNSUPPORTED, Why.NOT_COLLECTED):
        evidence = replace(soft(**nft(DROPS_ROCE)).evidence(), routing=Missing(why, "taken away"))
        assert {each.rule for each in judge(evidence).skipped} >= CODES
