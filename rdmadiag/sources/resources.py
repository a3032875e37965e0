"""RDMA netlink: every object that is tracked, and who made it.

    QP 17 of rxe0: type rc, state rts, pid 4711, of protection domain 3

Objects of kernel modules bear the module's name, those of programs the number of the thread
that made them, in our PID namespace; one that is not visible there, or has ended, has neither
(drivers/infiniband/core/nldev.c, fill_res_name_pid). A process is known by its thread group, and
by any other object of the same context: no two processes open one.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why, or_else
from rdmadiag.facts.cm import CmState
from rdmadiag.facts.ib import KernelQpType, Numbered, QpState
from rdmadiag.facts.resources import (
    CmId,
    DeviceResources,
    Held,
    Owner,
    QueuePair,
    ResourceFacts,
)
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.dump import dump
from rdmadiag.sources.limits import parse_port_range
from rdmadiag.sources.nldev import gone, is_gone, parse_resources
from rdmadiag.sources.nldev_counters import read_device_indexes
from rdmadiag.sources.nldev_messages import (
    NUMBER,
    RES_GET,
    Attributes,
    messages,
    nest,
    request,
    rows,
)
from rdmadiag.sources.sysfs import CLASS
from rdmadiag.sources.text import attribute, malformed, parse_text

_DUMPS: Final = {  # RDMA_NLDEV_CMD_RES_*_GET, and the table in its replies
    "qp": (10, "RES_QP"),
    "cm_id": (11, "RES_CM_ID"),
    "cq": (12, "RES_CQ"),
    "mr": (13, "RES_MR"),
    "pd": (14, "RES_PD"),
    "ctx": (22, "RES_CTX"),
    "srq": (23, "RES_SRQ"),
}
_PORT: Final = NUMBER["PORT_INDEX"]
_PID: Final = NUMBER["RES_PID"]
_PDN: Final = NUMBER["RES_PDN"]
_CTXN: Final = NUMBER["RES_CTXN"]
_KERN_NAME: Final = NUMBER["RES_KERN_NAME"]
_LQPN: Final = NUMBER["RES_LQPN"]
_RQPN: Final = NUMBER["RES_RQPN"]
_TYPE: Final = NUMBER["RES_TYPE"]
_STATE: Final = NUMBER["RES_STATE"]
_LENGTH: Final = NUMBER["RES_MRLEN"]
_SRC_ADDR: Final = NUMBER["RES_SRC_ADDR"]
_RANGE: Final = "/proc/sys/net/ipv4/ip_local_port_range"

_TGID: Final = late(rb"^Tgid:\s+([1-9][0-9]{0,9})$", re.MULTILINE)
_INITIAL_PIDNS: Final = "pid:[4026531836]"  # PROC_PID_INIT_INO, include/linux/proc_ns.h

N = TypeVar("N", bound=Numbered)


def parse_entries(reply: bytes, kind: str) -> list[Attributes] | Missing:
    """The reply to a RES_*_GET dump of one device: its objects."""
    name = _DUMPS[kind][1]
    try:
        return [
            entry
            for found in messages(reply)
            for entry in rows(nest(found, name) or b"", f"{name}_ENTRY")
        ]
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))


def held(entries: Iterable[Attributes], kind: str, makers: "Makers") -> tuple[Held, ...]:
    """Objects by owner, the largest holder first."""
    counts: dict[Owner, int] = defaultdict(int)
    lengths: dict[Owner, int] = defaultdict(int)
    for entry in entries:
        owner = makers.owner(entry)
        counts[owner] += 1
        lengths[owner] += netlink.number(entry.get(_LENGTH)) or 0
    return tuple(
        Held(owner, count, lengths[owner] if kind == "mr" else None)
        for owner, count in sorted(counts.items(), key=lambda each: -each[1])
    )


class Makers:
    """Which process made an object; `group` gives the thread group of a thread that is there."""

    def __init__(
        self, every: Mapping[str, list[Attributes] | Missing], group: Callable[[int], int | None]
    ) -> None:
        self._group = cache(group)
        self._contexts = {
            netlink.number(entry.get(_PDN)): netlink.number(entry.get(_CTXN))
            for entry in or_else(every.get("pd", []), [])
        }
        self._of_context: dict[int, int] = {}
        for kind in ("ctx", *(each for each in every if each != "ctx")):
            for entry in or_else(every.get(kind, []), []):
                context, thread = self._context(entry), _thread(entry)
                process = self._group(thread) if thread else None
                if context is not None and process is not None:
                    self._of_context.setdefault(context, process)

    def _context(self, entry: Attributes) -> int | None:
        own = netlink.number(entry.get(_CTXN))
        return self._contexts.get(netlink.number(entry.get(_PDN))) if own is None else own

    def owner(self, entry: Attributes) -> Owner:
        """The kernel module, or the process: of its thread, else of its context."""
        kernel, thread = netlink.text(entry.get(_KERN_NAME)), _thread(entry)
        if kernel is not None:
            return Owner(None, kernel)
        process = self._group(thread) if thread else None
        context = self._context(entry)
        if process is None and context is not None:
            process = self._of_context.get(context)
        return Owner(process or thread, None)


def _thread(entry: Attributes) -> int | None:
    # Before Linux 5.9 a process of another PID namespace had pid 0.
    return netlink.number(entry.get(_PID)) or None


def queue_pair(entry: Attributes, makers: Makers) -> QueuePair:
    """One entry of RES_QP_GET."""
    return QueuePair(
        number=netlink.number(entry.get(_LQPN)) or 0,
        peer=_number(entry, _RQPN, "RES_RQPN"),
        port=_number(entry, _PORT, "PORT_INDEX"),
        type=_member(entry, _TYPE, KernelQpType),
        state=_member(entry, _STATE, QpState),
        owner=makers.owner(entry),
    )


def cm_id(entry: Attributes, makers: Makers) -> CmId:
    """One entry of RES_CM_ID_GET; its addresses are struct sockaddr, the port behind the family."""
    address = entry.get(_SRC_ADDR, b"")
    port = int.from_bytes(address[2:4]) if len(address) >= 4 else 0
    return CmId(
        state=_member(entry, _STATE, CmState),
        local_port=port or Missing(Why.ABSENT, "RDMA_NLDEV_ATTR_RES_SRC_ADDR"),
        owner=makers.owner(entry),
    )


def _number(entry: Attributes, kind: int, name: str) -> int | Missing:
    value = netlink.number(entry.get(kind))
    return Missing(Why.ABSENT, f"RDMA_NLDEV_ATTR_{name}") if value is None else value


def _member(entry: Attributes, kind: int, table: type[N]) -> N | Missing:
    value = netlink.number(entry.get(kind))
    if value is None:
        return Missing(Why.ABSENT, f"no {table.__name__}")
    return table.from_number(value) or Missing(
        Why.MALFORMED, f"{value} is not a known {table.__name__}"
    )


def read_resources(host: Host, deadline: float) -> ResourceFacts | Missing:
    """Every object of every device that this namespace may see; `deadline` is absolute."""
    listed = host.list(CLASS)
    if isinstance(listed, Missing):
        # Opening a socket of this protocol would load ib_core.
        absent = listed.why is Why.ABSENT
        said = f"no RDMA device is registered ({listed.detail})" if absent else listed.detail
        return Missing(listed.why, said)
    indexes = read_device_indexes(host, deadline)
    if isinstance(indexes, Missing):
        return indexes
    by_name = sorted(indexes.items())
    devices = tuple(_device(host, name, index, deadline) for name, index in by_name)
    namespace = host.readlink("/proc/self/ns/pid")
    return ResourceFacts(
        devices,
        {pid: _command(host, pid) for pid in _pids(devices)},
        namespace if isinstance(namespace, Missing) else namespace == _INITIAL_PIDNS,
        attribute(host, _RANGE, parse_port_range),
    )


def _device(host: Host, name: str, index: int, deadline: float) -> DeviceResources:
    replies = {kind: _dump(host, index, kind, deadline) for kind in _DUMPS}
    asked = request(RES_GET, 0, (("DEV_INDEX", index),))
    summary = host.netlink(f"nldev-res-get-{index}", netlink.NETLINK_RDMA, asked, deadline)
    # EINVAL: of an older kernel, or of a device that is there no more.
    refused = isinstance(summary, Missing) and summary.why is Why.UNSUPPORTED
    if refused and is_gone(host, index, deadline):
        return DeviceResources(index, name, gone(index), gone(index), {})
    every = {
        kind: reply if isinstance(reply, Missing) else parse_entries(reply, kind)
        for kind, reply in replies.items()
    }
    makers = Makers(every, partial(_group, host))
    pairs, ids = every.pop("qp"), every["cm_id"]
    return DeviceResources(
        index=index,
        name=name,
        counts=summary if isinstance(summary, Missing) else parse_resources(summary),
        queue_pairs=pairs
        if isinstance(pairs, Missing)
        else tuple(queue_pair(entry, makers) for entry in pairs),
        held={
            kind: entries if isinstance(entries, Missing) else held(entries, kind, makers)
            for kind, entries in every.items()
        },
        cm_ids=ids if isinstance(ids, Missing) else tuple(cm_id(entry, makers) for entry in ids),
    )


def parse_thread_group(raw: bytes) -> int | Missing:
    """/proc/PID/status: Tgid, the process that a thread is of."""
    match = _TGID.search(raw)
    return int(match[1]) if match else malformed(raw, "a process status with Tgid")


def _group(host: Host, thread: int) -> int | None:
    found = attribute(host, f"/proc/{thread}/status", parse_thread_group)
    return None if isinstance(found, Missing) else found


def _dump(host: Host, index: int, kind: str, deadline: float) -> bytes | Missing:
    name, op = f"nldev-res-{kind.replace('_', '-')}-get-{index}", _DUMPS[kind][0]
    asked = request(op, netlink.NLM_F_DUMP, (("DEV_INDEX", index),))
    return dump(host, name, netlink.NETLINK_RDMA, asked, deadline)


def _pids(devices: tuple[DeviceResources, ...]) -> Iterator[int]:
    owners = {
        each.owner
        for device in devices
        for rows in (device.queue_pairs, *device.held.values())
        if not isinstance(rows, Missing)
        for each in rows
    }
    yield from sorted({owner.pid for owner in owners if owner.pid is not None})


def _command(host: Host, pid: int) -> str | Missing:
    return attribute(host, f"/proc/{pid}/comm", parse_text)
