"""The rules on Macs: a ready Mac and one change make one rule speak."""

import re
import time
from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from lab.mac import QUIET_LOG, Cable, Mac, Peer, macs, ready_mac
from lab.transcript import Stop
from rdmadiag.facts import NOT_IN_RECORD, Address, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import LinkLayer, PortState
from rdmadiag.facts.macos import MacosFacts
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Severity, Verdict
from rdmadiag.preflight.x_rdma import (
    PreflightDevice,
    PreflightReport,
    Route,
    derive_preflight_safety,
)
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices, ports
from rdmadiag.view.select import Selector

NOTES = {"few-memory-regions", "thunderbolt-port-down"}
READY = ready_mac()
OLD = {"maximum": "Up to 40 Gb/s", "speed": "40 Gb/s"}


def evidence_of(mac: Mac) -> Evidence:
    return gather(mac.host(), time.monotonic() + 20)


def verdict_of(subject: Mac | Evidence, *names: str) -> Verdict:
    evidence = evidence_of(subject) if isinstance(subject, Mac) else subject
    return judge(evidence, tuple(Selector(name) for name in names))


def findings(subject: Mac | Evidence, *names: str) -> list[Finding]:
    """All but the two notes that a ready Mac has."""
    found = verdict_of(subject, *names).findings
    return [each for each in found if each.rule not in NOTES or each.severity != "info"]


def said(subject: Mac | Evidence, *names: str) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in findings(subject, *names)]


def remedies(subject: Mac | Evidence) -> str:
    return "\n".join(line for finding in findings(subject) for line in finding.remedy)


def test_a_ready_mac_is_ok_with_two_notes() -> None:
    verdict = verdict_of(READY)
    assert verdict.status == "ok"
    assert {(each.rule, each.severity.value) for each in verdict.findings} == {
        (name, "info") for name in NOTES
    }
    assert [port.safe_to_attempt_rtr for port in verdict.ports] == [True, False]


def second(**changes: object) -> Mac:
    """The ready Mac with a peer on its second cable too, and that cable changed."""
    changed = replace(
        READY.cables[1],
        peer=Peer("Mac Studio", "Mac16,9"),
        ipv4="169.254.20.9/16",
        gids={0: "fe80::2", 1: "::ffff:169.254.20.9"},
    )
    return READY.change(cables=(READY.cables[0], replace(changed, **changes)))


