"""Ports that a log of opensm(8) has lost again and again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_REMOVED: Final = late(r".*\bdrop_mgr_remove_port: Removed port with GUID:(0x[0-9a-fA-F]{1,16}) ")
OFTEN: Final = 2  # once is a host that was started anew


def of_opensm(several: Sequence[Part]) -> Iterator[Shown]:
    """The first that was removed, found again and removed again."""
    seen: Counter[str] = Counter()
    for part in several:
        for line in part.lines:
            if found := _REMOVED.match(line.text):
                seen[found[1]] += 1
                if seen[found[1]] == OFTEN:
                    yield Shown(("link-flaps", "cable-or-module", "link-lost"), line, False)
