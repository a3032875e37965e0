"""Ports that a log of opensm(8), or of UFM, has lost again and again."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_REMOVED: Final = late(
    r"(\w{3} [\d ]\d) (\d\d):(\d\d):.*\bdrop_mgr_remove_port: Removed port with "
    r"GUID:(0x[0-9a-fA-F]{1,16}) "
)
_OF_UFM: Final = late(
    r"\d{4}-(\d\d-\d\d) (\d\d):(\d\d):.* Link \[Source (\w+) TO (?:Dest )?\w+\]: Link went down\b"
)
SOON: Final = 60  # minutes; a host that is started anew is removed once


def of_opensm(several: Sequence[Part]) -> Iterator[Shown]:
    """The first that was removed, found again and removed again."""
    seen: dict[tuple[str, str], int] = {}
    for part in several:
        for line in part.lines:
            if found := _REMOVED.match(line.text) or _OF_UFM.match(line.text):
                day, hour, minute, port = found.groups()
                now = 60 * int(hour) + int(minute)
                before = seen.get((day, port))
                seen[day, port] = now
                if before is not None and abs(now - before) <= SOON:
                    yield Shown(("link-flaps", "cable-or-module", "link-lost"), line, False)
