"""Rules of the kernel's log."""

from dataclasses import replace

import pytest

from lab.samples import roce_host
from rdmadiag.facts import Missing
from rdmadiag.facts.ib import PortState
from tests.preflight.rules.linux_machines import (
    NETDEV,
    PCI,
    findings,
    logged,
    lost_function,
    only,
    said,
    two_roce,
)

DOWN, UP = f"{PCI} {NETDEV}: Link down", f"{PCI} {NETDEV}: Link up"
TIMEOUT = "wait_func: ACCESS_REG(0x805) timeout. Will cause a leak of a command resource"
SICK = f"{PCI}: poll_health:801:(pid 0): Fatal error 1 detected"


def test_a_driver_that_recovered_is_a_warning() -> None:
    machine = logged(SICK, f"{PCI}: health recovery succeeded")
    assert said(machine) == [("device-unhealthy-in-log", "warn")]
    assert said(logged(f"{PCI}: health recovery succeeded", SICK)) == [
        ("device-unhealthy-in-log", "critical")
    ]


@pytest.mark.parametrize(
    "message",
    [
        f"{PCI}: {TIMEOUT}",
        f"{PCI}: mlx5_handle_bad_state:120:(pid 4): health_care: handling bad device here",
        "bnxt_en 0000:08:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction",
    ],
    ids=["a firmware command", "a bad device", "a fatal PCIe error"],
)
def test_other_words_of_a_device_that_is_unhealthy(message: str) -> None:
    assert said(logged(message)) == [("device-unhealthy-in-log", "critical")]


def test_a_device_that_failed_and_is_gone_is_named_by_its_address() -> None:
    evidence = lost_function(logged(SICK.replace("08:00.0", "09:00.0")).evidence())
    finding = only(evidence, "device-unhealthy-in-log")
    assert finding.summary.startswith("PCI 0000:09:00.0: ")
    assert finding.device is None


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        pytest.param("health issue observed, firmware internal error, severity(3) ERROR:", "warn"),
        pytest.param("Health issue observed, High temperature, severity(4) WARNING:", "none"),
        pytest.param("health recovery flow aborted, PCI reads still not working", "warn"),
    ],
    ids=["an error", "no error", "the recovery failed"],
)
def test_an_adapter_that_has_left_the_bus_is_named_beside_the_selected_ones(
    message: str, severity: str
) -> None:
    machine = two_roce("198.51.100.11").change(kernel_log=(f"mlx5_core 0000:99:00.0: {message}",))
    found = [each for each in findings(machine, "mlx5_1") if each.rule.startswith("device-unheal")]
    assert [each.severity for each in found] == ([severity] if severity == "warn" else [])
    assert all(each.device is None and "PCI 0000:99:00.0" in each.summary for each in found)


def test_an_adapter_whose_driver_may_carry_no_rdma_is_not_spoken_of() -> None:
    assert said(logged("i40e 0000:99:00.0: health recovery failed")) == []


def test_an_adapter_that_is_gone_went_down_once_without_flapping() -> None:
    gone = "mlx5_core 0000:99:00.0 ens9np0: Link"
    assert said(logged(f"{gone} down")) == []
    again = only(logged(f"{gone} down", f"{gone} up", f"{gone} down"), "link-flaps-in-log")
    assert (again.device, again.severity) == (None, "warn")
    assert "2 times" in again.summary


@pytest.mark.parametrize(
    ("messages", "flaps"),
    [
        pytest.param([DOWN, UP], 1, id="down and up again"),
        pytest.param([UP, DOWN, UP, DOWN, UP], 2, id="twice"),
        pytest.param([UP], 0, id="up alone"),
        pytest.param([f"{NETDEV}: NIC Link is Down"], 1, id="by the netdev's name"),
        pytest.param(["infiniband mlx5_0: Link down"], 1, id="by the device's name"),
        pytest.param([f"{PCI}: Port module event: module 0, Cable unplugged"], 1, id="a cable"),
        pytest.param(["igb 0000:03:00.0 eth7: igb: eth7 NIC Link is Down"], 0, id="another's"),
    ],
)
def test_links_that_went_down(messages: list[str], flaps: int) -> None:
    found = findings(logged(*messages))
    assert [each.rule for each in found] == (["link-flaps-in-log"] if flaps else [])
    times = {1: "once", 2: "2 times"}
    assert all(times[flaps] in each.summary for each in found)


def test_a_link_that_comes_up_while_the_host_starts_is_no_flap() -> None:
    evidence = logged(DOWN, UP).evidence()
    log = evidence.kernel_log
    assert not isinstance(log, Missing)
    assert not isinstance(log.lines, Missing)
    early = tuple(replace(line, seconds=12.5) for line in log.lines)
    assert said(replace(evidence, kernel_log=replace(log, lines=early))) == []


def test_a_port_that_is_down_has_the_finding_on_its_link_alone() -> None:
    machine = logged(DOWN).with_port(state=PortState.DOWN)
    assert "link-flaps-in-log" not in dict(said(machine))


def test_flaps_in_the_log_say_more_than_a_number() -> None:
    netdev = replace(roce_host().netdevs[0], carrier_changes=400)
    assert said(logged(DOWN, UP, netdevs=(netdev,))) == [("link-flaps-in-log", "warn")]


def test_lines_are_shown_as_dmesg_prints_them_and_the_last_three_alone() -> None:
    finding = only(logged(*[DOWN] * 5), "link-flaps-in-log")
    assert [proof.value for proof in finding.evidence] == [
        f"[ {1000 + at}.000000] {DOWN}" for at in (2, 3, 4)
    ]


def test_lines_on_a_device_that_was_not_selected_are_left_out() -> None:
    machine = two_roce("198.51.100.11").change(kernel_log=(SICK,))
    assert said(machine, "mlx5_1") == []
    assert said(machine, "mlx5_0") == [("device-unhealthy-in-log", "critical")]
