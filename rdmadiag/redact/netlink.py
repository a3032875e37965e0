"""Netlink replies with pseudonyms in them: made anew of the attributes that are known here.

What is not in a table is left out: a kernel may say anything in an attribute that came later.
"""

import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from rdmadiag.facts.address import packed_ipv6
from rdmadiag.host import netlink
from rdmadiag.redact.addresses import Addresses
from rdmadiag.redact.packet_filter import Rules
from rdmadiag.sources.nldev_messages import ATTRIBUTES

Table = Mapping[int, Any]  # number → RAW and so on, or the table of a nest

RAW, TEXT, ADDRESS, HARDWARE, GUID, PREFIX, SOCKADDR, HOPS, VIA, VF_MAC, VF_GUID = (
    *("raw", "text", "address", "hardware", "guid", "prefix"),
    *("sockaddr", "hops", "via", "vf mac", "vf guid"),
)
MEMORY, NUMBER = "memory", "number"  # a number has at most 4 bytes
ACTIONS, WORDS = "actions", "words"  # of a filter: what it does; struct tc_u32_sel
BLANK = "blank"  # bytes of zero, as many
SOURCE_NETWORK, NETWORK = "source network", "network"  # by the lengths in the message's header
LABELLED = "labelled"  # a network, its length in struct ifaddrlblmsg

_ATTRIBUTE: Final = struct.Struct("=HH")
_HEADER: Final = struct.Struct("=IHHII")
_NEXTHOP: Final = struct.Struct("=HBBi")  # struct rtnexthop
_INET, _INET6 = 2, 10


def _raw(*numbers: int) -> dict[int, Any]:
    return dict.fromkeys(numbers, RAW)


_NLDEV: dict[int, Any] = {}
_NLDEV |= {
    number: {"asciiz": TEXT, "nest": _NLDEV}.get(kind, RAW)
    for number, _, kind in ATTRIBUTES
    if kind != "none"
}
_NLDEV |= {6: GUID, 7: GUID, 8: PREFIX, 33: SOCKADDR, 34: SOCKADDR, 5: RAW}

_LINK: Final = {
    **_raw(4, 5, 6, 7, 10, 13, 16, 17, 21, 23, 27, 30, 31, 32, 33, 35, 37, 39, 40, 41, 42, 43),
    **_raw(44, 47, 48, 50, 51, 55, 59, 60, 61, 63),
    1: HARDWARE,
    2: HARDWARE,
    3: TEXT,
    18: _raw(1, 4),  # IFLA_LINKINFO: its kind, and what it is a part of
    22: {1: {1: VF_MAC, **_raw(2, 3, 4, 5, 6, 7, 8, 9), 10: VF_GUID, 11: VF_GUID}},
    26: {_INET: {1: RAW}, _INET6: {2: RAW}},  # IFLA_AF_SPEC: IFLA_INET_CONF, IFLA_INET6_CONF
    54: HARDWARE,
}
_INFO_OF: Final = {
    b"vlan": {1: RAW, 5: RAW},  # IFLA_VLAN_ID, IFLA_VLAN_PROTOCOL
    b"bond": {1: NUMBER, 14: NUMBER, 23: {1: NUMBER, 5: HARDWARE}},  # IFLA_BOND_*, as are read
}
"""IFLA_INFO_DATA of links that are read further."""

_LEG_OF: Final = {b"bond": dict.fromkeys((1, 2, 3, 6, 7, 8, 11, 12), NUMBER)}
"""IFLA_INFO_SLAVE_DATA by what a link is a part of: IFLA_BOND_SLAVE_*."""

