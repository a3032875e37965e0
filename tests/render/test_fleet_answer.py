"""Many hosts in one line."""

import pytest

from rdmadiag.fleet.merged import Gap
from rdmadiag.render.fleet_answer import WORDS, answer, reason
from tests.fleet_reports import finding, merged, text


def bad(node: str, *rules: str, severity: str = "critical") -> str:
    return text(node, severity, [finding(rule, severity) for rule in rules])


@pytest.mark.parametrize(
    ("files", "expected", "said"),
    [
        ([text("n1"), text("n2")], None, "2 of 2 are fit"),
        ([], None, "no host reported"),
        ([text("n1"), bad("n2", "a")], None, "1 of 2: n2 a"),
        ([bad("n1", "a"), bad("n2", "a")], "n[1-3]", "3 of 3: n[1-2] a; n3 never reported"),
        (
            [bad(f"n{i}", f"r{i}") for i in range(1, 6)],
            None,
            "5 of 5: n1 r1; n2 r2; n3 r3; and 2 more reasons",
        ),
        ([bad("n1", "a", "b", "c")], None, "1 of 1: n1 a"),
        (
            [bad("n1", "a", "b"), bad("n2", "b", "c"), bad("n3", "b")],
            None,
            "3 of 3: n[1-3] b",
        ),
        ([text("n1"), bad("n2", "w", severity="warn")], None, "1 of 2: n2 w"),
        ([bad("n1", "w", severity="warn"), bad("n2", "a")], None, "1 of 2: n2 a"),
        ([text("n1", "unknown")], None, "1 of 1"),
        ([text("n1")[:50]], None, "no host reported"),
    ],
    ids=[
        "all fine",
        "nothing",
        "one bad",
        "two bad and one silent",
        "more reasons than are named",
        "one host is named for its first reason",
        "the reason that names most hosts comes first, and is enough",
        "a warning",
        "a warning is not said beside what is worse",
        "unknown without a finding",
        "a torn report of nobody",
    ],
)
def test_the_worst_reasons_with_their_nodes(
    files: list[str], expected: str | None, said: str
) -> None:
    assert answer(merged(*files, expected=expected)) == said


def test_a_long_set_of_nodes_is_a_number() -> None:
    files = [bad(f"n{3 * i}", "a") for i in range(60)]
    assert answer(merged(*files)) == "60 of 60: 60 hosts a"


def test_every_gap_has_words_and_a_rule_is_its_code() -> None:
    assert set(WORDS) == set(Gap)
    assert reason("never_reported") == "never reported"
    assert reason("no-subnet-manager") == "no-subnet-manager"
