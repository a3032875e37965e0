"""`pingpong --cm`: connections by librdmacm, both ends on one host; soft RoCE and soft iWARP."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from lab.attempt import Attempts, Ended, until
from lab.resources import cm_listeners, unchanged
from lab.rxe import add_pair, remove_pair

READY_SECONDS = 60.0
WAIT = 90.0  # seconds; nobody waits so long where all goes well
EVENTS = [
    ("local", "resolve_address", "addr_resolved"),
    ("local", "resolve_route", "route_resolved"),
    ("remote", "establish", "connect_request"),
    ("local", "establish", "established"),
    ("remote", "establish", "established"),
    ("remote", "disconnect", "disconnected"),
    ("local", "disconnect", "disconnected"),
]

Run = Callable[..., Any]

IS_6_1 = os.uname().release.startswith("6.1.")


@dataclass(frozen=True)
class Port:
    """A device with an address."""

    device: str
    netdev: str
    address: str
    kind: str

    @property
    def options(self) -> tuple[str, ...]:
        return ("--cm", "--allow-rtr", f"--device={self.device}")


@contextmanager
def siw(run: Run) -> Iterator[Port]:
    """siw0 on veth0, 192.0.2.1, and siw1 on the other end of its cable."""

    def do(command: str) -> None:
        done = run(command.split(), timeout=READY_SECONDS)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    do("ip link add veth0 type veth peer name veth1")
    try:
        for number in (0, 1):
            do(f"ip address add 192.0.2.{number + 1}/24 dev veth{number}")
            do(f"ip link set veth{number} up")
        for number in (0, 1):  # whose port is ACTIVE where its netdev has a carrier by now
            do(f"rdma link add siw{number} type siw netdev veth{number}")
        yield Port("siw0", "veth0", "192.0.2.1", "siw")
    finally:
        do("ip link del veth0")


@contextmanager
def rxe(run: Run) -> Iterator[Port]:
    try:
        made, _ = add_pair()
        yield Port(made.name, made.netdev, made.ipv4, "rxe")
    finally:
        remove_pair()


MAKERS = {"rxe": rxe, "siw": siw}


@pytest.fixture(scope="module", params=["rxe", pytest.param("siw", marks=pytest.mark.needs("siw"))])
def kept(request: pytest.FixtureRequest, run: Run) -> Iterator[Port]:
    """One port for all tests that leave it as it was."""
    run(["modprobe", "rdma_ucm"], timeout=READY_SECONDS)  # which User Mode Linux has built in
    with MAKERS[request.param](run) as made:
        yield made


@pytest.fixture
def port(kept: Port) -> Iterator[Port]:
    """After the test the kernel counts what it counted before, and no process has a device."""
    with unchanged():
        yield kept


def listen(attempts: Attempts, port: Port, number: int, *more: str) -> Any:
    """An end that listens already."""
    before = cm_listeners()
    where = f"--listen={port.address}:{number}"
    started = attempts.start(*port.options, where, f"--wait={WAIT:g}", *more)
    assert until(lambda: cm_listeners() > before or started.has_ended(), READY_SECONDS)
    assert not started.has_ended(), started.end()
    return started


def events(ended: Ended) -> list[tuple[str, str, str]]:
    steps = ended.document["connection"]["steps"]
    return [(each["end"], each["stage"], each["event"]) for each in steps]


# --- what works --------------------------------------------------------------------------


@pytest.mark.other_kernels(2)
def test_a_connection_is_made_and_its_data_verified(
    port: Port, attempts: Attempts, run: Run
) -> None:
    ended = attempts.start(*port.options, "--bytes=20000").end()
    assert ended.result() == (0, "verified", "done")
    assert ended.document["data_verified"]
    assert ended.document["teardown"] == "clean"
    assert events(ended) == EVENTS
    own = ended.document["local"]
    left_out = port.kind == "siw" and IS_6_1
    assert (own["device"], own["qp_state"]) == (port.device, None if left_out else "rts")
    address = ended.document["connection"]["address"]
    assert address.rpartition(":")[0] == port.address
    if port.kind == "rxe":
        assert own["gid"] == f"::ffff:{port.address}"
        path = f"/sys/class/infiniband/{port.device}/ports/1/gids/{own['gid_index']}"
        with open(path, encoding="ascii") as file:
            assert file.read().strip().endswith("ffff:c000:0201")


@pytest.mark.other_kernels(6)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [
        ("--op=write", "--bytes=4097", "--iterations=600"),
        ("--op=read", "--bytes=65536"),
        ("--op=read", "--events"),
        ("--events", "--sge=4", "--inline=64", "--sq-depth=64", "--rq-depth=8", "--cq-depth=100"),
        ("--op=write", "--bandwidth=0.5", "--bytes=65536"),
        ("--op=read", "--bandwidth=0.5", "--bytes=65536"),
    ],
    ids=" ".join,
)
def test_each_operation_is_verified_and_timed(
    port: Port, attempts: Attempts, options: tuple[str, ...]
) -> None:
    document = (ended := attempts.start(*port.options, *options).end(WAIT)).document
    assert ended.result() == (0, "verified", "done"), document
    assert document["data_verified"]
    named = {each.partition("=")[0]: each.partition("=")[2] for each in options}
    assert document["latency_us"]["op"] == named.get("--op", "send")
    if "--bandwidth" in named:
        assert document["bandwidth"]["data_verified"]
        assert document["bandwidth"]["messages"] > 0


@pytest.mark.other_kernels(4)
@pytest.mark.parametrize("op", ["write", "read"])
def test_a_one_sided_operation_of_two_processes_is_timed_by_the_one_that_connects(
    port: Port, attempts: Attempts, op: str
) -> None:
    one = listen(attempts, port, 4717, f"--op={op}", "--bandwidth=0.2")
    where = f"{port.address}:4717"
    other = attempts.start(*port.options, where, f"--op={op}", "--bandwidth=0.2").end(WAIT)
    assert other.result() == (0, "verified", "done")
    assert (other.document["latency_us"]["op"], other.document["bandwidth"]["op"]) == (op, op)
    assert one.end(WAIT).result() == (0, "verified", "done")


def test_rping_passes_where_ours_does(port: Port, run: Run) -> None:
    command = ["rping", "-a", port.address, "-C", "2", "-v"]
    with subprocess.Popen(
        ["timeout", "60", *command, "-s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert until(lambda: cm_listeners() == 1, READY_SECONDS)
        client = run([*command, "-c"], timeout=60.0)
        server.kill()
    assert (client.returncode, client.stdout.count("ping data")) == (0, 2), client.stderr


@pytest.mark.other_kernels(2)
def test_a_listener_and_its_peer_of_one_host_meet(port: Port, attempts: Attempts) -> None:
    one = listen(attempts, port, 4711)
    other = attempts.start(*port.options, f"{port.address}:4711").end(WAIT)
    assert other.result() == (0, "verified", "done")
    assert one.end(WAIT).result() == (0, "verified", "done")


@pytest.mark.sampled(2)
@pytest.mark.other_kernels(0)
def test_a_secret_is_proven(port: Port, attempts: Attempts, tmp_path: Any) -> None:
    files = []
    for number in (0, 1):
        path = tmp_path / str(number)
        path.write_text(bytes(range(number, number + 32)).hex())
        path.chmod(0o600)
        files.append(f"--secret-file={path}")
    one = listen(attempts, port, 4712, files[0])
    where = f"{port.address}:4712"
    wrong = attempts.start(*port.options, where, files[1]).end(WAIT)
    assert wrong.code == 2
    assert wrong.document["outcome"] in ("cm_event", "completion_error")
    assert not wrong.document["data_verified"]
    none = attempts.start(*port.options, where).end(WAIT)
    assert none.result() == (2, "peer_refused", "establish")
    assert none.document["connection"]["event"] == "rejected"
    right = attempts.start(*port.options, where, files[0]).end(WAIT)
    assert right.result() == (0, "verified", "done")
    assert one.end(WAIT).result() == (0, "verified", "done")


def test_fi_pingpong_passes_where_ours_does(port: Port, run: Run) -> None:
    if port.kind == "siw" and IS_6_1:
        pytest.skip("it stays in the kernel for ever, where no signal reaches it")
    command = ["timeout", "60", "fi_pingpong", "-p", "verbs", "-e", "msg", "-I", "10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        client = None
        for _ in range(10):  # it has no sign of its own that it listens
            client = run([*command, port.address], timeout=70.0)
            if client.returncode == 0 or server.poll() is not None:
                break
            time.sleep(0.5)
        server.kill()
        server.communicate()
    assert client
    assert client.returncode == 0, client
    assert "64" in client.stdout


# --- other programs ----------------------------------------------------------------------


@pytest.mark.other_kernels(0)
@pytest.mark.sampled(2)
def test_rping_that_comes_is_connected_and_the_peer_after_it_met(
    port: Port, attempts: Attempts, run: Run
) -> None:
    one = listen(attempts, port, 4713)
    rping = ["timeout", "30", "rping", "-c", "-a", port.address, "-p", "4713", "-C", "1"]
    client = run(rping, timeout=40.0)
    assert "DISCONNECT" in client.stderr + client.stdout
    other = attempts.start(*port.options, f"{port.address}:4713").end(WAIT)
    assert other.result() == (0, "verified", "done")
    ended = one.end(WAIT)
    assert ended.result() == (0, "verified", "done")
    assert "ESTABLISHED, and no rdmadiag pingpong" in ended.stderr


@pytest.mark.other_kernels(2)
def test_ucmatose_that_comes_is_connected_and_the_peer_after_it_met(
    port: Port, attempts: Attempts, run: Run
) -> None:
    one = listen(attempts, port, 4725)
    ucmatose = ["timeout", "30", "ucmatose", "-s", port.address, "-p", "4725", "-C", "0"]
    client = run(ucmatose, timeout=40.0)
    assert client.returncode == 0, client.stdout  # with messages to send it waits for ever
    other = attempts.start(*port.options, f"{port.address}:4725").end(WAIT)
    assert other.result() == (0, "verified", "done")
    ended = one.end(WAIT)
    assert ended.result() == (0, "verified", "done")
    assert "ESTABLISHED, and no rdmadiag pingpong" in ended.stderr


@pytest.mark.other_kernels(2)
@pytest.mark.parametrize(
    "program", ["rping -s -a {address} -p 4714", "ucmatose -b {address} -p 4724"]
)
def test_another_programs_listener_is_reached_up_to_established(
    port: Port, attempts: Attempts, program: str
) -> None:
    command = program.format(address=port.address).split()
    with subprocess.Popen(
        ["timeout", "90", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert until(lambda: cm_listeners() == 1, READY_SECONDS)
        ended = attempts.start(*port.options, f"{port.address}:{command[-1]}").end()
        server.terminate()
        server.communicate()
    # What ucmatose sends meets no receive: iWARP has no RNR, and siw may end the connection first.
    ended_by_siw = ("cm_event", "call_failed") if port.kind == "siw" else ()
    code, outcome, stage = ended.result()
    assert (code, stage) == (2, "establish")
    assert outcome in ("peer_refused", *ended_by_siw)
    assert ("local", "establish", "established") in events(ended)
    assert ended.document["teardown"] == "clean"


# --- faults ------------------------------------------------------------------------------


def test_no_listener(port: Port, attempts: Attempts) -> None:
    ended = attempts.start(*port.options, f"{port.address}:4799").end()
    document = ended.document
    if port.kind == "siw":  # the TCP connection of one host is refused within the call
        assert ended.result() == (2, "call_failed", "establish")
        assert (document["call"], document["errno"]["name"]) == ("rdma_connect", "ECONNREFUSED")
    else:
        assert ended.result() == (2, "cm_event", "establish")
        assert document["connection"]["reject_reason"] == "invalid_service_id"
        assert document["errno"] is None
    assert any("nobody listens there" in each for each in document["causes"])


@pytest.mark.other_kernels(0)
@pytest.mark.sampled(2)
def test_rejected_with_private_data(port: Port, attempts: Attempts) -> None:
    one = listen(attempts, port, 4715)
    ended = attempts.start(*port.options, f"{port.address}:4715", "--bytes=65").end(WAIT)
    assert ended.result() == (2, "mismatch", "establish")
    assert ended.document["problems"][0]["code"] == "payload_bytes_mismatch"
    connection = ended.document["connection"]
    assert connection["event"] == "rejected"
    assert bytes.fromhex(connection["private_data"]).startswith(b"rdmadiag")
    one.kill(signal.SIGINT)
    assert one.end(WAIT).document["outcome"] == "interrupted"


@pytest.mark.other_kernels(2)
def test_a_neighbour_that_does_not_answer(port: Port, attempts: Attempts) -> None:
    ended = attempts.start(*port.options, "192.0.2.77:4711").end()
    assert ended.result() == (2, "cm_event", "resolve_address")
    assert ended.document["connection"]["event"] == "addr_error"
    assert ended.document["errno"]["name"] in ("ETIMEDOUT", "EHOSTUNREACH")


def test_no_route(port: Port, attempts: Attempts) -> None:
    ended = attempts.start(*port.options, "203.0.113.9:4711").end()
    assert (ended.code, ended.document["stage"]) == (2, "resolve_address")
    assert ended.document["errno"]["name"] == "ENETUNREACH"
    assert any("no route" in each for each in ended.document["causes"])


@pytest.mark.other_kernels(2)
def test_an_address_that_is_not_this_hosts_is_not_listened_at(
    port: Port, attempts: Attempts
) -> None:
    ended = attempts.start(*port.options, "--listen=203.0.113.9").end()
    assert ended.result() == (2, "call_failed", "bind")
    assert ended.document["errno"]["name"] == "EADDRNOTAVAIL"


@pytest.mark.sampled(2)
@pytest.mark.other_kernels(0)
def test_a_port_that_is_taken(port: Port, attempts: Attempts) -> None:
    one = listen(attempts, port, 4716)
    ended = attempts.start(*port.options, f"--listen={port.address}:4716").end(WAIT)
    assert ended.document["outcome"] == "call_failed"
    assert ended.document["errno"]["name"] == "EADDRINUSE"
    one.kill(signal.SIGINT)
    one.end(WAIT)


@pytest.mark.sampled(2)
@pytest.mark.other_kernels(0)
@pytest.mark.parametrize("fault", ["mode", "absent"])
def test_the_node_of_the_connection_manager_is_closed_or_gone(
    port: Port, rdmadiag_json: Any, fault: str
) -> None:
    node = "/dev/infiniband/rdma_cm"
    mode = os.stat(node).st_mode & 0o777
    if fault == "mode":
        os.chmod(node, 0o600)
    else:
        os.rename(node, f"{node}.away")
    try:
        code, document = rdmadiag_json("pingpong", *port.options, user=65534)
    finally:
        if fault == "mode":
            os.chmod(node, mode)
        else:
            os.rename(f"{node}.away", node)
    assert (code, document["outcome"], document["stage"]) == (2, "call_failed", "event_channel")
    assert document["errno"]["name"] == {"mode": "EACCES", "absent": "ENOENT"}[fault]
    assert [each["call"] for each in document["steps"]] == [f"open {node}"]


@pytest.mark.sampled(2)
def test_the_module_of_the_connection_manager_is_never_asked_for(
    port: Port, rdmadiag: Any, tmp_path: Any
) -> None:
    """Neither node nor netlink is opened where the node is not there: both load modules."""
    node = "/dev/infiniband/rdma_cm"
    os.rename(node, f"{node}.away")
    try:
        log = tmp_path / "strace"
        calls = "trace=open,openat,execve,init_module,finit_module"
        prefix = ("strace", "-f", "--seccomp-bpf", "-qq", "-e", calls, "-o", str(log))
        rdmadiag("pingpong", *port.options, prefix=prefix, timeout=300.0)
        traced = log.read_text()
    finally:
        os.rename(f"{node}.away", node)
    # Of the class and the module sysfs shows files, which load nothing.
    opened = [line for line in traced.splitlines() if f'"{node}"' in line]
    assert opened
    assert [line for line in opened if "ENOENT" not in line and "unfinished" not in line] == []
    assert "librdmacm" not in traced
    assert not re.search(r"modprobe|init_module", traced)


@pytest.mark.other_kernels(2)
def test_killed_in_the_middle_it_leaves_nothing(port: Port, attempts: Attempts) -> None:
    started = attempts.start(*port.options, "--iterations=10000", "--bytes=100000")
    child = started.child()
    assert until(lambda: cm_listeners() > 0, READY_SECONDS)
    started.kill()
    os.kill(child, signal.SIGKILL)
