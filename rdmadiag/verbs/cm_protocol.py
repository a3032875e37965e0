"""What two ends put into private data, and their messages over the queue pair; pure.

The end that connects says hello in the private data of its request: version, whether it has a
secret, queue pair type, payload, iterations, a nonce, operation, the time of its window. The end
that listens answers in that of its acceptance, or rejects with a code. Then messages of
rdmadiag.verbs.protocol go over the queue pair, strictly in turns, the first from the end that
connects: iWARP wants it so (RFC 5044, 7.1), and with a secret its MAC, whose key covers the
private data of both, is the first that anybody gets. A rejection is not proven, and a stranger
that says hello holds a queue pair until it has failed to prove itself. Payloads carry no MAC, and
nothing is encrypted.
"""

import hmac
import math
import struct
from enum import IntEnum
from typing import Any, Final

from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.protocol import NONCE_BYTES, End, ProtocolError

VERSION: Final = 1

_MAGIC: Final = b"rdmadiag"
_HEAD: Final = struct.Struct(">8sB")
_HELLO: Final = struct.Struct(">BBIH32sBH")
"""With a secret, type, payload, iterations, nonce; operation, and milliseconds of its window."""
_OPS: Final = (DataOp.SEND, DataOp.WRITE, DataOp.READ)
_ANSWER: Final = struct.Struct(">B32s")
_CODE: Final = struct.Struct(">B")


class Refusal(IntEnum):
    """Why a listener rejects; the number travels."""

    OTHER_VERSION = 1
    WANTS_SECRET = 2
    WANTS_NO_SECRET = 3
    OTHER_QP_TYPE = 4
    OTHER_PAYLOAD = 5
    OTHER_ITERATIONS = 6
    NO_HELLO = 7
    NO_QUEUE_PAIR = 8
    OTHER_OP = 9
    OTHER_BANDWIDTH = 10


REFUSAL_TEXT: Final = {
    Refusal.OTHER_VERSION: "the two ends have different versions of rdmadiag: "
    "install the same on both hosts",
    Refusal.WANTS_SECRET: "the end that listens wants a secret: give both the same --secret-file",
    Refusal.WANTS_NO_SECRET: "the end that listens has no secret: give both the same --secret-file",
    Refusal.OTHER_QP_TYPE: "the two ends were started with different queue pair types",
    Refusal.OTHER_PAYLOAD: "the two ends were started with different --bytes",
    Refusal.OTHER_ITERATIONS: "the two ends were started with different --iterations",
    Refusal.OTHER_OP: "the two ends were started with different --op",
    Refusal.OTHER_BANDWIDTH: "the two ends were started with different --bandwidth",
    Refusal.NO_HELLO: "the request is none of an rdmadiag pingpong",
    Refusal.NO_QUEUE_PAIR: "the end that listens could not make a queue pair",
}
"""One sentence a code."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What the end that connects says of itself."""

    with_secret: bool
    kind: QpType
    payload_bytes: int
    iterations: int
    nonce: bytes
    op: DataOp = DataOp.SEND
    window_ms: int = 0

    @classmethod
    def of(cls, end: End, nonce: bytes, *, with_secret: bool) -> "Hello":
        """What this end says of itself."""
        window_ms = math.ceil(1000 * end.bandwidth_seconds)
        facts = end.qp_type, end.payload_bytes, end.iterations
        return cls(with_secret, *facts, nonce, end.op, window_ms)

    def encode(self) -> bytes:
        """As it travels."""
        body = _HELLO.pack(
            self.with_secret,
            self.kind.number,
            self.payload_bytes,
            self.iterations,
            self.nonce,
            _OPS.index(self.op),
            self.window_ms,
        )
        return _HEAD.pack(_MAGIC, VERSION) + body


def is_ours(private_data: bytes) -> bool:
    """Whether it begins as ours does, of whatever version."""
    return private_data.startswith(_MAGIC)


