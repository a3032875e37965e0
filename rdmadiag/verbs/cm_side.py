"""One end of a cell of `exercise` whose queue pair librdmacm connects.

All cells of a run share one event channel and, at the end that is connected to, one identifier
that listens. A cell is known by the private data of its request: whoever else comes is rejected.
"""

import hmac
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from rdmadiag.explain.connection import said
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.exercise import Operation, Wanted
from rdmadiag.facts.ib import QpType
from rdmadiag.verbs import cm_meeting
from rdmadiag.verbs.async_events import AsyncEvents
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.cm_events import (
    RESOLVE_MILLISECONDS,
    RESOLVE_SECONDS,
    EventFailed,
    Events,
    NoEvent,
)
from rdmadiag.verbs.cm_objects import Event, EventChannel, IdContext, Identifier, IdQueuePair
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.objects import REMOTE_WRITE, Context, QueuePair, Shape
from rdmadiag.verbs.operation import Pair
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import EndName
from rdmadiag.verbs.side import DEPTH, Side
from rdmadiag.verbs.transcript import Transcript
from rdmadiag.verbs.work import NotConnected

ESTABLISH_SECONDS: Final = 12.0
"""Less than remote_side.SILENT_SECONDS, in which the other host must answer."""

_BACKLOG: Final = 8
_TOKEN_BYTES: Final = 16
_READS: Final = (Operation.READ, Operation.FENCE)


class Manager:
    """librdmacm, as the cells of one run use it."""

    def __init__(
        self, library: Library, caller: RecordedCaller, transcript: Transcript, bounds: Bounds
    ) -> None:
        """Opens the event channel; raises CallFailed."""
        self._caller = caller
        self._library = library
        self._write = transcript.write
        self.channel = EventChannel(caller)
        self.events = Events(self.channel, library.call, bounds, transcript.write)
        self.listener: Identifier | None = None
        self.run = b""
        """What both hosts know of this run, and nobody else."""
        self.place = "", 0
        """Where the end listens that is connected to."""
        self.sources: tuple[str, ...] = ()
        """Addresses of the end that connects, the best first."""
        self.identifiers: list[Identifier] = []
        """Of the cell that is under way."""

    def listen(self, caller: RecordedCaller, address: str, facts: End) -> None:
        """At this address and any free port; raises CallFailed and AnotherDevice."""
        caller.stage = Stage.BIND
        self._caller = caller
        self.listener = made = Identifier.create(caller, self.channel, QpType.RC)
        made.bind_to(address, 0)
        cm_meeting.Side.check(made, facts)
        caller.stage = Stage.LISTEN
        made.listen(_BACKLOG)
        self.place = address, int(made.own.rpartition(":")[2])

    def token(self, cell: Wanted) -> bytes:
        """The private data of the request of a cell."""
        name = f"{cell.operation} {cell.qp_type} {cell.via}".encode()
        return hmac.digest(self.run, name, "sha256")[:_TOKEN_BYTES]

    def source(self) -> str:
        """The address to connect from; "" where the kernel chooses."""
        version = ip_address(self.place[0]).version
        for each in self.sources:
            if "%" not in each and ip_address(each).version == version:
                return each
        return ""

    def reject(self, caller: RecordedCaller, name: EndName, event: Event) -> None:
        """A request that is none of the cell that is under way."""
        stranger = cm_meeting.Side.of_request(caller, self._write, name, event)
        with suppress(CallFailed):
            stranger.identifier.reject(b"")
        with suppress(CallFailed):
            stranger.identifier.close()

    def request(self, caller: RecordedCaller, name: EndName, event: Event) -> Identifier:
        """The new identifier of a CONNECT_REQUEST."""
        return cm_meeting.Side.of_request(caller, self._write, name, event).identifier

    def close(self) -> None:
        """Whoever still waits is rejected; raises CallFailed."""
        self._caller.stage = Stage.TEARDOWN
        if self.listener:
            with suppress(CallFailed):
                while event := self.events.next(self.listener):
                    self.reject(self._caller, EndName.LOCAL, event)
            with suppress(CallFailed):
                self.listener.close()
        self.channel.close()


