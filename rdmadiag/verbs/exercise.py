"""One run of `exercise` from beginning to end: preflight, ports, the child, what came of it.

With a peer this host has one end, the peer the other, and each looks after its own: preflight,
whether others use the port, and what its device claims.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from rdmadiag.explain.completions import completion, completion_text
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome, Teardown
from rdmadiag.facts.errnos import Platform, errno_name, errno_text
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.exercise import Cell, CellState, Exercise, RunOutcome, Wanted
from rdmadiag.facts.ib import OF_THE_KERNEL
from rdmadiag.facts.resources import ResourceFacts
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host
from rdmadiag.preflight.candidate import Candidate, are_one_thunderbolt_port, candidates
from rdmadiag.preflight.candidate import Wanted as WantedEnd
from rdmadiag.preflight.safety import Reason
from rdmadiag.sources.run import gather
from rdmadiag.sources.sampling import resources
from rdmadiag.sources.table import Depth
from rdmadiag.verbs import child, records, rtr_record
from rdmadiag.verbs.attempt import NO_CM_ON_MAC, Meeting, waiting_until
from rdmadiag.verbs.matrix import LENGTH, unclaimed, untried
from rdmadiag.verbs.outcome import TOUCHING, seen_events, teardown
from rdmadiag.verbs.records import (
    CellBegan,
    CellEnded,
    EndName,
    ExerciseRequest,
    Record,
    Unclaimed,
)
from rdmadiag.verbs.watchdog import Watched, watch
from rdmadiag.view.mac_resources import in_use
from rdmadiag.view.reconcile import devices
from rdmadiag.view.select import Selector

_LOOKING_SHARE: Final = 0.5  # of the deadline: at most this goes to the preflight
_BOOT_ID_SECONDS: Final = 1.0
_RESERVED_SECONDS: Final = 2.0  # before the deadline, from which the child puts everything back


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it, and what was decided before."""

    exercise: Exercise
    chosen: tuple[Candidate, ...]  # both ends; or what was refused, the best first
    accepted: tuple[Reason, ...]  # that the user took on
    asked: str = ""  # devices and peer as options and an argument, for a line to paste


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
    meeting: Meeting | None = None,
    secret: bytes | None = None,
    by_cm: bool = False,
) -> Ran:
    """The whole run, which ends `seconds` after `start` (time.monotonic's clock).

    To that comes what --listen waits for a peer. `named` are the operations that the user named
    one by one. `noted` gets each record of the child as it comes. Raises NoSuchDevice.
    """
    platform = host.identity.platform
    if platform == "darwin" and (never := _never_on_mac(selectors, meeting, by_cm=by_cm)):
        return Ran(_unattempted(RunOutcome.NOT_SAFE, never, platform, cells), (), ())
    evidence = gather(host, start + seconds * _LOOKING_SHARE, None, Depth())
    wanted = WantedEnd(payload_bytes=LENGTH, iterations=1, accepted=accepted, by_cm=by_cm)
    near = meeting.near if meeting else None
    boot = rtr_record.boot_id(host, time.monotonic() + _BOOT_ID_SECONDS)
    against = [Reason.PRIOR_RTR_FAILURE] if rtr_record.failed_since_start(boot) else []
    groups = [
        candidates(evidence, wanted, each, near=near, against=against)
        for each in ([[one] for one in selectors] or [[]])
    ]
    if not all(groups):
        return Ran(_unattempted(RunOutcome.NOT_SAFE, "no RDMA port", platform, cells), (), ())
    chosen = tuple(group[0] for group in groups)
    if meeting is None and len(chosen) == 1:
        chosen = (chosen[0], chosen[0])
    for group, each in zip(groups, chosen, strict=False):
        if each.blocking:
            what = "a connection" if by_cm else "RTR"
            text = f"the preflight forbids {what} on {each.end.device}/{each.end.port}"
            return Ran(_unattempted(RunOutcome.NOT_SAFE, text, platform, cells), group, ())
    if meeting is None and are_one_thunderbolt_port(chosen):
        return Ran(_unattempted(RunOutcome.NOT_SAFE, _ITSELF, platform, cells), chosen, ())
    busy = None if even_if_busy else _busy(host, evidence, chosen, start + seconds)
    if busy:
        return Ran(_unattempted(RunOutcome.BUSY, busy, platform, cells), chosen, ())
    reasons = tuple(dict.fromkeys(reason for each in chosen for reason in each.reasons))
    verbs = evidence.verbs
    answered = None if isinstance(verbs, Missing) else verbs.device(chosen[0].end.device)
    protocols = {each.protocol for each in chosen}
    nothing_said = Missing(Why.ABSENT, "the verbs library")
    attributes = answered.attributes if answered else nothing_said
    left = untried(cells, named, protocols, two_hosts=meeting is not None, by_cm=by_cm)
    absent = _once((*unclaimed(cells, attributes, protocols), *left))
    skipped = {(each.operation, each.qp_type, each.via) for each in absent}
    tried = tuple(each for each in cells if (each.operation, each.qp_type, each.via) not in skipped)
    request = _request(platform, chosen, tried, absent, start + seconds, meeting, secret)
    request = _by_cm(request, chosen, near) if by_cm else request
    remembered = rtr_record.Remembered(chosen[0].end, boot)

    def seen(record: Record) -> None:
        noted(record)
        remembered.note(record)

    watched = watch(request, _RESERVED_SECONDS, seen, "exercise_child")
    if isinstance(watched, Missing):
        text = f"no process could be started: {watched}"
        return Ran(_unattempted(RunOutcome.NOT_SAFE, text, platform, cells), chosen, ())
    role = meeting.role if meeting else None
    return Ran(conclude(watched, chosen, tried, absent, platform, role), chosen, reasons)


