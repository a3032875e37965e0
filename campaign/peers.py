"""Peers of a pingpong that lie, one field at a time, and strangers around the one that is met.

Each conversation is a real one over a socket: our end is the program of the child, whose
device is a stand-in that writes down what reaches it and fails at RTR, so that nothing comes
after. The other end is written here by the documentation, MACs too, not with our own code.
"""

import contextlib
import hashlib
import hmac
import json
import math
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, Structure, c_uint32, c_uint64, cast, pointer
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from campaign.result import Held, Result
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.verbs import pingpong_child
from rdmadiag.verbs.abi import IbvContext, IbvDevice, IbvQpAttr
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import Listening, Request, TurnedAway
from rdmadiag.verbs.records import Result as Ended

Role = Literal["connect", "listen"]
ROLES: Final[tuple[Role, ...]] = ("connect", "listen")

SECRET: Final = hashlib.sha256(b"canary").digest()
SECONDS: Final = 5.0  # for one conversation
HELD: Final = 4.0  # strangers may hold the peer up for no longer; each idles for ever
EINVAL: Final = 22
MESSAGE: Final = 65_000  # bytes: no longer one is taken

OURS: Final = End(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    active_mtu=1024,
    mtu=1024,
    gid_index=3,
    gid=Gid.parse("::ffff:192.0.2.1"),
    gid_type=GidType.ROCE_V2,
    prefix_length=24,
    lid=0,
    qp_type=QpType.RC,
    payload_bytes=64,
    iterations=10,
    permitted=True,
)
THEIRS: Final[dict[str, Any]] = {
    "device": "rxe7",
    "port": 1,
    "link_layer": "ethernet",
    "state": "active",
    "active_mtu": 1024,
    "mtu": 1024,
    "gid_index": 1,
    "gid": "::ffff:192.0.2.2",
    "gid_type": "roce_v2",
    "prefix_length": 24,
    "lid": 0,
    "qp_type": "rc",
    "payload_bytes": 64,
    "iterations": 10,
    "permitted": True,
}
SCRIPT: Final[dict[str, dict[str, Any]]] = {
    "hello": {
        "protocol": "rdmadiag-pingpong",
        "version": 2,
        "nonce": "5a" * 32,
        "with_secret": None,  # filled in
    },
    "endpoint": THEIRS,
    "agree": {"problems": []},
    "queue_pair": {"number": 17, "psn": 99},
    "failed": {
        "stage": "data",
        "text": "nothing arrived",
        "outcome": "no_data",
        "status": 12,
        "arrived": 0,
    },
}
"""What a peer says, step by step; `failed` ends it."""

BEFORE_THE_DEVICE: Final = ("hello", "endpoint", "agree")
ABSENT: Final = object()


def _nested(depth: int) -> Any:
    made: Any = []
    for _ in range(depth):
        made = [made]
    return made


NUMBERS: Final = (
    *(-1, 0, 1, 2, 7, 65, 128, 129, 255, 256, 257, 300, 512, 1023, 1500, 2048, 4095, 4096, 4097),
    *(10_000, 10_001, 0xBFFF, 0xC000, 0xFFFF, 1 << 16, 1 << 20, (1 << 20) + 1, 0xFFFFFE, 0xFFFFFF),
    *(1 << 24, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 10**100, -(10**100)),
    *(0.5, 1.0, 1024.0, 1e308, -0.0, math.inf, -math.inf, math.nan),
)
WORDS: Final = (
    *("", " ", "0", "1024", "true", "null", "x" * 64, "x" * 65, "x" * 60_000, "\n", "a\nb"),
    *("\x1b[2J", "\x9b2J", "a\u202eb", "\ud800", "\0", "$(id)", "`id`", "; reboot", "[red]x[/red]"),
    *("infiniband", "thunderbolt", "unspecified", "ethernet", "down", "init", "armed", "active"),
    *("roce_v1", "roce_v2", "ib", "rc", "uc", "ud", "verified", "no_data", "listen", "00" * 32),
    *("::", "::1", "ff02::1", "fe80::2", "2001:db8::2", "::ffff:192.0.2.2", "::ffff:192.0.2.1"),
    *("::ffff:0.0.0.0", "::ffff:127.0.0.1", "::ffff:224.0.0.1", "::ffff:255.255.255.255"),
    *("192.0.2.2", "fe80::2%eth0", "::ffff:192.0.2.2/24", "gg", "5a" * 31, "5a" * 33),
)
OTHERS: Final[tuple[Any, ...]] = (
    *(None, True, False, [], {}, [[]], {"a": 1}, [["code", "text"]], [["x" * 999, "y" * 999]] * 40),
    *([1], [["one"]], [[None, None]], [[["a"], {}]], [0] * 20_000, _nested(200), _nested(900)),
)
VALUES: Final = (ABSENT, *NUMBERS, *WORDS, *OTHERS)


