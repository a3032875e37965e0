"""nfnetlink: sets of nftables, which a rule asks whether they hold a port, an address, a name.

    nft list set inet filter blocked        NFT_MSG_GETSET, NFT_MSG_GETSETELEM
    set blocked { type inet_service; flags interval; elements = { 4000-5000, 18515 } }

An interval is two elements: its first value, and the value after its last one with
NFT_SET_ELEM_INTERVAL_END. A set with values of several fields, or of something to do (a map), is
not read, nor is one of addresses that may be longer than MOST: a list of a million blocked ones.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump
from rdmadiag.sources.nfnetlink import HEADER, number, rows, text

MOST: Final = 4096  # elements of one set
MOST_SETS: Final = 32  # that rules ask

Key = tuple[int, str, str]  # family, table, name
Interval = tuple[bytes, bytes]  # the first and the last value, of the length of the set's keys

# NFTA_SET_*, NFTA_SET_DESC_SIZE, NFTA_SET_ELEM_LIST_*, NFTA_SET_ELEM_*, NFTA_DATA_VALUE
_TABLE, _NAME, _FLAGS, _KEY_LENGTH, _DESCRIPTION = 1, 2, 3, 5, 9
_SIZE: Final = 1
_LIST_TABLE, _LIST_SET, _LIST_ELEMENTS = 1, 2, 3
_KEY, _ELEMENT_FLAGS, _KEY_END = 1, 3, 10
_VALUE: Final = 1
# NFT_SET_ANONYMOUS, NFT_SET_INTERVAL, NFT_SET_MAP, NFT_SET_OBJECT, NFT_SET_CONCAT
_ANONYMOUS, _INTERVAL, _MAP, _OBJECT, _CONCAT = 1, 4, 8, 64, 128
_END, _CATCH_ALL = 1, 2  # NFT_SET_ELEM_*

GET_SETS: Final = netlink.request(netlink.NFT_GETSET, netlink.NLM_F_DUMP, HEADER.pack(0, 0, 0))


@dataclass(frozen=True, slots=True)
class Declared:
    """NFT_MSG_NEWSET: a set whose elements may be read."""

    key: Key
    length: int  # bytes of a key
    is_interval: bool


class _Other(ValueError):
    """Elements that are not read here; one line."""


def parse_sets(reply: bytes) -> tuple[Declared, ...] | Missing:
    """The reply to NFT_MSG_GETSET: those of one value each that are not too long."""
    try:
        return tuple(each for family, row in rows(reply) if (each := _declared(family, row)))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))


def _declared(family: int, row: Mapping[int, bytes]) -> Declared | None:
    flags, length = number(row.get(_FLAGS)) or 0, number(row.get(_KEY_LENGTH)) or 0
    described = dict(netlink.attributes(row.get(_DESCRIPTION, b"")))
    # A port has two bytes, and a set of them 65,536 at most; an interface's name has sixteen.
    short = length <= 2 or flags & _ANONYMOUS or 0 < (number(described.get(_SIZE)) or 0) <= MOST
    if flags & (_MAP | _OBJECT | _CONCAT) or not short or not 0 < length <= 16:
        return None
    key = family, text(row.get(_TABLE)), text(row.get(_NAME))
    if not all(key):
        return None
    return Declared(key, length, bool(flags & _INTERVAL))


def parse_elements(reply: bytes, length: int, is_interval: bool) -> tuple[Interval, ...] | Missing:
    """The reply to NFT_MSG_GETSETELEM of one set, in the order of its values."""
    try:
        found = list(_elements(reply, length))
    except _Other as error:
        return Missing(Why.UNSUPPORTED, str(error))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    if not is_interval:
        return tuple(sorted((value, value) for value, _ in found))
    made: list[Interval] = []
    begun: bytes | None = None
    for value, ends in sorted(found, key=lambda each: (each[0], not each[1])):
        if ends and begun is not None:
            made.append((begun, _before(value)))
            begun = None
        elif not ends:
            begun = value if begun is None else begun
    if begun is not None:
        made.append((begun, b"\xff" * length))
    return tuple(made)


def _before(value: bytes) -> bytes:
    return (int.from_bytes(value) - 1).to_bytes(len(value))


def _elements(reply: bytes, length: int) -> Iterator[tuple[bytes, bool]]:
    """Each value, and whether an interval ends before it."""
    count = 0
    for _, row in rows(reply):
        for _, element in netlink.attributes(row.get(_LIST_ELEMENTS, b"")):
            found = dict(netlink.attributes(element))
            flags = number(found.get(_ELEMENT_FLAGS)) or 0
            value = dict(netlink.attributes(found.get(_KEY, b""))).get(_VALUE, b"")
            if flags & _CATCH_ALL or _KEY_END in found or len(value) != length:
                raise _Other("an element that is no value of its set")
            count += 1
            if count > 2 * MOST + 2:
                raise _Other(f"more than {MOST} elements")
            ends = bool(flags & _END)
            if not ends or any(value):  # one before the first value ends nothing
                yield value, ends


# --- reading -----------------------------------------------------------------------------


def read_sets(
    host: Host, asked: frozenset[Key], deadline: float
) -> dict[Key, tuple[Interval, ...]] | Missing:
    """The elements of those that are asked and can be read; `deadline` as in Host.netlink.

    One whose elements are of another form is left out, as one that is too long is.
    """
    reply = dump(host, "nft-getset", netlink.NETLINK_NETFILTER, GET_SETS, deadline)
    if isinstance(reply, Missing):
        return reply
    declared = parse_sets(reply)
    if isinstance(declared, Missing):
        return declared
    found: dict[Key, tuple[Interval, ...]] = {}
    wanted = [(at, each) for at, each in enumerate(declared) if each.key in asked]
    for at, each in wanted[:MOST_SETS]:
        family, table, name = each.key
        content = HEADER.pack(family, 0, 0)
        content += netlink.attribute(_LIST_TABLE, table.encode() + b"\0")
        content += netlink.attribute(_LIST_SET, name.encode() + b"\0")
        request = netlink.request(netlink.NFT_GETSETELEM, netlink.NLM_F_DUMP, content)
        reply = dump(host, f"nft-getsetelem-{at}", netlink.NETLINK_NETFILTER, request, deadline)
        if isinstance(reply, Missing):
            return reply
        elements = parse_elements(reply, each.length, each.is_interval)
        if not isinstance(elements, Missing):
            found[each.key] = elements
        elif elements.why is not Why.UNSUPPORTED:
            return elements
    return found
