"""An expectations file as text."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rdmadiag import __version__
from rdmadiag.facts import Identity
from rdmadiag.facts.toml_file import dotted, quoted
from rdmadiag.preflight.verdict import Verdict
from rdmadiag.render.plain import printable

_HEAD = """\
# What {host} was at {when}, by rdmadiag {version}. Its verdict: {status}.
# Read it, take out what may differ, make names patterns (mlx5_*), then:
#     rdmadiag preflight --expect FILE
# All keys: docs/expectations.md. severity = "warn" in a table makes its findings warnings.
# Not taken over, as a daemon's differs from a shell's: memlock = "unlimited" below [host]
"""


def text(tables: Mapping[str, Any], host: Identity, verdict: Verdict, when: datetime) -> str:
    """The file."""
    parts = [
        _HEAD.format(
            host=printable(host.hostname),
            when=when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            version=__version__,
            status=verdict.status,
        ),
        _table("host", tables["host"]),
    ]
    parts += [_table(dotted(("device", name)), each) for name, each in tables["device"].items()]
    return "\n".join(parts)


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join((f"[{name}]", *lines, ""))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value) if isinstance(value, int) else quoted(value)
