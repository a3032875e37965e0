"""The whole attempt on the fake library, both ends in one child: every failure at every stage."""

import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.attempt import Attempt, BadCompletion, Outcome, Stage, Teardown
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.open_end import Failed
from rdmadiag.verbs.outcome import conclude
from rdmadiag.verbs.pingpong_child import Attempt as ChildAttempt
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import EndName, encode, parse
from rdmadiag.verbs.transcript import Transcript
from rdmadiag.verbs.watchdog import Watched, watch
from tests.verbs.attempts import HOSTS, concluded, request

STAGE_OF = {
    "ibv_open_device": Stage.OPEN,
    "ibv_alloc_pd": Stage.ALLOC_PD,
    "ibv_reg_mr": Stage.REG_MR,
    "ibv_create_cq": Stage.CREATE_CQ,
    "ibv_create_qp": Stage.CREATE_QP,
    "modify_qp_to_init": Stage.INIT,
    "modify_qp_to_rtr": Stage.RTR,
    "modify_qp_to_rts": Stage.RTS,
    "post_recv": Stage.DATA,
    "post_send": Stage.DATA,
    "poll_cq": Stage.DATA,
}
DESTROYERS = (
    "ibv_destroy_qp",
    "ibv_dereg_mr",
    "ibv_destroy_cq",
    "ibv_dealloc_pd",
    "ibv_close_device",
)
"""In the order that Thunderbolt's provider wants."""
PLATFORMS = tuple(HOSTS)

Run = Callable[..., tuple[Attempt, list[str], str]]


@pytest.fixture
def run(fake_verbs: Any) -> Run:
    """The attempt, what was called, and what the library said on stderr."""

    def attempt(
        rules: str = "",
        platform: Platform = "linux",
        seconds: float = 10.0,
        grace: float = 1.0,
        ends: int = 2,
        **changes: Any,
    ) -> tuple[Attempt, list[str], str]:
        script, base = HOSTS[platform]
        fake = fake_verbs(script + rules, platform)
        end = replace(base, **changes)
        asked = request(fake.library, [end] * ends, seconds, platform=platform)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in fake.environ.items():
                patch.setenv(name, value)
            watched = watch(asked, grace)
        assert isinstance(watched, Watched)
        found = concluded(watched, asked)
        return found, fake.calls, watched.stderr

    return attempt


def count(calls: list[str], name: str) -> int:
    return sum(call.split()[0] == name for call in calls)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("payload", [1, 4097, 1 << 20])
def test_data_is_verified_both_ways_and_nothing_is_left(
    run: Run, platform: Platform, payload: int
) -> None:
    attempt, calls, err = run(platform=platform, payload_bytes=payload)
    assert (attempt.outcome, attempt.stage) == (Outcome.VERIFIED, Stage.DONE)
    assert attempt.data_verified
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""
    assert count(calls, "ibv_modify_qp") == 6
    # A verified message before and after the loop, each way, a small one before larger ones,
    # and the loop's.
    assert count(calls, "post_send") == 2 * (2 + (payload > 64) + 10)
    assert attempt.latency is not None
    assert (attempt.latency.iterations, attempt.latency.bytes) == (10, payload)
    assert sum(number for _, number in attempt.latency.histogram) == 10
    for end in (attempt.local, attempt.remote):
        assert end is not None
        assert (end.qp_state, end.mtu) == (QpState.RTS, HOSTS[platform][1].mtu)
    assert {attempt.local.psn, attempt.remote.psn} != {None}


@pytest.mark.parametrize("kind", [QpType.RC, QpType.UC])
def test_both_types_work_on_linux(run: Run, kind: QpType) -> None:
    attempt, _, _ = run(qp_type=kind)
    assert attempt.outcome is Outcome.VERIFIED
    assert attempt.local is not None
    assert attempt.local.qp_type is kind


@pytest.mark.parametrize("call", STAGE_OF)
@pytest.mark.parametrize(("platform", "errno"), [("linux", 110), ("darwin", 60)])
def test_a_call_that_fails_is_named_with_its_stage_and_never_made_again(
    run: Run, platform: Platform, call: str, errno: int
) -> None:
    attempt, calls, err = run(f"on {call} errno={errno}\n", platform)
    assert attempt.outcome is Outcome.CALL_FAILED
    # Of poll_cq no more is promised than that it is negative.
    assert attempt.errno == (0 if call == "poll_cq" else errno)
    assert attempt.stage is STAGE_OF[call]
    assert attempt.teardown is (
        Teardown.NOTHING_MADE if call == "ibv_open_device" else Teardown.CLEAN
    )
    assert not attempt.data_verified
    assert err == ""
    real = "ibv_modify_qp" if call.startswith("modify") else call
    tried = {"modify_qp_to_init": 1, "modify_qp_to_rtr": 3, "modify_qp_to_rts": 5}.get(call, 1)
    if (platform, call) == ("darwin", "ibv_reg_mr"):
        tried = 2  # the other access flags, TN3205 against llama.cpp
    assert count(calls, real) == tried


