"""Every cell of the table of worked examples: what each stack picks with no variable set."""

from dataclasses import replace

import pytest

from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.registry import every
from rdmadiag.gid.stack import pick
from tests.gid.stacks.tables import (
    A1,
    A2,
    A3,
    A4,
    C1,
    C2,
    D1,
    D2,
    FE80,
    FLID,
    FLID_OPENIB,
    IPV6,
    V1,
    V2,
    V2_ONLY,
    B,
    cell,
    picked,
    table,
)

COLUMNS = {"A1": A1, "A2": A2, "A3": A3, "A4": A4, "B": B, "C1": C1, "C2": C2}
E0 = "0 empty"
DROP = "drops_port"

ROWS: dict[str, tuple[int | str, ...]] = {
    "nccl": (3, 3, 0, 5, 0, 3, E0),
    "rccl": (3, 3, 0, 5, 0, 3, E0),
    "rccl@rccl": (3, 3, 0, 5, 0, 3, E0),
    "nccl@2.26.1": (3, 3, 0, 5, 0, 3, E0),
    "nccl@2.21.5": (3, 3, 0, 5, 0, 3, E0),
    "nccl@2.20.5": (0, 0, 0, 0, 0, E0, E0),
    "deepep@main": (3, 3, 0, 5, 0, 3, E0),
    "deepep@legacy": (3, 3, 0, 5, 0, 3, E0),
    "deepep@hybrid-ep": (3, 3, 0, 5, 0, 3, E0),
    "nvshmem": (3, 3, 0, 5, 0, 3, E0),
    "ucx@1.21": (3, 3, 3, 5, 0, DROP, DROP),
    "ucx@1.20": (3, 3, 1, 5, 0, DROP, DROP),
    "ucx@1.13.1": (3, 3, 1, 5, 0, DROP, DROP),
    "perftest@26.04.17": (3, 3, 3, 5, "lid", 3, 3),
    "perftest@4.5": (3, 3, 1, 5, "lid", 3, E0),
    "rdmacm": (3, 3, 3, 5, 0, 3, 3),
    "rc-pingpong": ("fails", "fails", "fails", "fails", "lid", "fails", "fails"),
    "psm3": (3, 3, 1, 5, 0, 3, 3),
    "mooncake@0.3.12": (3, 5, 3, 5, 0, 3, 3),
    "mooncake@0.3.11": (3, 3, 1, 5, 0, "fails", "fails"),
    "mooncake@0.3.9": (3, 3, "fails", 5, 0, 3, "fails"),
    "mooncake@0.3.7": (3, 3, 0, 5, 0, 3, "fails"),
    "mooncake@0.3.0": (3, 3, 0, 5, 0, 3, "fails"),
    "mooncake@0.2.0": (2, 2, 0, 4, 0, 3, "fails"),
    "mooncake-tent": (3, 3, 0, 5, 0, 3, 3),
    "mooncake-ep": (3, 3, "fails", 5, 0, 3, "fails"),
    "libfabric-dgram": (0, 0, 0, 0, 0, E0, E0),
    "openmpi": (0, 0, 0, 0, 0, E0, E0),
    "gordma": (0, 0, 0, 0, 0, E0, E0),
    "nixl-gpunetio": (0, 0, 0, 0, 0, E0, E0),
    "brpc": (5, 5, 3, 5, 0, 3, 3),
    "mori": (3, 3, 3, 5, 0, 3, 3),
    "x-rdma": (2, 2, 1, 4, 0, 3, 3),
    "ds4": (2, 2, "fails", 4, "fails", 3, "fails"),
    "llama-rpc": (3, 3, 3, 5, "fails", 3, 3),
    "monarch": (3, 3, 3, 5, "fails", 3, "fails"),
    "monarch@0.5": (3, 3, 3, 3, "lid", 3, 3),
    "ydb@since-2025-12": (3, 3, 3, 5, "fails", 3, 3),
    "ydb@to-2025-11": (2, 2, 2, 4, "fails", 3, 3),
    "uccl-collective": (3, 3, 0, 5, 0, 3, E0),
    "uccl-ep@with-fallback": (3, 3, 3, 5, 0, 3, E0),
    "uccl-ep@without-fallback": (3, 3, 0, 5, 0, 3, E0),
    "uccl-p2p": (3, 3, 1, 5, 0, 3, 3),
    "gin@gdaki": (3, 3, 0, 5, 0, 3, E0),
    "gin@proxy": (3, 3, 0, 5, 0, 3, E0),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("stack", ROWS)
def test_with_no_variable_set(stack: str, column: str) -> None:
    expected = ROWS[stack][list(COLUMNS).index(column)]
    assert cell(stack, COLUMNS[column]) == expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [(A1, 5), (A2, 5), (A3, 3), (A4, 0), (B, 0), (C1, E0), (C2, E0)],
    ids=list(COLUMNS),
)
def test_nccl_with_ipv6_as_its_family(subject: PortTable, expected: int | str) -> None:
    assert cell("nccl", subject, NCCL_IB_ADDR_FAMILY="AF_INET6") == expected