_ADDRESS: Final = {1: ADDRESS, 2: ADDRESS, 3: TEXT, 4: ADDRESS, 5: ADDRESS, **_raw(6, 8, 9, 11)}
_ROUTE: Final = {
    **_raw(3, 4, 6, 8, 12, 15, 16, 20, 25, 26, 30),
    1: NETWORK,
    2: SOURCE_NETWORK,
    5: ADDRESS,
    7: ADDRESS,
    9: HOPS,
    18: VIA,
}
_ADDRESS_LABEL: Final = {1: LABELLED, 2: RAW}
_LABELS_OF_EVERY_HOST: Final = frozenset(
    (packed_ipv6(address), length)
    for address, length in (
        *(("::", 0), ("::1", 128), ("::", 96), ("::ffff:0:0", 96), ("fc00::", 7), ("fec0::", 10)),
        *(("2002::", 16), ("3ffe::", 16), ("2001::", 32), ("2001:10::", 28)),
    )
)
"""Of net/ipv6/addrlabel.c: they say nothing of a host."""
_NEIGHBOUR: Final = {1: ADDRESS, 2: HARDWARE, **_raw(3, 4, 8, 9)}
_NEIGHBOUR_TABLE: Final = {1: RAW, 6: _raw(1, 9, 10, 11)}
_RULE: Final = {
    **_raw(4, 6, 10, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 24, 25, 26),
    1: NETWORK,
    2: SOURCE_NETWORK,
    3: TEXT,
    17: TEXT,
}
_ETHTOOL: Final = dict.fromkeys(range(2, 64), RAW) | {1: {1: RAW, 2: TEXT, 3: RAW}}
_FAMILIES: Final = _raw(1, 2, 3, 4, 5, 6)
_DEVLINK: Final = {
    **_raw(3, 25, 26, 62, 80, 98, 100, 101, 102),
    1: TEXT,
    2: TEXT,
    114: _raw(115, 116, 117, 118, 120, 121, 136, 141),
}
_DCB: Final = {1: TEXT, **_raw(2, 13, 14)}
_FLOWER: Final = {
    **_raw(5, 7, 8, 9, 11, 13, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, *range(35, 39), 86),
    3: ACTIONS,
    2: TEXT,
    4: HARDWARE,
    6: HARDWARE,
    **dict.fromkeys((10, 12, 14, 16), ADDRESS),
}
_FILTER_OF: Final = {
    b"flower": _FLOWER,
    b"u32": {**dict.fromkeys((1, 2, 3, 4), NUMBER), 5: WORDS, 7: ACTIONS},
    b"matchall": {2: ACTIONS, 3: RAW},
    b"basic": {3: ACTIONS},
    b"fw": {4: ACTIONS},
    b"bpf": {1: ACTIONS, 8: NUMBER},
}
"""TCA_OPTIONS of filters by their kind, as they are read."""
_FILTER_OF_OTHER: Final[Table] = dict.fromkeys(range(1, 16), BLANK)
"""Of another kind only that it has options."""
_FILTER: Final[Table] = {}
_ACTION_OF: Final = {b"gact": {2: RAW}, b"mirred": {2: RAW}, b"police": {1: RAW}}
"""TCA_ACT_OPTIONS of actions that are read; others may hold an address."""
_U32_HEAD, _U32_KEY = 16, struct.Struct(">II8s")  # struct tc_u32_sel; its keys: mask, value, place
_ADDRESS_WORDS: Final = (12, 16)  # of an IPv4 header
_PLAIN_WORDS: Final = (8, 20)  # its protocol, and the ports behind it

_MODULE: Final = {7: MEMORY}  # ETHTOOL_A_MODULE_EEPROM_DATA

# Of sets of nftables nothing is taken: what one holds may be an address in any form.
_LEFT_OUT: Final[Table] = {}
_CHAINS: Final[Table] = {}
_RULES: Final[Table] = {}

_KINDS: Final[tuple[tuple[str, int, Table], ...]] = (
    # name in a record, bytes of the family's own header, attributes
    ("nldev-", 0, _NLDEV),
    ("route-getlink", 16, _LINK),
    ("route-getaddrlabel", 12, _ADDRESS_LABEL),
    ("route-getaddr", 8, _ADDRESS),
    ("route-getroute-4", 12, _ROUTE),
    ("route-getroute-6", 12, _ROUTE),
    ("route-getneightbl", 4, _NEIGHBOUR_TABLE),
    ("route-getneigh", 12, _NEIGHBOUR),
    ("route-getrule", 12, _RULE),
    ("route-getqdisc", 20, _raw(1, 2)),
    ("route-gettfilter-", 20, _FILTER),
    ("genl-families", 4, _FAMILIES),
    ("ethtool-module-eeprom-", 4, _MODULE),
    ("ethtool-", 4, _ETHTOOL),
    ("devlink-", 4, _DEVLINK),
    ("dcb-ieee-get-", 4, _DCB),
    ("nft-getchain", 4, _CHAINS),
    ("nft-getrule", 4, _RULES),
    ("nft-", 4, _LEFT_OUT),
)


