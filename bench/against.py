"""This checkout beside another one, such as the commit before a change: `--against DIR`.

DIR has an environment of its own, DIR/.venv, as `make .venv/ready` makes it. Both run the same
commands on the same hosts, in turn.
"""

import os
from collections.abc import Iterator
from dataclasses import replace

from bench.child import Command, CouldNotRun, measure
from bench.commands import gids, preflight, rdmadiag, textfile
from bench.growth import SERIES, command
from bench.memory import watch
from bench.pairs import in_turn, median, ratio
from bench.startup import SAMPLE, SAMPLE_PORTS
from bench.table import Section, code, limit, mb, ms, spread
from bench.trees import FILLED, GIDS, PORTS, SIZES, Tree

SECONDS = 60.0  # for one run
HCAS = SIZES[-1]
MOST_RATIO = 1.0  # of the largest hosts: no slower than before


def other(ours: Command, checkout: str) -> Command:
    """The same command, by the program of another checkout."""
    program = os.path.join(checkout, ".venv", "bin", "rdmadiag")
    return replace(ours, name=f"{ours.name} of {checkout}", argv=(program, *ours.argv[1:]))


def _commands(folder: str) -> Iterator[tuple[Command, float | None]]:
    sample = ("--sample", SAMPLE)
    yield rdmadiag("--version"), None
    yield gids(*sample, ports=SAMPLE_PORTS), None
    yield preflight(*sample, ports=SAMPLE_PORTS), None
    yield preflight(ports=None), None
    yield textfile(*sample, ports=SAMPLE_PORTS), None
    for filled in FILLED:
        most = MOST_RATIO if filled == GIDS else None
        for name, kind in SERIES:
            yield command(name, Tree(kind, HCAS, filled), folder), most


def against(checkout: str, folder: str, rounds: int) -> tuple[Section, Section]:
    """Time in turn, then memory in runs of their own."""
    times = Section(
        "Beside another checkout",
        f"Each command in turn with the same one of {code(checkout)}: median of the ratios of "
        f"neighbouring runs (least to most). The largest hosts have {HCAS} HCAs with {PORTS} ports "
        f"of {GIDS} GIDs.",
        ("command", "of", "ratio", "limit", "holds", "ms", "ms before"),
    )
    peaks = Section(
        "Memory beside another checkout",
        "As under Memory, MB: *largest* is that of one process, *together* of all at one moment.",
        ("command", "largest", "largest before", "together", "together before"),
    )
    for ours, most in _commands(folder):
        theirs = other(ours, checkout)
        try:
            costs = in_turn((ours, theirs), rounds, SECONDS)
            for kind in ("cpu", "wall"):
                left, right = ([getattr(cost, kind) for cost in costs[c]] for c in (ours, theirs))
                found = ratio(left, right)
                held = limit(found.median, most)
                times.rows.append(
                    (
                        code(ours.name),
                        kind,
                        spread(found),
                        *held,
                        ms(median(left)),
                        ms(median(right)),
                    )
                )
            if most is not None:
                largest = [measure(each, SECONDS).peak for each in (ours, theirs)]
                together = [watch(each)[2] for each in (ours, theirs)]
                peaks.rows.append((code(ours.name), *map(mb, (*largest, *together))))
        except CouldNotRun as failure:
            times.failures.append(str(failure))
    return times, peaks
