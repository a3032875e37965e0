"""UD by SIDR, and multicast groups, over the fake librdmacm: what works, and what fails where."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rdmadiag.facts.attempt import Outcome, Stage, Teardown
from rdmadiag.facts.cm import CmEvent, SidrStatus
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs import cm_protocol
from rdmadiag.verbs.cm_protocol import Hello, Refusal
from rdmadiag.verbs.cm_ud import Sender
from tests.verbs import test_cm_child, test_cm_two_ends
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT
from tests.verbs.test_cm_child import (
    ADDRESS,
    INFINIBAND_END,
    INFINIBAND_SCRIPT,
    listening,
)

node = test_cm_child.node
run = test_cm_child.run
both = test_cm_two_ends.run

GROUP = "239.255.7.7"
UD_END = replace(LINUX_END, qp_type=QpType.UD)
STEPS = [
    ("local", Stage.RESOLVE_ADDRESS, CmEvent.ADDR_RESOLVED),
    ("local", Stage.RESOLVE_ROUTE, CmEvent.ROUTE_RESOLVED),
    ("remote", Stage.ESTABLISH, CmEvent.CONNECT_REQUEST),
    ("local", Stage.ESTABLISH, CmEvent.ESTABLISHED),
]
"""man rdma_accept: of RDMA_PS_UDP no event comes at the end that accepts; nor is one of its end."""

Run = Callable[..., Any]


def with_ud(script: str) -> str:
    """Devices that have UD."""
    return script.replace("max_qp=16", "max_qp=16 max_mcast_grp=16")


@pytest.fixture
def ud(run: Run) -> Run:
    def attempt(cm_rules: str = "", rules: str = "", **changes: Any) -> Any:
        given = {"end": UD_END, "script": with_ud(LINUX_SCRIPT), "seconds": 30.0} | changes
        return run(cm_rules, rules, **given)

    return attempt


@pytest.fixture
def grouped(ud: Run) -> Run:
    def attempt(cm_rules: str = "", rules: str = "", **changes: Any) -> Any:
        given = {"group": GROUP, "members": (ADDRESS, ADDRESS)} | changes
        return ud(cm_rules, rules, **given)

    return attempt


# --- SIDR --------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [1, 64, 1024])
def test_datagrams_are_verified_both_ways(ud: Run, payload: int) -> None:
    came = ud(end=replace(UD_END, payload_bytes=payload))
    attempt = came.attempt
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert attempt.data_verified
    assert attempt.latency is None
    assert came.stderr == ""
    found = [(each.end, each.stage, each.event) for each in attempt.connection.steps]
    assert found == STEPS
    assert "rdma_disconnect" not in came.calls
    for end in (attempt.local, attempt.remote):
        assert (end.qp_type, end.qp_state, end.mtu) == (QpType.UD, QpState.RTS, 1024)


def test_on_infiniband_no_datagram_has_a_grh(ud: Run) -> None:
    came = ud(
        "address 203.0.113.7 mlx4_0 1\n",
        script=with_ud(INFINIBAND_SCRIPT),
        end=replace(INFINIBAND_END, qp_type=QpType.UD),
        address="203.0.113.7",
    )
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert came.attempt.local.gid_index is None


def test_a_device_without_ud_is_named_at_the_queue_pair(run: Run) -> None:
    came = run(end=UD_END)
    assert came.ended == (Outcome.CALL_FAILED, Stage.CREATE_QP, Teardown.CLEAN)
    assert (came.attempt.call, came.attempt.errno) == ("rdma_create_qp", 95)


def test_where_nobody_listens_sidr_says_so(ud: Run) -> None:
    came = ud(meet="connect", host="203.0.113.9", port=4711)
    assert came.ended == (Outcome.CM_EVENT, Stage.ESTABLISH, Teardown.CLEAN)
    assert came.event == (CmEvent.UNREACHABLE, 1)
    assert came.attempt.connection.sidr_status is SidrStatus.UNSUPPORTED
    assert came.attempt.connection.reject_reason is None
    assert came.attempt.errno is None
    assert "status 1 (UNSUPPORTED)" in came.attempt.summary


@pytest.mark.parametrize("status", [each for each in SidrStatus if each.number])
def test_each_status_of_sidr_is_named_and_is_no_errno(ud: Run, status: SidrStatus) -> None:
    came = ud(f"instead ESTABLISHED UNREACHABLE {status.number}\n")
    assert came.ended == (Outcome.CM_EVENT, Stage.ESTABLISH, Teardown.CLEAN)
    assert came.attempt.connection.sidr_status is status
    assert came.attempt.errno is None


def test_a_neighbour_that_is_lost_meanwhile_is_an_errno(ud: Run) -> None:
    came = ud("instead ESTABLISHED UNREACHABLE -110\n")
    assert came.attempt.connection.sidr_status is None
    assert came.attempt.errno == 110


def test_what_a_peer_of_ours_refuses_for_is_said_in_its_words(ud: Run) -> None:
    data = cm_protocol.rejection(Refusal.OTHER_PAYLOAD).hex()
    came = ud(f"instead UNREACHABLE UNREACHABLE 2 {data}\n", meet="connect", host=ADDRESS, port=1)
    assert came.ended == (Outcome.MISMATCH, Stage.ESTABLISH, Teardown.CLEAN)
    assert came.attempt.summary == cm_protocol.REFUSAL_TEXT[Refusal.OTHER_PAYLOAD]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "stage"), [("CONNECT_REQUEST", Stage.ESTABLISH), ("ESTABLISHED", Stage.ESTABLISH)]
)
def test_an_answer_that_never_comes_is_named_at_the_deadline(
    ud: Run, event: str, stage: Stage
) -> None:
    assert ud(f"drop {event}\n", seconds=4.0).ended == (Outcome.NO_EVENT, stage, Teardown.CLEAN)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("spared", "stage"), [(0, Stage.ESTABLISH), (1, Stage.DATA), (12, Stage.DATA)]
)
def test_a_datagram_that_is_lost_is_missed(ud: Run, spared: int, stage: Stage) -> None:
    came = ud(rules=f"on post_send after={spared} drop\n")
    assert came.ended == (Outcome.NO_DATA, stage, Teardown.CLEAN)


def test_a_datagram_that_was_changed_is_named(ud: Run) -> None:
    came = ud(rules="on post_send after=1 corrupt\n")
    assert came.ended == (Outcome.DATA_MISMATCH, Stage.DATA, Teardown.CLEAN)


@pytest.mark.parametrize("call", ["ibv_create_ah", "ibv_init_ah_from_wc"])
def test_an_address_handle_that_cannot_be_made_is_named(ud: Run, call: str) -> None:
    came = ud(rules=f"on {call} errno=12\n")
    assert came.ended == (Outcome.CALL_FAILED, Stage.ESTABLISH, Teardown.CLEAN)
    assert came.attempt.errno == 12


@pytest.mark.slow
def test_a_stranger_is_answered_and_left_and_ends_nothing(ud: Run) -> None:
    came = ud("request -\nrequest 00\n", **listening(4.0))
    assert came.ended == (Outcome.NO_PEER, Stage.LISTEN, Teardown.CLEAN)
    assert came.turned_away == ["answered by SIDR, and no rdmadiag pingpong"] * 2
    assert came.calls.count("rdma_accept") == 2
    assert "rdma_disconnect" not in came.calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "secret"),
    [
        ("-", "00" * 32),
        (Hello(False, QpType.RC, 64, 10, bytes(range(32))).encode().hex(), None),
    ],
)
def test_who_does_not_fit_is_refused_and_nothing_is_made(
    ud: Run, sent: str, secret: str | None
) -> None:
    came = ud(f"request {sent}\n", **listening(4.0, secret=secret))
    assert came.calls.count("rdma_reject") == 1
    assert "rdma_create_qp" not in came.calls
    assert len(came.turned_away) == 1


def test_a_sender_is_known_by_its_queue_pair_and_its_gid() -> None:
    one, other = Gid.parse("::ffff:192.0.2.1"), Gid.parse("::ffff:192.0.2.2")
    assert Sender(17, one).is_as(Sender(17, one))
    assert not Sender(17, one).is_as(Sender(17, other))
    assert not Sender(17, one).is_as(Sender(18, one))
    assert Sender(17, None).is_as(Sender(17, one))
    assert not Sender(17, None).is_as(Sender(18, None))


# --- multicast ---------------------------------------------------------------------------


@pytest.mark.parametrize("group", [GROUP, "ff12::7"])
def test_members_verify_each_others_data_and_leave_out_their_own(grouped: Run, group: str) -> None:
    """The fake library gives each member what it sends itself, as soft RoCE does."""
    came = grouped(group=group)
    attempt = came.attempt
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert attempt.data_verified
    assert attempt.connection.group == group
    assert [each.event for each in attempt.connection.steps] == [
        CmEvent.ADDR_RESOLVED,
        CmEvent.MULTICAST_JOIN,
    ] * 2
    assert came.stderr == ""
    leaving = came.calls.index("rdma_leave_multicast")
    assert leaving < came.calls.index("rdma_destroy_qp") < came.calls.index("rdma_destroy_id")
    assert came.calls.count("rdma_leave_multicast") == 2
    assert "rdma_connect" not in came.calls


def test_members_on_infiniband_know_each_other_by_gid(grouped: Run) -> None:
    came = grouped(
        "address 203.0.113.7 mlx4_0 1\n",
        script=with_ud(INFINIBAND_SCRIPT),
        end=replace(INFINIBAND_END, qp_type=QpType.UD),
        members=("203.0.113.7", "203.0.113.7"),
    )
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)


@pytest.mark.parametrize("status", [-12, -22, -110])
def test_a_group_that_refuses_is_named_with_its_status(grouped: Run, status: int) -> None:
    came = grouped(f"instead MULTICAST_JOIN MULTICAST_ERROR {status}\n")
    assert came.ended == (Outcome.CM_EVENT, Stage.JOIN, Teardown.CLEAN)
    assert came.event == (CmEvent.MULTICAST_ERROR, status)
    assert came.attempt.errno == -status


@pytest.mark.slow
def test_a_join_that_is_never_answered_is_named(grouped: Run) -> None:
    came = grouped("drop MULTICAST_JOIN\n", seconds=4.0)
    assert came.ended == (Outcome.NO_EVENT, Stage.JOIN, Teardown.CLEAN)


def test_a_join_that_fails_at_once_is_named(grouped: Run) -> None:
    came = grouped("on rdma_join_multicast errno=38\n")
    assert came.ended == (Outcome.CALL_FAILED, Stage.JOIN, Teardown.CLEAN)
    assert (came.attempt.call, came.attempt.errno) == ("rdma_join_multicast", 38)
    assert came.calls.count("rdma_join_multicast") == 1


def test_a_device_that_goes_from_under_a_member_is_named(grouped: Run) -> None:
    came = grouped("gone MULTICAST_JOIN\n", rules="on post_send slow=60\n")
    assert came.ended == (Outcome.CM_EVENT, Stage.DATA, Teardown.CLEAN)
    assert came.event == (CmEvent.DEVICE_REMOVAL, 0)


def test_a_group_that_cannot_be_left_is_said(grouped: Run) -> None:
    came = grouped("on rdma_leave_multicast errno=16\n")
    assert came.ended == (Outcome.TEARDOWN_FAILED, Stage.TEARDOWN, Teardown.FAILED)
    assert (came.attempt.call, came.attempt.errno) == ("rdma_leave_multicast", 16)


# --- two ends ----------------------------------------------------------------------------

SECRET = bytes(range(32)).hex()


@pytest.fixture
def two(both: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(test_cm_two_ends, "LINUX_SCRIPT", with_ud(LINUX_SCRIPT))

    def pair(*, groups: tuple[str | None, str | None] = (None, None), **changes: Any) -> Any:
        return both(**({"here": UD_END, "there": UD_END, "groups": groups} | changes))

    return pair


@pytest.mark.parametrize("secrets", [(None, None), (SECRET, SECRET)])
@pytest.mark.parametrize("group", [None, GROUP])
def test_both_ends_verify_and_know_each_other(two: Run, secrets: Any, group: str | None) -> None:
    here, there = two(secrets=secrets, groups=(group, group))
    for came in (here, there):
        assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
        assert came.attempt.connection.group == group
    ours, theirs = here.attempt, there.attempt
    assert ours.local.queue_pair == theirs.remote.queue_pair
    assert ours.remote.queue_pair == theirs.local.queue_pair
    assert ours.connection.address == theirs.connection.peer


@pytest.mark.parametrize("groups", [(GROUP, None), (None, GROUP), (GROUP, "239.255.7.8")])
def test_two_that_want_different_groups_both_say_so(two: Run, groups: Any) -> None:
    for came in two(groups=groups):
        assert came.ended == (Outcome.MISMATCH, Stage.AGREE, Teardown.CLEAN)
        assert came.attempt.problems[0].code == "multicast_group_mismatch"


def test_an_end_of_rc_is_refused_by_one_of_ud(two: Run) -> None:
    """They listen in different port spaces: man rdma_create_id."""
    _, there = two(there=LINUX_END, wait=2.0)
    assert there.ended[:2] in (
        (Outcome.CM_EVENT, Stage.ESTABLISH),
        (Outcome.MISMATCH, Stage.ESTABLISH),
    )


@pytest.mark.slow
def test_another_secret_gets_no_answer(two: Run) -> None:
    here, there = two(secrets=(SECRET, bytes(32).hex()), wait=15.0)
    assert here.ended == (Outcome.PEER_REFUSED, Stage.LISTEN, Teardown.CLEAN)
    assert there.ended == (Outcome.NO_DATA, Stage.AGREE, Teardown.CLEAN)
