"""What a child that loads the verbs library and its parent write to each other; pure.

One JSON object a line, in both directions: a Request on the child's stdin, every other
Record on its stdout, before and after each call on the device, so that a call that never
returns is the last line.

    {"kind": "step", "call": "ibv_modify_qp", "stage": "rtr", "end": "local", ...}
    {"kind": "failed", "errno": 110, "at": 3.2}

The lines of the query stand in snapshots, too: older ones have no "kind", and are known by
the field that theirs alone have.
"""

import json
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, Literal, Union, get_args, get_origin, get_type_hints

from rdmadiag.facts.attempt import (
    BadCompletion,
    Bandwidth,
    Latency,
    Outcome,
    PeerFailure,
    Problem,
    Stage,
)
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.exercise import CellState, Wanted
from rdmadiag.facts.ib import QpState
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.protocol import End, ProtocolError, read_end


class Kind(StrEnum):
    """Which class of this file a line is."""

    REQUEST = "request"
    EXERCISE = "exercise"
    BY_CM = "by_cm"
    LIBRARY = "library"
    UNLOADABLE = "unloadable"
    CALL = "call"
    STEP = "step"
    RETURNED = "returned"
    FAILED = "failed"
    STAGE = "stage"
    LISTENING = "listening"
    TURNED_AWAY = "turned_away"
    WAITING = "waiting"
    CONNECTED = "connected"
    AGREED = "agreed"
    QUEUE_PAIR = "queue_pair"
    PATH = "path"
    STATE = "state"
    VERIFIED = "verified"
    ROUNDS = "rounds"
    RESULT = "result"
    FAREWELL = "farewell"
    LATENCY = "latency"
    AWAITED = "awaited"
    EVENT = "event"
    CONNECTION = "connection"
    JOINED = "joined"
    BANDWIDTH = "bandwidth"
    CELL = "cell"
    CELL_ENDED = "cell_ended"
    ASYNC_EVENT = "async_event"
    DONE = "done"
    ENDED = "ended"


class EndName(StrEnum):
    """Which end of the path; with a peer, this host holds the local one alone."""

    LOCAL = "local"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a child writes: a line of JSON, its class by `kind`."""

    kind: ClassVar[Kind]
    at: float = 0.0  # seconds since the start that the parent gave


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the queues of each end here, and of what a work request holds."""

    sq_depth: int = 16  # one receive is ever posted, and without --bandwidth few sends
    rq_depth: int = 16
    sge: int = 1
    inline: int = 0  # bytes
    cq_depth: int = 32


DEFAULT_SIZES: Final = Sizes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Record):
    """One attempt, as its child is to make it."""

    kind = Kind.REQUEST
    platform: str
    library: str  # path of the verbs library
    start: float  # time.monotonic's clock, from which `at` counts
    deadline: float  # the same clock; what a listener waits for its peer is added
    ends: tuple[End, ...]  # two: both are held by the child
    meet: Literal["listen", "connect"] | None  # None with two ends
    host: str
    port: int
    until: float  # a peer that has not come by then does not come
    secret: str | None  # hexadecimal
    pkey_index: int = 0  # of every end here
    sizes: Sizes = DEFAULT_SIZES
    events: bool = False  # a completion channel in place of polling


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A cell that the device of this host does not claim."""

    cell: Wanted
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseRequest(Request):
    """One run of `exercise`: both of its ends are on this host, or one is the peer's."""

    kind = Kind.EXERCISE
    cells: tuple[Wanted, ...]
    unclaimed: tuple[Unclaimed, ...] = ()  # that this host's device cannot, for the peer to know
    cm_library: str = ""  # of the connection manager, which connects; "": no
    node: str = ""  # as of CmRequest
    addresses: tuple[tuple[str, ...], ...] = ()  # of each end here, the best first


