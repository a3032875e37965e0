"""A job on this machine, a guest: ib_send_bw and a TCP copy, each of which says what it moved.

a launcher ─┬─ ib_send_bw --run_infinitely    messages of each second, by perftest itself
            └─ a copy by TCP at a pace        a line for each write: when, bytes so far
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.attempt import until
from lab.failure import EX_LATE, LabFailure
from lab.resources import queue_pair_states

MESSAGE = 65536
PERFTEST_PORT = 18515
TCP_PORT = 5001
SECONDS = 60.0

_ROW = re.compile(rb"^\s*65536\s+([0-9]+)(?:\s+[0-9.]+){3}\s*$", re.MULTILINE)
_SINK = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    peer, _ = server.accept()
    while peer.recv(1 << 16):
        pass
"""
_COPY = """
import socket, sys, time
to, port, rate, out = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
late = time.monotonic() + 30
while True:
    try:
        peer = socket.create_connection((to, port), timeout=30)
        break
    except OSError:  # it does not listen yet
        assert time.monotonic() < late
        time.sleep(0.2)
sent, start, data = 0, time.monotonic(), bytes(1 << 15)
with open(out, "w") as said:
    while True:
        peer.sendall(data)
        sent += len(data)
        said.write(f"{time.monotonic()} {sent}\\n")
        said.flush()
        time.sleep(max(0.0, start + sent / rate - time.monotonic()))
"""
_LAUNCHER = """
import json, subprocess, sys
for line in sys.stdin:
    argv, out = json.loads(line)
    null = subprocess.DEVNULL
    to = open(out, "wb") if out else null
    print(subprocess.Popen(argv, stdin=null, stdout=to, stderr=null).pid, flush=True)
"""


def sink(address: str) -> list[str]:
    """What takes a TCP copy."""
    return [sys.executable, "-c", _SINK, address, str(TCP_PORT)]


@dataclass
class MixedJob:
    """A launcher and what it has started."""

    process: "subprocess.Popen[str]"
    folder: Path
    started: list[int]

    @property
    def pid(self) -> int:
        """The launcher's."""
        return self.process.pid

    def start(self, argv: Sequence[str], out: str = "") -> int:
        """Start a child, whose output is the file `out`; its pid."""
        assert self.process.stdin
        assert self.process.stdout
        place = str(self.folder / out) if out else ""
        self.process.stdin.write(json.dumps([list(argv), place]) + "\n")
        self.process.stdin.flush()
        self.started.append(int(self.process.stdout.readline()))
        return self.started[-1]

    def copy(self, address: str, bytes_per_second: float) -> int:
        """A TCP copy to a sink."""
        out = str(self.folder / "tcp")
        words = (address, str(TCP_PORT), str(bytes_per_second), out)
        return self.start([sys.executable, "-c", _COPY, *words])

    def send_bw(self, peer: str = "") -> int:
        """One end of ib_send_bw on rxe0; the one with a peer sends, and counts."""
        base = ["stdbuf", "-oL", "ib_send_bw", "-d", "rxe0", "-x", "1", "-F", "-s", str(MESSAGE)]
        argv = [*base, "--run_infinitely", "-D", "1"]
        return self.start([*argv, peer] if peer else argv, "perftest" if peer else "")

    def wait_sending(self, states: Sequence[str]) -> None:
        """Until rxe0 has queue pairs in these states alone, and two seconds have been counted."""
        there = until(lambda: sorted(queue_pair_states("rxe0")) == sorted(states), SECONDS)
        if not (there and until(lambda: len(self.rounds()) >= 2, SECONDS)):
            written = self.folder / "perftest"
            said = written.read_bytes() if written.exists() else b""
            raise LabFailure(f"ib_send_bw counts nothing: {said.decode()}", EX_LATE)

    def rounds(self) -> list[int]:
        """Messages of each second so far, as perftest counted them."""
        written = self.folder / "perftest"
        raw = written.read_bytes() if written.exists() else b""
        return [int(each) for each in _ROW.findall(raw)]

    def copied(self) -> list[tuple[float, int]]:
        """Moments of time.monotonic, and the bytes that had been written by then."""
        written = self.folder / "tcp"
        rows = written.read_text().split("\n")[:-1] if written.exists() else []
        return [(float(when), int(sent)) for when, sent in map(str.split, rows)]


@contextmanager
def mixed_job(folder: Path, **variables: str) -> Iterator[MixedJob]:
    """A job that has started nothing yet; all that it starts ends with the block."""
    argv = [sys.executable, "-c", _LAUNCHER]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    ) as process:
        job = MixedJob(process, folder, [])
        try:
            yield job
        finally:
            for pid in reversed(job.started):
                os.kill(pid, 9)
            process.kill()


@dataclass(frozen=True)
class Rates:
    """What the job's own programs moved each second, in bytes."""

    rdma: float
    tcp: float

    @property
    def share(self) -> float:
        """Of RDMA."""
        return self.rdma / (self.rdma + self.tcp)


def rates(job: MixedJob, first_round: int, start: float, end: float) -> Rates:
    """Between two moments of time.monotonic; perftest's of whole seconds from then on."""
    if not until(lambda: len(job.rounds()) > first_round + 4, SECONDS):
        raise LabFailure("ib_send_bw has stopped counting", EX_LATE)
    rounds = job.rounds()[first_round:]
    rows = [each for each in job.copied() if start <= each[0] <= end]
    seconds = rows[-1][0] - rows[0][0]
    return Rates(
        sum(rounds) / len(rounds) * MESSAGE, (rows[-1][1] - rows[0][1]) / seconds if seconds else 0
    )


def now(job: MixedJob) -> tuple[int, float]:
    """Rounds so far, and the moment."""
    return len(job.rounds()), time.monotonic()
