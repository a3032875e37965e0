"""rtnetlink: qdiscs of all netdevs, filters of those with clsact or ingress, classes of htb.

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
    IPV4,
    OUT,
    TCP,
    UDP,
    Netem,
    Qdisc,
    Queue,
    TokenBucket,
    TrafficControl,
    TrafficFilter,
)
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump, gathered

MOST_NETDEVS: Final = 64  # whose filters are read
MOST: Final = 4096  # qdiscs, and filters of a netdev

_TCMSG: Final = struct.Struct("=BxxxiIII")  # family, ifindex, handle, parent, info
_KIND, _OPTIONS, _CHAIN = 1, 2, 11  # TCA_*
_ROOT: Final = 0xFFFFFFFF
_PARENTS: Final = {"clsact": ((IN, 0xFFFFFFF2), (OUT, 0xFFFFFFF3)), "ingress": ((IN, 0xFFFF0000),)}

_NETEM: Final = struct.Struct("=IIIIII")  # latency, limit, loss, gap, duplicate, jitter
_NETEM_CORRUPT, _NETEM_RATE, _NETEM_RATE64, _NETEM_LATENCY64 = 4, 6, 8, 10  # TCA_NETEM_*
_TBF: Final = struct.Struct("=8xI8xIIII")  # rate, peak rate, limit, buffer in ticks, mtu
_TBF_PARMS, _TBF_RATE64 = 1, 4  # TCA_TBF_*
_TICK_NS: Final = 64  # PSCHED_SHIFT
_RATES: Final = {"cake": 2, "fq": 7}  # TCA_CAKE_BASE_RATE64, TCA_FQ_FLOW_MAX_RATE
_UNLIMITED: Final = (0, 0xFFFFFFFF)
_HTB, _HTB_INIT, _HTB_PARMS, _HTB_CEIL64 = "htb", 2, 1, 7  # TCA_HTB_*
_HTB_GLOBAL: Final = struct.Struct("=8xI")  # struct tc_htb_glob: version, rate2quantum, defcls
_HTB_CLASS: Final = struct.Struct("=20xI")  # struct tc_htb_opt: rate, ceil as tc_ratespec
_MINOR: Final = 0xFFFF  # of a handle: TC_H_MIN_MASK
_BY_BYTES, _BY_PACKETS = "bfifo", ("pfifo", "pfifo_head_drop")
_DROPS_ALL: Final = "blackhole"

_FLOWER_ACT: Final = 3  # TCA_FLOWER_*
_ETH_TYPE, _IP_PROTO, _FLAGS = 8, 9, 22
_SOURCES: Final = ((10, 11), (14, 15))  # an address and its mask: IPv4, IPv6
_DESTINATIONS: Final = ((12, 13), (16, 17))
_SOURCE_PORTS: Final = {TCP: 18, UDP: 20}
_DESTINATION_PORTS: Final = {TCP: 19, UDP: 21}
_PORT_MASKS: Final = (35, 36, 37, 38)  # of the four above
_IN_HW_COUNT: Final = 86  # no condition
_IN_HW: Final = 0x4  # TCA_CLS_FLAGS_IN_HW
_ACTIONS: Final = {"flower": _FLOWER_ACT, "u32": 7, "matchall": 2, "basic": 3, "fw": 4, "bpf": 1}
_MATCHALL_FLAGS: Final = 3
_BPF_FLAGS: Final = 8  # TCA_BPF_FLAGS
_DIRECT: Final = 0x1  # TCA_BPF_FLAG_ACT_DIRECT
_GACT_PARMS: Final = 2
_SHOT, _GOES_ON = 2, (-1, 3)  # TC_ACT_SHOT; TC_ACT_UNSPEC, TC_ACT_PIPE
_POLICE_TBF: Final = 1  # struct tc_police: index, action, …
_MIRRED_PARMS: Final = 2
_MIRRED: Final = struct.Struct("=20xiI")  # struct tc_mirred: tc_gen, eaction, ifindex
_REDIRECTS: Final = (1, 3)  # TCA_EGRESS_REDIR, TCA_INGRESS_REDIR

_U32_SEL: Final = 5
_U32_HEAD: Final = struct.Struct("=BBB13x")  # struct tc_u32_sel: flags, offshift, nkeys, …
_U32_KEY: Final = struct.Struct(">II")  # struct tc_u32_key: mask, value; the rest is the host's
_U32_PLACE: Final = struct.Struct("=ii")  # offset, offmask
_U32_TERMINAL: Final = 1
_PROTOCOL_AT, _SOURCE_AT, _DESTINATION_AT, _PORTS_AT = 8, 12, 16, 20  # of IPv4 without options

GET_QDISCS: Final = netlink.request(netlink.RTM_GETQDISC, netlink.NLM_F_DUMP, bytes(_TCMSG.size))


def filter_request(ifindex: int, parent: int) -> bytes:
    """RTM_GETTFILTER of one place of a netdev."""
    head = _TCMSG.pack(0, ifindex, 0, parent, 0)
    return netlink.request(netlink.RTM_GETTFILTER, netlink.NLM_F_DUMP, head)


def class_request(ifindex: int) -> bytes:
    """RTM_GETTCLASS of a netdev."""
    head = _TCMSG.pack(0, ifindex, 0, 0, 0)
    return netlink.request(netlink.RTM_GETTCLASS, netlink.NLM_F_DUMP, head)


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
        queue = parse_queue(row.get(_OPTIONS, b""), kind)
        rate = parse_shaped_rate(row.get(_OPTIONS, b""), kind)
        name = names.get(index) or f"#{index}"
        yield Qdisc(name, kind, parent == _ROOT, netem, bucket, queue, rate)


def parse_default_classes(reply: bytes) -> dict[int, int] | Missing:
    """The reply to RTM_GETQDISC: netdevs whose root is htb, by their indexes, and the handle of the
    class that takes what no filter chooses one for. Without such a class it passes as it is.
    """
    found: dict[int, int] = {}
    try:
        for (_, index, handle, parent, _), kind, row in _rows(reply):
            raw = dict(netlink.attributes(row.get(_OPTIONS, b""))).get(_HTB_INIT, b"")
            if kind == _HTB and parent == _ROOT and len(raw) >= _HTB_GLOBAL.size:
                (minor,) = _HTB_GLOBAL.unpack_from(raw)
                if minor & _MINOR:
                    found[index] = handle & ~_MINOR | minor & _MINOR
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return found


def parse_ceilings(reply: bytes) -> dict[int, int] | Missing:
    """The reply to RTM_GETTCLASS: of each class of htb its handle and its ceiling, in bytes a
    second.
    """
    found: dict[int, int] = {}
    try:
        for (_, _, handle, _, _), kind, row in _rows(reply):
            options = dict(netlink.attributes(row.get(_OPTIONS, b"")))
            raw = options.get(_HTB_PARMS, b"")
            if kind == _HTB and len(raw) >= _HTB_CLASS.size:
                (ceiling,) = _HTB_CLASS.unpack_from(raw)
                found[handle] = netlink.number(options.get(_HTB_CEIL64)) or ceiling
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return found


def parse_shaped_rate(options: bytes, kind: str) -> int | None:
    """TCA_OPTIONS of cake and fq, in bytes a second; None of others, and without a limit."""
    if kind not in _RATES:
        return None
    rate = netlink.number(dict(netlink.attributes(options)).get(_RATES[kind]))
    return None if rate in _UNLIMITED else rate


def parse_queue(options: bytes, kind: str) -> Queue | None:
    """TCA_OPTIONS of bfifo and pfifo; None of others, and where they are cut short."""
    if kind not in (_BY_BYTES, *_BY_PACKETS) or len(options) < 4:
        return None
    most = int.from_bytes(options[:4], sys.byteorder)
    return Queue(most, None) if kind == _BY_BYTES else Queue(None, most)


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
    latency, limit, loss, _, duplicate, _ = _NETEM.unpack_from(options)
    found = dict(netlink.attributes(options[_NETEM.size :]))
    delay = netlink.number(found.get(_NETEM_LATENCY64))
    corrupt, rate = (
        int.from_bytes(found.get(each, b"")[:4], sys.byteorder)
        for each in (_NETEM_CORRUPT, _NETEM_RATE)
    )
    return Netem(
        loss=_share(loss),
        duplicate=_share(duplicate),
        corrupt=_share(corrupt),
        delay_ms=(latency * _TICK_NS if delay is None else delay) / 1e6,
        bytes_per_second=netlink.number(found.get(_NETEM_RATE64)) or rate or None,
        most_packets=limit,
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
        made = _filter(names, index, direction, info, kind, options)
        if netlink.number(row.get(_CHAIN)):  # tried where a filter of chain 0 leads there
            made = replace(made, understood=False)
        yield made


def _filter(
    names: Mapping[int, str], index: int, direction: str, info: int, kind: str, options: bytes
) -> TrafficFilter:
    found = dict(netlink.attributes(options))
    decided = _decision(found.get(_ACTIONS.get(kind, 0), b""))
    made = _matching(_name(names, index), direction, info, kind, found, decided)
    leads_to = None if decided.leads_to is None else _name(names, decided.leads_to)
    flags = netlink.number(found.get(_BPF_FLAGS)) or 0 if kind == "bpf" else 0
    if flags & _DIRECT:
        return replace(made, ends=True, by_program=True)
    return replace(made, leads_to=leads_to, limits=decided.limits)


def _name(names: Mapping[int, str], index: int) -> str:
    return names.get(index) or f"#{index}"


def _matching(
    netdev: str,
    direction: str,
    info: int,
    kind: str,
    found: Mapping[int, bytes],
    decided: "_Decision",
) -> TrafficFilter:
    ether = int.from_bytes((info & 0xFFFF).to_bytes(2, sys.byteorder))
    priority = info >> 16
    flags = netlink.number(found.get(_FLAGS if kind == "flower" else _MATCHALL_FLAGS)) or 0
    in_hardware = kind in ("flower", "matchall") and bool(flags & _IN_HW)
    row = (netdev, direction, kind, priority, ether, decided.drops, decided.ends, in_hardware)
    if kind == "matchall":
        return TrafficFilter(*row, understood=True)
    if kind == "u32":
        return _by_words(TrafficFilter(*row, understood=False), found.get(_U32_SEL, b""))
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
    return TrafficFilter(
        *row,
        understood=not unread,
        protocol=protocol,
        source=source,
        destination=destination,
        source_port=ports[0],
        destination_port=ports[1],
    )


def _by_words(made: TrafficFilter, selector: bytes) -> TrafficFilter:
    """A filter of u32 by its selector: words of the packet, under a mask each.

    Those of IPv4 alone are known, where it has no options.
    """
    words = dict(_words(selector))
    if made.ether_type != IPV4 or not words:
        return made
    fields: dict[str, object] = {}
    for at, (mask, value) in words.items():
        if at == _PROTOCOL_AT and mask == 0x00FF0000:
            fields["protocol"] = value >> 16
        elif at in (_SOURCE_AT, _DESTINATION_AT) and _length(mask) is not None:
            name = "source" if at == _SOURCE_AT else "destination"
            fields[name] = f"{printed(value.to_bytes(4))}/{_length(mask)}"
        elif at == _PORTS_AT and mask in (0x0000FFFF, 0xFFFF0000, 0xFFFFFFFF):
            if mask & 0xFFFF:
                fields["destination_port"] = value & 0xFFFF
            if mask >> 16:
                fields["source_port"] = value >> 16
        elif mask:  # a mask of nothing fits all: "match u32 0 0"
            return made
    if fields.keys() & {"source_port", "destination_port"} and "protocol" not in fields:
        return made
    return replace(made, understood=True, **fields)  # type: ignore[arg-type]  # by their names


def _words(selector: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    """Offset → mask and value; nothing of one that is cut short, not terminal, or that hashes."""
    if len(selector) < _U32_HEAD.size:
        return
    flags, shift, count = _U32_HEAD.unpack_from(selector)
    size = _U32_KEY.size + _U32_PLACE.size
    if flags != _U32_TERMINAL or shift or len(selector) < _U32_HEAD.size + count * size:
        return
    for at in range(_U32_HEAD.size, _U32_HEAD.size + count * size, size):
        offset, varies = _U32_PLACE.unpack_from(selector, at + _U32_KEY.size)
        mask, value = _U32_KEY.unpack_from(selector, at)
        yield (-1 if varies else offset), (mask, value)


def _length(mask: int) -> int | None:
    """Of a network; None of a mask that is none."""
    length = mask.bit_count()
    return length if mask == (0xFFFFFFFF << (32 - length)) & 0xFFFFFFFF else None


@dataclass(frozen=True, slots=True)
class _Decision:
    """What the actions of a filter come to."""

    drops: bool = False
    ends: bool = False
    leads_to: int | None = None  # an ifindex
    limits: bool = False


def _decision(actions: bytes) -> _Decision:
    """The first action that decides, if one does; a rate may limit what comes to it."""
    limits = False
    for _, content in netlink.attributes(actions):
        action = dict(netlink.attributes(content))
        kind, options = netlink.text(action.get(1)), dict(netlink.attributes(action.get(2, b"")))
        if kind in _HARMLESS:
            continue
        if kind == "police":
            # Where a rate is kept the packet goes on, or is taken: both let it pass.
            parms = options.get(_POLICE_TBF, b"")
            limits |= int.from_bytes(parms[4:8], sys.byteorder, signed=True) == _SHOT
            continue
        if kind == "mirred":
            parms = options.get(_MIRRED_PARMS, b"")
            if len(parms) < _MIRRED.size:
                return _Decision(ends=True, limits=limits)
            how, index = _MIRRED.unpack_from(parms)
            if how in _REDIRECTS:
                return _Decision(ends=True, leads_to=index, limits=limits)
        elif kind == "gact":
            parms = options.get(_GACT_PARMS, b"")
            if len(parms) < 12:
                return _Decision(ends=True, limits=limits)
        else:
            return _Decision(ends=True, limits=limits)
        code = int.from_bytes(parms[8:12], sys.byteorder, signed=True)  # tcfa_action of tc_gen
        if code not in _GOES_ON:
            return _Decision(drops=code == _SHOT, ends=True, limits=limits)
    return _Decision(ends=limits, limits=limits)


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
    shaped = {} if isinstance(reply, Missing) else _of_classes(host, reply, deadline)
    if isinstance(shaped, Missing):
        return shaped
    of_netdev = {names.get(index): rate for index, rate in shaped.items()}
    qdiscs = tuple(
        replace(each, bytes_per_second=of_netdev.get(each.netdev))
        if each.kind == _HTB and each.is_root
        else each
        for each in qdiscs
    )
    kept = tuple(filter(_is_kept, qdiscs))
    return TrafficControl(kept, _filters(host, kept, names, deadline))


def _of_classes(host: Host, qdiscs: bytes, deadline: float) -> dict[int, int] | Missing:
    """Of netdevs whose root is htb, by their indexes, how fast the default class lets out."""
    defaults = parse_default_classes(qdiscs)
    if isinstance(defaults, Missing):
        return defaults
    found: dict[int, int] = {}
    for index, handle in sorted(defaults.items())[:MOST_NETDEVS]:
        name = f"route-gettclass-{index}"
        reply = dump(host, name, netlink.NETLINK_ROUTE, class_request(index), deadline)
        if isinstance(reply, Missing) and reply.why is Why.NOT_COLLECTED:
            continue  # of a record from before
        ceilings = reply if isinstance(reply, Missing) else parse_ceilings(reply)
        if isinstance(ceilings, Missing):
            return ceilings
        if handle in ceilings:
            found[index] = ceilings[handle]
    return found


def _is_kept(qdisc: Qdisc) -> bool:
    has_limits = qdisc.netem or qdisc.bucket or qdisc.queue or qdisc.bytes_per_second
    return bool(has_limits) or qdisc.kind in (*_PARENTS, _DROPS_ALL)


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
