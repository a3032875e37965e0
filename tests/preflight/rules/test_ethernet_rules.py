"""Ethernet links: each rule beside a healthy neighbour, one change away."""

from dataclasses import replace
from typing import Any

import pytest

from lab.linked import Ethtool
from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import roce_rows
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ethtool import ExtendedState
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.ethernet import link_down_because
from rdmadiag.preflight.verdict import Finding, Verdict

NETDEV = "ens1f0np0"
DOWN = "link-down-because"
SLOW = "below-what-both-can"


def host(ethtool: Ethtool | Missing | None = None, **port: Any) -> Machine:
    machine = roce_host().with_port(**port)
    return machine if ethtool is None else machine.change(ethtool={NETDEV: ethtool})


def down(*because: int) -> Machine:
    return host(Ethtool(up=False, because=because), state=PortState.DOWN, phys=PhysState.DISABLED)


def verdict(machine: Machine) -> Verdict:
    return judge(machine.evidence())


def found(machine: Machine, rule: str) -> list[Finding]:
    return [each for each in verdict(machine).findings if each.rule == rule]


def rules(machine: Machine) -> list[str]:
    return [each.rule for each in verdict(machine).findings]


# --- link-down-because -------------------------------------------------------------------


@pytest.mark.parametrize("state", list(ExtendedState), ids=str)
def test_the_drivers_cause_takes_the_place_of_link_not_up(state: ExtendedState) -> None:
    machine = down(state.number)
    (finding,) = found(machine, DOWN)
    assert "link-not-up" not in rules(machine)
    assert (finding.severity, finding.device, finding.port) == ("critical", "mlx5_0", 1)
    assert finding.evidence[0].value == f"{state.number}: {state}"
    assert finding.remedy
    assert not any("{" in line for line in finding.remedy)
    assert str(state) in link_down_because.remedies


def test_the_substate_stands_in_the_answer() -> None:
    (finding,) = found(down(3, 4), DOWN)
    assert finding.summary == ("mlx5_0/1 has no link: the signal is bad (serdes alos) at ens1f0np0")


@pytest.mark.parametrize(
    "machine",
    [
        host(Ethtool(up=False), state=PortState.DOWN, phys=PhysState.DISABLED),
        host(Missing(Why.UNSUPPORTED, "x"), state=PortState.DOWN, phys=PhysState.DISABLED),
        host(None, state=PortState.DOWN, phys=PhysState.DISABLED),
    ],
    ids=["a driver that gives no cause", "a driver without ethtool", "an older record"],
)
def test_without_a_cause_link_not_up_says_what_is_known(machine: Machine) -> None:
    assert "link-not-up" in rules(machine)
    assert found(machine, DOWN) == []


def test_a_link_that_is_up_has_no_cause_though_its_last_one_stands_there() -> None:
    healthy = host(Ethtool(because=(4,)))
    assert rules(healthy) == []


def test_a_read_that_timed_out_leaves_the_graver_answer() -> None:
    late = host(Missing(Why.TIMEOUT, "no answer"), state=PortState.DOWN, phys=PhysState.DISABLED)
    assert verdict(late).status == "critical"
    assert "link-not-up" in rules(late)


# --- below-what-both-can -----------------------------------------------------------------


def test_a_link_below_what_both_ends_can_do_is_found() -> None:
    (finding,) = found(host(Ethtool(speed=25_000)), SLOW)
    assert finding.severity == "warn"
    assert finding.summary == (
        "mlx5_0/1: ens1f0np0 runs at 25 Gb/s; it and its link partner can do 100 Gb/s"
    )
    assert finding.remedy[0] == f"ethtool {NETDEV}"


def test_a_speed_that_is_not_advertised_here_can_be_set() -> None:
    slow = Ethtool(speed=25_000, advertised=("Autoneg", "25000baseCR/Full"))
    (finding,) = found(host(slow), SLOW)
    assert finding.remedy[0].startswith(
        f"sudo ethtool -s {NETDEV} autoneg on speed 100000 duplex full"
    )


def test_a_speed_set_by_hand_is_said_to_be_one() -> None:
    (finding,) = found(host(Ethtool(speed=25_000, autoneg=False)), SLOW)
    assert finding.remedy[0].startswith(f"sudo ethtool -s {NETDEV} autoneg on  ")


HEALTHY = [
    ("at its best", Ethtool()),
    ("the partner can no more", Ethtool(speed=25_000, peer=("25000baseCR/Full",))),
    ("this end can no more", Ethtool(speed=25_000, supported=("25000baseCR/Full",))),
    ("the partner advertises nothing", Ethtool(speed=25_000, peer=None)),
    ("of other kinds", Ethtool(speed=25_000, peer=("200000baseCR4/Full", "25000baseCR/Full"))),
    ("the speed is not known", Ethtool(speed=0xFFFFFFFF)),
    ("a driver without link modes", Ethtool(supported=None)),
]


@pytest.mark.parametrize("ethtool", [row[1] for row in HEALTHY], ids=[row[0] for row in HEALTHY])
def test_a_link_that_is_as_fast_as_both_ends_allow_is_healthy(ethtool: Ethtool) -> None:
    assert rules(host(ethtool)) == []


def test_each_leg_of_a_bond_is_judged() -> None:
    (own,) = roce_host().netdevs
    bond = replace(own, name="bond0", kind="bond")
    legs = [NetDev(name, master="bond0", addresses=()) for name in (NETDEV, "ens1f1np1")]
    machine = (
        roce_host()
        .with_port(netdev="bond0", gids=roce_rows("bond0", own.mac, "192.0.2.10"))
        .change(
            netdevs=(bond, *legs),
            ethtool={NETDEV: Ethtool(), "ens1f1np1": Ethtool(speed=25_000)},
        )
    )
    (finding,) = found(machine, SLOW)
    assert "ens1f1np1 runs at 25 Gb/s" in finding.summary


def test_where_no_driver_says_anything_the_rules_are_left_out() -> None:
    """A record of an older version, soft RoCE on a netdev without ethtool."""
    for machine in (host(None), host(Missing(Why.UNSUPPORTED, "EOPNOTSUPP"))):
        said = verdict(machine)
        assert SLOW not in {*said.rules_asked, *(each.rule for each in said.skipped)}


def test_a_driver_that_cannot_say_skips_the_rule_and_changes_no_verdict() -> None:
    said = verdict(host(Ethtool(supported=None)))
    assert [each.why for each in said.skipped if each.rule == SLOW] == [Why.UNSUPPORTED]
    assert said.status == "ok"
