"""When a line was written, by whatever clock it names.

>>> stamp_of("2026-03-13T22:26:01.5+01:00 node2 kernel: mlx5_core 0000:1b:00.0: Link down")
Stamp(clock='utc', seconds=1773437161.5, period=None)
>>> stamp_of("[ 8123.250000] mlx5_core 0000:1b:00.0: Link down")
Stamp(clock='uptime', seconds=8123.25, period=None)
>>> stamp_of("Mar 13 22:26:01 node2 kernel: mlx5_core").period
'year'
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from rdmadiag.frozen import dataclass

LOOKED_AT: Final = 256  # characters of a line: what stands behind is no clock of it
DAY: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """One time; only those of the same clock compare as they are."""

    clock: str  # "utc", "local" (no zone is named), "uptime" (of a kernel), "relative"
    seconds: float  # utc and local: since 1970, of a year that is not named: 2000
    period: str | None = None  # what is not named: "year" or "day"


_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_MONTH: Final = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIME: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATED: Final = re.compile(
    rf"(?<!\d)(?P<year>\d{{4}})[-/](?P<number>\d\d)[-/](?P<day>\d\d)[ T_]{_TIME}"
    r"(?:[.,:](?P<part>\d{1,9}))?(?: ?(?P<zone>Z|[+-]\d\d:?\d\d)(?!\d))?"
)
_CTIME: Final = re.compile(rf"\b{_MONTH} +(?P<day>\d{{1,2}}) {_TIME}(?:\.\d+)? (?P<year>\d{{4}})\b")
_SYSLOG: Final = re.compile(rf"^\W{{0,3}}{_MONTH} +(?P<day>\d{{1,2}}) {_TIME}(?:\.(?P<part>\d+))?")
_GLOG: Final = re.compile(
    rf"(?:^|[\s\]])[IWEF](?P<year>\d{{4}})?(?P<number>\d\d)(?P<day>\d\d) {_TIME}\.(?P<part>\d{{6}})"
)
_EPOCH: Final = re.compile(r"(?:\[|^|\s)(1\d{9}\.\d{1,9})(?:\]|\s)")
_UPTIME: Final = re.compile(r"\[ *(\d{1,8}\.\d{6})\]")
_RELATIVE: Final = re.compile(r"^\W{0,2}[T+]?\+?(\d{1,7}\.\d{1,9}) ?s?[\]:)]? ")
_DAYTIME: Final = re.compile(rf"^\W{{0,2}}{_TIME}(?:[.,](?P<part>\d{{1,9}}))?(?![\d:])")


def stamp_of(text: str) -> Stamp | None:
    """The first that is found, the most exact kind first."""
    return next(stamps_of(text), None)


def stamps_of(text: str) -> Iterator[Stamp]:
    """All kinds that the line has: a syslog of a kernel names its own clock beside the host's."""
    text = text[:LOOKED_AT]
    if (found := _DATED.search(text) or _CTIME.search(text) or _SYSLOG.search(text)) or (
        found := _GLOG.search(text)
    ):
        yield from _wall(found)
    elif found := _EPOCH.search(text):
        yield Stamp("utc", float(found[1]))
    elif found := _DAYTIME.search(text):
        yield from _wall(found)
    if found := _UPTIME.search(text):
        yield Stamp("uptime", float(found[1]))
    elif found := _RELATIVE.search(text):
        yield Stamp("relative", float(found[1]))


def _wall(found: "re.Match[str]") -> Iterator[Stamp]:
    parts = found.groupdict()
    month = parts.get("month")
    number = _MONTHS.index(month.lower()) + 1 if month else int(parts.get("number") or 1)
    period = None if parts.get("year") else "year"
    if not month and not parts.get("number"):
        period = "day"
    try:
        when = datetime(
            int(parts.get("year") or 2000),
            number,
            int(parts.get("day") or 1),
            int(parts["hour"]),
            int(parts["minute"]),
            int(parts["second"]),
            tzinfo=UTC,
        )
    except ValueError:
        return
    part = parts.get("part")
    seconds = when.timestamp() + (float(f"0.{part}") if part else 0.0)
    zone = parts.get("zone")
    if zone:
        yield Stamp("utc", seconds - _ahead(zone))
    else:
        yield Stamp("local", seconds, period)


def _ahead(zone: str) -> float:
    if zone == "Z":
        return 0.0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0)


def completed(stamp: Stamp, around: float) -> Stamp:
    """With the year, or the day, that brings it nearest to `around`."""
    if stamp.period is None:
        return stamp
    if stamp.period == "day":
        of_day = stamp.seconds % DAY
        day = (around - of_day + DAY / 2) // DAY
        return Stamp(stamp.clock, day * DAY + of_day)
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=stamp.seconds)
    year = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=around)).year
    made = [_of_year(when, each) for each in (year - 1, year, year + 1) if 1 <= each <= 9999]
    nearest = min(made, key=lambda seconds: abs(seconds - around))
    return Stamp(stamp.clock, nearest)


def _of_year(when: datetime, year: int) -> float:
    try:
        return when.replace(year=year).timestamp()
    except ValueError:  # the 29th of February
        return when.replace(year=year, day=28).timestamp() + DAY