def test_jaccl_with_ipv4_at_index_1() -> None:
    for version in ("0.31.1", "0.32.0", "0.32.1"):
        found = picked(f"jaccl@{version}", D1)
        assert (found.index, found.advertised_index, found.problem) == (1, 1, None)


def test_jaccl_without_an_ipv4_gid_differs_by_version() -> None:
    oldest, middle, newest = (picked(f"jaccl@{v}", D2) for v in ("0.31.1", "0.32.0", "0.32.1"))
    assert (oldest.index, oldest.advertised_index, oldest.outcome) == (1, 1, Outcome.EMPTY)
    assert oldest.problem is not None
    assert "without a GRH" in oldest.problem
    assert (middle.index, middle.advertised_index) == (1, None)
    assert middle.problem is not None
    assert "never set" in middle.problem
    assert (newest.outcome, newest.index) == (Outcome.FAILS, None)


def test_x_rdma_on_thunderbolt() -> None:
    assert cell("x-rdma", D1) == 1
    assert cell("x-rdma", D2) == "fails"


def test_ds4_on_thunderbolt() -> None:
    assert cell("ds4", D1) == 1
    assert cell("ds4", D2) == "fails"


def test_gdaki_has_the_first_port_of_a_device_alone() -> None:
    second = replace(A1, port=2)
    assert cell("gin@gdaki", second) == "fails"
    assert cell("gin@proxy", second) == cell("nccl", second) == 3


def test_uccl_ep_falls_back_to_v1_where_no_other_row_is_routable() -> None:
    """NCCL stays on row 0, which is link-local."""
    v1_alone = table((0, FE80, V1), (1, FE80, V2), (2, IPV6, V1))
    assert (cell("nccl", v1_alone), cell("uccl-ep@without-fallback", v1_alone)) == (0, 0)
    assert cell("uccl-ep@with-fallback", v1_alone) == 2


def test_monarch_weighs_the_address_in_an_ipv4_row() -> None:
    for address in ("::ffff:169.254.1.1", "::ffff:127.0.0.1", "fec0::1", "::1"):
        assert cell("monarch", table((0, address, V2))) == "fails"
        assert cell("monarch", table((0, address, V2), (1, "fd00::1", V2))) == 1


def test_a_row_whose_lower_half_is_zero_is_not_in_ydbs_table() -> None:
    assert cell("ydb", table((0, "2001:db8::", V2))) == "fails"


def test_stacks_of_linux_are_not_made_for_thunderbolt_nor_jaccl_for_ethernet() -> None:
    assert picked("nccl", D1).outcome is Outcome.UNSUPPORTED
    assert picked("jaccl", A1).outcome is Outcome.UNSUPPORTED


AUTOMATIC = (
    *("nccl", "rccl", "deepep@main", "deepep@hybrid-ep", "nvshmem", "ucx@1.21", "ucx@1.20"),
    *("perftest@26.04.17", "perftest@4.5", "rdmacm", "psm3", "mooncake@0.3.12"),
    *("mooncake@0.3.11", "mooncake@0.3.9", "mooncake-tent", "mooncake-ep", "brpc", "mori"),
    *("x-rdma", "ds4", "llama-rpc", "monarch", "ydb@since-2025-12", "ydb@to-2025-11"),
    *("uccl-collective", "uccl-ep@with-fallback", "uccl-p2p", "gin@gdaki", "gin@proxy"),
)


@pytest.mark.parametrize("stack", AUTOMATIC)
def test_on_a_nic_with_v2_alone_all_that_choose_take_1(stack: str) -> None:
    assert cell(stack, V2_ONLY) == 1


def test_there_a_pinned_3_is_empty() -> None:
    assert cell("nccl", V2_ONLY, NCCL_IB_GID_INDEX="3") == "3 empty"
    assert cell("ucx", V2_ONLY, UCX_IB_GID_INDEX="3") == "drops_port"


def test_a_flid_of_another_oui_is_used_by_nccl_alone() -> None:
    assert (cell("nccl", FLID), cell("ucx@1.21", FLID)) == (1, 0)
    assert (cell("nccl", FLID_OPENIB), cell("ucx@1.21", FLID_OPENIB)) == (1, 1)
    assert cell("nccl@2.21", FLID_OPENIB) == 0
    assert cell("ucx@1.15", FLID_OPENIB) == 0
    assert cell("ucx@1.21", FLID_OPENIB, UCX_IB_FLID_ROUTE="n") == 0


def test_every_answer_names_its_version_and_source_and_says_why() -> None:
    for stack, version in every():
        for subject in (*COLUMNS.values(), D1, D2):
            found = pick(stack, version, subject, {})
            assert found.why
            assert found.source
            assert (found.stack, found.version) == (stack.name, version.name)


def test_what_is_wrong_with_a_row_is_its_problem() -> None:
    assert "RoCE v1" in str(picked("x-rdma", A1).problem)
    assert "link-local" in str(picked("ucx@1.20", A3).problem)
    assert "IPv6" in str(picked("mooncake", A2).problem)
    assert "empty" in str(picked("nccl", C2).problem)
    assert picked("nccl", A1).problem is None
    assert picked("ucx", A1).assumed
