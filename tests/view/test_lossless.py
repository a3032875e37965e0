"""From a traffic class to PFC: what each cell of the chain comes to, by the kernel's own rules."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import Dcb, NetDev
from lab.rdma_devices import V1, GidRow
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dcb import Trust
from rdmadiag.gid.registry import stacks
from rdmadiag.gid.traffic_class import BY_STACK, SENDERS
from rdmadiag.gid.variables import BY_NAME, REPORTED
from rdmadiag.view.lossless import (
    Cell,
    Chain,
    LosslessPort,
    differences,
    lossless_ports,
)
from rdmadiag.view.reconcile import devices
from rdmadiag.view.stack_picks import variables

NETDEV = "ens1f0np0"
DSCP, ETHERTYPE, DATAGRAM = 5, 1, 3
GOOD = Dcb(pfc=(3,), apps=((DSCP, 26, 3),))


def ports(machine: Machine, *names: str) -> tuple[LosslessPort, ...]:
    evidence = machine.evidence()
    return lossless_ports(devices(evidence), evidence, variables(evidence), names or None)


def port(dcb: Dcb | Missing, machine: Machine | None = None, **environment: str) -> LosslessPort:
    host = (machine or roce_host()).change(dcb={NETDEV: dcb}, environ=environment)
    (found,) = ports(host)
    return found


def chain(dcb: Dcb | Missing, stack: str = "nccl", **environment: str) -> Chain:
    return next(each for each in port(dcb, **environment).chains if each.stack == stack)


def result(found: Chain) -> tuple[object, ...]:
    return found.dscp, found.priority, found.lossless, found.cell


# --- the class ---------------------------------------------------------------------------


def test_every_row_is_a_stack_of_the_advisor_and_its_variables_are_known() -> None:
    for sender in SENDERS:
        assert sender.stack in stacks(), sender
        for name in (sender.variable, sender.level):
            assert name is None or name in BY_NAME
            assert name is None or name in REPORTED, "a report must carry its value"


@pytest.mark.parametrize(
    ("stack", "variables", "expected"),
    [
        ("nccl", {}, (0, False)),
        ("nccl", {"NCCL_IB_TC": "106"}, (106, True)),
        ("nccl", {"NCCL_IB_TC": "0x68"}, (104, True)),
        ("nccl", {"NCCL_IB_TC": "-1"}, (0, False)),
        ("nccl", {"UCX_IB_TRAFFIC_CLASS": "106"}, (0, False)),
        ("rccl", {"NCCL_IB_TC": "96"}, (96, True)),
        ("ucx", {}, (106, False)),
        ("ucx", {"UCX_IB_TRAFFIC_CLASS": "auto"}, (106, False)),
        ("ucx", {"UCX_IB_TRAFFIC_CLASS": "0"}, (0, True)),
        ("nvshmem", {"NVSHMEM_IB_TRAFFIC_CLASS": "104"}, (104, True)),
        ("mooncake", {"MC_IB_TC": "32"}, (32, True)),
        ("perftest", {"NCCL_IB_TC": "106"}, (0, False)),
        ("rc-pingpong", {}, (0, False)),
    ],
)
def test_what_a_stack_sends_with(
    stack: str, variables: dict[str, str], expected: tuple[int, bool]
) -> None:
    found = chain(GOOD, stack, **variables)
    assert (found.traffic_class, found.class_is_set) == expected


def test_rdma_cm_sends_with_default_roce_tos() -> None:
    host = roce_host().change(roce_modes={"mlx5_0/1": "RoCE v2"}, roce_tos={"mlx5_0/1": 104})
    found = {each.stack: each for each in port(GOOD, host).chains}
    for stack in ("rdmacm", "libfabric-msg"):
        assert result(found[stack]) == (26, 3, True, None)
        assert found[stack].class_from == "default_roce_tos=104"
    assert result(found["nccl"]) == (0, 0, False, Cell.CLASS), "NCCL sets its own"


def test_without_the_folder_of_configfs_it_is_assumed() -> None:
    found = chain(GOOD, "rdmacm")
    assert (found.traffic_class, found.class_is_set) == (0, False)
    assert "assumed" in found.class_from


@pytest.mark.parametrize("stack", list(BY_STACK))
def test_the_drivers_own_class_is_for_every_stack(stack: str) -> None:
    evidence = roce_host().change(dcb={NETDEV: GOOD}, environ={"NCCL_IB_TC": "0"}).evidence()
    assert not isinstance(evidence.sysfs, Missing)
    assert not isinstance(evidence.sysfs.devices, Missing)
    (device,) = evidence.sysfs.devices
    assert not isinstance(device.ports, Missing)
    (own,) = device.ports
    changed = replace(device, ports=(replace(own, traffic_class=("Global tclass=106",)),))
    evidence = replace(evidence, sysfs=replace(evidence.sysfs, devices=(changed,)))
    (found,) = lossless_ports(devices(evidence), evidence, variables(evidence), [stack])
    assert result(found.chains[0]) == (26, 3, True, None)
    assert found.chains[0].class_by_driver


def test_a_class_whose_value_was_not_recorded_is_not_taken_for_the_default() -> None:
    host = roce_host().change(dcb={NETDEV: GOOD})
    evidence = host.evidence()
    (found,) = lossless_ports(
        devices(evidence), evidence, {"NCCL_IB_TC": "(not recorded)"}, ["nccl"]
    )
    assert found.chains[0].lossless is None
    assert found.chains[0].cell is Cell.CLASS


# --- trust and priority ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dcb", "expected"),
    [
        (Dcb(), Trust.PCP),
        (Dcb(apps=((DATAGRAM, 4791, 3),)), Trust.PCP),
        (Dcb(apps=((DSCP, 26, 3),)), Trust.DSCP),
        (Dcb(trust=(5,)), Trust.DSCP),
        (Dcb(trust=(255, 5), apps=((DSCP, 26, 3),)), Trust.PCP),
        (Dcb(trust=(5, 255)), Trust.DSCP),
        (Dcb(trust=(), apps=((DSCP, 26, 3),)), Trust.DSCP),
    ],
)
def test_what_the_nic_trusts(dcb: Dcb, expected: Trust) -> None:
    assert port(dcb).trust is expected


@pytest.mark.parametrize(
    ("dcb", "variables", "expected"),
    [
        (GOOD, {"NCCL_IB_TC": "106"}, (26, 3, True, None)),
        (GOOD, {"NCCL_IB_TC": "104"}, (26, 3, True, None)),
        (GOOD, {}, (0, 0, False, Cell.CLASS)),
        (GOOD, {"NCCL_IB_TC": "96"}, (24, 0, False, Cell.PRIORITY)),
        (Dcb(pfc=(3,)), {"NCCL_IB_TC": "106"}, (26, 0, False, Cell.TRUST)),
        (Dcb(pfc=(3,)), {}, (0, 0, False, Cell.CLASS)),
        (Dcb(pfc=(3,)), {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}, (26, 3, True, None)),
        (Dcb(pfc=(3,)), {"NCCL_IB_SL": "11"}, (0, 3, True, None)),
        (Dcb(pfc=(3,), apps=((DATAGRAM, 4791, 3),)), {}, (0, 3, True, None)),
        (Dcb(pfc=(3,), apps=((4, 4791, 3),)), {}, (0, 3, True, None)),
        (Dcb(pfc=(3,), apps=((ETHERTYPE, 0x8915, 3),)), {}, (0, 0, False, Cell.CLASS)),
        (
            Dcb(pfc=(5,), apps=((DSCP, 26, 3), (DSCP, 26, 5), (DSCP, 26, 1))),
            {"NCCL_IB_TC": "106"},
            (26, 5, True, None),
        ),
        (Dcb(pfc=(3,), apps=((DSCP, 26, 0), (ETHERTYPE, 0, 3))), {}, (0, 3, True, None)),
        (Dcb(apps=((DSCP, 26, 3),)), {"NCCL_IB_TC": "106"}, (26, 3, False, Cell.PFC)),
        (Dcb(pfc=None), {"NCCL_IB_TC": "106"}, (26, 0, None, Cell.PFC)),
        (replace(GOOD, peer_pfc=(3,)), {"NCCL_IB_TC": "106"}, (26, 3, True, None)),
        (replace(GOOD, peer_pfc=(4,)), {"NCCL_IB_TC": "106"}, (26, 3, False, Cell.SWITCH)),
    ],
)
def test_the_cell_that_breaks_the_chain(
    dcb: Dcb, variables: dict[str, str], expected: tuple[object, ...]
) -> None:
    assert result(chain(dcb, **variables)) == expected


def test_roce_v1_has_no_dscp() -> None:
    host = roce_host().with_port(gids={0: GidRow("fe80::e42:a1ff:fe00:1", V1, NETDEV)})
    dcb = replace(GOOD, apps=((DSCP, 0, 3), (DSCP, 26, 3), (ETHERTYPE, 0x8915, 3)))
    found = port(dcb, host)
    assert not found.roce_v2
    nccl, ucx = found.chains[0], next(each for each in found.chains if each.stack == "ucx")
    assert result(nccl) == (None, 3, True, None)
    assert ucx.traffic_class == 0, "auto is 106 on RoCE v2 alone"


# --- buffers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "buffer_of", "expected"),
    [
        ((10, 20, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0), (True, None, 1, False)),
        ((10, 0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0), (False, Cell.BUFFER, 1, False)),
        ((10, 0, 0, 0, 0, 0, 0, 0), (0,) * 8, (True, None, 0, True)),
        ((0,) * 8, (0,) * 8, (True, None, 0, True)),
    ],
    ids=["its own", "of no size", "shared", "sizes that the driver does not tell"],
)
def test_the_buffer_of_the_priority(
    sizes: tuple[int, ...], buffer_of: tuple[int, ...], expected: tuple[Any, ...]
) -> None:
    dcb = replace(GOOD, buffer_of=buffer_of, buffer_bytes=sizes)
    found = chain(dcb, NCCL_IB_TC="106")
    assert (found.lossless, found.cell, found.buffer, found.shares_buffer) == expected


def test_a_buffer_that_is_none_is_malformed() -> None:
    found = chain(replace(GOOD, buffer_of=(200,) * 8), NCCL_IB_TC="106")
    assert isinstance(found.buffer, Missing)
    assert found.buffer.why is Why.MALFORMED
    assert found.lossless is True


# --- ports -------------------------------------------------------------------------------


def test_a_driver_without_dcb_leaves_every_chain_unknown() -> None:
    found = port(Missing(Why.UNSUPPORTED, "EOPNOTSUPP"))
    assert isinstance(found.pfc, Missing)
    assert {(each.lossless, each.cell) for each in found.chains} == {(None, Cell.PFC)}


def test_an_infiniband_port_has_no_chain() -> None:
    assert ports(infiniband_host()) == ()


def test_a_vlan_stands_on_the_netdev_below_it() -> None:
    host = roce_host()
    (own,) = host.netdevs
    vlan = NetDev("vlan7", kind="vlan", lower=NETDEV, addresses=own.addresses)
    machine = host.with_port(netdev=NETDEV).change(netdevs=(own, vlan), dcb={NETDEV: GOOD})
    assert [each.netdev for each in ports(machine)] == [NETDEV]


def test_each_leg_of_a_bond_has_its_own_chains() -> None:
    host = roce_host()
    (own,) = host.netdevs
    bond = NetDev("bond0", kind="bond", addresses=own.addresses)
    legs = [NetDev(name, master="bond0", addresses=()) for name in (NETDEV, "ens1f1np1")]
    machine = (
        host.with_device(name="mlx5_bond_0")
        .with_port(netdev="bond0")
        .change(netdevs=(bond, *legs), dcb={NETDEV: GOOD, "ens1f1np1": Dcb()})
    )
    found = {each.netdev: each.pfc for each in ports(machine, "nccl")}
    assert found == {NETDEV: (3,), "ens1f1np1": ()}


def test_two_ends_that_differ() -> None:
    here, there = port(GOOD, NCCL_IB_TC="96"), port(replace(GOOD, pfc=(4,)), NCCL_IB_TC="106")
    found = {each.what: (each.here, each.there) for each in differences([here], [there])}
    assert found == {
        "pfc": ("3", "4"),
        "dscp of nccl": ("24", "26"),
        "priority of nccl": ("0", "3"),
        "dscp of rccl": ("24", "26"),
        "priority of rccl": ("0", "3"),
    }


def test_what_is_not_known_at_one_end_is_no_difference() -> None:
    assert tuple(differences([port(GOOD)], [port(Dcb(pfc=None, apps=((DSCP, 26, 3),)))])) == ()
    assert tuple(differences([port(GOOD)], [])) == ()


@pytest.mark.parametrize("trust", [None, Trust.DSCP, Trust.PCP], ids=["by table", "dscp", "pcp"])
def test_an_entry_that_is_not_known_may_be_for_any_packet(trust: Trust | None) -> None:
    host = roce_host().change(dcb={NETDEV: GOOD}, environ={"NCCL_IB_TC": "106"})
    evidence = host.evidence()
    assert not isinstance(evidence.dcb, Missing)
    (netdev,) = evidence.dcb.netdevs
    assert not isinstance(netdev.ieee, Missing)
    assert not isinstance(netdev.ieee.apps, Missing)
    unread = Missing(Why.DENIED)
    apps = tuple(replace(each, selector=unread) for each in netdev.ieee.apps)
    known = {"trust": trust} if trust else {}
    less = replace(netdev, ieee=replace(netdev.ieee, apps=apps), **known)
    found = replace(evidence, dcb=replace(evidence.dcb, netdevs=(less,)))
    (one,) = lossless_ports(devices(found), found, variables(found), ("nccl",))
    assert [(each.priority, each.lossless) for each in one.chains] == [(unread, None)]
