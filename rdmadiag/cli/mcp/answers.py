"""What each tool answers, made in a process of its own that has one deadline.

The documents are those of --json without the evidence: the findings quote what they rest on.
No value of a variable of the environment is in them, since none is there to be judged.
"""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.mcp.folder import NoSuchRecord, RecordFolder
from rdmadiag.cli.mcp.tools import ANSWER_BYTES, COLLECTING, NAMES
from rdmadiag.facts import Missing, Why

if TYPE_CHECKING:
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.report import Report

WITHHELD: Final = Missing(Why.NOT_COLLECTED, "variables of the environment are not given here")

_TEXT: Final = 2000  # characters of one text


def main(argument: str) -> None:
    """Prints the answer of one call, or {"refused": one line}.

    The call is {"tool": NAME, "folder": of the records or null, …arguments}.
    """
    _ENDS[0] = time.monotonic() + COLLECTING
    asked: dict[str, Any] = json.loads(argument)
    tool, top = asked.pop("tool"), asked.pop("folder")
    try:
        with budget(COLLECTING):
            for name in _RECORDS & set(asked):
                asked[name] = _path(top, asked[name])
            if tool == "records":
                asked["top"] = top
            found = bounded(json.loads(_ANSWERS[tool](**asked)))
    except NoSuchRecord as error:
        found = {"refused": str(error)}
    except Refused as error:
        found = {"refused": error.format_message()}
    sys.stdout.write(json.dumps(found, separators=(",", ":")))


_RECORDS: Final = {"record", "before", "after", "log"}
"""Arguments that are names of records, or of a log beside them."""


def _path(top: str | None, name: str | None) -> str | None:
    if name is None:
        return None
    if top is None:
        raise Refused("no records here: rdmadiag mcp was started without --records")
    return RecordFolder(top).path(name)


def _records(top: str | None) -> str:
    if top is None:
        return json.dumps({"records": [], "logs": [], "more": False})
    folder = RecordFolder(top)
    (names, more), (logs, more_logs) = folder.names(NAMES), folder.logs(NAMES)
    return json.dumps({"records": names, "logs": logs, "more": more or more_logs})


def _preflight(record: str | None, devices: Sequence[str], stacks: Sequence[str]) -> str:
    from rdmadiag.preflight.judge import judge
    from rdmadiag.render.json import document

    report = _collected(record)
    chosen = _stacks(stacks) if stacks else ()
    try:
        verdict = judge(report.evidence, _selectors(devices), chosen)
    except ValueError as error:
        raise Refused(str(error)) from error
    return document({"host": report.host, "verdict": verdict})


def _gids(record: str | None, devices: Sequence[str], stacks: Sequence[str]) -> str:
    from rdmadiag.render.gid_documents import tables as rows
    from rdmadiag.render.json import document
    from rdmadiag.sources.run import cheap_sources
    from rdmadiag.view.gid_tables import tables
    from rdmadiag.view.reconcile import devices as seen
    from rdmadiag.view.select import select
    from rdmadiag.view.stack_picks import made_for, picks
    from rdmadiag.view.unshown import unread_sources, without_ports

    platform = "darwin" if sys.platform == "darwin" else "linux"
    report = _collected(record, None if record else cheap_sources(platform))
    evidence = report.evidence
    try:
        chosen = select(seen(evidence), _selectors(devices))
    except ValueError as error:
        raise Refused(str(error)) from error
    rules = _stacks(stacks)
    listed = tables(
        chosen, lambda port: picks(port, rules if stacks else made_for(rules, port), WITHHELD)
    )
    parts = {"ports": rows(listed), "unread": without_ports(chosen, evidence)}
    return document({"host": report.host} | parts | {"missing": unread_sources(evidence)})


def _explain(
    what: str | None,
    platform: str | None,
    text: str | None = None,
    log: str | None = None,
    record: str | None = None,
) -> str:
    if sum(each is not None for each in (what, text, log)) != 1:
        raise Refused("one of what, text and log is to be explained")
    if what is not None:
        if record is not None:
            raise Refused("record is for a log: its causes are ranked by it")
        return _words(what, platform)
    return _log(text, log, record)


def _log(text: str | None, path: str | None, record: str | None) -> str:
    """As `explain --log`: no host is read but the one of the record."""
    from rdmadiag.cli.explain import read_log
    from rdmadiag.explain.log.ranking.by_report import ranked
    from rdmadiag.host.given_file import open_log
    from rdmadiag.preflight.judge import judge
    from rdmadiag.render.json import document
    from rdmadiag.render.log_documents import log_document
    from rdmadiag.view.reconcile import devices

    name = "text" if path is None else os.path.basename(path)
    try:
        if path is None:
            stream: io.FileIO | io.BytesIO = io.BytesIO((text or "").encode("utf-8", "replace"))
        else:
            stream = open_log(path, time.monotonic() + _left())
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error
    with stream:
        account = read_log(stream, name, quiet=True)
    host = None
    if record is not None:
        report = _collected(record)
        host, evidence = report.host, report.evidence
        account = ranked(account, judge(evidence).findings, devices(evidence), host.platform)
    return document({"host": host, **log_document(account, name)})


