"""The page of scores."""

import json
from pathlib import Path

import pytest

from faults.answers import NOTHING, Answer, by_story
from faults.score import RECORDS, WAYS, Scored, explain_both, tables
from faults.table import Fault

RIGHT, WRONG = Answer("no-route", "left"), Answer("memlock", "right")


def fault(name: str, family: str) -> Fault:
    return Fault(name, family, "", "left", "", "rtr", ("no-route",), (), ("rping", "ucx"))


def scored(name: str, family: str, *given: Answer) -> Scored:
    return Scored(fault(name, family), dict.fromkeys(WAYS, given))


def test_a_fault_counts_once_whatever_the_number_of_its_tools() -> None:
    half = scored("a", "route", RIGHT, WRONG)
    assert (half.cause("explain"), half.host("explain")) == (0.5, 0.5)
    none = scored("b", "route", NOTHING)
    text = tables([half, none], [])
    assert "## open families: 2 faults" in text
    assert "| explain | 25.0% | 25.0% | 66.7% |" in text
    assert "| a | left | no-route at left / memlock at right |" in text


def test_families_held_out_have_a_table_of_their_own() -> None:
    text = tables([scored("a", "route", WRONG), scored("b", "mtu", RIGHT)], [])
    first, second = text.split("## held out: 1 faults")
    assert "## open families: 1 faults" in first
    assert "| rdmadiag | 100.0% | 100.0% | 100.0% |" in second


def test_each_round_of_families_held_out_has_a_table_of_its_own() -> None:
    rows = [scored("a", "mtu", WRONG), scored("b", "container", RIGHT), scored("c", "bond", RIGHT)]
    first, second = tables(rows, []).split("## held out, round 2: 1 faults")
    assert "## open families: 1 faults" in first
    assert "## held out: 1 faults" in first
    assert "| rdmadiag | 100.0% | 100.0% | 100.0% |" in second


def test_what_was_found_with_a_healthy_twin_is_named() -> None:
    false = [
        ("healthy-rxe-rping", {"preflight": ("link-not-up",), "explain": ()}),
        ("healthy-rxe-ucx", {"preflight": (), "explain": ()}),
    ]
    text = tables([], false)
    assert "| healthy-rxe-rping | preflight: link-not-up |" in text
    assert "| healthy-rxe-ucx | nothing |" in text


@pytest.mark.slow  # a process for each
@pytest.mark.parametrize("path", sorted(RECORDS.glob("healthy-*.json")), ids=lambda p: p.stem)
def test_the_logs_of_a_healthy_twin_say_nothing_together(path: Path) -> None:
    tools = json.loads(path.read_text("utf-8"))["tools"]
    found = {
        tool: by_story(explain_both({end: each["said"] for end, each in ends.items()})).cause
        for tool, ends in tools.items()
    }
    assert not any(found.values()), found
