"""SFF-8472: memory of SFP+ and SFP28, whose monitors have an I2C address of their own.

Its flags (A2h, bytes 112-117) may be latched, as the vendor chooses (rev 12.4, table 9-11): no
span has them.
"""

import math
import struct
from collections.abc import Callable
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import Cable, Connector, Lane, Module, Range, Ranges
from rdmadiag.sources.module_memory import (
    A2,
    Memory,
    Span,
    cable_length,
    celsius,
    connector,
    identifier,
    measured,
    milliamperes,
    milliwatts,
    range_of,
    volts,
    without_light,
    without_monitors,
)

Unit = Callable[[bytes], float]

_CONNECTOR, _ETHERNET, _CABLE, _EXTENDED = 2, 6, 8, 36
_BASE_T: Final = 0x08  # of _ETHERNET: 1000BASE-T
_PASSIVE, _ACTIVE = 0x04, 0x08  # of _CABLE
_EXTENDED_BASE_T: Final = (0x16, 0x1C, 0x1D, 0x1E)  # SFF-8024, table 4-4: 10, 10SR, 5, 2.5GBASE-T
_REACH: Final = {
    14: ("smf", 1000), 15: ("smf", 100), 16: ("om2", 10), 17: ("om1", 10), 18: ("om4", 10),
    19: ("om3", 10),
}  # fmt: skip
_COPPER_LENGTH: Final = 18
_VENDOR, _PART, _REVISION = (20, 16), (40, 16), (56, 4)
_MONITORING: Final = 92
_IMPLEMENTED, _INTERNAL, _EXTERNAL, _OTHER_ADDRESS = 0x40, 0x20, 0x10, 0x04
_TEMPERATURE, _VOLTAGE, _BIAS, _TX_POWER, _RX_POWER = 96, 98, 100, 102, 104
_STATUS, _TX_OFF = 110, 0xC0  # the pin's state, and what was written

OF_A0: Final = (Span(0, 3, 65), Span(0, _MONITORING, 3))  # without the serial number
OF_A2: Final = (Span(0, 0, 40, A2), Span(0, 56, 36, A2), Span(0, 96, 10, A2), Span(0, 110, 1, A2))
_FLOATS, _SLOPE = struct.Struct(">5f"), struct.Struct(">Hh")


def spans(memory: Memory) -> tuple[Span, ...]:
    """What to read after the first three bytes; by bytes 92-94, what then."""
    kinds = memory.byte(0, _MONITORING)
    if isinstance(kinds, Missing):
        return OF_A0
    return OF_A2 if _is_monitored(kinds) else ()


def _is_monitored(kinds: int) -> bool:
    return bool(kinds & _IMPLEMENTED) and not kinds & _OTHER_ADDRESS


def parse_sff8472(memory: Memory) -> Module | Missing:
    """The module; a Missing where not even its identifier is known."""
    found = identifier(memory)
    if isinstance(found, Missing):
        return found
    medium = _cable(memory)
    none = without_monitors(medium) or _unmonitored(memory)
    units = _units(memory)
    if not none and isinstance(units, Missing):
        none = units

    def value(at: int, what: str) -> float | Missing:
        if none:
            return none
        if isinstance(units, Missing):
            return units
        return measured(memory.take(0, at, 2, A2), units[what])

    return Module(
        identifier=found,
        vendor=memory.text(0, *_VENDOR),
        part=memory.text(0, *_PART),
        revision=memory.text(0, *_REVISION),
        connector=connector(memory.byte(0, _CONNECTOR)),
        cable=medium,
        length_m=cable_length(memory, _COPPER_LENGTH, medium),
        reach_m=_reach(memory) if medium is Cable.OPTIC else {},
        state=Missing(Why.UNSUPPORTED, "SFF-8472 has no module state"),
        low_power=Missing(Why.UNSUPPORTED, "SFF-8472 has no low power mode"),
        temperature_c=value(_TEMPERATURE, "temperature"),
        voltage_v=value(_VOLTAGE, "voltage"),
        lanes=without_light(medium)
        or none
        or (
            Lane(
                number=1,
                transmits=_transmits(memory),
                rx_power_mw=value(_RX_POWER, "received power"),
                tx_power_mw=value(_TX_POWER, "sent power"),
                bias_ma=value(_BIAS, "laser bias"),
            ),
        ),
        ranges=none or _ranges(memory, medium, units),
    )


