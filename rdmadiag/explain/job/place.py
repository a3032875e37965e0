"""At which host of a job it is to be mended: not always the one whose log has the line.

What reports prove comes before a critical finding of one host alone, that before what the report
of its host confirms of a line, that before a warning of one host alone, where the line is not of
its own end; then comes what both reports point at, and last what a line by itself says.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.causes.cause import Of
from rdmadiag.explain.job.ends import OWN_WAY
from rdmadiag.explain.job.story import FirstFailure, OfReports, Place, PlaceKind, Story
from rdmadiag.explain.log.account import LikelyCause, Standing
from rdmadiag.explain.log.groups import FLUSHED
from rdmadiag.preflight.verdict import Finding, Severity

_TWO: Final = 2


def with_place(story: Story, own: Mapping[str, Sequence[Finding]] = MappingProxyType({})) -> Story:
    """The story with where it is. `own`: what `preflight` finds of each host by itself."""
    from dataclasses import replace

    return replace(story, at=next(_places(story, own), None))


def _places(story: Story, own: Mapping[str, Sequence[Finding]]) -> Iterator[Place]:
    found, first = story.of_reports, story.first
    if first is None and not story.silent and (found is None or found.cause is None):
        return
    cause = first.failure.causes[0] if first is not None and first.failure.causes else None
    if found is not None and found.cause is not None and found.is_proven:
        yield _of_reports(found, found.cause)
    yield from _of_findings(own, Severity.CRITICAL)
    pointed = found.cause.label if found is not None and found.cause is not None else None
    if first is not None and cause is not None:
        yield from _of_settings(own, first, cause)
    if first is not None and cause is not None and cause.label != pointed:
        line = _of_line(story, first, cause)
        if line.is_certain:
            yield line
    if cause is None or CAUSES[cause.label].of is not Of.OWN:
        yield from _of_findings(own, Severity.WARN)
    if found is not None and found.cause is not None:
        yield _of_reports(found, found.cause)
    if first is not None and cause is not None:
        yield _of_line(story, first, cause)


def _of_reports(found: OfReports, cause: LikelyCause) -> Place:
    kinds = {0: PlaceKind.BETWEEN, 1: PlaceKind.HOST}
    kind = kinds.get(len(found.hosts), PlaceKind.BOTH)
    why = cause.evidence[-1] if cause.evidence else cause.text
    return Place(kind, found.hosts, why, found.is_proven)


def _of_findings(own: Mapping[str, Sequence[Finding]], severity: Severity) -> Iterator[Place]:
    """The one host of several that has a finding of this severity which no other has; where
    something of a host could not be looked at, it may have the same.
    """
    unknown = (each.severity is Severity.UNKNOWN for found in own.values() for each in found)
    if any(unknown):
        return
    rules = {host: {each.rule for each in findings} for host, findings in own.items()}
    alone: dict[str, Finding] = {}
    for host, findings in own.items():
        others = set().union(*(of for name, of in rules.items() if name != host))
        for each in reversed(findings):
            if each.severity is severity and each.rule not in others:
                alone[host] = each
    if len(alone) == 1 and len(own) >= _TWO:
        ((host, each),) = alone.items()
        yield Place(PlaceKind.HOST, (host,), f"preflight: {each.rule}: {each.summary}", False)


def _of_settings(
    own: Mapping[str, Sequence[Finding]], first: FirstFailure, cause: LikelyCause
) -> Iterator[Place]:
    """A cause of the way that what one host is set to confirms: it is there, if no other host of
    the job has the like.
    """
    row = CAUSES[cause.label]
    if cause.standing != Standing.CONFIRMED or row.of is not Of.WAY:
        return
    rules = OWN_WAY.keys() & row.proofs
    found = {name: [e for e in several if e.rule in rules] for name, several in own.items()}
    having = [(name, several[0]) for name, several in found.items() if several]
    if len(having) == 1 and having[0][0] == first.who.host:
        name, each = having[0]
        yield Place(PlaceKind.HOST, (name,), f"preflight: {each.rule}: {each.summary}", True)


def _of_line(story: Story, first: FirstFailure, cause: LikelyCause) -> Place:
    of = CAUSES[cause.label].of
    certain = cause.standing == Standing.CONFIRMED
    here = first.who.host or first.where
    if of is Of.OWN:
        return Place(PlaceKind.HOST, (here,), cause.text, certain)
    there = _other(story, first)
    if of is Of.PEER:
        return Place(PlaceKind.HOST, (there,) if there else (), cause.text, certain)
    if of is Of.WAY and _is_flushed(first) and not _on_hardware(story, first):
        return Place(PlaceKind.HOST, (here,), cause.text, certain)
    if of is Of.WAY:
        return Place(PlaceKind.BETWEEN, (), cause.text, certain)
    return Place(PlaceKind.BOTH, (here, there) if there else (here,), cause.text, certain)


def _is_flushed(first: FirstFailure) -> bool:
    """Whether it begins with a flush: so ends soft RoCE a queue pair whose packets its own host
    does not let out.
    """
    completion = first.failure.completion
    return completion is not None and completion.number == FLUSHED


def _on_hardware(story: Story, first: FirstFailure) -> bool:
    """Whether an adapter says so, which flushes after any failure: it has a syndrome for that."""
    completion = first.failure.completion
    names = [each.device for each in story.printed if each.device]
    return bool(completion and completion.vendor_error) or any(
        not name.startswith(("rxe", "siw")) for name in names
    )


def _other(story: Story, first: FirstFailure) -> str | None:
    """The other end: its host, else its file, else its address."""
    if first.whom is not None and first.whom.host is not None:
        return first.whom.host
    hosts = [each for each in story.hosts if each != first.who.host]
    if first.who.host is not None and len(story.hosts) == _TWO and len(hosts) == 1:
        return hosts[0]
    seen = [each.host for each in story.reports if each.host != first.who.host]
    if first.who.host is not None and len(story.reports) == _TWO and len(seen) == 1:
        return seen[0]
    files = [each.name for each in story.sources if each.name != first.where]
    if len(story.sources) == _TWO and len(files) == 1:
        return files[0]
    return first.whom.address if first.whom is not None else None
