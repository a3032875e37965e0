"""The rdma cgroup and open files: each limit beside the one that is just enough."""

from dataclasses import replace
from typing import Any

import pytest

from lab.limits import Limits
from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why, present
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding

JOB = "/sys/fs/cgroup/job7"
RULES = (
    *("rdma-cgroup-limit", "open-files-limit-low", "address-space-limit-low"),
    *("cpu-time-limited", "local-ports-few", "cgroup-limit-low", "data-limit-low"),
    *("committed-memory-near-limit", "connection-table-full"),
)


def machine(**limits: Any) -> Machine:
    return roce_host().change(limits=Limits(**limits))


def cgroup(most: str, current: str | None, folder: str = JOB) -> Machine:
    """With those two rows of the device."""
    name = roce_host().devices[0].name
    rows = (f"{name} {most}\n", "" if current is None else f"{name} {current}\n")
    return machine(rdma={folder: rows})


def found(subject: Machine) -> list[Finding]:
    return [each for each in judge(subject.evidence()).findings if each.rule in RULES]


@pytest.mark.parametrize(
    ("most", "current", "severity"),
    [
        ("hca_handle=0 hca_object=max", "hca_handle=0 hca_object=0", "critical"),
        ("hca_handle=1 hca_object=max", "hca_handle=0 hca_object=0", None),
        ("hca_handle=1 hca_object=max", "hca_handle=1 hca_object=0", "warn"),
        ("hca_handle=max hca_object=3", "hca_handle=0 hca_object=0", "critical"),
        ("hca_handle=max hca_object=4", "hca_handle=0 hca_object=0", None),
        ("hca_handle=max hca_object=100", "hca_handle=9 hca_object=89", None),
        ("hca_handle=max hca_object=100", "hca_handle=9 hca_object=90", "warn"),
        ("hca_handle=max hca_object=20", "hca_handle=9 hca_object=17", "warn"),
        ("hca_handle=max hca_object=3", None, "critical"),
        ("hca_handle=max hca_object=max", "hca_handle=9 hca_object=900", None),
    ],
    ids=[
        "no context at all",
        "one context, free",
        "one context, in use",
        "too few objects for a connection",
        "just enough objects for one connection",
        "below the share",
        "at the share",
        "no room for one more connection",
        "too few, whatever is in use",
        "no limit",
    ],
)
def test_a_cgroup_leaves_room_for_another_program(
    most: str, current: str | None, severity: str | None
) -> None:
    findings = found(cgroup(most, current))
    assert [each.severity for each in findings] == ([severity] if severity else [])
    for each in findings:
        assert each.rule == "rdma-cgroup-limit"
        assert f"sudo tee {JOB}/rdma.max" in "\n".join(each.remedy)


def test_a_limit_of_a_cgroup_above_counts_too() -> None:
    (one,) = found(
        cgroup("hca_handle=0 hca_object=max", "hca_handle=0 hca_object=0", "/sys/fs/cgroup")
    )
    assert "the cgroup /sys/fs/cgroup allows 0 contexts of" in one.summary


def test_what_is_in_use_and_not_read_is_unknown() -> None:
    evidence = cgroup("hca_handle=max hca_object=100", None).evidence()
    system = evidence.system
    assert not isinstance(system, Missing)
    assert not isinstance(system.limits, Missing)
    (row,) = present(system.limits.rdma_cgroups)
    unread = replace(row, objects=Missing(Why.TIMEOUT, "late"))
    limits = replace(system.limits, rdma_cgroups=(unread,))
    verdict = judge(replace(evidence, system=replace(system, limits=limits)))
    assert verdict.status == "unknown"
    assert not [each for each in verdict.findings if each.rule in RULES]
    assert "rdma-cgroup-limit" in {each.rule for each in verdict.skipped}


@pytest.mark.parametrize(
    ("refused", "severities"),
    [("hca_handle.max=0 hca_object.max=0", []), ("hca_handle.max=7 hca_object.max=7", ["warn"])],
    ids=["nothing", "contexts; objects have no limit"],
)
def test_what_a_limit_has_refused_is_a_warning(refused: str, severities: list[str]) -> None:
    name = roce_host().devices[0].name
    rows = ("hca_handle=9 hca_object=max", "hca_handle=1 hca_object=0", refused)
    findings = found(machine(rdma={JOB: tuple(f"{name} {each}\n" for each in rows)}))
    assert [each.severity for each in findings] == severities
    assert all("has refused 7 so far" in each.summary for each in findings)


