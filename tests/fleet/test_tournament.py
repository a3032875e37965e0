"""A tournament while it goes on: who takes part, and what the nodes' answers are taken for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.matrix import status
from rdmadiag.fleet.node_answer import Ending, NodeAnswer
from rdmadiag.fleet.pair_job import JobPair
from rdmadiag.fleet.rounds import Phase, Round
from rdmadiag.fleet.tournament import Seating, Standing, waves
from rdmadiag.preflight.verdict import Status

FIRST = Round(1, Phase.SAME_RAIL, (0, 0), (("a", "b"), ("c", "d")), ())
SECOND = Round(2, Phase.SAME_RAIL, (0, 0), (("a", "c"), ("b", "d")), ())
RAIL_1 = Round(3, Phase.SAME_RAIL, (1, 1), (("a", "b"), ("c", "d")), ())
TWO_RAILS = Seating(common=("mlx5_0", "mlx5_1"))


def verified(**changes: Any) -> dict[str, Any]:
    """What an end prints."""
    made = {"outcome": "verified", "role": "connect", "local": {"device": "mlx5_0"}}
    return made | {"latency_us": {"median": 2.0}, "summary": "words"} | changes


def answer(node: str, document: Any, ending: Ending = Ending.ANSWERED) -> NodeAnswer:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return NodeAnswer(node, ending, 0, text, b"")


def taken(standing: Standing, of: Round, **documents: Any) -> None:
    """The answers of a round; verified where none is given."""
    for pair in standing.pairs(of):
        standing.take(
            of,
            pair,
            {
                node: answer(node, documents.get(node, verified()))
                for node in (pair.sender, pair.receiver)
            },
        )


def test_the_address_is_the_tables_or_the_name_with_its_suffix() -> None:
    seating = Seating({"a": ("192.0.2.1:7", "x0", "x1", "x2")}, "-ib", ("y0",))
    assert (seating.address("a"), seating.address("b")) == ("192.0.2.1:7", "b-ib")
    assert (seating.device("a", 2), seating.device("b", 0)) == ("x2", "y0")
    assert isinstance(seating.device("b", 1), Missing)
    assert seating.rails == 3
    assert (Seating().rails, Seating().device("a", 0)) == (1, None)


def test_a_pair_of_which_an_end_has_no_such_rail_does_not_meet() -> None:
    seating = Seating({"a": ("a", "x0")}, common=("y0", "y1"))
    assert [each.sender for each in Standing(seating).pairs(RAIL_1)] == ["c"]
    assert [each.sender for each in Standing(seating).pairs(FIRST)] == ["a", "c"]


def test_a_failed_port_is_barred_and_the_nodes_other_rail_is_not() -> None:
    standing = Standing(TWO_RAILS)
    taken(standing, FIRST, a=verified(outcome="call_failed"))
    assert [each.sender for each in standing.pairs(SECOND)] == ["b"]
    assert [each.sender for each in standing.pairs(RAIL_1)] == ["a", "c"]
    assert [each.end for each in standing.left_out] == ["a:mlx5_0"]


def test_a_silent_node_is_barred_with_all_its_rails() -> None:
    standing = Standing(TWO_RAILS)
    taken(standing, FIRST, a=b"")
    assert [each.sender for each in standing.pairs(SECOND)] == ["b"]
    assert [each.sender for each in standing.pairs(RAIL_1)] == ["c"]
    (result,) = [each for each in standing.results if each.sender.node == "a" and each.by_sender]
    assert result.outcome is None


@pytest.mark.parametrize("outcome", ["no_peer", "peer_lost", "peer_failed", "late"])
def test_who_had_no_luck_with_its_partner_goes_on(outcome: str) -> None:
    standing = Standing(Seating())
    taken(standing, FIRST, a=verified(outcome=outcome))
    assert (standing.left_out, len(standing.pairs(SECOND))) == ([], 2)


def test_an_outcome_counts_although_the_launcher_hung_afterwards() -> None:
    standing = Standing(Seating())
    pair = JobPair("a", "b", "b", None, None)
    late = {node: answer(node, verified(), Ending.LATE) for node in ("a", "b")}
    standing.take(FIRST, pair, late)
    assert [each.outcome for each in standing.results] == [Outcome.VERIFIED] * 2


@pytest.mark.parametrize(
    ("reasons", "status_of"),
    [
        (["ports_unknown"], Status.UNKNOWN),
        (["gid_table_unknown", "log_unknown"], Status.UNKNOWN),
        (["gid_table_unknown", "port_not_active"], Status.CRITICAL),
        ([], Status.CRITICAL),
    ],
    ids=["no ports seen", "two things not read", "one that is wrong beside it", "not said"],
)
def test_a_preflight_that_could_not_look_has_found_no_failure(reasons, status_of) -> None:
    standing = Standing(Seating())
    said = verified(outcome="not_safe", host_reasons=reasons)
    taken(standing, FIRST, a=said, b=verified(outcome="no_peer"))
    assert status(standing.judged()) is status_of
    assert [each.sender for each in standing.pairs(SECOND)] == ["b"]


@given(st.lists(st.integers(0, 2000), max_size=4))
def test_an_outcome_that_comes_in_pieces_is_one(cuts: list[int]) -> None:
    text = json.dumps(verified()).encode()
    for at in sorted(cuts, reverse=True):
        text = text[:at] + b"\n" + text[at:]
    standing = Standing(Seating())
    taken(standing, FIRST, a=text)
    assert [each.outcome for each in standing.results] == [Outcome.VERIFIED] * 4
    assert standing.left_out == []


def test_of_a_pair_that_was_left_alone_nothing_is_judged() -> None:
    standing = Standing(Seating())
    busy = verified(outcome="not_allowed", summary="in use")
    taken(standing, FIRST, a=busy, b=verified(outcome="no_peer"))
    assert {each.sender.node for each in standing.results} == {"c"}
    assert [each.why for each in standing.left_out] == ["not_allowed: in use"]
    assert standing.judged().odd == ()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            {"reasons": [{"device": "x", "port": 1, "reason": "no_recent_log"}]},
            "no (no_recent_log)",
        ),
        ({"host_reasons": ["prior_rtr_failure"], "reasons": []}, "no (prior_rtr_failure)"),
        ({"host_reasons": list("aabcdef")}, "no (a, b, c, d)"),
        ({"host_reasons": {"a": 1}, "reasons": ["x", {"reason": 3}, {}]}, "no"),
        ({"host_reasons": ["\x1b[2J"]}, r"no (\x1b[2J)"),
        ({}, "no"),
    ],
    ids=["of the port", "of the host", "some of many", "another shape", "hostile", "none"],
)
def test_why_a_preflight_forbids_it_is_said(found, words) -> None:
    standing = Standing(Seating())
    taken(standing, FIRST, a=verified(outcome="not_safe", summary="no", **found))
    assert [each.why for each in standing.left_out] == [f"not_safe: {words}"]


def test_a_device_is_called_as_it_was_asked_for_else_as_the_node_says() -> None:
    standing = Standing(Seating({"a": ("a", "mlx5_7:1")}))
    taken(standing, FIRST, b=verified(local={"device": "x" * 100}))
    ends = {each.sender.device for each in standing.results}
    assert "mlx5_7:1" in ends
    assert {each.receiver.device for each in standing.results} == {"x" * 64, "mlx5_0"}


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["outcome", "local", "error", "message", "role", "latency_us"]),
                inner,
            )
        ),
        max_leaves=8,
    ).map(lambda made: json.dumps(made).encode())
)
def test_whatever_a_node_prints_is_an_outcome_or_the_reason_why_there_is_none(text: bytes) -> None:
    standing = Standing(Seating())
    taken(standing, FIRST, a=text)
    mine = [each for each in standing.results if each.sender.node == "a" and each.by_sender]
    assert all(each.outcome is not None for each in mine) or "a" in standing.left_out[0].end
    assert all(each.why.isprintable() for each in standing.left_out)


def test_waves_have_both_ends_of_each_pair() -> None:
    pairs = [JobPair(f"s{n}", f"r{n}", "x", None, None) for n in range(5)]
    assert [len(each) for each in waves(pairs, 4)] == [2, 2, 1]
    assert [len(each) for each in waves(pairs, 1)] == [1] * 5
    assert [len(each) for each in waves(pairs, 100)] == [5]
    assert waves([], 4) == []


def test_what_there_was_no_time_for_is_unknown() -> None:
    standing = Standing(Seating())
    taken(standing, FIRST)
    assert status(standing.judged()) is Status.OK
    assert status(standing.judged(unplayed=1)) is Status.UNKNOWN