@given(
    errno=st.integers(0, 1 << 31),
    call=st.sampled_from(["ibv_create_qp", "ibv_modify_qp", "poll_cq", *DESTROYERS]),
)
def test_any_errno_is_carried_from_the_call_to_the_document(errno: int, call: str) -> None:
    reader, writer = os.pipe()

    def refuse(*_: Any) -> NoReturn:
        raise CallFailed(call, errno)

    library = SimpleNamespace(call=refuse)
    recorded = RecordedCaller(library, Transcript(writer, 0.0), EndName.LOCAL)  # type: ignore[arg-type]
    with pytest.raises(CallFailed):
        recorded(call, "mlx5_0")
    error = Failed(Stage.RTR, call, "mlx5_0", errno)
    made = ChildAttempt(request(), Transcript(writer, 0.0), None)  # type: ignore[arg-type]
    result = made._result(error)
    assert result
    os.close(writer)
    with open(reader, "rb") as lines:
        found = [parse(line) for line in (*lines.read().splitlines(), encode(result))]
    asked = request()
    attempt = conclude(found, platform="linux", ends=asked.ends)  # type: ignore[arg-type]
    assert attempt.steps[0].errno == errno
    if call == "poll_cq":
        assert (attempt.errno, attempt.summary) == (0, f"poll_cq failed: it returned -{errno}")
    else:
        assert (attempt.errno, attempt.call, attempt.stage) == (errno, call, Stage.RTR)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("call", [each for each in STAGE_OF if each.startswith("ibv")])
def test_a_second_end_that_fails_takes_the_first_one_down(
    run: Run, platform: Platform, call: str
) -> None:
    attempt, calls, err = run(f"on {call} after=1 errno=12\n", platform)
    assert (attempt.outcome, attempt.stage) == (Outcome.CALL_FAILED, STAGE_OF[call])
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""
    assert count(calls, "ibv_close_device") == (1 if call == "ibv_open_device" else 2)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("call", DESTROYERS)
def test_what_cannot_be_destroyed_is_said_and_the_rest_is_destroyed(
    run: Run, platform: Platform, call: str
) -> None:
    attempt, calls, _ = run(f"on {call} times=1 errno=5\n", platform)
    assert attempt.outcome is Outcome.TEARDOWN_FAILED
    assert (attempt.call, attempt.errno, attempt.stage) == (call, 5, Stage.TEARDOWN)
    assert attempt.data_verified
    assert attempt.teardown is Teardown.FAILED
    for each in DESTROYERS:
        assert count(calls, each) == 2, each  # each object's once, and not again


def hung(run: Run, platform: Platform, call: str, how: str) -> Attempt:
    """What came of a call that never returns; the deadline lets a busy machine reach it."""
    attempt, _, _ = run(f"on {call} {how}\n", platform, seconds=2.0, grace=0.2)
    assert attempt.outcome is Outcome.WATCHDOG
    assert attempt.stage is STAGE_OF[call]
    assert attempt.teardown is Teardown.ABANDONED
    assert attempt.pid is None  # it could be killed
    return attempt


def test_a_call_that_never_returns_is_killed_and_named(run: Run) -> None:
    assert hung(run, "linux", "modify_qp_to_rtr", "hang").call == "ibv_modify_qp"


@pytest.mark.slow
@pytest.mark.parametrize("call", STAGE_OF)
def test_whichever_call_never_returns_is_killed_and_named(run: Run, call: str) -> None:
    hung(run, "linux", call, "hang")


@pytest.mark.slow
def test_one_that_computes_for_ever_is_killed_like_one_that_waits(run: Run) -> None:
    hung(run, "linux", "modify_qp_to_rtr", "spin")


@pytest.mark.slow
def test_on_a_mac_a_call_that_never_returns_is_killed_and_named(run: Run) -> None:
    hung(run, "darwin", "modify_qp_to_rtr", "hang")


@pytest.mark.slow
@pytest.mark.parametrize("call", DESTROYERS)
def test_a_teardown_that_never_returns_is_killed_though_the_data_had_arrived(
    run: Run, call: str
) -> None:
    attempt, _, _ = run(f"on {call} hang\n", seconds=2.0, grace=0.2)
    assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.TEARDOWN)
    assert attempt.call == call
    assert attempt.data_verified


def crashed(run: Run, call: str) -> None:
    attempt, _, _ = run(f"on {call} crash\n")
    assert (attempt.outcome, attempt.stage) == (Outcome.DIED, STAGE_OF.get(call, Stage.TEARDOWN))
    assert "signal 11" in attempt.summary


def test_a_provider_that_crashes_is_reported_with_its_stage(run: Run) -> None:
    crashed(run, "modify_qp_to_rtr")


@pytest.mark.slow
@pytest.mark.parametrize("call", [*STAGE_OF, *DESTROYERS])
def test_wherever_a_provider_crashes_its_stage_is_reported(run: Run, call: str) -> None:
    crashed(run, call)


