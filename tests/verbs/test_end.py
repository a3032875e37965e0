"""One end and its twin on the fake library: every step, every failure, and nothing left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("loopback.py")
CHECKOUT = PROGRAM.parents[2]
LINUX = """
device mlx5_0 node_type=1 max_qp=16 max_cq=16 max_pd=16 max_mr=16 phys_port_cnt=1
port mlx5_0 1 state=4 link_layer=2 active_mtu=5 max_mtu=5 gid_tbl_len=4
gid mlx5_0 1 0 fe80::1 type=2
gid mlx5_0 1 1 ::ffff:192.0.2.1 type=2
"""
DARWIN = """
device rdma_en1 transport=100 max_qp=11 max_cq=11 max_pd=11 max_mr=100 phys_port_cnt=1
port rdma_en1 1 state=4 link_layer=100 active_mtu=5 max_mtu=5 gid_tbl_len=4
gid rdma_en1 1 0 fe80::1
gid rdma_en1 1 1 ::ffff:192.0.2.1
"""
Loopback = Callable[..., tuple[dict[str, Any], str, list[str]]]


@pytest.fixture
def loopback(fake_verbs: Any) -> Loopback:
    """The program's answer, its stderr, and what was called."""

    def run(
        rules: str = "", layout: str = "linux", kind: str = "rc", payload: int = 64
    ) -> tuple[dict[str, Any], str, list[str]]:
        fake = fake_verbs((LINUX if layout == "linux" else DARWIN) + rules, layout)
        argv = [sys.executable, str(PROGRAM), str(fake.library), layout, kind, str(payload)]
        environ = {**os.environ, **fake.environ, "PYTHONPATH": str(CHECKOUT)}
        ran = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.stdout, ran.stderr
        return json.loads(ran.stdout), ran.stderr, fake.calls

    return run


@pytest.mark.parametrize(("layout", "kind"), [("linux", "rc"), ("linux", "uc"), ("darwin", "uc")])
@pytest.mark.parametrize("payload", [1, 64, 4096, 1 << 20])
def test_a_message_goes_both_ways_and_nothing_is_left(
    loopback: Loopback, layout: str, kind: str, payload: int
) -> None:
    result, err, calls = loopback("", layout, kind, payload)
    assert result == {"states": ["rts", "rts"], "verified": [True, True]}
    assert err == ""
    assert calls.count("ibv_modify_qp " + ("mlx5_0" if layout == "linux" else "rdma_en1")) == 6


def test_what_is_made_is_destroyed_in_reverse_order(loopback: Loopback) -> None:
    _, _, calls = loopback()
    names = [call.split()[0] for call in calls]
    made = [n for n in names if n.startswith(("ibv_open", "ibv_alloc", "ibv_reg", "ibv_create"))]
    ended = [
        n for n in names if n.startswith(("ibv_close", "ibv_dealloc", "ibv_dereg", "ibv_destroy"))
    ]
    assert made[:5] == [
        "ibv_open_device",
        "ibv_alloc_pd",
        "ibv_reg_mr",
        "ibv_create_cq",
        "ibv_create_qp",
    ]
    assert ended[:5] == [
        "ibv_destroy_qp",
        "ibv_destroy_cq",
        "ibv_dereg_mr",
        "ibv_dealloc_pd",
        "ibv_close_device",
    ]


STEPS = [
    ("ibv_open_device", "open", "ibv_open_device"),
    ("ibv_alloc_pd", "alloc_pd", "ibv_alloc_pd"),
    ("ibv_reg_mr", "reg_mr", "ibv_reg_mr"),
    ("ibv_create_cq", "create_cq", "ibv_create_cq"),
    ("ibv_create_qp", "create_qp", "ibv_create_qp"),
    ("modify_qp_to_init", "init", "ibv_modify_qp"),
    ("modify_qp_to_rtr", "rtr", "ibv_modify_qp"),
    ("modify_qp_to_rts", "rts", "ibv_modify_qp"),
    ("post_recv", "data", "post_recv"),
    ("post_send", "data", "post_send"),
]


@pytest.mark.parametrize("errno", [1, 12, 16, 19, 22, 61, 96, 110])
@pytest.mark.parametrize(("rule", "stage", "call"), STEPS)
def test_a_step_that_fails_is_named_and_nothing_is_left(
    loopback: Loopback, rule: str, stage: str, call: str, errno: int
) -> None:
    result, err, _ = loopback(f"on {rule} errno={errno}\n")
    assert result == {"failed": [stage, call, errno]}
    assert err == ""


@pytest.mark.parametrize(("rule", "stage", "call"), STEPS[:8])
def test_the_second_end_that_fails_leaves_nothing_of_the_first(
    loopback: Loopback, rule: str, stage: str, call: str
) -> None:
    result, err, _ = loopback(f"on {rule} after=1 errno=12\n")
    assert result == {"failed": [stage, call, 12]}
    assert err == ""


@pytest.mark.parametrize(("rule", "stage", "call"), STEPS[:5])
def test_a_creator_that_gives_null_without_an_errno_is_a_failure(
    loopback: Loopback, rule: str, stage: str, call: str
) -> None:
    result, err, _ = loopback(f"on {rule} null\n")
    assert result == {"failed": [stage, call, 0]}
    assert err == ""


@pytest.mark.parametrize(("rule", "stage", "call"), STEPS)
def test_nothing_is_tried_twice(loopback: Loopback, rule: str, stage: str, call: str) -> None:
    _, _, calls = loopback(f"on {rule} errno=22\n")
    names = [each.split()[0] for each in calls]
    allowed = {"init": 1, "rtr": 3, "rts": 5}.get(stage, 1)
    assert names.count(call) == allowed


@pytest.mark.parametrize(
    "destroyer",
    ["ibv_destroy_qp", "ibv_destroy_cq", "ibv_dereg_mr", "ibv_dealloc_pd", "ibv_close_device"],
)
def test_an_object_that_will_not_go_is_told_and_asked_once(
    loopback: Loopback, destroyer: str
) -> None:
    result, _, calls = loopback(f"on {destroyer} times=1 errno=16\n")
    assert result["verified"] == [True, True]
    assert result["teardown"] == ["teardown", destroyer, 16]
    assert [call.split()[0] for call in calls].count(destroyer) == 2


def test_a_completion_with_an_error_is_told_with_its_vendor_code(loopback: Loopback) -> None:
    result, err, _ = loopback("on poll_cq wc=12,129\n")
    assert result == {"completion": [12, 129]}
    assert err == ""


def test_a_message_that_is_lost_completes_with_retry_exceeded_on_rc(loopback: Loopback) -> None:
    assert loopback("on post_send drop\n")[0] == {"completion": [12, 129]}


def test_a_payload_that_was_changed_on_its_way_is_not_taken_for_right(loopback: Loopback) -> None:
    result, _, _ = loopback("on post_send corrupt\n")
    assert result["verified"] == [False, False]


def test_a_gid_that_is_not_there_fails_at_rtr_as_on_a_mac(loopback: Loopback) -> None:
    assert loopback("on modify_qp_to_rtr errno=96\n", "darwin", "uc")[0] == {
        "failed": ["rtr", "ibv_modify_qp", 96]
    }


def test_rc_on_thunderbolt_is_refused_by_the_library(loopback: Loopback) -> None:
    assert loopback("", "darwin", "rc")[0] == {"failed": ["create_qp", "ibv_create_qp", 102]}
