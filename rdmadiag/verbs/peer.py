"""The peer of an attempt, over TCP: one connection, one message at a time, every wait bounded."""

import contextlib
import os
import select
import socket
import time
from collections.abc import Generator
from typing import Any, Final

from rdmadiag.facts.attempt import Outcome, PeerFailure
from rdmadiag.gid.reach import Mismatch
from rdmadiag.verbs import protocol
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.protocol import Command, End, Inbox, ProtocolError, Role, Seal

_CHUNK: Final = 16 * 1024
_GOODBYE_SECONDS: Final = 1.0  # to send the peer what failed, and to receive its outcome


class PeerLost(Exception):
    """Its connection ended, or it fell silent; the message is one line."""


class PeerFailed(Exception):
    """It said that it failed."""

    def __init__(self, failure: PeerFailure) -> None:
        super().__init__(f"the peer failed at {failure.stage}: {failure.text}")
        self.failure = failure


class Mismatched(Exception):
    """The two ends do not fit."""

    def __init__(self, ours: tuple[Mismatch, ...], theirs: tuple[Mismatch, ...]) -> None:
        super().__init__("; ".join(each.text for each in ours or theirs))
        self.ours = ours
        self.theirs = theirs


class Peer:
    """An open connection."""

    def __init__(
        self, connection: socket.socket, bounds: Bounds, command: Command = "pingpong"
    ) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._bounds = bounds
        self._command: Command = command
        self._inbox = Inbox()
        self._seal: Seal | None = None  # of what is sent
        self._next: dict[str, Any] | None = None

    def fileno(self) -> int:
        """Of the connection, for select."""
        return self._socket.fileno()

    def close(self) -> None:
        """Once everything is said."""
        self._socket.close()

    # --- messages ------------------------------------------------------------------------

    def send(self, step: str, **content: Any) -> None:
        """Raises PeerLost, and what `Bounds.wait` raises."""
        rest = self._push(self._framed(step, content))
        while rest:
            self._bounds.wait(self.fileno(), "write")
            rest = self._push(rest)

    def _framed(self, step: str, content: dict[str, Any]) -> memoryview:
        return memoryview(protocol.frame({"step": step} | content, self._seal))

    def _push(self, content: memoryview) -> memoryview:
        """What could not be sent without waiting."""
        try:
            return content[self._socket.send(content) :]
        except BlockingIOError:
            return content
        except OSError as error:
            raise PeerLost(f"the connection ended: {os.strerror(error.errno or 0)}") from error

    def receive(self, step: str, seconds: float | None = None) -> dict[str, Any]:
        """The message of that step; raises PeerLost, PeerFailed, ProtocolError.

        A peer that does not send it within `seconds`, or else before the deadline, is lost;
        with `seconds`, a deadline that comes first is Late.
        """
        until = float("inf") if seconds is None else time.monotonic() + seconds
        for _ in (coming := _Coming(self._message(step))):
            try:
                if not self._bounds.wait(self.fileno(), "read", until):
                    raise PeerLost(f"the peer said nothing for {seconds:g} s")
            except Late:
                if seconds is not None:
                    raise
                middle = "" if self._inbox.is_empty else ", in the middle of a message"
                raise PeerLost(f"the peer fell silent before its {step!r}{middle}") from None
        return coming.message

    def _message(self, step: str) -> Generator[None, None, dict[str, Any]]:
        """Yields when there is more to read before that message is whole."""
        while not self._look():
            yield
            self._take()
        message, self._next = self._next or {}, None
        if message.get("step") == "failed":
            raise PeerFailed(_failure(message))
        if message.get("step") != step:
            raise ProtocolError(f"the peer sent {_word(message.get('step'))!r}, not {step!r}")
        return message

    def _look(self) -> bool:
        """Whether a whole message waits."""
        if self._next is None:
            self._next = self._inbox.take()
        return self._next is not None

    def glance(self) -> None:
        """Raises PeerLost or PeerFailed where that is already known; never waits."""
        if not self._look() and select.select([self._socket], [], [], 0)[0]:
            self._take()
        if self._look() and (self._next or {}).get("step") == "failed":
            self.receive("failed")

    def _take(self) -> None:
        try:
            chunk = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerLost(f"the connection ended: {os.strerror(error.errno or 0)}") from error
        if not chunk:
            middle = "" if self._inbox.is_empty else " in the middle of a message"
            raise PeerLost(f"the peer closed the connection{middle}")
        self._inbox.add(chunk)

    # --- the conversation ----------------------------------------------------------------

    def introduce(self, secret: bytes | None) -> None:
        """Hello, as the end that connects; raises ProtocolError."""
        nonce = os.urandom(protocol.NONCE_BYTES)
        how: Any = {"with_secret": secret is not None, "command": self._command}
        self.send("hello", **protocol.hello(nonce, **how))
        theirs = protocol.read_hello(self.receive("hello"), **how)
        if theirs == nonce:
            raise ProtocolError("the peer sends back what it gets: no peer of ours")
        self._prove(secret, "connect", nonce, theirs)

    def answer(self, secret: bytes | None) -> Generator[None, None, End]:
        """The peer's facts, at the end that listens: hello, and its endpoint, proven.

        Yields when there is more to read, and never waits. Raises PeerLost, ProtocolError.
        """
        nonce = os.urandom(protocol.NONCE_BYTES)
        how: Any = {"with_secret": secret is not None, "command": self._command}
        message = yield from self._message("hello")
        if protocol.is_ours(message):
            # Before it is judged, so that an end of another version or secret can say so too.
            hello = protocol.hello(nonce, **how)
            if self._push(self._framed("hello", hello)):
                raise PeerLost("it takes nothing")
        theirs = protocol.read_hello(message, **how)
        self._prove(secret, "listen", theirs, nonce)
        return _endpoint((yield from self._message("endpoint")))

    def _prove(
        self, secret: bytes | None, role: Role, connecting_nonce: bytes, listening_nonce: bytes
    ) -> None:
        """From here on every message is proven, in both directions."""
        if secret is not None:
            other: Role = "connect" if role == "listen" else "listen"
            nonces = connecting_nonce, listening_nonce
            self._seal = Seal(secret, role, *nonces, self._command)
            self._inbox.seal = Seal(secret, other, *nonces, self._command)

    def agree(self, local: End, remote: End | None = None, *, by_cm: bool = False) -> End:
        """The peer's facts, once both ends have found them fit; raises Mismatched.

        `remote` are those that `answer` gave; with `by_cm` the path is not made of them.
        """
        self.send("endpoint", endpoint=local.message())
        remote = remote or _endpoint(self.receive("endpoint"))
        ours = (
            protocol.mismatches(local, remote, by_cm=True)
            if by_cm
            else (*protocol.mismatches(local, remote), *protocol.unusable(remote))
        )
        self.send("agree", problems=[[each.code, each.text] for each in ours])
        theirs = _problems(self.receive("agree").get("problems"))
        if ours or theirs:
            raise Mismatched(ours, theirs)
        return remote

    def swap_queue_pairs(self, number: int, psn: int) -> tuple[int, int]:
        """The peer's queue pair number and first PSN, for ours."""
        self.send("queue_pair", number=number, psn=psn)
        return protocol.queue_pair(self.receive("queue_pair"))

    def swap_memory(self, address: int, rkey: int) -> tuple[int, int]:
        """Where the peer's memory is, for ours."""
        return protocol.memory(self.barrier("memory", address=address, rkey=rkey))

    def barrier(self, step: str, **content: Any) -> dict[str, Any]:
        """The peer's message of that step, once both ends have come this far."""
        self.send(step, **content)
        return self.receive(step)

    def send_failure(self, failure: PeerFailure) -> None:
        """Say what failed here, if the peer still listens."""
        content = {
            "stage": failure.stage,
            "text": failure.text[:500],
            "outcome": failure.outcome,
            "status": failure.status,
            "arrived": failure.arrived,
        }
        with contextlib.suppress(OSError):
            self._socket.settimeout(_GOODBYE_SECONDS)
            self._socket.sendall(self._framed("failed", content))
            self._socket.setblocking(False)

    def turn_away(self, text: str) -> None:
        """Close it without waiting; whoever did not prove itself gets no MAC of ours either."""
        self._seal = None
        with contextlib.suppress(PeerLost):
            self._push(self._framed("failed", {"stage": "connect", "text": text[:500]}))
        self.close()

    def farewell(self) -> PeerFailure | None:
        """What the peer says once it knows that this end failed; None if it says nothing."""
        with contextlib.suppress(PeerLost, ProtocolError, Interrupted, Late):
            until = self._bounds.soon(_GOODBYE_SECONDS)
            while self._bounds.wait(self.fileno(), "read", until):
                self._take()
                while self._look():
                    message, self._next = self._next or {}, None
                    if message.get("step") == "failed":
                        return _failure(message)
        return None


