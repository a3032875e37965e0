"""What a word that is no name was meant to be."""

from collections.abc import Iterable
from typing import Final

_CUTOFF: Final = 0.6  # difflib's own


def instead(word: str, names: Iterable[str]) -> str:
    """ "did you mean nccl?", or all names where none is nearest.

    >>> instead("preflihgt", ["preflight", "gids"])
    'did you mean preflight?'
    >>> instead("mlx5_9", ["mlx5_0", "mlx5_1"])
    'there are: mlx5_0, mlx5_1'
    """
    import difflib

    every = list(dict.fromkeys(names))
    folded = {name.casefold(): name for name in every}
    near = difflib.get_close_matches(word.casefold(), folded, 2, _CUTOFF)
    if near and not (len(near) == 2 and _likeness(word, near[0]) == _likeness(word, near[1])):
        return f"did you mean {folded[near[0]]}?"
    return f"there are: {', '.join(every) or 'none'}"


def _likeness(word: str, name: str) -> float:
    import difflib

    return difflib.SequenceMatcher(None, name, word.casefold()).ratio()
