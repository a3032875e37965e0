"""Clocks of many hosts and processes on one scale, by what several of them saw.

A collective ends, and a communicator is there, at about one time for all its ranks; a syslog of
a kernel names two clocks in one line; both ends of a connection that broke say so within its
retries. From the first two a clock is set to within a second or two, from the last to within
half a minute, and only one that nothing else sets.
"""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

from rdmadiag.explain.job.stamps import Stamp, completed
from rdmadiag.frozen import dataclass

TRUSTED: Final = 2.0
"""Seconds: wall clocks that differ by less are taken as they are, as NTP keeps them."""

ROUGH: Final = 60.0
"""Seconds that the two ends of a broken connection may be apart, by its retries."""

_ROUNDS: Final = 4
WALL: Final = ("utc", "local")

Clock = tuple[str, str]
"""(whose, which): ("node2", "uptime")."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How far a clock is from the job's, and how that is known."""

    host: str
    clock: str
    offset_s: float | None  # to be added; None: it cannot be set
    basis: str  # "taken" as it is, "meetings", "two-clocks", "broken-connection", "none"
    meetings: int  # how many set it


class Scale:
    """All clocks that were seen, and where they stand."""

    def __init__(
        self,
        clocks: Iterable[Clock],
        meetings: Mapping[str, Mapping[Clock, float]],
        rough: Mapping[str, Mapping[Clock, float]] | None = None,
    ) -> None:
        known = sorted(set(clocks))
        self._offsets: dict[Clock, float] = {}
        self._bases: dict[Clock, tuple[str, int]] = {}
        wall = [each for each in known if each[1] in WALL]
        for each in wall:
            self._put(each, 0.0, "taken", 0)
        if not wall and known:  # uptimes alone: the first is the scale
            self._put(known[0], 0.0, "taken", 0)
        self._set_wall(wall, meetings)
        for _ in range(_ROUNDS):
            if not self._set_others(known, meetings):
                break
        if rough:
            self._set_roughly(known, rough)
        self._known = known

    def at(self, clock: Clock | None, stamp: Stamp | None) -> float | None:
        """Seconds on the one scale; None where the clock is not set, or there is none."""
        if clock is None or stamp is None or clock not in self._offsets:
            return None
        return stamp.seconds + self._offsets[clock]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Those that are not taken as they are."""
        return tuple(
            Setting(*each, self._offsets.get(each), *self._bases.get(each, ("none", 0)))
            for each in self._known
            if self._bases.get(each, ("none", 0))[0] != "taken"
        )

    def _put(self, clock: Clock, offset: float, basis: str, count: int) -> None:
        self._offsets[clock] = offset
        self._bases[clock] = basis, count

    def _set_wall(self, wall: list[Clock], meetings: Mapping[str, Mapping[Clock, float]]) -> None:
        """Those that are off, against the middle one of each meeting."""
        found: dict[Clock, list[float]] = {}
        for seen in meetings.values():
            times = sorted(seconds for clock, seconds in seen.items() if clock in self._offsets)
            if len(times) < 2:
                continue
            middle = times[(len(times) - 1) // 2]
            for clock, seconds in seen.items():
                if clock in self._offsets:
                    found.setdefault(clock, []).append(middle - seconds)
        for clock in wall:
            if clock in found:
                offset = median(found[clock])
                if abs(offset) > TRUSTED:
                    self._put(clock, offset, "meetings", len(found[clock]))

    def _set_others(
        self, known: list[Clock], meetings: Mapping[str, Mapping[Clock, float]]
    ) -> bool:
        found: dict[Clock, list[float]] = {}
        two: set[Clock] = set()
        for key, seen in meetings.items():
            times = [
                seconds + self._offsets[clock]
                for clock, seconds in seen.items()
                if clock in self._offsets
            ]
            if not times:
                continue
            middle = median(times)
            for clock, seconds in seen.items():
                if clock not in self._offsets:
                    found.setdefault(clock, []).append(middle - seconds)
                    if key.startswith("line "):
                        two.add(clock)
        for clock, offsets in found.items():
            if clock in known:
                basis = "two-clocks" if clock in two else "meetings"
                self._put(clock, median(offsets), basis, len(offsets))
        return bool(found)

    def _set_roughly(self, known: list[Clock], rough: Mapping[str, Mapping[Clock, float]]) -> None:
        apart: dict[Clock, list[float]] = {}
        for seen in rough.values():
            for clock, seconds in seen.items():
                if self._bases.get(clock, ("none", 0))[0] in ("meetings", "two-clocks"):
                    continue
                others = [
                    other + self._offsets[each]
                    for each, other in seen.items()
                    if each != clock and each in self._offsets
                ]
                if others:
                    apart.setdefault(clock, []).append(min(others) - seconds)
        # The first wall clock stays where it is: the others are set to it.
        fixed = next((each for each in known if each in apart and each[1] in WALL), None)
        for clock in sorted(apart):
            offset = median(apart[clock])
            is_set = clock in self._offsets
            if is_set and (clock == fixed or abs(offset) <= ROUGH):
                continue
            self._put(clock, offset, "broken-connection", len(apart[clock]))


def with_periods(stamps: Iterable[Stamp]) -> float | None:
    """The middle of those that name their year, for those that do not; None without any."""
    dated = [each.seconds for each in stamps if each.clock in WALL and each.period is None]
    return median(dated) if dated else None


def whole(stamp: Stamp, around: float | None) -> Stamp:
    """With the year or day that is not named, where others name theirs."""
    return stamp if around is None else completed(stamp, around)