@pytest.mark.parametrize(
    ("mac", "expected"),
    [
        pytest.param(READY.change(rdma=False), [("rdma-disabled", "critical")], id="switched off"),
        pytest.param(
            READY.change(rdma=None, version="26.1", listed=False),
            [("macos-too-old", "critical")],
            id="a release before 26.2",
        ),
        pytest.param(
            READY.change(rdma=None, listed=False),
            [("no-thunderbolt-rdma-device", "unknown"), ("rdma-switch-unreadable", "unknown")],
            id="no rdma_ctl on a release that should have it",
        ),
        pytest.param(
            READY.change(listed=False).with_cable(0, **OLD).with_cable(1, **OLD),
            [("thunderbolt-4", "critical")],
            id="Thunderbolt 4, switched on",
        ),
        pytest.param(
            READY.change(rdma=False).with_cable(0, **OLD).with_cable(1, **OLD),
            [("thunderbolt-4", "critical")],
            id="Thunderbolt 4, switched off: the flag is not the cause",
        ),
        pytest.param(READY.change(sleep=10), [("sleep-enabled", "warn")], id="it sleeps"),
        pytest.param(
            READY.with_cable(peer=Peer(rdma=False)),
            [("peer-rdma-off", "critical")],
            id="the only peer has RDMA off",
        ),
        pytest.param(
            second(peer=Peer(rdma=False)),
            [("peer-rdma-off", "warn")],
            id="a second peer has RDMA off",
        ),
        pytest.param(
            READY.with_cable(state=PortState.DOWN),
            [("thunderbolt-port-down", "critical")],
            id="both have RDMA on and the link is down",
        ),
        pytest.param(
            second(state=PortState.DOWN),
            [("thunderbolt-port-down", "warn")],
            id="the same beside an active port",
        ),
        pytest.param(
            READY.with_cable(peer=Peer("Studio Display", is_host=False)),
            [("thunderbolt-port-down", "critical")] * 2,
            id="a display, and no Mac anywhere",
        ),
        pytest.param(
            READY.with_cable(peer=None),
            [("thunderbolt-port-down", "critical")] * 2,
            id="no cable at all",
        ),
        pytest.param(
            READY.with_cable(speed="40 Gb/s"),
            [("thunderbolt-link-slow", "warn")],
            id="a Thunderbolt 5 Mac on a link of 40 Gb/s",
        ),
        pytest.param(
            READY.with_cable(gids={0: "fe80::1"}),
            [("no-ipv4-gid", "critical")],
            id="an address, and no IPv4 GID yet",
        ),
        pytest.param(
            READY.with_cable(gids={0: "fe80::1", 1: "fe80::2"}),
            [("no-ipv4-gid", "warn")],
            id="no IPv4 GID, and another one at index 1",
        ),
        pytest.param(
            READY.with_cable(gids={0: "fe80::1", 1: "fe80::2", 3: "::ffff:169.254.205.255"}),
            [("ipv4-gid-not-index-1", "warn")],
            id="the IPv4 GID at index 3",
        ),
        pytest.param(
            READY.change(bridged=("en1",)),
            [("port-in-bridge", "warn")],
            id="bridged, and with an IPv4 GID all the same",
        ),
        pytest.param(
            READY.change(bridged=("en1",)).with_cable(gids={0: "fe80::1"}, ipv4=None),
            [("port-in-bridge", "critical")],
            id="bridged: one cause, one finding",
        ),
        pytest.param(
            READY.with_cable(protection_domains=11),
            [("protection-domains-exhausted", "critical")],
            id="eleven protection domains of eleven",
        ),
        pytest.param(
            READY.with_cable(queue_pairs=10),
            [("queue-pairs-exhausted", "critical")],
            id="ten queue pairs of the eleven reported",
        ),
        pytest.param(READY.with_cable(queue_pairs=9), [], id="nine queue pairs"),
        pytest.param(READY.with_cable(protection_domains=10), [], id="ten protection domains"),
        pytest.param(
            READY.with_cable(queue_pairs=3, inactive=2),
            [("resources-without-owner", "warn")],
            id="resources of programs that have ended",
        ),
        pytest.param(
            READY.with_cable(ipv4="10.0.0.1/24").change(others=(("en0", "10.0.0.7/24"),)),
            [("shared-subnet", "warn")],
            id="the cable shares a subnet with Ethernet",
        ),
        pytest.param(
            second(ipv4="10.0.0.2/24").with_cable(0, ipv4="10.0.0.1/24"),
            [("shared-subnet", "warn")],
            id="two cables in one subnet",
        ),
        pytest.param(second(), [], id="two cables with self-assigned addresses"),
        pytest.param(
            second(ipv4="10.0.1.1/30").with_cable(0, ipv4="10.0.0.1/30"),
            [],
            id="a subnet for every cable",
        ),
        pytest.param(
            READY.with_cable(link_active_count=3),
            [("link-was-lost", "info")],
            id="the link came up three times",
        ),
        pytest.param(
            READY.with_cable(link_active_count=9),
            [("link-was-lost", "warn")],
            id="the link came up nine times",
        ),
        pytest.param(READY.change(log=None), [("source-failed", "unknown")], id="log unreadable"),
        pytest.param(READY.change(log=()), [("no-recent-log", "unknown")], id="log quiet"),
        pytest.param(
            READY.change(stops=(Stop("ibv_get_device_list"),)),
            [("provider-wedged", "critical")],
            id="it hangs before it names a device",
        ),
        pytest.param(
            READY.change(stops=(Stop("ibv_close_device", "rdma_en1"),)),
            [("provider-wedged", "critical")],
            id="it hangs when a device is closed",
        ),
        pytest.param(
            READY.change(stops=(Stop("ibv_query_gid", "rdma_en2", errno=96),)),
            [("verbs-call-failed", "unknown")],
            id="a GID query fails",
        ),
        pytest.param(
            READY.change(stops=(Stop("ibv_open_device", "rdma_en2", errno=16),)),
            [("device-open-failed", "critical")],
            id="a device cannot be opened",
        ),
    ],
)
def test_one_change_gives_one_finding(mac: Mac, expected: list[tuple[str, str]]) -> None:
    assert said(mac) == expected


def test_a_device_that_was_asked_for_is_judged_by_itself() -> None:
    assert said(READY, "rdma_en2") == [("thunderbolt-port-down", "critical")]


