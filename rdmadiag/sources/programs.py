"""Programs that others connect to: TCP listeners, and processes that have an RDMA device open.

    /proc/self/net/tcp    0: 00000000:4853 00000000:0000 0A 00000000:00000001 …
                          of LISTEN the second queue counts connections that nobody has taken yet
    RES_CTX_GET           the processes; /proc/PID/status: "State: T (stopped)"
    /sys/fs/cgroup/job7/cgroup.events    frozen 1

    /proc/self/net/snmp   Tcp: RtoAlgorithm … InErrs OutRsts InCsumErrors
                          Tcp: 1 … 6 2 6

A connection that waits to be taken has no inode (get_tcp4_sock of net/ipv4/tcp_ipv4.c); it is
CLOSE_WAIT once the other end has given up. Where what was sent is not acknowledged the timer is 1,
and icsk_retransmits the number before the user's:

    0: 010200C0:AAA0 020200C0:4857 04 0000006D:00000000 01:000002C0 00000006 …
"""

import re
from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import TcpState
from rdmadiag.facts.programs import Listener, ProgramFacts, RdmaProgram, Unacknowledged, Untaken
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.dump import dump
from rdmadiag.sources.limits import CGROUPS, parse_cgroups
from rdmadiag.sources.nldev_counters import read_device_indexes
from rdmadiag.sources.nldev_messages import NUMBER, request
from rdmadiag.sources.resources import parse_entries, parse_thread_group
from rdmadiag.sources.sock_diag import tcp_address
from rdmadiag.sources.sysfs import CLASS
from rdmadiag.sources.system import parse_name
from rdmadiag.sources.text import attribute, malformed

MOST_PROCESSES: Final = 256
"""That have a device open, of which each is looked at."""

_TABLES: Final = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_COUNTERS: Final = "/proc/self/net/snmp"
_IN_CHECKSUM_ERRORS: Final = "InCsumErrors"
_NAMES_AND_NUMBERS: Final = 2
_COUNT: Final = late(r"[0-9]{1,20}")
_LIMIT: Final = 1 << 20  # bytes of one: some seven thousand connections
_HEADER: Final = "local_address"
_ROW: Final = late(
    r" *[0-9]+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})"
    r" ([0-9A-F]{2}) ([0-9A-F]{8}):([0-9A-F]{8}) ([0-9A-F]{2}):[0-9A-F]{8,16} ([0-9A-F]{8})"
    r" +[0-9]+ +[0-9]+ ([0-9]{1,20})(?: .*)?"
)
_RETRANSMITS: Final = 1  # icsk_pending: ICSK_TIME_RETRANS, and what else waits for an answer
_TAKEN_BY_NOBODY: Final = (TcpState.ESTABLISHED, TcpState.CLOSE_WAIT)
_CONTEXTS: Final = 22  # RDMA_NLDEV_CMD_RES_CTX_GET
_STATE: Final = late(rb"^State:\s+([A-Za-z])\b", re.MULTILINE)
_FROZEN: Final = late(r"^frozen ([01])$", re.MULTILINE)
_VERSION_1: Final = "/sys/fs/cgroup/freezer"

Tables = tuple[tuple[Listener, ...], tuple[Untaken, ...], tuple[Unacknowledged, ...]]


def parse_tcp(raw: bytes) -> Tables | Missing:
    """/proc/PID/net/tcp or tcp6: listeners, connections that nobody has taken, and those whose
    other end does not answer.
    """
    lines = raw.decode("latin-1").splitlines()
    if not lines or _HEADER not in lines[0]:
        return malformed(raw, "a table of TCP sockets")
    listeners, untaken, unanswered = [], [], []
    for line in lines[1:]:
        found = _ROW.fullmatch(line.rstrip())
        if found is None:
            return malformed(line.encode("latin-1"), "a row of /proc/net/tcp")
        state = TcpState.from_number(int(found[5], 16))
        local, port = tcp_address(found[1]), int(found[2], 16)
        if state is TcpState.LISTEN:
            listeners.append(Listener(local, port, int(found[7], 16)))
            continue
        remote = tcp_address(found[3]), int(found[4], 16)
        if state in _TAKEN_BY_NOBODY and found[10] == "0":
            untaken.append(Untaken(local, port, *remote, state))
        times = int(found[9], 16)
        if times and int(found[8], 16) == _RETRANSMITS and isinstance(state, TcpState):
            queued = int(found[6], 16)
            unanswered.append(Unacknowledged(local, port, *remote, state, queued, times))
    waiting = {each.port for each in listeners if each.waiting}
    return (
        tuple(listeners),
        tuple(each for each in untaken if each.local_port in waiting),
        tuple(unanswered),
    )


def parse_wrong_checksums(raw: bytes) -> int | Missing:
    """/proc/PID/net/snmp: InCsumErrors of TCP, by the line of names above that of numbers."""
    rows = [line.split() for line in raw.decode("latin-1").splitlines()]
    of_tcp = [row[1:] for row in rows if row[:1] == ["Tcp:"]]
    if len(of_tcp) != _NAMES_AND_NUMBERS or len(of_tcp[0]) != len(of_tcp[1]):
        return malformed(raw, "the counters of TCP")
    value = dict(zip(*of_tcp, strict=True)).get(_IN_CHECKSUM_ERRORS)
    if value is None:
        return Missing(Why.UNSUPPORTED, f"no {_IN_CHECKSUM_ERRORS}: Linux before 3.10")
    return int(value) if _COUNT.fullmatch(value) else malformed(raw, "a counter of TCP")