def _never_on_mac(
    selectors: Sequence[Selector], meeting: Meeting | None, *, by_cm: bool
) -> str | None:
    """All RDMA ports of a Mac are Thunderbolt's. No provider is loaded before this."""
    if by_cm:
        return NO_CM_ON_MAC
    return _ITSELF if meeting is None and len(set(selectors)) < 2 else None


def _once(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Of each the first reason."""
    found: dict[tuple[str, str, str], Cell] = {}
    for each in cells:
        found.setdefault((each.operation, each.qp_type, each.via), each)
    return tuple(found.values())


_ITSELF: Final = (
    "a Thunderbolt port cannot be both ends: name a peer, "
    "or two ports (--device, twice) that a cable joins"
)


def _busy(
    host: Host, evidence: Evidence, chosen: Sequence[Candidate], deadline: float
) -> str | None:
    """Why nothing is tried: somebody works on a port, or nobody can tell."""
    is_mac = host.identity.platform == "darwin"
    found = Missing(Why.UNSUPPORTED, "a Mac") if is_mac else resources(host, deadline)
    if isinstance(found, Missing) and not is_mac:
        return f"cannot tell whether other processes use it: {found}"
    for each in chosen:
        if isinstance(found, Missing):
            count = held_on_mac(evidence, each.end.device)
        else:
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
        if each.type not in OF_THE_KERNEL
    )


def held_on_mac(evidence: Evidence, device: str) -> int | Missing:
    """Queue pairs of a device in the registry of a Mac, where nothing keeps any of its own."""
    view = next((each for each in devices(evidence) if each.name == device), None)
    if view is None:
        return Missing(Why.ABSENT, f"nothing shows {device}")
    uses = in_use(view, evidence)
    return (
        uses if isinstance(uses, Missing) else sum(each.count for each in uses if each.kind == "qp")
    )


def _request(
    platform: Platform,
    chosen: Sequence[Candidate],
    cells: tuple[Wanted, ...],
    absent: Sequence[Cell],
    deadline: float,
    meeting: Meeting | None,
    secret: bytes | None,
) -> ExerciseRequest:
    now = time.monotonic()
    return ExerciseRequest(
        platform=platform,
        library=child.LIBRARY[platform],
        start=now,
        deadline=deadline - _RESERVED_SECONDS,
        ends=tuple(each.end for each in chosen),
        meet=meeting.role if meeting else None,
        host=meeting.host if meeting else "",
        port=meeting.port if meeting else 0,
        until=waiting_until(meeting, now, deadline - _RESERVED_SECONDS),
        secret=None if secret is None else secret.hex(),
        cells=cells,
        unclaimed=tuple(
            Unclaimed(Wanted(each.operation, each.qp_type, each.via), each.cause or "")
            for each in absent
            if meeting and each.state is CellState.NOT_CLAIMED
        ),
    )


def _by_cm(
    request: ExerciseRequest, chosen: Sequence[Candidate], near: str | None
) -> ExerciseRequest:
    """The same by the connection manager, which is given addresses of each end."""
    return replace(
        request,
        cm_library=child.CM_LIBRARY,
        node=child.CM_NODE,
        # The address that the peer was to come to, then those without a scope: a peer has none.
        addresses=tuple(
            tuple(sorted(each.addresses, key=lambda one: (one != near, "%" in one)))
            for each in chosen
        ),
    )


# --- what came of it ---------------------------------------------------------------------

_OUTCOMES: Final = {
    Outcome.VERIFIED: RunOutcome.DONE,
    Outcome.LATE: RunOutcome.LATE,
    Outcome.INTERRUPTED: RunOutcome.INTERRUPTED,
    Outcome.CALL_FAILED: RunOutcome.CALL_FAILED,
    Outcome.NO_PEER: RunOutcome.NO_PEER,
    Outcome.PEER_REFUSED: RunOutcome.PEER_REFUSED,
    Outcome.MISMATCH: RunOutcome.MISMATCH,
    Outcome.PEER_FAILED: RunOutcome.PEER_FAILED,
    Outcome.PEER_LOST: RunOutcome.PEER_LOST,
}
_BY_PEER: Final = (
    RunOutcome.NO_PEER,
    RunOutcome.PEER_REFUSED,
    RunOutcome.MISMATCH,
    RunOutcome.PEER_FAILED,
    RunOutcome.PEER_LOST,
)


def conclude(
    watched: Watched,
    chosen: Sequence[Candidate],
    tried: Sequence[Wanted],
    absent: Sequence[Cell],
    platform: Platform,
    role: Literal["listen", "connect"] | None = None,
) -> Exercise:
    """What the child's records say, and how it ended."""
    found = watched.records
    result = next((each for each in found if isinstance(each, records.Result)), None)
    died = watched.returncode is not None and watched.returncode < 0 and watched.signal is None
    killed = watched.returncode is None
    outcome = _OUTCOMES[result.outcome] if result else RunOutcome.DIED
    if killed and result is None:
        outcome = RunOutcome.INTERRUPTED if watched.signal else RunOutcome.WATCHDOG
    why, two_hosts = _why(outcome, result), role is not None
    cells = list(_cells(found, platform, why, killed=killed, two_hosts=two_hosts))
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
    agreed = next((each for each in found if isinstance(each, records.Agreed)), None)
    connected = next((each for each in found if isinstance(each, records.Connected)), None)
    local = chosen[0].end
    remote = chosen[1].end if role is None else agreed and agreed.remote
    exercise = Exercise(
        outcome=outcome,
        summary="",
        platform=platform,
        device=local.device,
        port=local.port,
        peer_device=remote.device if remote else None,
        gid_index=local.gid_index,
        cells=(*cells, *absent),
        teardown=teardown(found, killed=killed or died),
        touched=any(isinstance(each, records.Step) and each.call in TOUCHING for each in found),
        seconds=watched.seconds,
        events=seen_events(found),
        role=role,
        peer=connected.address if connected else None,
        peer_failure=result.peer_failure if result else None,
        problems=result.problems if result else (),
    )
    return replace(exercise, summary=_summary(exercise, result, watched))


def _why(outcome: RunOutcome, result: records.Result | None) -> str:
    """Why a cell that had begun did not end."""
    if result is None:
        return "the process ended in it"
    return f"the run ended in it: {result.text or outcome.replace('_', ' ')}"


def _cells(
    found: Sequence[Record], platform: Platform, why: str, *, killed: bool, two_hosts: bool
) -> Iterator[Cell]:
    began: Wanted | None = None
    call = None
    for each in found:
        if isinstance(each, CellBegan):
            began, call = each.cell, None
        elif isinstance(each, records.Step):
            call = each.call
        elif isinstance(each, CellEnded) and began:
            yield _cell(began, each, platform, two_hosts=two_hosts)
            began = None
    if began:
        text = f"{call or 'it'} never returned" if killed else why
        yield Cell(
            began.operation, began.qp_type, began.via, CellState.FAILED, call=call, cause=text
        )


def _cell(cell: Wanted, ended: CellEnded, platform: Platform, *, two_hosts: bool) -> Cell:
    made = Cell(cell.operation, cell.qp_type, cell.via, ended.state)
    if ended.state is CellState.VERIFIED:
        return made
    there = two_hosts and ended.end is EndName.REMOTE
    where = "at the peer: " if there else ""
    cause = f"{where}{ended.text}" if ended.text else None
    made = replace(made, stage=ended.stage, cause=cause, at_peer=there)
    if ended.call is not None:
        errno = ended.errno
        said = errno_text(errno, platform) if errno else "no errno, or no such call here"
        name = errno_name(errno, platform) if errno else None
        made = replace(
            made,
            call=ended.call,
            errno=errno,
            errno_name=name,
            cause=f"{where}{ended.call}: {said}",
        )
    if ended.status is not None:
        known = completion(ended.status)
        made = replace(
            made,
            status=ended.status,
            status_name=known.name if known else None,
            vendor_error=ended.vendor_error,
            cause=f"{cause} completed with {completion_text(ended.status, ended.vendor_error)}",
        )
    return made


def _summary(exercise: Exercise, result: records.Result | None, watched: Watched) -> str:
    counts = {state: sum(each.state is state for each in exercise.cells) for state in CellState}
    words = [f"{counts[state]} {state.replace('_', ' ')}" for state in CellState if counts[state]]
    text = ", ".join(words)
    if exercise.outcome is RunOutcome.DONE:
        return text
    why = exercise.outcome.replace("_", " ")
    if result is not None and exercise.outcome in _BY_PEER:
        why = result.text
        if exercise.outcome is RunOutcome.PEER_FAILED:
            why = f"the peer failed: {why}"
        if not exercise.touched:
            return why
    elif result is not None and result.call:
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
