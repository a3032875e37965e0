"""What every stack's choice costs beside the tables alone."""

from bench.child import CouldNotRun
from bench.commands import gids
from bench.pairs import in_turn, median, ratio
from bench.table import Section, code, limit, ms, spread
from bench.trees import FILLED, GIDS, PORTS, SIZES, Tree

SECONDS = 120.0  # for one run
MOST_RATIO = 2.0
HCAS = SIZES[-1]


def stacks(folder: str, rounds: int) -> Section:
    """`gids --explain` and `gids` in turn, on the largest trees."""
    section = Section(
        "gids --explain",
        f"All stacks, in all ranges of their versions, over {HCAS} HCAs with {PORTS} ports of "
        f"{GIDS} GIDs, beside `gids` alone on the same tree. Median of the ratios of neighbouring "
        "runs (least to most).",
        ("command", "beside", "GIDs in use", "of", "ratio", "limit", "holds", "ms", "ms beside"),
    )
    for filled in FILLED:
        tree = Tree("sysfs", HCAS, filled)
        source = ("--from", f"{folder}/{tree.folder}")
        name = "rdmadiag gids --json"
        ours = gids("--explain", *source, ports=tree.ports, name=f"{name} --explain")
        theirs = gids(*source, ports=tree.ports, name=name)
        try:
            costs = in_turn((ours, theirs), rounds, SECONDS)
        except CouldNotRun as failure:
            section.failures.append(str(failure))
            continue
        for measured in ("wall", "cpu"):
            left, right = ([getattr(cost, measured) for cost in costs[c]] for c in (ours, theirs))
            found = ratio(left, right)
            section.rows.append(
                (
                    code(ours.name),
                    code(theirs.name),
                    f"{filled} of {GIDS}",
                    measured,
                    spread(found),
                    *limit(found.median, MOST_RATIO),
                    ms(median(left)),
                    ms(median(right)),
                )
            )
    return section
