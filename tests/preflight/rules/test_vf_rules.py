"""Rules of virtual functions, and of a bond's driver."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.netdevs import BondData, LegData
from lab.rdma_devices import Vf
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.ib import DriverId, PortState
from rdmadiag.facts.verbs import VerbsFailure
from tests.preflight.rules.linux_machines import (
    NETDEV,
    NO_GUID,
    bond_findings,
    driven,
    only,
    said,
    two_roce,
)

VF = "0000:af:00.0"


def with_vf(guid: str = "0c42:a103:0000:0099", link: int = 0) -> Machine:
    """Two adapters, of which the second is a virtual function of the first."""
    machine = two_roce("198.51.100.11", physfn="0000:08:00.0")
    machine = machine.with_device(1, node_guid=guid)
    first, second = machine.devices
    vf = Vf(second.pci_address, guid=int(guid.replace(":", ""), 16), link=link)
    return machine.change(devices=(replace(first, vfs=(Vf(), vf)), second))


def test_a_virtual_function_without_a_guid_names_what_gives_it_one() -> None:
    finding = only(with_vf(guid=NO_GUID), "vf-without-guid")
    assert (finding.device, finding.severity) == ("mlx5_1", "warn")
    assert finding.summary == "mlx5_1 has no GUID: a virtual function was given none"
    assert finding.remedy == (
        f"sudo ip link set dev {NETDEV} vf 1 node_guid GUID   # 8 bytes, no other\u2019s",
        f"sudo ip link set dev {NETDEV} vf 1 port_guid GUID",
        f"echo {VF} | sudo tee /sys/bus/pci/drivers/mlx5_core/unbind",
        f"echo {VF} | sudo tee /sys/bus/pci/drivers/mlx5_core/bind",
    )


def test_in_a_virtual_machine_the_lines_are_for_its_host() -> None:
    finding = only(roce_host().with_device(node_guid=NO_GUID), "vf-without-guid")
    assert finding.summary == "mlx5_0 has no GUID: its function was given none"
    assert finding.remedy[0].startswith("# on the host that has the physical function")


def test_an_infiniband_port_that_is_down_for_want_of_a_guid_is_critical() -> None:
    machine = infiniband_host().change(devices=infiniband_host().devices[:1])
    down = machine.with_device(node_guid=NO_GUID).with_port(state=PortState.DOWN)
    assert only(down, "vf-without-guid").severity == "critical"
    assert said(down)[0][0] == "vf-without-guid"  # the cause is the answer
    initial = down.with_port(state=PortState.INIT, sm_lid=4)
    assert [each for each, _ in said(initial)] == ["vf-without-guid", "port-not-active"]
    assert "is INIT, not ACTIVE" in only(initial, "port-not-active").summary


@pytest.mark.parametrize(
    ("vfs", "expected"),
    [
        ((Vf(), Vf()), []),
        ((Vf(guid=None),), []),
        ((Vf(), Vf(guid=0)), [("vf-without-guid", "info")]),
        ((Vf(link=2), Vf(link=1)), [("vf-link-policy-down", "info")]),
        (Missing(Why.UNSUPPORTED, "none"), []),
        (Missing(Why.DENIED, "none"), [("source-failed", "unknown")]),
    ],
    ids=["well", "the driver has no GUIDs", "no GUID", "link down", "no list", "refused"],
)
def test_functions_that_nothing_here_uses_are_a_note(
    vfs: tuple[Vf, ...] | Missing, expected: list[tuple[str, str]]
) -> None:
    found = said(roce_host().with_device(vfs=vfs))
    assert [each[1] for each in found] == [each[1] for each in expected]
    assert not expected or expected[0][1] == "unknown" or found == expected


def test_a_link_that_is_set_to_down_below_a_device_here_is_a_warning() -> None:
    assert said(with_vf()) == []
    assert said(with_vf(link=2)) == [("vf-link-policy-down", "warn")]
    finding = only(with_vf(link=2), "vf-link-policy-down")
    assert (finding.device, finding.remedy) == (
        "mlx5_1",
        (f"sudo ip link set dev {NETDEV} vf 1 state auto",),
    )


LACP, NOBODY = BondData(), BondData(partner_mac="00:00:00:00:00:00")
USED, UNUSED, ELSEWHERE = LegData(), LegData(state=1), LegData(1, 0, 2)


@pytest.mark.parametrize(
    ("data", "legs", "words"),
    [
        (LACP, (USED, USED), None),
        (LACP, (USED, ELSEWHERE), "does not use 1 of 2 legs that have a link: eth9 (in another"),
        (LACP, (USED, UNUSED), "eth9 (LACP has not agreed)"),
        (NOBODY, (USED, ELSEWHERE), "eth9 (no LACP partner)"),
        (NOBODY, (USED,), None),
        (LACP, (USED, LegData(mii=3)), None),
        (LACP, (USED, LegData(1, 2, 2)), "eth9 (down for the bond's own monitor)"),
        (BondData(mode=1), (USED, UNUSED), None),
        (BondData(mode=1), (USED, LegData(1, 2)), "eth9 (down for the bond's own monitor)"),
        (BondData(mode=0), (USED, USED, LegData(0, 2)), "1 of 3 legs that have a link: eth10"),
        (BondData(aggregator=None), (USED, LegData(aggregator=None)), None),
    ],
    ids=[
        "both are used",
        "in another aggregator",
        "in the aggregator, and not agreed",
        "nobody answers LACP",
        "nobody answers, and there is one leg",
        "its updelay has not passed",
        "LACP, down for the monitor",
        "a backup is meant to wait",
        "a backup that would not do",
        "round robin",
        "aggregators that are not known",
    ],
)
def test_a_leg_with_a_link_that_its_bond_does_not_use(
    data: BondData, legs: tuple[LegData, ...], words: str | None
) -> None:
    machine = driven(data, *legs)
    assert bond_findings(machine) == ([("bond-leg-lost", "warn")] if words else [])
    assert (("bonded-ports", "info") in said(machine)) is (words is None)
    if words:
        assert words in only(machine, "bond-leg-lost").summary


def test_a_leg_without_carrier_is_not_said_twice() -> None:
    machine = driven(LACP, USED, LegData(1, 2, 2))
    bond, own, other = machine.netdevs
    down = machine.change(netdevs=(bond, own, replace(other, up=False)))
    assert bond_findings(down) == [("bond-leg-down", "warn")]


@pytest.mark.parametrize("policy", range(6))
@pytest.mark.parametrize("mode", range(7))
def test_a_policy_without_ports_sends_by_one_leg_where_the_mode_has_a_policy(
    mode: int, policy: int
) -> None:
    """layer2, layer2+3, encap2+3 and vlan+srcmac; of balance-xor and 802.3ad."""
    found = bond_findings(driven(BondData(mode=mode, hash_policy=policy), USED, USED))
    one_leg = mode in (2, 4) and policy in (0, 2, 3, 5)
    assert found == ([("bond-hash-one-leg", "info")] if one_leg else [])


def test_a_device_on_one_leg_of_a_bond_has_no_policy() -> None:
    machine = driven(BondData(hash_policy=0), USED, USED).with_device(
        driver=DriverId.RXE, parent=NETDEV
    )
    assert bond_findings(machine) == [("soft-roce-on-other-netdev", "critical")]


def test_an_older_record_says_nothing_of_the_driver() -> None:
    evidence = driven(LACP, USED, ELSEWHERE).evidence()
    assert not isinstance(evidence.netdev, Missing)
    old = replace(evidence.netdev, bonds=NOT_IN_RECORD)
    assert said(replace(evidence, netdev=old)) == [("bonded-ports", "info")]
    unread = replace(evidence.netdev, bonds=Missing(Why.MALFORMED, "torn"))
    assert "bond-leg-lost" not in dict(said(replace(evidence, netdev=unread)))


def test_a_full_rdma_cgroup_is_named_where_open_says_eagain() -> None:
    evidence = roce_host().evidence()
    assert not isinstance(evidence.verbs, Missing)
    (device,) = evidence.verbs.devices
    for number, name, expected in ((11, "EAGAIN", True), (16, "EBUSY", False)):
        failure = VerbsFailure("ibv_open_device", device.name, None, number, name)
        verbs = replace(evidence.verbs, failures=(failure,))
        finding = only(replace(evidence, verbs=verbs), "device-open-failed")
        assert ("rdma cgroup" in finding.summary) is expected
        assert ("rdma.max" in finding.remedy[0]) is expected
