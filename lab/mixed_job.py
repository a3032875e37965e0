"""A job on this machine, a guest: ib_send_bw and a TCP copy, and when each had sent how much.

    a launcher ─┬─ ib_send_bw for LASTS seconds: at its end it says how many messages it sent
                └─ a copy by TCP, which writes down when it had sent how much

Its messages are followed by rxe's own count of them, which `rates` holds against what perftest
says. No average of perftest's is used: in User Mode Linux it prints 0.
"""

import json
import os
import re
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from lab.attempt import until
from lab.failure import EX_LATE, LabFailure
from lab.resources import queue_pair_states

# Few packets on their way at a time: the cable between two guests loses what comes in bursts, and
# counters of ports count what is sent again, too.
MESSAGE, DEPTH = 8192, 4
TIMEOUT = "18"  # a second: on a busy machine an acknowledgement may be long on its way
LASTS = 40  # seconds; a busy machine is slow to look
PERFTEST_PORT = 18515
TCP_PORT = 5001
SECONDS = 60.0

_ATTEMPTS = 4

_SENDS = Path("/sys/class/infiniband/rxe0/ports/1/hw_counters/rdma_sends")
_ROW = re.compile(rb"^\s*%d\s+([0-9]+)(?:\s+[0-9.]+){3}\s*$" % MESSAGE, re.MULTILINE)
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
        said.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME)} {sent}\\n")
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
    started: list[int] = field(default_factory=list)
    sends: list[tuple[float, float]] = field(default_factory=list)  # moments, messages

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
        base = ["ib_send_bw", "-d", "rxe0", "-x", "1", "-F", "-s", str(MESSAGE), "-Q", "1"]
        argv = [*base, "-t", str(DEPTH), "-u", TIMEOUT, "-D", str(LASTS), "-f", "0"]
        return self.start([*argv, peer] if peer else argv, "perftest" if peer else "")

    def follow(self) -> None:
        """Note how many messages rxe0 has sent by when."""
        while self.process.poll() is None:
            count = int(_SENDS.read_text()) if _SENDS.exists() else 0
            self.sends.append((time.clock_gettime(time.CLOCK_BOOTTIME), float(count)))
            time.sleep(0.05)

    def wait_sending(self, states: Sequence[str]) -> None:
        """Until rxe0 has queue pairs in these states alone, and for two seconds more."""
        if not until(lambda: sorted(queue_pair_states("rxe0")) == sorted(states), SECONDS):
            raise LabFailure(f"ib_send_bw does not send: {self._said()!r}", EX_LATE)
        time.sleep(2.0)

    def messages(self) -> int:
        """As many as perftest sent, once it has ended and said so."""
        if not until(lambda: bool(_ROW.search(self._said())), SECONDS):
            raise LabFailure(f"ib_send_bw has not ended: {self._said()!r}", EX_LATE)
        found = _ROW.search(self._said())
        assert found
        return int(found[1])

    def _said(self) -> bytes:
        written = self.folder / "perftest"
        return written.read_bytes() if written.exists() else b""

    def copied(self) -> list[tuple[float, float]]:
        """Moments, and the bytes that had been written by then."""
        written = self.folder / "tcp"
        rows = written.read_text().split("\n")[:-1] if written.exists() else []
        return [(float(when), float(sent)) for when, sent in map(str.split, rows)]


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
        job = MixedJob(process, folder)
        Thread(target=job.follow, daemon=True).start()
        try:
            yield job
        finally:
            for pid in reversed(job.started):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
            process.kill()


@dataclass(frozen=True)
class Moved:
    """What the job's own programs sent, in bytes."""

    rdma: float
    tcp: float

    @property
    def share(self) -> float:
        """Of RDMA."""
        return self.rdma / (self.rdma + self.tcp)


def moved(job: MixedJob, began: float, seconds: float) -> Moved:
    """Within `seconds` from a moment of CLOCK_BOOTTIME on.

    LabFailure where perftest sent another number of messages than rxe counted, in all.
    """
    own, rxe = job.messages(), job.sends[-1][1] - job.sends[0][1]
    if abs(own / rxe - 1) > 0.02:
        raise LabFailure(f"perftest sent {own} messages, and rxe counted {rxe:.0f}")
    rdma, tcp = (
        _at(rows, began + seconds) - _at(rows, began) for rows in (job.sends, job.copied())
    )
    return Moved(rdma * MESSAGE, tcp)


def _at(rows: Sequence[tuple[float, float]], moment: float) -> float:
    after = bisect_left(rows, (moment, 0.0))
    if not 0 < after < len(rows):
        raise LabFailure(f"nothing was counted about {moment:.1f} s: {rows[:1]} {rows[-1:]}")
    (first, low), (second, high) = rows[after - 1 : after + 1]
    return low + (high - low) * (moment - first) / (second - first)


def answer(call: Callable[..., tuple[int, Any]], *argv: str) -> Any:
    """A document with a share: on a busy machine a command may be late, which shows nothing."""
    for _ in range(_ATTEMPTS):
        _, document = call("job", *argv, "--exit-zero", "--timeout", "30")
        share = document["transport"]["share_rdma"]
        if not isinstance(share, dict) or share["why"] != "timeout":
            return document
    raise LabFailure(f"no share: {document['transport']}", EX_LATE)


def sent_again() -> str:
    """What rxe0 counts of packets that were lost or late, for the message of a failure."""
    folder = Path("/sys/class/infiniband/rxe0/ports/1/hw_counters")
    found = {each.name: each.read_text().strip() for each in sorted(folder.iterdir())}
    return " ".join(f"{name}={value}" for name, value in found.items() if value != "0")
