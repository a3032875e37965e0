"""What one pingpong attempt came to: plain data, nothing of it judged."""

from enum import StrEnum
from typing import Literal

from rdmadiag.facts import Missing
from rdmadiag.facts.cm import CmEvent, RejectReason, SidrStatus
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import DataOp, GidType, LinkLayer, PortState, QpState, QpType
from rdmadiag.frozen import dataclass


class Stage(StrEnum):
    """How far an end has come; a failure carries the one that it happened in."""

    GATE = "gate"  # --allow-rtr
    PREFLIGHT = "preflight"
    CONNECT = "connect"  # TCP, hello, proof
    AGREE = "agree"  # both ends' facts
    OPEN = "open"
    EVENT_CHANNEL = "event_channel"  # these five: the connection manager alone
    BIND = "bind"
    LISTEN = "listen"
    RESOLVE_ADDRESS = "resolve_address"
    RESOLVE_ROUTE = "resolve_route"
    ALLOC_PD = "alloc_pd"
    REG_MR = "reg_mr"
    CREATE_CQ = "create_cq"
    CREATE_QP = "create_qp"
    INIT = "init"
    RTR = "rtr"
    RTS = "rts"
    ESTABLISH = "establish"  # rdma_connect or rdma_accept, up to ESTABLISHED
    JOIN = "join"  # of a multicast group
    DATA = "data"
    DISCONNECT = "disconnect"
    TEARDOWN = "teardown"
    DONE = "done"


class Outcome(StrEnum):
    """How the attempt ended."""

    VERIFIED = "verified"
    NOT_ALLOWED = "not_allowed"  # no --allow-rtr
    NOT_SAFE = "not_safe"  # our own preflight
    NO_PEER = "no_peer"  # nobody came, or nobody was there
    PEER_REFUSED = "peer_refused"  # another protocol, version or secret, or its preflight
    MISMATCH = "mismatch"  # the two ends' facts do not fit
    CALL_FAILED = "call_failed"
    CM_EVENT = "cm_event"  # an event of the connection manager that ends an attempt
    NO_EVENT = "no_event"  # the connection manager gave none in a step's time
    COMPLETION_ERROR = "completion_error"
    DATA_MISMATCH = "data_mismatch"
    NO_DATA = "no_data"  # nothing arrived any more, and no error said why
    LATE = "late"  # all went well, and the deadline came first
    PEER_FAILED = "peer_failed"  # it said so
    PEER_LOST = "peer_lost"  # its connection ended, or it fell silent
    TEARDOWN_FAILED = "teardown_failed"  # data verified, something could not be destroyed
    INTERRUPTED = "interrupted"  # SIGINT or SIGTERM
    DIED = "died"  # a signal ended the child: the provider crashed
    WATCHDOG = "watchdog"  # a call never returned


class Teardown(StrEnum):
    """What became of the objects."""

    NOTHING_MADE = "nothing_made"
    CLEAN = "clean"
    FAILED = "failed"
    ABANDONED = "abandoned"  # the child was killed: the kernel destroys what was left


@dataclass(frozen=True, slots=True)
class EndFacts(WithNumbers):
    """One end of the path, as far as it came."""

    device: str
    port: int
    link_layer: LinkLayer
    state: PortState
    gid_index: int | None
    gid: Gid | None
    gid_type: GidType | None
    lid: int
    qp_type: QpType
    mtu: int | None  # bytes, of the path once both ends are known
    queue_pair: int | None  # its number
    psn: int | None  # that it sends with first
    qp_state: QpState | None  # the last that it reached


@dataclass(frozen=True, slots=True)
class Step:
    """One call on the device."""

    end: str  # "local"; "remote" where both ends are on this host
    stage: Stage
    call: str
    seconds: float | None  # None: it never returned
    errno: int | None  # None: it did not fail


@dataclass(frozen=True, slots=True)
class CmStep(WithNumbers):
    """One wait for an event of the connection manager."""

    end: str  # as of Step
    stage: Stage
    awaited: CmEvent
    event: CmEvent | None  # that came; None: none did, or one of no table
    status: int  # with it: 0, an errno below 0, or a reason to reject
    seconds: float | None  # None: none came


