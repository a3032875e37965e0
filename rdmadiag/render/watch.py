"""Events as lines, and as a screen that is drawn anew; the answer of `explain --ring`."""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live

from rdmadiag.explain.watched import WatchedCause
from rdmadiag.facts import Identity
from rdmadiag.render import json
from rdmadiag.render.console import STYLE, Text, console, in_view, say, steps
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import counted, printable
from rdmadiag.watch.event import LOCAL_TABLE, Action, Event, Kind, Source, Value, members, utc
from rdmadiag.watch.span import LAST_ALIVE, UNHEARD, Span
from rdmadiag.watch.strip import Strip, drawn

_REDRAW: Final = 0.25  # seconds between two drawings, however much happens
_STRIP: Final = 30  # cells
_HEAD: Final = 4  # lines around the events
_INDENT: Final = 4  # of what a line of the screen has no room for
_FLAGS: Final = ("tentative", "duplicate", "dead")
_HIDDEN: Final = ("path", "action", "seconds", "scope", "hops", "subsystem")
"""Of an event's details, what a line leaves to JSON."""


def line(event: Event, *, day: bool = True) -> Text:
    """One event: time (UTC), who said it, what."""
    text = Text(utc(event.time)[0 if day else 11 : -4].replace("T", " "), "dim")
    text.append(f"  {event.happened.source:<8} ", "dim")
    return text.append(_sentence(event), _style(event))


def _sentence(event: Event) -> str:
    what = event.happened
    details = what.details
    if what.kind is Kind.LINE:
        return str(details.get("line"))
    if what.kind is Kind.WATCH:
        return _of_run(event)
    if what.kind is Kind.ASYNC_EVENT and what.action is Action.NOTIFIED:
        name = details.get("event") or f"asynchronous event {details.get('number')}"
        return f"{name} at {what.subject}: {details.get('meaning')}"
    if what.kind is Kind.OBJECT:
        words = f"{details.get('subsystem')} {what.subject} {details.get('action')}"
    else:
        words = f"{what.kind} {what.subject} {what.action}"
    parts = [
        f"{name} {_word(value)} > {_word(details.get(name))}" for name, value in what.before.items()
    ]
    if not parts and (what.kind is not Kind.LINK or what.action is Action.ADDED):
        parts = list(_told(details))
    return f"{words}: {', '.join(parts)}" if parts else words


def _told(details: Mapping[str, Value]) -> Iterable[str]:
    for name, value in details.items():
        if name in _HIDDEN or value is None or (name in _FLAGS and not value):
            continue
        yield (
            name if name in _FLAGS else _word(value) if name == "why" else f"{name} {_word(value)}"
        )


