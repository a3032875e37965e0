"""DCB netlink: PFC, ETS, APP table, buffers, DCBX and the peer's side of each netdev of a port.

RTM_GETDCB with DCB_CMD_IEEE_GET (net/dcb/dcbnl.c), one message a netdev: there is no dump. What
a driver cannot say it leaves out, and one without DCB refuses the message with EOPNOTSUPP.

    /sys/class/net/ens1f0np0/qos/trust    dscp
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dcb import (
    App,
    AppSelector,
    Buffers,
    DcbFacts,
    Dcbx,
    Ets,
    Ieee,
    NetdevDcb,
    Pfc,
    Transmission,
    Trust,
)
from rdmadiag.facts.routing import Link
from rdmadiag.host import Host, netlink
from rdmadiag.sources.port_netdevs import read_links_of_ports
from rdmadiag.sources.sysfs import NET_CLASS
from rdmadiag.sources.text import attribute, malformed

T = TypeVar("T")

_MOST_APPS: Final = 4096

_IFNAME, _IEEE, _DCBX = 1, 13, 14  # DCB_ATTR_*
_ETS, _PFC, _APP_TABLE, _PEER_ETS, _PEER_PFC, _PEER_APP = 1, 2, 3, 4, 5, 6  # DCB_ATTR_IEEE_*
_BUFFER, _APP_TRUST = 10, 11
_APP_ENTRIES: Final = (1, 2)  # DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP

_PRIORITIES: Final = 8
_PFC_HEAD: Final = struct.Struct("=BBBxH")  # pfc_cap, pfc_en, mbc, delay; then statistics
_ETS_HEAD: Final = struct.Struct("=BBB8s8x8s8s")  # …, tc_tx_bw, tc_tsa, prio_tc; then advice
_APP: Final = struct.Struct("=BBH")
_BUFFERS: Final = struct.Struct("=8s8II")


# --- messages ----------------------------------------------------------------------------


def ieee_request(netdev: str) -> bytes:
    """DCB_CMD_IEEE_GET for one netdev."""
    name = netlink.attribute(_IFNAME, netdev.encode("utf-8", "surrogateescape") + b"\0")
    head = netlink.DCB_HEADER.pack(0, netlink.DCB_CMD_IEEE_GET)
    return netlink.request(netlink.RTM_GETDCB, 0, head + name)


def parse_ieee(reply: bytes) -> Ieee | Missing:
    """The reply to DCB_CMD_IEEE_GET."""
    try:
        message = next(netlink.messages(reply), None)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    if message is None:
        return Missing(Why.ABSENT, "empty DCB reply")
    if message.type != netlink.RTM_GETDCB:
        return Missing(Why.MALFORMED, f"message type {message.type} is no DCB reply")
    found = dict(netlink.attributes(netlink.body(reply, message, netlink.DCB_HEADER.size)))
    if _IEEE not in found:
        return Missing(Why.MALFORMED, "DCB reply without DCB_ATTR_IEEE")
    ieee = dict(netlink.attributes(found[_IEEE]))
    return Ieee(
        pfc=_part(ieee, _PFC, "PFC", parse_pfc),
        ets=_part(ieee, _ETS, "ETS", parse_ets),
        apps=_part(ieee, _APP_TABLE, "APP table", parse_apps),
        trust=_part(ieee, _APP_TRUST, "trust table", parse_app_trust),
        buffers=_part(ieee, _BUFFER, "buffers", parse_buffers),
        dcbx=_part(found, _DCBX, "DCBX mode", parse_dcbx),
        peer_pfc=_part(ieee, _PEER_PFC, "PFC of the peer", parse_pfc),
        peer_ets=_part(ieee, _PEER_ETS, "ETS of the peer", parse_ets),
        peer_apps=_part(ieee, _PEER_APP, "APP table of the peer", parse_apps),
    )


def _part(
    found: dict[int, bytes], kind: int, what: str, parse: Callable[[bytes], T | Missing]
) -> T | Missing:
    content = found.get(kind)
    if content is None:
        return Missing(Why.UNSUPPORTED, f"the driver gives no {what}")
    return parse(content)


def parse_pfc(raw: bytes) -> Pfc | Missing:
    """struct ieee_pfc."""
    if len(raw) < _PFC_HEAD.size:
        return _short("ieee_pfc", raw)
    capability, enabled, bypass, delay = _PFC_HEAD.unpack_from(raw)
    priorities = tuple(each for each in range(_PRIORITIES) if enabled >> each & 1)
    return Pfc(capability, priorities, delay, bool(bypass))


def parse_ets(raw: bytes) -> Ets | Missing:
    """struct ieee_ets."""
    if len(raw) < _ETS_HEAD.size:
        return _short("ieee_ets", raw)
    willing, capability, shaper, bandwidth, transmission, class_of = _ETS_HEAD.unpack_from(raw)
    return Ets(
        willing=bool(willing),
        capability=capability,
        credit_shaper=bool(shaper),
        class_of=tuple(class_of),
        bandwidth_percent=tuple(bandwidth),
        transmission=tuple(
            Transmission.from_number(each) or Missing(Why.MALFORMED, f"transmission {each}")
            for each in transmission
        ),
    )


def parse_apps(raw: bytes) -> tuple[App, ...] | Missing:
    """DCB_ATTR_IEEE_APP_TABLE, DCB_ATTR_IEEE_PEER_APP: struct dcb_app, any number of them."""
    found = []
    for kind, content in netlink.attributes(raw):
        if kind not in _APP_ENTRIES:
            continue
        if len(content) < _APP.size:
            return _short("dcb_app", content)
        selector, priority, protocol = _APP.unpack_from(content)
        found.append(App(_selector(selector), protocol, priority))
        if len(found) > _MOST_APPS:
            return Missing(Why.UNSUPPORTED, f"more than {_MOST_APPS} APP entries")
    return tuple(found)


def parse_app_trust(raw: bytes) -> tuple[AppSelector | Missing, ...] | Missing:
    """DCB_ATTR_DCB_APP_TRUST_TABLE: selectors, the first that fits a packet wins."""
    found = [content for kind, content in netlink.attributes(raw) if kind in _APP_ENTRIES]
    if any(len(each) != 1 for each in found):
        return Missing(Why.MALFORMED, "a selector that is not one byte")
    return tuple(_selector(each[0]) for each in found[:256])


def _selector(number: int) -> AppSelector | Missing:
    return AppSelector.from_number(number) or Missing(Why.MALFORMED, f"APP selector {number}")


def parse_buffers(raw: bytes) -> Buffers | Missing:
    """struct dcbnl_buffer."""
    if len(raw) < _BUFFERS.size:
        return _short("dcbnl_buffer", raw)
    buffer_of, *sizes, total = _BUFFERS.unpack_from(raw)
    return Buffers(tuple(buffer_of), tuple(sizes), total)


def parse_dcbx(raw: bytes) -> tuple[Dcbx, ...] | Missing:
    """DCB_ATTR_DCBX: flags."""
    flags = netlink.number(raw)
    if flags is None:
        return _short("DCB_ATTR_DCBX", raw)
    return tuple(each for each in Dcbx if flags & each.number)


def _short(what: str, raw: bytes) -> Missing:
    return Missing(Why.MALFORMED, f"{what} of {len(raw)} bytes")


def parse_trust(raw: bytes) -> Trust | Missing:
    """qos/trust: "dscp", "pcp"."""
    word = raw.decode("latin-1").strip().lower()
    found = next((each for each in Trust if each == word), None)
    return malformed(raw, "dscp or pcp") if found is None else found


# --- reading -----------------------------------------------------------------------------


def read_dcb(host: Host, deadline: float) -> DcbFacts | Missing:
    """Each netdev of a port, where it is in this namespace; `deadline` as in Host.netlink."""
    links = read_links_of_ports(host, deadline)
    if isinstance(links, Missing):
        return links
    return DcbFacts(tuple(_netdev(host, link, deadline) for link in links))


def _netdev(host: Host, link: Link, deadline: float) -> NetdevDcb:
    reply = host.netlink(
        f"dcb-ieee-get-{link.ifindex}", netlink.NETLINK_ROUTE, ieee_request(link.name), deadline
    )
    found = reply if isinstance(reply, Missing) else parse_ieee(reply)
    if isinstance(found, Missing) and found.why is Why.UNSUPPORTED:
        found = replace(found, detail=f"{found.detail}: the driver of {link.name} has no DCB")
    safe = "/" not in link.name
    return NetdevDcb(
        link.name,
        found,
        attribute(host, f"{NET_CLASS}/{link.name}/qos/trust", parse_trust)
        if safe
        else malformed(link.name.encode(), "a file's name"),
    )
