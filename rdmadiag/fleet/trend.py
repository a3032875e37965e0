"""What a node's past says: since when it is so, how often it was, whether it flaps or gets worse,
and what changed on it the day before.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

from rdmadiag.fleet.fact_names import folded
from rdmadiag.fleet.history import DAY, Change, PairFigures, Past, Seen
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Status

LOOKED_BACK: Final = 30
"""Merges that a trend is seen in: the newest."""

FLAPS: Final = 4
"""Changes between fit and not among those that are flapping: down, up, down, up."""

SLOWER: Final = 0.10
"""Of pairs, since the first figure that is looked at, with none better in between."""

MOST_CHANGES: Final = 50


class Trend(StrEnum):
    """Which way it goes, over the newest merges."""

    NEW = "new"  # one merge alone
    STEADY = "steady"
    FLAPPING = "flapping"  # between fit and not, again and again
    WORSE = "worse"
    BETTER = "better"
    UNKNOWN = "unknown"  # it was bad, and now nothing is known of it


@dataclass(frozen=True, slots=True)
class Since:
    """A reason, or a fact that is odd, that the newest merge names."""

    what: str  # the code of a rule, a Gap; the name of a fact
    value: str | None  # of the fact
    since: str  # UTC: the first merge that named it without one between that did not
    merges: int  # that ever named it, of those that the node was in


@dataclass(frozen=True, slots=True)
class ChangedFact:
    """What one merge saw otherwise than the one before it."""

    at: str  # UTC
    fact: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What pairs said of the node."""

    at: str
    tried: int
    failed: int
    latency_us: float | None
    gbps: float | None


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """One node."""

    node: str
    status: Status | None  # None: it did not report to the newest merge that expected it
    since: str  # UTC: the first merge of those that said so without one between
    before: Status | None  # what it was before that; None: it did not report, or nothing is known
    always: bool  # it was never anything else
    trend: Trend
    merges: int  # that it was in, or ought to have been
    unfit: int  # of them, neither ok nor warn
    spells: int  # times that it became so
    reasons: tuple[Since, ...]
    odd: tuple[Since, ...]
    changed: tuple[ChangedFact, ...]  # in the day up to `since`; if always so, in the newest day
    changed_more: int  # of them, those that are not listed
    pairs: tuple[Figures, ...]  # the first and the newest of those that are looked at


def history_of(past: Past) -> NodeHistory | None:
    """None of a node that no merge has said anything of."""
    seen = past.seen
    if not seen:
        return None
    start = _streak(seen)
    always = start == 0
    end = seen[-1].at if always else seen[start].at
    changes = [each for each in past.changes if end - DAY <= each.at <= end]
    listed = _listed(changes)
    return NodeHistory(
        node=past.node,
        status=seen[-1].status,
        since=_text(seen[start].at),
        before=None if always else seen[start - 1].status,
        always=always,
        trend=_trend(seen[-LOOKED_BACK:], past.pairs),
        merges=len(seen),
        unfit=sum(not _is_fit(each) for each in seen),
        spells=sum(
            not _is_fit(each) and (at == 0 or _is_fit(seen[at - 1])) for at, each in enumerate(seen)
        ),
        reasons=tuple(
            Since(code, None, *_named([code in each.reasons for each in seen], seen))
            for code in seen[-1].reasons
        ),
        odd=tuple(
            Since(fact, value, *_named([fact in each.odd for each in seen], seen))
            for fact, value in seen[-1].odd.items()
        ),
        changed=listed[:MOST_CHANGES],
        changed_more=max(0, len(listed) - MOST_CHANGES),
        pairs=_figures(past.pairs),
    )


def _is_fit(each: Seen) -> bool:
    return each.status in (Status.OK, Status.WARN)


def _streak(seen: Sequence[Seen]) -> int:
    """Where the newest status began."""
    start = len(seen) - 1
    while start and seen[start - 1].status == seen[-1].status:
        start -= 1
    return start


def _named(which: Sequence[bool], seen: Sequence[Seen]) -> tuple[str, int]:
    """Since when, and by how many."""
    start = len(seen) - 1
    while start and which[start - 1]:
        start -= 1
    return _text(seen[start].at), sum(which)


_RANK: Final[dict[Status | None, int]] = {
    **{status: rank for rank, status in enumerate(Status)},
    None: list(Status).index(Status.UNKNOWN),
}
"""A host that did not report is as bad as one of which nothing is known."""


def _trend(seen: Sequence[Seen], pairs: Sequence[tuple[int, PairFigures]]) -> Trend:
    if len(seen) < 2:
        return Trend.NEW
    fit = [_is_fit(each) for each in seen]
    if sum(one != other for one, other in pairwise(fit)) >= FLAPS:
        return Trend.FLAPPING
    if _is_slower([figures for at, figures in pairs if at >= seen[0].at]):
        return Trend.WORSE
    ranks = [(_RANK[each.status], len(each.reasons)) for each in seen]
    for one, other in reversed(list(pairwise(ranks))):
        if one != other:
            milder = Trend.UNKNOWN if seen[-1].status in (None, Status.UNKNOWN) else Trend.BETTER
            return Trend.WORSE if other > one else milder
    return Trend.STEADY


def _is_slower(figures: Sequence[PairFigures]) -> bool:
    """By latency or bandwidth, each step at least as bad as the one before it."""
    latency = [each.latency_us for each in figures if each.latency_us is not None]
    slowness = [1 / each.gbps for each in figures if each.gbps]
    return any(
        len(each) > 1 and each == sorted(each) and each[-1] > (1 + SLOWER) * each[0]
        for each in (latency, slowness)
    )


def _listed(changes: Iterable[Change]) -> tuple[ChangedFact, ...]:
    """Adapters that changed alike in one line."""
    by_time: dict[int, dict[str, tuple[str, str]]] = {}
    for each in changes:
        by_time.setdefault(each.at, {})[each.fact] = each.before, each.after
    return tuple(
        ChangedFact(_text(at), fact, before, after)
        for at, facts in by_time.items()
        for fact, (before, after) in folded(facts).items()
    )


def _figures(pairs: Sequence[tuple[int, PairFigures]]) -> tuple[Figures, ...]:
    ends = pairs if len(pairs) < 2 else (pairs[0], pairs[-1])
    return tuple(
        Figures(_text(at), each.tried, each.failed, each.latency_us, each.gbps) for at, each in ends
    )


def _text(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
