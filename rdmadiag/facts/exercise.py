"""What one run of `exercise` came to: a cell for each operation on each kind of queue pair."""

from enum import StrEnum
from typing import Literal

from rdmadiag.facts.attempt import PeerFailure, Problem, SeenEvent, Stage, Teardown
from rdmadiag.facts.errnos import Platform
from rdmadiag.frozen import dataclass


class Operation(StrEnum):
    """What is done; the words of the RDMA Aware manual."""

    SEND = "send"
    SEND_IMM = "send_imm"  # SEND with immediate
    SEND_INLINE = "send_inline"  # the buffer is free again once it is posted
    SEND_SOLICITED = "send_solicited"  # wakes a receiver that waits for these alone
    WRITE = "write"
    WRITE_IMM = "write_imm"
    READ = "read"
    CMP_SWAP = "cmp_swap"
    FETCH_ADD = "fetch_add"
    SGE_LIST = "sge_list"  # gathered from several buffers, scattered over others
    WR_LIST = "wr_list"  # several work requests, linked, with one call
    UNSIGNALED = "unsignaled"  # sends that do not complete, and one that does
    FENCE = "fence"  # a SEND of what a READ before it brings
    REPLY = "reply"  # UD: to an address handle made of a completion
    SRQ_LIMIT = "srq_limit"  # the event of a shared receive queue that runs low
    RESIZE_CQ = "resize_cq"
    FLUSH = "flush"  # to ERR: what was posted completes as flushed
    RESET = "reset"  # to RESET and up again, and a message
    MW_TYPE_1 = "mw_type_1"  # a WRITE through a memory window, refused once it is unbound
    MW_TYPE_2 = "mw_type_2"  # the same by work requests: BIND_MW and LOCAL_INV
    SEND_INV = "send_inv"  # a SEND that invalidates a window of its receiver
    MULTICAST = "multicast"  # attached to a group, a message, detached
    SQD = "sqd"  # the send queue drains, waits, and goes on
    ALT_PATH = "alt_path"  # loaded, armed, migrated to
    FRAME_ETH = "frame_eth"  # a raw frame, and the rule that steers it: MAC and EtherType
    FRAME_IPV4 = "frame_ipv4"  # and IPv4 addresses
    FRAME_TCP = "frame_tcp"  # and TCP ports
    FRAME_UDP = "frame_udp"


BY_WINDOW = (Operation.MW_TYPE_1, Operation.MW_TYPE_2, Operation.SEND_INV)
"""Of these the memory itself allows nothing: the memory window does."""


class Via(StrEnum):
    """How its completions are noticed, or where its receives are posted."""

    POLL = "poll"
    CHANNEL = "channel"  # a completion channel
    SRQ = "srq"  # a shared receive queue


class CellState(StrEnum):
    """What is known of a cell."""

    VERIFIED = "verified"  # what arrived was compared with what was sent
    NOT_CLAIMED = "not_claimed"  # the device says that it cannot
    REFUSED = "refused"  # a call failed
    FAILED = "failed"  # a bad completion, other data, or none
    NOT_TRIED = "not_tried"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One cell to try."""

    operation: Operation
    qp_type: str  # "rc", "uc", "ud", "xrc", "raw_packet"
    via: Via


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix."""

    operation: Operation
    qp_type: str
    via: Via
    state: CellState
    call: str | None = None  # that failed
    errno: int | None = None  # 0: it gave none
    errno_name: str | None = None
    status: int | None = None  # of the completion
    status_name: str | None = None
    vendor_error: int | None = None  # of the same completion
    stage: Stage | None = None
    cause: str | None = None  # a sentence
    at_peer: bool = False  # the call or the completion was at the other host


class RunOutcome(StrEnum):
    """How the run ended."""

    DONE = "done"  # every cell that was to be tried was
    NOT_ALLOWED = "not_allowed"
    NOT_SAFE = "not_safe"
    BUSY = "busy"  # another process holds queue pairs on the device
    NO_PEER = "no_peer"  # nobody came, or nobody was there
    PEER_REFUSED = "peer_refused"  # another protocol, version or secret
    MISMATCH = "mismatch"  # the two ends' facts do not fit
    PEER_FAILED = "peer_failed"  # it said so
    PEER_LOST = "peer_lost"  # its connection ended, or it fell silent
    CALL_FAILED = "call_failed"  # before any cell
    LATE = "late"
    INTERRUPTED = "interrupted"
    DIED = "died"
    WATCHDOG = "watchdog"


@dataclass(frozen=True, slots=True)
class Exercise:
    """The whole run."""

    outcome: RunOutcome
    summary: str  # one line
    platform: Platform  # whose errnos these are
    device: str | None
    port: int | None
    peer_device: str | None  # the other end: on this host, or where `role` is not None the peer's
    gid_index: int | None
    cells: tuple[Cell, ...]
    teardown: Teardown
    touched: bool  # whether any call was made on a device
    seconds: float
    events: tuple[SeenEvent, ...] = ()  # asynchronous ones that came while it ran
    role: Literal["listen", "connect"] | None = None  # None: both ends are on this host
    peer: str | None = None  # ADDRESS:PORT of the connection to it
    peer_failure: PeerFailure | None = None  # what it said of its own
    problems: tuple[Problem, ...] = ()  # why the two ends do not fit
    by_cm: bool = False  # the connection manager connected each queue pair
