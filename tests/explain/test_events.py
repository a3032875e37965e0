"""Asynchronous events: each by name and number, in a log by name or by libibverbs's text."""

import ctypes
import ctypes.util

import pytest

from rdmadiag.explain.answers import ConstantAnswer
from rdmadiag.explain.events import EVENTS
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.recognise import recognise
from rdmadiag.explain.lookup import lookup
from rdmadiag.facts.events import AsyncEvent

FAILURES = {
    *("CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "PATH_MIG_ERR", "DEVICE_FATAL"),
    *("PORT_ERR", "SRQ_ERR", "GID_CHANGE", "WQ_FATAL"),
}
"""What ends a connection, or can: NCCL and UCX print them as warnings and errors."""


def test_every_event_has_its_sentences() -> None:
    assert list(EVENTS) == list(AsyncEvent)
    assert [each.number for each in AsyncEvent] == list(range(len(AsyncEvent)))


def test_the_texts_are_those_of_libibverbs() -> None:
    try:
        library = ctypes.CDLL("libibverbs.so.1")
    except OSError:
        pytest.skip("no libibverbs.so.1")
    library.ibv_event_type_str.restype = ctypes.c_char_p
    said = {each: library.ibv_event_type_str(each.number).decode() for each in AsyncEvent}
    known = {each: text for each, text in said.items() if text != "unknown"}
    assert {each: each.text for each in known} == known
    assert len(known) >= 19


@pytest.mark.parametrize("event", AsyncEvent, ids=lambda each: each.constant)
def test_an_event_is_explained_with_what_it_does(event: AsyncEvent) -> None:
    (answer,) = lookup([event.constant], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert (answer.number, answer.of) == (event.number, "enum ibv_event_type")
    assert answer.meaning
    assert answer.effect
    assert bool(answer.causes) == (event.name in FAILURES or event.name in FABRIC)


FABRIC = {"LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "CLIENT_REREGISTER"}


@pytest.mark.parametrize(
    "line",
    [
        "gpu7:1:2 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : mlx5_0:1 Got async event : {text}",
        "[1690012207.8 ] [n1:9:a] ib_device.c:475  UCX  WARN  IB Async event on mlx5_0: {text}",
        "W1010 01:02:03 99 rdma_context.cpp:700] Received context async event {constant} on mlx5_0",
    ],
    ids=["NCCL", "UCX", "Mooncake"],
)
@pytest.mark.parametrize("event", AsyncEvent, ids=lambda each: each.constant)
def test_an_event_in_a_log_is_a_failure_or_a_note(event: AsyncEvent, line: str) -> None:
    meaning = recognise(line.format(text=event.text, constant=event.constant).encode())
    assert meaning is not None
    assert meaning.kind is (Kind.FAILURE if event.name in FAILURES else Kind.NOTE)
    assert meaning.fields.device == "mlx5_0"


def test_an_event_that_is_newer_than_the_table_has_no_name() -> None:
    assert AsyncEvent.from_number(99) is None
    assert AsyncEvent.from_number(7) is AsyncEvent.PATH_MIG_ERR
