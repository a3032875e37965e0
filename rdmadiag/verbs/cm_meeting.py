"""The end that listens by the connection manager: who comes, and which of them is the peer.

Whoever is none is rejected, or disconnected, and keeps nobody waiting. A request that is none
of ours is accepted where there is no secret, so that rping and others find that the path works,
and is disconnected once it is ESTABLISHED.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.verbs import cm_protocol
from rdmadiag.verbs.abi import IbvQpAttr
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_events import EventFailed, Events
from rdmadiag.verbs.cm_objects import Event, Identifier
from rdmadiag.verbs.cm_protocol import REFUSAL_TEXT, Hello, Refusal
from rdmadiag.verbs.cm_talk import Talk
from rdmadiag.verbs.cm_ud import UdEnd, end_of
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.open_end import BadCompletion, Failed
from rdmadiag.verbs.protocol import NONCE_BYTES, End, ProtocolError
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import (
    CmRequest,
    EndName,
    Returned,
    Step,
    TurnedAway,
)
from rdmadiag.verbs.transcript import Held, Transcript

GREETING_SECONDS: Final = 10.0
"""For whoever is connected to say who it is; the others are served meanwhile."""

AT_ONCE: Final = 8  # connections that have not said who they are, each with a queue pair
_NAMED: Final = 20  # of those that were turned away: the transcript is bounded
_SLICE_SECONDS: Final = 0.005  # between two looks at the queues


class AnotherDevice(Exception):
    """The address belongs to another device than the one that the preflight judged."""


class Nobody(Exception):
    """Nobody came; the message is one line."""


@dataclass(slots=True)
class Side:
    """One end here, as far as it is."""

    name: EndName
    identifier: Identifier
    end: CmEnd | None = None

    @classmethod
    def of_request(cls, caller: RecordedCaller, write: Any, name: EndName, event: Event) -> "Side":
        """The new identifier of a CONNECT_REQUEST, which librdmacm has made."""
        write(Step(call="rdma_get_cm_event", stage=caller.stage, end=name))
        write(Returned())
        return cls(name, Identifier.of_request(caller, event.id))

    @staticmethod
    def check(identifier: Identifier, facts: End) -> None:
        """Raises AnotherDevice before anything is made on it."""
        device, port = identifier.device_name, identifier.port
        if (device, port) != (facts.device, facts.port):
            found = f"{device}/{port}" if device else "no device"
            wanted = f"{facts.device}/{facts.port}"
            raise AnotherDevice(
                f"the connection manager chose {found} for the address, not {wanted}"
            )

    def close(self) -> None:
        """Raises CallFailed or Failed."""
        if self.end:
            self.end.close()
        else:
            self.identifier.close()


@dataclass(slots=True)
class Met:
    """The peer that was met: its queue pair, and the messages of both ends."""

    side: Side
    talk: Talk
    endpoint: dict[str, Any]  # its message of that step
    attributes: IbvQpAttr  # of its queue pair once it was established
    seed: int
    waited: float  # seconds


@dataclass(slots=True)
class _Visitor:
    side: Side
    transcript: Transcript
    hello: Hello | None  # None: none of ours
    nonce: bytes
    until: float
    talk: Talk | None = None
    attributes: IbvQpAttr = field(default_factory=IbvQpAttr)


@dataclass(slots=True)
class Listening:
    """Everything that serving takes."""

    library: Library
    transcript: Transcript
    events: Events
    bounds: Bounds
    request: CmRequest
    wanted: Hello
    secret: bytes | None
    visitors: list[_Visitor] = field(default_factory=list)
    count: int = 0  # that came
    refused: tuple[str, str] | None = None  # the last that was turned away: who, and why

    def meet(self, listener: Identifier) -> Met:
        """The first peer of ours that comes in time; raises Nobody, ProtocolError, EventFailed."""
        began, until = time.monotonic(), self.request.until
        try:
            while time.monotonic() < until:
                pause = _SLICE_SECONDS if self.visitors else until - time.monotonic()
                for _ in range(AT_ONCE):  # then the others: a flood of requests has no end
                    event = self.events.next(listener)
                    if not event:
                        break
                    if event.number != CmEvent.CONNECT_REQUEST.number:
                        raise EventFailed(Stage.LISTEN, event)
                    self._come(event)
                    pause = 0.0
                for each in tuple(self.visitors):
                    if met := self._serve(each):
                        self.visitors.remove(each)
                        met.waited = time.monotonic() - began
                        return met
                self.bounds.ready([self.events.fd], min(until, time.monotonic() + pause))
        finally:
            for each in tuple(self.visitors):
                self._turn_away(each, "another peer was met, or the wait is over")
        raise self._nobody(listener.own)

    def _come(self, event: Event) -> None:
        """A request: reject it, or make what it takes and accept."""
        self.count += 1
        transcript = self.transcript if self.count <= _NAMED else self.transcript.held()
        caller = RecordedCaller(self.library, transcript, EndName.LOCAL)
        caller.stage = Stage.ESTABLISH
        side = Side.of_request(caller, transcript.write, EndName.LOCAL, event)
        refusal = cm_protocol.refusal_of(event.private_data, self.wanted)
        foreign = refusal is Refusal.NO_HELLO and self.secret is None
        hello = cm_protocol.read_hello(event.private_data) if not refusal else None
        until = time.monotonic() + GREETING_SECONDS
        nonce = os.urandom(NONCE_BYTES)
        visitor = _Visitor(side, transcript, hello, nonce, until)
        if refusal and not foreign:
            self._reject(visitor, refusal)
            return
        if len(self.visitors) >= AT_ONCE:
            self._turn_away(self.visitors[0], "others came meanwhile")
        try:
            Side.check(side.identifier, self.request.ends[0])
            request = self.request
            facts = request.ends[0]
            side.end = end_of(facts.qp_type)(
                caller, side.identifier, facts, request.sizes, events=request.events
            )
            caller.stage = Stage.ESTABLISH
            answer = cm_protocol.answer(nonce, with_secret=self.secret is not None)
            side.identifier.accept(answer)
        except (AnotherDevice, Failed, CallFailed) as error:
            self._turn_away(visitor, str(error))
            return
        self.visitors.append(visitor)
        if isinstance(side.end, UdEnd):
            self._established(visitor)  # no event follows an answer of SIDR's

    def _reject(self, visitor: _Visitor, why: Refusal) -> None:
        with suppress(CallFailed):
            visitor.side.identifier.reject(cm_protocol.rejection(why))
        if why is not Refusal.NO_HELLO:
            self.refused = visitor.side.identifier.peer, REFUSAL_TEXT[why]
        self._turn_away(visitor, REFUSAL_TEXT[why])

    def _serve(self, visitor: _Visitor) -> Met | None:
        """The peer, once it is known to be it."""
        try:
            while event := self.events.next(visitor.side.identifier):
                if event.number != CmEvent.ESTABLISHED.number:
                    name = CmEvent.from_number(event.number)
                    text = f"{name.name if name else event.number}, status {event.status}"
                    self._turn_away(visitor, text)
                    return None
                if self._established(visitor):
                    return None
            if visitor.talk and visitor.talk.take("endpoint"):
                if isinstance(visitor.side.end, UdEnd):  # which knows only now whom it answers
                    visitor.attributes = visitor.side.end.attributes()
                return self._met(visitor, visitor.talk)
        except ProtocolError as error:
            self.refused = visitor.side.identifier.peer, str(error)
            self._turn_away(visitor, str(error))
        except (Failed, CallFailed, BadCompletion) as error:
            self._turn_away(visitor, str(error))
        else:
            if visitor.until <= time.monotonic():
                text = f"it did not say who it is within {GREETING_SECONDS:g} s"
                self._turn_away(visitor, text)
        return None

    def _established(self, visitor: _Visitor) -> bool:
        """Whether the visitor is done with: one of ours has its messages yet to come."""
        if visitor.hello is None:
            by_sidr = isinstance(visitor.side.end, UdEnd)
            self._turn_away(visitor, _NOT_OURS_BY_SIDR if by_sidr else _NOT_OURS)
            return True
        assert visitor.side.end
        # At once: the first message moves the PSN that is expected.
        visitor.attributes = visitor.side.end.attributes()
        talk = Talk(visitor.side.end, self.bounds, _nothing, self.events.fd, "listen")
        talk.prove(self.secret, visitor.hello, visitor.nonce)
        visitor.talk = talk
        return False

    def _met(self, visitor: _Visitor, talk: Talk) -> Met:
        if isinstance(visitor.transcript, Held):
            visitor.transcript.release()
        assert visitor.hello
        seed = cm_protocol.seed(visitor.hello, visitor.nonce)
        return Met(visitor.side, talk, talk.taken, visitor.attributes, seed, 0.0)

    def _turn_away(self, visitor: _Visitor, why: str) -> None:
        if visitor in self.visitors:
            self.visitors.remove(visitor)
            assert visitor.side.end
            with suppress(Failed):
                visitor.side.end.disconnect()
        peer = visitor.side.identifier.peer
        try:
            visitor.side.close()
        except (Failed, CallFailed):
            if isinstance(visitor.transcript, Held):
                visitor.transcript.release()  # what is left on the device is never unseen
        self.events.forget(visitor.side.identifier)
        if not isinstance(visitor.transcript, Held):
            self.transcript.write(TurnedAway(address=peer, text=why))

    def _nobody(self, where: str) -> Exception:
        """Why there is no peer."""
        if self.refused:
            last, why = self.refused
            others = f", the last of {self.count} that came" if self.count > 1 else ""
            return ProtocolError(f"{last}{others}: {why}")
        came = f"; {self.count} came that are no rdmadiag pingpong" if self.count else ""
        return Nobody(f"nobody came to {where}{came}")


_NOT_OURS: Final = "ESTABLISHED, and no rdmadiag pingpong: disconnected"
_NOT_OURS_BY_SIDR: Final = "answered by SIDR, and no rdmadiag pingpong"


def _nothing() -> None:
    """Of a visitor the loop looks at events itself."""
