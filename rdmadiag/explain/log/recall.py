"""What similar cases of the field had, beside what rules say of a failure.

A rule's causes keep their places; of five, the fifth is what similar cases had. Where no rule
says what it was, similar cases come first, and then what the words speak for.
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.explain.causes import CAUSES, Known, thunderbolt
from rdmadiag.explain.log.learned.chances import Basis

BY_RULE: Final = 4
"""Causes of a rule that none that was learned displaces."""
_OF_A_MAC: Final = frozenset(row.label for row in thunderbolt.ROWS)


def fits(label: str, platform: str) -> bool:
    """Whether that platform has such a cause: of Thunderbolt on a Mac, and on it alone."""
    if platform == "darwin":
        return label in _OF_A_MAC or bool(CAUSES[label].darwin)
    return label not in _OF_A_MAC


def recalled(
    given: Sequence[Known], learned: Sequence[str], platform: str, most: int, *, by_rule: bool
) -> tuple[Known, ...]:
    """Both, in their order, each once."""
    near = [Known(each, CAUSES[each].text) for each in learned if fits(each, platform)]
    whole = (*given[:BY_RULE], *near, *given[BY_RULE:]) if by_rule else (*near, *given)
    seen: dict[str, Known] = {}
    for cause in whole:
        seen.setdefault(cause.label, cause)
    return tuple(seen.values())[:most]


def basis(causes: Sequence[Known], learned: Sequence[str], *, by_rule: bool) -> Basis | None:
    """What the first cause rests on; None where there is none."""
    if not causes:
        return None
    if not by_rule:
        return Basis.WORDS
    return Basis.BOTH if learned[:1] == (causes[0].label,) else Basis.RULE
