"""With less evidence a verdict is what it was, or unknown; what was not checked is skipped."""

import errno
import os
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from campaign.missing import HOST, WHEN, Removed, broken, hosts, taken, without
from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, SysfsFacts, Why
from rdmadiag.facts.evidence import LINUX_SOURCES, Evidence
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.host.layout import META
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.host.recording import documents, write_folder
from rdmadiag.preflight.checks import skipped_by_why
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.needs import NEEDS
from rdmadiag.preflight.rules import _FAMILIES, _rules
from rdmadiag.preflight.verdict import Verdict
from rdmadiag.render import junit, nagios, prometheus
from rdmadiag.samples import folder, samples
from rdmadiag.sources.record import record
from rdmadiag.sources.run import gather, sources_of
from rdmadiag.view.access import node_access
from rdmadiag.view.reconcile import devices

DOWN = {"state": PortState.DOWN, "phys": PhysState.POLLING}
LATE = Missing(Why.TIMEOUT, "no answer before the deadline")
EVERY = dict(hosts())

pytestmark = pytest.mark.once


def sample(name: str, soon: float) -> Evidence:
    return gather(open_snapshot(folder(name)), soon)


def rules_skipped(verdict: Verdict) -> set[str]:
    return {each.rule for each in verdict.skipped}


def cases(verdict: Verdict) -> dict[str, list[str]]:
    """JUnit's cases by their state."""
    root = ET.fromstring(junit.text(verdict, HOST, frozenset({"warn", "critical"}), WHEN))
    found: dict[str, list[str]] = {"passed": [], "failure": [], "skipped": []}
    for case in root.iter("testcase"):
        state = next((s for s in ("failure", "skipped") if case.find(s) is not None), "passed")
        found[state].append(str(case.get("name")))
    assert root[0].get("skipped") == str(len(found["skipped"]))
    return found


# --- what each rule says that it needs --------------------------------------------------------

SAYS_WHAT_IS_MISSING = {
    "source-failed",
    "source-incomplete",
    "source-not-collected",
    "nldev-device-refused",
    "system-not-supported",
}


def test_every_rule_says_what_it_needs() -> None:
    for family, _ in _FAMILIES:
        for rule in _rules(family):
            assert set(rule.needs) <= set(NEEDS), rule.code
            judges = family != "expected" and rule.code not in SAYS_WHAT_IS_MISSING
            assert bool(rule.needs) == judges, rule.code


def test_every_need_is_some_rules() -> None:
    needed = {need for family, _ in _FAMILIES for rule in _rules(family) for need in rule.needs}
    assert needed == set(NEEDS)


