"""Limits that programs run into: neighbours, ports, open files, cgroups, memory that is promised.

/proc/sys/net/ipv4/neigh/default/gc_thresh3    1024
/proc/self/net/stat/arp_cache                  one row a CPU, in hexadecimal
/proc/self/cgroup                              0::/job7, or 11:rdma:/job7
/sys/fs/cgroup/job7/rdma.max                   mlx5_0 hca_handle=2 hca_object=max
/sys/fs/cgroup/job7/rdma.events.local          mlx5_0 hca_handle.max=5 hca_handle.alloc_fail=3 …
/sys/fs/cgroup/job7/pids.max                   4096, or max; pids.current, memory.max the same
/sys/fs/cgroup/job7/cpu.max                    50000 100000, or max 100000
/proc/meminfo                                  CommitLimit:     4023880 kB
/proc/sys/net/netfilter/nf_conntrack_max       262144
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

from rdmadiag.facts import NOT_IN_RECORD, Limit, Missing, Why
from rdmadiag.facts.limits import (
    CgroupRdma,
    CgroupRoom,
    CommittedMemory,
    ConnectionTable,
    HostLimits,
    NeighbourTable,
)
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.text import attribute, malformed, parse_number

_LIMIT: Final = r"^Max {}\s+(unlimited|[0-9]{{1,20}})\s+(unlimited|[0-9]{{1,20}})\s+{}"
_OPEN_FILES, _ADDRESS_SPACE, _CPU_TIME, _DATA_SIZE = (
    late(_LIMIT.format(name, unit), re.MULTILINE)
    for name, unit in (
        *(("open files", "files"), ("address space", "bytes"), ("cpu time", "seconds")),
        ("data size", "bytes"),
    )
)
_CONNTRACK: Final = "/proc/sys/net/netfilter/nf_conntrack_"
_OVERCOMMIT: Final = "/proc/sys/vm/overcommit_memory"
_STRICT: Final = 2  # OVERCOMMIT_NEVER
_MEMORY_ROW: Final = late(r"^(CommitLimit|Committed_AS):\s+([0-9]{1,15}) kB$", re.MULTILINE)
_QUOTA: Final = late(r"(max|[0-9]{1,15}) ([1-9][0-9]{0,14})\s*")
_MOST: Final = late(r"(max|[0-9]{1,20})\s*")
_CGROUP: Final = late(r"^[0-9]{1,9}:([^:\n]*):(/[^\n]*)$", re.MULTILINE)
_RDMA_ROW: Final = late(
    r"^(\S{1,64}) hca_handle=(max|[0-9]{1,10}) hca_object=(max|[0-9]{1,10})"
    r"(?: \w{1,32}=\S{1,32})*\s*$",
    re.MULTILINE,
)
_EVENTS_ROW: Final = late(r"^(\S{1,64})((?: [\w.]{1,64}=[0-9]{1,20})+)\s*$", re.MULTILINE)
_HEXADECIMAL: Final = late(r"[0-9a-fA-F]{1,16}")
CGROUPS: Final = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_VERSION_1: Final = "/sys/fs/cgroup/rdma"
_DEPTH: Final = 16  # cgroups above each other
_MOST_ROWS: Final = 1024

T = TypeVar("T")
Row = tuple[int | None, int | None]  # hca_handle, hca_object; None is "max"


def parse_port_range(raw: bytes) -> tuple[int, int] | Missing:
    """ip_local_port_range: "32768 60999"."""
    words = raw.decode("latin-1").split()
    if len(words) != 2 or not all(re.fullmatch(r"[0-9]{1,5}", each) for each in words):
        return malformed(raw, "two port numbers")
    return int(words[0]), int(words[1])


def parse_open_files(raw: bytes) -> Limit | Missing:
    """/proc/PID/limits → soft and hard limit on open files."""
    return _limit(raw, _OPEN_FILES, "max open files")


def parse_address_space(raw: bytes) -> Limit | Missing:
    """/proc/PID/limits → soft and hard limit on address space, in bytes (ulimit -v is in KiB)."""
    return _limit(raw, _ADDRESS_SPACE, "max address space")


def parse_cpu_time(raw: bytes) -> Limit | Missing:
    """/proc/PID/limits → soft and hard limit on processor time, in seconds."""
    return _limit(raw, _CPU_TIME, "max cpu time")


def parse_data_size(raw: bytes) -> Limit | Missing:
    """/proc/PID/limits → soft and hard limit on data, in bytes (ulimit -d is in KiB)."""
    return _limit(raw, _DATA_SIZE, "max data size")


def parse_most(raw: bytes) -> int | Missing | None:
    """pids.max, pids.current, memory.max → the number; None for "max"."""
    found = _MOST.fullmatch(raw.decode("latin-1"))
    return _or_none(found[1]) if found else malformed(raw, "a number, or max")


def parse_quota(raw: bytes) -> float | Missing | None:
    """cpu.max → how many processors' worth of time; None for "max"."""
    found = _QUOTA.fullmatch(raw.decode("latin-1"))
    if not found:
        return malformed(raw, "a quota and a period")
    return None if found[1] == "max" else round(int(found[1]) / int(found[2]), 4)


