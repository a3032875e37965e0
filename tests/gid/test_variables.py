"""The table of variables: each once, each that is read has a row, any text is a value or none."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.gid.device_lists import LIMIT, Choice
from rdmadiag.gid.gid_index import checked_index, lenient_index
from rdmadiag.gid.registry import stacks
from rdmadiag.gid.variables import (
    BY_NAME,
    DEVICE_LISTS,
    GID_INDEXES,
    REPORTED,
    VARIABLES,
    Variable,
    choice,
    said_of,
    set_indexes,
    variable,
)
from tests.gid.stacks.tables import A1, C2, D1, FLID, B

PORTS = (("mlx5_0", 1), ("mlx5_1", 1))


def test_each_variable_stands_once() -> None:
    names = [row.name.upper() for row in VARIABLES]
    assert len(set(names)) == len(names)


def test_a_variable_of_which_the_value_is_read_is_in_reports() -> None:
    for row in (*DEVICE_LISTS, *GID_INDEXES, BY_NAME["NCCL_IB_PKEY"]):
        assert row.name in REPORTED, row.name


def test_the_variable_that_chooses_ports_names_devices() -> None:
    for row in VARIABLES:
        assert row.ports is None or BY_NAME[row.ports].devices, row.name


class Read(Mapping[str, str]):
    """Variables with one value each, and which of them a rule looked at."""

    def __init__(self, value: str | None) -> None:
        self.value = value
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        if self.value is None:
            raise KeyError(name)
        return self.value

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a rule reads its variables by name")

    def __len__(self) -> int:
        return 0 if self.value is None else 1


@pytest.mark.parametrize("name", stacks())
def test_every_variable_that_a_rule_reads_is_listed_and_has_a_row(name: str) -> None:
    stack = stacks()[name]
    for version in stack.versions:
        for table in (A1, B, C2, D1, FLID):
            for value in (None, "", "1", "auto", "-1", "AF_INET6", "192.0.2.0/24"):
                read = Read(value)
                version.rule(table, read)
                assert read.names <= set(stack.variables), version.name
    assert stack.pin is None or stack.pin.variable in stack.variables
    for each in stack.variables:
        assert each in BY_NAME
        assert each in REPORTED
    if stack.pin:
        assert BY_NAME[stack.pin.variable] in GID_INDEXES


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("NCCL_IB_GID_INDEX", "NCCL_IB_GID_INDEX"),
        ("$nccl_ib_hca", "NCCL_IB_HCA"),
        ("OMPI_MCA_BTL_OPENIB_GID_INDEX", "OMPI_MCA_btl_openib_gid_index"),
        ("FI_VERBS_TX_SIZE", "FI_VERBS_*"),
        ("FI_LOG_LEVEL", "FI_*"),
        ("MLX4_SINGLE_THREADED", "MLX4_*"),
    ],
)
def test_a_name_is_its_own_row_or_that_of_its_nearest_family(name: str, row: str) -> None:
    found = variable(name)
    assert found is not None
    assert found.name == row
    assert variable("HOME") is None


@given(st.sampled_from(DEVICE_LISTS), st.text(max_size=80))
def test_any_value_is_a_choice_or_none(row: Variable, value: str) -> None:
    found = choice({row.name: value}, row.name)
    if found is not None:
        assert isinstance(found, Choice)
        assert 0 < len(found.parts) <= LIMIT
        assert set(found.unmatched(PORTS, ("eth0",))) <= set(found.parts)
        assert isinstance(found.has("mlx5_0", 1), bool)


@given(st.sampled_from(VARIABLES), st.text(max_size=40))
def test_any_value_means_something_or_nothing(row: Variable, value: str) -> None:
    assert said_of(row, value) != ""


@given(st.text(max_size=40))
def test_any_index_is_a_row_or_none(value: str) -> None:
    found = lenient_index(value)
    assert found is None or 0 <= found < 10**6
    assert checked_index(value) in (None, found)


@pytest.mark.parametrize(
    ("name", "value", "index"),
    [
        ("NCCL_IB_GID_INDEX", "0x10", 16),
        ("NCCL_IB_GID_INDEX", "auto", 0),
        ("NCCL_IB_GID_INDEX", "-1", None),
        ("UCX_IB_GID_INDEX", "auto", None),
        ("UCX_IB_GID_INDEX", "3", 3),
        ("MC_GID_INDEX", "", None),
    ],
)
def test_a_row_is_set_as_the_program_reads_it(name: str, value: str, index: int | None) -> None:
    expected = [] if index is None else [(BY_NAME[name], index)]
    assert list(set_indexes({name: value})) == expected


@given(st.lists(st.sampled_from(["mlx5_0", "mlx5_1", "mlx5_9"]), min_size=1, max_size=5))
def test_a_list_and_its_exclusion_divide_the_ports(names: list[str]) -> None:
    value = ",".join(names)
    own = "NCCL_IB_HCA"
    chosen, others = (choice({own: sign + value}, own) for sign in ("", "^"))
    assert chosen
    assert others
    assert all(chosen.has(*port) != others.has(*port) for port in PORTS)


def test_a_variable_that_is_not_set_chooses_nothing() -> None:
    assert choice({}, "NCCL_IB_HCA") is None
    assert choice({"NCCL_IB_HCA": "mlx5"}, None) is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("RDMAV_FORK_SAFE", "0", "as if it were not set"),
        ("RDMAV_FORK_SAFE", "no", "only 0 is off"),
        ("RDMAV_DRIVERS", "mlx5:/opt/lib/libmlx5", None),
        ("RDMAV_DRIVERS", "rxe;libmlx5-rdmav34.so", "a file's name"),
        ("IBV_DRIVERS", "libmlx5", "a file's name"),
        ("SYSFS_PATH", "/sys/", None),
        ("SYSFS_PATH", "/mnt", "does not look in /sys"),
        ("VERBS_LOG_LEVEL", "0", "nothing"),
        ("VERBS_LOG_LEVEL", "2", "warnings, and all before"),
        ("VERBS_LOG_LEVEL", "99", "debugging, and all before"),
        ("VERBS_LOG_LEVEL", "high", "no number"),
        ("MLX5_CQE_SIZE", "128", None),
        ("MLX5_CQE_SIZE", "96", "EINVAL"),
        ("MLX5_TOTAL_UUARS", "512", None),
        ("MLX5_TOTAL_UUARS", "513", "does not open"),
        ("MLX5_STALL_CQ_POLL", "0", None),
        ("MLX_QP_ALLOC_TYPE", "prefer_huge", None),
        ("MLX_QP_ALLOC_TYPE", "LARGE", "the default holds"),
    ],
)
def test_what_a_value_of_rdma_core_means(name: str, value: str, said: str | None) -> None:
    found = said_of(BY_NAME[name], value)
    assert found is None if said is None else found is not None and said in found
