"""Half round trips of 64 bytes over RC on one device: ours beside the peers', on the guest.

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

LIMITS = {(TWO, SEND_LAT): 1.3, (TWO, RC_PINGPONG): 1.0}

Figures = dict[str, list[float]]


def measure(rounds: int) -> tuple[Figures, list[str]]:
    """Microseconds, one a round, of all programs in turn; and what could not run."""
    programs = {
        SEND_LAT: _send_lat,
        TWO: _two,
        RC_PINGPONG: _rc_pingpong,
        ONE: _one,
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
        "without a peer both of our ends share a thread, so that nothing overlaps.",
        ("program", "beside", "ratio", "limit", "holds", "µs", "µs beside"),
    )
    made.failures += failures
    for ours in (TWO, ONE):
        for theirs in (SEND_LAT, RC_PINGPONG):
            if not figures.get(ours) or not figures.get(theirs):
                continue
            found = ratio(figures[ours], figures[theirs])
            most = LIMITS.get((ours, theirs))
            mine, other = (f"{median(figures[name]):.1f}" for name in (ours, theirs))
            made.rows.append(
                (ours, code(theirs), spread(found), *limit(found.median, most), mine, other)
            )
    return made


# --- the programs ------------------------------------------------------------------------


def _send_lat() -> float:
    """t_typical, the median."""
    argv = ["ib_send_lat", "-d", "rxe0", "-x", "1", "-s", BYTES, "-n", ITERATIONS, "-F"]
    printed = _pair(argv, [*argv, "127.0.0.1"], PEERS_PORT)
    rows = [line.split() for line in printed.splitlines() if line.strip().startswith(BYTES)]
    if not rows:
        raise CouldNotRun("no line of results")
    return float(rows[-1][4])


def _rc_pingpong() -> float:
    """Half of what it calls an iteration."""
    argv = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-e", "-s", BYTES, "-n", ITERATIONS]
    found = re.search(r"([0-9.]+) usec/iter", _pair(argv, [*argv, "127.0.0.1"], PEERS_PORT))
    if not found:
        raise CouldNotRun("no line of results")
    return float(found[1]) / 2


def _ours(*rest: str) -> list[str]:
    program = str(Path(sys.executable).parent / "rdmadiag")
    argv = [program, "pingpong", "--allow-rtr", "--device", "rxe0", "--bytes", BYTES]
    return [*argv, "--iterations", ITERATIONS, "--deadline", "60", "--json", *rest]


def _two() -> float:
    return _median(_pair(_ours("--listen", "127.0.0.1"), _ours("127.0.0.1"), TCP_PORT))


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
