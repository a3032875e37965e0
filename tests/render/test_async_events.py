"""Asynchronous events in words: one line a kind and device."""

from rdmadiag.facts.attempt import SeenEvent
from rdmadiag.render.async_events import event_lines

LOST = SeenEvent("local", "mlx5_0", 10, "IBV_EVENT_PORT_ERR", 1, None, 0.5, "Its link was lost.")
DRAINED = SeenEvent("local", "mlx5_0", 5, "IBV_EVENT_SQ_DRAINED", None, 77, 0.7, "It has drained.")
NEWER = SeenEvent("remote", "mlx5_1", 99, None, None, None, 0.9, None)


def test_an_event_is_named_with_its_port_and_what_it_means() -> None:
    assert list(event_lines([LOST])) == ["IBV_EVENT_PORT_ERR at mlx5_0/1: Its link was lost."]


def test_events_of_one_kind_are_one_line_in_the_order_of_the_first() -> None:
    assert list(event_lines([DRAINED, LOST, DRAINED])) == [
        "IBV_EVENT_SQ_DRAINED at mlx5_0 2 times: It has drained.",
        "IBV_EVENT_PORT_ERR at mlx5_0/1: Its link was lost.",
    ]


def test_an_event_that_no_table_has_keeps_its_number() -> None:
    assert list(event_lines([NEWER])) == [
        "asynchronous event 99 at mlx5_1: newer than rdmadiag",
    ]


def test_without_events_there_is_nothing_to_say() -> None:
    assert list(event_lines([])) == []
