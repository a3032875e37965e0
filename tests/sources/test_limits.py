"""Limits of a large fleet: the kernel's files, damaged ones, and both versions of cgroups."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.limits import Limits
from lab.samples import roce_host
from rdmadiag.facts import Limit, Missing, Why
from rdmadiag.facts.limits import (
    CgroupRdma,
    CgroupRoom,
    CommittedMemory,
    HostLimits,
    NeighbourTable,
)
from rdmadiag.sources.limits import (
    parse_address_space,
    parse_cgroups,
    parse_committed,
    parse_cpu_time,
    parse_data_size,
    parse_most,
    parse_neighbour_statistics,
    parse_open_files,
    parse_port_range,
    parse_quota,
    parse_rdma_events,
    parse_rdma_rows,
    read_limits,
)

# seq_printf of neigh_stat_seq_show in net/core/neighbour.c: a header, a row a CPU, hexadecimal
STATISTICS = b"""entries  allocs   destroys hash_grows table_fulls
0000001f 00000010 00000000 00000000   00000001
0000001f 00000000 00000000 00000000   0000000a
"""
# Documentation/admin-guide/cgroup-v2.rst
RDMA_MAX = "mlx4_0 hca_handle=2 hca_object=2000\nocrdma1 hca_handle=3 hca_object=max\n"


def read(limits: Limits | None = None) -> HostLimits:
    return read_limits(roce_host().change(limits=limits or Limits()).host(), None)


def test_entries_are_the_tables_and_overflows_are_those_of_all_cpus() -> None:
    assert parse_neighbour_statistics(STATISTICS) == (31, 11)


def test_an_older_kernel_counts_no_overflows() -> None:
    found = parse_neighbour_statistics(b"entries  allocs\n00000002 00000003\n")
    assert isinstance(found, tuple)
    assert found[0] == 2
    assert isinstance(found[1], Missing)
    assert found[1].why is Why.UNSUPPORTED


@pytest.mark.parametrize("raw", [b"", b"allocs\n00000001\n", b"entries\n", b"entries\nfish\n"])
def test_other_statistics_are_malformed(raw: bytes) -> None:
    found = parse_neighbour_statistics(raw)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("1024                 1048576", Limit(1024, 1048576)),
        ("unlimited            unlimited", Limit("unlimited", "unlimited")),
    ],
)
def test_the_limit_on_open_files(row: str, expected: Limit) -> None:
    raw = f"Limit Soft Hard Units\nMax open files            {row} files     \n"
    assert parse_open_files(raw.encode()) == expected
    raw = (
        f"Max cpu time              {row} seconds   \nMax address space         {row} bytes     \n"
    )
    assert parse_cpu_time(raw.encode()) == parse_address_space(raw.encode()) == expected


def test_a_process_has_a_cgroup_in_each_hierarchy() -> None:
    raw = b"11:rdma:/job7\n4:cpu,cpuacct:/system.slice\n1:name=systemd:/\n0::/init.scope\n"
    assert parse_cgroups(raw) == {
        "rdma": "/job7",
        "cpu": "/system.slice",
        "cpuacct": "/system.slice",
        "name=systemd": "/",
        "": "/init.scope",
    }


def test_without_a_mounted_hierarchy_there_is_no_cgroup() -> None:
    assert parse_cgroups(b"") == {}
    assert isinstance(parse_cgroups(b"fish\n"), Missing)


def test_max_is_no_limit() -> None:
    assert parse_rdma_rows(RDMA_MAX.encode()) == {"mlx4_0": (2, 2000), "ocrdma1": (3, None)}


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_to_their_end(raw: bytes) -> None:
    for parse in (
        *(parse_neighbour_statistics, parse_open_files, parse_cgroups, parse_port_range),
        *(parse_most, parse_quota, parse_committed, parse_data_size),
    ):
        parse(raw)
    assert all(name for name in parse_rdma_rows(raw))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z0-9_]{1,20}", fullmatch=True),
        st.tuples(*(st.none() | st.integers(0, 2**31 - 1) for _ in range(2))),
        max_size=8,
    )
)
def test_what_the_kernel_writes_is_read_back(
    rows: dict[str, tuple[int | None, int | None]],
) -> None:
    def text(number: int | None) -> str:
        return "max" if number is None else str(number)

    lines = (f"{name} hca_handle={text(a)} hca_object={text(b)}\n" for name, (a, b) in rows.items())
    assert parse_rdma_rows("".join(lines).encode()) == rows


# --- reading -----------------------------------------------------------------------------


def test_a_host_is_read_whole() -> None:
    assert read(Limits(2048, 7, "1024\t65535", ("1024", "unlimited"))) == HostLimits(
        NeighbourTable(2048, 3, 7),
        NeighbourTable(2048, 3, 0),
        (1024, 65535),
        Limit(1024, "unlimited"),
        (),
        Limit("unlimited", "unlimited"),
        Limit("unlimited", "unlimited"),
        Limit("unlimited", "unlimited"),
        connections=Missing(Why.ABSENT, "/proc/sys/net/netfilter/nf_conntrack_max: ENOENT"),
    )


def test_a_cgroup_has_the_room_that_its_files_say() -> None:
    job, above = "/sys/fs/cgroup/jobs/job7", "/sys/fs/cgroup/jobs"
    files = {
        f"{job}/pids.max": "max\n",
        f"{job}/pids.current": "3\n",
        f"{job}/cpu.max": "max 100000\n",
        f"{job}/memory.max": "67108864\n",
        f"{above}/pids.max": "100\n",
        f"{above}/pids.current": "40\n",
        f"{above}/cpu.max": "150000 100000\n",
        f"{above}/memory.max": "max\n",
    }
    found = read(Limits(cgroup="0::/jobs/job7", overcommit=0, room=files))
    assert found.cgroups == (
        CgroupRoom(job, None, None, None, 67108864),
        CgroupRoom(above, 100, 40, 1.5, None),
    )
    assert found.committed == CommittedMemory(
        *(False, *[Missing(Why.NOT_COLLECTED, "the kernel promises more than it has")] * 2)
    )


def test_where_the_kernel_promises_no_more_than_it_has_both_numbers_are_read() -> None:
    found = read(Limits(overcommit=2, committed=(2048, 1024)))
    assert found.committed == CommittedMemory(True, 2 << 20, 1 << 20)
    assert found.cgroups == ()


@pytest.mark.parametrize(
    ("parse", "raw", "expected"),
    [
        (parse_most, b"4096\n", 4096),
        (parse_most, b"max\n", None),
        (parse_most, b"many\n", Why.MALFORMED),
        (parse_quota, b"50000 100000\n", 0.5),
        (parse_quota, b"max 100000\n", None),
        (parse_quota, b"50000 0\n", Why.MALFORMED),
        (parse_quota, b"50000\n", Why.MALFORMED),
    ],
)
def test_a_file_of_a_cgroup_is_a_number_or_max(
    parse: Callable[[bytes], Any], raw: bytes, expected: object
) -> None:
    found = parse(raw)
    assert (found.why if isinstance(found, Missing) else found) == expected


@pytest.mark.parametrize(
    ("cgroup", "folder"),
    [
        ("0::/job7", "/sys/fs/cgroup/job7"),
        ("0::/kubepods/job7", "/sys/fs/cgroup/kubepods"),
        ("0::/job7", "/sys/fs/cgroup/unified/job7"),
        ("9:rdma:/job7\n0::/", "/sys/fs/cgroup/rdma/job7"),
        ("0::/", "/sys/fs/cgroup"),
    ],
    ids=["version 2", "one above it", "hybrid", "version 1", "a namespace of its own"],
)
def test_the_cgroups_own_limit_and_those_above_count(cgroup: str, folder: str) -> None:
    current = "mlx4_0 hca_handle=1 hca_object=20\n"
    found = read(Limits(cgroup=cgroup, rdma={folder: (RDMA_MAX, current)})).rdma_cgroups
    absent = Missing(Why.ABSENT, f"{folder}/rdma.events.local: ENOENT")
    assert found == (
        CgroupRdma(folder, "mlx4_0", 2, 2000, 1, 20, absent, absent),
        CgroupRdma(folder, "ocrdma1", 3, None, 0, 0, absent, absent),
    )


def test_what_a_limit_refused_is_read_and_further_kinds_are_passed_over() -> None:
    """Documentation/admin-guide/cgroup-v2.rst of Linux 7.2, and rows with more kinds."""
    events = (
        "mlx4_0 hca_handle.max=5 hca_handle.alloc_fail=3 hca_object.max=1 hca_object.alloc_fail=0\n"
    )
    rows = ("mlx4_0 hca_handle=2 hca_object=2000 qp=max mr_mem=max\n", "", events)
    found = read(Limits(rdma={"/sys/fs/cgroup/job7": rows})).rdma_cgroups
    assert found == (CgroupRdma("/sys/fs/cgroup/job7", "mlx4_0", 2, 2000, 0, 0, 5, 1),)
    assert parse_rdma_events(b"mlx4_0 hca_handle.max\nx qp.max=3\n") == {"x": (0, 0)}


def test_a_device_without_a_limit_has_no_row() -> None:
    rows = "mlx5_0 hca_handle=max hca_object=max\n"
    assert read(Limits(rdma={"/sys/fs/cgroup/job7": (rows, "")})).rdma_cgroups == ()


def test_a_cgroup_outside_of_this_namespace_is_not_looked_for() -> None:
    limited = {"/sys/fs/cgroup": (RDMA_MAX, "")}
    assert read(Limits(cgroup="0::/../job7", rdma=limited)).rdma_cgroups == ()
