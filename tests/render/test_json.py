"""The JSON encoder: plain data, numbers beside words, nothing lost."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import PortState
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.json import document, plain, write


@dataclass(frozen=True)
class Thing:
    state: PortState | Missing
    gid: Gid


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(True, True, id="a boolean"),
        pytest.param(7, 7, id="a number"),
        pytest.param(2.5, 2.5, id="a fraction"),
        pytest.param("text", "text", id="text"),
        pytest.param(Status.OK, "ok", id="a word"),
        pytest.param(Gid.parse("::ffff:192.0.2.1"), "::ffff:192.0.2.1", id="a GID"),
        pytest.param({1: (2, [3])}, {"1": [2, [3]]}, id="a mapping and sequences"),
        pytest.param(
            Missing(Why.DENIED, "EACCES"), {"why": "denied", "detail": "EACCES"}, id="a Missing"
        ),
    ],
)
def test_plain(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_an_enum_has_its_number_beside_it_and_a_missing_one_has_none() -> None:
    gid = Gid.parse("fe80::1")
    assert plain(Thing(PortState.ACTIVE, gid)) == {
        "state": "active",
        "state_number": 4,
        "gid": "fe80::1",
    }
    assert plain(Thing(Missing(Why.ABSENT), gid)) == {
        "state": {"why": "absent", "detail": ""},
        "gid": "fe80::1",
    }


def test_every_document_begins_alike() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = document({"x": 1}, when)
    assert list(made) == ["schema_version", "tool", "generated_at", "x"]
    assert made["generated_at"] == "2026-01-02T03:04:05Z"


def test_a_document_is_one_line_of_json() -> None:
    out = StringIO()
    write({"text": "→ é\n"}, out=out)
    assert out.getvalue().count("\n") == 1
    assert json.loads(out.getvalue())["text"] == "→ é\n"


def test_half_a_surrogate_pair_stays_the_escape_that_it_was_in_a_saved_document() -> None:
    out = StringIO()
    write({"name": "\ud800ü"}, out=out)
    out.getvalue().encode()
    assert json.loads(out.getvalue())["name"] == "\ud800ü"
