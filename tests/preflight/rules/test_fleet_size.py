"""Limits against a fleet's size: each number beside the one that is just enough."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lab.limits import Limits
from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.fleet_size import neighbours_of
from rdmadiag.preflight.verdict import Finding

WIDE = "10.0.0.1/8"
FOLDER = "/sys/fs/cgroup/job7"


def machine(address: str = WIDE, **limits: Any) -> Machine:
    """The RoCE host, one device and one netdev, with that address."""
    (netdev,) = roce_host().netdevs
    return roce_host().change(
        netdevs=(replace(netdev, addresses=(address,)),), limits=Limits(**limits)
    )


def found(subject: Machine, size: int | None) -> list[Finding]:
    rules = ("too-small-for-this-fleet", "neighbour-table-overflowed")
    verdict = judge(subject.evidence(), fleet_size=size)
    return [each for each in verdict.findings if each.rule in rules]


@pytest.mark.parametrize(
    ("subject", "size", "words"),
    [
        (machine(), 1025, None),
        (machine(), 1026, "ipv4: 1025 neighbours of 1026 hosts, and the table has room for 1024"),
        (machine("10.0.0.1/24"), 5000, None),
        (machine("2001:db8::1/64"), 1026, "ipv6: 1025 neighbours"),
        (machine("fe80::1/64"), 5000, None),
        (machine("10.0.0.1/31"), 5000, None),
        (machine(neighbours=100000, ports="60000 60999"), 1001, None),
        (machine(neighbours=100000, ports="60000 60999"), 1002, "1001 connections to 1002 hosts"),
        (machine(files=("1024", "1024")), 961, None),
        (machine(files=("1024", "1024")), 962, "1025 open files for connections to 962 hosts"),
        (machine(files=("unlimited", "unlimited")), 962, None),
    ],
    ids=[
        "neighbours, just enough",
        "neighbours, one too many",
        "a subnet that holds no more than the table",
        "IPv6",
        "link-local alone",
        "a routed link",
        "ports, just enough",
        "ports, one too few",
        "files, just enough",
        "files, one too few",
        "files without a limit",
    ],
)
def test_a_limit_is_held_against_the_least_that_is_needed(
    subject: Machine, size: int, words: str | None
) -> None:
    findings = found(subject, size)
    assert [each.rule for each in findings] == (["too-small-for-this-fleet"] if words else [])
    assert all(each.severity == "warn" and words in each.summary for each in findings if words)


def test_a_soft_limit_that_can_be_raised_is_a_note() -> None:
    (finding,) = found(machine(files=("1024", "1048576")), 1000)
    assert finding.severity == "info"
    assert finding.remedy[0] == "ulimit -n 2048"


@pytest.mark.parametrize(("objects", "expected"), [("102", []), ("101", ["mlx5_0"])])
def test_a_cgroup_needs_room_for_a_queue_pair_a_host(objects: str, expected: list[str]) -> None:
    """100 hosts: 99 queue pairs, a protection domain, a completion queue, a memory region."""
    rdma = {FOLDER: (f"mlx5_0 hca_handle=max hca_object={objects}\n", "")}
    findings = found(machine(rdma=rdma), 100)
    assert [each.device for each in findings] == expected
    for each in findings:
        assert each.remedy[0] == (
            f"echo mlx5_0 hca_handle=max hca_object=max | sudo tee {FOLDER}/rdma.max"
        )


def test_the_lines_to_paste_make_room() -> None:
    (finding,) = found(machine(), 5000)
    assert finding.remedy[:2] == (
        "sudo sysctl -w net.ipv4.neigh.default.gc_thresh3=16384",
        "sudo sysctl -w net.ipv4.neigh.default.gc_thresh2=8192",
    )


def test_without_the_option_nothing_is_judged() -> None:
    tiny = machine(neighbours=1, ports="60000 60001", files=("8", "8"))
    assert found(tiny, None) == []
    assert len(found(tiny, 5000)) == 3


@pytest.mark.parametrize("size", [None, 4])
def test_a_table_that_was_full_is_said_without_it_too(size: int | None) -> None:
    assert found(machine(overflows=0), size) == []
    (finding,) = found(machine(overflows=26), size)
    assert (finding.rule, finding.severity) == ("neighbour-table-overflowed", "warn")
    assert "full 26 times since boot (gc_thresh3 1024)" in finding.summary


def test_what_could_not_be_read_is_not_enough_and_not_too_little() -> None:
    evidence = machine().evidence()
    verdict = judge(replace(evidence, system=Missing(Why.TIMEOUT, "late")), fleet_size=5000)
    assert "too-small-for-this-fleet" not in {each.rule for each in verdict.findings}
    assert "too-small-for-this-fleet" in {each.rule for each in verdict.skipped}
    assert verdict.status == "unknown"


@pytest.mark.parametrize(
    ("address", "length", "version", "expected"),
    [
        pytest.param("192.0.2.1", 24, 4, 253, id="a /24 holds 254 hosts, this one of them"),
        pytest.param("192.0.2.1", 31, 4, 1, id="RFC 3021"),
        pytest.param("192.0.2.1", 32, 4, 0, id="an address alone"),
        pytest.param("192.0.2.1", 40, 4, 0, id="no prefix at all"),
        pytest.param("not an address", 24, 6, 0, id="of an edited report"),
        pytest.param("2001:db8::1", 64, 6, 9999, id="an IPv6 subnet has room for all"),
    ],
)
def test_a_subnet_has_room_for_so_many_others(
    address: str, length: int, version: int, expected: int
) -> None:
    row = SimpleNamespace(address=address, prefix_length=length, scope="global")
    netdev = SimpleNamespace(addresses=[row])
    assert neighbours_of(netdev, version, 9999) == expected  # type: ignore[arg-type]
