"""From the records of a child to what came of it: written by hand, a real transcript, and any."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.attempt import (
    Attempt,
    BadCompletion,
    Latency,
    Outcome,
    PeerFailure,
    Problem,
    Stage,
    Step,
    Teardown,
)
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import QpState
from rdmadiag.verbs import records
from rdmadiag.verbs.outcome import Nonsense, conclude
from rdmadiag.verbs.records import EndName, Record
from rdmadiag.verbs.watchdog import Watched, watch
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT, request
from tests.verbs.test_records import RECORDS

LOCAL, REMOTE = EndName.LOCAL, EndName.REMOTE
Rows = list[Record]

HERE = replace(LINUX_END, active_mtu=4096)
THERE = replace(HERE, device="mlx5_7", gid=Gid.parse("::ffff:192.0.2.2"))

MAKERS = {
    "ibv_open_device": "open",
    "ibv_alloc_pd": "alloc_pd",
    "ibv_reg_mr": "reg_mr",
    "ibv_create_cq": "create_cq",
    "ibv_create_qp": "create_qp",
}
DESTROYERS = (
    "ibv_destroy_qp",
    "ibv_dereg_mr",
    "ibv_destroy_cq",
    "ibv_dealloc_pd",
    "ibv_close_device",
)


def began(call: str, stage: str, end: EndName = LOCAL) -> Rows:
    return [records.Step(call=call, stage=Stage(stage), end=end, at=1.0)]


def done(call: str, stage: str, end: EndName = LOCAL) -> Rows:
    return [*began(call, stage, end), records.Returned(at=1.25)]


def failed(call: str, stage: str, errno: int) -> Rows:
    return [*began(call, stage), records.Failed(errno=errno, at=1.25)]


def made(end: EndName = LOCAL) -> Rows:
    return [row for call, stage in MAKERS.items() for row in done(call, stage, end)]


def reached(stage: str) -> Rows:
    return [records.StageBegan(stage=Stage(stage), at=1.0)]


def torn_down(end: EndName = LOCAL, but: str = "") -> Rows:
    rows = reached("teardown")
    for call in DESTROYERS:
        rows += failed(call, "teardown", 16) if call == but else done(call, "teardown", end)
    return rows


def result(outcome: Outcome, stage: str = "done", **more: Any) -> Rows:
    return [records.Result(outcome=outcome, stage=Stage(stage), at=1.5, **more)]


LATENCY = Latency(1.5, 2, 3, 4.5, 10, 64, "compiled", 0.2, histogram=((2, 9), (5, 1)))
VERIFIED = [
    *reached("connect"),
    records.Connected(address="192.0.2.2:18519"),
    records.Agreed(remote=THERE),
    *reached("open"),
    *made(),
    records.QueuePairMade(queue_pair=17, psn=5, end=LOCAL),
    records.Path(queue_pair=18, psn=6, mtu=1024),
    *[
        records.StateReached(state=state, end=LOCAL)
        for state in (QpState.INIT, QpState.RTR, QpState.RTS)
    ],
    *reached("data"),
    records.Verified(verified=1),
    records.Rounds(rounds=4),
    records.Rounds(rounds=10),
    records.Verified(verified=2),
    *result(Outcome.VERIFIED),
    *torn_down(),
    records.Timed(latency=LATENCY),
    records.Done(),
]


def of(rows: Rows, platform: Platform = "linux", **how: Any) -> Attempt:
    return conclude(rows, platform=platform, ends=[HERE], **how)


# --- an attempt that went well -----------------------------------------------------------


def test_all_that_a_verified_attempt_has_to_say() -> None:
    attempt = of(VERIFIED)
    assert (attempt.outcome, attempt.stage) == (Outcome.VERIFIED, Stage.DONE)
    assert attempt.summary == "both payloads arrived as they were sent"
    assert (attempt.data_verified, attempt.touched, attempt.rounds) == (True, True, 10)
    assert attempt.teardown is Teardown.CLEAN
    assert (attempt.call, attempt.errno, attempt.pid) == (None, None, None)
    assert attempt.latency == LATENCY
    assert attempt.steps[0] == Step("local", Stage.OPEN, "ibv_open_device", 0.25, None)
    assert len(attempt.steps) == 10


def test_both_ends_as_far_as_they_came() -> None:
    attempt = of(VERIFIED)
    assert attempt.local
    assert attempt.remote
    assert (attempt.local.device, attempt.remote.device) == ("mlx5_0", "mlx5_7")
    assert (attempt.local.queue_pair, attempt.local.psn) == (17, 5)
    assert (attempt.remote.queue_pair, attempt.remote.psn) == (18, 6)
    assert (attempt.local.mtu, attempt.remote.mtu) == (1024, 1024)
    assert (attempt.local.qp_state, attempt.remote.qp_state) == (QpState.RTS, None)


def test_two_ends_of_one_host_have_records_of_their_own() -> None:
    rows = [
        records.QueuePairMade(queue_pair=17, psn=5, end=LOCAL),
        records.QueuePairMade(queue_pair=18, psn=6, end=REMOTE),
        records.StateReached(state=QpState.INIT, end=REMOTE),
        records.Path(queue_pair=18, psn=6, mtu=512),
        records.Path(queue_pair=17, psn=5, mtu=512),
        *result(Outcome.NO_DATA, stage="data"),
    ]
    attempt = conclude(rows, platform="linux", ends=[HERE, THERE])
    assert attempt.local
    assert attempt.remote
    assert (attempt.local.queue_pair, attempt.remote.queue_pair) == (17, 18)
    assert (attempt.local.qp_state, attempt.remote.qp_state) == (None, QpState.INIT)
    assert attempt.remote.mtu == 512


def test_of_a_peer_that_never_agreed_nothing_is_known() -> None:
    attempt = of(result(Outcome.NO_PEER, stage="connect", text="nobody came"))
    assert attempt.local
    assert (attempt.remote, attempt.local.mtu, attempt.local.queue_pair) == (None, None, None)


# --- what the child says of its failure --------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "call", "errno", "summary"),
    [
        (
            "linux",
            "ibv_modify_qp",
            110,
            "ibv_modify_qp failed: errno 110 (ETIMEDOUT: Connection timed out)",
        ),
        (
            "darwin",
            "ibv_modify_qp",
            60,
            "ibv_modify_qp failed: errno 60 (ETIMEDOUT: Operation timed out)",
        ),
        ("linux", "ibv_open_device", 0, "ibv_open_device failed: it gave no errno"),
        ("linux", "ibv_get_device_list", 0, "the verbs library does not list the device"),
        (
            "linux",
            "ibv_get_device_list",
            13,
            "ibv_get_device_list failed: errno 13 (EACCES: Permission denied)",
        ),
    ],
)
def test_a_call_that_failed(platform: Platform, call: str, errno: int, summary: str) -> None:
    rows = result(Outcome.CALL_FAILED, call=call, errno=errno, stage="rtr")
    attempt = of(rows, platform)
    assert (attempt.outcome, attempt.stage) == (Outcome.CALL_FAILED, Stage.RTR)
    assert (attempt.call, attempt.errno, attempt.summary) == (call, errno, summary)
    assert attempt.platform == platform


def test_of_poll_cq_no_errno_is_made_up() -> None:
    attempt = of(result(Outcome.CALL_FAILED, call="poll_cq", errno=5, stage="data"))
    assert (attempt.errno, attempt.summary) == (0, "poll_cq failed: it returned -5")


@pytest.mark.parametrize(("receive", "which"), [(False, "send"), (True, "receive")])
def test_a_completion_error(receive: bool, which: str) -> None:
    bad = BadCompletion("remote", 12, 129, receive)
    attempt = of(result(Outcome.COMPLETION_ERROR, stage="data", completion=bad))
    assert attempt.completion == bad
    assert attempt.summary.startswith(f"a {which} completed with status 12 ")
    assert "129" in attempt.summary


def test_a_peer_that_failed_is_quoted() -> None:
    failure = PeerFailure("rtr", "errno 110")
    attempt = of(result(Outcome.PEER_FAILED, peer_failure=failure, stage="data"))
    assert attempt.peer_failure == failure
    assert attempt.summary == "the peer failed at rtr: errno 110"
    assert attempt.stage is Stage.DATA


def test_a_mismatch_is_summed_up_by_its_first_problem() -> None:
    problems = (Problem("a", "first"), Problem("b", "second"))
    attempt = of(result(Outcome.MISMATCH, problems=problems, stage="agree"))
    assert attempt.problems == problems
    assert (attempt.summary, attempt.touched) == ("first", False)


@pytest.mark.parametrize(
    ("outcome", "stage", "summary"),
    [
        (Outcome.NO_DATA, "data", "nothing arrived any more"),
        (Outcome.LATE, "rtr", "the deadline came"),
        (Outcome.INTERRUPTED, "rtr", "words"),
        (Outcome.NO_PEER, "connect", "words"),
        (Outcome.PEER_REFUSED, "connect", "words"),
        (Outcome.PEER_LOST, "agree", "words"),
        (Outcome.DATA_MISMATCH, "data", "words"),
    ],
)
def test_other_outcomes_are_one_line(outcome: Outcome, stage: str, summary: str) -> None:
    attempt = of(result(outcome, stage=stage, text="words"))
    assert (attempt.outcome, attempt.stage, attempt.summary) == (outcome, Stage(stage), summary)


@pytest.mark.parametrize("outcome", [Outcome.NO_DATA, Outcome.LATE])
def test_round_trips_that_were_done_are_counted(outcome: Outcome) -> None:
    attempt = of([records.Rounds(rounds=7), *result(outcome, stage="data")])
    assert attempt.summary.endswith(" after 7 round trips")


# --- what became of the objects ----------------------------------------------------------

FAILURE = result(Outcome.CALL_FAILED, call="ibv_modify_qp", errno=22, stage="rtr")


@pytest.mark.parametrize(
    ("rows", "how", "teardown"),
    [
        (FAILURE, {}, Teardown.NOTHING_MADE),
        (failed("ibv_open_device", "open", 13) + FAILURE, {}, Teardown.NOTHING_MADE),
        (made() + FAILURE + torn_down(), {}, Teardown.CLEAN),
        (made() + FAILURE + torn_down(but="ibv_destroy_qp"), {}, Teardown.FAILED),
        (made() + made(REMOTE) + FAILURE + torn_down(REMOTE), {}, Teardown.FAILED),
        (made() + began("ibv_modify_qp", "rtr"), {"returncode": None}, Teardown.ABANDONED),
        (made() + began("ibv_modify_qp", "rtr"), {"returncode": -11}, Teardown.ABANDONED),
        (began("ibv_open_device", "open"), {"returncode": None}, Teardown.ABANDONED),
        ([], {"returncode": None}, Teardown.NOTHING_MADE),
    ],
    ids=[
        "no call was made",
        "open failed",
        "everything is destroyed",
        "one refuses",
        "one end of two is left",
        "killed with everything made",
        "died with everything made",
        "killed while it opened",
        "killed before any call",
    ],
)
def test_teardown_is_what_was_made_against_what_was_destroyed(
    rows: Rows, how: dict[str, Any], teardown: Teardown
) -> None:
    assert of(rows, **how).teardown is teardown


def test_verified_data_does_not_make_up_for_what_cannot_be_destroyed() -> None:
    rows = made() + result(Outcome.VERIFIED) + torn_down(but="ibv_dereg_mr")
    attempt = of([*rows, records.Verified(verified=2)])
    assert (attempt.outcome, attempt.stage) == (Outcome.TEARDOWN_FAILED, Stage.TEARDOWN)
    assert (attempt.call, attempt.errno) == ("ibv_dereg_mr", 16)
    assert attempt.data_verified
    assert attempt.summary == (
        "the data arrived, and then ibv_dereg_mr failed: errno 16 (EBUSY: Device or resource busy)"
    )


def test_what_went_wrong_first_matters_more_than_the_teardown() -> None:
    attempt = of(made() + FAILURE + torn_down(but="ibv_destroy_qp"))
    assert (attempt.outcome, attempt.call, attempt.errno) == (
        Outcome.CALL_FAILED,
        "ibv_modify_qp",
        22,
    )


# --- children that did not end by themselves ---------------------------------------------

HANGING = made() + began("ibv_modify_qp", "rtr")


def test_a_call_that_never_returned_is_named() -> None:
    attempt = of(HANGING, returncode=None, pid=77)
    assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.RTR)
    assert (attempt.call, attempt.pid) == ("ibv_modify_qp", None)
    assert attempt.summary == (
        "ibv_modify_qp had not returned at the deadline, the process was killed"
    )
    assert attempt.steps[-1].seconds is None


def test_a_process_that_cannot_be_killed_is_named() -> None:
    attempt = of(HANGING, returncode=None, unkillable=True, pid=77)
    assert attempt.pid == 77
    assert attempt.summary == (
        "ibv_modify_qp had not returned at the deadline; process 77 cannot be killed"
    )


def test_a_call_that_was_forgotten_counts_as_one_that_never_returned() -> None:
    attempt = of(HANGING + began("ibv_destroy_qp", "teardown"), returncode=None)
    assert [step.call for step in attempt.steps if step.seconds is None] == [
        "ibv_modify_qp",
        "ibv_destroy_qp",
    ]
    assert attempt.call == "ibv_destroy_qp"


def test_a_kill_between_two_calls_names_the_stage() -> None:
    attempt = of(made() + reached("data"), returncode=None)
    assert (attempt.outcome, attempt.stage, attempt.call) == (Outcome.WATCHDOG, Stage.DATA, None)
    assert attempt.summary.startswith("data had not ended at the deadline")


def test_a_child_that_wrote_nothing_was_connecting() -> None:
    attempt = of([], returncode=None)
    assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.CONNECT)


def test_a_teardown_that_hangs_is_the_watchdogs_though_there_is_a_result() -> None:
    rows = made() + result(Outcome.VERIFIED) + reached("teardown")
    for more in ([], began("ibv_destroy_qp", "teardown")):
        attempt = of(rows + more, returncode=None)
        assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.TEARDOWN)


def test_a_teardown_that_hangs_does_not_hide_what_had_failed_before_it() -> None:
    rows = made() + FAILURE + reached("teardown")
    attempt = of(rows + began("ibv_destroy_qp", "teardown"), returncode=None)
    assert attempt.outcome is Outcome.WATCHDOG
    assert attempt.summary == (
        "ibv_destroy_qp had not returned at the deadline (before that, at rtr: ibv_modify_qp "
        "failed: errno 22 (EINVAL: Invalid argument)), the process was killed"
    )


def test_a_child_that_was_killed_when_it_had_said_everything_is_believed() -> None:
    assert of([*FAILURE, records.Done()], returncode=None).outcome is (Outcome.CALL_FAILED)


def test_a_call_that_outlasts_a_signal_is_the_watchdogs() -> None:
    attempt = of(HANGING, returncode=None, signal="SIGTERM")
    assert attempt.outcome is Outcome.WATCHDOG
    assert attempt.summary.startswith("ibv_modify_qp had not returned after SIGTERM")


def test_a_signal_before_the_device_was_touched_is_an_interruption() -> None:
    attempt = of(began("dlopen", "open"), returncode=None, signal="SIGINT")
    assert (attempt.outcome, attempt.touched) == (Outcome.INTERRUPTED, False)
    assert attempt.summary == "dlopen had not returned after SIGINT"


@pytest.mark.parametrize("returncode", [-15, -2, 0, 1, 130])
def test_a_child_that_a_signal_ended_without_a_word_was_interrupted(returncode: int) -> None:
    attempt = of(reached("connect"), returncode=returncode, signal="SIGTERM")
    assert (attempt.outcome, attempt.stage) == (Outcome.INTERRUPTED, Stage.CONNECT)
    assert attempt.summary == "SIGTERM"


@pytest.mark.parametrize(
    ("rows", "stage", "call", "where"),
    [
        (HANGING, Stage.RTR, "ibv_modify_qp", "in ibv_modify_qp"),
        (made(), Stage.CREATE_QP, None, "between two calls"),
    ],
)
def test_a_provider_that_crashed(rows: Rows, stage: Stage, call: str | None, where: str) -> None:
    attempt = of(rows, returncode=-11)
    assert (attempt.outcome, attempt.stage, attempt.call) == (Outcome.DIED, stage, call)
    assert attempt.summary == f"signal 11 ended the process {where}"


@pytest.mark.parametrize("returncode", [0, 1, 70])
def test_a_child_that_ends_without_a_word_is_a_bug_of_ours(returncode: int) -> None:
    with pytest.raises(Nonsense, match=f"no result, exit code {returncode}"):
        of(reached("connect"), returncode=returncode)


def test_a_result_of_which_the_teardown_is_missing_is_a_bug_of_ours() -> None:
    with pytest.raises(Nonsense):
        of(made() + result(Outcome.VERIFIED) + reached("teardown"), returncode=1)


# --- a real transcript -------------------------------------------------------------------


@pytest.fixture
def recorded(fake_verbs: Any, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What a child wrote that verified its data."""
    fake = fake_verbs(LINUX_SCRIPT)
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    watched = watch(request(fake.library), 1.0)
    assert isinstance(watched, Watched)
    assert watched.returncode == 0
    return list(watched.records)


