"""Many hosts in one line, for every form that has a line for it."""

from typing import Final

from rdmadiag.fleet.merged import Gap, Group, Merged
from rdmadiag.preflight.verdict import Severity, Status
from rdmadiag.render.plain import counted

_FEW: Final = 3
"""Reasons that are named."""

_LONG: Final = 60
"""Letters of a set of nodes; a longer one is a number."""

WORDS: Final = {
    Gap.NEVER_REPORTED: "never reported",
    Gap.TORN: "sent a torn report",
    Gap.FOREIGN: "printed no report",
    Gap.OTHER_SCHEMA: "sent a report of another version",
    Gap.SECOND: "sent an older report, too",
    Gap.UNREADABLE: "has a report that cannot be read",
    Gap.FAILED: "failed",
    Gap.UNEXPECTED: "was not expected",
}
"""Behind a set of nodes."""


def answer(merged: Merged) -> str:
    """Without the status: how many of how many, and the worst reasons with their nodes."""
    whole = len(merged.rows)
    if not whole:
        return "no host reported"
    if merged.status is Status.OK:
        return f"{whole} of {whole} are fit"
    if merged.status is Status.WARN:
        number = sum(row.status is Status.WARN for row in merged.rows)
    else:
        number = whole - merged.hosts.fit
    named, more = _reasons(merged)
    reasons = "; ".join(map(_reason, named))
    rest = f"; and {counted(more, 'more reason')}" if more else ""
    return f"{number} of {whole}: {reasons}{rest}" if reasons else f"{number} of {whole}"


def _reasons(merged: Merged) -> tuple[list[Group], int]:
    """The worst, each with a host that none before it has; and how many others there are."""
    warned = merged.status is Status.WARN
    severities = (Severity.WARN,) if warned else (Severity.CRITICAL, Severity.UNKNOWN)
    named: list[Group] = []
    covered: set[str] = set()
    groups = [each for each in merged.groups if each.severity in severities]
    for group in groups:
        nodes = {row.node for row in merged.rows if group.reason in row.reasons}
        if len(named) < _FEW and not nodes <= covered:
            named.append(group)
            covered |= nodes
    left = [
        group
        for group in groups
        if any(group.reason in row.reasons and row.node not in covered for row in merged.rows)
    ]
    return named, len(left)


def _reason(group: Group) -> str:
    return f"{short(group.nodes, group.count)} {reason(group.reason)}"


def reason(code: str) -> str:
    """A rule's code as it is; words for why there is no report."""
    return WORDS[Gap(code)] if code in set(Gap) else code


def short(nodes: str, count: int) -> str:
    """A set of nodes, or how many they are where it is long."""
    return nodes if len(nodes) <= _LONG else f"{count} hosts"
