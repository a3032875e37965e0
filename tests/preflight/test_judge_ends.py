"""Two hosts' reports beside each other: a pair that fits, and one change of one of them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from lab.counted import Held
from lab.machine import Machine, with_counters
from lab.netdevs import NetDev, VlanData
from lab.rdma_devices import GidRow, roce_rows
from lab.routing import DEFAULT_LABELS, DEFAULT_RULES, Rule, Way
from lab.samples import infiniband_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import DriverId
from rdmadiag.gid.registry import chosen
from rdmadiag.preflight.judge_ends import EndsVerdict, judge, with_ways
from rdmadiag.preflight.rules.ends import RULES
from rdmadiag.view.compat import compat
from rdmadiag.view.ends import HostEnd, Odd, at_home
from rdmadiag.view.peer_picks import Side, Talks
from rdmadiag.view.reconcile import devices, ports
from tests.preflight.rules.test_neighbours import ARP, table
from tests.preflight.test_judge_route import host
from tests.sources.test_packet_filter import DROP, chain, compare, payload, rule, verdict
from tests.sources.test_programs import (
    AGAIN,
    COUNTERS,
    GIVEN_UP,
    HEAD,
    LISTEN,
    SNMP,
    TCP,
    WAITS,
)
from tests.sources.test_traffic_control import flower, traffic

PEER_MAC, OTHER_MAC = "0c:42:a1:00:01:01", "02:00:00:00:00:99"
PERMANENT, REACHABLE, STALE, FAILED = 0x80, 0x02, 0x04, 0x20
BLACKHOLE, UNREACHABLE, UNICAST, LOCAL = 6, 7, 1, 2
IFA_F_DEPRECATED = 0x20


def node(address: str, mac: str, **changes: Any) -> Machine:
    """mlx5_0 on eth0."""
    machine = host((address,))
    netdev = replace(machine.netdevs[0], mac=mac)
    rows = roce_rows("eth0", mac, address.partition("/")[0])
    return machine.change(netdevs=(netdev,), **changes).with_port(0, gids=rows)


def one(**changes: Any) -> Machine:
    return node("192.0.2.1/24", "0c:42:a1:00:00:01", **changes)


def two(**changes: Any) -> Machine:
    return node("192.0.2.2/24", PEER_MAC, **changes)


def netdev(machine: Machine, **changes: Any) -> Machine:
    return machine.change(netdevs=(replace(machine.netdevs[0], **changes), *machine.netdevs[1:]))


def with_dummy(machine: Machine, **changes: Any) -> Machine:
    dummy = NetDev("dummy0", mac="0c:42:a1:00:09:09", addresses=("203.0.113.1/24",))
    return machine.change(netdevs=(*machine.netdevs, dummy), **changes)


def with_addresses(machine: Machine, *addresses: str) -> Machine:
    rows = roce_rows(
        "eth0", machine.netdevs[0].mac, *(each.partition("/")[0] for each in addresses)
    )
    return netdev(machine, addresses=addresses).with_port(0, gids=rows)


def soft(machine: Machine) -> Machine:
    return machine.with_device(0, driver=DriverId.RXE, parent="eth0")


def end(machine: Machine, name: str, **evidence: Any) -> HostEnd:
    found = replace(machine.evidence(), **evidence)
    return HostEnd(name, found, tuple(devices(found)))


def judged(here: Machine, there: Machine, among: frozenset[str] = frozenset()) -> EndsVerdict:
    return judge(end(here, "node1"), end(there, "node2"), among)


def said(verdict: EndsVerdict) -> list[tuple[str, str, str]]:
    return [
        (each.finding.rule, each.finding.severity.value, "+".join(each.hosts))
        for each in verdict.findings
    ]


def with_class(machine: Machine, tos: int) -> Machine:
    port = f"{machine.devices[0].name}/1"
    return machine.change(roce_modes={port: "RoCE v2"}, roce_tos={port: tos})


def v(kind: str) -> Callable[[Machine], Machine]:
    def change(machine: Machine) -> Machine:
        rows = machine.devices[0].ports[0].gids
        return machine.with_port(0, gids={at: row for at, row in rows.items() if kind in row.kind})

    return change


def with_program(machine: Machine, state: str) -> Machine:
    status = f"Name:\tserver\nState:\t{state}\nTgid:\t4711\n"
    files = {TCP: HEAD, "/proc/4711/status": status, "/proc/4711/cgroup": "0::/\n"}
    held = (Held("ctx", 1, 4711),)
    return with_counters(machine).with_device(0, held=held).change(files=files)


NO_ARP = {"route-getneightbl": table(ARP, 3) + table(ARP, 0, index=2)}
ONE_MAC = "0c:42:a1:00:00:01"
SERVICE = VlanData(30, 0x88A8)  # 802.1ad
ROW, BACK = ("eth0", "192.0.2.2"), ("eth0", "192.0.2.1")
SENDER = payload(1, 12, 4) + compare(bytes((192, 0, 2, 1)))


def nft(*rules: bytes) -> dict[str, bytes]:
    return {"nft-getchain": chain("in", 1), "nft-getrule": b"".join(rules)}


CASES: dict[str, tuple[Machine, Machine, list[tuple[str, str, str]]]] = {
    "nothing": (one(), two(), []),
    "a permanent entry of another MAC address": (
        one(neighbours={ROW: (PERMANENT, OTHER_MAC)}),
        two(),
        [("ends-neighbour-wrong", "critical", "node1")],
    ),
    "a learnt entry of another MAC address": (
        one(neighbours={ROW: (REACHABLE, OTHER_MAC)}),
        two(),
        [("ends-neighbour-wrong", "warn", "node1")],
    ),
    "a permanent entry of the peer's own MAC address": (
        one(neighbours={ROW: (PERMANENT, PEER_MAC)}),
        two(),
        [],
    ),
    "an entry that failed": (
        one(neighbours={ROW: (FAILED, OTHER_MAC)}),
        two(),
        [("cm-neighbour-failed", "warn", "node1")],
    ),
    "ARP is off at the peer": (
        one(),
        netdev(two(), no_arp=True),
        [("ends-answers-no-arp", "critical", "node2")],
    ),
    "arp_ignore of all netdevs is 8": (
        one(),
        two(arp_ignore=8),
        [("ends-answers-no-arp", "critical", "node2")],
    ),
    "arp_ignore is 2": (one(), two(arp_ignore=2), []),
    "arp_ignore is 2, and only the peer has both in its subnet": (
        one(),
        node("192.0.2.129/25", PEER_MAC, arp_ignore=2, ways=(Way("192.0.2.1/32", "eth0"),)),
        [("ends-answers-no-arp", "critical", "node2")],
    ),
    "arp_filter, and the way back by another netdev": (
        one(),
        with_dummy(two(arp_filter=1), ways=(Way("192.0.2.1/32", "dummy0"),)),
        [("ends-answers-no-arp", "critical", "node2"), ("cm-no-device", "critical", "node2")],
    ),
    "arp_filter, and the way back by the same netdev": (one(), two(arp_filter=1), []),
    "one hop for packets, by a gateway": (
        one(default_ttl=1, ways=(Way("0.0.0.0/0", "eth0", "192.0.2.254"),)),
        node("198.51.100.2/24", PEER_MAC, ways=(Way("0.0.0.0/0", "eth0", "198.51.100.254"),)),
        [("ends-hops-few", "critical", "node1")],
    ),
    "one hop for what the route takes, by a gateway": (
        one(ways=(Way("0.0.0.0/0", "eth0", "192.0.2.254", hop_limit=1),)),
        node("198.51.100.2/24", PEER_MAC, ways=(Way("0.0.0.0/0", "eth0", "198.51.100.254"),)),
        [("ends-hops-few", "critical", "node1")],
    ),
    "no carrier at both ends": (
        netdev(one(), carrier=False),
        netdev(two(), carrier=False),
        [("ends-no-carrier", "critical", "node1+node2")],
    ),
    "no carrier at one end": (one(), netdev(two(), carrier=False), []),
    "no carrier at one end, as the other is down": (
        netdev(one(), carrier=False),
        netdev(two(), up=False),
        [("cm-no-way", "critical", "node2")],
    ),
    "two hops for packets, by a gateway": (
        one(default_ttl=2, ways=(Way("0.0.0.0/0", "eth0", "192.0.2.254"),)),
        node("198.51.100.2/24", PEER_MAC, ways=(Way("0.0.0.0/0", "eth0", "198.51.100.254"),)),
        [],
    ),
    "one hop for packets, on the link": (one(default_ttl=1), two(), []),
    "the peer's address on a netdev without RDMA": (
        one(ways=(Way("192.0.2.2/32", "eth0", table=255, kind=LOCAL),)),
        two(),
        [("ends-peer-address-here", "critical", "node1")],
    ),
    "one MAC address": (
        one(),
        node("192.0.2.2/24", "0c:42:a1:00:00:01"),
        [("ends-mac-twice", "critical", "node1+node2")],
    ),
    "an unreachable route": (
        one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),)),
        two(),
        [("cm-no-way", "critical", "node1")],
    ),
    "a blackhole on the way back": (
        one(),
        two(ways=(Way("192.0.2.1/32", kind=BLACKHOLE),)),
        [("cm-no-way", "critical", "node2")],
    ),
    "a route by a netdev without RDMA": (
        with_dummy(one(), ways=(Way("192.0.2.2/32", "dummy0", source="203.0.113.1"),)),
        two(),
        [("cm-no-device", "critical", "node1")],
    ),
    "a redirect to what forwards nothing, of an address of no common subnet": (
        one(
            ways=(
                Way("198.51.100.0/24", "eth0", "192.0.2.2"),
                Way("198.51.100.2/32", "eth0", "192.0.2.77", flags=0x200 | 0x40000),
            ),
        ),
        with_addresses(two(), "192.0.2.2/24", "198.51.100.2/24"),
        [("cm-redirected", "warn", "node1")],
    ),
    "an IPv6 source that the peer has no way back to, by a label": (
        with_addresses(
            one(address_labels=(("fd00:17::/64", 9), ("2001:db8::2/128", 9), *DEFAULT_LABELS)),
            "2001:db8::1/64",
            "fd00:17::1/64",
        ),
        with_addresses(two(), "2001:db8::2/64"),
        [("cm-no-way", "critical", "node1")],
    ),
    "an IPv6 source that the peer has no way back to, as the other one is deprecated": (
        netdev(
            with_addresses(one(), "2001:db8::1/64", "fd00:17::1/64"),
            flags={"2001:db8::1": IFA_F_DEPRECATED},
        ),
        with_addresses(two(), "2001:db8::2/64"),
        [("cm-no-way", "critical", "node1")],
    ),
    "the IPv6 source that fits": (
        with_addresses(one(), "2001:db8::1/64", "fd00:17::1/64"),
        with_addresses(two(), "2001:db8::2/64"),
        [],
    ),
    "a gateway for an address of the subnet": (
        one(ways=(Way("192.0.2.2/32", "eth0", "192.0.2.254"),)),
        two(),
        [("ends-gateway-on-link", "warn", "node1")],
    ),
    "strict rp_filter, and the way back by another netdev, of a software device": (
        one(),
        soft(with_dummy(two(rp_filter=1), ways=(Way("192.0.2.1/32", "dummy0"),))),
        [("ends-reverse-path", "critical", "node2"), ("cm-no-device", "critical", "node2")],
    ),
    "the same of a hardware device": (
        one(),
        with_dummy(two(rp_filter=1), ways=(Way("192.0.2.1/32", "dummy0"),)),
        [("cm-no-device", "critical", "node2"), ("ends-reverse-path", "warn", "node2")],
    ),
    "loose rp_filter": (
        one(),
        with_dummy(two(rp_filter=2), ways=(Way("192.0.2.1/32", "dummy0"),)),
        [("cm-no-device", "critical", "node2")],
    ),
    "strict rp_filter, and the way back by the same netdev": (one(), two(rp_filter=1), []),
    "another MTU": (
        one(),
        netdev(two(), mtu=1500),
        [("ends-mtu-differs", "warn", "node1")],
    ),
    "no class of rdma_cm at one end": (
        with_class(one(), 0),
        with_class(two(), 106),
        [("ends-class-differs", "warn", "node1")],
    ),
    "the DSCP in place of the class": (
        with_class(one(), 106),
        with_class(two(), 26),
        [("ends-class-differs", "warn", "node2")],
    ),
    "two classes of which either may be meant": (
        with_class(one(), 96),
        with_class(two(), 106),
        [],
    ),
    "a class, and no folder at the other end": (one(), with_class(two(), 106), []),
    "a netdev that looks for no neighbour": (
        one(),
        two(traffic=NO_ARP),
        [("ends-asks-no-neighbour", "critical", "node2")],
    ),
    "the same with an entry that is asked anew by unicast": (
        one(),
        two(traffic=NO_ARP, neighbours={BACK: (STALE, ONE_MAC)}),
        [],
    ),
    "the same with a permanent entry": (
        one(),
        two(traffic=NO_ARP, neighbours={BACK: (PERMANENT, ONE_MAC)}),
        [],
    ),
    "a connection that waits to be taken": (
        one(),
        two(files={TCP: HEAD + LISTEN + WAITS}),
        [("ends-connection-not-taken", "warn", "node2")],
    ),
    "a connection that was given up before anybody took it": (
        one(),
        two(files={TCP: HEAD + LISTEN + GIVEN_UP}),
        [("ends-connection-not-taken", "critical", "node2")],
    ),
    "a connection of a third host": (
        one(),
        two(files={TCP: HEAD + LISTEN + GIVEN_UP.replace("010200C0", "090200C0")}),
        [],
    ),
    "data that is sent again and again": (
        one(),
        two(files={TCP: HEAD + AGAIN.format(6)}),
        [("ends-tcp-unanswered", "warn", "node2")],
    ),
    "data that was sent again once": (one(), two(files={TCP: HEAD + AGAIN.format(1)}), []),
    "segments of TCP with wrong checksums": (
        one(),
        two(files={SNMP: COUNTERS.format(6)}),
        [("ends-checksums-wrong", "warn", "node1")],
    ),
    "two of them since the start": (one(), two(files={SNMP: COUNTERS.format(2)}), []),
    "data for a third host": (
        one(),
        two(files={TCP: HEAD + AGAIN.format(6).replace("010200C0", "090200C0")}),
        [],
    ),
    "a program that is stopped": (
        one(),
        with_program(two(), "T (stopped)"),
        [("ends-program-stopped", "warn", "node2")],
    ),
    "a program that sleeps": (one(), with_program(two(), "S (sleeping)"), []),
    "an MTU below that of Ethernet": (
        one(),
        netdev(two(), mtu=1400),
        [("ends-mtu-differs", "warn", "node2")],
    ),
    "a rule of the source address that leads nowhere": (
        one(
            rules=(*DEFAULT_RULES, Rule(32000, table=100, source="192.0.2.1/32")),
            ways=(Way("0.0.0.0/0", kind=UNREACHABLE, table=100),),
        ),
        two(),
        [("cm-leaves-by-other-netdev", "critical", "node1")],
    ),
    "a peer that was heard while it got no answer": (
        one(neighbours={ROW: (STALE, PEER_MAC, 5.0)}),
        two(neighbours={BACK: (FAILED, OTHER_MAC, 2.0)}),
        [("ends-not-heard", "warn", "node1"), ("cm-neighbour-failed", "warn", "node2")],
    ),
    "a peer that was heard long before": (
        one(neighbours={ROW: (STALE, PEER_MAC, 500.0)}),
        two(neighbours={BACK: (FAILED, OTHER_MAC, 2.0)}),
        [("cm-neighbour-failed", "warn", "node2")],
    ),
    "a VLAN at one end, and no answer": (
        netdev(one(neighbours={ROW: (FAILED, OTHER_MAC)}), kind="vlan"),
        two(),
        [("ends-layers-differ", "warn", "node1"), ("cm-neighbour-failed", "warn", "node1")],
    ),
    "a VLAN at one end and a bond at the other, and no answer": (
        netdev(one(neighbours={ROW: (FAILED, OTHER_MAC)}), kind="vlan"),
        netdev(two(), kind="bond"),
        [
            ("ends-layers-differ", "warn", "node1+node2"),
            ("cm-neighbour-failed", "warn", "node1"),
        ],
    ),
    "VLANs of two protocols, and no answer": (
        netdev(one(neighbours={ROW: (FAILED, OTHER_MAC)}), kind="vlan", vlan=SERVICE),
        netdev(two(), kind="vlan", vlan=VlanData(30)),
        [
            ("ends-layers-differ", "warn", "node1+node2"),
            ("cm-neighbour-failed", "warn", "node1"),
        ],
    ),
    "VLANs of which one's protocol is not known, and no answer": (
        netdev(one(neighbours={ROW: (FAILED, OTHER_MAC)}), kind="vlan", vlan=SERVICE),
        netdev(two(), kind="vlan", vlan=VlanData(30, None)),
        [("cm-neighbour-failed", "warn", "node1")],
    ),
    "a VLAN at one end": (netdev(one(), kind="vlan"), two(), []),
    "another subnet without a route": (
        one(),
        node("198.51.100.2/24", PEER_MAC),
        [("ends-subnets-differ", "critical", "node1+node2")],
    ),
    "another subnet with routes": (
        one(ways=(Way("0.0.0.0/0", "eth0", "192.0.2.254"),)),
        node("198.51.100.2/24", PEER_MAC, ways=(Way("0.0.0.0/0", "eth0", "198.51.100.254"),)),
        [],
    ),
    "RoCE v1 alone and v2 alone": (
        v("v1")(one()),
        v("v2")(two()),
        [("ends-no-common-gid", "critical", "node1+node2")],
    ),
    "a filter of what comes from the peer": (
        one(),
        soft(two(traffic=traffic(flower((10, bytes((192, 0, 2, 1))), (11, b"\xff" * 4))))),
        [("ends-traffic-dropped", "critical", "node2")],
    ),
    "a rule of nftables for what comes from the peer": (
        one(),
        soft(two(traffic=nft(rule("in", SENDER, verdict(DROP))))),
        [("ends-traffic-dropped", "critical", "node2")],
    ),
    "a rule of nftables at what a NIC's own RDMA does not pass": (
        one(),
        two(traffic=nft(rule("in", SENDER, verdict(DROP)))),
        [],
    ),
    "a filter of what comes from another host": (
        one(),
        soft(two(traffic=traffic(flower((10, bytes((192, 0, 2, 77))), (11, b"\xff" * 4))))),
        [],
    ),
    "a filter of RoCE at what a NIC's own RDMA does not pass": (
        one(),
        two(traffic=traffic(flower((9, b"\x11"), (21, b"\x12\xb7")))),
        [],
    ),
    "a filter of RoCE that the NIC executes": (
        one(),
        two(traffic=traffic(flower((9, b"\x11"), (21, b"\x12\xb7"), (22, b"\x04\0\0\0")))),
        [("ends-traffic-dropped", "critical", "node2")],
    ),
    "no partition in common": (
        infiniband_host().with_port(0, pkeys=(0x8001,)).with_port(1, pkeys=(0x8001,)),
        infiniband_host().with_port(0, pkeys=(0x8002,)).with_port(1, pkeys=(0x8002,)),
        [("ends-no-common-partition", "critical", "node1+node2")] * 2,
    ),
    "RoCE and InfiniBand": (
        one(),
        infiniband_host(),
        [("ends-protocols-differ", "critical", "node1+node2")],
    ),
}


@cache
def of_case(name: str) -> EndsVerdict:
    here, there, _ = CASES[name]
    return judged(here, there)


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    wanted, verdict = CASES[name][2], of_case(name)
    if name == "no partition in common":  # one for each two ports of one name
        assert {*said(verdict)} == {*wanted}
    else:
        assert said(verdict) == wanted


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_the_same_from_the_other_end(name: str) -> None:
    here, there, _ = CASES[name]
    swapped = {"node1": "node2", "node2": "node1"}
    there_first = [
        (rule, severity, "+".join(sorted(map(swapped.__getitem__, hosts.split("+")))))
        for rule, severity, hosts in said(judged(there, here))
    ]
    assert sorted(there_first) == sorted(said(of_case(name)))


@pytest.mark.parametrize("name", CASES)
def test_no_critical_finding_stands_below_an_answer_that_they_can_talk(name: str) -> None:
    here, there, wanted = CASES[name]
    found = with_ways(compat(side(here), side(there), ()), of_case(name))
    critical = any(severity == "critical" for _, severity, _ in wanted)
    assert (found.talks in (Talks.UNKNOWN, Talks.NO)) is critical


ROUTED = (
    one(ways=(Way("0.0.0.0/0", "eth0", "192.0.2.254"),)),
    node(
        "198.51.100.2/24", "0c:42:a1:00:00:01", ways=(Way("0.0.0.0/0", "eth0", "198.51.100.254"),)
    ),
)


def test_one_mac_address_stops_hosts_of_one_subnet_and_is_not_known_beyond_a_router() -> None:
    near = one(), node("192.0.2.2/24", "0c:42:a1:00:00:01")
    for ends, talks in ((near, Talks.NO), (ROUTED, Talks.UNKNOWN)):
        found = with_ways(compat(*map(side, ends), ()), judged(*ends))
        assert found.talks is talks
        assert found.why.endswith("[ends-mac-twice]")


def test_a_way_that_rdma_cm_alone_does_not_find_is_not_known() -> None:
    here = with_dummy(one(), ways=(Way("192.0.2.2/32", "dummy0", source="203.0.113.1"),))
    found = with_ways(compat(side(here), side(two()), ()), judged(here, two()))
    assert found.talks is Talks.UNKNOWN
    assert found.why.endswith("[cm-no-device]")


def two_rails(machine: Machine, last: int, **changes: Any) -> Machine:
    """With mlx5_1 on eth1 besides."""
    mac = f"0c:42:a1:00:02:{last:02x}"
    second = NetDev("eth1", mac=mac, addresses=(f"198.18.0.{last}/24",))
    port = replace(
        machine.devices[0].ports[0],
        netdev="eth1",
        gids=roce_rows("eth1", mac, f"198.18.0.{last}"),
    )
    device = replace(
        machine.devices[0], name="mlx5_1", node_guid=f"0c42:a103:0002:{last:04x}", ports=(port,)
    )
    return machine.change(
        devices=(*machine.devices, device), netdevs=(*machine.netdevs, second), **changes
    )


def test_a_way_that_is_stopped_stops_the_ports_that_send_by_it_and_no_others() -> None:
    here = two_rails(one(), 1, ways=(Way("192.0.2.2/32", kind=UNREACHABLE),))
    there = two_rails(two(), 2)
    found = with_ways(compat(side(here), side(there), ()), judged(here, there))
    assert [(each.here.device, each.talks) for each in found.ports] == [
        ("mlx5_1", Talks.YES),
        ("mlx5_0", Talks.NO),
    ]
    assert found.talks is Talks.YES
    assert "; but not mlx5_0/1 - mlx5_0/1: " in found.why


def test_stacks_are_no_better_than_the_ways_of_their_ports() -> None:
    here = one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),))
    found = with_ways(compat(side(here), side(two()), chosen(("nccl",))), judged(here, two()))
    assert {each.talks for each in found.ports[0].stacks} == {Talks.NO}


def test_ports_whose_ways_were_not_looked_at_are_not_known_where_all_others_are_stopped() -> None:
    here = two_rails(one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),)), 1)
    found = with_ways(compat(side(here), side(two()), ()), judged(here, two()))
    assert [(each.here.device, each.talks) for each in found.ports] == [
        ("mlx5_1", Talks.UNKNOWN),
        ("mlx5_0", Talks.NO),
    ]
    assert found.talks is Talks.UNKNOWN


def test_ports_whose_ways_were_too_many_to_look_at_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = two_rails(one(), 1), two_rails(two(), 2)
    monkeypatch.setattr("rdmadiag.view.ends.MOST_MEETINGS", 1)
    verdict = judged(here, there)
    assert (verdict.status, verdict.pairs, verdict.left_out) == ("unknown", 1, 1)
    assert verdict.unknown == ("node1 and node2: 1 more pairs of addresses, beyond 1",)
    found = with_ways(compat(side(here), side(there), ()), verdict)
    assert [(each.here.device, each.talks) for each in found.ports] == [
        ("mlx5_0", Talks.YES),
        ("mlx5_1", Talks.UNKNOWN),
    ]


def test_every_rule_has_a_case() -> None:
    shown = {rule for _, _, found in CASES.values() for rule, _, _ in found}
    assert {rule.code for rule in RULES} <= shown | {"ends-named-address-unusable"}


@pytest.mark.parametrize(
    ("changes", "said_of_it"),
    [
        ({"up": False}, "is on eth0, which is down"),
        ({"flags": {"192.0.2.2": 0x40}}, "on eth0, is tentative still"),
        ({"flags": {"192.0.2.2": 0x08}}, "on eth0, is a duplicate of another host's"),
    ],
    ids=["down", "tentative", "duplicate"],
)
def test_an_address_that_was_used_is_to_work_at_its_host(
    changes: dict[str, Any], said_of_it: str
) -> None:
    found = judged(one(), netdev(two(), **changes), frozenset({"192.0.2.2"}))
    (bad,) = [e for e in found.findings if e.finding.rule == "ends-named-address-unusable"]
    assert (bad.hosts, bad.finding.severity) == (("node2",), "critical")
    assert said_of_it in bad.finding.summary
    unnamed = judged(one(), netdev(two(), **changes))
    assert "ends-named-address-unusable" not in {e.finding.rule for e in unnamed.findings}


@pytest.mark.parametrize(
    ("used", "hosts"),
    [("192.0.2.2", ("node2",)), ("198.51.100.1", ("node1",)), ("203.0.113.9", ("node1", "node2"))],
)
def test_of_two_subnets_the_one_in_which_the_peer_was_not_looked_for_is_off(
    used: str, hosts: tuple[str, ...]
) -> None:
    found = judged(one(), node("198.51.100.2/24", PEER_MAC), frozenset({used}))
    assert found.findings[0].hosts == hosts


def test_of_two_subnets_the_one_that_the_other_host_has_not_is_off() -> None:
    both = two().change(netdevs=(replace(two().netdevs[0]), *with_dummy(two()).netdevs[1:]))
    rows = roce_rows("dummy0", "0c:42:a1:00:09:09", "203.0.113.1")
    second = replace(
        both.devices[0],
        name="mlx5_9",
        uverbs=9,
        ports=(replace(both.devices[0].ports[0], netdev="dummy0", gids=rows),),
    )
    there = both.change(devices=(*both.devices, second))
    used = frozenset({"192.0.2.1", "203.0.113.1"})
    assert said(judged(one(), there, used))[0] == ("cm-no-way", "critical", "node2")
    assert said(judged(one(), there)) == []


def with_second(machine: Machine, address: str, **changes: Any) -> Machine:
    """With one more address on eth0."""
    own = machine.netdevs[0]
    second = replace(own, addresses=(*own.addresses, f"{address}/24"))
    rows = {**machine.devices[0].ports[0].gids}
    rows[len(rows)] = GidRow(f"::ffff:{address}", "RoCE v2", "eth0")
    return machine.change(netdevs=(second,), **changes).with_port(0, gids=rows)


def test_an_address_that_was_given_and_to_which_no_way_leads_is_the_matter_of_who_has_none() -> (
    None
):
    there = with_second(two(), "203.0.113.2")
    used = frozenset({"203.0.113.2"})
    assert said(judged(one(), there, used)) == [("cm-no-way", "critical", "node1")]
    assert said(judged(there, one(), used)) == [("cm-no-way", "critical", "node2")]
    assert said(judged(one(ways=(Way("203.0.113.0/24", "eth0"),)), there, used)) == []
    assert said(judged(one(), there)) == []


def test_packets_that_leave_by_another_source_need_a_way_back_to_it() -> None:
    way = Way("192.0.2.2/32", "eth0", source="203.0.113.1")
    here = with_second(one(), "203.0.113.1", ways=(way,))
    assert said(judged(here, two())) == [("cm-no-way", "critical", "node2")]
    assert said(judged(two(), here)) == [("cm-no-way", "critical", "node1")]
    assert said(judged(here, two(ways=(Way("203.0.113.0/24", "eth0"),)))) == []
    assert said(judged(with_second(one(), "203.0.113.1"), two())) == []


def test_who_answers_who_does_not_and_who_cannot_use_rdma_cm() -> None:
    here = one(
        neighbours={ROW: (REACHABLE, PEER_MAC), ("eth0", "192.0.2.9"): (FAILED, OTHER_MAC, 3.0)}
    )
    found = judged(here, two())
    assert (found.heard, found.unanswered) == (("node1",), (("node1", "192.0.2.9"),))
    old = one(neighbours={("eth0", "192.0.2.9"): (FAILED, OTHER_MAC, 500.0)})
    assert judged(old, two()).unanswered == ()
    asks = AGAIN.format(2).replace(" 01 0", " 02 0").replace("010200C0", "090200C0")
    here = one(files={TCP: HEAD + asks.replace("020200C0", "010200C0")})
    assert judged(here, two()).unanswered == (("node1", "192.0.2.9"),)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.1.1", Odd.LOOPBACK),
        ("0.0.0.0", Odd.LOOPBACK),
        ("::1", Odd.LOOPBACK),
        ("224.0.0.5", Odd.MULTICAST),
        ("ff02::1", Odd.MULTICAST),
        ("192.0.2.255", Odd.BROADCAST),
        ("255.255.255.255", Odd.BROADCAST),
        ("192.0.2.2", None),
        ("198.51.100.255", None),
    ],
)
def test_an_address_that_no_host_can_have_is_odd(address: str, kind: Odd | None) -> None:
    wanted = () if kind is None else ((address, kind),)
    assert judged(one(), two(), frozenset({address})).odd == wanted


def test_what_was_looked_for_by_an_address_of_this_link_alone_is_said_with_its_netdev() -> None:
    near, far = ("eth0", "fe80::2"), ("dummy0", "fe80::2")
    here = with_dummy(one(neighbours={near: (FAILED, OTHER_MAC, 3.0)}))
    assert judged(here, two()).unanswered == ()
    here = with_dummy(one(neighbours={far: (FAILED, OTHER_MAC, 3.0)}))
    assert judged(here, two()).unanswered == (("node1", "fe80::2%dummy0"),)


def test_a_broadcast_that_was_sent_lately_has_no_answer() -> None:
    noarp = {("eth0", "192.0.2.255"): (0x40, "ff:ff:ff:ff:ff:ff", 3.0)}
    assert judged(one(neighbours=noarp), two()).unanswered == (("node1", "192.0.2.255"),)


def test_a_finding_names_the_object_and_lines_that_mend_it() -> None:
    here = one(neighbours={ROW: (PERMANENT, OTHER_MAC)})
    found = judged(here, two()).findings[0]
    assert (found.hosts, found.object) == (("node1",), "neighbour entry of 192.0.2.2 on eth0")
    assert found.addresses == ("192.0.2.1", "192.0.2.2")
    assert found.finding.remedy[1].startswith("sudo ip neigh del 192.0.2.2 dev eth0 ")
    assert f"{OTHER_MAC} 128: permanent" in [each.value for each in found.finding.evidence]


def test_routes_that_were_not_read_are_unknown_and_no_finding() -> None:
    not_read = Missing(Why.DENIED, "EPERM")
    verdict = judge(end(one(), "node1"), end(two(), "node2", routing=not_read))
    assert (verdict.status, verdict.findings) == ("unknown", ())
    assert verdict.unknown == ("node2: denied: EPERM",)


def test_neighbours_that_are_not_in_the_record_are_unknown() -> None:
    evidence = one().evidence()
    assert not isinstance(evidence.routing, Missing)
    old = replace(evidence.routing, neighbours=Missing(Why.NOT_COLLECTED, "not in the record"))
    verdict = judge(end(one(), "node1", routing=old), end(two(), "node2"))
    assert verdict.status == "unknown"
    assert verdict.unknown[0].startswith("node1: ")


def test_one_host_by_two_reports_is_not_judged() -> None:
    verdict = judged(one(), one())
    assert (verdict.status, verdict.findings, verdict.pairs) == ("unknown", (), 0)


def test_a_device_of_another_namespaces_netdev_is_not_this_hosts() -> None:
    """Both hosts of one kernel show both devices: the netdev has the same name at both."""
    machine = one()
    foreign = replace(
        machine.devices[0],
        name="mlx5_9",
        ports=(
            replace(
                machine.devices[0].ports[0],
                netdev=None,
                gids={0: GidRow("::ffff:192.0.2.2", "RoCE v2", "eth7")},
            ),
        ),
    )
    views = devices(machine.change(devices=(machine.devices[0], foreign)).evidence())
    assert [each.device for each in at_home(ports(views))] == ["mlx5_0"]


def both_families(machine: Machine, wide: str) -> Machine:
    own = (*machine.netdevs[0].addresses, wide)
    rows = roce_rows("eth0", machine.netdevs[0].mac, *(each.partition("/")[0] for each in own))
    return netdev(machine, addresses=own).with_port(0, gids=rows)


def test_a_way_of_one_family_alone_does_not_stop_the_hosts() -> None:
    here = both_families(one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),)), "2001:db8::1/64")
    there = both_families(two(), "2001:db8::2/64")
    verdict = judged(here, there)
    assert (verdict.pairs, verdict.stops) == (2, None)
    assert said(verdict) == [("cm-no-way", "critical", "node1")]


def test_compat_says_between_which_addresses_nothing_passes_and_for_which_stacks() -> None:
    here = both_families(one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),)), "2001:db8::1/64")
    there = both_families(two(), "2001:db8::2/64")
    stacks = chosen(("nccl@2.27", "brpc"))
    found = with_ways(compat(side(here), side(there), stacks), judged(here, there))
    assert found.talks is Talks.UNKNOWN
    assert "not between 192.0.2.1 and 192.0.2.2  [cm-no-way]" in found.why
    assert found.why.endswith("nothing is known against 2001:db8::1 and 2001:db8::2")
    said = {each.stack: each.talks for each in found.ports[0].stacks}
    assert said == {"nccl": Talks.NO, "brpc": Talks.UNKNOWN}, "by IPv4, and by IPv6"


def side(machine: Machine) -> Side:
    evidence = machine.evidence()
    return Side(tuple(ports(devices(evidence))), evidence, {})


def test_addresses_that_were_used_are_those_that_are_judged() -> None:
    here = both_families(one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),)), "2001:db8::1/64")
    there = both_families(two(), "2001:db8::2/64")
    assert said(judged(here, there, frozenset({"2001:db8::2"}))) == []
    assert judged(here, there, frozenset({"192.0.2.2"})).stops is not None
    assert judged(here, there, frozenset({"203.0.113.77"})).pairs == 2


def test_ways_that_are_all_stopped_are_the_answer_of_compat() -> None:
    for here, talks in (
        (one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),)), Talks.NO),
        (one(ways=(Way("192.0.2.2/32", "eth0", "192.0.2.254"),)), Talks.YES),
    ):
        found = with_ways(compat(side(here), side(two()), ()), judged(here, two()))
        assert found.talks is talks
