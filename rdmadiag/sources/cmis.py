"""CMIS: memory of QSFP-DD, OSFP, QSFP112 and their like; bank 0, which is lanes 1 to 8.

Flags, of the module in bytes 8-13 of the lower page and of lanes in bytes 134-152 of page 11h,
are latched, and cleared when they are read (CMIS 5.0, 8.2.8 and 8.9.3): no span has them. Values
are compared with page 02h instead.
"""

from collections.abc import Callable
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import Cable, Lane, Module, ModuleState, Range, Ranges
from rdmadiag.sources.module_memory import (
    NO_LIGHT,
    Memory,
    Span,
    cable,
    celsius,
    connector,
    identifier,
    measured,
    milliamperes,
    milliwatts,
    range_of,
    unknown,
    volts,
    without_light,
    without_monitors,
)

_MODEL, _FLAT = 2, 0x80
_STATE, _TEMPERATURE, _VOLTAGE, _MEDIA = 3, 14, 16, 85
_PASSIVE_COPPER, _BASE_T = 3, 5  # of _MEDIA
_VENDOR, _PART, _REVISION = (129, 16), (148, 16), (164, 2)
_LENGTH, _CONNECTOR, _WITHOUT, _TECHNOLOGY = 202, 203, 210, 212
_METRES: Final = (0.1, 1, 10, 100)  # of bits 7-6 of _LENGTH
_ADVERTISED, _THRESHOLDS, _LANES = 1, 2, 0x11  # pages
_REACH_SMF, _SMF_METRES = 132, (100, 1000)
_REACH: Final = {133: ("om5", 2), 134: ("om4", 2), 135: ("om3", 2), 136: ("om2", 1)}
_OF_MODULE, _OF_LANES = 159, 160
_HAS_TEMPERATURE, _HAS_VOLTAGE = 0x01, 0x02  # of _OF_MODULE
_HAS_BIAS, _HAS_TX, _HAS_RX = 0x01, 0x02, 0x04  # of _OF_LANES
_BIAS_TIMES: Final = {0: 1, 1: 2, 2: 4}  # of its bits 4-3
_PATHS, _TX_POWER, _BIAS, _RX_POWER = 128, 154, 170, 186
_ACTIVATED: Final = 4  # of a data path
_COUNT: Final = 8

SPANS: Final = (
    Span(0, _STATE, 1),
    Span(0, _TEMPERATURE, 4),
    Span(0, _MEDIA, 1),
    Span(0, 128, 38),  # up to the serial number
    Span(0, 200, 13),
)
PAGED: Final = (
    Span(_ADVERTISED, _REACH_SMF, 29),
    Span(_THRESHOLDS, 128, 72),
    Span(_LANES, _PATHS, 4),
    Span(_LANES, _TX_POWER, 48),
)


def spans(memory: Memory) -> tuple[Span, ...]:
    """What to read after the first three bytes."""
    return (*SPANS, *PAGED) if _is_paged(memory) else SPANS


def _is_paged(memory: Memory) -> bool:
    model = memory.byte(0, _MODEL)
    return not isinstance(model, Missing) and not model & _FLAT


def parse_cmis(memory: Memory) -> Module | Missing:
    """The module; a Missing where not even its identifier is known."""
    found = identifier(memory)
    if isinstance(found, Missing):
        return found
    medium = _cable(memory)
    none = without_monitors(medium)
    return Module(
        identifier=found,
        vendor=memory.text(0, *_VENDOR),
        part=memory.text(0, *_PART),
        revision=memory.text(0, *_REVISION),
        connector=connector(memory.byte(0, _CONNECTOR)),
        cable=medium,
        length_m=_length(memory),
        reach_m=_reach(memory) if medium is Cable.OPTIC else {},
        state=(state := _state(memory)),
        low_power=state if isinstance(state, Missing) else state is ModuleState.LOW_POWER,
        temperature_c=none
        or _lacks(memory, _OF_MODULE, _HAS_TEMPERATURE, "temperature")
        or measured(memory.take(0, _TEMPERATURE, 2), celsius),
        voltage_v=none
        or _lacks(memory, _OF_MODULE, _HAS_VOLTAGE, "voltage")
        or measured(memory.take(0, _VOLTAGE, 2), volts),
        lanes=none or _lanes(memory, medium),
        ranges=none or _ranges(memory, medium),
    )


def _cable(memory: Memory) -> Cable | Missing:
    media, technology = memory.byte(0, _MEDIA), memory.byte(0, _TECHNOLOGY)
    socket = memory.byte(0, _CONNECTOR)
    if media == _PASSIVE_COPPER:
        return Cable.PASSIVE_COPPER
    if media == _BASE_T:
        return Cable.TWISTED_PAIR
    if isinstance(technology, Missing):
        return technology
    return socket if isinstance(socket, Missing) else cable(technology, socket)