# --- remedies that fit the cause ------------------------------------------------------------


def test_an_owner_of_thunderbolt_4_is_never_sent_to_recovery() -> None:
    slow = [READY.with_cable(0, **OLD).with_cable(1, **OLD)]
    slow += [mac.change(rdma=rdma) for mac in slow for rdma in (False, None)]
    slow += [mac.change(version="26.0", rdma=None) for mac in slow]
    for mac in slow:
        assert "rdma_ctl enable" not in remedies(mac)
        assert "ecovery" not in remedies(mac)


def test_where_the_hardware_is_not_known_the_speed_is_looked_at_before_recovery() -> None:
    both = READY.with_cable(1, peer=Peer(), speed="40 Gb/s").with_cable(0, speed="40 Gb/s")
    unknown = both.change(rdma=False)
    assert said(unknown) == [("rdma-disabled", "critical")]
    assert "rdma_ctl enable" not in remedies(unknown)
    assert "grep Speed" in remedies(unknown)
    blind = replace(evidence_of(READY.change(rdma=False)), thunderbolt=Missing(Why.TIMEOUT, "late"))
    assert "rdma_ctl enable" not in remedies(blind)


def test_thunderbolt_5_is_sent_to_recovery_with_the_command() -> None:
    assert "rdma_ctl enable" in remedies(READY.change(rdma=False))


@pytest.mark.parametrize("name", sorted(macs()))
def test_destroying_the_bridge_is_never_advised(name: str) -> None:
    lines = [line for each in verdict_of(macs()[name][0]).findings for line in each.remedy]
    commands = [line for line in lines if not line.startswith("#")]
    assert not [line for line in commands if "destroy" in line]


def test_who_is_logged_in_over_the_bridge_is_warned() -> None:
    text = remedies(macs()["mac-bridged"][0])
    assert "sudo ifconfig bridge0 deletem en1" in text
    assert "ends your session" in text
    assert "never destroy bridge0" in text


def test_all_competing_causes_of_errno_96_are_given() -> None:
    (finding,) = findings(macs()["mac-failed-rtr"][0])
    (line,) = [line for line in finding.remedy if " 96 " in line]
    assert line.startswith("#   96 ENODATA: ")
    for cause in ("GID index", "member of a bridge", "protection domains are exhausted"):
        assert cause in line


def test_a_hung_provider_is_not_to_be_tried_again() -> None:
    (finding,) = findings(macs()["mac-wedged"][0])
    text = "\n".join(finding.remedy)
    assert "start no other RDMA program" in text
    assert "shutdown -r now" in text
    assert "process 4242; it cannot be killed" in finding.evidence[0].value


def test_who_holds_the_queue_pairs_is_named() -> None:
    first = findings(macs()["mac-queue-pairs-exhausted"][0])[0]
    assert "python3 (812)" in first.summary
    assert first.remedy[0].startswith("kill 812")


def test_builds_are_a_hint_where_two_macs_do_not_find_each_other() -> None:
    (finding,) = findings(READY.with_cable(state=PortState.DOWN))
    assert "sw_vers -buildVersion" in finding.remedy[0]
    assert "25C56" in finding.remedy[0]


# --- the Mac Studio --------------------------------------------------------------------------


def studio(**changes: object) -> Mac:
    base, _ = macs()["mac-studio-ethernet-port"]
    return base.with_cable(1, **changes)


def test_the_port_beside_ethernet_is_named_where_a_mac_is_plugged_into_it() -> None:
    assert said(studio()) == [("mac-studio-ethernet-port", "critical")]
    assert said(studio().with_cable(0, peer=Peer(), gids={1: "::ffff:169.254.1.1"})) == [
        ("mac-studio-ethernet-port", "warn")
    ]
    assert "mac-studio-ethernet-port" not in dict(said(studio(peer=None)))


def test_on_another_model_the_same_port_is_an_ordinary_one() -> None:
    assert "mac-studio-ethernet-port" not in dict(said(studio().change(model="Mac mini")))


# --- the log and panics ----------------------------------------------------------------------


def test_a_failure_before_this_boot_is_a_warning_and_still_forbids() -> None:
    before = "2026-05-20 10:15:04.310000-0700 Failed INIT->RTR"
    mac = READY.change(log=(before, *QUIET_LOG))
    assert said(mac) == [("recent-rtr-failure", "warn")]
    assert verdict_of(mac).ports[0].reasons == ("recent_rtr_failure",)


