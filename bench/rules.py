"""What rules and sources cost: preflight beside itself without any rule, without some sources."""

from bench.child import Command, CouldNotRun
from bench.commands import preflight, unjudged, without_sources
from bench.pairs import in_turn, median, ratio
from bench.startup import SAMPLE, SAMPLE_PORTS
from bench.table import Section, code, limit, ms, spread
from bench.trees import FILLED, SIZES, Tree

SECONDS = 60.0  # for one run
MOST_RATIO = 1.1
MOST_OF_SOURCES = 1.25
SURROUNDINGS = ("dcb", "vfs", "topology", "ethtool", "devlink", "pci")


def rules(folder: str, rounds: int) -> Section:
    """A sample, the machine that the bench runs on, and the largest generated host."""
    section = Section(
        "Rules",
        "`preflight --json` beside the same program with its rules taken out: all sources are "
        "read, and the report is printed. In turn; median of the ratios of neighbouring runs "
        "(least to most).",
        ("host", "of", "ratio", "limit", "holds", "ms", "ms without rules"),
    )
    for name, arguments, ports in _hosts(folder):
        pair = preflight(*arguments, ports=ports), unjudged(*arguments, ports=ports)
        _compare(section, name, pair, rounds, MOST_RATIO)
    return section


def sources(folder: str, rounds: int) -> Section:
    """The same hosts, with and without what is around their ports."""
    section = Section(
        "Sources around the ports",
        "`preflight --json` beside the same program without the sources "
        f"{', '.join(SURROUNDINGS)}. In turn; median of the ratios of neighbouring runs (least "
        "to most).",
        ("host", "of", "ratio", "limit", "holds", "ms", "ms without them"),
    )
    for name, arguments, ports in _hosts(folder):
        without = without_sources(SURROUNDINGS, *arguments, ports=ports)
        pair = preflight(*arguments, ports=ports), without
        _compare(section, name, pair, rounds, MOST_OF_SOURCES)
    return section


def _hosts(folder: str) -> tuple[tuple[str, tuple[str, ...], int | None], ...]:
    """Name, arguments of preflight, and ports where those are known."""
    largest = Tree("snapshot", SIZES[-1], FILLED[-1])
    return (
        (SAMPLE, ("--sample", SAMPLE), SAMPLE_PORTS),
        ("this machine", (), None),
        (f"{largest.hcas} HCAs", ("--from", f"{folder}/{largest.folder}"), largest.ports),
    )


def _compare(
    section: Section, name: str, pair: tuple[Command, Command], rounds: int, most: float
) -> None:
    try:
        section.rows += _rows(name, pair, rounds, most)
    except CouldNotRun as failure:
        section.failures.append(str(failure))


def _rows(
    name: str, pair: tuple[Command, Command], rounds: int, most: float
) -> list[tuple[str, ...]]:
    costs = in_turn(pair, rounds, SECONDS)
    rows: list[tuple[str, ...]] = []
    for kind in ("cpu", "wall"):
        left, right = ([getattr(cost, kind) for cost in costs[each]] for each in pair)
        found = ratio(left, right)
        held = limit(found.median, most)
        rows.append((code(name), kind, spread(found), *held, ms(median(left)), ms(median(right))))
    return rows
