"""What happened before a moment, of what is in a ring, and whether it was watched all that time."""

from collections.abc import Iterable
from typing import Final

from rdmadiag.frozen import dataclass
from rdmadiag.watch.event import Action, Event, Kind, Value, seconds_of
from rdmadiag.watch.ring import Torn

LAST_ALIVE: Final = "last_alive"
"""Of the event with which a run begins: until when the run before it is known to have watched."""

UNHEARD: Final = "unheard_"
"""Of the same: before the name of a source that is not listened to; why not."""


@dataclass(frozen=True, slots=True)
class Span:
    """The answer: what happened from `begin` to `end`, and what is not known of it."""

    begin: float  # seconds since 1970
    end: float
    events: tuple[Event, ...]
    unknown: tuple[str, ...]  # why something may have happened that is not here
    unheard: tuple[str, ...]  # sources that were not listened to, and why


def span(found: Iterable[Event | Torn], alive: Event | None, begin: float, end: float) -> Span:
    """What is between `begin` and `end`, in seconds since 1970, of a ring's content in its order.

    `alive` is the record of until when its last run has watched.
    """
    reader = _Reader(begin, end)
    for each in found:
        if isinstance(each, Event):
            reader.event(each)
        else:
            reader.torn(each)
    reader.finish(alive)
    # The clock may have been set back: what is of one moment keeps its order.
    events = sorted(reader.chosen, key=lambda each: each.time)
    unheard = tuple(
        f"{name.removeprefix(UNHEARD)}: {why}"
        for name, why in reader.about.items()
        if name.startswith(UNHEARD)
    )
    return Span(begin, end, tuple(events), tuple(reader.unknown), unheard)


def last_time(found: Iterable[Event | Torn], alive: Event | None) -> float | None:
    """Of what is in a ring's last file, and of its last sign of life, the later one."""
    times = [each.time for each in found if isinstance(each, Event)]
    return max([*times, *([alive.time] if alive else [])], default=None)


class _Reader:
    """Goes through a ring once; it may hold more than should be kept."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._end = begin, end
        self.chosen: list[Event] = []
        self.about: dict[str, Value] = {}  # of the run that was begun last before the end
        self._said: dict[str, int] = {}
        self._missing = 0
        self._before: Event | None = None
        self._torn: list[Torn] = []
        self._run: tuple[float, float] | None = None
        self._covered = begin

    @property
    def unknown(self) -> list[str]:
        """Why something may have happened that is not there; each once."""
        found = [
            f"{why} ({times} times)" if times > 1 else why for why, times in self._said.items()
        ]
        if self._covered < self._end:
            found.insert(0, "it was not watched all that time")
        if self._missing:
            found.append(f"{self._missing} events are no longer in the ring")
        return found

    def torn(self, what: Torn) -> None:
        """It counts where the events around it are of that time."""
        self._torn.append(what)

    def event(self, event: Event) -> None:
        """Takes an event, in their order."""
        begins = _is(event, Action.BEGAN)
        before, self._before = self._before, event
        self._place_torn(before, event.time)
        if before is None or begins:
            self._end_run(_time(event.happened.details.get(LAST_ALIVE)) if begins else None)
            self._run = (event.time, event.time)
        elif self._run:
            self._run = (self._run[0], max(self._run[1], event.time))
            if event.time >= self._begin and before.time <= self._end:
                self._missing += max(0, event.number - before.number - 1)
        if begins and event.time <= self._end:
            self.about = dict(event.happened.details)
        if self._begin <= event.time <= self._end:
            self.chosen.append(event)
            if event.happened.kind in (Kind.LOSS, Kind.UNREADABLE):
                why = event.happened.details.get("why") or "events were lost"
                self._say(f"{event.happened.subject}: {why}")

    def finish(self, alive: Event | None) -> None:
        """Ends the spans; `alive` is what the process that writes the ring said last."""
        before = self._before
        self._place_torn(before, float("inf"))
        ended = before is not None and _is(before, Action.ENDED)
        if alive is not None and before is None:
            self._run = (alive.time, alive.time)
        self._end_run(None if alive is None or ended else alive.time)
        if alive is not None and not self.about:
            self.about = dict(alive.happened.details)

    def _place_torn(self, before: Event | None, after: float) -> None:
        found, self._torn = self._torn, []
        if after >= self._begin and (before is None or before.time <= self._end):
            for each in found:
                self._say(each.value)

    def _end_run(self, alive: float | None) -> None:
        """Counts what a run has covered; it is known to have watched until `alive`."""
        if self._run is None:
            return
        first, last = self._run
        if first <= self._covered:
            self._covered = max(self._covered, last, alive or 0.0)

    def _say(self, why: str) -> None:
        self._said[why] = self._said.get(why, 0) + 1


def _is(event: Event, action: Action) -> bool:
    return event.happened.kind is Kind.WATCH and event.happened.action is action


def _time(value: Value) -> float | None:
    try:
        return seconds_of(value)
    except ValueError:
        return None
