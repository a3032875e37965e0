"""What explain.pasted reads of a paste, among what its lines say.

What a listing shows is the state in which a host is, and what failed in it followed: it comes
first. Where it may be as it should be (a port without a cable, a bridge that redirects), it counts
where nothing failed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rdmadiag.explain.causes import all_stated
from rdmadiag.explain.log.kind import MAY_BE, OF_NO_RDMA, SHOWN, Found, Kind
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.ranking.combined import fits
from rdmadiag.explain.log.text.observed import COMPLAINT, observed

if TYPE_CHECKING:
    from rdmadiag.explain.log.collector import Collector
    from rdmadiag.explain.pasted.session import Shown

_LEAST = (Found.NOTHING, Found.NOTE, Found.UNKNOWN)


def read_pasted(collector: "Collector", text: bytes) -> "Sequence[Shown]":
    """Add what is certain; what is not is returned."""
    from rdmadiag.explain.pasted import shown

    read = text.decode("utf-8", "replace")
    several = list(shown(read))
    for each in several:
        if each.is_certain:
            _add(collector, each)
        elif each.if_unanswered:
            collector.note_of_the_way(each.causes)
    is_slow = any(each.if_slow for each in several) and COMPLAINT in observed(read)
    return [each for each in several if _is_possible(each, is_slow=is_slow)]


def _is_possible(each: "Shown", *, is_slow: bool) -> bool:
    return not each.is_certain and not each.if_unanswered and (is_slow or not each.if_slow)


def add_possible(collector: "Collector", several: "Sequence[Shown]") -> None:
    """The first of them, if nothing else has failed."""
    if several and collector.found in _LEAST and collector.reasons.apart is None:
        _add(collector, several[0])


def _add(collector: "Collector", each: "Shown") -> None:
    found = fields(each.line.text)
    at = each.platform or found.platform
    at = at if fits(each.causes[0], at) else "darwin"
    who = each.host or found.who
    found = replace(found, platform=at, who=who, stage=None, errno=None, status=None)
    what = SHOWN if each.is_certain else MAY_BE
    meaning = Meaning(Kind.FAILURE, what, found, all_stated(each.causes, each.context), ())
    if each.causes[0] in OF_NO_RDMA:
        collector.reasons.note_apart(each.line.number, meaning, is_state=True)
    else:
        collector.add(each.line.number, meaning)
