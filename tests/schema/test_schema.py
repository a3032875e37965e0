"""The schemas: valid, complete, and not changed without a step of the version."""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from rdmadiag import SCHEMA_VERSION
from rdmadiag.cli import run
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.render.documents import DOCUMENTS
from rdmadiag.render.schema import DIALECT, identifier, schema
from rdmadiag.samples import samples
from tests.schema.documents import breaks, dumped, kind_of, problems
from tests.schema.golden import FOLDER, written

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_this_process")]

FIXTURES = Path(__file__).parents[1] / "fixtures"
MACHINES = [
    *(("--sample", name) for name in samples()),
    *(("--from", str(path)) for path in sorted(FIXTURES.iterdir())),
]


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`printed("gids", "--json")` → stdout."""

    def call(*argv: str) -> str:
        capfd.readouterr()
        run(argv)
        return capfd.readouterr().out

    return call


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_of_2020_12_and_has_its_version_in_its_id(name: str) -> None:
    made = schema(name)
    Draft202012Validator.check_schema(made)
    assert made["$schema"] == DIALECT
    assert made["$id"] == f"urn:rdmadiag:schema:{name}:{SCHEMA_VERSION}"
    assert re.fullmatch(r"[0-9]+\.[0-9]+", SCHEMA_VERSION)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_the_golden_one_of_its_version(name: str) -> None:
    golden = FOLDER / SCHEMA_VERSION / f"{name}.json"
    assert golden.read_text(encoding="utf-8") == written(schema(name)), (
        "a model changed: step SCHEMA_VERSION, then python -m tests.schema.golden"
    )


def test_a_schema_is_the_same_where_pydantic_leaves_out_what_a_dataclass_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the lowest pydantic that is allowed does."""
    made = GenerateJsonSchema.dataclass_schema

    def older(self: GenerateJsonSchema, described: Any) -> dict[str, Any]:
        found = made(self, described)
        return {key: value for key, value in found.items() if key != "description"}

    monkeypatch.setattr(GenerateJsonSchema, "dataclass_schema", older)
    golden = FOLDER / SCHEMA_VERSION / "preflight.json"
    assert written(schema("preflight")) == golden.read_text(encoding="utf-8")


def test_of_one_major_version_each_minor_adds_alone() -> None:
    versions = sorted(
        (tuple(map(int, folder.name.split("."))), folder) for folder in FOLDER.iterdir()
    )
    for (old, before), (new, after) in pairwise(versions):
        if old[0] == new[0]:
            for path in before.iterdir():
                broken = breaks(
                    json.loads(path.read_text()), json.loads((after / path.name).read_text())
                )
                assert list(broken) == [], path.name


def _without(made: Any, *path: str) -> Any:
    changed = copy.deepcopy(made)
    node = changed
    for step in path[:-1]:
        node = node[step]
    del node[path[-1]]
    return changed


def test_what_breaks_a_reader_is_seen() -> None:
    made = schema("preflight")
    assert list(breaks(made, made)) == []
    gone = _without(made, "$defs", "Finding", "properties", "summary")
    assert list(breaks(made, gone)) == ["$.$defs.Finding.summary went"]
    assert list(breaks(gone, made)) == [], "a field more"
    typed = copy.deepcopy(made)
    typed["$defs"]["Proof"]["properties"]["value"]["type"] = "integer"
    assert list(breaks(made, typed)) == ["$.$defs.Proof.value: type string became integer"]
    loose = copy.deepcopy(made)
    loose["required"].remove("verdict")
    assert list(breaks(made, loose)) == ["$.verdict is no longer always there"]
    words = copy.deepcopy(made)
    words["$defs"]["Severity"]["enum"].remove("info")
    assert list(breaks(made, words)) == ["$.$defs.Severity: ['info'] went"]


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each[1].rpartition("/")[2])
def test_every_document_of_a_machine_is_described(
    machine: tuple[str, str], printed: Callable[..., str]
) -> None:
    for command in ("preflight", "gids", "devices", "expect"):
        line = printed(command, "--json", *machine).rstrip("\n")
        document = json.loads(line)
        assert kind_of(document) == command
        assert problems(command, document) == []
        assert dumped(command, line) == line
        assert list(_reader_of_1_0(command).iter_errors(document)) == []