@dataclass(frozen=True, slots=True, kw_only=True)
class CmRequest(Request):
    """One attempt by the connection manager."""

    kind = Kind.BY_CM
    cm_library: str
    node: str  # librdmacm is not loaded where it cannot be opened
    addresses: tuple[str, ...]  # of each end here, which names its device; "": the kernel's choice
    group: str | None = None  # the IP address of a multicast group that both ends join
    members: tuple[str, ...] = ()  # of each end here: an address of the group's family


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAwaited(Record):
    """The connection manager is to give this event next."""

    kind = Kind.AWAITED
    end: EndName
    stage: Stage
    event: CmEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCame(Record):
    """What came in its place, or it."""

    kind = Kind.EVENT
    end: EndName
    number: int
    status: int
    private_data: str = ""  # hexadecimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionMade(Record):
    """One end as the connection manager has set it, by rdma_cm_id and ibv_query_qp."""

    kind = Kind.CONNECTION
    end: EndName
    address: str
    peer: str
    state: QpState | None
    mtu: int | None  # bytes; None: a number that no table has
    queue_pair: int
    psn: int | None  # that it sends with first; of the peer only its own end knows
    remote_queue_pair: int
    gid_index: int | None  # None: no GRH


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Record):
    """One end is a member of this multicast group."""

    kind = Kind.JOINED
    end: EndName
    group: str  # IP address


@dataclass(frozen=True, slots=True, kw_only=True)
class CellBegan(Record):
    """A cell that is about to be tried."""

    kind = Kind.CELL
    cell: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnded(Record):
    """What came of the cell of the last CellBegan, before its objects are destroyed."""

    kind = Kind.CELL_ENDED
    state: CellState
    stage: Stage
    text: str = ""
    call: str | None = None
    errno: int = 0
    status: int | None = None
    vendor_error: int = 0  # of the completion that had the status
    end: EndName = EndName.LOCAL  # whose call failed or whose completion was bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Library(Record):
    """The head of a query: what is about to be loaded."""

    kind = Kind.LIBRARY
    platform: str
    library: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloadable(Record):
    """The loader's reason."""

    kind = Kind.UNLOADABLE
    unloadable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Record):
    """A call of the query that is about to be made."""

    kind = Kind.CALL
    call: str
    device: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Record):
    """A call of an attempt that is about to be made."""

    kind = Kind.STEP
    call: str
    stage: Stage
    end: EndName
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Record):
    """The call of the line before returned without an error."""

    kind = Kind.RETURNED
    answer: Any = None  # of the query: what the library answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Record):
    """The call of the line before failed; 0: it gave no errno."""

    kind = Kind.FAILED
    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBegan(Record):
    """Both ends of this child come to this stage."""

    kind = Kind.STAGE
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening(Record):
    """A peer may come now."""

    kind = Kind.LISTENING
    address: str  # ADDRESS:PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway(Record):
    """Somebody came who is not the peer."""

    kind = Kind.TURNED_AWAY
    address: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Record):
    """Nobody listens there yet."""

    kind = Kind.WAITING
    address: str
    is_this_host: bool  # it is an address of this host itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected(Record):
    """The peer is there."""

    kind = Kind.CONNECTED
    address: str
    is_this_host: bool = False  # the end that connects found it an address of its own host


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed(Record):
    """The peer's end, which fits ours."""

    kind = Kind.AGREED
    remote: End


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncEventCame(Record):
    """An asynchronous event of a device that this child has open."""

    kind = Kind.ASYNC_EVENT
    end: EndName
    device: str
    number: int  # enum ibv_event_type
    port: int | None  # that it is of
    queue_pair: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairMade(Record):
    """A queue pair of this host."""

    kind = Kind.QUEUE_PAIR
    end: EndName
    queue_pair: int
    psn: int  # that it sends with first


