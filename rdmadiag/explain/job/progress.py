"""How far each rank of a communicator came, and who holds up the others.

Of operations that all ranks enter, in the same order: a rank that has not entered one which
others wait in holds them up, or its own entry is lost.
"""

from collections.abc import Iterable
from typing import Final

from rdmadiag.frozen import dataclass

MOST: Final = 20  # communicators that are listed


@dataclass(frozen=True, slots=True)
class Progress:
    """One rank of one communicator, as one record says."""

    source: str  # "flight-recorder", "ras", "inspector"
    communicator: str
    rank: int
    host: str | None = None
    pid: int | None = None
    operation: str | None = None  # the one that it is in, or the last
    entered: int | None = None  # number of the last operation that it began
    completed: int | None = None  # … and that it has ended
    alike: int = 1  # ranks that stand together and not named; its own rank is below 0 then


@dataclass(frozen=True, slots=True)
class Behind:
    """A communicator whose ranks are not at the same operation."""

    source: str
    communicator: str
    operation: str | None
    sequence: int  # of the operation that the others wait in
    ranks: tuple[int, ...]  # those that have not entered it
    hosts: tuple[str, ...]  # of them, where known
    waiting: int  # ranks that are in it


def behind(found: Iterable[Progress]) -> tuple[Behind, ...]:
    """The communicators with a minority of ranks that came less far, the largest first.

    RAS reads running jobs rank after rank: there, one operation apart is no standstill.
    """
    groups: dict[tuple[str, str], dict[int, Progress]] = {}
    for each in found:
        if each.entered is not None:
            ranks = groups.setdefault((each.source, each.communicator), {})
            before = ranks.get(each.rank)
            if before is None or (before.entered or 0) < each.entered:
                ranks[each.rank] = each
    made = [one for key, ranks in groups.items() if (one := _behind(*key, tuple(ranks.values())))]
    made.sort(key=lambda each: (-(each.waiting + len(each.ranks)), each.communicator))
    return tuple(made[:MOST])


def _behind(source: str, communicator: str, ranks: tuple[Progress, ...]) -> Behind | None:
    furthest = max(each.entered or 0 for each in ranks)
    waiting = [each for each in ranks if each.entered == furthest]
    through = all(each.completed is not None and each.completed >= furthest for each in waiting)
    if through and source != "inspector":  # the others were recorded earlier; no more is known
        return None
    apart = 1 if source == "ras" else 0
    slow = [each for each in ranks if (each.entered or 0) < furthest - apart]
    of_slow = sum(each.alike for each in slow)
    if not slow or of_slow > sum(each.alike for each in ranks) - of_slow:
        return None
    return Behind(
        source,
        communicator,
        next((each.operation for each in waiting if each.operation), None),
        furthest,
        tuple(sorted(each.rank for each in slow if each.rank >= 0)),
        tuple(sorted({each.host for each in slow if each.host})),
        sum(each.alike for each in waiting),
    )