def test_a_failure_without_a_known_boot_time_is_unknown_and_still_forbids() -> None:
    evidence = evidence_of(macs()["mac-failed-rtr"][0])
    assert isinstance(evidence.macos, MacosFacts)
    macos = replace(evidence.macos, boot_seconds=Missing(Why.DENIED))
    undated = replace(evidence, macos=macos)
    assert ("recent-rtr-failure", "unknown") in said(undated)
    assert "recent_rtr_failure" in verdict_of(undated).ports[0].reasons


PANIC = (
    '{{"timestamp":"{day} 07:00:00.00 +0000"}}\n{{"panicString":"x\\nAppleThunderboltRDMA(1.0)"}}'
)


@pytest.mark.parametrize(
    ("day", "severity"),
    [("2026-05-20", "warn"), ("2026-05-22", "warn"), ("2026-03-01", "info")],
    ids=["the day before this boot", "after it", "months ago"],
)
def test_a_panic_that_names_the_driver_is_found(day: str, severity: str) -> None:
    mac = READY.change(panics={f"panic-full-{day}.panic": PANIC.format(day=day)})
    assert said(mac) == [("rdma-panic", severity)]


def test_a_panic_of_something_else_is_not_ours() -> None:
    assert said(READY.change(panics={"panic-full-2026-05-20.panic": "{}"})) == []


# --- three ways to be not safe ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "reasons"),
    [
        ("mac-failed-rtr", "critical", ("recent_rtr_failure",)),
        ("mac-failed-rtr-arrow", "critical", ("recent_rtr_failure",)),
        ("mac-log-unreadable", "unknown", ("log_unknown",)),
        ("mac-log-quiet", "unknown", ("no_recent_log",)),
    ],
)
def test_harm_is_critical_and_missing_evidence_unknown_and_neither_is_safe(
    name: str, status: str, reasons: tuple[str, ...]
) -> None:
    verdict = verdict_of(macs()[name][0])
    assert (verdict.status, verdict.safe_to_attempt_rtr) == (status, False)
    assert verdict.ports[0].reasons == reasons


SOURCES = ("macos", "ioreg", "thunderbolt", "mac_network", "verbs", "mac_log")


@pytest.mark.parametrize("why", [Why.ABSENT, Why.DENIED, Why.TIMEOUT, Why.MALFORMED])
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_that_failed_is_unknown_at_best(source: str, why: Why) -> None:
    evidence = replace(evidence_of(READY), **{source: Missing(why, "x")})
    assert ("source-failed", "unknown") in said(evidence)
    assert verdict_of(evidence).safe_to_attempt_rtr is False


@pytest.mark.parametrize(
    ("source", "part", "severity"),
    [
        ("ioreg", "peer_interfaces", "unknown"),
        ("ioreg", "interfaces", "unknown"),
        ("mac_network", "interfaces", "unknown"),
        ("macos", "sleep_minutes", "unknown"),
        ("macos", "panics", "unknown"),
        ("macos", "build", "info"),
    ],
)
def test_a_part_of_a_source_that_failed_is_found(source: str, part: str, severity: str) -> None:
    evidence = evidence_of(READY)
    facts = replace(getattr(evidence, source), **{part: Missing(Why.TIMEOUT, "late")})
    assert ("source-incomplete", severity) in said(replace(evidence, **{source: facts}))


def test_an_active_port_without_a_peer_in_the_registry_is_a_contradiction() -> None:
    evidence = evidence_of(READY)
    registry = replace(evidence.ioreg, peer_interfaces=0)  # type: ignore[type-var]
    changed = replace(evidence, ioreg=registry)
    assert said(changed) == [("active-port-contradicted", "unknown")]
    assert verdict_of(changed).ports[0].reasons == ("no_peer_interface",)


def test_no_evidence_at_all_is_not_ok() -> None:
    empty = Evidence(**{name: Missing(Why.TIMEOUT, "late") for name in SOURCES})
    assert verdict_of(empty).status == "unknown"


def test_a_system_that_nothing_is_known_of_is_unknown() -> None:
    mac = READY.host()
    mac.identity = replace(mac.identity, platform="unknown")
    evidence = gather(mac, time.monotonic() + 20)
    assert said(evidence) == [("system-not-supported", "unknown")]


