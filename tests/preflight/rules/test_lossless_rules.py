"""A class that PFC does not keep from loss: each cell beside a host one change away."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.netdevs import Dcb
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.gid.registry import chosen
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.judge_lossless import judge as judge_lossless
from rdmadiag.preflight.verdict import Finding, Status, Verdict
from rdmadiag.view.reconcile import devices

NETDEV = "ens1f0np0"
DSCP = 5
GOOD = Dcb(pfc=(3,), apps=((DSCP, 26, 3),))
CODE = "traffic-class-not-lossless"


def host(dcb: Dcb | Missing | None, **environment: str) -> Machine:
    return roce_host().change(dcb=None if dcb is None else {NETDEV: dcb}, environ=environment)


def verdict(machine: Machine, *names: str) -> Verdict:
    return judge(machine.evidence(), (), chosen(names) if names else ())


def found(machine: Machine, *names: str) -> list[Finding]:
    return [each for each in verdict(machine, *names).findings if each.rule == CODE]


SIZES = (10, 0, 0, 0, 0, 0, 0, 0)
ROWS = [
    ("class", host(GOOD, NCCL_IB_TC="0"), host(GOOD, NCCL_IB_TC="104"), "export NCCL_IB_TC=104"),
    (
        "priority",
        host(GOOD, NCCL_IB_TC="96"),
        host(replace(GOOD, apps=((DSCP, 24, 3),)), NCCL_IB_TC="96"),
        f"sudo dcb app replace dev {NETDEV} dscp-prio 24:3",
    ),
    (
        "trust",
        host(Dcb(pfc=(3,)), UCX_IB_TRAFFIC_CLASS="106"),
        host(GOOD, UCX_IB_TRAFFIC_CLASS="106"),
        f"sudo mlnx_qos -i {NETDEV} --trust dscp",
    ),
    (
        "pfc",
        host(replace(GOOD, pfc=()), NCCL_IB_TC="106"),
        host(GOOD, NCCL_IB_TC="106"),
        f"sudo dcb pfc set dev {NETDEV} prio-pfc all:off 3:on",
    ),
    (
        "buffer",
        host(replace(GOOD, buffer_of=(1,) * 8, buffer_bytes=SIZES), NCCL_IB_TC="106"),
        host(replace(GOOD, buffer_of=(0,) * 8, buffer_bytes=SIZES), NCCL_IB_TC="106"),
        f"sudo dcb buffer show dev {NETDEV}",
    ),
    (
        "switch",
        host(replace(GOOD, peer_pfc=()), NCCL_IB_TC="106"),
        host(replace(GOOD, peer_pfc=(3,)), NCCL_IB_TC="106"),
        "# on the switch: PFC for priority 3 on this port",
    ),
]


@pytest.mark.parametrize(("broken", "line"), [(r[1], r[3]) for r in ROWS], ids=[r[0] for r in ROWS])
def test_the_cell_that_breaks_it_is_named_with_a_line_to_paste(broken: Machine, line: str) -> None:
    finding = found(broken)[0]
    assert finding.severity == "warn"
    assert (finding.device, finding.port) == ("mlx5_0", 1)
    assert any(each.startswith(line) for each in finding.remedy), finding.remedy


@pytest.mark.parametrize("healthy", [row[2] for row in ROWS], ids=[row[0] for row in ROWS])
def test_its_neighbour_one_change_away_is_healthy(healthy: Machine) -> None:
    assert found(healthy) == []


@pytest.mark.parametrize("dcb", [GOOD, Dcb(), Dcb(pfc=None), None], ids=str)
def test_without_a_variable_or_a_stack_nobody_is_judged(dcb: Dcb | None) -> None:
    """preflight run by an administrator knows no job's class, and a default accuses nobody."""
    said = verdict(host(dcb))
    assert [each for each in said.findings if each.rule == CODE] == []
    assert CODE not in {each.rule for each in said.skipped}


