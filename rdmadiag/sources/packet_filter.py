"""nfnetlink: chains and rules of nftables, which iptables-nft and firewalld write, too.

    nft -a list ruleset         NFT_MSG_GETCHAIN, NFT_MSG_GETRULE
    table ip filter { chain INPUT { type filter hook input priority filter; policy accept;
        udp dport 4791 drop # handle 4 } }

A rule is a list of expressions on registers (linux/netfilter/nf_tables.h): what of them is not
read here makes it a rule with more conditions. One that asks whether a set holds a port is a row of
each interval of the set (sources.packet_sets). The kernel loads nfnetlink for a
socket of this protocol and nf_tables for its first request (net/netfilter/nfnetlink.c), so that
neither is made where they are not there already. Its rules are for CAP_NET_ADMIN alone.
"""

import ipaddress
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.address import printed
from rdmadiag.facts.packet_filter import FilterChain, PacketFilter
from rdmadiag.facts.traffic_control import ANY, IN, IPV4, IPV6, OUT, TrafficFilter
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump
from rdmadiag.sources.nfnetlink import HEADER, number, rows, text
from rdmadiag.sources.packet_sets import Interval, Key, read_sets
from rdmadiag.sources.text import attribute, parse_text

MOST: Final = 4096  # rules of the host, and of a chain with those that it jumps to
_DEEP: Final = 16  # NFT_JUMP_STACK_SIZE

_FAMILIES: Final = {1: "inet", 2: "ip", 5: "netdev", 10: "ip6"}  # NFPROTO_*; not arp, not bridge
_ETHER: Final = {"ip": IPV4, "ip6": IPV6}
_HOOKS: Final = {0: IN, 1: IN, 3: OUT, 4: OUT, 5: IN}  # NF_INET_*, but forward
_NETDEV_HOOKS: Final = {0: IN, 1: OUT}  # NF_NETDEV_*
# NFTA_CHAIN_*, NFTA_HOOK_*, NFTA_RULE_*, NFTA_EXPR_*
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_POLICY = 1, 3, 4, 5
_HOOK_NUMBER, _HOOK_PRIORITY, _HOOK_DEVICE = 1, 2, 3
_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS = 1, 2, 3, 4
_EXPR_NAME, _EXPR_DATA = 1, 2
_LOOKUP_SET: Final = 1
_DROP, _ACCEPT, _JUMP, _GOTO, _RETURN = 0, 1, -3, -4, -5  # NF_*, NFT_*
# NFT_META_*
_META_PROTOCOL, _META_IIFNAME, _META_OIFNAME, _META_NFPROTO, _META_L4PROTO = 1, 6, 7, 15, 16
_OF_OWNER: Final = ("meta 10", "meta 11")  # NFT_META_SKUID, NFT_META_SKGID
_NETWORK, _TRANSPORT = 1, 2  # NFT_PAYLOAD_*_HEADER
_OF_IP: Final = {(12, 4): "source", (16, 4): "destination"}  # offset, length
_OF_IP6: Final = {(8, 16): "source", (24, 16): "destination"}
_CT_STATE: Final = 0  # NFT_CT_STATE
_OF_A_FIRST: Final = 1 << 3 | 1 << 6  # NF_CT_STATE_BIT of new, untracked
_HARMLESS: Final = frozenset({"counter", "log", "notrack", "last"})

GET_CHAINS: Final = netlink.request(netlink.NFT_GETCHAIN, netlink.NLM_F_DUMP, HEADER.pack(0, 0, 0))
GET_RULES: Final = netlink.request(netlink.NFT_GETRULE, netlink.NLM_F_DUMP, HEADER.pack(0, 0, 0))


