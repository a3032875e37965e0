"""The words of a log's lines, and pairs that follow each other; what a host or a run names is left.

>>> sorted(features("mlx5_0: ibv_reg_mr() failed: errno 12"))[:4]
['#12', 'errno', 'errno #12', 'failed']
"""

import re
from itertools import pairwise
from typing import Final

from rdmadiag.late import late

MOST: Final = 20_000
"""Characters that are looked at."""

_LEFT_OUT: Final = late(
    r"\d{1,3}(?:\.\d{1,3}){3}|\d\d:\d\d:\d\d[.\d]*|0x[0-9a-f]+|\d{4,}", re.IGNORECASE
)
_WORD: Final = late(r"[a-z_][a-z_0-9]*[a-z_0-9]|\d+")
_DIGITS: Final = late(r"\d+")
_PART: Final = late(r"[_0]+")
_SHORTEST_PART: Final = 3


def features(text: str) -> frozenset[str]:
    """Those of all lines: a word, a part of a compound, a number behind #, two in a row."""
    found: set[str] = set()
    for line in _LEFT_OUT.sub(" ", text[:MOST].lower()).splitlines():
        words = []
        for word in _WORD.findall(line):
            if word.isdigit():
                words.append(f"#{word}")
                continue
            plain = _DIGITS.sub("0", word).strip("_")
            if len(plain) > 1:
                words.append(plain)
                parts = _PART.split(plain)
                found.update(each for each in parts if len(each) >= _SHORTEST_PART)
        found.update(words)
        found.update(f"{one} {next_}" for one, next_ in pairwise(words))
    return frozenset(found)
