"""The kernel's choice of a way, repeated: rules by priority, the longest prefix, the lowest metric.

Expected values are those that ip-route(8) and ip-rule(8) promise.
"""

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.routing import DEFAULT_RULES, Rule, Way
from rdmadiag.facts import Address, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.routing import AddressLabel, Hop, Route, RouteKind, RoutingFacts, RuleAction
from rdmadiag.facts.routing import Rule as TableRule
from rdmadiag.sources.routing import read_routing
from rdmadiag.view.cm_device import as_gid
from rdmadiag.view.peer_route import peer_route
from rdmadiag.view.routing import Flow, NoWay, Peers, holds, lookup
from rdmadiag.view.routing import Way as Found
from rdmadiag.view.source_address import preferred_source

NETDEVS = (
    NetDev("eth0", addresses=("192.0.2.1/24", "2001:db8::1/64")),
    NetDev("eth1", addresses=("198.51.100.1/24", "192.0.2.3/24")),
)
PEER = "203.0.113.2"
NET = "203.0.113.0/24"


def way(flow: Flow, *ways: Way, rules: tuple[Rule, ...] = DEFAULT_RULES) -> Any:
    machine = Machine("host", netdevs=NETDEVS).change(ways=ways, rules=rules)
    facts = read_routing(machine.host(), time.monotonic() + 5)
    assert isinstance(facts, RoutingFacts)
    return lookup(facts, flow)


def netdev(flow: Flow, *ways: Way, rules: tuple[Rule, ...] = DEFAULT_RULES) -> str:
    found = way(flow, *ways, rules=rules)
    assert isinstance(found, Found), found
    (hop,) = found.hops
    return hop.netdev


# --- tables --------------------------------------------------------------------------------


def test_a_peer_is_no_address_of_the_host_itself() -> None:
    peers = Peers(["192.0.2.1", "192.0.2.254", "192.0.2.253", "2001:db8::1"])
    assert peers.of("192.0.2.1", 24) == "192.0.2.252"
    assert peers.of("192.0.2.254", 24) == "192.0.2.252"
    assert Peers(["192.0.2.1", "192.0.2.2"]).of("192.0.2.1", 30) is None
    assert Peers(["192.0.2.1"]).of("192.0.2.1", 31) is None


def test_a_peer_of_the_subnet_is_on_its_link() -> None:
    found = way(Flow("198.51.100.2"))
    assert (found.hops, found.source, found.table, found.rule) == (
        (Hop("eth1"),),
        "198.51.100.1",
        254,
        32766,
    )


def test_an_address_of_this_host_is_local() -> None:
    found = way(Flow("192.0.2.1"))
    assert (found.kind, found.table, found.rule) == (RouteKind.LOCAL, 255, 0)


def test_the_longest_prefix_wins_over_the_lowest_metric() -> None:
    ways = (Way(NET, "eth1", metric=500), Way("203.0.0.0/8", "eth0", metric=1))
    assert netdev(Flow(PEER), *ways) == "eth1"


def test_of_one_prefix_the_lowest_metric_wins() -> None:
    ways = (Way(NET, "eth1", metric=200), Way(NET, "eth0", metric=100))
    assert netdev(Flow(PEER), *ways) == "eth0"


def test_the_default_route_is_for_the_rest() -> None:
    found = way(Flow(PEER), Way("0.0.0.0/0", "eth0", "192.0.2.254"))
    assert found.hops == (Hop("eth0", "192.0.2.254"),)
    assert found.prefix == "0.0.0.0/0"


def test_without_a_row_there_is_no_way() -> None:
    assert way(Flow(PEER)) is NoWay.NO_ROUTE
    assert way(Flow("2001:db8:9::1")) is NoWay.NO_ROUTE


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (RouteKind.UNREACHABLE, NoWay.UNREACHABLE),
        (RouteKind.PROHIBIT, NoWay.PROHIBIT),
        (RouteKind.BLACKHOLE, NoWay.BLACKHOLE),
    ],
)
def test_a_route_may_refuse(kind: RouteKind, found: NoWay) -> None:
    rest = Way("0.0.0.0/0", "eth0", "192.0.2.254")
    assert way(Flow(PEER), Way(NET, kind=kind.number), rest) is found


def test_a_throw_route_ends_its_table_alone() -> None:
    ways = (Way(NET, kind=9, table=77), Way("0.0.0.0/0", "eth1", table=77), Way(NET, "eth0"))
    assert netdev(Flow(PEER), *ways, rules=(*DEFAULT_RULES, Rule(100, 77))) == "eth0"


def test_several_hops_are_all_said() -> None:
    found = way(Flow(PEER), Way(NET, hops=(("eth0", "192.0.2.9"), ("eth1", "198.51.100.9"))))
    assert [hop.netdev for hop in found.hops] == ["eth0", "eth1"]


