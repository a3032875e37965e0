"""How one file of a job is read by itself: several files must not make a failure of what is none.

Whether a line of trouble is one depends on others of its file: a device that NCCL does without, the
second port of a card, results further below. And what only a listing shows is no line of trouble.
"""

from typing import Final, NamedTuple

from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.groups import Group
from rdmadiag.explain.log.kind import SHOWN, Found
from rdmadiag.explain.log.recognition.reader import VARIES
from rdmadiag.explain.log.text.beside_candidates import Kept, read_rest
from rdmadiag.explain.pasted import shown as listed

REMEMBERED: Final = 1024  # files


class Reading(NamedTuple):
    """What came of one file."""

    fails: bool
    shown: tuple[Group, ...]  # what its listings show to be wrong


class Alone:
    """Reads the files of a job; those that differ in clocks and addresses alone once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reading] = {}

    def read(self, collector: Collector, kept: Kept) -> Reading:
        """`collector` has taken the lines of the file, of which `kept` has the rest."""
        key = VARIES.sub(b"#", kept.paste)
        if key and key in self._known and not self._has_listing(kept.paste):
            return self._known[key]
        if kept.paste:  # of a long log its lines decide: its end takes as long as a megabyte
            read_rest(collector, kept)
        collector.settle()
        fails = collector.found not in (Found.NOTHING, Found.NOTE)
        shown = tuple(each for each in collector.groups if each.meaning.what == SHOWN)
        found = Reading(fails, shown)
        if key and not shown:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def _has_listing(self, text: bytes) -> bool:
        """Whether a listing of it shows anything: its numbers are what counts."""
        return any(each.is_certain for each in listed(text.decode("utf-8", "replace")))