# --- the end that lies -------------------------------------------------------------------


class Other:
    """The other end of one connection."""

    def __init__(self, connection: socket.socket, role: Role, secret: bytes | None) -> None:
        self._socket = connection
        self._role = role
        self._secret = secret
        self._nonces: dict[str, bytes] = {}
        self._counts = {"connect": count(), "listen": count()}
        self.heard = bytearray()

    def say(self, step: str, content: dict[str, Any]) -> None:
        body = json.dumps({"step": step} | content).encode()
        body = self._mac(self._role, body) + body
        self._socket.sendall(struct.pack(">I", len(body)) + body)
        if step == "hello":
            with contextlib.suppress(ValueError, TypeError, KeyError):
                self._nonces[self._role] = bytes.fromhex(content["nonce"])

    def hear(self) -> bytes:
        """The next message, as it is; its nonce is kept if it is the hello."""
        (length,) = struct.unpack(">I", self._exactly(4))
        body = self._exactly(length)
        other = "listen" if self._role == "connect" else "connect"
        if other not in self._nonces:
            self._nonces[other] = bytes.fromhex(json.loads(body)["nonce"])
        return body

    def _mac(self, sender: str, body: bytes) -> bytes:
        if self._secret is None or len(self._nonces) < len(self._counts):
            return b""
        number = next(self._counts[sender])
        head = f"rdmadiag-pingpong 2 {sender:7}".encode()
        content = head + self._nonces["connect"] + self._nonces["listen"]
        return hmac.new(self._secret, content + struct.pack(">Q", number) + body, "sha256").digest()

    def _exactly(self, length: int) -> bytes:
        held = b""
        while len(held) < length:
            chunk = self._socket.recv(length - len(held))
            if not chunk:
                raise ConnectionError
            held += chunk
        self.heard += held
        return held

    def play(self, lies: Sequence["Lie"]) -> None:
        """The whole script, but for the lies; ends where our end does."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            if self._role == "listen":
                self.hear()
            for step, content in SCRIPT.items():
                said: dict[str, Any] = {"endpoint": content} if step == "endpoint" else content
                if step == "hello":
                    said = content | {"with_secret": self._secret is not None}
                for lie in lies:
                    said = lie.told(step, said)
                self.say(step, said)
                if step == "hello" and self._role == "connect":
                    self.hear()
            while chunk := self._socket.recv(1 << 16):
                self.heard += chunk


@dataclass(frozen=True)
class Lie:
    """One field of one message."""

    step: str
    name: str  # "": the message itself, of which nothing is left
    value: Any

    def told(self, step: str, content: dict[str, Any]) -> dict[str, Any]:
        if step != self.step:
            return content
        if step == "endpoint":
            if not self.name:
                return {} if self.value is ABSENT else {"endpoint": self.value}
            return {"endpoint": self._changed(content["endpoint"])}
        return self._changed(content) if self.name else {}

    def _changed(self, fields: Any) -> Any:
        if not isinstance(fields, dict):  # another lie has taken its place
            return fields
        kept = {name: value for name, value in fields.items() if name != self.name}
        return kept if self.value is ABSENT else kept | {self.name: self.value}

    def __str__(self) -> str:
        value = "absent" if self.value is ABSENT else f"{json.dumps(self.value):.60}"
        return f"{self.step}.{self.name} = {value}"


def all_lies() -> Iterator[Lie]:
    """Each value in each field of each message."""
    for step, content in SCRIPT.items():
        for name in ("", *content):
            for value in VALUES:
                yield Lie(step, name, value)


def is_true(lie: Lie, secret: bytes | None) -> bool:
    """Whether what it says is a peer that fits, so that the device may be opened."""
    value, fields = lie.value, THEIRS
    if lie.step == "hello":
        if lie.name == "nonce":
            return bool(value == "00" * 32)
        if lie.name == "with_secret":
            short = len(json.dumps(None if value is ABSENT else value)) < MESSAGE
            return short and (value is True) == (secret is not None)
        return lie.name == "version" and type(value) in (int, float) and value == 2
    if lie.step == "agree":
        return lie.name == "problems" and value == []
    if lie.step != "endpoint" or not lie.name:
        return False
    if lie.name in ("active_mtu", "prefix_length", "gid_type", "gid_index") and (
        value is None or value is ABSENT
    ):
        return True
    if value is ABSENT:
        return False
    return _FITS[lie.name](value) if lie.name in _FITS else value is fields[lie.name]


def _between(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "device": lambda value: type(value) is str and 0 < len(value) <= 64 and value.isprintable(),
    "port": _between(1, 255),
    "link_layer": lambda value: value == "ethernet",
    "state": lambda value: value == "active",
    "active_mtu": lambda value: type(value) is int and value in (1024, 2048, 4096),
    "mtu": lambda value: type(value) is int and value in (256, 512, 1024),
    "gid_index": _between(0, 65535),
    "gid": lambda value: value in ("::ffff:192.0.2.2", "::ffff:192.0.2.1"),
    "gid_type": lambda value: value in ("roce_v2", "ib"),
    "prefix_length": _between(0, 128),
    "lid": _between(0, 65535),
    "qp_type": lambda value: value == "rc",
    "payload_bytes": lambda value: type(value) is int and value == 64,
    "iterations": lambda value: type(value) is int and value == 10,
    "permitted": lambda value: value is True,
}


# --- our end -----------------------------------------------------------------------------


class _Mr(Structure):
    """struct ibv_mr up to lkey, infiniband/verbs.h."""

    _fields_ = (
        *((name, c_uint64) for name in ("context", "pd", "addr", "length")),
        *((name, c_uint32) for name in ("handle", "lkey", "rkey")),
    )


class _Qp(Structure):
    """The number of a queue pair, where objects.QueuePair looks for it."""

    _fields_ = (("qp_num", c_uint32),)


@dataclass
class Device:
    """Stands where the verbs library is: takes each call down, and refuses RTR."""

    calls: list[str] = field(default_factory=list)
    rtr: list[IbvQpAttr] = field(default_factory=list)

    def call(self, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        if name == "ibv_get_device_list":
            arguments[0]._obj.value = 1  # noqa: SLF001  # what byref was given
            return [pointer(IbvDevice())]
        if name == "ibv_get_device_name":
            return OURS.device.encode()
        if name == "ibv_open_device":
            return pointer(IbvContext())
        if name == "ibv_reg_mr":
            return pointer(_Mr(lkey=1))
        if name == "ibv_create_qp":
            return pointer(_Qp(qp_num=42))
        if name == "ibv_modify_qp":
            attributes = cast(arguments[1], POINTER(IbvQpAttr)).contents
            if attributes.qp_state == 2:  # IBV_QPS_RTR
                self.rtr.append(IbvQpAttr.from_buffer_copy(attributes))
                raise CallFailed(name, EINVAL)
        return 1


class Quiet(Bounds):
    """Without signals, and so for any thread."""

    def __init__(self) -> None:
        self._parent, self._command = os.pipe()
        self._woken, self._waker = os.pipe()
        self._deadline = float("inf")
        self._signal = None

    def start(self, deadline: float) -> None:
        self._deadline = deadline

    def stop(self) -> None:
        """As if the command had gone: nobody else comes to an end that listens."""
        os.write(self._command, b".")

    def close(self) -> None:
        for each in (self._parent, self._command, self._woken, self._waker):
            os.close(each)


class Ours(pingpong_child.Attempt):
    """The child's program, with that device."""

    device: Device

    def _load(self) -> Any:
        return self.device


