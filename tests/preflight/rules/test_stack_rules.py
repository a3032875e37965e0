"""What --stack adds to the verdict: each rule beside a host where it is silent."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.rdma_devices import V1, V2, GidRow
from lab.samples import infiniband_host, roce_host
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.registry import chosen
from rdmadiag.gid.stack import Stack
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.stacks import RULES
from rdmadiag.preflight.verdict import Finding
from rdmadiag.view.reconcile import devices
from rdmadiag.view.stack_picks import made_for, picks

NETDEV = "ens1f0np0"
LINK_LOCAL = "fe80::e42:a1ff:fe00:1"
V6, IPV4, PRIVATE = "2001:db8::10", "::ffff:192.0.2.10", "::ffff:10.0.0.10"
CODES = {rule.code for rule in RULES}


def rows(*found: tuple[int, str, str]) -> Machine:
    table = {index: GidRow(gid, kind, NETDEV) for index, gid, kind in found}
    return roce_host().with_port(gids=table)


def twins(*gids: str) -> Machine:
    kinds = [(gid, kind) for gid in (LINK_LOCAL, *gids) for kind in (V1, V2)]
    return rows(*((index, gid, kind) for index, (gid, kind) in enumerate(kinds)))


def findings(machine: Machine, *stacks: str, **environment: str) -> list[Finding]:
    evidence = machine.change(environ=environment).evidence()
    found = judge(evidence, (), chosen(stacks)).findings if stacks else judge(evidence).findings
    return [each for each in found if each.rule in CODES]


WELL = twins(IPV4)
HOLE = rows((0, LINK_LOCAL, V1), (3, IPV4, V2))

ROWS = [
    ("stack-drops-port", "critical", rows((3, IPV4, V2)), "ucx@1.21", "UCX_IB_GID_INDEX=3"),
    ("stack-uses-empty-gid", "critical", rows((3, IPV4, V2)), "nccl@2.19", "NCCL_IB_GID_INDEX=3"),
    ("stack-wants-ipv4", "critical", twins(V6), "nccl@2.27", "NCCL_IB_ADDR_FAMILY=AF_INET6"),
    ("stack-wants-ipv4", "critical", twins(V6), "nvshmem", "NVSHMEM_IB_ADDR_FAMILY=AF_INET6"),
    ("stack-finds-no-gid", "critical", WELL, "rc_pingpong", "ibv_rc_pingpong -g 3"),
    ("stack-finds-no-gid", "critical", twins(V6), "mooncake@0.3.9", "MC_GID_INDEX=3"),
    ("mooncake-stops-at-empty-row", "critical", HOLE, "mooncake@0.3.11", "MC_GID_INDEX=3"),
    ("mooncake-prefers-ipv6", "warn", twins(PRIVATE, V6), "mooncake@0.3.12", "MC_GID_INDEX=3"),
    ("stack-gid-unfit", "warn", WELL, "nccl@2.19", "NCCL_IB_GID_INDEX=3"),
    ("stack-gid-unfit", "warn", twins(V6), "ucx@1.20", "UCX_IB_GID_INDEX=3"),
    ("stack-gid-unfit", "warn", WELL, "x-rdma", "x/rdma"),
]


@pytest.mark.parametrize(
    ("code", "severity", "machine", "stack", "remedy"), ROWS, ids=[f"{r[0]} {r[3]}" for r in ROWS]
)
def test_a_choice_that_will_hurt_is_one_finding_with_the_variable_to_set(
    code: str, severity: str, machine: Machine, stack: str, remedy: str
) -> None:
    found = [each for each in findings(machine, stack) if each.severity != "info"]
    assert [(each.rule, each.severity.value) for each in found] == [(code, severity)]
    (finding,) = found
    assert (finding.device, finding.port) == ("mlx5_0", 1)
    assert any(remedy in line for line in finding.remedy), finding.remedy
    assert finding.evidence
    assert "\n" not in finding.summary


@pytest.mark.parametrize("stack", ["nccl@2.27", "nvshmem", "mooncake@0.3.12", "psm3", "rdmacm"])
def test_of_a_stack_that_chooses_well_nothing_is_said(stack: str) -> None:
    assert findings(WELL, stack) == []


def test_without_stack_nothing_is_said() -> None:
    assert findings(rows((3, IPV4, V2))) == []


def test_the_remedy_repairs_it() -> None:
    broken = twins(V6)
    (finding,) = findings(broken, "nccl@2.27")
    (export,) = [line for line in finding.remedy if line.startswith("export ")]
    name, _, value = export.removeprefix("export ").partition("   #")[0].partition("=")
    assert findings(broken, "nccl@2.27", **{name: value}) == []


def test_a_pin_that_another_stack_does_not_read_is_a_note() -> None:
    (found,) = findings(WELL, "ucx@1.21", "nccl@2.27", NCCL_IB_GID_INDEX="3")[:1]
    assert (found.rule, found.severity.value) == ("pin-for-one-stack", "info")
    assert "is not read by UCX" in found.summary


def test_and_a_warning_where_they_then_differ() -> None:
    found = findings(WELL, "ucx@1.21", NCCL_IB_GID_INDEX="1")
    assert (found[0].rule, found[0].severity.value) == ("pin-for-one-stack", "warn")
    assert "it would use GID 3" in found[0].summary
    assert findings(WELL, "mooncake@0.3.12", NCCL_IB_GID_INDEX="3") == [], "it reads NCCL's"


def test_versions_that_differ_are_a_note() -> None:
    notes = {each.rule: each for each in findings(WELL, "nccl")}
    assert set(notes) == {"stack-version-matters"}
    assert notes["stack-version-matters"].severity == "info"
    assert "≤2.20: GID 0" in notes["stack-version-matters"].summary


def test_what_ucx_tries_on_the_device_is_said_once() -> None:
    assert [each.rule for each in findings(WELL, "ucx@1.21")] == ["ucx-probe-assumed"]


def test_ports_that_are_not_used_are_not_judged() -> None:
    machine = rows((3, IPV4, V2))
    assert findings(machine, "nccl@2.19", NCCL_IB_HCA="=mlx5_9") == []


def test_infiniband_by_lid_is_well() -> None:
    assert [each.rule for each in findings(infiniband_host(), "nccl", "perftest")] == []


IWARP = roce_host().with_device(node_type="4: RNIC", protocol="iw")


@pytest.mark.parametrize("stack", ["nccl", "ucx", "brpc", "perftest"])
def test_a_stack_that_needs_gids_does_not_run_on_iwarp_alone(stack: str) -> None:
    (finding,) = findings(IWARP, stack)
    assert (finding.rule, finding.severity) == ("stack-cannot-use-iwarp", "critical")
    assert finding.remedy[0].startswith("rdmadiag pingpong --cm")


@pytest.mark.parametrize("stack", ["rdmacm", "libfabric-msg"])
def test_what_connects_by_rdma_cm_runs_on_iwarp(stack: str) -> None:
    assert findings(IWARP, stack) == []
    (view,) = devices(IWARP.evidence())
    (pick,) = picks(view.ports[0], chosen((stack,)), {})
    assert (pick.outcome, pick.problem) == (Outcome.ADDRESS, None)


def test_beside_a_port_that_serves_the_stack_iwarp_is_a_warning() -> None:
    second = replace(roce_host().devices[0], name="mlx5_1", uverbs=1, pci_address="0000:09:00.0")
    both = IWARP.change(devices=(IWARP.devices[0], second))
    (finding,) = [each for each in findings(both, "nccl") if each.rule == "stack-cannot-use-iwarp"]
    assert (finding.device, finding.severity) == ("mlx5_0", "warn")


def test_gids_name_what_serves_iwarp_and_what_does_not() -> None:
    (view,) = devices(IWARP.evidence())
    (port,) = view.ports
    (pick,) = picks(port, chosen(("nccl@2.27",)), {})
    assert (pick.outcome, pick.index) == (Outcome.UNSUPPORTED, None)
    assert {stack.name for stack, _ in made_for(chosen(()), port)} == {"rdmacm", "libfabric-msg"}


def test_the_index_stands_where_the_option_has_the_word() -> None:
    stack = Stack("x", "X", "a/b@c d", (), option="X_GID_INDEX=INDEX, or -x INDEX")
    assert stack.option_with(3) == "X_GID_INDEX=3, or -x 3"
