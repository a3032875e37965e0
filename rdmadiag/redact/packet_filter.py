"""Chains and rules of nftables with pseudonyms in them: of a rule what sources.packet_filter reads.

An expression that it does not decide on becomes one without content, which it does not decide on
either; one that it passes over is left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from rdmadiag.host import netlink
from rdmadiag.redact.addresses import Addresses
from rdmadiag.sources.nfnetlink import number, text

_WELL_KNOWN: Final = re.compile(
    r"filter|nat|mangle|raw|security|firewalld"
    r"|INPUT|OUTPUT|FORWARD|PREROUTING|POSTROUTING|input|output|forward|prerouting|postrouting"
    r"|DOCKER|DOCKER-(USER|FORWARD|BRIDGE|CT|INTERNAL|ISOLATION-STAGE-[12])"
    r"|KUBE-(FIREWALL|FORWARD|SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL|PROXY-CANARY"
    r"|KUBELET-CANARY|MARK-MASQ|MARK-DROP|POSTROUTING)"
)
"""Of every host with such software; what a site or a service is called is not among them."""

_PASSED_OVER: Final = frozenset({"counter", "log", "notrack", "last"})
_NOT_DECIDED: Final = netlink.attribute(1, netlink.attribute(1, b"other\0"))
_CT: Final = "ct state"
_PORTS: Final = ((1, 0, 2), (1, 2, 2))
_ADDRESS_BYTES: Final = {12: 4, 16: 4, 8: 16, 24: 16}  # by the offset in IPv4's, IPv6's header
_SIZES: Final[Mapping[object, int]] = {
    **dict.fromkeys(_PORTS, 2), (2, 9, 1): 1, ("meta", 1): 2, ("meta", 15): 1, ("meta", 16): 1
}  # fmt: skip
_NAMES_OF_LINKS: Final = (("meta", 6), ("meta", 7))
_NO_MASK_OF_A_PREFIX: Final = b"\x55"

What = object  # "ct state", ("meta", key), or base, offset and length of a payload


class Rules:
    """`link` is of names of netdevs, `name` of tables and chains that are not well known."""

    def __init__(
        self, addresses: Addresses, link: Callable[[str], str], name: Callable[[str], str]
    ) -> None:
        self._addresses = addresses
        self._link = link
        self._name = name

    def chain(self, row: Mapping[int, bytes]) -> bytes:
        """The attributes of NFT_MSG_NEWCHAIN."""
        hook = dict(netlink.attributes(row.get(4, b"")))
        made = {each: hook[each] for each in (1, 2) if number(hook.get(each)) is not None}
        if 3 in hook:
            made[3] = self._link(text(hook[3])).encode() + b"\0"
        return _packed(
            {
                **self._named(row, 1, 3),
                **({4: _packed(made)} if 4 in row else {}),
                **_numbers(row, 5),
            }
        )

    def rule(self, row: Mapping[int, bytes]) -> bytes:
        """The attributes of NFT_MSG_NEWRULE, without userdata."""
        made = bytearray()
        registers: dict[int, tuple[What, bytes]] = {}
        for _, element in netlink.attributes(row.get(4, b"")):
            whole = dict(netlink.attributes(element))
            name, data = text(whole.get(1)), dict(netlink.attributes(whole.get(2, b"")))
            if name in _PASSED_OVER:
                continue
            new = self._expression(name, data, registers)
            if new is None:
                made += _padded(_NOT_DECIDED)
                continue
            content = _packed({1: name.encode() + b"\0", 2: _packed(new)})
            made += _padded(netlink.attribute(1, content))
            if name in ("immediate", "reject", "target"):
                break  # nothing behind it is read
        return _packed({**self._named(row, 1, 2), **_numbers(row, 3), 4: bytes(made)})

    def _named(self, row: Mapping[int, bytes], *keys: int) -> dict[int, bytes]:
        return {each: self._pseudonym(row[each]) for each in keys if each in row}

    def _pseudonym(self, raw: bytes) -> bytes:
        name = text(raw)
        known = not name or _WELL_KNOWN.fullmatch(name)
        return (name if known else self._name(name)).encode() + b"\0"

    def _expression(
        self, name: str, data: Mapping[int, bytes], registers: dict[int, tuple[What, bytes]]
    ) -> dict[int, bytes] | None:
        """What is in it afterwards; None for one that is not decided on."""
        if name == "immediate" and number(data.get(1)) == 0:
            verdict = dict(netlink.attributes(_in(data, 2, 2)))
            new = {**_numbers(verdict, 1), **self._named(verdict, 2)}
            return {**_numbers(data, 1), 2: _packed({2: _packed(new)})}
        if name == "reject":
            return {}
        if name == "target":
            return {1: b"REJECT\0"} if text(data.get(1)) == "REJECT" else None
        if name == "match":
            return _match(text(data.get(1)), number(data.get(2)) or 0, data.get(3, b""))
        if name in ("meta", "payload") or (name == "ct" and number(data.get(2)) == 0):
            whats: dict[str, What] = {
                "meta": ("meta", number(data.get(2))),
                "payload": tuple(number(data.get(each)) for each in (2, 3, 4)),
                "ct": _CT,
            }
            registers[number(data.get(1)) or 0] = whats[name], b""
            return _numbers(data, 1, 2, 3, 4) if name == "payload" else _numbers(data, 1, 2)
        if name == "bitwise":
            return _bitwise(data, registers)
        if name in ("cmp", "range"):
            return self._compared(name, data, *registers.get(number(data.get(1)) or 0, ("", b"")))
        return None

    def _compared(
        self, name: str, data: Mapping[int, bytes], what: What, mask: bytes
    ) -> dict[int, bytes] | None:
        places = (3,) if name == "cmp" else (3, 4)
        values = [_in(data, each, 1) for each in places]
        operation = number(data.get(2))
        ordered = what == _PORTS[1] and not mask
        if name == "range" and (operation != 0 or mask or what == _CT):
            return None
        if name == "cmp" and operation != 0 and not ordered and what != _CT:
            return None
        if len(set(values)) > 1 and not ordered:
            return None
        made = [self._value(each, what, mask) for each in values]
        new = {at: _packed({1: each}) for at, each in zip(places, made, strict=True) if each}
        return {**_numbers(data, 1, 2), **new} if len(new) == len(places) else None

    def _value(self, value: bytes, what: What, mask: bytes) -> bytes | None:
        if what == _CT:
            return value if len(value) == 4 else None
        if what in _SIZES:
            return value if len(value) == _SIZES[what] and not mask else None
        if what in _NAMES_OF_LINKS:
            named = value.endswith(b"\0") and not mask
            return self._link(text(value)).encode() + b"\0" if named else None
        if not isinstance(what, tuple) or len(what) != 3 or what[0] != 2:
            return None
        whole = _ADDRESS_BYTES.get(what[1], 0)
        if not 0 < len(value) == what[2] <= whole:
            return None
        bits = _prefix(mask or b"\xff" * len(value), len(value))
        if bits is None:
            return None
        address = value + bytes(whole - len(value))
        of = self._addresses.network4 if whole == 4 else self._addresses.network6
        return of(address, bits)[: len(value)]


def _bitwise(
    data: Mapping[int, bytes], registers: dict[int, tuple[What, bytes]]
) -> dict[int, bytes]:
    what, _ = registers.get(number(data.get(1)) or 0, ("", b""))
    mask, xor = _in(data, 4, 1), _in(data, 5, 1)
    if not mask or any(xor):
        what = ""
    if not (what == _CT and len(mask) <= 4) and _prefix(mask, len(mask)) is None:
        mask = _NO_MASK_OF_A_PREFIX * len(mask)
        what = "" if what == _CT else what
    registers[number(data.get(2)) or 0] = what, mask
    inverted = b"\1" if what == "" else b"\0"
    return {**_numbers(data, 1, 2), 4: _packed({1: mask}), 5: _packed({1: inverted})}


def _match(name: str, revision: int, raw: bytes) -> dict[int, bytes] | None:
    """struct xt_udp, xt_tcp, xt_multiport_v1: numbers of ports."""
    size = {("udp", 0): 9, ("tcp", 0): 12, ("multiport", 1): 48}.get((name, revision), 0)
    if not size or len(raw) < size:
        return None
    made = bytearray(raw[:size])
    if size == 48:
        used = 2 + 2 * min(raw[1], 15)
        made[used:32] = bytes(32 - used)
        made[32:47] = bytes(min(each, 15) for each in raw[32:47])
    return {1: name.encode() + b"\0", 2: revision.to_bytes(4), 3: bytes(made)}


def _prefix(mask: bytes, length: int) -> int | None:
    """How many leading bits of so many bytes it has; None for any other mask."""
    bits = int.from_bytes(mask)
    ones = bits.bit_count()
    if ones > 8 * length:
        return None
    return ones if bits == ((1 << ones) - 1) << (8 * length - ones) else None


def _in(data: Mapping[int, bytes], outer: int, inner: int) -> bytes:
    return dict(netlink.attributes(data.get(outer, b""))).get(inner, b"")


def _numbers(row: Mapping[int, bytes], *keys: int) -> dict[int, bytes]:
    return {each: row[each] for each in keys if number(row.get(each)) is not None}


def _packed(row: Mapping[int, bytes]) -> bytes:
    return b"".join(_padded(netlink.attribute(key, value)) for key, value in row.items())


def _padded(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % 4)
