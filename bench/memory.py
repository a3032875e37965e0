"""Peak memory of rdmadiag and of the processes it starts, on the largest generated host.

Runs of their own, never timed: while one runs, /proc is read again and again.
"""

import os
import time
from dataclasses import dataclass, field
from itertools import product

from bench.child import KIB, Command, CouldNotRun, measure, own_peak, start, stop
from bench.growth import SERIES, command
from bench.table import MB, Section, code, limit, mb
from bench.trees import FILLED, GIDS, SIZES, Tree

SECONDS = 60.0  # for one run
PAUSE_SECONDS = 0.002  # between two looks
MOST_MB = 120.0


@dataclass
class Watched:
    """What was seen of one run, in bytes."""

    highest: dict[int, int] = field(default_factory=dict)  # pid → VmHWM when last seen
    together: int = 0  # PSS of all of them, at most


def memory(folder: str) -> Section:
    """The largest host, each series, GID tables nearly empty and full."""
    hcas = SIZES[-1]
    section = Section(
        "Memory",
        f"{hcas} HCAs, one run each. MB is 10^6 bytes. rdmadiag reads a recorded host in its own "
        "process. *Largest* is the resident peak that wait4 gives: the maximum over the process "
        "and the children it has waited for, not their sum. *Parent* and *largest child* are VmHWM "
        "and *together* the sum of PSS (each shared page counted once), looked up in /proc every "
        f"{PAUSE_SECONDS * 1000:g} ms of another run: a peak shorter than that is missed. "
        f"No figure of wait4 can be below the {mb(own_peak())} MB of the bench itself.",
        (
            "command",
            "tree",
            "GIDs in use",
            "largest, MB",
            "limit",
            "holds",
            "parent",
            "largest child",
            "together",
            "together holds",
        ),
    )
    for filled, (name, kind) in product(FILLED, SERIES):
        measured = command(name, Tree(kind, hcas, filled), folder)
        try:
            largest = measure(measured, SECONDS).peak
            parent, child, together = watch(measured)
        except CouldNotRun as failure:
            section.failures.append(str(failure))
            continue
        section.rows.append(
            (
                code(f"{name} --json"),
                kind,
                f"{filled} of {GIDS}",
                mb(largest),
                *limit(largest / MB, MOST_MB, " MB"),
                mb(parent),
                mb(child) if child else "none",
                mb(together),
                limit(together / MB, MOST_MB)[1],
            )
        )
    return section


def watch(command: Command) -> tuple[int, int, int]:
    """VmHWM of the parent and of its largest child, and the highest sum of PSS; bytes."""
    late = time.monotonic() + SECONDS
    pid = start(command)
    seen = Watched()
    strangers: set[int] = set()
    try:
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > late:
                raise CouldNotRun(f"{command.name}: no end within {SECONDS:g} s")
            _look(pid, seen, strangers)
            time.sleep(PAUSE_SECONDS)
    finally:
        stop(pid)
    children = [peak for each, peak in seen.highest.items() if each != pid]
    return seen.highest.get(pid, 0), max(children, default=0), seen.together


def _look(pid: int, seen: Watched, strangers: set[int]) -> None:
    pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
    strangers &= pids
    together = 0
    for each in pids - strangers:
        if _group(each) != pid:
            strangers.add(each)
            continue
        seen.highest[each] = max(seen.highest.get(each, 0), _kib(each, "status", "VmHWM"))
        together += _kib(each, "smaps_rollup", "Pss")
    seen.together = max(seen.together, together)


def _group(pid: int) -> int:
    """The process group; 0 if the process is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _kib(pid: int, file: str, key: str) -> int:
    """`KEY:  N kB` of a file of /proc/PID, in bytes; 0 if the process is gone."""
    try:
        with open(f"/proc/{pid}/{file}", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(f"{key}:"):
                    return int(line.split()[1]) * KIB
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0
