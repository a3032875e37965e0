"""What two hosts exchange over TCP before a queue pair changes state; pure.

A message is four bytes of length, big-endian, and that much JSON: one object. Nothing of
it is believed unread, and no length above MESSAGE_LIMIT is ever waited for.
"""

import hmac
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.gid import reach
from rdmadiag.gid.reach import Mismatch

PROTOCOL: Final = "rdmadiag-pingpong"
VERSION: Final = 1
MESSAGE_LIMIT: Final = 64 * 1024
NONCE_BYTES: Final = 32

_LENGTH: Final = struct.Struct(">I")


class ProtocolError(Exception):
    """What the peer sent is not what a peer of ours sends; the message is one line."""


def frame(message: Mapping[str, Any]) -> bytes:
    """The bytes of one message; raises ValueError for one beyond MESSAGE_LIMIT."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MESSAGE_LIMIT:
        raise ValueError(f"a message of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


class Inbox:
    """Takes bytes as they come and gives the messages that are whole."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether no part of a message is held."""
        return not self._held

    def take(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The messages that `chunk` completes; raises ProtocolError."""
        self._held += chunk
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            if length > MESSAGE_LIMIT:
                raise ProtocolError(f"a message of {length} bytes is announced: no peer of ours")
            end = _LENGTH.size + length
            if len(self._held) < end:
                return
            body = bytes(self._held[_LENGTH.size : end])
            del self._held[:end]
            yield _message(body)


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message that is no JSON: no peer of ours") from error
    if not isinstance(message, dict):
        raise ProtocolError("a message that is no object: no peer of ours")
    return message


# --- who is there ----------------------------------------------------------------------------


def hello(nonce: bytes, *, with_secret: bool) -> dict[str, Any]:
    """The first message of each end."""
    return {
        "protocol": PROTOCOL,
        "version": VERSION,
        "nonce": nonce.hex(),
        "with_secret": with_secret,
    }


def read_hello(message: Mapping[str, Any], *, with_secret: bool) -> bytes:
    """The peer's nonce; raises ProtocolError where the two ends do not fit."""
    if message.get("protocol") != PROTOCOL:
        raise ProtocolError("the peer is no rdmadiag pingpong")
    version = message.get("version")
    if version != VERSION:
        raise ProtocolError(f"the peer speaks version {version!r:.40}, this end {VERSION}")
    theirs = message.get("with_secret") is True
    if theirs and not with_secret:
        raise ProtocolError("the peer wants a secret: give both ends the same --secret-file")
    if with_secret and not theirs:
        raise ProtocolError("the peer has no secret: give both ends the same --secret-file")
    try:
        nonce = bytes.fromhex(message["nonce"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError("the peer's hello has no nonce") from error
    if len(nonce) != NONCE_BYTES:
        raise ProtocolError(f"the peer's nonce has {len(nonce)} bytes, not {NONCE_BYTES}")
    return nonce


def proof(secret: bytes, role: str, own_nonce: bytes, peer_nonce: bytes) -> str:
    """What shows that the end in `role` knows `secret`, without showing it."""
    return hmac.new(secret, role.encode() + own_nonce + peer_nonce, "sha256").hexdigest()


def check_proof(
    message: Mapping[str, Any], secret: bytes, role: str, own_nonce: bytes, peer_nonce: bytes
) -> None:
    """Raises ProtocolError unless the peer, in `role`, has shown that it knows `secret`."""
    given = message.get("proof")
    expected = proof(secret, role, peer_nonce, own_nonce)
    if not isinstance(given, str) or not hmac.compare_digest(ascii(given), ascii(expected)):
        raise ProtocolError("the peer knows another secret")


# --- what each end is ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """One end of the path, as far as both must know it before either changes state."""

    device: str
    port: int
    link_layer: LinkLayer
    state: PortState
    active_mtu: int | None  # bytes; None: the library did not give it
    mtu: int  # bytes that this end wants
    gid_index: int | None  # None: InfiniBand without a GRH
    gid: Gid | None
    gid_type: GidType | None  # None: not known (Thunderbolt)
    prefix_length: int | None  # of the address in the GID, where it is known
    lid: int
    qp_type: QpType
    payload_bytes: int
    iterations: int
    permitted: bool  # by its own preflight, or by --accept-risk

    def message(self) -> dict[str, Any]:
        """As it travels."""
        fields = asdict(self)
        return fields | {"gid": None if self.gid is None else str(self.gid)}


_WORDS: Final[dict[str, Any]] = {
    "link_layer": LinkLayer,
    "state": PortState,
    "gid_type": GidType,
    "qp_type": QpType,
}
_RANGES: Final = {
    "port": (1, 255),
    "active_mtu": (256, 4096),
    "mtu": (256, 4096),
    "gid_index": (0, 65535),
    "prefix_length": (0, 128),
    "lid": (0, 65535),
    "payload_bytes": (1, 1 << 20),
    "iterations": (1, 10_000),
}
_MAY_BE_NONE: Final = ("active_mtu", "gid_index", "gid", "gid_type", "prefix_length")


def read_end(message: Mapping[str, Any]) -> End:
    """The peer's facts, each checked; raises ProtocolError."""
    fields = {name: _field(name, message) for name in End.__dataclass_fields__}
    return End(**fields)


def _field(name: str, message: Mapping[str, Any]) -> Any:
    value = message.get(name)
    if value is None and name in _MAY_BE_NONE:
        return None
    if name in _RANGES:
        low, high = _RANGES[name]
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    elif name in _WORDS:
        words = {member.value: member for member in _WORDS[name]}
        fits = isinstance(value, str) and value in words
        value = words.get(value) if fits and isinstance(value, str) else value
    elif name == "gid":
        return _gid(value)
    elif name == "permitted":
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, str) and 0 < len(value) <= 64 and value.isprintable()
    if not fits:
        raise ProtocolError(f"the peer's {name} makes no sense: {str(value)[:40]!r}")
    return value


def _gid(value: Any) -> Gid:
    try:
        return Gid.parse(value)
    except (TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"the peer's gid makes no sense: {str(value)[:40]!r}") from error


# --- whether the two fit ---------------------------------------------------------------------


def mismatches(local: End, remote: End) -> tuple[Mismatch, ...]:
    """Everything that would make RTR or the exchange fail, seen from `local`."""
    return (
        tuple(_link(local, remote))
        + tuple(_addresses(local, remote))
        + tuple(_agreement(local, remote))
    )


def _link(local: End, remote: End) -> Iterator[Mismatch]:
    if local.link_layer is not remote.link_layer:
        yield Mismatch(
            "link_layer_mismatch",
            f"this end is {local.link_layer}, the peer {remote.link_layer}",
        )
    for whose, end in (("this end", local), ("the peer", remote)):
        if end.state is not PortState.ACTIVE:
            yield Mismatch("port_not_active", f"{whose}: {end.device}/{end.port} is {end.state}")
        if not end.permitted:
            yield Mismatch("not_permitted", f"{whose}'s preflight does not permit an attempt")
        if end.active_mtu is not None and end.mtu > end.active_mtu:
            yield Mismatch(
                "mtu_above_port",
                f"{whose} asks for MTU {end.mtu}, its port has {end.active_mtu}",
            )


_NOT_SENT: Final = Missing(Why.NOT_COLLECTED, "an end does not send it")


def _addresses(local: End, remote: End) -> Iterator[Mismatch]:
    if local.link_layer is LinkLayer.INFINIBAND or local.gid is None or remote.gid is None:
        return
    ours, theirs = (
        reach.Address(
            GidEntry(end.gid_index or 0, gid, end.gid_type or _NOT_SENT, _NOT_SENT),
            end.prefix_length,
        )
        for gid, end in ((local.gid, local), (remote.gid, remote))
    )
    yield from reach.mismatches(ours, theirs)


def _agreement(local: End, remote: End) -> Iterator[Mismatch]:
    for name, text in (
        ("qp_type", "queue pair type"),
        ("payload_bytes", "payload"),
        ("iterations", "number of iterations"),
    ):
        ours, theirs = getattr(local, name), getattr(remote, name)
        if ours != theirs:
            yield Mismatch(f"{name}_mismatch", f"this end's {text} is {ours}, the peer's {theirs}")


def path_mtu(local: End, remote: End) -> int:
    """Bytes: the smaller of what the two ends want."""
    return min(local.mtu, remote.mtu)
