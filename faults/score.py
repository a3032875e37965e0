"""Scores what was recorded: `python -m faults.score [--open | --held-out] [--write] [NAME…]`.

Needs no lab: it reads faults/records, NAME.json and the snapshots beside it.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from faults import warm
from faults.answers import (
    NOTHING,
    Answer,
    by_checklist,
    by_findings,
    by_grep,
    by_logs,
    by_place,
    by_reports,
    by_story,
    cause_is_right,
    host_is_right,
    of_all,
    together,
)
from faults.table import ENDS, HERE, Fault, faults, held_out, rounds

RECORDS: Final = HERE / "records"
TABLE: Final = HERE / "SCORES.md"
SECONDS: Final = 120.0
REHEARSED: Final = 8  # faults
DEVICE: Final = {"left": 0, "right": 1}

WAYS: Final = {
    "rdmadiag, after": "the same, with snapshots from when the tools had ended, if there are any",
    "rdmadiag": "preflight of both hosts, and explain of both logs with both, as README.md says",
    "story, after": "the next, with snapshots from when the tools had ended, if there are any",
    "story": "rdmadiag explain --log of both ends with both hosts' snapshots: its own words",
    "preflight": "rdmadiag preflight of both hosts' snapshots",
    "explain with reports": "rdmadiag explain --log of each end with its host's snapshot",
    "explain of both": "rdmadiag explain --log of both ends at once, alone",
    "explain": "rdmadiag explain --log of each end, alone",
    "checklist": "checklist.sh: rdma-core's and iproute2's tools in a person's order",
    "grep": "the log, by a list of usual messages",
}
BASELINES: Final = ("checklist", "grep")


@dataclass(frozen=True)
class Scored:
    """Each way's answers for one fault, one for each tool that met it."""

    fault: Fault
    answers: Mapping[str, Sequence[Answer]]
    false: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of a twin, what was found

    def cause(self, way: str) -> float:
        """The share of its tools with which the cause is right."""
        given = self.answers[way]
        return sum(cause_is_right(each, self.fault) for each in given) / len(given)

    def host(self, way: str) -> float:
        """The share of its tools with which the host is."""
        given = self.answers[way]
        return sum(host_is_right(each, self.fault) for each in given) / len(given)


def main(argv: list[str]) -> int:
    """0; the tables are on stdout, and with --write in SCORES.md."""
    parser = argparse.ArgumentParser(prog="python -m faults.score", description=__doc__)
    parser.add_argument("--open", action="store_true", help="without the families held out")
    parser.add_argument("--held-out", action="store_true", help="those alone")
    parser.add_argument("--round", type=int, help="of a round alone")
    parser.add_argument("--write", action="store_true", help="write SCORES.md")
    parser.add_argument("names", nargs="*", help="faults or families")
    known = parser.parse_args(argv)
    drawn, by_round = held_out(), rounds()
    rows = [
        each
        for each in faults()
        if (RECORDS / f"{each.name}.json").exists()
        and not (known.open and each.family in drawn)
        and not (known.held_out and each.family not in drawn)
        and known.round in (None, by_round[each.family])
        and (not known.names or {each.name, each.family} & set(known.names))
    ]
    twins = sorted({name for each in rows for name in each.twins})
    warm.load()
    for each in rows[:REHEARSED]:
        rehearse(each)
    with get_context("fork").Pool() as pool:
        scored = pool.map(one, rows, chunksize=1)
        false = [found for found in pool.map(twin, twins, chunksize=1) if found is not None]
    text = tables(scored, false)
    print(text)
    if known.write:
        TABLE.write_text(text, encoding="utf-8")
    return 0


def rehearse(fault: Fault) -> None:
    """Load in this process what the runs of its forks need: patterns, models, tables."""
    for ends in read(fault.name)["tools"].values():
        said = {end: each["said"] for end, each in ends.items()}
        with _given(said, {end: snapshot(fault.name, end) for end in ENDS}) as argv:
            warm.rehearse(*argv, "--json")
    for end in ENDS:
        warm.rehearse("preflight", "--from", str(snapshot(fault.name, end)), "--json")