@dataclass(frozen=True, slots=True, kw_only=True)
class Path(Record):
    """What RTR is given of the other end; one for each end of this host, in order."""

    kind = Kind.PATH
    queue_pair: int
    psn: int
    mtu: int  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReached(Record):
    """Of a queue pair of this host; None: a number that no table has."""

    kind = Kind.STATE
    end: EndName
    state: QpState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Record):
    """One message each way was compared byte by byte.

    A small one first (0), where the payload is none; before (1) and after (2) the loop.
    """

    kind = Kind.VERIFIED
    verified: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Record):
    """Round trips of the timed loop that are done."""

    kind = Kind.ROUNDS
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Record):
    """How the attempt ended, before its teardown."""

    kind = Kind.RESULT
    outcome: Outcome
    stage: Stage
    text: str = ""
    call: str | None = None
    errno: int = 0
    completion: BadCompletion | None = None
    peer_failure: PeerFailure | None = None
    problems: tuple[Problem, ...] = ()
    arrived: int | None = None  # messages, with a peer and once there was data to send
    is_this_host: bool = False  # the peer's address, where nobody was there


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell(Record):
    """What the peer sent after it was notified of this end's failure."""

    kind = Kind.FAREWELL
    peer_failure: PeerFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(Record):
    """The figures of the loop."""

    kind = Kind.LATENCY
    latency: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed(Record):
    """What a window of WRITEs or READs came to."""

    kind = Kind.BANDWIDTH
    bandwidth: Bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Record):
    """The child has nothing more to do."""

    kind = Kind.DONE
    done: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Record):
    """The last line of a query, which its parent writes."""

    kind = Kind.ENDED
    end: int | None  # exit code, below 0 a signal's number; None: killed at the deadline
    pid: int
    unkillable: bool
    stderr: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is no record: cut short by a kill, or written by a library."""

    line: bytes  # its beginning
    why: str


_CLASSES: Final[dict[Kind, type[Record]]] = {
    each.kind: each
    for each in (
        Request,
        ExerciseRequest,
        CmRequest,
        EventAwaited,
        EventCame,
        ConnectionMade,
        GroupJoined,
        CellBegan,
        CellEnded,
        AsyncEventCame,
        Library,
        Unloadable,
        Call,
        Step,
        Returned,
        Failed,
        StageBegan,
        Listening,
        TurnedAway,
        Waiting,
        Connected,
        Agreed,
        QueuePairMade,
        Path,
        StateReached,
        Verified,
        Rounds,
        Result,
        Farewell,
        Timed,
        Streamed,
        Done,
        Ended,
    )
}
_WITHOUT_KIND: Final = {
    "platform": Kind.LIBRARY,
    "unloadable": Kind.UNLOADABLE,
    "call": Kind.CALL,
    "answer": Kind.RETURNED,
    "errno": Kind.FAILED,
    "done": Kind.DONE,
    "end": Kind.ENDED,
}
"""Lines of a query in older snapshots: field → kind."""

_KEPT: Final = 200  # bytes of a malformed line
_MOST: Final = 1e12  # of a number with a fraction, all of which are times


def encode(record: Record) -> bytes:
    """The record as a line of JSON."""
    row = {"kind": record.kind} | _plain(record)
    return json.dumps(row, default=_plain).encode() + b"\n"


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, End):
        return value.message()
    return {each.name: getattr(value, each.name) for each in fields(value)}


def parse(line: bytes) -> Record | Malformed:
    """The record of one line; never raises, whatever the bytes are."""
    try:
        row = json.loads(line)
        found: Record = _built(_CLASSES[_kind(row)], row)
    except (KeyError, ProtocolError, RecursionError, TypeError, ValueError) as error:
        return Malformed(line[:_KEPT], f"{type(error).__name__}: {error!s:.80}")
    return found


def _kind(row: Any) -> Kind:
    if not isinstance(row, dict):
        raise TypeError("no object")
    if "kind" in row:
        return Kind(row["kind"])
    found = next((kind for name, kind in _WITHOUT_KIND.items() if name in row), None)
    if found is None:
        raise ValueError("no kind")
    return found


def _built(of: Any, row: Any) -> Any:
    """A dataclass of these fields; unknown ones are of a later version, and left out."""
    if not isinstance(row, dict):
        raise TypeError(f"{of.__name__}: no object")
    hints = _hints(of)
    given = {}
    for each in fields(of):
        if each.name in row:
            given[each.name] = _value(hints[each.name], row[each.name])
        elif each.default is MISSING:
            raise ValueError(f"{of.__name__} without {each.name}")
    return of(**given)


@cache
def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


def _value(kind: Any, value: Any) -> Any:
    """A value of JSON as the annotation has it; raises TypeError, ValueError, ProtocolError."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        return _value(next(each for each in arguments if each is not NoneType), value)
    if origin is Literal and value in arguments:
        return value
    if origin is tuple and isinstance(value, list):
        if arguments[-1] is ...:
            return tuple(_value(arguments[0], each) for each in value)
        return tuple(_value(one, each) for one, each in zip(arguments, value, strict=True))
    if kind is End and isinstance(value, dict):
        return read_end(value)
    if is_dataclass(kind):
        return _built(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {each.value: each for each in kind}[value]
    return _plain_value(kind, value)


def _plain_value(kind: Any, value: Any) -> Any:
    if kind is float and type(value) in (int, float) and -_MOST <= value <= _MOST:
        return value
    if kind is str and type(value) is str:
        # JSON can spell half a character, UTF-8 cannot.
        return value.encode("utf-8", "backslashreplace").decode()
    if kind in (bool, int) and type(value) is kind:
        return value
    raise TypeError(f"{value!r:.40} is no {kind}")
