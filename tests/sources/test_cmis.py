"""CMIS: published modules, their variants by the specification's tables, and any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.transceivers import (
    CREDO_OSFP_AEC,
    JUNIPER_OSFP_DR4,
    MELLANOX_QSFP_DD_COPPER,
    SPANS,
    Transceiver,
)
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import (
    Cable,
    Connector,
    Identifier,
    Module,
    ModuleState,
    Range,
    Ranges,
)
from rdmadiag.sources.cmis import parse_cmis
from rdmadiag.sources.module_memory import A0, Memory


def parsed(transceiver: Transceiver) -> Module:
    missing = Missing(Why.UNSUPPORTED, "no such page")
    found = parse_cmis(Memory({span: transceiver.read(span) or missing for span in SPANS}))
    assert isinstance(found, Module)
    return found


def changed(page: int, offset: int, text: str) -> Module:
    return parsed(JUNIPER_OSFP_DR4.change(A0, page, offset, bytes.fromhex(text)))


def test_a_published_cable_of_copper_is_read_as_sonic_reads_it() -> None:
    """ADMIN_INFO_OUTPUT of tests/sonic_xcvr/test_xcvr_eeprom.py, sonic-platform-common."""
    found = parsed(MELLANOX_QSFP_DD_COPPER)
    assert (found.identifier, found.connector) == (Identifier.QSFP_DD, Connector.NONE)
    assert (found.vendor, found.part, found.revision) == ("Mellanox", "MCP1660-W00AE30", "A3")
    assert (found.cable, found.length_m) == (Cable.PASSIVE_COPPER, 0.5)
    for value in (found.temperature_c, found.lanes, found.ranges):
        assert value == Missing(Why.UNSUPPORTED, "a passive cable has no monitors")
    assert isinstance(found.state, Missing), "a module of one page has none"


def test_a_published_optic_is_read_field_by_field() -> None:
    """By the units of CMIS 5.0: 1/256 C, 100 uV, 0.1 uW, 2 uA; tables 8-9, 8-63 and 8-100."""
    found = parsed(JUNIPER_OSFP_DR4)
    assert (found.identifier, found.connector) == (Identifier.OSFP, Connector.MPO_1X16)
    assert (found.vendor, found.part, found.revision) == ("JUNIPER-1G1", "740-174932", "01")
    assert (found.cable, found.reach_m) == (Cable.OPTIC, {"smf": 500})
    assert (found.state, found.low_power) == (ModuleState.READY, False)
    assert (found.temperature_c, found.voltage_v) == (0x39EE / 256, 3.3057)
    assert not isinstance(found.lanes, Missing)
    assert [each.number for each in found.lanes] == [*range(1, 9)]
    assert all(each.transmits is True for each in found.lanes)
    assert found.lanes[0].tx_power_mw == 0x4D0B / 10_000
    assert found.lanes[7].rx_power_mw == 0x3B8F / 10_000
    assert {each.bias_ma for each in found.lanes} == {0x88AF * 2 / 1000}
    ranges = found.ranges
    assert isinstance(ranges, Ranges)
    assert ranges.temperature_c == Range(-6, -3, 73, 76)
    assert ranges.voltage_v == Range(3.0, 3.05, 3.6, 3.7)
    assert ranges.tx_power_mw == Range(0.257, 0.3235, 3.1622, 3.981)
    assert ranges.bias_ma == Range(10, 15, 125, 130)
    assert ranges.rx_power_mw == Range(0.1288, 0.1819, 3.8018, 4.7863)


def test_a_published_cable_with_retimers_measures_heat_and_no_light() -> None:
    found = parsed(CREDO_OSFP_AEC)
    assert (found.vendor, found.part) == ("Credo", "CAC845301A2NC2XA")
    assert (found.cable, found.length_m) == (Cable.ACTIVE_COPPER, 4.5)
    assert found.temperature_c == 0x3344 / 256
    assert isinstance(found.lanes, Missing)
    assert isinstance(found.ranges, Ranges)
    assert found.ranges.temperature_c == Range(-5, 0, 70, 75)
    assert isinstance(found.ranges.rx_power_mw, Missing)


@pytest.mark.parametrize(("bits", "times"), [("07", 1), ("0f", 2), ("17", 4)])
def test_the_unit_of_bias_is_advertised_and_is_that_of_its_thresholds_too(
    bits: str, times: int
) -> None:
    """CMIS 5.0, table 8-49: page 01h, byte 160, bits 4-3."""
    found = changed(1, 160, bits)
    assert not isinstance(found.lanes, Missing)
    assert isinstance(found.ranges, Ranges)
    assert found.lanes[0].bias_ma == pytest.approx(69.982 * times)
    assert isinstance(found.ranges.bias_ma, Range)
    assert found.ranges.bias_ma.high_alarm == 130 * times
    reserved = changed(1, 160, "1f").lanes
    assert not isinstance(reserved, Missing)
    assert getattr(reserved[0].bias_ma, "why", None) is Why.MALFORMED


def test_what_is_not_advertised_is_not_measured() -> None:
    found = changed(1, 159, "0104")  # temperature; received power
    assert isinstance(found.voltage_v, Missing)
    assert not isinstance(found.temperature_c, Missing)
    assert not isinstance(found.lanes, Missing)
    lane = found.lanes[0]
    assert not isinstance(lane.rx_power_mw, Missing)
    assert isinstance(lane.tx_power_mw, Missing)
    assert isinstance(lane.bias_ma, Missing)
    assert isinstance(changed(1, 160, "00").lanes, Missing)


def test_lanes_that_a_module_has_not_got_are_left_out() -> None:
    """CMIS 5.0, table 8-38: page 00h, byte 210."""
    found = changed(0, 210, "f0").lanes
    assert not isinstance(found, Missing)
    assert [each.number for each in found] == [1, 2, 3, 4]


def test_a_lane_of_which_the_path_is_not_activated_does_not_transmit() -> None:
    found = changed(0x11, 128, "41").lanes  # lane 2 activated, lane 1 not
    assert not isinstance(found, Missing)
    assert [each.transmits for each in found[:3]] == [False, True, True]


@pytest.mark.parametrize(
    ("byte", "state"),
    [
        ("03", ModuleState.LOW_POWER),
        ("05", ModuleState.POWERING_UP),
        ("07", ModuleState.READY),
        ("0b", ModuleState.FAULT),
    ],
)
def test_the_state_is_without_the_bit_of_the_interrupt(byte: str, state: ModuleState) -> None:
    found = changed(0, 3, byte)
    assert (found.state, found.low_power) == (state, state is ModuleState.LOW_POWER)


@pytest.mark.parametrize(
    ("media", "technology", "cable"),
    [
        ("01", "00", Cable.OPTIC),
        ("04", "0a", Cable.PASSIVE_COPPER),
        ("04", "0f", Cable.ACTIVE_COPPER),
        ("03", "00", Cable.PASSIVE_COPPER),
        ("05", "00", Cable.TWISTED_PAIR),
    ],
)
def test_the_kind_is_by_media_and_technology(media: str, technology: str, cable: Cable) -> None:
    transceiver = JUNIPER_OSFP_DR4.change(A0, 0, 85, bytes.fromhex(media))
    assert parsed(transceiver.change(A0, 0, 212, bytes.fromhex(technology))).cable is cable


def test_a_cable_of_glass_is_an_optic_without_a_socket() -> None:
    assert changed(0, 203, "23").cable is Cable.ACTIVE_OPTICAL


def test_thresholds_that_are_0_are_no_thresholds() -> None:
    found = changed(2, 192, "00" * 8).ranges
    assert isinstance(found, Ranges)
    assert getattr(found.rx_power_mw, "why", None) is Why.ABSENT
    assert isinstance(found.tx_power_mw, Range)


@given(st.data())
def test_any_memory_gives_a_module_or_a_reason(data: st.DataObject) -> None:
    spans = {
        span: data.draw(st.binary(max_size=span.length) | st.just(Missing(Why.TIMEOUT, "x")))
        for span in SPANS
    }
    found = parse_cmis(Memory(spans))
    if isinstance(found, Module) and not isinstance(found.lanes, Missing):
        assert len(found.lanes) <= 8
        for lane in found.lanes:
            assert isinstance(lane.bias_ma, Missing) or 0 <= lane.bias_ma <= 4 * 131.07
