"""When each line of a job was written, on one scale."""

from datetime import UTC, datetime

from rdmadiag.explain.job import alignment
from rdmadiag.explain.job.alignment import Clock, Scale
from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.members import Members
from rdmadiag.explain.job.stamps import Stamp
from rdmadiag.explain.job.writers import Writer
from rdmadiag.explain.log.kind import Kind


class Times:
    """The clocks of all files, set by what several of them saw."""

    def __init__(self, collected: Collected, members: Members) -> None:
        self._collected, self._members = collected, members
        self.scale, self._around = self._clocks()

    def _clock(self, writer: Writer, stamp: Stamp, where: str) -> Clock:
        host = self._members.identity(writer)[1]
        if stamp.clock == "relative":
            return (f"{where} {host or ''}".strip(), "relative")
        return (host or where, stamp.clock)

    def _clocks(self) -> tuple[Scale, float | None]:
        collected = self._collected
        said = [
            *(
                (each.writer, each.stamp, each.where)
                for part in collected.parts
                for each in part.occurrences
            ),
            *(
                (each.writer, each.stamp, each.where)
                for part in collected.parts
                for each in part.elsewhere
            ),
        ]
        stamped = [(who, stamp, where) for who, stamp, where in said if stamp is not None]
        own = [
            (part.own, part.last, part.where) for part in collected.parts if part.last is not None
        ]
        around = alignment.with_periods(stamp for _, stamp, _ in (*stamped, *own))
        clocks = {self._clock(*each) for each in stamped}
        clocks |= {clock for each in own if (clock := self._clock(*each))[1] in alignment.WALL}
        meetings: dict[str, dict[Clock, float]] = {}
        everything = [
            *((key, each, "") for key, several in collected.meetings.items() for each in several),
            *(
                (key, each, part.where)
                for part in collected.parts
                for key, several in part.meetings.items()
                for each in several
            ),
        ]
        for key, (writer, stamp), where in everything:
            clock = self._clock(writer, stamp, where)
            seconds = alignment.whole(stamp, around).seconds
            seen = meetings.setdefault(key, {})
            seen[clock] = max(seen.get(clock, seconds), seconds)
        for part in collected.parts:
            for number, (host, one, other) in enumerate(part.twice_timed):
                meetings[f"line {part.where} {number}"] = {
                    (host, each.clock): alignment.whole(each, around).seconds
                    for each in (one, other)
                }
        return Scale(clocks, meetings, self._broken(around)), around

    def _broken(self, around: float | None) -> dict[str, dict[Clock, float]]:
        """The two ends of a pair, each by its first line of the other."""
        found: dict[tuple[str, str], dict[Clock, float]] = {}
        first_of: dict[tuple[str, str], float] = {}
        for part in self._collected.parts:
            for seen in part.occurrences:
                host = self._members.identity(seen.writer)[1]
                if seen.stamp is None or host is None or seen.meaning.kind is Kind.NOTE:
                    continue
                clock = self._clock(seen.writer, seen.stamp, part.where)
                seconds = alignment.whole(seen.stamp, around).seconds
                if clock[1] == "uptime":  # a kernel names no peer, but its host's processes do
                    known = first_of.get(clock)
                    first_of[clock] = seconds if known is None else min(known, seconds)
                there = self._members.there(seen)
                if there is not None and there.host != host:
                    low, high = sorted((host, there.host))
                    ends = found.setdefault((low, high), {})
                    ends[clock] = min(ends.get(clock, seconds), seconds)
        made = {f"pair {one} {other}": ends for (one, other), ends in found.items()}
        for clock, seconds in first_of.items():
            others: dict[Clock, float] = {clock: seconds}
            for ends in found.values():
                for each, other in ends.items():
                    if each[0] == clock[0] and each != clock:
                        others[each] = min(others.get(each, other), other)
            made[f"host {clock[0]}"] = others
        return made

    def at(self, writer: Writer, stamp: Stamp | None, where: str) -> float | None:
        """Seconds on the scale of all; None where the clock cannot be set, or there is none."""
        if stamp is None:
            return None
        settled = alignment.whole(stamp, self._around)
        return self.scale.at(self._clock(writer, stamp, where), settled)

    def shown(self, at: float | None) -> str | None:
        """In UTC; of clocks without a date, the seconds."""
        if at is None:
            return None
        if self._around is None and at < 10 * 366 * 86400:  # no clock names a date
            return f"{at:.3f} s"
        try:
            when = datetime.fromtimestamp(at, UTC)
        except (OverflowError, OSError, ValueError):
            return None
        return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
