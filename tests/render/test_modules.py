"""Transceivers as text: within 80 columns, whatever a module says of itself."""

import pytest

from lab.samples import roce_host
from lab.transceivers import (
    BROCADE_SFP_T,
    CREDO_OSFP_AEC,
    FS_QSFP28_IR4,
    JUNIPER_OSFP_DR4,
    MELLANOX_QSFP_DD_COPPER,
    Fitted,
    Transceiver,
)
from rdmadiag.facts import Missing, Why
from rdmadiag.render.console import console
from rdmadiag.render.modules import show_modules
from rdmadiag.sources.module_memory import A0
from rdmadiag.view.modules import selected_modules
from rdmadiag.view.reconcile import devices


def shown(
    found: Transceiver | Missing,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    **power: int,
) -> list[str]:
    """The lines, on a terminal of 80 columns that is a pipe."""
    monkeypatch.setenv("COLUMNS", "80")
    machine = roce_host().change(fitted={"ens1f0np0": Fitted(found, **power)})
    evidence = machine.evidence()
    show_modules(console(), selected_modules(devices(evidence), evidence))
    return capsys.readouterr().out.splitlines()


def test_an_optic_is_described_lane_by_lane(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dark = FS_QSFP28_IR4.change(A0, 0, 36, b"\0\0")
    assert shown(dark, monkeypatch, capsys, policy=2, mode=2) == [
        "",
        "module of ens1f0np0",
        "  QSFP28, optic, 2000 m of SMF, LC, FS QSFP28-IR4-100G A1",
        "  28.6 C, 3.32 V, high power, policy auto",
        "  LANE        1     2     3     4",
        "  RX dBm    2.4  none   0.5   0.8",
        "  TX dBm    0.6   0.7   0.9   0.9",
        "  BIAS mA  34.4  33.4  36.7  35.5",
    ]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            MELLANOX_QSFP_DD_COPPER,
            [
                "  QSFP-DD, passive copper, 0.5 m, no separable connector, Mellanox",
                "  MCP1660-W00AE30 A3",
            ],
        ),
        (
            CREDO_OSFP_AEC,
            [
                "  OSFP, active copper, 4.5 m, no separable connector, Credo CAC845301A2NC2XA",
                "  51.3 C, 3.30 V, ready",
            ],
        ),
        (BROCADE_SFP_T, ["  SFP, twisted pair, 100 m, BROCADE 57-1000042-02"]),
        (Missing(Why.ABSENT, "ENODEV"), ["  not known: absent: ENODEV"]),
    ],
    ids=["passive", "active", "twisted pair", "none"],
)
def test_a_cable_is_described_by_what_it_has(
    found: Transceiver | Missing,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(found, monkeypatch, capsys)[2:] == lines


def test_eight_lanes_at_their_widest_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = JUNIPER_OSFP_DR4.change(A0, 1, 160, b"\x17").change(A0, 0x11, 154, b"\0\1" * 24)
    lines = shown(wide, monkeypatch, capsys)
    assert "  TX dBm   -40.0  -40.0" in "\n".join(lines)
    assert all(len(line) <= 80 for line in lines)
