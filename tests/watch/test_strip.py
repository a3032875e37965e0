"""Counters over time as blocks."""

from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.watch.strip import BLOCKS, SAMPLES, Strip, drawn


def strip(*samples):
    made = Strip()
    for seconds, value in samples:
        made.add(float(seconds), value)
    return list(made.paces)


def test_the_first_sample_gives_no_pace_and_the_second_its_difference_a_second():
    assert strip((0, 10)) == []
    assert strip((0, 10), (5, 60)) == [10.0]


def test_a_counter_that_fell_or_could_not_be_read_has_no_pace_then():
    assert strip((0, 10), (5, 3), (10, 13)) == [None, 2.0]
    assert strip((0, 10), (5, None), (10, 13), (15, 18)) == [None, None, 1.0]
    assert strip((5, 10), (5, 20)) == [None]


def test_the_highest_is_full_and_something_is_never_drawn_as_nothing():
    assert drawn([0.0, 1.0, 1000.0, None], 10) == " ▁█?"
    assert drawn([0.0, 0.0], 10) == "  "
    assert drawn([], 10) == drawn([1.0], 0) == ""


@given(st.lists(st.none() | st.floats(0, 1e18), max_size=100), st.integers(0, 80))
def test_a_strip_is_as_wide_as_it_has_samples_and_room(paces, width):
    found = drawn(paces, width)
    assert len(found) == min(len(paces), width)
    assert set(found) <= set(BLOCKS) | {"?"}


@given(st.lists(st.none() | st.integers(0, 2**64), max_size=100))
def test_no_more_samples_are_kept_than_there_are_cells(values):
    assert len(strip(*enumerate(values))) <= SAMPLES
