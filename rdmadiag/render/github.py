"""Workflow commands of GitHub Actions: one annotation a finding, and the verdict as a line.

CRITICAL  mlx5_0/1 has no link: physical state polling  [runner-7]
::error title=link-not-up mlx5_0/1::mlx5_0/1 has no link: physical state polling%0Aibstat …
"""

from typing import Final

from rdmadiag.facts import Identity
from rdmadiag.preflight.checks import checks
from rdmadiag.preflight.verdict import Finding, Verdict
from rdmadiag.render.answer import answer
from rdmadiag.render.plain import printable

_COMMAND: Final = {"critical": "error", "warn": "warning", "unknown": "warning", "info": "notice"}


def text(verdict: Verdict, host: Identity) -> str:
    """All lines; the worst finding first, as GitHub shows ten of a kind in a step."""
    lines = [f"{verdict.status.upper()}  {answer(verdict)}  [{printable(host.hostname)}]"]
    places = {id(each): check.place for check in checks(verdict) for each in check.findings}
    lines += [_annotation(each, places[id(each)]) for each in verdict.findings]
    return "\n".join((*lines, ""))


def failure(message: str) -> str:
    """The line where there is no verdict."""
    return f"::error title=rdmadiag::{_data(printable(message))}\n"


def _annotation(finding: Finding, place: str) -> str:
    title = _property(f"{finding.rule} {place}".strip())
    body = "\n".join(printable(line) for line in (finding.summary, *finding.remedy))
    return f"::{_COMMAND[finding.severity]} title={title}::{_data(body)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
