"""JSON documents: numbers beside words, nothing lost, and by every way the same bytes."""

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO

import pytest
from pydantic import TypeAdapter
from pydantic_core import to_json

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import PortState
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.json import document, text, write


@dataclass(frozen=True)
class Thing(WithNumbers):
    state: PortState | Missing
    gid: Gid


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(True, True, id="a boolean"),
        pytest.param(7, 7, id="a number"),
        pytest.param(2**64 + 1, 2**64 + 1, id="a number of more than 64 bits"),
        pytest.param(2.5, 2.5, id="a fraction"),
        pytest.param("text", "text", id="text"),
        pytest.param("→ é\n\x1b\u2028\x7f", "→ é\n\x1b\u2028\x7f", id="text that needs escapes"),
        pytest.param(Status.OK, "ok", id="a word"),
        pytest.param(Gid.parse("::ffff:192.0.2.1"), "::ffff:192.0.2.1", id="a GID"),
        pytest.param({1: (2, [3])}, {"1": [2, [3]]}, id="a mapping and sequences"),
        pytest.param(
            Missing(Why.DENIED, "EACCES"), {"why": "denied", "detail": "EACCES"}, id="a Missing"
        ),
        pytest.param(
            Thing(PortState.ACTIVE, Gid.parse("fe80::1")),
            {"state": "active", "state_number": 4, "gid": "fe80::1"},
            id="a word with a number",
        ),
        pytest.param(
            Thing(Missing(Why.ABSENT), Gid.parse("fe80::1")),
            {"state": {"why": "absent", "detail": ""}, "gid": "fe80::1"},
            id="a word that is missing has no number",
        ),
    ],
)
def test_a_value_stands_in_documents_as_the_models_dump_it(value: object, expected: object) -> None:
    made = text(value)
    assert json.loads(made) == expected
    assert to_json(value).decode() == made
    assert TypeAdapter(type(value)).dump_json(value).decode() == made


def test_every_document_begins_alike() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = json.loads(document({"x": 1}, when))
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


@pytest.mark.parametrize("command", ["gids", "preflight"])
def test_a_document_is_printed_without_pydantic(command: str) -> None:
    script = (
        "import sys; from rdmadiag.cli import run; "
        f"code = run(('{command}', '--json', '--sample', 'roce-healthy')); "
        "sys.exit(code or 'pydantic' in sys.modules or 'pydantic_core' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout
