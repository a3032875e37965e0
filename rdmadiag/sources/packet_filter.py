"""nfnetlink: chains and rules of nftables, which iptables-nft and firewalld write, too.

    nft -a list ruleset         NFT_MSG_GETCHAIN, NFT_MSG_GETRULE
    table ip filter { chain INPUT { type filter hook input priority filter; policy accept;
        udp dport 4791 drop # handle 4 } }

A rule is a list of expressions on registers (linux/netfilter/nf_tables.h): what of them is not
read here, sets among them, makes it a rule with more conditions. The kernel loads nfnetlink for a
socket of this protocol and nf_tables for its first request (net/netfilter/nfnetlink.c), so that
neither is made where they are not there already. Its rules are for CAP_NET_ADMIN alone.
"""

import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.address import printed
from rdmadiag.facts.packet_filter import FilterChain, PacketFilter
from rdmadiag.facts.traffic_control import ANY, IN, IPV4, IPV6, OUT, TrafficFilter
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump
from rdmadiag.sources.text import attribute, parse_text

MOST: Final = 4096  # rules of the host, and of a chain with those that it jumps to
_DEEP: Final = 16  # NFT_JUMP_STACK_SIZE

_HEADER: Final = struct.Struct("=BBH")  # struct nfgenmsg: family, version, res_id
_FAMILIES: Final = {1: "inet", 2: "ip", 5: "netdev", 10: "ip6"}  # NFPROTO_*; not arp, not bridge
_ETHER: Final = {"ip": IPV4, "ip6": IPV6}
_HOOKS: Final = {0: IN, 1: IN, 3: OUT, 4: OUT, 5: IN}  # NF_INET_*, but forward
_NETDEV_HOOKS: Final = {0: IN, 1: OUT}  # NF_NETDEV_*
# NFTA_CHAIN_*, NFTA_HOOK_*, NFTA_RULE_*, NFTA_EXPR_*
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_POLICY = 1, 3, 4, 5
_HOOK_NUMBER, _HOOK_PRIORITY, _HOOK_DEVICE = 1, 2, 3
_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS = 1, 2, 3, 4
_EXPR_NAME, _EXPR_DATA = 1, 2
_DROP, _ACCEPT, _JUMP, _GOTO, _RETURN = 0, 1, -3, -4, -5  # NF_*, NFT_*
# NFT_META_*
_META_PROTOCOL, _META_IIFNAME, _META_OIFNAME, _META_NFPROTO, _META_L4PROTO = 1, 6, 7, 15, 16
_NETWORK, _TRANSPORT = 1, 2  # NFT_PAYLOAD_*_HEADER
_OF_IP: Final = {(12, 4): "source", (16, 4): "destination"}  # offset, length
_OF_IP6: Final = {(8, 16): "source", (24, 16): "destination"}
_CT_STATE: Final = 0  # NFT_CT_STATE
_OF_A_FIRST: Final = 1 << 3 | 1 << 6  # NF_CT_STATE_BIT of new, untracked
_HARMLESS: Final = frozenset({"counter", "log", "notrack", "last"})

GET_CHAINS: Final = netlink.request(netlink.NFT_GETCHAIN, netlink.NLM_F_DUMP, _HEADER.pack(0, 0, 0))
GET_RULES: Final = netlink.request(netlink.NFT_GETRULE, netlink.NLM_F_DUMP, _HEADER.pack(0, 0, 0))


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


def parse_packet_filter(chains: bytes, rules: bytes) -> PacketFilter | Missing:
    """The replies to NFT_MSG_GETCHAIN and NFT_MSG_GETRULE."""
    try:
        known = dict(_chains(chains))
        found = _rules(rules)
        made = [_made(key, each, found) for key, each in known.items() if each.hook is not None]
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return PacketFilter(tuple(sorted(filter(None, made), key=lambda each: each.priority)))


def _rows(reply: bytes) -> Iterator[tuple[int, dict[int, bytes]]]:
    for message in netlink.messages(reply):
        if message.type in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            continue
        content = netlink.body(reply, message)
        if len(content) < _HEADER.size:
            raise ValueError(f"netlink message at byte {message.offset} has no header")
        yield content[0], dict(netlink.attributes(content[_HEADER.size :]))


def _number(raw: bytes | None, *, signed: bool = False) -> int | None:
    """Big-endian, as nfnetlink has them."""
    return int.from_bytes(raw, "big", signed=signed) if raw and len(raw) in (4, 8) else None


def _text(raw: bytes | None) -> str:
    return netlink.text(raw) or ""


def _chains(reply: bytes) -> Iterator[tuple[_Key, _Chain]]:
    for family, row in _rows(reply):
        hook = dict(netlink.attributes(row.get(_CHAIN_HOOK, b"")))
        key = (family, _text(row.get(_CHAIN_TABLE)), _text(row.get(_CHAIN_NAME)))
        yield (
            key,
            _Chain(
                _number(hook.get(_HOOK_NUMBER)),
                _number(hook.get(_HOOK_PRIORITY), signed=True) or 0,
                _text(hook.get(_HOOK_DEVICE)),
                _number(row.get(_CHAIN_POLICY)) == _DROP,
            ),
        )


