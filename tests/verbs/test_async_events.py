"""Asynchronous events: read where there are any, and never waited for."""

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import pytest

from rdmadiag.facts.events import AsyncEvent
from rdmadiag.verbs.abi import IbvQp
from rdmadiag.verbs.async_events import MOST, AsyncEvents
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.records import AsyncEventCame, EndName, encode, parse


class Opened:
    """A context whose events are bytes in a pipe."""

    device = "mlx5_0"

    def __init__(self, *events: tuple[int, int], fails: bool = False) -> None:
        self.async_fd, self._far = os.pipe()
        os.write(self._far, bytes(len(events)))
        self._events = iter(events)
        self._fails = fails
        self.calls = 0

    def async_event_of(self) -> tuple[int, int] | None:
        self.calls += 1
        if self._fails:
            raise CallFailed("ibv_get_async_event", 5)
        os.read(self.async_fd, 1)
        return next(self._events, None)

    def close(self) -> None:
        os.close(self.async_fd)
        os.close(self._far)


@pytest.fixture
def opened() -> Iterator[Any]:
    made: list[Opened] = []

    def opening(*events: tuple[int, int], **options: Any) -> Opened:
        made.append(Opened(*events, **options))
        return made[-1]

    yield opening
    for each in made:
        each.close()


def reading(context: Any) -> tuple[AsyncEvents, list[Any]]:
    written: list[Any] = []
    return AsyncEvents(context, EndName.LOCAL, written.append), written


def test_each_event_is_written_down_with_what_it_is_of(opened: Any) -> None:
    pair = IbvQp(qp_num=0x1234)
    of_pair = AsyncEvent.QP_FATAL.number, ctypes.addressof(pair)
    # A union: of the port's int the upper half may hold anything.
    of_port = AsyncEvent.PORT_ERR.number, 0xFFFF_0000_0000_0002
    events, written = reading(opened(of_pair, of_port, (AsyncEvent.SRQ_ERR.number, 0x7F00)))
    assert events.take() == (1, 10, 14)
    assert [(each.number, each.port, each.queue_pair) for each in written] == [
        (1, None, 0x1234),
        (10, 2, None),
        (14, None, None),
    ]
    assert all(parse(encode(each)) == each for each in written)


def test_without_an_event_the_library_is_not_called(opened: Any) -> None:
    context = opened()
    events, written = reading(context)
    assert (events.take(), written, context.calls) == ((), [], 0)


@pytest.mark.parametrize("descriptor", [-1, 10**6], ids=["none", "one that is not open"])
def test_a_device_without_a_descriptor_has_no_events(descriptor: int, opened: Any) -> None:
    context = opened((9, 1))
    kept, context.async_fd = context.async_fd, descriptor
    assert reading(context)[0].take() == ()
    context.async_fd = kept


def test_events_without_end_are_left_alone(opened: Any) -> None:
    events, written = reading(opened(*[(9, 1)] * (MOST + 5)))
    assert len(events.take()) == MOST
    assert (events.take(), len(written)) == ((), MOST)


def test_a_library_that_cannot_say_ends_nothing(opened: Any) -> None:
    events, written = reading(opened((9, 1), fails=True))
    events.drain()
    assert written == []
    with pytest.raises(CallFailed):
        events.take()


def test_a_record_is_read_as_it_was_written() -> None:
    came = AsyncEventCame(
        end=EndName.REMOTE, device="mlx5_0", number=5, port=None, queue_pair=7, at=0.25
    )
    assert parse(encode(came)) == came
