"""What rdma_cm needs of a host: each rule beside a healthy neighbour, one change away."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import V1, GidRow, roce_rows
from lab.routing import DEFAULT_RULES, Rule, Way
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import DriverId
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.connection_manager import RULES
from rdmadiag.preflight.verdict import Finding
from tests.preflight.test_judge_route import MACS, host

CODES = {rule.code for rule in RULES}


def findings(machine: Machine, **changes: Any) -> list[Finding]:
    evidence = replace(machine.evidence(), **changes)
    return [each for each in judge(evidence).findings if each.rule in CODES]


def said(machine: Machine) -> list[tuple[str, str, str | None]]:
    return [(each.rule, each.severity.value, each.device) for each in findings(machine)]


def one_subnet(**changes: Any) -> Machine:
    """eth0 and eth1 in 192.0.2.0/24, without a rule: the main table's first row is eth0's."""
    return host(("192.0.2.1/24",), ("192.0.2.3/24",), **changes)


def ruled(**changes: Any) -> Machine:
    return one_subnet(
        rules=(*DEFAULT_RULES, Rule(100, 77, source="192.0.2.3/32")),
        ways=(Way("192.0.2.0/24", "eth1", table=77),),
        **changes,
    )


def iwarp(**device: Any) -> Machine:
    rows = {0: GidRow("c42:a100:1::", V1, None)}
    values = {"node_type": "4: RNIC", "protocol": "iw", "driver": DriverId.IRDMA} | device
    return host(("192.0.2.1/24",)).with_device(0, **values).with_port(0, gids=rows)


FIRST = roce_rows("eth0", MACS[0], "192.0.2.1")


def two(rows: Any = None) -> Machine:
    """mlx5_0 on eth0 with two addresses, whose table has `rows`."""
    machine = host(("192.0.2.1/24", "192.0.2.11/24"))
    return machine if rows is None else machine.with_port(0, gids=rows)


def first_with(**changes: Any) -> Machine:
    first, second = host().netdevs
    return host().change(netdevs=(replace(first, **changes), second))


def beside(netdev: NetDev) -> Machine:
    return host().change(netdevs=(*host().netdevs, netdev))


NODES = {"uverbs0": 0o666, "uverbs1": 0o666, "rdma_cm": 0o666}


@pytest.mark.parametrize("has_peer", [True, False])
def test_a_point_to_point_address_without_a_gid_is_warned_of_with_its_reason(
    has_peer: bool,
) -> None:
    """enum_netdev_ipv4_ips takes ifa_address, which is the peer's."""
    machine = first_with(
        addresses=("192.0.2.1/24", "203.0.113.1/32"),
        peers={"203.0.113.1": "203.0.113.9"} if has_peer else {},
    ).with_port(0, gids=roce_rows("eth0", MACS[0], "192.0.2.1", "203.0.113.9"))
    (finding,) = judge(machine.evidence()).findings
    reason = ": it is point-to-point, and the GID is of its peer, 203.0.113.9"
    assert finding.summary == f"mlx5_0/1: no GID for 203.0.113.1 of eth0{reason * has_peer}"
    command = "sudo ip address del 203.0.113.1 peer 203.0.113.9 dev eth0"
    assert (command in finding.remedy) == has_peer


def test_of_a_healthy_host_nothing_is_said() -> None:
    assert said(host()) == []
    assert said(iwarp().change(port_mapper=True, nodes=NODES)) == []