@pytest.mark.parametrize(("platform", "spared"), [("linux", 0), ("darwin", 1), ("linux", 23)])
def test_a_payload_that_is_not_what_was_sent_is_a_mismatch(
    run: Run, platform: Platform, spared: int
) -> None:
    attempt, _, err = run(f"on post_send after={spared} corrupt\n", platform)
    assert (attempt.outcome, attempt.stage) == (Outcome.DATA_MISMATCH, Stage.DATA)
    assert attempt.summary == "1 of 64 bytes differ, the first at offset 63"
    assert not attempt.data_verified
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""


@pytest.mark.parametrize(
    ("spared", "status", "vendor"), [(0, 12, 129), (1, 5, 249), (5, 4, 81), (23, 13, 0)]
)
def test_a_completion_error_is_reported_with_its_vendor_error(
    run: Run, spared: int, status: int, vendor: int
) -> None:
    attempt, _, err = run(f"on poll_cq after={spared} wc={status},{vendor}\n")
    assert (attempt.outcome, attempt.stage) == (Outcome.COMPLETION_ERROR, Stage.DATA)
    assert attempt.completion is not None
    assert replace(attempt.completion, end="", is_receive=False) == BadCompletion(
        "", status, vendor, False
    )
    assert f"status {status}" in attempt.summary
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_lost_message_of_uc_ends_as_no_data(run: Run) -> None:
    attempt, _, err = run("on post_send after=7 drop\n", "darwin")
    assert (attempt.outcome, attempt.stage) == (Outcome.NO_DATA, Stage.DATA)
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""


def test_one_that_is_merely_late_is_no_hang(run: Run) -> None:
    attempt, _, err = run("on post_send slow=30\n", seconds=2.0, iterations=10_000)
    assert (attempt.outcome, attempt.stage) == (Outcome.LATE, Stage.DATA)
    assert attempt.rounds
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""


def test_two_ends_that_do_not_fit_never_open_the_device(run: Run) -> None:
    attempt, calls, _ = run(mtu=4096, active_mtu=1024)
    assert (attempt.outcome, attempt.stage) == (Outcome.MISMATCH, Stage.AGREE)
    assert [problem.code for problem in attempt.problems] == ["mtu_above_port"] * 2
    assert (calls, attempt.touched) == ([], False)


def test_a_device_that_the_library_does_not_list_fails_at_open(run: Run) -> None:
    attempt, _, err = run(device="mlx5_7")
    assert (attempt.outcome, attempt.stage) == (Outcome.CALL_FAILED, Stage.OPEN)
    assert attempt.summary == "the verbs library does not list the device"
    assert err == ""


def test_memory_of_thunderbolt_is_registered_with_other_flags_where_the_first_are_refused(
    run: Run,
) -> None:
    attempt, _, err = run("on ibv_reg_mr times=1 errno=22\n", "darwin")
    assert attempt.outcome is Outcome.VERIFIED
    assert [step.errno for step in attempt.steps if step.call == "ibv_reg_mr"] == [22, None, None]
    assert err == ""


@pytest.mark.parametrize("call", [each for each in STAGE_OF if each.startswith("ibv")])
def test_a_creator_that_gives_null_without_an_errno_is_a_failure(run: Run, call: str) -> None:
    attempt, _, err = run(f"on {call} null\n")
    assert (attempt.outcome, attempt.stage, attempt.errno) == (
        Outcome.CALL_FAILED,
        STAGE_OF[call],
        0,
    )
    assert attempt.summary == f"{call} failed: it gave no errno"
    assert err == ""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_made_is_destroyed_queue_pairs_first_and_the_device_last(
    run: Run, platform: Platform
) -> None:
    attempt, calls, _ = run(platform=platform)
    destroyed = [call.split()[0] for call in calls if call.split()[0] in DESTROYERS]
    assert destroyed == [*DESTROYERS, *DESTROYERS]
    for end in ("local", "remote"):
        own = [step.call for step in attempt.steps if step.end == end]
        assert own[-5:] == list(DESTROYERS)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_was_made_before_a_failure_is_destroyed_in_the_same_order(
    run: Run, platform: Platform
) -> None:
    attempt, _, _ = run("on ibv_create_qp errno=12\n", platform)
    assert [step.call for step in attempt.steps if step.call in DESTROYERS] == [*DESTROYERS[1:]]


def test_a_lost_message_of_rc_completes_with_retry_exceeded(run: Run) -> None:
    attempt, _, _ = run("on post_send drop\n")
    assert attempt.completion is not None
    assert (attempt.completion.status, attempt.completion.vendor_error) == (12, 129)


def test_rc_on_thunderbolt_fails_at_create_qp(run: Run) -> None:
    attempt, _, _ = run(platform="darwin", qp_type=QpType.RC)
    assert (attempt.outcome, attempt.stage) == (Outcome.CALL_FAILED, Stage.CREATE_QP)
    assert attempt.summary.startswith("ibv_create_qp failed: errno 102 (EOPNOTSUPP")