class Messages:
    """Makes replies anew: `text` is of netdevs and devices, `chain` of tables and chains."""

    def __init__(
        self, addresses: Addresses, text: Callable[[str], str], chain: Callable[[str], str]
    ) -> None:
        self._addresses = addresses
        self._rules = Rules(addresses, text, chain)
        self._text = text
        self._span = 0  # bytes of a module's memory that were asked for

    def __call__(self, name: str, reply: bytes) -> bytes:
        """The reply of this name in a record; raises ValueError for what is none of ours."""
        kind = next((each for each in _KINDS if name.startswith(each[0])), None)
        if kind is None:
            raise ValueError(f"a reply to nothing that is known here: {name:.60}")
        _, skip, table = kind
        self._span = _span(name) if table is _MODULE else 0
        made = bytearray()
        for message in netlink.messages(reply):
            header = bytearray(reply[message.offset : message.offset + _HEADER.size])
            body = netlink.body(reply, message)
            if message.type == netlink.NLMSG_DONE:
                made += _HEADER.pack(_HEADER.size + 4, *_HEADER.unpack(header)[1:]) + bytes(4)
                continue
            if table is _LEFT_OUT:
                raise ValueError(f"{name}: what it says may be an address in any form")
            if len(body) < skip:
                raise ValueError(f"{name}: a message without its header")
            if table is _CHAINS or table is _RULES:
                if message.type == netlink.NLMSG_ERROR:
                    raise ValueError(f"{name}: an error")
                row = dict(netlink.attributes(body[skip:]))
                made_of = self._rules.chain if table is _CHAINS else self._rules.rule
                content = body[:skip] + made_of(row)
            else:
                own = table
                if table is _LINK:
                    own = self._link_table(body[skip:])
                elif table is _FILTER:
                    kind_of = dict(netlink.attributes(body[skip:])).get(1, b"").rstrip(b"\0")
                    own = {**_raw(1, 11), 2: _FILTER_OF.get(kind_of, _FILTER_OF_OTHER)}
                content = body[:skip] + self._attributes(body[skip:], own, body[:skip])
            made += _HEADER.pack(_HEADER.size + len(content), *_HEADER.unpack(header)[1:])
            made += content + bytes(-len(content) % 4)
        return bytes(made)

    def _link_table(self, raw: bytes) -> Table:
        """What IFLA_INFO_DATA holds depends on the kind."""
        found = dict(netlink.attributes(raw))
        info = dict(netlink.attributes(found.get(18, b"")))
        own, above = (info.get(number, b"").rstrip(b"\0") for number in (1, 4))
        return {**_LINK, 18: {**_raw(1, 4), 2: _INFO_OF.get(own), 5: _LEG_OF.get(above)}}

    def _attributes(self, raw: bytes, table: Table, head: bytes) -> bytes:
        made = bytearray()
        at = 0
        while at + _ATTRIBUTE.size <= len(raw):
            length, number = _ATTRIBUTE.unpack_from(raw, at)
            if length < _ATTRIBUTE.size or at + length > len(raw):
                break
            content = raw[at + _ATTRIBUTE.size : at + length]
            at += (length + 3) & ~3
            how = table.get(number & 0x3FFF)
            if how is None:
                continue
            new = (
                content
                if how is RAW
                else self._attributes(content, how, head)
                if isinstance(how, Mapping)
                else self._made(how, content, head)
            )
            made += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(new), number) + new
            made += bytes(-len(new) % 4)
        return bytes(made)

    def _made(self, how: str, raw: bytes, head: bytes) -> bytes:
        of_length: dict[str, Callable[[bytes], bytes]] = {
            TEXT: self._string,
            ADDRESS: self._ip,
            HARDWARE: self._addresses.hardware,
            GUID: self._guid,
            PREFIX: self._prefix,
            SOCKADDR: self._sockaddr,
            NUMBER: lambda raw: raw if len(raw) <= 4 else bytes(len(raw)),
            MEMORY: lambda raw: raw[: self._span],
            VIA: lambda raw: raw[:2] + self._ip(raw[2:]),
            VF_MAC: self._vf_mac,
            VF_GUID: self._vf_guid,
            ACTIONS: self._actions,
            WORDS: self._words,
            BLANK: lambda raw: bytes(len(raw)),
        }
        if how is ADDRESS and len(raw) == 4 and len(head) == 8:  # struct ifaddrmsg
            self._addresses.learn4(raw, head[1])
        if how is HOPS:
            return self._hops(raw, head)
        if how in (NETWORK, SOURCE_NETWORK):
            return self._network(raw, head[1 if how is NETWORK else 2])
        if how is LABELLED:
            return raw if (raw, head[2]) in _LABELS_OF_EVERY_HOST else self._network(raw, head[2])
        return of_length[how](raw)

    def _string(self, raw: bytes) -> bytes:
        return self._text(raw.rstrip(b"\0").decode("utf-8", "replace")).encode() + b"\0"

    def _guid(self, raw: bytes) -> bytes:
        if len(raw) != 8:
            return bytes(len(raw))
        return _swapped(self._addresses.guid(_swapped(raw)))

    def _prefix(self, raw: bytes) -> bytes:
        if len(raw) != 8:
            return bytes(len(raw))
        return _swapped(self._addresses.prefix(_swapped(raw)))

    def _vf_mac(self, raw: bytes) -> bytes:
        """struct ifla_vf_mac."""
        if len(raw) < 10:
            return bytes(len(raw))
        return raw[:4] + self._addresses.mac(raw[4:10]) + bytes(len(raw) - 10)

    def _vf_guid(self, raw: bytes) -> bytes:
        """struct ifla_vf_guid: a number, padding, a GUID."""
        return raw[:4] + bytes(4) + self._guid(raw[8:]) if len(raw) == 16 else bytes(len(raw))

    def _ip(self, raw: bytes) -> bytes:
        of = {4: self._addresses.ipv4, 16: self._addresses.ipv6}.get(len(raw))
        return of(raw) if of else bytes(len(raw))

    def _network(self, raw: bytes, length: int) -> bytes:
        if len(raw) == 4:
            self._addresses.learn4(raw, length)
            return self._addresses.network4(raw, length)
        if len(raw) == 16:
            return self._addresses.network6(raw, min(length, 128))
        return bytes(len(raw))

    def _sockaddr(self, raw: bytes) -> bytes:
        """struct sockaddr_storage, its port as it is."""
        family = int.from_bytes(raw[:2], sys.byteorder)
        made = bytearray(len(raw))
        if family == _INET and len(raw) >= 8:
            made[:8] = raw[:4] + self._addresses.ipv4(raw[4:8])
        elif family == _INET6 and len(raw) >= 28:
            made[:28] = raw[:8] + self._addresses.ipv6(raw[8:24]) + raw[24:28]
        else:
            made[:2] = raw[:2]
        return bytes(made)

    def _actions(self, raw: bytes) -> bytes:
        made = bytearray()
        for number, content in netlink.attributes(raw):
            kind = dict(netlink.attributes(content)).get(1, b"").rstrip(b"\0")
            own = self._attributes(content, {1: RAW, 2: _ACTION_OF.get(kind)}, b"")
            made += netlink.attribute(number, own)
        return bytes(made)

    def _words(self, raw: bytes) -> bytes:
        """Of other words than those that are known the value is blank."""
        made = bytearray(raw[:_U32_HEAD])
        for at in range(_U32_HEAD, len(raw) - _U32_KEY.size + 1, _U32_KEY.size):
            mask, value, place = _U32_KEY.unpack_from(raw, at)
            offset = int.from_bytes(place[:4], sys.byteorder, signed=True)
            if offset in _ADDRESS_WORDS:
                content = value.to_bytes(4)
                value = int.from_bytes(self._network(content, mask.bit_count())) & mask
            elif offset not in _PLAIN_WORDS:
                value = 0
            made += _U32_KEY.pack(mask, value, place)
        return bytes(made)

    def _hops(self, raw: bytes, head: bytes) -> bytes:
        made = bytearray()
        at = 0
        while at + _NEXTHOP.size <= len(raw):
            size, *rest = _NEXTHOP.unpack_from(raw, at)
            if size < _NEXTHOP.size or at + size > len(raw):
                break
            own = self._attributes(raw[at + _NEXTHOP.size : at + size], _ROUTE, head)
            made += _NEXTHOP.pack(_NEXTHOP.size + len(own), *rest) + own
            at += (size + 3) & ~3
        return bytes(made)


def _swapped(raw: bytes) -> bytes:
    """nldev has GUIDs as numbers of the host's order."""
    return raw[::-1] if sys.byteorder == "little" else raw


def _span(name: str) -> int:
    """How many bytes of a module's memory were asked for: they end before its serial number."""
    length = name.rpartition("-")[2]
    if not length.isdecimal():
        raise ValueError(f"{name:.60}: not the name of a span of a module's memory")
    return int(length)
