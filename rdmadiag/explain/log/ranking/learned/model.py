"""How likely each cause is by the words of a log: a softmax over the weights of its words.

A word counts once, however often it stands there; what n known words weigh is divided by the root
of n. The tables are written by `python -m tests.explain.learn_model`: labels.tsv has what each
cause weighs without any word, weights.tsv a line for each word, with the number of each label
that it weighs for or against, and how much, in tenths.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from rdmadiag.explain.log.ranking.learned.cases import lines_of
from rdmadiag.explain.log.ranking.learned.features import features
from rdmadiag.frozen import dataclass

STEPS: Final = 10
"""A weight of the tables is so many times as great."""
ENOUGH: Final = 12
"""Known words from which shares sum to 1: of a line or two a rule says more."""


@dataclass(frozen=True, slots=True)
class Model:
    """Its causes, and what each word says of them."""

    labels: Sequence[str]
    alone: Sequence[float]  # of each label, without any word
    words: Mapping[str, str]  # "17:12 40:-5": labels by their number, tenths

    def shares(self, text: str) -> dict[str, float]:
        """Of each cause, the greatest first: they sum to 1, or less where few words are known."""
        known = sorted(features(text) & self.words.keys())  # sums hang on no order
        if not known:
            return {}
        sums = [0] * len(self.labels)
        for word in known:
            for each in self.words[word].split():
                label, _, weight = each.partition(":")
                sums[int(label)] += int(weight)
        root = STEPS * math.sqrt(len(known))
        heights = [one / root + alone for one, alone in zip(sums, self.alone, strict=True)]
        most = max(heights)
        parts = [math.exp(each - most) for each in heights]
        every = math.fsum(parts) / min(1.0, len(known) / ENOUGH)
        order = sorted(range(len(parts)), key=lambda each: -parts[each])
        return {self.labels[each]: parts[each] / every for each in order}


@cache
def shipped() -> Model:
    """That of the package."""
    rows = [line.split("\t") for line in lines_of("labels")]
    weights = (line.partition("\t") for line in lines_of("weights"))
    return Model(
        tuple(label for label, _ in rows),
        tuple(float(alone) for _, alone in rows),
        {word: rest for word, _, rest in weights},
    )


NOTHING: Final = Model((), (), {})
"""Where nothing was learned."""
