"""docs/shown.md: on what each rule has been seen to have a finding, by the tests that show it."""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from rdmadiag.preflight.rules import CATALOGUE

DATA: Final = Path(__file__).parent / "shown.toml"
FIXTURES: Final = Path(__file__).parent.parent / "tests" / "fixtures"

_HEAD = """\
# On what each rule was seen

Generated from docs/shown.toml and tests/fixtures by `make docs`. Of each rule one test in which it
has a finding:

- **live**: on a kernel of the lab (lab/README.md), with soft RoCE, soft iWARP, netdevsim, the lab's
  netdev `dcbtest`, QEMU's devices, or ibsim's fabric. The lab writes down which rules have findings
  in which test; its last part fails where the named one had none.
- **recorded**: a machine of tests/fixtures that was written down on such a kernel, and whose
  expected answer has the rule.
- **built**: a machine or a sample that a test describes in the terms of the specification. The test
  itself fails where the rule finds nothing in it.

A rule that is built alone has not met a kernel that has what it looks for. No row was seen on
hardware.
"""


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def live() -> Mapping[str, str]:
    """Rule → node id of a test of tests/lab, without parameters."""
    found: Mapping[str, str] = _data()["live"]
    return found


def built() -> Mapping[str, str]:
    """Rule → node id."""
    found: Mapping[str, str] = _data()["built"]
    return found


@cache
def recorded() -> Mapping[str, str]:
    """Rule → the first machine that was recorded and gives it."""
    found: dict[str, str] = {}
    for folder in sorted(path for path in FIXTURES.iterdir() if path.is_dir()):
        if "Built" in (folder / "ABOUT").read_text(encoding="utf-8"):
            continue
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        for rule, *_ in expected["findings"]:
            found.setdefault(rule, folder.name)
    return found


def shown_page() -> str:
    """The page."""
    columns = (live(), recorded(), built())
    counts = [sum(rule in column for rule in CATALOGUE) for column in columns]
    lines = [_HEAD, f"Of {len(CATALOGUE)} rules: live {counts[0]}, recorded {counts[1]}, built"]
    lines += [f"{counts[2]}.\n", "| rule | live | recorded | built |", "|---|---|---|---|"]
    for rule in CATALOGUE:
        cells = (_cell(column.get(rule)) for column in columns)
        lines.append(f"| [{rule}](rules.md#{rule}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(node: str | None) -> str:
    return f"`{node.removeprefix('tests/')}`".replace("|", r"\|") if node else ""
