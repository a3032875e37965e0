"""`rdmadiag job` beside what perftest itself counted, on real mixes of ib_send_bw and a TCP copy.

a launcher ── ib_send_bw, server ┐ both on rxe0, by its own loopback: each packet is counted
           ├─ ib_send_bw, client ┘ as it is sent and as it is received
           └─ a TCP copy over near0 ─── far0, in another network namespace, no part of the job
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.command import run as run_command
from lab.ports import wait_listening
from lab.resources import queue_pair_states
from lab.rxe import Rxe

Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]

SECONDS = 30.0
INTERVAL = "4"
PERFTEST_PORT = 18515
TCP_PORT = 5001
MESSAGE = 65536
POINTS = 0.05
OCTETS = Path("/sys/class/infiniband/rxe0/ports/1/counters/port_xmit_data")
FAR = "198.51.100.2"
ROW = re.compile(rb"^\s*65536\s+([0-9]+)(?:\s+[0-9.]+){3}\s*$", re.MULTILINE)  # each second

SINK = f"""
import socket
server = socket.create_server(("{FAR}", {TCP_PORT}))
while True:
    peer, _ = server.accept()
    while peer.recv(1 << 16):
        pass
"""
# At a pace, so that neither starves the other; what it sent stands in a file, with the time.
COPY = f"""
import socket, sys, time
late = time.monotonic() + 30
while True:
    try:
        peer = socket.create_connection(("{FAR}", {TCP_PORT}), timeout=30)
        break
    except OSError:  # it does not listen yet
        assert time.monotonic() < late
        time.sleep(0.2)
sent, start, data = 0, time.monotonic(), bytes(1 << 15)
with open(sys.argv[1], "w") as out:
    while True:
        peer.sendall(data)
        sent += len(data)
        out.write(f"{{time.monotonic()}} {{sent}}\\n")
        out.flush()
        time.sleep(max(0.0, start + sent / float(sys.argv[2]) - time.monotonic()))
"""
# The parent of all: it starts what it is told to, a line of JSON each, and says their pids.
LAUNCHER = """
import json, os, subprocess, sys
for line in sys.stdin:
    argv, out = json.loads(line)
    null = subprocess.DEVNULL
    to = open(out, "wb") if out else null
    print(subprocess.Popen(argv, stdin=null, stdout=to, stderr=null).pid, flush=True)
