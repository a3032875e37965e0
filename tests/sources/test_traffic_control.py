"""Qdiscs and filters, from messages as the kernel sends them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.facts.traffic_control import (
    IN,
    OUT,
    Netem,
    Qdisc,
    Queue,
    TrafficControl,
    TrafficFilter,
)
from rdmadiag.host import netlink
from rdmadiag.sources.traffic_control import (
    parse_bucket,
    parse_ceilings,
    parse_default_classes,
    parse_filters,
    parse_netem,
    parse_qdiscs,
    parse_queue,
)
from tests.preflight.test_judge_route import host

NAMES = {2: "eth0", 3: "eth1"}
ROOT, CLSACT, MIN_IN = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFFFFF2
SHOT, OK, PIPE = 2, 0, 3


def attributes(*rows: tuple[int, bytes]) -> bytes:
    return b"".join(netlink.attribute(*each) for each in rows)


def tcmsg(kind: int, index: int, parent: int, info: int, *rows: tuple[int, bytes]) -> bytes:
    head = struct.pack("=BxxxiIII", 0, index, 0, parent, info)
    return netlink.request(kind, 0, head + attributes(*rows))


def qdisc(index: int, name: bytes, parent: int, options: bytes = b"") -> bytes:
    return tcmsg(36, index, parent, 1, (1, name + b"\0"), (2, options))


def gact(action: int) -> bytes:
    parms = struct.pack("=IIiii", 1, 0, action, 1, 1)
    return attributes((1, attributes((1, b"gact\0"), (2, attributes((2, parms))))))


def other(kind: bytes) -> bytes:
    return attributes((1, attributes((1, kind + b"\0"))))


def rule(name: bytes, options: bytes, ether: int = 0x0800, priority: int = 49152) -> bytes:
    info = priority << 16 | int.from_bytes(ether.to_bytes(2, "big"), "little")
    return tcmsg(44, 2, MIN_IN, info, (1, name + b"\0"), (2, options))


def flower(*rows: tuple[int, bytes], action: bytes = gact(SHOT)) -> bytes:
    return rule(b"flower", attributes((3, action), (8, b"\x08\x00"), *rows))


def one(reply: bytes) -> TrafficFilter:
    found = parse_filters(reply, NAMES, IN)
    assert not isinstance(found, Missing)
    return found[0]


def test_a_filter_of_udp_4791_is_told_with_its_action() -> None:
    found = one(flower((9, b"\x11"), (21, struct.pack(">H", 4791)), (22, b"\0\0\0\0")))
    assert found == TrafficFilter(
        *("eth0", IN, "flower", 49152, 0x0800, True, True, False, True),
        protocol=17,
        destination_port=4791,
    )


# As kernel 7.2 dumps `tc filter add dev eth0 egress protocol ip flower ip_proto udp dst_port 4791
# action drop`: the priority's own row, then the filter.
LIVE = bytes.fromhex(
    "380000002c0002000000000066010000000000000200000000000000f3ffffff080000c00b000100"
    "666c6f776572000008000b00000000000c0100002c00020000000000660100000000000002000000"
    "01000000f3ffffff080000c00b000100666c6f776572000008000b0000000000d400020006000800"
    "0800000005000900110000000600150012b7000006002600ffff0000080016000800000008005600"
    "00000000a00003009c00010009000100676163740000000044000400140001000000000000000000"
    "00000000000000001400070000000000000000000000000000000000180003000000000000000000"
    "00000000000000000000000008000a00000000004000020018000200010000000000000002000000"
    "01000000010000002400010093020000000000009302000000000000000000000000000000000000"
    "00000000"
)


def test_what_a_kernel_dumps_is_understood() -> None:
    found = parse_filters(LIVE, NAMES, OUT)
    assert found == (
        TrafficFilter(
            *("eth0", OUT, "flower", 49152, 0x0800, True, True, False, True),
            protocol=17,
            destination_port=4791,
        ),
    )


# As kernel 7.2 dumps `tc filter add dev eth0 egress protocol ip u32 match ip protocol 17 0xff match
# ip dport 4791 0xffff action mirred egress redirect dev dummy0`, the filter alone.
LIVE_U32 = bytes.fromhex(
    "240100002c0002000000000088040000000000000200000000080080f3ffffff080000c008000100"
    "7533320008000b0000000000f0000200340005000100020000000000000000000000000000ff0000"
    "0011000008000000000000000000ffff000012b71400000000000000080002000000008008000b00"
    "08000000a8000700a40001000b0001006d6972726564000044000400140001000000000000000000"
    "00000000000000001400070000000000000000000000000000000000180003000000000000000000"
    "00000000000000000000000008000a00000000004800020020000200010000000000000004000000"
    "01000000010000000100000003000000240001004900000000000000490000000000000000000000"
    "000000000000000000000000"
)


def test_words_of_u32_are_the_fields_of_the_packet_that_they_cover() -> None:
    found = parse_filters(LIVE_U32, {2: "eth0", 3: "dummy0"}, OUT)
    assert found == (
        TrafficFilter(
            *("eth0", OUT, "u32", 49152, 0x0800, False, True, False, True),
            protocol=17,
            destination_port=4791,
            leads_to="dummy0",
        ),
    )


def u32(*keys: tuple[int, int, int], action: bytes = gact(SHOT), flags: int = 1) -> bytes:
    """Offset, mask and value of each word."""
    rows = b"".join(
        struct.pack(">II", mask, value) + struct.pack("=ii", at, 0) for at, mask, value in keys
    )
    head = struct.pack("=BBB13x", flags, 0, len(keys))
    return rule(b"u32", attributes((5, head + rows), (7, action)))


def test_words_that_are_no_known_field_are_not_understood() -> None:
    source = (12, 0xFFFFFF00, 0xC0000200)
    known = one(u32(source))
    assert (known.understood, known.source) == (True, "192.0.2.0/24")
    for odd in (
        u32(source, (0, 0x0F000000, 0x05000000)),
        u32((12, 0xFF00FF00, 0xC0000200)),
        u32((20, 0x0000FFFF, 4791)),  # a port of whichever protocol
        u32(source, flags=0),
        rule(b"u32", attributes((5, struct.pack("=BBB13x", 1, 0, 2)), (7, gact(SHOT)))),
    ):
        found = one(odd)
        assert (found.drops, found.understood, found.source) == (True, False, None)
    every = one(u32((0, 0, 0)))
    assert (every.understood, every.protocol) == (True, None)


def mirred(how: int, index: int, after: int = 4) -> bytes:
    parms = struct.pack("=IIiiiiI", 1, 0, after, 1, 1, how, index)
    return attributes((1, attributes((1, b"mirred\0"), (2, attributes((2, parms))))))


def police(exceeding: int) -> bytes:
    parms = struct.pack("=Ii48x", 1, exceeding)
    return attributes((1, attributes((1, b"police\0"), (2, attributes((1, parms))))))


@pytest.mark.parametrize(
    ("action", "leads_to", "limits", "ends"),
    [
        (mirred(1, 3), "eth1", False, True),
        (mirred(3, 7), "#7", False, True),
        (mirred(2, 3, PIPE), None, False, False),
        (mirred(2, 3, OK), None, False, True),
        (police(SHOT), None, True, True),
        (police(PIPE), None, False, False),
    ],
    ids=["redirect", "redirect inwards", "mirror", "mirror, and let pass", "police", "mark"],
)
def test_where_a_filter_leads_and_what_it_limits(
    action: bytes, leads_to: str | None, limits: bool, ends: bool
) -> None:
    found = one(flower(action=action))
    assert (found.leads_to, found.limits, found.ends) == (leads_to, limits, ends)
    assert not found.drops


def test_a_part_of_a_port_and_another_chain_are_not_understood() -> None:
    port = ((9, b"\x11"), (21, struct.pack(">H", 4791)))
    assert one(flower(*port, (38, b"\xff\xff"))).understood
    assert not one(flower(*port, (38, b"\xff\x00"))).understood
    head = struct.pack("=BxxxiIII", 0, 2, 0, MIN_IN, 49152 << 16 | 8)
    options = attributes((3, gact(SHOT)))
    row = attributes((1, b"flower\0"), (11, struct.pack("=I", 1)), (2, options))
    assert not one(netlink.request(44, 0, head + row)).understood


def test_an_address_and_its_mask_are_a_prefix() -> None:
    found = one(flower((10, bytes((192, 0, 2, 1))), (11, b"\xff" * 4)))
    assert (found.source, found.destination, found.understood) == ("192.0.2.1/32", None, True)
    wide = bytes.fromhex("20010db8") + bytes(12)
    found = one(flower((16, wide), (17, b"\xff" * 4 + bytes(12))))
    assert found.destination == "2001:db8::/32"


def test_a_condition_that_is_not_known_is_not_understood() -> None:
    assert not one(flower((23, b"\x07\x00"))).understood  # a VLAN
    assert not one(
        flower((19, struct.pack(">H", 7)), (9, b"\x11"))
    ).understood  # TCP's port, of UDP


@pytest.mark.parametrize(
    ("action", "drops", "ends"),
    [
        (gact(SHOT), True, True),
        (gact(OK), False, True),
        (gact(PIPE), False, False),
        (b"", False, False),
        (other(b"pedit"), False, False),
        (other(b"mirred"), False, True),
    ],
)
def test_the_first_action_that_decides_is_the_filters(
    action: bytes, drops: bool, ends: bool
) -> None:
    found = one(flower(action=action))
    assert (found.drops, found.ends) == (drops, ends)


def test_a_filter_in_hardware_and_one_of_all_packets() -> None:
    assert one(flower((22, struct.pack("=I", 0x4)))).in_hardware
    everything = one(rule(b"matchall", attributes((2, gact(SHOT))), ether=0x0003))
    assert (everything.kind, everything.drops, everything.understood) == ("matchall", True, True)
    u32 = one(rule(b"u32", attributes((5, bytes(16)), (7, gact(SHOT)))))
    assert (u32.drops, u32.understood) == (True, False)


def test_filters_come_in_the_order_of_their_priority() -> None:
    reply = rule(b"matchall", attributes((2, gact(SHOT))), priority=9)
    reply += rule(b"matchall", attributes((2, gact(OK))), priority=3)
    reply += tcmsg(44, 2, MIN_IN, 3 << 16, (1, b"flower\0"))  # a priority's own row
    found = parse_filters(reply, NAMES, OUT)
    assert not isinstance(found, Missing)
    assert [(each.priority, each.drops) for each in found] == [(3, False), (9, True)]


def netem(
    loss: float = 0.0,
    delay_ms: int = 0,
    corrupt: float = 0.0,
    limit: int = 1000,
    rate: int | None = None,
) -> bytes:
    """`rate` in bytes a second; struct tc_netem_rate."""
    head = struct.pack("=IIIIII", 0, limit, int(loss * 0xFFFFFFFF), 0, 0, 0)
    slow = () if rate is None else ((6, struct.pack("=IiIi", rate, 0, 0, 0)),)
    return head + attributes(
        (4, struct.pack("=II", int(corrupt * 0xFFFFFFFF), 0)),
        (10, struct.pack("=q", delay_ms * 1_000_000)),
        *slow,
    )


def fifo(limit: int) -> bytes:
    """struct tc_fifo_qopt: bytes of bfifo, packets of pfifo."""
    return struct.pack("=I", limit)


def cake(rate: int) -> bytes:
    return attributes((2, struct.pack("=Q", rate)), (4, bytes(4)))


def fq(rate: int) -> bytes:
    return attributes((1, struct.pack("=I", 10000)), (7, struct.pack("=I", rate)))


def tbf(rate: int, burst: int) -> bytes:
    """`rate` in bytes a second; the bucket in ticks of 64 ns."""
    ticks = burst * 1_000_000_000 // 64 // rate
    parms = struct.pack("=8xI8xIIII", rate, 0, 65536, ticks, 0)
    return attributes((1, parms))


def test_a_token_bucket_has_a_rate_and_a_size() -> None:
    found = parse_bucket(tbf(2500, 1600))
    assert found is not None
    assert found.bytes_per_second == 2500
    assert abs(found.burst_bytes - 1600) <= 1
    assert parse_bucket(tbf(2500, 1600)[:20]) is None


def test_netem_says_what_it_does() -> None:
    found = parse_netem(netem(0.6, 4000, 1.0))
    assert found == Netem(0.6, 0.0, 1.0, 4000.0, None, 1000)
    found = parse_netem(netem(limit=0, rate=2500))
    assert found == Netem(0.0, 0.0, 0.0, 0.0, 2500, 0)
    old = struct.pack("=IIIIII", 1_000_000, 1000, 0, 0, 0xFFFFFFFF, 0)
    assert parse_netem(old) == Netem(0.0, 1.0, 0.0, 64.0, None, 1000)
    assert parse_netem(old[:20]) is None


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("bfifo", fifo(600), Queue(600, None)),
        ("pfifo", fifo(10), Queue(None, 10)),
        ("pfifo_head_drop", fifo(0), Queue(None, 0)),
        ("pfifo_fast", fifo(10), None),
        ("bfifo", b"\0\0", None),
    ],
    ids=["bytes", "packets", "the oldest goes", "priorities, not a limit", "cut short"],
)
def test_a_queue_has_room_for_bytes_or_for_packets(
    kind: str, options: bytes, expected: Queue | None
) -> None:
    assert parse_queue(options, kind) == expected


@pytest.mark.parametrize(("flags", "by_program"), [(1, True), (0, False)])
def test_a_program_decides_by_itself_in_direct_action(flags: int, by_program: bool) -> None:
    found = one(rule(b"bpf", attributes((1, b""), (7, b"p\0"), (8, struct.pack("=I", flags)))))
    assert (found.by_program, found.ends, found.drops) == (by_program, by_program, False)


def test_qdiscs_have_their_netdev_and_their_place() -> None:
    reply = qdisc(2, b"netem", ROOT, netem(0.5)) + qdisc(7, b"clsact", CLSACT)
    assert parse_qdiscs(reply, NAMES) == (
        Qdisc("eth0", "netem", True, Netem(0.5, 0.0, 0.0, 0.0, None, 1000)),
        Qdisc("#7", "clsact", False),
    )


def traffic(*inwards: bytes, out: bytes = b"", qdiscs: bytes = b"") -> dict[str, bytes]:
    """Of eth0, which is the first netdev of a built machine: replies by their names in a record."""
    return {
        "route-getqdisc": qdisc(2, b"clsact", CLSACT) + qdiscs,
        "route-gettfilter-2-in": b"".join(inwards),
        "route-gettfilter-2-out": out,
    }


def control(**replies: bytes) -> TrafficControl | Missing:
    routing = host(traffic=replies).evidence().routing
    assert not isinstance(routing, Missing)
    return routing.traffic_control


def test_filters_are_read_of_netdevs_with_a_place_for_them() -> None:
    found = control(**traffic(rule(b"matchall", attributes((2, gact(SHOT))))))
    assert not isinstance(found, Missing)
    assert not isinstance(found.filters, Missing)
    assert [(each.netdev, each.direction) for each in found.filters] == [("eth0", IN)]
    none = control(**{"route-getqdisc": qdisc(2, b"mq", ROOT) + qdisc(3, b"noqueue", ROOT)})
    assert none == TrafficControl((), ())


def htb(default: int) -> bytes:
    """struct tc_htb_glob, in a qdisc's options."""
    return attributes((2, struct.pack("=IIIII", 3, 10, default, 0, 0)))


