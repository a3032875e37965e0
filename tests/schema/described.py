"""Documents held to the golden schemas: in a lab the models behind them load too slowly."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.schema.documents import kind_of, strictly

GOLDEN = Path(__file__).parent / "golden"


def assert_described(document: Any) -> None:
    """A document is what the golden schema of its version says."""
    name = kind_of(document)
    assert name is not None
    validator = _validator(name, document["schema_version"])
    assert [f"{e.json_path}: {e.message}" for e in validator.iter_errors(document)] == []


@cache
def _validator(name: str, version: str) -> Draft202012Validator:
    golden = GOLDEN / version / f"{name}.json"
    return Draft202012Validator(strictly(json.loads(golden.read_text())))
