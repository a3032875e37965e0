"""Limits of a host and of a process that a large fleet runs into."""

from rdmadiag.facts import NOT_IN_RECORD, Limit, Missing
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class NeighbourTable:
    """The kernel's ARP table, or that of IPv6; the host has one for all network namespaces."""

    most: int | Missing  # neigh/default/gc_thresh3: entries; absent in another namespace
    entries: int | Missing  # /proc/self/net/stat/{arp,ndisc}_cache
    overflows: int | Missing  # table_fulls of that, of all CPUs since the host was booted


@dataclass(frozen=True, slots=True)
class CgroupRdma:
    """A device's row in rdma.max and rdma.current of one cgroup."""

    folder: str  # "/sys/fs/cgroup/job7"
    device: str
    most_handles: int | None  # hca_handle of rdma.max: opened contexts; None is "max"
    most_objects: int | None  # hca_object: queue pairs, CQs, PDs, MRs and all others together
    handles: int | Missing  # the same of rdma.current
    objects: int | Missing
    # What this cgroup's limit has refused since it was made: hca_handle.max and hca_object.max of
    # rdma.events.local (Linux 7.2).
    refused_handles: int | Missing = NOT_IN_RECORD
    refused_objects: int | Missing = NOT_IN_RECORD


@dataclass(frozen=True, slots=True)
class CgroupRoom:
    """A cgroup of version 2 that limits processes, processors or memory; None is "max"."""

    folder: str  # "/sys/fs/cgroup/job7"
    most_processes: int | Missing | None  # pids.max: threads, too
    processes: int | Missing | None  # pids.current; None: not limited
    cpus: float | Missing | None  # cpu.max: processors' worth of time
    memory: int | Missing | None  # memory.max: bytes


@dataclass(frozen=True, slots=True)
class ConnectionTable:
    """What nf_conntrack follows, of this network namespace."""

    most: int | Missing  # /proc/sys/net/netfilter/nf_conntrack_max
    entries: int | Missing  # nf_conntrack_count beside it


@dataclass(frozen=True, slots=True)
class CommittedMemory:
    """What programs may ask for, where the kernel promises no more than it has."""

    is_strict: bool  # /proc/sys/vm/overcommit_memory is 2
    most: int | Missing  # CommitLimit of /proc/meminfo: bytes
    promised: int | Missing  # Committed_AS of it


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Of this process, or of the one that --pid names."""

    ipv4_neighbours: NeighbourTable
    ipv6_neighbours: NeighbourTable
    local_ports: tuple[int, int] | Missing  # /proc/sys/net/ipv4/ip_local_port_range, both included
    open_files: Limit | Missing  # "Max open files" of /proc/PID/limits
    # Its cgroup and those above, where one limits a device; () where none does.
    rdma_cgroups: tuple[CgroupRdma, ...] | Missing
    address_space: Limit | Missing = NOT_IN_RECORD  # "Max address space": bytes
    cpu_time: Limit | Missing = NOT_IN_RECORD  # "Max cpu time": seconds
    data_size: Limit | Missing = NOT_IN_RECORD  # "Max data size": bytes
    # Its cgroup and those above, where one limits something.
    cgroups: tuple[CgroupRoom, ...] | Missing = NOT_IN_RECORD
    committed: CommittedMemory | Missing = NOT_IN_RECORD
    connections: ConnectionTable | Missing = NOT_IN_RECORD  # absent: nothing follows them
