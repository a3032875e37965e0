"""Filters and netem at the netdev of a port: a healthy host and one change."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import DriverId
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.traffic import RULES
from tests.preflight.rules.test_connection_manager import iwarp
from tests.preflight.test_judge_route import host
from tests.sources.test_traffic_control import (
    ROOT,
    attributes,
    cake,
    fifo,
    flower,
    fq,
    gact,
    htb_class,
    mirred,
    netem,
    of_htb,
    police,
    qdisc,
    rule,
    tbf,
    traffic,
    u32,
)

CODES = {each.code for each in RULES}
UDP, TCP_, ROCE_PORT, HARDWARE = (9, b"\x11"), (9, b"\x06"), (21, b"\x12\xb7"), (22, b"\x04\0\0\0")
PEER = ((10, bytes((192, 0, 2, 9))), (11, b"\xff" * 4))
ROCE = flower(UDP, ROCE_PORT)
ALL = rule(b"matchall", attributes((2, gact(2))), ether=0x0003)


def soft(**replies: bytes) -> Machine:
    return host(("192.0.2.1/24",), traffic=replies).with_device(
        0, driver=DriverId.RXE, parent="eth0"
    )


def to(kind: str, **replies: bytes) -> Machine:
    """With a netdev of this kind, eth1."""
    machine = soft(**replies)
    return machine.change(netdevs=(*machine.netdevs, NetDev("eth1", kind=kind)))


def siw(**replies: bytes) -> Machine:
    machine = iwarp(driver=DriverId.SIW, parent="eth0")
    return machine.change(traffic=replies)


def nic(**replies: bytes) -> Machine:
    return host(("192.0.2.1/24",), traffic=replies)


def said(machine: Machine) -> list[tuple[str, str]]:
    found = judge(machine.evidence()).findings
    return [(each.rule, each.severity.value) for each in found if each.rule in CODES]


NO_ARP = rule(b"matchall", attributes((2, gact(2))), ether=0x0806)
BY_PROGRAM = rule(b"bpf", attributes((1, b""), (8, b"\1\0\0\0")))
PASS_FIRST = rule(b"matchall", attributes((2, gact(0))), priority=1)
PERHAPS_FIRST = rule(b"u32", attributes((5, bytes(16)), (7, gact(0))), priority=1)
CASES = {
    "nothing": (soft(), []),
    "a place for filters, and none": (soft(**traffic()), []),
    "UDP 4791": (soft(**traffic(ROCE)), [("filter-drops-rdma", "critical")]),
    "UDP 4791, outwards": (soft(**traffic(out=ROCE)), [("filter-drops-rdma", "critical")]),
    "another port of UDP": (soft(**traffic(flower(UDP, (21, b"\x00\x35")))), []),
    "all that comes in": (soft(**traffic(ALL)), [("filter-drops-rdma", "critical")]),
    "all of one peer": (soft(**traffic(flower(*PEER))), [("filter-drops-rdma", "warn")]),
    "by conditions that are not read": (
        soft(**traffic(rule(b"u32", attributes((5, bytes(16)), (7, gact(2)))))),
        [("filter-drops-rdma", "warn")],
    ),
    "by words of the packet": (
        soft(**traffic(u32((8, 0x00FF0000, 0x00110000), (20, 0xFFFF, 4791)))),
        [("filter-drops-rdma", "critical")],
    ),
    "led to a dummy": (
        to("dummy", **traffic(flower(UDP, ROCE_PORT, action=mirred(1, 3)))),
        [("filter-drops-rdma", "critical")],
    ),
    "led to a netdev that may send it on": (
        to("veth", **traffic(flower(UDP, ROCE_PORT, action=mirred(1, 3)))),
        [("filter-drops-rdma", "warn")],
    ),
    "led to an ifb, which hands it back": (
        to("ifb", **traffic(flower(UDP, ROCE_PORT, action=mirred(1, 3)))),
        [],
    ),
    "copied to a dummy": (
        to("dummy", **traffic(flower(UDP, ROCE_PORT, action=mirred(2, 3, 3)))),
        [],
    ),
    "what exceeds a rate": (
        soft(**traffic(flower(UDP, ROCE_PORT, action=police(2)))),
        [("filter-drops-rdma", "warn")],
    ),
    "led elsewhere by the NIC": (
        nic(**traffic(flower(UDP, ROCE_PORT, HARDWARE, action=mirred(1, 3)))),
        [],
    ),
    "a filter that passes all stands before": (soft(**traffic(PASS_FIRST + ROCE)), []),
    "a filter that perhaps passes it stands before": (
        soft(**traffic(PERHAPS_FIRST + ROCE)),
        [("filter-drops-rdma", "warn")],
    ),
    "a program that decides by itself": (
        soft(**traffic(BY_PROGRAM)),
        [("filter-drops-rdma", "warn")],
    ),
    "a program at a NIC": (nic(**traffic(BY_PROGRAM)), [("filter-drops-tcp", "warn")]),
    "ARP": (soft(**traffic(NO_ARP)), [("filter-drops-arp", "critical")]),
    "ARP at a NIC, outwards": (nic(**traffic(out=NO_ARP)), [("filter-drops-arp", "critical")]),
    "some of ARP": (
        nic(**traffic(rule(b"flower", attributes((3, gact(2)), (61, bytes(4))), ether=0x0806))),
        [("filter-drops-arp", "warn")],
    ),
    "ARP is let through": (
        soft(**traffic(rule(b"matchall", attributes((2, gact(0))), ether=0x0806))),
        [],
    ),
    "TCP to one port": (
        soft(**traffic(flower(TCP_, (19, b"\x48\x53")))),
        [("filter-drops-tcp", "warn")],
    ),
    "what a NIC's own RDMA does not pass": (nic(**traffic(ROCE)), []),
    "what the NIC executes": (
        nic(**traffic(flower(UDP, ROCE_PORT, HARDWARE))),
        [("filter-drops-rdma", "critical")],
    ),
    "TCP at a NIC": (nic(**traffic(flower(TCP_))), [("filter-drops-tcp", "warn")]),
    "TCP of soft iWARP": (siw(**traffic(flower(TCP_))), [("filter-drops-rdma", "critical")]),
    "one port of soft iWARP": (
        siw(**traffic(flower(TCP_, (19, b"\x1c\x06")))),
        [("filter-drops-rdma", "warn")],
    ),
    "UDP 4791 at soft iWARP": (siw(**traffic(ROCE)), []),
    "half is lost": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem(0.5, 10))}),
        [("netem-at-port", "warn")],
    ),
    "all is lost": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem(1.0))}),
        [("netem-at-port", "critical")],
    ),
    "all of one class is lost": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", 0x10002, netem(1.0))}),
        [("netem-at-port", "warn")],
    ),
    "netem that does nothing": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem())}),
        [],
    ),
    "netem of 20 kbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem(rate=2500))}),
        [("netem-at-port", "warn")],
    ),
    "netem of 10 Gbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem(rate=1_250_000_000))}),
        [],
    ),
    "netem that has room for no packet": (
        soft(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem(limit=0))}),
        [("netem-at-port", "critical")],
    ),
    "cake of 20 Mbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"cake", ROOT, cake(2_500_000))}),
        [("shaper-at-port", "warn")],
    ),
    "cake of 10 Gbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"cake", ROOT, cake(1_250_000_000))}),
        [],
    ),
    "cake without a rate": (soft(**{"route-getqdisc": qdisc(2, b"cake", ROOT, cake(0))}), []),
    "fq that lets each flow have 8 Mbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"fq", ROOT, fq(1_000_000))}),
        [("shaper-at-port", "warn")],
    ),
    "a default class of htb of 8 Mbit/s": (
        soft(**of_htb(0x30, htb_class(0x10030, 1_000_000))),
        [("shaper-at-port", "warn")],
    ),
    "a default class of htb of 8 Gbit/s": (
        soft(**of_htb(0x30, htb_class(0x10030, 1_000_000_000))),
        [],
    ),
    "fq without a rate": (soft(**{"route-getqdisc": qdisc(2, b"fq", ROOT, fq(0xFFFFFFFF))}), []),
    "a queue of one byte less than a frame": (
        soft(**{"route-getqdisc": qdisc(2, b"bfifo", ROOT, fifo(9000 + 13))}),
        [("queue-too-short", "critical")],
    ),
    "a queue of one frame": (
        soft(**{"route-getqdisc": qdisc(2, b"bfifo", ROOT, fifo(9000 + 14))}),
        [],
    ),
    "a short queue of one class": (
        soft(**{"route-getqdisc": qdisc(2, b"bfifo", 0x10002, fifo(600))}),
        [("queue-too-short", "warn")],
    ),
    "a short queue behind a token bucket": (
        soft(
            **{
                "route-getqdisc": qdisc(2, b"tbf", ROOT, tbf(1_250_000_000, 65536))
                + qdisc(2, b"bfifo", 0x10001, fifo(600))
            }
        ),
        [("queue-too-short", "critical")],
    ),
    "a queue of no packet": (
        soft(**{"route-getqdisc": qdisc(2, b"pfifo", ROOT, fifo(0))}),
        [("queue-too-short", "critical")],
    ),
    "a queue of one packet": (
        soft(**{"route-getqdisc": qdisc(2, b"pfifo", ROOT, fifo(1))}),
        [],
    ),
    "a queue that drops all": (
        soft(**{"route-getqdisc": qdisc(2, b"blackhole", ROOT)}),
        [("queue-too-short", "critical")],
    ),
    "a short queue at a NIC": (nic(**{"route-getqdisc": qdisc(2, b"bfifo", ROOT, fifo(6))}), []),
    "20 kbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"tbf", ROOT, tbf(2500, 9100))}),
        [("shaper-at-port", "warn")],
    ),
    "a bucket that holds no full frame": (
        soft(**{"route-getqdisc": qdisc(2, b"tbf", ROOT, tbf(1_000_000_000, 800))}),
        [("shaper-at-port", "critical")],
    ),
    "a bucket of 10 Gbit/s": (
        soft(**{"route-getqdisc": qdisc(2, b"tbf", ROOT, tbf(1_250_000_000, 65536))}),
        [],
    ),
    "a bucket at a NIC": (nic(**{"route-getqdisc": qdisc(2, b"tbf", ROOT, tbf(2500, 800))}), []),
    "netem at a NIC": (nic(**{"route-getqdisc": qdisc(2, b"netem", ROOT, netem(1.0))}), []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    machine, wanted = CASES[name]
    assert said(machine) == wanted


def test_a_finding_names_the_filter_and_how_it_is_taken_away() -> None:
    found = judge(soft(**traffic(ROCE)).evidence()).findings[0]
    assert found.evidence[0].subject == "filter of eth0, ingress, priority 49152"
    assert "sudo tc filter del dev eth0 ingress prio 49152" in found.remedy
    assert found.summary.endswith("flower, inwards: UDP, port 4791")


@pytest.mark.parametrize("why", [Why.DENIED, Why.TIMEOUT])
def test_what_was_not_read_is_skipped_and_the_verdict_unknown(why: Why) -> None:
    evidence = soft().evidence()
    assert not isinstance(evidence.routing, Missing)
    routing = replace(evidence.routing, traffic_control=Missing(why, "late"))
    verdict = judge(replace(evidence, routing=routing))
    assert {each.rule for each in verdict.skipped} >= CODES
    assert verdict.status == "unknown"


def test_a_record_from_before_has_no_such_rule() -> None:
    evidence = soft().evidence()
    assert not isinstance(evidence.routing, Missing)
    old = replace(evidence.routing, traffic_control=Missing(Why.NOT_COLLECTED, "not in the record"))
    verdict = judge(replace(evidence, routing=old))
    assert CODES.isdisjoint(each.rule for each in (*verdict.findings, *verdict.skipped))
