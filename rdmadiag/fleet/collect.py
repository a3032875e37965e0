"""Everything that was read of a fleet: whose report is whose, and what is no report.

Nothing is dropped in silence: of each node and kind of oddity the first is named, and how many
there were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rdmadiag.fleet.document import NoReport, Reader, Said
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.lines import Ending
from rdmadiag.fleet.merged import Gap, Unused
from rdmadiag.fleet.nodes import Expected
from rdmadiag.fleet.wholes import Wholes
from rdmadiag.preflight.verdict import Status, worse

_ENTRIES: Final = 200_000
"""Of what is no report; a host may write lines without end."""

_LOOSE: Final = 50
"""Lines of nobody that are named one by one."""

_EXIT_CODE: Final = {Status.OK: 0, Status.WARN: 1, Status.CRITICAL: 2, Status.UNKNOWN: 3}


@dataclass(slots=True)
class _Oddity:
    """Of one node or label: the first of its kind, and how many there were."""

    where: str
    detail: str
    count: int


class Collected:
    """Takes reports and what is none, in any order; `result` says what they come to."""

    def __init__(self, reader: Reader, expected: Expected | None = None) -> None:
        self.reader, self.expected = reader, expected
        self.wholes = Wholes()
        self.attempts: list[tuple[str, Mapping[str, Any]]] = []  # of pingpong, with their nodes
        self._reports: dict[tuple[str, str], HostReport] = {}  # of a node and a kind of document
        self._odd: dict[tuple[str | None, Gap, int], _Oddity] = {}
        self._loose: dict[Gap, int] = {}
        self._endings: list[tuple[str, Ending]] = []
        self._more = 0

    def named(self, name: str) -> str:
        """The expected node that a host or a launcher calls so; the name itself without one."""
        return (self.expected and self.expected.of_host(name)) or name

    def report(self, node: str, said: Said, where: str, content: bytes) -> None:
        """The newest of a node and a kind is taken; the other one is named."""
        made = HostReport(
            node,
            where,
            said.generated_at,
            said.version,
            said.status,
            said.safe_to_attempt_rtr,
            said.findings,
            said.facts,
        )
        before = self._reports.get((node, said.kind))
        kept, other = made, before
        if before is not None and before.generated_at > made.generated_at:
            kept, other = before, made
        self._reports[node, said.kind] = kept
        if kept is made and said.facts:
            self.wholes.add(node, said.facts, content)
        if other is not None:
            detail = f"of {other.generated_at}; taken is {kept.where} of {kept.generated_at}"
            self.odd(node, other.where, NoReport(Gap.SECOND, detail))

    def odd(self, node: str | None, where: str, found: NoReport, count: int = 1) -> None:
        """What is no report, the first of `count`; of `node` where that is known."""
        number = 0
        if node is None:
            number = self._loose[found.gap] = min(_LOOSE, self._loose.get(found.gap, 0) + 1)
        key = node, found.gap, number
        if key in self._odd:
            self._odd[key].count += count
        elif len(self._odd) < _ENTRIES:
            self._odd[key] = _Oddity(where, found.detail, count)
        else:
            self._more += count

    def unreadable(self, node: str | None, where: str, why: str) -> None:
        """A file that could not be opened or unpacked, of `node` where it is called after one."""
        self.odd(node, where, NoReport(Gap.UNREADABLE, why))

    def ended(self, where: str, ending: Ending) -> None:
        """What a launcher said itself, with or without nodes."""
        if not ending.nodes:
            gap = Gap.FAILED if ending.is_error else Gap.FOREIGN
            self.odd(None, where, NoReport(gap, ending.detail))
        elif len(self._endings) < _ENTRIES:
            self._endings.append((where, ending))
        else:
            self._more += 1

    def result(self) -> tuple[tuple[HostReport, ...], tuple[Unused, ...]]:
        """One report a node, by name; and what is no report."""
        nodes: dict[str, HostReport] = {}
        codes: dict[str, set[int]] = {}
        for (node, _), report in sorted(self._reports.items(), key=lambda item: _order(item[0])):
            nodes[node] = _joined(nodes[node], report) if node in nodes else report
            codes.setdefault(node, set()).add(_EXIT_CODE[report.status])
        for where, ending in self._endings:
            for node in map(self.named, ending.nodes):
                if ending.code not in codes.get(node, ()):  # it ended as its verdict says
                    self.odd(node, where, NoReport(Gap.FAILED, ending.detail))
        self._endings.clear()
        unused = [
            Unused(gap, node, each.where, _counted(each))
            for (node, gap, _), each in self._odd.items()
        ]
        if self._more:
            detail = f"{self._more} more, for which there is no room here"
            unused.append(Unused(Gap.FOREIGN, None, None, detail))
        return tuple(nodes[name] for name in sorted(nodes)), tuple(unused)


def _order(key: tuple[str, str]) -> tuple[bool, str, str]:
    node, kind = key
    return kind != "preflight", node, kind


def _counted(each: _Oddity) -> str:
    return f"{each.detail} (and {each.count - 1} more)" if each.count > 1 else each.detail


def _joined(one: HostReport, other: HostReport) -> HostReport:
    """Two documents on one host: preflight's, with what counters found."""
    return replace(
        one,
        status=worse(one.status, other.status),
        findings=(*one.findings, *other.findings),
    )