@pytest.mark.parametrize("name", sorted(macs()))
def test_findings_carry_evidence_and_lines_to_paste(name: str) -> None:
    for finding in verdict_of(macs()[name][0]).findings:
        assert finding.evidence, finding.rule
        assert all(proof.subject and proof.value for proof in finding.evidence)
        assert "\n" not in finding.summary + "".join(finding.remedy)
        assert finding.remedy or finding.severity is Severity.INFO


def test_a_cable_of_a_receptacle_that_no_one_names_is_not_guessed() -> None:
    stray = Cable(7, "en9", "36:4d:04:ea:4e:50", peer=None)
    mac = READY.change(cables=(*READY.cables, stray))
    evidence = evidence_of(mac)
    network = replace(evidence.mac_network, hardware_ports=Missing(Why.TIMEOUT, "late"))  # type: ignore[type-var]
    notes = verdict_of(replace(evidence, mac_network=network)).findings
    down = [each.summary for each in notes if each.rule == "thunderbolt-port-down"]
    assert all("what hangs on it is not known" in summary for summary in down)


# --- what must not pass for health ---------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_of_a_mac_that_nobody_looked_at_is_unknown(source: str) -> None:
    evidence = replace(evidence_of(READY), **{source: Missing(Why.NOT_COLLECTED, "x")})
    verdict = verdict_of(evidence)
    assert (verdict.status, verdict.safe_to_attempt_rtr) == ("unknown", False)


def test_lines_of_the_log_that_could_not_be_read_forbid() -> None:
    evidence = evidence_of(READY)
    log = replace(evidence.mac_log, unreadable=3)  # type: ignore[type-var]
    verdict = verdict_of(replace(evidence, mac_log=log))
    assert ("log-incomplete", "unknown") in said(replace(evidence, mac_log=log))
    assert verdict.ports[0].reasons == ("log_unknown",)


def changed_network(**changes: object) -> Evidence:
    evidence = evidence_of(READY)
    assert not isinstance(evidence.mac_network, Missing)
    interfaces = tuple(
        replace(each, **changes) if each.name == "en1" else each
        for each in evidence.mac_network.interfaces  # type: ignore[union-attr]
    )
    return replace(evidence, mac_network=replace(evidence.mac_network, interfaces=interfaces))


@pytest.mark.parametrize(
    "changes",
    [{"status": "inactive"}, {"up": False}, {"name": "en77"}],
    ids=["inactive", "not up", "not there"],
)
def test_an_active_port_whose_interface_is_down_is_critical(changes: dict[str, object]) -> None:
    evidence = changed_network(**changes)
    assert ("thunderbolt-interface-down", "critical") in said(evidence)
    assert verdict_of(evidence).safe_to_attempt_rtr is False


def changed_verbs(**changes: object) -> Evidence:
    """The ready Mac with its first device changed as verbs shows it."""
    evidence = evidence_of(READY)
    assert not isinstance(evidence.verbs, Missing)
    first, *others = evidence.verbs.devices
    devices = (replace(first, **changes), *others)
    return replace(evidence, verbs=replace(evidence.verbs, devices=devices))


def test_a_device_that_the_registry_has_and_librdma_does_not_list_is_critical() -> None:
    evidence = evidence_of(READY)
    assert not isinstance(evidence.verbs, Missing)
    verbs = replace(evidence.verbs, devices=evidence.verbs.devices[1:])
    assert ("device-not-in-verbs", "critical") in said(replace(evidence, verbs=verbs))


@pytest.mark.parametrize(
    "ports", [(), Missing(Why.NOT_COLLECTED, "x")], ids=["none", "not queried"]
)
def test_a_device_that_shows_no_port_is_unknown(ports: object) -> None:
    evidence = changed_verbs(ports=ports)
    assert ("ports-not-shown", "unknown") in said(evidence)
    assert verdict_of(evidence).safe_to_attempt_rtr is False


def changed_port(**changes: object) -> Evidence:
    evidence = evidence_of(READY)
    assert not isinstance(evidence.verbs, Missing)
    port = evidence.verbs.devices[0].ports[0]  # type: ignore[index]
    return changed_verbs(ports=(replace(port, **changes),))


