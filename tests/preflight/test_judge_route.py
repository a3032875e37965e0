"""Which device rdma_cm takes towards a peer, what stops it, and what rules say of it.

A healthy host and one change. What the kernel does in each case was compared with rping's by
tests/lab/guest/test_route.py.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import V1, Device, GidRow, Port, roce_rows
from lab.routing import DEFAULT_RULES, Rule, Way
from lab.samples import infiniband_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import DriverId, GidType, PortState
from rdmadiag.facts.routing import (
    Asked,
    Hop,
    KernelAnswer,
    Neighbour,
    NeighbourState,
    Route,
    RouteKind,
    TowardsFacts,
)
from rdmadiag.preflight.judge_route import RouteVerdict, judge
from rdmadiag.preflight.rules.peer_route import RULES
from rdmadiag.sources.run import read
from rdmadiag.view.cm_device import Obstacle
from rdmadiag.view.peer_route import PeerRoute, Witness, peer_route, questions
from rdmadiag.view.reconcile import devices
from rdmadiag.view.routing import NoWay

MACS = ("0c:42:a1:00:00:01", "0c:42:a1:00:00:02")


def host(*addresses: tuple[str, ...], **changes: Any) -> Machine:
    """mlx5_0 on eth0, mlx5_1 on eth1: each with its addresses."""
    netdevs, made = [], []
    for at, own in enumerate(addresses or (("192.0.2.1/24",), ("198.51.100.1/24",))):
        netdevs.append(NetDev(f"eth{at}", mac=MACS[at], mtu=9000, addresses=own))
        rows = roce_rows(f"eth{at}", MACS[at], *(each.partition("/")[0] for each in own))
        port = Port(gids=rows, netdev=f"eth{at}", gid_table_length=32)
        made.append(Device(f"mlx5_{at}", (port,), uverbs=at, pci_address=f"0000:0{at + 1}:00.0"))
    return Machine("host", tuple(made), tuple(netdevs)).change(**changes)


Looked = Callable[..., tuple[PeerRoute, RouteVerdict]]


@pytest.fixture
def looked(soon: float) -> Looked:
    def look(
        machine: Machine,
        peer: str,
        source: str | None = None,
        scope: str | None = None,
        towards: TowardsFacts | None = None,
        expected: tuple[str, ...] = (),
    ) -> tuple[PeerRoute, RouteVerdict]:
        evidence = machine.evidence()
        views = devices(evidence)
        found = towards or read("towards", machine.host(), soon)
        route = peer_route(evidence, views, peer, source, scope, found)
        return route, judge(route, views, expected)

    return look


def rules(verdict: RouteVerdict) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in verdict.findings]


# --- what is taken -----------------------------------------------------------------------------


def test_a_peer_of_a_subnet_is_reached_by_its_device(looked: Looked) -> None:
    route, verdict = looked(host(), "198.51.100.9")
    assert route.taken
    # The default GID's two rows, then the address as v1 and v2: rdma_cm takes v2.
    assert (route.taken.device, route.taken.port, route.taken.gid_index) == ("mlx5_1", 1, 3)
    assert (route.taken.gid, route.taken.gid_type) == ("::ffff:198.51.100.1", GidType.ROCE_V2)
    assert (route.netdev, route.source, route.mtu, route.path_mtu) == (
        "eth1",
        "198.51.100.1",
        9000,
        4096,
    )
    assert (route.witness, route.prefix, route.table) == (Witness.TABLES, "198.51.100.0/24", 254)
    assert (verdict.status, verdict.findings) == ("ok", ())


def test_a_source_binds_to_its_netdev(looked: Looked) -> None:
    machine = host(ways=(Way("203.0.113.0/24", "eth0"), Way("203.0.113.0/24", "eth1", metric=9)))
    route, _ = looked(machine, "203.0.113.9", "198.51.100.1")
    assert route.taken
    assert (route.taken.device, route.netdev) == ("mlx5_1", "eth1")
    route, _ = looked(machine, "203.0.113.9")
    assert route.taken
    assert (route.taken.device, route.source) == ("mlx5_0", "192.0.2.1")


def test_an_ipv6_peer_has_the_row_of_the_ipv6_address(looked: Looked) -> None:
    machine = host(("192.0.2.1/24", "2001:db8::1/64"))
    route, _ = looked(machine, "2001:db8::9")
    assert route.taken
    assert (route.taken.gid, route.taken.gid_index) == ("2001:db8::1", 5)


def test_a_link_local_peer_is_reached_on_its_netdev(looked: Looked) -> None:
    machine = host(("fe80::e42:a1ff:fe00:1/64",))
    route, _ = looked(machine, "fe80::9", scope="eth0")
    assert route.taken
    assert (route.taken.gid_index, route.source) == (1, "fe80::e42:a1ff:fe00:1")


def test_an_address_of_this_host_is_reached_by_its_own_device(looked: Looked) -> None:
    route, verdict = looked(host(), "198.51.100.1")
    assert route.taken
    assert (route.taken.device, route.loopback, route.next_hop) == ("mlx5_1", True, None)
    assert verdict.status == "ok"


def test_a_gateway_is_the_next_hop(looked: Looked) -> None:
    machine = host(
        ways=(Way("0.0.0.0/0", "eth0", "192.0.2.254"),),
        neighbours={("eth0", "192.0.2.254"): 0x02},
    )
    route, verdict = looked(machine, "203.0.113.9")
    assert route.next_hop
    assert (route.next_hop.address, route.next_hop.is_gateway) == ("192.0.2.254", True)
    assert not isinstance(route.next_hop.entry, Missing)
    assert verdict.status == "ok"


def test_the_mode_of_configfs_chooses_the_type(looked: Looked) -> None:
    route, _ = looked(host(roce_modes={"mlx5_0/1": V1}), "192.0.2.9")
    assert route.taken
    assert (route.taken.gid_index, route.taken.gid_type) == (2, GidType.ROCE_V1)
    assert route.roce_mode is GidType.ROCE_V1


def test_of_two_devices_with_the_row_the_first_that_was_registered_is_taken(
    looked: Looked,
) -> None:
    machine = host()
    twin = machine.devices[1]
    rows = roce_rows("eth0", MACS[0], "192.0.2.1")
    machine = machine.with_device(1, ports=(replace(twin.ports[0], gids=rows, netdev="eth0"),))
    route, _ = looked(machine, "192.0.2.9")
    assert route.taken
    assert route.taken.device == "mlx5_0"
    swapped = machine.with_device(0, index=7).with_device(1, index=3)
    route, _ = looked(swapped, "192.0.2.9")
    assert route.taken
    assert route.taken.device == "mlx5_1"


def iwarp() -> Machine:
    rows = {0: GidRow("c42:a100:1::", V1, None)}
    return (
        host()
        .with_device(0, node_type="4: RNIC", protocol="iw", driver=DriverId.SIW, parent="eth0")
        .with_port(0, gids=rows)
    )


def test_iwarp_is_taken_by_its_netdev_and_without_a_row(looked: Looked) -> None:
    route, verdict = looked(iwarp(), "192.0.2.9")
    assert route.taken
    assert (route.taken.device, route.taken.gid_index, route.path_mtu) == ("mlx5_0", None, None)
    assert verdict.status == "ok"


@pytest.mark.parametrize(
    ("machine", "call", "errno"),
    [
        pytest.param(host(), "rdma_resolve_route", "ENODEV", id="RoCE"),
        pytest.param(iwarp(), "rdma_resolve_addr", "EINVAL", id="iWARP"),
    ],
)
def test_a_loopback_address_is_for_infiniband_alone(
    machine: Machine, call: str, errno: str, looked: Looked
) -> None:
    route, verdict = looked(machine, "127.0.0.1")
    assert route.stop
    assert (route.stop.call, route.stop.name) == (call, errno)
    assert rules(verdict) == [("cm-loopback-address", "critical")]
    route, verdict = looked(infiniband_host(), "127.0.0.1")
    assert (route.stop, verdict.status) == (None, "ok")


def test_infiniband_is_taken_by_the_gid_in_ipoibs_address(looked: Looked) -> None:
    mac = "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:00:00:02"
    machine = infiniband_host().change(
        netdevs=(NetDev("ib1", mac=mac, mtu=2044, addresses=("192.0.2.1/24",)),)
    )
    machine = machine.with_port(1, 0, netdev="ib1")
    route, _ = looked(machine, "192.0.2.9")
    assert route.taken
    assert (route.taken.device, route.taken.gid) == ("mlx5_1", "fe80::c42:a103:0:2")
    assert route.path_mtu is None


# --- what stops it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "peer", "options", "obstacle", "errno", "rule"),
    [
        pytest.param(
            host(), "203.0.113.9", {}, Obstacle.NO_ROUTE, "ENETUNREACH", "cm-no-way", id="no route"
        ),
        pytest.param(
            host(ways=(Way("203.0.113.0/24", kind=8),)),
            "203.0.113.9",
            {},
            Obstacle.ROUTE_REFUSED,
            "EACCES",
            "cm-no-way",
            id="prohibited",
        ),
        pytest.param(
            host(),
            "192.0.2.9",
            {"source": "192.0.2.7"},
            Obstacle.SOURCE_NOT_HERE,
            "EADDRNOTAVAIL",
            "cm-source-unfit",
            id="a source that nobody has",
        ),
        pytest.param(
            host(),
            "192.0.2.9",
            {"source": "2001:db8::1"},
            Obstacle.FAMILIES_DIFFER,
            "EINVAL",
            "cm-source-unfit",
            id="families",
        ),
        pytest.param(
            host(),
            "fe80::9",
            {},
            Obstacle.NO_SCOPE,
            "EINVAL",
            "cm-source-unfit",
            id="link-local without a netdev",
        ),
        pytest.param(
            host().change(
                netdevs=(*host().netdevs, NetDev("lan0", addresses=("10.0.0.1/24",))),
            ),
            "10.0.0.9",
            {},
            Obstacle.NO_DEVICE,
            "ENODEV",
            "cm-no-device",
            id="a netdev without a device",
        ),
        pytest.param(
            host().with_port(0, gids=roce_rows("eth0", MACS[0])),
            "192.0.2.9",
            {},
            Obstacle.NO_GID,
            "ENODEV",
            "cm-no-gid",
            id="no row of the address",
        ),
        pytest.param(
            host().with_port(0, gids=roce_rows("eth1", MACS[0], "192.0.2.1")),
            "192.0.2.9",
            {},
            Obstacle.OTHER_NETDEV,
            "ENODEV",
            "cm-address-of-other-netdev",
            id="the row is another netdev's",
        ),
        pytest.param(
            host().with_port(
                0,
                gids={
                    **roce_rows("eth0", MACS[0]),
                    2: GidRow("::ffff:192.0.2.1", V1, "eth0"),
                },
            ),
            "192.0.2.9",
            {},
            Obstacle.OTHER_TYPE,
            "ENODEV",
            "cm-no-gid",
            id="the row is v1",
        ),
    ],
)
def test_what_stops_rdma_cm_is_said_with_its_errno(
    machine: Machine,
    peer: str,
    options: dict[str, str],
    obstacle: Obstacle,
    errno: str,
    rule: str,
    looked: Looked,
) -> None:
    route, verdict = looked(machine, peer, **options)
    assert route.stop
    assert (route.stop.obstacle, route.stop.name) == (obstacle, errno)
    assert rules(verdict) == [(rule, "critical")]
    assert errno in verdict.findings[0].summary


def test_a_host_without_a_device_is_unknown(looked: Looked) -> None:
    machine = Machine("bare", netdevs=(NetDev("lan0", addresses=("10.0.0.1/24",)),))
    _, verdict = looked(machine, "10.0.0.9")
    assert rules(verdict) == [("cm-no-device", "unknown")]


def test_a_port_that_is_down_is_taken_all_the_same(looked: Looked) -> None:
    route, verdict = looked(host().with_port(0, state=PortState.DOWN), "192.0.2.9")
    assert route.taken
    assert rules(verdict) == [("cm-port-not-active", "critical")]


@pytest.mark.parametrize(("state", "found"), [(0x20, True), (0x01, True), (0x04, False)])
def test_a_neighbour_that_failed_is_a_warning(state: int, found: bool, looked: Looked) -> None:
    machine = host(neighbours={("eth0", "192.0.2.9"): state})
    _, verdict = looked(machine, "192.0.2.9")
    assert rules(verdict) == ([("cm-neighbour-failed", "warn")] if found else [])


def test_what_is_not_bound_may_leave_by_another_netdev(looked: Looked) -> None:
    both = host(("192.0.2.1/24",), ("192.0.2.3/24",))
    route, verdict = looked(both, "192.0.2.9", "192.0.2.3")
    assert (route.netdev, route.unbound_netdev) == ("eth1", "eth0")
    assert rules(verdict) == [("cm-leaves-by-other-netdev", "warn")]
    ruled = both.change(
        rules=(*DEFAULT_RULES, Rule(100, 77, source="192.0.2.3/32")),
        ways=(Way("192.0.2.0/24", "eth1", table=77),),
    )
    route, verdict = looked(ruled, "192.0.2.9", "192.0.2.3")
    assert (route.unbound_netdev, rules(verdict)) == ("eth1", [])


def test_the_other_end_of_a_cable_of_this_host_is_no_other_way(looked: Looked) -> None:
    both = host(("192.0.2.1/24",), ("192.0.2.3/24",))
    route, verdict = looked(both, "192.0.2.3", "192.0.2.1")
    assert (route.netdev, route.loopback, route.unbound_netdev) == ("eth0", False, None)
    assert verdict.status == "ok"


def test_what_is_not_bound_may_find_no_way(looked: Looked) -> None:
    route, _ = looked(host(), "203.0.113.9", "192.0.2.1")
    assert (route.assumed_on_link, route.unbound_netdev) == (True, NoWay.NO_ROUTE)


def test_another_device_than_was_asked_for_is_critical(looked: Looked) -> None:
    _, verdict = looked(host(), "192.0.2.9", expected=("mlx5_1/1",))
    assert rules(verdict) == [("cm-other-device", "critical")]
    _, verdict = looked(host(), "192.0.2.9", expected=("mlx5_0/1",))
    assert verdict.status == "ok"


# --- the kernel's answer -----------------------------------------------------------------------


def answered(route: Route | Missing, *more: object, **asked: Any) -> TowardsFacts:
    return TowardsFacts((KernelAnswer(Asked("192.0.2.9", **asked), route),), (), 0)


def test_a_way_that_an_icmp_redirect_has_changed(looked: Looked) -> None:
    table, learned = Way("203.0.113.9/32", "eth0", "192.0.2.9"), 0x200 | 0x40000
    cached = Way("203.0.113.9/32", "eth0", "192.0.2.8", flags=learned)
    route, verdict = looked(host(ways=(table, cached)), "203.0.113.9")
    assert route.next_hop
    assert (route.next_hop.address, rules(verdict)) == ("192.0.2.8", [("cm-redirected", "warn")])
    # A smaller MTU is learned, too.
    cached = replace(cached, gateway="192.0.2.9", flags=0x200)
    assert rules(looked(host(ways=(table, cached)), "203.0.113.9")[1]) == []
    said = Route(
        "192.0.2.9/32", 254, RouteKind.UNICAST, (Hop("eth0", "192.0.2.8"),), is_redirected=True
    )
    assert ("cm-redirected", "warn") in rules(
        looked(host(), "192.0.2.9", towards=answered(said))[1]
    )


def test_the_kernels_word_counts_where_the_tables_say_otherwise(looked: Looked) -> None:
    said = Route("192.0.2.9/32", 77, RouteKind.UNICAST, (Hop("eth1"),), source="198.51.100.1")
    route, verdict = looked(host(), "192.0.2.9", towards=answered(said))
    assert route.taken
    assert (route.witness, route.taken.device, route.tables_netdev) == (
        Witness.KERNEL,
        "mlx5_1",
        "eth0",
    )
    assert ("cm-ways-differ", "info") in rules(verdict)


@pytest.mark.parametrize(
    ("why", "errno"),
    [
        (Why.ABSENT, "ENETUNREACH"),
        (Why.DENIED, "EACCES"),
        (Why.UNSUPPORTED, "EINVAL"),
    ],
)
def test_a_refusal_of_the_kernel_is_no_way(why: Why, errno: str, looked: Looked) -> None:
    route, _ = looked(host(), "192.0.2.9", towards=answered(Missing(why, "said")))
    assert route.stop
    assert route.stop.name == errno


def test_a_kernel_that_did_not_answer_leaves_the_tables(looked: Looked) -> None:
    route, verdict = looked(host(), "192.0.2.9", towards=answered(Missing(Why.TIMEOUT, "late")))
    assert (route.witness, verdict.status) == (Witness.TABLES, "ok")


SEVERAL = (Way("192.0.2.8/29", hops=(("eth0", None), ("eth1", None))),)


def test_of_several_hops_the_kernels_choice_counts(looked: Looked) -> None:
    said = Route("192.0.2.9/32", 254, RouteKind.UNICAST, (Hop("eth1"),), source="198.51.100.1")
    route, verdict = looked(host(ways=SEVERAL), "192.0.2.9", towards=answered(said))
    assert (route.witness, route.netdev, verdict.status) == (Witness.KERNEL, "eth1", "ok")
    assert [each.netdev for each in route.choices] == ["eth0", "eth1"]


@pytest.mark.parametrize("policy", [1, 2, 3, Missing(Why.DENIED, "EACCES")])
def test_of_several_hops_by_ports_and_protocol_the_choice_is_another_flows(
    policy: int | Missing, looked: Looked
) -> None:
    said = Route("192.0.2.9/32", 254, RouteKind.UNICAST, (Hop("eth1"),), source="198.51.100.1")
    towards = replace(answered(said), ipv4_hash_policy=policy)
    route, verdict = looked(host(ways=SEVERAL), "192.0.2.9", towards=towards)
    assert (route.netdev, route.taken) == (None, None)
    assert rules(verdict) == [("cm-way-unknown", "unknown")]


@pytest.mark.parametrize(
    ("states", "known"),
    [
        ((NeighbourState.REACHABLE, NeighbourState.STALE), True),
        ((NeighbourState.REACHABLE, NeighbourState.FAILED), False),
        ((NeighbourState.REACHABLE,), False),
    ],
    ids=["both answer", "one failed", "one without an entry"],
)
def test_several_ipv6_hops_are_taken_in_turn_where_a_neighbour_is_not_known(
    states: tuple[NeighbourState, ...], known: bool, looked: Looked
) -> None:
    hops = (("eth0", "2001:db8:1::9"), ("eth1", "2001:db8:2::9"))
    machine = host(ways=(Way("2001:db8:9::/64", hops=hops),))
    hop = Hop("eth1", "2001:db8:2::9")
    said = Route("2001:db8:9::2/128", 254, RouteKind.UNICAST, (hop,), source="2001:db8:2::1")
    entries = tuple(
        Neighbour(str(gateway), netdev, state, None)
        for (netdev, gateway), state in zip(hops, states, strict=False)
    )
    asked = KernelAnswer(Asked("2001:db8:9::2"), said)
    route, _ = looked(machine, "2001:db8:9::2", towards=TowardsFacts((asked,), entries))
    assert (route.netdev, route.unknown is None) == (("eth1", True) if known else (None, False))


def test_the_way_of_several_hops_that_is_not_known_is_no_other_netdevs(looked: Looked) -> None:
    machine = host(ways=SEVERAL)
    said = Route("192.0.2.9/32", 254, RouteKind.UNICAST, (Hop("eth0"),))
    other = Route("192.0.2.9/32", 254, RouteKind.UNICAST, (Hop("eth1"),))
    asked = (Asked("192.0.2.9", "192.0.2.1", 2), Asked("192.0.2.9", "192.0.2.1"))
    answers = tuple(map(KernelAnswer, asked, (said, other)))
    found = [
        looked(machine, "192.0.2.9", "192.0.2.1", towards=TowardsFacts(answers, (), policy))
        for policy in (0, 1)
    ]
    assert [route.netdev for route, _ in found] == ["eth0", "eth0"]
    assert [route.unbound_netdev for route, _ in found] == ["eth1", "eth0"]


def test_a_rule_for_a_protocol_is_not_for_rdma_cm(looked: Looked) -> None:
    """RTM_GETROUTE asks for UDP's way: its answer is then another flow's."""
    said = Route("192.0.2.9/32", 77, RouteKind.UNICAST, (Hop("eth1"),), source="198.51.100.1")
    machine = host(rules=(*DEFAULT_RULES, Rule(100, 77, ip_proto=17)))
    route, _ = looked(machine, "192.0.2.9", towards=answered(said))
    assert (route.witness, route.netdev) == (Witness.TABLES, "eth0")


def test_the_kernel_is_asked_as_rdma_cm_asks() -> None:
    evidence = host().evidence()
    assert questions(evidence, "192.0.2.9", None, None) == (Asked("192.0.2.9"),)
    assert questions(evidence, "192.0.2.9", "198.51.100.1", None) == (
        Asked("192.0.2.9", "198.51.100.1", 3),
        Asked("192.0.2.9", "198.51.100.1"),
    )
    assert questions(evidence, "fe80::9", None, "eth0") == (Asked("fe80::9", None, 2),)
    assert questions(evidence, "127.0.0.1", None, None) == ()


# --- less evidence -----------------------------------------------------------------------------


def test_without_rules_and_routes_nothing_is_said_of_a_way(looked: Looked) -> None:
    route, verdict = looked(host(rules=None), "192.0.2.9")
    assert route.unknown
    assert rules(verdict) == [("cm-way-unknown", "unknown")]
    assert verdict.findings[0].remedy == (
        "rdmadiag snapshot DIR   # on that host: an older record does not hold this",
    )


def test_several_netdevs_of_one_route_are_the_kernels_to_choose(looked: Looked) -> None:
    machine = host(ways=(Way("203.0.113.0/24", hops=(("eth0", None), ("eth1", None))),))
    route, verdict = looked(machine, "203.0.113.9")
    assert [each.netdev for each in route.choices] == ["eth0", "eth1"]
    assert rules(verdict) == [("cm-way-unknown", "unknown")]


@pytest.mark.parametrize("source", ["sysfs", "netdev", "routing"])
def test_a_source_that_could_not_be_read_gives_no_answer_but_unknown(source: str) -> None:
    machine = host().change(netdevs=(*host().netdevs, NetDev("lan0", addresses=("10.0.0.1/24",))))
    evidence = replace(machine.evidence(), **{source: Missing(Why.TIMEOUT, "late")})
    views = devices(evidence)
    route = peer_route(evidence, views, "10.0.0.9")
    assert judge(route, views).status == "unknown"


def test_every_rule_is_shown_above() -> None:
    assert {rule.code for rule in RULES} == {
        *("cm-source-unfit", "cm-way-unknown", "cm-no-way", "cm-no-device"),
        *("cm-address-of-other-netdev", "cm-no-gid", "cm-loopback-address", "cm-other-device"),
        *("cm-port-not-active", "cm-neighbour-failed", "cm-leaves-by-other-netdev"),
        *("cm-redirected", "cm-ways-differ"),
    }


@pytest.mark.parametrize("scope", ["eth9", "0", "4294967296"])
def test_a_scope_that_is_no_netdev_is_no_way_by_another(scope: str, looked: Looked) -> None:
    machine = host(("192.0.2.1/24", "fe80::1/64"))
    route, verdict = looked(machine, "fe80::9", scope=scope)
    assert (route.netdev, route.taken, route.stop) == (None, None, None)
    assert isinstance(route.unknown, Missing)
    assert verdict.status == "unknown"


def test_a_scope_may_be_the_index_of_a_netdev(looked: Looked) -> None:
    machine = host(("192.0.2.1/24", "fe80::1/64"))
    routing = machine.evidence().routing
    assert not isinstance(routing, Missing)
    index = next(each.ifindex for each in routing.links if each.name == "eth0")
    by_index, _ = looked(machine, "fe80::9", scope=str(index))
    assert by_index == looked(machine, "fe80::9", scope="eth0")[0]
    assert by_index.netdev == "eth0"
