"""/proc/PID/maps, as proc_pid_maps(5) has it, and versions in names."""

import mmap
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.libraries import LibrariesFacts
from rdmadiag.host.live import LiveHost
from rdmadiag.host.recording import Recording
from rdmadiag.sources.libraries import (
    parse_maps,
    parse_rdma_maps,
    parse_version,
    parse_wheel,
    read_libraries,
    read_rdma_libraries,
)

ROW = "7f1c5e000000-7f1c60000000 r-xp 0003f000 08:02 1312                       {}\n"
SYSTEM = "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"
WHEEL = "/opt/my venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"


def maps(*paths: str) -> bytes:
    return "".join(map(ROW.format, paths)).encode()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", ()),
        (maps(SYSTEM, SYSTEM, "/usr/lib/libc.so.6"), (SYSTEM,)),
        (maps(WHEEL, SYSTEM), (WHEEL, SYSTEM)),
        (maps(f"{SYSTEM} (deleted)"), (SYSTEM,)),
        (maps("/opt/libnccl-net.so", "/opt/libnccl.so.x", "/opt/xlibnccl.so.2", "[heap]"), ()),
        (b"7ffe3d5c2000-7ffe3d5e3000 rw-p 00000000 00:00 0 \n", ()),
        (b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n", ()),
        (b"7f1c5e000000-7f1c60000000 r-xp 0003f000 08:02 0\n", ()),
        (b"nonsense\n", None),
        (maps(SYSTEM)[:-1], None),
    ],
    ids=lambda each: repr(each)[:50],
)
def test_paths_of_nccl_each_once(raw: bytes, expected: tuple[str, ...] | None) -> None:
    found = parse_maps(raw)
    assert (None if isinstance(found, Missing) else found) == expected


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libnccl.so.2.21.5", "2.21.5"),
        ("libnccl.so.2.26.2.1", "2.26.2.1"),
        ("libnccl.so.2", None),
        ("libnccl.so", None),
        ("libnccl.so.2.21", None),
        ("librccl.so.1.0.60300", None),
    ],
)
def test_the_version_of_a_file_name(name: str, version: str | None) -> None:
    assert parse_version(name) == version


@pytest.mark.parametrize(
    ("names", "version"),
    [
        (("nvidia_nccl_cu12-2.21.5.dist-info", "torch"), "2.21.5"),
        (("nvidia_nccl_cu13-2.28.9.dist-info",), "2.28.9"),
        (("nvidia_nccl_cu12-2.21.5.dist-info", "nvidia_nccl_cu13-2.28.9.dist-info"), None),
        (("nvidia_cudnn_cu12-9.1.0.dist-info",), None),
        ((), None),
    ],
)
def test_the_version_of_the_one_wheel(names: tuple[str, ...], version: str | None) -> None:
    assert parse_wheel(names) == version


@given(st.binary(max_size=300))
def test_no_list_of_mappings_breaks_the_parser(raw: bytes) -> None:
    found = parse_maps(raw)
    assert isinstance(found, Missing) or all(each.startswith("/") for each in found)


def test_what_this_process_has_mapped_of_a_package_and_of_a_wheel(tmp_path: Path) -> None:
    system = tmp_path / "libnccl.so.2.22.3"
    packages = tmp_path / "site-packages"
    wheel = packages / "nvidia/nccl/lib/libnccl.so.2"
    wheel.parent.mkdir(parents=True)
    (packages / "nvidia_nccl_cu12-2.27.3.dist-info").mkdir()
    own = tmp_path / "own" / "libnccl.so.2"
    own.parent.mkdir()
    mapped = []
    for path in (system, wheel, own):
        path.write_bytes(b"x" * mmap.PAGESIZE)
        with path.open("rb") as file:
            mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    found = read_libraries(LiveHost(), os.getpid())
    for each in mapped:
        each.close()
    assert isinstance(found, LibrariesFacts)
    versions = {each.path: each.version for each in found.mapped}
    assert versions.pop(str(system)) == "2.22.3"
    assert versions.pop(str(wheel)) == "2.27.3"
    (unknown,) = versions.values()
    assert isinstance(unknown, Missing)
    assert unknown.why is Why.ABSENT


def test_a_process_that_is_not_there() -> None:
    found = read_libraries(LiveHost(), 2**22)
    assert isinstance(found, Missing)
    assert found.why is Why.ABSENT


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libibverbs.so.1.14.50.0", ("ibverbs", "1.14.50.0")),
        ("librdmacm.so.1", ("rdmacm", None)),
        ("libmlx5-rdmav34.so", ("mlx5", None)),
        ("librxe-rdmav34.so", ("rxe", None)),
        ("libmlx5.so.1.24.50.0", ("mlx5", "1.24.50.0")),
        ("libucp.so.0.0.0", ("ucp", None)),
        ("libfabric.so.1.21.0", ("fabric", "1.21.0")),
        ("libnccl-net-ofi.so", ("nccl-net-ofi", None)),
        ("libnccl.so.2.21.5", ("nccl", "2.21.5")),
        ("libmpi.so.40.30.5", ("mpi", "40.30.5")),
        ("libc.so.6", None),
        ("libibverbs.so.1x", None),
        ("xlibibverbs.so.1", None),
    ],
)
def test_libraries_of_rdma_and_their_versions(
    name: str, expected: tuple[str, str | None] | None, host_in_memory: Any
) -> None:
    raw = maps(f"/usr/lib/x86_64-linux-gnu/{name}")
    found = read_rdma_libraries(host_in_memory(Recording(files={"/proc/7/maps": raw})), 7)
    assert isinstance(found, tuple)
    shown = [
        (each.name, None if isinstance(each.version, Missing) else each.version) for each in found
    ]
    assert shown == ([] if expected is None else [expected])


def test_of_a_process_that_may_not_be_read_they_are_not_known(host_in_memory: Any) -> None:
    denied = Missing(Why.DENIED, "/proc/7/maps: EACCES")
    host = host_in_memory(Recording(refused={"read": {"/proc/7/maps": denied}}))
    assert read_rdma_libraries(host, 7) == denied


@given(st.binary(max_size=300))
def test_no_list_of_mappings_breaks_the_other_parser(raw: bytes) -> None:
    assert isinstance(parse_rdma_maps(raw), tuple | Missing)
