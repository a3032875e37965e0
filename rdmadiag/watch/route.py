"""rtnetlink's notifications: links, addresses, routes, neighbours and rules.

Links and addresses are read by hand: pyroute2 takes a tenth of a millisecond for each message,
and an event is late by as much as those before it took. Routes, neighbours and rules have their
parsers in rdmadiag.sources.routing.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.facts.address import printed
from rdmadiag.frozen import dataclass
from rdmadiag.host import netlink
from rdmadiag.sources.routing import parse_neighbours, parse_routes, parse_rules
from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value

GROUPS: Final = (1, 3, 5, 7, 8, 9, 11, 19)
"""RTNLGRP_* of linux/rtnetlink.h: LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE, IPV6_IFADDR,
IPV6_ROUTE, IPV6_RULE."""

_NEWLINK, _DELLINK = 16, 17  # RTM_* of the same
_NEWADDR, _DELADDR = 20, 21
_NEWROUTE, _DELROUTE = 24, 25
_NEWNEIGH, _DELNEIGH = 28, 29
_NEWRULE, _DELRULE = 32, 33

_IFINFO: Final = struct.Struct("=BxHiII")  # family, ifi_type, index, flags, change
_BRIDGE: Final = 7  # AF_BRIDGE: of a bridge port, sent beside what its netdev sends
_IFF_UP: Final = 1
_ADDRESS, _IFNAME, _MTU, _MASTER, _OPERSTATE, _LINKINFO, _CARRIER = (
    1,
    3,
    4,
    10,
    16,
    18,
    33,
)  # IFLA_*
_INFO_KIND: Final = 1
_OPERSTATES: Final = (
    *("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"),
)
"""IF_OPER_* of linux/if.h, by their numbers."""

_IFADDR: Final = struct.Struct("=BBBBI")  # family, prefixlen, flags, scope, index
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
_TENTATIVE, _DADFAILED = 0x40, 0x08  # IFA_F_*


@dataclass(frozen=True, slots=True)
class LinkState:
    """Of a netdev, what an event compares."""

    name: str  # IFLA_IFNAME
    admin_up: bool  # IFF_UP
    operstate: str | None  # IFLA_OPERSTATE
    carrier: bool | None  # IFLA_CARRIER
    mtu: int | None  # IFLA_MTU
    mac: str | None  # IFLA_ADDRESS
    master: int | None  # IFLA_MASTER, an index
    kind: str | None  # IFLA_INFO_KIND


class Links:
    """The netdevs of this network namespace by index, as the last message about each had them."""

    def __init__(self) -> None:
        self.known: dict[int, LinkState] = {}
        self.names: dict[int, str] = {}

    def learn(self, reply: bytes) -> None:
        """From the reply to an RTM_GETLINK dump; what cannot be read is left out."""
        try:
            for message in netlink.messages(reply):
                found = link_of(netlink.body(reply, message))
                if message.type == _NEWLINK and found is not None:
                    self.set(*found)
        except ValueError:
            return

    def set(self, index: int, state: LinkState) -> LinkState | None:
        """Keeps the state of a link; returns the one before, None of a new link."""
        before = self.known.get(index)
        self.known[index] = state
        self.names[index] = state.name
        return before

    def forget(self, index: int) -> None:
        """Drops a link that was removed."""
        self.known.pop(index, None)
        self.names.pop(index, None)


def parse_notifications(datagram: bytes, links: Links) -> tuple[Happened, ...]:
    """The events in one datagram of rtnetlink, in their order; `links` follows them.

    What cannot be understood is an event that says so.
    """
    found: list[Happened] = []
    try:
        for message in netlink.messages(datagram):
            end = message.offset + message.length
            found += _events(message.type, datagram[message.offset : end], links)
    except ValueError as error:
        found.append(unreadable(Source.ROUTE, str(error)))
    return tuple(found)


def unreadable(source: Source, why: str) -> Happened:
    """A message that was not understood, which is no reason to be silent about it."""
    details: Mapping[str, Value] = {"why": why[:200]}
    return Happened(source, Kind.UNREADABLE, Action.NOTIFIED, source, details, NOTHING)


def _events(kind: int, message: bytes, links: Links) -> Iterator[Happened]:
    head = next(netlink.messages(message))
    content = netlink.body(message, head)
    if kind in (_NEWLINK, _DELLINK):
        yield from _link(content, kind == _DELLINK, links)
    elif kind in (_NEWADDR, _DELADDR):
        yield from _address(content, kind == _DELADDR, links)
    elif kind in (_NEWROUTE, _DELROUTE):
        yield from _route(message, kind == _DELROUTE, links)
    elif kind in (_NEWNEIGH, _DELNEIGH):
        yield from _neighbour(message, kind == _DELNEIGH, links)
    elif kind in (_NEWRULE, _DELRULE):
        yield from _rule(message, kind == _DELRULE)


def link_of(content: bytes) -> tuple[int, LinkState] | None:
    """Index and state in struct ifinfomsg and its attributes; None for a bridge's port.

    Raises ValueError for what is cut short or has no name.
    """
    if len(content) < _IFINFO.size:
        raise ValueError("a link without its header")
    family, _, index, flags, _ = _IFINFO.unpack_from(content)
    if family == _BRIDGE:
        return None
    found = dict(netlink.attributes(content[_IFINFO.size :]))
    name = netlink.text(found.get(_IFNAME)) or _raw_name(found.get(_IFNAME))
    if name is None:
        raise ValueError(f"link {index} has no name")
    state = netlink.number(found.get(_OPERSTATE))
    carrier = netlink.number(found.get(_CARRIER))
    info = dict(netlink.attributes(found.get(_LINKINFO, b"")))
    mac = found.get(_ADDRESS)
    return index, LinkState(
        name,
        bool(flags & _IFF_UP),
        _OPERSTATES[state] if state is not None and state < len(_OPERSTATES) else None,
        None if carrier is None else bool(carrier),
        netlink.number(found.get(_MTU)),
        mac.hex(":") if mac else None,
        netlink.number(found.get(_MASTER)) or None,
        netlink.text(info.get(_INFO_KIND)),
    )


def _raw_name(raw: bytes | None) -> str | None:
    """Linux allows any bytes in a name but a slash and white space."""
    name = (raw or b"").rstrip(b"\0").decode("utf-8", "backslashreplace")
    return name or None


def _link(content: bytes, removed: bool, links: Links) -> Iterator[Happened]:
    found = link_of(content)
    if found is None:
        return
    index, state = found
    now = _of_link(state, links)
    if removed:
        links.forget(index)
        yield Happened(Source.ROUTE, Kind.LINK, Action.REMOVED, state.name, now, NOTHING)
        return
    before = links.set(index, state)
    if before is None:
        yield Happened(Source.ROUTE, Kind.LINK, Action.ADDED, state.name, now, NOTHING)
        return
    was = _of_link(before, links)
    changed = [name for name, value in now.items() if was[name] != value]
    action = Action.CHANGED if changed else Action.NOTIFIED
    if before.name != state.name:
        action = Action.RENAMED
    old = {name: was[name] for name in changed}
    yield Happened(Source.ROUTE, Kind.LINK, action, state.name, now, old)


_FIELDS: Final = tuple(each.name for each in fields(LinkState))


def _of_link(state: LinkState, links: Links) -> dict[str, Value]:
    found: dict[str, Value] = {name: getattr(state, name) for name in _FIELDS}
    master = state.master
    found["master"] = None if master is None else links.names.get(master, f"#{master}")
    return found


def address_of(content: bytes) -> tuple[int, str, dict[str, Value]]:
    """Index, "192.0.2.1/24" and the rest of struct ifaddrmsg; raises ValueError."""
    if len(content) < _IFADDR.size:
        raise ValueError("an address without its header")
    _, length, flags, scope, index = _IFADDR.unpack_from(content)
    found = dict(netlink.attributes(content[_IFADDR.size :]))
    # On a point-to-point link IFA_ADDRESS is the peer; IFA_LOCAL is ours.
    raw = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS) or b""
    if len(raw) not in (4, 16):
        raise ValueError(f"an address of {len(raw)} bytes")
    wide = netlink.number(found.get(_IFA_FLAGS))
    flags = flags if wide is None else wide
    details: dict[str, Value] = {
        "scope": scope,
        "tentative": bool(flags & _TENTATIVE),
        "duplicate": bool(flags & _DADFAILED),
    }
    return index, f"{printed(raw)}/{length}", details


def _address(content: bytes, removed: bool, links: Links) -> Iterator[Happened]:
    index, text, details = address_of(content)
    details = {"netdev": links.names.get(index, f"#{index}"), **details}
    action = Action.REMOVED if removed else Action.ADDED
    yield Happened(Source.ROUTE, Kind.ADDRESS, action, text, details, NOTHING)


def _route(message: bytes, removed: bool, links: Links) -> Iterator[Happened]:
    for each in _or_raise(parse_routes(message, links.names)):
        hop = each.hops[0] if each.hops else None
        details: dict[str, Value] = {
            "netdev": hop.netdev if hop else None,
            "gateway": hop.gateway if hop else None,
            "hops": len(each.hops),
            "dead": any(hop.dead for hop in each.hops),
            "table": each.table,
            "type": str(each.kind),
            "metric": each.metric,
            "source": each.source,
        }
        action = Action.REMOVED if removed else Action.ADDED
        yield Happened(Source.ROUTE, Kind.ROUTE, action, each.destination, details, NOTHING)


def _neighbour(message: bytes, removed: bool, links: Links) -> Iterator[Happened]:
    for each in _or_raise(parse_neighbours(message, links.names)):
        details: dict[str, Value] = {
            "netdev": each.netdev,
            "state": str(each.state),
            "mac": each.mac,
        }
        action = Action.REMOVED if removed else Action.CHANGED
        yield Happened(Source.ROUTE, Kind.NEIGHBOUR, action, each.address, details, NOTHING)


def _rule(message: bytes, removed: bool) -> Iterator[Happened]:
    for each in _or_raise(parse_rules(message)):
        details: dict[str, Value] = {
            "version": each.version,
            "action": str(each.action),
            "table": each.table,
            "from": each.source,
            "to": each.destination,
            "input": each.input,
            "output": each.output,
        }
        action = Action.REMOVED if removed else Action.ADDED
        yield Happened(Source.ROUTE, Kind.RULE, action, str(each.priority), details, NOTHING)


def _or_raise(found: Any) -> Any:
    if isinstance(found, Missing):
        raise ValueError(found.detail)  # noqa: TRY004  # a Missing is what could not be read
    return found
