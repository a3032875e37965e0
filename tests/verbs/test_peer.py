"""Two peers over a real connection: how they meet, what they say, and every way to lose one."""

import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.gid.reach import Mismatch
from rdmadiag.verbs import protocol
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.peer import Mismatched, NoPeer, Peer, PeerFailed, PeerLost, connect, listen
from rdmadiag.verbs.protocol import End, ProtocolError, frame
from rdmadiag.verbs.records import Kind, Record

HERE = End(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    active_mtu=4096,
    mtu=1024,
    gid_index=3,
    gid=Gid.parse("::ffff:192.0.2.1"),
    gid_type=GidType.ROCE_V2,
    prefix_length=24,
    lid=0,
    qp_type=QpType.RC,
    payload_bytes=64,
    iterations=100,
    permitted=True,
)
THERE = replace(HERE, gid=Gid.parse("::ffff:192.0.2.2"))
GIGABYTE = struct.pack(">I", 1 << 30)
SLACK = 20.0  # seconds, of a busy machine


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="no IPv6 on this host")


@pytest.fixture(scope="module")
def bounds() -> Iterator[Bounds]:
    """Far away from any deadline; signals and wakeup are put back."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    before = signal.set_wakeup_fd(-1)
    parent, held = os.pipe()
    made = Bounds(parent)
    yield made
    signal.set_wakeup_fd(before)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for descriptor in (parent, held, made._woken, made._waker):
        os.close(descriptor)


@contextmanager
def deadline(bounds: Bounds, seconds: float) -> Iterator[None]:
    before, bounds._deadline = bounds._deadline, time.monotonic() + seconds
    try:
        yield
    finally:
        bounds._deadline = before


@contextmanager
def peers(bounds: Bounds) -> Iterator[tuple[Peer, Peer]]:
    one, other = (Peer(each, bounds) for each in socket.socketpair())
    with closing(one), closing(other), deadline(bounds, 20):
        yield one, other


@pytest.fixture
def pair(bounds: Bounds) -> Iterator[tuple[Peer, Peer]]:
    """Two peers of one connection."""
    with peers(bounds) as both:
        yield both


@contextmanager
def raw_peer(bounds: Bounds) -> Iterator[tuple[Peer, socket.socket]]:
    one, other = socket.socketpair()
    with closing(Peer(one, bounds)) as ours, other, deadline(bounds, 20):
        yield ours, other


@pytest.fixture
def raw(bounds: Bounds) -> Iterator[tuple[Peer, socket.socket]]:
    """A peer, and the socket at the other end of its connection."""
    with raw_peer(bounds) as both:
        yield both


def together(*parts: Callable[[], Any]) -> list[Any]:
    """What each returned or raised; all ran at the same time."""
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(part) for part in parts]
        return [each.exception() or each.result() for each in running]


def say(connection: socket.socket, *messages: dict[str, Any]) -> None:
    connection.sendall(b"".join(map(frame, messages)))


# --- hello and proof ---------------------------------------------------------------------


@pytest.mark.parametrize("secret", [None, b"s", b"\0" * 65536], ids=["none", "short", "long"])
def test_two_of_a_kind_introduce_themselves(pair: tuple[Peer, Peer], secret: bytes | None) -> None:
    one, other = pair
    found = together(
        lambda: one.introduce(secret, "listen"), lambda: other.introduce(secret, "connect")
    )
    assert found == [None, None]


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (b"s", b"t", ["knows another secret", "knows another secret"]),
        (b"s", None, ["the peer has no secret", "the peer wants a secret"]),
        (None, b"t", ["the peer wants a secret", "the peer has no secret"]),
    ],
    ids=["two secrets", "one has none", "the other has none"],
)
def test_ends_with_other_secrets_refuse_each_other(
    pair: tuple[Peer, Peer], ours: bytes | None, theirs: bytes | None, words: list[str]
) -> None:
    one, other = pair
    found = together(
        lambda: one.introduce(ours, "listen"), lambda: other.introduce(theirs, "connect")
    )
    for error, expected in zip(found, words, strict=True):
        assert isinstance(error, ProtocolError)
        assert expected in str(error)


def test_a_secret_is_not_proven_by_saying_what_was_written(
    raw: tuple[Peer, socket.socket],
) -> None:
    ours, other = raw

    def echo() -> None:
        with suppress(OSError):
            while chunk := other.recv(4096):
                other.sendall(chunk)

    threading.Thread(target=echo, daemon=True).start()
    with pytest.raises(ProtocolError, match="sends back what it gets"):
        ours.introduce(b"s", "listen")


@pytest.mark.parametrize("given", ["00", None, 7, [], "\u20ac", "\ud800"], ids=repr)
def test_what_is_no_proof_is_another_secret(raw: tuple[Peer, socket.socket], given: object) -> None:
    ours, other = raw
    say(other, {"step": "hello"} | protocol.hello(bytes(32), with_secret=True))
    say(other, {"step": "proof", "proof": given})
    with pytest.raises(ProtocolError, match="another secret"):
        ours.introduce(b"s", "listen")


def test_another_version_is_refused_by_name(raw: tuple[Peer, socket.socket]) -> None:
    ours, other = raw
    say(other, {"step": "hello"} | protocol.hello(bytes(32), with_secret=False) | {"version": 2})
    with pytest.raises(ProtocolError, match="speaks version 2, this end 1"):
        ours.introduce(None, "connect")


def test_what_is_said_of_another_version_is_one_short_line(
    raw: tuple[Peer, socket.socket],
) -> None:
    ours, other = raw
    long = {"version": "\n" * 30_000}
    say(other, {"step": "hello"} | protocol.hello(bytes(32), with_secret=False) | long)
    with pytest.raises(ProtocolError) as caught:
        ours.introduce(None, "connect")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


# --- both ends' facts --------------------------------------------------------------------


def test_ends_that_fit_know_each_other(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    assert together(lambda: one.agree(HERE), lambda: other.agree(THERE)) == [THERE, HERE]


def test_a_mismatch_is_known_to_both_with_what_each_has_found(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    far = replace(THERE, payload_bytes=65, qp_type=QpType.UC)
    first, second = together(lambda: one.agree(HERE), lambda: other.agree(far))
    for error in (first, second):
        assert isinstance(error, Mismatched)
        codes = [[each.code for each in found] for found in (error.ours, error.theirs)]
        assert codes == [["qp_type_mismatch", "payload_bytes_mismatch"]] * 2
    assert str(first).startswith("this end's queue pair type is rc, the peer's uc; ")
    assert first.theirs == second.ours


def test_what_the_peer_alone_finds_wrong_counts_here(raw: tuple[Peer, socket.socket]) -> None:
    ours, other = raw
    say(other, {"step": "endpoint", "endpoint": THERE.message()})
    say(other, {"step": "agree", "problems": [["odd", "it is odd"]]})
    with pytest.raises(Mismatched, match=r"^it is odd$") as caught:
        ours.agree(HERE)
    assert (caught.value.ours, caught.value.theirs) == ((), (Mismatch("odd", "it is odd"),))


def test_a_flood_of_problems_is_cut(raw: tuple[Peer, socket.socket]) -> None:
    ours, other = raw
    say(other, {"step": "endpoint", "endpoint": THERE.message()})
    say(other, {"step": "agree", "problems": [["c" * 500, "t" * 500]] * 50})
    with pytest.raises(Mismatched) as caught:
        ours.agree(HERE)
    assert caught.value.theirs == (Mismatch("c" * 300, "t" * 300),) * 32


@pytest.mark.parametrize("facts", [None, [], "x", 7], ids=repr)
def test_facts_that_are_no_object_are_refused(
    raw: tuple[Peer, socket.socket], facts: object
) -> None:
    ours, other = raw
    say(other, {"step": "endpoint", "endpoint": facts})
    with pytest.raises(ProtocolError, match="endpoint is no object"):
        ours.agree(HERE)


@pytest.mark.parametrize("problems", [None, {}, "x", [1], ["ab"], [["a"]], [[1, 2, 3]]], ids=repr)
def test_a_verdict_that_makes_no_sense_is_refused(
    raw: tuple[Peer, socket.socket], problems: object
) -> None:
    ours, other = raw
    say(other, {"step": "endpoint", "endpoint": THERE.message()})
    say(other, {"step": "agree", "problems": problems})
    with pytest.raises(ProtocolError, match="verdict makes no sense"):
        ours.agree(HERE)


# --- queue pairs -------------------------------------------------------------------------


def test_numbers_of_24_bits_are_swapped(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    most = (1 << 24) - 1
    found = together(lambda: one.swap_queue_pairs(0, most), lambda: other.swap_queue_pairs(17, 0))
    assert found == [(17, 0), (0, most)]


@pytest.mark.parametrize("name", ["number", "psn"])
@pytest.mark.parametrize("value", [-1, True, 1 << 24, "7", None, 1.0, [7], "x" * 9999])
def test_a_queue_pair_that_makes_no_sense_is_refused(
    raw: tuple[Peer, socket.socket], name: str, value: object
) -> None:
    ours, other = raw
    say(other, {"step": "queue_pair", "number": 7, "psn": 8} | {name: value})
    with pytest.raises(ProtocolError, match="queue pair makes no sense") as caught:
        ours.swap_queue_pairs(1, 2)
    assert len(str(caught.value)) < 120


# --- barriers and failures ---------------------------------------------------------------


def test_nobody_passes_a_barrier_alone(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    waiting = threading.Thread(target=lambda: one.barrier("ready"))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    other.barrier("ready")
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_failure_is_written_with_its_stage_in_place_of_any_step(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.send_failure("rtr", "errno 110 on linux")
    with pytest.raises(PeerFailed) as caught:
        other.barrier("ready")
    assert (caught.value.stage, caught.value.text) == ("rtr", "errno 110 on linux")
    assert str(caught.value) == "the peer failed at rtr: errno 110 on linux"


def test_a_failure_is_received_although_its_sender_has_gone(
    pair: tuple[Peer, Peer],
) -> None:
    one, other = pair
    one.send_failure("open", "x" * 9999)
    one.close()
    with pytest.raises(PeerFailed) as caught:
        other.receive("queue_pair")
    assert caught.value.text == "x" * 300


def test_words_of_a_peer_can_be_written_down(raw: tuple[Peer, socket.socket]) -> None:
    ours, other = raw
    say(other, {"step": "failed", "stage": ["x"], "text": "\ud800"})
    with pytest.raises(PeerFailed) as caught:
        ours.receive("hello")
    assert caught.value.stage == "['x']"
    caught.value.text.encode()  # as stdout does


def test_a_failure_is_sent_to_nobody_without_an_error(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    other.close()
    one.send_failure("rtr", "x")
    one.close()
    one.send_failure("rtr", "x")


def test_a_failure_is_sent_to_a_peer_that_reads_nothing_in_bounded_time(
    raw: tuple[Peer, socket.socket],
) -> None:
    ours, _ = raw
    with suppress(BlockingIOError):
        while ours._socket.send(bytes(1 << 16)):
            pass
    began = time.monotonic()
    ours.send_failure("rtr", "x")
    assert time.monotonic() - began < 1 + SLACK


def test_a_glance_finds_a_failure_and_an_end_and_never_waits(
    pair: tuple[Peer, Peer],
) -> None:
    one, other = pair
    other.glance()
    one.send("verified")
    other.glance()
    other.glance()
    other.receive("verified")
    one.send_failure("data", "status 12")
    with pytest.raises(PeerFailed, match="status 12"):
        other.glance()
    one.close()
    with pytest.raises(PeerLost, match="closed the connection"):
        other.glance()


def test_a_glance_at_nothing_to_read_is_no_loss(
    pair: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # select(2): "may report a socket file descriptor as ready for reading" that then blocks.
    one, _ = pair
    monkeypatch.setattr(select, "select", lambda r, w, x, t: (r, w, x))
    one.glance()


# --- a peer that is lost -----------------------------------------------------------------

STEPS: dict[str, Callable[[Peer], object]] = {
    "hello": lambda ours: ours.introduce(b"s", "listen"),
    "endpoint": lambda ours: ours.agree(HERE),
    "queue_pair": lambda ours: ours.swap_queue_pairs(1, 2),
    "ready": lambda ours: ours.barrier("ready"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("said", [b"", b"\0\0", frame({"step": "x"})[:-1]], ids=[0, 2, "half"])
def test_a_connection_that_ends_is_a_lost_peer_at_every_step(
    raw: tuple[Peer, socket.socket], step: str, said: bytes
) -> None:
    ours, other = raw
    other.sendall(said)
    other.shutdown(socket.SHUT_WR)
    words = "in the middle of a message$" if said else "closed the connection$"
    with pytest.raises(PeerLost, match=words):
        STEPS[step](ours)


@pytest.mark.parametrize("step", STEPS)
def test_a_peer_that_has_gone_is_lost_at_every_step(
    raw: tuple[Peer, socket.socket], step: str
) -> None:
    ours, other = raw
    other.close()
    with pytest.raises(PeerLost, match=r"ended: Broken pipe$|closed the connection$"):
        STEPS[step](ours)


@pytest.mark.parametrize(
    ("after", "waits_for"),
    [
        ([{"step": "hello"} | protocol.hello(bytes(32), with_secret=True)], "proof"),
        ([{"step": "endpoint", "endpoint": THERE.message()}], "agree"),
    ],
    ids=["proof", "agree"],
)
def test_a_connection_that_ends_within_a_step_is_a_lost_peer(
    raw: tuple[Peer, socket.socket], after: list[dict[str, Any]], waits_for: str
) -> None:
    ours, other = raw
    say(other, *after)
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerLost):
        STEPS["hello" if waits_for == "proof" else "endpoint"](ours)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("said", [b"", b"\0\0\0"], ids=["nothing", "half a message"])
def test_a_peer_that_falls_silent_is_lost_at_the_deadline(
    bounds: Bounds, raw: tuple[Peer, socket.socket], step: str, said: bytes
) -> None:
    ours, other = raw
    other.sendall(said)
    words = f"fell silent before its '{step}'" + (", in the middle of a message" if said else "$")
    with deadline(bounds, 0.1), pytest.raises(PeerLost, match=words):
        STEPS[step](ours)


def test_a_connection_that_is_reset_is_a_lost_peer(bounds: Bounds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
    with closing(Peer(near, bounds)) as ours, deadline(bounds, 5):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        with pytest.raises(PeerLost, match="the connection ended: Connection reset"):
            ours.receive("hello")
        with pytest.raises(PeerLost, match="the connection ended: Broken pipe"):
            ours.send("hello")


def test_a_peer_that_does_not_read_is_waited_for_until_the_deadline(
    bounds: Bounds, raw: tuple[Peer, socket.socket]
) -> None:
    ours, _ = raw

    def talk() -> None:
        while True:
            ours.send("x", text="x" * 60_000)

    with deadline(bounds, 0.2), pytest.raises(Late):
        talk()


def test_what_a_peer_reads_slowly_arrives_whole(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    texts = [str(at) * 60_000 for at in range(9)]

    def tell() -> None:
        for text in texts:
            one.send("x", text=text)

    def hear() -> list[str]:
        time.sleep(0.1)
        return [other.receive("x")["text"] for _ in texts]

    assert together(tell, hear)[1] == texts


# --- a peer that is none of ours ---------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", "no peer of ours"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no peer of ours"),
        (GIGABYTE, "1073741824 bytes is announced"),
        (struct.pack(">I", 3) + b"\xff\xff\xff", "no JSON"),
        (struct.pack(">I", 2) + b"[]", "no object"),
        (frame({"step": "goodbye"}), "sent 'goodbye', not "),
        (frame({}), "sent 'None', not "),
    ],
    ids=["HTTP", "SSH", "a gigabyte", "no JSON", "no object", "a wrong step", "no step"],
)
def test_what_is_no_message_of_that_step_is_refused(
    raw: tuple[Peer, socket.socket], step: str, said: bytes, words: str
) -> None:
    ours, other = raw
    other.sendall(said)
    with pytest.raises(ProtocolError, match=words):
        STEPS[step](ours)


def conversation(ours: Peer) -> None:
    """Every step in which something of the peer's is read; ends by an exception."""
    protocol.read_hello(ours.receive("hello"), with_secret=True)
    protocol.check_proof(ours.receive("proof"), b"s", "listen", OURS, THEIRS)
    ours.agree(HERE)
    ours.swap_queue_pairs(1, 2)
    ours.barrier("ready")
    ours.glance()
    while True:
        ours.receive("done")