def test_a_nexthop_object_that_no_netdev_stands_with_is_not_known() -> None:
    """As with net.ipv4.nexthop_compat_mode 0."""
    machine = Machine("host", netdevs=NETDEVS).change(ways=(Way("0.0.0.0/0", "eth1"),))
    facts = read_routing(machine.host(), time.monotonic() + 5)
    assert isinstance(facts, RoutingFacts)
    assert not isinstance(facts.routes, Missing)
    row = Route(NET, 254, RouteKind.UNICAST, (), has_nexthop_object=True)
    found = lookup(replace(facts, routes=(*facts.routes, row)), Flow(PEER))
    assert isinstance(found, Missing)
    with_hop = replace(row, hops=(Hop("eth0"),))
    known = lookup(replace(facts, routes=(*facts.routes, with_hop)), Flow(PEER))
    assert isinstance(known, Found)
    assert [hop.netdev for hop in known.hops] == ["eth0"]


# --- a netdev that the id is bound to ----------------------------------------------------------


def test_a_bound_flow_takes_the_row_of_its_netdev() -> None:
    ways = (Way(NET, "eth0", metric=1), Way(NET, "eth1", metric=2))
    assert netdev(Flow(PEER, netdev="eth1"), *ways) == "eth1"


def test_a_bound_ipv4_flow_without_a_row_is_taken_to_be_on_the_link() -> None:
    found = way(Flow(PEER, "198.51.100.1", "eth1"))
    assert (found.hops, found.assumed_on_link) == ((Hop("eth1"),), True)


def test_a_bound_ipv6_flow_without_a_row_has_no_way() -> None:
    assert way(Flow("2001:db8:9::1", netdev="eth1")) is NoWay.NO_ROUTE


# --- rules ---------------------------------------------------------------------------------

ELSEWHERE = (Way(NET, "eth0"), Way(NET, "eth1", table=77))


@pytest.mark.parametrize(
    ("rule", "flow", "found"),
    [
        pytest.param(Rule(100, 77), Flow(PEER), "eth1", id="every packet"),
        pytest.param(Rule(40000, 77), Flow(PEER), "eth0", id="behind the main table"),
        pytest.param(
            Rule(100, 77, source="192.0.2.0/24"), Flow(PEER, "192.0.2.3"), "eth1", id="from"
        ),
        pytest.param(
            Rule(100, 77, source="192.0.2.0/24"), Flow(PEER, "10.0.0.1"), "eth0", id="other source"
        ),
        pytest.param(Rule(100, 77, source="192.0.2.0/24"), Flow(PEER), "eth0", id="no source yet"),
        pytest.param(Rule(100, 77, destination=NET), Flow(PEER), "eth1", id="to"),
        pytest.param(
            Rule(100, 77, destination="198.18.0.0/15"), Flow(PEER), "eth0", id="to others"
        ),
        pytest.param(
            Rule(100, 77, destination="198.18.0.0/15", flags=2), Flow(PEER), "eth1", id="not to"
        ),
        pytest.param(Rule(100, 77, mark=5), Flow(PEER), "eth0", id="a mark: rdma_cm sets none"),
        pytest.param(
            Rule(100, 77, ip_proto=17), Flow(PEER), "eth0", id="a protocol: rdma_cm's flow has none"
        ),
        pytest.param(Rule(100, 77, input="lo"), Flow(PEER), "eth1", id="of this host"),
        pytest.param(Rule(100, 77, input="eth1"), Flow(PEER), "eth0", id="forwarded"),
        pytest.param(Rule(100, 77, output="eth1"), Flow(PEER), "eth0", id="bound, and it is not"),
        pytest.param(
            Rule(100, 77, output="eth1"), Flow(PEER, netdev="eth1"), "eth1", id="bound, and it is"
        ),
        pytest.param(Rule(100, 254, suppressed_length=0), Flow(PEER), "eth0", id="not suppressed"),
    ],
)
def test_a_rule_applies_by_its_conditions(rule: Rule, flow: Flow, found: str) -> None:
    assert netdev(flow, *ELSEWHERE, rules=(*DEFAULT_RULES, rule)) == found


def test_a_suppressed_default_route_leads_on() -> None:
    ways = (Way("0.0.0.0/0", "eth0", "192.0.2.254"), Way("0.0.0.0/0", "eth1", table=77))
    rules = (*DEFAULT_RULES, Rule(100, 254, suppressed_length=0), Rule(200, 77))
    assert netdev(Flow(PEER), *ways, rules=rules) == "eth1"


