"""A ring of watch with pseudonyms: no name in it, and what happened then is told as before."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.redact.ring import redact_ring
from rdmadiag.watch.event import Action, Event, Happened, Kind, Source
from rdmadiag.watch.ring import Torn, decode, encode, encode_line, last_event
from rdmadiag.watch.span import span

KEY = bytes(range(32))
NAMES = (
    *("node7", "example", "10.1.2.3", "10.1.2.9", "0c:42:a1:03:00:01", "alice", "node8"),
    *("a1ff:fe03:1", "fe03:0001", "198.18.7.1"),
)


def event(number, source, kind, action, subject, before=None, **details):
    return Event(
        number, 100.0 + number, Happened(source, kind, action, subject, details, before or {})
    )


BEGAN = event(1, Source.WATCH, Kind.WATCH, Action.BEGAN, "node7.example.net", heard="route")
ALIVE = event(9, Source.WATCH, Kind.WATCH, Action.NOTIFIED, "node7.example.net")
ADDED = event(2, Source.ROUTE, Kind.ADDRESS, Action.ADDED, "10.1.2.3/24", netdev="eth0")
DOWN = event(
    3,
    Source.ROUTE,
    Kind.LINK,
    Action.CHANGED,
    "eth0",
    {"carrier": True},
    mac="0c:42:a1:03:00:01",
    carrier=False,
)
LINE = event(
    4,
    Source.KERNEL,
    Kind.LINE,
    Action.LOGGED,
    "kernel",
    line="nfs: node7: server 10.1.2.9 of alice@node8, GID fe80::0e42:a1ff:fe03:0001",
)
ROUTED = event(
    5,
    Source.ROUTE,
    Kind.ROUTE,
    Action.ADDED,
    "198.18.7.0/24",
    gateway="10.1.2.3",
    prefsrc="198.18.7.1",
)
EVENTS = (BEGAN, ADDED, DOWN, LINE, ROUTED)


def redacted(*contents, alive=ALIVE):
    return redact_ring(contents, encode(alive).ljust(1024, b"\0") if alive else b"", KEY)


def read(made):
    return list(decode(made.files))


def test_no_name_is_in_it_and_everything_else_is() -> None:
    made = redacted(*map(encode, EVENTS))
    whole = b"".join((*made.files, made.alive)).decode("latin-1")
    assert [name for name in NAMES if name in whole] == []
    found = read(made)
    assert [(each.number, each.time) for each in found] == [(e.number, e.time) for e in EVENTS]
    for old, new in zip(EVENTS, found, strict=True):
        assert new.happened.kind is old.happened.kind
        assert new.happened.details.keys() == old.happened.details.keys()
    assert found[2].happened.subject == "eth0"
    assert found[2].happened.details["carrier"] is False
    assert made.events == len(EVENTS)
    assert made.manifest["left_out"] == []


def test_what_is_equal_stays_equal() -> None:
    began, added, down, line, routed = read(redacted(*map(encode, EVENTS)))
    assert routed.happened.details["gateway"] == added.happened.subject.partition("/")[0]
    assert began.happened.subject.split(".")[0] in line.happened.details["line"]
    octets = bytes.fromhex(down.happened.details["mac"].replace(":", ""))
    derived = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:])).hex()
    groups = [int(derived[at : at + 4], 16) for at in range(0, 16, 4)]
    assert "fe80::" + ":".join(f"{each:x}" for each in groups) in line.happened.details["line"]


def test_the_last_sign_of_life_is_of_the_same_host() -> None:
    made = redacted(encode(BEGAN))
    last = last_event(made.alive)
    assert last is not None
    assert (last.number, last.happened.subject) == (9, read(made)[0].happened.subject)
    assert redacted(encode(BEGAN), alive=None).alive == b""


def test_what_was_no_event_is_none_in_its_place() -> None:
    made = redacted(
        encode(BEGAN) + b"half of a rec", encode(ADDED) + encode_line(b"[]") + encode(DOWN)
    )
    assert [type(each) if isinstance(each, Event) else each for each in read(made)] == [
        *(Event, Torn.NOT_WHOLE, Event, Torn.STRANGE, Event),
    ]
    (left_out,) = made.manifest["left_out"]
    assert left_out.endswith(": 2")


TIMES = st.lists(st.sampled_from([*EVENTS, None]), max_size=8)


@given(TIMES, st.integers(100, 106), st.integers(0, 6))
def test_what_is_known_of_a_time_is_the_same(chosen, begin, long) -> None:
    content = b"".join(b"torn" if each is None else encode(each) for each in chosen)
    made = redacted(content)
    old = span(decode((content,)), ALIVE, begin, begin + long)
    new = span(decode(made.files), last_event(made.alive), begin, begin + long)
    assert new.unknown == old.unknown
    assert [each.number for each in new.events] == [each.number for each in old.events]


@pytest.mark.parametrize("content", [b"", b"\x9fRW1", b"no ring", json.dumps({}).encode()])
def test_of_any_file_something_comes(content: bytes) -> None:
    assert redacted(content).events == 0