@pytest.mark.parametrize(
    "changes",
    [
        {"gids": Missing(Why.TIMEOUT, "late")},
        {"gids": (), "gids_asked": 0},
        {"gids": (), "gids_asked": 1},
        {"gids": (), "gids_unreadable": {1: Missing(Why.UNSUPPORTED, "x")}},
    ],
    ids=["not read", "no row asked", "one row asked", "a row refused"],
)
def test_gids_that_were_not_seen_are_unknown_and_not_absent(changes: dict[str, object]) -> None:
    evidence = changed_port(**changes)
    assert said(evidence) == [("thunderbolt-gids-unread", "unknown")]
    assert verdict_of(evidence).ports[0].reasons == ("gid_table_unknown",)


@pytest.mark.parametrize("layer", [LinkLayer.ETHERNET, LinkLayer.INFINIBAND, Missing(Why.ABSENT)])
def test_a_port_of_a_mac_that_is_no_thunderbolt_port_is_not_permitted(layer: object) -> None:
    evidence = changed_port(link_layer=layer)
    assert not isinstance(evidence.verbs, Missing)
    devices = tuple(replace(each, transport=0) for each in evidence.verbs.devices)
    evidence = replace(evidence, verbs=replace(evidence.verbs, devices=devices))
    assert ("not-a-thunderbolt-port", "unknown") in said(evidence)
    assert verdict_of(evidence).safe_to_attempt_rtr is False


def changed_registry(**changes: object) -> Evidence:
    evidence = evidence_of(READY)
    return replace(evidence, ioreg=replace(evidence.ioreg, **changes))  # type: ignore[type-var]


def test_resources_that_were_not_counted_are_unknown() -> None:
    for evidence in (
        changed_registry(interfaces=()),
        changed_registry(interfaces=Missing(Why.TIMEOUT, "late")),
        changed_verbs(limits=Missing(Why.UNSUPPORTED, "x")),
    ):
        assert ("resources-unknown", "unknown") in said(evidence)
        assert "resources_unknown" in verdict_of(evidence).ports[0].reasons


def test_resources_that_hang_below_no_interface_are_counted_with_each() -> None:
    assert said(changed_registry(queue_pairs=10)) == [
        ("queue-pairs-exhausted", "critical"),
        ("queue-pairs-exhausted", "critical"),
    ]


def test_what_is_switched_off_or_cannot_is_not_safe_though_a_port_be_active() -> None:
    evidence = evidence_of(READY)
    macos = replace(evidence.macos, rdma_enabled=False)  # type: ignore[type-var]
    assert verdict_of(replace(evidence, macos=macos)).ports[0].reasons == ("rdma_disabled",)
    old = READY.with_cable(0, **OLD).with_cable(1, **OLD)
    assert "hardware_cannot" in verdict_of(old).ports[0].reasons


def test_a_second_active_port_without_a_route_forbids_the_host_as_in_x_rdma() -> None:
    verdict = verdict_of(second(gids={0: "fe80::2"}, ipv4=None))
    assert [port.reasons for port in verdict.ports] == [
        ("another_port_has_no_route",),
        ("no_route_gid",),
    ]
    assert (verdict.safe_to_attempt_rtr, verdict.reasons) == (False, ("no_route_gid",))


def test_of_two_active_ports_one_that_is_named_is_decided_alone() -> None:
    verdict = verdict_of(second(gids={0: "fe80::2"}, ipv4=None), "rdma_en1")
    assert [port.reasons for port in verdict.ports] == [()]
    assert (verdict.safe_to_attempt_rtr, verdict.reasons) == (True, ("read_only_preflight",))


@pytest.mark.parametrize(
    ("mac", "reasons"),
    [
        (READY, {"read_only_preflight"}),
        (READY.with_cable(gids={0: "fe80::1"}, ipv4=None), {"no_route_gid", "port_not_active"}),
        (
            READY.with_cable(state=PortState.DOWN),
            {"no_active_thunderbolt_device", "port_not_active"},
        ),
        (READY.change(log=()), {"no_recent_log", "port_not_active"}),
        (macs()["mac-failed-rtr"][0], {"recent_rtr_failure", "port_not_active"}),
        (
            READY.with_cable(peer=Peer(rdma=False)),
            {"no_active_thunderbolt_device", "no_peer_interface", "port_not_active"},
        ),
        (
            READY.with_cable(peer=None),
            {
                "no_active_thunderbolt_device",
                "no_peer_interface",
                "no_xdomain_service",
                "port_not_active",
            },
        ),
        (macs()["mac-wedged"][0], {"provider_wedged", "ports_unknown"}),
        (
            READY.change(rdma=False),
            {"rdma_disabled", "no_active_thunderbolt_device", "no_peer_interface"},
        ),
        (
            macs()["mac-thunderbolt-4"][0],
            {"hardware_cannot", "no_active_thunderbolt_device"},
        ),
    ],
    ids=[
        "ready",
        "no address",
        "no link",
        "a quiet log",
        "a failed RTR",
        "the peer's RDMA is off",
        "no peer",
        "a provider that hangs",
        "switched off",
        "hardware that cannot",
    ],
)
def test_the_reasons_of_the_host(mac: Mac, reasons: set[str]) -> None:
    verdict = verdict_of(mac)
    assert set(verdict.reasons) == reasons
    assert verdict.safe_to_attempt_rtr is (reasons == {"read_only_preflight"})


