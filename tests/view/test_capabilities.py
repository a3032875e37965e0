"""What a device says, in words; expected values from infiniband/verbs.h and ibv_devinfo -v."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.transcript import TranscribedDevice, TranscribedPort, transcript
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.capability import DeviceCap, OdpCap, RawPacketCap, words
from rdmadiag.facts.exercise import Cell, CellState, Operation, Via
from rdmadiag.facts.verbs import Operation as ProviderOperation
from rdmadiag.facts.verbs import VerbsDevice, VerbsFacts
from rdmadiag.sources.verbs import parse_verbs
from rdmadiag.view.capabilities import (
    Capability,
    device_capabilities,
    differences,
    for_stack,
    has,
    lacking,
    of_library,
    required,
    unanswered,
)
from rdmadiag.view.capability_needs import NEEDS, STACKS
from rdmadiag.view.proven import with_proof

CONNECTX6 = {
    "raw_packet_caps": 0xF,
    "device_cap_flags_ex": 0x15ED721C36,
    "odp_caps.general_caps": 3,
    "odp_caps.rc_odp_caps": 0x2F,
    "odp_caps.uc_odp_caps": 0,
    "odp_caps.ud_odp_caps": 1,
    "xrc_odp_caps": 0x2D,
    "tso_caps.max_tso": 262144,
    "tso_caps.supported_qpts": 1 << 8,
    "rss_caps.supported_qpts": 1 << 8,
    "rss_caps.rx_hash_fields_mask": 0x800000FF,
    "rss_caps.rx_hash_function": 1,
    "completion_timestamp_mask": 0x7FFFFFFFFFFFFFFF,
    "max_dm_size": 131072,
}
"""A ConnectX-6 Dx with firmware 22.36, as its ibv_devinfo -v prints them."""


def library(**limits: int) -> VerbsFacts:
    device = TranscribedDevice("mlx5_0", (TranscribedPort(),), limits=limits)
    found = parse_verbs(transcript("linux", "libibverbs.so.1", [device], table=True))
    assert isinstance(found, VerbsFacts)
    return found


def with_extended(numbers: dict[str, int] | Missing, **limits: int) -> VerbsFacts:
    found = library(**limits)
    return replace(found, devices=(replace(found.devices[0], extended=numbers),))


def rows(verbs: VerbsFacts) -> dict[str, Capability]:
    return {row.name: row for row in device_capabilities(verbs, "mlx5_0").capabilities}


def device(verbs: VerbsFacts) -> VerbsDevice:
    return verbs.devices[0]


@pytest.fixture(scope="module")
def found() -> dict[str, Capability]:
    return rows(with_extended(CONNECTX6, device_cap_flags=0xED721C36, atomic_cap=1))


class TestConnectX6:
    def test_its_flags(self, found: dict[str, Capability]) -> None:
        flags = {flag for flag in DeviceCap if found[flag].claimed is True}
        assert flags == {
            *(DeviceCap.BAD_PKEY_CNTR, DeviceCap.BAD_QKEY_CNTR, DeviceCap.AUTO_PATH_MIG),
            *(DeviceCap.CHANGE_PHY_PORT, DeviceCap.PORT_ACTIVE_EVENT, DeviceCap.SYS_IMAGE_GUID),
            *(DeviceCap.RC_RNR_NAK_GEN, DeviceCap.MEM_WINDOW, DeviceCap.XRC),
            *(DeviceCap.MEM_MGT_EXTENSIONS, DeviceCap.MEM_WINDOW_TYPE_2B, DeviceCap.RAW_IP_CSUM),
            *(DeviceCap.MANAGED_FLOW_STEERING, DeviceCap.RAW_SCATTER_FCS),
            DeviceCap.PCI_WRITE_END_PADDING,
        }

    def test_its_atomics_and_paging(self, found: dict[str, Capability]) -> None:
        assert found["atomic_cap"].claimed == "hca"
        assert (found["odp"].claimed, found["odp_implicit"].claimed) == (True, True)
        assert found["odp_rc"].claimed == ("send", "recv", "write", "read", "srq_recv")
        assert found["odp_uc"].claimed == ()
        assert found["odp_uc"].is_there is False
        assert found["odp_ud"].claimed == ("send",)
        assert found["odp_xrc"].claimed == ("send", "write", "read", "srq_recv")

    def test_its_packets(self, found: dict[str, Capability]) -> None:
        assert all(found[f"raw_packet_{cap}"].claimed is True for cap in RawPacketCap)
        assert found["tso_qp_types"].claimed == ("raw_packet",)
        assert found["rss_hash_fields"].claimed == (
            *("src_ipv4", "dst_ipv4", "src_ipv6", "dst_ipv6", "src_port_tcp", "dst_port_tcp"),
            *("src_port_udp", "dst_port_udp", "inner"),
        )
        assert found["completion_timestamps"].claimed is True


def test_a_flag_of_the_high_word_is_not_known_without_the_extended_query() -> None:
    absent = Missing(Why.UNSUPPORTED, "ibv_query_device_ex: not in this provider")
    found = rows(with_extended(absent, device_cap_flags=1 << 20))
    assert found[DeviceCap.XRC].claimed is True
    assert found[DeviceCap.RAW_SCATTER_FCS].claimed == absent
    assert found[DeviceCap.RAW_SCATTER_FCS].is_there is None


@pytest.mark.parametrize(
    ("number", "claimed", "is_there"),
    [(0, "none", False), (1, "hca", True), (2, "glob", True)],
    ids=["none", "of the device", "of everyone"],
)
def test_atomics(number: int, claimed: str, is_there: bool) -> None:
    row = rows(library(atomic_cap=number))["atomic_cap"]
    assert (row.claimed, row.is_there) == (claimed, is_there)


def test_a_number_that_is_no_atomic_capability_is_not_known() -> None:
    assert rows(library(atomic_cap=7))["atomic_cap"].is_there is None


def test_has_is_hascapability() -> None:
    verbs = with_extended(CONNECTX6, device_cap_flags=1 << 20)
    assert has(device(verbs), DeviceCap.XRC) is True
    assert has(device(verbs), DeviceCap.MEM_WINDOW_TYPE_2A) is False
    assert has(device(verbs), RawPacketCap.DELAY_DROP) is True
    assert isinstance(has(device(library()), RawPacketCap.DELAY_DROP), Missing)


def test_an_operation_is_there_where_the_provider_has_it() -> None:
    found = library()
    listed = (
        ProviderOperation("alloc_mw", "libmlx5-rdmav34.so"),
        ProviderOperation("alloc_dm", None),
    )
    found = replace(found, devices=(replace(found.devices[0], operations=listed),))
    assert (rows(found)["op_alloc_mw"].claimed, rows(found)["op_alloc_dm"].claimed) == (True, False)
    assert rows(found)["op_alloc_mw"].source == "libmlx5-rdmav34.so"


def test_a_stack_gets_what_it_needs_and_what_is_lacking_is_named() -> None:
    (whole,) = of_library(library(atomic_cap=0))
    assert [row.name for row in lacking(for_stack(whole, "nvshmem"), "nvshmem")] == ["atomic_cap"]
    assert lacking(for_stack(whole, "openmpi"), "openmpi") == []  # XRC is used, not required
    (whole,) = of_library(library(atomic_cap=1))
    assert lacking(for_stack(whole, "nvshmem"), "nvshmem") == []


def test_what_is_not_known_is_not_lacking() -> None:
    (whole,) = of_library(library())
    dpdk = for_stack(whole, "dpdk")
    assert [row.name for row in required(dpdk, "dpdk", there=None)] == ["rss_qp_types"]
    assert lacking(dpdk, "dpdk") == []


def test_devices_are_compared_by_name() -> None:
    here, there = of_library(library(max_qp=7)), of_library(library(max_qp=8))
    (found,) = differences(here, there)
    assert (found.device, found.capability, found.here, found.there) == ("mlx5_0", "max_qp", 7, 8)
    (found,) = differences(here, [])
    assert (found.capability, found.here, found.there) == ("device", True, None)
    assert differences(here, here) == []


def test_a_device_that_did_not_answer_says_why() -> None:
    late = Missing(Why.TIMEOUT, "verbs")
    assert unanswered(late, "mlx5_0") == late
    absent = unanswered(library(), "mlx5_9")
    assert absent is not None
    assert absent.why is Why.ABSENT
    assert unanswered(library(), "mlx5_0") is None


@given(bits=st.integers(0, 2**64 - 1))
def test_every_bit_has_a_word(bits: int) -> None:
    found = words(bits, OdpCap)
    assert len(found) == bits.bit_count()
    assert len(set(found)) == len(found)


def test_needs_name_rows_that_there_are() -> None:
    names = rows(with_extended(CONNECTX6)).keys()
    assert {each.capability for each in NEEDS} <= names
    assert "nvshmem" in STACKS


def test_a_real_connectx6_prints_the_flags_that_are_named_here(realworld: Path) -> None:
    text = (realworld / "cmd/ibv_devinfo_v_cx6dx_gid_types.txt").read_text()
    number = int(re.search(r"device_cap_flags:\s+(0x\w+)", text)[1], 16)  # type: ignore[index]
    printed = text.partition("device_cap_flags:")[2].partition("max_sge:")[0].split()[1:]
    known = [word for word in words(number, DeviceCap) if not word.startswith("bit_")]
    assert known == [word.lower() for word in printed if word.isupper()]


@pytest.mark.parametrize(
    ("states", "proven"),
    [
        ([CellState.VERIFIED, CellState.VERIFIED], True),
        ([CellState.VERIFIED, CellState.FAILED], False),
        ([CellState.REFUSED, CellState.NOT_TRIED], False),
        ([CellState.NOT_TRIED, CellState.NOT_CLAIMED], None),
    ],
    ids=["both verified", "one failed", "one refused", "none tried"],
)
def test_what_exercise_proved(states: list[CellState], proven: bool | None) -> None:
    (device,) = of_library(library(atomic_cap=1))
    operations = (Operation.CMP_SWAP, Operation.FETCH_ADD)
    cells = [
        Cell(operation, "rc", Via.POLL, state)
        for operation, state in zip(operations, states, strict=True)
    ]
    found = {row.name: row.proven for row in with_proof(device, cells).capabilities}
    assert found["atomic_cap"] is proven
    assert found["max_srq"] is None


def test_a_cell_of_xrc_says_nothing_of_what_others_do_without_it() -> None:
    (device,) = of_library(library(atomic_cap=1, device_cap_flags=DeviceCap.XRC.number))
    cells = [Cell(Operation.CMP_SWAP, "xrc", Via.SRQ, CellState.REFUSED)]
    found = {row.name: row.proven for row in with_proof(device, cells).capabilities}
    assert found["xrc"] is False
    assert (found["atomic_cap"], found["max_srq"]) == (None, None)


def test_a_claim_that_the_kernel_refuses_is_not_proven() -> None:
    """Soft RoCE sets IBV_DEVICE_AUTO_PATH_MIG, and the kernel bans it on RoCE."""
    flags = DeviceCap.AUTO_PATH_MIG.number | DeviceCap.MEM_WINDOW.number
    (device,) = of_library(library(device_cap_flags=flags))
    cells = [
        Cell(Operation.ALT_PATH, "rc", Via.POLL, CellState.REFUSED),
        Cell(Operation.MW_TYPE_1, "rc", Via.POLL, CellState.VERIFIED),
    ]
    found = {row.name: row.proven for row in with_proof(device, cells).capabilities}
    assert (found["auto_path_mig"], found["mem_window"]) == (False, True)
