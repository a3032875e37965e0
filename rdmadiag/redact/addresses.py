"""Addresses of every kind, as bytes in network order: what derives from one another still does.

0c:42:a1:24:3f:0e           MAC
0e42:a1ff:fe24:3f0e         its modified EUI-64 (RFC 4291, appendix A), in fe80:: and in GIDs
0c42:a103:0024:3f0e         the GUID that a firmware makes of it
fe80::e42:a1ff:fe24:3f0e    a GID: subnet prefix and GUID, or an address of the netdev
"""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.redact.pseudonyms import Pseudonyms

_OF_MAC: Final = (b"\xff\xfe", b"\x03\x00")  # between its halves: EUI-64, Mellanox's firmware
_ISATAP: Final = (b"\0\0\x5e\xfe", b"\x02\0\x5e\xfe")  # RFC 5214
_LINK_LOCAL: Final = bytes.fromhex("fe80000000000000")
_MAPPED: Final = bytes(10) + b"\xff\xff"  # ::ffff:0:0/96
_NAT64: Final = bytes.fromhex("0064ff9b0000000000000000")
_SOLICITED: Final = bytes.fromhex("ff0200000000000000000001ff")  # RFC 4291, 2.7.1
_GROUP_MAC: Final = b"\x33\x33"  # RFC 2464, 7
_WELL_KNOWN_GROUPS: Final = 1 << 16
_MAC_FLAGS: Final = 0x3  # individual or group, universal or local
_KEPT_MAC_BITS: Final = 4

_CLASSES4: Final = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
    *("203.0.113.0/24", "224.0.0.0/24", "224.0.0.0/4", "239.0.0.0/8", "240.0.0.0/4"),
)
"""RFC 6890, RFC 5771: an address stays in its own."""

