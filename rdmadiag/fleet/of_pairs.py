"""A tournament of pairs as the nodes of it: who passed, and the rows of the page."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.matrix import status
from rdmadiag.fleet.merged import HostCounts, Merged, NodeRow
from rdmadiag.fleet.pair_results import OddKind, PairResult, Tournament
from rdmadiag.preflight.verdict import Status, worse

NOT_TRIED = "not-tried"
LEFT_OUT = "left-out"


def node_rows(
    nodes: Sequence[str], found: Tournament, results: Sequence[PairResult]
) -> tuple[NodeRow, ...]:
    """Of each node how it stands: critical where it may be what fails, a warning where it may be
    what is slow, unknown where it was left out or never met anybody; None: it never reported."""
    reported, verified = _said(results)
    against: dict[str, dict[str, Status]] = defaultdict(dict)
    for node, reason, bad in _against(found):
        against[node][reason] = worse(bad, against[node].get(reason, Status.OK))
    silent = {each.partition(":")[0] for each in found.unreported} - reported
    rows = []
    for node in nodes:
        reasons = against[node]
        if not reasons and node not in verified:
            reasons[NOT_TRIED] = Status.UNKNOWN
        whole = None if node in silent else reduce(worse, reasons.values(), Status.OK)
        rows.append(NodeRow(node, whole, None, tuple(reasons), None, None))
    return tuple(rows)


def _said(results: Iterable[PairResult]) -> tuple[set[str], set[str]]:
    """Nodes that reported, and those that verified data."""
    reported, verified = set(), set()
    for each in results:
        node = (each.sender if each.by_sender else each.receiver).node
        if each.outcome is not None:
            reported.add(node)
        if each.outcome is Outcome.VERIFIED:
            verified.add(node)
    return reported, verified


def _against(found: Tournament) -> Iterator[tuple[str, str, Status]]:
    """Node, reason, how bad that is."""
    for part in found.odd:
        if part.kind not in (OddKind.BOUNDARY, OddKind.FLEET):
            bad = Status.CRITICAL if part.slower is None else Status.WARN
            for name in part.names:
                yield name.partition(":")[0], str(part.kind), bad
    for out in found.left_out:
        yield out.end.partition(":")[0], LEFT_OUT, Status.UNKNOWN


def passed(rows: Iterable[NodeRow]) -> list[str]:
    """Nodes that nothing was found against."""
    return [row.node for row in rows if row.status is Status.OK]


def merged_of(found: Tournament, rows: Sequence[NodeRow]) -> Merged:
    """For the page, which has no reports to show here."""
    good = len(passed(rows))
    reported = sum(row.status is not None for row in rows)
    counts = HostCounts(len(rows), reported, good)
    return Merged(status(found), counts, (), (), (), (), (), tuple(rows))
