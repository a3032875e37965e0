"""What two hosts exchange over TCP before a queue pair changes state; pure.

A message is four bytes of length, big-endian, and that much JSON: one object. Nothing of
it is believed unread, and no length above MESSAGE_LIMIT is ever waited for.

The end that connects says hello first, with a nonce, and the end that listens answers with
its own. Where there is a secret, each message after the hellos has a MAC before its JSON:
HMAC-SHA256 over the direction, both nonces, a counter and the JSON. The first of them comes
from the end that connects, so that nobody gets anything to try secrets on by connecting.
Nothing is encrypted.
"""

import hmac
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any, Final, Literal, TypeGuard, get_args

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_BYTES, DataOp, GidType, LinkLayer, PortState, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.gid import reach
from rdmadiag.gid.reach import Mismatch

Command = Literal["pingpong", "exercise"]
"""What both ends run: each has a protocol of its own name, so that a MAC of one is none of the
other."""

VERSION: Final = 2
MESSAGE_LIMIT: Final = 64 * 1024
BANDWIDTH_SECONDS_MAX: Final = 5.0
BANDWIDTH_BYTES_MAX: Final = 32 << 30
"""That a window moves in all, however fast the path is."""
NONCE_BYTES: Final = 32

_LENGTH: Final = struct.Struct(">I")
_COUNTER: Final = struct.Struct(">Q")
_MAC_BYTES: Final = 32

Role = Literal["connect", "listen"]
"""Which end: the one that goes to the other, or the one that waits."""


class ProtocolError(Exception):
    """What the peer sent is not what a peer of ours sends; the message is one line."""


class Seal:
    """The MACs of one direction of one connection; each is of the next message."""

    def __init__(
        self,
        secret: bytes,
        sender: Role,
        connecting_nonce: bytes,
        listening_nonce: bytes,
        command: Command = "pingpong",
    ) -> None:
        self._secret = secret
        self._head = (
            f"{_name(command)} {VERSION} {sender:7}".encode() + connecting_nonce + listening_nonce
        )
        self._count = 0

    def mac(self, body: bytes) -> bytes:
        """Of the next message of this direction."""
        content = self._head + _COUNTER.pack(self._count) + body
        self._count += 1
        return hmac.digest(self._secret, content, "sha256")


def frame(message: Mapping[str, Any], seal: Seal | None = None) -> bytes:
    """The bytes of one message; raises ValueError for one beyond MESSAGE_LIMIT."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if seal:
        body = seal.mac(body) + body
    if len(body) > MESSAGE_LIMIT:
        raise ValueError(f"a message of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


class Inbox:
    """Takes bytes as they come and gives the messages that are whole."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.seal: Seal | None = None
        """What the messages that are not taken yet are proven by."""

    @property
    def is_empty(self) -> bool:
        """Whether no part of a message is held."""
        return not self._held

    def add(self, chunk: bytes) -> None:
        """Takes bytes as they arrive."""
        self._held += chunk

    def take(self) -> dict[str, Any] | None:
        """The next message, None as long as it is not whole; raises ProtocolError."""
        if len(self._held) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._held)
        if length > MESSAGE_LIMIT:
            raise ProtocolError(f"a message of {length} bytes is announced: no peer of ours")
        end = _LENGTH.size + length
        if len(self._held) < end:
            return None
        body = bytes(self._held[_LENGTH.size : end])
        del self._held[:end]
        return _message(_proven(body, self.seal) if self.seal else body)


def _proven(body: bytes, seal: Seal) -> bytes:
    given, content = body[:_MAC_BYTES], body[_MAC_BYTES:]
    if not hmac.compare_digest(given, seal.mac(content)):
        raise ProtocolError(
            "the peer knows another secret, or somebody changed its message on the way"
        )
    return content


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message that is no JSON: no peer of ours") from error
    if not isinstance(message, dict):
        raise ProtocolError("a message that is no object: no peer of ours")
    return message


# --- who is there ----------------------------------------------------------------------------


def _name(command: Command) -> str:
    return f"rdmadiag-{command}"


def hello(nonce: bytes, *, with_secret: bool, command: Command = "pingpong") -> dict[str, Any]:
    """The first message of each end."""
    return {
        "protocol": _name(command),
        "version": VERSION,
        "nonce": nonce.hex(),
        "with_secret": with_secret,
    }


def is_ours(message: Mapping[str, Any]) -> bool:
    """Whether a hello is of any command of ours, so that the answer can say why not."""
    return message.get("protocol") in [_name(each) for each in get_args(Command)]


def read_hello(
    message: Mapping[str, Any], *, with_secret: bool, command: Command = "pingpong"
) -> bytes:
    """The peer's nonce; raises ProtocolError where the two ends do not fit."""
    if message.get("protocol") != _name(command):
        raise ProtocolError(f"the peer is no rdmadiag {command}")
    version = message.get("version")
    if version != VERSION:
        raise ProtocolError(
            f"the peer's rdmadiag has version {shown(version)} of the {command} protocol, "
            f"this one {VERSION}: install the same on both hosts"
        )
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


def shown(value: object) -> str:
    """What a peer sent, as words of ours have it: short, on one line, that every stream takes.

    Not `repr` of a list or an object: a nested one takes more stack than there is.
    """
    if isinstance(value, str):
        return ascii(value[:40])
    if value is None or isinstance(value, bool | int | float):
        return f"{value!r:.40}"
    return f"a {type(value).__name__}"


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
    op: DataOp = DataOp.SEND
    bandwidth_seconds: float = 0.0  # of the window of WRITEs or READs; 0: none

    def message(self) -> dict[str, Any]:
        """As it travels."""
        fields = asdict(self)
        return fields | {"gid": None if self.gid is None else str(self.gid)}


