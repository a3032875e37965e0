"""Peers that are none of ours, or not as they should be: refused before a queue pair moves."""

import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import BEYOND_DEADLINE, Attempts, Ended, free_port
from lab.between import Role
from rdmadiag.verbs.protocol import Inbox, Seal, frame, hello, read_hello

pytestmark = pytest.mark.usefixtures("nothing_left")

ALLOWED = ("--allow-rtr", "--device=rxe0")
NONCE = bytes(range(32))
GIB = 1 << 30
MEMORY_LIMIT = 64 * 1024  # KiB; a run of ours takes half of it
TAKEN_LIMIT = GIB // 8  # what sockets hold that nobody reads is some MiB
MEET_SECONDS = 60.0
WAIT_SECONDS = 8.0  # of our end that listens: strangers do not end it

OURS, THEIRS = bytes(range(100, 132)), bytes(range(32))
"""Two secrets."""

ENDPOINT = {
    "device": "rxe7",
    "port": 1,
    "link_layer": "ethernet",
    "state": "active",
    "active_mtu": 1024,
    "mtu": 1024,
    "gid_index": 1,
    "gid": "::ffff:192.0.2.1",
    "gid_type": "roce_v2",
    "prefix_length": 24,
    "lid": 0,
    "qp_type": "rc",
    "payload_bytes": 64,
    "iterations": 100,
    "permitted": True,
}


class Stranger:
    """The other end of one connection, as a test wants it."""

    def __init__(self, connection: socket.socket, role: Role) -> None:
        self.connection = connection
        self.role = role
        self._inbox = Inbox()

    def say(self, **message: Any) -> None:
        self.connection.sendall(frame(message))

    def hear(self, step: str) -> dict[str, Any]:
        """The next message, which must be of that step."""
        while (message := self._inbox.take()) is None:
            chunk = self.connection.recv(65536)
            assert chunk, f"the connection ended before {step!r}"
            self._inbox.add(chunk)
        assert message["step"] == step, message
        return message

    def stay(self) -> None:
        """Say no more, until the other end closes."""
        with suppress(OSError):
            while self.connection.recv(65536):
                pass

    def introduce(self) -> None:
        self.say(step="hello", **hello(NONCE, with_secret=False))
        self.hear("hello")

    def agree(self, **changes: Any) -> None:
        self.introduce()
        self.say(step="endpoint", endpoint=ENDPOINT | changes)
        self.hear("endpoint")
        self.say(step="agree", problems=[])


Behaviour = Callable[[Stranger], None]


