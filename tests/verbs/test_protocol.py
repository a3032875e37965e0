"""What two ends tell each other: framed, proven, read with suspicion, and compared."""

import hmac
import json
import struct
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.verbs.protocol import (
    MESSAGE_LIMIT,
    End,
    Inbox,
    ProtocolError,
    Role,
    Seal,
    frame,
    hello,
    mismatches,
    path_mtu,
    queue_pair,
    read_end,
    read_hello,
    shown,
    unusable,
)
from tests.verbs.attempts import HERE, SECRET, THERE

OURS, THEIRS = bytes(range(32)), bytes(range(32, 64))

messages = st.dictionaries(
    st.text(max_size=9), st.none() | st.integers() | st.text(max_size=9), max_size=4
)


# --- messages ----------------------------------------------------------------------------


def taken(stream: bytes, seal: Seal | None = None) -> list[dict[str, Any]]:
    """All messages of these bytes that are whole."""
    inbox = Inbox()
    inbox.seal = seal
    inbox.add(stream)
    return list(iter(inbox.take, None))


@given(st.lists(messages, max_size=4), st.integers(1, 7), st.booleans())
def test_messages_arrive_whole_however_they_are_cut(
    sent: list[dict], size: int, proven: bool
) -> None:
    writes, reads = (sealed() if proven else None for _ in range(2))
    stream = b"".join(frame(message, writes) for message in sent)
    inbox, got = Inbox(), []
    inbox.seal = reads
    for at in range(0, len(stream), size):
        inbox.add(stream[at : at + size])
        got += iter(inbox.take, None)
    assert got == sent
    assert inbox.is_empty


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_messages_or_a_protocol_error(stream: bytes, proven: bool) -> None:
    with suppress(ProtocolError):
        assert all(isinstance(each, dict) for each in taken(stream, sealed() if proven else None))


def test_a_gigabyte_that_is_announced_is_not_waited_for() -> None:
    with pytest.raises(ProtocolError, match="1073741824 bytes"):
        taken(struct.pack(">I", 1 << 30))


@pytest.mark.parametrize("body", [b"[]", b"1", b"nonsense", b"\xff\xfe", b"[" * 60000])
def test_a_body_that_is_no_object_is_no_peer_of_ours(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="no peer of ours"):
        taken(struct.pack(">I", len(body)) + body)


def test_half_a_message_is_held() -> None:
    inbox = Inbox()
    inbox.add(frame({"a": 1})[:-1])
    assert inbox.take() is None
    assert not inbox.is_empty


def test_a_message_beyond_the_limit_is_not_sent() -> None:
    with pytest.raises(ValueError, match="bytes"):
        frame({"a": "x" * MESSAGE_LIMIT})


# --- what proves a message -------------------------------------------------------------------


def sealed(
    secret: bytes = SECRET, sender: Role = "connect", ours: bytes = OURS, theirs: bytes = THEIRS
) -> Seal:
    return Seal(secret, sender, ours, theirs)


def test_a_message_is_proven_by_secret_direction_both_nonces_and_its_place() -> None:
    first, second = (frame({"a": number}, seal) for seal in [sealed()] for number in (1, 2))
    assert taken(first + second, sealed()) == [{"a": 1}, {"a": 2}]
    for seal in (
        sealed(secret=SECRET[:-1] + b"x"),
        sealed(sender="listen"),
        sealed(ours=THEIRS),
        sealed(theirs=OURS),
    ):
        with pytest.raises(ProtocolError, match="another secret"):
            taken(first, seal)
    for stream in (second, first + first, second + first):
        with pytest.raises(ProtocolError, match="changed its message"):
            taken(stream, sealed())


def test_the_mac_is_the_one_that_the_documentation_names() -> None:
    head = b"rdmadiag-pingpong 2 connect" + OURS + THEIRS
    body = b'{"a":1}'
    mac = hmac.new(SECRET, head + (0).to_bytes(8, "big") + body, "sha256").digest()
    assert frame({"a": 1}, sealed()) == struct.pack(">I", len(mac + body)) + mac + body


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_any_byte_that_is_changed_is_noticed(at: int, change: int) -> None:
    content = bytearray(frame({"endpoint": HERE.message()}, sealed()))
    at = 4 + at % (len(content) - 4)
    content[at] ^= change
    with pytest.raises(ProtocolError, match="changed its message"):
        taken(bytes(content), sealed())


