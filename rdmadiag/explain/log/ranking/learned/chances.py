"""How often the first cause was the right one, in readings of logs that nothing was tuned to.

What a rule of this program names, and what the model makes of the log's words, are nearly
independent: where both say the same, it is mostly so.
"""

from enum import StrEnum
from functools import cache
from typing import Final

from rdmadiag.explain.log.ranking.learned.cases import lines_of
from rdmadiag.frozen import dataclass

FEWEST: Final = 20
"""The fewest readings from which a share is given."""
_STEPS: Final = 20
"""Shares are given in steps of 1/20: the tables are small."""


class Basis(StrEnum):
    """What the first cause rests on."""

    BOTH = "both"  # a rule, and the words of the log
    RULE = "rule"  # its words say another, or none is known
    WORDS = "words"  # no rule: words, and similar messages


@dataclass(frozen=True, slots=True)
class Chance:
    """So many of so many first causes were right."""

    right: int
    of: int

    @property
    def share(self) -> float | None:
        """Rounded down, as if two more readings had been one of each; None: too few."""
        if self.of < FEWEST:
            return None
        return int((self.right + 1) / (self.of + 2) * _STEPS) / _STEPS


@cache
def chances() -> dict[Basis, Chance]:
    """By what it rests on."""
    rows = (line.split("\t") for line in lines_of("chances"))
    return {Basis(basis): Chance(int(right), int(of)) for basis, right, of in rows}


def chance(basis: Basis) -> float | None:
    """The share of first causes that are right; None where it is not known."""
    found = chances().get(basis)
    return found.share if found else None
