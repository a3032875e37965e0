"""Routes, rules and neighbours of a described host, as rtnetlink gives them."""

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from lab.encoded import encoded
from lab.netdevs import NetDev
from rdmadiag.host import netlink


@dataclass(frozen=True)
class Way:
    """A row of a routing table: `ip route add DESTINATION via GATEWAY dev NETDEV table TABLE`."""

    destination: str  # "192.0.2.0/24"
    netdev: str | None = None
    gateway: str | None = None
    source: str | None = None
    table: int = 254
    kind: int = 1  # RTN_UNICAST
    metric: int = 0
    hops: tuple[tuple[str, str | None], ...] = ()  # netdev, gateway: several of one row
    hop_limit: int | None = None  # RTAX_HOPLIMIT
    flags: int = 0  # rtm_flags: RTM_F_CLONED, RTCF_REDIRECTED


@dataclass(frozen=True)
class Rule:
    """`ip rule add priority PRIORITY from SOURCE table TABLE`."""

    priority: int
    table: int = 254
    source: str | None = None
    destination: str | None = None
    action: int = 1  # FR_ACT_TO_TBL
    mark: int | None = None
    input: str | None = None
    output: str | None = None
    suppressed_length: int | None = None
    target: int | None = None
    flags: int = 0
    ip_proto: int | None = None
    version: int = 4


DEFAULT_RULES = (Rule(0, 255), Rule(32766, 254), Rule(32767, 253))
# Of net/ipv6/addrlabel.c; `ip addrlabel` of Linux 7.2 has the same.
DEFAULT_LABELS = (
    *(("::1/128", 0), ("::ffff:0:0/96", 4), ("::/96", 3), ("2001:10::/28", 7)),
    *(("2001::/32", 6), ("2002::/16", 2), ("fc00::/7", 5), ("::/0", 1)),
)


def encoded_rule(rule: Rule) -> bytes:
    """RTM_NEWRULE."""
    message = fibmsg()
    message["family"] = 10 if rule.version == 6 else 2
    message["table"] = min(rule.table, 255)
    message["action"] = rule.action
    message["flags"] = rule.flags
    attributes: list[tuple[str, Any]] = [
        ("FRA_TABLE", rule.table),
        ("FRA_PRIORITY", rule.priority),
        (
            "FRA_SUPPRESS_PREFIXLEN",
            0xFFFFFFFF if rule.suppressed_length is None else rule.suppressed_length,
        ),
    ]
    for name, text in (("src", rule.source), ("dst", rule.destination)):
        if text:
            address, _, length = text.partition("/")
            message[f"{name}_len"] = int(length)
            attributes.append((f"FRA_{name.upper()}", address))
    for name, value in (
        ("FWMARK", rule.mark),
        ("IIFNAME", rule.input),
        ("OIFNAME", rule.output),
        ("GOTO", rule.target),
        ("IP_PROTO", rule.ip_proto),
    ):
        if value is not None:
            attributes.append((f"FRA_{name}", value))
    message["attrs"] = attributes
    return encoded(message, 32)


def own_ways(netdevs: Iterable[NetDev]) -> Iterator[Way]:
    """What the kernel adds with an address of a netdev that is up."""
    for netdev in netdevs:
        for text in netdev.addresses if netdev.up else ():
            address, _, _ = text.partition("/")
            network = ip_interface(text).network
            wide = ":" in address
            yield Way(f"{network}", netdev.name, source=None if wide else address)
            if address in netdev.not_local:
                continue
            yield Way(
                f"{address}/{128 if wide else 32}",
                netdev.name,
                source=None if wide else address,
                table=255,
                kind=2,
            )


def encoded_way(way: Way, ifindex: Callable[[str], int]) -> bytes:
    """RTM_NEWROUTE."""
    destination, _, length = way.destination.partition("/")
    message = rtmsg()
    wide = ":" in destination
    message["family"] = 10 if wide else 2
    message["dst_len"] = int(length)
    message["table"] = min(way.table, 255)
    message["type"] = way.kind
    message["flags"] = way.flags
    attributes: list[tuple[str, Any]] = [("RTA_TABLE", way.table)]
    if int(length):
        attributes.append(("RTA_DST", destination))
    if way.netdev:
        attributes.append(("RTA_OIF", ifindex(way.netdev)))
    if way.gateway:
        attributes.append(("RTA_GATEWAY", way.gateway))
    if way.source:
        attributes.append(("RTA_PREFSRC", way.source))
    if way.metric:
        attributes.append(("RTA_PRIORITY", way.metric))
    if way.hops:
        hops = []
        for netdev, gateway in way.hops:
            own = [("RTA_GATEWAY", gateway)] if gateway else []
            hops.append({"hops": 0, "oif": ifindex(netdev), "attrs": own})
        attributes.append(("RTA_MULTIPATH", hops))
    if way.hop_limit is not None:
        metrics = {"attrs": [("RTAX_HOPLIMIT", way.hop_limit)]}
        attributes.append(("RTA_METRICS", metrics))
    message["attrs"] = attributes
    return encoded(message, 24)


def encoded_label(prefix: str, label: int, ifindex: int = 0) -> bytes:
    """RTM_NEWADDRLABEL."""
    address, _, length = prefix.partition("/")
    content = struct.pack("=BxBxII", 10, int(length), ifindex, 0)
    content += netlink.attribute(1, socket.inet_pton(socket.AF_INET6, address))
    content += netlink.attribute(2, struct.pack("=I", label))
    return netlink.request(72, netlink.NLM_F_MULTI, content)


def encoded_neighbour(
    ifindex: int, address: str, known: int | tuple[int, str] | tuple[int, str, float]
) -> bytes:
    """RTM_NEWNEIGH of `known`: its state, MAC address, and the seconds since it was changed."""
    state, mac, *ages = known if isinstance(known, tuple) else (known, "0c:42:a1:00:00:99")
    message = ndmsg()
    message["family"] = 10 if ":" in address else 2
    message["ifindex"] = ifindex
    message["state"] = state
    message["attrs"] = [("NDA_DST", address), ("NDA_LLADDR", mac)]
    for age in ages:
        ticks = int(age * 100)
        cache = {"ndm_confirmed": 0, "ndm_used": 0, "ndm_updated": ticks, "ndm_refcnt": 0}
        message["attrs"].append(("NDA_CACHEINFO", cache))
    return encoded(message, 28)
