"""What the times of a pingpong come to; pure.

>>> summary([2100, 2200, 3000])
{'min': 1.05, 'median': 1.1, 'p99': 1.5, 'max': 1.5,
 'histogram': [[1.1, 2], [1.2, 0], [1.4, 0], [1.6, 1]]}
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

BUCKETS: Final = 12
"""At most so many in a histogram."""

_SERIES: Final = (
    (10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90),
    (10, 12, 15, 20, 25, 30, 40, 50, 60, 80),
    (10, 15, 25, 40, 60),
    (10, 20, 50),
)
"""Bounds of one decade, tenfold, from fine to coarse: ISO 3, most rounded values."""

_PER_US: Final = 10_000
"""Histograms are counted in tenths of a nanosecond, in whole numbers."""


def summary(times_ns: Sequence[int]) -> dict[str, Any]:
    """Half round trips in µs, of full round trips in ns: min, median, p99, max, histogram.

    p99 is the least time that 99 % do not exceed. Raises ValueError where there is none.
    """
    if not times_ns:
        raise ValueError("no times")
    times = sorted(times_ns)
    count = len(times)
    return {
        "min": _half_us(times[0]),
        "median": _half_us((times[(count - 1) // 2] + times[count // 2]) / 2),
        "p99": _half_us(times[_p99(count)]),
        "max": _half_us(times[-1]),
        "histogram": _histogram(times),
    }


def _p99(count: int) -> int:
    """Its place among so many sorted times."""
    return -(-count * 99 // 100) - 1


def _half_us(full_ns: float) -> float:
    return round(full_ns / 2000, 3)


def _histogram(times: Sequence[int]) -> list[list[float]]:
    """[upper bound in µs, how many lie above the bound before and not above this one].

    From the bucket of the least to that of the greatest, in steps as fine as let p99 be
    before the last bucket: one outlier does not push all others into one. What is beyond
    them is in the last, which may be a wide one.
    """
    halves = [full * 5 for full in times]
    p99 = halves[_p99(len(halves))]
    bounds: list[int] = []
    for mantissas in _SERIES:
        bounds = _bounds(mantissas, halves[0], halves[-1])
        if len(bounds) <= BUCKETS or bisect_left(bounds, p99) < BUCKETS - 1:
            break
    if len(bounds) > BUCKETS:
        bounds[BUCKETS - 1 :] = [bounds[-1]]
    counts = [0] * len(bounds)
    for half in halves:
        counts[bisect_left(bounds, half)] += 1
    return [[bound / _PER_US, count] for bound, count in zip(bounds, counts, strict=True)]


def _bounds(mantissas: Sequence[int], least: int, greatest: int) -> list[int]:
    """Those of a series from the first that is not below `least` to that of `greatest`."""
    found: list[int] = []
    decade = 1
    while True:
        for mantissa in mantissas:
            if mantissa * decade >= least:
                found.append(mantissa * decade)
            if mantissa * decade >= greatest:
                return found
        decade *= 10