class CmSide(Side):
    """Every call raises CallFailed; those that wait for an event raise NotConnected too."""

    def __init__(
        self,
        cell: Wanted,
        manager: Manager,
        facts: End,
        own: End,
        caller: RecordedCaller,
        bounds: Bounds,
        name: EndName,
        events: Callable[[Context, EndName], AsyncEvents],
        *,
        acts: bool,
    ) -> None:
        """`own` are the facts of this host's end, `facts` those as the cell words them; `events`
        makes those of its context."""
        super().__init__(cell, None, facts, caller, bounds, None, acts=acts)
        self._manager = manager
        self._own = own
        self._name = name
        self._events_of = events
        self._is_open = False
        self._identifier: Identifier | None = None
        self._is_connected = False

    # --- the end that connects -----------------------------------------------------------

    def resolve_address(self) -> None:
        """The way to the other end, and by it the device; raises AnotherDevice."""
        manager = self._manager
        made = self._hold(Identifier.create(self._caller, manager.channel, QpType.RC))
        made.resolve_to(manager.source(), *manager.place, RESOLVE_MILLISECONDS)
        self._await(made, CmEvent.ADDR_RESOLVED, RESOLVE_SECONDS)
        cm_meeting.Side.check(made, self._own)

    def resolve_route(self) -> None:
        """Resolves the route to the peer; raises CallFailed and what a wrong event raises."""
        made = self._held
        made.resolve_route(RESOLVE_MILLISECONDS)
        self._await(made, CmEvent.ROUTE_RESOLVED, RESOLVE_SECONDS)

    def connect(self) -> None:
        """Ask the other end; `established` waits for its answer."""
        self._held.connect(self._manager.token(self._cell))

    # --- the end that is connected to ----------------------------------------------------

    def requested(self) -> None:
        """Wait for the request of this cell; raises AnotherDevice."""
        manager, listener = self._manager, self._manager.listener
        assert listener
        token, until = manager.token(self._cell), time.monotonic() + ESTABLISH_SECONDS
        while True:
            event = self._await(listener, CmEvent.CONNECT_REQUEST, until - time.monotonic())
            if event.private_data.startswith(token):
                break
            manager.reject(self._caller, self._name, event)
        made = self._hold(manager.request(self._caller, self._name, event))
        cm_meeting.Side.check(made, self._own)

    def accept(self) -> None:
        """Once its queue pair is made."""
        self._held.accept(b"")

    # --- both ----------------------------------------------------------------------------

    def open(self) -> int:
        self._context = IdContext(self._caller, self._held)
        self._events = self._events_of(self._context, self._name)
        self._is_open = True
        return super().open()

    def async_events(self) -> tuple[int, ...]:
        return super().async_events() if self._is_open else ()

    def established(self) -> None:
        """Wait until it is connected."""
        self._await(self._held, CmEvent.ESTABLISHED, ESTABLISH_SECONDS)
        self._is_connected = True

    def close(self) -> None:
        made, self._identifier = self._identifier, None
        try:
            if made and self._is_connected:
                self._caller.stage = Stage.DISCONNECT
                with suppress(CallFailed):  # of a queue pair that has failed there is none left
                    made.disconnect()
                self._caller.stage = Stage.TEARDOWN
            super().close()
        finally:
            if made:
                self._manager.identifiers.remove(made)
                self._manager.events.forget(made)
                made.close()

    def _hold(self, made: Identifier) -> Identifier:
        self._identifier = made
        self._manager.identifiers.append(made)
        return made

    @property
    def _held(self) -> Identifier:
        assert self._identifier
        return self._identifier

    def _await(self, of: Identifier, awaited: CmEvent, seconds: float) -> Event:
        manager = self._manager
        others = [each for each in manager.identifiers if each is not of]
        stage = self._caller.stage
        try:
            return manager.events.wait(of, self._name, stage, awaited, seconds, others)
        except NoEvent as error:
            raise NotConnected(f"no {awaited.constant} came") from error
        except EventFailed as error:
            event = CmEvent.from_number(error.event.number)
            found = said(event, error.event.status) if event else f"event {error.event.number}"
            raise NotConnected(f"{found}; {awaited.constant} was to come") from error

    def _rights(self) -> int:
        # What answers a READ of iWARP is written by the other end: RFC 5040, 5.1 and 7.2.
        reads = self._cell.operation in _READS and self._held.is_iwarp
        return super()._rights() | (REMOTE_WRITE if reads else 0)

    def _queue_pair(self, kind: QpType, shape: Shape) -> QueuePair:
        return IdQueuePair(self._caller, self._pd, self._cq, self._held, kind, DEPTH, shape)


class CmPair(Pair):
    """Both ends of a cell that the connection manager connects."""

    one: CmSide
    other: CmSide

    def open(self, _psns: object) -> None:
        """Make everything, and connect; raises CallFailed and NotConnected."""
        one, other = self.one, self.other
        self.begin(Stage.RESOLVE_ADDRESS)
        one.resolve_address()
        self.begin(Stage.RESOLVE_ROUTE)
        one.resolve_route()
        self.begin(Stage.CREATE_QP)
        number = one.open()
        self.begin(Stage.ESTABLISH)
        one.connect()
        other.requested()
        self.begin(Stage.CREATE_QP)
        self.numbers = (number, other.open())
        self.begin(Stage.ESTABLISH)
        other.accept()
        one.established()
        other.established()
