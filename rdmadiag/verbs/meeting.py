"""How the connection of two ends comes about: one listens, the other goes there."""

import contextlib
import errno
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Self

from rdmadiag.verbs.bounds import Bounds, Late
from rdmadiag.verbs.peer import Peer, PeerFailed, PeerLost
from rdmadiag.verbs.protocol import Command, End, ProtocolError
from rdmadiag.verbs.records import Connected, Listening, Record, TurnedAway, Waiting

AGAIN_SECONDS: Final = 0.25  # between two looks for a listener that was not there
GREETING_SECONDS: Final = 10.0
"""For whoever connects to say who it is; the others are served meanwhile."""

AT_ONCE: Final = 64  # of those that have connected and not said who they are
_NAMED: Final = 20  # of those that were turned away: the transcript is bounded

Write = Callable[[Record], None]


class NoPeer(Exception):
    """Nobody came, or nobody was there; the message is one line."""

    def __init__(self, text: str, number: int = 0, *, is_this_host: bool = False) -> None:
        super().__init__(text)
        self.errno = number
        self.is_this_host = is_this_host


# --- the end that waits ------------------------------------------------------------------


def listen(
    host: str,
    port: int,
    until: float,
    bounds: Bounds,
    write: Write,
    secret: bytes | None,
    command: Command = "pingpong",
) -> tuple[Peer, End]:
    """The first peer of ours that comes before `until`, and its facts.

    Whoever else comes is turned away, and keeps nobody waiting. Binds to that address alone.
    Raises NoPeer, and ProtocolError where such came alone as do not fit. `write` gets
    Listening, TurnedAway and Connected as it goes.
    """
    family, address = _resolve(host, port, until, bounds)
    if _stands_for_all(address[0]):
        raise NoPeer(f"{_where(address)} is every address of this host")
    with socket.socket(family, socket.SOCK_STREAM) as server:
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen(AT_ONCE)
        except OSError as error:
            text = f"cannot listen on {_where(address)}: {_why(error)}"
            raise NoPeer(text, error.errno or 0) from error
        write(Listening(address=_where(server.getsockname())))
        server.setblocking(False)
        with _Visitors(bounds, write, secret, command) as visitors:
            while time.monotonic() < until:
                waiting = [server.fileno(), *visitors.descriptors()]
                ready = bounds.ready(waiting, min(until, visitors.patience()))
                if server.fileno() in ready:
                    visitors.accept(server)
                if found := visitors.serve(ready):
                    return found
    raise visitors.nobody(_where(address))


@dataclass(slots=True)
class _Visitor:
    """Somebody who has connected, and is not known yet."""

    peer: Peer
    where: str
    until: float
    steps: Generator[None, None, End]


class _Visitors:
    """All of them; each says who it is at its own pace."""

    def __init__(
        self, bounds: Bounds, write: Write, secret: bytes | None, command: Command
    ) -> None:
        self._bounds = bounds
        self._write = write
        self._secret = secret
        self._command: Command = command
        self._waiting: list[_Visitor] = []
        self._count = 0
        self._refused: tuple[str, str] | None = None  # the last that was turned away: who, and why

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._waiting:
            each.peer.turn_away("another peer was met, or the wait is over")

    def descriptors(self) -> list[int]:
        """The sockets of those who have connected, for poll(2)."""
        return [each.peer.fileno() for each in self._waiting]

    def patience(self) -> float:
        """When the first of them has had its time."""
        return min((each.until for each in self._waiting), default=float("inf"))

    def accept(self, server: socket.socket) -> None:
        """One more; the one that has waited longest gives way."""
        if len(self._waiting) >= AT_ONCE:
            self._turn_away(self._waiting[0], "others came meanwhile")
        try:
            connection, source = server.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._bounds.ready([], time.monotonic() + AGAIN_SECONDS)
            return  # or it went away again before it was taken
        peer = Peer(connection, self._bounds, self._command)
        until = time.monotonic() + GREETING_SECONDS
        visitor = _Visitor(peer, _where(source), until, peer.answer(self._secret))
        self._waiting.append(visitor)
        self._step(visitor)

    def serve(self, ready: set[int]) -> tuple[Peer, End] | None:
        """The peer, once one of them is known to be it."""
        now = time.monotonic()
        for each in tuple(self._waiting):
            if each.peer.fileno() in ready and (facts := self._step(each)):
                self._waiting.remove(each)
                self._write(Connected(address=each.where))
                return each.peer, facts
            if each in self._waiting and each.until <= now:
                self._turn_away(each, f"it did not say who it is within {GREETING_SECONDS:g} s")
        return None

    def _step(self, visitor: _Visitor) -> End | None:
        try:
            next(visitor.steps)
        except StopIteration as ended:
            facts: End = ended.value
            return facts
        except ProtocolError as error:
            self._refused = visitor.where, str(error)
            self._turn_away(visitor, str(error))
        except (PeerLost, PeerFailed) as error:
            self._turn_away(visitor, str(error))
        return None

    def _turn_away(self, visitor: _Visitor, why: str) -> None:
        self._waiting.remove(visitor)
        visitor.peer.turn_away(why)
        self._count += 1
        if self._count <= _NAMED:
            self._write(TurnedAway(address=visitor.where, text=why))

    def nobody(self, where: str) -> Exception:
        """Why there is no peer."""
        if self._refused:
            last, why = self._refused
            others = f", the last of {self._count} that came" if self._count > 1 else ""
            return ProtocolError(f"{last}{others}: {why}")
        count = self._count + len(self._waiting)
        came = f"; {count} connected and did not say who they are" if count else ""
        return NoPeer(f"nobody came to {where}{came}")


# --- the end that goes there -------------------------------------------------------------


def connect(
    host: str,
    port: int,
    until: float,
    bounds: Bounds,
    write: Write,
    command: Command = "pingpong",
) -> Peer:
    """The peer that listens there; raises NoPeer. No second address is tried.

    A listener that is not there yet is waited for until `until`: what is refused is TCP,
    and no device has been touched. `write` gets Waiting and Connected as it goes.
    """
    family, address = _resolve(host, port, until, bounds)
    where, ours = _where(address), _is_this_host(family, address)
    waiting = False
    while True:
        connection, number = _knock(family, address, until, bounds)
        if connection:
            write(Connected(address=where, is_this_host=ours))
            return Peer(connection, bounds, command)
        if number != errno.ECONNREFUSED or time.monotonic() + AGAIN_SECONDS >= until:
            why = os.strerror(number) if number else "no answer"
            raise NoPeer(f"cannot connect to {where}: {why}", number, is_this_host=ours)
        if not waiting:
            waiting = True
            write(Waiting(address=where, is_this_host=ours))
        bounds.ready([], time.monotonic() + AGAIN_SECONDS)


def _knock(
    family: int, address: Any, until: float, bounds: Bounds
) -> tuple[socket.socket | None, int]:
    """A connection, or the errno of its failure; 0: nobody answered."""
    connection = socket.socket(family, socket.SOCK_STREAM)
    with contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        try:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect(address)
            if not bounds.wait(connection.fileno(), "write", until):
                return None, 0
            number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError as error:
            return None, error.errno or 0
        except Late:
            return None, 0
        if number:
            return None, number
        stack.pop_all()
    return connection, 0


def _is_this_host(family: int, address: Any) -> bool:
    """Whether packets to it stay here: their source would be the same. None is sent."""
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address[0], 9, *address[2:]))
        return bool(probe.getsockname()[0] == address[0])
    return False


# --- addresses ---------------------------------------------------------------------------


def _resolve(host: str, port: int, until: float, bounds: Bounds) -> tuple[int, Any]:
    """Family and socket address; a lookup that hangs is left behind."""
    found: list[Any] = []

    def look() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.append(error)
        os.write(done, b".")

    ready, done = os.pipe()
    threading.Thread(target=look, daemon=True).start()
    if not bounds.wait(ready, "read", until):
        raise NoPeer(f"the lookup of {host} did not end")
    os.close(ready)
    os.close(done)
    if not found or isinstance(found[0], Exception):
        raise NoPeer(f"no address for {host}: {_why(found[0]) if found else 'none found'}")
    family, _, _, _, address = found[0]
    return family, address


def _stands_for_all(address: str) -> bool:
    """0.0.0.0 and ::, however the name that gave it is written."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_unspecified


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _where(address: Any) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
