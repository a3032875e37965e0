"""Causes of the messages that share words with a line which is none of them.

What another stack, or another release, prints of the same trouble has most of its words. The
words of a row are those of its message and of its condition; words that more than MOST rows have
are left out. `words.tsv` has them, each with its weight and the numbers of its rows, below the
length of each row's vector: `python -m tests.explain.index_messages` writes it from the tables.

>>> next(iter(votes_alike("zap: could not lock the buffer: raise the memlock limit")[0]))
'memlock'
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from rdmadiag.explain.log.ranking.learned.cases import Cases
from rdmadiag.explain.log.recognition.catalogue import FOLDER, NONE, rows

WORDS: Final = os.path.join(os.path.dirname(FOLDER), "words.tsv")
MOST: Final = 400
NEAREST: Final = 20
"""Messages that vote for their causes."""
STEEP: Final = 2.0
"""A message votes with its likeness to this power."""
LEAST: Final = 60.0
"""What the nearest shares with the line, at least: some four words that few messages have."""


class _Labels(Sequence[tuple[str, ...]]):
    """Those of all rows; of one they are taken out when it is looked at."""

    def __init__(self) -> None:
        self._rows = rows()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: Any) -> Any:
        labels = self._rows[number].split("\t", 5)[4]
        return () if labels == NONE else tuple(labels.split(","))


@cache
def _messages() -> Cases:
    with open(WORDS, encoding="utf-8") as table:
        lengths = [float(each) for each in table.readline().split()]
        words = {word: rest for word, _, rest in (each.partition("\t") for each in table)}
    return Cases(_Labels(), lengths, words)


def votes_alike(text: str) -> tuple[dict[str, float], bool]:
    """The share of the votes that each label has; and whether they may stand alone.

    They do where the nearest message shares at least LEAST.
    """
    known = _messages()
    near = known.near(text)
    return known.votes(near, NEAREST, STEEP), near[:1] != () and near[0].shared >= LEAST
