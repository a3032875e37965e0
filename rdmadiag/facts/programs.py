"""Programs of this host that others connect to: whether they run, and take connections."""

from rdmadiag.facts import NOT_IN_RECORD, Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.job import TcpState
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Listener:
    """A row of /proc/self/net/tcp or tcp6 in the state LISTEN."""

    address: str  # "0.0.0.0", "::": any
    port: int
    waiting: int  # its rx_queue: connections that are made, and that no program has taken


@dataclass(frozen=True, slots=True)
class Untaken(WithNumbers):
    """A connection that no program has: a row of the same without an inode."""

    local: str
    local_port: int
    remote: str
    remote_port: int
    state: TcpState  # ESTABLISHED; CLOSE_WAIT where the other end has given up


@dataclass(frozen=True, slots=True)
class Unacknowledged(WithNumbers):
    """A connection of which the kernel sends again what the other end does not acknowledge: a row
    of the same whose timer is that of retransmission.
    """

    local: str
    local_port: int
    remote: str
    remote_port: int
    state: TcpState  # SYN_SENT: it was never made; FIN_WAIT1, LAST_ACK: no program has it any more
    queued_bytes: int  # its tx_queue
    retransmits: int  # retrnsmt: how often in a row, without an answer


@dataclass(frozen=True, slots=True)
class RdmaProgram:
    """A process that has an RDMA device open: an owner in RES_CTX_GET."""

    device: str
    pid: int
    command: str | Missing  # Name of /proc/PID/status
    state: str | Missing  # the letter of State there: "S", "T" (stopped)
    frozen: bool | Missing  # cgroup.events of its cgroup, or freezer.state

    @property
    def is_still(self) -> bool:
        """Whether it does not run, by somebody's will."""
        return self.state in ("T", "t") or self.frozen is True


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Each as far as this process may see it."""

    listeners: tuple[Listener, ...] | Missing
    untaken: tuple[Untaken, ...] | Missing
    holders: tuple[RdmaProgram, ...] | Missing
    unanswered: tuple[Unacknowledged, ...] | Missing = NOT_IN_RECORD
    # Segments of TCP that came with a wrong checksum since the host's start: InCsumErrors of
    # /proc/self/net/snmp.
    wrong_checksums: int | Missing = NOT_IN_RECORD
