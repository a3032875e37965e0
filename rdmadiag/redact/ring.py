"""A ring of `watch` with pseudonyms: each event in its place, and what was no event is none."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rdmadiag.frozen import dataclass
from rdmadiag.redact.record import redact_document
from rdmadiag.watch.event import Event, event_of, members
from rdmadiag.watch.ring import MARK, Torn, decode, encode, encode_line, last_event

_NOT_WHOLE: Final = MARK + b"\0\0\0\0" + b"\xff" * 4
"""An empty record with a wrong checksum stands for one that was not written whole."""


@dataclass(frozen=True, slots=True)
class RedactedRing:
    """The contents of its files, oldest first, and what was done to them."""

    files: tuple[bytes, ...]
    alive: bytes  # of the file that says until when it was watched; empty where there is none
    events: int
    manifest: Mapping[str, Any]


def redact_ring(files: Iterable[bytes], alive: bytes, key: bytes | None) -> RedactedRing:
    """The same ring with pseudonyms; without a key, by one that is drawn and dropped.

    Times, numbers and the order of events stay, so that what is not known of a time is not known
    of the new ring either. Raises ValueError where a name could not be replaced.
    """
    rings = [list(decode((content,))) for content in files]
    last = last_event(alive)
    events = [each for ring in rings for each in ring if isinstance(each, Event)]
    every = [*events, *([last] if last else [])]
    made = redact_document([members(each) for each in every], key)
    new: Iterator[Event] = map(event_of, made.document)
    contents = tuple(b"".join(_written(each, new) for each in ring) for ring in rings)
    broken = sum(not isinstance(each, Event) for ring in rings for each in ring)
    manifest = made.manifest()
    if broken:
        left = f"records of the ring that are no whole events of this version: {broken}"
        manifest["left_out"] = [left]
    return RedactedRing(contents, encode(next(new)) if last else b"", len(events), manifest)


def _written(each: Event | Torn, new: Iterator[Event]) -> bytes:
    if isinstance(each, Event):
        return encode(next(new))
    return _NOT_WHOLE if each is Torn.NOT_WHOLE else encode_line(json.dumps({}).encode())
