"""Programs that have a device open: one that runs, and one that does not."""

from dataclasses import replace

import pytest

from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.programs import ProgramFacts, RdmaProgram
from rdmadiag.preflight.judge import judge

RUNS = RdmaProgram("mlx5_0", 4711, "server", "S", False)


def said(holders: tuple[RdmaProgram, ...] | Missing) -> list[tuple[str, str]]:
    evidence = replace(roce_host().evidence(), programs=ProgramFacts((), (), holders))
    found = judge(evidence).findings
    return [(e.rule, e.severity.value) for e in found if e.rule == "rdma-program-stopped"]


@pytest.mark.parametrize(
    ("holder", "is_still"),
    [
        (RUNS, False),
        (replace(RUNS, state="T"), True),
        (replace(RUNS, frozen=True), True),
        (replace(RUNS, frozen=Missing(Why.ABSENT)), False),
        (replace(RUNS, state=Missing(Why.DENIED)), False),
        (replace(RUNS, device="mlx5_9", state="T"), False),
    ],
    ids=["runs", "stopped", "frozen", "no cgroup", "not seen", "of no device here"],
)
def test_a_program_that_has_the_device_open_runs(holder: RdmaProgram, is_still: bool) -> None:
    assert said((holder,)) == [("rdma-program-stopped", "warn")] * is_still


def test_programs_that_could_not_be_listed_are_unknown() -> None:
    programs = ProgramFacts((), (), Missing(Why.TIMEOUT, "late"))
    verdict = judge(replace(roce_host().evidence(), programs=programs))
    assert verdict.status == "unknown"
    assert "rdma-program-stopped" in {each.rule for each in verdict.skipped}