@dataclass
class Told:
    """Stands where the transcript is."""

    records: list[Any] = field(default_factory=list)
    address: str = ""
    listening: threading.Event = field(default_factory=threading.Event)

    def write(self, record: Any) -> None:
        self.records.append(record)
        if isinstance(record, Listening):
            self.address = record.address
            self.listening.set()

    def port(self) -> int:
        """Where it listens."""
        if not self.listening.wait(SECONDS):
            raise TimeoutError("it does not listen")
        return int(self.address.rpartition(":")[2])


def request(role: Role, port: int, secret: bytes | None) -> Request:
    now = time.monotonic()
    return Request(
        platform="linux",
        library="",
        start=now,
        deadline=now + SECONDS,
        ends=(OURS,),
        meet=role,
        host="127.0.0.1",
        port=port,
        until=now + SECONDS,
        secret=None if secret is None else secret.hex(),
    )


@dataclass
class Came:
    """What one conversation came to."""

    told: Told
    device: Device
    error: BaseException | None
    seconds: float

    @property
    def result(self) -> Ended | None:
        return next((each for each in self.told.records if isinstance(each, Ended)), None)


Others = Callable[[Any], None]
"""What is run beside our end: takes the socket that ours goes to, or the port it listens at."""


def converse(role: Role, secret: bytes | None, others: Others) -> Came:
    """Our end in `role`, and the others beside it."""
    told, device = Told(), Device()
    bounds = Quiet()
    error = None
    with contextlib.closing(bounds), socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        port = server.getsockname()[1] if role == "connect" else 0
        made = Ours(request(role, port, secret), told, bounds)  # type: ignore[arg-type]
        made.device = device

        def beside() -> None:
            with contextlib.suppress(OSError):  # our end has gone
                others(server if role == "connect" else told.port())
            bounds.stop()

        thread = threading.Thread(target=beside, daemon=True)
        began = time.monotonic()
        thread.start()
        try:
            made.run()
        except BaseException as caught:  # noqa: BLE001  # it is what is looked for
            error = caught
        took = time.monotonic() - began
        thread.join(SECONDS)
    return Came(told, device, error, took)


