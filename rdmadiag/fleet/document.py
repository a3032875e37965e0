"""One document of one host: what is kept of it, or why it is none.

Whoever runs a host chooses every letter of it: each text is bounded, each part is of its type.
Not by the models of rdmadiag.render.documents, which validate ten times slower than this reads.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import from_json

from rdmadiag.documentation import page_of_rule
from rdmadiag.facts import Missing
from rdmadiag.fleet.merged import Gap
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Finding, Proof, Severity, Status
from rdmadiag.quoting import printable

MOST_BYTES: Final = 128 * 1024 * 1024
"""Of one document; Ansible's, which has all hosts in it, is the longest."""

_PIECE: Final = 120  # letters of a raw text that are shown
_LINE: Final = 400
_FINDINGS: Final = 500
_PROOFS: Final = 8
_LINES: Final = 40  # of a remedy

_VERSION: Final = re.compile(r"1\.[0-9]{1,6}")
_WHEN: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(?:Z|[+-][0-9]{2}:[0-9]{2})")
_RULE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")

_KINDS: Final = {
    "evidence": "preflight",
    "sample": "counters",
    "stacks": "lossless",
    "exports": "topology",
    "route": "route",
    "devices": "resources",
}
"""A field that one document alone has, and which; of those that have a verdict on their host."""


@dataclass(frozen=True, slots=True)
class NoReport:
    """Why a document is no report."""

    gap: Gap
    detail: str  # one line
    hostname: str | None = None  # where it says whose it is


@dataclass(frozen=True, slots=True)
class Said:
    """What one document says of its host."""

    kind: str  # "preflight", "counters", …
    hostname: str
    generated_at: str
    version: str
    status: Status
    safe_to_attempt_rtr: bool
    findings: tuple[Finding, ...]
    facts: Mapping[str, str | Missing]


@dataclass(frozen=True, slots=True)
class Attempted:
    """What one document of pingpong says, of its host and of the other end."""

    hostname: str
    document: Mapping[str, Any]  # the parts that pairs are made of


Judged = tuple[Status, bool, tuple[Finding, ...]]
Judge = Callable[[bytes], Judged]
"""A document's text → status, whether RTR may be attempted, findings; ValueError where it cannot
be judged anew. Facts of a document are its third."""

Facts = Callable[[Mapping[str, Any]], Mapping[str, str | Missing]]


def decoded(content: bytes) -> object:
    """JSON of any making; raises NotJson."""
    try:
        return from_json(content)
    except ValueError as error:
        # Half a surrogate pair, which a document of ours keeps as an escape, is refused there.
        if "hex escape" not in str(error):
            torn = "EOF while parsing" in str(error)
            raise NotJson(str(error), torn=torn) from error
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error), torn=False) from error


class NotJson(ValueError):
    """Text that is no JSON; `torn` where it ends before its end."""

    def __init__(self, message: str, *, torn: bool) -> None:
        super().__init__(message)
        self.torn = torn


def piece(content: bytes | str) -> str:
    """The beginning of a raw text in one line that a terminal may see."""
    raw = content[: 4 * _PIECE]
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    text = " ".join(text.split())
    return printable(text[:_PIECE] + ("…" if len(text) > _PIECE else ""))


def not_read(content: bytes, error: NotJson) -> NoReport:
    """Of text that is no JSON."""
    if error.torn:
        return NoReport(Gap.TORN, f"ends in its middle, after {len(content)} bytes")
    return NoReport(Gap.FOREIGN, f"no JSON: {printable(str(error))[:_PIECE]}: {piece(content)}")


class Reader:
    """Documents of many hosts; equal findings and facts of them are held once."""

    def __init__(self, facts_of: Facts, judge: Judge | None = None) -> None:
        self._facts_of, self._judge = facts_of, judge
        self._pool: dict[Any, Any] = {}

    def said(self, document: object, content: Callable[[], bytes]) -> Said | Attempted | NoReport:
        """What a document says; `content` gives its text, for --judge-again."""
        try:
            return self._said(document, content)
        except _Odd as error:
            hostname = _hostname(document)
            return NoReport(Gap.FOREIGN, f"no report of rdmadiag: {error}", hostname)

    def _said(self, document: object, content: Callable[[], bytes]) -> Said | Attempted | NoReport:
        if not isinstance(document, dict) or "schema_version" not in document:
            text = json.dumps(document, default=str)[: 4 * _PIECE] if document else ""
            return NoReport(Gap.FOREIGN, f"JSON, but no document of rdmadiag: {piece(text)}")
        version = _text(_table(document, "tool"), "version", 40)
        hostname = _hostname(document)
        schema = document["schema_version"]
        if not isinstance(schema, str) or not _VERSION.fullmatch(schema):
            said = f"schema {piece(str(schema))} of rdmadiag {version}; this one reads 1.x"
            return NoReport(Gap.OTHER_SCHEMA, said, hostname)
        if "error" in document:
            error = _table(document, "error")
            code, message = error.get("exit_code"), _text(error, "message", _LINE)
            return NoReport(Gap.FAILED, f"{message} (exit code {code})"[:_LINE], hostname)
        if hostname is not None and "teardown" in document and "outcome" in document:
            return Attempted(hostname, _attempt(document))
        kind = next((kind for key, kind in _KINDS.items() if key in document), None)
        if hostname is None or kind is None:
            return NoReport(Gap.FOREIGN, "a document that is no report on a host", hostname)
        if self._judge and kind == "preflight":
            try:
                status, safe, findings = self._judge(content())
            except ValueError as error:
                detail = f"cannot be judged again: {piece(str(error))}"
                return NoReport(Gap.FOREIGN, detail, hostname)
        elif "verdict" not in document:
            detail = "a report without a verdict: --judge-again makes one"
            return NoReport(Gap.FOREIGN, detail, hostname)
        else:
            status, safe, findings = _judged(_table(document, "verdict"))
        hold = self._pool.setdefault
        facts = self._facts_of(document) if kind == "preflight" else {}
        return Said(
            kind,
            hostname,
            _when(document),
            hold(version, version),
            status,
            safe,
            tuple([hold(each, each) for each in findings[:_FINDINGS]]),
            facts,
        )


