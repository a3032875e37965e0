"""How time grows with the number of HCAs."""

from collections.abc import Mapping, Sequence
from itertools import product

from bench.child import Command, Cost, CouldNotRun
from bench.commands import gids, preflight
from bench.pairs import Spread, in_turn, median, ratio
from bench.table import Section, code, limit, ms, spread
from bench.trees import FILLED, GIDS, PORTS, SIZES, Tree

SECONDS = 60.0  # for one run
SMALL, REPEATS = 4, 5  # trees up to this size run so often in a round: they are mostly start-up
MOST_RATIO = 1.3
START, LOW, HIGH = SIZES[0], SIZES[1], SIZES[-1]

SERIES = (("gids", "sysfs"), ("preflight", "sysfs"), ("preflight", "snapshot"))


def command(name: str, tree: Tree, folder: str) -> Command:
    """`rdmadiag NAME --json --from TREE`."""
    make = gids if name == "gids" else preflight
    source = ("--from", f"{folder}/{tree.folder}")
    return make(*source, ports=tree.ports, name=f"rdmadiag {name} --json --from {tree.folder}")


def growth(folder: str, rounds: int) -> Section:
    """Every series over all sizes; the sizes of a series in turn."""
    section = Section(
        "Growth",
        f"Generated hosts of {', '.join(map(str, SIZES))} HCAs with {PORTS} ports of {GIDS} GIDs, "
        "as plain files on a disk. `sysfs` is a bare tree; `snapshot` holds netlink, netdevs and "
        f"processes too. Cost per HCA is (t(n) - t({START})) / (n - {START}): start-up is taken to "
        f"be the same command on {START} HCA, without that HCA's share, which is stricter than "
        "`--version` or a host without HCAs, as these import less. Median over the rounds "
        f"(least to most); in a round, sizes up to {SMALL} count with the median of {REPEATS} "
        "runs. ∞: a round in which noise hid the cost of 3 HCAs. Sources are read side by "
        "side: where a short one hides behind a long one, wall time starts to grow late, and CPU "
        "time is the better witness of how the work grows.",
        (
            "command",
            "tree",
            "GIDs in use",
            "of",
            f"cost per HCA, {HIGH} : {LOW}",
            "limit",
            "holds",
            f"{HIGH} : {SIZES[-2]}",
            *(f"ms at {size}" for size in SIZES),
            f"ms per HCA at {HIGH}",
        ),
    )
    for filled, (name, kind) in product(FILLED, SERIES):
        commands = {n: command(name, Tree(kind, n, filled), folder) for n in SIZES}
        small = {commands[n] for n in SIZES if n <= SMALL}
        try:
            costs = in_turn(
                tuple(commands.values()),
                rounds,
                SECONDS,
                lambda each, small=small: REPEATS if each in small else 1,  # type: ignore[misc]
            )
        except CouldNotRun as failure:
            section.failures.append(str(failure))
            continue
        by_size = {n: costs[commands[n]] for n in SIZES}
        title = (code(f"{name} --json"), kind, f"{filled} of {GIDS}")
        section.rows += [(*title, *_row(by_size, measured)) for measured in ("wall", "cpu")]
    return section


def _row(costs: Mapping[int, Sequence[Cost]], measured: str) -> tuple[str, ...]:
    times = {n: [getattr(cost, measured) for cost in costs[n]] for n in SIZES}
    per_hca = {
        n: [(t - start) / (n - START) for t, start in zip(times[n], times[START], strict=True)]
        for n in SIZES[1:]
    }
    found = ratio(per_hca[HIGH], per_hca[LOW])
    return (
        measured,
        spread(found),
        *limit(found.median, MOST_RATIO),
        spread(ratio(per_hca[HIGH], per_hca[SIZES[-2]])),
        *(ms(median(times[n])) for n in SIZES),
        f"{Spread.of(per_hca[HIGH]).median * 1000:.2f}",
    )
