"""What each way of looking answers for one fault: a cause and a host.

Pure functions on what was recorded and on the JSON documents of rdmadiag; the ways themselves are
run by score.py. A cause is a label of `explain` or a rule of `preflight`; README.md has the rules.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from faults.table import ENDS, Fault
from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.causes.cause import Of

SEVERITIES: Final = ("critical", "unknown", "warn")  # worst first; info is no finding
CONFIRMED: Final = "confirmed"
OTHER: Final = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Answer:
    """One; no cause: nothing was found. `host` is left, right, between or both."""

    cause: str = ""
    host: str = ""


NOTHING: Final = Answer()


def cause_is_right(answer: Answer, fault: Fault) -> bool:
    """The cause is one of those that the truth allows."""
    return answer.cause in (*fault.causes, *fault.rules)


def host_is_right(answer: Answer, fault: Fault) -> bool:
    """The host is that of the fault; of both, or of one between with a right cause, either end."""
    if not answer.cause:
        return False
    if fault.host == "both":
        return answer.host in ("both", *ENDS)
    if fault.host == "between":
        of_it = answer.host in ("both", *ENDS) and cause_is_right(answer, fault)
        return answer.host == "between" or of_it
    return answer.host == fault.host


def by_findings(verdicts: Mapping[str, Sequence[Mapping[str, Any]]]) -> Answer:
    """The first finding of the worst severity, of the ends' preflights (`verdict.findings`)."""
    for severity in SEVERITIES:
        for end in ENDS:
            for finding in verdicts.get(end, ()):
                if finding["severity"] == severity:
                    return Answer(finding["rule"], end)
    return NOTHING


def by_reports(document: Mapping[str, Any]) -> tuple[Answer, bool]:
    """What both hosts' reports show together (`of_reports` of `explain` of both logs with both),
    and whether they prove it; else it only points at something.
    """
    found = document.get("of_reports") or {}
    if not found.get("cause"):
        return NOTHING, False
    hosts = found["hosts"]
    place = {0: "between", 1: hosts[0] if hosts else ""}.get(len(hosts), "both")
    return Answer(found["cause"]["label"], place), bool(found.get("is_proven"))


def of_all(
    findings: Mapping[str, Sequence[Mapping[str, Any]]], story: Mapping[str, Any], logs: Answer
) -> Answer:
    """A critical finding of one host; what both reports prove; the first cause of what failed first
    where its host's report confirms it; any other finding; what both point at; the logs.
    """
    critical = {
        end: [each for each in several if each["severity"] == "critical"]
        for end, several in findings.items()
    }
    reports, is_proven = by_reports(story)
    proven = reports if is_proven else NOTHING
    confirmed = _confirmed(story)
    if confirmed.cause == reports.cause:
        confirmed = NOTHING  # by what both reports only point at
    return together(
        (by_findings(critical), proven, confirmed, by_findings(findings), reports, logs)
    )


def _confirmed(story: Mapping[str, Any]) -> Answer:
    """At the host that the story is certain of, else where such a cause is."""
    first, at = story.get("first"), story.get("at") or {}
    causes = first["failure"]["causes"] if first else ()
    if not causes or causes[0]["standing"] != CONFIRMED:
        return NOTHING
    return by_place(story) if at.get("is_certain") else by_story(story)


def by_logs(
    accounts: Mapping[str, Mapping[str, Any]],
    ended: Mapping[str, float | None],
    *,
    reports: bool,
) -> Answer:
    """The first cause of the first failure, of both ends' logs (documents of `explain --log`).

    Of two ends, the one whose failure is no consequence; with reports the one whose cause is
    confirmed; the one that speaks of itself, not of its peer or the way there; the one that ended
    first by itself, after `ended` seconds; the client.
    """
    found: list[tuple[tuple[bool, bool, bool, float, int], Answer]] = []
    for order, end in enumerate(ENDS):
        first = accounts.get(end, {}).get("first")
        if not first or first["kind"] == "note" or not first["causes"]:
            continue
        cause = first["causes"][0]
        answer = placed(cause["label"], end)
        when = ended.get(end)
        rank = (
            first["kind"] == "consequence",
            not (reports and cause["standing"] == CONFIRMED),
            answer.host not in (end, "both"),
            inf if when is None else when,
            order,
        )
        found.append((rank, answer))
    return min(found, key=lambda each: each[0])[1] if found else NOTHING


