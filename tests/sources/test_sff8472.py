"""SFF-8472: published modules, their variants by the specification's tables, and any bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.transceivers import BROCADE_SFP_T, FLEXOPTIX_SFP, OEM_SFP_LR, SPANS, Transceiver
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import Cable, Connector, Module, Range, Ranges
from rdmadiag.sources.module_memory import A0, A2, Memory
from rdmadiag.sources.sff8472 import parse_sff8472, spans


def memory(transceiver: Transceiver) -> Memory:
    missing = Missing(Why.UNSUPPORTED, "no such page")
    return Memory({span: transceiver.read(span) or missing for span in SPANS})


def parsed(transceiver: Transceiver) -> Module:
    found = parse_sff8472(memory(transceiver))
    assert isinstance(found, Module)
    return found


def test_a_published_sfp_is_read_as_its_owner_reads_it() -> None:
    """eeprom/sff8472/eeprom_test.go of wobcom/go-ethtool: getEEPROM."""
    found = parsed(FLEXOPTIX_SFP)
    assert (found.connector, found.cable) == (Connector.LC, Cable.OPTIC)
    assert (found.vendor, found.part, found.revision) == ("FLEXOPTIX", "P.B1696.10.DA", "A")
    assert found.reach_m == {"smf": 10_000}
    assert isinstance(found.ranges, Ranges)
    assert isinstance(found.ranges.tx_power_mw, Range)
    assert found.ranges.tx_power_mw.high_alarm == 1.7783
    assert (found.temperature_c, found.voltage_v) == (0x198B / 256, 3.2545)


def test_a_published_sfp_without_light_is_read_as_its_owner_reads_it() -> None:
    """The same: getEEPROM1."""
    found = parsed(OEM_SFP_LR)
    assert found.temperature_c == pytest.approx(34.54, abs=0.005)
    assert found.voltage_v == pytest.approx(3.29, abs=0.005)
    assert not isinstance(found.lanes, Missing)
    (lane,) = found.lanes
    assert (lane.bias_ma, lane.rx_power_mw) == (35.994, 0.0)
    assert isinstance(found.ranges, Ranges)
    assert found.ranges.rx_power_mw == Range(0.0158, 0.0316, 1.0, 2.0)


def test_a_published_one_of_copper_has_no_monitors() -> None:
    """The same: getEEPROM2, whose byte 6 says 1000BASE-T."""
    found = parsed(BROCADE_SFP_T)
    assert (found.vendor, found.cable) == ("BROCADE", Cable.TWISTED_PAIR)
    for value in (found.temperature_c, found.lanes, found.ranges):
        assert isinstance(value, Missing)
    assert spans(memory(BROCADE_SFP_T)) == (), "nothing of A2h is read"


@pytest.mark.parametrize(
    ("at", "text", "cable", "length"),
    [
        (8, "04", Cable.PASSIVE_COPPER, 3),
        (8, "08", Cable.ACTIVE_COPPER, 3),
        (2, "22", Cable.TWISTED_PAIR, 3),
        (2, "23", Cable.ACTIVE_OPTICAL, 3),
        (36, "1e", Cable.TWISTED_PAIR, 3),
        (2, "07", Cable.OPTIC, None),
        (2, "00", None, None),
    ],
)
def test_the_kind_is_by_four_bytes(
    at: int, text: str, cable: Cable | None, length: float | None
) -> None:
    """SFF-8472, tables 5-3 and 8-2; SFF-8024, tables 4-3 and 4-4."""
    transceiver = FLEXOPTIX_SFP.change(A0, 0, 18, b"\3").change(A0, 0, at, bytes.fromhex(text))
    found = parsed(transceiver)
    assert (None if isinstance(found.cable, Missing) else found.cable) is cable
    assert (None if isinstance(found.length_m, Missing) else found.length_m) == length


def test_a_module_that_is_calibrated_externally_is_calibrated_here() -> None:
    """SFF-8472, 9.4: slope in 1/256, offset in units of the value, a polynomial of 0.1 uW."""
    constants = struct.pack(">5f", 0, 0, 0, 2.0, 10.0)  # received: 2 x + 10
    lines = struct.pack(">HhHhHhHh", 512, 5, 256, -100, 256, -256, 128, 0)
    raw = FLEXOPTIX_SFP.change(A0, 0, 92, b"\x58").change(A2, 0, 56, constants + lines)
    found = parsed(raw)
    assert not isinstance(found.lanes, Missing)
    (lane,) = found.lanes
    assert lane.bias_ma == pytest.approx((2 * 0x3670 + 5) * 0.002)
    assert lane.tx_power_mw == pytest.approx((0x18D9 - 100) / 10_000)
    assert lane.rx_power_mw == pytest.approx((2 * 0x158E + 10) / 10_000)
    assert found.temperature_c == pytest.approx(0x198B / 256 - 1)
    assert found.voltage_v == pytest.approx(0x7F21 / 2 / 10_000)
    assert isinstance(found.ranges, Ranges)
    assert isinstance(found.ranges.temperature_c, Range)
    assert found.ranges.temperature_c.high_alarm == pytest.approx(90 - 1)
    absurd = parsed(raw.change(A2, 0, 56, b"\x7f\xc0\0\0"))
    assert getattr(absurd.temperature_c, "why", None) is Why.MALFORMED


def test_monitors_behind_a_change_of_address_are_not_looked_for() -> None:
    """SFF-8472, table 8-5, byte 92, bit 2: it would take a write to the module."""
    found = FLEXOPTIX_SFP.change(A0, 0, 92, b"\x6c")
    assert spans(memory(found)) == ()
    assert isinstance(parsed(found).temperature_c, Missing)


@pytest.mark.parametrize(("status", "on"), [("00", True), ("80", False), ("40", False)])
def test_a_transmitter_that_was_switched_off_is_said_to_be(status: str, on: bool) -> None:
    lanes = parsed(FLEXOPTIX_SFP.change(A2, 0, 110, bytes.fromhex(status))).lanes
    assert not isinstance(lanes, Missing)
    assert lanes[0].transmits is on


@given(st.data())
def test_any_memory_gives_a_module_or_a_reason(data: st.DataObject) -> None:
    read = {
        span: data.draw(st.binary(max_size=span.length) | st.just(Missing(Why.TIMEOUT, "x")))
        for span in SPANS
    }
    parse_sff8472(Memory(read))
