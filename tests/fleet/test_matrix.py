"""What is named of a fleet with one fault, and that nothing is of one in order."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.matrix import Expected, judge
from rdmadiag.fleet.pair_results import End, OddKind, PairResult, Tournament
from rdmadiag.fleet.rounds import Phase, Round
from tests.fleet.planted import fleet, nodes, results

LEAVES = {node: f"leaf{number // 4}" for number, node in enumerate(nodes(16))}


def named(found: Tournament) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(each.kind), each.names) for each in found.odd]


def again(*pairs: tuple[str, str], rail: int = 0, number: int = 900) -> list[Round]:
    """Each of them in a round of its own."""
    return [
        Round(number + index, Phase.RETEST, (rail, rail), (pair,), ())
        for index, pair in enumerate(pairs)
    ]


def test_a_fleet_in_order_has_nothing_odd() -> None:
    found = judge(results(fleet(16, 4, 3), gbps=380.0), LEAVES)
    assert found.odd == ()
    assert found.unreported == ()
    assert (found.rounds, found.nodes) == (12, 16)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_nothing_odd(seed: int) -> None:
    found = judge(results(fleet(16, 4, 5), gbps=380.0, noise=0.05, seed=seed), LEAVES)
    assert named(found) == []


def test_a_node_whose_rails_are_all_slow_is_one_slow_node() -> None:
    slow = results(fleet(16, 4, 3), lambda a, i, b, j: 1.5 if "n003" in (a, b) else 1.0)
    found = judge(slow)
    assert named(found) == [("node", ("n003",))]
    assert found.odd[0].slower == pytest.approx(1.5, rel=0.01)
    assert found.odd[0].partners >= 3
    assert found.odd[0].repeated


def test_one_slow_rail_of_a_node_is_that_adapter() -> None:
    def slower(a: str, i: int, b: str, j: int) -> float:
        return 1.5 if ("n003", 2) in ((a, i), (b, j)) else 1.0

    assert named(judge(results(fleet(16, 4, 3), slower))) == [("nic", ("n003:mlx5_2",))]


def test_a_node_with_one_rail_is_named_as_the_node() -> None:
    slow = results(fleet(16, 1, 5), lambda a, i, b, j: 1.5 if "n003" in (a, b) else 1.0)
    assert named(judge(slow)) == [("node", ("n003",))]


def test_bandwidth_is_judged_as_latency_is() -> None:
    slow = results(fleet(16, 4, 3), lambda a, i, b, j: 2.0 if "n003" in (a, b) else 1.0, gbps=380.0)
    slow = [replace(each, latency_us=None) for each in slow]
    (odd,) = judge(slow).odd
    assert (odd.kind, odd.names) == (OddKind.NODE, ("n003",))
    assert odd.evidence[0].startswith("bandwidth: 50 % below")


def test_what_both_measures_show_is_named_once_with_both_as_evidence() -> None:
    slow = results(fleet(16, 4, 3), lambda a, i, b, j: 2.0 if "n003" in (a, b) else 1.0, gbps=380.0)
    (odd,) = judge(slow).odd
    assert [line.partition(":")[0] for line in odd.evidence] == ["latency", "bandwidth"]


def test_a_node_that_is_slow_only_where_it_sends_is_said_to_be_so() -> None:
    slow = results(fleet(16, 4, 5), lambda a, i, b, j: 1.5 if a == "n003" else 1.0)
    (odd,) = judge(slow).odd
    assert (odd.kind, odd.names) == (OddKind.NODE, ("n003",))
    assert "latency: only where it sends" in odd.evidence


def test_one_slow_pair_of_two_ends_that_are_fast_with_others_is_the_path() -> None:
    rounds = fleet(16, 4, 5)
    pair = rounds[0].pairs[0]
    rounds += again(pair, pair, pair)

    def slower(a: str, i: int, b: str, j: int) -> float:
        return 1.5 if (a, b) == pair and i == 0 else 1.0

    (odd,) = judge(results(rounds, slower)).odd
    assert odd.kind is OddKind.PATH
    assert set(odd.names) == {f"{node}:mlx5_0" for node in pair}


def test_a_slow_pair_that_was_not_measured_again_is_not_decided() -> None:
    rounds = fleet(16, 4, 5)
    pair = rounds[0].pairs[0]

    def slower(a: str, i: int, b: str, j: int) -> float:
        return 1.5 if (a, b) == pair and i == 0 else 1.0

    (odd,) = judge(results(rounds, slower)).odd
    assert odd.kind is OddKind.UNDECIDED
    assert {f"{node}:mlx5_0" for node in pair} <= set(odd.names)
    assert not odd.repeated


def test_of_two_nodes_nobody_can_say_which_is_slow() -> None:
    pair = ("n000", "n001")
    slow = results(again(*[pair] * 6), lambda a, i, b, j: 3.0)
    assert judge(slow).odd == ()  # all that there is is the usual
    (odd,) = judge(slow, expected=Expected(latency_us=2.0)).odd
    assert odd.kind is OddKind.FLEET


@pytest.mark.parametrize("number", [4, 5])
@pytest.mark.parametrize("seed", range(10))
def test_of_few_nodes_the_slow_one_is_named_though_half_of_all_pairs_are_its(
    number: int, seed: int
) -> None:
    slow = lambda a, i, b, j: 3.0 if "n001" in (a, b) else 1.0  # noqa: E731
    found = judge(results(fleet(number, 1, 3), slow, noise=0.05, seed=seed))
    assert {name for each in found.odd for name in each.names} >= {"n001"}
    assert judge(results(fleet(number, 1, 3), noise=0.05, seed=seed)).odd == ()


def test_of_three_nodes_two_slow_pairs_name_the_node_that_they_share_as_undecided() -> None:
    slow = results(fleet(3, 1, 3), lambda a, i, b, j: 10.0 if "n001" in (a, b) else 1.0)
    (odd,) = judge(slow).odd
    assert odd.kind is OddKind.UNDECIDED
    assert "n001" in odd.names
    assert judge(results(fleet(3, 1, 3), noise=0.05)).odd == ()


def test_a_slow_node_is_named_when_another_is_gone_and_half_of_the_pairs_left_are_its() -> None:
    """Six nodes in three rounds; of the sixth, which went in the second, one pair was measured."""
    measured = {
        ("h3", "h2"): 150152.4,
        ("h6", "h4"): 141.5,
        ("h1", "h5"): 97.5,
        ("h2", "h4"): 150156.5,
        ("h3", "h1"): 88.7,
        ("h4", "h3"): 132.0,
        ("h2", "h5"): 150151.7,
        ("h2", "h1"): 150155.5,
    }
    found = judge(
        PairResult(
            1 + number // 3, End(one, 0, ""), End(other, 0, ""), Outcome.VERIFIED, each, None,
            by_sender=sends,
        )
        for number, ((one, other), each) in enumerate(measured.items())
        for sends in (True, False)
    )  # fmt: skip
    assert named(found) == [("node", ("h2",))]


def test_the_pairs_of_two_leaves_are_a_boundary() -> None:
    def slower(a: str, i: int, b: str, j: int) -> float:
        return 1.5 if {LEAVES[a], LEAVES[b]} == {"leaf0", "leaf2"} else 1.0

    found = judge(results(fleet(16, 4, 5), slower), LEAVES)
    assert named(found) == [("boundary", ("leaf0", "leaf2"))]


def test_pairs_between_leaves_may_all_take_longer_than_those_inside() -> None:
    found = judge(
        results(fleet(16, 4, 5), lambda a, i, b, j: 1.0 if LEAVES[a] == LEAVES[b] else 1.6),
        LEAVES,
    )
    assert found.odd == ()


def test_a_rail_that_is_slow_on_all_nodes_is_a_boundary() -> None:
    found = judge(results(fleet(16, 4, 5), lambda a, i, b, j: 1.5 if i == 3 else 1.0))
    assert named(found) == [("boundary", ("rail 3",))]


def test_a_fleet_that_is_slow_as_a_whole_is_seen_against_what_is_expected() -> None:
    all_slow = results(fleet(16, 4, 3), lambda a, i, b, j: 1.25, gbps=400.0)
    assert judge(all_slow).odd == ()
    found = judge(all_slow, expected=Expected(latency_us=2.0, gbps=400.0))
    assert named(found) == [("fleet", ("fleet",))]
    assert found.odd[0].slower == pytest.approx(1.25)


def test_a_fleet_as_fast_as_expected_is_in_order() -> None:
    found = judge(results(fleet(8, 2, 3), gbps=400.0), expected=Expected(2.1, 390.0))
    assert found.odd == ()


def test_two_slow_nodes_are_both_named() -> None:
    slow = results(
        fleet(16, 4, 3), lambda a, i, b, j: 1.5 ** len({"n003", "n009"} & {a, b}), noise=0.01
    )
    assert sorted(named(judge(slow))) == [("node", ("n003",)), ("node", ("n009",))]


def test_an_end_that_did_not_report_is_a_result_and_no_fault_of_its_partner() -> None:
    rounds = fleet(8, 1, 3)
    silent = [
        replace(
            each,
            outcome=None if mine.node == "n002" else Outcome.NO_PEER,
            latency_us=None,
        )
        if "n002" in (each.sender.node, each.receiver.node)
        else each
        for each in results(rounds)
        for mine in [each.sender if each.by_sender else each.receiver]
    ]
    found = judge(silent)
    assert found.odd == ()
    assert found.unreported == tuple(f"n002:mlx5_0 in round {number}" for number in (1, 2, 3))


def test_an_end_of_which_nothing_was_read_is_one_that_did_not_report() -> None:
    only = [each for each in results(fleet(4, 1, 1)) if each.by_sender]
    assert len(judge(only).unreported) == 2


def test_figures_that_are_none_are_no_measurements() -> None:
    one, other = End("a", 0, "x"), End("b", 0, "y")
    bad = [
        PairResult(number, one, other, Outcome.VERIFIED, value, value)
        for number, value in enumerate((0.0, -1.0, float("inf"), float("nan")))
    ]
    assert judge(bad).odd == ()


def test_what_is_odd_stands_first_in_the_matrix() -> None:
    slow = results(fleet(16, 4, 3), lambda a, i, b, j: 1.5 if "n013" in (a, b) else 1.0)
    ends = judge(slow).matrix.ends
    assert {name.partition(":")[0] for name in ends[:4]} == {"n013"}
    assert len(ends) == 64


def test_a_cell_has_the_middle_of_its_measurements_and_the_worst_of_its_outcomes() -> None:
    one, other = End("a", 0, "x"), End("b", 0, "y")
    said = [
        PairResult(1, one, other, Outcome.VERIFIED, 1.0, None),
        PairResult(2, one, other, Outcome.VERIFIED, 3.0, None),
        PairResult(3, one, other, Outcome.CALL_FAILED, None, None),
    ]
    said += [replace(each, by_sender=False, latency_us=None) for each in said]
    (cell,) = judge(said).matrix.cells
    assert (cell.sender, cell.receiver) == ("a:x", "b:y")
    assert (cell.latency_us, cell.outcome) == (2.0, Outcome.CALL_FAILED)


RESULT = st.builds(
    PairResult,
    st.integers(1, 5),
    st.builds(End, st.sampled_from("abcd"), st.integers(0, 2), st.sampled_from(["", "x"])),
    st.builds(End, st.sampled_from("efgh"), st.integers(0, 2), st.sampled_from(["", "y"])),
    st.none() | st.sampled_from(Outcome),
    st.none() | st.floats(),
    st.none() | st.floats(),
    st.booleans(),
)


@settings(max_examples=100)
@given(st.lists(RESULT, max_size=60), st.dictionaries(st.sampled_from("abcdefgh"), st.text()))
def test_any_results_are_judged(said: list[PairResult], leaves: dict[str, str]) -> None:
    found = judge(said, leaves)
    assert len(found.matrix.ends) == len(
        {(end.node, end.rail) for each in said for end in (each.sender, each.receiver)}
    )
    for part in found.odd:
        assert part.names
        assert part.evidence