def by_story(story: Mapping[str, Any]) -> Answer:
    """The first cause of what failed first, of both ends' logs read as one story (`--job`)."""
    first = story.get("first")
    if not first or not first["failure"]["causes"]:
        return NOTHING
    end = first["where"].rpartition("/")[2].removesuffix(".log")
    return placed(first["failure"]["causes"][0]["label"], end)


def by_place(story: Mapping[str, Any]) -> Answer:
    """What the story of both logs with both reports says by itself: the cause that the reports
    prove, else the first of what failed first, else what the reports point at; and where it is to
    be mended (`at`).
    """
    proven, is_proven = by_reports(story)
    first, at = story.get("first"), story.get("at")
    causes = first["failure"]["causes"] if first else ()
    label = proven.cause if is_proven or not causes else causes[0]["label"]
    if at is None or not label:
        return NOTHING
    names = [each.rpartition("/")[2].removesuffix(".log") for each in at["names"]]
    return Answer(label, names[0] if at["kind"] == "host" and names else at["kind"])


def placed(cause: str, end: str) -> Answer:
    """Where a cause is, which a log of `end` shows."""
    of = CAUSES[cause].of if cause in CAUSES else Of.OWN
    place = {Of.OWN: end, Of.PEER: OTHER[end], Of.WAY: "between", Of.BOTH: "both"}
    return Answer(cause, place[of])


def together(answers: Iterable[Answer]) -> Answer:
    """The first that names a cause."""
    return next((each for each in answers if each.cause), NOTHING)


def by_checklist(said: Mapping[str, str]) -> Answer:
    """What checklist.sh said: of the left host, else of the right one."""
    for end in ENDS:
        match = re.search(r"^cause: ([a-z0-9-]+)$", said.get(end, ""), re.MULTILINE)
        if match and match[1] != "none":
            return placed(match[1], end)
    return NOTHING


# What a line means most often, as somebody would know it who has looked such lines up before.
_GREP: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (r"cannot allocate memory|ENOMEM|couldn't (?:allocate|register) (?:MR|memory)", "memlock"),
        (r"too many open files|EMFILE", "open-files-limit"),
        (r"no (?:IB|RDMA) devices? (?:were )?found", "no-rdma-device"),
        (r"(?:IB )?device .{0,40}not found|unable to find the Infiniband", "device-absent"),
        (r"permission denied|EACCES", "uverbs-node-not-openable"),
        (r"address already in use|EADDRINUSE", "tcp-port-taken"),
        (r"no space left|ENOSPC", "qp-exhausted"),
        (r"connection refused|ECONNREFUSED|RDMA_CM_EVENT_REJECTED", "peer-not-listening"),
        (r"no route to host|EHOSTUNREACH", "no-route"),
        (r"network is unreachable|ENETUNREACH", "no-route"),
        (r"RDMA_CM_EVENT_ADDR_ERROR", "no-rdma-at-address"),
        (r"RDMA_CM_EVENT_(?:ROUTE_ERROR|UNREACHABLE)|connection timed out", "peer-unreachable"),
        (r"failed to modify QP to RTR|to RTR", "gid-index-or-family"),
        (r"status 12|transport retry counter exceeded", "no-path"),
        (r"status 13|RNR", "peer-posts-no-receives"),
        (r"status [0-9]+", "flushed"),
        (r"couldn't connect|unable to connect|could not connect", "peer-not-listening"),
        (r"no such file or directory", "device-absent"),
        (r"invalid argument|EINVAL", "gid-index-or-family"),
        (r"error|fail", "peer-gone"),
    )
)


def by_grep(said: Mapping[str, str]) -> Answer:
    """The first pattern of the list that a line of either end matches."""
    for pattern, cause in _GREP:
        for end in ENDS:
            if pattern.search(said.get(end, "")):
                return placed(cause, end)
    return NOTHING
