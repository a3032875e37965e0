"""SFF-8636: memory of QSFP+ and QSFP28; SFF-8436, which QSFP has, agrees with it in all this.

Bytes 3-21 of the lower page are flags that the module latches, and that reading clears
(SFF-8636 rev 2.11, 6.2.3): no span has them. Values are compared with page 03h instead.
"""

from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import Cable, Connector, Lane, Module, Ranges
from rdmadiag.sources.module_memory import (
    Memory,
    Span,
    cable,
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

_STATUS: Final = 2
_NOT_READY, _FLAT = 0x01, 0x04
_TEMPERATURE, _VOLTAGE, _RX_POWER, _BIAS, _TX_POWER = 22, 26, 34, 42, 50
_TX_DISABLE, _POWER = 86, 93
_OVERRIDE, _LOW = 0x01, 0x02
_CONNECTOR, _LENGTH, _TECHNOLOGY = 130, 146, 147
_VENDOR, _PART, _REVISION = (148, 16), (168, 16), (184, 2)
_MONITORING, _TX_IS_MEASURED = 220, 0x04
_PAGE: Final = 3  # of thresholds
_REACH: Final = {142: ("smf", 1000), 143: ("om3", 2), 144: ("om2", 1), 145: ("om1", 1)}
_REACH_OM4: Final = 2  # of byte 146, which is the length of a cable in metres elsewhere
_LANES: Final = 4

MONITORS: Final = Span(0, _TEMPERATURE, 58 - _TEMPERATURE)
SPANS: Final = (
    MONITORS,
    Span(0, _TX_DISABLE, 8),
    Span(0, 128, 68),  # up to the serial number
    Span(0, _MONITORING, 1),
)
THRESHOLDS: Final = Span(_PAGE, 128, 72)


def spans(memory: Memory) -> tuple[Span, ...]:
    """What to read after the first three bytes."""
    status = memory.byte(0, _STATUS)
    paged = not isinstance(status, Missing) and not status & _FLAT
    return (*SPANS, THRESHOLDS) if paged else SPANS


def parse_sff8636(memory: Memory) -> Module | Missing:
    """The module; a Missing where not even its identifier is known."""
    found = identifier(memory)
    if isinstance(found, Missing):
        return found
    medium = _cable(memory)
    status = memory.byte(0, _STATUS)
    not_ready = not isinstance(status, Missing) and status & _NOT_READY
    waits = Missing(Why.ABSENT, "the module's monitors are not ready") if not_ready else None
    none = without_monitors(medium) or waits or _silent(memory)
    dark = without_light(medium) or waits
    return Module(
        identifier=found,
        vendor=memory.text(0, *_VENDOR),
        part=memory.text(0, *_PART),
        revision=memory.text(0, *_REVISION),
        connector=connector(memory.byte(0, _CONNECTOR)),
        cable=medium,
        length_m=cable_length(memory, _LENGTH, medium),
        reach_m=_reach(memory) if medium is Cable.OPTIC else {},
        state=Missing(Why.UNSUPPORTED, "SFF-8636 has no module state"),
        low_power=_low_power(memory),
        temperature_c=none or measured(memory.take(0, _TEMPERATURE, 2), celsius),
        voltage_v=none or measured(memory.take(0, _VOLTAGE, 2), volts),
        lanes=dark or _lanes(memory),
        ranges=without_monitors(medium) or _ranges(memory, medium),
    )


def _cable(memory: Memory) -> Cable | Missing:
    technology, socket = memory.byte(0, _TECHNOLOGY), memory.byte(0, _CONNECTOR)
    if isinstance(technology, Missing):
        return technology
    if isinstance(socket, Missing):
        return socket
    if socket == Connector.RJ45.number:
        return Cable.TWISTED_PAIR
    return cable(technology >> 4, socket)


def _reach(memory: Memory) -> dict[str, int]:
    found = {name: (memory.byte(0, at), unit) for at, (name, unit) in _REACH.items()}
    found["om4"] = memory.byte(0, _LENGTH), _REACH_OM4
    return {
        name: value * unit
        for name, (value, unit) in found.items()
        if not isinstance(value, Missing) and value
    }


def _silent(memory: Memory) -> Missing | None:
    """A module that runs has a voltage: where 0 stands for it, nothing is measured."""
    raw = memory.take(0, _VOLTAGE, 2)
    if isinstance(raw, Missing) or any(raw):
        return None
    return Missing(Why.UNSUPPORTED, "the module measures no voltage")


def _low_power(memory: Memory) -> bool | Missing:
    power = memory.byte(0, _POWER)
    if isinstance(power, Missing):
        return power
    if not power & _OVERRIDE:
        return Missing(Why.UNSUPPORTED, "it is set by a pin that the memory does not show")
    return bool(power & _LOW)


def _lanes(memory: Memory) -> tuple[Lane, ...] | Missing:
    if isinstance(unread := memory.take(0, MONITORS.offset, MONITORS.length), Missing):
        return unread
    off, kinds = memory.byte(0, _TX_DISABLE), memory.byte(0, _MONITORING)
    sends = isinstance(kinds, Missing) or kinds & _TX_IS_MEASURED
    unsent = None if sends else Missing(Why.UNSUPPORTED, "it does not measure what it sends")
    return tuple(
        Lane(
            number=at + 1,
            transmits=off if isinstance(off, Missing) else not off >> at & 1,
            rx_power_mw=measured(memory.take(0, _RX_POWER + 2 * at, 2), milliwatts),
            tx_power_mw=unsent or measured(memory.take(0, _TX_POWER + 2 * at, 2), milliwatts),
            bias_ma=measured(memory.take(0, _BIAS + 2 * at, 2), milliamperes),
        )
        for at in range(_LANES)
    )


def _ranges(memory: Memory, medium: Cable | Missing) -> Ranges | Missing:
    page, dark = _PAGE, without_light(medium)
    status = memory.byte(0, _STATUS)
    if not isinstance(status, Missing) and status & _FLAT:
        return Missing(Why.ABSENT, "the module has no page of thresholds")
    return Ranges(
        temperature_c=range_of(memory.take(page, 128, 8), celsius, "temperature"),
        voltage_v=range_of(memory.take(page, 144, 8), volts, "voltage"),
        rx_power_mw=dark or range_of(memory.take(page, 176, 8), milliwatts, "received power"),
        bias_ma=dark or range_of(memory.take(page, 184, 8), milliamperes, "laser bias"),
        tx_power_mw=dark or range_of(memory.take(page, 192, 8), milliwatts, "sent power"),
    )
