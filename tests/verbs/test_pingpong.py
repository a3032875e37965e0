"""The whole attempt on the fake library, both ends in one child: every failure at every stage."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpState, QpType
from rdmadiag.facts.pingpong import Attempt, BadCompletion, Outcome, Stage, Teardown
from rdmadiag.verbs.endpoint import Endpoint
from rdmadiag.verbs.outcome import conclude
from rdmadiag.verbs.watchdog import watch

LINUX_SCRIPT = """
device mlx5_0 node_type=1 max_qp=16 max_cq=16 max_pd=16 max_mr=16 phys_port_cnt=1
port mlx5_0 1 state=4 link_layer=2 active_mtu=3 max_mtu=5 gid_tbl_len=4
gid mlx5_0 1 0 fe80::1 type=2
gid mlx5_0 1 1 ::ffff:192.0.2.1 type=2
"""
DARWIN_SCRIPT = """
device rdma_en1 transport=100 max_qp=11 max_cq=11 max_pd=11 max_mr=100 phys_port_cnt=1
port rdma_en1 1 state=4 link_layer=100 active_mtu=5 max_mtu=5 gid_tbl_len=4
gid rdma_en1 1 0 fe80::1
gid rdma_en1 1 1 ::ffff:192.0.2.1
"""
LINUX_END = Endpoint(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    active_mtu=1024,
    mtu=1024,
    gid_index=1,
    gid=Gid.parse("::ffff:192.0.2.1"),
    gid_type=GidType.ROCE_V2,
    prefix_length=24,
    lid=0,
    qp_type=QpType.RC,
    payload_bytes=64,
    iterations=10,
    permitted=True,
)
DARWIN_END = replace(
    LINUX_END,
    device="rdma_en1",
    link_layer=LinkLayer.THUNDERBOLT,
    gid_type=None,
    lid=7,
    active_mtu=4096,
    mtu=4096,
    qp_type=QpType.UC,
)
HOSTS = {"linux": (LINUX_SCRIPT, LINUX_END), "darwin": (DARWIN_SCRIPT, DARWIN_END)}

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
    "ibv_destroy_cq",
    "ibv_dereg_mr",
    "ibv_dealloc_pd",
    "ibv_close_device",
)
# What facts and the kernel's tables name at some stage, of each platform's own numbers.
ERRNOS = {
    "linux": (1, 5, 11, 12, 13, 14, 16, 19, 22, 38, 61, 95, 99, 101, 110, 113),
    "darwin": (1, 5, 6, 12, 13, 16, 19, 22, 35, 45, 49, 60, 61, 65, 96, 102),
}
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
        now = time.monotonic()
        request = {
            "platform": platform,
            "library": str(fake.library),
            "start": now,
            "deadline": now + seconds,
            "ends": [end.message()] * ends,
            "meet": None,
            "host": "",
            "port": 0,
            "until": now,
            "secret": None,
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in fake.environ.items():
                patch.setenv(name, value)
            watched = watch(request, grace)
        found = conclude(
            watched.rows,
            platform=platform,
            ends=[end] * ends,
            seconds=watched.seconds,
            returncode=watched.returncode,
            unkillable=watched.unkillable,
            pid=watched.pid,
        )
        return found, fake.calls, watched.stderr

    return attempt


def count(calls: list[str], name: str) -> int:
    return sum(call.split()[0] == name for call in calls)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("payload", [1, 64, 4097, 1 << 20])
def test_data_is_verified_both_ways_and_nothing_is_left(
    run: Run, platform: Platform, payload: int
) -> None:
    attempt, calls, err = run(platform=platform, payload_bytes=payload)
    assert (attempt.outcome, attempt.stage) == (Outcome.VERIFIED, Stage.DONE)
    assert attempt.data_verified
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""
    assert count(calls, "ibv_modify_qp") == 6
    # A verified message before and after the loop, each way, and the loop's.
    assert count(calls, "post_send") == 2 * (2 + 10)
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


def each_failure() -> list[Any]:
    return [
        pytest.param(platform, call, errno, id=f"{platform}-{call}-{errno}")
        for platform in PLATFORMS
        for call in STAGE_OF
        for errno in ERRNOS[platform]
    ]


@pytest.mark.parametrize(("platform", "call", "errno"), each_failure())
def test_a_call_that_fails_is_named_with_its_stage_and_never_made_again(
    run: Run, platform: Platform, call: str, errno: int
) -> None:
    rule = f"on {call} errno={errno}\n"
    attempt, calls, err = run(rule, platform)
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


def each_hang() -> list[Any]:
    return [
        pytest.param(platform, call, how, id=f"{platform}-{call}-{how}")
        for platform in PLATFORMS
        for call in STAGE_OF
        for how in ("hang", "spin")
        if how == "hang" or platform == "linux"
    ]


@pytest.mark.parametrize(("platform", "call", "how"), each_hang())
def test_a_call_that_never_returns_is_killed_and_named(
    run: Run, platform: Platform, call: str, how: str
) -> None:
    began = time.monotonic()
    attempt, _, _ = run(f"on {call} {how}\n", platform, seconds=0.7, grace=0.2)
    assert time.monotonic() - began < 0.9 + 2.0
    assert attempt.outcome is Outcome.WATCHDOG
    assert attempt.stage is STAGE_OF[call]
    assert attempt.teardown is Teardown.ABANDONED
    assert attempt.pid is None  # it could be killed


@pytest.mark.parametrize("call", DESTROYERS)
def test_a_teardown_that_never_returns_is_killed_though_the_data_had_arrived(
    run: Run, call: str
) -> None:
    attempt, _, _ = run(f"on {call} hang\n", seconds=0.7, grace=0.2)
    assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.TEARDOWN)
    assert attempt.call == call
    assert attempt.data_verified


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("call", [*STAGE_OF, *DESTROYERS])
def test_a_provider_that_crashes_is_told_with_its_stage(
    run: Run, platform: Platform, call: str
) -> None:
    attempt, _, _ = run(f"on {call} crash\n", platform)
    assert attempt.outcome is Outcome.DIED
    assert attempt.stage is STAGE_OF.get(call, Stage.TEARDOWN)
    assert "signal 11" in attempt.summary


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("spared", [0, 1, 5, 23])
def test_a_payload_that_is_not_what_was_sent_is_a_mismatch(
    run: Run, platform: Platform, spared: int
) -> None:
    attempt, _, err = run(f"on post_send after={spared} corrupt\n", platform)
    assert (attempt.outcome, attempt.stage) == (Outcome.DATA_MISMATCH, Stage.DATA)
    assert attempt.summary == "1 of 64 bytes differ, the first at offset 63"
    assert not attempt.data_verified
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""


@pytest.mark.parametrize("spared", [0, 1, 5, 23])
@pytest.mark.parametrize(("status", "vendor"), [(12, 129), (5, 249), (4, 81), (13, 0), (1, 0)])
def test_a_completion_error_is_told_with_its_vendor_error(
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


def test_a_lost_message_of_uc_ends_as_no_data(run: Run) -> None:
    attempt, _, err = run("on post_send after=7 drop\n", "darwin")
    assert (attempt.outcome, attempt.stage) == (Outcome.NO_DATA, Stage.DATA)
    assert attempt.teardown is Teardown.CLEAN
    assert err == ""


def test_one_that_is_merely_late_is_told_apart(run: Run) -> None:
    attempt, _, err = run("on post_send slow=30\n", seconds=0.8, iterations=1000)
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


def test_what_is_made_is_destroyed_in_reverse_order(run: Run) -> None:
    attempt, _, _ = run()
    for end in ("local", "remote"):
        own = [step.call for step in attempt.steps if step.end == end and "modify" not in step.call]
        assert own[-10:] == [
            "ibv_open_device",
            "ibv_alloc_pd",
            "ibv_reg_mr",
            "ibv_create_cq",
            "ibv_create_qp",
            *DESTROYERS,
        ]


def test_a_lost_message_of_rc_completes_with_retry_exceeded(run: Run) -> None:
    attempt, _, _ = run("on post_send drop\n")
    assert attempt.completion is not None
    assert (attempt.completion.status, attempt.completion.vendor_error) == (12, 129)


def test_rc_on_thunderbolt_fails_at_create_qp(run: Run) -> None:
    attempt, _, _ = run(platform="darwin", qp_type=QpType.RC)
    assert (attempt.outcome, attempt.stage) == (Outcome.CALL_FAILED, Stage.CREATE_QP)
    assert attempt.summary.startswith("ibv_create_qp failed: errno 102 (EOPNOTSUPP")
