"""`rdmadiag capabilities` on real devices, beside ibv_devinfo's answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import Rxe

Pair = tuple[Rxe, Rxe]
Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

ODP_WORDS = {
    "SUPPORT_SRQ": "srq_recv",
    "ODP_SUPPORT": "odp",
    "ODP_SUPPORT_IMPLICIT": "odp_implicit",
}


def devinfo(run: Run, name: str) -> list[str]:
    output: str = run(["ibv_devinfo", "-v", "-d", name], timeout=60).stdout
    return [line.strip() for line in output.splitlines()]


def below(lines: list[str], heading: str) -> set[str]:
    """The words under a heading that ends with a colon, up to the next line with one."""
    found = set()
    for line in lines[lines.index(heading) + 1 :]:
        if ":" in line or "not supported" in line:
            break
        found.add(line)
    return found - {"", "NO SUPPORT"}


def flags_of(lines: list[str]) -> set[str]:
    """The words under device_cap_flags."""
    start = next(at for at, line in enumerate(lines) if line.startswith("device_cap_flags:"))
    found = set()
    for line in lines[start + 1 :]:
        if ":" in line:
            break
        found.add(line)
    return found


def claims(document: Any, name: str) -> dict[str, Any]:
    (device,) = [each for each in document["devices"] if each["name"] == name]
    return {row["name"]: row["claimed"] for row in device["capabilities"]}


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    def test_flags_atomics_and_paging_are_those_of_ibv_devinfo(
        self, rdmadiag_json: Call, run: Run
    ) -> None:
        code, document = rdmadiag_json("capabilities")
        assert code == 0
        ours, theirs = claims(document, "rxe0"), devinfo(run, "rxe0")
        flags = {name.upper() for name in DEVICE_FLAGS if ours[name] is True}
        assert flags == flags_of(theirs)
        assert ours["atomic_cap"] == "hca"
        general = {ODP_WORDS[word] for word in below(theirs, "general_odp_caps:")}
        assert general == {name for name in ("odp", "odp_implicit") if ours[name]}
        for transport in ("rc", "uc", "ud", "xrc"):
            words = below(theirs, f"{transport}_odp_caps:")
            listed = {ODP_WORDS.get(word, word.removeprefix("SUPPORT_").lower()) for word in words}
            # ibv_devinfo of rdma-core 44 does not know these two.
            assert set(ours[f"odp_{transport}"]) - {"flush", "atomic_write"} == listed
        assert "completion_timestamp_mask not supported" in theirs
        assert ours["completion_timestamps"] is False
        assert "core clock not supported" in theirs
        assert ours["hca_core_clock_khz"] == 0

    def test_the_provider_has_just_the_operations_that_its_library_defines(
        self, rdmadiag_json: Call
    ) -> None:
        ours = claims(rdmadiag_json("capabilities", "--device", "rxe0")[1], "rxe0")
        operations = {name: each for name, each in ours.items() if name.startswith("op_")}
        there = {name for name, each in operations.items() if each}
        # providers/rxe/rxe.c of rdma-core 44: rxe_ctx_ops.
        assert {"op_poll_cq", "op_post_send", "op_post_recv", "op_post_srq_recv"} <= there
        assert {"op_alloc_mw", "op_bind_mw", "op_dealloc_mw", "op_create_qp_ex"} <= there
        assert not there & {"op_ibv_create_flow", "op_open_xrcd", "op_create_wq", "op_alloc_dm"}

    def test_a_stack_that_lacks_nothing_is_0_and_one_that_does_is_2(
        self, rdmadiag: Rdmadiag
    ) -> None:
        code, out, err = rdmadiag("capabilities", "--stack", "nvshmem")
        assert (code, err) == (0, "")
        assert out.startswith("rxe0, rxe1: has what nvshmem cannot do without")
        code, out, _ = rdmadiag("capabilities", "--stack", "dpdk")
        assert code == 2
        assert "lacks what dpdk cannot do without: rss_qp_types" in out

    def test_preflight_of_a_stack_finds_nothing_lacking(self, rdmadiag_json: Call) -> None:
        _, document = rdmadiag_json("preflight", "--stack", "nvshmem", "--stack", "ucx")
        verdict = document["verdict"]
        assert "stack-lacks-capability" in verdict["rules_asked"]
        assert "stack-lacks-capability" not in {each["rule"] for each in verdict["findings"]}
        assert "stack-lacks-capability" not in {each["rule"] for each in verdict["skipped"]}

    def test_a_snapshot_says_the_same(
        self, rdmadiag: Rdmadiag, rdmadiag_json: Call, tmp_path: Path
    ) -> None:
        live = rdmadiag_json("capabilities")[1]["devices"]
        target = str(tmp_path / "snapshot")
        assert rdmadiag("snapshot", target)[0] == 0
        assert rdmadiag_json("capabilities", "--from", target)[1]["devices"] == live
        code, document = rdmadiag_json("capabilities", "--peer", target)
        assert (code, document["differences"]) == (0, [])


DEVICE_FLAGS = (
    *("resize_max_wr", "bad_pkey_cntr", "bad_qkey_cntr", "raw_multi", "auto_path_mig"),
    *("change_phy_port", "ud_av_port_enforce", "curr_qp_state_mod", "shutdown_port", "init_type"),
    *("port_active_event", "sys_image_guid", "rc_rnr_nak_gen", "srq_resize", "n_notify_cq"),
    *("mem_window", "ud_ip_csum", "xrc", "mem_mgt_extensions", "mem_window_type_2a"),
    *("mem_window_type_2b", "rc_ip_csum", "raw_ip_csum", "managed_flow_steering"),
)
