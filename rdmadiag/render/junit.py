"""A JUnit report: one suite, one case for each rule at each place that it names.

What is unknown, or could not be checked, is skipped, never passed. A warning fails where it
counts (--fail-on).
"""

from collections.abc import Collection
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rdmadiag.facts import Identity
from rdmadiag.preflight.checks import Check, checks
from rdmadiag.preflight.verdict import Finding, Status, Verdict
from rdmadiag.render.answer import answer
from rdmadiag.render.plain import printable


def text(verdict: Verdict, host: Identity, counts: Collection[str], when: datetime) -> str:
    """The document; `counts` are the statuses that fail."""
    every = checks(verdict)
    failed = sum(_fails(check, counts) for check in every)
    skipped = sum(check.status is Status.UNKNOWN for check in every)
    numbers = {"tests": str(len(every)), "failures": str(failed), "errors": "0"}
    root = Element("testsuites", numbers | {"name": "rdmadiag", "time": "0"})
    suite = SubElement(
        root,
        "testsuite",
        numbers
        | {
            "name": "preflight",
            "skipped": str(skipped),
            "time": "0",
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%S"),
            "hostname": printable(host.hostname),
        },
    )
    for check in every:
        _case(suite, check, counts)
    summary = SubElement(suite, "system-out")
    summary.text = f"{verdict.status.upper()}  {answer(verdict)}"
    return document(root)


def failure(message: str) -> str:
    """The document of a command line that could not be followed: one suite with one error."""
    numbers = {"tests": "1", "failures": "0", "errors": "1"}
    root = Element("testsuites", numbers | {"name": "rdmadiag", "time": "0"})
    more = {"name": "rdmadiag", "skipped": "0", "time": "0"}
    suite = SubElement(root, "testsuite", numbers | more)
    case = SubElement(suite, "testcase", {"classname": "rdmadiag", "name": "run", "time": "0"})
    SubElement(case, "error", {"message": printable(message)}).text = printable(message)
    return document(root)


def document(root: Element) -> str:
    """In ASCII: the same bytes whatever the locale, and in UTF-8."""
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root).decode()}\n'


def _fails(check: Check, counts: Collection[str]) -> bool:
    return check.status is Status.CRITICAL or (check.status is Status.WARN and "warn" in counts)


def _case(suite: Element, check: Check, counts: Collection[str]) -> None:
    case = SubElement(
        suite,
        "testcase",
        {
            "classname": "rdmadiag.preflight",
            "name": printable(f"{check.rule} {check.place}".strip()),
            "time": "0",
        },
    )
    if check.lacks:
        lack = check.lacks[0]
        message = f"could not be checked: {lack.need} {lack.why}: {lack.detail}"
        SubElement(case, "skipped", {"message": printable(message)})
    if not check.findings:
        return
    body = "\n\n".join(map(_told, check.findings))
    first = {"message": printable(check.findings[0].summary)}
    if _fails(check, counts):
        SubElement(case, "failure", first | {"type": str(check.status)}).text = body
    elif check.status is Status.UNKNOWN:
        SubElement(case, "skipped", first)
        SubElement(case, "system-out").text = body
    else:
        SubElement(case, "system-out").text = body


def _told(finding: Finding) -> str:
    lines = [
        finding.summary,
        *(f"{proof.subject}: {proof.value}" for proof in finding.evidence),
        *finding.remedy,
    ]
    return "\n".join(map(printable, lines))