@pytest.mark.parametrize(
    ("rtr_failed", "reasons", "status"),
    [
        (False, ("read_only_preflight",), "ok"),
        (NOT_IN_RECORD, ("read_only_preflight",), "ok"),
        (True, ("prior_rtr_failure", "port_not_active"), "critical"),
        (Missing(Why.DENIED, "EACCES"), ("prior_rtr_failure", "port_not_active"), "unknown"),
    ],
    ids=["none is recorded", "an older report", "one is recorded", "the record is not readable"],
)
def test_an_rtr_of_ours_that_failed_forbids_another_here_as_in_an_attempt(
    rtr_failed: bool | Missing, reasons: tuple[str, ...], status: str
) -> None:
    evidence = evidence_of(READY)
    assert isinstance(evidence.macos, MacosFacts)
    verdict = verdict_of(replace(evidence, macos=replace(evidence.macos, rtr_failed=rtr_failed)))
    assert (verdict.status, verdict.reasons) == (status, reasons)
    assert verdict.safe_to_attempt_rtr is (reasons == ("read_only_preflight",))
    found = {each.rule for each in verdict.findings}
    assert ("rtr-failed-before" in found) is (rtr_failed is True)


def as_x_rdma(evidence: Evidence) -> PreflightReport:
    """What x/rdma would gather on that Mac."""
    assert not isinstance(evidence.ioreg, Missing)
    log = evidence.mac_log
    return PreflightReport(
        devices=[
            PreflightDevice(
                port.device,
                port.state,
                port.link_layer,
                port.route.index if isinstance(port.route, Route) else None,
            )
            for port in ports(devices(evidence))
        ],
        peer_interfaces=evidence.ioreg.peer_interfaces,
        xdomain_services=evidence.ioreg.xdomain_services,
        recent_log=log if isinstance(log, Missing) else [line.message for line in log.lines],
    )


@pytest.mark.parametrize(
    "mac", [each for each, _ in macs().values()] + [second(ipv4=None, gids={})]
)
def test_nothing_is_permitted_that_x_rdma_forbids_and_its_reasons_are_shown(mac: Mac) -> None:
    evidence = evidence_of(mac)
    verdict = verdict_of(evidence)
    permitted, reasons = derive_preflight_safety(as_x_rdma(evidence))
    assert permitted or not verdict.safe_to_attempt_rtr
    unseen = {"no_active_thunderbolt_device"} if "ports_unknown" in verdict.reasons else set()
    assert permitted or set(reasons) - unseen <= set(verdict.reasons)


GIVEN = re.compile(r"inet ([0-9.]+) netmask 255\.255\.255\.252 alias$")


def given_subnets(subject: Mac | Evidence) -> list[IPv4Network]:
    """Those of the lines that give an interface an address."""
    found = map(GIVEN.search, remedies(subject).splitlines())
    return [IPv4Network(f"{match[1]}/30", strict=False) for match in found if match]


def two_without_address(**changes: object) -> Evidence:
    """Two peers, no IPv4 address, and no word of networksetup on the receptacles."""
    bare = second(gids={0: "fe80::2"}, ipv4=None).with_cable(0, gids={0: "fe80::1"}, ipv4=None)
    evidence = evidence_of(bare.change(**changes))
    network = replace(evidence.mac_network, hardware_ports=Missing(Why.TIMEOUT, "late"))  # type: ignore[type-var]
    return replace(evidence, mac_network=network)


