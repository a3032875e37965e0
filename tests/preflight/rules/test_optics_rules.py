"""Transceivers: the rule beside healthy modules, one change away; read on request alone."""

from dataclasses import replace
from typing import Any

import pytest

from lab.linked import Ethtool
from lab.machine import Machine
from lab.samples import roce_host
from lab.transceivers import (
    CREDO_OSFP_AEC,
    FS_QSFP28_IR4,
    FS_QSFP_COPPER,
    JUNIPER_OSFP_DR4,
    OEM_SFP_LR,
    Fitted,
    Transceiver,
)
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Verdict
from rdmadiag.sources.module_memory import A0

NETDEV = "ens1f0np0"
RULE = "optic-out-of-range"
LANE_2_RX = 36
NO_LIGHT, WEAK = b"\0\0", b"\x01\xf4"  # below the alarm of 0.0355 mW; 0.05 mW, below the warning
DOWN = {"state": PortState.DOWN, "phys": PhysState.DISABLED}


def host(fitted: Fitted | Transceiver, **port: Any) -> Machine:
    plugged = fitted if isinstance(fitted, Fitted) else Fitted(fitted)
    return roce_host().with_port(**port).change(fitted={NETDEV: plugged})


def with_blocks(machine: Machine, count: int) -> Machine:
    (netdev,) = machine.netdevs
    fec = {"corrected_blocks": (9,), "uncorrectable_blocks": (count,)}
    return machine.change(netdevs=(replace(netdev, fec=fec),))


def verdict(machine: Machine) -> Verdict:
    return judge(machine.evidence())


def found(machine: Machine) -> list[Finding]:
    return [each for each in verdict(machine).findings if each.rule == RULE]


def received(raw: bytes) -> Transceiver:
    """On lane 2."""
    return FS_QSFP28_IR4.change(A0, 0, LANE_2_RX, raw)


# --- beyond a threshold -----------------------------------------------------------------------


def test_light_below_the_warning_is_a_warning() -> None:
    (finding,) = found(host(received(WEAK)))
    assert finding.severity == "warn"
    assert finding.summary == (
        "mlx5_0/1: the module in ens1f0np0 receives -13.0 dBm on lane 2, below its warning "
        "threshold of -12.5 dBm"
    )
    assert finding.remedy[0] == f"sudo ethtool -m {NETDEV}"
    assert finding.evidence[0].value == "0.05; low warning threshold 0.0562"


def test_no_light_on_a_link_that_is_up_is_a_warning_until_blocks_are_lost() -> None:
    dark = host(received(NO_LIGHT))
    (finding,) = found(dark)
    assert finding.severity == "warn"
    assert "receives no light on lane 2, below its alarm threshold" in finding.summary
    (finding,) = found(with_blocks(dark, 0))
    assert finding.severity == "warn"
    (finding,) = found(with_blocks(dark, 3))
    assert finding.severity == "critical"
    (finding,) = found(with_blocks(host(received(WEAK)), 3))
    assert finding.severity == "warn", "no alarm threshold is crossed"


def test_on_a_link_that_is_down_an_alarm_is_critical_and_a_warning_is_one() -> None:
    (finding,) = found(host(received(NO_LIGHT), **DOWN))
    assert finding.severity == "critical"
    (finding,) = found(host(received(WEAK), **DOWN))
    assert finding.severity == "warn"


HOT = b"\x51\0"  # 81 C, above its alarm of 80


@pytest.mark.parametrize(
    ("offset", "raw", "said", "when"),
    [
        (22, HOT, "has a temperature of 81.0 C, above its alarm threshold of 80.0 C", "# fans"),
        (26, b"\x71\0", "has a voltage of 2.89 V, below its alarm", "# reseat"),
        (42, b"\x95\0", "has a laser bias of 76.3 mA on lane 1, above its alarm", "# reseat"),
        (50, b"\x05\0", "sends -8.9 dBm on lane 1, below its alarm", "# reseat"),
    ],
    ids=["temperature", "voltage", "bias", "sent"],
)
def test_each_monitor_is_held_against_its_own_thresholds(
    offset: int, raw: bytes, said: str, when: str
) -> None:
    (finding,) = found(host(FS_QSFP28_IR4.change(A0, 0, offset, raw)))
    assert said in finding.summary
    assert finding.remedy[1].startswith(when)


def test_alarms_stand_before_warnings_and_the_rest_is_counted() -> None:
    weak = FS_QSFP28_IR4.change(A0, 0, 34, WEAK * 3 + NO_LIGHT).change(A0, 0, 22, HOT)
    (finding,) = found(host(weak))
    assert finding.summary.index("temperature of") < finding.summary.index("on lane 4")
    assert finding.summary.index("on lane 4") < finding.summary.index("on lane 1")
    assert finding.summary.endswith("; 2 more")


def test_a_published_module_without_light_is_found() -> None:
    (finding,) = found(host(OEM_SFP_LR))
    assert "receives no light on lane 1" in finding.summary


