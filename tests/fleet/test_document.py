"""One document: what is kept of it, and that its host chooses nothing but that."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.fleet.document import Attempted, NoReport, NotJson, Reader, Said, decoded, piece
from rdmadiag.fleet.merged import Gap
from rdmadiag.preflight.verdict import Finding, Severity, Status
from tests.fleet_reports import document, finding


def said(made: Any) -> Said | Attempted | NoReport:
    return Reader(lambda each: {}).said(made, lambda: json.dumps(made).encode())


def test_what_is_kept() -> None:
    remedy, proof = ["ibstat"], {"source": "sysfs", "subject": "/sys/x", "value": "0"}
    made = document("n1", "critical", [finding(remedy=remedy, evidence=[proof], more=1)])
    found = said(made)
    assert isinstance(found, Said)
    assert (found.kind, found.hostname, found.version) == ("preflight", "n1", "0.1.0")
    assert (found.status, found.safe_to_attempt_rtr) == (Status.CRITICAL, False)
    (one,) = found.findings
    assert (one.rule, one.severity, one.device, one.port) == (
        "no-subnet-manager",
        Severity.CRITICAL,
        "mlx5_0",
        1,
    )
    assert one.remedy == ("ibstat",)
    assert [(each.subject, each.value) for each in one.evidence] == [("/sys/x", "0")]


@pytest.mark.parametrize(
    "changed",
    [
        {"host": {"hostname": 7}},
        {"host": "n1"},
        {"tool": "rdmadiag"},
        {"generated_at": "yesterday"},
        {"generated_at": 12},
        {"verdict": []},
        {"verdict": {"status": "fine", "findings": []}},
        {"verdict": {"status": "ok", "findings": {}}},
        {"verdict": {"status": "ok", "findings": ["x"]}},
        {"verdict": {"status": "ok", "findings": [finding(rule="\x1b[2J")]}},
        {"verdict": {"status": "ok", "findings": [finding(rule="A b")]}},
        {"verdict": {"status": "ok", "findings": [finding(severity="fatal")]}},
        {"verdict": {"status": "ok", "findings": [finding(summary=None)]}},
        {"verdict": {"status": "ok", "findings": [finding(remedy="x")]}},
        {"verdict": {"status": "ok", "findings": [finding(remedy=[1])]}},
        {"verdict": {"status": "ok", "findings": [finding(evidence=[1])]}},
    ],
    ids=repr,
)
def test_a_part_of_another_type_makes_it_no_report(changed: dict[str, Any]) -> None:
    found = said(document(**changed))
    assert isinstance(found, NoReport)
    assert found.gap is Gap.FOREIGN


def test_each_text_and_each_list_is_bounded() -> None:
    long = "x" * 100_000
    one = finding(
        summary=long,
        device=long,
        remedy=[long] * 1000,
        evidence=[{"source": long, "subject": long, "value": long}] * 1000,
    )
    made = document(long, "critical", [one | {"rule": f"r{i}"} for i in range(2000)])
    made["tool"]["version"] = long
    found = said(made)
    assert isinstance(found, Said)
    assert len(found.hostname) == 253
    assert len(found.version) <= 41
    assert len(found.findings) == 500
    assert len(repr(found.findings[0])) < 50_000


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000, '{"a":1e999}'])
def test_depth_and_numbers_without_end_raise_nothing_else(text: str) -> None:
    with contextlib.suppress(NotJson):
        decoded(text.encode())


def test_half_a_surrogate_pair_is_read_as_we_write_it() -> None:
    assert decoded(b'{"a":"\\ud800"}') == {"a": "\ud800"}


@pytest.mark.parametrize(
    ("text", "torn"), [(b'{"a": "b', True), (b'{"a"', True), (b"{a", False), (b"{} x", False)]
)
def test_torn_and_foreign_are_told_apart(text: bytes, torn: bool) -> None:
    with pytest.raises(NotJson) as raised:
        decoded(text)
    assert raised.value.torn is torn


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(list(finding()) + list(document())), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.dictionaries(st.sampled_from(list(document())), JSON, max_size=3))
def test_no_json_raises(anything: Any, changed: dict[str, Any]) -> None:
    assert isinstance(said(anything), NoReport | Said | Attempted)
    assert isinstance(said(document(**changed)), NoReport | Said | Attempted)


@given(st.binary(max_size=600) | st.text(max_size=600))
def test_a_piece_is_one_line_that_a_terminal_may_see(raw: bytes | str) -> None:
    assert piece(raw).isprintable()


def test_facts_are_those_of_the_table_and_only_of_reports() -> None:
    facts: dict[str, str | Missing] = {"kernel": "6.1"}
    reader = Reader(lambda each: facts)
    found = reader.said(document(), lambda: b"")
    assert isinstance(found, Said)
    assert found.facts is facts
    counters = document(sample={})
    del counters["evidence"]
    found = reader.said(counters, lambda: b"")
    assert isinstance(found, Said)
    assert (found.kind, found.facts) == ("counters", {})


def test_a_verdict_is_taken_as_recorded_or_made_anew() -> None:
    worse = Finding("x", Severity.WARN, None, None, "x", (), (), ())
    reader = Reader(lambda each: {}, lambda content: (Status.WARN, False, (worse,)))
    found = reader.said(document(), lambda: b"")
    assert isinstance(found, Said)
    assert (found.status, found.findings) == (Status.WARN, (worse,))

    def cannot(content: bytes) -> Any:
        raise ValueError("no evidence")

    refused = Reader(lambda each: {}, cannot).said(document(), lambda: b"")
    assert isinstance(refused, NoReport)
    assert refused.detail == "cannot be judged again: no evidence"


def test_of_an_outcome_of_pingpong_small_parts_are_kept() -> None:
    made = document(role="connect", outcome="verified", teardown=[], latency_us={"median": 2.5})
    made["local"] = {"device": "x" * 1000, "gid": "fe80::1", "queue_pair": 7, "psn": {"no": 1}}
    del made["evidence"], made["verdict"]
    found = said(made)
    assert isinstance(found, Attempted)
    assert found.hostname == "n1"
    assert found.document == {
        "generated_at": "2026-11-23T07:00:00Z",
        "outcome": "verified",
        "role": "connect",
        "local": {"device": None, "gid": "fe80::1", "queue_pair": 7, "psn": None},
        "latency_us": {"median": 2.5},
    }


def test_a_report_without_a_verdict_says_what_would_make_one() -> None:
    made = document()
    del made["verdict"]
    found = said(made)
    assert isinstance(found, NoReport)
    assert "--judge-again" in found.detail
