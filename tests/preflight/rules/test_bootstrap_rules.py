"""The interface by which processes meet: each unfit one beside a fit one."""

from dataclasses import replace

import pytest

from lab.netdevs import NetDev
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.judge import judge

NETDEV = "ens1f0np0"
OTHERS = (
    NetDev("lo", mac="00:00:00:00:00:00", addresses=("127.0.0.1/8",)),
    NetDev("eth0", addresses=("203.0.113.7/24",)),
    NetDev("docker0", addresses=("172.17.0.1/16",)),
    NetDev("eth1", addresses=("fe80::1/64",)),
    NetDev("eth2"),
)


def evidence(**variables: str):
    base = roce_host()
    return base.change(netdevs=(*base.netdevs, *OTHERS), environ=variables).evidence()


def said(found, code: str = "bootstrap-interface-unfit") -> list[tuple[str, str]]:
    findings = [each for each in judge(found).findings if each.rule == code]
    assert all(each.evidence and each.remedy and each.references for each in findings)
    return [(each.severity.value, each.summary) for each in findings]


@pytest.mark.parametrize(
    ("variable", "value", "severity", "words"),
    [
        ("NCCL_SOCKET_IFNAME", "eth0", None, ""),
        ("NCCL_SOCKET_IFNAME", "=eth0", None, ""),
        ("NCCL_SOCKET_IFNAME", "eth", None, ""),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", None, ""),
        ("NCCL_SOCKET_IFNAME", NETDEV, None, ""),
        ("NCCL_SOCKET_IFNAME", "lo", "warn", "loopback"),
        ("NCCL_SOCKET_IFNAME", "lo,eth0", None, ""),
        ("NCCL_SOCKET_IFNAME", "=eth1", "warn", "link-local"),
        ("NCCL_SOCKET_IFNAME", "=eth2", "warn", "without an address"),
        ("NCCL_SOCKET_IFNAME", "docker", "info", "by its name"),
        ("NCCL_SOCKET_IFNAME", "=eth", "critical", "not there"),
        ("NCCL_SOCKET_IFNAME", "ib0", "critical", "not there"),
        ("GLOO_SOCKET_IFNAME", "eth", "critical", "not there"),
        ("GLOO_SOCKET_IFNAME", "eth0", None, ""),
        ("TP_SOCKET_IFNAME", "lo", "warn", "loopback"),
        ("OMPI_MCA_btl_tcp_if_include", "203.0.113.0/24", None, ""),
        ("OMPI_MCA_oob_tcp_if_include", "eth2,eth1", "warn", "link-local"),
    ],
)
def test_an_interface(variable: str, value: str, severity: str | None, words: str) -> None:
    found = said(evidence(**{variable: value}))
    assert [each for each, _ in found] == ([severity] if severity else [])
    assert all(words in summary for _, summary in found)


def test_without_routes_it_is_not_judged() -> None:
    blind = replace(
        evidence(NCCL_SOCKET_IFNAME="lo"), routing=Missing(Why.NOT_COLLECTED, "not in this record")
    )
    assert said(blind) == []


TWO_HOSTS = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("variables", "severity", "words"),
    [
        ({"MASTER_ADDR": "203.0.113.9"}, None, ""),  # on the link of eth0
        ({"MASTER_ADDR": "203.0.113.7"}, None, ""),  # eth0's own
        ({"MASTER_ADDR": "198.51.100.200"}, "critical", "no route"),
        ({"MASTER_ADDR": "2001:db8:77::1"}, "critical", "no route"),
        ({"MASTER_ADDR": "node0"}, None, ""),  # a name: not looked up
        ({"MASTER_ADDR": "127.0.1.1"}, None, ""),
        ({"MASTER_ADDR": "127.0.1.1", **TWO_HOSTS}, "warn", "8 of the 16 processes"),
        ({"MASTER_ADDR": "::1", **TWO_HOSTS}, "warn", "loopback"),
        ({"MASTER_ADDR": "localhost", **TWO_HOSTS}, "warn", "loopback"),
        ({"MASTER_ADDR": "localhost", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, None, ""),
        ({"MASTER_ADDR": "203.0.113.9", **TWO_HOSTS}, None, ""),
        ({"MASTER_ADDR": ""}, None, ""),
        ({"MASTER_ADDR": "1.2.3"}, None, ""),
        ({"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "9" * 40, "LOCAL_WORLD_SIZE": "²"}, None, ""),
    ],
    ids=str,
)
def test_the_address_where_processes_meet(
    variables: dict[str, str], severity: str | None, words: str
) -> None:
    found = said(evidence(**variables), "master-address-unfit")
    assert [each for each, _ in found] == ([severity] if severity else [])
    assert all(words in summary for _, summary in found)


def test_a_rule_for_some_packets_leaves_the_way_unknown() -> None:
    whole = evidence(MASTER_ADDR="198.51.100.200")
    routing = whole.routing
    assert not isinstance(routing, Missing)
    assert not isinstance(routing.rules, Missing)
    one, *rest = routing.rules
    rules = (replace(one, other=("uid_range",)), *rest)
    found = replace(whole, routing=replace(routing, rules=rules))
    assert said(found, "master-address-unfit") == []
