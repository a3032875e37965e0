"""rtnetlink: routes, rules, neighbours and one answer of the kernel; what rdma_cm was set to.

By hand, where pyroute2 takes a tenth of a millisecond for each message: a host may have a
million routes.

    /sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode    RoCE v2
    /proc/self/net/udp    12: 00000000:0F5F 00000000:0000 07 ...
"""

import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.address import packed_ipv4, packed_ipv6, printed
from rdmadiag.facts.ib import GidType, Numbered, is_device_name
from rdmadiag.facts.routing import (
    AddressLabel,
    Asked,
    BridgePortState,
    Hop,
    KernelAnswer,
    Link,
    Neighbour,
    NeighbourState,
    RoceMode,
    Route,
    RouteKind,
    RoutingFacts,
    Rule,
    RuleAction,
    Soliciting,
    TowardsFacts,
)
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.dump import dump, gathered
from rdmadiag.sources.packet_filter import read_packet_filter
from rdmadiag.sources.text import attribute, malformed, parse_number
from rdmadiag.sources.traffic_control import read_traffic_control

T = TypeVar("T")
N = TypeVar("N", bound=Numbered)

MOST: Final = 8192
"""Rows of a table that are kept: with a full table of the Internet only the kernel knows."""

_IPV4, _IPV6 = 2, 10  # AF_INET, AF_INET6
_BITS: Final = {_IPV4: 32, _IPV6: 128}
_VERSION: Final = {_IPV4: 4, _IPV6: 6}

_IFINFO: Final = struct.Struct("=BxHiII")  # family, ifi_type, index, flags, change
_IFF_UP, _IFF_LOOPBACK, _IFF_NOARP, _IFF_LOWER_UP = 0x1, 0x8, 0x80, 0x10000
_IFLA_IFNAME, _IFLA_LINK, _IFLA_MASTER, _IFLA_LINKINFO = 3, 5, 10, 18
_IFLA_LINK_NETNSID: Final = 37
_INFO_KIND, _INFO_DATA, _VLAN_ID = 1, 2, 1
_INFO_SLAVE_KIND, _INFO_SLAVE_DATA, _BRPORT_STATE = 4, 5, 1

_RTMSG: Final = struct.Struct("=BBBBBBBBI")
_RTM_F_CLONED, _RTM_F_LOOKUP_TABLE, _RTCF_REDIRECTED = 0x200, 0x1000, 0x40000
_RTA_DST, _RTA_SRC, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_PREFSRC = 1, 2, 4, 5, 6, 7
_RTA_METRICS, _RTA_MULTIPATH, _RTA_TABLE, _RTA_VIA, _RTA_UID, _RTA_NH_ID = 8, 9, 15, 18, 25, 30
_RTAX_MTU, _RTAX_HOPLIMIT = 2, 10
_RTNEXTHOP: Final = struct.Struct("=HBBi")
_NOT_IN_USE: Final = 0x1 | 0x10  # RTNH_F_DEAD, RTNH_F_LINKDOWN
_LEFT_OUT: Final = (RouteKind.BROADCAST, RouteKind.MULTICAST, RouteKind.ANYCAST)

_IFADDRLBLMSG: Final = struct.Struct("=BxBxII")  # family, ifal_prefixlen, ifal_index, seq
_IFAL_ADDRESS, _IFAL_LABEL = 1, 2

_RULE: Final = struct.Struct("=BBBBBBBBI")
_FIB_RULE_INVERT: Final = 0x2
_FRA_DST, _FRA_SRC, _FRA_IIFNAME, _FRA_GOTO, _FRA_PRIORITY, _FRA_FWMARK = 1, 2, 3, 4, 6, 10
_FRA_SUPPRESS_PREFIXLEN, _FRA_TABLE, _FRA_FWMASK, _FRA_OIFNAME, _FRA_UIDS = 14, 15, 16, 17, 20
_FRA_OTHER: Final = {
    12: "tunnel",
    13: "suppressed group",
    19: "VRF",
    22: "protocol",
    23: "source port",
    24: "destination port",
    25: "DSCP",
    26: "flow label",
}
_UNSET: Final = 0xFFFFFFFF  # FRA_SUPPRESS_*: -1
_NDMSG: Final = struct.Struct("=BxxxiHBB")
_NDA_DST, _NDA_LLADDR, _NDA_CACHEINFO = 1, 2, 3
_CACHEINFO: Final = struct.Struct("=IIII")  # confirmed, used, updated, references
_TICKS: Final = 100  # a second: USER_HZ

