"""SFF-8636: a published module, its variants by the specification's tables, and any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.transceivers import FS_QSFP28_IR4, FS_QSFP_COPPER, SPANS, Transceiver
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import Cable, Connector, Identifier, Module, Range, Ranges
from rdmadiag.sources.module_memory import A0, Memory
from rdmadiag.sources.sff8636 import parse_sff8636


def parsed(transceiver: Transceiver) -> Module:
    missing = Missing(Why.UNSUPPORTED, "no such page")
    found = parse_sff8636(Memory({span: transceiver.read(span) or missing for span in SPANS}))
    assert isinstance(found, Module)
    return found


def changed(offset: int, text: str, page: int = 0) -> Module:
    return parsed(FS_QSFP28_IR4.change(A0, page, offset, bytes.fromhex(text)))


def test_a_published_qsfp28_is_read_as_its_owner_reads_it() -> None:
    """eeprom/sff8636/eeprom_test.go of wobcom/go-ethtool, but for the date and serial number."""
    found = parsed(FS_QSFP28_IR4)
    assert (found.identifier, found.connector) == (Identifier.QSFP28, Connector.LC)
    assert (found.vendor, found.part, found.revision) == ("FS", "QSFP28-IR4-100G", "A1")
    assert (found.cable, found.reach_m) == (Cable.OPTIC, {"smf": 2000})
    assert not isinstance(found.lanes, Missing)
    assert [each.bias_ma for each in found.lanes] == [34.432, 33.408, 36.736, 35.456]
    assert [each.rx_power_mw for each in found.lanes] == [1.7258, 1.2744, 1.1138, 1.199]
    assert [each.tx_power_mw for each in found.lanes] == [1.1468, 1.1665, 1.2332, 1.2189]
    assert not isinstance(found.ranges, Missing)
    assert found.ranges.bias_ma == Range(10, 15, 70, 75)
    assert found.ranges.temperature_c == Range(-10, -5, 75, 80)
    assert (found.temperature_c, found.voltage_v) == (0x1C97 / 256, 3.3209)


def test_thresholds_are_by_the_order_of_the_table() -> None:
    """SFF-8636, 6.7.2: high alarm, low alarm, high warning, low warning; 100 uV, 0.1 uW."""
    found = parsed(FS_QSFP28_IR4).ranges
    assert isinstance(found, Ranges)
    assert found.voltage_v == Range(2.904, 3.0024, 3.5952, 3.7)
    assert found.rx_power_mw == Range(0.0355, 0.0562, 2.2387, 2.8184)
    assert found.tx_power_mw == Range(0.1412, 0.1778, 2.2387, 2.8183)


@pytest.mark.parametrize(
    ("technology", "socket", "cable"),
    [
        (0x00, 0x0C, Cable.OPTIC),
        (0x00, 0x23, Cable.ACTIVE_OPTICAL),
        (0x40, 0x07, Cable.OPTIC),
        (0x90, 0x07, Cable.OPTIC),
        (0xA0, 0x23, Cable.PASSIVE_COPPER),
        (0xB0, 0x23, Cable.PASSIVE_COPPER),
        (0xC0, 0x23, Cable.ACTIVE_COPPER),
        (0xF0, 0x23, Cable.ACTIVE_COPPER),
        (0x00, 0x22, Cable.TWISTED_PAIR),
    ],
)
def test_the_kind_is_by_transmitter_and_connector(
    technology: int, socket: int, cable: Cable
) -> None:
    """SFF-8636, table 6-20 (byte 147, bits 7-4); SFF-8024, table 4-3."""
    transceiver = FS_QSFP28_IR4.change(A0, 0, 147, bytes([technology]))
    assert parsed(transceiver.change(A0, 0, 130, bytes([socket]))).cable is cable


def test_a_passive_cable_has_a_length_and_no_monitors_though_its_bytes_hold_something() -> None:
    found = parsed(FS_QSFP_COPPER)
    assert (found.identifier, found.vendor, found.part) == (Identifier.QSFP_PLUS, "FS", "Q28-PCxx")
    assert (found.cable, found.length_m, found.reach_m) == (Cable.PASSIVE_COPPER, 1, {})
    for value in (found.temperature_c, found.voltage_v, found.lanes, found.ranges):
        assert value == Missing(Why.UNSUPPORTED, "a passive cable has no monitors")


def test_a_cable_of_glass_has_a_length_and_monitors() -> None:
    """As FCBR423 of https://github.com/sonic-net/sonic-utilities/pull/2379: 5 m."""
    transceiver = FS_QSFP28_IR4.change(A0, 0, 130, b"\x23").change(A0, 0, 146, b"\x05\x00")
    found = parsed(transceiver)
    assert (found.cable, found.length_m, found.reach_m) == (Cable.ACTIVE_OPTICAL, 5, {})
    assert not isinstance(found.lanes, Missing)


def test_a_transmitter_that_was_switched_off_is_said_to_be() -> None:
    found = changed(86, "05")
    assert not isinstance(found.lanes, Missing)
    assert [each.transmits for each in found.lanes] == [False, True, False, True]


@pytest.mark.parametrize(
    ("power", "low"),
    [("01", False), ("03", True), ("00", None), ("02", None)],
    ids=["set high", "set low", "by the pin", "by the pin, whatever is set"],
)
def test_low_power_is_known_where_it_is_set_by_memory(power: str, low: bool | None) -> None:
    """SFF-8636, table 6-9, byte 93."""
    found = changed(93, power).low_power
    assert (None if isinstance(found, Missing) else found) is low


def test_what_is_not_measured_is_no_zero() -> None:
    assert isinstance(changed(26, "0000").voltage_v, Missing)
    unsent = changed(220, "08").lanes  # received power alone
    assert not isinstance(unsent, Missing)
    assert all(isinstance(each.tx_power_mw, Missing) for each in unsent)
    waiting = changed(2, "01")
    assert isinstance(waiting.lanes, Missing)
    assert isinstance(waiting.temperature_c, Missing)


def test_thresholds_that_are_0_or_in_no_order_are_no_thresholds() -> None:
    none, absurd = (changed(176, text, 3).ranges for text in ("00" * 8, "0001ffff00020003"))
    assert isinstance(none, Ranges)
    assert none.rx_power_mw == Missing(Why.ABSENT, "the thresholds of received power are all 0")
    assert isinstance(none.tx_power_mw, Range)
    assert isinstance(absurd, Ranges)
    assert getattr(absurd.rx_power_mw, "why", None) is Why.MALFORMED
    assert getattr(changed(2, "06").ranges, "why", None) is Why.ABSENT  # one page alone


def test_a_name_that_is_no_ascii_is_not_printed() -> None:
    assert getattr(changed(148, "1b5b324a").vendor, "why", None) is Why.MALFORMED
    assert getattr(changed(148, "20" * 16).vendor, "why", None) is Why.ABSENT


@given(st.data())
def test_any_memory_gives_a_module_or_a_reason(data: st.DataObject) -> None:
    spans = {
        span: data.draw(st.binary(max_size=span.length) | st.just(Missing(Why.TIMEOUT, "x")))
        for span in SPANS
    }
    found = parse_sff8636(Memory(spans))
    if isinstance(found, Module) and not isinstance(found.lanes, Missing):
        for lane in found.lanes:
            for value in (lane.rx_power_mw, lane.tx_power_mw):
                assert isinstance(value, Missing) or 0 <= value <= 6.5535