# --- who is there --------------------------------------------------------------------------


@pytest.mark.parametrize("with_secret", [True, False])
def test_two_ends_of_one_kind_greet_each_other(with_secret: bool) -> None:
    assert read_hello(hello(OURS, with_secret=with_secret), with_secret=with_secret) == OURS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": "HTTP"}, "no rdmadiag pingpong"),
        ({"version": 1}, "version 1 of the pingpong protocol, this one 2: install the same"),
        ({"version": [[]]}, "version a list of"),
        ({"version": None}, "version None"),
        ({"with_secret": True}, "wants a secret"),
        ({"nonce": "00"}, "1 bytes, not 32"),
        ({"nonce": 7}, "no nonce"),
        ({"nonce": "zz"}, "no nonce"),
    ],
)
def test_a_hello_that_does_not_fit_says_why(changes: dict, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        read_hello(hello(OURS, with_secret=False) | changes, with_secret=False)


def test_an_end_without_a_secret_is_refused() -> None:
    with pytest.raises(ProtocolError, match="has no secret"):
        read_hello(hello(OURS, with_secret=False), with_secret=True)


# --- what each end is -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [HERE, replace(HERE, gid=None, gid_index=None, gid_type=None, prefix_length=None)],
    ids=["RoCE", "without a GID"],
)
def test_an_endpoint_survives_the_journey(end: End) -> None:
    assert read_end(json.loads(json.dumps(end.message()))) == end


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device", ""),
        ("device", "x" * 65),
        ("device", "a\x1b[2J"),
        ("port", 0),
        ("port", True),
        ("port", "1"),
        ("mtu", 100),
        ("mtu", 300),
        ("mtu", True),
        ("active_mtu", 1500),
        ("gid", "not a gid"),
        ("gid", 7),
        ("gid_type", "v3"),
        ("link_layer", None),
        ("state", []),
        ("payload_bytes", 1 << 21),
        ("iterations", 10**9),
        ("permitted", "yes"),
        ("lid", -1),
    ],
)
def test_a_fact_that_makes_no_sense_is_named(name: str, value: object) -> None:
    with pytest.raises(ProtocolError, match=f"peer's {name} makes no sense"):
        read_end(HERE.message() | {name: value})


@given(messages)
def test_any_message_is_an_endpoint_or_a_protocol_error(message: dict) -> None:
    with pytest.raises(ProtocolError):
        read_end(message)


# --- whether they fit ----------------------------------------------------------------------


def test_two_ends_of_one_subnet_fit() -> None:
    assert mismatches(HERE, THERE) == mismatches(THERE, HERE) == ()


def v1(end: End, address: str) -> End:
    return replace(end, gid_type=GidType.ROCE_V1, gid=Gid.parse(address))


