"""Many hosts as a JUnit report: one suite, one case a host.

What is unknown is skipped, never passed, as in preflight's; a host without a report is an error.
"""

from collections.abc import Collection
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rdmadiag.fleet.merged import Group, Merged, NodeRow
from rdmadiag.fleet.nodes import shown
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.fleet_answer import answer, reason
from rdmadiag.render.plain import printable


def text(merged: Merged, counts: Collection[str], when: datetime) -> str:
    """The document; `counts` are the statuses that fail."""
    failed = sum(_fails(row, counts) for row in merged.rows)
    skipped = sum(row.status is Status.UNKNOWN for row in merged.rows)
    errors = sum(row.status is None for row in merged.rows)
    numbers = {"tests": str(len(merged.rows)), "failures": str(failed), "errors": str(errors)}
    root = Element("testsuites", numbers | {"name": "rdmadiag", "time": "0"})
    more = {"name": "fleet", "skipped": str(skipped), "time": "0"}
    stamp = {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%S")}
    suite = SubElement(root, "testsuite", numbers | more | stamp)
    by_reason = {each.reason: each for each in reversed(merged.groups)}
    for row in merged.rows:
        _case(suite, row, by_reason, counts)
    SubElement(suite, "system-out").text = f"{merged.status.upper()} {printable(answer(merged))}"
    indent(root)
    # In ASCII: the same bytes whatever the locale, and in UTF-8.
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root).decode()}\n'


def _fails(row: NodeRow, counts: Collection[str]) -> bool:
    return row.status is Status.CRITICAL or (row.status is Status.WARN and "warn" in counts)


def _case(
    suite: Element, row: NodeRow, by_reason: dict[str, Group], counts: Collection[str]
) -> None:
    name = {"classname": "rdmadiag.fleet", "name": shown(row.node), "time": "0"}
    case = SubElement(suite, "testcase", name)
    if not row.reasons:
        return
    message = {"message": printable(", ".join(map(reason, row.reasons)))}
    body = "\n".join(map(printable, _lines(row, by_reason)))
    if row.status is None:
        SubElement(case, "error", message | {"type": str(row.reasons[0])}).text = body
    elif _fails(row, counts):
        SubElement(case, "failure", message | {"type": str(row.status)}).text = body
    elif row.status is Status.UNKNOWN:
        SubElement(case, "skipped", message)
        SubElement(case, "system-out").text = body
    else:
        SubElement(case, "system-out").text = body


def _lines(row: NodeRow, by_reason: dict[str, Group]) -> list[str]:
    """Of each reason the line of one of its nodes: this one's stands in its own report."""
    return [f"{code}: {by_reason[code].summary}" for code in row.reasons if code in by_reason]
