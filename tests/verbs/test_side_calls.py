"""What may be asked of another host's side: each call within its bounds, and nothing else."""

import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.exercise import CellState, Operation, Via, Wanted
from rdmadiag.facts.ib import QpState
from rdmadiag.verbs import side_calls
from rdmadiag.verbs.cm_side import CmSide
from rdmadiag.verbs.matrix import wanted
from rdmadiag.verbs.protocol import MESSAGE_LIMIT, ProtocolError, frame
from rdmadiag.verbs.side import Side
from rdmadiag.verbs.side_calls import (
    BY_HAND,
    CELLS_MOST,
    CM_VOCABULARY,
    SESSION,
    VOCABULARY,
    Ended,
    Managed,
    Refused,
    answer,
    call,
    cells_message,
    read_answer,
    read_call,
    read_cells,
    read_managed,
    refusal,
    unconnected,
)
from rdmadiag.verbs.work import AREA, MEMORY, Completed, NotConnected, Target, Work

CELL = Wanted(Operation.WRITE, "rc", Via.POLL)
TARGET = Target((1 << 64) - 1, (1 << 32) - 1)
WORK = Work(0, ((0, 256), (AREA, 1)), 2, 7, TARGET)
ATOMIC = Work(5, ((0, 8),), 2, 0, TARGET, (1, (1 << 64) - 1))
EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("begin", {"cell": CELL}),
    (
        "conclude",
        {"ended": Ended(CellState.REFUSED, Stage.RTR, "x", "ibv_modify_qp", 22, None, 0, True)},
    ),
    ("over", {}),
    ("open", {}),
    ("to_rtr", {"remote": (17, 0)}),
    ("end", {"after": QpState.ERR}),
    ("write", {"offset": MEMORY - 3, "content": b"abc"}),
    ("read", {"offset": 0, "length": MEMORY}),
    ("receives", {"buffers": (((0, 5),), ())}),
    ("post", {"works": (WORK, ATOMIC)}),
    ("arm", {"solicited_only": True}),
    ("event", {"seconds": 0.5}),
]


def test_there_is_a_row_for_each_public_method_of_a_side_and_for_nothing_else() -> None:
    # `stage` goes with every call; frames of a peer's making are none that this host sends.
    methods = {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in inspect.getmembers(Side, inspect.isfunction)
        if not name.startswith("_") and name not in ("stage", "steer", "unsteer")
    }
    assert {name: list(row.arguments) for name, row in VOCABULARY.items()} == methods
    assert not VOCABULARY.keys() & SESSION.keys()


def test_and_one_for_what_the_end_that_listens_does_to_be_connected() -> None:
    driven = {"requested", "accept", "established"}
    assert set(CM_VOCABULARY) == driven
    assert all(inspect.isfunction(getattr(CmSide, each)) for each in driven)
    assert VOCABULARY.keys() > BY_HAND


@pytest.mark.parametrize(
    ("value", "listens"),
    [
        ({}, True),
        ({}, False),
        ({"run": "00" * 15}, False),
        ({"run": ["00" * 16]}, False),
        ({"address": "192.0.2.1", "port": 0}, True),
        ({"address": "192.0.2.1", "port": True}, True),
        ({"address": "host.example", "port": 1}, True),
        ({"address": "0.0.0.0", "port": 1}, True),  # which is what it refuses
        ({"address": "ff02::1", "port": 1}, True),
        ({"address": 7, "port": 1}, True),
    ],
)
def test_what_a_peer_says_of_its_manager_is_within_bounds(value: Any, listens: bool) -> None:
    with pytest.raises(ProtocolError):
        read_managed(value, listens=listens)


def test_what_each_end_says_of_its_manager_is_read_as_it_was_said() -> None:
    said = Managed(bytes(range(16)), "192.0.2.1", 40001)
    message = json.loads(json.dumps(said.message()))
    assert read_managed(message, listens=True) == Managed(b"", "192.0.2.1", 40001)
    assert read_managed(message, listens=False) == Managed(bytes(range(16)))


