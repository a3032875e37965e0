"""The peer of an attempt, over TCP: one connection, one message at a time, every wait bounded."""

import contextlib
import ipaddress
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from rdmadiag.gid.reach import Mismatch
from rdmadiag.verbs import protocol
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.protocol import End, Inbox, ProtocolError
from rdmadiag.verbs.records import Connected, Listening, Record

_CHUNK: Final = 16 * 1024
_GOODBYE_SECONDS: Final = 1.0  # to send the peer what failed


class NoPeer(Exception):
    """Nobody came, or nobody was there; the message is one line."""


class PeerLost(Exception):
    """Its connection ended, or it fell silent; the message is one line."""


class PeerFailed(Exception):
    """It said that it failed."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(f"the peer failed at {stage}: {text}")
        self.stage = stage
        self.text = text


class Mismatched(Exception):
    """The two ends do not fit."""

    def __init__(self, ours: tuple[Mismatch, ...], theirs: tuple[Mismatch, ...]) -> None:
        super().__init__("; ".join(each.text for each in ours or theirs))
        self.ours = ours
        self.theirs = theirs


class Peer:
    """An open connection."""

    def __init__(self, connection: socket.socket, bounds: Bounds) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._bounds = bounds
        self._inbox = Inbox()
        self._waiting: list[dict[str, Any]] = []

    def close(self) -> None:
        """Once everything is said."""
        self._socket.close()

    # --- messages ------------------------------------------------------------------------

    def send(self, step: str, **content: Any) -> None:
        """Raises PeerLost, and what `Bounds.wait` raises."""
        rest = memoryview(protocol.frame({"step": step} | content))
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                self._bounds.wait(self._socket.fileno(), "write")
            except OSError as error:
                raise PeerLost(f"the connection ended: {os.strerror(error.errno or 0)}") from error

    def receive(self, step: str) -> dict[str, Any]:
        """The message of that step; raises PeerLost, PeerFailed, ProtocolError."""
        while not self._waiting:
            try:
                self._bounds.wait(self._socket.fileno(), "read")
            except Late:
                middle = "" if self._inbox.is_empty else ", in the middle of a message"
                raise PeerLost(f"the peer fell silent before its {step!r}{middle}") from None
            self._take()
        message = self._waiting.pop(0)
        if message.get("step") == "failed":
            raise PeerFailed(_word(message.get("stage")), _word(message.get("text")))
        if message.get("step") != step:
            raise ProtocolError(f"the peer sent {_word(message.get('step'))!r}, not {step!r}")
        return message

    def glance(self) -> None:
        """Raises PeerLost or PeerFailed where that is already known; never waits."""
        if not self._waiting and select.select([self._socket], [], [], 0)[0]:
            self._take()
        if self._waiting and self._waiting[0].get("step") == "failed":
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
        self._waiting += self._inbox.take(chunk)

    # --- the conversation ----------------------------------------------------------------

    def introduce(self, secret: bytes | None, role: str) -> None:
        """Hello, and proof of the secret where there is one; raises ProtocolError."""
        nonce = os.urandom(protocol.NONCE_BYTES)
        with_secret = secret is not None
        self.send("hello", **protocol.hello(nonce, with_secret=with_secret))
        theirs = protocol.read_hello(self.receive("hello"), with_secret=with_secret)
        if theirs == nonce:
            raise ProtocolError("the peer sends back what it gets: no peer of ours")
        if secret is None:
            return
        other = {"listen": "connect", "connect": "listen"}[role]
        self.send("proof", proof=protocol.proof(secret, role, nonce, theirs))
        protocol.check_proof(self.receive("proof"), secret, other, nonce, theirs)

    def agree(self, local: End) -> End:
        """The peer's facts, once both ends have found them fit; raises Mismatched."""
        self.send("endpoint", endpoint=local.message())
        message = self.receive("endpoint").get("endpoint")
        if not isinstance(message, dict):
            raise ProtocolError("the peer's endpoint is no object")
        remote = protocol.read_end(message)
        ours = protocol.mismatches(local, remote)
        self.send("agree", problems=[[each.code, each.text] for each in ours])
        theirs = _problems(self.receive("agree").get("problems"))
        if ours or theirs:
            raise Mismatched(ours, theirs)
        return remote

    def swap_queue_pairs(self, number: int, psn: int) -> tuple[int, int]:
        """The peer's queue pair number and first PSN, for ours."""
        self.send("queue_pair", number=number, psn=psn)
        message = self.receive("queue_pair")
        theirs = message.get("number"), message.get("psn")
        for value in theirs:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 24:
                raise ProtocolError(f"the peer's queue pair makes no sense: {theirs!r:.60}")
        return theirs  # type: ignore[return-value]  # both are integers

    def barrier(self, step: str, **content: Any) -> dict[str, Any]:
        """The peer's message of that step, once both ends have come this far."""
        self.send(step, **content)
        return self.receive(step)

    def send_failure(self, stage: str, text: str) -> None:
        """Say what failed here, if the peer still listens."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(_GOODBYE_SECONDS)
            self._socket.sendall(
                protocol.frame({"step": "failed", "stage": stage, "text": text[:500]})
            )


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
    return str(value)[:300].encode("utf-8", "backslashreplace").decode()


# --- how a connection comes about --------------------------------------------------------


def listen(
    host: str, port: int, until: float, bounds: Bounds, write: Callable[[Record], None]
) -> Peer:
    """The first peer that comes before `until`; raises NoPeer.

    Binds to that address alone. `write` gets Listening and Connected as it goes.
    """
    family, address = _resolve(host, port, until, bounds)
    if _stands_for_all(address[0]):
        raise NoPeer(f"{_where(address)} is every address of this host")
    with socket.socket(family, socket.SOCK_STREAM) as server:
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen(1)
        except OSError as error:
            raise NoPeer(f"cannot listen on {_where(address)}: {_why(error)}") from error
        write(Listening(address=_where(server.getsockname())))
        server.setblocking(False)
        while bounds.wait(server.fileno(), "read", until):
            try:
                connection, source = server.accept()
            except OSError:  # it went away again before it was taken
                continue
            write(Connected(address=_where(source)))
            return Peer(connection, bounds)
    raise NoPeer(f"nobody came to {_where(address)}")


def connect(
    host: str, port: int, until: float, bounds: Bounds, write: Callable[[Record], None]
) -> Peer:
    """The peer that listens there; raises NoPeer. One attempt, no second address."""
    family, address = _resolve(host, port, until, bounds)
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.connect(address)
        answered = bounds.wait(connection.fileno(), "write", until)
        refused = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except OSError as error:
        connection.close()
        raise NoPeer(f"cannot connect to {_where(address)}: {_why(error)}") from error
    except Late:
        answered, refused = False, 0
    except Interrupted:
        connection.close()
        raise
    if refused or not answered:
        connection.close()
        why = os.strerror(refused) if refused else "no answer"
        raise NoPeer(f"cannot connect to {_where(address)}: {why}")
    write(Connected(address=_where(address)))
    return Peer(connection, bounds)


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