_WHOLE4: Final = tuple(
    map(ipaddress.IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/24", "240.0.0.0/4"))
)
"""Of these each address is everybody's."""

_CLASSES6: Final = (
    *("2000::/3", "2001:db8::/32", "fc00::/8", "fd00::/8", "fe80::/10", "fec0::/10", "ff00::/8"),
)


def _above(classes: Iterable[str]) -> frozenset[tuple[int, int]]:
    """Leading bits and how many they are, of all that holds a class and something else too."""
    found = set()
    for each in map(ipaddress.ip_network, classes):
        value = int(each.network_address)
        for length in range(each.prefixlen):
            found.add((value >> (each.max_prefixlen - length), length))
    return frozenset(found)


_ABOVE4: Final = _above(_CLASSES4)
_ABOVE6: Final = _above(_CLASSES6)


def _mixed4(before: int, length: int) -> bool:
    return (before, length) in _ABOVE4


def _mixed6(before: int, length: int) -> bool:
    return (before, length) in _ABOVE6


_ENDS4: Final = frozenset(
    int(each).to_bytes(4, "big")
    for network in map(ipaddress.IPv4Network, _CLASSES4)
    for each in (network.network_address, network.broadcast_address)
)
"""Networks that are everybody's, such as 192.0.2.0/24."""


class Addresses:
    """What one key makes of addresses. Those it was given are kept as `seen`."""

    def __init__(
        self, pseudonyms: Pseudonyms, seen: "Seen | None" = None, collecting: "Seen | None" = None
    ) -> None:
        """`seen` are addresses of the same host that were given before."""
        self._pseudonyms = pseudonyms
        self._known = Seen() if seen is None else seen
        self.seen = Seen() if collecting is None else collecting
        self._lengths = sorted({length for _, length in self._known.networks}, reverse=True)
        self._solicited = {each[13:]: each for each in sorted(self._known.ipv6)}

    def by_chance(self) -> Iterator[bytes]:
        """The known addresses that have another known one as their pseudonym."""
        known = self._known
        for before, make in (
            (known.ipv4, self.ipv4),
            (known.ipv6, self.ipv6),
            (known.macs, self.mac),
            (known.guids, self.guid),
        ):
            yield from (each for each in before if each not in _ENDS4 and make(each) in before)

    # --- IPv4 ----------------------------------------------------------------------------

    def ipv4(self, raw: bytes) -> bytes:
        """An address of a host, or one for all hosts of a network that is known."""
        if any(ipaddress.IPv4Address(raw) in each for each in _WHOLE4):
            return raw
        self.seen.ipv4.add(raw)
        value = int.from_bytes(raw, "big")
        return self._of_network(value).to_bytes(4, "big")

    def _plain4(self, value: int) -> int:
        return self._pseudonyms.number("ipv4", value, 32, _mixed4)

    def _of_network(self, value: int) -> int:
        """The first and last address of a network stay the first and last of one.

        What would have taken their place has the one that they would have had.
        """
        found = self._plain4(value)
        lengths = (
            each for each in self._lengths if (value & ~_hosts(each), each) in self._known.networks
        )
        length = next(lengths, None)
        if length is None:
            return found
        network = value & ~_hosts(length)
        made = self._plain4(network) & ~_hosts(length)
        fixed = {network: made, network | _hosts(length): made | _hosts(length)}
        if value in fixed:
            return fixed[value]
        taken = {target: self._plain4(origin) for origin, target in fixed.items()}
        for _ in fixed:  # what it would get may be taken as well
            found = taken.get(found, found)
        return found

    def network4(self, raw: bytes, length: int) -> bytes:
        """An address with the length of its network: bits behind that are 0 where they were."""
        if length >= 32:
            return self.ipv4(raw)
        value = int.from_bytes(raw, "big")
        if value & _hosts(length):
            return self.ipv4(raw)
        if any(ipaddress.IPv4Address(raw) in each for each in _WHOLE4) or not length:
            return raw
        self.seen.ipv4.add(raw)
        return (self._plain4(value) & ~_hosts(length)).to_bytes(4, "big")

    def learn4(self, raw: bytes, length: int) -> None:
        """That there is a network of this length with this address in it."""
        if 8 <= length <= 30:  # of a longer one both ends may be hosts
            value = int.from_bytes(raw, "big") & ~_hosts(length)
            self.seen.networks.add((value, length))

    # --- IPv6 and GIDs -------------------------------------------------------------------

    def ipv6(self, raw: bytes) -> bytes:
        """An address or a GID, 16 bytes."""
        number = int.from_bytes(raw, "big")
        if number <= 1:
            return raw
        if raw[:12] in (_MAPPED, _NAT64):
            return raw[:12] + self.ipv4(raw[12:])
        if not any(raw[6:]) and raw[:6] in self._known.macs:
            return self.mac(raw[:6]) + raw[6:]  # of an iWARP device
        if raw[0] == 0xFF:
            return self._group(raw)
        if raw[:8] == _LINK_LOCAL and not any(raw[8:]):
            return raw
        self.seen.ipv6.add(raw)
        return self.prefix(raw[:8]) + self.interface(raw[8:])

    def network6(self, raw: bytes, length: int) -> bytes:
        """An address with the length of its network: bits behind that are 0 where they were."""
        mask = (1 << (128 - length)) - 1
        value = int.from_bytes(raw, "big")
        if value & mask or not value:
            return self.ipv6(raw)
        if raw[0] == 0xFF and length <= 16:
            return raw
        if length <= 10 and raw[:8] == _LINK_LOCAL:
            return raw
        return (int.from_bytes(self.ipv6(raw), "big") & ~mask).to_bytes(16, "big")

    def prefix(self, raw: bytes) -> bytes:
        """The first 64 bits; InfiniBand's own subnet prefix is that of link-local addresses."""
        if raw == _LINK_LOCAL or not any(raw):
            return raw
        if raw[0] == 0xFE:
            self.seen.prefixes.add(raw)
        value = self._pseudonyms.number("ipv6", int.from_bytes(raw, "big"), 64, _mixed6)
        return value.to_bytes(8, "big")

    def _group(self, raw: bytes) -> bytes:
        if raw[:13] == _SOLICITED:
            return _SOLICITED + self._low24(raw[13:])
        if int.from_bytes(raw[2:], "big") < _WELL_KNOWN_GROUPS or raw[2:4] == b"\x40\x1b":
            # RFC 4391, 4: of InfiniBand, with a P_Key and the group of IPv4.
            return raw
        value = int.from_bytes(raw[2:], "big")
        return raw[:2] + self._pseudonyms.number("group", value, 112).to_bytes(14, "big")

    def _low24(self, raw: bytes) -> bytes:
        """Of the unicast address whose end it is, where that is known."""
        of = self._solicited.get(raw)
        if of is not None:
            return self.ipv6(of)[13:]
        value = self._pseudonyms.number("solicited", int.from_bytes(raw, "big"), 24)
        return value.to_bytes(3, "big")

    # --- GUIDs and MACs ------------------------------------------------------------------

    def interface(self, raw: bytes) -> bytes:
        """The last 64 bits of an address."""
        if raw[:4] in _ISATAP:
            return raw[:4] + self.ipv4(raw[4:])
        return self._eui64(raw)

    def guid(self, raw: bytes) -> bytes:
        """A GUID, 8 bytes; one that is a subnet prefix stays one."""
        if raw == _LINK_LOCAL or raw in self._known.prefixes:
            return self.prefix(raw)
        if any(raw) and set(raw) != {0xFF}:
            self.seen.guids.add(raw)
        return self._eui64(raw)

    def _eui64(self, raw: bytes) -> bytes:
        if not any(raw) or set(raw) == {0xFF}:
            return raw
        if raw[3:5] in _OF_MAC:
            made = self._permuted(raw[:3] + raw[5:])
            return made[:3] + raw[3:5] + made[3:]
        if not any(raw[:2]):
            return raw[:2] + self._permuted(raw[2:])
        if not any(raw[6:]):
            return self._permuted(raw[:6]) + raw[6:]
        made = self._permuted(raw[:3] + raw[5:])
        between = self._pseudonyms.number(
            f"mid{raw[:3].hex()}", int.from_bytes(raw[3:5], "big"), 16
        )
        return made[:3] + between.to_bytes(2, "big") + made[3:]

    def mac(self, raw: bytes) -> bytes:
        """6 bytes; those of groups as the address that they stand for."""
        if not any(raw) or set(raw) == {0xFF}:
            return raw
        if raw[:3] == b"\x01\x00\x5e":  # RFC 1112, 6.4
            value = self._pseudonyms.number("group mac", int.from_bytes(raw[3:], "big"), 24)
            return raw if not any(raw[3:5]) else raw[:3] + (value & 0x7FFFFF).to_bytes(3, "big")
        if raw[:2] == _GROUP_MAC:
            return raw[:3] + self._low24(raw[3:]) if raw[2] == 0xFF else raw
        if raw[:2] == b"\x01\x80":  # bridges, LLDP
            return raw
        self.seen.macs.add(raw)
        return self._permuted(raw)

    def _permuted(self, raw: bytes) -> bytes:
        """Without the two flags of its first byte, which an EUI-64 may have inverted."""
        flags = raw[0] & _MAC_FLAGS
        value = raw[0] >> 2 << 40 | int.from_bytes(raw[1:], "big")
        made = self._pseudonyms.number("mac", value >> _KEPT_MAC_BITS, 46 - _KEPT_MAC_BITS)
        made = made << _KEPT_MAC_BITS | value & ((1 << _KEPT_MAC_BITS) - 1)
        return bytes([made >> 40 << 2 | flags]) + (made & ((1 << 40) - 1)).to_bytes(5, "big")

    def hardware(self, raw: bytes) -> bytes:
        """A link layer's address: MAC, GUID, InfiniBand's of 20 bytes, or that of a tunnel."""
        of = {4: self.ipv4, 6: self.mac, 8: self.guid, 16: self.ipv6}.get(len(raw))
        if of:
            return of(raw)
        if len(raw) == 20:  # RFC 4391, 9.1.1
            return raw[:4] + self.ipv6(raw[4:])
        return bytes(len(raw))


class Seen:
    """Addresses of one host, as bytes; networks as number and length."""

    def __init__(self) -> None:
        self.ipv4: set[bytes] = set()
        self.ipv6: set[bytes] = set()
        self.macs: set[bytes] = set()
        self.guids: set[bytes] = set()
        self.prefixes: set[bytes] = set()
        self.networks: set[tuple[int, int]] = set()


def _hosts(length: int) -> int:
    return (1 << (32 - length)) - 1