@pytest.mark.parametrize(
    "others",
    [
        (),
        (("en0", "10.10.11.7/24"),),
        (("en0", "10.10.0.9/16"),),
        (("en0", "10.0.0.9/8"), ("en8", "172.31.0.1/16")),
    ],
    ids=["free", "one of them taken", "all of 10.10 taken", "172.31 too"],
)
def test_every_cable_is_given_a_subnet_of_its_own_that_no_interface_has(
    others: tuple[tuple[str, str], ...],
) -> None:
    one, two = given_subnets(two_without_address(others=others))
    assert not one.overlaps(two)
    for _, address in others:
        taken = IPv4Network(address, strict=False)
        assert not taken.overlaps(one)
        assert not taken.overlaps(two)


@pytest.mark.parametrize("what", ["link", "power"])
def test_a_registry_that_contradicts_an_active_port_is_heard(what: str) -> None:
    evidence = evidence_of(READY)
    assert not isinstance(evidence.ioreg, Missing)
    if what == "link":
        ports = tuple(replace(each, link_up=False) for each in evidence.ioreg.ip_ports)  # type: ignore[union-attr]
        changed = changed_registry(ip_ports=ports)
    else:
        faces = tuple(replace(each, power_state=0) for each in evidence.ioreg.interfaces)  # type: ignore[union-attr]
        changed = changed_registry(interfaces=faces)
    assert said(changed) == [("active-port-contradicted", "unknown")]


def test_subnets_that_overlap_are_shared() -> None:
    mac = READY.with_cable(ipv4="10.0.0.1/24").change(others=(("en0", "10.0.0.7/16"),))
    assert said(mac) == [("shared-subnet", "warn")]


def test_services_that_could_not_be_read_are_not_a_peer_that_is_switched_off() -> None:
    evidence = evidence_of(READY.with_cable(state=PortState.DOWN))
    assert not isinstance(evidence.thunderbolt, Missing)
    bus, *others = evidence.thunderbolt.buses
    peer = replace(bus.peers[0], protocols=Missing(Why.MALFORMED, "x"))
    profile = replace(evidence.thunderbolt, buses=(replace(bus, peers=(peer,)), *others))
    assert said(replace(evidence, thunderbolt=profile)) == [("thunderbolt-port-down", "critical")]


# --- remedies again --------------------------------------------------------------------------


def test_no_live_program_is_to_be_killed_for_what_a_dead_one_left() -> None:
    mac = READY.with_cable(queue_pairs=3, inactive=2, holders=("pid 812, python3",))
    assert "kill" not in remedies(mac)


def test_our_own_child_is_no_holder() -> None:
    mac = READY.with_cable(queue_pairs=10, holders=("pid 4242, python3", "pid 7, exo"))
    text = remedies(mac)
    assert "kill 4242" not in text
    assert "kill 7 " in text


def test_a_failure_before_this_boot_does_not_ask_for_another_one() -> None:
    before = "2026-05-20 10:15:04.310000-0700 Failed INIT->RTR"
    assert "shutdown" not in remedies(READY.change(log=(before, *QUIET_LOG)))


def test_two_ports_are_not_given_the_same_address() -> None:
    bare = second(gids={0: "fe80::2"}, ipv4=None).with_cable(0, gids={0: "fe80::1"}, ipv4=None)
    lines = [line for line in remedies(bare).splitlines() if " inet " in line]
    assert len({line.split(" inet ")[1].split()[0] for line in lines}) == 2


def test_a_wedged_port_in_a_bridge_is_not_to_be_replugged() -> None:
    stops = (Stop("ibv_query_gid", "rdma_en1"),)
    text = remedies(READY.change(stops=stops, bridged=("en1",)))
    assert "unplug" not in text
    assert "no replug while bridge0" in text


def test_a_mac_is_given_commands_of_a_mac() -> None:
    evidence = replace(evidence_of(READY), thunderbolt=Missing(Why.TIMEOUT, "late"))
    assert "wchan:32" not in remedies(evidence)
    assert "ps -axo" in remedies(evidence)


@pytest.mark.parametrize(
    "changes",
    [{"address": "abc"}, {"prefix_length": 99}],
    ids=["no address", "no prefix"],
)
def test_a_saved_report_that_somebody_edited_is_judged_without_a_crash(
    changes: dict[str, object],
) -> None:
    evidence = changed_network(addresses=(replace(Address("10.0.0.1", 24, "global"), **changes),))
    assert verdict_of(evidence).findings
    macos = replace(evidence.macos, version="abc")  # type: ignore[type-var]
    assert verdict_of(replace(evidence, macos=macos)).findings