def test_an_event_that_did_not_come_is_no_answer() -> None:
    with pytest.raises(NotConnected, match="no RDMA_CM_EVENT_ESTABLISHED"):
        read_answer("established", unconnected("no RDMA_CM_EVENT_ESTABLISHED came"))


@pytest.mark.parametrize(("name", "arguments"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_a_call_is_read_as_it_was_made(name: str, arguments: dict[str, Any]) -> None:
    message = json.loads(json.dumps(call(name, Stage.DATA, arguments)))
    assert read_call(message) == (name, Stage.DATA, arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("open", 17),
        ("read", bytes(MEMORY)),
        ("target", TARGET),
        ("poll", (Completed(True, 0, 296, 5, 17, 9), Completed(False, 12, vendor_error=0x81))),
        ("event", False),
        ("async_events", (15,)),
        ("close", None),
    ],
)
def test_an_answer_is_read_as_it_was_given(name: str, value: Any) -> None:
    assert read_answer(name, json.loads(json.dumps(answer(name, value)))) == value


def test_a_refusal_is_no_answer() -> None:
    refused = Refused("ibv_reg_mr", 12)
    assert read_answer("open", json.loads(json.dumps(refusal(refused)))) == refused


def test_the_largest_call_is_within_a_message() -> None:
    longest = call("write", Stage.DATA, {"offset": 0, "content": bytes(MEMORY)})
    assert len(frame({"step": "do"} | longest)) < MESSAGE_LIMIT
    every = cells_message((each, "x" * 1000) for each in wanted())
    assert len(frame({"step": "cells", "cells": every})) < MESSAGE_LIMIT


def message(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": name, "stage": "data", "arguments": arguments}


PIECE = [[0, 256]]


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"call": ["open"], "stage": "data", "arguments": {}},
        message("ibv_reg_mr"),
        message("__init__"),
        message("stage", stage="data"),
        {"call": "open", "stage": "data"},
        {"call": "open", "stage": "elsewhere", "arguments": {}},
        {"call": "open", "stage": ["data"], "arguments": {}},
        message("open", more=1),
        message("read", offset=0),
        message("read", offset=1, length=MEMORY),
        message("read", offset=-1, length=1),
        message("read", offset=True, length=1),
        message("read", offset=0.5, length=1),
        message("write", offset=MEMORY, content="00"),
        message("write", offset=0, content="0g"),
        message("write", offset=0, content=5),
        message("write", offset=0, content="00" * (MEMORY + 1)),
        message("receives", buffers=[[[MEMORY - 8, 9]]]),
        message("receives", buffers=[[[0, 8, 8]]]),
        message("receives", buffers=[[[0, 8]] * 9]),
        message("receives", buffers=[[]] * 1000),
        message("receives", buffers=[]),
        message("post", works=[]),
        message("post", works=[[2, PIECE, 2, 0, None]]),
        message("post", works=[[10, PIECE, 2, 0, None, None, None, 0]]),
        message("post", works=[[2, PIECE, 16, 0, None, None, None, 0]]),
        message("post", works=[[2, PIECE, 2, 1 << 32, None, None, None, 0]]),
        message("post", works=[[0, PIECE, 2, 0, [1 << 64, 1], None, None, 0]]),
        message("post", works=[[0, PIECE, 2, 0, [1, 1 << 32], None, None, 0]]),
        message("post", works=[[5, [[0, 8]], 2, 0, [1, 1], [1 << 64, 0], None, 0]]),
        message("to_rtr", remote=[1, 0]),
        message("to_rtr", remote=[17, 1 << 24]),
        message("to_rtr", remote=[17, 0, "::1"]),
        message("to_rts", psn=1 << 24),
        message("end", after="rts"),
        message("answer", grh=MEMORY),
        message("event", seconds=1e9),
        message("window", kind=3),
        message("bind", offset=1, length=MEMORY),
        message("join", group="ff02" + 14 * "00"),  # all nodes
        message("join", group=10 * "00" + "ffff" + "e0000001"),  # 224.0.0.1, all hosts
        message("join", group="ff12"),
        message("steer", frame="00"),
        message("event", seconds=float("nan")),
        message("resize_cq", entries=1 << 20),
        message("limit_srq", requests=-1),
        message("begin", cell=["fly", "rc", "poll"]),
        message("begin", cell=["send", "dc", "poll"]),
        message("conclude", ended=["verified", "data", "", "rm -rf /", 0, None, False]),
        message("conclude", ended=["verified", "data", "", None, 1 << 40, None, False]),
    ],
    ids=json.dumps,
)
def test_what_no_end_of_ours_says_is_a_protocol_error(sent: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        read_call(sent)


@pytest.mark.parametrize(
    "work",
    [
        Work(2, ((0, 257),), 2 | 8),
        Work(2, ((0, 256), (0, 1)), 8),
        Work(5, ((0, 16),), 2, 0, TARGET, (1, 1)),
        Work(5, ((0, 8),), 2, 0, TARGET, None),
        Work(6, ((0, 8),), 2, 0, None, (1, 1)),
        Work(0, ((0, 8),), 2, 0, TARGET, (1, 1)),
        Work(8, ()),
        Work(7, ()),
    ],
    ids=[
        "more inline data than a queue pair has",
        "the same in two pieces",
        "an atomic of 16 bytes",
        "an atomic without operands",
        "an atomic without a target",
        "operands of a WRITE",
        "a window that is not named",
        "nothing to invalidate",
    ],
)
def test_a_work_request_that_a_provider_may_rely_on_is_checked(work: Work) -> None:
    sent = json.loads(json.dumps(call("post", Stage.DATA, {"works": (work,)})))
    with pytest.raises(ProtocolError):
        read_call(sent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(st.sampled_from(sorted({**VOCABULARY, **SESSION})), st.data())
def test_any_arguments_are_within_their_bounds_or_a_protocol_error(
    name: str, data: st.DataObject
) -> None:
    names = list({**VOCABULARY, **SESSION}[name].arguments)
    given_arguments = {each: data.draw(JSON) for each in names}
    try:
        _, _, found = read_call(message(name, **given_arguments))
    except ProtocolError:
        return
    plain = call(name, Stage.DATA, found)
    assert read_call(json.loads(json.dumps(plain)))[2] == found
    for piece in (piece for each in found.get("buffers", ()) for piece in each):
        assert 0 <= piece[0] <= sum(piece) <= MEMORY


@given(
    st.sampled_from(sorted(VOCABULARY)),
    st.dictionaries(st.sampled_from(["value", "refused", "errno"]), JSON),
)
def test_any_answer_is_of_its_kind_or_a_protocol_error(name: str, sent: dict[str, Any]) -> None:
    try:
        found = read_answer(name, sent)
    except ProtocolError:
        return
    if isinstance(found, Refused):
        assert found.call.isascii()
        assert 0 <= found.errno <= 4095
    else:
        assert read_answer(name, json.loads(json.dumps(answer(name, found)))) == found


@given(JSON)
def test_any_cells_are_known_ones_or_a_protocol_error(sent: Any) -> None:
    try:
        found = side_calls.read_cells(sent)
    except ProtocolError:
        return
    assert all(isinstance(each, Wanted) for each in found)


def test_cells_are_read_with_why_a_device_cannot_and_unknown_ones_are_left_out() -> None:
    sent = cells_message([(CELL, None), (Wanted(Operation.READ, "rc", Via.POLL), "no")])
    later = [["teleport", "rc", "poll"], None]
    assert read_cells([*sent, later]) == {CELL: None, Wanted(Operation.READ, "rc", Via.POLL): "no"}
    with pytest.raises(ProtocolError):
        read_cells([later] * (CELLS_MOST + 1))
