"""A line that is a message of explain.log.recognition.catalogue, beside what its structure says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.explain.calls import causes
from rdmadiag.explain.causes import Known, all_stated, remedy
from rdmadiag.explain.log.kind import ENDED, EXACT, MESSAGE, REJECTED, Kind
from rdmadiag.explain.log.line.fields import Fields, fields
from rdmadiag.explain.log.meaning import Meaning, staged, unique, used
from rdmadiag.explain.log.ranking.combined import named
from rdmadiag.explain.log.recognition.catalogue import Message
from rdmadiag.explain.log.recognition.of_calls import by_gids, by_memory, of_call
from rdmadiag.late import late


def with_message(known: Meaning | None, found: Fields, message: Message) -> Meaning | None:
    """What the line's structure says and what its words are known for: two witnesses.

    Where a stack prints the words on healthy hosts too, their errno and their sound of failure
    say nothing; the status of a completion does, and a call that failed as the line goes on.
    """
    if known is not None and known.kind is Kind.UNKNOWN and _is_sure(message):
        known = None  # a call, or words: no more than that something failed
    if known is not None:
        exact = known.what == "completion" or known.what in EXACT
        if message.kind is None and not exact:
            return _behind(message, found)
        if known.what == REJECTED and _OF_ITS_PROGRAM.search(found.text):
            return replace(known, causes=unique((*_of_row(message, known.fields), *known.causes)))
        if known.kind is not Kind.FAILURE or exact or not known.causes:
            return known
        share = BESIDE.get(known.what, OTHERS)
        several = _by_both(known.causes, _of_row(message, known.fields), share)
        return replace(known, causes=by_gids(several, known.fields))
    if message.kind is None:
        return None
    found = staged(found, message.stage)
    several = _of_row(message, found)
    if found.errno and found.stage:
        share = OF_A_ROUTE if found.errno_symbol in _NO_ROUTE else OTHERS
        several = _by_both(several, causes(found.errno, found.stage, found.platform), share)
    several = by_memory(by_gids(several, found), found)
    look = remedy(several[0].label, found.platform) if several else ()
    what = ENDED if message.is_ending else MESSAGE
    return Meaning(
        message.kind, what, found, several, look, None, message.is_beside, message.is_other
    )


_OF_ITS_PROGRAM: Final = late(r"\(consumer defined\) nvme status \d+ \((?!status)")
"""What the peer's program says of its reason, behind rdma_cm's."""


def _is_sure(message: Message) -> bool:
    """Whether it is a failure of RDMA wherever it stands, with causes."""
    return message.kind is Kind.FAILURE and message.labels != () and not message.is_beside


def _behind(message: Message, found: Fields) -> Meaning | None:
    rest = fields(message.behind(found.text), found.after, found.above)
    return of_call(rest) if rest.call and rest.errno else None


def _of_row(message: Message, found: Fields) -> tuple[Known, ...]:
    """Those that the line's platform has, and that what it used does not exclude."""
    labels = [each.label for each in named(message.labels, found.platform, used(found))]
    return all_stated(labels, message.stage or "")


def _by_both(
    first: Sequence[Known], second: Sequence[Known], of_second: float
) -> tuple[Known, ...]:
    """By the places that both give them; of the same, as the first has it."""
    weight: dict[str, float] = {}
    for share, several in ((1.0, first), (of_second, second)):
        for place, each in enumerate(several, 1):
            weight[each.label] = weight.get(each.label, 0.0) + share / place
    ordered = sorted((*first, *second), key=lambda each: -weight[each.label])
    return unique(ordered)


OF_A_ROUTE: Final = 1.5
_NO_ROUTE: Final = ("ENETUNREACH", "EHOSTUNREACH")
"""What the kernel itself knows of the way, whatever the message thinks of the peer."""
BESIDE: Final = {"errno": 0.3, "call": 0.9}
OTHERS: Final = 0.5
"""Weight of a place that a message gives a cause, beside 1 of what the structure says: an errno
says more than the words around it, a call without one less than a sign. Chosen by the sums of
threads that were read, of trials between 0.1 and 1.5; those held apart change by one row of 87.
"""
