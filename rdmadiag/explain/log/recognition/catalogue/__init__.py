"""Messages of known stacks, word for word: which of them a line is, and what it means.

Tables `*.tsv` in the folder `tables`, a message a row: stack, source file that prints it, kind,
stage, causes (the likeliest first), the message, and the condition by which the source prints it.
`*` stands for what is printed there; case and white space do not count. Kind `healthy` is what a
stack prints on healthy hosts too: a probe that fell back, a setting that was tried in vain. Kind
`aftermath` is what ends a job whatever failed in it: alone, it says nothing of RDMA. Kind `ending`
ends a job that waited for others: its causes are named where the log has no failure. Kind `beside`
is a failure of what other programs stand on as well, a kernel module or a library: it counts where
the lines around it are of RDMA, or of a job that uses it. Kind `last` is one that so many programs
print that no log is searched for it: it is looked for in short texts and where a log ends. So is
one of kind `other`, a failure of something else than RDMA that names its cause.

A message is looked up by two words of it that stand beside each other and in few other messages,
so that a line costs as many look-ups as it has words, however many messages there are. These words
are in `index.tsv`, with what a log is searched for where the vocabulary alone would pass the
message over: `python -m tests.explain.index_messages` writes it from the tables.

>>> message_of("Failed to fry QP 7 in butter") is None
True
"""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

FOLDER: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables")
INDEX: Final = os.path.join(os.path.dirname(FOLDER), "index.tsv")
HEALTHY: Final = "healthy"
BESIDE: Final = "beside"
LAST: Final = "last"
OTHER: Final = "other"
ENDING: Final = "ending"
ANY: Final = "*"
NONE: Final = "-"
PRINTED: Final = 120
"""Characters that `*` stands for at most."""
SINGLE: Final = 8
"""Characters of a word by which alone a message may be looked up."""

_KINDS: Final = {
    HEALTHY: None,
    BESIDE: Kind.FAILURE,
    LAST: Kind.FAILURE,
    OTHER: Kind.FAILURE,
    ENDING: Kind.AFTERMATH,
}

_WORD: Final = late(r"[a-z0-9_]+")


class Message:
    """One row."""

    __slots__ = (
        *("condition", "is_beside", "is_ending", "is_last", "is_other", "kind", "labels"),
        *("source", "stack", "stage", "template"),
    )

    def __init__(self, row: str) -> None:
        """Of a line of a table; raises ValueError."""
        columns = row.split("\t")
        if len(columns) != 7:
            raise ValueError(f"{len(columns)} columns: {row[:80]!r}")
        self.stack, self.source, kind, stage, labels, template, self.condition = columns
        self.is_beside = kind in (BESIDE, LAST, OTHER)
        self.is_last = kind in (LAST, OTHER)
        self.is_other = kind == OTHER
        self.is_ending = kind == ENDING
        self.kind = _KINDS[kind] if kind in _KINDS else Kind(kind)
        self.stage = None if stage == NONE else Stage(stage)
        self.labels = () if labels == NONE else tuple(labels.split(","))
        self.template = folded(template)

    @property
    def pieces(self) -> list[str]:
        """What is printed as it stands."""
        return [each.strip() for each in self.template.split(ANY) if each.strip()]

    def is_in(self, text: str) -> bool:
        """Whether folded text has it.

        By where each part may end: a pattern with a part for each `*` would try all their lengths
        with each other, which takes minutes for a line that was made for it.
        """
        return bool(self._ends(text))

    def behind(self, text: str) -> str:
        """What stands behind it in a text that has it."""
        spaced = " ".join(text.split())
        ends = self._ends(spaced.lower())
        return spaced[ends[0] :] if ends else ""

    def _ends(self, text: str) -> list[int]:
        first, *others = self.template.split(ANY)
        ends = [
            at + len(first)
            for at in _places(first, text)
            if not (at and _WORD.match(first) and _WORD.match(text, at - 1))
        ]
        for part in others:
            ends = list(_ends_near(ends, part, text))
        return ends

    @property
    def is_healthy(self) -> bool:
        """It is printed on healthy hosts too."""
        return self.kind is None


def _places(part: str, text: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _ends_near(ends: Sequence[int], part: str, text: str) -> Iterator[int]:
    """Where the part ends, if it begins at most PRINTED characters behind an end; ends ascend."""
    before = 0
    for at in _places(part, text):
        while before < len(ends) and ends[before] + PRINTED < at:
            before += 1
        if before == len(ends):
            return
        if ends[before] <= at:
            yield at + len(part)


def folded(text: str) -> str:
    """In lowercase, with one space where there were several."""
    return " ".join(text.lower().split())


@cache
def rows() -> tuple[str, ...]:
    """Of all tables, in the order of their names."""
    found: list[str] = []
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as table:
            found += table.read().splitlines()
    return tuple(found)


@cache
def message(number: int) -> Message:
    """The row of this number, from 0."""
    return Message(rows()[number])


def messages() -> Iterator[Message]:
    """Every row."""
    return (message(number) for number in range(len(rows())))


@cache
def _index() -> dict[str, list[tuple[int, str]]]:
    """Words → numbers of rows, each with what is searched for, or nothing."""
    found: dict[str, list[tuple[int, str]]] = {}
    with open(INDEX, encoding="utf-8") as index:
        for number, line in enumerate(index.read().removesuffix("\n").split("\n")):
            key, _, needle = line.partition("\t")
            if key in found:
                found[key].append((number, needle))
            else:
                found[key] = [(number, needle)]
    return found


def _looked_up(text: str) -> Iterator[tuple[int, str]]:
    index = _index()
    words = _WORD.findall(text)
    for one, two in pairwise(words):
        yield from index.get(f"{one} {two}", ())
    for word in words:
        if len(word) >= SINGLE:
            yield from index.get(word, ())


def message_of(text: str) -> Message | None:
    """The longest message that the line has, or None."""
    text = folded(text)
    best: Message | None = None
    for number, _ in _looked_up(text):
        each = message(number)
        longer = best is None or len(each.template) > len(best.template)
        if longer and each.is_in(text):
            best = each
    return best


def is_healthy(text: str) -> bool:
    """Whether a stack prints the line on healthy hosts too."""
    found = message_of(text)
    return found is not None and found.is_healthy


def has_needle(line: bytes) -> bool:
    """Whether it has what a log is searched for because of a message."""
    text = folded(line.decode("utf-8", "replace"))
    return any(needle and needle in text for _, needle in _looked_up(text))


def needles() -> tuple[bytes, ...]:
    """What a log is searched for beside the words of the vocabulary: ASCII, in lowercase."""
    several = (needle for rows_ in _index().values() for _, needle in rows_ if needle)
    return tuple(dict.fromkeys(each.encode() for each in several))
