"""Names of variables that are those of a known one with a slip of the hand.

A stack ignores a name that it does not know, without a word. A new variable of a newer stack is
no slip: it differs by a word, or by a short one (UCX_UD_TIMEOUT, UCX_RC_TIMEOUT).

>>> meant("NCCL_IB_GID_INDX")
'NCCL_IB_GID_INDEX'
>>> meant("NCCL_IB_FIFO_TC") is None
True
"""

from collections.abc import Iterable
from typing import Final

from rdmadiag.gid.variables import VARIABLES

NAMES: Final = tuple(row.name for row in VARIABLES if not row.name.endswith("*"))
_OWNERS: Final = {name.partition("_")[0] for name in NAMES}  # "NCCL", "UCCL": no slips of others
_WORD: Final = 4  # letters of the shorter of two words that differ by a slip
_LONG: Final = 64  # no variable has a longer name


def meant(name: str, names: Iterable[str] = NAMES) -> str | None:
    """The one known name that this was to be; None if it is known itself, or not near to one."""
    names = tuple(names)
    if name in names or len(name) > _LONG:
        return None
    near = [each for each in names if _is_slip(name, each)]
    return near[0] if len(near) == 1 else None


def _is_slip(name: str, known: str) -> bool:
    """One letter of one word, or one underscore."""
    if abs(len(name) - len(known)) > 1:
        return False
    if name.replace("_", "") == known.replace("_", ""):
        return True
    words = name.split("_"), known.split("_")
    if len(words[0]) != len(words[1]):
        return False
    unlike = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    if len(unlike) != 1:
        return False
    ours, theirs = unlike[0]
    if unlike[0] == (words[0][0], words[1][0]) and ours in _OWNERS:
        return False
    if min(len(ours), len(theirs)) < _WORD or not (ours + theirs).isalpha():
        return False
    return _differ_by_a_letter(ours, theirs)


def _differ_by_a_letter(one: str, other: str) -> bool:
    """One left out, put in, changed for another, or changed for its neighbour."""
    short, long = sorted((one, other), key=len)
    at = next((i for i, letter in enumerate(short) if letter != long[i]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1]
    return short[at + 1 :] == long[at + 1 :] or (
        long[at : at + 2] == swapped and short[at + 2 :] == long[at + 2 :]
    )
