"""One run of `exercise` from beginning to end: preflight, ports, the child, what came of it."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rdmadiag.explain.completions import completion, completion_text
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome, Teardown
from rdmadiag.facts.errnos import Platform, errno_name, errno_text
from rdmadiag.facts.exercise import Cell, CellState, Exercise, RunOutcome, Wanted
from rdmadiag.facts.ib import KernelQpType
from rdmadiag.facts.resources import ResourceFacts
from rdmadiag.host import Host
from rdmadiag.preflight.candidate import Candidate, candidates
from rdmadiag.preflight.candidate import Wanted as WantedEnd
from rdmadiag.preflight.safety import Reason
from rdmadiag.sources.run import gather
from rdmadiag.sources.sampling import resources
from rdmadiag.sources.table import Depth
from rdmadiag.verbs import child, records
from rdmadiag.verbs.matrix import LENGTH, unclaimed, untried
from rdmadiag.verbs.outcome import seen_events, teardown
from rdmadiag.verbs.records import CellBegan, CellEnded, ExerciseRequest, Record
from rdmadiag.verbs.watchdog import Watched, watch
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.select import Selector

_LOOKING_SHARE: Final = 0.5  # of the deadline: at most this goes to the preflight
_RESERVED_SECONDS: Final = 2.0  # before the deadline, from which the child puts everything back
_OWN_TYPES: Final = (KernelQpType.SMI, KernelQpType.GSI)
"""Queue pairs that the kernel keeps on every port."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it, and what was decided before."""

    exercise: Exercise
    chosen: tuple[Candidate, ...]  # both ends; or what was refused, the best first
    accepted: tuple[Reason, ...]  # that the user took on


def run(
    host: Host,
    cells: Sequence[Wanted],
    selectors: Sequence[Selector],
    accepted: frozenset[Reason],
    start: float,
    seconds: float,
    noted: Callable[[Record], None],
    *,
    named: Collection[str] = (),
    even_if_busy: bool = False,
) -> Ran:
    """The whole run, which ends `seconds` after `start` (time.monotonic's clock).

    `named` are the operations that the user named one by one. `noted` gets each record of
    the child as it comes. Raises NoSuchDevice.
    """
    platform = host.identity.platform
    evidence = gather(host, start + seconds * _LOOKING_SHARE, None, Depth())
    wanted = WantedEnd(payload_bytes=LENGTH, iterations=1, accepted=accepted)
    groups = [candidates(evidence, wanted, [each]) for each in selectors] or [
        candidates(evidence, wanted)
    ]
    if not all(groups):
        return Ran(_unattempted(RunOutcome.NOT_SAFE, "no RDMA port", platform, cells), (), ())
    chosen = tuple(group[0] for group in groups)
    if len(chosen) == 1:
        chosen = (chosen[0], chosen[0])
    for group, each in zip(groups, chosen, strict=False):
        if each.blocking:
            text = f"the preflight forbids RTR on {each.end.device}/{each.end.port}"
            return Ran(_unattempted(RunOutcome.NOT_SAFE, text, platform, cells), group, ())
    if any(each.protocol is Protocol.THUNDERBOLT for each in chosen):
        text = "Thunderbolt is not exercised: pingpong tries what TN3205 allows there"
        return Ran(_unattempted(RunOutcome.NOT_SAFE, text, platform, cells), chosen, ())
    if not even_if_busy and (busy := _busy(host, chosen, start + seconds)):
        return Ran(_unattempted(RunOutcome.BUSY, busy, platform, cells), chosen, ())
    reasons = tuple(dict.fromkeys(reason for each in chosen for reason in each.reasons))
    verbs = evidence.verbs
    answered = None if isinstance(verbs, Missing) else verbs.device(chosen[0].end.device)
    protocols = {each.protocol for each in chosen}
    nothing_said = Missing(Why.ABSENT, "the verbs library")
    attributes = answered.attributes if answered else nothing_said
    absent = tuple(unclaimed(cells, attributes, protocols))
    skipped = {(each.operation, each.qp_type, each.via) for each in absent}
    absent += tuple(
        each
        for each in untried(cells, named, protocols)
        if (each.operation, each.qp_type, each.via) not in skipped
    )
    skipped |= {(each.operation, each.qp_type, each.via) for each in absent}
    tried = tuple(each for each in cells if (each.operation, each.qp_type, each.via) not in skipped)
    watched = _watch(platform, chosen, tried, start + seconds, noted)
    if isinstance(watched, Missing):
        text = f"no process could be started: {watched}"
        return Ran(_unattempted(RunOutcome.NOT_SAFE, text, platform, cells), chosen, ())
    return Ran(conclude(watched, chosen, tried, absent, platform), chosen, reasons)


def _busy(host: Host, chosen: Sequence[Candidate], deadline: float) -> str | None:
    """Why nothing is tried: somebody works on a port, or nobody can tell."""
    found = resources(host, deadline)
    if isinstance(found, Missing):
        return f"cannot tell whether other processes use it: {found}"
    for each in chosen:
        count = holders(found, each.end.device, each.end.port)
        if isinstance(count, Missing):
            return f"cannot tell whether other processes use it: {count}"
        if count:
            pairs = "queue pair" if count == 1 else "queue pairs"
            return f"others hold {count} {pairs} on {each.end.device}/{each.end.port}"
    return None


def holders(found: ResourceFacts, device: str, port: int) -> int | Missing:
    """Queue pairs on a port but the kernel's own two; Missing where others' are not shown."""
    held = found.device(device)
    if held is None:
        return Missing(Why.ABSENT, f"nldev does not show {device}")
    if isinstance(held.queue_pairs, Missing):
        return held.queue_pairs
    if found.initial_pidns is False:
        return Missing(Why.DENIED, "a PID namespace of its own hides those of others")
    return sum(
        isinstance(each.port, Missing) or each.port in (port, 0)
        for each in held.queue_pairs
        if each.type not in _OWN_TYPES
    )


