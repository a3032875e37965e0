"""Two peers over a real connection: how they meet, what they say, and every way to lose one."""

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.attempt import Outcome, PeerFailure
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import QpType
from rdmadiag.gid.reach import Mismatch
from rdmadiag.verbs import protocol
from rdmadiag.verbs.bounds import Bounds, Late
from rdmadiag.verbs.peer import Mismatched, Peer, PeerFailed, PeerLost
from rdmadiag.verbs.protocol import End, ProtocolError, frame
from tests.verbs.attempts import HERE, SECRET, THERE, deadline, together

GIGABYTE = struct.pack(">I", 1 << 30)
SLACK = 20.0  # seconds, of a busy machine


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


def say(connection: socket.socket, *messages: dict[str, Any]) -> None:
    connection.sendall(b"".join(map(frame, messages)))


# --- hello, and what proves a message ------------------------------------------------------


def answered(peer: Peer, secret: bytes | None) -> End:
    """As the end that listens, which here may wait."""
    steps = peer.answer(secret)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value
        peer._bounds.wait(peer.fileno(), "read")


def listening(peer: Peer, secret: bytes | None, end: End = HERE) -> End:
    return peer.agree(end, answered(peer, secret))


def connecting(peer: Peer, secret: bytes | None, end: End = THERE) -> End:
    peer.introduce(secret)
    return peer.agree(end)


@pytest.mark.parametrize("secret", [None, SECRET, b"\0" * 65536], ids=["none", "short", "long"])
def test_two_of_a_kind_introduce_themselves(pair: tuple[Peer, Peer], secret: bytes | None) -> None:
    one, other = pair
    found = together(lambda: listening(one, secret), lambda: connecting(other, secret))
    assert found == [THERE, HERE]


def test_an_end_with_another_secret_gets_no_mac_of_the_listener(pair: tuple[Peer, Peer]) -> None:
    one, other = pair

    def listens() -> None:
        try:
            listening(one, SECRET)
        except ProtocolError as error:
            one.turn_away(str(error))
            raise

    sent: list[bytes] = []
    send = one._socket.send
    one._socket = Spied(one._socket, sent.append)  # type: ignore[assignment]
    assert send
    found = together(listens, lambda: connecting(other, b"t" * 32))
    for error in found:
        assert isinstance(error, ProtocolError)
        assert "the peer knows another secret" in str(error)
    hello, failed = (json.loads(bytes(each)[4:]) for each in sent)
    assert hello["step"] == "hello"
    assert failed["step"] == "failed"


class Spied:
    """A socket, and what is sent on it."""

    def __init__(self, real: socket.socket, note: Callable[[bytes], None]) -> None:
        self._real = real
        self._note = note

    def send(self, content: bytes) -> int:
        self._note(bytes(content))
        return self._real.send(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (SECRET, None, ["the peer has no secret", "the peer wants a secret"]),
        (None, SECRET, ["the peer wants a secret", "the peer has no secret"]),
    ],
    ids=["the listener has one", "the other has one"],
)
def test_ends_of_which_one_has_a_secret_refuse_each_other(
    pair: tuple[Peer, Peer], ours: bytes | None, theirs: bytes | None, words: list[str]
) -> None:
    one, other = pair
    found = together(lambda: listening(one, ours), lambda: connecting(other, theirs))
    for error, expected in zip(found, words, strict=True):
        assert isinstance(error, ProtocolError)
        assert expected in str(error)


@pytest.mark.parametrize("secret", [None, SECRET], ids=["without a secret", "with one"])
def test_what_is_sent_back_is_no_peer(
    raw: tuple[Peer, socket.socket], secret: bytes | None
) -> None:
    ours, other = raw

    def echo() -> None:
        with suppress(OSError):
            while chunk := other.recv(4096):
                other.sendall(chunk)

    threading.Thread(target=echo, daemon=True).start()
    with pytest.raises(ProtocolError, match="sends back what it gets"):
        connecting(ours, secret)


