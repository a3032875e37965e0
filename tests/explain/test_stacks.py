"""What stacks print of their own, and what a log says was set."""

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import ENDED, Kind
from rdmadiag.explain.log.recognition.settings import setting_of
from tests.explain.score import FOLDER, Excerpt, read, score


def explained(*lines: str) -> Account:
    return score(Excerpt("x", {}, "\n".join((*lines, "")).encode())).account


def labels(*lines: str) -> tuple[str, ...]:
    first = explained(*lines).first
    return tuple(each.label for each in first.causes) if first else ()


LINES = read(FOLDER / "stacks.txt")


@pytest.mark.parametrize(
    "line", [each for each in LINES if each.causes], ids=lambda each: each.name
)
def test_a_line_of_a_stack_has_its_first_cause(line: Excerpt) -> None:
    assert score(line).first


@pytest.mark.parametrize(
    "line", [each for each in LINES if not each.causes], ids=lambda each: each.name
)
def test_what_healthy_hosts_print_is_no_trouble(line: Excerpt) -> None:
    assert not score(line).false


def test_no_device_is_as_it_should_be_where_rdma_is_switched_off() -> None:
    absent = "node1:34:34 [3] NCCL INFO NET/IB : No device found."
    off = "node1:34:34 [3] NCCL INFO NCCL_IB_DISABLE set by environment to 1."
    assert explained(absent).first
    assert explained(absent, off).first is None
    assert explained(absent, off.replace(" 1.", " 0.")).first


SOCKETS = "node1:34:34 [3] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.1<0>"


@pytest.mark.parametrize(
    "absent",
    [
        "node1:34:34 [3] NCCL INFO NET/IB : No device found.",
        "node1:34:34 [3] NCCL INFO Failed to initialize NET plugin IB",
    ],
)
def test_a_job_that_goes_by_sockets_has_no_device_to_be_noted(absent: str) -> None:
    assert explained(absent, SOCKETS).first is None
    assert [each.kind for each in explained(absent, SOCKETS).notes] == [Kind.NOTE]
    assert explained(absent).first


@pytest.mark.parametrize(
    "asked",
    [
        "node1:34:34 [3] NCCL INFO NCCL_IB_HCA set to mlx5_0",
        "node1:34:34 [3] NCCL INFO NCCL_IB_DISABLE set by environment to 0.",
        "node1:34:34 [3] NCCL INFO NET/Socket : Using [0]ib0:192.0.2.1<0>",
    ],
)
def test_where_rdma_was_asked_for_sockets_are_a_failure(asked: str) -> None:
    absent = "node1:34:34 [3] NCCL INFO NET/IB : No device found."
    assert explained(asked, absent, SOCKETS).first


def test_a_plugin_of_the_image_asks_for_nothing() -> None:
    plugin = "node1:34:34 [3] NCCL INFO P2P plugin IBext"
    absent = "node1:34:34 [3] NCCL INFO NET/IB : No device found."
    assert explained(plugin, absent, SOCKETS).first is None


