"""Cases of the field, or messages, that share words with a log, and the causes that those had.

A word weighs the more, the fewer cases have it: log((cases + 1) / (those with it + 0.5)). How
like two are is the cosine of what they share. The nearest whose cause is known vote for it.
"""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from rdmadiag.explain.log.ranking.learned.features import features
from rdmadiag.frozen import dataclass

FOLDER: Final = os.path.dirname(__file__)
_ALSO: Final = 0.6
"""What its further labels weigh."""


class Near(NamedTuple):
    """A case, by its number, and how like it is: 0 to 1."""

    case: int
    likeness: float
    shared: float  # the sum of the squares of the weights that both have


@dataclass(frozen=True, slots=True)
class Cases:
    """All of them, and for each word its weight and the numbers of the cases that have it."""

    labels: Sequence[tuple[str, ...]]  # of each, its cause first; empty where none is known
    lengths: Sequence[float]  # of the vector of its words' weights
    words: Mapping[str, str]  # "2.31\t4 17 203"

    def near(self, text: str) -> tuple[Near, ...]:
        """Those that share words with it, the most like first."""
        shared: defaultdict[int, float] = defaultdict(float)
        own = 0.0
        for each in sorted(features(text) & self.words.keys()):  # sums hang on no order
            weight, _, numbers = self.words[each].partition("\t")
            square = float(weight) ** 2
            own += square
            for number in numbers.split():
                shared[int(number)] += square
        root, lengths = math.sqrt(own), self.lengths
        found = sorted((-(s / root / lengths[n]), n, s) for n, s in shared.items() if s > 0)
        return tuple(Near(number, -less, each) for less, number, each in found)

    def votes(self, near: Iterable[Near], voters: int, steep: float) -> dict[str, float]:
        """The share of the votes that each cause of the nearest has, the greatest first.

        So many `voters` whose cause is known vote, each with its likeness to the power `steep`.
        """
        known = (each for each in near if self.labels[each.case])
        votes: Counter[str] = Counter()
        for _, each in zip(range(voters), known, strict=False):
            weight = each.likeness**steep
            for place, label in enumerate(self.labels[each.case]):
                votes[label] += weight * (_ALSO if place else 1.0)
        every = math.fsum(votes.values())
        return {label: count / every for label, count in votes.most_common()}


def made(examples: Sequence[tuple[tuple[str, ...], str]]) -> Cases:
    """The cases of these labels and lines; a word that only one has is left out."""
    several = [features(text) for _, text in examples]
    having: defaultdict[str, list[int]] = defaultdict(list)
    for number, found in enumerate(several):
        for each in found:
            having[each].append(number)
    weights = {
        each: round(math.log((len(examples) + 1) / (len(numbers) + 0.5)), 2)
        for each, numbers in having.items()
        if len(numbers) > 1
    }
    lengths = tuple(
        round(math.sqrt(sum(weights.get(e, 0.0) ** 2 for e in found)) or 1.0, 2)
        for found in several
    )
    words = {
        each: f"{weight}\t{' '.join(map(str, having[each]))}" for each, weight in weights.items()
    }
    return Cases([labels for labels, _ in examples], lengths, dict(sorted(words.items())))


def lines_of(name: str) -> list[str]:
    """The lines of a table of this folder, without its remark."""
    with open(f"{FOLDER}/{name}.tsv", encoding="utf-8") as table:
        return [line for line in table.read().splitlines() if not line.startswith("# ")]


@cache
def shipped() -> Cases:
    """Those of the package."""
    rows = [line.split("\t") for line in lines_of("cases")]
    labels = [tuple(filter(None, each.split(","))) for each, _ in rows]
    words = (line.partition("\t") for line in lines_of("words"))
    lengths = [float(length) for _, length in rows]
    return Cases(labels, lengths, {word: rest for word, _, rest in words})
