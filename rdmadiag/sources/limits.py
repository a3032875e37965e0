"""Limits that a large fleet runs into: neighbours, ports, open files, the rdma cgroup.

/proc/sys/net/ipv4/neigh/default/gc_thresh3    1024
/proc/self/net/stat/arp_cache                  one row a CPU, in hexadecimal
/proc/self/cgroup                              0::/job7, or 11:rdma:/job7
/sys/fs/cgroup/job7/rdma.max                   mlx5_0 hca_handle=2 hca_object=max
/sys/fs/cgroup/job7/rdma.events.local          mlx5_0 hca_handle.max=5 hca_handle.alloc_fail=3 …
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from rdmadiag.facts import Limit, Missing, Why
from rdmadiag.facts.limits import CgroupRdma, HostLimits, NeighbourTable
from rdmadiag.host import Host
from rdmadiag.sources.text import attribute, malformed, parse_number

_LIMIT: Final = r"^Max {}\s+(unlimited|[0-9]{{1,20}})\s+(unlimited|[0-9]{{1,20}})\s+{}"
_OPEN_FILES, _ADDRESS_SPACE, _CPU_TIME = (
    re.compile(_LIMIT.format(name, unit), re.MULTILINE)
    for name, unit in (("open files", "files"), ("address space", "bytes"), ("cpu time", "seconds"))
)
_CGROUP: Final = re.compile(r"^[0-9]{1,9}:([^:\n]*):(/[^\n]*)$", re.MULTILINE)
_RDMA_ROW: Final = re.compile(
    r"^(\S{1,64}) hca_handle=(max|[0-9]{1,10}) hca_object=(max|[0-9]{1,10})"
    r"(?: \w{1,32}=\S{1,32})*\s*$",
    re.MULTILINE,
)
_EVENTS_ROW: Final = re.compile(r"^(\S{1,64})((?: [\w.]{1,64}=[0-9]{1,20})+)\s*$", re.MULTILINE)
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]{1,16}")
_UNIFIED: Final = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_VERSION_1: Final = "/sys/fs/cgroup/rdma"
_DEPTH: Final = 16  # cgroups above each other
_MOST_ROWS: Final = 1024

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
    return HostLimits(
        ipv4_neighbours=_neighbours(host, "ipv4", "arp_cache"),
        ipv6_neighbours=_neighbours(host, "ipv6", "ndisc_cache"),
        local_ports=attribute(host, "/proc/sys/net/ipv4/ip_local_port_range", parse_port_range),
        open_files=attribute(host, f"{folder}/limits", parse_open_files),
        rdma_cgroups=_rdma_cgroups(host, f"{folder}/cgroup"),
        address_space=attribute(host, f"{folder}/limits", parse_address_space),
        cpu_time=attribute(host, f"{folder}/limits", parse_cpu_time),
    )


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
    roots: tuple[str, ...]
    if "rdma" in paths:
        roots, path = (_VERSION_1,), paths["rdma"]
    else:
        roots, path = _UNIFIED, paths.get("", "/")
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
