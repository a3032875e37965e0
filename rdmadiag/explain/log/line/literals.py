"""What a text must have for a pattern to match it: a look for it costs a hundredth of a search."""

import re
from collections.abc import Iterable
from typing import Final

_TOKEN: Final = re.compile(
    r"(?P<escaped>\\.)|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])"  # a bracket first is a member
    r"|(?P<group>\((?:\?:|\?P<\w+>|(?!\?)))|(?P<look>\(\?)|(?P<end>\))|(?P<bar>\|)"
    r"|(?P<maybe>[?*]|\{[^}]*\})|(?P<more>\+)|(?P<any>[.^$])|(?P<plain>[^\\\[()|?*+{.^$]+)",
    re.DOTALL,
)
_REPEATS: Final = ("maybe", "more")
Tokens = list[tuple[str | None, str]]


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
    tokens: Tokens = [(each.lastgroup, each[0]) for each in _TOKEN.finditer(pattern)]
    return _of_group([*tokens, ("end", "")], 0)[0]


def _of_group(tokens: Tokens, at: int) -> tuple[tuple[str, ...], int]:
    """Of the alternatives from a token to the end of their group, and the place behind it."""
    found: list[str] = []
    is_known = True
    while True:
        words, at = _of_branch(tokens, at)
        is_known = is_known and words != ()
        found += words
        at += 1
        if tokens[at - 1][0] == "end":
            return (tuple(found) if is_known else ()), at


def _of_branch(tokens: Tokens, at: int) -> tuple[tuple[str, ...], int]:
    """The longest of what is needed one after another, and where the alternative ends."""
    best: tuple[str, ...] = ()
    run = ""
    while True:
        kind, text = tokens[at]
        if kind == "end" or kind == "bar":
            return _longer(best, (run,)), at
        at += 1
        inner: tuple[str, ...] = ()
        if kind == "group" or kind == "look":
            inner, at = _of_group(tokens, at)
        behind = tokens[at][0]
        if kind == "plain":
            run += text[:-1] if behind == "maybe" else text
        elif kind == "escaped" and not text[1].isalnum() and behind != "maybe":
            run += text[1]
        else:
            best, run = _longer(best, (run,)), ""
        if kind == "group" and inner and behind != "maybe":
            best = _longer(best, inner)
        if behind == "maybe" or behind == "more":
            best, run = _longer(best, (run,)), ""
            while tokens[at][0] in _REPEATS:
                at += 1


def _longer(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """That whose shortest word is longer; the first of two alike."""
    return other if _least(other) > _least(one) else one


def _least(words: tuple[str, ...]) -> int:
    return min(map(len, words)) if words else 0