_NDTMSG: Final = struct.Struct("=Bxxx")  # family
_NDTA_PARMS: Final = 6
_NDTPA_IFINDEX, _NDTPA_APP, _NDTPA_UNICAST, _NDTPA_MULTICAST = 1, 9, 10, 11

_CONFIGFS: Final = "/sys/kernel/config/rdma_cm"
_MODES: Final = {"IB/RoCE v1": GidType.ROCE_V1, "RoCE v2": GidType.ROCE_V2}
_HASH_POLICY: Final = "/proc/sys/net/ipv4/fib_multipath_hash_policy"
_UDP: Final = "/proc/self/net/udp"
_PORT_MAPPER: Final = 3935  # IWARP_PM_PORT, iwpmd/iwarp_pm.h of rdma-core
_UDP_ROW: Final = late(r"^ *\d+: [0-9A-F]{8}(?:[0-9A-F]{24})?:([0-9A-F]{4}) ", re.MULTILINE)
_UDP_LIMIT: Final = 4 * 1024 * 1024

_GET_NEIGHBOURS: Final = netlink.request(netlink.RTM_GETNEIGH, netlink.NLM_F_DUMP, bytes(12))
_GET_NEIGHBOUR_TABLES: Final = netlink.request(
    netlink.RTM_GETNEIGHTBL, netlink.NLM_F_DUMP, bytes(_NDTMSG.size)
)
_GET_ADDRESS_LABELS: Final = netlink.request(
    netlink.RTM_GETADDRLABEL, netlink.NLM_F_DUMP, bytes([_IPV6]) + bytes(_IFADDRLBLMSG.size - 1)
)
_GET_RULES: Final = netlink.request(netlink.RTM_GETRULE, netlink.NLM_F_DUMP, bytes(12))


def _get_routes(family: int) -> bytes:
    return netlink.request(
        netlink.RTM_GETROUTE, netlink.NLM_F_DUMP, bytes([family]) + bytes(_RTMSG.size - 1)
    )


# --- messages ----------------------------------------------------------------------------


def _rows(reply: bytes, head: struct.Struct) -> Iterator[tuple[tuple[int, ...], dict[int, bytes]]]:
    """Header and attributes of each message; raises ValueError for a reply that is cut short."""
    for message in netlink.messages(reply):
        if message.type in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            continue
        content = netlink.body(reply, message)
        if len(content) < head.size:
            raise ValueError(f"netlink message at byte {message.offset} has no header")
        yield head.unpack_from(content), dict(netlink.attributes(content[head.size :]))


def _address(raw: bytes | None, family: int) -> str | None:
    return printed(raw) if raw is not None and len(raw) * 8 == _BITS[family] else None


