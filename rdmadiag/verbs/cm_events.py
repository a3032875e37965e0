"""Waiting for events of the connection manager, each with its own deadline and written down."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.verbs.bounds import Bounds, Late
from rdmadiag.verbs.cm_objects import Event, EventChannel, Identifier
from rdmadiag.verbs.records import EndName, EventAwaited, EventCame, Record

FATAL: Final = frozenset(
    {
        CmEvent.ADDR_ERROR,
        CmEvent.ROUTE_ERROR,
        CmEvent.CONNECT_ERROR,
        CmEvent.UNREACHABLE,
        CmEvent.REJECTED,
        CmEvent.DISCONNECTED,
        CmEvent.DEVICE_REMOVAL,
        CmEvent.MULTICAST_ERROR,
    }
)
"""After one of these an identifier is of no more use."""

_PASSING: Final = frozenset({CmEvent.TIMEWAIT_EXIT, CmEvent.ADDR_CHANGE})
"""Neither what is waited for nor a failure."""


RESOLVE_MILLISECONDS: Final = 3000
"""That librdmacm is given for an address, and for a route."""

RESOLVE_SECONDS: Final = 8.0
"""For the event: the kernel looks at its own limit when a neighbour has not answered, and that
takes 3 s more."""


_AT_ONCE: Final = 64  # events


class EventFailed(Exception):
    """An event came that ends the attempt."""

    def __init__(self, stage: Stage, event: Event) -> None:
        super().__init__(f"{stage}: event {event.number}, status {event.status}")
        self.stage = stage
        self.event = event


class NoEvent(Exception):
    """None came in the step's time."""

    def __init__(self, stage: Stage, awaited: CmEvent) -> None:
        super().__init__(f"{stage}: no {awaited}")
        self.stage = stage
        self.awaited = awaited


class Events:
    """Those of one channel, sorted by the identifier that they are of."""

    def __init__(
        self,
        channel: EventChannel,
        get: Callable[..., object],
        bounds: Bounds,
        write: Callable[[Record], None],
    ) -> None:
        """`get` calls librdmacm without writing it down."""
        self.fd = channel.fd
        self._channel = channel
        self._get = get
        self._bounds = bounds
        self._write = write
        self._pending: dict[int, deque[Event]] = {}

    def wait(
        self,
        identifier: Identifier,
        end: EndName,
        stage: Stage,
        awaited: CmEvent,
        seconds: float,
        watched: Sequence[Identifier] = (),
    ) -> Event:
        """The event; raises EventFailed for a fatal one of `watched` too, NoEvent, Interrupted."""
        self._write(EventAwaited(end=end, stage=stage, event=awaited))
        until = self._bounds.soon(seconds)
        while True:
            self.take()
            if event := self._first(identifier):
                self._came(end, event)
                if event.number == awaited.number:
                    return event
                raise EventFailed(stage, event)
            for each in watched:
                if fatal := self.fatal(each):
                    self._came(end, fatal)
                    raise EventFailed(stage, fatal)
            try:
                ready = self._bounds.wait(self.fd, "read", until)
            except Late:
                ready = False
            if not ready:
                raise NoEvent(stage, awaited)

    def _came(self, end: EndName, event: Event) -> None:
        data = event.private_data.rstrip(b"\0").hex()
        self._write(EventCame(end=end, number=event.number, status=event.status, private_data=data))

    def take(self) -> None:
        """What has come, without waiting; of a flood the first, and the channel stays readable."""
        for _ in range(_AT_ONCE):
            event = self._channel.event(self._get)
            if not event:
                return
            if CmEvent.from_number(event.number) not in _PASSING:
                self._pending.setdefault(event.listener or event.id, deque()).append(event)

    def next(self, identifier: Identifier) -> Event | None:
        """The next of one identifier that has come, for a listener that serves several."""
        self.take()
        return self._first(identifier)

    def _first(self, identifier: Identifier) -> Event | None:
        waiting = self._pending.get(identifier.address)
        return waiting.popleft() if waiting else None

    def forget(self, identifier: Identifier) -> None:
        """What has come for one that is about to be destroyed: another may get its address."""
        self.take()
        self._pending.pop(identifier.address, None)

    def fatal(self, identifier: Identifier) -> Event | None:
        """An event that ends it, if one has come."""
        waiting = self._pending.get(identifier.address, deque())
        return next((each for each in waiting if CmEvent.from_number(each.number) in FATAL), None)

    def glance(self, stage: Stage, end: EndName, identifiers: Sequence[Identifier]) -> None:
        """Raises EventFailed where one has come that ends one of these; never waits."""
        self.take()
        for each in identifiers:
            if event := self.fatal(each):
                self._came(end, event)
                raise EventFailed(stage, event)
