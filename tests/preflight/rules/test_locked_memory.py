"""Rules of locked memory."""

from dataclasses import replace

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.system import Ancestor
from tests.preflight.rules.linux_machines import (
    findings,
    only,
    said,
    under,
)


def asked(pid: int, memlock: str = "8388608") -> Evidence:
    evidence = under(slurmd=memlock).evidence()
    assert not isinstance(evidence.system, Missing)
    return replace(evidence, system=replace(evidence.system, asked_pid=pid))


@pytest.mark.parametrize(
    ("memlock", "severity"),
    [("65536", "critical"), ("8388608", "warn"), ("67108864", None), ("unlimited", None)],
)
def test_a_process_that_was_asked_for_is_judged_by_its_own_limit(
    memlock: str, severity: str | None
) -> None:
    found = said(asked(1200, memlock=memlock))
    assert found == ([("launcher-memlock-too-low", severity)] if severity else [])


def test_the_launcher_is_named_with_its_number() -> None:
    finding = only(asked(1200), "launcher-memlock-too-low")
    assert finding.summary.startswith("slurmd (1200) is limited to 8192 KiB of locked memory")
    assert finding.evidence[0].subject == "/proc/1200/limits: Max locked memory"
    assert "slurmd" in finding.evidence[0].value


def test_a_process_that_is_not_there_is_unknown() -> None:
    evidence = asked(4711)
    gone = Missing(Why.ABSENT, "/proc/4711/status: ENOENT")
    chain = (Ancestor(4711, gone, gone),)
    system = replace(evidence.system, ancestors=chain)  # type: ignore[type-var]
    assert said(replace(evidence, system=system)) == [("launcher-memlock-too-low", "unknown")]


def test_where_the_limit_is_inherited_the_origin_stands_in_the_evidence() -> None:
    machine = under(bash="8388608", slurmd="8388608", init="unlimited").change(
        memlock="8388608", uid=1000, capabilities=0
    )
    (finding,) = findings(machine)
    assert finding.rule == "memlock-too-low"
    assert [proof.subject for proof in finding.evidence] == [
        "/proc/self/limits: Max locked memory",
        "/proc/1199/limits: Max locked memory",
    ]
    assert finding.evidence[1].value.startswith("slurmd: ")


def test_init_alone_is_no_launcher() -> None:
    assert said(under(bash="unlimited")) == []
