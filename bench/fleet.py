"""fleet merge on ten thousand reports, as a file, a folder and what srun -l prints, beside jq -s;
and on the outcomes of five rounds of pairs.

Every host has a report of its own, made of recorded ones by planted changes
(bench/fleet_reports.py).
"""

import os
import shutil
from collections.abc import Iterable

from bench.child import Command, CouldNotRun, measure
from bench.commands import rdmadiag
from bench.fleet_reports import outcomes, reports
from bench.table import MB, Section, code, factor, limit, mb

SECONDS = 600.0  # for one run
FEW, MANY = 1_000, 10_000
MOST_SECONDS = 10.0
MOST_MB = 500.0
MOST_GROWTH = 1.3  # of the time for a report, beside that of a tenth of them
CODES = frozenset({0, 2, 3})  # hosts without a report are unknown
ROUNDS = 5
OF_PAIRS = "outcomes of pairs"
PIECE = 1024  # bytes: slurmstepd's MAX_MSG_LEN
JQ = "map(.verdict.status) | group_by(.) | map({(.[0]): length}) | add"


def fleet(folder: str) -> Section:
    """Each form once after one that is not counted."""
    section = Section(
        "fleet merge",
        f"{MANY:,} reports of 35 KB (25 at least), of which one in a hundred is critical, two "
        "have another kernel and two another firmware; wall time of one run after one that is "
        "not counted, peak memory as wait4 has it. Growth is the time of one beside that "
        f"with {FEW:,}, less what the start takes. Of pairs it is {ROUNDS} rounds of as many "
        "hosts, of which both ends print what came of it. `jq -s` reads the same file as the "
        "first row and counts the statuses alone.",
        (
            "command",
            "of",
            "s",
            "limit",
            "holds",
            "MB",
            "limit",
            "holds",
            "growth",
            "limit",
            "holds",
        ),
    )
    try:
        for name in ("a file of lines", "a folder", "srun -l", OF_PAIRS):
            section.rows.append(_row(name, folder))
        section.rows.append(_beside(folder))
    except (CouldNotRun, OSError) as failure:
        section.failures.append(str(failure))
    return section


def _row(name: str, folder: str) -> tuple[str, ...]:
    costs = {}
    for number in (FEW, MANY):
        path = os.path.join(folder, "fleet")
        try:
            _write(name, path, number)
            argv = ("fleet", "merge", path, "--json")
            ours = rdmadiag(*argv, name=f"rdmadiag fleet merge, {name}")
            ours = Command(ours.name, ours.argv, CODES)
            measure(ours, SECONDS)
            costs[number] = measure(ours, SECONDS)
        finally:
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    start = measure(rdmadiag("--version"), SECONDS).wall
    few, many = ((costs[each].wall - start) / each for each in (FEW, MANY))
    wall, peak = costs[MANY].wall, costs[MANY].peak / MB
    return (
        code(ours.name),
        f"{MANY:,}",
        f"{wall:.1f}",
        *limit(wall, MOST_SECONDS, " s"),
        mb(costs[MANY].peak),
        *limit(peak, MOST_MB, " MB"),
        factor(many / few),
        *limit(many / few, MOST_GROWTH),
    )


def _write(name: str, path: str, number: int) -> None:
    if name == "a folder":
        os.mkdir(path)
        for at, content in enumerate(reports(number)):
            with open(os.path.join(path, f"node{at:05d}.json"), "wb") as file:
                file.write(content)
        return
    with open(path, "wb") as file:
        if name == OF_PAIRS:
            file.writelines(content + b"\n" for content in outcomes(number, ROUNDS))
            return
        if name == "srun -l":
            file.writelines(_labelled(reports(number)))
        else:
            file.writelines(content + b"\n" for content in reports(number))


def _labelled(contents: Iterable[bytes]) -> Iterable[bytes]:
    """In pieces, each with the number of its task, as slurmstepd sends and srun prints them."""
    for task, content in enumerate(contents):
        for at in range(0, len(content), PIECE):
            yield b"%05d: %s\n" % (task, content[at : at + PIECE])


def _beside(folder: str) -> tuple[str, ...]:
    path = os.path.join(folder, "fleet")
    if shutil.which("jq") is None:
        return (code("jq -s"), "is not installed here", *[""] * 9)
    try:
        _write("a file of lines", path, MANY)
        cost = measure(Command("jq -s", ("jq", "-s", JQ, path)), SECONDS)
    finally:
        os.unlink(path)
    return (code("jq -s"), f"{MANY:,}", f"{cost.wall:.1f}", "", "", mb(cost.peak), *[""] * 5)