def _length(memory: Memory) -> float | Missing:
    raw = memory.byte(0, _LENGTH)
    if isinstance(raw, Missing):
        return raw
    if not raw & 0x3F:
        return Missing(Why.ABSENT, "it names no length of cable")
    return round((raw & 0x3F) * _METRES[raw >> 6], 1)


def _reach(memory: Memory) -> dict[str, int]:
    found: dict[str, int] = {}
    smf = memory.byte(_ADVERTISED, _REACH_SMF)
    if not isinstance(smf, Missing) and smf >> 6 < len(_SMF_METRES):
        found["smf"] = (smf & 0x3F) * _SMF_METRES[smf >> 6]
    for at, (name, unit) in _REACH.items():
        value = memory.byte(_ADVERTISED, at)
        found[name] = 0 if isinstance(value, Missing) else value * unit
    return {name: metres for name, metres in found.items() if metres}


def _state(memory: Memory) -> ModuleState | Missing:
    if not _is_paged(memory):
        return Missing(Why.UNSUPPORTED, "a module of one page has no state")
    raw = memory.byte(0, _STATE)
    if isinstance(raw, Missing):
        return raw
    code = raw >> 1 & 7
    return ModuleState.from_number(code) or unknown("module state", code)


def _lacks(memory: Memory, at: int, bit: int, what: str) -> Missing | None:
    """Why there is no such monitor, by what page 01h says that there is."""
    if not _is_paged(memory):
        return Missing(Why.UNSUPPORTED, "a module of one page has no monitors")
    there = memory.byte(_ADVERTISED, at)
    if isinstance(there, Missing):
        return there
    return None if there & bit else Missing(Why.UNSUPPORTED, f"it does not measure {what}")


def _lanes(memory: Memory, medium: Cable | Missing) -> tuple[Lane, ...] | Missing:
    lacks = {
        bit: without_light(medium) or _lacks(memory, _OF_LANES, bit, what)
        for bit, what in (
            (_HAS_RX, "received power"),
            (_HAS_TX, "sent power"),
            (_HAS_BIAS, "laser bias"),
        )
    }
    without = memory.byte(0, _WITHOUT)
    if isinstance(without, Missing):
        return without
    if all(lacks.values()):
        return lacks[_HAS_RX] or NO_LIGHT
    unit = _bias(memory)

    def value(bit: int, at: int, unit: Callable[[bytes], float] | Missing) -> float | Missing:
        if isinstance(unit, Missing):
            return unit
        return lacks[bit] or measured(memory.take(_LANES, at, 2), unit)

    return tuple(
        Lane(
            number=at + 1,
            transmits=_transmits(memory, at),
            rx_power_mw=value(_HAS_RX, _RX_POWER + 2 * at, milliwatts),
            tx_power_mw=value(_HAS_TX, _TX_POWER + 2 * at, milliwatts),
            bias_ma=value(_HAS_BIAS, _BIAS + 2 * at, unit),
        )
        for at in range(_COUNT)
        if not without >> at & 1
    )


def _transmits(memory: Memory, at: int) -> bool | Missing:
    """By the state of the data path: two lanes a byte."""
    pair = memory.byte(_LANES, _PATHS + at // 2)
    return pair if isinstance(pair, Missing) else (pair >> 4 * (at % 2) & 0xF) == _ACTIVATED


def _bias(memory: Memory) -> Callable[[bytes], float] | Missing:
    """The unit of laser bias, which a module may double or quadruple."""
    there = memory.byte(_ADVERTISED, _OF_LANES)
    if isinstance(there, Missing):
        return there
    times = _BIAS_TIMES.get(there >> 3 & 3)
    if times is None:
        return Missing(Why.MALFORMED, "the unit of laser bias is a reserved one")
    return lambda raw: milliamperes(raw) * times


def _ranges(memory: Memory, medium: Cable | Missing) -> Ranges | Missing:
    if not _is_paged(memory):
        return Missing(Why.ABSENT, "the module has no page of thresholds")
    unit, dark = _bias(memory), without_light(medium)

    def found(at: int, unit: Callable[[bytes], float], what: str) -> Range | Missing:
        return range_of(memory.take(_THRESHOLDS, at, 8), unit, what)

    return Ranges(
        temperature_c=found(128, celsius, "temperature"),
        voltage_v=found(136, volts, "voltage"),
        tx_power_mw=dark or found(176, milliwatts, "sent power"),
        bias_ma=dark or (unit if isinstance(unit, Missing) else found(184, unit, "laser bias")),
        rx_power_mw=dark or found(192, milliwatts, "received power"),
    )
