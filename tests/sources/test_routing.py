"""Routes, rules, neighbours: what pyroute2 encodes is read back, and damaged replies."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.routing import DEFAULT_RULES, Rule, Way
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import GidType
from rdmadiag.facts.routing import (
    AddressLabel,
    Asked,
    Hop,
    KernelAnswer,
    NeighbourState,
    RoceMode,
    Route,
    RouteKind,
    RoutingFacts,
    RuleAction,
    TowardsFacts,
)
from rdmadiag.host import netlink
from rdmadiag.sources.hosts import parse_hosts
from rdmadiag.sources.routing import (
    MOST,
    parse_address_labels,
    parse_links,
    parse_neighbours,
    parse_port_mapper,
    parse_roce_mode,
    parse_routes,
    parse_rules,
    question,
    read_routing,
    read_towards,
)

NAMES = {2: "eth0", 3: "eth1"}
NETDEVS = (
    NetDev("eth0", addresses=("192.0.2.1/24", "2001:db8::1/64")),
    NetDev("eth1", addresses=("198.51.100.1/24",)),
)


def machine(**changes: object) -> Machine:
    return Machine("host", netdevs=NETDEVS).change(**changes)


def facts(**changes: object) -> RoutingFacts:
    found = read_routing(machine(**changes).host(), time.monotonic() + 5)
    assert isinstance(found, RoutingFacts)
    return found


def routes(**changes: object) -> dict[str, Route]:
    found = facts(**changes).routes
    assert not isinstance(found, Missing)
    return {each.destination: each for each in found}


# --- routes ------------------------------------------------------------------------------


def test_the_routes_of_addresses_are_read() -> None:
    found = routes()
    assert found["192.0.2.0/24"] == Route(
        "192.0.2.0/24", 254, RouteKind.UNICAST, (Hop("eth0"),), source="192.0.2.1"
    )
    assert found["192.0.2.1/32"].kind is RouteKind.LOCAL
    assert found["192.0.2.1/32"].table == 255
    assert found["2001:db8::/64"].hops == (Hop("eth0"),)


def test_a_default_route_has_the_prefix_of_its_family() -> None:
    found = routes(
        ways=(
            Way("0.0.0.0/0", "eth0", "192.0.2.254", metric=100),
            Way("::/0", "eth0", "fe80::1"),
        )
    )
    assert (found["0.0.0.0/0"].metric, found["0.0.0.0/0"].hops) == (
        100,
        (Hop("eth0", "192.0.2.254"),),
    )
    assert found["::/0"].hops == (Hop("eth0", "fe80::1"),)


def test_a_table_beyond_255_is_of_its_attribute() -> None:
    assert routes(ways=(Way("203.0.113.0/24", "eth0", table=4711),))["203.0.113.0/24"].table == 4711


def test_several_hops_stand_in_one_row() -> None:
    way = Way("203.0.113.0/24", hops=(("eth0", "192.0.2.9"), ("eth1", None)))
    assert routes(ways=(way,))["203.0.113.0/24"].hops == (Hop("eth0", "192.0.2.9"), Hop("eth1"))


@pytest.mark.parametrize("kind", [RouteKind.BROADCAST, RouteKind.MULTICAST, RouteKind.ANYCAST])
def test_what_leads_to_no_peer_is_left_out(kind: RouteKind) -> None:
    assert "192.0.2.255/32" not in routes(ways=(Way("192.0.2.255/32", "eth0", kind=kind.number),))


def test_a_route_of_a_netdev_that_is_not_shown_names_its_number() -> None:
    reply = machine().recording().netlink["route-getroute-4"]
    found = parse_routes(reply, {})
    assert not isinstance(found, Missing)
    assert found[0].hops == (Hop("#2"),)


def test_more_routes_than_are_kept_are_no_table() -> None:
    row = machine().recording().netlink["route-getroute-4"][:60]
    (length,) = struct.unpack_from("=I", row)
    found = parse_routes(row[:length] * (MOST + 1), NAMES)
    assert isinstance(found, Missing)
    assert found.why is Why.UNSUPPORTED


def test_without_a_record_of_rules_there_are_none() -> None:
    found = facts(rules=None)
    assert isinstance(found.rules, Missing)
    assert isinstance(found.routes, Missing)
    assert found.rules.why is Why.NOT_COLLECTED


# --- rules -------------------------------------------------------------------------------


def test_the_rules_of_every_host_are_read() -> None:
    found = facts().rules
    assert not isinstance(found, Missing)
    assert [(each.version, each.priority, each.table) for each in found] == [
        (4, 0, 255),
        (4, 32766, 254),
        (4, 32767, 253),
        (6, 0, 255),
        (6, 32766, 254),
    ]
    assert {each.suppressed_length for each in found} == {None}


def test_every_condition_of_a_rule_is_read() -> None:
    rule = Rule(
        100,
        77,
        source="192.0.2.0/24",
        destination="203.0.113.0/25",
        mark=3,
        input="lo",
        output="eth0",
        suppressed_length=0,
        flags=2,
        ip_proto=17,
    )
    found = facts(rules=(*DEFAULT_RULES, rule)).rules
    assert not isinstance(found, Missing)
    own = next(each for each in found if each.priority == 100)
    assert (own.source, own.destination, own.mark) == (
        "192.0.2.0/24",
        "203.0.113.0/25",
        (3, 0xFFFFFFFF),
    )
    assert (own.input, own.output, own.suppressed_length) == ("lo", "eth0", 0)
    assert (own.inverted, own.action, own.other) == (True, RuleAction.TO_TABLE, ("protocol",))


def test_a_goto_has_its_target() -> None:
    found = facts(rules=(Rule(100, 0, action=2, target=200),)).rules
    assert not isinstance(found, Missing)
    assert (found[0].action, found[0].target) == (RuleAction.GOTO, 200)


# --- neighbours and the kernel's answer --------------------------------------------------------


def test_neighbours_have_their_state() -> None:
    host = machine(neighbours={("eth0", "192.0.2.2"): 0x20, ("eth1", "fe80::2"): 0x04}).host()
    found = read_towards(host, time.monotonic() + 5)
    assert isinstance(found, TowardsFacts)
    assert not isinstance(found.neighbours, Missing)
    assert [(each.address, each.netdev, each.state) for each in found.neighbours] == [
        ("192.0.2.2", "eth0", NeighbourState.FAILED),
        ("fe80::2", "eth1", NeighbourState.STALE),
    ]


@pytest.mark.parametrize(
    ("state", "valid"),
    [
        (NeighbourState.NONE, False),
        (NeighbourState.INCOMPLETE, False),
        (NeighbourState.REACHABLE, True),
        (NeighbourState.STALE, True),
        (NeighbourState.DELAY, True),
        (NeighbourState.PROBE, True),
        (NeighbourState.FAILED, False),
        (NeighbourState.NOARP, True),
        (NeighbourState.PERMANENT, True),
    ],
)
def test_valid_neighbours_are_those_of_nud_valid(state: NeighbourState, valid: bool) -> None:
    assert state.is_valid is valid


def test_a_record_has_no_answer_of_the_kernel() -> None:
    asked = Asked("192.0.2.2")
    found = read_towards(machine().host(), time.monotonic() + 5, (asked,))
    assert isinstance(found, TowardsFacts)
    (answer,) = found.answers
    assert isinstance(answer, KernelAnswer)
    assert isinstance(answer.route, Missing)
    assert answer.route.why is Why.NOT_COLLECTED


@pytest.mark.parametrize(
    "asked",
    [
        Asked("192.0.2.2"),
        Asked("192.0.2.2", "192.0.2.1", 7),
        Asked("2001:db8::2", "2001:db8::1"),
        Asked("fe80::2", None, 3),
    ],
)
def test_a_question_is_a_read_for_one_destination(asked: Asked) -> None:
    request = question(asked)
    netlink.require_read_only(netlink.NETLINK_ROUTE, request)
    (message,) = netlink.messages(request)
    assert message.type == netlink.RTM_GETROUTE
    assert message.flags == netlink.NLM_F_REQUEST  # no dump, nothing that makes
    found = dict(netlink.attributes(netlink.body(request, message, 12)))
    assert len(found[1]) == (16 if ":" in asked.destination else 4)
    assert (4 in found, 2 in found) == (asked.ifindex is not None, asked.source is not None)
    assert found[25] == bytes(4)  # RTA_UID: rdma_cm's flow is root's


# --- files -------------------------------------------------------------------------------


def test_the_mode_of_rdma_cm_is_read_where_its_folder_is() -> None:
    found = facts(roce_modes={"mlx5_0/1": "IB/RoCE v1"}, roce_tos={"mlx5_0/1": 104}).roce_modes
    assert found == (RoceMode("mlx5_0/1", GidType.ROCE_V1, 104),)
    (without,) = facts(roce_modes={"mlx5_0/1": "IB/RoCE v1"}).roce_modes
    assert isinstance(without.tos, Missing)
    absent = facts().roce_modes
    assert isinstance(absent, Missing)
    assert absent.why is Why.ABSENT


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("   1: 00000000:0F5F 00000000:0000 07", True),
        ("  12: 0100007F:0F5F 00000000:0000 07", True),
        ("   1: 00000000:0F5E 00000000:0000 07", False),
        ("   1: 00000000:0035 0100007F:0F5F 01", False),
        ("", False),
    ],
)
def test_the_port_mapper_is_known_by_its_port(row: str, found: bool) -> None:
    raw = f"  sl  local_address rem_address   st\n{row}\n".encode()
    assert parse_port_mapper(raw) is found


def test_a_host_says_whether_a_port_mapper_runs() -> None:
    assert (facts(port_mapper=True).port_mapper, facts().port_mapper) == (True, False)


def test_hosts_of_etc_hosts_have_their_addresses() -> None:
    raw = b"""
