"""The ring's records: whole or none, wherever they are torn, whatever is between them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.watch import ring
from rdmadiag.watch.event import (
    Action,
    Event,
    Happened,
    Kind,
    Source,
    event_of,
    members,
    seconds_of,
    utc,
)
from rdmadiag.watch.ring import Torn, decode, encode, last_event

values = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text(max_size=20)
happened = st.builds(
    Happened,
    st.sampled_from(Source),
    st.sampled_from(Kind),
    st.sampled_from(Action),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=8), values, max_size=4),
    st.dictionaries(st.text(max_size=8), values, max_size=2),
)
events = st.builds(Event, st.integers(0, 2**53), st.integers(0, 4 * 10**9).map(float), happened)


@given(st.lists(events, max_size=5), st.integers(1, 3))
def test_what_was_written_is_read_back(written, files):
    split = [b"".join(map(encode, written[at::files])) for at in range(files)]
    assert list(decode(split)) == [each for at in range(files) for each in written[at::files]]


@given(st.lists(events, min_size=1, max_size=4), st.data())
def test_torn_at_any_byte_what_was_before_is_whole(written, data):
    records = list(map(encode, written))
    whole = b"".join(records)
    cut = data.draw(st.integers(0, len(whole) - 1))
    found = list(decode([whole[:cut], encode(written[0])]))
    complete = 0
    while sum(map(len, records[: complete + 1])) <= cut:
        complete += 1
    left = cut - sum(map(len, records[:complete]))
    torn = [Torn.NOT_WHOLE] if left else []
    assert found == [*written[:complete], *torn, written[0]]


@given(st.lists(events, min_size=3, max_size=3), st.data())
def test_a_byte_that_changed_costs_its_own_record_alone(written, data):
    records = list(map(encode, written))
    at = data.draw(st.integers(0, len(records[1]) - 1))
    bad = bytearray(records[1])
    bad[at] ^= data.draw(st.integers(1, 255))
    found = list(decode([records[0] + bytes(bad) + records[2]]))
    assert found == [written[0], Torn.NOT_WHOLE, written[2]]


@given(st.binary(max_size=300))
def test_any_bytes_are_records_or_torn(raw):
    assert all(isinstance(each, Event | Torn) for each in decode([raw]))


def test_a_record_in_a_line_of_the_log_is_no_record():
    """A process may write anything to the kernel's log."""
    forged = encode(Event(9, 0.0, Happened(Source.RDMA, Kind.DEVICE, Action.REMOVED, "x", {}, {})))
    line = {"line": forged.decode("latin-1")}
    event = Event(1, 0.0, Happened(Source.KERNEL, Kind.LINE, Action.LOGGED, "kernel", line, {}))
    assert list(decode([encode(event)[3:]])) == [Torn.NOT_WHOLE]


@pytest.mark.parametrize(
    "line",
    [b"[]\n", b"{}\n", b"nonsense\n", b"[" * 50_000, b'{"number":1}\n', b"\xff\n"],
    ids=["a list", "empty", "no JSON", "deep", "half", "no text"],
)
def test_a_whole_record_of_another_form_is_strange(line):
    assert list(decode([ring.encode_line(line)])) == [Torn.STRANGE]


@pytest.mark.parametrize(
    "change",
    [
        {"source": "martian"},
        {"number": True},
        {"number": -1},
        {"time": 3},
        {"time": "yesterday"},
        {"subject": None},
        {"details": []},
        {"details": {"a": 1.5}},
        {"before": {"a": []}},
    ],
    ids=str,
)
def test_an_event_of_other_types_is_none(change):
    event = Event(1, 5.0, Happened(Source.RDMA, Kind.DEVICE, Action.ADDED, "rxe0", {}, {}))
    good = json.loads(json.dumps(members(event)))
    assert event_of(good) == event
    with pytest.raises(ValueError, match=r".+"):
        event_of(good | change)


def test_a_length_beyond_all_is_no_record():
    huge = ring._HEAD.pack(ring.MARK, ring.LONGEST + 1, 0)
    assert list(decode([huge + bytes(100)])) == [Torn.NOT_WHOLE]


def test_the_one_event_of_a_file_filled_up_with_zeros():
    event = Event(3, 7.0, Happened(Source.WATCH, Kind.WATCH, Action.NOTIFIED, "h", {}, {}))
    assert last_event(encode(event).ljust(1024, b"\0")) == event
    assert last_event(b"") is None
    assert last_event(encode(event)[:-2]) is None


@given(st.floats(0, 4e9))
def test_a_time_is_read_back_to_its_microsecond(seconds):
    assert seconds_of(utc(seconds)) == pytest.approx(seconds, abs=2e-6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("60", 60.0),
    ],
)
def test_times_that_a_person_writes(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "1e99", "0001-01-01T00:00:00+23:00"])
def test_times_that_are_none(text):
    with pytest.raises(ValueError, match=r".+"):
        seconds_of(text)