def _word(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _of_run(event: Event) -> str:
    what = event.happened
    details = what.details
    if what.action is Action.ENDED:
        lost = f", {details['lost']} times something was lost" if details.get("lost") else ""
        return f"ended ({details.get('why')}): {details.get('events')} events{lost}"
    if what.action is Action.CHANGED:
        return f"listening to {details.get('heard')} too"
    said = f"watching {what.subject}: {details.get('heard') or 'nothing'}"
    if LAST_ALIVE in details:
        said += f"; the run before it watched until {details[LAST_ALIVE]}"
    return said


def unheard(event: Event) -> list[str]:
    """What a run does not listen to, and why."""
    return [
        f"not listened to: {name.removeprefix(UNHEARD)}: {why}"
        for name, why in event.happened.details.items()
        if name.startswith(UNHEARD)
    ]


def _style(event: Event) -> str:
    what = event.happened
    if what.kind in (Kind.LOSS, Kind.UNREADABLE) or what.action is Action.FAILED:
        return STYLE["unknown"]
    if what.kind is Kind.HEALTH:
        return STYLE["critical" if what.details.get("state") == "error" else "ok"]
    if what.kind is Kind.LINE:
        level = what.details.get("level")
        return STYLE["warn"] if isinstance(level, int) and level <= 4 else ""
    if what.kind in (Kind.DEVICE, Kind.LINK, Kind.NETDEV, Kind.ADDRESS) and what.action in (
        *(Action.REMOVED, Action.DETACHED),
    ):
        return STYLE["warn"]
    if what.kind is Kind.LINK and what.details.get("operstate") in ("down", "lowerlayerdown"):
        return STYLE["warn"]
    return ""


def is_shown(event: Event) -> bool:
    """Whether a person is shown it: no notification that says nothing new, and no sample."""
    what = event.happened
    silent = what.kind is Kind.LINK and what.action is Action.NOTIFIED
    return not silent and what.action is not Action.SAMPLED


def is_of_local_table(event: Event) -> bool:
    """Whether it is a route that the kernel makes and removes with an address, which is an event
    of its own."""
    what = event.happened
    return what.kind is Kind.ROUTE and what.details.get("table") == LOCAL_TABLE


class Lines:
    """One line an event, as they come."""

    def __init__(
        self, *, quiet: bool = False, local_routes: bool = False, to: Console | None = None
    ) -> None:
        self._out = to or console()
        self._quiet = quiet
        self._local_routes = local_routes

    def show(self, events: Iterable[Event]) -> None:
        """Those that came together."""
        for event in events:
            hidden = self._quiet and event.happened.source is Source.WATCH
            hidden |= is_of_local_table(event) and not self._local_routes
            if is_shown(event) and not hidden:
                self._out.print(line(event), soft_wrap=True)
        self._out.file.flush()


def document(host: Identity, event: bytes) -> str:
    """A line of `watch --json`, of an event that is JSON already: many may come in a second."""
    return f"{_head(host, time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()))}{event.decode()}}}"


@lru_cache(maxsize=2)
def _head(host: Identity, now: str) -> str:
    whole = json.document({"host": host, "event": None}, datetime.fromisoformat(now))
    return whole.removesuffix("null}")


class Screen:
    """The last events, drawn anew when something came, and what each port moves."""

    def __init__(
        self, host: Identity, *, local_routes: bool = False, to: Console | None = None
    ) -> None:
        self._host = host
        self._local_routes = local_routes
        self._out = to or console()
        self._live = Live(console=self._out, auto_refresh=False, transient=False)
        self._rows: deque[Event] = deque(maxlen=200)
        self._strips: dict[tuple[str, str], Strip] = {}
        self._units: dict[str, str] = {}
        self._notes: list[str] = []
        self._count = 0
        self._lost = 0
        self._local = 0  # of the table `local`, not shown
        self._stale = True
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(self.drawing(), refresh=True)
        self._live.stop()

    def show(self, events: Iterable[Event]) -> None:
        """Those that came together."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        what = event.happened
        self._stale = True
        if what.action is Action.SAMPLED:
            self._add(event)
            return
        if what.source is Source.WATCH and what.action in (Action.BEGAN, Action.CHANGED):
            self._notes = unheard(event)
        elif what.source is not Source.WATCH:
            self._count += 1
        self._lost += what.kind is Kind.LOSS
        if is_of_local_table(event) and not self._local_routes:
            self._local += 1
        elif is_shown(event):
            self._rows.append(event)

    def tick(self) -> float | None:
        """Draws what has come, but not too often; when it is to be called again."""
        if not self._stale:
            return None
        now = time.monotonic()
        if now - self._drawn < _REDRAW:
            return self._drawn + _REDRAW
        self._live.update(self.drawing(), refresh=True)
        self._stale, self._drawn = False, now
        return None

    def drawing(self) -> RenderableType:
        """The screen as it is now: counts, losses, the last events."""
        head = Text(f"{self._host.hostname}: {counted(self._count, 'event')}", "bold")
        if self._lost:
            head.append(f", {counted(self._lost, 'loss')}", STYLE["unknown"])
        if self._local:
            head.append(f" ({_of_local_table(self._local)})", "dim")
        parts: list[RenderableType] = [head]
        parts += [_one_row(Text(note, "dim")) for note in self._notes]
        if self._strips:
            parts += [strips(self._strips, self._units)]
        room = self._out.height - _HEAD - len(self._notes) - len(self._strips)
        return Group(*parts, *self._last(max(1, room)))

    def _last(self, room: int) -> list[Text]:
        """The rows of the last events, each whole: as many of them as there is room for."""
        rows: list[Text] = []
        for event in reversed(self._rows):
            found = self._wrapped(line(event, day=False))
            if len(rows) + len(found) > room:
                return rows or found[:room]
            rows = found + rows
        return rows

    def _wrapped(self, shown: Text) -> list[Text]:
        found = []
        for number, each in enumerate(shown.wrap(self._out, max(1, self._out.width - _INDENT))):
            each.rstrip()
            row = Text(" " * _INDENT if number else "", no_wrap=True)
            found.append(row.append_text(each))
        return found

    def _add(self, event: Event) -> None:
        add_sample(event, self._strips, self._units)


def _of_local_table(count: int) -> str:
    return f"{counted(count, 'route')} of the table local not shown"


def _one_row(shown: Text) -> Text:
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


def add_sample(event: Event, to: dict[tuple[str, str], Strip], units: dict[str, str]) -> None:
    """What a sample says of its port."""
    what = event.happened
    units[what.subject] = str(what.details.get("unit"))
    for name in ("sent", "received"):
        value = what.details.get(name)
        strip = to.setdefault((what.subject, name), Strip())
        strip.add(event.time, value if isinstance(value, int) else None)


def strips(found: Mapping[tuple[str, str], Strip], units: Mapping[str, str]) -> Grid:
    """One row a counter: its pace over time, the last one as a number."""
    table = Grid()
    for name in ("PORT", "COUNTER", "PACE", "NOW"):
        table.add_column(name, justify="right" if name == "NOW" else "left", no_wrap=True)
    for (subject, name), strip in found.items():
        last = strip.paces[-1] if strip.paces else None
        now = "-" if last is None else _pace(last, units.get(subject, ""))
        table.add_row(subject, name, Text(drawn(strip.paces, _STRIP).ljust(_STRIP)), now)
    return table


_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def _pace(a_second: float, unit: str) -> str:
    """ "1.2 Gb/s", "3.4 k/s"."""
    is_bytes = unit == "bytes"
    number = a_second * 8 if is_bytes else a_second
    for factor, prefix in _PREFIXES:
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{'b' if is_bytes else ''}/s"
    return f"{number:.3g} {'b' if is_bytes else ''}/s"


# --- explain --ring ------------------------------------------------------------------------


def show_span(
    found: Span,
    name: str,
    causes: Sequence[WatchedCause] = (),
    *,
    quiet: bool = False,
    local_routes: bool = False,
    to: Console | None = None,
) -> None:
    """What happened before a moment."""
    out = to or console()
    every = [each for each in found.events if is_shown(each)]
    events = [each for each in every if local_routes or not is_of_local_table(each)]
    said = (
        f"{counted(len(events), 'event')} from {utc(found.begin)[:-4]}Z to {utc(found.end)[:-4]}Z"
    )
    head = Text("UNKNOWN", STYLE["unknown"]) if found.unknown else Text("OK", STYLE["ok"])
    head.append(f"  {said}, of {name}")
    if len(every) > len(events):
        head.append(f" ({_of_local_table(len(every) - len(events))})")
    if quiet:
        say(out, head)
        return
    with in_view(out, head):
        say(out, head)
        for why in found.unknown:
            say(out, Text(f"  not known: {why}", STYLE["unknown"]))
        for each in found.unheard:
            say(out, Text(f"  not listened to: {each}", "dim"))
        _show_causes(out, causes)
        paces: dict[tuple[str, str], Strip] = {}
        units: dict[str, str] = {}
        for event in found.events:
            if event.happened.action is Action.SAMPLED:
                add_sample(event, paces, units)
        if paces:
            out.print(strips(paces, units))
        for event in events:
            out.print(line(event), soft_wrap=True)


_CAUSES: Final = 5


def _show_causes(out: Console, causes: Sequence[WatchedCause]) -> None:
    if not causes:
        return
    out.print()
    say(out, "What may have made something fail then, the likeliest first:")
    for each in causes[:_CAUSES]:
        line = Text(f"  {utc(each.time)[11:23]}Z  ", "dim")
        again = f", {each.count} times" if each.count > 1 else ""
        mended = ", mended since" if each.mended else ""
        line.append(f"{printable(each.subject)}: {each.text}  [{each.label}{again}{mended}]", "")
        say(out, line)
    if len(causes) > _CAUSES:
        say(out, f"  and {len(causes) - _CAUSES} more; --json has all of them")
    steps(out, causes[0].next)
    out.print()


def span_members(found: Span, name: str, causes: Sequence[WatchedCause] = ()) -> dict[str, Any]:
    """The same, for JSON."""
    return {
        "ring": name,
        "begin": utc(found.begin),
        "end": utc(found.end),
        "unknown": found.unknown,
        "unheard": found.unheard,
        "causes": [json.members(each) | {"time": utc(each.time)} for each in causes],
        "events": [members(each) for each in found.events],
    }
