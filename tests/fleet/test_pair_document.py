"""Documents of pingpong as results of pairs: who sent, what came of it, whose partner it was."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.facts.attempt import Bandwidth, Latency, Outcome
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import DataOp
from rdmadiag.fleet.pair_document import pair_result, paired
from rdmadiag.fleet.pair_results import End, PairResult
from rdmadiag.render.json import document as written
from rdmadiag.render.pingpong import document as pingpong
from rdmadiag.verbs.attempt import Result
from tests.render.test_pingpong import HOST, LATENCY, LOCAL, REMOTE, VERIFIED

SPEED = Bandwidth(DataOp.WRITE, 1 << 20, 100, 2.0, 371.5, 400.0, True)


def said(hostname: str = "host1", **changes: Any) -> dict[str, Any]:
    """The document as pingpong --json prints it."""
    attempt = replace(VERIFIED, **{"role": "connect", **changes})
    parts = {"host": replace(HOST, hostname=hostname)} | pingpong(Result(attempt, (), ()))
    found: dict[str, Any] = json.loads(written(parts))
    return found


def test_the_end_that_connects_is_the_sender_with_its_times() -> None:
    median = Latency(1.5, 2.25, 3, 4.5, 100, 64, "compiled", 0.2, ((5, 100),))
    found = pair_result(said(latency=median, bandwidth=SPEED), number=3)
    assert found == PairResult(
        3,
        End("host1", 0, "mlx5_0"),
        End("::ffff:192.0.2.2", 0, "mlx5_7"),
        Outcome.VERIFIED,
        2.25,
        371.5,
        by_sender=True,
    )


def test_the_end_that_listens_is_the_receiver() -> None:
    found = pair_result(said(role="listen", latency=None), node="n1", partner=End("n2", 4, "x"))
    assert isinstance(found, PairResult)
    assert (found.sender, found.receiver) == (End("n2", 4, "x"), End("n1", 0, "mlx5_0"))
    assert (found.by_sender, found.latency_us) == (False, None)


def test_both_ends_on_one_host_are_no_pair() -> None:
    assert isinstance(pair_result(said(role=None)), Missing)


def test_a_failure_before_the_ends_knew_each_other_needs_a_partner_from_elsewhere() -> None:
    early = said(outcome=Outcome.NO_PEER, local=None, remote=None, latency=None)
    assert isinstance(pair_result(early), Missing)
    found = pair_result(early, partner=End("n2", 0, "mlx5_0"))
    assert isinstance(found, PairResult)
    assert found.outcome is Outcome.NO_PEER


@pytest.mark.parametrize("value", [0, -1.0, True, "2", None, float("nan"), float("inf")])
def test_a_figure_that_is_none_is_left_out(value: object) -> None:
    document = said()
    document["latency_us"] = {"median": value}
    found = pair_result(document)
    assert isinstance(found, PairResult)
    assert found.latency_us is None


def test_two_documents_of_one_attempt_are_a_pair_from_both_sides() -> None:
    one = said("a", role="connect", latency=LATENCY)
    other = said("b", role="listen", local=REMOTE, remote=LOCAL, latency=None)
    found = paired([("b", other), ("a", one)])
    assert [each.by_sender for each in found] == [False, True]
    for each in found:
        assert (each.sender, each.receiver) == (End("a", 0, "mlx5_0"), End("b", 0, "mlx5_7"))
        assert each.round == 1


def test_devices_of_a_node_are_its_rails_in_their_natural_order() -> None:
    documents = [
        ("a", said("a", local=replace(LOCAL, device=f"mlx5_{number}", queue_pair=number)))
        for number in (10, 2, 9)
    ]
    rails = {each.sender.device: each.sender.rail for each in paired(documents)}
    assert rails == {"mlx5_2": 0, "mlx5_9": 1, "mlx5_10": 2}


def test_a_pair_that_met_twice_met_in_two_rounds() -> None:
    first = said("a") | {"generated_at": "2026-01-01T00:00:00Z"}
    second = said("a", local=replace(LOCAL, psn=9)) | {"generated_at": "2026-01-01T00:01:00Z"}
    assert [each.round for each in paired([("a", second), ("a", first)])] == [1, 2]


def test_an_end_is_in_one_attempt_of_each_round() -> None:
    documents = [
        ("a", said("a") | {"generated_at": "2026-01-01T00:00:00Z"}),
        ("a", said("a", remote=replace(REMOTE, gid=Gid.parse("::ffff:192.0.2.3")))
         | {"generated_at": "2026-01-01T00:00:09Z"}),
    ]  # fmt: skip
    assert [(each.receiver.node, each.round) for each in paired(documents)] == [
        ("::ffff:192.0.2.2", 1),
        ("::ffff:192.0.2.3", 2),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(data=st.data())
def test_any_value_in_any_place_is_read(data: st.DataObject) -> None:
    document = said()
    for name in data.draw(st.sets(st.sampled_from(sorted(document)), max_size=4)):
        document[name] = data.draw(JSON)
    assert isinstance(pair_result(document), PairResult | Missing)
    assert isinstance(paired([("a", document), ("b", said("b"))]), list)
