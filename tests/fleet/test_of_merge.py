"""One merge as a history keeps it."""

from dataclasses import replace

import pytest

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.history import PairFigures, Said
from rdmadiag.fleet.merged import Gap, NodeRow, Unused
from rdmadiag.fleet.of_merge import figures_of, said_of, said_of_pairs, time_of
from rdmadiag.fleet.pair_results import End, PairResult
from rdmadiag.preflight.verdict import Finding, Severity, Status
from tests.fleet_documents import host

NOW = 1_800_000_000.0


def finding(rule: str, severity: Severity) -> Finding:
    return Finding(rule, severity, None, None, "", (), (), ())


def test_what_is_said_of_a_node_are_its_status_and_the_rules_that_count() -> None:
    report = replace(
        host("n1", {"kernel": "6.1"}),
        status=Status.CRITICAL,
        findings=(
            finding("b", Severity.CRITICAL),
            finding("a", Severity.WARN),
            finding("b", Severity.WARN),
            finding("note", Severity.INFO),
        ),
    )
    found = said_of([report], odd={"n1": {"kernel": "6.1"}})
    assert found == {
        "n1": Said(Status.CRITICAL, ("a", "b"), {"kernel": "6.1"}, {"kernel": "6.1"}, None)
    }


@pytest.mark.parametrize(
    ("gap", "kept"),
    [
        (Gap.NEVER_REPORTED, True),
        (Gap.TORN, True),
        (Gap.FAILED, True),
        (Gap.FOREIGN, True),
        (Gap.SECOND, False),
    ],
)
def test_a_node_without_a_report_is_kept_with_the_gap(gap: Gap, kept: bool) -> None:
    unused = [Unused(gap, "n2", None, "x"), Unused(gap, None, None, "x"), Unused(gap, "n1", "", "")]
    found = said_of([host("n1", {})], unused)
    assert found.get("n2") == (Said(None, (str(gap),), {}, {}) if kept else None)
    assert found["n1"].status is Status.OK


def test_one_clock_that_is_wrong_does_not_date_the_others() -> None:
    right = [replace(host(f"n{at}", {}), generated_at="2026-01-01T00:00:00Z") for at in range(3)]
    wrong = replace(host("n9", {}), generated_at="2099-01-01T00:00:00Z")
    no_time = replace(host("n8", {}), generated_at="soon")
    assert time_of([*right, wrong, no_time], NOW) == 1_767_225_600
    assert time_of([wrong], NOW) == int(NOW)
    assert time_of([no_time], NOW) == time_of([], NOW) == int(NOW)


def test_figures_are_of_all_pairs_that_a_node_was_an_end_of() -> None:
    a, b, c = (End(node, 0, "mlx5_0") for node in "abc")
    found = figures_of(
        [
            PairResult(1, a, b, Outcome.VERIFIED, 2.0, 390.0),
            PairResult(2, c, a, Outcome.VERIFIED, 4.0, 370.0),
            PairResult(3, b, c, None, None, None),
        ]
    )
    assert found == {
        "a": PairFigures(2, 0, 3.0, 380.0),
        "b": PairFigures(2, 1, 2.0, 390.0),
        "c": PairFigures(2, 1, 4.0, 370.0),
    }


def test_a_pair_of_which_both_ends_say_something_is_one_pair() -> None:
    a, b = End("a", 0, "mlx5_0"), End("b", 0, "mlx5_0")
    said = [
        PairResult(1, a, b, Outcome.VERIFIED, 2.0, None, by_sender=True),
        PairResult(1, a, b, Outcome.VERIFIED, None, None, by_sender=False),
        PairResult(2, b, a, Outcome.VERIFIED, 3.0, None, by_sender=True),
        PairResult(2, b, a, None, None, None, by_sender=False),
    ]
    assert figures_of(said) == dict.fromkeys("ab", PairFigures(2, 1, 2.5, None))


def test_of_a_tournament_each_node_has_how_it_stands_and_its_figures() -> None:
    a, b = End("a", 0, "mlx5_0"), End("b", 0, "mlx5_0")
    rows = [
        NodeRow("a", Status.WARN, None, ("nic",), None, None),
        NodeRow("c", Status.UNKNOWN, None, ("not-tried",), None, None),
        NodeRow("d", None, None, (), None, None),
    ]
    found = said_of_pairs(rows, [PairResult(1, a, b, Outcome.VERIFIED, 2.0, None)])
    assert found == {
        "a": Said(Status.WARN, ("nic",), {}, {}, PairFigures(1, 0, 2.0, None)),
        "c": Said(Status.UNKNOWN, ("not-tried",), {}, {}, None),
        "d": Said(None, (), {}, {}, None),
    }