OURS, THEIRS = bytes(32), bytes(range(32))
SCRIPT: list[dict[str, Any]] = [
    {"step": "hello"} | protocol.hello(THEIRS, with_secret=True),
    {"step": "proof", "proof": protocol.proof(b"s", "listen", THEIRS, OURS)},
    {"step": "endpoint", "endpoint": THERE.message()},
    {"step": "agree", "problems": []},
    {"step": "queue_pair", "number": 1, "psn": 1},
    {"step": "ready"},
    {"step": "done"},
    {"step": "failed", "stage": "rtr", "text": "x"},
]
ANSWERS = (ProtocolError, PeerLost, PeerFailed, Mismatched)


def test_the_script_is_what_a_peer_of_ours_says(raw: tuple[Peer, socket.socket]) -> None:
    ours, other = raw
    say(other, *SCRIPT)
    with pytest.raises(PeerFailed, match=r"^the peer failed at rtr: x$"):
        conversation(ours)


@given(st.lists(st.binary(max_size=40), max_size=5), st.booleans(), st.integers(0, len(SCRIPT)))
def test_any_bytes_at_any_step_are_refused_or_a_lost_peer(
    bounds: Bounds, chunks: list[bytes], framed: bool, at: int
) -> None:
    with raw_peer(bounds) as (ours, other):
        say(other, *SCRIPT[:at])
        for chunk in chunks:
            other.sendall(struct.pack(">I", len(chunk)) + chunk if framed else chunk)
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(ANSWERS):
            conversation(ours)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(st.data())
