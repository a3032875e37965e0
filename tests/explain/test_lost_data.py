"""Data that does not come though TCP does: by what came to each end, and the port afterwards."""

from dataclasses import replace
from typing import Any, Literal

import pytest

from rdmadiag.explain.attempt import advice
from rdmadiag.explain.lost_data import is_lost_data
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import (
    Arrived,
    Attempt,
    BadCompletion,
    Connection,
    Outcome,
    PeerFailure,
    Stage,
)
from rdmadiag.facts.ib import GidType, PortState, QpType
from tests.verbs.attempts import HERE_FACTS, VERIFIED

RETRY_EXCEEDED = BadCompletion("local", 12, 129, is_receive=False)


def lost(
    here: int = 0,
    at_peer: int | None = 0,
    role: Literal["listen", "connect"] = "connect",
    **changes: Any,
) -> Attempt:
    """The sender's completion says that nothing was acknowledged."""
    arrived = changes.pop("arrived", Arrived(here, at_peer, only_small=False))
    base = replace(
        VERIFIED,
        outcome=Outcome.COMPLETION_ERROR,
        stage=Stage.DATA,
        completion=RETRY_EXCEEDED,
        data_verified=False,
        arrived=arrived,
        role=role,
    )
    return replace(base, **changes)


def heard(outcome: Outcome, status: int | None = None, arrived: int = 0, **more: Any) -> Attempt:
    """The same, at the end that has it from the other."""
    failure = PeerFailure("data", "words", outcome, status, arrived)
    return lost(outcome=Outcome.PEER_FAILED, completion=None, peer_failure=failure, **more)


# --- what is lost data -------------------------------------------------------------------


@pytest.mark.parametrize(
    "attempt",
    [
        lost(),
        lost(outcome=Outcome.NO_DATA, completion=None),
        lost(outcome=Outcome.LATE, completion=None),
        heard(Outcome.NO_DATA),
        heard(Outcome.COMPLETION_ERROR, 12),
        heard(Outcome.LATE),
    ],
    ids=["retries", "silence", "too late", "silence there", "retries there", "too late there"],
)
def test_what_did_not_come_blames_neither_end(attempt: Attempt) -> None:
    assert is_lost_data(attempt)
    found = advice(attempt)
    assert "UDP port 4791" in found.causes[0]
    assert not [cause for cause in found.causes if "is at the peer" in cause]
    assert "4791" in found.remedy[0]


@pytest.mark.parametrize(
    "attempt",
    [
        lost(completion=BadCompletion("local", 4, 81, is_receive=False)),
        lost(here=7, outcome=Outcome.LATE, completion=None),
        heard(Outcome.CALL_FAILED),
        heard(Outcome.COMPLETION_ERROR, 5),
        heard(Outcome.LATE, arrived=9),
        replace(lost(), arrived=None),
    ],
    ids=["another status", "slow", "a call there", "flushed there", "slow there", "one host"],
)
def test_what_has_another_reason_is_no_lost_data(attempt: Attempt) -> None:
    assert not is_lost_data(attempt)
    assert "4791" not in " ".join(advice(attempt).causes)


# --- in which direction ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("here", "at_peer", "role", "words"),
    [
        (0, 0, "connect", "from this host to the peer, perhaps neither way"),
        (0, 0, "listen", "from the peer to this host, perhaps neither way"),
        (0, 1, "connect", "from the peer to this host, where"),
        (1, 0, "listen", "from this host to the peer, where"),
        (0, None, "listen", "does not get through, where TCP does"),
    ],
)
def test_the_counts_of_both_ends_show_the_direction(
    here: int, at_peer: int | None, role: Literal["listen", "connect"], words: str
) -> None:
    assert words in advice(lost(here, at_peer, role)).causes[0]


@pytest.mark.parametrize(("here", "at_peer"), [(9, 9), (9, None), (1, 1)])
def test_where_messages_came_both_ways_no_port_is_dropped(here: int, at_peer: int | None) -> None:
    assert "4791" not in " ".join((*advice(lost(here, at_peer)).causes,))


@pytest.mark.parametrize("kind", [GidType.ROCE_V1, GidType.IB])
def test_what_is_not_roce_v2_has_no_port(kind: GidType) -> None:
    attempt = lost(local=replace(HERE_FACTS, gid_type=kind))
    assert "4791" not in " ".join((*advice(attempt).causes, *advice(attempt).remedy))


def test_uc_never_says_that_it_lost_anything() -> None:
    attempt = lost(
        outcome=Outcome.NO_DATA, completion=None, local=replace(HERE_FACTS, qp_type=QpType.UC)
    )
    assert "UDP port 4791" in advice(attempt).causes[0]
    assert advice(attempt).causes[1].startswith("UC gives no error for a lost message")


def test_nor_does_ud_and_of_a_group_a_switch_may_be_why() -> None:
    ours = replace(HERE_FACTS, qp_type=QpType.UD)
    alone = lost(outcome=Outcome.NO_DATA, completion=None, local=ours)
    assert advice(alone).causes[1].startswith("UD gives no error for a lost datagram")
    joined = Connection((), None, None, group="239.255.7.7")
    found = advice(replace(alone, connection=joined)).causes
    assert "does not forward the group" in found[1]
    assert found[2].startswith("UD gives no error for a lost datagram")


# --- large frames, and the port afterwards -----------------------------------------------


@pytest.mark.parametrize(("here", "at_peer"), [(1, 1), (2, 1), (1, None)])
def test_where_small_messages_passed_the_mtu_is_first(here: int, at_peer: int | None) -> None:
    found = advice(lost(arrived=Arrived(here, at_peer, only_small=True)))
    assert found.causes[0].startswith("frames of the path MTU do not get through: a small")
    assert found.remedy[0].startswith("ping -M do -s 1052 ")


@pytest.mark.parametrize(
    ("after", "first"),
    [
        (PortState.DOWN, "this host's port is no longer ACTIVE"),
        (Missing(Why.ABSENT, "state"), "this host's device is no longer there"),
    ],
    ids=["down", "deleted"],
)
@pytest.mark.parametrize("outcome", [Outcome.NO_DATA, Outcome.PEER_LOST, Outcome.CALL_FAILED])
def test_what_became_of_this_hosts_port_comes_first(
    outcome: Outcome, after: PortState | Missing, first: str
) -> None:
    found = advice(lost(outcome=outcome, completion=None, port_after=after, errno=5))
    assert found.causes[0].startswith(first)
    assert found.remedy[0] == "rdma link show"


@pytest.mark.parametrize(
    "after",
    [PortState.ACTIVE, Missing(Why.TIMEOUT), Missing(Why.DENIED), None],
    ids=["active", "late", "denied", "not looked at"],
)
def test_a_port_that_is_there_or_was_not_read_is_no_cause(
    after: PortState | Missing | None,
) -> None:
    assert advice(lost(port_after=after)) == advice(lost())
