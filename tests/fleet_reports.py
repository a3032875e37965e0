"""Small documents of hosts, as `preflight --json` prints them, and what is made of texts."""

import json
from collections.abc import Iterable
from typing import Any

from rdmadiag.fleet.collect import Collected
from rdmadiag.fleet.document import Judge, Reader
from rdmadiag.fleet.merge import merge
from rdmadiag.fleet.merged import Merged
from rdmadiag.fleet.nodes import Expected, spread
from rdmadiag.fleet.streams import read_text

NO_SM = "no-subnet-manager"


def finding(rule: str = NO_SM, severity: str = "critical", **changed: Any) -> dict[str, Any]:
    """One of a verdict's."""
    return {
        "rule": rule,
        "severity": severity,
        "device": "mlx5_0",
        "port": 1,
        "summary": f"mlx5_0/1: {rule}",
        "evidence": [],
        "remedy": [],
        "references": [],
        "expected": None,
        "actual": None,
    } | changed


def document(
    hostname: str = "n1", status: str = "ok", findings: Iterable[Any] = (), **changed: Any
) -> dict[str, Any]:
    """A report."""
    return {
        "schema_version": "1.1",
        "tool": {"name": "rdmadiag", "version": "0.1.0"},
        "generated_at": "2026-11-23T07:00:00Z",
        "host": {"hostname": hostname},
        "verdict": {
            "status": status,
            "safe_to_attempt_rtr": status == "ok",
            "findings": list(findings),
        },
        "evidence": {},
    } | changed


def text(*arguments: Any, **changed: Any) -> str:
    """The same on one line."""
    return json.dumps(document(*arguments, **changed), separators=(",", ":"))


def collected(
    *files: str | bytes, expected: str | None = None, judge: Judge | None = None
) -> Collected:
    """What files "0", "1" … come to."""
    nodes = None if expected is None else Expected(spread(expected))
    to = Collected(Reader(lambda document: {}, judge), nodes)
    for number, content in enumerate(files):
        read_text(to, str(number), content if isinstance(content, bytes) else content.encode())
    return to


def merged(*files: str | bytes, expected: str | None = None, judge: Judge | None = None) -> Merged:
    """What they add up to."""
    to = collected(*files, expected=expected, judge=judge)
    return merge(*to.result(), to.expected)
