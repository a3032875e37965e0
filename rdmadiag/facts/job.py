"""A job: its processes, their TCP sockets, and the traffic of RDMA ports, at one moment."""

from enum import StrEnum

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.facts.libraries import MappedLibrary
from rdmadiag.frozen import dataclass


class Extent(StrEnum):
    """Which processes are the job."""

    PROCESS = "process"  # the one that was named
    CHILDREN = "children"  # it and its descendants
    CGROUP = "cgroup"  # all of its control group, and of those below


@dataclass(frozen=True, slots=True)
class AskedJob:
    """Which job was asked for."""

    pid: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class JobProcess:
    """One process of it: /proc/PID."""

    pid: int
    command: str | Missing  # comm
    environment: dict[str, str] | Missing  # environ: those that a report carries; as it started
    libraries: tuple[MappedLibrary, ...] | Missing  # maps: those of RDMA
    nodes: tuple[str, ...] | Missing  # fd: what it has open in /dev/infiniband, "uverbs0"
    netns: str | Missing  # ns/net: "net:[4026531840]"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """All of it."""

    asked: AskedJob
    processes: tuple[JobProcess, ...]  # the one that was named first
    netns: str | Missing  # /proc/self/ns/net: whose sockets netlink shows
    cgroup: str | Missing | None  # /proc/PID/cgroup; None where it was not asked for


class TcpState(Numbered):
    """include/net/tcp_states.h."""

    ESTABLISHED = "established", 1
    SYN_SENT = "syn_sent", 2
    SYN_RECV = "syn_recv", 3
    FIN_WAIT1 = "fin_wait1", 4
    FIN_WAIT2 = "fin_wait2", 5
    TIME_WAIT = "time_wait", 6
    CLOSE = "close", 7
    CLOSE_WAIT = "close_wait", 8
    LAST_ACK = "last_ack", 9
    LISTEN = "listen", 10
    CLOSING = "closing", 11
    NEW_SYN_RECV = "new_syn_recv", 12
    BOUND_INACTIVE = "bound_inactive", 13


@dataclass(frozen=True, slots=True)
class TcpSocket(WithNumbers):
    """One connection."""

    inode: int  # idiag_inode: the number in /proc/PID/fd/N -> socket:[N]
    state: TcpState | Missing  # idiag_state
    local: str  # idiag_src: an address
    local_port: int
    remote: str  # idiag_dst
    remote_port: int
    sent: int | Missing  # tcpi_bytes_acked, since it was opened
    received: int | Missing  # tcpi_bytes_received


class TrafficUnit(StrEnum):
    """What a port counts."""

    BYTES = "bytes"
    PACKETS = "packets"


@dataclass(frozen=True, slots=True)
class PortTraffic:
    """The counters of one port, of all that use it."""

    device: str
    port: int
    unit: TrafficUnit
    sent: int | Missing
    received: int | Missing
    source: str  # "counters/port_xmit_data", below DEVICE/ports/N; "" where there is none
    packet_bytes: int | Missing | None = None  # of packets: the most that one carries


@dataclass(frozen=True, slots=True)
class JobSample:
    """What moved, until one moment."""

    seconds: float | Missing  # since the host started
    sockets: tuple[TcpSocket, ...] | Missing  # the job's connections
    unread: dict[int, Missing]  # processes whose descriptors could not be listed
    ports: tuple[PortTraffic, ...]


@dataclass(frozen=True, slots=True)
class WantedSample:
    """What a sample is taken of."""

    pids: tuple[int, ...]
    ports: tuple[tuple[str, int], ...]  # device and number of those whose counters are read
    foreign: int | None = None  # a process of the job's network namespace, where that is not ours