"""


@dataclass
class Launched:
    """A launcher and what it has started."""

    process: "subprocess.Popen[str]"
    folder: Path
    started: list[int]

    def start(self, *argv: str, out: str = "") -> int:
        assert self.process.stdin
        assert self.process.stdout
        place = str(self.folder / out) if out else ""
        self.process.stdin.write(json.dumps([argv, place]) + "\n")
        self.process.stdin.flush()
        self.started.append(int(self.process.stdout.readline()))
        return self.started[-1]

    def copy(self, rate: float) -> int:
        return self.start(sys.executable, "-c", COPY, str(self.folder / "tcp"), str(rate))

    def send_bw(self) -> tuple[int, int]:
        base = ["stdbuf", "-oL", "ib_send_bw", "-d", "rxe0", "-x", "1", "-F", "-s", str(MESSAGE)]
        argv = [*base, "--run_infinitely", "-D", "1"]
        first = self.start(*argv)
        wait_listening(PERFTEST_PORT, SECONDS)
        second = self.start(*argv, "127.0.0.1", out="perftest")
        # What only receives stays in RTR (ctx_connect of perftest).
        assert until(lambda: sorted(queue_pair_states("rxe0")) == ["RTR", "RTS"], SECONDS)
        said = self.folder / "perftest"
        assert until(lambda: len(self.rounds()) >= 2, SECONDS), said.read_bytes()
        return first, second

    def rounds(self) -> list[int]:
        """Messages of each second, as the client counted them."""
        return [int(each) for each in ROW.findall((self.folder / "perftest").read_bytes())]

    def copied(self) -> list[tuple[float, int]]:
        written = self.folder / "tcp"
        rows = (written.read_text() if written.exists() else "").split("\n")[:-1]
        return [(float(when), int(sent)) for when, sent in map(str.split, rows)]


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
        argv = ["ip", "netns", "exec", "far", sys.executable, "-c", SINK]
        with subprocess.Popen(argv) as sink:
            try:
                yield
            finally:
                sink.kill()
    finally:
        do("ip link del near0", "ip netns del far")


@contextmanager
def launcher(folder: Path, **variables: str) -> Iterator[Launched]:
    argv = [sys.executable, "-c", LAUNCHER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = os.environ | variables
    with subprocess.Popen(argv, env=environment, **pipes) as process:  # type: ignore[call-overload]
        job = Launched(process, folder, [])
        with ExitStack() as stack:
            stack.callback(process.kill)
            try:
                yield job
            finally:
                for pid in reversed(job.started):
                    os.kill(pid, 9)


def counted(run: Callable[..., Any]) -> None:
    """Where the kernel has it as a module, it is loaded by whoever looks after the host."""
    run(["modprobe", "tcp_diag"], timeout=60)


@pytest.mark.parametrize("rate", [2e6, 20e6], ids=["a little TCP", "much TCP"])
def test_the_share_is_that_of_perftests_own_bytes_and_of_the_copys(
    far: None, tmp_path: Path, rdmadiag_json: Call, run: Callable[..., Any], rate: float
) -> None:
    counted(run)
    with launcher(tmp_path) as job:
        job.copy(rate)
        job.send_bw()
        before, start = len(job.rounds()), time.monotonic()
        code, document = rdmadiag_json(
            "job", str(job.process.pid), "--children", "--interval", INTERVAL, "--exit-zero"
        )
        end = time.monotonic()
        assert until(lambda: len(job.rounds()) > before + 4, SECONDS)
        rounds = job.rounds()[before:]
        rows = [each for each in job.copied() if start <= each[0] <= end]
    per_second = sum(rounds) / len(rounds) * MESSAGE * 2  # both ends are the job's
    tcp_per_second = (rows[-1][1] - rows[0][1]) / (rows[-1][0] - rows[0][0])
    expected = per_second / (per_second + tcp_per_second)
    transport = document["transport"]
    assert code == 0, document["verdict"]
    # rxe counts packets alone, until a kernel gives it port_xmit_data.
    bound = "counted" if OCTETS.exists() else "estimate"
    assert transport["rdma_bound"] == bound, json.dumps([document["ports"], transport])
    assert abs(transport["share_rdma"] - expected) < POINTS, (transport, per_second, tcp_per_second)
    assert document["verdict"]["status"] == ("ok" if transport["share_rdma"] >= 0.9 else "warn")
    assert [(each["device"], each["port"]) for each in document["ports"]] == [("rxe0", 1)]
    assert document["states"] == {"rtr": 1, "rts": 1}
    (away,) = [each for each in document["tcp"] if not each["within_host"]]
    assert away["netdev"] == "near0"
    assert abs(away["interval_bytes"] / transport["seconds"] / tcp_per_second - 1) < 0.25
    libraries = {each["name"] for one in document["job"]["processes"] for each in one["libraries"]}
    assert {"ibverbs", "rdmacm"} <= libraries


def test_one_end_of_a_port_that_both_use_has_no_share(
    far: None, tmp_path: Path, rdmadiag_json: Call, run: Callable[..., Any]
) -> None:
    counted(run)
    with launcher(tmp_path) as job:
        server, _ = job.send_bw()
        _, document = rdmadiag_json("job", str(server), "--interval", "2", "--exit-zero")
    assert document["transport"]["rdma_bound"] == "at_most"
    assert document["transport"]["share_rdma"]["why"] == "unsupported"
    assert [each["others"] for each in document["ports"]] == [1]
    assert document["verdict"]["reasons"] == ["no_tcp"]


def test_a_job_by_tcp_alone_is_said_in_the_first_line_with_its_variable(
    far: None, tmp_path: Path, rdmadiag: Rdmadiag, run: Callable[..., Any]
) -> None:
    counted(run)
    with launcher(tmp_path, UCX_TLS="tcp") as job:
        copy = job.copy(20e6)
        assert until(lambda: len(job.copied()) > 100, SECONDS)
        code, out, err = rdmadiag("job", str(copy), "--interval", "1")
    assert (code, err) == (1, "")
    first = out.splitlines()[0]
    assert first.startswith("WARN  all its bytes go by TCP over near0, because ")
    assert "perhaps because UCX_TLS=tcp" in out, "no library of UCX is mapped here"


def test_another_users_process_is_not_known_and_never_without_rdma(
    far: None, tmp_path: Path, rdmadiag_json: Call, run: Callable[..., Any]
) -> None:
    counted(run)
    with launcher(tmp_path) as job:
        copy = job.copy(2e6)
        assert until(lambda: len(job.copied()) > 2, SECONDS)
        code, document = rdmadiag_json("job", str(copy), "--interval", "1", user=65534)
    assert (code, document["verdict"]["status"]) == (3, "unknown")
    assert document["verdict"]["reasons"] == ["tcp_unknown"]
    assert document["tcp"]["why"] == "denied"


@pytest.mark.needs("modules")
def test_a_module_that_is_not_there_is_not_loaded_and_named(
    far: None, tmp_path: Path, rdmadiag_json: Call, run: Callable[..., Any]
) -> None:
    run(["modprobe", "-r", "tcp_diag", "inet_diag"], timeout=60)
    with launcher(tmp_path) as job:
        copy = job.copy(2e6)
        assert until(lambda: len(job.copied()) > 2, SECONDS)
        code, document = rdmadiag_json("job", str(copy), "--interval", "1")
    assert code == 1
    assert document["verdict"]["reasons"] == ["tcp", "tcp_unknown"]
    assert "tcp_diag is not loaded" in document["verdict"]["answer"]
    assert not Path("/sys/module/tcp_diag").exists()
