"""Start-up: rdmadiag beside the bare import of what it is built from."""

from collections.abc import Sequence

from bench.child import Command, Cost, CouldNotRun
from bench.commands import gids, imports, preflight, rdmadiag, textfile
from bench.pairs import in_turn, median, ratio
from bench.table import Section, code, limit, ms, spread

SAMPLE, SAMPLE_PORTS = "roce-healthy", 2
SECONDS = 60.0  # for one run

# (ours, theirs, the limit of CPU time, the limit of wall time)
PAIRS: tuple[tuple[Command, Command, float | None, float | None], ...] = (
    (rdmadiag("--version"), imports("click"), 1.5, None),
    (
        gids("--sample", SAMPLE, ports=SAMPLE_PORTS),
        imports("click", "pydantic"),
        1.3,
        None,
    ),
    (
        preflight("--sample", SAMPLE, ports=SAMPLE_PORTS),
        imports("click", "pydantic", "pyroute2"),
        0.75,
        0.75,
    ),
    (
        textfile("--sample", SAMPLE, ports=SAMPLE_PORTS),
        preflight("--sample", SAMPLE, ports=SAMPLE_PORTS),
        1.05,
        1.05,
    ),
    (
        preflight(ports=None),
        imports("click", "pydantic", "pyroute2"),
        0.75,
        0.75,
    ),
)


def startup(rounds: int) -> Section:
    """Each pair in turn: A B A B …"""
    section = Section(
        "Start-up",
        "Median of the ratios of neighbouring runs (least to most). CPU is user and system time of "
        "the process and of its children; wall is from before the start to after the end. "
        "`preflight --json` without `--sample` reads the machine that the bench runs on.",
        ("command", "beside", "of", "ratio", "limit", "holds", "ms", "ms beside"),
    )
    for ours, theirs, most_cpu, most_wall in PAIRS:
        try:
            costs = in_turn((ours, theirs), rounds, SECONDS)
        except CouldNotRun as failure:
            section.failures.append(str(failure))
            continue
        for kind, most in (("cpu", most_cpu), ("wall", most_wall)):
            left, right = _figures(costs[ours], kind), _figures(costs[theirs], kind)
            found = ratio(left, right)
            section.rows.append(
                (
                    code(ours.name),
                    code(theirs.name),
                    kind,
                    spread(found),
                    *limit(found.median, most),
                    ms(median(left)),
                    ms(median(right)),
                )
            )
    return section


def _figures(costs: Sequence[Cost], kind: str) -> list[float]:
    return [cost.wall if kind == "wall" else cost.cpu for cost in costs]