@pytest.mark.parametrize(
    ("local", "remote", "codes"),
    [
        (HERE, replace(THERE, gid=Gid.parse("::ffff:203.0.113.9")), []),
        (HERE, replace(THERE, gid_type=GidType.ROCE_V1), ["gid_type_mismatch"]),
        (HERE, replace(THERE, gid=Gid.parse("2001:db8::2")), ["address_family_mismatch"]),
        (HERE, replace(THERE, link_layer=LinkLayer.INFINIBAND), ["link_layer_mismatch"]),
        (HERE, replace(THERE, state=PortState.DOWN), ["port_not_active"]),
        (HERE, replace(THERE, permitted=False), ["not_permitted"]),
        (HERE, replace(THERE, mtu=4096, active_mtu=1024), ["mtu_above_port"]),
        (HERE, replace(THERE, qp_type=QpType.UC), ["qp_type_mismatch"]),
        (HERE, replace(THERE, payload_bytes=65), ["payload_bytes_mismatch"]),
        (HERE, replace(THERE, iterations=1), ["iterations_mismatch"]),
        (HERE, replace(THERE, gid=Gid.parse("::ffff:169.254.1.1")), ["subnet_mismatch"]),
        (v1(HERE, "::ffff:192.0.2.1"), v1(THERE, "::ffff:192.0.3.1"), ["subnet_mismatch"]),
        (v1(HERE, "::ffff:192.0.2.1"), v1(THERE, "::ffff:192.0.2.9"), []),
        (replace(HERE, gid=Gid.parse("fe80::1")), replace(THERE, gid=Gid.parse("fe80::2")), []),
        (HERE, replace(THERE, mtu=4096), []),
    ],
    ids=[
        "RoCE v2 is routed",
        "v1 against v2",
        "IPv4 against IPv6",
        "InfiniBand against Ethernet",
        "a port that is down",
        "an end that is not safe",
        "an MTU above the port's",
        "RC against UC",
        "another payload",
        "another number of iterations",
        "link-local against routable",
        "v1 across subnets",
        "v1 in one subnet",
        "link-local on both ends",
        "another MTU: the smaller one is used",
    ],
)
def test_what_keeps_two_ends_apart(local: End, remote: End, codes: list[str]) -> None:
    assert [each.code for each in mismatches(local, remote)] == codes
    assert all(each.text for each in mismatches(local, remote))


def test_infiniband_ends_are_not_compared_by_address() -> None:
    ib = replace(HERE, link_layer=LinkLayer.INFINIBAND, gid=Gid.parse("fe80::1"), lid=3)
    assert mismatches(ib, replace(ib, gid=Gid.parse("2001:db8::1"), lid=4)) == ()


@pytest.mark.parametrize(
    ("remote", "code"),
    [
        *(
            (replace(THERE, gid=Gid.parse(gid)), "gid_unusable")
            for gid in ("::", "::1", "ff02::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1")
        ),
        (replace(THERE, gid=Gid.parse("::ffff:224.0.0.1")), "gid_unusable"),
        (replace(THERE, gid=Gid.parse("::ffff:255.255.255.255")), "gid_unusable"),
        (replace(THERE, gid=None), "gid_unusable"),
        *(
            (replace(THERE, link_layer=LinkLayer.INFINIBAND, lid=lid), "lid_unusable")
            for lid in (0, 0xC000, 0xFFFF)
        ),
    ],
)
def test_an_address_that_no_port_has_is_unusable(remote: End, code: str) -> None:
    assert [each.code for each in unusable(remote)] == [code]


def test_the_address_of_a_port_is_usable() -> None:
    infiniband = replace(THERE, link_layer=LinkLayer.INFINIBAND, lid=0xBFFF, gid=None)
    for remote in (THERE, infiniband, replace(THERE, gid=Gid.parse("fe80::1"))):
        assert list(unusable(remote)) == []


@pytest.mark.parametrize("number", [2, 0xFFFFFE])
@pytest.mark.parametrize("psn", [0, 0xFFFFFF])
def test_a_queue_pair_has_two_numbers(number: int, psn: int) -> None:
    assert queue_pair({"number": number, "psn": psn}) == (number, psn)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("number", value) for value in (-1, 0, 1, 0xFFFFFF, 1 << 24, True, "7", None, 7.0, [])),
        *(("psn", value) for value in (-1, 1 << 24, True, "7", None, 7.0, {})),
    ],
)
def test_numbers_of_management_or_multicast_are_no_queue_pair(name: str, value: object) -> None:
    with pytest.raises(ProtocolError, match="queue pair makes no sense"):
        queue_pair({"number": 7, "psn": 8} | {name: value})


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_whatever_a_peer_sends_is_shown_short_and_on_one_line(value: object) -> None:
    assert len(shown(value)) < 420
    assert shown(value).isprintable()


def test_a_deeply_nested_value_is_shown_by_its_kind() -> None:
    nested: list = []
    for _ in range(10_000):
        nested = [nested]
    assert shown(nested) == "a list"


def test_the_path_mtu_is_the_smaller_one() -> None:
    assert path_mtu(replace(HERE, mtu=2048), THERE) == 1024
