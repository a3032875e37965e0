"""The picture of a matrix: which pairs share a square, and what stands out."""

from collections.abc import Iterable

import pytest

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.pair_results import Cell, Matrix
from rdmadiag.render.heat_map import MOST, MOST_BLOCKS, Row, heat_map

USUAL_US, USUAL_GBPS = 2.0, 100.0


def cell(
    sender: str,
    receiver: str,
    latency_us: float | None = USUAL_US,
    gbps: float | None = USUAL_GBPS,
    outcome: Outcome | None = Outcome.VERIFIED,
) -> Cell:
    return Cell(sender, receiver, outcome, latency_us, gbps)


def ring(ends: Iterable[str], **values: float) -> tuple[Cell, ...]:
    """Each to the next but one: with more than three ends most pairs are as usual."""
    names = tuple(ends)
    return tuple(
        cell(name, other, **values)
        for name, other in zip(names, (*names[2:], *names[:2]), strict=True)
    )


ENDS = ("a:d0", "b:d0", "c:d0", "d:d0", "e:d0")


def test_a_square_is_how_many_times_slower_than_the_median_its_pair_is() -> None:
    found = heat_map(Matrix(ENDS, (*ring(ENDS), cell("a:d0", "b:d0", latency_us=3.0))))
    assert (found.row, found.labels, tuple(found.ends)) == (Row.END, ENDS, ENDS)
    assert (found.latency_us, found.gbps) == (USUAL_US, USUAL_GBPS)
    assert found.squares[0, 1].worst == 1.5
    assert found.squares[0, 2].worst == 1.0
    assert (0, 3) not in found.squares


@pytest.mark.parametrize(
    ("latency_us", "gbps", "expected"),
    [
        (3.0, 100.0, 1.5),
        (2.0, 50.0, 2.0),
        (3.0, 50.0, 2.0),
        (1.0, 200.0, 0.5),
        (None, 80.0, 1.25),
        (3.0, None, 1.5),
        (None, None, None),
        (0.0, -1.0, None),
        (float("nan"), float("inf"), None),
    ],
)
def test_the_worse_of_latency_and_bandwidth_counts_and_what_is_no_measurement_does_not(
    latency_us: float | None, gbps: float | None, expected: float | None
) -> None:
    found = heat_map(Matrix(ENDS, (*ring(ENDS), cell("a:d0", "b:d0", latency_us, gbps))))
    assert found.squares[0, 1].worst == expected
    assert (found.squares[0, 1].tried, found.squares[0, 1].failed) == (1, 0)


def test_a_pair_that_failed_has_its_outcome_and_is_no_measurement() -> None:
    failed = cell("a:d0", "b:d0", 9.0, 1.0, Outcome.NO_DATA)
    silent = cell("b:d0", "a:d0", None, None, None)
    found = heat_map(Matrix(ENDS, (*ring(ENDS), failed, silent)))
    assert found.latency_us == USUAL_US
    square = found.squares[0, 1]
    assert (square.failed, square.outcome, square.worst) == (1, Outcome.NO_DATA, None)
    square = found.squares[1, 0]
    assert (square.failed, square.outcome, square.worst) == (1, None, None)


def test_a_slow_sender_is_a_row_and_a_slow_receiver_a_column() -> None:
    others = ENDS[1:]
    healthy = tuple(cell(one, other) for one in others for other in others if one != other)
    sends = tuple(cell("a:d0", other, latency_us=3.0) for other in others)
    receives = tuple(cell(other, "a:d0") for other in others)
    found = heat_map(Matrix(ENDS, (*healthy, *sends, *receives)))
    assert [tally.middle for tally in found.senders] == [1.5, 1, 1, 1, 1]
    assert [tally.middle for tally in found.receivers] == [1, 1, 1, 1, 1]
    assert found.worst(1) == ["a:d0"]


def test_what_fails_is_worse_than_what_is_slow() -> None:
    cells = (
        *ring(ENDS),
        cell("a:d0", "b:d0", 8.0),
        cell("d:d0", "e:d0", None, None, Outcome.NO_DATA),
    )
    found = heat_map(Matrix(ENDS, cells))
    assert set(found.worst(2)) == {"d:d0", "e:d0"}
    assert len(found.worst(99)) == 5


def test_an_end_without_any_pair_has_a_row_and_is_not_among_the_worst() -> None:
    found = heat_map(Matrix((*ENDS, "f:d0"), ring(ENDS)))
    assert found.labels[5] == "f:d0"
    assert "f:d0" not in found.worst(99)


def test_nothing_tried_is_an_empty_picture() -> None:
    found = heat_map(Matrix((), ()))
    assert (found.labels, found.squares, found.latency_us, found.worst(3)) == ((), {}, None, [])


def names(nodes: int, rails: int = 1) -> tuple[str, ...]:
    return tuple(f"n{node}:d{rail}" for node in range(nodes) for rail in range(rails))


def test_as_many_ends_as_a_picture_has_rows_have_a_row_each() -> None:
    ends = names(MOST)
    assert heat_map(Matrix(ends, ring(ends))).row is Row.END


def test_more_ends_share_a_row_with_those_of_their_leaf() -> None:
    ends = names(MOST + 1)
    leaves = tuple(f"leaf{number % 3}" for number in range(len(ends)))
    slow = cell("n0:d0", "n1:d0", latency_us=3.0)
    found = heat_map(Matrix(ends, (*ring(ends), slow), leaves))
    assert (found.row, found.labels) == (Row.GROUP, ("leaf0", "leaf1", "leaf2"))
    assert sum(tally.tried for tally in found.squares.values()) == len(ends) + 1
    assert found.squares[0, 1].worst == 1.5
    assert found.squares[0, 1].latency_us == 3.0


def test_without_leaves_the_rails_of_a_node_share_its_row() -> None:
    ends = names(100, rails=8)
    found = heat_map(Matrix(ends, ring(ends)))
    assert (found.row, len(found.labels), found.labels[0]) == (Row.NODE, 100, "n0")


def test_of_more_nodes_those_that_follow_each_other_in_the_matrix_share_a_row() -> None:
    ends = names(MOST + 88)  # 600 ends: three to a row
    found = heat_map(Matrix(ends, ring(ends)))
    assert found.row is Row.BLOCK
    assert len(found.labels) == 200 <= MOST_BLOCKS
    assert found.labels[0] == "n0:d0 … n2:d0"
    assert sum(tally.tried for tally in found.squares.values()) == len(ends)


def test_of_several_ends_in_a_row_its_worst_one_stands_for_it() -> None:
    ends = names(MOST + 88)
    others = [end for end in ends if end != "n7:d0"]
    slow = tuple(cell("n7:d0", other, latency_us=3.0) for other in others[:4])
    found = heat_map(Matrix(ends, (*ring(others), *slow)))
    assert found.senders[2].middle == 1.5  # n6, n7 and n8
    assert {tally.middle for tally in found.senders[:2] + found.senders[3:]} == {1.0}
    assert found.worst(1) == ["n7:d0"]
