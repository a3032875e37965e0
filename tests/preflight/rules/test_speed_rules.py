"""Rules of PCI links and of processors."""

import pytest

from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.preflight.rules import (
    speed,
)
from tests.preflight.rules.linux_machines import bound, findings, on_two_nodes, only, said, two_roce


@pytest.mark.parametrize(
    ("link", "slot", "severity", "words"),
    [
        (("16.0 GT/s PCIe", "8"), ("16.0 GT/s PCIe", "16"), "warn", "16 GT/s x8 of 16 GT/s x16"),
        (("2.5 GT/s PCIe", "16"), ("16.0 GT/s PCIe", "16"), "warn", "perhaps power saving"),
        (("16.0 GT/s PCIe", "8"), ("16.0 GT/s PCIe", "8"), "info", "all that its slot has"),
        (("8.0 GT/s PCIe", "16"), ("8.0 GT/s PCIe", "16"), "info", "all that its slot has"),
        (("8.0 GT/s PCIe", "8"), ("8.0 GT/s PCIe", "16"), "warn", "8 GT/s x8"),
        (("8.0 GT/s PCIe", "8"), ("Unknown", "255"), "warn", "the slot may be the limit"),
        (("Unknown", "0"), ("16.0 GT/s PCIe", "16"), None, ""),
    ],
)
def test_a_pci_link_below_its_maximum(
    link: tuple[str, str], slot: tuple[str, str], severity: str | None, words: str
) -> None:
    found = findings(roce_host().with_device(link=link, slot=slot))
    expected = [("pcie-link-degraded", severity)] if severity else []
    assert [(each.rule, each.severity.value) for each in found] == expected
    assert all(words in each.summary for each in found)


def test_two_functions_of_one_card_share_the_finding() -> None:
    machine = two_roce("198.51.100.11", link=("8.0 GT/s PCIe", "16")).with_device(
        0, link=("8.0 GT/s PCIe", "16"), pci_address="0000:af:00.1"
    )
    assert said(machine) == [("pcie-link-degraded", "warn")]


def test_one_lane_of_ethernet_is_well() -> None:
    assert said(roce_host().with_port(rate="25 Gb/sec (1X EDR)")) == []


def test_with_an_adapter_near_the_far_one_is_a_note() -> None:
    finding = only(bound("0-15", on_two_nodes()), "numa-remote")
    assert (finding.severity.value, finding.device) == ("info", "mlx5_1")
    assert finding.remedy == ("numactl -N 1 -m 1 PROGRAM   # near mlx5_1",)
    assert (
        only(bound("40-47", on_two_nodes().change(cpus_online="0-47")), "numa-remote").device
        is None
    )


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(bound("0-31"), id="not bound"),
        pytest.param(bound("0-127"), id="more allowed than are online"),
        pytest.param(bound("16-31").with_device(numa_node=-1), id="no node known"),
        pytest.param(bound("0-7,24-31"), id="some near"),
        pytest.param(bound("16-31").change(cpus_online="16-31"), id="the others are offline"),
    ],
)
def test_a_process_that_is_not_bound_away_is_well(machine: Machine) -> None:
    assert said(machine) == []


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ("0-31", "0-31", True),
        ("0-15,16-31", "8-23", True),
        ("0-15,17-31", "8-23", False),
        ("16-31", "0", False),
        ("0-3", "", True),
    ],
)
def test_lists_of_cpus_cover_each_other(whole: str, part: str, expected: bool) -> None:
    assert speed.covers(speed.spans(whole), speed.spans(part)) is expected


@pytest.mark.parametrize("text", ["", "x", "0-", "²", "9" * 5000, f"0-{'9' * 5000}"])
def test_what_is_no_list_of_cpus_spans_none(text: str) -> None:
    assert speed.spans(text) == []