def one(fault: Fault) -> Scored:
    """Ask every way."""
    record = read(fault.name)
    findings = {end: preflight(fault.name, fault.setting, end) for end in ENDS}
    by_host = by_findings(findings)
    has_after = all(snapshot(fault.name, end, after=True).exists() for end in ENDS)
    later = (
        {end: preflight(fault.name, fault.setting, end, after=True) for end in ENDS}
        if has_after
        else findings
    )
    answers: dict[str, list[Answer]] = {way: [] for way in WAYS}
    for ends in record["tools"].values():
        said = {end: each["said"] for end, each in ends.items()}
        ended = {end: each["ended"] for end, each in ends.items()}
        alone = by_logs({end: explain(text) for end, text in said.items()}, ended, reports=False)
        reports = {
            end: explain(text, snapshot(fault.name, end), device(fault.setting, end))
            for end, text in said.items()
        }
        with_reports = by_logs(reports, ended, reports=True)
        answers["preflight"].append(by_host)
        both = by_story(explain_both(said))
        answers["explain"].append(alone)
        answers["explain of both"].append(both)
        answers["explain with reports"].append(with_reports)
        story = job(said, {end: snapshot(fault.name, end) for end in ENDS})
        logs = together((by_story(story), with_reports))
        answers["rdmadiag"].append(of_all(findings, story, logs))
        answers["story"].append(by_place(story))
        if has_after:
            story = job(said, {end: snapshot(fault.name, end, after=True) for end in ENDS})
            logs = together((by_story(story), with_reports))
        answers["rdmadiag, after"].append(of_all(later, story, logs))
        answers["story, after"].append(by_place(story))
        answers["checklist"].append(by_checklist(record["checklist"]))
        answers["grep"].append(by_grep(said) if any(_failed(ends)) else NOTHING)
    return Scored(fault, answers)


def _failed(ends: Mapping[str, Mapping[str, Any]]) -> Iterable[bool]:
    return (each["code"] != 0 for each in ends.values())


def twin(name: str) -> tuple[str, dict[str, tuple[str, ...]]] | None:
    """What each way found wrong with a healthy one; None without its record."""
    if not (RECORDS / f"{name}.json").exists():
        return None
    setting = name.split("-")[1]
    record = read(name)
    found: dict[str, tuple[str, ...]] = {}
    times = [at for at in (False, True) if snapshot(name, "left", after=at).exists()]
    findings = [
        each for at in times for end in ENDS for each in preflight(name, setting, end, after=at)
    ]
    found["preflight"] = tuple(each["rule"] for each in findings if each["severity"] != "info")
    logs = [each["said"] for ends in record["tools"].values() for each in ends.values()]
    firsts = [document.get("first") for document in map(explain, logs)]
    said = {end: each["said"] for ends in record["tools"].values() for end, each in ends.items()}
    of_both: list[str] = []
    for at in times:
        story = job(said, {end: snapshot(name, end, after=at) for end in ENDS})
        of_reports = story.get("of_reports") or {}
        of_both += [each["finding"]["rule"] for each in of_reports.get("findings", ())]
        of_both += filter(None, [by_reports(story)[0].cause])
    found["rdmadiag"] = tuple(dict.fromkeys(of_both))
    found["explain"] = tuple(
        (first["causes"] or [{"label": first["what"]}])[0]["label"]
        for first in firsts
        if first and first["kind"] != "note"
    )
    stories = (
        by_story(explain_both({end: each["said"] for end, each in ends.items()})).cause
        for ends in record["tools"].values()
    )
    found["explain of both"] = tuple(filter(None, stories))
    found["checklist"] = tuple(
        filter(None, (by_checklist({end: record["checklist"][end]}).cause for end in ENDS))
    )
    return name, found


def read(name: str) -> dict[str, Any]:
    """The record of a fault or a twin."""
    found: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def snapshot(name: str, end: str, *, after: bool = False) -> Path:
    """That of one host, before the tools ran or when they had ended."""
    return RECORDS / f"{name}.{end}{'.after' if after else ''}.tar.gz"


def device(setting: str, end: str) -> str:
    """The one of that host."""
    return f"{'siw' if setting == 'siw' else 'rxe'}{DEVICE[end]}"


def preflight(name: str, setting: str, end: str, *, after: bool = False) -> list[dict[str, Any]]:
    """Its findings; a device that the host has not any more is one, too."""
    where = snapshot(name, end, after=after)
    if not where.exists():
        return []
    only = device(setting, end)
    document = _json("preflight", "--from", str(where), "--device", only)
    if not document:
        document = _json("preflight", "--from", str(where))
    found: list[dict[str, Any]] = document.get("verdict", {}).get("findings", [])
    return found


