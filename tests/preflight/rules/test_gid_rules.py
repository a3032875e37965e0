"""Rules of GID tables and partitions."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import V1, V2, Device, GidRow, Port
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import DriverId, PortState
from rdmadiag.preflight.judge import judge
from tests.preflight.rules.linux_machines import (
    NETDEV,
    V6,
    findings,
    flagged,
    only,
    said,
    soft,
    with_pkeys,
    with_table,
)


def test_a_table_of_v1_and_ipv6_is_one_finding() -> None:
    assert said(with_table(V6, kinds_of=(V1,))) == [("gid-v1-only", "warn")]


def test_software_with_a_link_local_address_of_its_own_is_warned_of() -> None:
    netdev = NetDev("veth0", addresses=("fe80::1/64",))
    port = Port(gids={0: GidRow("fe80::1", V2, "veth0")}, gid_table_length=16, netdev="veth0")
    device = Device("rxe0", (port,), driver=DriverId.RXE, parent="veth0")
    assert said(Machine("soft", (device,), (netdev,))) == [("gid-link-local-only", "warn")]


def test_no_other_host_reaches_soft_roce_on_the_loopback() -> None:
    finding = only(soft(NetDev("lo", addresses=("127.0.0.1/8",))), "gid-link-local-only")
    assert "no other host reaches it" in finding.summary
    assert finding.remedy[0] == "sudo rdma link delete rxe0"
    netdev = NetDev("eth0", addresses=("192.0.2.1/24",))
    assert "gid-link-local-only" not in dict(said(soft(netdev)))


def test_a_port_that_is_down_has_no_finding_on_its_gids() -> None:
    down = with_table().with_port(state=PortState.DOWN)
    assert "gid-link-local-only" not in dict(said(down))


def test_an_address_that_must_not_be_used_yields_to_another() -> None:
    duplicate = flagged(0xC8, V6, "2001:db8::11")
    assert said(duplicate)[0] == ("address-duplicate", "warn")
    assert said(flagged(0xC0, V6, "2001:db8::11"))[-1] == ("address-tentative", "info")
    (port,) = judge(duplicate.evidence()).ports
    assert (port.route_gid_index, port.safe_to_attempt_rtr) == (1, True)
    (alone,) = judge(flagged(0xC8, V6).evidence()).ports
    assert (alone.route_gid_index, alone.reasons) == (None, ("no_route_gid",))


def test_without_rtnetlink_if_inet6_says_it_too() -> None:
    evidence = replace(flagged(0xC8, V6).evidence(), netdev=Missing(Why.TIMEOUT, "late"))
    found = only(evidence, "address-duplicate")
    assert found.severity == "critical"
    assert found.evidence[1].source == "process"
    assert f"sudo ip address del {V6}/64 dev {NETDEV}" in found.remedy


def test_the_remedy_of_a_duplicate_can_be_pasted() -> None:
    assert only(flagged(0xC8, V6), "address-duplicate").remedy[-2:] == (
        f"sudo ip address del {V6}/64 dev {NETDEV}",
        f"sudo ip address add {V6}/64 dev {NETDEV}",
    )


@pytest.mark.parametrize(
    ("keys", "severity", "words"),
    [
        pytest.param((0, 0x8001), "warn", "no partition key at index 0", id="another index"),
        pytest.param((0x8000, 0x8001), "warn", "to use is at 1", id="a bit alone is no key"),
        pytest.param((0, 0x0001, 0x8002), "warn", "is at 2 (0x8002)", id="the first full one"),
        pytest.param((0x7FFF, 0x0001), "warn", "limited member", id="limited alone"),
        pytest.param((0x7FFF, 0x8001), "warn", "at 1 (0x8001)", id="limited at 0, full at 1"),
        pytest.param((0xFFFF, 0x0001), None, "", id="full at 0, limited at 1"),
    ],
)
def test_partition_keys(keys: tuple[int, ...], severity: str | None, words: str) -> None:
    expected = [("no-usable-pkey", severity)] if severity else []
    assert said(with_pkeys(*keys)) == expected
    assert all(words in each.summary for each in findings(with_pkeys(*keys)))


def test_the_key_to_use_is_given_in_each_programs_own_form() -> None:
    remedy = only(with_pkeys(0, 0, 0x8123), "no-usable-pkey").remedy
    assert any(line.startswith("export NCCL_IB_PKEY=2 ") for line in remedy)
    assert any(line.startswith("export UCX_IB_PKEY=0x123 ") for line in remedy)
