"""What happened before a moment, and whether it was watched all that time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.watch.event import Action, Event, Happened, Kind, Source, utc
from rdmadiag.watch.ring import Torn
from rdmadiag.watch.span import last_time, span


def event(number, time, kind=Kind.LINK, action=Action.CHANGED, **details):
    source = Source.WATCH if kind is Kind.WATCH else Source.ROUTE
    return Event(number, time, Happened(source, kind, action, "eth0", details, {}))


def began(time, **details):
    return event(1, time, Kind.WATCH, Action.BEGAN, **details)


def ended(number, time):
    return event(number, time, Kind.WATCH, Action.ENDED)


HEALTHY = [began(100.0), event(2, 110.0), event(3, 120.0), ended(4, 200.0)]
UNWATCHED = "it was not watched all that time"


def test_a_run_that_covers_it_leaves_nothing_unknown():
    found = span(HEALTHY, None, 105.0, 115.0)
    assert [each.number for each in found.events] == [2]
    assert (found.unknown, found.unheard) == ((), ())


@pytest.mark.parametrize(
    ("begin", "end"),
    [(90.0, 115.0), (150.0, 250.0), (300.0, 310.0)],
    ids=["early", "late", "after"],
)
def test_what_a_run_does_not_cover_is_unknown(begin, end):
    assert span(HEALTHY, None, begin, end).unknown == (UNWATCHED,)


def test_a_run_that_was_killed_has_watched_until_its_last_sign_of_life():
    killed = HEALTHY[:-1]
    alive = event(3, 180.0, Kind.WATCH, Action.NOTIFIED)
    assert span(killed, alive, 130.0, 175.0).unknown == ()
    assert span(killed, alive, 130.0, 190.0).unknown == (UNWATCHED,)
    assert span(killed, None, 130.0, 175.0).unknown == (UNWATCHED,)


def test_the_next_run_knows_until_when_the_one_before_it_watched():
    runs = [*HEALTHY[:-1], began(300.0, last_alive=utc(180.0)), ended(2, 400.0)]
    assert span(runs, None, 150.0, 175.0).unknown == ()
    assert span(runs, None, 150.0, 310.0).unknown == (UNWATCHED,)
    assert span(runs, None, 300.0, 310.0).unknown == ()


def test_a_loss_of_that_time_is_unknown_and_one_of_another_is_not():
    loss = event(3, 120.0, Kind.LOSS, Action.LOST, why="ENOBUFS")
    events = [*HEALTHY[:2], loss, HEALTHY[3]]
    assert span(events, None, 115.0, 125.0).unknown == ("eth0: ENOBUFS",)
    assert span(events, None, 105.0, 115.0).unknown == ()


def test_numbers_that_are_not_there_are_counted():
    gap = [*HEALTHY[:2], event(9, 120.0), ended(10, 200.0)]
    assert span(gap, None, 105.0, 130.0).unknown == ("6 events are no longer in the ring",)
    assert span(gap, None, 125.0, 130.0).unknown == ()


def test_a_torn_record_counts_where_it_stands():
    torn = [*HEALTHY[:2], Torn.NOT_WHOLE, Torn.NOT_WHOLE, *HEALTHY[2:]]
    assert span(torn, None, 105.0, 130.0).unknown == (f"{Torn.NOT_WHOLE.value} (2 times)",)
    assert span(torn, None, 125.0, 130.0).unknown == ()
    assert Torn.STRANGE.value in span([Torn.STRANGE, *HEALTHY], None, 90.0, 99.0).unknown


def test_sources_that_were_not_listened_to_are_those_of_that_run():
    runs = [
        began(100.0, unheard_rdma="unsupported: old"),
        ended(2, 200.0),
        began(300.0, unheard_devlink="x"),
    ]
    assert span(runs, None, 110.0, 120.0).unheard == ("rdma: unsupported: old",)
    assert span(runs, None, 290.0, 310.0).unheard == ("devlink: x",)


def test_a_ring_that_has_lost_its_beginning_asks_its_last_sign_of_life():
    alive = event(3, 180.0, Kind.WATCH, Action.NOTIFIED, unheard_rdma="old")
    found = span(HEALTHY[1:3], alive, 111.0, 170.0)
    assert (found.unknown, found.unheard) == ((), ("rdma: old",))
    assert span([], alive, 180.0, 180.0).unknown == ()


def test_a_clock_that_was_set_back_keeps_the_order_of_one_moment():
    events = [began(100.0), event(2, 120.0), event(3, 110.0), event(4, 110.0), ended(5, 200.0)]
    assert [each.number for each in span(events, None, 105.0, 150.0).events] == [3, 4, 2]


def test_the_last_time_is_that_of_an_event_or_of_the_last_sign_of_life():
    assert last_time(HEALTHY, None) == 200.0
    assert last_time([], event(1, 7.0)) == 7.0
    assert last_time([Torn.STRANGE], None) is None


@given(
    st.lists(st.tuples(st.sampled_from("beXo"), st.integers(0, 50)), max_size=12),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_whatever_is_in_it_nothing_of_another_time_is_told(rows, begin, length):
    made = {"b": began, "e": lambda time: ended(9, time), "o": lambda time: event(5, time)}
    events = [Torn.NOT_WHOLE if word == "X" else made[word](float(time)) for word, time in rows]
    found = span(events, None, float(begin), float(begin + length))
    assert all(begin <= each.time <= begin + length for each in found.events)
    if not any(isinstance(each, Event) and each.time <= begin for each in events) and length:
        assert UNWATCHED in found.unknown