@cache
def _reader_of_1_0(name: str) -> Draft202012Validator:
    """By the first schema that was published, which knew no field that came later."""
    return Draft202012Validator(json.loads((FOLDER / "1.0" / f"{name}.json").read_text()))


def test_a_class_with_a_numbered_word_writes_its_number() -> None:
    DOCUMENTS["report"].model_json_schema()  # imports the classes that Evidence names
    for kind in _dataclasses(DOCUMENTS.values()):
        hints = get_type_hints(kind)
        words = [name for name, hint in hints.items() if _is_numbered(hint)]
        assert bool(words) == issubclass(kind, WithNumbers), kind


def _is_numbered(hint: Any) -> bool:
    return any(isinstance(each, type) and issubclass(each, Numbered) for each in _parts(hint))


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in get_args(hint):
        yield from _parts(each)


def _dataclasses(kinds: Iterable[Any]) -> set[type]:
    """All that are in documents, at whatever depth."""
    found: set[type] = set()
    left = list(kinds)
    while left:
        for each in _parts(left.pop()):
            if isinstance(each, type) and each not in found:
                if is_dataclass(each):
                    found.add(each)
                    left += get_type_hints(each).values()
                elif issubclass(each, BaseModel):
                    left += [field.annotation for field in each.model_fields.values()]
    return found


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        pytest.param("samples", ("samples", "--json"), id="samples"),
        pytest.param("pingpong", ("pingpong", "--json"), id="a pingpong that is not allowed"),
        pytest.param("explain", ("explain", "110", "--json"), id="an errno"),
        pytest.param("explain", ("explain", "wc", "12", "--json"), id="a completion"),
        pytest.param("explain", ("explain", "INIT", "--json"), id="a state"),
        pytest.param(
            "explain", ("explain", "env", "NCCL_IB_GID_INDEX=3", "--json"), id="a variable"
        ),
        pytest.param("explain", ("explain", "link-not-up", "--json"), id="a rule"),
        pytest.param("explain", ("explain", "gid-does-not-route", "--json"), id="a cause"),
        pytest.param("error", ("preflight", "--json", "--from", "/nowhere"), id="a refusal"),
        pytest.param("error", ("gids", "--json", "--nonsense"), id="a usage error"),
        pytest.param("error", ("gids", "-o", "json", "--timeout", "x"), id="a bad number"),
    ],
)
def test_other_documents_are_described(
    name: str, argv: tuple[str, ...], printed: Callable[..., str]
) -> None:
    document = json.loads(printed(*argv))
    assert kind_of(document) == name
    assert problems(name, document) == []


def test_a_log_is_described(tmp_path: Path, printed: Callable[..., str]) -> None:
    log = tmp_path / "job"
    log.write_text(
        "node1:1:1 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out "
        "errno 110\nmlx5_0: got completion with error 12 vendor_err 129\n"
    )
    document = json.loads(printed("explain", "--log", str(log), "--json"))
    assert document["failures"]
    assert problems("explain-log", document) == []


def test_unmet_expectations_are_described(printed: Callable[..., str]) -> None:
    wish = ("--expect-devices", "3", "--expect-rate", "1 Gb/sec")
    document = json.loads(printed("preflight", "--json", "--sample", "roce-healthy", *wish))
    (first, *_) = document["verdict"]["findings"]
    assert (first["expected"], first["actual"]) == ("3", "2")
    assert problems("preflight", document) == []


def test_a_document_that_is_wrong_is_found_wrong(printed: Callable[..., str]) -> None:
    document = json.loads(printed("gids", "--json", "--sample", "roce-healthy"))
    assert problems("gids", document | {"more": 1}) != [], "the tests' own strictness"
    assert problems("gids", document | {"schema_version": "2.0"}) != []
    document["ports"][0]["state"] = "actve"
    assert problems("gids", document) != []


@pytest.mark.slow
def test_the_command_prints_them(printed: Callable[..., str]) -> None:
    listed = printed("schema").splitlines()
    assert [line.split() for line in listed] == [[name, identifier(name)] for name in DOCUMENTS]
    for name in DOCUMENTS:
        assert json.loads(printed("schema", name)) == schema(name)


def test_an_unknown_document_is_refused_with_those_there_are(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(("schema", "nothing")) == 64
    assert "there are: preflight, gids" in capfd.readouterr().err