def test_whatever_a_message_carries_the_conversation_ends_in_an_answer_of_ours(
    bounds: Bounds, data: st.DataObject
) -> None:
    messages = [dict(each) for each in SCRIPT]
    message = data.draw(st.sampled_from(messages))
    if message["step"] == "endpoint":
        message["endpoint"] = dict(message["endpoint"])
        message = message["endpoint"]
    message[data.draw(st.sampled_from(sorted(message)))] = data.draw(VALUES)
    with raw_peer(bounds) as (ours, other):
        say(other, *messages)
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(ANSWERS):
            conversation(ours)


# --- how a connection comes about --------------------------------------------------------


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


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", ""),
        pytest.param("::1", "[::1]", marks=needs_ipv6),
    ],
)
def test_one_listens_and_one_connects(bounds: Bounds, host: str, shown: str) -> None:
    there, here = Written(), Written()
    listening, connecting = together(
        lambda: listen(host, 0, soon(), bounds, there),
        lambda: connect(host, there.port, soon(), bounds, here),
    )
    with closing(listening) as one, closing(connecting) as other, deadline(bounds, 20):
        both = together(lambda: one.barrier("x"), lambda: other.barrier("x", more=1))
        assert both == [{"step": "x", "more": 1}, {"step": "x"}]
    assert [each.kind for each in there.records] == [Kind.LISTENING, Kind.CONNECTED]
    assert [each.kind for each in here.records] == [Kind.CONNECTED]
    assert there.records[0].address.startswith(f"{shown}:" if shown else "")
    assert here.records[0].address == there.records[0].address


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux alone")
def test_it_listens_at_that_address_alone_and_to_one_peer(bounds: Bounds) -> None:
    written = Written()

    def knock() -> None:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", written.port), 5)
        socket.create_connection(("127.0.0.1", written.port), 5).close()

    came, _ = together(lambda: listen("127.0.0.1", 0, soon(), bounds, written), knock)
    came.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", written.port), 5)