def htb_class(handle: int, ceiling: int, wide: int = 0) -> bytes:
    """struct tc_htb_opt: a rate of 1000 bytes a second, and its ceiling."""
    parms = struct.pack("=8xI8xI20x", 1000, ceiling)
    more = ((7, struct.pack("=Q", wide)),) if wide else ()
    options = attributes((1, parms), *more)
    head = struct.pack("=BxxxiIII", 0, 2, handle, 0x10000, 0)
    return netlink.request(40, 0, head + attributes((1, b"htb\0"), (2, options)))


def of_htb(default: int, *classes: bytes) -> dict[str, bytes]:
    head = struct.pack("=BxxxiIII", 0, 2, 0x10000, ROOT, 2)
    root = netlink.request(36, 0, head + attributes((1, b"htb\0"), (2, htb(default))))
    return {"route-getqdisc": root, "route-gettclass-2": b"".join(classes)}


@pytest.mark.parametrize(
    ("default", "rates"),
    [(0x30, [4_000_000]), (0x31, [5_000_000_000]), (0x32, []), (0, [])],
    ids=["of a class", "of a fast class", "of no class", "none"],
)
def test_of_htb_the_ceiling_of_the_default_class_counts(default: int, rates: list[int]) -> None:
    classes = (htb_class(0x10030, 4_000_000), htb_class(0x10031, 0xFFFFFFFF, 5_000_000_000))
    found = control(**of_htb(default, *classes))
    assert not isinstance(found, Missing)
    assert [each.bytes_per_second for each in found.qdiscs] == rates


def test_classes_that_make_no_sense_leave_the_qdiscs_unknown() -> None:
    assert isinstance(control(**of_htb(0x30, b"\0")), Missing)


def test_filters_that_could_not_be_read_are_missing() -> None:
    found = control(**{"route-getqdisc": qdisc(2, b"clsact", CLSACT)})
    assert not isinstance(found, Missing)
    assert isinstance(found.filters, Missing)
    assert isinstance(control(**{"route-getqdisc": b"\0"}), Missing)


@given(raw=st.binary(max_size=160))
def test_any_bytes_are_rows_or_missing(raw: bytes) -> None:
    assert isinstance(parse_qdiscs(raw, NAMES), tuple | Missing)
    assert isinstance(parse_default_classes(raw), dict | Missing)
    assert isinstance(parse_ceilings(raw), dict | Missing)
    assert isinstance(parse_filters(raw, NAMES, IN), tuple | Missing)
    assert isinstance(parse_netem(raw), Netem | None)


@given(options=st.binary(max_size=120), kind=st.sampled_from([b"flower", b"matchall", b"u32"]))
def test_any_options_are_a_filter(options: bytes, kind: bytes) -> None:
    assert isinstance(parse_filters(rule(kind, options), NAMES, OUT), tuple | Missing)
