"""What similar cases of the field had, and similar messages, beside what rules say of a failure.

A rule's causes keep their places; of five, the fifth is what similar ones had. Where no rule
says what it was, all lists are merged by the places that a cause has in them (reciprocal ranks).
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.explain.causes import CAUSES, Known, possible, thunderbolt
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.log.learned.chances import Basis

BY_RULE: Final = 4
"""Causes of a rule that none that was learned displaces."""
ALIKE: Final = 0.5
"""Likeness from which a case's cause is named where nothing else is, or before what words say."""
_OF_A_MAC: Final = frozenset(row.label for row in thunderbolt.ROWS)


def named(labels: Sequence[str], platform: str, used: frozenset[Used]) -> tuple[Known, ...]:
    """Those causes that the platform has, and that what was used does not exclude."""
    some = (Known(each, CAUSES[each].text) for each in labels if fits(each, platform))
    given = Used.GID in used
    return tuple(e for e in possible(some, used) if not (given and e.label == "no-gid-given"))


def fits(label: str, platform: str) -> bool:
    """Whether that platform has such a cause: of Thunderbolt on a Mac, and on it alone."""
    if platform == "darwin":
        return label in _OF_A_MAC or bool(CAUSES[label].darwin)
    return label not in _OF_A_MAC


def recalled(
    given: Sequence[Known],
    learned: Sequence[Known],
    printed: Sequence[Known],
    most: int,
    *,
    by_rule: bool,
    alike: bool,
) -> tuple[Known, ...]:
    """All, each once: `learned` of cases, `printed` of messages that share words with the log.

    `alike` says whether there is a case that shares much with it.
    """
    if by_rule:
        whole = [*given[:BY_RULE], *_merged(learned, printed), *given[BY_RULE:]]
    else:
        whole = _merged(*((learned, given) if alike else (given, learned)), printed)
    seen: dict[str, Known] = {}
    for each in whole:
        seen.setdefault(each.label, each)
    return tuple(seen.values())[:most]


def _merged(*lists: Sequence[Known]) -> list[Known]:
    """By the sum of 1/place; at one sum the first list's is first."""
    sums: dict[str, float] = {}
    first: dict[str, Known] = {}
    for several in lists:
        for place, each in enumerate(several, 1):
            sums[each.label] = sums.get(each.label, 0.0) + 1 / place
            first.setdefault(each.label, each)
    return sorted(first.values(), key=lambda each: -sums[each.label])


def basis(causes: Sequence[Known], learned: Sequence[Known], *, by_rule: bool) -> Basis | None:
    """What the first cause rests on; None where there is none."""
    if not causes:
        return None
    if not by_rule:
        return Basis.WORDS
    return Basis.BOTH if learned and learned[0].label == causes[0].label else Basis.RULE
