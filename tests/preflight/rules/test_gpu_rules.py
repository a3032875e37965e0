"""Rules of GPUs beside adapters."""

from dataclasses import replace
from typing import Any

import pytest

from lab.gpus import Gpu
from lab.samples import infiniband_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.gid.registry import chosen
from rdmadiag.preflight.judge import judge
from tests.preflight.rules.linux_machines import (
    NO_FOLDER,
    VETHS,
    findings,
    mapping,
    only,
    said,
    soft,
    two_roce,
    with_gpu,
)


@pytest.mark.parametrize(
    ("changes", "kernel", "severity", "words"),
    [
        ({"peermem": None}, "6.8.0", None, ""),
        ({"peermem": None, "memory_peers": None}, "6.8.0-40-generic", "info", "DMA-BUF may serve"),
        ({"peermem": None, "memory_peers": ()}, "5.11.0", "warn", "seems not to be possible"),
        ({"peermem": None, "memory_peers": None, "open_driver": False}, "6.8.0", "warn", ""),
        ({"memory_peers": (), "open_driver": False}, "6.8.0", "warn", "has not registered"),
        ({"memory_peers": None, "open_driver": False}, "6.8.0", None, ""),
    ],
    ids=str,
)
def test_a_gpus_memory(
    changes: dict[str, Any], kernel: str, severity: str | None, words: str
) -> None:
    found = findings(with_gpu(**changes).change(kernel=kernel))
    expected = [("gpu-memory-unreachable", severity)] if severity else []
    assert [(each.rule, each.severity.value) for each in found] == expected
    assert all(words in each.summary for each in found)


def judged_gdr(evidence: Evidence, stack: str = "") -> list[tuple[str, str]]:
    found = judge(evidence, (), chosen([stack]) if stack else ()).findings
    return [(each.rule, each.severity.value) for each in found if each.rule == "gdr-version-gap"]


@pytest.mark.parametrize(
    ("changes", "version", "severity"),
    [
        (NO_FOLDER, "2.22.3", "warn"),
        (NO_FOLDER, "2.23.4", None),
        (NO_FOLDER, Missing(Why.ABSENT, "the name has no version"), None),
        ({"memory_peers": ("amd",), "open_driver": False}, "2.21.5", "warn"),
        ({"memory_peers": ("nv_mem_nc",), "open_driver": False}, "2.21.5", None),
        ({**NO_FOLDER, "peermem": None}, "2.21.5", None),  # gpu-memory-unreachable's
        ({**NO_FOLDER, "open_driver": True}, "2.21.5", "info"),
        ({**NO_FOLDER, "open_driver": True}, "2.12.12", "warn"),  # DMA-BUF since 2.13
        ({**NO_FOLDER, "functions": ()}, "2.21.5", None),
    ],
    ids=str,
)
def test_a_version_of_nccl_that_does_not_see_nvidia_peermem(
    changes: dict[str, Any], version: str | Missing, severity: str | None
) -> None:
    expected = [("gdr-version-gap", severity)] if severity else []
    assert judged_gdr(mapping(version, with_gpu(**changes).change(kernel="6.8.0"))) == expected


@pytest.mark.parametrize(
    ("stack", "severity"),
    [
        ("nccl@2.21.5", "warn"),
        ("nccl@2.18", "warn"),
        ("nccl@2.22.3", None),  # the range of one policy, which reaches to 2.26.1
        ("nccl@2.27", None),
        ("ucx@1.15", None),
    ],
)
def test_the_version_of_stack_counts_where_it_is_certainly_older(
    stack: str, severity: str | None
) -> None:
    expected = [("gdr-version-gap", severity)] if severity else []
    machine = with_gpu(**NO_FOLDER).change(kernel="6.8.0")
    assert judged_gdr(machine.evidence(), stack) == expected


def test_without_a_version_nothing_is_said_of_it() -> None:
    assert judged_gdr(with_gpu(**NO_FOLDER).evidence()) == []


@pytest.mark.parametrize(
    ("why", "status"), [(Why.TIMEOUT, "unknown"), (Why.DENIED, "ok"), (Why.ABSENT, "ok")]
)
def test_mappings_that_could_not_be_read_are_unknown_but_for_an_ordinary_user(
    why: Why, status: str
) -> None:
    evidence = replace(with_gpu().evidence(), libraries=Missing(why, "/proc/4711/maps"))
    verdict = judge(evidence)
    assert {each.rule for each in verdict.findings} <= {"source-failed"}
    assert verdict.status == status


def test_gpus_beside_software_devices_are_no_finding() -> None:
    assert said(soft(VETHS[0], gpu=Gpu(peermem=None, memory_peers=None, open_driver=False))) == []


def test_the_link_modes_of_a_slow_port_are_looked_at_by_ethtool() -> None:
    slow = two_roce("198.51.100.11").with_port(1, 0, rate="50 Gb/sec (2X EDR)")
    assert "ethtool ens2f0np0   #" in "\n".join(only(slow, "rate-below-siblings").remedy)
    infiniband = infiniband_host().with_port(1, 0, rate="100 Gb/sec (4X EDR)")
    assert "ethtool" not in "\n".join(only(infiniband, "rate-below-siblings").remedy)
