"""JSON documents: enums as words with their number beside, one line each.

They are written from the same facts without their models (rdmadiag.render.documents), whose
import alone costs more than `gids` does; what is written is, byte for byte, what those models
dump.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final

from rdmadiag import SCHEMA_VERSION, __version__
from rdmadiag.facts.dumped import WithNumbers

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


def document(parts: Mapping[str, Any], generated_at: datetime | None = None) -> str:
    """The document of these parts, after what every one of ours begins with; now by default."""
    when = generated_at or datetime.now(UTC)
    head = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "rdmadiag", "version": __version__},
        "generated_at": when.strftime(_TIME),
    }
    return text(head | dict(parts))


def write(
    parts: Mapping[str, Any],
    generated_at: datetime | None = None,
    out: IO[str] | None = None,
) -> None:
    """Print the document of these parts."""
    _print(document(parts, generated_at), out)


def _print(line: str, out: IO[str] | None) -> None:
    to = out or sys.stdout
    to.write(f"{_safe(line, getattr(to, 'encoding', None) or 'utf-8')}\n")


def _safe(line: str, encoding: str) -> str:
    r"""The same document, with escapes for what a terminal obeys and what an encoding lacks.

    json.dumps escapes up to U+001F alone: U+009B begins a terminal's command as ESC [ does.
    """
    is_kept = str.isprintable if encoding.lower().replace("_", "-") == "utf-8" else str.isascii
    if line.isprintable() and (line.isascii() or is_kept is str.isprintable):
        return line
    return _NOT_PLAIN.sub(lambda found: found[0] if is_kept(found[0]) else _escape(found[0]), line)


_NOT_PLAIN: Final = re.compile("[^ -~]")


def _escape(letter: str) -> str:
    r"""\u2192; two of them for what UTF-16 has two units for."""
    return json.dumps(letter)[1:-1]


def text(value: Any) -> str:
    """`value`, of facts, lists, mappings, text and numbers, as JSON."""
    # Not json.dump, which encodes piece by piece in Python: ten times slower.
    made = json.dumps(value, default=members, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, which a saved document may hold, stays the escape that it was there.
    return made.encode("utf-8", "backslashreplace").decode()


def members(value: Any) -> Any:
    """What stands in a document for a value that JSON has no form for: facts, a GID."""
    if isinstance(value, WithNumbers):
        return value.members()
    if is_dataclass(value):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)
