"""The lines between a child and its parent: each record survives, and no line ever raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.attempt import Outcome, Stage
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpState, QpType
from rdmadiag.verbs import records
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import EndName, Kind, Malformed, Record, encode, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.floats(0, 1e6)
ENDS = st.builds(
    End,
    device=st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True),
    port=st.integers(1, 255),
    link_layer=st.sampled_from(LinkLayer),
    state=st.sampled_from(PortState),
    active_mtu=st.none() | st.sampled_from((256, 512, 1024, 2048, 4096)),
    mtu=st.sampled_from((256, 512, 1024, 2048, 4096)),
    gid_index=st.none() | st.integers(0, 65535),
    gid=st.none() | st.binary(min_size=16, max_size=16).map(Gid),
    gid_type=st.none() | st.sampled_from(GidType),
    prefix_length=st.none() | st.integers(0, 128),
    lid=st.integers(0, 65535),
    qp_type=st.sampled_from(QpType),
    payload_bytes=st.integers(1, 1 << 20),
    iterations=st.integers(1, 10_000),
)
st.register_type_strategy(End, ENDS)
st.register_type_strategy(str, TEXT)
st.register_type_strategy(float, TIMES)
ANSWER = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
CLASSES = tuple(records._CLASSES.values())


def of_class(kind: type[Record]) -> st.SearchStrategy[Record]:
    fields = {"answer": ANSWER} if kind is records.Returned else {}
    return st.builds(kind, at=TIMES, **fields, **_given(kind, fields))


def _given(kind: type[Record], known: dict[str, Any]) -> dict[str, Any]:
    """builds() leaves out what has a default."""
    hints = {name: hint for name, hint in records._hints(kind).items() if name != "kind"}
    return {
        name: st.from_type(hint)
        for name, hint in hints.items()
        if name not in known and name != "at"
    }


RECORDS = st.one_of(*map(of_class, CLASSES))


def test_each_kind_has_its_class() -> None:
    assert set(records._CLASSES) == set(Kind)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda each: each.__name__)
@given(data=st.data())
def test_a_record_survives_its_line(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(of_class(kind))
    line = encode(record)
    assert line.count(b"\n") == 1
    assert parse(line) == record


@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_are_a_record_or_malformed(line: bytes) -> None:
    assert isinstance(parse(line), Record | Malformed)


@given(record=RECORDS, data=st.data())
def test_a_line_that_is_cut_or_changed_is_a_record_or_malformed(
    record: Record, data: st.DataObject
) -> None:
    line = encode(record)
    at = data.draw(st.integers(0, len(line)))
    assert isinstance(parse(line[:at]), Record | Malformed)
    assert isinstance(
        parse(line[:at] + data.draw(st.binary(max_size=3)) + line[at:]), Record | Malformed
    )


@given(record=RECORDS, name=st.integers(0, 9), value=ANSWER | st.floats())
def test_a_field_of_another_type_is_a_record_or_malformed(
    record: Record, name: int, value: Any
) -> None:
    row = json.loads(encode(record))
    row[sorted(row)[name % len(row)]] = value
    assert isinstance(parse(json.dumps(row).encode()), Record | Malformed)


HOSTILE = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"[" * 99_999, id="deep"),
    pytest.param(b'{"kind": "failed", "errno": ' + b"9" * 5000 + b"}", id="a huge number"),
    pytest.param(b'{"kind": "rounds", "rounds": true}', id="a bool for a number"),
    pytest.param(b'{"kind": "rounds", "rounds": 1, "at": NaN}', id="no number for a time"),
    pytest.param(b'{"kind": "rounds", "rounds": 1, "at": 1e999}', id="no end of time"),
    pytest.param(b'{"kind": "state", "end": "middle", "state": "rts"}', id="a third end"),
    pytest.param(b'{"kind": "step", "call": "x", "stage": [], "end": "local"}', id="a list"),
    pytest.param(b'{"kind": "agreed", "remote": {"device": ""}}', id="an end that is none"),
    pytest.param(b'{"kind": "result", "outcome": "verified"}', id="a field is missing"),
    pytest.param(b'{"kind": null, "errno": 1}', id="a kind that is none"),
    pytest.param(b'{"errnos": 1}', id="no kind"),
    pytest.param(b"[1]", id="a list"),
    pytest.param(b"libmlx5: warning", id="a library's words"),
]


@pytest.mark.parametrize("line", HOSTILE)
def test_a_hostile_line_is_malformed_with_its_reason(line: bytes) -> None:
    found = parse(line)
    assert isinstance(found, Malformed)
    assert found.why
    assert len(found.line) <= 200


def test_half_a_character_can_be_printed() -> None:
    found = parse(b'{"kind": "unloadable", "unloadable": "\\ud800"}')
    assert isinstance(found, records.Unloadable)
    assert found.unloadable.encode() == b"\\ud800"


def test_what_a_later_version_adds_is_left_out() -> None:
    line = b'{"kind": "state", "end": "local", "state": null, "speed": 7}'
    assert parse(line) == records.StateReached(end=EndName.LOCAL, state=None)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"platform": "linux", "library": "x"}', records.Library(platform="linux", library="x")),
        (b'{"unloadable": "ENOENT"}', records.Unloadable(unloadable="ENOENT")),
        (b'{"call": "f", "device": null, "port": 1}', records.Call(call="f", port=1)),
        (b'{"answer": [1]}', records.Returned(answer=[1])),
        (b'{"errno": 13, "at": 2}', records.Failed(errno=13, at=2)),
        (b'{"done": true}', records.Done()),
        (
            b'{"end": null, "pid": 7, "unkillable": false, "stderr": "", "at": 6.02}',
            records.Ended(end=None, pid=7, unkillable=False, stderr="", at=6.02),
        ),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Record) else "",
)
def test_a_query_of_an_older_snapshot_is_read(line: bytes, record: Record) -> None:
    assert parse(line) == record


def test_the_words_are_those_of_the_documents() -> None:
    result = records.Result(outcome=Outcome.CALL_FAILED, stage=Stage.RTR, call="f", errno=5)
    row = json.loads(encode(result))
    assert (row["kind"], row["outcome"], row["stage"]) == ("result", "call_failed", "rtr")
    state = records.StateReached(end=EndName.REMOTE, state=QpState.RTS)
    assert json.loads(encode(state))["state"] == "rts"
