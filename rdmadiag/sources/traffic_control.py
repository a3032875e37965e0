"""rtnetlink: qdiscs of all netdevs, and filters of those with clsact or ingress.

A dump asks for no module: only a change looks for one (net/sched/sch_api.c, cls_api.c).
"""

import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.address import printed
from rdmadiag.facts.traffic_control import (
    IN,
    OUT,
    TCP,
    UDP,
    Netem,
    Qdisc,
    TokenBucket,
    TrafficControl,
    TrafficFilter,
)
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump, gathered

MOST_NETDEVS: Final = 64  # whose filters are read
MOST: Final = 4096  # qdiscs, and filters of a netdev

_TCMSG: Final = struct.Struct("=BxxxiIII")  # family, ifindex, handle, parent, info
_KIND, _OPTIONS, _CHAIN = 1, 2, 11  # TCA_*
_ROOT: Final = 0xFFFFFFFF
_PARENTS: Final = {"clsact": ((IN, 0xFFFFFFF2), (OUT, 0xFFFFFFF3)), "ingress": ((IN, 0xFFFF0000),)}

_NETEM: Final = struct.Struct("=IIIIII")  # latency, limit, loss, gap, duplicate, jitter
_NETEM_CORRUPT, _NETEM_LATENCY64 = 4, 10  # TCA_NETEM_*
_TBF: Final = struct.Struct("=8xI8xIIII")  # rate, peak rate, limit, buffer in ticks, mtu
_TBF_PARMS, _TBF_RATE64 = 1, 4  # TCA_TBF_*
_TICK_NS: Final = 64  # PSCHED_SHIFT

_FLOWER_ACT: Final = 3  # TCA_FLOWER_*
_ETH_TYPE, _IP_PROTO, _FLAGS = 8, 9, 22
_SOURCES: Final = ((10, 11), (14, 15))  # an address and its mask: IPv4, IPv6
_DESTINATIONS: Final = ((12, 13), (16, 17))
_SOURCE_PORTS: Final = {TCP: 18, UDP: 20}
_DESTINATION_PORTS: Final = {TCP: 19, UDP: 21}
_PORT_MASKS: Final = (35, 36, 37, 38)  # of the four above
_IN_HW_COUNT: Final = 86  # no condition
_IN_HW: Final = 0x4  # TCA_CLS_FLAGS_IN_HW
_ACTIONS: Final = {"flower": _FLOWER_ACT, "u32": 7, "matchall": 2, "basic": 3, "fw": 4}
_MATCHALL_FLAGS: Final = 3
_GACT_PARMS: Final = 2
_SHOT, _GOES_ON = 2, (-1, 3)  # TC_ACT_SHOT; TC_ACT_UNSPEC, TC_ACT_PIPE

GET_QDISCS: Final = netlink.request(netlink.RTM_GETQDISC, netlink.NLM_F_DUMP, bytes(_TCMSG.size))


def filter_request(ifindex: int, parent: int) -> bytes:
    """RTM_GETTFILTER of one place of a netdev."""
    head = _TCMSG.pack(0, ifindex, 0, parent, 0)
    return netlink.request(netlink.RTM_GETTFILTER, netlink.NLM_F_DUMP, head)


def _rows(reply: bytes) -> Iterator[tuple[tuple[int, ...], str, dict[int, bytes]]]:
    for message in netlink.messages(reply):
        if message.type in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            continue
        content = netlink.body(reply, message)
        if len(content) < _TCMSG.size:
            raise ValueError(f"netlink message at byte {message.offset} has no header")
        found = dict(netlink.attributes(content[_TCMSG.size :]))
        kind = netlink.text(found.get(_KIND)) or ""
        yield _TCMSG.unpack_from(content), kind, found


def parse_qdiscs(reply: bytes, names: Mapping[int, str]) -> tuple[Qdisc, ...] | Missing:
    """The reply to RTM_GETQDISC; `names` of netdevs by their index."""
    return gathered(_qdiscs(reply, names), MOST, "qdiscs")


def _qdiscs(reply: bytes, names: Mapping[int, str]) -> Iterator[Qdisc]:
    for (_, index, _, parent, _), kind, row in _rows(reply):
        netem = parse_netem(row.get(_OPTIONS, b"")) if kind == "netem" else None
        bucket = parse_bucket(row.get(_OPTIONS, b"")) if kind == "tbf" else None
        yield Qdisc(names.get(index) or f"#{index}", kind, parent == _ROOT, netem, bucket)


def parse_bucket(options: bytes) -> TokenBucket | None:
    """TCA_OPTIONS of tbf; None where they are cut short."""
    found = dict(netlink.attributes(options))
    raw = found.get(_TBF_PARMS, b"")
    if len(raw) < _TBF.size:
        return None
    rate, _, _, buffer, _ = _TBF.unpack_from(raw)
    rate = netlink.number(found.get(_TBF_RATE64)) or rate
    return TokenBucket(rate, rate * buffer * _TICK_NS // 1_000_000_000)


def parse_netem(options: bytes) -> Netem | None:
    """TCA_OPTIONS of netem; None where they are cut short."""
    if len(options) < _NETEM.size:
        return None
    latency, _, loss, _, duplicate, _ = _NETEM.unpack_from(options)
    found = dict(netlink.attributes(options[_NETEM.size :]))
    delay = netlink.number(found.get(_NETEM_LATENCY64))
    corrupt = int.from_bytes(found.get(_NETEM_CORRUPT, b"")[:4], sys.byteorder)
    return Netem(
        loss=_share(loss),
        duplicate=_share(duplicate),
        corrupt=_share(corrupt),
        delay_ms=(latency * _TICK_NS if delay is None else delay) / 1e6,
    )


def _share(number: int) -> float:
    return round(number / 0xFFFFFFFF, 6)


def parse_filters(
    reply: bytes, names: Mapping[int, str], direction: str
) -> tuple[TrafficFilter, ...] | Missing:
    """The reply to RTM_GETTFILTER of one place; in the order in which they are tried."""
    found = gathered(_filters_of(reply, names, direction), MOST, "filters")
    if isinstance(found, Missing):
        return found
    return tuple(sorted(found, key=lambda each: each.priority))


def _filters_of(reply: bytes, names: Mapping[int, str], direction: str) -> Iterator[TrafficFilter]:
    for (_, index, _, _, info), kind, row in _rows(reply):
        options = row.get(_OPTIONS)
        if not options:  # a priority of its own row, without a filter
            continue
        made = _filter(names.get(index) or f"#{index}", direction, info, kind, options)
        if netlink.number(row.get(_CHAIN)):  # tried where a filter of chain 0 leads there
            made = replace(made, understood=False)
        yield made


def _filter(netdev: str, direction: str, info: int, kind: str, options: bytes) -> TrafficFilter:
    found = dict(netlink.attributes(options))
    drops, ends = _decision(found.get(_ACTIONS.get(kind, 0), b""))
    ether = int.from_bytes((info & 0xFFFF).to_bytes(2, sys.byteorder))
    priority = info >> 16
    flags = netlink.number(found.get(_FLAGS if kind == "flower" else _MATCHALL_FLAGS)) or 0
    in_hardware = kind in ("flower", "matchall") and bool(flags & _IN_HW)
    row = (netdev, direction, kind, priority, ether, drops, ends, in_hardware)
    if kind == "matchall":
        return TrafficFilter(*row, understood=True)
    if kind != "flower":
        return TrafficFilter(*row, understood=False)
    protocol = netlink.number(found.get(_IP_PROTO))
    source, destination = (_network(found, keys) for keys in (_SOURCES, _DESTINATIONS))
    ports = [_port(found, keys.get(protocol or 0)) for keys in (_SOURCE_PORTS, _DESTINATION_PORTS)]
    read = {_FLOWER_ACT, _ETH_TYPE, _IP_PROTO, _FLAGS, _IN_HW_COUNT}
    for keys in (*_SOURCES, *_DESTINATIONS):
        read |= {*keys}
    for each in (_SOURCE_PORTS, _DESTINATION_PORTS):
        read |= {each.get(protocol or 0, _ETH_TYPE)}
    read |= {each for each in _PORT_MASKS if found.get(each) == b"\xff\xff"}
    unread = set(found) - read
    return TrafficFilter(*row, not unread, protocol, source, destination, *ports)


def _decision(actions: bytes) -> tuple[bool, bool]:
    """Whether the first action that decides drops, and whether one decides at all."""
    for _, content in netlink.attributes(actions):
        action = dict(netlink.attributes(content))
        if netlink.text(action.get(1)) != "gact":
            if netlink.text(action.get(1)) in _HARMLESS:
                continue
            return False, True
        parms = dict(netlink.attributes(action.get(2, b""))).get(_GACT_PARMS, b"")
        if len(parms) < 12:
            return False, True
        code = int.from_bytes(parms[8:12], sys.byteorder, signed=True)
        if code not in _GOES_ON:
            return code == _SHOT, True
    return False, False


_HARMLESS: Final = frozenset({"sample", "skbedit", "pedit", "csum", "ct", "connmark", "bpf"})
"""Kinds of actions that change a packet or look at it, and mostly go on."""


def _network(found: Mapping[int, bytes], keys: tuple[tuple[int, int], ...]) -> str | None:
    for key, mask in keys:
        raw = found.get(key)
        if raw is not None and len(raw) in (4, 16):
            bits = found.get(mask, b"\xff" * len(raw))
            length = int.from_bytes(bits).bit_count()
            return f"{printed(raw)}/{min(length, 8 * len(raw))}"
    return None


def _port(found: Mapping[int, bytes], key: int | None) -> int | None:
    raw = found.get(key) if key is not None else None
    return int.from_bytes(raw) if raw is not None and len(raw) == 2 else None


def read_traffic_control(
    host: Host, names: Mapping[int, str], deadline: float
) -> TrafficControl | Missing:
    """Both; `deadline` as in Host.netlink."""
    reply = dump(host, "route-getqdisc", netlink.NETLINK_ROUTE, GET_QDISCS, deadline)
    qdiscs = reply if isinstance(reply, Missing) else parse_qdiscs(reply, names)
    if isinstance(qdiscs, Missing):
        return qdiscs
    kept = tuple(each for each in qdiscs if each.netem or each.bucket or each.kind in _PARENTS)
    return TrafficControl(kept, _filters(host, kept, names, deadline))


def _filters(
    host: Host, qdiscs: tuple[Qdisc, ...], names: Mapping[int, str], deadline: float
) -> tuple[TrafficFilter, ...] | Missing:
    index = {name: number for number, name in names.items()}
    found: list[TrafficFilter] = []
    places = [each for each in qdiscs if each.kind in _PARENTS and each.netdev in index]
    if len(places) > MOST_NETDEVS:
        return Missing(Why.UNSUPPORTED, f"more than {MOST_NETDEVS} netdevs with filters")
    for each in places:
        for direction, parent in _PARENTS[each.kind]:
            number = index[each.netdev]
            name = f"route-gettfilter-{number}-{direction}"
            request = filter_request(number, parent)
            reply = dump(host, name, netlink.NETLINK_ROUTE, request, deadline)
            parsed = reply if isinstance(reply, Missing) else parse_filters(reply, names, direction)
            if isinstance(parsed, Missing):
                return parsed
            found += parsed
    return tuple(found)
