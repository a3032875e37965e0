"""What the times of a pingpong come to, against the definitions."""

from fractions import Fraction
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.verbs.latency import BUCKETS, summary

TIMES = st.lists(st.integers(0, 10**11), min_size=1, max_size=300)
"""Full round trips in ns: up to more than a minute."""
CLOSE = st.integers(1000, 10**6).flatmap(
    lambda least: st.lists(st.integers(least, 2 * least), min_size=1, max_size=300)
)
"""As on an idle path."""


def half_us(full_ns: Fraction | float) -> Any:
    return pytest.approx(float(Fraction(full_ns) / 2000), abs=0.00051)


def nearest_rank(times: list[int]) -> int:
    """The least of which at least 99 % are not greater."""
    return min(t for t in times if 100 * sum(each <= t for each in times) >= 99 * len(times))


def test_times_are_halved_and_given_in_microseconds() -> None:
    found = summary([2000, 4000, 9000])
    assert [found[name] for name in ("min", "median", "p99", "max")] == [1.0, 2.0, 4.5, 4.5]


def test_the_median_of_an_even_count_lies_between_two() -> None:
    assert summary([1000, 2000, 4000, 9000])["median"] == 1.5


@pytest.mark.parametrize(
    ("count", "rank"), [(1, 1), (2, 2), (99, 99), (100, 99), (101, 100), (200, 198), (1000, 990)]
)
def test_p99_is_the_nearest_rank(count: int, rank: int) -> None:
    assert summary([2000 * (at + 1) for at in range(count)])["p99"] == rank


def test_figures_have_three_decimals() -> None:
    assert summary([2469])["min"] == 1.234


def test_no_times_have_no_summary() -> None:
    with pytest.raises(ValueError, match="no times"):
        summary([])


@given(TIMES | CLOSE)
def test_figures_are_those_of_the_definitions(times: list[int]) -> None:
    found = summary(times)
    assert found["min"] == half_us(min(times))
    assert found["median"] == half_us(median(map(Fraction, times)))
    assert found["p99"] == half_us(nearest_rank(times))
    assert found["max"] == half_us(max(times))
    assert found["min"] <= found["median"] <= found["p99"] <= found["max"]


@given(TIMES)
def test_the_order_of_the_times_does_not_matter(times: list[int]) -> None:
    assert summary(times) == summary(sorted(times)) == summary(times[::-1])


# --- histogram ---------------------------------------------------------------------------


@given(TIMES | CLOSE)
def test_each_time_is_counted_in_the_first_bucket_that_reaches_it(times: list[int]) -> None:
    histogram = summary(times)["histogram"]
    bounds = [Fraction(str(bound)) for bound, _ in histogram]
    assert bounds == sorted(set(bounds))
    for at, (_, count) in enumerate(histogram):
        below = bounds[at - 1] if at else Fraction(-1)
        assert count == sum(below < Fraction(each, 2000) <= bounds[at] for each in times)
    assert sum(count for _, count in histogram) == len(times)


@given(TIMES | CLOSE)
def test_it_begins_and_ends_with_what_was_measured(times: list[int]) -> None:
    histogram = summary(times)["histogram"]
    assert 1 <= len(histogram) <= BUCKETS
    assert histogram[0][1]
    assert histogram[-1][1]


@given(TIMES | CLOSE)
def test_bounds_are_round_numbers(times: list[int]) -> None:
    for bound, _ in summary(times)["histogram"]:
        digits = f"{bound:.15f}".replace(".", "").strip("0")
        assert len(digits) <= 2, bound


@given(CLOSE)
def test_times_that_lie_close_have_buckets_of_their_own(times: list[int]) -> None:
    # Beyond the first, no bucket is wider than a fifth of its lower bound.
    bounds = [bound for bound, _ in summary(times)["histogram"]]
    assert all(upper <= lower * 1.2 for lower, upper in pairwise(bounds))


def test_a_lone_outlier_does_not_push_the_others_into_one_bucket() -> None:
    times = [2000 + each for each in range(1000)]
    histogram = summary([*times, 40_000])["histogram"]
    assert sum(count > 0 for _, count in histogram) > 4
    assert histogram[-1] == [20.0, 1]


def test_a_bound_belongs_to_its_bucket() -> None:
    assert summary([2000, 2001, 2200])["histogram"] == [[1.0, 1], [1.1, 2]]


def test_a_range_that_no_steps_cover_ends_in_one_wide_bucket() -> None:
    # 1 µs to 100 s are eight decades.
    histogram = summary([2000, *[2 * 10**11] * 3])["histogram"]
    assert len(histogram) == BUCKETS
    assert histogram[0] == [1.0, 1]
    assert histogram[-1] == [10**8, 3]


def test_a_clock_that_stood_still_is_the_first_bucket() -> None:
    assert summary([0, 0])["histogram"] == [[0.001, 2]]