def refusal_of(private_data: bytes, wanted: Hello) -> Refusal | None:
    """Why a request does not fit the end that listens, which is as `wanted`; None: it does."""
    if not is_ours(private_data):
        return Refusal.NO_HELLO
    theirs = read_hello(private_data)
    if theirs is None:
        return Refusal.OTHER_VERSION
    if theirs.with_secret != wanted.with_secret:
        return Refusal.WANTS_SECRET if wanted.with_secret else Refusal.WANTS_NO_SECRET
    if theirs.kind is not wanted.kind:
        return Refusal.OTHER_QP_TYPE
    if theirs.payload_bytes != wanted.payload_bytes:
        return Refusal.OTHER_PAYLOAD
    if theirs.iterations != wanted.iterations:
        return Refusal.OTHER_ITERATIONS
    if theirs.op is not wanted.op:
        return Refusal.OTHER_OP
    return Refusal.OTHER_BANDWIDTH if theirs.window_ms != wanted.window_ms else None


def read_hello(private_data: bytes) -> Hello | None:
    """None where it is none of this version; what follows it is padding."""
    body = _body(private_data, _HELLO)
    if body is None:
        return None
    with_secret, number, payload, iterations, nonce, op, window_ms = body
    kind = QpType.from_number(number)
    if with_secret not in (0, 1) or kind is None or op >= len(_OPS):
        return None
    return Hello(bool(with_secret), kind, payload, iterations, nonce, _OPS[op], window_ms)


def answer(nonce: bytes, *, with_secret: bool) -> bytes:
    """The private data of an acceptance."""
    return _HEAD.pack(_MAGIC, VERSION) + _ANSWER.pack(with_secret, nonce)


def read_answer(private_data: bytes, wanted: Hello) -> bytes:
    """The nonce of the end that listens; raises ProtocolError."""
    if not is_ours(private_data):
        raise ProtocolError("the peer is no rdmadiag pingpong: it is connected, and says nothing")
    body = _body(private_data, _ANSWER)
    if body is None:
        raise ProtocolError(REFUSAL_TEXT[Refusal.OTHER_VERSION])
    with_secret: int = body[0]
    nonce: bytes = body[1]
    if bool(with_secret) != wanted.with_secret:
        missing = Refusal.WANTS_SECRET if with_secret else Refusal.WANTS_NO_SECRET
        raise ProtocolError(REFUSAL_TEXT[missing])
    if nonce == wanted.nonce:
        raise ProtocolError("the peer sends back what it gets: no peer of ours")
    return nonce


def key(secret: bytes, hello: Hello, nonce: bytes) -> bytes:
    """Of the MACs of one connection: it covers the private data of both ends."""
    content = hello.encode() + answer(nonce, with_secret=hello.with_secret)
    return hmac.digest(secret, b"rdmadiag-cm " + content, "sha256")


def seed(hello: Hello, nonce: bytes) -> int:
    """Of the payloads, which both ends can make."""
    return int.from_bytes(hello.nonce[:4] + nonce[:4], "big")


def rejection(code: Refusal) -> bytes:
    """The private data of a rejection."""
    return _HEAD.pack(_MAGIC, VERSION) + _CODE.pack(code)


def read_rejection(private_data: bytes) -> Refusal | None:
    """The code of a rejection of ours; None of anybody else's."""
    if not is_ours(private_data):
        return None
    body = _body(private_data, _CODE)
    if body is None or body[0] not in set(Refusal):
        return Refusal.OTHER_VERSION
    return Refusal(body[0])


def _body(private_data: bytes, of: struct.Struct) -> tuple[Any, ...] | None:
    """The fields after the head; None where it is too short, or of another version."""
    if len(private_data) < _HEAD.size + of.size:
        return None
    magic, version = _HEAD.unpack_from(private_data)
    if magic != _MAGIC or version != VERSION:
        return None
    return of.unpack_from(private_data, _HEAD.size)


assert _HELLO.size - 11 == NONCE_BYTES