def explain(log: str, report: Path | None = None, only: str = "") -> dict[str, Any]:
    """The document of `explain --log`."""
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as file:
        file.write(log)
        file.flush()
        alone = ("explain", "--log", file.name)
        if report and report.exists():
            found = _json(*alone, f"--from={report}", f"--device={only}")
            if found.get("first"):
                return found
            return _json(*alone, f"--from={report}")  # the log names another, or it is gone
        return _json(*alone)


def explain_both(said: Mapping[str, str]) -> dict[str, Any]:
    """The document of `explain --log` of the logs of both ends, left.log and right.log."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{end}.log") for end in ENDS if end in said]
        for log in logs:
            log.write_text(said[log.stem], encoding="utf-8")
        return _json("explain", "--job", "--log", *map(str, logs))


def job(said: Mapping[str, str], reports: Mapping[str, Path]) -> dict[str, Any]:
    """The document of `explain --log` of both ends' logs with a folder of both hosts' reports."""
    with _given(said, reports) as argv:
        return _json(*argv)


@contextmanager
def _given(said: Mapping[str, str], reports: Mapping[str, Path]) -> Iterator[list[str]]:
    """The command line, while its files are there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "reports")
        folder.mkdir()
        for end, report in reports.items():
            if report.exists():
                shutil.copy(report, folder / f"{end}.tar.gz")
        argv = ["explain", "--job", f"--from={folder}", "--timeout=30"]
        for end, text in said.items():
            log = Path(name, f"{end}.log")
            log.write_text(text, encoding="utf-8")
            argv.append(f"--log={log}")
        yield argv


def _json(*argv: str) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("r", suffix=".json", encoding="utf-8") as out:
        warm.finish(warm.start([*argv, "--json"], Path(out.name)), SECONDS)
        try:
            found: dict[str, Any] = json.load(out)
        except json.JSONDecodeError:
            return {}
    return found


def tables(
    scored: Sequence[Scored],
    false: Sequence[tuple[str, Mapping[str, tuple[str, ...]]]],
) -> str:
    """The page."""
    drawn = held_out()
    parts = {"open families": [each for each in scored if each.fault.family not in drawn]}
    for number in sorted(set(rounds().values())):
        of_round = held_out(number)
        title = "held out" if number == 1 else f"held out, round {number}"
        parts[title] = [each for each in scored if each.fault.family in of_round]
    lines = [
        "# Scores",
        "",
        "Written by `python -m faults.score --write`; README.md has the rules.",
        f"{len(scored)} of {len(faults())} faults have a record and are scored here.",
        (
            "Each round was scored once before anybody had read its records: ROUNDS.md has that "
            "score. All have been read since."
        ),
        "",
    ]
    for title, rows in parts.items():
        if not rows:
            lines += [f"## {title}: none was run", ""]
            continue
        lines += [f"## {title}: {len(rows)} faults", ""]
        lines += ["| way | top cause | host or end | names a cause |", "|---|---|---|---|"]
        for way in WAYS:
            named = sum(bool(a.cause) for each in rows for a in each.answers[way])
            of = sum(len(each.answers[way]) for each in rows)
            causes, hosts = (
                sum(score(each, way) for each in rows) / len(rows)
                for score in (Scored.cause, Scored.host)
            )
            lines.append(f"| {way} | {causes:.1%} | {hosts:.1%} | {named / of:.1%} |")
        lines.append("")
    lines += ["## healthy twins", "", "| twin | found above info |", "|---|---|"]
    for name, found in false:
        what = "; ".join(f"{way}: {', '.join(each)}" for way, each in found.items() if each)
        lines.append(f"| {name} | {what or 'nothing'} |")
    lines += ["", "## each fault", ""]
    lines += [
        "| fault | host | rdmadiag, after | rdmadiag | preflight | explain | right |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in scored:
        cells = [
            " / ".join(dict.fromkeys(_cell(answer) for answer in each.answers[way]))
            for way in ("rdmadiag, after", "rdmadiag", "preflight", "explain")
        ]
        right = "; ".join(
            f"{each.cause(way):.0%}, {each.host(way):.0%}"
            for way in ("rdmadiag, after", "rdmadiag")
        )
        lines.append(f"| {each.fault.name} | {each.fault.host} | {' | '.join(cells)} | {right} |")
    lines += ["", "What the ways are:", ""]
    lines += [f"- {way}: {about}" for way, about in WAYS.items()]
    return "\n".join(lines) + "\n"


def _cell(answer: Answer) -> str:
    return f"{answer.cause} at {answer.host}" if answer.cause else "nothing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
