"""Settings that a kernel has not by itself, and the host of two that alone has one."""

from collections.abc import Callable

import pytest

from lab.machine import Machine
from lab.routing import DEFAULT_RULES, Rule, Way
from rdmadiag.view.unusual import odd_one, unusual
from tests.preflight.test_judge_ends import (
    BLACKHOLE,
    OTHER_MAC,
    PERMANENT,
    REACHABLE,
    ROW,
    UNREACHABLE,
    end,
    netdev,
    one,
    soft,
    two,
)
from tests.sources.test_packet_filter import ACCEPT, DROP, chain, rule, verdict
from tests.sources.test_traffic_control import ROOT, fifo, flower, other, qdisc, tbf, traffic

SHORT = {"route-getqdisc": qdisc(2, b"bfifo", ROOT, fifo(600))}
USUAL = {"route-getqdisc": qdisc(2, b"fq_codel", ROOT)}
ELSEWHERE = {"route-getqdisc": qdisc(9, b"tbf", ROOT, tbf(2500, 9100))}
OWN_RULE = Rule(100, table=7, source="192.0.2.1/32")
NO_IPV6 = Way("::/0", kind=UNREACHABLE, metric=0xFFFFFFFF)


def filtered(*expressions: bytes) -> dict[str, bytes]:
    return {"nft-getchain": chain("in", 1), "nft-getrule": rule("in", *expressions)}


def shown(machine: Machine) -> list[str]:
    return [each.object for each in unusual(end(machine, "node1"))]


@pytest.mark.parametrize(
    ("machine", "objects"),
    [
        (one(), []),
        (one(default_ttl=64), []),
        (one(default_ttl=1), ["net.ipv4.ip_default_ttl"]),
        (netdev(one(), hop_limit=64), []),
        (netdev(one(), hop_limit=1), ["hop_limit of eth0"]),
        (netdev(one(), arp_ignore=8), ["arp_ignore of eth0"]),
        (netdev(one(), arp_filter=1), ["arp_filter of eth0"]),
        (one(rules=DEFAULT_RULES), []),
        (one(rules=(*DEFAULT_RULES, OWN_RULE)), ["rule of priority 100"]),
        (one(ways=(Way("192.0.2.2/32", kind=BLACKHOLE),)), ["route 192.0.2.2/32"]),
        (one(ways=(NO_IPV6,)), []),
        (one(neighbours={ROW: (REACHABLE, OTHER_MAC)}), []),
        (
            one(neighbours={ROW: (PERMANENT, OTHER_MAC)}),
            ["permanent neighbour 192.0.2.2 on eth0"],
        ),
        (soft(one(traffic=USUAL)), []),
        (soft(one(traffic=SHORT)), ["queueing discipline of eth0"]),
        (soft(one(traffic=ELSEWHERE)), []),
        (
            soft(one(traffic=traffic(flower((9, b"\x11"), action=other(b"pedit"))))),
            ["filter of traffic control on eth0, in"],
        ),
        (
            one(traffic=filtered(verdict(DROP))),
            ["packet filter inet t in"],
        ),
        (one(traffic=filtered(verdict(ACCEPT))), []),
    ],
)
def test_what_somebody_set_is_shown_and_what_kernels_do_is_not(
    machine: Machine, objects: list[str]
) -> None:
    assert shown(machine) == objects


def test_what_was_not_read_shows_nothing() -> None:
    assert shown(one(rules=None)) == []


HERE, THERE = one(default_ttl=64), two(default_ttl=64)
LOW: Callable[[Machine], Machine] = lambda machine: machine.change(default_ttl=1)  # noqa: E731


@pytest.mark.parametrize(
    ("here", "there", "name"),
    [
        (HERE, THERE, None),
        (LOW(HERE), THERE, "node1"),
        (HERE, LOW(THERE), "node2"),
        (LOW(HERE), LOW(THERE), None),
        (LOW(HERE), netdev(THERE, arp_ignore=8), None),
    ],
    ids=["neither", "the first", "the second", "both alike", "each something else"],
)
def test_the_odd_one_of_two_hosts_alone_has_such_a_setting(
    here: Machine, there: Machine, name: str | None
) -> None:
    found = odd_one(end(here, "node1"), end(there, "node2"))
    assert (found and found[0].name) == name


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (one(rules=(*DEFAULT_RULES, OWN_RULE)), two(rules=None)),
        (LOW(one()), two(default_ttl=None)),
        (netdev(one(), hop_limit=1), netdev(two(), hop_limit=None)),
    ],
)
def test_a_setting_counts_only_where_the_same_was_read_of_the_other_host(
    here: Machine, there: Machine
) -> None:
    assert unusual(end(here, "node1"))
    assert odd_one(end(here, "node1"), end(there, "node2")) is None