def parse_committed(raw: bytes) -> tuple[int | Missing, int | Missing]:
    """/proc/meminfo → CommitLimit and Committed_AS, in bytes."""
    rows = {name: int(kib) << 10 for name, kib in _MEMORY_ROW.findall(raw.decode("latin-1"))}
    limit, promised = (
        rows.get(name, Missing(Why.ABSENT, f"no {name}"))
        for name in ("CommitLimit", "Committed_AS")
    )
    return limit, promised


def _limit(raw: bytes, row: re.Pattern[str], name: str) -> Limit | Missing:
    match = row.search(raw.decode("latin-1"))
    if not match:
        return malformed(raw, f"a table of limits with {name}")
    return Limit(*map(_most, match.groups()))


def _most(text: str) -> int | Literal["unlimited"]:
    return "unlimited" if text == "unlimited" else int(text)


def parse_neighbour_statistics(raw: bytes) -> tuple[int, int | Missing] | Missing:
    """/proc/net/stat/{arp,ndisc}_cache → entries, and table_fulls of all CPUs (Linux 3.19)."""
    head, *rows = ([*line.split()] for line in raw.decode("latin-1").splitlines() or ("",))
    values = [row for row in rows if len(row) >= len(head) and all(map(_is_number, row))]
    if "entries" not in head or not values or len(values) != len(rows):
        return malformed(raw, "statistics of a neighbour table")
    entries = int(values[0][head.index("entries")], 16)
    if "table_fulls" not in head:
        return entries, Missing(Why.UNSUPPORTED, "no table_fulls: Linux before 3.19")
    at = head.index("table_fulls")
    return entries, sum(int(row[at], 16) for row in values)


def _is_number(word: str) -> bool:
    return bool(_HEXADECIMAL.fullmatch(word))


def parse_cgroups(raw: bytes) -> dict[str, str] | Missing:
    """/proc/PID/cgroup → controller → path; "" is version 2. Empty where nothing is mounted."""
    if not raw.strip():
        return {}
    found: dict[str, str] = {}
    for controllers, path in _CGROUP.findall(raw.decode("utf-8", "backslashreplace")):
        found |= dict.fromkeys(controllers.split(","), path)
    return found or malformed(raw, "a list of cgroups")


def parse_rdma_rows(raw: bytes) -> dict[str, Row]:
    """rdma.max, rdma.current → device → handles and objects; an empty file has no device."""
    rows = _RDMA_ROW.findall(raw.decode("utf-8", "backslashreplace"))
    return {
        device: (_or_none(handles), _or_none(objects))
        for device, handles, objects in rows[:_MOST_ROWS]
    }


def parse_rdma_events(raw: bytes) -> dict[str, tuple[int, int]]:
    """rdma.events.local → device → how often its limit of handles, of objects refused one."""
    rows = _EVENTS_ROW.findall(raw.decode("utf-8", "backslashreplace"))
    found = {}
    for device, text in rows[:_MOST_ROWS]:
        counts = dict(each.split("=") for each in text.split())
        names = ("hca_handle.max", "hca_object.max")
        handles, objects = (int(counts.get(each, 0)) for each in names)
        found[device] = handles, objects
    return found


def _or_none(text: str) -> int | None:
    return None if text == "max" else int(text)


# --- reading -----------------------------------------------------------------------------


def read_limits(host: Host, pid: int | None) -> HostLimits:
    """Of this process where `pid` is None."""
    folder = f"/proc/{'self' if pid is None else pid}"
    committed = _committed(host)
    return HostLimits(
        ipv4_neighbours=_neighbours(host, "ipv4", "arp_cache"),
        ipv6_neighbours=_neighbours(host, "ipv6", "ndisc_cache"),
        local_ports=attribute(host, "/proc/sys/net/ipv4/ip_local_port_range", parse_port_range),
        open_files=attribute(host, f"{folder}/limits", parse_open_files),
        rdma_cgroups=_rdma_cgroups(host, f"{folder}/cgroup"),
        address_space=attribute(host, f"{folder}/limits", parse_address_space),
        cpu_time=attribute(host, f"{folder}/limits", parse_cpu_time),
        data_size=attribute(host, f"{folder}/limits", parse_data_size),
        # Every Linux has the one file: a record without it is from before.
        cgroups=committed if committed == NOT_IN_RECORD else _rooms(host, f"{folder}/cgroup"),
        committed=committed,
        connections=_connections(host),
    )


