"""Limits of a described host: what a fleet's size is held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What a fleet's size is held against."""

    neighbours: int = 1024  # gc_thresh3, of IPv4 and IPv6
    overflows: int = 0  # table_fulls of IPv4, on the second of two CPUs
    ports: str = "32768\t60999"
    files: tuple[str, str] = ("1048576", "1048576")
    space: tuple[str, str] = ("unlimited", "unlimited")
    cpu: tuple[str, str] = ("unlimited", "unlimited")
    data: tuple[str, str] = ("unlimited", "unlimited")
    overcommit: int | None = None  # None: a record from before
    committed: tuple[int, int] = (4 << 20, 1 << 20)  # KiB: CommitLimit, Committed_AS
    connections: tuple[int, int] | None = None  # nf_conntrack_max, nf_conntrack_count
    cgroup: str = "0::/job7"
    room: Mapping[str, str] = field(default_factory=dict)  # files of cgroups, by their path
    # folder → rdma.max, rdma.current, and rdma.events.local of newer kernels
    rdma: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def files_row(self) -> str:
        """Of /proc/PID/limits."""
        rows = (
            ("cpu time", self.cpu, "seconds"),
            ("data size", self.data, "bytes"),
            ("open files", self.files, "files"),
            ("address space", self.space, "bytes"),
        )
        return "".join(
            f"{f'Max {name}':<26}{soft:<21}{hard:<21}{unit:<10}\n"
            for name, (soft, hard), unit in rows
        )

    def files_of(self) -> dict[str, str]:
        """As proc(5) and Documentation/admin-guide/cgroup-v2.rst have them."""
        head = "entries  allocs   table_fulls\n"
        found = {
            f"/proc/sys/net/{version}/neigh/default/gc_thresh3": f"{self.neighbours}\n"
            for version in ("ipv4", "ipv6")
        }
        rows = f"00000003 00000010 00000000\n00000003 00000000 {self.overflows:08x}\n"
        found["/proc/self/net/stat/arp_cache"] = head + rows
        found["/proc/self/net/stat/ndisc_cache"] = f"{head}00000003 00000010 00000000\n"
        found["/proc/sys/net/ipv4/ip_local_port_range"] = f"{self.ports}\n"
        found["/proc/self/cgroup"] = f"{self.cgroup}\n"
        if self.overcommit is not None:
            found["/proc/sys/vm/overcommit_memory"] = f"{self.overcommit}\n"
            found["/proc/meminfo"] = "MemTotal:        8000000 kB\n" + "".join(
                f"{name + ':':<15}{kib:>9} kB\n"
                for name, kib in zip(("CommitLimit", "Committed_AS"), self.committed, strict=True)
            )
        if self.connections is not None:
            for name, number in zip(("max", "count"), self.connections, strict=True):
                found[f"/proc/sys/net/netfilter/nf_conntrack_{name}"] = f"{number}\n"
        found |= self.room
        for folder, of_cgroup in self.rdma.items():
            files = ("rdma.max", "rdma.current", "rdma.events.local")
            found |= {
                f"{folder}/{file}": each for file, each in zip(files, of_cgroup, strict=False)
            }
        return found