def _watch(
    platform: Platform,
    chosen: Sequence[Candidate],
    cells: tuple[Wanted, ...],
    deadline: float,
    noted: Callable[[Record], None],
) -> Watched | Missing:
    request = ExerciseRequest(
        platform=platform,
        library=child.LIBRARY[platform],
        start=time.monotonic(),
        deadline=deadline - _RESERVED_SECONDS,
        ends=tuple(each.end for each in chosen),
        meet=None,
        host="",
        port=0,
        until=0.0,
        secret=None,
        cells=cells,
    )
    return watch(request, _RESERVED_SECONDS, noted, "exercise_child")


# --- what came of it ---------------------------------------------------------------------

_OUTCOMES: Final = {
    Outcome.VERIFIED: RunOutcome.DONE,
    Outcome.LATE: RunOutcome.LATE,
    Outcome.INTERRUPTED: RunOutcome.INTERRUPTED,
    Outcome.CALL_FAILED: RunOutcome.CALL_FAILED,
}


def conclude(
    watched: Watched,
    chosen: Sequence[Candidate],
    tried: Sequence[Wanted],
    absent: Sequence[Cell],
    platform: Platform,
) -> Exercise:
    """What the child's records say, and how it ended."""
    found = watched.records
    result = next((each for each in found if isinstance(each, records.Result)), None)
    died = watched.returncode is not None and watched.returncode < 0 and watched.signal is None
    killed = watched.returncode is None
    outcome = _OUTCOMES[result.outcome] if result else RunOutcome.DIED
    if killed and result is None:
        outcome = RunOutcome.INTERRUPTED if watched.signal else RunOutcome.WATCHDOG
    cells = list(_cells(found, platform, killed=killed))
    known = {(each.operation, each.qp_type, each.via) for each in cells}
    left = (each for each in tried if (each.operation, each.qp_type, each.via) not in known)
    cells += [
        Cell(
            each.operation,
            each.qp_type,
            each.via,
            CellState.NOT_TRIED,
            cause=f"the run ended before: {outcome}",
        )
        for each in left
    ]
    local, remote = chosen[0].end, chosen[1].end
    exercise = Exercise(
        outcome=outcome,
        summary="",
        platform=platform,
        device=local.device,
        port=local.port,
        peer_device=remote.device,
        gid_index=local.gid_index,
        cells=(*cells, *absent),
        teardown=teardown(found, killed=killed or died),
        touched=any(
            isinstance(each, records.Step) and each.call == "ibv_open_device" for each in found
        ),
        seconds=watched.seconds,
        events=seen_events(found),
    )
    return replace(exercise, summary=_summary(exercise, result, watched))


def _cells(found: Sequence[Record], platform: Platform, *, killed: bool) -> Iterator[Cell]:
    began: Wanted | None = None
    call = None
    for each in found:
        if isinstance(each, CellBegan):
            began, call = each.cell, None
        elif isinstance(each, records.Step):
            call = each.call
        elif isinstance(each, CellEnded) and began:
            yield _cell(began, each, platform)
            began = None
    if began:
        text = f"{call or 'it'} never returned" if killed else "the process ended in it"
        yield Cell(
            began.operation, began.qp_type, began.via, CellState.FAILED, call=call, cause=text
        )


def _cell(cell: Wanted, ended: CellEnded, platform: Platform) -> Cell:
    made = Cell(cell.operation, cell.qp_type, cell.via, ended.state)
    if ended.state is CellState.VERIFIED:
        return made
    made = replace(made, stage=ended.stage, cause=ended.text or None)
    if ended.call is not None:
        errno = ended.errno
        said = errno_text(errno, platform) if errno else "no errno, or no such call here"
        name = errno_name(errno, platform) if errno else None
        made = replace(
            made, call=ended.call, errno=errno, errno_name=name, cause=f"{ended.call}: {said}"
        )
    if ended.status is not None:
        known = completion(ended.status)
        made = replace(
            made,
            status=ended.status,
            status_name=known.name if known else None,
            cause=f"{ended.text}: {completion_text(ended.status, 0)}",
        )
    return made


def _summary(exercise: Exercise, result: records.Result | None, watched: Watched) -> str:
    counts = {state: sum(each.state is state for each in exercise.cells) for state in CellState}
    words = [f"{counts[state]} {state.replace('_', ' ')}" for state in CellState if counts[state]]
    text = ", ".join(words)
    if exercise.outcome is RunOutcome.DONE:
        return text
    why = exercise.outcome.replace("_", " ")
    if result is not None and result.call:
        said = errno_text(result.errno, exercise.platform) if result.errno else "no errno"
        why = f"{result.call} failed: {said}"
    elif exercise.outcome is RunOutcome.DIED:
        why = f"the process died: {watched.stderr.strip()[-200:] or watched.returncode}"
    return f"{why}; {text}"


def _unattempted(
    outcome: RunOutcome, summary: str, platform: Platform, cells: Sequence[Wanted] = ()
) -> Exercise:
    return Exercise(
        outcome=outcome,
        summary=summary,
        platform=platform,
        device=None,
        port=None,
        peer_device=None,
        gid_index=None,
        cells=tuple(
            Cell(each.operation, each.qp_type, each.via, CellState.NOT_TRIED, cause=summary)
            for each in cells
        ),
        teardown=Teardown.NOTHING_MADE,
        touched=False,
        seconds=0.0,
    )


def not_allowed(why: str, platform: Platform) -> Ran:
    """The run that is not made without --allow-rtr."""
    return Ran(_unattempted(RunOutcome.NOT_ALLOWED, why, platform), (), ())
