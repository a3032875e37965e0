"""The ring's records: each whole, or none.

A record is a mark, the length and the CRC-32 of what follows, and one event as ASCII JSON that
ends its line. Files are numbered; the oldest goes where a new one would make them too many. A
program that is killed leaves the beginning of a record at the end of its file, and the next run
begins a new one.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from rdmadiag.watch.event import Event, event_of, members

MARK: Final = b"\x9fRW1"
"""No letter of ASCII is in its first byte: no line can hold it."""

_HEAD: Final = struct.Struct("<4sII")  # mark, length, CRC-32
LONGEST: Final = 64 * 1024
"""Bytes of an event."""

FILES: Final = 8
"""Of one ring; a new one is begun where one is full."""


class Torn(Enum):
    """What is no event, in its place among them."""

    NOT_WHOLE = "a record that was not written whole"
    STRANGE = "a record of a form that this version does not know"


class Encoded(NamedTuple):
    """An event, and its JSON: it is written to several places, and encoded once."""

    event: Event
    text: bytes


def text(event: Event) -> bytes:
    """Its JSON, in ASCII, and nothing in it that a terminal would obey."""
    made = json.dumps(members(event), ensure_ascii=True, separators=(",", ":"))
    return made.replace("\x7f", "\\u007f").encode("ascii")


def encode(event: Event) -> bytes:
    """An event as a record of the ring."""
    return encode_line(text(event))


def encode_line(line: bytes) -> bytes:
    """One record of what is JSON already."""
    line += b"\n"
    return _HEAD.pack(MARK, len(line), zlib.crc32(line)) + line


def decode(files: Iterable[bytes]) -> Iterator[Event | Torn]:
    """What is in a ring's files, oldest first; never raises."""
    for content in files:
        for line in records(content):
            yield Torn.NOT_WHOLE if line is None else _event(line)


def last_event(content: bytes) -> Event | None:
    """The one in a file that holds one, filled up with zeros; None where it is not whole."""
    found = [each for each in decode((content.rstrip(b"\0"),)) if isinstance(each, Event)]
    return found[-1] if found else None


def _event(line: bytes) -> Event | Torn:
    try:
        return event_of(json.loads(line))
    except (ValueError, RecursionError):
        return Torn.STRANGE


def records(content: bytes) -> Iterator[bytes | None]:
    """The lines of whole records; None for each run of bytes that is none."""
    at = 0
    while at < len(content):
        line = _record(content, at)
        if line is not None:
            yield line
            at += _HEAD.size + len(line)
            continue
        yield None
        at = content.find(MARK, at + 1)
        while at >= 0 and _record(content, at) is None:
            at = content.find(MARK, at + 1)
        if at < 0:
            return


def _record(content: bytes, at: int) -> bytes | None:
    if len(content) - at < _HEAD.size:
        return None
    mark, length, checksum = _HEAD.unpack_from(content, at)
    line = content[at + _HEAD.size : at + _HEAD.size + length]
    if mark != MARK or length > LONGEST or len(line) < length or zlib.crc32(line) != checksum:
        return None
    return line