_WORDS: Final[dict[str, Any]] = {
    "link_layer": LinkLayer,
    "state": PortState,
    "gid_type": GidType,
    "qp_type": QpType,
    "op": DataOp,
}
_RANGES: Final = {
    "port": (1, 255),
    "gid_index": (0, 65535),
    "prefix_length": (0, 128),
    "lid": (0, 65535),
    "payload_bytes": (1, 1 << 20),
    "iterations": (1, 10_000),
}
_MTUS: Final = frozenset(MTU_BYTES.values())
_DEFAULTS: Final = {"op": "send", "bandwidth_seconds": 0.0}
"""Of an end that has only ever sent messages: its version of the protocol says nothing of them."""

_MAY_BE_NONE: Final = ("active_mtu", "gid_index", "gid", "gid_type", "prefix_length")


def read_end(message: Mapping[str, Any]) -> End:
    """The peer's facts, each checked; raises ProtocolError."""
    fields = {name: _field(name, message) for name in End.__dataclass_fields__}
    return End(**fields)


def _field(name: str, message: Mapping[str, Any]) -> Any:
    value = message.get(name, _DEFAULTS.get(name))
    if value is None and name in _MAY_BE_NONE:
        return None
    if name in _RANGES:
        fits = _is_within(value, _RANGES[name])
    elif name == "bandwidth_seconds":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number and 0 <= value <= BANDWIDTH_SECONDS_MAX
    elif name in ("mtu", "active_mtu"):
        fits = isinstance(value, int) and value in _MTUS
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
        raise ProtocolError(f"the peer's {name} makes no sense: {shown(value)}")
    return value


def _gid(value: Any) -> Gid:
    try:
        return Gid.parse(value)
    except (TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"the peer's gid makes no sense: {shown(value)}") from error


# --- whether the two fit ---------------------------------------------------------------------


def mismatches(local: End, remote: End, *, by_cm: bool = False) -> tuple[Mismatch, ...]:
    """Everything that would make RTR or the exchange fail, seen from `local`.

    With `by_cm` the connection manager finds the way, whatever GID each end says.
    """
    return (
        tuple(_link(local, remote))
        + (() if by_cm else tuple(_addresses(local, remote)))
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
        ("op", "operation"),
        ("bandwidth_seconds", "--bandwidth"),
    ):
        ours, theirs = getattr(local, name), getattr(remote, name)
        if ours != theirs:
            yield Mismatch(f"{name}_mismatch", f"this end's {text} is {ours}, the peer's {theirs}")


def unusable(remote: End) -> Iterator[Mismatch]:
    """Addresses of the peer that are well-formed, and that no queue pair can be at."""
    if remote.link_layer is LinkLayer.INFINIBAND and not 0 < remote.lid < _MULTICAST_LID:
        yield Mismatch("lid_unusable", f"the peer's LID {remote.lid} is none of a port")
    if remote.gid is None:
        if remote.link_layer is LinkLayer.ETHERNET:
            yield Mismatch("gid_unusable", "the peer has no GID, and RoCE needs one")
        return
    address = ip_address(remote.gid.raw)
    ipv4 = getattr(address, "ipv4_mapped", None)
    address = ipv4 or address
    # 240.0.0.0/4 with the broadcast; the same of IPv6 has GIDs in it that are no addresses.
    reserved = address.is_unspecified or (ipv4 is not None and ipv4.is_reserved)
    if reserved or address.is_loopback or address.is_multicast:
        yield Mismatch("gid_unusable", f"the peer's GID {remote.gid} is no address of a port")


_MULTICAST_LID: Final = 0xC000  # InfiniBand specification 4.1.3


def queue_pair(message: Mapping[str, Any]) -> tuple[int, int]:
    """The number of the peer's queue pair and its first PSN; raises ProtocolError."""
    number, psn = message.get("number"), message.get("psn")
    if not (_is_within(number, _QUEUE_PAIRS) and _is_within(psn, _PSNS)):
        found = f"number {shown(number)}, PSN {shown(psn)}"
        raise ProtocolError(f"the peer's queue pair makes no sense: {found}")
    return number, psn


def memory(message: Mapping[str, Any]) -> tuple[int, int]:
    """Address and rkey of the peer's memory, for one-sided operations; raises ProtocolError."""
    address, rkey = message.get("address"), message.get("rkey")
    if not (_is_within(address, _ADDRESSES) and _is_within(rkey, _KEYS)):
        raise ProtocolError("the peer's memory makes no sense")
    return address, rkey


def member(message: Mapping[str, Any]) -> tuple[int, Gid]:
    """The peer's queue pair in a multicast group and its GID; raises ProtocolError."""
    number, _ = queue_pair({"number": message.get("queue_pair"), "psn": 0})
    return number, _gid(message.get("gid"))


# 24 bits each; 0 and 1 are the two of management, and the highest means multicast.
_QUEUE_PAIRS: Final = (2, 0xFFFFFE)
_PSNS: Final = (0, 0xFFFFFF)
_ADDRESSES: Final = (0, (1 << 64) - 1)
_KEYS: Final = (0, (1 << 32) - 1)


def _is_within(value: object, bounds: tuple[int, int]) -> TypeGuard[int]:
    low, high = bounds
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def path_mtu(local: End, remote: End) -> int:
    """Bytes: the smaller of what the two ends want."""
    return min(local.mtu, remote.mtu)