@dataclass(frozen=True, slots=True)
class _Chain:
    hook: int | None
    priority: int
    netdev: str
    drops: bool  # its policy


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule: its conditions, and where it goes on."""

    filter: TrafficFilter
    verdict: int | None = None  # _DROP …; None: it goes on
    chain: str = ""  # of _JUMP, _GOTO
    never: bool = False  # a first packet does not match


_Key = tuple[int, str, str]  # family, table, chain

_DESTINATION_PORT: Final = f"payload {_TRANSPORT} 2 2"
_EVERY_PORT: Final = (0, 0xFFFF)
_BOUNDS: Final[Mapping[int, Callable[[int], tuple[int, int]]]] = {  # NFT_CMP_*
    2: lambda value: (0, value - 1),
    3: lambda value: (0, value),
    4: lambda value: (value + 1, 0xFFFF),
    5: lambda value: (value, 0xFFFF),
}
_ROWS_OF_A_RULE: Final = 64


def parse_packet_filter(
    chains: bytes, rules: bytes, sets: Mapping[Key, tuple[Interval, ...]] = MappingProxyType({})
) -> PacketFilter | Missing:
    """The replies to NFT_MSG_GETCHAIN and NFT_MSG_GETRULE; of other sets than these nothing is
    known.
    """
    try:
        known = dict(_chains(chains))
        found = _rules(rules, sets)
        made = [_made(key, each, found) for key, each in known.items() if each.hook is not None]
    except ValueError as error:
        if sets:  # by their elements perhaps too many rows
            return parse_packet_filter(chains, rules)
        return Missing(Why.MALFORMED, str(error))
    return PacketFilter(tuple(sorted(filter(None, made), key=lambda each: each.priority)))


def asked_sets(rules: bytes) -> frozenset[Key]:
    """Family, table and name of those that rules ask; raises ValueError."""
    found = set()
    for family, row in rows(rules):
        for name, data in _expressions(row.get(_RULE_EXPRESSIONS, b"")):
            if name == "lookup" and (of := text(data.get(_LOOKUP_SET))):
                found.add((family, text(row.get(_RULE_TABLE)), of))
    return frozenset(found)


def _expressions(raw: bytes) -> Iterator[tuple[str, dict[int, bytes]]]:
    for _, element in netlink.attributes(raw):
        row = dict(netlink.attributes(element))
        yield text(row.get(_EXPR_NAME)), dict(netlink.attributes(row.get(_EXPR_DATA, b"")))


def _chains(reply: bytes) -> Iterator[tuple[_Key, _Chain]]:
    for family, row in rows(reply):
        hook = dict(netlink.attributes(row.get(_CHAIN_HOOK, b"")))
        key = (family, text(row.get(_CHAIN_TABLE)), text(row.get(_CHAIN_NAME)))
        yield (
            key,
            _Chain(
                number(hook.get(_HOOK_NUMBER)),
                number(hook.get(_HOOK_PRIORITY), signed=True) or 0,
                text(hook.get(_HOOK_DEVICE)),
                number(row.get(_CHAIN_POLICY)) == _DROP,
            ),
        )


def _rules(reply: bytes, sets: Mapping[Key, tuple[Interval, ...]]) -> dict[_Key, list[_Rule]]:
    found: dict[_Key, list[_Rule]] = {}
    for count, (family, row) in enumerate(rows(reply)):
        if count >= MOST:
            raise ValueError(f"more than {MOST} rules")
        key = (family, text(row.get(_RULE_TABLE)), text(row.get(_RULE_CHAIN)))
        handle = number(row.get(_RULE_HANDLE)) or 0
        expressions = row.get(_RULE_EXPRESSIONS, b"")
        reading = _Reading(key[:2], handle, sets)
        found.setdefault(key, []).extend(reading.rules(expressions))
    return found


class _Reading:
    """The expressions of one rule: what is in which register, and what it has to be."""

    def __init__(
        self, table: tuple[int, str], handle: int, sets: Mapping[Key, tuple[Interval, ...]]
    ) -> None:
        name = _FAMILIES.get(table[0], "")
        self._table = table
        self._sets = sets
        self._registers: dict[int, tuple[str, bytes]] = {}  # what it holds, and the mask over it
        self._ether = _ETHER.get(name, ANY)
        self._asked: dict[str, str | int] = {}
        self._ports: tuple[int, int] | None = None  # of the destination
        self._either: list[list[tuple[str, bytes, bytes]]] = []  # of each, one holds
        self._understood = True
        self._never = False
        self._up_to_rate = False
        self._of_owner = False
        self._handle = handle

    def rules(self, expressions: bytes) -> list[_Rule]:
        """Up to its verdict: a row of each of what a set holds, which are together the rule."""
        verdict, chain = None, ""
        for name, data in _expressions(expressions):
            if name == "immediate" and number(data.get(1)) == 0:
                verdict, chain = _verdict(data.get(2, b""))
                break
            if name == "reject" or (name == "target" and text(data.get(1)) == "REJECT"):
                verdict = _DROP
                break
            self._take(name, data)
        made = [self]
        for each in self._either:
            if len(made) * len(each) > _ROWS_OF_A_RULE:
                self._understood = False
                made = [self]
                break
            made = [one.having(*other) for one in made for other in each]
        return [each.rule(verdict, chain) for each in made]

    def having(self, what: str, low: bytes, high: bytes) -> "_Reading":
        """The same rule with one more condition."""
        made = copy(self)
        made.take_on(what, low, high)
        return made

    def take_on(self, what: str, low: bytes, high: bytes) -> None:
        """A condition of its own, which what it was copied from has not."""
        self._asked = dict(self._asked)
        self._understood &= self._asks(what, b"", low, high)

    def rule(self, verdict: int | None, chain: str) -> _Rule:
        """With where it goes on."""
        ports = self._ports
        made = TrafficFilter(
            netdev=str(self._asked.get("netdev", "")),
            direction="",
            kind="nft",
            priority=self._handle,
            ether_type=self._ether,
            drops=verdict == _DROP,
            ends=verdict in (_DROP, _ACCEPT),
            in_hardware=False,
            understood=self._understood,
            protocol=_whole(self._asked.get("protocol")),
            source=_word(self._asked.get("source")),
            destination=_word(self._asked.get("destination")),
            source_port=_whole(self._asked.get("source_port")),
            destination_port=ports[0] if ports else None,
            destination_port_last=ports[1] if ports and ports[1] > ports[0] else None,
            up_to_rate=self._up_to_rate,
            of_owner=self._of_owner,
        )
        return _Rule(made, verdict, chain, self._never)

    def _take(self, name: str, data: Mapping[int, bytes]) -> None:
        takes = {
            "bitwise": self._mask,
            "cmp": self._compare,
            "range": self._between,
            "lookup": self._look_up,
        }
        if name in takes:
            takes[name](data)
        elif name == "meta":
            self._load(data, 1, f"meta {number(data.get(2))}")
        elif name == "payload":
            place = (number(data.get(2)), number(data.get(3)), number(data.get(4)))
            self._load(data, 1, "payload {} {} {}".format(*place))
        elif name == "ct" and number(data.get(2)) == _CT_STATE:
            self._load(data, 1, "ct state")
        elif name == "match":
            self._match(text(data.get(1)), number(data.get(2)) or 0, data.get(3, b""))
        elif name == "limit":
            self._up_to_rate = True
        elif name not in _HARMLESS:
            self._understood = False

    def _load(self, data: Mapping[int, bytes], key: int, what: str) -> None:
        # nft_meta_get_eval_skugid: without a file of a process the rule ends there.
        self._of_owner |= what in _OF_OWNER
        self._registers[number(data.get(key)) or 0] = (what, b"")

    def _mask(self, data: Mapping[int, bytes]) -> None:
        source, into = number(data.get(1)) or 0, number(data.get(2)) or 0
        what, _ = self._registers.get(source, ("", b""))
        mask, xor = (dict(netlink.attributes(data.get(at, b""))).get(1, b"") for at in (4, 5))
        if not mask or any(xor):
            what = ""
        self._registers[into] = (what, mask)

    def _compare(self, data: Mapping[int, bytes]) -> None:
        what, mask = self._registers.get(number(data.get(1)) or 0, ("", b""))
        value = dict(netlink.attributes(data.get(3, b""))).get(1, b"")
        operation = number(data.get(2))
        equal = operation == 0
        if what in _OF_OWNER:
            return
        if what == "ct state":
            # "ct state established,related": the bits are masked, and are not zero.
            bits = int.from_bytes(mask or value, sys.byteorder)
            masked = bool(mask) and not equal and not any(value)
            if (masked or (not mask and equal)) and not bits & _OF_A_FIRST:
                self._never = True
            else:
                self._understood = False
        elif equal:
            self._understood &= self._asks(what, mask, value, value)
        else:
            bounds = _BOUNDS.get(operation or 0)
            fits = what == _DESTINATION_PORT and not mask and len(value) == 2
            known = fits and bounds is not None and self._narrow(*bounds(int.from_bytes(value)))
            self._understood &= known

    def _between(self, data: Mapping[int, bytes]) -> None:
        """What an interval that stands in the rule itself asks."""
        what, mask = self._registers.get(number(data.get(1)) or 0, ("", b""))
        if what in _OF_OWNER:
            return
        low, high = (dict(netlink.attributes(data.get(at, b""))).get(1, b"") for at in (3, 4))
        equal = number(data.get(2)) == 0 and len(low) == len(high)
        self._understood &= equal and not mask and self._asks(what, mask, low, high)

    def _look_up(self, data: Mapping[int, bytes]) -> None:
        """A set: no map, and not what it does not hold."""
        what, mask = self._registers.get(number(data.get(2)) or 0, ("", b""))
        if what in _OF_OWNER:
            return
        found = self._sets.get((*self._table, text(data.get(_LOOKUP_SET))))
        if found is None or mask or 3 in data or number(data.get(5)) or what == "ct state":
            self._understood = False
            return
        self._either.append([each for one in found for each in _alternatives(what, *one)])

    def _match(self, name: str, revision: int, raw: bytes) -> None:
        """An extension of iptables: struct xt_udp, xt_tcp, xt_multiport_v1 and xt_owner_match_info.

        What the kernel sends has no owner: it matches none that is asked for, and each where the
        rule asks for another one (net/netfilter/xt_owner.c).
        """
        if (name, revision) in (("udp", 0), ("tcp", 0)) and len(raw) >= 12 - 3 * (name == "udp"):
            source_low, source_high, low, high = struct.unpack_from("=4H", raw)
            rest = raw[8:12] if name == "tcp" else raw[8:9]  # flags of TCP, and what is inverted
            self._understood &= (source_low, source_high) == _EVERY_PORT and not any(rest)
            self._understood &= self._narrow(low, high)
        elif (
            (name, revision) == ("multiport", 1) and len(raw) >= 48 and raw[0] == 1 and not raw[47]
        ):
            ports = struct.unpack_from("=15H", raw, 2)[: raw[1]]
            first = [at for at in range(len(ports)) if not (at and raw[31 + at])]
            ranges = [(ports[at], ports[min(at + raw[32 + at], len(ports) - 1)]) for at in first]
            places = [each for each in ranges if each[0] <= each[1]]
            made = [(low.to_bytes(2), high.to_bytes(2)) for low, high in places]
            self._either.append([(_DESTINATION_PORT, *each) for each in made])
        elif (name, revision) == ("owner", 1) and len(raw) >= 18 and not raw[17]:
            self._of_owner = True
        elif name in ("limit", "hashlimit"):
            self._up_to_rate = True
        else:
            self._understood = False

    def _narrow(self, low: int, high: int) -> bool:
        """The ports to which it goes are among these, too."""
        before = self._ports or _EVERY_PORT
        ports = max(low, before[0]), min(high, before[1])
        if ports[0] > ports[1]:
            self._never = True
        elif ports != _EVERY_PORT:
            self._ports = ports
        return True

    def _asks(self, what: str, mask: bytes, value: bytes, last: bytes) -> bool:
        """Whether the condition is one that is kept."""
        if what == _DESTINATION_PORT and not mask and len(value) == len(last) == 2:
            return self._narrow(int.from_bytes(value), int.from_bytes(last))
        if value != last:
            return False
        kind, *rest = what.split() or ("",)
        if kind == "meta" and not mask:
            return self._asks_meta(int(rest[0]) if rest[0].isdigit() else -1, value)
        if kind != "payload" or "None" in rest:
            return False
        base, offset, length = map(int, rest)
        if base == _TRANSPORT and not mask and len(value) == 2:
            return offset == 0 and self._ask("source_port", int.from_bytes(value))
        if base != _NETWORK:
            return False
        if (offset, length) == (9, 1) and len(value) == 1 and not mask:
            return self._ask("protocol", value[0])
        return self._asks_address(offset, length, mask, value)

    def _asks_meta(self, key: int, value: bytes) -> bool:
        if key == _META_L4PROTO and len(value) == 1:
            return self._ask("protocol", value[0])
        if key == _META_NFPROTO and value in (b"\2", b"\x0a"):
            return self._of_family(IPV4 if value == b"\2" else IPV6)
        if key == _META_PROTOCOL and len(value) == 2:
            ether = int.from_bytes(value)
            return ether in (IPV4, IPV6) and self._of_family(ether)
        if key in (_META_IIFNAME, _META_OIFNAME) and value.endswith(b"\0"):
            return self._ask("netdev", text(value))
        return False

    def _asks_address(self, offset: int, length: int, mask: bytes, value: bytes) -> bool:
        # A prefix of whole bytes is compared in so many bytes.
        for places, ether in ((_OF_IP, IPV4), (_OF_IP6, IPV6)):
            for (at, whole), name in places.items():
                other = self._ether == (IPV6 if ether == IPV4 else IPV4)
                if offset != at or other or not 0 < length <= whole or len(value) != length:
                    continue
                if self._ether == ANY and length < whole:
                    continue
                bits = int.from_bytes(mask or b"\xff" * length)
                ones = bits.bit_count()
                if bits != ((1 << ones) - 1) << (8 * length - ones):
                    return False
                address = printed(value + bytes(whole - length))
                return self._of_family(ether) and self._ask(name, f"{address}/{ones}")
        return False

    def _of_family(self, ether: int) -> bool:
        if self._ether not in (ANY, ether):
            return False
        self._ether = ether
        return True

    def _ask(self, name: str, value: str | int) -> bool:
        """False where the rule asks for another one, too."""
        return self._asked.setdefault(name, value) == value


def _alternatives(what: str, low: bytes, high: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """An interval of a set: of addresses, the prefixes that it has."""
    kind, *rest = what.split() or ("",)
    if low == high or kind != "payload" or rest[0] != str(_NETWORK) or len(low) not in (4, 16):
        yield what, low, high
        return
    first, last = ipaddress.ip_address(low), ipaddress.ip_address(high)
    for each in ipaddress.summarize_address_range(first, last):
        whole, odd = divmod(each.prefixlen, 8)
        value = each.network_address.packed
        if odd or not whole:
            yield "", value, value  # no prefix of whole bytes: not kept
        else:
            yield f"payload {_NETWORK} {rest[1]} {whole}", value[:whole], value[:whole]


def _whole(value: str | int | None) -> int | None:
    return value if isinstance(value, int) else None


def _word(value: str | int | None) -> str | None:
    return value if isinstance(value, str) else None


def _verdict(data: bytes) -> tuple[int | None, str]:
    verdict = dict(netlink.attributes(dict(netlink.attributes(data)).get(2, b"")))
    return number(verdict.get(1), signed=True), text(verdict.get(2))


# --- a chain with those that it jumps to -------------------------------------------------------


def _made(key: _Key, chain: _Chain, rules: Mapping[_Key, list[_Rule]]) -> FilterChain | None:
    family = _FAMILIES.get(key[0])
    hooks = _NETDEV_HOOKS if family == "netdev" else _HOOKS
    direction = hooks.get(chain.hook if chain.hook is not None else -1)
    if family is None or direction is None:
        return None
    rows = [replace(each, direction=direction) for each in _inlined(key, rules, None, 0, [MOST])]
    ether = _ETHER.get(family, ANY)
    if chain.drops:
        rows.append(TrafficFilter("", direction, "nft", 0, ether, True, True, False, True))
    if chain.netdev:
        rows = [replace(each, netdev=chain.netdev) for each in rows]
    return FilterChain(family, key[1], key[2], direction, chain.priority, tuple(rows))


def _inlined(
    key: _Key,
    rules: Mapping[_Key, list[_Rule]],
    within: TrafficFilter | None,
    depth: int,
    left_to_look_at: list[int],
) -> list[TrafficFilter]:
    """The rules of a chain that decide, and in the place of a jump those of the other chain."""
    if depth > _DEEP:
        raise ValueError(f"chain {key[2]}: more than {_DEEP} jumps")
    found: list[TrafficFilter] = []
    left = False  # by a rule before, of some packets
    for each in rules.get(key, ()):
        left_to_look_at[0] -= 1
        if left_to_look_at[0] < 0:
            raise ValueError(f"chain {key[2]}: more than {MOST} rules, with those of its jumps")
        own = each.filter if within is None else _both(within, each.filter)
        if each.never or own is None:
            continue
        if left:
            own = replace(own, understood=False)
        if each.verdict in (_JUMP, _GOTO):
            found += _inlined((*key[:2], each.chain), rules, own, depth + 1, left_to_look_at)
        elif each.verdict == _RETURN:
            left = True
        elif own.ends:
            found.append(own)
        left = left or each.verdict == _GOTO
    return found


def _both(one: TrafficFilter, other: TrafficFilter) -> TrafficFilter | None:
    """The conditions of both; None where no packet meets them."""
    understood = one.understood and other.understood
    if ANY not in (one.ether_type, other.ether_type) and one.ether_type != other.ether_type:
        return None
    if one.netdev and other.netdev and one.netdev != other.netdev:
        return None
    ports = _ports_of_both(one, other)
    if ports[0] > ports[1]:
        return None
    for name in ("protocol", "source_port"):
        values = {getattr(one, name), getattr(other, name)} - {None}
        if len(values) > 1:
            return None
    for name in ("source", "destination"):
        values = {getattr(one, name), getattr(other, name)} - {None}
        understood = understood and len(values) < 2  # two prefixes: perhaps one in the other
    return replace(
        other,
        netdev=other.netdev or one.netdev,
        ether_type=one.ether_type if other.ether_type == ANY else other.ether_type,
        understood=understood,
        up_to_rate=one.up_to_rate or other.up_to_rate,
        of_owner=one.of_owner or other.of_owner,
        protocol=one.protocol if other.protocol is None else other.protocol,
        source=other.source or one.source,
        destination=other.destination or one.destination,
        source_port=one.source_port if other.source_port is None else other.source_port,
        destination_port=None if ports == _EVERY_PORT else ports[0],
        destination_port_last=ports[1] if ports != _EVERY_PORT and ports[0] < ports[1] else None,
    )


def _ports_of_both(one: TrafficFilter, other: TrafficFilter) -> tuple[int, int]:
    """The first and the last that both have; none where the first is above it."""
    low, high = _EVERY_PORT
    for each in (one, other):
        if each.destination_port is not None:
            low = max(low, each.destination_port)
            high = min(high, each.destination_port_last or each.destination_port)
    return low, high


# --- reading -----------------------------------------------------------------------------

_BUILTIN_BYTES: Final = 1 << 20
_NONE: Final = PacketFilter(())


def is_there(host: Host) -> bool | Missing:
    """Whether nf_tables is in the kernel already; no request that would load it is sent."""
    if not isinstance(host.list("/sys/module/nf_tables"), Missing):
        return True
    built_in = host.read(f"/lib/modules/{host.identity.kernel}/modules.builtin", _BUILTIN_BYTES)
    if not isinstance(built_in, Missing):
        return b"/nf_tables.ko\n" in built_in
    modules = host.read("/proc/modules", _BUILTIN_BYTES)
    if isinstance(modules, Missing):
        # The file is there wherever the kernel can load any: a request loads nothing.
        return True if modules.why is Why.ABSENT else modules
    if attribute(host, "/proc/sys/kernel/modules_disabled", parse_text) == "1":
        return True
    return Missing(
        Why.NOT_COLLECTED,
        "nf_tables is no loaded module, and whether it is built in is not known: a request "
        "might load it",
    )


def parse_legacy_tables(raw: bytes) -> tuple[str, ...]:
    """/proc/net/ip_tables_names → "filter", "nat": a name a line, of those that were made."""
    names = raw.decode("utf-8", "backslashreplace").split()
    return tuple(sorted({each for each in names if each.isprintable() and len(each) < 32}))


def read_packet_filter(host: Host, deadline: float) -> PacketFilter | Missing:
    """Both lists, and the sets that rules ask; `deadline` as in Host.netlink. No request where
    nf_tables is not there.

    The rules of iptables-legacy are not read: getsockopt(IPT_SO_GET_ENTRIES) makes a table that
    nothing has used so far, and may load its module.
    """
    found = _of_nftables(host, deadline)
    if isinstance(found, Missing):
        return found
    return replace(found, legacy=_legacy_tables(host))


def _legacy_tables(host: Host) -> tuple[str, ...] | Missing:
    found: list[str] = []
    for family, file in (("ip", "ip_tables_names"), ("ip6", "ip6_tables_names")):
        raw = host.read(f"/proc/self/net/{file}")
        if not isinstance(raw, Missing):
            found += [f"{family} {each}" for each in parse_legacy_tables(raw)]
        elif raw.why not in (Why.ABSENT, Why.NOT_COLLECTED):
            return raw
    return tuple(found)


def _of_nftables(host: Host, deadline: float) -> PacketFilter | Missing:
    there = is_there(host)
    if isinstance(there, Missing):
        return there
    if not there:
        return _NONE
    replies = []
    for name, request in (("nft-getchain", GET_CHAINS), ("nft-getrule", GET_RULES)):
        reply = dump(host, name, netlink.NETLINK_NETFILTER, request, deadline)
        if isinstance(reply, Missing):
            return reply
        replies.append(reply)
    chains, rules = replies
    try:
        asked = asked_sets(rules)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    sets = read_sets(host, asked, deadline) if asked else {}
    return sets if isinstance(sets, Missing) else parse_packet_filter(chains, rules, sets)