# --- modules that are well ----------------------------------------------------------------------

HEALTHY = {
    "an optic": host(FS_QSFP28_IR4),
    "an optic of eight lanes": host(JUNIPER_OSFP_DR4),
    "a cable with retimers": host(CREDO_OSFP_AEC),
    "a passive cable, whatever its bytes hold": host(FS_QSFP_COPPER.change(A0, 0, 22, HOT)),
    "a passive cable on a link that is up, in low power": host(Fitted(FS_QSFP_COPPER, mode=1)),
    "a transmitter that was switched off": host(
        FS_QSFP28_IR4.change(A0, 0, 86, b"\1").change(A0, 0, 50, b"\0\0").change(A0, 0, 42, b"\0\0")
    ),
    "a lane that the link does not use": host(FS_QSFP28_IR4.change(A0, 0, 40, b"\0\0")).change(
        ethtool={NETDEV: Ethtool(lanes=1, speed=25_000, peer=("25000baseCR/Full",))}
    ),
    "low power on a link that is up": host(Fitted(FS_QSFP28_IR4, policy=2, mode=1)),
}


@pytest.mark.parametrize("machine", list(HEALTHY.values()), ids=list(HEALTHY))
def test_a_healthy_module_is_no_finding(machine: Machine) -> None:
    assert verdict(machine).findings == ()
    assert verdict(machine).status == "ok"


# --- low power --------------------------------------------------------------------------------


def test_low_power_on_a_link_that_is_down_is_found_by_the_drivers_word_or_the_modules() -> None:
    (finding,) = found(host(Fitted(FS_QSFP28_IR4, policy=1, mode=1), **DOWN))
    assert finding.summary.endswith("is in low power, and the link is down")
    assert finding.severity == "critical"
    assert finding.remedy[0] == f"ethtool --show-module {NETDEV}"
    assert finding.remedy[1].startswith(f"sudo ethtool --set-module {NETDEV}")
    (finding,) = found(host(JUNIPER_OSFP_DR4.change(A0, 0, 3, b"\3"), **DOWN))
    assert "is in low power" in finding.summary
    assert found(host(Fitted(FS_QSFP28_IR4, policy=1, mode=2), **DOWN)) == []


def test_a_transmitter_that_is_dark_for_low_power_is_no_second_cause() -> None:
    dark = FS_QSFP28_IR4.change(A0, 0, 50, bytes(8)).change(A0, 0, 42, bytes(8))
    (finding,) = found(host(Fitted(dark, policy=1, mode=1), **DOWN))
    assert "sends" not in finding.summary


def test_low_power_of_a_netdev_that_was_set_down_is_as_it_should_be() -> None:
    machine = host(Fitted(FS_QSFP28_IR4, policy=2, mode=1), **DOWN)
    (netdev,) = machine.netdevs
    assert found(machine.change(netdevs=(replace(netdev, up=False),))) == []
    assert found(machine)


def test_a_module_that_failed_says_so() -> None:
    (finding,) = found(host(JUNIPER_OSFP_DR4.change(A0, 0, 3, b"\x0b"), **DOWN))
    assert "says that it has failed" in finding.summary


# --- what is not known ------------------------------------------------------------------------


def test_an_optic_without_thresholds_is_unknown_and_is_not_passed() -> None:
    (finding,) = found(host(FS_QSFP28_IR4.change(A0, 3, 176, bytes(8))))
    assert finding.severity == "unknown"
    assert "has no thresholds for received power" in finding.summary
    flat = host(FS_QSFP28_IR4.change(A0, 0, 2, b"\4"))
    (finding,) = found(flat)
    assert "temperature, voltage, received power, sent power, laser bias" in finding.summary
    assert verdict(flat).status == "unknown"


def test_modules_that_nobody_asked_for_are_no_lack() -> None:
    plain = verdict(roce_host())
    assert plain.status == "ok"
    assert RULE not in plain.rules_asked
    assert not [each for each in plain.findings if "modules" in each.summary]


@pytest.mark.parametrize(
    ("why", "status"),
    [
        (Why.ABSENT, "ok"),  # no module is plugged in
        (Why.UNSUPPORTED, "ok"),  # the driver cannot
        (Why.DENIED, "unknown"),
        (Why.TIMEOUT, "unknown"),
        (Why.MALFORMED, "unknown"),
    ],
)
def test_a_module_that_could_not_be_read_is_unknown_and_one_that_is_not_there_is_not(
    why: Why, status: str
) -> None:
    found = verdict(host(Fitted(Missing(why, "netlink x: said no"))))
    assert found.status == status
    assert RULE in found.rules_asked


def test_where_the_link_is_down_an_input_output_error_may_be_an_empty_socket() -> None:
    gone = verdict(host(Fitted(Missing(Why.MALFORMED, "netlink x: EIO")), **DOWN))
    assert {each.rule for each in gone.findings} == {"link-not-up"}