@pytest.mark.parametrize(
    "missing",
    [
        "node1:34:34 [3] NCCL INFO Failed to open libibverbs.so[.1]",
        "node1:34:34 [3] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    ],
)
def test_a_library_that_is_missing_is_noted_where_sockets_are_taken(missing: str) -> None:
    asked = "node1:34:34 [3] NCCL INFO NCCL_IB_HCA set to mlx5_0"
    account = explained(missing, SOCKETS)
    assert account.first is None
    assert [each.causes[0].label for each in account.notes] == ["verbs-library-missing"]
    assert explained(missing).first
    assert explained(asked, missing, SOCKETS).first


def test_the_gid_index_that_was_set_decides_between_causes() -> None:
    failed = "node1:1:2 [0] NCCL WARN NET/IB: Got completion with error 12, vendor err 129 ib0: 0"
    index = "node1:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0."
    assert labels(failed)[0] == "no-path"
    assert labels(index, failed)[0] == "gid-does-not-route"
    assert labels(index) == ()


def test_on_infiniband_nothing_is_of_roce() -> None:
    failed = (
        "node1:1:2 [0] NCCL WARN NET/IB: Got completion from peer 192.0.2.1<9> with status=12 "
        "opcode=0 len=0 vendor err 129 (Send) localGid fe80::1:2:3:4 remoteGids fe80::1:2:3:5"
    )
    using = "node1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/{} [1]mlx5_1:1/{} [RO]; OOB eth0"
    assert "gid-does-not-route" in labels(failed)
    assert "gid-does-not-route" in labels(using.format("RoCE", "RoCE"), failed)
    assert "gid-does-not-route" in labels(using.format("IB", "RoCE"), failed)
    assert "gid-does-not-route" not in labels(using.format("IB", "IB/SHARP"), failed)


def test_a_setting_names_no_cause_that_was_not_possible() -> None:
    index = "NCCL INFO NCCL_IB_GID_INDEX set by environment to 0."
    refused = "NCCL WARN Call to ibv_modify_qp failed with error No such device, next state RTR"
    assert "gid-does-not-route" not in labels(index, refused)
    assert setting_of("NCCL_IB_GID_INDEX set by environment to 3.") is None


@pytest.mark.parametrize(
    ("setting", "is_few"),
    [
        ("NCCL_IB_TIMEOUT set by environment to 12.", True),
        ("NCCL_IB_RETRY_CNT set by environment to 1.", True),
        ("NCCL_IB_TIMEOUT set by environment to 22.", False),
        ("NCCL_IB_RETRY_CNT set by environment to 13.", False),
    ],
)
def test_few_retries_run_out_on_a_busy_path(setting: str, is_few: bool) -> None:
    failed = "node1:1:2 [0] NCCL WARN NET/IB: Got completion with error 12, vendor err 129 ib0: 0"
    flushed = failed.replace("error 12, vendor err 129", "error 5, vendor err 249")
    found = labels(f"node1:1:2 [0] NCCL INFO {setting}", failed)
    assert (found[0] == "ack-timeout-short") is is_few
    assert "ack-timeout-short" not in labels(f"node1:1:2 [0] NCCL INFO {setting}", flushed)


def test_that_rdma_is_switched_off_is_noted_where_sockets_are_taken() -> None:
    off = "node1:34:34 [3] NCCL INFO NCCL_IB_DISABLE set by environment to 1."
    account = explained(off, SOCKETS)
    assert account.first is None
    assert [each.causes[0].label for each in account.notes] == ["rdma-off-by-variable"]
    assert explained(off).notes == ()  # as on AWS, where a plugin has EFA


@pytest.mark.parametrize(
    ("said", "why", "failed", "label"),
    [
        (
            "[  9.1] neighbour: arp_cache: neighbor table overflow!",
            "neighbour-table-full",
            "UCX  ERROR ibv_create_ah(dlid=0) failed: Connection timed out",
            "peer-unreachable",
        ),
        (
            "[  9.1] mlx5_core 0000:00:06.0: swiotlb buffer is full (sz: 262144 bytes)",
            "bounce-buffers-full",
            "Couldn't allocate MR",
            "memlock",
        ),
    ],
)
def test_what_the_kernel_says_of_its_host_is_why_calls_fail(
    said: str, why: str, failed: str, label: str
) -> None:
    assert labels(failed)[0] == label
    assert labels(failed, said)[:2] == (why, label)
    other = "UCX  ERROR ibv_create_qp() failed: Operation not supported"
    assert labels(other, said)[0] == labels(other)[0]


def test_a_program_whose_file_somebody_writes_is_not_started() -> None:
    assert labels("sh: 1: ib_send_bw: Text file busy")[0] == "program-not-started"


def test_a_reason_of_the_peers_program_comes_before_that_of_rdma_cm() -> None:
    line = "nvme nvme4: Connect rejected: status 28 (consumer defined) nvme status {}."
    assert labels(line.format("6 (resource not found)"))[0] == "peer-out-of-resources"
    assert labels(line.format("2 (invalid queue ID)"))[0] != "peer-out-of-resources"


def test_the_index_of_a_gpu_is_no_errno() -> None:
    found = explained("node1:7:9 [5] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed").first
    assert found
    assert found.errno is None
    assert found.causes[0].label == "memlock"


def test_nics_of_two_rails_are_no_path() -> None:
    text = (
        "Worker: Process failed for slice (local_nic: mlx5_7, peer_nic: 192.0.2.1:9@mlx5_4): "
        "transport retry counter exceeded."
    )
    assert labels(text)[0] == "no-path"


def test_open_mpi_names_the_function_above_its_error() -> None:
    found = explained(
        "  OMPI source: btl_openib.c:190",
        "  Function:    ibv_create_cq()",
        "  Error:       Device or resource busy (errno=16)",
    )
    assert found.unknown or found.first


def test_the_last_line_of_a_failed_job_is_not_ok() -> None:
    found = explained("node2: Test NCCL failure common.cu:345 'unhandled system error'")
    assert found.first
    assert found.first.what == ENDED
