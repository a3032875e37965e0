"""The programs of docs/verbs.md on the fake library; tests/lab runs them on soft RoCE."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from rdmadiag import verbs
from tests.verbs.model.conftest import DEVICES
from tests.verbs.model.programs import PAGE, PRINTED, RAW, programs

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


def test_every_name_of_the_pages_table_is_there() -> None:
    table = PAGE.read_text().partition("## Names")[2].partition("\n\nNumbers")[0]
    rows = [line.split("|")[4] for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    of_instances = {"XRCSRQ.srq_num", "device.has"}
    for cell in rows:
        holder = ""
        for name in re.findall(r"`([A-Za-z_.]+)", cell):
            first, _, rest = name.partition(".")
            holder = first if rest else holder
            whole = name if rest or hasattr(verbs, first) else f"{holder}.{name}"
            kind, _, attribute = whole.partition(".")
            assert whole in of_instances or hasattr(verbs, kind), whole
            if attribute and whole not in of_instances:
                found = getattr(verbs, kind)
                fields = getattr(found, "__dataclass_fields__", ())
                member = next(iter(found)) if kind == "EventType" else found
                assert hasattr(member, attribute) or attribute in fields, whole


def test_every_exception_of_the_page_is_there() -> None:
    table = PAGE.read_text().partition("| what | exception |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([A-Z]\w+)`", table)) - {"ValueError", "BufferError"}
    assert named == {
        *("Closed", "InUse", "Mismatch", "WrongAttributes"),
        *("Forked", "CallFailed", "PostFailed"),
    }
    for name in named:
        assert issubclass(getattr(verbs, name), Exception)
