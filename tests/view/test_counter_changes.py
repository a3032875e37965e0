"""Differences of two samples: rises, wraps, resets, full counters, units and rates."""

import doctest
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counter_catalogue import Group, Meaning, Unit, meaning
from rdmadiag.facts.counters import CountedDevice, CounterFacts, CounterSet, CounterSource
from rdmadiag.view import counter_changes as change
from rdmadiag.view.counter_changes import Event, changes, difference, saturated

PORT, HW, NLDEV = CounterSource.PORT, CounterSource.HW, CounterSource.NLDEV


def sample(values, source=HW, *, seconds=100.0, identity=3, driver="mlx5_core", **more):
    """One port of mlx5_0 with one set."""
    found = CounterSet(source, "mlx5_0", 1, None, identity, seconds, values, {}, **more)
    device = CountedDevice("mlx5_0", 3, driver, ())
    return CounterFacts("boot", seconds, ("mlx5_0",), (), (device,), (found,), ())


def moved(before, after, source=HW, **options):
    (found,) = changes(sample(before, source), sample(after, source, seconds=110.0, **options))
    return found


def test_the_examples_hold():
    assert doctest.testmod(change).failed == 0


# --- widths, from drivers/infiniband/core/sysfs.c, PORT_PMA_ATTR(name, counter, width, offset)

WIDTHS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_data": 32,
    "port_rcv_data": 32,
    "port_xmit_packets": 32,
    "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}


@pytest.mark.parametrize(("name", "bits"), WIDTHS.items())
def test_a_counter_of_the_specification_has_its_width_and_stays_at_its_greatest_value(name, bits):
    what = meaning(PORT, name, None, extended=False)
    assert (what.bits, what.saturates) == (bits, True)
    greatest = 2**bits - 1
    assert difference(greatest - 2, greatest, what, 1.0) == (Event.SATURATED, 2)
    assert difference(greatest, greatest, what, 1.0) == (Event.SATURATED, 0)
    assert difference(greatest, 1, what, 1.0)[0] is Event.RESET, "it never wraps"


@pytest.mark.parametrize("name", ["port_xmit_data", "port_rcv_packets"])
def test_with_extended_counters_traffic_has_64_bits_and_is_never_full(name):
    what = meaning(PORT, name, None, extended=True)
    assert (what.bits, what.saturates) == (64, False)
    assert difference(0, 2**32 - 1, what, 1.0) == (Event.ROSE, 2**32 - 1)


def test_extended_counters_are_known_by_their_names_or_by_a_value_that_32_bits_cannot_hold():
    full = 2**32 - 1
    narrow = moved({"port_xmit_data": 5}, {"port_xmit_data": full}, PORT)
    named = moved(
        {"port_xmit_data": 5, "unicast_xmit_packets": 0},
        {"port_xmit_data": full, "unicast_xmit_packets": 0},
        PORT,
    )
    large = moved({"port_xmit_data": full}, {"port_xmit_data": 2**33}, PORT)
    assert [each.event for each in (narrow, named, large)] == [
        Event.SATURATED,
        Event.ROSE,
        Event.ROSE,
    ]


@pytest.mark.parametrize(
    ("driver", "name", "bits"),
    [
        ("mlx5_core", "out_of_sequence", 32),
        ("mlx5_core", "vport_out_of_buffer", 32),
        ("mlx5_core", "np_cnp_sent", 64),
        ("mlx5_core", "rx_icrc_encapsulated", 64),
        ("bnxt_en", "out_of_sequence", 64),
        (None, "out_of_sequence", 64),
    ],
)
def test_queue_counters_of_mlx5_have_32_bits_and_wrap(driver, name, bits):
    assert meaning(HW, name, driver, extended=False).bits == bits


# --- wraps and resets --------------------------------------------------------------------


def test_a_counter_of_32_bits_that_wraps_has_its_rise():
    found = moved({"out_of_sequence": 2**32 - 3}, {"out_of_sequence": 4})
    assert (found.event, found.difference, found.per_second) == (Event.WRAPPED, 7, 0.7)


def test_a_counter_of_64_bits_wraps_only_from_near_its_end():
    what = meaning(CounterSource.NETDEV, "rx_bytes", None, extended=False)
    assert difference(2**64 - 10, 10, what, 1.0) == (Event.WRAPPED, 20)
    event, rise = difference(10**15, 5, what, 1.0)
    assert event is Event.RESET
    assert isinstance(rise, Missing)


def test_a_smaller_counter_that_no_port_could_have_wrapped_so_fast_was_reset():
    found = moved({"out_of_sequence": 1000}, {"out_of_sequence": 5})
    assert found.event is Event.RESET
    assert isinstance(found.difference, Missing)
    assert isinstance(found.per_second, Missing)
    assert found.rise == 0