def _connections(host: Host) -> ConnectionTable | Missing:
    """Absent where nf_conntrack is not there, and in a record from before."""
    most, entries = (
        attribute(host, f"{_CONNTRACK}{name}", parse_number) for name in ("max", "count")
    )
    if isinstance(most, Missing) and most.why is Why.ABSENT:
        return most
    return ConnectionTable(most, entries)


def _committed(host: Host) -> CommittedMemory | Missing:
    mode = attribute(host, _OVERCOMMIT, parse_number)
    if isinstance(mode, Missing):
        return NOT_IN_RECORD if mode.why is Why.ABSENT else mode
    raw = host.read("/proc/meminfo") if mode == _STRICT else _NOT_STRICT
    most, promised = (raw, raw) if isinstance(raw, Missing) else parse_committed(raw)
    return CommittedMemory(mode == _STRICT, most, promised)


_NOT_STRICT: Final = Missing(Why.NOT_COLLECTED, "the kernel promises more than it has")


def _rooms(host: Host, path: str) -> tuple[CgroupRoom, ...] | Missing:
    """Of version 2; a limit of any cgroup above counts too, and the root has none."""
    paths = attribute(host, path, parse_cgroups)
    if isinstance(paths, Missing):
        return paths
    found = []
    for folder in _of_version_2(paths.get("", "/")):
        processes = _of_cgroup(host, f"{folder}/pids.max", parse_most)
        room = CgroupRoom(
            folder,
            processes,
            None if processes is None else _of_cgroup(host, f"{folder}/pids.current", parse_most),
            _of_cgroup(host, f"{folder}/cpu.max", parse_quota),
            _of_cgroup(host, f"{folder}/memory.max", parse_most),
        )
        if (room.most_processes, room.cpus, room.memory) != (None, None, None):
            found.append(room)
    return tuple(found)


def _of_cgroup(
    host: Host, path: str, parse: Callable[[bytes], T | Missing | None]
) -> T | Missing | None:
    """None where the cgroup has not got that controller."""
    found: T | Missing | None = attribute(host, path, parse)
    return None if isinstance(found, Missing) and found.why is Why.ABSENT else found


def _neighbours(host: Host, version: str, file: str) -> NeighbourTable:
    path = f"/proc/self/net/stat/{file}"
    found = attribute(host, path, parse_neighbour_statistics)
    entries, overflows = (found, found) if isinstance(found, Missing) else found
    most = f"/proc/sys/net/{version}/neigh/default/gc_thresh3"
    return NeighbourTable(attribute(host, most, parse_number), entries, overflows)


def _rdma_cgroups(host: Host, path: str) -> tuple[CgroupRdma, ...] | Missing:
    """A limit of any cgroup above counts too; the root has no files (rdma.max is of children)."""
    paths = attribute(host, path, parse_cgroups)
    if isinstance(paths, Missing):
        return paths
    found: list[CgroupRdma] = []
    for folder in _folders(paths):
        raw = host.read(f"{folder}/rdma.max")
        if isinstance(raw, Missing):
            if raw.why is not Why.ABSENT:
                return raw
            continue
        current = host.read(f"{folder}/rdma.current")
        events = host.read(f"{folder}/rdma.events.local")
        found += _rows(folder, parse_rdma_rows(raw), current, events)
    return tuple(found)


def _folders(paths: dict[str, str]) -> Iterator[str]:
    """The process's cgroup and those above it, in the hierarchy that has the controller."""
    if "rdma" in paths:
        return _upwards((_VERSION_1,), paths["rdma"])
    return _of_version_2(paths.get("", "/"))


def _of_version_2(path: str) -> Iterator[str]:
    return _upwards(CGROUPS, path)


def _upwards(roots: tuple[str, ...], path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        return  # outside of this cgroup namespace
    for root in roots:
        for depth in range(min(len(parts), _DEPTH), 0, -1):
            yield "/".join((root, *parts[:depth]))
        yield root


def _rows(
    folder: str, most: dict[str, Row], current: bytes | Missing, events: bytes | Missing
) -> Iterator[CgroupRdma]:
    """The devices that are limited."""
    refused = events if isinstance(events, Missing) else parse_rdma_events(events)
    used = current if isinstance(current, Missing) else parse_rdma_rows(current)
    for device, (handles, objects) in most.items():
        if handles is None and objects is None:
            continue
        now: tuple[int | Missing, int | Missing]
        if isinstance(used, Missing):
            now = (used, used)
        else:  # without a row nothing is in use
            row = used.get(device, (0, 0))
            now = (row[0] or 0, row[1] or 0)
        gone: tuple[int | Missing, int | Missing] = (
            (refused, refused) if isinstance(refused, Missing) else refused.get(device, (0, 0))
        )
        yield CgroupRdma(folder, device, handles, objects, now[0], now[1], gone[0], gone[1])
