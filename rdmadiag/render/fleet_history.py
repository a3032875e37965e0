"""The past of nodes as text: since when, how often, which way it goes, what changed before."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.fleet.trend import ChangedFact, Figures, NodeHistory, Since, Trend
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.console import Text, console, say, word
from rdmadiag.render.fleet_answer import reason
from rdmadiag.render.grid import Indented
from rdmadiag.render.plain import counted

_TREND: Final = {
    Trend.FLAPPING: ("flapping", "bold yellow"),
    Trend.WORSE: ("getting worse", "bold red"),
    Trend.BETTER: ("better than it was", "green"),
}
_FEW: Final = 10
"""Lines of a list, but with `verbose`."""


def show(
    found: Sequence[NodeHistory],
    unknown: str,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print them; `unknown` are nodes that are not in the history, folded."""
    out = to or console()
    for each in found:
        say(out, _answer(each))
        if not quiet:
            for line in _details(each, None if verbose else _FEW):
                out.print(Indented(line, 2))
    if unknown:
        say(out, word(Status.UNKNOWN).append(f"  no merge had {unknown}"))


def _answer(one: NodeHistory) -> Text:
    line = word(one.status or Status.UNKNOWN)
    line.append(f"  {one.node}  ")
    said = "" if one.status else "never reported "
    if one.always:
        merges = "the only merge, of" if one.merges == 1 else f"all {one.merges} merges since"
        line.append(f"{said}in {merges} {_day(one.since)}")
    else:
        line.append(f"{said}since {_day(one.since)}, {one.before or 'without a report'} before")
    if trend := _TREND.get(one.trend):
        line.append("; ")
        line.append(*trend)
    return line


def _details(one: NodeHistory, most: int | None) -> Iterator[str]:
    if one.unfit and not one.always:
        spells = "once" if one.spells == 1 else f"{one.spells} times"
        yield (f"not fit in {one.unfit} of {counted(one.merges, 'merge')}, became so {spells}")
    yield from _some([_reason(each, one) for each in one.reasons], most)
    yield from _some([_odd(each) for each in one.odd], most)
    yield from _pairs(one.pairs)
    if one.changed:
        yield "changed in the newest day:" if one.always else "changed in the day before that:"
        lines = [f"  {_change(each)}" for each in one.changed]
        yield from _some(lines, most, one.changed_more)
    elif not one.always:
        yield "no fact that is known changed in the day before that"


def _some(lines: Sequence[str], most: int | None, left_out: int = 0) -> Iterator[str]:
    yield from lines[:most]
    more = len(lines[most:] if most is not None else ()) + left_out
    if more:
        yield f"… and {more} more; --json has them"


def _reason(each: Since, one: NodeHistory) -> str:
    return f"{reason(each.what)}  since {_day(each.since)}, in {each.merges} of {one.merges}"


def _odd(each: Since) -> str:
    return f"unlike most: {each.what} is {each.value}, since {_day(each.since)}"


def _change(each: ChangedFact) -> str:
    return f"{_day(each.at)}  {each.fact}  {each.before} → {each.after}"


def _pairs(figures: Sequence[Figures]) -> Iterator[str]:
    if not figures:
        return
    first, newest = figures[0], figures[-1]
    parts = [
        f"{_then(old, new)} {unit}"
        for old, new, unit in (
            (first.latency_us, newest.latency_us, "us"),
            (first.gbps, newest.gbps, "Gb/s"),
        )
        if new is not None
    ]
    failed = f", {newest.failed} of {newest.tried} failed" if newest.failed else ""
    yield f"pairs: {', '.join(parts) or counted(newest.tried, 'pair')}{failed}"


def _then(old: float | None, new: float) -> str:
    return f"{new:.4g}" if old is None or old == new else f"{old:.4g} → {new:.4g}"


def _day(when: str) -> str:
    """ "2026-11-02 06:00": UTC."""
    return when[:16].replace("T", " ")
