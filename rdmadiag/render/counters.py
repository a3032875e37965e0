"""Counters as text: the answer, what rules say, and a table of what moved; redrawn in a watch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live

from rdmadiag.facts import Identity, Missing, present
from rdmadiag.facts.counter_catalogue import Group as Kind
from rdmadiag.facts.counter_catalogue import Unit
from rdmadiag.facts.counters import CounterSource
from rdmadiag.preflight.judge_counters import Compared
from rdmadiag.render.console import STYLE, Text, console, in_view, say
from rdmadiag.render.findings import answer, show_findings, whose
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import counted, printable
from rdmadiag.view.counter_changes import Change, Event

_HARMLESS: Final = (Kind.TRAFFIC, Kind.OTHER, Kind.GAUGE)
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_BAR: Final = 10  # cells
_LINES_AROUND: Final = 8  # of a watch: the answer, the table's head, findings and a margin
_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def show(
    compared: Compared,
    host: Identity,
    *,
    show_all: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    to: Console | None = None,
) -> None:
    """Print one comparison, or where there is one sample alone, its values.

    The answer alone if `quiet`, evidence and remedy of notes too if `verbose`.
    """
    out = to or console()
    line = _answer(compared, host)
    if quiet:
        say(out, line)
        return
    if isinstance(compared.changes, Missing):
        table = _values(compared, show_all=show_all)
    else:
        table = _changes(_in_order(compared.changes))
    with in_view(out, line):
        say(out, line)
        show_findings(out, compared.verdict.findings, notes=verbose)
        if table.row_count:
            out.print()
            out.print(table)
        if rest := _rest(compared):
            say(out, rest)


def _answer(compared: Compared, host: Identity) -> Text:
    verdict = compared.verdict
    ports = len({(each.device, each.port) for each in compared.sample.sets if each.port})
    if isinstance(compared.changes, Missing) and verdict.status == "ok":
        text = f"{counted(ports, 'port')}, values alone: one sample shows no rise"
        return Text(text).append_text(whose(host))
    changed = [each for each in present(compared.changes) if each.group not in _HARMLESS]
    harmful = [each for each in changed if each.rise]
    unknown = [each for each in changed if isinstance(each.amount, Missing)]
    if harmful:
        names = dict.fromkeys(each.name for each in harmful)
        text = f"{counted(ports, 'port')}, no rise that matters{_span(compared)}: {_listed(names)}"
    else:
        text = f"{counted(ports, 'port')}, no error counter rose{_span(compared)}"
    if unknown:
        names = dict.fromkeys(each.name for each in unknown)
        text += f"; whether {_listed(names)} did is not known"
    return answer(verdict.status, verdict.findings, text, host)


def _listed(names: Iterable[str]) -> str:
    first, *others = names
    return f"{first} and {len(others)} more" if others else first


def _span(compared: Compared) -> str:
    if compared.since:
        since = f" since {compared.since:%Y-%m-%d %H:%M:%S} UTC"
        if isinstance(compared.seconds, Missing):
            return since
        return f"{since} ({_duration(compared.seconds)})"
    return "" if isinstance(compared.seconds, Missing) else f" in {_duration(compared.seconds)}"


def _duration(seconds: float) -> str:
    """ "1.0 s", "12 min", "3.5 h", "2.1 d"."""
    for least, divisor, unit in ((86_400, 86_400, "d"), (5_400, 3_600, "h"), (300, 60, "min")):
        if seconds >= least:
            return f"{seconds / divisor:.3g} {unit}"
    return f"{seconds:.1f} s"


def _rest(compared: Compared) -> Text:
    """What is not in the table."""
    here = set(present(compared.sample.names))
    excluded = [
        each if each in here else f"{each} (no such device)" for each in compared.sample.excluded
    ]
    parts = []
    if compared.still:
        parts.append(f"{counted(compared.still, 'counter')} stood still")
    if excluded:
        parts.append(f"not read: {', '.join(map(printable, excluded))}")
    return Text("; ".join(parts), "dim")


def _in_order(rows: Sequence[Change]) -> list[Change]:
    """Port by port; within one, what may hurt first."""
    places = {place: at for at, place in enumerate(dict.fromkeys(each.place for each in rows))}
    return sorted(rows, key=lambda each: (places[each.place], each.group in _HARMLESS))


def _grid(*names: str) -> Grid:
    table = Grid()
    for name in names:
        right = name in ("VALUE", "RISE", "PER SECOND", "TOTAL")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table


def _changes(rows: Iterable[Change]) -> Grid:
    table = _grid("PORT", "COUNTER", "VALUE", "RISE", "PER SECOND")
    for each in rows:
        table.add_row(
            printable(each.place),
            _name(each),
            "-" if each.after is None else str(each.after),
            _rise(each),
            _pace(each),
        )
    return table


def _name(change: Change) -> Text:
    whose_it_is = f"{change.netdev}: " if change.netdev else ""
    style = "" if change.group in _HARMLESS or not change.rise else STYLE["warn"]
    return Text(printable(f"{whose_it_is}{change.name}"), style)


_NOTES: Final = {
    Event.RESET: "reset",
    Event.APPEARED: "new",
    Event.GONE: "gone",
}


def _rise(change: Change) -> str:
    if change.event in _NOTES:
        return _NOTES[change.event]
    if isinstance(change.amount, Missing):
        return "?"
    sign = "+" if change.amount >= 0 else ""
    note = {Event.WRAPPED: " (wrapped)", Event.SATURATED: " (full)"}.get(change.event, "")
    text = f"{sign}{change.amount}{' B' if change.unit is Unit.BYTES else ''}"
    return f"{text}{note}"


def _pace(change: Change) -> str:
    if isinstance(change.per_second, Missing) or change.event is Event.SATURATED:
        return "-"
    return _rated(change.per_second, change.unit)


def _rated(per_second: float, unit: Unit) -> str:
    """ "1.2 Gb/s" for bytes, which links are measured in, "3.4 k/s" for the rest."""
    number = per_second * 8 if unit is Unit.BYTES else per_second
    for factor, prefix in _PREFIXES:
        if abs(number) >= factor:
            text = f"{number / factor:.3g} {prefix}"
            break
    else:
        text = f"{number:.3g}{' ' if unit is Unit.BYTES else ''}"
    return f"{text}{'b/s' if unit is Unit.BYTES else '/s'}"


def _values(compared: Compared, *, show_all: bool) -> Grid:
    table = _grid("PORT", "COUNTER", "VALUE")
    files = {
        (each.device, each.port, name)
        for each in compared.sample.sets
        if each.source is not CounterSource.NLDEV and not isinstance(each.values, Missing)
        for name in each.values
    }
    for each in compared.sample.sets:
        for name, value in ({} if isinstance(each.values, Missing) else each.values).items():
            twice = each.source is CounterSource.NLDEV and (each.device, each.port, name) in files
            if (value or show_all) and not twice:
                whose_it_is = f"{each.netdev}: " if each.netdev else ""
                row = (each.place, f"{whose_it_is}{name}", str(value))
                table.add_row(*map(printable, row))
    return table


# --- a watch -------------------------------------------------------------------------------


_Row = tuple[str, str, str | None, str]


class Watch:
    """The same table, drawn anew at each sample; in a pipe, one table below the other."""

    def __init__(
        self,
        host: Identity,
        interval: float = 1.0,
        *,
        show_all: bool = False,
        quiet: bool = False,
        to: Console | None = None,
    ) -> None:
        self._host = host
        self._interval = interval  # seconds
        self._quiet = quiet
        self._show_all = show_all
        self._out = to or console()
        self._live = Live(console=self._out, auto_refresh=False) if self._out.is_terminal else None
        self._last: dict[_Row, Change] = {}
        self._totals: dict[_Row, int] = {}
        self._most: dict[_Row, float] = {}

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            first = f"the first comparison comes in {_duration(self._interval)}"
            self._live.update(Text(first, "dim"), refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, compared: Compared) -> None:
        """The state after one more interval."""
        now = {_key(each): each for each in present(compared.changes)}
        # What stands still in this interval has its row still, and is no longer marked.
        self._last = {key: _at_rest(each) for key, each in self._last.items()} | now
        for key, each in now.items():
            self._totals[key] = self._totals.get(key, 0) + each.rise
            if not isinstance(each.per_second, Missing):
                self._most[key] = max(self._most.get(key, 0.0), each.per_second)
        if self._live:
            self._live.update(Group(*self._parts(compared)), refresh=True)
            return
        show(compared, self._host, show_all=self._show_all, quiet=self._quiet, to=self._out)

    def _parts(self, compared: Compared) -> Iterator[RenderableType]:
        yield _answer(compared, self._host)
        if self._quiet:
            return
        for finding in compared.verdict.findings[:3]:
            line = Text(f"{finding.severity:<8}  ", STYLE[finding.severity])
            line.append(finding.rule, "bold").append(f"  {printable(finding.summary)}", "")
            yield line
        rows = sorted(self._last.values(), key=lambda each: each.group in _HARMLESS)
        room = max(5, self._out.height - _LINES_AROUND)
        yield self._table(rows[:room]) if rows else Text("no counter has moved yet", "dim")
        if len(rows) > room:
            yield Text(f"and {len(rows) - room} more, for which the window is too low", "dim")

    def _table(self, rows: Iterable[Change]) -> Grid:
        table = _grid("PORT", "COUNTER", "TOTAL", "PER SECOND", "")
        for each in rows:
            total = self._totals.get(_key(each), 0)
            unit = " B" if each.unit is Unit.BYTES else ""
            shown = _NOTES.get(each.event) or f"+{total}{unit}"
            table.add_row(printable(each.place), _name(each), shown, _pace(each), self._bar(each))
        return table

    def _bar(self, change: Change) -> Text:
        most = self._most.get(_key(change), 0.0)
        pace = 0.0 if isinstance(change.per_second, Missing) else change.per_second
        style = STYLE["info"] if change.group in _HARMLESS else STYLE["warn"]
        return Text(bar(pace / most if most else 0.0, ascii_only=self._ascii), style)

    @property
    def _ascii(self) -> bool:
        return not self._out.encoding.startswith("utf")


def _key(change: Change) -> _Row:
    return change.place, change.source, change.netdev, change.name


def _at_rest(change: Change) -> Change:
    return replace(change, event=Event.STEADY, difference=0, amount=0, per_second=0.0)


def bar(share: float, *, ascii_only: bool = False) -> str:
    """Ten cells for 1, in eighths of a cell."""
    eighths = round(min(1.0, max(0.0, share)) * _BAR * 8)
    whole, part = divmod(eighths, 8)
    if ascii_only:
        return "#" * (whole + (part >= 4))
    return "█" * whole + (_EIGHTHS[part] if part else "")