def _prefix(raw: bytes | None, length: int, family: int) -> str:
    """ "192.0.2.0/24"; without an address it is the default."""
    zero = bytes(_BITS[family] // 8)
    return f"{_address(raw, family) or printed(zero)}/{min(length, _BITS[family])}"


def _member(table: type[N], value: int) -> N | Missing:
    return table.from_number(value) or Missing(Why.MALFORMED, f"{table.__name__} {value}")


def _name(names: Mapping[int, str], index: int | None) -> str:
    return names.get(index or 0) or f"#{index or 0}"


def parse_links(reply: bytes) -> tuple[Link, ...] | Missing:
    """The reply to an RTM_GETLINK dump."""
    try:
        found = tuple(_links(reply))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    names = {link.ifindex: link.name for link, _, _ in found}
    return tuple(
        replace(link, master=names.get(above), lower=names.get(below))
        for link, above, below in found
    )


def _links(reply: bytes) -> Iterator[tuple[Link, int, int]]:
    """Each with the indexes of what is above and below it in this namespace; 0 for nothing."""
    for (_, kind, index, flags, _), found in _rows(reply, _IFINFO):
        name = netlink.text(found.get(_IFLA_IFNAME))
        info = dict(netlink.attributes(found.get(_IFLA_LINKINFO, b"")))
        kind_of_link = netlink.text(info.get(_INFO_KIND)) or None
        data = dict(netlink.attributes(info.get(_INFO_DATA, b""))) if kind_of_link == "vlan" else {}
        above = netlink.text(info.get(_INFO_SLAVE_KIND)) or None
        of_port = info.get(_INFO_SLAVE_DATA, b"") if above == "bridge" else b""
        state = netlink.number(dict(netlink.attributes(of_port)).get(_BRPORT_STATE))
        if name:
            below = 0 if _IFLA_LINK_NETNSID in found else netlink.number(found.get(_IFLA_LINK)) or 0
            link = Link(
                name,
                index,
                loopback=bool(flags & _IFF_LOOPBACK),
                no_arp=bool(flags & _IFF_NOARP),
                vrf=kind_of_link == "vrf",
                type=kind,
                up=bool(flags & _IFF_UP),
                carrier=bool(flags & _IFF_LOWER_UP),
                kind=kind_of_link,
                vlan_id=netlink.number(data.get(_VLAN_ID)),
                port_state=None if state is None else BridgePortState.from_number(state),
            )
            yield link, netlink.number(found.get(_IFLA_MASTER)) or 0, 0 if below == index else below


def parse_routes(reply: bytes, names: Mapping[int, str]) -> tuple[Route, ...] | Missing:
    """The reply to RTM_GETROUTE, a dump or one answer; `names` of netdevs by their index."""
    rows = ((head, found) for head, found in _rows(reply, _RTMSG) if head[0] in _BITS)
    routes = (_route(head, found, names) for head, found in rows)
    return gathered((each for each in routes if each.kind not in _LEFT_OUT), MOST, "routes")


def _route(head: tuple[int, ...], found: dict[int, bytes], names: Mapping[int, str]) -> Route:
    family, length, source_length, tos, table, _, _, kind, flags = head
    own = netlink.number(found.get(_RTA_TABLE))
    metrics = dict(netlink.attributes(found.get(_RTA_METRICS, b"")))
    return Route(
        destination=_prefix(found.get(_RTA_DST), length, family),
        table=table if own is None else own,
        kind=_member(RouteKind, kind),
        hops=tuple(_hops(found, family, flags, names)),
        metric=netlink.number(found.get(_RTA_PRIORITY)) or 0,
        source=_address(found.get(_RTA_PREFSRC), family),
        from_prefix=_prefix(found.get(_RTA_SRC), source_length, family) if source_length else None,
        tos=tos,
        mtu=netlink.number(metrics.get(_RTAX_MTU)),
        has_nexthop_object=_RTA_NH_ID in found,
        hop_limit=netlink.number(metrics.get(_RTAX_HOPLIMIT)) or None,
        is_cached=bool(flags & _RTM_F_CLONED),
        is_redirected=bool(flags & _RTCF_REDIRECTED),
    )


def _hops(
    found: dict[int, bytes], family: int, flags: int, names: Mapping[int, str]
) -> Iterator[Hop]:
    several = found.get(_RTA_MULTIPATH, b"")
    if not several:
        index = netlink.number(found.get(_RTA_OIF))
        if index is not None:
            yield Hop(_name(names, index), _gateway(found, family), dead=bool(flags & _NOT_IN_USE))
        return
    at = 0
    while at + _RTNEXTHOP.size <= len(several):
        size, state, hops, index = _RTNEXTHOP.unpack_from(several, at)
        if size < _RTNEXTHOP.size or at + size > len(several):
            return
        own = dict(netlink.attributes(several[at + _RTNEXTHOP.size : at + size]))
        yield Hop(
            _name(names, index), _gateway(own, family), hops + 1, dead=bool(state & _NOT_IN_USE)
        )
        at += (size + 3) & ~3


def _gateway(found: dict[int, bytes], family: int) -> str | None:
    via = found.get(_RTA_VIA, b"")  # struct rtvia: an IPv6 gateway of an IPv4 route
    other = int.from_bytes(via[:2], sys.byteorder) if len(via) > 2 else 0
    if other in _BITS:
        return _address(via[2:], other)
    return _address(found.get(_RTA_GATEWAY), family)


def parse_rules(reply: bytes) -> tuple[Rule, ...] | Missing:
    """The reply to an RTM_GETRULE dump, IPv4's and IPv6's alone."""
    rows = (each for each in _rows(reply, _RULE) if each[0][0] in _BITS)
    return gathered((_rule(head, found) for head, found in rows), MOST, "rules")


def _rule(head: tuple[int, ...], found: dict[int, bytes]) -> Rule:
    family, length, source_length, tos, table, _, _, action, flags = head
    own = netlink.number(found.get(_FRA_TABLE))
    mark = netlink.number(found.get(_FRA_FWMARK))
    mask = netlink.number(found.get(_FRA_FWMASK))
    users = found.get(_FRA_UIDS, b"")
    suppressed = netlink.number(found.get(_FRA_SUPPRESS_PREFIXLEN))
    return Rule(
        version=_VERSION[family],
        priority=netlink.number(found.get(_FRA_PRIORITY)) or 0,
        action=_member(RuleAction, action),
        table=table if own is None else own,
        inverted=bool(flags & _FIB_RULE_INVERT),
        source=_prefix(found.get(_FRA_SRC), source_length, family) if source_length else None,
        destination=_prefix(found.get(_FRA_DST), length, family) if length else None,
        input=netlink.text(found.get(_FRA_IIFNAME)),
        output=netlink.text(found.get(_FRA_OIFNAME)),
        mark=(mark or 0, _UNSET if mask is None else mask) if mark or mask else None,
        users=struct.unpack("=II", users) if len(users) == 8 else None,
        tos=tos,
        target=netlink.number(found.get(_FRA_GOTO)),
        suppressed_length=None if suppressed == _UNSET else suppressed,
        other=tuple(
            word
            for number, word in _FRA_OTHER.items()
            if number in found and not _is_unset(number, found[number])
        ),
    )


def _is_unset(number: int, content: bytes) -> bool:
    """FRA_SUPPRESS_IFGROUP is -1 and FRA_L3MDEV 0 where nothing was asked for."""
    return content == b"\xff\xff\xff\xff" if number == 13 else not any(content)


def parse_neighbours(reply: bytes, names: Mapping[int, str]) -> tuple[Neighbour, ...] | Missing:
    """The reply to an RTM_GETNEIGH dump."""
    return gathered(_neighbours_of(reply, names), MOST, "neighbours")


def _neighbours_of(reply: bytes, names: Mapping[int, str]) -> Iterator[Neighbour]:
    for (family, index, state, _, _), attributes in _rows(reply, _NDMSG):
        address = attributes.get(_NDA_DST)
        text = _address(address, family) if family in _BITS else None
        if text is not None:
            mac = attributes.get(_NDA_LLADDR)
            of_mac = mac.hex(":") if mac else None
            cache = attributes.get(_NDA_CACHEINFO, b"")
            ticks = _CACHEINFO.unpack_from(cache)[2] if len(cache) >= _CACHEINFO.size else None
            yield Neighbour(
                text,
                _name(names, index),
                _member(NeighbourState, state),
                of_mac,
                None if ticks is None else ticks / _TICKS,
            )


def parse_soliciting(reply: bytes, names: Mapping[int, str]) -> tuple[Soliciting, ...] | Missing:
    """The reply to an RTM_GETNEIGHTBL dump: each table's own row, and those that differ from it."""
    rows = gathered(_soliciting(reply, names), MOST, "rows of neighbour tables")
    if isinstance(rows, Missing):
        return rows
    usual = {(each.version, *_counts(each)) for each in rows if each.netdev is None}
    return tuple(
        each for each in rows if each.netdev is None or (each.version, *_counts(each)) not in usual
    )


def parse_address_labels(
    reply: bytes, names: Mapping[int, str]
) -> tuple[AddressLabel, ...] | Missing:
    """The reply to an RTM_GETADDRLABEL dump, the kernel's own rows among them."""
    return gathered(_address_labels(reply, names), MOST, "labels of addresses")


def _address_labels(reply: bytes, names: Mapping[int, str]) -> Iterator[AddressLabel]:
    for (family, length, index, _), found in _rows(reply, _IFADDRLBLMSG):
        label = netlink.number(found.get(_IFAL_LABEL))
        if family == _IPV6 and label is not None:
            prefix = _prefix(found.get(_IFAL_ADDRESS), length, family)
            yield AddressLabel(prefix, label, _name(names, index) if index else None)


def _counts(row: Soliciting) -> tuple[int, int, int]:
    return row.multicast, row.unicast, row.by_program


def _soliciting(reply: bytes, names: Mapping[int, str]) -> Iterator[Soliciting]:
    for (family,), found in _rows(reply, _NDTMSG):
        own = dict(netlink.attributes(found.get(_NDTA_PARMS, b"")))
        counts = [
            netlink.number(own.get(each)) for each in (_NDTPA_MULTICAST, _NDTPA_UNICAST, _NDTPA_APP)
        ]
        if family not in _BITS or None in counts:
            continue
        index = netlink.number(own.get(_NDTPA_IFINDEX))
        netdev = None if index is None else _name(names, index)
        yield Soliciting(_VERSION[family], netdev, *(each or 0 for each in counts))


# --- files -------------------------------------------------------------------------------


def parse_roce_mode(raw: bytes) -> GidType | Missing:
    """default_roce_mode: "RoCE v2"."""
    text = raw.decode("latin-1").strip()
    return _MODES.get(text) or malformed(raw, "a RoCE mode")


def parse_port_mapper(raw: bytes) -> bool | Missing:
    """/proc/net/udp → whether a socket has the port of iwpmd."""
    text = raw.decode("latin-1")
    if "local_address" not in text.partition("\n")[0]:
        return malformed(raw, "a table of UDP sockets")
    return any(int(found, 16) == _PORT_MAPPER for found in _UDP_ROW.findall(text))


# --- reading -----------------------------------------------------------------------------


def read_routing(host: Host, deadline: float) -> RoutingFacts | Missing:
    """Every route and rule of this network namespace; `deadline` as in Host.netlink."""
    links = _ask(host, "route-getlink", netlink.GET_LINKS, parse_links, deadline)
    if isinstance(links, Missing):
        return links
    names = {each.ifindex: each.name for each in links}
    parse = partial(parse_routes, names=names)
    tables = [
        _ask(host, f"route-getroute-{_VERSION[family]}", _get_routes(family), parse, deadline)
        for family in _BITS
    ]
    return RoutingFacts(
        links=links,
        routes=_joined(*tables),
        rules=_ask(host, "route-getrule", _GET_RULES, parse_rules, deadline),
        roce_modes=_roce_modes(host),
        port_mapper=_port_mapper(host),
        neighbours=_neighbours(host, names, deadline),
        traffic_control=read_traffic_control(host, names, deadline),
        packet_filter=read_packet_filter(host, deadline),
        soliciting=_ask(
            host,
            "route-getneightbl",
            _GET_NEIGHBOUR_TABLES,
            partial(parse_soliciting, names=names),
            deadline,
        ),
        address_labels=_ask(
            host,
            "route-getaddrlabel",
            _GET_ADDRESS_LABELS,
            partial(parse_address_labels, names=names),
            deadline,
        ),
    )


def _neighbours(
    host: Host, names: Mapping[int, str], deadline: float
) -> tuple[Neighbour, ...] | Missing:
    """A dump: no entry is made."""
    parse = partial(parse_neighbours, names=names)
    return _ask(host, "route-getneigh", _GET_NEIGHBOURS, parse, deadline)


def _joined(
    first: tuple[Route, ...] | Missing, second: tuple[Route, ...] | Missing
) -> tuple[Route, ...] | Missing:
    """Both tables; a kernel without IPv6 has none of its."""
    if isinstance(first, Missing):
        return first
    if isinstance(second, Missing):
        return first if second.why is Why.UNSUPPORTED and "EOPNOTSUPP" in second.detail else second
    return first + second


def _ask(
    host: Host, name: str, request: bytes, parse: Callable[[bytes], T | Missing], deadline: float
) -> T | Missing:
    reply = dump(host, name, netlink.NETLINK_ROUTE, request, deadline)
    return reply if isinstance(reply, Missing) else parse(reply)


def _roce_modes(host: Host) -> tuple[RoceMode, ...] | Missing:
    """Of the folders that are there: to make one is a change of the host."""
    devices = host.list(_CONFIGFS)
    if isinstance(devices, Missing):
        return devices
    found = []
    for device in filter(is_device_name, devices):
        ports = host.list(f"{_CONFIGFS}/{device}/ports")
        for port in () if isinstance(ports, Missing) else ports:
            folder = f"{_CONFIGFS}/{device}/ports/{port}"
            found.append(
                RoceMode(
                    f"{device}/{port}",
                    attribute(host, f"{folder}/default_roce_mode", parse_roce_mode),
                    attribute(host, f"{folder}/default_roce_tos", parse_number),
                )
            )
    return tuple(found)


def _port_mapper(host: Host) -> bool | Missing:
    raw = host.read(_UDP, _UDP_LIMIT)
    return raw if isinstance(raw, Missing) else parse_port_mapper(raw)


def read_towards(
    host: Host, deadline: float, asked: tuple[Asked, ...] = ()
) -> TowardsFacts | Missing:
    """The kernel's own answers, and all neighbours."""
    links = _ask(host, "route-getlink", netlink.GET_LINKS, parse_links, deadline)
    if isinstance(links, Missing):
        return links
    names = {each.ifindex: each.name for each in links}
    return TowardsFacts(
        tuple(KernelAnswer(each, _answer(host, each, names, deadline)) for each in asked),
        _neighbours(host, names, deadline),
        attribute(host, _HASH_POLICY, parse_number),
    )


def _answer(host: Host, asked: Asked, names: Mapping[int, str], deadline: float) -> Route | Missing:
    """Of a record there is none: it knew no destination."""
    request = question(asked)
    name = f"route-getroute-to-{asked.destination}".replace(":", ".")
    reply = host.netlink(name, netlink.NETLINK_ROUTE, request, deadline)
    found = reply if isinstance(reply, Missing) else parse_routes(reply, names)
    if isinstance(found, Missing):
        return found
    return found[0] if found else Missing(Why.MALFORMED, "RTM_GETROUTE: no route in the reply")


def question(asked: Asked) -> bytes:
    """RTM_GETROUTE as addr4_resolve and addr6_resolve look it up: user 0, no protocol, no mark."""
    family = _IPV6 if ":" in asked.destination else _IPV4
    bits = _BITS[family]
    pack = packed_ipv6 if family == _IPV6 else packed_ipv4
    head = _RTMSG.pack(
        family, bits, bits if asked.source else 0, 0, 0, 0, 0, 0, _RTM_F_LOOKUP_TABLE
    )
    content = [netlink.attribute(_RTA_DST, pack(asked.destination))]
    if asked.source:
        content.append(netlink.attribute(_RTA_SRC, pack(asked.source)))
    if asked.ifindex is not None:
        content.append(netlink.attribute(_RTA_OIF, struct.pack("=I", asked.ifindex)))
    content.append(netlink.attribute(_RTA_UID, struct.pack("=I", 0)))
    return netlink.request(netlink.RTM_GETROUTE, 0, head + b"".join(content))
