"""Pause frames beside PFC: each host beside a healthy neighbour, one change away."""

from dataclasses import replace

import pytest

from lab.linked import Ethtool
from lab.machine import Machine
from lab.netdevs import Dcb, NetDev
from lab.rdma_devices import roce_rows
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Verdict

NETDEV = "ens1f0np0"
CODE = "pause-beside-pfc"
PFC = Dcb(pfc=(3,), apps=((5, 26, 3),))
UNSUPPORTED = Missing(Why.UNSUPPORTED, "EOPNOTSUPP")


def host(dcb: Dcb | Missing | None, ethtool: Ethtool | Missing | None) -> Machine:
    return roce_host().change(
        dcb=None if dcb is None else {NETDEV: dcb},
        ethtool=None if ethtool is None else {NETDEV: ethtool},
    )


def verdict(machine: Machine) -> Verdict:
    return judge(machine.evidence())


def found(machine: Machine) -> list[Finding]:
    return [each for each in verdict(machine).findings if each.rule == CODE]


@pytest.mark.parametrize(
    ("pause", "words"),
    [
        ((True, True), "pause frames received and sent"),
        ((True, False), "pause frames received"),
        ((False, True), "pause frames sent"),
    ],
)
def test_pause_on_a_link_with_pfc_is_found_either_way(pause: tuple[bool, bool], words: str) -> None:
    (finding,) = found(host(PFC, Ethtool(pause=pause)))
    assert (finding.severity, finding.device, finding.port) == ("warn", "mlx5_0", 1)
    assert finding.summary == f"mlx5_0/1: ens1f0np0 has PFC for 3, and {words} for the whole link"
    assert finding.remedy[0].startswith(f"sudo ethtool --pause {NETDEV} autoneg off rx off tx off")


@pytest.mark.parametrize(
    ("dcb", "ethtool"),
    [
        (PFC, Ethtool()),
        (replace(PFC, pfc=()), Ethtool(pause=(True, True))),
        (replace(PFC, pfc=None), Ethtool(pause=(True, True))),
        (UNSUPPORTED, Ethtool(pause=(True, True))),
        (None, Ethtool(pause=(True, True))),
        (PFC, Ethtool(pause=None)),
        (PFC, UNSUPPORTED),
        (PFC, None),
    ],
    ids=[
        "pause is off",
        "PFC is off",
        "the driver shows no PFC",
        "a driver without DCB",
        "a record without DCB",
        "the driver has no pause",
        "a driver without ethtool",
        "a record without ethtool",
    ],
)
def test_one_of_the_two_alone_is_healthy(
    dcb: Dcb | Missing | None, ethtool: Ethtool | Missing | None
) -> None:
    said = verdict(host(dcb, ethtool))
    assert (said.status, said.findings) == ("ok", ())


def test_pause_that_could_not_be_read_beside_pfc_is_unknown() -> None:
    late = Missing(Why.TIMEOUT, "no answer")
    assert verdict(host(PFC, late)).status == "unknown"
    assert found(host(PFC, late)) == []


def test_each_leg_of_a_bond_is_judged() -> None:
    (own,) = roce_host().netdevs
    bond = replace(own, name="bond0", kind="bond")
    legs = [NetDev(name, master="bond0", addresses=()) for name in (NETDEV, "ens1f1np1")]
    machine = (
        roce_host()
        .with_port(netdev="bond0", gids=roce_rows("bond0", own.mac, "192.0.2.10"))
        .change(
            netdevs=(bond, *legs),
            dcb={NETDEV: PFC, "ens1f1np1": PFC},
            ethtool={NETDEV: Ethtool(), "ens1f1np1": Ethtool(pause=(True, True))},
        )
    )
    (finding,) = found(machine)
    assert "ens1f1np1 has PFC for 3" in finding.summary
