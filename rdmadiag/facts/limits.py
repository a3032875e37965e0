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
