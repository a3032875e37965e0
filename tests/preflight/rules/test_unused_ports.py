"""Ports that are down and that nobody seems to use, beside those that somebody does."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import GidRow, Port, Vf, roce_rows
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.preflight.judge import judge
from rdmadiag.view.select import Selector

DOWN: dict[str, Any] = {"state": PortState.DOWN, "phys": PhysState.DISABLED}
MAC = "0c:42:a1:00:00:02"
NEVER = NetDev("ens1f1np1", mac=MAC, carrier=False, carrier_changes=1)


def with_second_port(netdev: NetDev = NEVER, **device: Any) -> Machine:
    """The RoCE host, whose card has a second function that is down."""
    base = roce_host()
    addresses = [each.partition("/")[0] for each in netdev.addresses]
    port = Port(gids=roce_rows(netdev.name, netdev.mac, *addresses), netdev=netdev.name, **DOWN)
    second = replace(
        base.devices[0],
        name="mlx5_1",
        ports=(port,),
        pci_address="0000:08:00.1",
        node_guid="0c42:a103:0000:0002",
        uverbs=1,
    )
    second = replace(second, **device)
    return base.change(devices=(*base.devices, second), netdevs=(*base.netdevs, netdev))


def said(machine: Machine) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in judge(machine.evidence()).findings]


def test_a_port_that_never_had_a_link_and_has_no_address_is_a_note() -> None:
    verdict = judge(with_second_port().evidence())
    (finding,) = verdict.findings
    assert (finding.rule, finding.severity, finding.device) == ("link-not-up", "info", "mlx5_1")
    assert finding.summary.endswith("nobody seems to use it")
    assert verdict.status == "ok"


@pytest.mark.parametrize(
    "netdev",
    [
        replace(NEVER, carrier_changes=2),  # it had a link
        replace(NEVER, addresses=("192.0.2.11/24",)),
        replace(NEVER, master=roce_host().netdevs[0].name),
    ],
    ids=["it had a link", "it has an address", "it is of a bond"],
)
def test_one_that_had_a_link_or_was_set_up_is_a_warning(netdev: NetDev) -> None:
    assert ("link-not-up", "warn") in said(with_second_port(netdev))


def test_a_link_local_address_is_nobodys_doing() -> None:
    netdev = replace(NEVER, addresses=("fe80::e42:a1ff:fe00:2/64",))
    assert said(with_second_port(netdev)) == [("link-not-up", "info")]


def test_where_another_card_of_its_kind_has_a_link_at_the_same_port_it_is_a_warning() -> None:
    assert said(with_second_port(pci_address="0000:09:00.0")) == [("link-not-up", "warn")]
    other = {"pci_address": "0000:09:00.0", "pci_ids": ("0x15b3", "0x1021", "0x020000")}
    assert said(with_second_port(**other)) == [("link-not-up", "info")]


def test_a_port_that_was_asked_for_or_is_all_there_is_is_critical() -> None:
    verdict = judge(with_second_port().evidence(), (Selector("mlx5_1"),))
    assert verdict.status == "critical"
    alone = with_second_port().with_port(0, 0, **DOWN)
    assert judge(alone.evidence()).status == "critical"


def test_what_would_show_it_and_was_not_read_leaves_it_unknown() -> None:
    evidence = with_second_port().evidence()
    for why in (Why.TIMEOUT, Why.NOT_COLLECTED, Why.ABSENT, Why.UNSUPPORTED):
        unread = replace(evidence, netdev=Missing(why))
        (finding,) = [each for each in judge(unread).findings if each.rule == "link-not-up"]
        assert finding.severity == "unknown"


def test_ports_of_an_adapter_without_netdev_and_gids_are_notes_beside_active_ones() -> None:
    """A ConnectX-8 in four planes: twelve ports, of which four carry data."""
    (device,) = roce_host().devices
    (active,) = device.ports
    idle = Port(gids={}, **DOWN)
    machine = roce_host().with_device(ports=(idle, idle, active))
    assert said(machine) == [("link-not-up", "info")] * 2
    named = replace(idle, gids=roce_rows("other0", MAC))
    assert said(roce_host().with_device(ports=(named, active))) == [("link-not-up", "warn")]


def test_virtual_functions_that_no_machine_was_given_are_notes() -> None:
    function = {
        "pci_address": "0000:08:00.2",
        "pci_ids": ("0x15b3", "0x101e", "0x020000"),
        "node_guid": "0000:0000:0000:0000",
        "physfn": "0000:08:00.0",
    }
    machine = with_second_port(replace(NEVER, up=False), **function)
    machine = machine.with_device(0, vfs=(Vf(),))
    assert said(machine) == [("vf-without-guid", "info"), ("link-not-up", "info")]
    used = with_second_port(replace(NEVER, addresses=("192.0.2.11/24",)), **function)
    assert ("vf-without-guid", "warn") in said(used.with_device(0, vfs=(Vf(),)))


# --- InfiniBand ---------------------------------------------------------------------------------

POLLING: dict[str, Any] = {"state": PortState.DOWN, "phys": PhysState.POLLING, "lid": 0xFFFF}
GUID = "0c:42:a1:03:00:00:00:09"
IPOIB = NetDev(
    "ibs1f1",
    mac=f"00:00:10:49:fe:80:00:00:00:00:00:00:{GUID}",
    carrier=False,
    carrier_changes=1,
)


def with_second_infiniband_port(netdev: NetDev | None = None, **port: Any) -> Machine:
    """Two HCAs, both active, one of which has a second function that polls."""
    base = infiniband_host()
    (own, *_) = base.devices[0].ports
    down = replace(own, gids={0: GidRow("fe80::c42:a103:0:9", "IB/RoCE v1")}, sm_lid=0)
    second = replace(
        base.devices[0],
        name="mlx5_2",
        ports=(replace(down, **(POLLING | port)),),
        pci_address="0000:3b:00.1",
        node_guid="0c42:a103:0000:0009",
        uverbs=2,
    )
    netdevs = base.netdevs if netdev is None else (*base.netdevs, netdev)
    return base.change(devices=(*base.devices, second), netdevs=netdevs)


@pytest.mark.parametrize("netdev", [None, IPOIB], ids=["without IPoIB", "with it"])
@pytest.mark.parametrize("phys", [PhysState.POLLING, PhysState.DISABLED])
@pytest.mark.parametrize("lid", [0, 0xFFFF])
def test_the_second_port_of_an_hca_that_never_had_a_link_is_a_note(
    netdev: NetDev | None, phys: PhysState, lid: int
) -> None:
    machine = with_second_infiniband_port(netdev, phys=phys, lid=lid)
    assert said(machine) == [("link-not-up", "info")]


@pytest.mark.parametrize(
    "machine",
    [
        with_second_infiniband_port(lid=0x13),
        with_second_infiniband_port(phys=PhysState.TRAINING),
        with_second_infiniband_port(replace(IPOIB, carrier_changes=2)),
        with_second_infiniband_port(replace(IPOIB, addresses=("198.51.100.9/24",))),
    ],
    ids=["it had a LID", "it hears a peer", "IPoIB had a link", "IPoIB has an address"],
)
def test_an_infiniband_port_that_was_used_is_a_warning(machine: Machine) -> None:
    assert said(machine) == [("link-not-up", "warn")]


def test_a_rail_that_polls_where_the_others_are_up_is_a_warning() -> None:
    rail = infiniband_host().with_port(1, 0, **POLLING)
    assert said(rail) == [("link-not-up", "warn")]


def test_an_hca_of_another_kind_whose_only_port_polls_is_a_warning_without_ipoib() -> None:
    other = {"pci_address": "0000:5e:00.0", "pci_ids": ("0x15b3", "0x1021", "0x020700")}
    assert said(with_second_infiniband_port().with_device(2, **other)) == [("link-not-up", "warn")]
    used = with_second_infiniband_port(IPOIB).with_device(2, **other)
    assert said(used) == [("link-not-up", "info")]


def test_of_infiniband_too_what_was_not_read_leaves_it_unknown() -> None:
    evidence = with_second_infiniband_port(IPOIB).evidence()
    unread = replace(evidence, netdev=Missing(Why.TIMEOUT))
    (finding,) = [each for each in judge(unread).findings if each.rule == "link-not-up"]
    assert finding.severity == "unknown"