class Meeting:
    """A stranger that listens and one that connects, at the same time."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __call__(
        self,
        listening: Behaviour,
        connecting: Behaviour | None = None,
        *options: str,
        deadline: float = 40.0,
    ) -> tuple[Ended, Ended]:
        """What came of our end that meets the listening one, and of ours that listens."""
        with ThreadPoolExecutor() as strangers, socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(MEET_SECONDS)
            where = f"127.0.0.1:{server.getsockname()[1]}"
            connector = self._attempts.start(*ALLOWED, *options, where, deadline=deadline)
            waits = strangers.submit(lambda: self._be("listen", server.accept()[0], listening))
            listener, port = self._attempts.listen(
                "127.0.0.1", f"--wait={WAIT_SECONDS:g}", *ALLOWED, *options, deadline=deadline
            )
            to = socket.create_connection(("127.0.0.1", port))
            comes = strangers.submit(lambda: self._be("connect", to, connecting or listening))
            ended = connector.end(), listener.end(waits=WAIT_SECONDS + 0.5)
            waits.result(MEET_SECONDS)
            comes.result(MEET_SECONDS)
        return ended

    @staticmethod
    def _be(role: Role, connection: socket.socket, behaviour: Behaviour) -> None:
        with connection:
            connection.settimeout(MEET_SECONDS)
            behaviour(Stranger(connection, role))


@pytest.fixture
def meet(attempts: Attempts) -> Meeting:
    return Meeting(attempts)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """The option that gives a secret."""
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text(OURS.hex())
    return f"--secret-file={file}"


def assert_ended(ended: Ended, result: tuple[int, str, str], summary: str) -> None:
    assert ended.result() == result
    assert summary in ended.document["summary"]
    assert ended.document["touched"] == (ended.code == 2)
    assert ended.document["teardown"] == ("clean" if ended.code == 2 else "nothing_made")


def greeting(**changes: Any) -> Behaviour:
    """Says hello in its own way, and no more."""

    def say(stranger: Stranger) -> None:
        stranger.say(step="hello", **hello(NONCE, with_secret=False) | changes)
        stranger.stay()

    return say


def sending(content: bytes) -> Behaviour:
    """Sends that, and no more."""

    def send(stranger: Stranger) -> None:
        stranger.connection.sendall(content)
        stranger.stay()

    return send


class TestNoneOfOurs:
    def test_another_version_or_another_protocol(self, meet: Meeting) -> None:
        refused = (3, "peer_refused", "connect")
        one, two = meet(greeting(version=1), greeting(protocol="perftest"))
        assert_ended(one, refused, "the peer's rdmadiag has version 1 of the pingpong protocol")
        assert_ended(two, refused, "the peer is no rdmadiag pingpong")

    def test_garbage(self, meet: Meeting) -> None:
        refused = (3, "peer_refused", "connect")
        http = sending(b"GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n")
        nested = sending(struct.pack(">I", 60000) + b"[" * 60000)
        one, two = meet(http, nested)
        assert_ended(one, refused, "a message of 1195725856 bytes is announced")
        assert_ended(two, refused, "a message that is no JSON")

    def test_a_gib_that_is_announced_and_sent_is_not_taken(self, meet: Meeting) -> None:
        accepted: list[int] = []

        def flood(stranger: Stranger) -> None:
            stranger.connection.sendall(struct.pack(">I", GIB))
            accepted.append(pushed(stranger.connection, b"x" * (1 << 20)))

        for ended in meet(flood):
            refused = "a message of 1073741824 bytes is announced"
            assert_ended(ended, (3, "peer_refused", "connect"), refused)
            assert ended.peak < MEMORY_LIMIT
        assert max(accepted) < TAKEN_LIMIT

    @pytest.mark.long
    def test_a_gib_of_messages_is_not_taken(self, meet: Meeting) -> None:
        accepted: list[int] = []

        def flood(stranger: Stranger) -> None:
            stranger.introduce()
            many = frame({"step": "endpoint", "endpoint": {}}) * 20000
            accepted.append(pushed(stranger.connection, many))

        for ended, stage in zip(meet(flood), ("agree", "connect"), strict=True):
            assert_ended(ended, (3, "peer_refused", stage), "the peer's device makes no sense")
            assert ended.peak < MEMORY_LIMIT
        assert max(accepted) < TAKEN_LIMIT


def pushed(connection: socket.socket, content: bytes) -> int:
    """Bytes that were accepted of a GiB, of which `content` is sent again and again."""
    count = 0
    with suppress(OSError):
        while count < GIB:
            count += connection.send(content)
    return count


class TestSecrets:
    def test_another_secret(self, meet: Meeting, secret: str) -> None:
        def liar(stranger: Stranger) -> None:
            stranger.say(step="hello", **hello(NONCE, with_secret=True))
            theirs = read_hello(stranger.hear("hello"), with_secret=True)
            nonces = (NONCE, theirs) if stranger.role == "connect" else (theirs, NONCE)
            seal = Seal(THEIRS, stranger.role, *nonces)
            message = {"step": "endpoint", "endpoint": ENDPOINT}
            stranger.connection.sendall(frame(message, seal))
            stranger.stay()

        for ended, stage in zip(meet(liar, liar, secret), ("agree", "connect"), strict=True):
            assert_ended(ended, (3, "peer_refused", stage), "the peer knows another secret")

    def test_what_is_sent_back_proves_nothing(self, meet: Meeting, secret: str) -> None:
        def mirror(stranger: Stranger) -> None:
            stranger.say(**stranger.hear("hello"))
            stranger.stay()

        def half_mirror(stranger: Stranger) -> None:
            stranger.say(step="hello", **hello(NONCE, with_secret=True))
            stranger.say(**stranger.hear("hello"))
            stranger.stay()

        one, two = meet(mirror, half_mirror, secret)
        assert_ended(one, (3, "peer_refused", "connect"), "the peer sends back what it gets")
        assert_ended(two, (3, "peer_refused", "connect"), "the peer knows another secret")

    @pytest.mark.long
    def test_no_secret_where_one_is_wanted(self, meet: Meeting, secret: str) -> None:
        for ended in meet(greeting(), greeting(), secret):
            assert_ended(ended, (3, "peer_refused", "connect"), "the peer has no secret")

    @pytest.mark.long
    def test_a_secret_where_none_is_known(self, meet: Meeting) -> None:
        for ended in meet(greeting(with_secret=True)):
            assert_ended(ended, (3, "peer_refused", "connect"), "the peer wants a secret")


NOBODY = (3, "no_peer", "connect")


class TestPeersThatGo:
    def test_silence_ends_at_the_deadline(self, meet: Meeting) -> None:
        one, two = meet(sending(b""), deadline=12.0)
        assert_ended(one, (3, "peer_lost", "connect"), "the peer fell silent before its 'hello'")
        assert_ended(two, NOBODY, "1 connected and did not say who they are")

    @pytest.mark.long
    def test_half_a_message_or_a_byte_now_and_then_does_not_stretch_the_deadline(
        self, meet: Meeting
    ) -> None:
        def slow(stranger: Stranger) -> None:
            with suppress(OSError):
                for byte in frame(hello(NONCE, with_secret=False)):
                    stranger.connection.sendall(bytes([byte]))
                    time.sleep(0.3)

        one, two = meet(sending(b"\x00\x00"), slow, deadline=12.0)
        summary = "fell silent before its 'hello', in the middle of a message"
        assert_ended(one, (3, "peer_lost", "connect"), summary)
        assert_ended(two, NOBODY, "1 connected and did not say who they are")

    def test_closing_at_once_or_in_the_middle_of_a_message(self, meet: Meeting) -> None:
        def in_the_middle(stranger: Stranger) -> None:
            stranger.connection.sendall(b"\x00\x00\x00\x20{")

        one, two = meet(lambda stranger: None, in_the_middle)
        # What it had not read makes the close a reset.
        assert one.result() == (3, "peer_lost", "connect")
        assert_ended(two, NOBODY, "1 connected and did not say who they are")

    def test_closing_or_failing_once_the_device_is_open(self, meet: Meeting) -> None:
        def closing(stranger: Stranger) -> None:
            stranger.agree()
            stranger.hear("agree")
            stranger.hear("queue_pair")

        def failing(stranger: Stranger) -> None:
            stranger.agree()
            stranger.say(step="failed", stage="open", text="ibv_open_device failed")
            stranger.stay()

        one, two = meet(closing, failing)
        assert_ended(one, (2, "peer_lost", "init"), "the peer closed the connection")
        assert_ended(two, (2, "peer_failed", "init"), "the peer failed at open: ibv_open_device")
        failure = two.document["peer_failure"]
        assert (failure["stage"], failure["text"]) == ("open", "ibv_open_device failed")


class TestStrangersAndThePeer:
    """Whoever comes before the peer, or beside it: the peer is met, and data verified."""

    @pytest.mark.parametrize("with_secret", [False, True], ids=["without a secret", "with one"])
    def test_the_peer_is_met(self, with_secret: bool, attempts: Attempts, secret: str) -> None:
        options = (secret,) if with_secret else ()
        listener, port = attempts.listen("127.0.0.1", *ALLOWED, *options)
        with ExitStack() as stack:

            def comes(content: bytes) -> socket.socket:
                each = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                each.sendall(content)
                return each

            greeting = frame({"step": "hello"} | hello(NONCE, with_secret=with_secret))
            idle, half = comes(b""), comes(greeting)
            with comes(b"GET / HTTP/1.1\r\n\r\n") as http:
                http.shutdown(socket.SHUT_WR)
                while http.recv(4096):
                    pass
            comes(greeting + frame({"step": "endpoint", "endpoint": ENDPOINT | {"mtu": 300}}))
            connector = attempts.start(*ALLOWED, *options, f"127.0.0.1:{port}")
            assert connector.end().result() == (0, "verified", "done")
            ended = listener.end(waits=MEET_SECONDS)
            assert idle.fileno() > 0
            assert half.fileno() > 0
        assert ended.result() == (0, "verified", "done")
        assert "turned away 127.0.0.1:" in ended.stderr
        assert "no peer of ours" in ended.stderr


class TestNobody:
    def test_nobody_comes(self, attempts: Attempts) -> None:
        listener, _ = attempts.listen("127.0.0.1", *ALLOWED, "--wait=3")
        heard = listener.seconds
        ended = listener.end()
        assert_ended(ended, (3, "no_peer", "connect"), "nobody came to 127.0.0.1")
        assert ended.seconds - heard < 3 + BEYOND_DEADLINE

    def test_nobody_listens(self, attempts: Attempts) -> None:
        port = free_port()
        ended = attempts.start(*ALLOWED, f"127.0.0.1:{port}", deadline=9.0).end()
        assert_ended(ended, (3, "no_peer", "connect"), "Connection refused, an address of this")
        assert f"nobody listens yet at 127.0.0.1:{port}" in ended.stderr

    def test_nobody_has_the_address(self, attempts: Attempts) -> None:
        ended = attempts.start(*ALLOWED, "192.0.2.77", deadline=9.0).end()
        assert_ended(ended, (3, "no_peer", "connect"), "cannot connect to 192.0.2.77:18519")

    def test_an_address_of_another_host_cannot_be_listened_on(self, attempts: Attempts) -> None:
        ended = attempts.start(*ALLOWED, "--listen=192.0.2.77").end()
        assert_ended(ended, (3, "no_peer", "connect"), "Cannot assign requested address")


def claiming(**changes: Any) -> Behaviour:
    """Agrees as one whose endpoint has these fields."""

    def agree(stranger: Stranger) -> None:
        stranger.introduce()
        stranger.say(step="endpoint", endpoint=ENDPOINT | changes)
        with suppress(OSError):  # it may have been turned away
            stranger.say(step="agree", problems=[])
        stranger.stay()

    return agree


INFINIBAND = {"link_layer": "infiniband", "gid_type": None, "gid": None, "lid": 7}


class TestEndpointsThatDoNotFit:
    @pytest.mark.sampled(4)
    @pytest.mark.parametrize(
        ("changes", "codes"),
        [
            (({"gid_type": "roce_v1"}, {"gid_type": "roce_v1"}), ("gid_type", "gid_type")),
            (({"gid": "2001:db8::1"}, INFINIBAND), ("address_family", "link_layer")),
            (({"payload_bytes": 65}, {"qp_type": "uc"}), ("payload_bytes", "qp_type")),
            (({"iterations": 10}, {"payload_bytes": 1}), ("iterations", "payload_bytes")),
        ],
        ids=["RoCE v1", "IPv6, InfiniBand", "payload, UC", "iterations, payload"],
    )
    def test_what_differs_is_named_before_the_device_is_opened(
        self, changes: tuple[dict[str, Any], ...], codes: tuple[str, ...], meet: Meeting
    ) -> None:
        one, two = (claiming(**each) for each in changes)
        for ended, code in zip(meet(one, two), codes, strict=True):
            assert_ended(ended, (3, "mismatch", "agree"), "")
            assert problems(ended) == [f"{code}_mismatch"]
            assert ended.document["steps"] == []

    def test_a_port_that_is_down_or_not_permitted(self, meet: Meeting) -> None:
        one, two = meet(claiming(state="down"), claiming(permitted=False))
        assert_ended(one, (3, "mismatch", "agree"), "the peer: rxe7/1 is down")
        assert problems(one) == ["port_not_active"]
        assert_ended(two, (3, "mismatch", "agree"), "the peer's preflight does not permit")
        assert problems(two) == ["not_permitted"]

    @pytest.mark.long
    def test_what_the_peer_alone_finds_or_says_without_sense(self, meet: Meeting) -> None:
        def critic(stranger: Stranger) -> None:
            stranger.introduce()
            stranger.say(step="endpoint", endpoint=ENDPOINT)
            stranger.say(step="agree", problems=[["gid_type_mismatch", "not like mine"]])
            stranger.stay()

        one, two = meet(critic, claiming(payload_bytes=GIB))
        assert_ended(one, (3, "mismatch", "agree"), "not like mine")
        assert problems(one) == ["gid_type_mismatch"]
        summary = "the peer's payload_bytes makes no sense: 1073741824"
        assert_ended(two, (3, "peer_refused", "connect"), summary)

    @pytest.mark.long
    def test_an_mtu_that_no_port_has_is_judged_before_the_device_is_opened(
        self, meet: Meeting
    ) -> None:
        one, two = meet(claiming(mtu=300), claiming(mtu=300))
        for ended, stage in ((one, "agree"), (two, "connect")):
            assert_ended(ended, (3, "peer_refused", stage), "the peer's mtu makes no sense: 300")
            assert ended.document["steps"] == []

    def test_an_address_that_no_port_has_is_judged_before_the_device_is_opened(
        self, meet: Meeting
    ) -> None:
        for ended in meet(claiming(gid="ff02::1"), claiming(gid="::ffff:0.0.0.0")):
            assert_ended(ended, (3, "mismatch", "agree"), "")
            assert "gid_unusable" in problems(ended)
            assert ended.document["steps"] == []

    def test_a_queue_pair_number_without_sense(self, meet: Meeting) -> None:
        def absurd(stranger: Stranger) -> None:
            stranger.agree()
            stranger.hear("agree")
            stranger.say(step="queue_pair", number=1, psn=1)
            stranger.stay()

        for ended in meet(absurd):
            summary = "the peer's queue pair makes no sense"
            assert_ended(ended, (2, "peer_refused", "init"), summary)


def problems(ended: Ended) -> list[str]:
    return [problem["code"] for problem in ended.document["problems"]]