def test_another_device_of_the_cgroup_is_not_ours() -> None:
    rows = ("mlx5_77 hca_handle=0 hca_object=0\n", "mlx5_77 hca_handle=0 hca_object=0\n")
    assert found(machine(rdma={JOB: rows})) == []


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        (("63", "63"), "warn"),
        (("64", "64"), None),
        (("5", "4096"), "info"),
        (("unlimited",) * 2, None),
    ],
    ids=["too few", "just enough", "a program may raise it", "no limit"],
)
def test_a_program_opens_some_files(files: tuple[str, str], severity: str | None) -> None:
    findings = found(machine(files=files))
    assert [(each.rule, each.severity) for each in findings] == (
        [("open-files-limit-low", severity)] if severity else []
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"space": ("2147483647", "2147483647")}, [("address-space-limit-low", "warn")]),
        ({"space": ("2147483647", "unlimited")}, []),  # our own budget is a soft one
        ({"space": ("2147483648", "2147483648")}, []),
        ({"cpu": ("3600", "unlimited")}, [("cpu-time-limited", "warn")]),
        ({"cpu": ("unlimited", "unlimited")}, []),
        ({"ports": "40000\t40062"}, [("local-ports-few", "warn")]),
        ({"ports": "40000\t40063"}, []),
    ],
    ids=[
        "little address space",
        "a program may raise it",
        "just enough address space",
        "an hour of computing",
        "no limit on computing",
        "63 local ports",
        "64 local ports",
    ],
)
def test_a_process_has_room_to_run_and_to_connect(
    limits: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert [(each.rule, each.severity) for each in found(machine(**limits))] == expected


def room(**files: str) -> dict[str, Any]:
    """Of the job's cgroup, of version 2; each is a file with a dot in its name."""
    return {
        "overcommit": 0,
        "room": {f"{JOB}/{name.replace('_', '.')}": f"{text}\n" for name, text in files.items()},
    }


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (room(pids_max="100", pids_current="85"), ["15 of 100 processes and threads"]),
        (room(pids_max="100", pids_current="84"), []),
        (room(pids_max="8", pids_current="9"), ["0 of 8 processes and threads"]),
        (room(pids_max="max", pids_current="84"), []),
        (room(cpu_max="49000 100000"), ["0.49 processors"]),
        (room(cpu_max="50000 100000"), []),
        (room(cpu_max="max 100000"), []),
        (room(memory_max="134217727"), ["134217727 bytes of memory"]),
        (room(memory_max="134217728"), []),
        (room(memory_max="max"), []),
        (room(memory_max="1", cpu_max="1000 100000"), ["0.01 processors", "1 bytes of memory"]),
        ({**room(pids_max="8", pids_current="9"), "overcommit": None}, []),
    ],
    ids=[
        "few processes",
        "just enough processes",
        "more than the limit",
        "no limit on processes",
        "less than half a processor",
        "half a processor",
        "all processors",
        "little memory",
        "just enough memory",
        "no limit on memory",
        "both",
        "a record from before",
    ],
)
def test_a_cgroup_leaves_a_program_its_room(limits: dict[str, Any], expected: list[str]) -> None:
    findings = found(machine(**limits))
    assert [each.summary for each in findings] == [
        f"the cgroup {JOB} leaves {each}" for each in expected
    ]
    assert {each.severity.value for each in findings} <= {"warn"}


def test_a_file_that_could_not_be_read_leaves_it_unknown() -> None:
    verdict = judge(machine(**room(pids_max="many", pids_current="1")).evidence())
    assert verdict.status == "unknown"
    assert "cgroup-limit-low" in {each.rule for each in verdict.skipped}


MIB = 1024  # KiB


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"data": ("536870911", "536870911")}, ["data-limit-low"]),
        ({"data": ("536870911", "unlimited")}, []),
        ({"data": ("536870912", "536870912")}, []),
        ({"overcommit": 2, "committed": (1024 * MIB, 513 * MIB)}, ["committed-memory-near-limit"]),
        ({"overcommit": 2, "committed": (1024 * MIB, 2048 * MIB)}, ["committed-memory-near-limit"]),
        ({"overcommit": 2, "committed": (1024 * MIB, 512 * MIB)}, []),
        ({"overcommit": 0, "committed": (1024 * MIB, 2048 * MIB)}, []),
        ({"connections": (1000, 900)}, ["connection-table-full"]),
        ({"connections": (1000, 899)}, []),
        ({"connections": (0, 899)}, []),
    ],
    ids=[
        "little data",
        "a program may raise it",
        "just enough data",
        "little is left to promise",
        "more was promised, before the mode was set",
        "just enough is left to promise",
        "a kernel that promises more than it has",
        "nearly all connections that may be followed",
        "room for other connections",
        "any number of connections",
    ],
)
def test_a_program_gets_memory_and_connections(limits: dict[str, Any], expected: list[str]) -> None:
    assert [each.rule for each in found(machine(**limits))] == expected