127.0.0.1\tlocalhost
192.0.2.2  node2 Node2.example  # the second
2001:DB8::2 node2
300.1.1.1 nobody
"""
    assert parse_hosts(raw) == {
        "localhost": ("127.0.0.1",),
        "node2": ("192.0.2.2", "2001:db8::2"),
        "node2.example": ("192.0.2.2",),
    }


# --- labels of addresses -------------------------------------------------------------------


def test_labels_are_the_kernels_own_and_what_was_added() -> None:
    # struct ifaddrlblmsg of linux/if_addrlabel.h: AF_INET6, 64 bits, eth1; IFAL_ADDRESS, _LABEL
    added = struct.pack("=IHHII", 56, 72, 2, 1, 0) + struct.pack("=BxBxII", 10, 64, 3, 0)
    added += struct.pack("=HH", 20, 1) + bytes.fromhex("fd000017") + bytes(12)
    added += struct.pack("=HHI", 8, 2, 117)
    found = parse_address_labels(WHOLE.netlink["route-getaddrlabel"] + added, NAMES)
    assert not isinstance(found, Missing)
    assert AddressLabel("fc00::/7", 5) in found
    assert found[-1] == AddressLabel("fd00:17::/64", 117, "eth1")


def test_what_an_icmp_message_has_changed_is_marked() -> None:
    found = routes(
        ways=(
            Way("203.0.113.0/24", "eth0", "192.0.2.9"),
            # RTM_F_CLONED, and RTCF_REDIRECTED of linux/in_route.h
            Way("203.0.113.2/32", "eth0", "192.0.2.8", flags=0x40200),
            Way("203.0.113.3/32", "eth0", "192.0.2.9", flags=0x200),
        )
    )
    shown = {
        each: (found[each].is_cached, found[each].is_redirected)
        for each in ("203.0.113.0/24", "203.0.113.2/32", "203.0.113.3/32")
    }
    assert [*shown.values()] == [(False, False), (True, True), (True, False)]


# --- any bytes -----------------------------------------------------------------------------


@st.composite
def damaged(draw, raw):  # type: ignore[no-untyped-def]
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 6))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))])


WHOLE = machine(
    ways=(Way("203.0.113.0/24", hops=(("eth0", "192.0.2.9"), ("eth1", None))),),
    rules=(*DEFAULT_RULES, Rule(100, 77, source="192.0.2.0/24", mark=3, input="lo")),
    neighbours={("eth0", "192.0.2.2"): 2},
).recording()


@pytest.mark.parametrize(
    ("name", "parse"),
    [
        ("route-getroute-4", lambda raw: parse_routes(raw, NAMES)),
        ("route-getroute-6", lambda raw: parse_routes(raw, NAMES)),
        ("route-getrule", parse_rules),
        ("route-getneigh", lambda raw: parse_neighbours(raw, NAMES)),
        ("route-getlink", parse_links),
        ("route-getaddrlabel", lambda raw: parse_address_labels(raw, NAMES)),
    ],
)
@given(data=st.data())
def test_any_bytes_are_rows_or_missing(data, name, parse):  # type: ignore[no-untyped-def]
    raw = data.draw(damaged(WHOLE.netlink[name]) | st.binary(max_size=120))
    assert isinstance(parse(raw), tuple | Missing)


@given(raw=st.binary(max_size=200))
def test_any_bytes_of_files_are_values_or_missing(raw: bytes) -> None:
    assert isinstance(parse_port_mapper(raw), bool | Missing)
    assert isinstance(parse_roce_mode(raw), GidType | Missing)
    assert isinstance(parse_hosts(raw), dict)
