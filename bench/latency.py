"""Half round trips, READs and windows over RC on one device: ours beside the peers', on the guest.

`measure` runs inside the emulated host, `section` makes the table of what it found.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.child import CouldNotRun
from bench.pairs import median, ratio
from bench.table import Section, code, limit, spread
from rdmadiag.cli.meeting import TCP_PORT

BYTES = "64"
ITERATIONS = "1000"
PEERS_PORT = 18515  # of perftest and of ibv_rc_pingpong
SECONDS = 90.0  # for one program on an emulated processor

TWO = "rdmadiag pingpong, two processes"
ONE = "rdmadiag pingpong, both ends in one process"
SEND_LAT = "ib_send_lat -s 64"
RC_PINGPONG = "ibv_rc_pingpong -e -s 64"

WRITE_LAT = "ib_write_lat -s 64"
READ_LAT = "ib_read_lat -s 64"
WRITE_BW = "ib_write_bw -s 1048576"
BY_WRITE = "rdmadiag pingpong --op write"
BY_READ = "rdmadiag pingpong --op read"
WINDOW = "rdmadiag pingpong --op write --bandwidth"

LIMITS = {
    (TWO, SEND_LAT): 1.3,
    (TWO, RC_PINGPONG): 1.0,
    (ONE, SEND_LAT): None,
    (ONE, RC_PINGPONG): None,
    (BY_WRITE, WRITE_LAT): 1.2,
    (BY_READ, READ_LAT): 1.2,
    (WINDOW, WRITE_BW): 1.11,  # of the time of a buffer: 0.9 of the bandwidth
}
"""What stands beside what, and the most that it may be."""

INLINE = "64"  # of both: perftest puts other sizes inline for each program
DEPTH = "64"
MIB = 1 << 20
BUFFERS = "100"  # of a MiB
WINDOW_SECONDS = "2"

Figures = dict[str, list[float]]


def measure(rounds: int) -> tuple[Figures, list[str]]:
    """Microseconds, one a round, of all programs in turn; and what could not run."""
    programs = {
        SEND_LAT: _send_lat,
        TWO: _two,
        RC_PINGPONG: _rc_pingpong,
        ONE: _one,
        WRITE_LAT: lambda: _lat("ib_write_lat", "-I", INLINE),
        BY_WRITE: lambda: _between("--op", "write", "--inline", INLINE),
        READ_LAT: lambda: _lat("ib_read_lat"),
        BY_READ: lambda: _between("--op", "read"),
        WRITE_BW: _write_bw,
        WINDOW: _window,
    }
    figures: Figures = {name: [] for name in programs}
    failures: list[str] = []
    for _ in range(1 + rounds):  # the first is not counted
        for name, program in programs.items():
            try:
                figures[name].append(program())
            except (CouldNotRun, OSError, subprocess.TimeoutExpired) as error:
                failures.append(f"{name}: {error}")
                return {}, failures
    return {name: found[1:] for name, found in figures.items()}, failures


def section(figures: Mapping[str, Sequence[float]], failures: Sequence[str]) -> Section:
    """The table."""
    made = Section(
        "Half round trips",
        f"On the same emulated host: {BYTES} bytes, RC, both ends on one soft RoCE device, "
        f"{ITERATIONS} iterations. Medians of each program's own figures; `ibv_rc_pingpong` prints "
        "a mean alone. The peers run as two processes on two CPUs, as ours does with `--listen`; "
        "without a peer both of our ends share a thread, so that nothing overlaps. A READ is timed "
        f"whole. Of a window it is the time of a buffer of 1 MiB, with a queue of {DEPTH}.",
        ("program", "beside", "ratio", "limit", "holds", "µs", "µs beside"),
    )
    made.failures += failures
    for (ours, theirs), most in LIMITS.items():
        if not figures.get(ours) or not figures.get(theirs):
            continue
        found = ratio(figures[ours], figures[theirs])
        mine, other = (f"{median(figures[name]):.1f}" for name in (ours, theirs))
        made.rows.append(
            (ours, code(theirs), spread(found), *limit(found.median, most), mine, other)
        )
    return made


# --- the programs ------------------------------------------------------------------------


def _send_lat() -> float:
    return _lat("ib_send_lat")


def _lat(program: str, *more: str) -> float:
    """t_typical, the median."""
    return float(_perftest(program, "-s", BYTES, "-n", ITERATIONS, *more)[4])


def _write_bw() -> float:
    """µs of a buffer, by the average."""
    more = ("-n", BUFFERS, "-t", DEPTH, "--report_gbits")
    return _per_buffer(float(_perftest("ib_write_bw", "-s", str(MIB), *more)[3]))


def _per_buffer(gbps: float) -> float:
    if gbps <= 0:
        raise CouldNotRun("no bandwidth")
    return MIB * 8 / gbps / 1e3


def _perftest(program: str, *more: str) -> list[str]:
    """The columns of its result."""
    argv = [program, "-d", "rxe0", "-x", "1", "-F", *more]
    printed = _pair(argv, [*argv, "127.0.0.1"], PEERS_PORT)
    size = more[more.index("-s") + 1]
    rows = [line.split() for line in printed.splitlines() if line.strip().startswith(size)]
    if not rows:
        raise CouldNotRun("no line of results")
    return rows[-1]


def _rc_pingpong() -> float:
    """Half of what it calls an iteration."""
    argv = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-e", "-s", BYTES, "-n", ITERATIONS]
    found = re.search(r"([0-9.]+) usec/iter", _pair(argv, [*argv, "127.0.0.1"], PEERS_PORT))
    if not found:
        raise CouldNotRun("no line of results")
    return float(found[1]) / 2


def _ours(*rest: str, size: str = BYTES, iterations: str = ITERATIONS) -> list[str]:
    program = str(Path(sys.executable).parent / "rdmadiag")
    argv = [program, "pingpong", "--allow-rtr", "--device", "rxe0", "--bytes", size]
    return [*argv, "--iterations", iterations, "--deadline", "60", "--json", *rest]


def _two() -> float:
    return _between()


def _between(*options: str) -> float:
    server, client = _ours("--listen", "127.0.0.1", *options), _ours("127.0.0.1", *options)
    return _median(_pair(server, client, TCP_PORT))


def _window() -> float:
    """µs of a buffer."""
    options = ("--op", "write", "--bandwidth", WINDOW_SECONDS, "--sq-depth", DEPTH)
    server, client = (
        _ours(*where, *options, size=str(MIB), iterations="1")
        for where in (("--listen", "127.0.0.1"), ("127.0.0.1",))
    )
    document = json.loads(_pair(server, client, TCP_PORT) or "{}")
    found = document.get("bandwidth")
    if not found:
        raise CouldNotRun(document.get("summary", "it printed nothing"))
    return _per_buffer(found["gbps"])


def _one() -> float:
    done = subprocess.run(_ours(), capture_output=True, text=True, timeout=SECONDS, check=False)
    return _median(done.stdout)


def _median(printed: str) -> float:
    document = json.loads(printed or "{}")
    latency = document.get("latency_us")
    if not latency:
        raise CouldNotRun(document.get("summary", "it printed nothing"))
    return float(latency["median"])


def _pair(server: Sequence[str], client: Sequence[str], port: int) -> str:
    """What the client prints, started once the server listens there."""
    from lab.ports import wait_listening

    with subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as waiting:
        try:
            wait_listening(port, SECONDS)
            done = subprocess.run(
                client, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            waiting.wait(timeout=SECONDS)
        finally:
            waiting.kill()
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CouldNotRun(": ".join((f"exit code {done.returncode}", *said[-1:])))
    return done.stdout
