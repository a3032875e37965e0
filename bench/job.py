"""explain --log of all ranks of a job beside grep with 20 alternatives, and its memory.

Each rank's log is what `bench.explain` writes, with that rank's own names in it.
"""

import os

from bench.child import Command, CouldNotRun
from bench.commands import rdmadiag
from bench.explain import ALTERNATIVES, FAILED, FAILURE, SECONDS, write_log
from bench.pairs import in_turn, median, ratio
from bench.table import MB, Section, code, limit, mb, ms, spread

RANKS = 1_000
MIB_EACH = 10
MOST_RATIO = 2.0  # of wall time
MOST_MB = 300.0


def job(folder: str, rounds: int, ranks: int) -> Section:
    """So many ranks, a file each."""
    section = Section(
        "explain --log of a job",
        f"{ranks} logs of {MIB_EACH} MiB, one a rank, of what one log has above; in turn, wall "
        "time, median of the ratios of neighbouring runs (least to most). Peak memory is wait4's.",
        ("command", "beside", "ratio", "limit", "holds", "ms", "ms beside"),
    )
    logs = os.path.join(folder, "job")
    try:
        write_job(logs, ranks)
        ours = rdmadiag("explain", "--json", "--log", logs, name=f"rdmadiag explain, {ranks} logs")
        ours = Command(ours.name, ours.argv, FAILED)
        counting = ("sh", "-c", 'exec grep -rcE "$1" "$2" >"$2.count"', "sh")
        theirs = Command("grep -rcE, 20 alternatives", (*counting, "|".join(ALTERNATIVES), logs))
        costs = in_turn((ours, theirs), rounds, SECONDS)
        left, right = ([cost.wall for cost in costs[each]] for each in (ours, theirs))
        found = ratio(left, right)
        section.rows.append(
            (
                code(ours.name),
                code(theirs.name),
                spread(found),
                *limit(found.median, MOST_RATIO),
                ms(median(left)),
                ms(median(right)),
            )
        )
        peak = max(cost.peak for cost in costs[ours])
        held = limit(peak / MB, MOST_MB, " MB")
        section.rows.append((code(ours.name), "peak", f"{mb(peak)} MB", *held, "", ""))
    except (CouldNotRun, OSError) as failure:
        section.failures.append(str(failure))
    finally:
        _remove(logs)
    return section


def write_job(logs: str, ranks: int) -> None:
    """A file a rank; the last line of each is its failure, under its own name."""
    os.mkdir(logs)
    first = os.path.join(logs, "rank0.log")
    write_log(first, MIB_EACH)
    with open(first, "rb") as file:
        body = file.read().removesuffix(FAILURE)
    for rank in range(ranks):
        failure = FAILURE.replace(b"node07:811", b"node%03d:%d" % (rank // 8, 8000 + rank))
        with open(os.path.join(logs, f"rank{rank}.log"), "wb") as file:
            file.write(body)
            file.write(b"[2026-03-13 22:27:%02d] " % (rank % 60) + failure)


def _remove(logs: str) -> None:
    if os.path.isdir(logs):
        for name in os.listdir(logs):
            os.unlink(os.path.join(logs, name))
        os.rmdir(logs)
    if os.path.exists(f"{logs}.count"):
        os.unlink(f"{logs}.count")
