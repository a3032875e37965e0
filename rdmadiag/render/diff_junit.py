"""What differs between two records as a JUnit report: one suite, one case a change.

What one side could not look at is skipped, never passed.
"""

from datetime import datetime
from xml.etree.ElementTree import Element, SubElement

from rdmadiag.facts import Identity
from rdmadiag.fleet.changed import Change, ChangeKind, Differences
from rdmadiag.render.diff import answer
from rdmadiag.render.junit import document
from rdmadiag.render.plain import printable


def text(found: Differences, host: Identity, when: datetime, *, only_worse: bool) -> str:
    """The document; with `only_worse` nothing else than new problems fails."""
    skipped = [each for each in found.not_compared if each.counts]
    failing = [each for each in found.changes if each.kind is ChangeKind.WORSE or not only_worse]
    whole = not found.changes and not skipped
    numbers = {
        "tests": str(len(found.changes) + len(skipped) + whole),
        "failures": str(len(failing)),
        "errors": "0",
    }
    root = Element("testsuites", numbers | {"name": "rdmadiag", "time": "0"})
    more = {
        "name": "diff",
        "skipped": str(len(skipped)),
        "time": "0",
        "timestamp": when.strftime("%Y-%m-%dT%H:%M:%S"),
        "hostname": printable(host.hostname),
    }
    suite = SubElement(root, "testsuite", numbers | more)
    for change in found.changes:
        case = _case(suite, _name(change))
        text = f"{_shown(change.before)} → {_shown(change.after)}"
        if change in failing:
            attributes = {"message": printable(text), "type": str(change.kind)}
            parts = (
                f"{each.name and f'{each.name}: '}"
                f"{_shown(each.before, 'none')} → {_shown(each.after, 'none')}"
                for each in change.parts
            )
            SubElement(case, "failure", attributes).text = "\n".join(
                map(printable, (text, *parts, *change.remedy))
            )
        else:
            SubElement(case, "system-out").text = printable(text)
    for each in skipped:
        place = _place(each.device, each.port)
        case = _case(suite, f"unknown {each.fact or each.rule} {place}".strip())
        message = f"not known in {each.unknown_in}: {each.why}"
        SubElement(case, "skipped", {"message": printable(message)})
    if whole:
        _case(suite, "same")
    word, said = answer(found)
    SubElement(suite, "system-out").text = printable(f"{word.upper()}  {said}")
    return document(root)


def _case(suite: Element, name: str) -> Element:
    attributes = {"classname": "rdmadiag.diff", "name": printable(name), "time": "0"}
    return SubElement(suite, "testcase", attributes)


def _name(change: Change) -> str:
    what = change.fact if change.fact is not None else str(change.rule)
    return f"{change.kind} {what} {_place(change.device, change.port)}".strip()


def _place(device: str | None, port: int | None) -> str:
    if device is None:
        return ""
    return device if port is None else f"{device}/{port}"


def _shown(value: str | None, none: str = "nothing found") -> str:
    return none if value is None else value
