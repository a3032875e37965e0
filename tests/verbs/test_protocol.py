"""What two ends tell each other: framed, proven, read with suspicion, and compared."""

import json
import struct
from contextlib import suppress
from dataclasses import replace

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
    check_proof,
    frame,
    hello,
    mismatches,
    path_mtu,
    proof,
    read_end,
    read_hello,
)

OURS, THEIRS = bytes(range(32)), bytes(range(32, 64))
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

messages = st.dictionaries(
    st.text(max_size=9), st.none() | st.integers() | st.text(max_size=9), max_size=4
)


# --- messages ----------------------------------------------------------------------------


@given(st.lists(messages, max_size=4), st.integers(1, 7))
def test_messages_arrive_whole_however_they_are_cut(sent: list[dict], size: int) -> None:
    stream = b"".join(map(frame, sent))
    inbox = Inbox()
    got = [m for at in range(0, len(stream), size) for m in inbox.take(stream[at : at + size])]
    assert got == sent
    assert inbox.is_empty


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_a_protocol_error(stream: bytes) -> None:
    with suppress(ProtocolError):
        assert all(isinstance(message, dict) for message in Inbox().take(stream))


def test_a_gigabyte_that_is_announced_is_not_waited_for() -> None:
    with pytest.raises(ProtocolError, match="1073741824 bytes"):
        list(Inbox().take(struct.pack(">I", 1 << 30)))


@pytest.mark.parametrize("body", [b"[]", b"1", b"nonsense", b"\xff\xfe", b"[" * 60000])
def test_a_body_that_is_no_object_is_no_peer_of_ours(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="no peer of ours"):
        list(Inbox().take(struct.pack(">I", len(body)) + body))


def test_half_a_message_is_held() -> None:
    inbox = Inbox()
    assert list(inbox.take(frame({"a": 1})[:-1])) == []
    assert not inbox.is_empty


def test_a_message_beyond_the_limit_is_not_sent() -> None:
    with pytest.raises(ValueError, match="bytes"):
        frame({"a": "x" * MESSAGE_LIMIT})


# --- who is there --------------------------------------------------------------------------


@pytest.mark.parametrize("with_secret", [True, False])
def test_two_ends_of_one_kind_greet_each_other(with_secret: bool) -> None:
    assert read_hello(hello(OURS, with_secret=with_secret), with_secret=with_secret) == OURS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": "HTTP"}, "no rdmadiag pingpong"),
        ({"version": 2}, "version 2, this end 1"),
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


def test_a_proof_shows_the_secret_of_that_role_and_these_nonces() -> None:
    given_proof = {"proof": proof(b"s", "listen", OURS, THEIRS)}
    check_proof(given_proof, b"s", "listen", THEIRS, OURS)
    for secret, role, own, peer in (
        (b"t", "listen", THEIRS, OURS),
        (b"s", "connect", THEIRS, OURS),
        (b"s", "listen", OURS, THEIRS),
        (b"s", "listen", OURS, OURS),
    ):
        with pytest.raises(ProtocolError, match="another secret"):
            check_proof(given_proof, secret, role, own, peer)


@pytest.mark.parametrize("message", [{}, {"proof": None}, {"proof": 1}, {"proof": "\u20ac"}])
def test_what_is_no_proof_is_refused(message: dict) -> None:
    with pytest.raises(ProtocolError, match="another secret"):
        check_proof(message, b"s", "listen", THEIRS, OURS)


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


def test_the_path_mtu_is_the_smaller_one() -> None:
    assert path_mtu(replace(HERE, mtu=2048), THERE) == 1024
