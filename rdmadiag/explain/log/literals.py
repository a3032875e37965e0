"""What a text must have for a pattern to match it: a look for it costs a hundredth of a search."""

from collections.abc import Iterable, Iterator
from typing import Final

_MAYBE: Final = "?*{"  # what stands before one of these may be missing
_NO_CHARACTER: Final = ".^$"


class Places:
    """Patterns in their order, and which of them may match a text."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._of_word: dict[str, list[int]] = {}
        for place, pattern in enumerate(patterns):
            for word in literals(pattern) or ("",):  # nothing is in every text
                self._of_word.setdefault(word, []).append(place)

    def that_may_match(self, text: str) -> list[int]:
        """Their places, from 0, in order; the others match nothing in it."""
        return sorted(
            {each for word, places in self._of_word.items() if word in text for each in places}
        )


def literals(pattern: str) -> tuple[str, ...]:
    """One of these is in every text that the pattern matches; none: nothing is known.

    Of the syntax of `re` without flags and back references; what it does not understand makes a
    literal shorter, never wrong.

    >>> literals(r"ibv_(?:reg_mr|alloc_pd)\\b.* failed")
    (' failed',)
    >>> literals(r"\\bno (?:hca|rnic)s? found|link\\(s\\) down")
    (' found', 'link(s) down')
    >>> literals(r"(?:a|b)?\\d+")
    ()
    """
    found: list[str] = []
    for branch in _branches(pattern):
        best = max(_sequence(branch), key=lambda words: min(map(len, words)), default=())
        if not best:
            return ()
        found += best
    return tuple(found)


def _branches(pattern: str) -> Iterator[str]:
    """The alternatives of the outermost level."""
    start, at = 0, 0
    while at < len(pattern):
        if pattern[at] == "|":
            yield pattern[start:at]
            start = at + 1
        at = _after(pattern, at)
    yield pattern[start:]


def _sequence(branch: str) -> Iterator[tuple[str, ...]]:
    """What is needed one after another: each time one of the words."""
    run = ""
    at = 0
    while at < len(branch):
        end = _after(branch, at)
        piece, behind = branch[at:end], branch[end : end + 1]
        needed = behind == "" or behind not in _MAYBE
        if (character := _character(piece)) and needed:
            run += character
        if not character or not needed or behind == "+":
            if run:
                yield (run,)
            run = ""
        if needed and (inner := _inner(piece)) and (words := literals(inner)):
            yield words
        at = end
        while branch[at : at + 1] and branch[at] in "?*+{":  # the quantifier itself
            at = branch.index("}", at) + 1 if branch[at] == "{" else at + 1
    if run:
        yield (run,)


def _character(piece: str) -> str:
    """The one that it is, or nothing."""
    if len(piece) == 1:
        return "" if piece in _NO_CHARACTER else piece
    return piece[1] if piece[0] == "\\" and not piece[1].isalnum() else ""


def _inner(piece: str) -> str:
    """Of a group that must match where it stands; else nothing."""
    if piece[0] != "(":
        return ""
    if piece.startswith("(?:"):
        return piece[3:-1]
    if piece.startswith("(?P<"):
        return piece[piece.index(">") + 1 : -1]
    return "" if piece.startswith("(?") else piece[1:-1]


def _after(pattern: str, at: int) -> int:
    """Behind the character, class or group that begins there."""
    match pattern[at]:
        case "\\":
            return at + 2
        case "[":
            at += 2 if pattern.startswith("[^", at) else 1
            at += 1  # a bracket here is a member
            while pattern[at] != "]":
                at += 2 if pattern[at] == "\\" else 1
            return at + 1
        case "(":
            at += 1
            while pattern[at] != ")":
                at = _after(pattern, at)
            return at + 1
    return at + 1
