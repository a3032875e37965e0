"""rtnetlink's notifications: pyroute2 as the oracle, what changed, and damaged datagrams."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.host import netlink
from rdmadiag.sources.netdev import parse_addresses, parse_netdevs
from rdmadiag.watch.event import Action, Kind, Source
from rdmadiag.watch.route import Links, address_of, link_of, parse_notifications

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = sorted(FIXTURES.glob("*/netlink/route-getlink.bin"))
ADDRESSES = sorted(FIXTURES.glob("*/netlink/route-getaddr.bin"))


def message(kind, body, *attributes):
    """One of type `kind`, as the kernel lays it out."""
    body += b"".join(netlink.attribute(number, value) for number, value in attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body + bytes(-len(body) % 4)


def link(name=b"eth7", *more, kind=16, family=0, index=7, flags=1, operstate=6, carrier=1):
    return message(
        kind,
        struct.pack("=BxHiII", family, 1, index, flags, 0),
        (3, name + b"\0"),
        (4, struct.pack("=I", 1500)),
        (16, bytes([operstate])),
        (33, bytes([carrier])),
        *more,
    )


def address(*attributes, kind=20, family=2, length=24, index=7):
    return message(kind, struct.pack("=BBBBI", family, length, 0x80, 0, index), *attributes)


def known():
    links = Links()
    links.learn(link())
    return links


@pytest.mark.parametrize("path", RECORDED, ids=[each.parts[-3] for each in RECORDED])
def test_links_are_read_as_pyroute2_reads_them(path):
    reply = path.read_bytes()
    links = Links()
    links.learn(reply)
    theirs = {each.ifindex: each for each in parse_netdevs(reply, {})}
    assert {index: state.name for index, state in links.known.items()} == {
        index: each.name for index, each in theirs.items()
    }
    for index, state in links.known.items():
        their = theirs[index]
        assert (state.admin_up, state.operstate) == (their.admin_up, their.operstate)
        assert (state.mtu, state.mac) == (their.mtu, their.mac)
        assert state.carrier == their.carrier or their.carrier not in (True, False)


@pytest.mark.parametrize("path", ADDRESSES, ids=[each.parts[-3] for each in ADDRESSES])
def test_addresses_are_read_as_pyroute2_reads_them(path):
    reply = path.read_bytes()
    ours = {}
    for each in netlink.messages(reply):
        if each.type != 20:
            continue
        index, text, details = address_of(netlink.body(reply, each))
        ours.setdefault(index, []).append((text, details["tentative"], details["duplicate"]))
    theirs = {
        index: [
            (f"{each.address}/{each.prefix_length}", each.tentative, each.duplicate)
            for each in found
        ]
        for index, found in parse_addresses(reply).items()
    }
    assert ours == theirs


def test_a_link_that_goes_down_says_what_it_was():
    (event,) = parse_notifications(link(operstate=2, carrier=0), known())
    assert (event.source, event.kind, event.action) == (Source.ROUTE, Kind.LINK, Action.CHANGED)
    assert event.subject == "eth7"
    assert event.before == {"operstate": "up", "carrier": True}
    assert (event.details["operstate"], event.details["carrier"]) == ("down", False)


def test_a_link_of_which_nothing_changed_was_only_notified():
    (event,) = parse_notifications(link(), known())
    assert (event.action, event.before) == (Action.NOTIFIED, {})


@pytest.mark.parametrize(
    ("datagram", "action", "subject", "left"),
    [
        pytest.param(link(b"new", index=8), "added", "new", "eth7,new", id="a new one"),
        pytest.param(link(kind=17), "removed", "eth7", "", id="one that goes"),
        pytest.param(link(b"other"), "renamed", "other", "other", id="one with a new name"),
    ],
)
def test_names_follow_links(datagram, action, subject, left):
    links = known()
    (event,) = parse_notifications(datagram, links)
    assert (event.action, event.subject) == (action, subject)
    assert ",".join(links.names.values()) == left


def test_a_bridges_port_is_told_once():
    assert parse_notifications(link(family=7), known()) == ()


def test_a_master_has_its_name():
    links = known()
    parse_notifications(link(b"bond0", index=9), links)
    (event,) = parse_notifications(link(b"eth7", (10, struct.pack("=I", 9))), links)
    assert (event.before, event.details["master"]) == ({"master": None}, "bond0")


def test_an_address_is_of_its_netdev():
    raw = bytes([192, 0, 2, 1])
    (event,) = parse_notifications(address((2, raw), (1, raw)), known())
    assert (event.kind, event.action, event.subject) == ("address", "added", "192.0.2.1/24")
    assert event.details["netdev"] == "eth7"
    (event,) = parse_notifications(address((1, raw), kind=21, index=99), known())
    assert (event.action, event.details["netdev"]) == ("removed", "#99")


def test_a_duplicate_address_is_one():
    flags = struct.pack("=I", 0x08 | 0x40)
    (event,) = parse_notifications(
        address((1, bytes(15) + b"\1"), (8, flags), family=10, length=64), known()
    )
    assert event.subject == "::1/64"
    assert (event.details["duplicate"], event.details["tentative"]) == (True, True)


def test_a_route_a_neighbour_and_a_rule():
    route = message(
        24,
        struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 3, 0, 1, 0),
        (1, bytes([203, 0, 113, 0])),
        (4, struct.pack("=I", 7)),
        (5, bytes([192, 0, 2, 9])),
    )
    neighbour = message(
        28, struct.pack("=BxxxiHBB", 2, 7, 2, 0, 0), (1, bytes([192, 0, 2, 9])), (2, b"\2" * 6)
    )
    rule = message(
        33, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 77, 0, 0, 1, 0), (6, struct.pack("=I", 100))
    )
    found = parse_notifications(route + neighbour + rule, known())
    assert [(each.kind, each.action, each.subject) for each in found] == [
        ("route", "added", "203.0.113.0/24"),
        ("neighbour", "changed", "192.0.2.9"),
        ("rule", "removed", "100"),
    ]
    assert (found[0].details["netdev"], found[0].details["gateway"]) == ("eth7", "192.0.2.9")
    assert (found[1].details["mac"], found[1].details["state"]) == (
        "02:02:02:02:02:02",
        "reachable",
    )
    assert found[2].details["table"] == 77


@pytest.mark.parametrize(
    "datagram",
    [
        link()[:-5],
        message(16, b"\0" * 4),
        message(16, struct.pack("=BxHiII", 0, 1, 7, 0, 0)),
        message(20, b"\0"),
        address((1, b"\1\2\3")),
        message(24, b"\0"),
    ],
    ids=["cut off", "no header", "no name", "no address header", "3 bytes", "no route header"],
)
def test_what_cannot_be_read_is_said(datagram):
    (event,) = parse_notifications(datagram, known())
    assert (event.kind, event.source) == (Kind.UNREADABLE, Source.ROUTE)
    assert event.details["why"]


def test_what_was_before_a_torn_message_is_told():
    found = parse_notifications(link(kind=17) + link()[:-4], known())
    assert [each.kind for each in found] == [Kind.LINK, Kind.UNREADABLE]


def test_a_message_of_another_kind_is_none():
    assert parse_notifications(message(99, b"\0" * 16), known()) == ()


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_none(raw):
    for each in parse_notifications(raw, known()):
        assert each.source is Source.ROUTE


@given(
    st.sampled_from([16, 17, 20, 21, 24, 25, 28, 29, 32, 33]),
    st.binary(max_size=20),
    st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=24)), max_size=6),
)
def test_any_content_of_a_message_is_events_or_none(kind, head, attributes):
    for each in parse_notifications(message(kind, head, *attributes), known()):
        assert isinstance(each.subject, str)
        for value in each.details.values():
            assert value is None or isinstance(value, str | int | bool)


@given(st.binary(max_size=64))
def test_a_links_name_may_be_any_bytes(name):
    try:
        found = link_of(netlink.body(link(name), next(netlink.messages(link(name)))))
    except ValueError:
        return
    assert found is not None