class _Coming:
    """A generator whose value is kept."""

    def __init__(self, steps: Generator[None, None, dict[str, Any]]) -> None:
        self._steps = steps
        self.message: dict[str, Any] = {}

    def __iter__(self) -> Generator[None, None, None]:
        self.message = yield from self._steps


def _endpoint(message: dict[str, Any]) -> End:
    facts = message.get("endpoint")
    if not isinstance(facts, dict):
        raise ProtocolError("the peer's endpoint is no object")
    return protocol.read_end(facts)


def _failure(message: dict[str, Any]) -> PeerFailure:
    """What a peer says of its failure; what makes no sense in it is left out."""
    outcome, status, arrived = (message.get(name) for name in ("outcome", "status", "arrived"))
    known = {each.value: each for each in Outcome}
    return PeerFailure(
        stage=_word(message.get("stage")),
        text=_word(message.get("text")),
        outcome=known.get(outcome) if isinstance(outcome, str) else None,
        status=status if _is_count(status, 255) else None,
        arrived=arrived if _is_count(arrived, 1 << 20) else None,
    )


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _problems(value: object) -> tuple[Mismatch, ...]:
    if not isinstance(value, list):
        raise ProtocolError("the peer's verdict makes no sense")
    found = []
    for row in value[:32]:
        if not isinstance(row, list) or len(row) != 2:
            raise ProtocolError("the peer's verdict makes no sense")
        found.append(Mismatch(_word(row[0]), _word(row[1])))
    return tuple(found)


def _word(value: object) -> str:
    """A peer's text, cut."""
    text = value[:300] if isinstance(value, str) else protocol.shown(value)
    return text.encode("utf-8", "backslashreplace").decode()
