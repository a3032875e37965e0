"""Private data of both ends: what travels, what is refused, and any bytes at all."""

import hmac
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.verbs.cm_protocol import (
    REFUSAL_TEXT,
    Hello,
    Refusal,
    answer,
    is_ours,
    key,
    read_answer,
    read_hello,
    read_rejection,
    refusal_of,
    rejection,
)
from rdmadiag.verbs.protocol import ProtocolError

REQUEST_BYTES: Final = 56
"""Private data of rdma_connect that every transport carries: man rdma_connect, RDMA_PS_TCP."""

REJECT_BYTES: Final = 148
"""Of rdma_reject, the same."""

HELLO = Hello(
    with_secret=False, kind=QpType.RC, payload_bytes=64, iterations=100, nonce=bytes(range(32))
)
NONCE = bytes(range(32, 64))


def test_a_hello_is_laid_out_as_the_documentation_says() -> None:
    expected = b"rdmadiag\x01" + b"\x00\x02" + b"\x00\x00\x00\x40" + b"\x00\x64" + bytes(range(32))
    assert HELLO.encode() == expected + b"\0\0\0"
    windowed = replace(HELLO, op=DataOp.READ, window_ms=1500)
    assert windowed.encode() == expected + b"\x02\x05\xdc"


def test_the_longest_fits_into_what_every_transport_carries() -> None:
    assert len(HELLO.encode()) <= REQUEST_BYTES
    assert len(rejection(Refusal.NO_HELLO)) <= REJECT_BYTES


@pytest.mark.parametrize("padding", [b"", bytes(7)])
def test_what_is_sent_is_what_is_read(padding: bytes) -> None:
    assert read_hello(HELLO.encode() + padding) == HELLO
    assert read_answer(answer(NONCE, with_secret=False) + padding, HELLO) == NONCE
    for each in Refusal:
        assert read_rejection(rejection(each) + padding) is each


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"payload_bytes": 65}, Refusal.OTHER_PAYLOAD),
        ({"iterations": 1}, Refusal.OTHER_ITERATIONS),
        ({"kind": QpType.UD}, Refusal.OTHER_QP_TYPE),
        ({"with_secret": True}, Refusal.WANTS_NO_SECRET),
        ({"op": DataOp.WRITE}, Refusal.OTHER_OP),
        ({"window_ms": 1}, Refusal.OTHER_BANDWIDTH),
        ({"nonce": NONCE}, None),
    ],
)
def test_one_difference_is_one_refusal(changes: dict[str, Any], why: Refusal | None) -> None:
    assert refusal_of(replace(HELLO, **changes).encode(), HELLO) is why


def test_an_end_without_the_secret_is_refused_by_one_that_has_it() -> None:
    assert refusal_of(HELLO.encode(), replace(HELLO, with_secret=True)) is Refusal.WANTS_SECRET


@pytest.mark.parametrize("data", [b"", b"\0" * 56, b"rdmadia", HELLO.encode()[1:]])
def test_another_programs_private_data_is_no_hello(data: bytes) -> None:
    assert refusal_of(data, HELLO) is Refusal.NO_HELLO


def test_another_version_is_said_to_be_one() -> None:
    data = bytearray(HELLO.encode())
    data[8] = 2
    assert refusal_of(bytes(data), HELLO) is Refusal.OTHER_VERSION
    with pytest.raises(ProtocolError, match="versions"):
        read_answer(bytes(data), HELLO)
    assert read_rejection(bytes(data)) is Refusal.OTHER_VERSION


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no rdmadiag pingpong"),
        (answer(NONCE, with_secret=True), "wants a secret"),
        (answer(HELLO.nonce, with_secret=False), "sends back"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        read_answer(data, HELLO)


def test_the_key_covers_all_that_both_ends_said() -> None:
    secret = bytes(range(16))
    expected = hmac.new(
        secret, b"rdmadiag-cm " + HELLO.encode() + answer(NONCE, with_secret=False), "sha256"
    ).digest()
    assert key(secret, HELLO, NONCE) == expected
    others = {
        key(secret, replace(HELLO, payload_bytes=65), NONCE),
        key(secret, replace(HELLO, nonce=NONCE), NONCE),
        key(secret, HELLO, HELLO.nonce),
        key(bytes(16), HELLO, NONCE),
    }
    assert len(others | {expected}) == 5


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: b"rdmadiag\x01" + tail))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    found = read_hello(data)
    assert found is None or data.startswith(found.encode())
    assert refusal_of(data, HELLO) in (None, *Refusal)
    assert (read_rejection(data) is None) == (not is_ours(data))
    with suppress(ProtocolError):
        assert len(read_answer(data, HELLO)) == 32


def test_every_refusal_has_a_sentence() -> None:
    assert set(REFUSAL_TEXT) == set(Refusal)