def _cable(memory: Memory) -> Cable | Missing:
    codes = [memory.byte(0, at) for at in (_CONNECTOR, _ETHERNET, _CABLE, _EXTENDED)]
    for each in codes:
        if isinstance(each, Missing):
            return each
    socket, ethernet, copper, extended = (each for each in codes if not isinstance(each, Missing))
    if copper & _PASSIVE:
        return Cable.PASSIVE_COPPER
    if copper & _ACTIVE:
        return Cable.ACTIVE_COPPER
    is_base_t = ethernet & _BASE_T or extended in _EXTENDED_BASE_T
    if is_base_t or socket == Connector.RJ45.number:
        return Cable.TWISTED_PAIR
    if socket in (Connector.NONE.number, Connector.PIGTAIL.number):
        return Cable.ACTIVE_OPTICAL
    if not socket:
        return Missing(Why.ABSENT, "it does not say what it is")
    return Cable.OPTIC


def _reach(memory: Memory) -> dict[str, int]:
    found: dict[str, int] = {}
    for at, (name, unit) in _REACH.items():
        value = memory.byte(0, at)
        if not isinstance(value, Missing) and value:
            found[name] = max(value * unit, found.get(name, 0))
    return found


def _unmonitored(memory: Memory) -> Missing | None:
    kinds = memory.byte(0, _MONITORING)
    if isinstance(kinds, Missing):
        return kinds
    if _is_monitored(kinds):
        return None
    return Missing(Why.UNSUPPORTED, "the module has no monitors that can be read")


def _transmits(memory: Memory) -> bool | Missing:
    status = memory.byte(0, _STATUS, A2)
    return status if isinstance(status, Missing) else not status & _TX_OFF


def _ranges(memory: Memory, medium: Cable | Missing, units: dict[str, Unit] | Missing) -> Ranges:
    dark = without_light(medium)

    def found(at: int, what: str) -> Range | Missing:
        if isinstance(units, Missing):
            return units
        return range_of(memory.take(0, at, 8, A2), units[what], what)

    return Ranges(
        temperature_c=found(0, "temperature"),
        voltage_v=found(8, "voltage"),
        bias_ma=dark or found(16, "laser bias"),
        tx_power_mw=dark or found(24, "sent power"),
        rx_power_mw=dark or found(32, "received power"),
    )


def _units(memory: Memory) -> dict[str, Unit] | Missing:
    """By what is measured; a module that is calibrated externally gives raw values."""
    kinds = memory.byte(0, _MONITORING)
    if isinstance(kinds, Missing):
        return kinds
    plain: dict[str, Unit] = {
        "temperature": celsius,
        "voltage": volts,
        "laser bias": milliamperes,
        "sent power": milliwatts,
        "received power": milliwatts,
    }
    if kinds & _INTERNAL or not kinds & _EXTERNAL:
        return plain
    constants = memory.take(0, 56, 36, A2)
    if isinstance(constants, Missing):
        return constants
    factors = _FLOATS.unpack_from(constants)  # of the fourth power first
    if not all(map(math.isfinite, factors)):
        return Missing(Why.MALFORMED, "the constants of its calibration are no numbers")
    lines = {"laser bias": 20, "sent power": 24, "temperature": 28, "voltage": 32}
    found = {
        what: _line(
            *_SLOPE.unpack_from(constants, at), signed=what == "temperature", of=plain[what]
        )
        for what, at in lines.items()
    }
    found["received power"] = _curve(factors)
    return found


def _line(slope: int, offset: int, *, signed: bool, of: Unit) -> Unit:
    """Slope in 1/256; both in units of what is measured."""
    one = of(b"\0\1")

    def unit(raw: bytes) -> float:
        return (int.from_bytes(raw, "big", signed=signed) * slope / 256 + offset) * one

    return unit


def _curve(factors: tuple[float, ...]) -> Unit:
    """A polynomial of the fourth degree, in 0.1 uW."""

    def unit(raw: bytes) -> float:
        x = int.from_bytes(raw, "big")
        total = 0.0
        for factor in factors:
            total = total * x + factor
        return total / 10_000

    return unit
