"""What the rules cost: preflight beside the same report without any."""

from bench.child import Command, CouldNotRun
from bench.commands import preflight, unjudged
from bench.pairs import in_turn, median, ratio
from bench.startup import SAMPLE, SAMPLE_PORTS
from bench.table import Section, code, limit, ms, spread
from bench.trees import FILLED, SIZES, Tree

SECONDS = 60.0  # for one run
MOST_RATIO = 1.1


def rules(folder: str, rounds: int) -> Section:
    """A sample, the machine that the bench runs on, and the largest generated host."""
    section = Section(
        "Rules",
        "`preflight --json` beside the same program with its rules taken out: all sources are "
        "read, and the report is printed. In turn; median of the ratios of neighbouring runs "
        "(least to most).",
        ("host", "of", "ratio", "limit", "holds", "ms", "ms without rules"),
    )
    largest = Tree("snapshot", SIZES[-1], FILLED[-1])
    hosts: tuple[tuple[str, tuple[str, ...], int | None], ...] = (
        (SAMPLE, ("--sample", SAMPLE), SAMPLE_PORTS),
        ("this machine", (), None),
        (f"{largest.hcas} HCAs", ("--from", f"{folder}/{largest.folder}"), largest.ports),
    )
    for name, arguments, ports in hosts:
        pair = preflight(*arguments, ports=ports), unjudged(*arguments, ports=ports)
        try:
            section.rows += _rows(name, pair, rounds)
        except CouldNotRun as failure:
            section.failures.append(str(failure))
    return section


def _rows(name: str, pair: tuple[Command, Command], rounds: int) -> list[tuple[str, ...]]:
    costs = in_turn(pair, rounds, SECONDS)
    rows: list[tuple[str, ...]] = []
    for kind in ("cpu", "wall"):
        left, right = ([getattr(cost, kind) for cost in costs[each]] for each in pair)
        found = ratio(left, right)
        held = limit(found.median, MOST_RATIO)
        rows.append((code(name), kind, spread(found), *held, ms(median(left)), ms(median(right))))
    return rows
