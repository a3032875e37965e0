"""How a connection comes about: who is met, who is turned away, and why nobody was there."""

import errno
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.verbs import meeting, protocol
from rdmadiag.verbs.bounds import Bounds, Interrupted
from rdmadiag.verbs.meeting import NoPeer, connect, listen
from rdmadiag.verbs.peer import Peer, PeerLost
from rdmadiag.verbs.protocol import End, ProtocolError, frame
from rdmadiag.verbs.records import Kind, Record
from tests.verbs.attempts import HERE, SECRET, THERE, deadline, together

SLACK = 20.0  # seconds, of a busy machine


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="no IPv6 on this host")


class Unbounded(Bounds):
    """For a thread that has no signals of its own."""

    def __init__(self) -> None:
        self._parent, self._held = os.pipe()
        self._woken, self._waker = os.pipe()
        self._deadline = float("inf")
        self._signal = None


UNBOUNDED = Unbounded()


class Written:
    """The records, and where somebody listens as soon as that is known."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._listening = threading.Event()

    def __call__(self, record: Record) -> None:
        self.records.append(record)
        self._listening.set()

    @property
    def port(self) -> int:
        assert self._listening.wait(10)
        return int(self.records[0].address.rpartition(":")[2])


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


@contextmanager
def a_peer(port: int, host: str = "127.0.0.1", secret: bytes | None = None) -> Iterator[Peer]:
    """One of ours that has come, and has said who it is."""
    with closing(Peer(socket.create_connection((host, port), 5), UNBOUNDED)) as peer:
        peer.introduce(secret)
        peer.send("endpoint", endpoint=THERE.message())
        yield peer


def comes(written: "Written", **how: Any) -> None:
    """It stays until it has been answered."""
    with suppress(PeerLost), a_peer(written.port, **how) as peer:
        peer.receive("endpoint")


@pytest.mark.parametrize("secret", [None, SECRET], ids=["without a secret", "with one"])
@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", ""),
        pytest.param("::1", "[::1]", marks=needs_ipv6),
    ],
)
def test_one_listens_and_one_connects(
    bounds: Bounds, host: str, shown: str, secret: bytes | None
) -> None:
    there, here = Written(), Written()

    def listens() -> Any:
        peer, remote = listen(host, 0, soon(), bounds, there, secret)
        return peer, peer.agree(HERE, remote)

    def connects() -> Any:
        peer = connect(host, there.port, soon(), bounds, here)
        peer.introduce(secret)
        return peer, peer.agree(THERE)

    with deadline(bounds, 20):
        (one, theirs), (other, ours) = together(listens, connects)
    with closing(one), closing(other):
        assert (ours, theirs) == (HERE, THERE)
    assert [each.kind for each in there.records] == [Kind.LISTENING, Kind.CONNECTED]
    assert [each.kind for each in here.records] == [Kind.CONNECTED]
    assert there.records[0].address.startswith(f"{shown}:" if shown else "")
    assert here.records[0].address == there.records[0].address
    assert here.records[0].is_this_host


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux alone")
def test_it_listens_at_that_address_alone_and_to_one_peer(bounds: Bounds) -> None:
    written = Written()

    def knock() -> None:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", written.port), 5)
        comes(written)

    (came, _), _ = together(lambda: hears(bounds, written), knock)
    came.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", written.port), 5)


def hears(
    bounds: Bounds, written: "Written", secret: bytes | None = None, seconds: float = 10.0
) -> tuple[Peer, End]:
    """Listens; who came is closed, so that the other end goes on."""
    peer, facts = listen("127.0.0.1", 0, soon(seconds), bounds, written, secret)
    peer.close()
    return peer, facts


# --- strangers ---------------------------------------------------------------------------

HELLO = {"step": "hello"} | protocol.hello(bytes(32), with_secret=False)
PROVEN = HELLO | {"with_secret": True}
ENDPOINT = {"step": "endpoint", "endpoint": THERE.message()}

STRANGERS: dict[str, tuple[bytes, str]] = {
    "nothing at all, and goes": (b"", "closed the connection"),
    "HTTP": (b"GET / HTTP/1.0\r\n\r\n", "no peer of ours"),
    "a gigabyte": (struct.pack(">I", 1 << 30), "1073741824 bytes is announced"),
    "half a message": (frame(HELLO)[:-1], "in the middle of a message"),
    "half a greeting": (frame(HELLO), "closed the connection"),
    "an older version": (frame(HELLO | {"version": 1}), "has version 1"),
    "another protocol": (frame(HELLO | {"protocol": "perftest"}), "no rdmadiag pingpong"),
    "an MTU of 300": (
        frame(HELLO) + frame({"step": "endpoint", "endpoint": THERE.message() | {"mtu": 300}}),
        "the peer's mtu makes no sense: 300",
    ),
    "no facts": (frame(HELLO) + frame({"step": "endpoint"}), "endpoint is no object"),
    "a failure": (frame({"step": "failed", "stage": "x", "text": "y"}), "failed at x: y"),
}
OF_A_SECRET: dict[str, tuple[bytes, str]] = {
    "no secret": (frame(HELLO) + frame(ENDPOINT), "the peer has no secret"),
    "no proof": (frame(PROVEN) + frame(ENDPOINT), "knows another secret"),
    "a proof of zeros": (
        frame(PROVEN) + struct.pack(">I", 34) + bytes(32) + b"{}",
        "knows another secret",
    ),
    "a message shorter than a MAC": (
        frame(PROVEN) + struct.pack(">I", 2) + b"{}",
        "knows another secret",
    ),
}


@pytest.mark.parametrize(
    ("said", "why", "secret"),
    [
        *(pytest.param(*each, None, id=name) for name, each in STRANGERS.items()),
        *(
            pytest.param(*each, SECRET, id=f"{name}, where there is a secret")
            for name, each in OF_A_SECRET.items()
        ),
    ],
)
def test_a_stranger_is_turned_away_and_the_peer_is_met(
    bounds: Bounds, said: bytes, why: str, secret: bytes | None
) -> None:
    written = Written()

    def stranger_then_peer() -> None:
        with socket.create_connection(("127.0.0.1", written.port), 5) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                while stranger.recv(4096):
                    pass
        comes(written, secret=secret)

    (_, facts), _ = together(lambda: hears(bounds, written, secret), stranger_then_peer)
    assert facts == THERE
    _, turned_away, connected = written.records
    assert why in turned_away.text
    assert connected.kind == Kind.CONNECTED


@pytest.mark.parametrize("said", [b"", b"\0\0", frame(HELLO)], ids=["idle", "half", "a hello"])
@pytest.mark.parametrize("count", [1, 100])
def test_strangers_that_stay_hold_nobody_up(bounds: Bounds, said: bytes, count: int) -> None:
    written = Written()

    def strangers_and_peer() -> float:
        with ExitStack() as stack:
            for _ in range(count):
                each = socket.create_connection(("127.0.0.1", written.port), 5)
                stack.enter_context(each).sendall(said)
            began = time.monotonic()
            comes(written)
            return time.monotonic() - began

    (_, facts), took = together(lambda: hears(bounds, written, seconds=60), strangers_and_peer)
    assert facts == THERE
    assert took < meeting.GREETING_SECONDS
    # The transcript of the child is bounded.
    assert len([each for each in written.records if each.kind == Kind.TURNED_AWAY]) <= 20


def test_a_stranger_that_stays_silent_is_turned_away_in_time(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "GREETING_SECONDS", 0.1)
    written = Written()

    def silent() -> bytes:
        with socket.create_connection(("127.0.0.1", written.port), 5) as stranger:
            return b"".join(iter(lambda: stranger.recv(4096), b""))

    error, said = together(lambda: hears(bounds, written, seconds=1.0), silent)
    assert b"did not say who it is" in said
    assert isinstance(error, NoPeer)
    assert str(error).endswith("; 1 connected and did not say who they are")


def test_where_none_fits_the_last_that_spoke_is_named(bounds: Bounds) -> None:
    written = Written()

    def wrong() -> None:
        for _ in range(2):
            with suppress(ProtocolError, PeerLost), a_peer(written.port, secret=b"t" * 32) as peer:
                peer.receive("endpoint")

    error, _ = together(lambda: hears(bounds, written, SECRET, seconds=1.0), wrong)
    assert isinstance(error, ProtocolError)
    words = r"127\.0\.0\.1:\d+, the last of 2 that came: the peer knows another secret"
    assert re.match(words, str(error))


@given(st.lists(st.binary(max_size=60), max_size=4), st.booleans())
@settings(max_examples=50)
def test_whatever_strangers_send_the_peer_is_met(
    bounds: Bounds, chunks: list[bytes], framed: bool
) -> None:
    written = Written()

    def strangers_and_peer() -> None:
        with ExitStack() as stack:
            for chunk in chunks:
                each = socket.create_connection(("127.0.0.1", written.port), 5)
                head = struct.pack(">I", len(chunk)) if framed else b""
                stack.enter_context(each).sendall(head + chunk)
            comes(written)

    (_, facts), _ = together(lambda: hears(bounds, written), strangers_and_peer)
    assert facts == THERE


# --- nobody, or nobody there -------------------------------------------------------------


@pytest.mark.parametrize(
    "every", ["0.0.0.0", "0", "0x0", "::", pytest.param("::ffff:0.0.0.0", marks=needs_ipv6)]
)
def test_all_addresses_of_a_host_are_no_address_to_listen_at(bounds: Bounds, every: str) -> None:
    written = Written()
    with pytest.raises(NoPeer):
        listen(every, 0, soon(0.1), bounds, written, None)
    assert written.records == []


def test_nobody_comes(bounds: Bounds) -> None:
    began = time.monotonic()
    with pytest.raises(NoPeer, match=r"^nobody came to 127\.0\.0\.1:0$"):
        listen("127.0.0.1", 0, soon(0.2), bounds, Written(), None)
    assert 0.2 <= time.monotonic() - began < 0.2 + SLACK


@pytest.mark.parametrize("gone", [ConnectionAbortedError(), OSError(errno.EMFILE, "")])
def test_one_that_cannot_be_taken_is_not_the_peer(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch, gone: OSError
) -> None:
    accept, failing, written = socket.socket.accept, [gone], Written()

    def accepting(server: socket.socket) -> Any:
        if failing:
            raise failing.pop()
        return accept(server)

    monkeypatch.setattr(socket.socket, "accept", accepting)
    (_, facts), _ = together(lambda: hears(bounds, written), lambda: comes(written))
    assert facts == THERE
    assert not failing


def test_an_address_that_is_not_of_this_host_cannot_be_listened_at(bounds: Bounds) -> None:
    words = r"^cannot listen on 192\.0\.2\.1:18519: Cannot assign|Can't assign"
    with pytest.raises(NoPeer, match=words) as caught:
        listen("192.0.2.1", 18519, soon(), bounds, Written(), None)
    assert caught.value.errno == errno.EADDRNOTAVAIL


def test_a_port_that_is_taken_cannot_be_listened_at(bounds: Bounds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(NoPeer, match=f"127.0.0.1:{port}: Address already in use"):
            listen("127.0.0.1", port, soon(), bounds, Written(), None)


def test_nobody_is_there_until_the_end(bounds: Bounds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    written = Written()
    words = f"^cannot connect to 127.0.0.1:{port}: Connection refused$"
    with pytest.raises(NoPeer, match=words) as caught:
        connect("127.0.0.1", port, soon(0.6), bounds, written)
    assert (caught.value.errno, caught.value.is_this_host) == (errno.ECONNREFUSED, True)
    assert [each.kind for each in written.records] == [Kind.WAITING]


def test_a_listener_that_is_not_there_yet_is_waited_for(bounds: Bounds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    there, here = Written(), Written()

    def later() -> tuple[Peer, End]:
        assert here.port  # it has been refused
        return listen("127.0.0.1", port, soon(), bounds, there, None)

    def comes_early() -> Peer:
        peer = connect("127.0.0.1", port, soon(), bounds, here)
        peer.introduce(None)
        peer.send("endpoint", endpoint=THERE.message())
        return peer

    with deadline(bounds, 20):
        (one, facts), other = together(later, comes_early)
    with closing(one), closing(other):
        assert facts == THERE
    assert [each.kind for each in here.records] == [Kind.WAITING, Kind.CONNECTED]


@pytest.mark.parametrize("number", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT])
def test_what_is_no_refusal_is_not_tried_again(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    tried = []

    def unreachable(*_: Any) -> None:
        tried.append(1)
        raise OSError(number, "")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    with pytest.raises(NoPeer, match=os.strerror(number)) as caught:
        connect("192.0.2.77", 9, soon(), bounds, Written())
    assert caught.value.errno == number
    assert not caught.value.is_this_host
    assert len(tried) == 2  # the look for our own address, which sends nothing, and the one call


def test_an_address_that_cannot_be_connected_to_says_why(bounds: Bounds) -> None:
    with pytest.raises(NoPeer, match=r"^cannot connect to 255\.255\.255\.255:9: \w"):
        connect("255.255.255.255", 9, soon(), bounds, Written())


@pytest.fixture
def unanswered() -> Iterator[int]:
    """A port whose queue of connections is full: nobody answers there."""
    waiting = []
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        for _ in range(4):
            each = socket.socket()
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(server.getsockname())
            waiting.append(each)
        yield server.getsockname()[1]
        for each in waiting:
            each.close()


def test_nobody_answers(bounds: Bounds, unanswered: int) -> None:
    with pytest.raises(NoPeer, match=r"no answer$"):
        connect("127.0.0.1", unanswered, soon(0.2), bounds, Written())


def test_nobody_answers_before_the_deadline(bounds: Bounds, unanswered: int) -> None:
    with deadline(bounds, 1.0), pytest.raises(NoPeer, match=r"no answer$"):
        connect("127.0.0.1", unanswered, soon(5), bounds, Written())


def listens(host: str, port: int, until: float, bounds: Bounds, write: Any) -> Any:
    return listen(host, port, until, bounds, write, None)


@pytest.mark.parametrize("way", [listens, connect], ids=["listen", "connect"])
def test_a_signal_ends_the_wait_for_a_peer(
    bounds: Bounds, unanswered: int, way: Callable[..., Any]
) -> None:
    port = 0 if way is listens else unanswered
    kill = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    kill.start()
    try:
        with pytest.raises(Interrupted, match="SIGTERM"):
            way("127.0.0.1", port, soon(), bounds, Written())
    finally:
        kill.join()
        bounds._signal = None


@pytest.mark.parametrize("way", [listens, connect], ids=["listen", "connect"])
def test_a_name_that_does_not_resolve_is_no_peer(bounds: Bounds, way: Callable[..., Any]) -> None:
    name = "a" * 64 + ".example"  # a label has 63 letters: no server is asked
    with pytest.raises(NoPeer, match=f"^no address for {name}: "):
        way(name, 9, soon(), bounds, Written())


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(lambda: time.sleep(0.5), "the lookup of far did not end", id="hangs"),
        pytest.param(list, "no address for far: none found", id="finds nothing"),
    ],
)
def test_a_lookup_that_gives_nothing_is_no_peer(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch, found: Callable[[], Any], words: str
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found() or [])
    with pytest.raises(NoPeer, match=f"^{words}$"):
        connect("far", 9, soon(0.1), bounds, Written())


def test_only_the_first_address_of_a_name_is_tried(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            places = [closed.getsockname(), server.getsockname()]
        rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
        with pytest.raises(NoPeer, match=f":{places[0][1]}: Connection refused$"):
            connect("far", 9, soon(0.4), bounds, Written())
