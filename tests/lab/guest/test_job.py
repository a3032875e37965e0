"""`rdmadiag job` beside what perftest itself counted, on real mixes of ib_send_bw and a TCP copy.

a launcher ─┬─ ib_send_bw, server ┐ both on rxe0, by its own loopback: each packet is counted
            ├─ ib_send_bw, client ┘ as it is sent and as it is received
            └─ a TCP copy over near0 ─── far0, in another network namespace, no part of the job
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.command import run as run_command
from lab.mixed_job import (
    PERFTEST_PORT,
    SECONDS,
    MixedJob,
    answer,
    mixed_job,
    moved,
    sent_again,
    sink,
)
from lab.ports import wait_listening
from lab.rxe import Rxe

Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

INTERVAL = "4"
POINTS = 0.05
TCP_RATE = 3e6  # bytes in a second
OCTETS = Path("/sys/class/infiniband/rxe0/ports/1/counters/port_xmit_data")
FAR = "198.51.100.2"


@pytest.fixture
def far(rxe_pair: tuple[Rxe, Rxe]) -> Iterator[None]:
    """The other end of a TCP copy, which is no part of the job."""

    def do(*commands: str) -> None:
        for command in commands:
            done = run_command(command.split(), timeout=SECONDS)
            assert done.returncode == 0, f"{command}: {done.stderr}"

    do("ip netns add far", "ip link add near0 type veth peer name far0 netns far")
    try:
        do("ip address add 198.51.100.1/24 dev near0", "ip link set near0 up")
        do(f"ip -n far address add {FAR}/24 dev far0", "ip -n far link set far0 up")
        with subprocess.Popen(["ip", "netns", "exec", "far", *sink(FAR)]) as taking:
            try:
                yield
            finally:
                taking.kill()
    finally:
        do("ip link del near0", "ip netns del far")


@pytest.fixture
def tcp_diag(run: Run) -> None:
    """Where the kernel has it as a module, it is loaded by whoever looks after the host."""
    run(["modprobe", "tcp_diag"], timeout=60)


def send_bw(job: MixedJob) -> int:
    """Both ends of it; the server's pid. What only receives stays in RTR."""
    server = job.send_bw()
    wait_listening(PERFTEST_PORT, SECONDS)
    job.send_bw("127.0.0.1")
    job.wait_sending(["RTR", "RTS"])
    return server


@pytest.mark.other_kernels(0)
def test_the_share_is_that_of_perftests_own_bytes_and_of_the_copys(
    far: None, tcp_diag: None, tmp_path: Path, rdmadiag_json: Call
) -> None:
    with mixed_job(tmp_path) as job:
        job.copy(FAR, TCP_RATE)
        send_bw(job)
        document = answer(rdmadiag_json, str(job.pid), "--children", "--interval", INTERVAL)
        transport = document["transport"]
        theirs = moved(job, transport["began"], transport["seconds"])
    expected = 2 * theirs.rdma / (2 * theirs.rdma + theirs.tcp)  # both ends are the job's
    # rxe counts packets alone, until a kernel gives it port_xmit_data.
    bound = "counted" if OCTETS.exists() else "estimate"
    assert transport["rdma_bound"] == bound, json.dumps([document["ports"], transport])
    assert abs(transport["share_rdma"] - expected) < POINTS, (transport, theirs, sent_again())
    assert document["verdict"]["status"] == ("ok" if transport["share_rdma"] >= 0.9 else "warn")
    assert [(each["device"], each["port"]) for each in document["ports"]] == [("rxe0", 1)]
    assert document["states"] == {"rtr": 1, "rts": 1}
    (away,) = [each for each in document["tcp"] if not each["within_host"]]
    assert away["netdev"] == "near0"
    assert abs(away["interval_bytes"] / theirs.tcp - 1) < 0.1
    libraries = {each["name"] for one in document["job"]["processes"] for each in one["libraries"]}
    assert {"ibverbs", "rdmacm"} <= libraries


@pytest.mark.other_kernels(0)
def test_one_end_of_a_port_that_both_use_has_no_share(
    rxe_pair: tuple[Rxe, Rxe], tcp_diag: None, tmp_path: Path, rdmadiag_json: Call
) -> None:
    with mixed_job(tmp_path) as job:
        server = send_bw(job)
        document = answer(rdmadiag_json, str(server), "--interval", "2")
    assert document["transport"]["rdma_bound"] == "at_most"
    assert document["transport"]["share_rdma"]["why"] == "unsupported"
    assert [each["others"] for each in document["ports"]] == [1]
    assert document["verdict"]["reasons"] == ["no_tcp"]


@pytest.mark.other_kernels(0)
def test_a_job_by_tcp_alone_is_said_in_the_first_line_with_its_variable(
    far: None, tcp_diag: None, tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    with mixed_job(tmp_path, UCX_TLS="tcp") as job:
        copy = job.copy(FAR, 20e6)
        assert until(lambda: len(job.copied()) > 100, SECONDS)
        code, out, err = rdmadiag("job", str(copy), "--interval", "1")
    assert (code, err) == (1, "")
    first = out.splitlines()[0]
    assert first.startswith("WARN  all its bytes go by TCP over near0, because ")
    assert "perhaps because UCX_TLS=tcp" in out, "no library of UCX is mapped here"


@pytest.mark.other_kernels(0)
def test_another_users_process_is_not_known_and_never_without_rdma(
    far: None, tcp_diag: None, tmp_path: Path, rdmadiag_json: Call
) -> None:
    with mixed_job(tmp_path) as job:
        copy = job.copy(FAR, 2e6)
        assert until(lambda: len(job.copied()) > 2, SECONDS)
        code, document = rdmadiag_json("job", str(copy), "--interval", "1", user=65534)
    assert (code, document["verdict"]["status"]) == (3, "unknown")
    assert document["verdict"]["reasons"] == ["tcp_unknown"]
    assert document["tcp"]["why"] == "denied"


@pytest.mark.needs("modules")
def test_a_module_that_is_not_there_is_not_loaded_and_named(
    far: None, tmp_path: Path, rdmadiag_json: Call, run: Run
) -> None:
    run(["modprobe", "-r", "tcp_diag", "inet_diag"], timeout=60)
    with mixed_job(tmp_path) as job:
        copy = job.copy(FAR, 2e6)
        assert until(lambda: len(job.copied()) > 2, SECONDS)
        code, document = rdmadiag_json("job", str(copy), "--interval", "1")
    assert code == 1
    assert document["verdict"]["reasons"] == ["tcp", "tcp_unknown"]
    assert "tcp_diag is not loaded" in document["verdict"]["answer"]
    assert not Path("/sys/module/tcp_diag").exists()
