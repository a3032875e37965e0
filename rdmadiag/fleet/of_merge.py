"""One merge as a history keeps it: of each node what was said, and when."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import median

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.history import PairFigures, Said
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Gap, NodeRow, Unused
from rdmadiag.fleet.pair_results import End, PairResult
from rdmadiag.preflight.verdict import Severity


def said_of(
    reports: Iterable[HostReport],
    unused: Iterable[Unused] = (),
    odd: Mapping[str, Mapping[str, str]] | None = None,
    pairs: Mapping[str, PairFigures] | None = None,
) -> dict[str, Said]:
    """By node. `unused` with a node are those that have no report, unless there is one."""
    own, figures = odd or {}, pairs or {}
    found = {
        each.node: Said(
            each.status,
            tuple(sorted({one.rule for one in each.findings if one.severity is not Severity.INFO})),
            own.get(each.node, {}),
            each.facts,
            figures.get(each.node),
        )
        for each in reports
    }
    for each in unused:
        if each.node is not None and each.node not in found and each.gap is not Gap.SECOND:
            found[each.node] = Said(None, (str(each.gap),), {}, {}, figures.get(each.node))
    return found


def time_of(reports: Iterable[HostReport], now: float) -> int:
    """Seconds since the epoch: the middle of the reports' own times, and not after `now`."""
    return middle_time((each.generated_at for each in reports), now)


def middle_time(texts: Iterable[str], now: float) -> int:
    """The same of times as documents have them.

    The median, so that a host whose clock is wrong does not date the others.
    """
    times = []
    for text in texts:
        try:
            times.append(datetime.fromisoformat(text).timestamp())
        except ValueError:
            continue
    return int(min(now, median(times))) if times else int(now)


def said_of_pairs(rows: Iterable[NodeRow], results: Iterable[PairResult]) -> dict[str, Said]:
    """By node, of a tournament: how it stands there, and the figures of its pairs."""
    figures = figures_of(results)
    return {
        row.node: Said(row.status, tuple(sorted(row.reasons)), {}, {}, figures.get(row.node))
        for row in rows
    }


def figures_of(results: Iterable[PairResult]) -> dict[str, PairFigures]:
    """By node, of the pairs that it was an end of; what both ends say of one is one pair."""
    by_node: dict[str, list[PairResult]] = {}
    for each in results:
        for node in {each.sender.node, each.receiver.node}:
            by_node.setdefault(node, []).append(each)
    return {
        node: PairFigures(
            tried=len({_pair(each) for each in every}),
            failed=len({_pair(each) for each in every if each.outcome is not Outcome.VERIFIED}),
            latency_us=_median(each.latency_us for each in every),
            gbps=_median(each.gbps for each in every),
        )
        for node, every in by_node.items()
    }


def _pair(of: PairResult) -> tuple[int, End, End]:
    return of.round, of.sender, of.receiver


def _median(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return float(median(known)) if known else None