@pytest.mark.parametrize(
    ("name", "event"), [("out_of_sequence", Event.RESET), ("rx_write_requests", Event.WRAPPED)]
)
def test_an_error_counter_far_from_its_end_was_rather_reset(name, event):
    what = meaning(HW, name, "mlx5_core", extended=False)
    assert difference(3_000_000_000, 10, what, 86_400.0)[0] is event


def test_without_a_clock_a_smaller_counter_is_a_reset():
    what = Meaning(Group.OTHER, Unit.EVENTS, bits=32)
    assert difference(2**32 - 1, 0, what, Missing(Why.ABSENT))[0] is Event.RESET


def test_a_device_that_was_made_anew_was_reset_even_where_its_counters_are_larger():
    before = sample({"out_of_sequence": 10}, identity=3)
    after = sample({"out_of_sequence": 900}, identity=4, seconds=110.0)
    (found,) = changes(before, after)
    assert (found.event, found.after) == (Event.RESET, 900)
    assert isinstance(found.difference, Missing)


def test_where_the_number_of_a_device_is_not_known_it_is_taken_for_the_same():
    (found,) = changes(
        sample({"out_of_sequence": 10}, identity=None),
        sample({"out_of_sequence": 12}, identity=4, seconds=110.0),
    )
    assert found.difference == 2


def test_a_gauge_goes_down_without_a_reset():
    found = moved({"active_qps": 7}, {"active_qps": 5})
    assert (found.event, found.difference, found.rise) == (Event.FELL, -2, 0)


def test_a_driver_that_keeps_more_bits_than_the_specification_is_believed():
    found = moved({"symbol_error": 70_000}, {"symbol_error": 70_010}, PORT)
    assert (found.event, found.difference) == (Event.ROSE, 10)


@given(
    before=st.integers(0, 2**64 - 1),
    after=st.integers(0, 2**64 - 1),
    bits=st.sampled_from((4, 8, 16, 32, 64)),
    saturates=st.booleans(),
    seconds=st.floats(0, 1e9) | st.just(Missing(Why.ABSENT)),
    group=st.sampled_from(Group),
    unit=st.sampled_from(Unit),
)
def test_no_two_values_give_a_negative_or_an_impossible_rise(
    before, after, bits, saturates, seconds, group, unit
):
    what = Meaning(group, unit, 1, bits, saturates)
    event, rise = difference(before, after, what, seconds)
    assert isinstance(rise, Missing) == (event is Event.RESET)
    if group is not Group.GAUGE and not isinstance(rise, Missing):
        assert 0 <= rise < 2**64
        if after < before and event is not Event.SATURATED:
            assert event is Event.WRAPPED
            assert rise < 2**63
    assert (event is Event.STEADY) <= (before == after)


# --- units, rates, and what is left out ----------------------------------------------------


def test_data_is_counted_in_words_of_4_bytes():
    found = moved({"port_rcv_data": 0}, {"port_rcv_data": 250}, PORT)
    assert (found.difference, found.amount, found.unit) == (250, 1000, Unit.BYTES)
    assert (found.seconds, found.per_second) == (10.0, 100.0)


def test_what_stands_still_is_left_out_unless_asked_for():
    before, after = sample({"a": 1, "b": 2}), sample({"a": 1, "b": 3}, seconds=110.0)
    assert [each.name for each in changes(before, after)] == ["b"]
    assert [each.name for each in changes(before, after, steady=True)] == ["a", "b"]


def test_a_full_counter_that_stands_still_is_saturated():
    before, after = sample({"link_downed": 255}, PORT), sample({"link_downed": 255}, PORT)
    assert [each.event for each in changes(before, after)] == [Event.SATURATED]
    assert [name for _, name in saturated(after)] == ["link_downed"]


def test_a_counter_of_one_sample_alone_has_no_rise():
    before, after = sample({"old": 4}), sample({"new": 9}, seconds=110.0)
    found = {each.name: (each.event, each.rise) for each in changes(before, after)}
    assert found == {"new": (Event.APPEARED, 0), "old": (Event.GONE, 0)}


def test_a_set_that_one_sample_could_not_read_gives_nothing():
    refused = sample(Missing(Why.UNSUPPORTED, "EINVAL"))
    assert list(changes(refused, sample({"a": 5}))) == []
    assert list(changes(sample({"a": 5}), refused)) == []


def test_the_second_witness_is_left_out_where_sysfs_shows_the_counter():
    def both(value, seconds):
        one = sample({"out_of_sequence": value}, seconds=seconds)
        other = replace(
            one.sets[0], source=NLDEV, values={"out_of_sequence": value, "extra": value}
        )
        return replace(one, sets=(*one.sets, other))

    found = [(each.source, each.name) for each in changes(both(1, 100.0), both(2, 110.0))]
    assert found == [(HW, "out_of_sequence"), (NLDEV, "extra")]


def test_samples_at_the_same_moment_have_no_rate():
    (found,) = changes(sample({"a": 1}), sample({"a": 2}))
    assert found.difference == 1
    assert isinstance(found.per_second, Missing)
