"""Rules on where adapters stand: each beside a healthy neighbour, one change away."""

from dataclasses import replace

import pytest

from lab.gpus import Card
from lab.machine import Machine
from lab.samples import gpu_host, infiniband_host, roce_host, spark_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import PortState
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules import topology
from rdmadiag.preflight.verdict import Finding
from rdmadiag.view.select import Selector

CODES = {rule.code for rule in topology.RULES}


def findings(machine: Machine, *names: str) -> list[Finding]:
    found = judge(machine.evidence(), tuple(map(Selector, names))).findings
    return [each for each in found if each.rule in CODES]


def said(machine: Machine) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in findings(machine)]


def with_env(machine: Machine, **variables: str) -> Machine:
    return machine.change(environ=variables)


def without_address(machine: Machine) -> Machine:
    """The second of the two devices without one."""
    first, second = machine.netdevs
    gids = {
        index: row
        for index, row in machine.devices[1].ports[0].gids.items()
        if row.gid.startswith("fe80")
    }
    return machine.with_port(1, 0, gids=gids).change(netdevs=(first, replace(second, addresses=())))


ROOTS = infiniband_host().with_device(0, root="pci0000:3a").with_device(1, root="pci0000:ae")
FAR = (Card("0000:af:05.0", numa_node=1, root="pci0000:ad"),)

ROWS = [
    ("gpu-nic-map", "warn", gpu_host().with_port(2, 0, state=PortState.DOWN), gpu_host()),
    (
        "gpu-nic-map",
        "info",
        ROOTS.with_device(1, numa_node=0).change(cards=FAR),
        ROOTS.change(cards=FAR),
    ),
    (
        "gpu-nic-map",
        "info",
        infiniband_host().change(cards=tuple(Card(f"0000:0{at}:00.0") for at in (1, 2, 3))),
        infiniband_host().change(cards=tuple(Card(f"0000:0{at}:00.0") for at in (1, 2))),
    ),
    (
        "env-names-far-nic",
        "warn",
        with_env(gpu_host(), NCCL_IB_HCA="mlx5"),
        with_env(gpu_host(), NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
    ),
    (
        "env-names-far-nic",
        "warn",
        with_env(gpu_host().with_device(3, pci_ids=("0x15b3", "0xa2dc", "0x020000")).change(
            cards=gpu_host().cards[:3]), NCCL_IB_HCA="=mlx5_0,mlx5_3"),
        with_env(gpu_host().with_device(3, pci_ids=("0x15b3", "0xa2dc", "0x020000")).change(
            cards=gpu_host().cards[:3]), NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_2"),
    ),
    (
        "env-names-far-nic",
        "warn",
        with_env(gpu_host().change(cards=gpu_host().cards[:1]), UCX_NET_DEVICES="mlx5_3:1"),
        with_env(gpu_host().change(cards=gpu_host().cards[:1]), UCX_NET_DEVICES="mlx5_0:1"),
    ),
    ("same-port-twice", "warn", without_address(spark_host()), spark_host()),
    (
        "same-port-twice",
        "warn",
        with_env(spark_host(), NCCL_IB_HCA="=mlx5_0"),
        with_env(spark_host(), NCCL_IB_HCA="=mlx5_0,roceP2p1s0f0"),
    ),
    (
        "same-port-twice",
        "warn",
        without_address(spark_host()),
        without_address(spark_host().with_device(1, sys_image_guid="0c42:a103:0000:0009")),
    ),
    (
        "same-port-twice",
        "warn",
        without_address(spark_host()),
        without_address(spark_host().with_device(1, pci_address="0002:01:00.1")),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken"), [row[:3] for row in ROWS])
def test_one_change_gives_one_finding(rule: str, severity: str, broken: Machine) -> None:
    assert said(broken) == [(rule, severity)]
    (finding,) = findings(broken)
    assert finding.evidence
    assert finding.remedy
    assert finding.references
    assert all(proof.subject and proof.value for proof in finding.evidence)


@pytest.mark.parametrize(("rule", "healthy"), [(row[0], row[3]) for row in ROWS])
def test_its_healthy_neighbour_is_not_spoken_of(rule: str, healthy: Machine) -> None:
    assert said(healthy) == []


def test_each_rule_has_a_row() -> None:
    assert {row[0] for row in ROWS} == CODES


def test_the_gpus_are_named_with_the_nearest_adapter() -> None:
    (finding,) = findings(gpu_host().with_port(2, 0, state=PortState.DOWN))
    assert finding.summary == (
        "GPU2: no active adapter below the PCIe switch; the nearest, mlx5_3/1, is through host "
        "bridges of its NUMA node"
    )
    assert finding.remedy[-1] == "export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_3'"


def test_the_list_without_management_is_given_in_the_variables_own_form() -> None:
    (finding,) = findings(with_env(gpu_host(), NCCL_IB_HCA="mlx5"))
    assert (finding.device, finding.port) == ("mlx5_4", 1)
    assert "mlx5_4/1 carries the default route" in finding.summary
    assert finding.remedy[-1] == "export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3'"
    (finding,) = findings(with_env(gpu_host(), UCX_NET_DEVICES="mlx5_4:1"))
    assert finding.remedy[-1] == "export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"


def test_the_twin_without_an_address_is_given_one() -> None:
    (finding,) = findings(without_address(spark_host()))
    assert finding.device == "roceP2p1s0f0"
    assert finding.remedy[-1].startswith("sudo ip address add ")
    assert finding.remedy[-1].endswith(" dev enP2p1s0f0np0")


def test_the_twin_that_a_list_leaves_out_is_added_to_it() -> None:
    (finding,) = findings(with_env(spark_host(), NCCL_IB_HCA="=mlx5_0"))
    assert finding.remedy[-1].startswith("export NCCL_IB_HCA='=mlx5_0,roceP2p1s0f0:1' ")


@pytest.mark.parametrize("name", ["mlx5_0", "mlx5_2"])
def test_with_a_device_selected_nothing_is_said_of_what_is_not_looked_at(name: str) -> None:
    machine = with_env(gpu_host().with_port(2, 0, state=PortState.DOWN), NCCL_IB_HCA="mlx5")
    assert findings(machine, name) == []


def test_what_could_not_be_read_is_not_judged() -> None:
    evidence = with_env(gpu_host().with_port(2, 0, state=PortState.DOWN), NCCL_IB_HCA="mlx5")
    for why in (Why.TIMEOUT, Why.NOT_COLLECTED):
        for name in ("topology", "routing"):
            blind = replace(evidence.evidence(), **{name: Missing(why, "")})
            verdict = judge(blind)
            assert not CODES.intersection(each.rule for each in verdict.findings)
            assert "gpu-nic-map" in {each.rule for each in verdict.skipped}


def test_a_host_with_one_adapter_and_no_gpu_is_not_spoken_of() -> None:
    assert said(roce_host()) == []