def test_messages_of_an_earlier_connection_prove_nothing(bounds: Bounds) -> None:
    said: list[bytes] = []
    with peers(bounds) as (one, other):
        other._socket = Spied(other._socket, said.append)  # type: ignore[assignment]
        together(lambda: listening(one, SECRET), lambda: connecting(other, SECRET))
    with raw_peer(bounds) as (ours, stranger):
        stranger.sendall(b"".join(said))
        with pytest.raises(ProtocolError, match="another secret"):
            listening(ours, SECRET)


@pytest.mark.parametrize("step", ["queue_pair", "ready", "failed"])
def test_a_message_that_is_put_in_on_the_way_is_refused_at_every_step(
    pair: tuple[Peer, Peer], step: str
) -> None:
    one, other = pair
    together(lambda: listening(one, SECRET), lambda: connecting(other, SECRET))
    other._seal = None
    other.send(step, number=7, psn=8, stage="rtr", text="x")
    with pytest.raises(ProtocolError, match="somebody changed its message on the way"):
        one.swap_queue_pairs(5, 6)


def test_an_older_version_is_refused_in_one_line_at_both_ends(
    raw: tuple[Peer, socket.socket],
) -> None:
    old = {"protocol": "rdmadiag-pingpong", "version": 1, "nonce": "00" * 32, "with_secret": False}
    ours, other = raw
    say(other, {"step": "hello"} | old)
    with pytest.raises(ProtocolError, match="has version 1 of the pingpong protocol, this one 2"):
        listening(ours, None)
    # What version 1 looks at first: protocol and version of a hello.
    (length,) = struct.unpack(">I", other.recv(4))
    theirs = json.loads(other.recv(length))
    assert (theirs["step"], theirs["protocol"], theirs["version"]) == ("hello", old["protocol"], 2)


def test_what_is_said_of_another_version_is_one_short_line(
    raw: tuple[Peer, socket.socket],
) -> None:
    ours, other = raw
    long = {"version": "\n" * 30_000}
    say(other, {"step": "hello"} | protocol.hello(bytes(32), with_secret=False) | long)
    with pytest.raises(ProtocolError) as caught:
        ours.introduce(None)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


# --- both ends' facts --------------------------------------------------------------------


