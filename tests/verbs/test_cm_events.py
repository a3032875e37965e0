"""Events of the connection manager, sorted by what they are of."""

from types import SimpleNamespace
from typing import Any

from rdmadiag.facts.attempt import Outcome, Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.verbs.cm_child import Attempt
from rdmadiag.verbs.cm_events import Events
from rdmadiag.verbs.cm_objects import Event
from rdmadiag.verbs.lib import CallFailed

ADDRESS = 0x5000


def events(*numbers: int) -> Events:
    """Of one identifier."""
    left = [Event(ADDRESS, 0, each, 0, b"") for each in numbers]
    channel: Any = SimpleNamespace(fd=0, event=lambda get: left.pop(0) if left else None)
    none: Any = None
    return Events(channel, none, none, none)


def test_events_of_an_identifier_that_was_destroyed_are_none_of_the_next_at_its_address() -> None:
    identifier: Any = SimpleNamespace(address=ADDRESS)
    found = events(CmEvent.ESTABLISHED.number, CmEvent.DISCONNECTED.number)
    came = found.next(identifier)
    assert came
    assert came.number == CmEvent.ESTABLISHED.number
    found.forget(identifier)
    assert (found.next(identifier), found.fatal(identifier)) == (None, None)


def test_a_channel_that_fails_is_a_call_that_failed() -> None:
    attempt: Any = SimpleNamespace(_steps=SimpleNamespace(stage=Stage.ESTABLISH))
    found = Attempt._outcome(attempt, CallFailed("rdma_get_cm_event", 5))
    assert found
    assert (found.outcome, found.stage) == (Outcome.CALL_FAILED, Stage.ESTABLISH)
    assert (found.call, found.errno) == ("rdma_get_cm_event", 5)


def test_a_flood_of_events_ends_neither_a_look_nor_the_deadline() -> None:
    channel: Any = SimpleNamespace(
        fd=0, event=lambda get: Event(1, ADDRESS, CmEvent.CONNECT_REQUEST.number, 0, b"")
    )
    none: Any = None
    found = Events(channel, none, none, none)
    assert found.next(SimpleNamespace(address=ADDRESS))  # type: ignore[arg-type]
