"""What MLX's jaccl and exo print on a Mac: the strings are those of their sources."""

import pytest

from rdmadiag.explain.log.account import Failure
from tests.explain.score import Excerpt, score


def failed(line: str) -> Failure:
    """The first failure of a log that is this line."""
    first = score(Excerpt("", {}, f"{line}\n".encode())).account.first
    assert first
    return first


@pytest.mark.parametrize(
    ("line", "label"),
    [
        # mlx/distributed/jaccl/lib/jaccl/tcp.cpp, and Darwin's sys/errno.h
        ("[jaccl] Couldn't bind socket (error: 48)", "tcp-port-taken"),
        ("[jaccl] Couldn't bind socket (error: 49)", "address-absent"),
        ("[jaccl] Couldn't connect (error: 61)", "peer-not-listening"),
        ("[jaccl] Couldn't connect (error: 65)", "local-network-privacy"),
        ("RuntimeError: [jaccl] Recv failed with errno=54", "peer-gone"),
        # jaccl.cpp, mesh.cpp and ring.cpp beside it
        ("[jaccl] The device file should start with an array", "argument-refused"),
        ("[jaccl] The devices do not form a valid ring.", "argument-refused"),
        ("[jaccl] The JACCL mesh supports up to 8 peers but 9 were provided.", "argument-refused"),
        # ibv_post_recv, in rdma.h beside it
        ("RuntimeError: [jaccl] Recv failed with error code 12", "qp-error"),
        # mlx/distributed/distributed.cpp; dyld
        ("RuntimeError: [distributed] Couldn't initialize any backend", "rdma-disabled"),
        ("ImportError: Library not loaded: /usr/lib/librdma.dylib", "rdma-disabled"),
        # strerror(3) of Darwin
        ("ibv_create_qp failed: errno 16 (Resource busy)", "qp-exhausted"),
    ],
)
def test_the_first_cause_and_the_lines_to_paste_are_those_of_a_mac(line: str, label: str) -> None:
    found = failed(line)
    assert found.causes[0].label == label
    assert found.platform == "darwin"
    linux = ("/sys/", "/proc/", "dmesg", "modprobe", "ss -t", "ip route", "ucx_info", "rdma link")
    assert [line for line in found.next for word in linux if word in line] == []


def test_a_number_of_the_program_s_own_socket_is_none_of_a_completion() -> None:
    found = failed("RuntimeError: [jaccl] Recv failed with errno=60")
    assert (found.errno and found.errno.number, found.completion) == (60, None)


BUSY = (
    "mlx5_core 0000:41:00.0: mlx5_cmd_out_err:835:(pid 7): DESTROY_MKEY(0x202) op_mod(0x0) failed, "
    "status resource busy(0x6), syndrome (0x7), err(-16)"
)


@pytest.mark.parametrize(
    "line",
    [
        BUSY,
        "n1:7:7 [0] NCCL WARN Call to ibv_create_qp failed: Resource busy",
    ],
)
def test_what_linux_prints_of_a_resource_that_is_busy_is_no_mac_s(line: str) -> None:
    assert failed(line).platform == "linux"
