"""Bytes of a transceiver's memory, and the units that its three forms have in common.

What is addressed: I2C address, page and offset; offsets below 128 are the same on each page.
"""

import math
import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import Cable, Connector, Identifier, Range

A0, A2 = 0x50, 0x51  # SFF-8472's names, for the I2C addresses without the bit that says read
_SIGNED, _WORD = struct.Struct(">h"), struct.Struct(">H")


class Span(NamedTuple):
    """What one message reads: within one half of a page."""

    page: int
    offset: int
    length: int
    address: int = A0


class Memory:
    """What was read of one module; a span that could not be read keeps its reason."""

    def __init__(self, spans: Mapping[Span, bytes | Missing]) -> None:
        self._spans = spans

    def take(self, page: int, offset: int, length: int, address: int = A0) -> bytes | Missing:
        """These bytes; NOT_COLLECTED where nobody read them."""
        for span, content in self._spans.items():
            skip = offset - span.offset
            if (span.address, span.page) != (address, page) or skip < 0:
                continue
            if skip + length <= span.length:
                if isinstance(content, Missing):
                    return content
                if skip + length <= len(content):
                    return content[skip : skip + length]
        return Missing(Why.NOT_COLLECTED, f"page {page:02x}h, byte {offset}: not read")

    def byte(self, page: int, offset: int, address: int = A0) -> int | Missing:
        """One of them."""
        found = self.take(page, offset, 1, address)
        return found if isinstance(found, Missing) else found[0]

    def text(self, page: int, offset: int, length: int, address: int = A0) -> str | Missing:
        """ASCII, padded by spaces."""
        found = self.take(page, offset, length, address)
        if isinstance(found, Missing):
            return found
        words = found.rstrip(b" \0").decode("latin-1").strip()
        if not words:
            return Missing(Why.ABSENT, "left blank")
        if not (words.isascii() and words.isprintable()):
            return Missing(Why.MALFORMED, f"page {page:02x}h, byte {offset}: not ASCII")
        return words


# --- units ------------------------------------------------------------------------------------


def celsius(raw: bytes) -> float:
    """In 1/256 of a degree, signed."""
    return float(_SIGNED.unpack(raw)[0]) / 256


def volts(raw: bytes) -> float:
    """In 100 uV."""
    return float(_WORD.unpack(raw)[0]) / 10_000


def milliwatts(raw: bytes) -> float:
    """In 0.1 uW."""
    return float(_WORD.unpack(raw)[0]) / 10_000


def milliamperes(raw: bytes) -> float:
    """In 2 uA."""
    return float(_WORD.unpack(raw)[0]) / 500


def range_of(raw: bytes | Missing, unit: Callable[[bytes], float], what: str) -> Range | Missing:
    """High alarm, low alarm, high warning, low warning, as all three forms have them."""
    if isinstance(raw, Missing):
        return raw
    if not any(raw):
        return Missing(Why.ABSENT, f"the thresholds of {what} are all 0")
    high_alarm, low_alarm, high_warning, low_warning = (
        unit(raw[at : at + 2]) for at in (0, 2, 4, 6)
    )
    values = (low_alarm, low_warning, high_warning, high_alarm)
    if not all(map(math.isfinite, values)) or sorted(values) != list(values):
        return Missing(Why.MALFORMED, f"the thresholds of {what} are in no order")
    if low_alarm == high_alarm:
        return Missing(Why.MALFORMED, f"the thresholds of {what} are all the same")
    return Range(*values)


# --- codes ------------------------------------------------------------------------------------


def identifier(memory: Memory) -> Identifier | Missing:
    """What is plugged in."""
    code = memory.byte(0, 0)
    if isinstance(code, Missing):
        return code
    return Identifier.from_number(code) or unknown("identifier", code)


def connector(code: int | Missing) -> Connector | Missing:
    """SFF-8024, table 4-3."""
    if isinstance(code, Missing):
        return code
    return Connector.from_number(code) or unknown("connector", code)


def unknown(what: str, code: int) -> Missing:
    """Of a code that SFF-8024 gained later, or that a vendor made up."""
    return Missing(Why.UNSUPPORTED, f"{what} {code:#04x} is not known here")


def cable(technology: int, connected_by: int) -> Cable | Missing:
    """By the transmitter's technology, which SFF-8636 and CMIS number alike."""
    if technology in _PASSIVE:
        return Cable.PASSIVE_COPPER
    if technology in _ACTIVE:
        return Cable.ACTIVE_COPPER
    if technology > _LASERS:
        return unknown("transmitter technology", technology)
    return Cable.ACTIVE_OPTICAL if connected_by == Connector.NONE.number else Cable.OPTIC


_PASSIVE: Final = (0x0A, 0x0B)  # CMIS 5, table 8-40; SFF-8636, table 6-20, bits 7-4
_ACTIVE: Final = range(0x0C, 0x10)
_LASERS: Final = 0x11  # the last one: L-band tunable

NO_MONITORS: Final = Missing(Why.UNSUPPORTED, "a passive cable has no monitors")
NO_LIGHT: Final = Missing(Why.UNSUPPORTED, "copper: there is no light to measure")


def cable_length(memory: Memory, offset: int, medium: Cable | Missing) -> float | Missing:
    """Metres of a cable that is one with its ends, as the SFP and QSFP forms have it."""
    metres = memory.byte(0, offset)
    if isinstance(medium, Missing):  # the byte has another meaning for an optic
        return medium
    if isinstance(metres, Missing):
        return metres
    if medium is Cable.OPTIC or not metres:
        return Missing(Why.ABSENT, "it names no length of cable")
    return float(metres)


def without_monitors(medium: Cable | Missing) -> Missing | None:
    """Why a module of this kind measures no temperature and no voltage."""
    return NO_MONITORS if medium is Cable.PASSIVE_COPPER else None


def without_light(medium: Cable | Missing) -> Missing | None:
    """Why it has no monitors of lanes."""
    if medium is Cable.PASSIVE_COPPER:
        return NO_MONITORS
    return NO_LIGHT if medium in (Cable.ACTIVE_COPPER, Cable.TWISTED_PAIR) else None


def measured(raw: bytes | Missing, unit: Callable[[bytes], float]) -> float | Missing:
    """A monitor's value."""
    return raw if isinstance(raw, Missing) else unit(raw)