def test_a_real_transcript_is_concluded_wherever_it_is_cut(recorded: Rows) -> None:
    assert conclude(recorded, platform="linux", ends=[HERE] * 2).latency
    opened = next(
        at
        for at, row in enumerate(recorded)
        if isinstance(row, records.Step) and row.call == "ibv_open_device"
    )
    for at in range(len(recorded)):
        for signal in (None, "SIGTERM"):
            attempt = conclude(
                recorded[:at],
                platform="linux",
                ends=[HERE] * 2,
                returncode=None,
                signal=signal,
            )
            if attempt.teardown is Teardown.CLEAN:
                # Only the figures were still to come.
                assert attempt.outcome is Outcome.VERIFIED
                continue
            untouched = signal and at <= opened
            assert attempt.outcome is (Outcome.INTERRUPTED if untouched else Outcome.WATCHDOG)
            assert attempt.summary
            assert attempt.teardown is not Teardown.FAILED


@pytest.mark.parametrize("returncode", [0, 1, -9, -11])
def test_a_real_transcript_that_is_cut_is_an_attempt_or_nonsense(
    recorded: Rows, returncode: int
) -> None:
    for at in range(len(recorded)):
        try:
            attempt = conclude(
                recorded[:at],
                platform="linux",
                ends=[HERE] * 2,
                returncode=returncode,
            )
        except Nonsense:
            assert returncode >= 0
            continue
        assert attempt.summary


# --- any records at all ------------------------------------------------------------------


@given(
    found=st.lists(RECORDS, max_size=12),
    ends=st.sampled_from([[HERE], [HERE, THERE]]),
    returncode=st.sampled_from([None, 0, 1, -11]),
    signal=st.sampled_from([None, "SIGTERM"]),
)
def test_any_records_are_an_attempt_or_nonsense(
    found: Rows, ends: Any, returncode: int | None, signal: str | None
) -> None:
    how: dict[str, Any] = {"returncode": returncode, "signal": signal}
    try:
        attempt = conclude(found, platform="linux", ends=ends, **how)
    except Nonsense:
        assert returncode is None or returncode >= 0 or signal
        return
    assert attempt.local
    assert attempt.outcome is not Outcome.VERIFIED or attempt.stage is Stage.DONE
