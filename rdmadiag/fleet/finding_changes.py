"""Findings of two verdicts beside each other: new, fixed, or not known on one side."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.fleet.changed import Change, ChangeKind, NotCompared, Which
from rdmadiag.fleet.record_sides import Renamed
from rdmadiag.preflight.verdict import Finding, Severity, Verdict

_ORDER: Final = (Severity.INFO, Severity.WARN, Severity.UNKNOWN, Severity.CRITICAL)
_WRONG: Final = (Severity.WARN, Severity.CRITICAL)
_COUNTS: Final = re.compile(r"[0-9]+")

_LACKS: Final = ("source-not-collected",)
"""Rules that say which parts of a record are not there: those are not compared, one by one."""

Place = tuple[str, str | None, int | None]  # rule, device, port


def finding_changes(
    before: Verdict, after: Verdict, renamed: Renamed, devices: tuple[frozenset[str], ...]
) -> Iterator[Change | NotCompared]:
    """`devices` are those of each record, as the first names them; of one that has gone nothing
    is fixed."""
    first = _by_place(before.findings, Renamed({}))
    second = _by_place(after.findings, renamed)
    for place in first | second:
        if place[0] in _LACKS:
            continue
        old, new = first.get(place, []), second.get(place, [])
        shown = _shown(place, old, new)
        for one, other in _pairs(old, new):
            yield from _pair(place, shown, one, other, (before, after), renamed, devices)


def _by_place(findings: Sequence[Finding], renamed: Renamed) -> dict[Place, list[Finding]]:
    found: dict[Place, list[Finding]] = {}
    for each in findings:
        device = None if each.device is None else renamed.of(each.device)
        found.setdefault((each.rule, device, each.port), []).append(each)
    return found


def _shown(place: Place, old: Sequence[Finding], new: Sequence[Finding]) -> str | None:
    """The device, as the second record names it."""
    return new[0].device if new else old[0].device if old else place[1]


def _pairs(
    old: list[Finding], new: list[Finding]
) -> Iterator[tuple[Finding | None, Finding | None]]:
    """Those that say the same, whatever the numbers in it; the others by how bad they are."""
    left = sorted(new, key=_badness)
    gone: list[Finding] = []
    for each in sorted(old, key=_badness):
        alike = next((other for other in left if _words(other) == _words(each)), None)
        if alike is None:
            gone.append(each)
        else:
            left.remove(alike)
            yield each, alike
    for at in range(max(len(gone), len(left))):
        yield gone[at] if at < len(gone) else None, left[at] if at < len(left) else None


def _badness(finding: Finding) -> int:
    return -_ORDER.index(finding.severity)


def _words(finding: Finding) -> str:
    return _COUNTS.sub("#", finding.summary)


def _pair(
    place: Place,
    device: str | None,
    old: Finding | None,
    new: Finding | None,
    verdicts: tuple[Verdict, Verdict],
    renamed: Renamed,
    devices: tuple[frozenset[str], ...],
) -> Iterator[Change | NotCompared]:
    rule, named, port = place
    before, after = (None if each is None else each.severity for each in (old, new))
    if before == after:
        return
    for which, finding, verdict, theirs, other in (
        (Which.BEFORE, old, verdicts[0], Renamed({}), new),
        (Which.AFTER, new, verdicts[1], renamed, old),
    ):
        why = _unknown(place, finding, verdict, theirs)
        if why is not None:
            known = "nothing found" if other is None else f"{other.severity}: {other.summary}"
            yield NotCompared(which, rule, None, device, port, known, why, counts=True)
            return
    kind = _kind(before, after)
    summary_after = None if new is None else new.summary
    if new is None and named is not None and named not in devices[1] and named in devices[0]:
        kind, summary_after = ChangeKind.CHANGED, f"{named} is not there"
    yield Change(
        kind,
        rule,
        None,
        device,
        port,
        None if old is None else old.summary,
        summary_after,
        before,
        after,
        new.remedy if new is not None and kind is ChangeKind.WORSE else (),
    )


def _unknown(
    place: Place, finding: Finding | None, verdict: Verdict, renamed: Renamed
) -> str | None:
    """Why it is not known what the rule finds there."""
    if finding is not None:
        return finding.summary if finding.severity is Severity.UNKNOWN else None
    rule, device, port = place
    for each in verdict.skipped:
        own = None if each.device is None else renamed.of(each.device)
        if each.rule == rule and (own is None or (own == device and each.port in (None, port))):
            return f"{each.need} {each.why}: {each.detail}"
    return None


def _kind(before: Severity | None, after: Severity | None) -> ChangeKind:
    ranks = [0 if each not in _WRONG else _ORDER.index(each) for each in (before, after)]
    if ranks[0] == ranks[1]:
        return ChangeKind.CHANGED
    return ChangeKind.WORSE if ranks[1] > ranks[0] else ChangeKind.BETTER
