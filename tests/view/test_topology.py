"""How near adapters are to GPUs, and which are proposed."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gpus import Card
from lab.machine import Machine
from lab.routing import Way
from lab.samples import gpu_host, infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import PortState
from rdmadiag.facts.topology import Place
from rdmadiag.view.reconcile import devices
from rdmadiag.view.topology import Distance, Left, Topology, distance, topology

NOWHERE = Missing(Why.ABSENT, "")


def seen(machine: Machine) -> Topology:
    evidence = machine.evidence()
    return topology(devices(evidence), evidence)


def left(machine: Machine) -> dict[str, Left | None]:
    return {nic.device: nic.left for nic in seen(machine).nics}


def exports(machine: Machine) -> list[str]:
    return [f"{each.of}: {each.variable}={each.value}" for each in seen(machine).exports]


A, B, C, D = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:02:01.0"


@pytest.mark.parametrize(
    ("first", "second", "nodes", "expected"),
    [
        pytest.param((A, B, C), (A, B, D), (0, 0), "pix", id="ports of one switch"),
        pytest.param((A,), (A,), (0, 0), "pix", id="functions of one card"),
        pytest.param((A, B, C, "x", "y"), (A, B, D), (0, 0), "pxb", id="a switch behind another"),
        pytest.param((A,), (B,), (0, 0), "phb", id="root ports of one host bridge"),
        pytest.param((), (B,), (0, 0), "phb", id="on the host bridge itself"),
    ],
)
def test_below_one_host_bridge(first, second, nodes, expected) -> None:
    here, there = Place("pci0000:00", first), Place("pci0000:00", second)
    assert distance(here, nodes[0], there, nodes[1]) == expected
    assert distance(there, nodes[1], here, nodes[0]) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [((0, 0), "node"), ((0, 1), "sys"), ((None, 1), "unknown"), ((None, None), "unknown")],
)
def test_below_two_host_bridges_the_numa_node_decides(nodes, expected) -> None:
    here, there = Place("pci0000:00", (A,)), Place("pci0000:40", (A,))
    assert distance(here, nodes[0], there, nodes[1]) == expected


def test_without_a_place_nothing_is_known() -> None:
    assert distance(NOWHERE, 0, Place("pci0000:00", (A,)), 0) is Distance.UNKNOWN


@given(*(st.lists(st.sampled_from([A, B, C, D]), max_size=5) for _ in range(2)))
def test_distance_is_the_same_both_ways(first, second) -> None:
    here, there = Place("pci0000:00", tuple(first)), Place("pci0000:00", tuple(second))
    assert distance(here, 0, there, 0) is distance(there, 0, here, 0)


def test_each_gpu_is_given_the_adapter_below_its_switch() -> None:
    assert exports(gpu_host()) == [
        "host: NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3",
        *(f"GPU{at}: UCX_NET_DEVICES=mlx5_{at}:1" for at in range(4)),
    ]


def test_the_nearest_come_first() -> None:
    for gpu in seen(gpu_host()).gpus:
        ranks = [near.distance.rank for near in gpu.nics]
        assert all(one <= other for one, other in pairwise(ranks))
        assert [each.distance for each in gpu.nics] == ["pix", "node", "sys", "sys"]


def test_what_carries_the_default_route_is_not_proposed() -> None:
    assert left(gpu_host())["mlx5_4"] is Left.DEFAULT_ROUTE
    assert left(gpu_host().change(ways=()))["mlx5_4"] is None


def test_of_several_default_routes_the_best_counts() -> None:
    ways = (Way("0.0.0.0/0", "eno1np0", metric=50), Way("0.0.0.0/0", "rail0", metric=100))
    found = left(gpu_host().change(ways=ways))
    assert (found["mlx5_4"], found["mlx5_0"]) == (Left.DEFAULT_ROUTE, None)


def test_a_leg_of_the_bond_with_the_default_route_is_not_proposed() -> None:
    machine = gpu_host()
    *rails, uplink = machine.netdevs
    bond = replace(uplink, name="bond0", kind="bond")
    netdevs = (*rails, replace(uplink, master="bond0", addresses=()), bond)
    machine = machine.change(netdevs=netdevs, ways=(Way("0.0.0.0/0", "bond0"),))
    assert left(machine)["mlx5_4"] is Left.DEFAULT_ROUTE


def test_where_it_is_the_only_adapter_it_is_proposed() -> None:
    machine = roce_host().change(ways=(Way("0.0.0.0/0", "ens1f0np0"),))
    assert left(machine) == {"mlx5_0": None}


def test_a_bluefield_beside_other_adapters_is_not_proposed() -> None:
    bluefield = ("0x15b3", "0xa2dc", "0x020000")
    machine = gpu_host().with_device(3, pci_ids=bluefield)
    assert left(machine)["mlx5_3"] is Left.BLUEFIELD
    alone = roce_host().with_device(pci_ids=bluefield)
    assert left(alone) == {"mlx5_0": None}


def test_a_port_that_is_down_is_not_proposed() -> None:
    machine = gpu_host().with_port(2, 0, state=PortState.DOWN)
    assert left(machine)["mlx5_2"] is Left.NOT_ACTIVE
    assert "GPU2: UCX_NET_DEVICES=mlx5_3:1" in exports(machine), "of its NUMA node"


def test_gpus_that_share_adapters_get_each_its_share() -> None:
    machine = gpu_host()
    pairs = tuple(
        card
        for card in machine.cards
        for card in (card, replace(card, address=card.address[:-1] + "1"))
    )
    shared = machine.change(cards=pairs)
    lines = [line for line in exports(shared) if line.startswith("GPU")]
    assert lines == [f"GPU{at}: UCX_NET_DEVICES=mlx5_{at // 2}:1" for at in range(8)]


def test_of_more_adapters_than_gpus_each_gets_several() -> None:
    machine = infiniband_host().with_device(1, numa_node=0)
    machine = machine.change(cards=(Card("0000:05:00.0", bridges=("0000:00:09.0",)),))
    assert exports(machine) == [
        "host: NCCL_IB_HCA==mlx5_0,mlx5_1",
        "GPU0: UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1",
    ]


def test_without_gpus_adapters_are_grouped_by_numa_node() -> None:
    assert exports(infiniband_host()) == [
        "host: NCCL_IB_HCA==mlx5_0,mlx5_1",
        "NUMA node 0: UCX_NET_DEVICES=mlx5_0:1",
        "NUMA node 1: UCX_NET_DEVICES=mlx5_1:1",
    ]


def test_a_second_port_is_named_with_its_number() -> None:
    machine = infiniband_host()
    first = machine.devices[0]
    machine = machine.with_device(0, ports=(*first.ports, *first.ports))
    assert exports(machine)[0] == "host: NCCL_IB_HCA==mlx5_0:1,mlx5_0:2,mlx5_1"


def test_software_is_not_proposed() -> None:
    machine = roce_host().with_device(parent="ens1f0np0")
    assert left(machine) == {"mlx5_0": Left.NOT_ON_PCI}
    assert exports(machine) == []