def test_a_goto_skips_what_is_between() -> None:
    rules = (*DEFAULT_RULES, Rule(100, 0, action=2, target=32766), Rule(200, 77))
    assert netdev(Flow(PEER), *ELSEWHERE, rules=rules) == "eth0"


@pytest.mark.parametrize(
    ("action", "found"),
    [(6, NoWay.BLACKHOLE), (7, NoWay.UNREACHABLE), (8, NoWay.PROHIBIT)],
)
def test_a_rule_may_refuse(action: int, found: NoWay) -> None:
    assert way(Flow(PEER), *ELSEWHERE, rules=(*DEFAULT_RULES, Rule(1, action=action))) is found


def test_an_action_that_is_not_known_gives_no_answer() -> None:
    found = way(Flow(PEER), *ELSEWHERE, rules=(*DEFAULT_RULES, Rule(1, action=99)))
    assert isinstance(found, Missing)


def test_a_kernel_without_rules_for_ipv6_has_one_table() -> None:
    """CONFIG_IPV6_MULTIPLE_TABLES; with it there is a local table, also where no rule is left."""
    ways = (Way("2001:db8:9::/64", "eth1"), Way("2001:db8::1/128", "eth0", kind=2))
    machine = Machine("host", netdevs=NETDEVS).change(ways=ways)
    facts = read_routing(machine.host(), time.monotonic() + 5)
    assert isinstance(facts, RoutingFacts)
    assert not isinstance(facts.routes, Missing)
    rows = tuple(row for row in facts.routes if row.table != 255)
    alone = replace(facts, routes=rows, rules=())
    found = lookup(alone, Flow("2001:db8:9::2"))
    assert isinstance(found, Found)
    assert ([hop.netdev for hop in found.hops], found.rule) == (["eth1"], None)
    own = lookup(alone, Flow("2001:db8::1"))
    assert isinstance(own, Found)
    assert own.kind is RouteKind.LOCAL
    local = Route("::1/128", 255, RouteKind.LOCAL, (Hop("lo"),))
    flushed = replace(alone, routes=(*alone.routes, local))
    assert lookup(flushed, Flow("2001:db8:9::2")) is NoWay.NO_ROUTE


def test_without_rules_there_is_no_answer() -> None:
    missing = Missing(Why.DENIED, "no")
    facts = RoutingFacts((), (), missing, missing, missing)
    assert lookup(facts, Flow(PEER)) == missing
    facts = RoutingFacts((), missing, (), missing, missing)
    assert lookup(facts, Flow(PEER)) == missing


# --- addresses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "address", "found"),
    [
        ("192.0.2.0/24", "192.0.2.255", True),
        ("192.0.2.0/24", "192.0.3.0", False),
        ("0.0.0.0/0", "8.8.8.8", True),
        ("0.0.0.0/0", "::1", False),
        ("192.0.2.1/32", "192.0.2.1", True),
        ("2001:db8::/32", "2001:db8:ffff::1", True),
        ("fe80::/10", "fec0::1", False),
    ],
)
def test_a_prefix_holds_its_addresses(prefix: str, address: str, found: bool) -> None:
    assert holds(prefix, address) is found


OF_NODE = Address("2001:db8::1", 64, "global", False, False)

# --- an edited report ----------------------------------------------------------------------------

TEXT = st.text(max_size=12) | st.sampled_from(["192.0.2.0/99", "::/-1", "1.2.3.4", "fe80::/", ""])


@given(st.lists(TEXT, min_size=7, max_size=7), st.integers(-9, 999))
def test_whatever_text_the_tables_hold_no_look_fails(texts: list[str], length: int) -> None:
    one, two, three, four, five, six, seven = texts
    row = Route(one, 254, RouteKind.UNICAST, (Hop(two, three),), source=four, from_prefix=five)
    rule = TableRule(4, 0, RuleAction.TO_TABLE, 254, source=six, destination=seven)
    plain = replace(rule, source=None, destination=None)
    missing = Missing(Why.ABSENT, "")
    facts = RoutingFacts((), (row,), (rule, plain), missing, missing)
    for flow in (Flow("192.0.2.1"), Flow("192.0.2.1", "192.0.2.2", two), Flow("::1")):
        lookup(facts, flow)
    preferred_source((Address(one, length, two),), "192.0.2.1", three, (), four)
    labels = (AddressLabel(five, length), AddressLabel("::/0", 1))
    preferred_source((Address(one, length, two), OF_NODE), OF_NODE.address, three, labels, four)
    Peers((one, two)).of(one, length)
    evidence = Evidence(routing=facts, sysfs=missing, netdev=missing)
    peer_route(evidence, (), "192.0.2.1", None, two)
    peer_route(evidence, (), "192.0.2.1", "192.0.2.2")
    as_gid(one)
