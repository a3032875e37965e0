"""Rules of netdevs below RDMA devices, and of bonds."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.samples import roce_host
from rdmadiag.facts.ib import DriverId
from rdmadiag.preflight.rules import (
    netdevs,
)
from tests.preflight.rules.linux_machines import (
    NETDEV,
    VETHS,
    beside,
    bonded,
    findings,
    only,
    said,
    soft,
    two_roce,
)


def test_software_devices_in_one_subnet_are_a_note() -> None:
    assert said(soft(*VETHS)) == [("arp-flux", "info")]
    assert said(soft(*VETHS, arp_ignore=2)) == []


def test_other_subnets_and_another_arp_ignore_of_each_are_well() -> None:
    assert said(two_roce("198.51.100.11").change(arp_ignore=0)) == []
    strict = two_roce()
    quiet = tuple(replace(each, arp_ignore=1) for each in strict.netdevs)
    assert said(strict.change(arp_ignore=0, netdevs=quiet)) == []


def test_one_of_two_that_answers_for_both_is_enough() -> None:
    first, second = two_roce().netdevs
    machine = two_roce().change(arp_ignore=0, netdevs=(replace(first, arp_ignore=2), second))
    finding = only(machine, "arp-flux")
    assert [proof.subject for proof in finding.evidence if "DEVCONF" in proof.subject] == [
        "ens2f0np0 IPV4_DEVCONF_ARP_IGNORE"
    ]


def test_different_mtus_of_soft_roce_on_one_link_are_found() -> None:
    first, second = VETHS
    machine = soft(replace(first, mtu=9000), second, arp_ignore=2).with_port(0, 0, active_mtu=4096)
    finding = only(machine, "mtu-differs-in-subnet")
    assert finding.summary == "veth0 (MTU 9000) and veth1 (MTU 1500) are both in 192.0.2.0/24"
    assert finding.remedy[0] == "sudo ip link set dev veth1 mtu 9000"


@pytest.mark.parametrize(
    ("mtu", "roce"),
    [(9000, 4096), (4200, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (576, 256), (300, None)],
)
def test_what_fits_a_netdevs_mtu_is_the_kernels_arithmetic(mtu: int, roce: int | None) -> None:
    assert netdevs.roce_mtu(mtu) == roce


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param({"name": "mlx5_bond_0"}, True, id="by the device's name"),
        pytest.param({}, False, id="not at all"),
    ],
)
def test_a_bond_is_known_by_its_name(names: dict[str, str], expected: bool) -> None:
    assert bool(said(roce_host().with_device(**names))) is expected


@pytest.mark.parametrize("kind", ["bond", "vlan", "bridge"])
def test_a_bond_is_known_by_the_kind_of_the_gids_netdev(kind: str) -> None:
    (netdev,) = roce_host().netdevs
    above = roce_host().change(netdevs=(replace(netdev, kind=kind),))
    enslaved = roce_host().change(
        netdevs=(replace(netdev, master="x0"), NetDev("x0", mtu=9000, kind=kind))
    )
    expected = [("bonded-ports", "info")] if kind == "bond" else []
    assert said(above) == expected
    below = [("netdev-is-bridge-port", "warn")] if kind == "bridge" else expected
    assert said(enslaved) == below


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        pytest.param(
            bonded(NetDev("eth9")),
            f"mlx5_0 is over bond7 ({NETDEV}, eth9), a bond",
            id="a NIC's one device for both legs",
        ),
        pytest.param(
            bonded(NetDev("eth9"), driver=DriverId.RXE, parent=NETDEV),
            f"mlx5_0 is on {NETDEV}, one leg of bond7 ({NETDEV}, eth9)",
            id="a software device on a leg",
        ),
        pytest.param(
            beside(bonded(NetDev("eth9")), "eth9"),
            f"mlx5_0 is on {NETDEV}, one leg of bond7 ({NETDEV}, eth9)",
            id="a device on each leg",
        ),
        pytest.param(
            beside(bonded(NetDev("eth9")), "eth8"),
            f"mlx5_0 is over bond7 ({NETDEV}, eth9), a bond",
            id="another device elsewhere",
        ),
    ],
)
def test_a_device_on_one_leg_is_no_bond_of_ports(machine: Machine, words: str) -> None:
    found = [each for each in findings(machine) if each.rule == "bonded-ports"]
    assert found[0].summary.startswith(words)


def test_the_legs_that_are_down_are_named() -> None:
    finding = only(bonded(NetDev("eth9", up=False), NetDev("eth8")), "bond-leg-down")
    assert finding.summary == "bond7, below mlx5_0, has 1 of 3 legs down: eth9"
    assert "sudo ip link set dev eth9 up" in finding.remedy