@dataclass(frozen=True, slots=True)
class Connection(WithNumbers):
    """What the connection manager gave, and which event of it ended the attempt."""

    steps: tuple[CmStep, ...]
    address: str | None  # ADDRESS:PORT of the end that connects here, or that listens
    peer: str | None  # of the other end
    event: CmEvent | None = None  # that ended it; None: none did
    status: int = 0  # with that event
    reject_reason: RejectReason | None = None  # of REJECTED on InfiniBand and RoCE
    sidr_status: SidrStatus | None = None  # of UNREACHABLE, of a UD queue pair
    private_data: str | None = None  # hexadecimal: what came with that event
    group: str | None = None  # the multicast address that was joined


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An asynchronous event that came while an attempt ran: struct ibv_async_event."""

    end: str  # "local"; "remote" where both ends are on this host
    device: str
    number: int
    name: str | None  # "IBV_EVENT_PORT_ERR"; None: newer than our table
    port: int | None  # that it is of
    queue_pair: int | None
    seconds: float  # since the child began
    meaning: str | None


@dataclass(frozen=True, slots=True)
class BadCompletion:
    """A work request that completed with an error: struct ibv_wc."""

    end: str
    status: int
    vendor_error: int
    is_receive: bool


@dataclass(frozen=True, slots=True)
class PeerFailure:
    """What one end says to the other of its own failure."""

    stage: str
    text: str
    outcome: Outcome | None = None  # None: it names none that is known
    status: int | None = None  # of the completion that ended it
    arrived: int | None = None  # messages that had come to it


@dataclass(frozen=True, slots=True)
class Arrived:
    """Messages that came from the other host, at each end."""

    here: int
    at_peer: int | None  # None: it did not say
    only_small: bool  # one smaller than any path MTU passed each way, the payload did not


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the two ends do not fit."""

    code: str  # "gid_type_mismatch"
    text: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Half round trips, of READ whole ones; microseconds."""

    min: float
    median: float
    p99: float
    max: float
    iterations: int
    bytes: int
    loop: str  # "compiled"; in older documents also "python"
    overhead: float  # of the loop itself, a half round trip, measured in this run
    histogram: tuple[tuple[float, int], ...]  # (upper bound, how many), in order
    op: DataOp = DataOp.SEND  # of READ the times are of the whole of it


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """A window of WRITEs or READs, as fast as they completed."""

    op: DataOp
    bytes: int  # of each
    messages: int
    seconds: float  # from the first post to the last completion
    gbps: float
    link_gbps: float | None  # the rate of this host's port; None: not known
    data_verified: bool  # the buffer as the last one left it


@dataclass(frozen=True, slots=True)
class Attempt:
    """What happened, in full."""

    outcome: Outcome
    stage: Stage  # the last that was reached
    platform: Platform  # whose errno these are
    summary: str  # one line
    call: str | None
    errno: int | None  # 0: the call failed without one
    completion: BadCompletion | None
    local: EndFacts | None
    remote: EndFacts | None
    peer_failure: PeerFailure | None
    problems: tuple[Problem, ...]
    data_verified: bool
    latency: Latency | None
    teardown: Teardown
    steps: tuple[Step, ...]
    touched: bool  # whether any call was made on the device
    role: Literal["listen", "connect"] | None = None  # None: both ends on this host
    arrived: Arrived | None = None  # None: both ends on this host, or never came to data
    peer_is_this_host: bool = False  # the address that was connected to
    port_after: PortState | Missing | None = None  # of a failure; None: not looked at
    bandwidth: Bandwidth | None = None
    rounds: int | None = None  # round trips of the timed loop that were done
    pid: int | None = None  # of a child that SIGKILL did not end
    events: tuple[SeenEvent, ...] = ()  # asynchronous ones that came while it ran
    connection: Connection | None = None  # by the connection manager; None: not by it
