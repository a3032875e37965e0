"""The causes of a failure by all witnesses: a rule, the words of the log, similar messages.

A cause has of a rule one share by its place, and of each of the others the share that they give
it; the greatest sum is first. The weights were chosen on an exam that nothing had been learned of:
see tests/explain/threads/SCORES.md.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rdmadiag.explain.causes import CAUSES, Known, possible, thunderbolt
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.log.ranking.learned.chances import Basis

OF_RULE: Final = 0.75
"""What the first cause of a rule weighs, the second half of it, and so on."""
OF_DECIDED: Final = 5.0
"""The same where what stands around it made another cause than the usual one the first."""
OF_SURE: Final = 3.0
"""The same of an errno, which a log's words mostly do not say, and of a sign that has one cause
alone.
"""
OF_COMPLETION: Final = 0.5
"""The same of a completion's status: many causes end in the same."""
OF_WORDS: Final = 0.25
"""The same where no rule is met, but for words."""
OF_MODEL: Final = 3.0
OF_MESSAGES: Final = 1.5
"""What the model's shares, and the votes of messages, weigh together."""
OF_FAULTS: Final = 0.5
"""What remains of both for a fault of a program: trackers of bugs have more of them than hosts."""
_PROGRAM_FAULT: Final = "program-fault"
MOST_OF_MODEL: Final = 8
MOST_OF_MESSAGES: Final = 6
"""The greatest of them that are heard."""
LIKELY: Final = 0.25
"""What a cause is named from where no rule names one."""
_OF_A_MAC: Final = frozenset(row.label for row in thunderbolt.ROWS)

Votes = Mapping[Known, float]
"""Shares, the greatest first."""


def named(labels: Sequence[str], platform: str, used: frozenset[Used]) -> tuple[Known, ...]:
    """Those causes that the platform has, and that what was used does not exclude."""
    some = (Known(each, CAUSES[each].text) for each in labels if fits(each, platform))
    given = not used.isdisjoint((Used.GID, Used.INDEX_NOT_0))
    return tuple(e for e in possible(some, used) if not (given and e.label == "no-gid-given"))


def voted(votes: Mapping[str, float], platform: str, used: frozenset[Used]) -> Votes:
    """The same of labels with their shares."""
    return {each: votes[each.label] for each in named(tuple(votes), platform, used)}


def fits(label: str, platform: str) -> bool:
    """Whether that platform has such a cause: of Thunderbolt on a Mac, and on it alone."""
    if platform == "darwin":
        return label in _OF_A_MAC or bool(CAUSES[label].darwin)
    return label not in _OF_A_MAC


def recalled(
    given: Sequence[Known], learned: Votes, printed: Votes, most: int, weight: float
) -> tuple[Known, ...]:
    """All, each once: `learned` of the model, `printed` of messages that share words with the log.

    `weight` is that of the first that is given; at one sum what is given is first.
    """
    sums: dict[str, float] = {}
    every: dict[str, Known] = {}
    for several in (
        [(each, weight / place) for place, each in enumerate(given, 1)],
        [(e, OF_MODEL * _common(e) * share) for e, share in [*learned.items()][:MOST_OF_MODEL]],
        [
            (e, OF_MESSAGES * _common(e) * share)
            for e, share in [*printed.items()][:MOST_OF_MESSAGES]
        ],
    ):
        for each, sum_ in several:
            sums[each.label] = sums.get(each.label, 0.0) + sum_
            every.setdefault(each.label, each)
    return tuple(sorted(every.values(), key=lambda each: -sums[each.label]))[:most]


def _common(cause: Known) -> float:
    """How much less common it is among hosts than in the threads that were learned from."""
    return OF_FAULTS if cause.label == _PROGRAM_FAULT else 1.0


def basis(
    causes: Sequence[Known], given: Sequence[Known], learned: Votes, *, by_rule: bool
) -> Basis | None:
    """What the first cause rests on; None where there is none."""
    if not causes:
        return None
    if not by_rule:
        return Basis.WORDS
    firsts = {each.label for each in (causes[0], given[0], *[*learned][:1])}
    return Basis.BOTH if learned and len(firsts) == 1 else Basis.RULE