def _words(what: str, platform: str | None) -> str:
    from rdmadiag.explain.lookup import NotUnderstood, lookup
    from rdmadiag.render.json import document

    words = tuple(what.split())
    here = "darwin" if sys.platform == "darwin" else "linux"
    if not words:
        raise Refused("nothing to explain")
    try:
        answers = lookup(words, "darwin" if (platform or here) == "darwin" else "linux")
    except NotUnderstood as error:
        raise Refused(str(error)) from error
    return document({"asked": what, "answers": answers})


def _diff(before: str, after: str | None) -> str:
    from rdmadiag.api import differences
    from rdmadiag.render.json import document, members

    first, second = _collected(before), _collected(after)
    ends = {"before": {"host": first.host}, "after": {"host": second.host}}
    return document(ends | members(differences(first, second)))


_ANSWERS: Final[Mapping[str, Callable[..., str]]] = {
    "records": _records,
    "preflight": _preflight,
    "gids": _gids,
    "explain": _explain,
    "diff": _diff,
}


def _collected(record: str | None, sources: Sequence[str] | None = None) -> "Report":
    """The report of the record at a path, or of this host; its environment is left out."""
    from rdmadiag.api import collect
    from rdmadiag.host.tree import SnapshotError
    from rdmadiag.report import ReportError

    try:
        report = collect(record, sources=sources, timeout=_left())
    except (SnapshotError, ReportError, ValueError) as error:
        raise Refused(str(error)) from error
    if record is not None:
        report = report.model_copy(update={"host": replace(report.host, recorded=True)})
    return report.model_copy(update={"evidence": without_environment(report.evidence)})


_ENDS: Final = [time.monotonic() + COLLECTING]
"""When what a call collects is to be there: of the call that `main` answers."""


def _left() -> float:
    return max(1.0, _ENDS[0] - time.monotonic())


def without_environment(evidence: "Evidence") -> "Evidence":
    """The same without a variable's name or value; rules that need them are skipped."""
    process = evidence.process
    if isinstance(process, Missing) or isinstance(process.environment, Missing):
        return evidence
    return replace(evidence, process=replace(process, environment=WITHHELD))


def _selectors(devices: Sequence[str]) -> Sequence[Any]:
    from rdmadiag.view.select import Selector

    try:
        return [Selector.parse(text) for text in devices]
    except ValueError as error:
        raise Refused(f"device {error}") from error


def _stacks(names: Sequence[str]) -> Any:
    from rdmadiag.cli.stacks import chosen_stacks

    return chosen_stacks(tuple(names))


def bounded(answer: dict[str, Any], limit: int = ANSWER_BYTES) -> dict[str, Any]:
    """The same within `limit` bytes: of the longest list the second half goes, again and again.

    How many rows went stands under "shortened", by the place of the list.
    """
    answer = _short(answer)
    gone: dict[str, int] = {}
    while len(json.dumps(answer | {"shortened": gone}, separators=(",", ":"))) > limit:
        size, place, rows = max(_lists(answer, ""), key=lambda each: each[0], default=(0, "", []))
        if size < 8:  # nothing left that a cut would help with
            return {"refused": f"the answer is longer than {limit} bytes: ask for one device"}
        kept = len(rows) // 2
        gone[place] = gone.get(place, 0) + len(rows) - kept
        del rows[kept:]
    return answer | {"shortened": gone} if gone else answer


def _short(value: Any) -> Any:
    """The same with no text longer than _TEXT."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"{value[:_TEXT]}…"
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, dict):
        return {_short(name): _short(each) for name, each in value.items()}
    return value


def _lists(value: Any, place: str) -> "list[tuple[int, str, list[Any]]]":
    """Every list with rows: its size without that of lists inside it, its place, and itself."""
    found: list[tuple[int, str, list[Any]]] = []

    def size(value: Any, place: str) -> int:
        if isinstance(value, list):
            if value:
                found.append((sum(2 + size(each, f"{place}[]") for each in value), place, value))
            return 2
        if isinstance(value, Mapping):
            return sum(
                len(name) + 4 + size(each, f"{place}.{name}") for name, each in value.items()
            )
        return len(json.dumps(value))

    size(value, place)
    return found