def test_a_stack_that_is_asked_for_is_judged_by_its_default() -> None:
    (finding,) = found(host(GOOD), "nccl")
    assert finding.summary.startswith("NCCL: DSCP 0 → priority 0, PFC on 3")
    assert found(host(GOOD), "ucx") == [], "UCX sends with 106 by itself"


def test_two_stacks_of_one_variable_are_one_finding() -> None:
    (finding,) = found(host(GOOD, NCCL_IB_TC="0"))
    assert finding.summary.startswith("NCCL, RCCL: ")


@pytest.mark.parametrize(
    ("dcb", "why"),
    [
        (Dcb(pfc=None), Why.UNSUPPORTED),
        (Missing(Why.UNSUPPORTED, "EOPNOTSUPP"), Why.UNSUPPORTED),
        (None, Why.NOT_COLLECTED),
    ],
    ids=["a driver without PFC", "a driver without DCB", "an older record"],
)
def test_a_driver_that_cannot_say_is_not_off(dcb: Dcb | Missing | None, why: Why) -> None:
    said = verdict(host(dcb, NCCL_IB_TC="106"))
    assert [each for each in said.findings if each.rule == CODE] == []
    assert [each.why for each in said.skipped if each.rule == CODE] == [why]
    assert said.status == verdict(host(GOOD, NCCL_IB_TC="106")).status


def test_a_read_that_timed_out_makes_the_verdict_unknown() -> None:
    late = host(Missing(Why.TIMEOUT, "no answer"), NCCL_IB_TC="106")
    assert verdict(late).status == "unknown"


def test_the_command_says_unknown_for_a_driver_without_dcb() -> None:
    evidence = host(Missing(Why.UNSUPPORTED, "EOPNOTSUPP")).evidence()
    said = judge_lossless(Case(evidence, devices(evidence), stacks=chosen(["nccl"])))
    assert said.status == "unknown"
    (finding,) = said.findings
    assert finding.rule == "lossless-unknown"
    assert "PFC is not known" in finding.summary


def test_the_command_asks_for_a_new_record_where_this_one_is_older() -> None:
    evidence = host(None).evidence()
    said = judge_lossless(Case(evidence, devices(evidence), stacks=chosen(["nccl"])))
    assert said.findings[0].remedy[0].startswith("rdmadiag snapshot DIR")


def test_rdma_cm_is_set_by_its_configfs() -> None:
    (finding,) = found(host(GOOD), "rdmacm")
    path = "/sys/kernel/config/rdma_cm/mlx5_0"
    assert f"sudo mkdir -p {path}" in finding.remedy[0]
    assert f"echo 104 | sudo tee {path}/ports/1/default_roce_tos" in finding.remedy
    assert not any("export" in line for line in finding.remedy)


def test_the_lossless_dscp_of_the_host_is_proposed_and_not_the_usual_one() -> None:
    odd = Dcb(pfc=(5,), apps=((DSCP, 40, 5),))
    (finding,) = found(host(odd, NCCL_IB_TC="0"))
    assert finding.remedy[0].startswith("export NCCL_IB_TC=160")


@pytest.mark.parametrize("whole", [False, True], ids=["the selector of one", "the table"])
def test_where_the_dcb_apps_could_not_be_read_the_class_is_not_known(whole: bool) -> None:
    evidence = host(GOOD, NCCL_IB_TC="96").evidence()
    facts = evidence.dcb
    assert not isinstance(facts, Missing)
    netdev = next(each for each in facts.netdevs if each.netdev == NETDEV)
    assert not isinstance(netdev.ieee, Missing)
    assert not isinstance(netdev.ieee.apps, Missing)
    unread = Missing(Why.EXHAUSTED, "no memory")
    app = replace(netdev.ieee.apps[0], selector=unread)
    others = tuple(each for each in facts.netdevs if each is not netdev)
    ieee = replace(netdev.ieee, apps=unread if whole else (app, *netdev.ieee.apps[1:]))
    lacking = replace(facts, netdevs=(replace(netdev, ieee=ieee), *others))
    verdict = judge(replace(evidence, dcb=lacking))
    assert verdict.status is Status.UNKNOWN
    assert CODE in {each.rule for each in verdict.skipped}