def parse_state(raw: bytes) -> str | Missing:
    """/proc/PID/status: the letter of State."""
    found = _STATE.search(raw)
    return found[1].decode() if found else malformed(raw, "a process status with State")


def parse_cgroup_events(raw: bytes) -> bool | Missing:
    """cgroup.events: whether all below the cgroup is frozen, by it or by one above it."""
    found = _FROZEN.search(raw.decode("latin-1"))
    if found is None:
        return Missing(Why.UNSUPPORTED, "no row of frozen: Linux before 5.2")
    return found[1] == "1"


def parse_freezer_state(raw: bytes) -> bool | Missing:
    """freezer.state of version 1."""
    word = raw.decode("latin-1").strip()
    if word not in ("THAWED", "FREEZING", "FROZEN"):
        return malformed(raw, "a state of the freezer")
    return word == "FROZEN"


def read_programs(host: Host, deadline: float) -> ProgramFacts:
    """Each by itself; `deadline` as in Host.netlink."""
    tables = _tables(host)
    holders = _holders(host, deadline)
    wrong = attribute(host, _COUNTERS, parse_wrong_checksums)
    if isinstance(tables, Missing):
        return ProgramFacts(tables, tables, holders, tables, wrong)
    listeners, untaken, unanswered = tables
    return ProgramFacts(listeners, untaken, holders, unanswered, wrong)


def _tables(host: Host) -> Tables | Missing:
    all_of: Tables = ((), (), ())
    for path in _TABLES:
        raw = host.read(path, _LIMIT)
        if isinstance(raw, Missing) and raw.why is Why.ABSENT and path != _TABLES[0]:
            continue  # a kernel without IPv6
        if isinstance(raw, Missing):  # a longer table is one of a busy host, and no fault
            return Missing(Why.UNSUPPORTED, raw.detail) if raw.why is Why.MALFORMED else raw
        found = parse_tcp(raw)
        if isinstance(found, Missing):
            return found
        all_of = (all_of[0] + found[0], all_of[1] + found[1], all_of[2] + found[2])
    return all_of


def _holders(host: Host, deadline: float) -> tuple[RdmaProgram, ...] | Missing:
    listed = host.list(CLASS)
    if isinstance(listed, Missing):  # opening a socket of this protocol would load ib_core
        return listed
    indexes = read_device_indexes(host, deadline)
    if isinstance(indexes, Missing):
        return indexes
    found: list[RdmaProgram] = []
    for name, index in sorted(indexes.items()):
        asked = request(_CONTEXTS, netlink.NLM_F_DUMP, (("DEV_INDEX", index),))
        record = f"nldev-res-ctx-get-{index}"
        reply = dump(host, record, netlink.NETLINK_RDMA, asked, deadline)
        entries = reply if isinstance(reply, Missing) else parse_entries(reply, "ctx")
        if isinstance(entries, Missing):
            return entries
        threads = {netlink.number(entry.get(NUMBER["RES_PID"])) for entry in entries}
        found += _of_device(host, name, sorted(filter(None, threads)))
    return tuple(found)


def _of_device(host: Host, device: str, threads: list[int]) -> Iterator[RdmaProgram]:
    pids: dict[int, None] = {}
    for thread in threads[:MOST_PROCESSES]:
        group = attribute(host, f"/proc/{thread}/status", parse_thread_group)
        if not isinstance(group, Missing):  # else it has ended
            pids[group] = None
    for pid in pids:
        status = f"/proc/{pid}/status"
        yield RdmaProgram(
            device,
            pid,
            attribute(host, status, parse_name),
            attribute(host, status, parse_state),
            _frozen(host, pid),
        )


def _frozen(host: Host, pid: int) -> bool | Missing:
    paths = attribute(host, f"/proc/{pid}/cgroup", parse_cgroups)
    if isinstance(paths, Missing):
        return paths
    if "freezer" in paths:
        if not _is_below(paths["freezer"]):
            return _ELSEWHERE
        path = f"{_VERSION_1}{paths['freezer']}/freezer.state"
        return False if paths["freezer"] == "/" else attribute(host, path, parse_freezer_state)
    own = paths.get("", "/")
    if own == "/":  # the root is never frozen, and has no such file
        return False
    if not _is_below(own):
        return _ELSEWHERE
    found: bool | Missing = Missing(Why.ABSENT, "no cgroup is mounted")
    for root in CGROUPS:
        found = attribute(host, f"{root}{own}/cgroup.events", parse_cgroup_events)
        if not isinstance(found, Missing) or found.why is not Why.ABSENT:
            break
    return found


_ELSEWHERE: Final = Missing(Why.ABSENT, "its cgroup is outside of this cgroup namespace")


def _is_below(path: str) -> bool:
    return not {".", ".."} & {*path.split("/")}
