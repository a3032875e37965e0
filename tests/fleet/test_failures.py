"""Whose fault a failure is: by what it has in common with others, and by who passed."""

from dataclasses import replace

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.matrix import judge
from rdmadiag.fleet.pair_results import OddKind, PairResult
from tests.fleet.planted import fleet, results
from tests.fleet.test_matrix import LEAVES


def failing(
    said: list[PairResult],
    where: object,
    outcome: Outcome = Outcome.COMPLETION_ERROR,
    of_peer: Outcome = Outcome.PEER_FAILED,
) -> list[PairResult]:
    """The same, with the pairs that `where` picks failed: the sender's outcome and the other's."""
    return [
        replace(each, outcome=outcome if each.by_sender else of_peer, latency_us=None)
        if where(each)  # type: ignore[operator]
        else each
        for each in said
    ]


def of(node: str, rail: int | None = None) -> object:
    return lambda each: any(
        end.node == node and rail in (None, end.rail) for end in (each.sender, each.receiver)
    )


def test_a_node_that_fails_with_everyone_is_named() -> None:
    (odd,) = judge(failing(results(fleet(8, 2, 3)), of("n003"))).odd
    assert (odd.kind, odd.names, odd.slower) == (OddKind.NODE, ("n003",), None)
    assert odd.repeated


def test_one_rail_that_fails_with_everyone_is_that_adapter() -> None:
    (odd,) = judge(failing(results(fleet(8, 4, 3)), of("n003", 1))).odd
    assert (odd.kind, odd.names) == (OddKind.NIC, ("n003:mlx5_1",))


def test_two_ends_that_pass_with_three_others_and_fail_with_each_other_are_a_path() -> None:
    rounds = fleet(8, 1, 7)
    pair = rounds[0].pairs[0]
    bad = failing(results(rounds), lambda each: {each.sender.node, each.receiver.node} == set(pair))
    (odd,) = judge(bad).odd
    assert odd.kind is OddKind.PATH
    assert set(odd.names) == {f"{node}:mlx5_0" for node in pair}
    assert not odd.repeated  # a failure is never tried again


def test_a_failure_of_an_end_that_took_no_part_any_more_is_not_decided() -> None:
    rounds = fleet(8, 1, 5)
    first, barred = rounds[0], rounds[0].pairs[0][0]
    said = [
        each
        for each in results(rounds)
        if each.round == first.number or barred not in (each.sender.node, each.receiver.node)
    ]
    bad = failing(said, of(barred), Outcome.CALL_FAILED)
    (odd,) = judge(bad).odd
    assert odd.kind is OddKind.UNDECIDED
    assert f"{barred}:mlx5_0" in odd.names


def test_an_end_whose_own_preflight_forbids_it_is_named_by_what_it_says() -> None:
    rounds = fleet(8, 1, 1)
    sender = rounds[0].pairs[0][0]
    bad = failing(results(rounds), of(sender), Outcome.NOT_SAFE, of_peer=Outcome.NO_PEER)
    (odd,) = judge(bad).odd
    assert (odd.kind, odd.names) == (OddKind.NIC, (f"{sender}:mlx5_0",))


def test_a_node_whose_partners_each_say_it_is_their_own_fault_is_not_named() -> None:
    def as_said(each: PairResult) -> PairResult:
        one, other = (
            (each.sender, each.receiver) if each.by_sender else (each.receiver, each.sender)
        )
        if "n003" not in (one.node, other.node):
            return each
        mine = Outcome.NO_PEER if one.node == "n003" else Outcome.NOT_SAFE
        return replace(each, outcome=mine, latency_us=None)

    rounds = fleet(8, 1, 3)
    odd = judge([as_said(each) for each in results(rounds)]).odd
    met = {node for each in rounds for pair in each.pairs if "n003" in pair for node in pair}
    named = {name for part in odd for name in part.names}
    assert named == {f"{node}:mlx5_0" for node in met - {"n003"}}
    assert {part.kind for part in odd} == {OddKind.NIC}


def test_pairs_of_two_leaves_that_all_fail_are_a_boundary() -> None:
    bad = failing(
        results(fleet(16, 2, 5)),
        lambda each: {LEAVES[each.sender.node], LEAVES[each.receiver.node]} == {"leaf1", "leaf3"},
    )
    (odd,) = judge(bad, LEAVES).odd
    assert (odd.kind, odd.names) == (OddKind.BOUNDARY, ("leaf1", "leaf3"))


def test_what_was_not_attempted_is_nobodys_failure() -> None:
    said = failing(
        results(fleet(8, 1, 3)), of("n003"), Outcome.NOT_ALLOWED, of_peer=Outcome.NOT_ALLOWED
    )
    assert judge(said).odd == ()
