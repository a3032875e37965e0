"""JSON documents: plain data, enums as words with their number beside, one line each."""

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import IO, Any, Final

from rdmadiag import __version__

SCHEMA_VERSION: Final = "1.0"
"""A new field is a minor step; one that went, or changed its meaning, a major one."""


def document(parts: Mapping[str, Any], generated_at: datetime | None = None) -> dict[str, Any]:
    """The document with what every one of ours begins with."""
    when = generated_at or datetime.now(UTC)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "rdmadiag", "version": __version__},
        "generated_at": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    } | {name: plain(value) for name, value in parts.items()}


def write(
    parts: Mapping[str, Any],
    generated_at: datetime | None = None,
    out: IO[str] | None = None,
) -> None:
    """Print one document."""
    stream = out or sys.stdout
    # Not json.dump, which encodes piece by piece in Python: ten times slower.
    text = json.dumps(document(parts, generated_at), ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, which a saved document may hold, stays the escape that it was there.
    stream.write(f"{text.encode('utf-8', 'backslashreplace').decode()}\n")


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def plain(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value.value if isinstance(value, Enum) else value
    if is_dataclass(value) and not isinstance(value, type):
        found = {}
        for name in _names(type(value)):
            each = getattr(value, name)
            found[name] = plain(each)
            number = getattr(each, "number", None)
            if number is not None and isinstance(each, Enum):
                found[f"{name}_number"] = number
        return found
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return str(value)