# --- the order that holds ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_that_a_record_has_lost_is_no_file_that_the_host_lacks(
    roce: Machine, tmp_path: Path, soon: float
) -> None:
    """Each file of a record, taken out of it; the bytes of the whole one are as they were."""
    recording, late = record(roce.host(), soon)
    files = documents(recording, roce.identity(), late)
    write_folder(files, str(tmp_path / "whole"))
    full = judge(gather(open_snapshot(str(tmp_path / "whole")), soon))
    kept = files.keys() - {META}
    assert len(kept) > 100
    for name in sorted(kept):
        path = tmp_path / "whole" / name
        content = path.read_bytes()
        path.unlink()
        part = judge(gather(open_snapshot(str(tmp_path / "whole")), time.monotonic() + 20))
        assert list(broken(full, part, Removed((), Why.MALFORMED))) == [], name
        path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_without_a_source_nothing_is_milder_or_graver_or_passes(name: str) -> None:
    """A quarter of the sources of each host, for one reason each; the next host's are others.

    `make campaign-short`, which CI runs, takes each source of each host for every reason, and
    values as well.
    """
    evidence = EVERY[name]()
    full = judge(evidence)
    sources = sources_of("darwin" if evidence.is_mac else "linux")
    host = list(EVERY).index(name)
    for number, source in enumerate(sources[host % 4 :: 4], host // 4):
        why = (Why.EXHAUSTED, Why.DENIED, Why.NOT_COLLECTED)[number % 3]
        removed = Removed((source,), why)
        part = judge(without(evidence, (source,), why))
        assert list(broken(full, part, removed)) == [], removed


@pytest.mark.parametrize(
    "path",
    [
        ("process", "nodes"),
        ("process", "library"),
        ("process", "memlock"),
        ("nldev", "netns_mode"),
        ("sysfs", "devices"),
        ("sysfs", "devices", 0, "ports"),
        ("sysfs", "devices", 0, "ports", 0, "state"),
        ("sysfs", "devices", 0, "ports", 0, "phys_state"),
        ("sysfs", "devices", 0, "ports", 0, "gids"),
        ("sysfs", "devices", 0, "ports", 0, "link_layer"),
        ("system", "cpus_online"),
        ("kernel_log", "lines"),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_value_that_could_not_be_read_leaves_no_verdict_ok(path: tuple[str | int, ...]) -> None:
    evidence = taken(roce_host().evidence(), ("nldev", "devices", 0, "ports"), LATE)
    evidence = taken(evidence, ("verbs", "devices", 0, "ports"), LATE)
    assert judge(taken(evidence, path, LATE)).status == "unknown"


def test_a_part_that_no_rule_speaks_of_is_named_once_with_its_file() -> None:
    refused = Missing(Why.DENIED, "/dev/infiniband: EACCES")
    verdict = judge(taken(roce_host().evidence(), ("process", "nodes"), refused))
    (finding,) = verdict.findings
    assert (finding.rule, finding.severity) == ("source-incomplete", "unknown")
    assert "/dev/infiniband: EACCES" in finding.summary
    assert finding.remedy == ("sudo rdmadiag preflight",)


# --- could not start --------------------------------------------------------------------------


@pytest.mark.parametrize("name", samples())
def test_where_no_source_can_start_the_verdict_is_unknown(
    name: str, soon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = open_snapshot(folder(name))
    monkeypatch.setattr(type(host), "can_hang", True)

    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("os.fork", refused)
    evidence = gather(host, soon)
    own = sources_of(host.identity.platform)
    assert {evidence.missing[each].why for each in own} == {Why.EXHAUSTED}
    verdict = judge(evidence)
    assert (verdict.status, verdict.safe_to_attempt_rtr) == ("unknown", False)
    assert "no process could be started: EAGAIN" in verdict.findings[0].summary


def test_what_nobody_looked_at_is_no_failure_and_what_could_not_be_is() -> None:
    evidence = infiniband_host().evidence()
    others = tuple(each for each in LINUX_SOURCES if each != "sysfs")
    assert judge(without(evidence, others, Why.NOT_COLLECTED)).status == "ok"
    assert judge(without(evidence, others, Why.EXHAUSTED)).status == "unknown"


def test_a_container_without_nodes_is_critical_and_unknown_without_the_process(
    soon: float,
) -> None:
    evidence = sample("container-without-uverbs", soon)
    assert judge(evidence).status == "critical"
    assert judge(without(evidence, ("process",), Why.EXHAUSTED)).status == "unknown"


# --- what nobody read is no evidence -----------------------------------------------------------


def test_without_sysfs_and_nldev_no_node_is_called_missing(soon: float) -> None:
    evidence = without(sample("roce-healthy", soon), ("sysfs", "nldev"), Why.TIMEOUT)
    verdict = judge(evidence)
    assert verdict.status == "unknown"
    assert not [each for each in verdict.findings if each.severity in ("warn", "critical")]
    assert "uverbs-node-missing" in rules_skipped(verdict)
    assert all("uverbs_node_missing" not in port.reasons for port in verdict.ports)


def test_a_device_of_which_nldev_says_that_it_has_no_node_has_none() -> None:
    """ib_uverbs does not serve it: nldev answers, whatever became of sysfs."""
    evidence = without(roce_host().evidence(), ("sysfs",), Why.TIMEOUT)
    absent = Missing(Why.ABSENT, "ENOENT")
    evidence = taken(evidence, ("nldev", "devices", 0, "chardev"), absent)
    (device,) = devices(evidence)
    assert node_access(device, evidence) is not evidence.sysfs
    (finding,) = [f for f in judge(evidence).findings if f.rule == "uverbs-node-missing"]
    assert [proof.source for proof in finding.evidence] == ["process", "nldev"]


def test_an_idle_port_is_neither_broken_nor_unused_where_its_siblings_were_not_seen() -> None:
    evidence = infiniband_host().with_port(1, 0, **DOWN).evidence()
    (idle,) = [each for each in judge(evidence).findings if each.rule == "link-not-up"]
    assert idle.severity == "warn"
    assert isinstance(evidence.sysfs, SysfsFacts)
    assert not isinstance(evidence.nldev, Missing)
    alone = replace(
        without(evidence, ("sysfs", "verbs"), Why.TIMEOUT),
        nldev=replace(evidence.nldev, devices=evidence.nldev.devices[1:]),
    )
    (unsure,) = [each for each in judge(alone).findings if each.rule == "link-not-up"]
    assert unsure.severity == "unknown"


# --- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in samples() if name != "mac-wedged"])
def test_a_host_that_was_read_whole_skips_nothing(name: str, soon: float) -> None:
    assert judge(sample(name, soon)).skipped == ()


@pytest.mark.parametrize(
    "machine",
    [roce_host(), infiniband_host(), Machine("without devices")],
    ids=lambda machine: machine.hostname,
)
def test_a_machine_that_was_read_whole_skips_nothing(machine: Machine) -> None:
    assert judge(machine.evidence()).skipped == ()


def test_of_a_bare_tree_what_could_not_be_checked_is_neither_passed_nor_zero() -> None:
    others = tuple(each for each in LINUX_SOURCES if each != "sysfs")
    verdict = judge(without(infiniband_host().evidence(), others, Why.NOT_COLLECTED))
    found = cases(verdict)
    assert verdict.status == "ok"
    assert len(found["skipped"]) > 30
    unread = {"uverbs-node-missing", "device-unhealthy-in-log", "provider-wedged", "mtu-below"}
    assert not unread & set(found["passed"])
    assert {"link-not-up", "no-subnet-manager", "no-usable-pkey"} <= set(found["passed"])
    text = prometheus.text(verdict, (), WHEN)
    assert 'check="uverbs-node-missing"' not in text
    assert 'check_status{check="link-not-up",device="",port=""} 0.0' in text
    counts = skipped_by_why(verdict)
    assert f'rdmadiag_checks_skipped{{why="not_collected"}} {counts[Why.NOT_COLLECTED]}.0' in text
    assert 'rdmadiag_checks_skipped{why="timeout"} 0.0' in text
    assert f" skipped={len(rules_skipped(verdict))};;;0" in nagios.line(verdict, HOST)


def test_a_mac_whose_provider_hangs_passes_no_rule_on_its_ports(soon: float) -> None:
    verdict = judge(sample("mac-wedged", soon))
    found = cases(verdict)
    assert any(case.startswith("provider-wedged") for case in found["failure"])
    assert not {"no-ipv4-gid", "thunderbolt-port-down", "link-not-up"} & set(found["passed"])
    assert len(found["skipped"]) > 40


def test_the_log_that_is_not_for_an_ordinary_user_is_counted_and_no_failure() -> None:
    denied = Missing(Why.DENIED, "/dev/kmsg: EPERM")
    verdict = judge(roce_host().change(kernel_log=denied).evidence())
    assert verdict.status == "ok"
    assert {each.why for each in verdict.skipped} == {Why.DENIED}
    assert "device-unhealthy-in-log" in rules_skipped(verdict)
    late = roce_host().change(kernel_log=Missing(Why.TIMEOUT, "/dev/kmsg: late"))
    assert judge(late.evidence()).status == "unknown"


def test_a_rule_is_skipped_at_the_port_that_it_could_not_look_at_alone() -> None:
    evidence = infiniband_host().with_port(0, 0, **DOWN).evidence()
    whole = judge(evidence)
    assert [each.device for each in whole.findings if each.rule == "link-not-up"] == ["mlx5_0"]
    for source in ("nldev", "verbs"):
        evidence = taken(evidence, (source, "devices", 1, "ports", 0, "phys_state"), LATE)
    evidence = taken(evidence, ("sysfs", "devices", 1, "ports", 0, "phys_state"), LATE)
    found = cases(judge(evidence))
    assert "link-not-up mlx5_0/1" in found["failure"]
    assert "link-not-up mlx5_1/1" in found["skipped"]
