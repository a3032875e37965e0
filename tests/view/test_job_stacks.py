"""Which stacks a job has mapped, and the rules that hold for their versions."""

from dataclasses import replace

from lab.machine import Machine
from rdmadiag.facts.libraries import MappedLibrary
from rdmadiag.view.job_stacks import gid_picks, mapped_rules, mapped_stacks
from rdmadiag.view.reconcile import devices
from tests.view.test_job import FACTS, LATE, UNKNOWN, process


def test_stacks_are_those_whose_library_is_mapped(roce: Machine) -> None:
    assert mapped_stacks(FACTS.processes) == {"NCCL"}
    ucx = MappedLibrary("ucp", "/usr/lib/libucp.so.0.0.0", UNKNOWN)
    facts = replace(FACTS, processes=(process(libraries=(ucx,)), process(libraries=LATE)))
    rules = mapped_rules(facts)
    assert {stack.name for stack, _ in rules} == {"ucx"}
    assert len(rules) == len({version.name for _, version in rules}), "each, as none is known"
    (port,) = devices(roce.evidence())[0].ports
    assert [each.version for each in gid_picks(port, rules, {})] == [
        version.name for _, version in rules
    ]
