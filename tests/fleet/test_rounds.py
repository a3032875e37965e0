"""Every pair once, nobody twice in a round, and the same answer on each node."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.fleet.rounds import Phase, in_order, meetings, plan, seats

NAMES = st.lists(st.from_regex(r"[a-z]{1,6}[0-9]{0,3}", fullmatch=True), unique=True, max_size=40)


@given(number=st.integers(0, 40))
def test_every_two_seats_meet_once(number: int) -> None:
    met = [frozenset(pair) for turn in range(meetings(number)) for pair in seats(number, turn)]
    assert Counter(met) == Counter(map(frozenset, combinations(range(number), 2)))


@given(number=st.integers(2, 40), turn=st.integers(0, 200))
def test_nobody_is_in_two_pairs_of_a_round_and_of_an_odd_number_one_rests(
    number: int, turn: int
) -> None:
    busy = [seat for pair in seats(number, turn) for seat in pair]
    assert len(busy) == len(set(busy)) == number - number % 2


def test_of_eight_there_are_seven_rounds_and_of_seven_as_many() -> None:
    assert (meetings(8), meetings(7), meetings(2), meetings(1), meetings(0)) == (7, 7, 1, 0, 0)


@given(number=st.integers(4, 30))
def test_over_all_rounds_a_node_sends_about_as_often_as_it_receives(number: int) -> None:
    sent = Counter(one for turn in range(meetings(number)) for one, _ in seats(number, turn))
    for seat in range(number):
        assert abs(2 * sent[seat] - (number - 1)) <= 3


@given(names=NAMES, seed=st.integers(-(2**40), 2**40), data=st.data())
def test_the_plan_does_not_depend_on_the_order_in_which_the_nodes_are_given(
    names: list[str], seed: int, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(names))
    assert list(plan(names, seed, rails=2, rounds=3)) == list(plan(other, seed, rails=2, rounds=3))


@given(names=NAMES.filter(lambda names: len(names) > 1), rails=st.integers(1, 4))
def test_on_each_rail_every_two_nodes_meet_once_where_all_rounds_are_wanted(
    names: list[str], rails: int
) -> None:
    met: dict[int, list[frozenset[str]]] = {rail: [] for rail in range(rails)}
    for each in plan(names, rails=rails):
        assert each.phase is Phase.SAME_RAIL
        assert each.rails[0] == each.rails[1]
        met[each.rails[0]] += [frozenset(pair) for pair in each.pairs]
    for pairs in met.values():
        assert Counter(pairs) == Counter(map(frozenset, combinations(names, 2)))


def test_a_seat_of_the_plan_is_known_for_good() -> None:
    # blake2b of the name with the seed as its key: no run and no Python may change it.
    assert in_order(["n1", "n2", "n3", "n4"], 0) == ("n2", "n1", "n4", "n3")
    assert in_order(["n1", "n2", "n3", "n4"], 1) != ("n2", "n1", "n4", "n3")


def test_same_rail_comes_first_then_across_rails_then_leaf_to_leaf() -> None:
    leaves = {"a": "one", "b": "one", "c": "two", "d": "two"}
    rounds = list(plan("abcd", rails=3, rounds=1, across=4, leaves=leaves))
    assert [each.phase for each in rounds] == (
        [Phase.SAME_RAIL] * 3 + [Phase.ACROSS_RAILS] * 4 + [Phase.LEAF_TO_LEAF]
    )
    assert [each.number for each in rounds] == list(range(1, 9))
    assert [each.rails for each in rounds[3:7]] == [(0, 1), (1, 2), (2, 0), (0, 2)]
    for one, other in rounds[-1].pairs:
        assert leaves[one] != leaves[other]
    assert len(rounds[-1].pairs) == 2


def test_every_two_leaves_meet() -> None:
    leaves = {f"n{number}": f"leaf{number // 3}" for number in range(15)}
    rounds = [
        each for each in plan(sorted(leaves), leaves=leaves) if each.phase is Phase.LEAF_TO_LEAF
    ]
    met = {frozenset(leaves[node] for node in pair) for each in rounds for pair in each.pairs}
    assert met == set(map(frozenset, combinations(sorted(set(leaves.values())), 2)))


def test_a_partner_is_the_other_of_the_pair_and_who_rests_has_none() -> None:
    (first, *_) = plan(["a", "b", "c"])
    (one, other), (resting,) = first.pairs[0], first.resting
    assert first.partner(one) == other
    assert first.partner(other) == one
    assert first.partner(resting) is None


def test_a_node_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        list(plan(["a", "b", "a"]))