def test_ends_that_fit_know_each_other(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    assert together(lambda: one.agree(HERE), lambda: other.agree(THERE)) == [THERE, HERE]


def test_an_address_that_no_port_has_is_known_to_both(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    nowhere = replace(THERE, gid=Gid.parse("ff02::1"))
    for error in together(lambda: one.agree(HERE), lambda: other.agree(nowhere)):
        assert isinstance(error, Mismatched)
        assert "gid_unusable" in {each.code for each in (*error.ours, *error.theirs)}


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
    found = together(lambda: one.swap_queue_pairs(2, most), lambda: other.swap_queue_pairs(17, 0))
    assert found == [(17, 0), (2, most)]


@pytest.mark.parametrize("name", ["number", "psn"])
@pytest.mark.parametrize("value", [-1, True, 1 << 24, "7", None, 1.0, [7], "x" * 9999])
def test_a_queue_pair_that_makes_no_sense_is_refused(
    raw: tuple[Peer, socket.socket], name: str, value: object
) -> None:
    ours, other = raw
    say(other, {"step": "queue_pair", "number": 7, "psn": 8} | {name: value})
    with pytest.raises(ProtocolError, match="queue pair makes no sense") as caught:
        ours.swap_queue_pairs(1, 2)
    assert len(str(caught.value)) < 140


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
    one.send_failure(PeerFailure("rtr", "errno 110 on linux"))
    with pytest.raises(PeerFailed) as caught:
        other.barrier("ready")
    assert caught.value.failure == PeerFailure("rtr", "errno 110 on linux")
    assert str(caught.value) == "the peer failed at rtr: errno 110 on linux"


def test_a_failure_is_received_although_its_sender_has_gone(
    pair: tuple[Peer, Peer],
) -> None:
    one, other = pair
    one.send_failure(PeerFailure("open", "x" * 9999))
    one.close()
    with pytest.raises(PeerFailed) as caught:
        other.receive("queue_pair")
    assert caught.value.failure.text == "x" * 300


def test_words_of_a_peer_can_be_written_down(raw: tuple[Peer, socket.socket]) -> None:
    ours, other = raw
    say(other, {"step": "failed", "stage": ["x"], "text": "\ud800"})
    with pytest.raises(PeerFailed) as caught:
        ours.receive("hello")
    assert caught.value.failure.stage == "a list"
    caught.value.failure.text.encode()  # as stdout does


def test_a_failure_carries_what_can_be_judged_and_no_nonsense(
    raw: tuple[Peer, socket.socket],
) -> None:
    ours, other = raw
    failed = {"step": "failed", "stage": "data", "text": "x"}
    for sent, found in (
        ({"outcome": "no_data", "status": 12, "arrived": 3}, (Outcome.NO_DATA, 12, 3)),
        ({"outcome": "odd", "status": 999, "arrived": -1}, (None, None, None)),
        ({"outcome": [], "status": True, "arrived": "3"}, (None, None, None)),
    ):
        say(other, failed | sent)
        with pytest.raises(PeerFailed) as caught:
            ours.receive("done")
        failure = caught.value.failure
        assert (failure.outcome, failure.status, failure.arrived) == found


def test_each_end_hears_how_the_other_ended(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    other.send("verified")  # it may have gone on meanwhile
    other.send_failure(PeerFailure("data", "x", Outcome.PEER_FAILED, None, 1))
    assert one.farewell() == PeerFailure("data", "x", Outcome.PEER_FAILED, None, 1)


def test_a_peer_that_says_no_farewell_is_not_waited_for_long(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    began = time.monotonic()
    assert one.farewell() is None
    assert time.monotonic() - began < 1 + SLACK
    other.close()
    assert one.farewell() is None


def test_a_failure_is_sent_to_nobody_without_an_error(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    other.close()
    one.send_failure(PeerFailure("rtr", "x"))
    one.close()
    one.send_failure(PeerFailure("rtr", "x"))


def test_a_failure_is_sent_to_a_peer_that_reads_nothing_in_bounded_time(
    raw: tuple[Peer, socket.socket],
) -> None:
    ours, _ = raw
    with suppress(BlockingIOError):
        while ours._socket.send(bytes(1 << 16)):
            pass
    began = time.monotonic()
    ours.send_failure(PeerFailure("rtr", "x"))
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
    one.send_failure(PeerFailure("data", "status 12"))
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
    "hello": lambda ours: ours.introduce(SECRET),
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
        ([{"step": "hello"} | protocol.hello(bytes(32), with_secret=False)], "endpoint"),
        ([{"step": "endpoint", "endpoint": THERE.message()}], "agree"),
    ],
    ids=["endpoint", "agree"],
)
def test_a_connection_that_ends_within_a_step_is_a_lost_peer(
    raw: tuple[Peer, socket.socket], after: list[dict[str, Any]], waits_for: str
) -> None:
    ours, other = raw
    say(other, *after)
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerLost):
        (listening(ours, None) if waits_for == "endpoint" else ours.agree(HERE))


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

    def send() -> None:
        for text in texts:
            one.send("x", text=text)

    def receive() -> list[str]:
        time.sleep(0.1)
        return [other.receive("x")["text"] for _ in texts]

    assert together(send, receive)[1] == texts


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
    listening(ours, None)
    ours.swap_queue_pairs(5, 6)
    ours.barrier("ready")
    ours.glance()
    while True:
        ours.receive("done")


SCRIPT: list[dict[str, Any]] = [
    {"step": "hello"} | protocol.hello(bytes(range(32)), with_secret=False),
    {"step": "endpoint", "endpoint": THERE.message()},
    {"step": "agree", "problems": []},
    {"step": "queue_pair", "number": 7, "psn": 1},
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
