"""What was built, or installed, without its part for RDMA."""

import pytest

from tests.explain.score import Excerpt, score

NOTED = (
    "/usr/bin/ld: cannot find -lrdmacm: No such file or directory",
    "a.c:7:10: fatal error: infiniband/verbs.h: No such file or directory",
    "configure: error: <infiniband/driver.h> not found.  libmlx5 requires libibverbs.",
    "configure: WARNING: OFI libfabric support requested, but not found.",
    "No package 'libfabric' found",
    "Package libibverbs was not found in the pkg-config search path.",
    "-- Could NOT find RDMACM (missing: RDMACM_LIBRARIES)",
    "a.o: undefined reference to `ibv_open_device'",
    "RDMA Transport for Staging: Unconfigured",
    "bash: ib_read_lat: command not found",
    "ModuleNotFoundError: No module named 'deep_ep_cpp'",
)


@pytest.mark.parametrize("line", NOTED)
def test_what_a_build_lacks_is_noted_and_is_no_failure(line: str) -> None:
    account = score(Excerpt("", {}, f"{line}\n".encode())).account
    assert account.first is None
    assert [each.causes[0].label for each in account.notes] == ["feature-not-built"]


@pytest.mark.parametrize(
    "line",
    [
        "checking for infiniband/verbs.h... yes",
        "-- Found RDMACM: /usr/lib64/librdmacm.so",
        "/usr/bin/ld: cannot find -lnuma: No such file or directory",
        "configure: error: zlib not found",
        "No package 'glib-2.0' found",
        "bash: cargo: command not found",
        "Open UCX: yes",
    ],
)
def test_a_build_that_lacks_nothing_of_rdma_is_not_noted(line: str) -> None:
    account = score(Excerpt("", {}, f"{line}\n".encode())).account
    assert (account.first, account.notes) == (None, ())


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("nvmf_tgt: *ERROR*: Transport type 'RDMA' unavailable.", "feature-not-built"),
        ("fio: engine rdma not loadable", "feature-not-built"),
        ("ceph-osd: this Ceph was built without RDMA support", "feature-not-built"),
        ("zap: RDMA support is disabled in this build", "feature-not-built"),
        ("# rdma link add r0 type rxe netdev e0\nerror: Invalid argument", "kernel-module-missing"),
        ("# rdma link add r0 type rxe netdev e9\nerror: No such device", "device-absent"),
        (
            "systemd[7]: rdma-ndd.service: Failed at step EXEC spawning /usr/sbin/rdma-ndd",
            "program-fault",
        ),
    ],
)
def test_a_program_that_runs_without_its_part_fails(log: str, label: str) -> None:
    first = score(Excerpt("", {}, f"{log}\n".encode())).account.first
    assert first
    assert first.causes[0].label == label
