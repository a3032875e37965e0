"""TCP connections by sock_diag, by the kernel's own structures, and from /proc/PID/net/tcp."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import TcpSocket, TcpState
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.host.recording import Recording
from rdmadiag.sources.sock_diag import (
    parse_proc_tcp,
    parse_tcp_diag,
    read_connections,
    tcp_request,
    why_not_asked,
)
from tests.verbs.conftest import compile_c  # noqa: F401  # a fixture

HEAD = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    b"inode\n"
)
REST = "00000000:00000000 00:00000000 00000000     0        0"
LITTLE = sys.byteorder == "little"
needs_little = pytest.mark.skipif(not LITTLE, reason="the rows are those of a little-endian host")

Hosts = Callable[[Recording], LiveHost]


def row(local: str, remote: str, state: str, inode: int) -> bytes:
    return (
        f"   0: {local} {remote} {state} {REST} {inode} 1 0000000000000000 100 0 0 10 0\n".encode()
    )


PROC = HEAD + row("010200C0:9CB0", "020200C0:1389", "01", 71344)
PROC6 = HEAD + row(
    "B80D0120000000000000000001000000:9CB0", "B80D0120000000000000000002000000:1389", "08", 71345
)


@pytest.fixture(scope="module")
def oracle(compile_c: Callable[..., Path]) -> bytes:  # noqa: F811  # the fixture
    if not sys.platform.startswith("linux"):
        pytest.skip("linux/inet_diag.h")
    made = compile_c(Path(__file__).with_name("sock_diag_oracle.c"))
    return subprocess.run([made], capture_output=True, check=True).stdout


def test_the_request_is_that_of_the_kernels_structures(oracle: bytes) -> None:
    request = tcp_request(socket.AF_INET)
    assert oracle[: len(request)] == request


def test_answers_by_the_kernels_structures_are_read_field_by_field(oracle: bytes) -> None:
    found = parse_tcp_diag(oracle[len(tcp_request(2)) :])
    assert isinstance(found, tuple)
    first, second, third = found
    assert first == TcpSocket(
        71344, TcpState.ESTABLISHED, "192.0.2.1", 40112, "192.0.2.2", 5001, 1048577, 17
    )
    assert (second.state, second.local, second.remote) == (
        *(TcpState.CLOSE_WAIT, "2001:db8::1", "2001:db8::2"),
    )
    assert isinstance(second.sent, Missing), "a kernel that gives no tcp_info counts nothing"
    assert second.sent.why is Why.UNSUPPORTED
    assert (third.local, third.remote) == ("192.0.2.1", "192.0.2.2")


@needs_little
def test_rows_of_proc_are_the_same_connections_without_bytes() -> None:
    (first,) = parse_proc_tcp(PROC)
    assert (first.inode, first.state) == (71344, TcpState.ESTABLISHED)
    assert (first.local, first.local_port, first.remote, first.remote_port) == (
        *("192.0.2.1", 40112, "192.0.2.2", 5001),
    )
    assert isinstance(first.sent, Missing)
    (second,) = parse_proc_tcp(PROC6)
    assert (second.state, second.local, second.remote) == (
        *(TcpState.CLOSE_WAIT, "2001:db8::1", "2001:db8::2"),
    )


@pytest.mark.parametrize("state", ["06", "07", "0A", "0C", "0D"])
def test_what_has_no_peer_or_no_process_is_no_connection(state: str) -> None:
    assert parse_proc_tcp(HEAD + row("010200C0:9CB0", "00000000:0000", state, 0)) == ()


@pytest.mark.parametrize("raw", [HEAD + b"nonsense\n", PROC[:-90] + b"\n"])
def test_a_torn_table_is_malformed(raw: bytes) -> None:
    found = parse_proc_tcp(raw)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


@pytest.mark.parametrize(
    "reply",
    [
        netlink.request(netlink.SOCK_DIAG_BY_FAMILY, 0, bytes(71)),
        netlink.request(netlink.SOCK_DIAG_BY_FAMILY, 0, bytes(72))[:-1],
    ],
    ids=["a message shorter than its structure", "a message that is cut"],
)
def test_a_torn_reply_is_malformed(reply: bytes) -> None:
    found = parse_tcp_diag(reply)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


def test_an_unknown_state_costs_no_row() -> None:
    (found,) = parse_tcp_diag(
        netlink.request(netlink.SOCK_DIAG_BY_FAMILY, 0, bytes((2, 99)) + bytes(70))
    )
    assert isinstance(found.state, Missing)


@given(st.binary(max_size=400))
def test_no_bytes_break_the_parsers(raw: bytes) -> None:
    assert isinstance(parse_tcp_diag(raw), tuple | Missing)
    assert isinstance(parse_proc_tcp(raw), tuple | Missing)


# --- nothing is loaded --------------------------------------------------------------------

NONE = Recording(files={"/proc/modules": b"rdma_rxe 1 0 - Live 0x0\n"})


@pytest.mark.parametrize(
    ("recording", "asked"),
    [
        (NONE, False),
        (Recording(files=NONE.files, listings={"/sys/module/tcp_diag": ("refcnt",)}), True),
        (Recording(), True),
        (Recording(files={**NONE.files, "/proc/sys/kernel/modules_disabled": b"1\n"}), True),
        (Recording(files={**NONE.files, "/proc/sys/kernel/modules_disabled": b"0\n"}), False),
        (
            Recording(
                files={
                    **NONE.files,
                    "/lib/modules/6.1.0/modules.builtin": b"kernel/net/ipv4/tcp_diag.ko\n",
                }
            ),
            True,
        ),
        (
            Recording(
                files={
                    **NONE.files,
                    "/lib/modules/6.1.0/modules.builtin": b"kernel/net/ipv4/udp_diag.ko\n",
                }
            ),
            False,
        ),
        (
            Recording(
                refused={"read": {"/proc/modules": Missing(Why.DENIED, "/proc/modules: EACCES")}}
            ),
            False,
        ),
    ],
    ids=[
        "a module that is not loaded",
        "one that is",
        "a kernel without modules",
        "loading is switched off",
        "loading is not switched off",
        "built in",
        "another one built in",
        "not to be known",
    ],
)
def test_it_is_asked_only_where_that_loads_nothing(
    recording: Recording, asked: bool, host_in_memory: Hosts
) -> None:
    host = host_in_memory(recording)
    assert (why_not_asked(host) is None) is asked


@needs_little
def test_where_it_is_not_asked_the_connections_have_no_bytes_and_the_reason(
    host_in_memory: Hosts, soon: float
) -> None:
    files = {**NONE.files, "/proc/self/net/tcp": PROC, "/proc/self/net/tcp6": PROC6}
    host = host_in_memory(Recording(files=files))
    (found,) = read_connections(host, soon, {71344})
    assert isinstance(found.sent, Missing)
    assert "modprobe tcp_diag" in found.sent.detail
    assert not any(kind == "netlink" for kind, _ in host.asked)


@needs_little
def test_connections_of_another_network_namespace_are_read_in_its_file(
    host_in_memory: Hosts, soon: float
) -> None:
    host = host_in_memory(Recording(files={"/proc/4711/net/tcp": PROC}))
    (found,) = read_connections(host, soon, {71344, 71345}, 4711)
    assert "nsenter -t 4711 -n" in found.received.detail
    assert read_connections(host, soon, (), 4711) == ()


def test_a_file_that_is_refused_is_the_reason(host_in_memory: Hosts, soon: float) -> None:
    found = read_connections(host_in_memory(NONE), soon, {1})
    assert isinstance(found, Missing)
    assert found.why is Why.ABSENT


def test_connections_are_those_with_these_inodes(
    oracle: bytes, host_in_memory: Hosts, soon: float
) -> None:
    replies = oracle[len(tcp_request(2)) :]
    both = {"sock-diag-tcp-2": replies, "sock-diag-tcp-10": b""}
    found = read_connections(host_in_memory(Recording(netlink=both)), soon, {71346, 5})
    assert [each.inode for each in found] == [71346]


@needs_little
def test_a_netlink_that_refuses_leaves_the_file(host_in_memory: Hosts, soon: float) -> None:
    host = host_in_memory(Recording(files={"/proc/self/net/tcp": PROC}))
    (found,) = read_connections(host, soon, {71344})
    assert found.sent.why is Why.ABSENT


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sock_diag is Linux's")
def test_bytes_of_a_live_connection_are_those_that_were_sent() -> None:
    host = LiveHost()
    if why := why_not_asked(host):
        pytest.skip(str(why))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
    ):
        far, _ = server.accept()
        with far:
            near.sendall(bytes(100_000))
            left = 100_000
            while left:
                left -= len(far.recv(left))
            inodes = {os.fstat(each.fileno()).st_ino for each in (near, far, server)}
            found = read_connections(host, time.monotonic() + 10, inodes)
            assert isinstance(found, tuple)
            if any(isinstance(each.sent, Missing) for each in found):
                pytest.skip(str(found[0].sent))
            by_port = {each.local_port: each for each in found}
            assert set(by_port) == {near.getsockname()[1], far.getsockname()[1]}
            receiver = by_port[far.getsockname()[1]]
            assert receiver.received == 100_000
            # The SYN counts as one (RFC 4898); acknowledgements may be on their way.
            assert by_port[near.getsockname()[1]].sent <= 100_001
