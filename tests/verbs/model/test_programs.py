"""The programs of docs/verbs.md on the fake library; tests/lab runs them on soft RoCE."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.verbs.model.conftest import DEVICES
from tests.verbs.model.programs import PRINTED, RAW, programs

# What soft RoCE has not: raw packets, their checksums, flow steering.
STEERING = f"""
device mlx5_0 node_type=1 device_cap_flags={1 << 29} phys_port_cnt=1
extended mlx5_0 raw_packet_caps=4
port mlx5_0 1 state=4 link_layer=2 active_mtu=3 max_mtu=5
"""


@pytest.mark.parametrize("title", PRINTED)
def test_an_example_prints_what_it_should_and_destroys_what_it_made(
    title: str, run_program: Callable[..., Any]
) -> None:
    done, fake = run_program(programs()[title], devices=DEVICES + STEERING)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(PRINTED[title])
    device = "mlx5_0" if title == RAW else "rxe0"
    for made, destroyed in (
        ("ibv_create_qp", "ibv_destroy_qp"),
        ("ibv_create_cq", "ibv_destroy_cq"),
        ("ibv_create_comp_channel", "ibv_destroy_comp_channel"),
        ("ibv_reg_mr", "ibv_dereg_mr"),
        ("ibv_alloc_pd", "ibv_dealloc_pd"),
        ("ibv_create_flow", "ibv_destroy_flow"),
        ("ibv_open_device", "ibv_close_device"),
    ):
        assert fake.calls.count(f"{made} {device}") == fake.calls.count(f"{destroyed} {device}")
    assert ("ibv_create_flow mlx5_0" in fake.calls) == (title == RAW)


def test_every_example_of_the_page_is_run() -> None:
    assert set(programs()) == set(PRINTED)