class Liar:
    """The other end: where ours connects it listens, and it connects where ours listens."""

    def __init__(self, secret: bytes | None, lies: Sequence[Lie]) -> None:
        self._secret = secret
        self._lies = lies
        self.heard = b""

    def __call__(self, place: socket.socket | int) -> None:
        if isinstance(place, int):
            role: Role = "connect"
            connection = socket.create_connection(("127.0.0.1", place), SECONDS)
        else:
            role = "listen"
            connection, _ = place.accept()
        with connection:
            connection.settimeout(SECONDS)
            other = Other(connection, role, self._secret)
            other.play(self._lies)
            self.heard = bytes(other.heard)


# --- what must hold ----------------------------------------------------------------------


def of_rtr(attributes: IbvQpAttr) -> str | None:
    """What is out of range in what RTR is given; the ranges are InfiniBand's and ours."""
    address = attributes.ah_attr
    gid = bytes(address.grh.dgid)
    checks = {
        "path MTU": 1 <= attributes.path_mtu <= 3,  # 1024: what our port has
        "queue pair": 2 <= attributes.dest_qp_num <= 0xFFFFFE,
        "PSN": 0 <= attributes.rq_psn <= 0xFFFFFF,
        "our port": (attributes.ah_attr.port_num, address.grh.sgid_index) == (1, 3),
        "global": address.is_global == 1,
        "GID": gid[:12] == bytes(10) + b"\xff\xff" and 0 < gid[12] < 224 and gid[12] != 127,
    }
    return next((name for name, holds in checks.items() if not holds), None)


@dataclass
class Tally:
    """Of one property."""

    property: str
    tried: int = 0
    violations: list[str] = field(default_factory=list)

    def count(self, what: object, wrong: object) -> None:
        self.tried += 1
        if wrong:
            self.violations.append(f"{what}: {wrong}")

    def held(self) -> Held:
        return Held(self.property, self.tried, self.violations)


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """Every lie in every role, with a secret and without; then the strangers."""
    began = time.monotonic()
    chosen = random.Random(seed)
    answers = Tally("what a peer says, right or wrong, ends in a result of ours, in time")
    unopened = Tally("a peer that does not fit opens no device")
    in_range = Tally("whatever reaches RTR is in range")
    true_ones = Tally("a peer that fits reaches RTR")
    unsent = Tally("the secret is never sent")
    met = Tally("strangers before and beside the peer neither end nor hold the listener")
    every = list(all_lies())
    told = [(), *((lie,) for lie in every)]
    pairs = (chosen.sample(every, 2) for _ in range(0 if short else 50_000))
    told += [(one, other) for one, other in pairs if _are_apart(one, other)]
    tried = 0
    limit = began + seconds
    for lies in told:
        if time.monotonic() > limit:
            break
        for role in ROLES:
            for secret in (None, SECRET):
                liar = Liar(secret, lies)
                came = converse(role, secret, liar)
                said = ", ".join(map(str, lies)) or "the truth"
                what = f"our end {role}s, {'with' if secret else 'no'} secret, {said}"
                _judge(what, lies, secret, came, answers, unopened, in_range, true_ones)
                leaked = SECRET in liar.heard or SECRET.hex().encode() in liar.heard
                unsent.count(what, leaked and "it was")
                tried += 1
    for strangers in _crowds(chosen, 40 if short else 2000):
        if time.monotonic() > limit:
            break
        secret = chosen.choice((None, SECRET))
        came = converse("listen", secret, Crowd(strangers, secret))
        what = f"{'with' if secret else 'no'} secret, {', '.join(strangers)}"
        met.count(what, _not_met(came))
    (folder / "seed").write_text(f"{seed}\n", encoding="ascii")
    tallies = (answers, unopened, in_range, true_ones, unsent, met)
    return Result(
        "peers",
        tried + met.tried,
        [each.held() for each in tallies],
        time.monotonic() - began,
    )


