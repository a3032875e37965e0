"""How one file of a job is read by itself: several files must not make a failure of what is none.

Whether a line of trouble is one depends on others of its file: a device that NCCL does without, the
second port of a card, results further below. And what only a listing shows is no line of trouble.
"""

import re
from typing import Final, NamedTuple

from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.groups import Group
from rdmadiag.explain.log.kind import SHOWN, Found
from rdmadiag.explain.log.text.beside_candidates import Kept, read_rest

REMEMBERED: Final = 1024  # files that differ in numbers alone are read once
_NUMBER: Final = re.compile(rb"\d+")


class Reading(NamedTuple):
    """What came of one file."""

    fails: bool
    shown: tuple[Group, ...]  # what its listings show to be wrong


class Alone:
    """Reads the files of a job, each kind of them once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reading] = {}

    def read(self, collector: Collector, kept: Kept) -> Reading:
        """`collector` has taken the lines of the file, of which `kept` has the rest."""
        key = _NUMBER.sub(b"0", kept.paste) if kept.paste else b""
        if key and key in self._known:
            return self._known[key]
        if kept.paste:  # of a long log its lines decide: its end takes as long as a megabyte
            read_rest(collector, kept)
        collector.settle()
        fails = collector.found not in (Found.NOTHING, Found.NOTE)
        shown = tuple(each for each in collector.groups if each.meaning.what == SHOWN)
        found = Reading(fails, shown)
        if key:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found
