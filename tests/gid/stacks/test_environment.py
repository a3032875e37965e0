"""Each stack's variables: pinned, out of range, an empty row, another family, no number."""

import pytest

from rdmadiag.gid.netdev import NetDevState
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.registry import stacks
from tests.gid.stacks.tables import (
    A1,
    A2,
    A3,
    C1,
    D1,
    FE80,
    IPV4,
    IPV6,
    NONE,
    V1,
    V2,
    B,
    cell,
    picked,
    table,
)

DROP = "drops_port"


# stack, variable: on A1 pinned to 5 · an empty row · beyond the table · another family and type ·
# a word · a negative number · empty text
@pytest.mark.parametrize(
    ("stack", "variable", "cells"),
    [
        ("nccl", "NCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 3)),
        ("nccl@2.20", "NCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, "-1 outside", 0)),
        ("rccl", "NCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 3)),
        ("deepep@main", "NCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 3)),
        ("deepep@legacy", "NVSHMEM_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 0)),
        ("deepep@hybrid-ep", "NCCL_IB_GID_INDEX", (3, 3, 3, 3, 3, 3, 3)),
        ("nvshmem", "NVSHMEM_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 0)),
        ("ucx", "UCX_IB_GID_INDEX", (5, DROP, DROP, 1, "fails", "fails", "fails")),
        ("ucx@1.13", "UCX_IB_GID_INDEX", (5, DROP, DROP, 1, "fails", "fails", "fails")),
        ("mooncake", "MC_GID_INDEX", (5, "fails", "fails", 1, 0, 3, 0)),
        ("mooncake", "NCCL_IB_GID_INDEX", (5, "fails", "fails", 1, 0, 3, 0)),
        ("mooncake@0.3.11", "MC_GID_INDEX", (5, "fails", "fails", 1, 0, 3, 0)),
        ("mooncake@0.3.9", "MC_GID_INDEX", (5, "fails", "fails", 1, 0, 3, 0)),
        ("mooncake@0.3.7", "MC_GID_INDEX", (5, "fails", "fails", 1, 3, 3, 3)),
        ("mooncake@0.2", "MC_GID_INDEX", (5, "fails", "fails", 1, 2, 2, 2)),
        ("mooncake-tent", "MC_GID_INDEX", (5, "fails", "fails", 1, 0, 3, 0)),
        ("libfabric-dgram", "FI_VERBS_GID_IDX", (5, "9 empty", "99 outside", 1, 0, "fails", 0)),
        (
            "openmpi",
            "OMPI_MCA_btl_openib_gid_index",
            (5, "9 empty", "fails", 1, "fails", "fails", "fails"),
        ),
        ("mori", "MORI_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 0)),
        ("llama-rpc", "GGML_RDMA_GID", (5, "9 empty", "99 outside", 1, 0, 3, 0)),
        ("uccl-ep@with-fallback", "UCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 0)),
        (
            "uccl-p2p",
            "UCCL_P2P_RDMA_GID_INDEX",
            (5, "9 empty", "99 outside", 1, 0, "-1 outside", 0),
        ),
        ("uccl-collective", "NCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 3)),
        ("gin@gdaki", "NCCL_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, 3, 3)),
        ("mscclpp", "MSCCLPP_IB_GID_INDEX", (5, "9 empty", "99 outside", 1, 0, "-1 outside", 0)),
    ],
)
def test_a_pin(stack: str, variable: str, cells: tuple[int | str, ...]) -> None:
    values = ("5", "9", "99", "1", "three", "-1", "")
    assert tuple(cell(stack, A1, **{variable: value}) for value in values) == cells


def test_numbers_are_read_as_c_reads_them() -> None:
    assert cell("nccl", A1, NCCL_IB_GID_INDEX="0x5") == 5
    assert cell("nccl", A1, NCCL_IB_GID_INDEX="010") == "8 empty"
    assert cell("nccl", A1, NCCL_IB_GID_INDEX="auto") == 0
    assert cell("nccl", A1, NCCL_IB_GID_INDEX="9" * 30) == 3
    assert cell("mooncake", A1, MC_GID_INDEX="0x5") == 0
    assert "no number" in picked("nccl", A1, NCCL_IB_GID_INDEX="auto").why
    assert cell("ucx", A1, UCX_IB_GID_INDEX="auto") == 3


def test_a_pick_names_the_variable_that_set_its_row() -> None:
    found = picked("nccl", A1, NCCL_IB_GID_INDEX="1")
    assert (found.pinned_by, found.why) == ("NCCL_IB_GID_INDEX", "NCCL_IB_GID_INDEX=1")
    assert picked("mooncake", A1, NCCL_IB_GID_INDEX="1").pinned_by == "NCCL_IB_GID_INDEX"
    assert picked("nccl", A1).pinned_by is None


def test_mooncake_reads_nccls_only_where_its_own_is_not_there() -> None:
    both = {"MC_GID_INDEX": "5", "NCCL_IB_GID_INDEX": "1"}
    assert cell("mooncake", A1, **both) == 5
    assert cell("mooncake-tent", A1, **both) == 1, "the later one wins"
    assert cell("mooncake", A1, MC_GID_INDEX="300") == 3
    assert cell("mooncake-ep", A1, **both) == 3


def test_a_row_without_a_netdev_failed_two_releases_of_mooncake() -> None:
    bare = table((0, FE80, V2), (1, IPV4, V2), netdev=NONE)
    assert cell("mooncake@0.3.9", bare, MC_GID_INDEX="1") == "fails"
    assert cell("mooncake@0.3.10", bare, MC_GID_INDEX="1") == 1
    assert cell("mooncake@0.3.9", bare) == 1
    assert cell("mooncake@0.3.10", bare) == 1
    assert cell("mooncake-tent", bare) == 1


def test_an_overlay_is_degraded_by_its_name() -> None:
    for netdev in ("docker0", "cni0", "flannel.1", "calico7", "vxlan9", "tunl0"):
        overlay = table((0, IPV4, V2), netdev=netdev)
        assert "overlay" in picked("mooncake", overlay).why
        assert "overlay" in picked("mooncake-tent", overlay).why
    assert "routable" in picked("mooncake", table((0, IPV4, V2), netdev="eth0")).why


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("172.32.0.1", False),
        ("100.64.0.1", True),
        ("100.128.0.1", False),
        ("192.168.1.5", False),
        ("198.51.100.1", False),
    ],
)
def test_which_ipv4_addresses_mooncake_calls_private(address: str, private: bool) -> None:
    subject = table((0, f"::ffff:{address}", V2), (1, IPV6, V2))
    assert cell("mooncake", subject) == (1 if private else 0)


# --- NCCL's other variables ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("AF_INET6", 5),
        ("AF_INET", 3),
        ("", 3),
        ("6", 3),
        ("af_inet6", 3),
    ],
)
def test_the_family(value: str, expected: int) -> None:
    assert cell("nccl", A1, NCCL_IB_ADDR_FAMILY=value) == expected
    assert cell("nvshmem", A1, NVSHMEM_IB_ADDR_FAMILY=value) == expected
    assert cell("nvshmem", A1, NCCL_IB_ADDR_FAMILY=value) == 3, "it does not read NCCL's"


TWO = table(
    (0, FE80, V1),
    (1, FE80, V2),
    (2, "::ffff:192.168.1.5", V1),
    (3, "::ffff:192.168.1.5", V2),
    (4, "::ffff:192.168.9.5", V1),
    (5, "::ffff:192.168.9.5", V2),
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("192.168.9.0/24", 5),
        ("192.168.0.0/16", 3),
        ("0.0.0.0/0", 3),
        ("192.168.9.5/32", 5),
        ("198.51.100.0/24", 0),
        ("192.168.9.0", 3),  # no slash: no filter
        ("192.168.9.0/33", 3),  # a mask that is too long: no filter
        ("nonsense/24", 3),
        ("2001:db8::/32", 3),  # of the other family: no filter
        ("192.168.9.0/x", 3),  # no number: 0 bits
        ("192.168.9.0/-1", 0),  # fits nothing
        ("", 3),
    ],
)
def test_the_range(value: str, expected: int) -> None:
    assert cell("nccl", TWO, NCCL_IB_ADDR_RANGE=value) == expected
    if "/" in value:
        assert cell("nvshmem", TWO, NVSHMEM_IB_ADDR_RANGE=value) == expected


def test_the_range_of_ipv6() -> None:
    own = {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
    assert cell("nccl", A1, NCCL_IB_ADDR_RANGE="2001:db8::/32", **own) == 5
    assert cell("nccl", A1, NCCL_IB_ADDR_RANGE="2001:db9::/32", **own) == 0
    assert cell("nccl", A1, NCCL_IB_ADDR_RANGE="2001:db8::/129", **own) == 5


def test_a_range_without_a_slash_crashes_nvshmem() -> None:
    assert cell("nvshmem", A1, NVSHMEM_IB_ADDR_RANGE="192.168.1.0") == "fails"


def test_the_roce_version() -> None:
    assert cell("nccl", A1, NCCL_IB_ROCE_VERSION_NUM="1") == 2
    assert cell("nccl", A1, NCCL_IB_ROCE_VERSION_NUM="3") == 2
    assert cell("nvshmem", A1, NVSHMEM_IB_ROCE_VERSION_NUM="1") == 2


def test_an_empty_row_whose_type_has_to_be_read_was_fatal() -> None:
    subject = table((3, IPV6, V2))
    own = {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
    assert cell("nccl@2.26.2", subject, **own) == 3
    assert cell("nccl@2.26.1", subject, **own) == "fails"
    assert cell("nccl@2.21", subject, **own) == "fails"
    assert cell("rccl@rccl", subject, **own) == "fails"


def test_an_empty_row_counts_as_ipv6_for_nccl() -> None:
    subject = table((0, IPV4, V2), (3, FE80, V2))
    found = picked("nccl", subject, NCCL_IB_ADDR_FAMILY="AF_INET6")
    assert (found.index, found.outcome) == (1, Outcome.EMPTY)
    assert "counts as IPv6" in found.why


def test_the_row_of_the_flid() -> None:
    assert cell("nccl", B, NCCL_IB_ROUTABLE_FLID_GID_INDEX="-1") == "fails"
    assert cell("nccl", B, NCCL_IB_ROUTABLE_FLID_GID_INDEX="99") == 0
    assert cell("nccl", B, NCCL_IB_GID_INDEX="5") == 0, "not read on InfiniBand"
    assert cell("nccl@2.20", B, NCCL_IB_GID_INDEX="5") == 5


def test_nvshmem_uses_the_gid_where_the_port_has_no_lid() -> None:
    from rdmadiag.facts.ib import GidType, LinkLayer

    rows = ((0, "fe80::c42:a103:0:1", GidType.IB),)
    without = table(*rows, layer=LinkLayer.INFINIBAND, lid=0)
    assert picked("nvshmem", without).outcome is Outcome.ENTRY
    assert picked("nvshmem", B).outcome is Outcome.LID


# --- UCX -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("all", 3),
        ("192.168.9.0/24", 5),
        ("^192.168.1.0/24", 5),
        ("198.51.100.0/24", "fails"),
        ("192.168.9.0", "fails"),
        ("nonsense/24", "fails"),
    ],
)
def test_ucx_subnets(value: str, expected: int | str) -> None:
    assert cell("ucx", TWO, UCX_IB_ROCE_SUBNETS=value) == expected
    assert cell("ucx@1.13", TWO, UCX_IB_ROCE_SUBNETS=value) == 3, "1.13 does not know it"


def test_ucx_subnets_and_a_pin_exclude_each_other() -> None:
    both = {"UCX_IB_GID_INDEX": "3", "UCX_IB_ROCE_SUBNETS": "192.168.1.0/24"}
    assert cell("ucx", A1, **both) == "fails"
    assert cell("ucx@1.13", A1, **both) == 3


def test_a_pin_opens_ucxs_gate() -> None:
    assert cell("ucx", C1) == DROP
    assert cell("ucx", C1, UCX_IB_GID_INDEX="3") == 3


# --- the others ------------------------------------------------------------------------------


def test_openib_accepts_an_index_that_is_one_too_high() -> None:
    subject = table(*[(0, FE80, V2)], length=4)
    variable = "OMPI_MCA_btl_openib_gid_index"
    assert cell("openmpi", subject, **{variable: "4"}) == "4 outside"
    assert cell("openmpi", subject, **{variable: "5"}) == "fails"


@pytest.mark.parametrize(
    ("form", "expected"),
    [("0", 3), ("4", 3), ("6", 1), ("3", DROP), ("5", "fails"), ("x", 3)],
)
def test_psm3s_address_format(form: str, expected: int | str) -> None:
    assert cell("psm3", A1, PSM3_ADDR_FMT=form) == expected


def test_psm3_on_infiniband_and_with_several_addresses() -> None:
    assert cell("psm3", B, PSM3_ADDR_FMT="4") == DROP
    assert cell("psm3", B, PSM3_ADDR_FMT="3") == 0
    assert cell("psm3", TWO, PSM3_ADDR_PER_NIC="2") == 3
    assert cell("psm3", A1, PSM3_ADDR_PER_NIC="2") == 1, "two of IPv6"
    assert cell("psm3", TWO, PSM3_ADDR_PER_NIC="3") == DROP
    assert picked("psm3", A1, PSM3_SUBNETS="192*").assumed


def test_psm3_wants_an_address_that_this_host_has() -> None:
    assert cell("psm3", A3) == 1
    lacking = table((0, FE80, V1), (1, FE80, V2), (3, IPV6, V2), unassigned=(0, 1))
    assert cell("psm3", lacking) == 3
    absent = table((3, IPV4, V2), netdevs={"eth0": NetDevState.ABSENT})
    assert cell("psm3", absent) == DROP
    assert cell("rdmacm", absent) == "fails"
    assert "not in this network namespace" in str(picked("nccl", absent).problem)


def test_a_netdev_that_is_down_is_a_problem() -> None:
    down = table((3, IPV4, V2), netdevs={"eth0": NetDevState.DOWN})
    assert picked("nccl", down).problem == "its netdev eth0 is down"


def test_datagrams_of_libfabric_go_through_port_1_alone() -> None:
    second = table((0, IPV4, V2), port=2)
    assert picked("libfabric-dgram", second).outcome is Outcome.NOT_USED
    assert picked("jaccl", D1).outcome is Outcome.ENTRY


def test_the_name_of_libfabrics_fabric_follows_the_variable() -> None:
    assert "IB-0xfe80000000000000" in picked("libfabric-msg", A1).why
    assert "IB-0x20010db8" in picked("libfabric-msg", A1, FI_VERBS_GID_IDX="5").why
    assert cell("libfabric-msg", A1, FI_VERBS_GID_IDX="300") == "fails"
    assert cell("libfabric-msg", A1, FI_VERBS_GID_IDX="5") == 3


def test_rdma_cm_takes_the_type_of_the_port_and_rsocket_the_first_bytes() -> None:
    assert (cell("rdmacm", A1), cell("rsocket-udp", A1)) == (3, 2)
    v1_only = table((0, FE80, V1), (1, IPV4, V1))
    assert cell("rdmacm", v1_only) == 1
    far = table((20, IPV4, V2), length=32)
    assert (cell("rdmacm", far), cell("rsocket-udp", far)) == (20, "0 empty")
    no_v2 = table((0, FE80, V2), (1, IPV4, V1))
    assert cell("rdmacm", no_v2) == "fails", "RoCE v2 is the port's default"


def test_an_index_above_255_is_cut_by_the_library() -> None:
    subject = table((0, FE80, V2), (300, IPV4, V2), length=512)
    assert "8 bits: row 44" in str(picked("nccl", subject).problem)
    assert "becomes 44" in str(picked("nccl", A1, NCCL_IB_GID_INDEX="300").problem)


# --- all stacks ------------------------------------------------------------------------------


def test_a_stack_says_what_sets_its_index() -> None:
    for stack in stacks().values():
        assert (stack.pin is None) != (stack.option is None), stack.name


@pytest.mark.parametrize("subject", [A1, A2, A3, C1], ids=["A1", "A2", "A3", "C1"])
def test_nccl_pinned_to_the_route_agrees_with_it(subject: PortTable) -> None:
    assert subject.route
    found = picked("nccl", subject, NCCL_IB_GID_INDEX=str(subject.route.index))
    assert found.agrees is True
    assert found.problem is None