@pytest.mark.parametrize(
    ("bad", "good", "expected"),
    [
        pytest.param(
            two(roce_rows("eth0", MACS[0], "192.0.2.1")),
            two(),
            [("address-without-gid", "warn", "mlx5_0")],
            id="no row of an address",
        ),
        pytest.param(
            first_with(
                addresses=("192.0.2.1/24", "203.0.113.1/32"),
                peers={"203.0.113.1": "203.0.113.9"},
            ).with_port(0, gids=roce_rows("eth0", MACS[0], "192.0.2.1", "203.0.113.9")),
            first_with(addresses=("192.0.2.1/24", "203.0.113.1/32")).with_port(
                0, gids=roce_rows("eth0", MACS[0], "192.0.2.1", "203.0.113.1")
            ),
            [("address-without-gid", "warn", "mlx5_0")],
            id="the row is of the peer's address",
        ),
        pytest.param(
            two({**FIRST, 9: GidRow("::ffff:192.0.2.11", V1, "eth0")}),
            two({**FIRST, 9: GidRow("::ffff:192.0.2.11", netdev="eth0")}),
            [("address-without-gid", "warn", "mlx5_0")],
            id="a row of the other type",
        ),
        pytest.param(
            two({**FIRST, 9: GidRow("::ffff:192.0.2.11", netdev="eth1")}),
            two({**FIRST, 9: GidRow("::ffff:192.0.2.11", netdev="eth0")}),
            [("address-of-other-netdev", "warn", "mlx5_0")],
            id="the row is another netdev's",
        ),
        pytest.param(
            one_subnet(rp_filter=1),
            ruled(rp_filter=1),
            [("reverse-path-filter", "warn", "mlx5_1")],
            id="strict rp_filter, without a rule",
        ),
        pytest.param(
            ruled(rp_filter=2).change(ways=(Way("192.0.2.0/24", "eth0", table=77),)),
            ruled(rp_filter=2),
            [("no-rule-for-this-nic", "warn", "mlx5_1")],
            id="a rule that leads by the other netdev",
        ),
        pytest.param(
            first_with(not_local=("192.0.2.1",)),
            first_with(),
            [("address-not-local", "critical", "mlx5_0")],
            id="the local row of an address is gone",
        ),
        pytest.param(
            host().change(rules=(Rule(32766, 254), Rule(32767, 253))),
            host().change(rules=(Rule(100, 255), Rule(32766, 254))),
            [
                ("address-not-local", "critical", "mlx5_0"),
                ("address-not-local", "critical", "mlx5_1"),
            ],
            id="no rule leads to the table local",
        ),
        pytest.param(
            beside(NetDev("lo", up=False, loopback=True)),
            beside(NetDev("lo", loopback=True)),
            [("loopback-down", "warn", None)],
            id="lo is down",
        ),
        pytest.param(
            iwarp(),
            iwarp().change(nodes=NODES, port_mapper=True),
            [
                ("rdma-cm-node", "critical", None),
                ("iwarp-port-mapper-absent", "warn", "mlx5_0"),
            ],
            id="iWARP without its node and its port mapper",
        ),
        pytest.param(
            iwarp().change(nodes=NODES),
            iwarp(driver=DriverId.ERDMA, pci_driver="erdma").change(nodes=NODES),
            [("iwarp-port-mapper-absent", "warn", "mlx5_0")],
            id="without a port mapper, which eRDMA needs not",
        ),
        pytest.param(
            host().change(nodes=NODES, openable=False, uid=1000, capabilities=0),
            host().change(nodes=NODES),
            [("rdma-cm-node", "warn", None)],
            id="a closed node",
        ),
    ],
)
def test_a_rule_speaks_where_it_should(
    bad: Machine, good: Machine, expected: list[tuple[str, str, str | None]]
) -> None:
    assert said(bad) == expected
    assert said(good) == []


def test_strict_on_the_netdev_alone_is_strict() -> None:
    first, second = one_subnet().netdevs
    machine = one_subnet().change(netdevs=(first, replace(second, rp_filter=1)))
    assert said(machine) == [("reverse-path-filter", "warn", "mlx5_1")]
    assert said(machine.change(rp_filter=2)) == []  # the larger of both counts


def test_the_remedy_names_subnet_netdev_and_address() -> None:
    (found,) = findings(one_subnet(rp_filter=1))
    assert found.remedy[:2] == (
        "sudo ip route add 192.0.2.0/24 dev eth1 src 192.0.2.3 table N   # a table of its own",
        "sudo ip rule add from 192.0.2.3 table N",
    )


def test_soft_iwarp_needs_no_port_mapper_and_its_wrong_way_is_a_warning() -> None:
    soft = iwarp(driver=DriverId.SIW, parent="eth0").change(nodes=NODES)
    assert said(soft) == []
    beside = soft.change(
        netdevs=(*soft.netdevs, NetDev("eth1", addresses=("192.0.2.3/24",))),
        ways=(Way("192.0.2.0/25", "eth1"), Way("192.0.2.128/25", "eth1")),
    )
    assert said(beside) == [("no-rule-for-this-nic", "warn", "mlx5_0")]


def test_a_node_is_looked_for_where_something_needs_it() -> None:
    assert said(host()) == []  # verbs alone do not
    assert said(host().change(container="/.dockerenv")) == []
    missing = iwarp().change(container="/.dockerenv", port_mapper=True)
    (found,) = findings(missing)
    assert found.remedy[0].startswith("docker run --device=/dev/infiniband/rdma_cm")


def test_without_the_tables_these_rules_are_skipped() -> None:
    late = Missing(Why.TIMEOUT, "late")
    for machine in (one_subnet(rp_filter=1), two(FIRST)):
        assert findings(machine, routing=late) == []
    verdict = judge(replace(one_subnet(rp_filter=1).evidence(), routing=late))
    skipped = {each.rule for each in verdict.skipped}
    assert {"reverse-path-filter", "address-without-gid", "iwarp-port-mapper-absent"} <= skipped
    assert verdict.status == "unknown"


def test_an_older_record_skips_them_and_is_not_unknown_for_it() -> None:
    verdict = judge(one_subnet(rules=None).evidence())
    assert "reverse-path-filter" in {each.rule for each in verdict.skipped}
    assert "unknown" not in {each.severity for each in verdict.findings}
