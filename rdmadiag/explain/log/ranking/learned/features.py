"""The words of a log's lines; what a host or a run names is left out.

>>> sorted(features("mlx5_0: ibv_reg_mr() failed: errno 12"))[:4]
['#12', 'errno', 'failed', 'ibv']
"""

import re
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
    """Those of all lines: a word, a part of a compound, a number behind #."""
    found: set[str] = set()
    for word in _WORD.findall(_LEFT_OUT.sub(" ", text[:MOST].lower())):
        if word.isdigit():
            found.add(f"#{word}")
            continue
        plain = _DIGITS.sub("0", word).strip("_")
        if len(plain) > 1:
            found.add(plain)
            found.update(each for each in _PART.split(plain) if len(each) >= _SHORTEST_PART)
    return frozenset(found)
