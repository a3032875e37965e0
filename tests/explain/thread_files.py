"""Threads of the field with what their log lines were labelled: `tests/explain/threads/*/*.toml`.

One file a thread: its address, its stack, and rows of log lines. A row has the label of the cause
as the thread's own resolution shows it; it was labelled before `explain` was run on it. Hosts,
addresses, users and paths are replaced; numbers are as they were. `held` is a third of the
threads, drawn by a hash of the address: nothing is tuned on those. The folder `fresh` was
gathered and labelled after the rules were written: its first score is a first reading. So are
those of EXAMS, one after the other; the newest is set apart: no rule is written from it, and
nobody who writes rules reads it. The folder `noise` has logs without a failure alone. A text of a
public repository whose own address is not known has one below `NO_ADDRESS`.
"""

import tomllib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from rdmadiag.frozen import dataclass

FOLDER: Final = Path(__file__).parent / "threads"
FRESH: Final = "fresh"
"""The folder of the threads that no rule was written from."""
EXAMS: Final = (
    "exam",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
)
"""The folders of the threads that nobody had read who wrote the rules of their day.

Each was gathered after the one before had been scored. Nothing is learned of the last one, and it
is unread, but for its score in threads/SCORES.md; the others have been read since, and are
learned from.
"""
NO_ADDRESS: Final = "https://stored-text.invalid/"
NONE: Final = "none"
"""The cause is none that the registry has, or nobody found it."""
NOISE: Final = "noise"
"""No failure of RDMA: a healthy log, a manual, source code, another program's trouble."""


@dataclass(frozen=True, slots=True)
class Row:
    """Some lines of one log."""

    id: str
    label: str  # of explain.causes, or NONE, or NOISE
    lines: str
    basis: str = ""  # stated, inferred, unresolved; empty for noise
    also: tuple[str, ...] = ()  # labels that are true as well
    cause: str = ""  # in words
    where: str = ""  # the end, the host or the object
    kind: str = ""  # "consequence": the lines alone show only what followed

    @property
    def fails(self) -> bool:
        """It is no noise."""
        return self.label != NOISE

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label that is right for it; empty where none is known."""
        return () if self.label in (NONE, NOISE) else (self.label, *self.also)


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a forum or of a tracker of issues."""

    path: Path
    address: str
    stack: str
    title: str
    held: bool  # no rule and no weight was looked for in it
    rows: tuple[Row, ...]
    seen: bool = False  # the project knew it before: it is not unseen

    @property
    def fresh(self) -> bool:
        """It was gathered after the rules were written."""
        return self.path.parent.name == FRESH

    @property
    def exam(self) -> bool:
        """It is of one of the sets that were gathered to be read once."""
        return self.path.parent.name in EXAMS

    @property
    def unread(self) -> bool:
        """It is of the newest of them: no rule is written from it, and nothing is learned of it."""
        return self.path.parent.name == EXAMS[-1]


def drawn(address: str) -> bool:
    """Whether a thread is of the third that is held apart."""
    return int(blake2b(address.encode(), digest_size=4).hexdigest(), 16) % 3 == 0


def parse_thread(path: Path, document: dict[str, Any]) -> Thread:
    """One file; raises TypeError and KeyError for keys that are unknown or absent."""
    rows = tuple(Row(**{**row, "also": tuple(row.get("also", ()))}) for row in document.pop("rows"))
    return Thread(path=path, rows=rows, **document)


def read(folder: Path = FOLDER) -> Iterator[Thread]:
    """Every thread, in the order of the files' names."""
    for path in sorted(folder.rglob("*.toml")):
        yield parse_thread(path, tomllib.loads(path.read_text("utf-8")))