def _are_apart(one: Lie, other: Lie) -> bool:
    """Whether both are in what is sent: the second of one field is in the first's place."""
    return one.step != other.step or "" != one.name != other.name != ""


def _judge(
    what: str,
    lies: Sequence[Lie],
    secret: bytes | None,
    came: Came,
    answers: Tally,
    unopened: Tally,
    in_range: Tally,
    true_ones: Tally,
) -> None:
    late = came.seconds > SECONDS + 2 and f"{came.seconds:.1f} s"
    answers.count(what, came.error or (came.result is None and "no result") or late)
    early = [lie for lie in lies if lie.step in BEFORE_THE_DEVICE]
    if not all(is_true(lie, secret) for lie in early):
        unopened.count(what, "ibv_open_device" in came.device.calls and "it was opened")
    elif len(early) == len(lies) <= 1:
        true_ones.count(what, not came.device.rtr and (came.result and came.result.text))
    for attributes in came.device.rtr:
        in_range.count(what, of_rtr(attributes))


def _not_met(came: Came) -> str | None:
    if came.error:
        return repr(came.error)
    if not came.device.rtr:
        return f"the peer was not met: {came.result.text if came.result else 'no result'}"
    if came.seconds > HELD:
        return f"the peer was held up: {came.seconds:.1f} s"
    if len([each for each in came.told.records if isinstance(each, TurnedAway)]) > 20:
        return "the transcript grows with the strangers"
    return None


# --- strangers ---------------------------------------------------------------------------

HELLO: Final = json.dumps({"step": "hello"} | SCRIPT["hello"] | {"with_secret": False}).encode()
PROVEN: Final = HELLO.replace(b'"with_secret": false', b'"with_secret": true')


def _framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


STRANGERS: Final[dict[str, bytes]] = {
    "idle": b"",
    "garbage": bytes(range(256)),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "a gigabyte": struct.pack(">I", 1 << 30),
    "half a length": b"\0\0",
    "half a hello": _framed(HELLO)[:-5],
    "a hello": _framed(HELLO),
    "a hello of a secret": _framed(PROVEN),
    "an older version": _framed(HELLO.replace(b'"version": 2', b'"version": 1')),
    "a wrong secret": _framed(PROVEN) + _framed(bytes(32) + b"{}"),
    "nested": _framed(b"[" * 60_000),
    "a failure": _framed(b'{"step": "failed"}'),
    "lots": _framed(b"{}") * 10_000,
}


def _crowds(chosen: random.Random, number: int) -> Iterator[list[str]]:
    for name in STRANGERS:
        yield [name]
    for _ in range(number):
        yield chosen.choices(list(STRANGERS), k=chosen.choice((2, 5, 20, 80)))


class Crowd:
    """Strangers who come and stay, then the peer, then more of them."""

    def __init__(self, strangers: list[str], secret: bytes | None) -> None:
        self._strangers = strangers
        self._secret = secret

    def __call__(self, port: int) -> None:
        with contextlib.ExitStack() as stack:
            half = len(self._strangers) - len(self._strangers) // 3
            for name in self._strangers[:half]:
                self._comes(stack, port, name)
            peer = threading.Thread(target=Liar(self._secret, ()), args=(port,))
            peer.start()
            for name in self._strangers[half:]:
                self._comes(stack, port, name)
            peer.join(SECONDS)

    @staticmethod
    def _comes(stack: contextlib.ExitStack, port: int, name: str) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more: the peer was met
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS))
            each.settimeout(1.0)
            each.sendall(STRANGERS[name])