_ATTEMPT: Final = ("generated_at", "outcome", "role")
_OF_END: Final = ("device", "gid", "queue_pair", "psn")
_FIGURES: Final = {"latency_us": "median", "bandwidth": "gbps"}


def _attempt(document: Mapping[str, Any]) -> dict[str, Any]:
    """Small parts alone, of whatever type: rdmadiag.fleet.pair_document looks at them."""
    made: dict[str, Any] = {name: _small(document.get(name)) for name in _ATTEMPT}
    for name, inner in (*((end, _OF_END) for end in ("local", "remote")), *_INNER):
        table = document.get(name)
        if isinstance(table, dict):
            made[name] = {key: _small(table.get(key)) for key in inner}
    return made


_INNER: Final = tuple((name, (key,)) for name, key in _FIGURES.items())


def _small(value: object) -> object:
    small = isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) < 256)
    return value if small else None


class _Odd(Exception):
    """A part that no document of ours has; the message says where."""


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise _Odd(f"{name} is no object")
    return found


def _text(document: Mapping[str, Any], name: str, most: int) -> str:
    found = document.get(name)
    if not isinstance(found, str):
        raise _Odd(f"{name} is no text")
    return found if len(found) <= most else f"{found[:most]}…"


def _hostname(document: object) -> str | None:
    host = document.get("host") if isinstance(document, dict) else None
    found = host.get("hostname") if isinstance(host, dict) else None
    return found[:253] if isinstance(found, str) and found else None


def _when(document: Mapping[str, Any]) -> str:
    found = document.get("generated_at")
    if not isinstance(found, str) or not _WHEN.fullmatch(found):
        raise _Odd("generated_at is no time")
    return found


def _judged(verdict: Mapping[str, Any]) -> Judged:
    """A verdict as it was recorded."""
    try:
        status = Status(str(verdict.get("status")))
    except ValueError:
        raise _Odd("verdict.status is none that is known") from None
    found = verdict.get("findings")
    if not isinstance(found, list):
        raise _Odd("verdict.findings is no list")
    safe = verdict.get("safe_to_attempt_rtr") is True
    return status, safe, tuple(map(_finding, found[:_FINDINGS]))


def _finding(raw: object) -> Finding:
    if not isinstance(raw, dict):
        raise _Odd("a finding is no object")
    rule = raw.get("rule")
    if not isinstance(rule, str) or not _RULE.fullmatch(rule):
        raise _Odd("the rule of a finding is no name")
    try:
        severity = Severity(str(raw.get("severity")))
    except ValueError:
        raise _Odd("the severity of a finding is none that is known") from None
    device, port = raw.get("device"), raw.get("port")
    return Finding(
        rule,
        severity,
        device[:64] if isinstance(device, str) else None,
        port if isinstance(port, int) and 0 <= port < 1 << 32 else None,
        _text(raw, "summary", _LINE),
        tuple(map(_proof, _list(raw, "evidence", _PROOFS))),
        tuple(_lines(raw, "remedy")),
        (),
        see=page_of_rule(rule),
    )


def _proof(raw: object) -> Proof:
    if not isinstance(raw, dict):
        raise _Odd("evidence is no object")
    return Proof(*(_text(raw, name, _LINE) for name in ("source", "subject", "value")))


def _lines(raw: Mapping[str, Any], name: str) -> list[str]:
    found = _list(raw, name, _LINES)
    if not all(isinstance(line, str) for line in found):
        raise _Odd(f"{name} holds what is no text")
    return [line[:_LINE] for line in found]


def _list(raw: Mapping[str, Any], name: str, most: int) -> list[Any]:
    found = raw.get(name)
    if not isinstance(found, list):
        raise _Odd(f"{name} is no list")
    return found[:most]