def _rules(reply: bytes) -> dict[_Key, list[_Rule]]:
    found: dict[_Key, list[_Rule]] = {}
    for count, (family, row) in enumerate(_rows(reply)):
        if count >= MOST:
            raise ValueError(f"more than {MOST} rules")
        key = (family, _text(row.get(_RULE_TABLE)), _text(row.get(_RULE_CHAIN)))
        handle = _number(row.get(_RULE_HANDLE)) or 0
        expressions = row.get(_RULE_EXPRESSIONS, b"")
        found.setdefault(key, []).append(_Reading(family, handle).rule(expressions))
    return found


class _Reading:
    """The expressions of one rule: what is in which register, and what it has to be."""

    def __init__(self, family: int, handle: int) -> None:
        name = _FAMILIES.get(family, "")
        self._registers: dict[int, tuple[str, bytes]] = {}  # what it holds, and the mask over it
        self._ether = _ETHER.get(name, ANY)
        self._asked: dict[str, str | int] = {}
        self._understood = True
        self._never = False
        self._handle = handle

    def rule(self, expressions: bytes) -> _Rule:
        """Up to its verdict."""
        verdict, chain = None, ""
        for _, element in netlink.attributes(expressions):
            row = dict(netlink.attributes(element))
            name = _text(row.get(_EXPR_NAME))
            data = dict(netlink.attributes(row.get(_EXPR_DATA, b"")))
            if name == "immediate" and _number(data.get(1)) == 0:
                verdict, chain = _verdict(data.get(2, b""))
                break
            if name == "reject":
                verdict = _DROP
                break
            if name == "target" and _text(data.get(1)) == "REJECT":
                verdict = _DROP
                break
            self._take(name, data)
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
            destination_port=_whole(self._asked.get("destination_port")),
        )
        return _Rule(made, verdict, chain, self._never)

    def _take(self, name: str, data: Mapping[int, bytes]) -> None:
        if name in _HARMLESS:
            return
        if name == "meta":
            self._load(data, 1, f"meta {_number(data.get(2))}")
        elif name == "payload":
            place = (_number(data.get(2)), _number(data.get(3)), _number(data.get(4)))
            self._load(data, 1, "payload {} {} {}".format(*place))
        elif name == "ct" and _number(data.get(2)) == _CT_STATE:
            self._load(data, 1, "ct state")
        elif name == "bitwise":
            self._mask(data)
        elif name == "cmp":
            self._compare(data)
        else:
            self._understood = False

    def _load(self, data: Mapping[int, bytes], key: int, what: str) -> None:
        self._registers[_number(data.get(key)) or 0] = (what, b"")

    def _mask(self, data: Mapping[int, bytes]) -> None:
        source, into = _number(data.get(1)) or 0, _number(data.get(2)) or 0
        what, _ = self._registers.get(source, ("", b""))
        mask, xor = (dict(netlink.attributes(data.get(at, b""))).get(1, b"") for at in (4, 5))
        if not mask or any(xor):
            what = ""
        self._registers[into] = (what, mask)

    def _compare(self, data: Mapping[int, bytes]) -> None:
        what, mask = self._registers.get(_number(data.get(1)) or 0, ("", b""))
        value = dict(netlink.attributes(data.get(3, b""))).get(1, b"")
        equal = _number(data.get(2)) == 0
        if what == "ct state":
            # "ct state established,related": the bits are masked, and are not zero.
            bits = int.from_bytes(mask or value, sys.byteorder)
            masked = bool(mask) and not equal and not any(value)
            if (masked or (not mask and equal)) and not bits & _OF_A_FIRST:
                self._never = True
            else:
                self._understood = False
        elif not equal or not self._asks(what, mask, value):
            self._understood = False

    def _asks(self, what: str, mask: bytes, value: bytes) -> bool:
        """Whether the condition is one that is kept."""
        kind, *rest = what.split()
        if kind == "meta" and not mask:
            return self._asks_meta(int(rest[0]) if rest[0].isdigit() else -1, value)
        if kind != "payload" or "None" in rest:
            return False
        base, offset, length = map(int, rest)
        if base == _TRANSPORT and not mask and len(value) == 2:
            name = {0: "source_port", 2: "destination_port"}.get(offset)
            return name is not None and self._ask(name, int.from_bytes(value))
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
            return self._ask("netdev", _text(value))
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


def _whole(value: str | int | None) -> int | None:
    return value if isinstance(value, int) else None


def _word(value: str | int | None) -> str | None:
    return value if isinstance(value, str) else None


def _verdict(data: bytes) -> tuple[int | None, str]:
    verdict = dict(netlink.attributes(dict(netlink.attributes(data)).get(2, b"")))
    return _number(verdict.get(1), signed=True), _text(verdict.get(2))


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
    for name in ("protocol", "source_port", "destination_port"):
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
        protocol=one.protocol if other.protocol is None else other.protocol,
        source=other.source or one.source,
        destination=other.destination or one.destination,
        source_port=one.source_port if other.source_port is None else other.source_port,
        destination_port=(
            one.destination_port if other.destination_port is None else other.destination_port
        ),
    )


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


def read_packet_filter(host: Host, deadline: float) -> PacketFilter | Missing:
    """Both lists; `deadline` as in Host.netlink. None, without a request, where it is not there."""
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
    return parse_packet_filter(*replies)
