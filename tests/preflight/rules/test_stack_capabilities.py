"""A stack and a device that lacks what it needs: one finding; a device that has it, none."""

import time
from dataclasses import replace

import pytest

from lab.hardware import but
from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import LINUX_SOURCES, Evidence
from rdmadiag.facts.ib import PortState
from rdmadiag.gid.registry import chosen, stacks
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Status, Verdict
from rdmadiag.samples import folder, samples
from rdmadiag.sources.run import read
from rdmadiag.view.capability_needs import NEEDS

CODE = "stack-lacks-capability"


def without(machine: Machine, **numbers: int) -> Machine:
    """The machine, but for what its first device says of itself."""
    return machine.with_device(answers=but(machine.devices[0].hca_type, **numbers))


def verdict(subject: Machine | Evidence, *stacks: str) -> Verdict:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    return judge(evidence, (), chosen(stacks) if stacks else ())


def findings(subject: Machine | Evidence, *stacks: str) -> list[Finding]:
    return [each for each in verdict(subject, *stacks).findings if each.rule == CODE]


@pytest.mark.parametrize(
    ("machine", "stack", "capability"),
    [
        (without(roce_host(), atomic_cap=0), "nvshmem", "atomic_cap"),
        (without(roce_host(), atomic_cap=0), "deepep", "atomic_cap"),
        (without(infiniband_host(), atomic_cap=0), "mscclpp", "atomic_cap"),
        (without(roce_host(), max_srq=0), "ucx", "max_srq"),
    ],
    ids=["NVSHMEM", "DeepEP", "MSCCL++ on InfiniBand", "UCX without an SRQ"],
)
def test_a_device_without_what_a_stack_needs_is_one_finding(
    machine: Machine, stack: str, capability: str
) -> None:
    (found,) = findings(machine, stack)
    assert (found.severity, found.device) == ("critical", "mlx5_0")
    assert f"needs {capability}" in found.summary
    assert found.evidence[0].subject == f"ibv_query_device mlx5_0: {capability}"
    assert found.remedy[0] == f"rdmadiag capabilities --stack {stack} --device mlx5_0"


@pytest.mark.parametrize("stack", sorted({each.stack for each in NEEDS} & set(stacks())))
@pytest.mark.parametrize("machine", [roce_host(), infiniband_host()], ids=["RoCE", "InfiniBand"])
def test_a_device_that_has_it_gives_none(machine: Machine, stack: str) -> None:
    assert findings(machine, stack) == []


def test_what_a_stack_merely_uses_is_no_finding() -> None:
    assert findings(without(roce_host(), atomic_cap=0), "ucx") == []


def test_a_stack_that_needs_nothing_of_it_is_not_warned_of_it() -> None:
    assert findings(without(roce_host(), atomic_cap=0, max_srq=0), "nccl") == []
    assert findings(without(roce_host(), atomic_cap=0, max_srq=0)) == []


def test_a_device_without_an_active_port_is_nobodys_choice() -> None:
    down = without(roce_host(), atomic_cap=0).with_port(state=PortState.DOWN)
    assert findings(down, "nvshmem") == []


def test_attributes_that_were_not_read_are_unknown_and_not_absent() -> None:
    evidence = without(roce_host(), atomic_cap=0).evidence()
    verbs = evidence.verbs
    assert not isinstance(verbs, Missing)
    (device,) = verbs.devices
    unread = Missing(Why.DENIED, "EACCES")
    silent = replace(verbs, devices=(replace(device, attributes=unread),))
    said = verdict(replace(evidence, verbs=silent), "nvshmem")
    assert CODE not in {each.rule for each in said.findings}
    assert CODE in {each.rule for each in said.skipped}
    assert said.status is not Status.OK


def test_a_record_that_is_older_than_the_attributes_is_not_judged_by_them() -> None:
    evidence = roce_host().with_device(hca_type="unknown").evidence()
    said = verdict(evidence, "nvshmem")
    assert CODE not in {each.rule for each in said.findings}
    assert CODE in {each.rule for each in said.skipped}


@pytest.mark.parametrize("name", [each for each in samples() if not each.startswith("mac")])
@pytest.mark.parametrize("stack", ["nvshmem", "ucx", "mori"])
def test_no_sample_lacks_what_such_hardware_has(name: str, stack: str) -> None:
    host, deadline = open_snapshot(folder(name)), time.monotonic() + 10
    evidence = Evidence(**{each: read(each, host, deadline) for each in LINUX_SOURCES})
    assert findings(evidence, stack) == []
