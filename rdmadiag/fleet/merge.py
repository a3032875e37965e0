"""What the reports of many hosts add up to: counts, reasons with their nodes, gaps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from rdmadiag.fleet.compare import Compared
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Gap, Group, HostCounts, Merged, NodeRow, Unused
from rdmadiag.fleet.nodes import Expected, fold
from rdmadiag.fleet.remedies import trusted
from rdmadiag.preflight.verdict import Finding, Severity, Status, worse

FIT: Final = (Status.OK, Status.WARN)

_RANK: Final = {severity: rank for rank, severity in enumerate(reversed(Severity))}

_LOST: Final = (
    Gap.FAILED,
    Gap.OTHER_SCHEMA,
    Gap.TORN,
    Gap.UNREADABLE,
    Gap.FOREIGN,
    Gap.NEVER_REPORTED,
)
"""Why a node has no report; the first that applies says most."""

_SUMMARY: Final = {
    Gap.FAILED: "the command failed there",
    Gap.OTHER_SCHEMA: "a report of another version",
    Gap.TORN: "a report that ends in its middle",
    Gap.UNREADABLE: "a report that cannot be read",
    Gap.FOREIGN: "printed no report",
    Gap.NEVER_REPORTED: "expected, and nothing of it was read",
    Gap.UNEXPECTED: "reported, and is none of those that were expected",
}


@dataclass(slots=True)
class _Members:
    """Of one group, while it is put together."""

    first: Finding | None
    place: int = 0  # of the finding among those of its host; the least of all
    nodes: list[str] = field(default_factory=list)


class _Folder:
    """Sets of nodes as text; many reasons have the same nodes."""

    def __init__(self) -> None:
        self._known: dict[frozenset[str], str] = {}

    def __call__(self, nodes: Iterable[str]) -> str:
        key = frozenset(nodes)
        if key not in self._known:
            self._known[key] = fold(key)
        return self._known[key]


def merge(
    reports: Sequence[HostReport],
    unused: Sequence[Unused],
    expected: Expected | None = None,
    found: Compared | None = None,
) -> Merged:
    """One report a node; `unused` is what is none; `found` is what comparing them has shown."""
    found = found or Compared()
    lost = _lost(reports, unused, expected)
    status = reduce(worse, (each.status for each in reports), Status.OK)
    if lost or not reports or (_nobodys(unused) and expected is None):
        status = worse(status, Status.UNKNOWN)
    rows = [_row(each, found.class_of) for each in reports]
    rows += [NodeRow(node, None, None, (gap,), None, None) for node, gap in lost.items()]
    return Merged(
        status,
        HostCounts(
            None if expected is None else len(expected.names),
            len(reports),
            sum(each.status in FIT for each in reports),
        ),
        _groups(reports, lost, expected, unused),
        (*unused, *(_never(node) for node, gap in lost.items() if gap is Gap.NEVER_REPORTED)),
        found.classes,
        found.drift,
        found.compatibility,
        tuple(sorted(rows, key=lambda row: row.node)),
        found.unjudged,
    )


def _lost(
    reports: Iterable[HostReport], unused: Iterable[Unused], expected: Expected | None
) -> dict[str, Gap]:
    """Nodes that are known and have no report, and why."""
    have = {each.node for each in reports}
    found = {} if expected is None else dict.fromkeys(expected.names, Gap.NEVER_REPORTED)
    for each in unused:
        if each.node is not None and each.gap in _LOST:
            before = found.get(each.node, Gap.NEVER_REPORTED)
            found[each.node] = min(before, each.gap, key=_LOST.index)
    return {node: gap for node, gap in found.items() if node not in have}


def _nobodys(unused: Iterable[Unused]) -> bool:
    """Whether a report was lost and it is not known whose."""
    gaps = (Gap.FAILED, Gap.OTHER_SCHEMA, Gap.TORN, Gap.UNREADABLE)
    return any(each.node is None and each.gap in gaps for each in unused)


def _never(node: str) -> Unused:
    return Unused(Gap.NEVER_REPORTED, node, None, _SUMMARY[Gap.NEVER_REPORTED])


def _row(report: HostReport, class_of: Mapping[str, str]) -> NodeRow:
    rules = [each.rule for each in report.findings if each.severity is not Severity.INFO]
    return NodeRow(
        report.node,
        report.status,
        class_of.get(report.node),
        tuple(dict.fromkeys(rules)),
        report.generated_at,
        report.version,
    )


def _groups(
    reports: Iterable[HostReport],
    lost: Mapping[str, Gap],
    expected: Expected | None,
    unused: Iterable[Unused],
) -> tuple[Group, ...]:
    members: dict[tuple[str, Severity], _Members] = {}
    for report in reports:
        for place, each in enumerate(report.findings):
            group = members.setdefault((each.rule, each.severity), _Members(each, place))
            group.place = min(group.place, place)
            if not group.nodes or group.nodes[-1] != report.node:
                group.nodes.append(report.node)
        if expected is not None and report.node not in expected:
            key = str(Gap.UNEXPECTED), Severity.INFO
            members.setdefault(key, _Members(None)).nodes.append(report.node)
    for node, gap in lost.items():
        members.setdefault((str(gap), Severity.UNKNOWN), _Members(None)).nodes.append(node)
    folded = _Folder()
    made = [
        Group(
            reason,
            severity,
            folded(each.nodes),
            len(set(each.nodes)),
            each.first.summary if each.first else _summary(Gap(reason), each.nodes[0], unused),
            trusted(reason, each.first.remedy) if each.first else (),
            each.first.evidence if each.first else (),
        )
        for (reason, severity), each in members.items()
    ]

    def order(group: Group) -> tuple[object, ...]:
        """Of one severity what more hosts have; of that what is the cause on its host."""
        place = members[group.reason, group.severity].place
        return _RANK[group.severity], -group.count, place, group.reason

    return tuple(sorted(made, key=order))


def _summary(gap: Gap, node: str, unused: Iterable[Unused]) -> str:
    """With what was read of the first of the nodes."""
    found = next((each.detail for each in unused if (each.gap, each.node) == (gap, node)), None)
    return f"{_SUMMARY[gap]}: {found}" if found else _SUMMARY[gap]


def fit(merged: Merged) -> tuple[list[str], list[str]]:
    """Nodes that are fit for jobs, and those that are not or not known to be."""
    good = [row.node for row in merged.rows if row.status in FIT]
    return good, [row.node for row in merged.rows if row.status not in FIT]
