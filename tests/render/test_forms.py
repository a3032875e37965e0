"""Forms for programs, held to the rules of those who read them, and never broken by a text."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.host.toml_file import parse_toml
from rdmadiag.preflight.expectations.written import expectations, from_option
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Proof, Severity, Status, Verdict
from rdmadiag.render import github, junit, nagios, prometheus
from rdmadiag.view.reconcile import devices

WHEN: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATE: Final = Missing(Why.TIMEOUT, "late")
HOST: Final = Identity("node7", "linux", "6.1.0")
COUNTS: Final = frozenset({"warn", "unknown", "critical"})
HEALTHY: Final = judge(infiniband_host().evidence())
DOWN: Final = judge(
    infiniband_host().with_port(state=PortState.DOWN, phys=PhysState.POLLING).evidence(),
    expectations=from_option("devices", 3, "--expect-devices"),
)

TEXTS = st.text(max_size=30) | st.sampled_from(
    ["a|b", "%0A::error::x", "a\nb", "]]>", '"\\\n', "ü→"]
)
FINDINGS = st.builds(
    Finding,
    rule=st.sampled_from(["link-not-up", "expected-rate"]),
    severity=st.sampled_from(Severity),
    device=st.none() | TEXTS.filter(bool),
    port=st.none() | st.integers(1, 255),
    summary=TEXTS,
    evidence=st.tuples(st.builds(Proof, st.just("sysfs"), TEXTS, TEXTS)),
    remedy=st.lists(TEXTS, max_size=2).map(tuple),
    references=st.just(()),
    expected=st.none() | TEXTS,
    actual=st.none() | TEXTS,
)
VERDICTS = st.builds(
    Verdict,
    status=st.sampled_from(Status),
    safe_to_attempt_rtr=st.booleans(),
    ports=st.just(()),
    findings=st.lists(FINDINGS, max_size=4).map(tuple),
    rules_asked=st.just(("link-not-up",)),
    expectations=st.none(),
)
NAMES = TEXTS.map(lambda text: Identity(text, "linux", "6.1.0"))


# --- nagios: Monitoring Plugins' development guidelines, "Plugin Output" and "Performance data"

LINE: Final = re.compile(
    r"RDMA (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+ \| "
    r"(?:[A-Za-z_]+=(?:U|-?[0-9.]+)(?:;[0-9.]*){0,4} ?)+\n"
)


@pytest.mark.parametrize(
    ("verdict", "word"), [(HEALTHY, "OK"), (DOWN, "CRITICAL")], ids=["healthy", "down"]
)
def test_a_nagios_line_is_as_the_guidelines_have_it(verdict: Verdict, word: str) -> None:
    line = nagios.line(verdict, HOST)
    assert (match := LINE.fullmatch(line))
    assert match[1] == word
    assert "[node7]" in line


def test_performance_data_is_what_there_is() -> None:
    data = nagios.line(DOWN, HOST).partition(" | ")[2].split()
    figures = dict(item.partition(";")[0].split("=") for item in data)
    assert figures["ports"] == "2"
    assert figures["active_ports"] == "1"
    assert int(figures["critical"]) >= 1
    assert figures["expectations_met"] == "0"


def test_performance_data_that_could_not_be_had_is_u() -> None:
    """ "value" … may be "U", where the actual value could not be determined."""
    first, second = HEALTHY.ports
    unread = replace(first, state=Missing(Why.DENIED), safe_to_attempt_rtr=False)
    line = nagios.line(replace(HEALTHY, ports=(unread, second)), HOST)
    assert LINE.fullmatch(line)
    assert "ports=2;;;0 active_ports=U;;;0;2 " in line
    blind = replace(
        infiniband_host().evidence(), **dict.fromkeys(("sysfs", "nldev", "verbs"), LATE)
    )
    assert " | ports=U;;;0 active_ports=U;;;0; rtr_ports=U;;;0; " in nagios.line(judge(blind), HOST)


@given(VERDICTS, NAMES)
def test_no_text_breaks_a_nagios_line(verdict: Verdict, host: Identity) -> None:
    assert nagios.line(verdict, host).count("|") == 1
    assert nagios.line(verdict, host).count("\n") == 1


@given(TEXTS)
def test_no_failure_breaks_a_line(text: str) -> None:
    assert nagios.failure(text).startswith("RDMA UNKNOWN - ")
    assert nagios.failure(text).count("\n") == 1
    assert "|" not in nagios.failure(text)
    assert github.failure(text).count("\n") == 1


# --- prometheus -------------------------------------------------------------------------------


def families(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_prometheus_own_parser_reads_the_file() -> None:
    host = infiniband_host().evidence()
    found = families(prometheus.text(HEALTHY, devices(host), WHEN))
    assert all(name.startswith("rdmadiag_") for name in found)
    assert found["rdmadiag_last_run_timestamp_seconds"] == [({}, WHEN.timestamp())]
    assert found["rdmadiag_status"] == [({}, 0.0)]
    assert found["rdmadiag_port_state_id"] == [
        ({"device": "mlx5_0", "port": "1"}, 4.0),
        ({"device": "mlx5_1", "port": "1"}, 4.0),
    ]
    assert found["rdmadiag_port_rate_bytes_per_second"][0][1] == 200e9 / 8
    checks = found["rdmadiag_check_status"]
    assert len(checks) == len(HEALTHY.rules_asked)
    assert {value for _, value in checks} == {0.0}


def test_a_finding_is_a_check_that_is_not_zero() -> None:
    found = families(prometheus.text(DOWN, (), WHEN))
    assert found["rdmadiag_status"] == [({}, 2.0)]
    not_ok = {labels["check"] for labels, value in found["rdmadiag_check_status"] if value}
    assert {"link-not-up", "expected-devices"} <= not_ok
    results = {labels["result"]: value for labels, value in found["rdmadiag_expectations"]}
    assert results == {"met": 0.0, "unmet": 1.0, "unknown": 0.0}


@pytest.mark.parametrize(("index", "drift"), [("3", 0.0), ("1", 2.0), ("5", -2.0)])
def test_a_route_gid_that_moved_is_a_drift(index: str, drift: float) -> None:
    file = parse_toml(f'[device."mlx5_*"]\ngid_index = {index}\n'.encode(), "x")
    host = roce_host().evidence()
    text = prometheus.text(judge(host, expectations=expectations(file)), devices(host), WHEN)
    labels = {"device": "mlx5_0", "port": "1"}
    assert families(text)["rdmadiag_gid_index_drift"] == [(labels, drift)]


def test_without_an_expectation_there_is_no_drift_to_tell() -> None:
    assert "rdmadiag_gid_index_drift" not in families(prometheus.text(HEALTHY, (), WHEN))


@given(VERDICTS)
def test_no_text_breaks_the_exposition(verdict: Verdict) -> None:
    found = families(prometheus.text(verdict, (), WHEN))
    assert len(found["rdmadiag_check_status"]) >= 1
    # The textfile collector refuses two samples with the same labels.
    every = [tuple(sorted(labels.items())) for labels, _ in found["rdmadiag_check_status"]]
    assert len(every) == len(set(every))


def test_a_label_is_one_line_of_text() -> None:
    odd = replace(infiniband_host().devices[0], name="mlx\r5")
    views = devices(infiniband_host().change(devices=(odd,)).evidence())
    text = prometheus.text(HEALTHY, views, WHEN)
    assert 'device="mlx\\\\r5"' in text
    assert "\r" not in text


# --- junit: the elements and attributes of Jenkins' and GitLab's schema -----------------------

ATTRIBUTES: Final = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {
        *("name", "tests", "failures", "errors", "skipped"),
        *("time", "timestamp", "hostname"),
    },
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "skipped": {"message"},
    "system-out": set(),
}
CHILDREN: Final = {
    "testsuites": ["testsuite"],
    "testsuite": ["testcase", "system-out"],
    "testcase": ["failure", "skipped", "system-out"],
    "failure": [],
    "skipped": [],
    "system-out": [],
}


def faults(element: ET.Element) -> Iterator[str]:
    """What the schema does not have."""
    if set(element.attrib) != ATTRIBUTES[element.tag]:
        yield f"{element.tag}: {sorted(element.attrib)}"
    order = [CHILDREN[element.tag].index(child.tag) for child in element]
    if order != sorted(order):
        yield f"{element.tag}: children out of order"
    for child in element:
        yield from faults(child)


def suite(verdict: Verdict, host: Identity = HOST, counts: frozenset[str] = COUNTS) -> ET.Element:
    root = ET.fromstring(junit.text(verdict, host, counts, WHEN))
    assert list(faults(root)) == []
    (found,) = root
    cases = found.findall("testcase")
    assert int(found.get("tests", "")) == len(cases)
    assert int(found.get("failures", "")) == len(found.findall(".//failure"))
    assert int(found.get("skipped", "")) == len(found.findall(".//skipped"))
    names = [case.get("name") for case in cases]
    assert len(names) == len(set(names))
    return found


def test_a_junit_report_has_a_case_a_rule() -> None:
    healthy = suite(HEALTHY)
    assert (healthy.get("failures"), healthy.get("hostname")) == ("0", "node7")
    names = [case.get("name") for case in healthy.findall("testcase")]
    assert names == list(HEALTHY.rules_asked)
    failed = [
        case.get("name")
        for case in suite(DOWN).findall("testcase")
        if case.find("failure") is not None
    ]
    assert "link-not-up mlx5_0/1" in failed
    assert "expected-devices" in failed


def verdict_of(severity: Severity) -> Verdict:
    finding = Finding("x", severity, None, None, "it is so", (), ("do",), ())
    return Verdict(Status.WARN, False, (), (finding,), ("x",), None)


@pytest.mark.parametrize(
    ("severity", "fail_on", "element"),
    [
        (Severity.CRITICAL, "critical", "failure"),
        (Severity.WARN, "warn", "failure"),
        (Severity.WARN, "critical", "system-out"),
        (Severity.UNKNOWN, "warn", "skipped"),
        (Severity.INFO, "warn", "system-out"),
    ],
)
def test_unknown_is_skipped_and_a_warning_fails_where_it_counts(
    severity: Severity, fail_on: str, element: str
) -> None:
    counts = COUNTS if fail_on == "warn" else frozenset({"critical"})
    (case,) = suite(verdict_of(severity), counts=counts).findall("testcase")
    assert case[0].tag == element


@given(
    st.lists(FINDINGS, max_size=4, unique_by=lambda each: (each.rule, each.device, each.port)),
    NAMES,
)
def test_no_text_breaks_a_junit_report(findings: list[Finding], host: Identity) -> None:
    verdict = Verdict(Status.OK, False, (), tuple(findings), ("link-not-up",), None)
    root = ET.fromstring(junit.text(verdict, host, COUNTS, WHEN))
    assert list(faults(root)) == []


# --- github: docs.github.com, "Workflow commands for GitHub Actions" --------------------------

COMMAND: Final = re.compile(r"::(error|warning|notice) title=([^:,\r\n]+)::([^\r\n]*)")


def test_each_finding_is_an_annotation_and_the_verdict_a_line() -> None:
    first, *others = github.text(DOWN, HOST).splitlines()
    assert first.startswith("CRITICAL  ")
    found = [match for line in others if (match := COMMAND.fullmatch(line))]
    assert len(found) == len(others) == len(DOWN.findings)
    assert {match[2]: match[1] for match in found} == {
        "expected-devices": "error",
        "link-not-up mlx5_0/1": "warning",
    }
    assert github.text(HEALTHY, HOST) == "OK  2 ports, 2 active, 2 ready for RTR  [node7]\n"


@given(VERDICTS, NAMES)
def test_no_text_breaks_or_makes_an_annotation(verdict: Verdict, host: Identity) -> None:
    first, *others = github.text(verdict, host).splitlines()
    assert not first.startswith("::")
    assert len(others) == len(verdict.findings)
    assert all(COMMAND.fullmatch(line) for line in others)


@pytest.mark.parametrize("form", ["nagios", "prometheus", "junit", "github"])
def test_a_form_for_programs_loads_no_terminal(form: str) -> None:
    script = f"import sys, rdmadiag.render.{form}; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
