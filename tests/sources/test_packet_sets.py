"""Sets of nftables: replies of a kernel, elements built by hand, and which sets are asked for."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.packet_filter import PacketFilter
from rdmadiag.facts.traffic_control import IPV4, TCP, UDP, TrafficFilter
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.host.netlink import NFT_GETSET, NFT_GETSETELEM, attribute
from rdmadiag.host.recording import Recording
from rdmadiag.sources.packet_filter import asked_sets, parse_packet_filter, read_packet_filter
from rdmadiag.sources.packet_sets import MOST, Interval, Key, parse_elements, parse_sets
from tests.sources.test_packet_filter import (
    ACCEPT,
    DROP,
    INET,
    JUMP,
    ROCE,
    TCP_,
    UDP_,
    WHOLE,
    be32,
    chain,
    compare,
    expression,
    message,
    meta,
    of_kernel,
    payload,
    rule,
    verdict,
)

# Linux 6.18, of what makes the same as these lines of nft 1.0:
# set ports { type inet_service; flags interval; elements = { 4000-5000, 18515 } }
# set few { type inet_service; elements = { 4791, 18515 } }
# set peers { type ipv4_addr; size 64; flags interval; elements = { 192.0.2.0/24, 198.51.100.7 } }
# set many { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 } }
# set both { type inet_proto; elements = { tcp, udp } }
# udp dport @ports drop; meta l4proto @both th dport @few drop
# ip saddr @peers drop; ip saddr @many drop; udp dport != @few drop; tcp dport 4000-5000 drop
KERNEL = {
    "nft-getchain": (
        "eNoti0sKgDAMRF+txtAKbjyIl6pYEBfS+2OincVkfjmBmAYceYcAqxg38zOResPC3xvCxoj6yrT2XJk+n+3j"
        "qFcrj2epb8SvvPigBSc="
    ),
    "nft-getrule": (
        "eNrNlEtOwzAQhv88m4dFgmDBgkUXXXbRBcfgEoEaEbVpohKEegOOweFYcAx+G1dYUCiGitbSZOzxeMbzaZwz"
        "D4gzPwFHPgG4LGJ+e64H8FEvAIEAZgxeEGLE/ZTSyL5SxlP6JRSOMlERGGZMrebXTYeh3n+zGz8dM6LtmPML"
        "akHpqtW8raaM/8mfFwyMDrWecD+nzNt2dt9B58hUjHbZ39HBnOP5SOdT/keUumnktK56Sdv5ex6UnAtrPXLj"
        "kgjEzow21aDOXLX9LTbU8BtO4w851jXfyIf/ZpRajJItjArXPvJ/xsczfIThE37ZR1Iu99BHmcUoPWRG+k7V"
        "YoUdMBq6McotRtnzgfyPHN6Z58rn0o2PsPjkpbdbPvEf+HwTP1LxVU3FE7DFN1j7njy699orPq921Q=="
    ),
    "nft-getset": (
        "eNqN0NEKgjAUBuDfOe1oi4KCXmMIgZe9StHEm1RMyN6+M9mFCbmdi51tjPPxrwOQ5QK2thqIgH3K68DnHAJd"
        "2w8v3isc4EoQYtslQdq+IyTTvUSGM47QY+WqLC661IbnEk7Tm8eKR+xV5j234lCjmBmjL5Mx/SKTXGTaOE8q"
        "9shOAK6+bN2Km7H7vDUf/LrJPzfgL6Pa493boV54qXOUc6KQ//wCZmcu8Q=="
    ),
    "nft-getsetelem-0": (
        "eNqbwsDAwMPFxAAC3AYMDIwMDPxsQLIEyOdiYGIoyC8qKQaycxiYGSSA4jxADJL3CGFg4ACKAQGjALJ4MAOK"
        "OuFO7Or4F6CqAwGYOh0i3cQCVA8ARW8K8g=="
    ),
    "nft-getsetelem-1": (
        "eNrzYGBg4OFiYgABbgMGBkYGBn42IFkC5HMwMDGkpZYzqDAwMwgAxXiAGCQntJ0Bhe8RzMCgQYQ5LEBzAF/NBqE="
    ),
    "nft-getsetelem-2": (
        "eNqbwsDAwMPFxAAC3AYMDIwMDPxsQLIEyOdiYGIoSE0tKgaycxiYGSSA4jxAzAHEx4xTODiAYkDAKIAqzo6s"
        "7gBQDTZ1B4BmI6sDAZg6HSLdxAJUDwAPMQyW"
    ),
    "nft-getsetelem-3": (
        "eNrzYWBg4OFiYgABbgMGBkYGBn42IFkC5HMyMDEk5ZdkgORUGJgZBIDiPEDMCsRsQDFkviCQr0OkWSxAswBkQwYy"
    ),
}
Hosts = Callable[[Recording], LiveHost]


def of_host(**replies: bytes) -> Recording:
    whole = {name: of_kernel(text) for name, text in KERNEL.items()}
    return Recording(listings={"/sys/module/nf_tables": ()}, netlink=whole | replies)


def test_sets_that_a_kernel_holds_are_read(host_in_memory: Hosts, soon: float) -> None:
    found = read_packet_filter(host_in_memory(of_host()), soon)
    assert isinstance(found, PacketFilter)
    (base,) = found.chains
    drop = replace(WHOLE, direction=base.direction, priority=0)
    unread = replace(drop, understood=False)
    some = replace(drop, ether_type=IPV4)
    assert [replace(each, priority=0) for each in base.rules] == [
        replace(drop, protocol=UDP, destination_port=4000, destination_port_last=5000),
        replace(drop, protocol=UDP, destination_port=18515),
        *(
            replace(drop, protocol=protocol, destination_port=port)
            for protocol in (TCP, UDP)
            for port in (4791, 18515)
        ),
        replace(some, source="192.0.2.0/24"),
        replace(some, source="198.51.100.7/32"),
        replace(unread, ether_type=IPV4),  # of how many addresses is not known
        replace(unread, protocol=UDP),  # what a set does not hold
        replace(drop, protocol=TCP, destination_port=4000, destination_port_last=5000),
    ]


@pytest.mark.parametrize("lost", ["nft-getset", "nft-getsetelem-0", "nft-getsetelem-3"])
def test_a_set_that_is_refused_is_missing(lost: str, host_in_memory: Hosts, soon: float) -> None:
    recording = of_host()
    del recording.netlink[lost]
    recording.refuse("netlink", lost, Missing(Why.DENIED, "EPERM"))
    assert read_packet_filter(host_in_memory(recording), soon) == Missing(Why.DENIED, "EPERM")


@pytest.mark.parametrize("torn", ["nft-getrule", "nft-getset", "nft-getsetelem-1"])
def test_a_torn_reply_is_malformed(torn: str, host_in_memory: Hosts, soon: float) -> None:
    found = read_packet_filter(host_in_memory(of_host(**{torn: b"\x07\0\0\0"})), soon)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


def test_without_a_rule_that_asks_a_set_none_is_asked_for(
    host_in_memory: Hosts, soon: float
) -> None:
    host = host_in_memory(of_host(**{"nft-getrule": rule("in", UDP_, ROCE, verdict(DROP))}))
    assert isinstance(read_packet_filter(host, soon), PacketFilter)
    names = [name for kind, name in host.asked if kind == "netlink"]
    assert names == ["nft-getchain", "nft-getrule"]


def test_a_set_of_another_form_is_more_conditions(host_in_memory: Hosts, soon: float) -> None:
    others = {f"nft-getsetelem-{at}": elements(b"\0\1\2") for at in range(4)}
    found = read_packet_filter(host_in_memory(of_host(**others)), soon)
    assert isinstance(found, PacketFilter)
    assert [each.understood for each in found.chains[0].rules] == [False] * 5 + [True]


# --- built by hand ----------------------------------------------------------------------------


def element(value: bytes, flags: int = 0, *more: bytes) -> bytes:
    parts = attribute(1, attribute(1, value)) + b"".join(more)
    return attribute(1, parts + (attribute(3, be32(flags)) if flags else b""))


def elements(*values: bytes | tuple[bytes, int]) -> bytes:
    made = [element(*(each if isinstance(each, tuple) else (each,))) for each in values]
    pieces = [b"".join(made[at : at + 1000]) for at in range(0, max(len(made), 1), 1000)]
    name = attribute(1, b"t\0")
    return b"".join(message(NFT_GETSETELEM, INET, name, attribute(3, each)) for each in pieces)


def port(value: int) -> bytes:
    return struct.pack(">H", value)


END, CATCH_ALL = 1, 2


@pytest.mark.parametrize(
    ("values", "intervals"),
    [
        ((), []),
        (((port(0), END),), []),
        ((port(7), (port(8), END)), [(7, 7)]),
        (((port(8), END), port(9), port(7), (port(20), END)), [(7, 7), (9, 19)]),
        ((port(7), (port(9), END), port(9), (port(10), END)), [(7, 8), (9, 9)]),
        ((port(7),), [(7, 65535)]),
        ((port(0), (port(1), END)), [(0, 0)]),
    ],
    ids=[
        "none",
        "the end of nothing",
        "one",
        "in any order",
        "one after another",
        "to the last one",
        "zero",
    ],
)
def test_where_intervals_end(
    values: tuple[bytes | tuple[bytes, int], ...], intervals: list[tuple[int, int]]
) -> None:
    wanted = tuple((port(low), port(high)) for low, high in intervals)
    assert parse_elements(elements(*values), 2, is_interval=True) == wanted


@pytest.mark.parametrize(
    "values",
    [((b"", CATCH_ALL),), (b"\1\2\3",), tuple(port(at % 60000) for at in range(2 * MOST + 3))],
    ids=["all others", "of another length", "too many"],
)
def test_elements_of_another_form_are_no_values(values: tuple[bytes, ...]) -> None:
    found = parse_elements(elements(*values), 2, is_interval=False)
    assert isinstance(found, Missing)
    assert found.why is Why.UNSUPPORTED


def declared(name: str, flags: int = 0, length: int = 2, size: int | None = None) -> bytes:
    parts = [attribute(1, b"t\0"), attribute(2, name.encode() + b"\0"), attribute(3, be32(flags))]
    parts.append(attribute(5, be32(length)))
    if size is not None:
        parts.append(attribute(9, attribute(1, be32(size))))
    return message(NFT_GETSET, INET, *parts)


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        (declared("ports"), True),
        (declared("ports", flags=4), True),
        (declared("map", flags=8), False),
        (declared("objects", flags=64), False),
        (declared("pairs", flags=128, length=8), False),
        (declared("addresses", length=4), False),
        (declared("addresses", length=4, size=MOST), True),
        (declared("addresses", length=4, size=MOST + 1), False),
        (declared("__set0", flags=1, length=16), True),
        (declared("", flags=1), False),
    ],
)
def test_which_sets_are_read(reply: bytes, read: bool) -> None:
    found = parse_sets(reply)
    assert not isinstance(found, Missing)
    assert len(found) == read


def lookup(name: str = "s", inverted: bool = False, into: int | None = None) -> bytes:
    parts = [attribute(1, name.encode() + b"\0"), attribute(2, be32(1))]
    parts += [attribute(3, be32(into))] if into is not None else []
    return expression("lookup", *parts, attribute(5, be32(int(inverted))))


def match(name: str, revision: int, raw: bytes) -> bytes:
    return expression(
        "match",
        attribute(1, name.encode() + b"\0"),
        attribute(2, be32(revision)),
        attribute(3, raw),
    )


DPORT = payload(2, 2, 2)
SETS: dict[Key, tuple[Interval, ...]] = {
    (INET, "t", "s"): ((port(4000), port(5000)), (port(18515), port(18515))),
    (INET, "t", "none"): (),
    (INET, "t", "long"): tuple((port(at), port(at)) for at in range(0, 200, 2)),
    (INET, "t", "v4"): ((bytes((192, 0, 2, 0)), bytes((192, 0, 2, 255))),),
    (INET, "t", "odd"): ((bytes((192, 0, 2, 0)), bytes((192, 0, 2, 2))),),
    (INET, "t", "names"): ((b"eth0".ljust(16, b"\0"),) * 2,),
}


def udp(low: int, high: int, invert: int = 0, source: tuple[int, int] = (0, 65535)) -> bytes:
    return struct.pack("=4HB7x", *source, low, high, invert)


def multiport(*ports: int, flags: int = 1, ranges: tuple[int, ...] = (), invert: int = 0) -> bytes:
    pairs = bytes(at in ranges for at in range(15))
    return struct.pack("=BB15H", flags, len(ports), *ports, *[0] * (15 - len(ports))) + (
        pairs + bytes((invert,))
    )


def to(low: int, high: int | None = None) -> TrafficFilter:
    return replace(WHOLE, destination_port=low, destination_port_last=high)


UNREAD = replace(WHOLE, understood=False)
CASES = {
    "a set of ports": ((rule("in", DPORT, lookup(), verdict(DROP)),), [to(4000, 5000), to(18515)]),
    "an empty set": ((rule("in", DPORT, lookup("none"), verdict(DROP)),), []),
    "a set that was not read": ((rule("in", DPORT, lookup("x"), verdict(DROP)),), [UNREAD]),
    "a set that is too long": ((rule("in", DPORT, lookup("long"), verdict(DROP)),), [UNREAD]),
    "what a set does not hold": (
        (rule("in", DPORT, lookup(inverted=True), verdict(DROP)),),
        [UNREAD],
    ),
    "a map": ((rule("in", DPORT, lookup(into=0), verdict(DROP)),), [UNREAD]),
    "source ports": (
        (rule("in", payload(2, 0, 2), lookup(), verdict(DROP)),),
        [UNREAD, replace(WHOLE, source_port=18515)],
    ),
    "addresses": (
        (rule("in", meta(15), compare(b"\2"), payload(1, 12, 4), lookup("v4"), verdict(DROP)),),
        [replace(WHOLE, ether_type=IPV4, source="192.0.2.0/24")],
    ),
    "a prefix of 31 bits": (
        (rule("in", meta(15), compare(b"\2"), payload(1, 12, 4), lookup("odd"), verdict(DROP)),),
        [
            replace(UNREAD, ether_type=IPV4),
            replace(WHOLE, ether_type=IPV4, source="192.0.2.2/32"),
        ],
    ),
    "interfaces": (
        (rule("in", meta(6), lookup("names"), verdict(ACCEPT)),),
        [replace(WHOLE, drops=False, netdev="eth0")],
    ),
    "from a port on": ((rule("in", DPORT, compare(port(9), 5), verdict(DROP)),), [to(9, 65535)]),
    "above a port": ((rule("in", DPORT, compare(port(9), 4), verdict(DROP)),), [to(10, 65535)]),
    "up to a port": ((rule("in", DPORT, compare(port(9), 3), verdict(DROP)),), [to(0, 9)]),
    "below a port": ((rule("in", DPORT, compare(port(9), 2), verdict(DROP)),), [to(0, 8)]),
    "below the first port": ((rule("in", DPORT, compare(port(0), 2), verdict(DROP)),), []),
    "a range of source ports": (
        (rule("in", payload(2, 0, 2), compare(port(9), 5), verdict(DROP)),),
        [UNREAD],
    ),
    "an extension for UDP": (
        (rule("in", UDP_, match("udp", 0, udp(4000, 5000)), verdict(DROP)),),
        [replace(to(4000, 5000), protocol=UDP)],
    ),
    "an extension that asks for no port": (
        (rule("in", UDP_, match("udp", 0, udp(0, 65535)), verdict(DROP)),),
        [replace(WHOLE, protocol=UDP)],
    ),
    "an extension that excludes": (
        (rule("in", match("udp", 0, udp(1, 2, invert=2)), verdict(DROP)),),
        [replace(to(1, 2), understood=False)],
    ),
    "an extension for source ports": (
        (rule("in", match("udp", 0, udp(1, 2, source=(5, 6))), verdict(DROP)),),
        [replace(to(1, 2), understood=False)],
    ),
    "an extension for TCP": (
        (rule("in", TCP_, match("tcp", 0, udp(22, 22)), verdict(DROP)),),
        [replace(to(22), protocol=TCP)],
    ),
    "an extension for flags of TCP": (
        (
            rule(
                "in",
                match("tcp", 0, struct.pack("=4H8B", 0, 65535, 22, 22, 0, 2, 2, *[0] * 5)),
                verdict(DROP),
            ),
        ),
        [replace(to(22), understood=False)],
    ),
    "several ports": (
        (rule("in", match("multiport", 1, multiport(22, 4000, 5000, ranges=(1,))), verdict(DROP)),),
        [to(22), to(4000, 5000)],
    ),
    "several ports of the source": (
        (rule("in", match("multiport", 1, multiport(22, flags=0)), verdict(DROP)),),
        [UNREAD],
    ),
    "none of several ports": (
        (rule("in", match("multiport", 1, multiport(22, invert=1)), verdict(DROP)),),
        [UNREAD],
    ),
    "another extension": ((rule("in", match("recent", 1, bytes(64)), verdict(DROP)),), [UNREAD]),
    "a range that a jump narrows": (
        (
            rule("in", DPORT, lookup(), verdict(JUMP, "sub")),
            rule("sub", DPORT, compare(port(4791), 5), verdict(DROP)),
        ),
        [to(4791, 5000), to(18515)],
    ),
}


def rows(*rules: bytes) -> list[TrafficFilter]:
    chains = chain("in", 1) + chain("sub")
    found = parse_packet_filter(chains, b"".join(rules), SETS)
    assert not isinstance(found, Missing)
    return list(found.chains[0].rules)


@pytest.mark.parametrize("name", CASES)
def test_what_a_rule_asks_of_several_values(name: str) -> None:
    rules, wanted = CASES[name]
    assert rows(*rules) == wanted


def test_sets_that_make_too_many_rows_are_more_conditions() -> None:
    inner = b"".join(
        rule("sub", payload(2, 0, 2), compare(port(at)), verdict(DROP)) for at in range(2100)
    )
    found = rows(rule("in", DPORT, lookup(), verdict(JUMP, "sub")), inner)
    assert len(found) == 2100
    assert not any(each.understood for each in found)


def test_the_sets_that_are_asked_are_named_once() -> None:
    rules = rule("in", DPORT, lookup("a")) + rule("in", DPORT, lookup("a")) + rule("in", UDP_)
    assert asked_sets(rules) == {(INET, "t", "a")}


@given(st.binary(max_size=200), st.integers(1, 16), st.booleans())
def test_any_bytes_are_elements_or_a_reason(raw: bytes, length: int, is_interval: bool) -> None:
    assert isinstance(parse_elements(raw, length, is_interval), tuple | Missing)
    assert isinstance(parse_sets(raw), tuple | Missing)


@given(st.lists(st.integers(0, 65535), min_size=1, max_size=20, unique=True))
def test_intervals_hold_what_was_put_in(ports: list[int]) -> None:
    """As nft writes them: each value its own interval, neighbours joined."""
    values: list[bytes | tuple[bytes, int]] = []
    for each in sorted(ports):
        if each - 1 not in ports:
            values.append(port(each))
        if each + 1 not in ports and each < 65535:
            values.append((port(each + 1), END))
    found = parse_elements(elements(*reversed(values)), 2, is_interval=True)
    assert not isinstance(found, Missing)
    held = {at for low, high in found for at in range(*_open(low, high))}
    assert held == set(ports)


def _open(low: bytes, high: bytes) -> tuple[int, int]:
    return int.from_bytes(low), int.from_bytes(high) + 1


@given(st.binary(max_size=120))
def test_any_expressions_with_sets_give_facts_or_a_reason(raw: bytes) -> None:
    whole = message(
        netlink.NFT_GETRULE, INET, attribute(1, b"t\0"), attribute(2, b"in\0"), attribute(4, raw)
    )
    assert isinstance(parse_packet_filter(chain("in", 1), whole, SETS), PacketFilter | Missing)
