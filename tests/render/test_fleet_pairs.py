"""Pairs of a fleet as a person reads them: the answer first, a heat map of 80 columns."""

from io import StringIO

import pytest
from rich.console import Console

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.matrix import judge, status
from rdmadiag.fleet.pair_results import PairResult, Tournament
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.fleet_pairs import document, show
from tests.fleet.planted import fleet, results
from tests.fleet.test_failures import failing, of


def text(found: Tournament, width: int = 80, **how: bool) -> str:
    out = StringIO()
    show(found, Console(file=out, width=width, color_system=None), **how)
    return out.getvalue()


def slow(node: str, hosts: int = 16, rails: int = 4) -> list[PairResult]:
    return results(fleet(hosts, rails, 3), lambda a, i, b, j: 1.5 if node in (a, b) else 1.0)


def test_a_fleet_in_order_says_so_first() -> None:
    found = judge(results(fleet(7, 1, 3)))
    assert text(found).splitlines()[0] == "OK  9 pairs of 7 nodes, 3 rounds: none is odd"
    assert status(found) is Status.OK


def test_a_slow_node_is_the_answer() -> None:
    found = judge(slow("n003"))
    first = text(found).splitlines()[0]
    assert first == "WARN  node n003 is 1.50 times slower (96 pairs of 16 nodes, 12 rounds)"
    assert status(found) is Status.WARN
    assert "with 12 partners, seen in more than one round" in text(found)


def test_a_node_that_fails_is_critical() -> None:
    found = judge(failing(slow("none"), of("n003")))
    assert text(found).startswith("CRITICAL  node n003 fails (96 pairs")
    assert status(found) is Status.CRITICAL
    assert " X" in text(found)


def test_an_end_that_never_reported_is_named_and_the_whole_is_not_known() -> None:
    only = [each for each in results(fleet(4, 1, 1)) if each.by_sender]
    found = judge(only)
    assert text(found).startswith("UNKNOWN  2 ends never reported (2 pairs of 4 nodes, 1 round)")
    assert "in round 1" in text(found)


def test_no_results_are_no_answer() -> None:
    assert text(judge([])).startswith("UNKNOWN  no pair was tried")


@pytest.mark.parametrize("hosts", [2, 8, 30, 31, 200])
def test_the_heat_map_fits_into_80_columns(hosts: int) -> None:
    found = judge(slow("n001", hosts, 2))
    assert max(map(len, text(found).splitlines())) <= 80


def test_what_is_odd_stands_in_the_first_row_of_the_heat_map() -> None:
    shown = text(judge(slow("n013"))).splitlines()
    head = next(number for number, line in enumerate(shown) if line.startswith("Rows send"))
    assert shown[head + 1].strip().startswith("n013")
    assert "#" in shown[head + 1]


def test_quiet_is_the_answer_alone() -> None:
    assert len(text(judge(slow("n003")), quiet=True).splitlines()) == 1


def test_the_document_has_the_parts_with_their_evidence() -> None:
    found = document(judge(slow("n003")))
    assert found["status"] == "warn"
    assert [part.names for part in found["odd"]] == [("n003",)]
    assert len(found["matrix"].cells) == 96


def test_names_that_a_terminal_would_obey_are_shown_as_what_they_are() -> None:
    from dataclasses import replace

    bad = [
        replace(
            each,
            sender=replace(each.sender, node="\x1b[31m" + each.sender.node),
            receiver=replace(each.receiver, node="\x1b[31m" + each.receiver.node),
            outcome=Outcome.COMPLETION_ERROR,
        )
        for each in results(fleet(4, 1, 3))
    ]
    assert "\x1b" not in text(judge(bad))