@pytest.mark.parametrize(
    "every", ["0.0.0.0", "0", "0x0", "::", pytest.param("::ffff:0.0.0.0", marks=needs_ipv6)]
)
def test_all_addresses_of_a_host_are_no_address_to_listen_at(bounds: Bounds, every: str) -> None:
    written = Written()
    with pytest.raises(NoPeer):
        listen(every, 0, soon(0.1), bounds, written)
    assert written.records == []


def test_nobody_comes(bounds: Bounds) -> None:
    began = time.monotonic()
    with pytest.raises(NoPeer, match=r"^nobody came to 127\.0\.0\.1:0$"):
        listen("127.0.0.1", 0, soon(0.2), bounds, Written())
    assert 0.2 <= time.monotonic() - began < 0.2 + SLACK


def test_one_that_has_gone_before_it_was_taken_is_not_the_peer(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, gone, written = socket.socket.accept, [ConnectionAbortedError()], Written()

    def accepting(server: socket.socket) -> Any:
        if gone:
            raise gone.pop()
        return accept(server)

    monkeypatch.setattr(socket.socket, "accept", accepting)
    came, connected = together(
        lambda: listen("127.0.0.1", 0, soon(), bounds, written),
        lambda: socket.create_connection(("127.0.0.1", written.port), 5),
    )
    came.close()
    connected.close()
    assert not gone


def test_an_address_that_is_not_of_this_host_cannot_be_listened_at(bounds: Bounds) -> None:
    words = r"^cannot listen on 192\.0\.2\.1:18519: Cannot assign|Can't assign"
    with pytest.raises(NoPeer, match=words):
        listen("192.0.2.1", 18519, soon(), bounds, Written())


def test_a_port_that_is_taken_cannot_be_listened_at(bounds: Bounds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(NoPeer, match=f"127.0.0.1:{port}: Address already in use"):
            listen("127.0.0.1", port, soon(), bounds, Written())


def test_nobody_is_there(bounds: Bounds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    written = Written()
    with pytest.raises(NoPeer, match=f"^cannot connect to 127.0.0.1:{port}: Connection refused$"):
        connect("127.0.0.1", port, soon(), bounds, written)
    assert written.records == []


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


@pytest.mark.parametrize("way", [listen, connect], ids=["listen", "connect"])
def test_a_signal_ends_the_wait_for_a_peer(
    bounds: Bounds, unanswered: int, way: Callable[..., Peer]
) -> None:
    port = 0 if way is listen else unanswered
    kill = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    kill.start()
    try:
        with pytest.raises(Interrupted, match="SIGTERM"):
            way("127.0.0.1", port, soon(), bounds, Written())
    finally:
        kill.join()
        bounds._signal = None


@pytest.mark.parametrize("way", [listen, connect], ids=["listen", "connect"])
def test_a_name_that_does_not_resolve_is_no_peer(bounds: Bounds, way: Callable[..., Peer]) -> None:
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
            connect("far", 9, soon(), bounds, Written())
