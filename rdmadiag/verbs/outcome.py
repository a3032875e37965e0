"""From the records that the child of an attempt wrote to what came of it; pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeVar

from rdmadiag.explain.completions import completion_text
from rdmadiag.explain.connection import reason_of
from rdmadiag.explain.events import EVENTS
from rdmadiag.explain.lost_data import counted, is_lost_data
from rdmadiag.facts.attempt import (
    Arrived,
    Attempt,
    CmStep,
    Connection,
    EndFacts,
    Outcome,
    Problem,
    SeenEvent,
    Stage,
    Step,
    Teardown,
)
from rdmadiag.facts.cm import CmEvent, RejectReason, SidrStatus
from rdmadiag.facts.errnos import Platform, errno_text
from rdmadiag.facts.events import AsyncEvent
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.verbs import cm_protocol, records
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import EndName, Record

R = TypeVar("R", bound=Record)

_DESTROYERS: Final = {
    "ibv_open_device": "ibv_close_device",
    "ibv_alloc_pd": "ibv_dealloc_pd",
    "ibv_reg_mr": "ibv_dereg_mr",
    "ibv_create_cq": "ibv_destroy_cq",
    "ibv_create_qp": "ibv_destroy_qp",
    "ibv_create_srq": "ibv_destroy_srq",
    "ibv_create_ah": "ibv_destroy_ah",
    "ibv_create_ah_from_wc": "ibv_destroy_ah",
    "ibv_create_comp_channel": "ibv_destroy_comp_channel",
    "rdma_create_event_channel": "rdma_destroy_event_channel",
    "rdma_create_id": "rdma_destroy_id",
    "rdma_get_cm_event": "rdma_destroy_id",  # of a CONNECT_REQUEST: its new identifier
    "rdma_getaddrinfo": "rdma_freeaddrinfo",
    "rdma_create_qp": "rdma_destroy_qp",
    "rdma_join_multicast": "rdma_leave_multicast",
    "ibv_open_xrcd": "ibv_close_xrcd",
    "ibv_create_srq_ex": "ibv_destroy_srq",
    "ibv_create_qp_ex": "ibv_destroy_qp",
    "ibv_alloc_mw": "ibv_dealloc_mw",
    "ibv_attach_mcast": "ibv_detach_mcast",
    "ibv_create_flow": "ibv_destroy_flow",
}
TOUCHING: Final = frozenset({"ibv_open_device", "rdma_resolve_addr", "ibv_alloc_pd"})


class Nonsense(ValueError):
    """Records that no child of ours writes, or none at all: a bug of ours."""


def conclude(
    found: Sequence[Record],
    *,
    platform: Platform,
    ends: Sequence[End],
    returncode: int | None = 0,
    signal: str | None = None,
    unkillable: bool = False,
    pid: int | None = None,
    role: Literal["listen", "connect"] | None = None,
) -> Attempt:
    """What the child's records say, and how it ended: `returncode` None where it was killed.

    `ends` are this host's, `signal` the name of the one that
    was passed on to it. Raises Nonsense.
    """
    steps = tuple(_steps(found))
    result = _last(found, records.Result)
    stage = _last_stage(found)
    rounds = _last(found, records.Rounds)
    timed = _last(found, records.Timed)
    streamed = _last(found, records.Streamed)
    connected = _last(found, records.Connected)
    attempt = Attempt(
        outcome=Outcome.VERIFIED,
        stage=stage,
        platform=platform,
        summary="",
        call=None,
        errno=None,
        completion=None,
        local=_reached(found, ends, EndName.LOCAL),
        remote=_reached(found, ends, EndName.REMOTE),
        peer_failure=None,
        problems=(),
        data_verified=any(each.verified == _TURNS for each in _all(found, records.Verified)),
        latency=timed.latency if timed else None,
        teardown=_teardown(steps, killed=returncode is None or returncode < 0),
        steps=steps,
        touched=any(step.call in TOUCHING for step in steps),
        bandwidth=streamed.bandwidth if streamed else None,
        rounds=rounds.rounds if rounds else None,
        pid=pid if unkillable else None,
        role=role,
        events=seen_events(found),
        peer_is_this_host=(connected is not None and connected.is_this_host)
        or (result is not None and result.is_this_host),
        connection=_connection(found),
    )
    attempt = _with_arrivals(attempt, found, result)
    event = _last(found, records.EventCame)
    hanging = next((step for step in reversed(steps) if step.seconds is None), None)
    if returncode is not None and returncode < 0 and signal is None:
        return _died(attempt, hanging, -returncode)
    unfinished = result is None or attempt.teardown is Teardown.ABANDONED
    if returncode is None and (hanging or unfinished):
        before = _resulting(attempt, result, event) if result else None
        return _killed(attempt, hanging, signal, before)
    if result is None:
        if signal is None:
            raise Nonsense(f"no result, exit code {returncode}")
        return replace(attempt, outcome=Outcome.INTERRUPTED, summary=signal)
    return _torn_down(_resulting(attempt, result, event))


_TURNS: Final = 2  # messages each way that are compared, before and after the timed loop


# --- what the records say ----------------------------------------------------------------


def _all(found: Sequence[Record], kind: type[R]) -> Iterator[R]:
    return (each for each in found if isinstance(each, kind))


def _last(found: Sequence[Record], kind: type[R]) -> R | None:
    return next(_all(found[::-1], kind), None)


def _steps(found: Sequence[Record]) -> Iterator[Step]:
    began: records.Step | None = None
    for each in found:
        if isinstance(each, records.Step):
            if began:
                yield _step(began, None)
            began = each
        elif began and isinstance(each, records.Returned | records.Failed):
            yield _step(began, each)
            began = None
    if began:
        yield _step(began, None)


def _step(began: records.Step, ended: records.Returned | records.Failed | None) -> Step:
    return Step(
        end=began.end.value,
        stage=began.stage,
        call=began.call,
        seconds=None if ended is None else round(ended.at - began.at, 6),
        errno=ended.errno if isinstance(ended, records.Failed) else None,
    )


def _with_arrivals(
    attempt: Attempt, found: Sequence[Record], result: records.Result | None
) -> Attempt:
    """With what arrived at both ends, as far as each said so."""
    if result is None or result.arrived is None:
        return attempt
    farewell = _last(found, records.Farewell)
    said = result.peer_failure or (farewell.peer_failure if farewell else None)
    arrived = Arrived(
        here=result.arrived,
        at_peer=said.arrived if said else None,
        only_small=[each.verified for each in _all(found, records.Verified)] == [0],
    )
    return replace(attempt, arrived=arrived, peer_failure=said)


def _last_stage(found: Sequence[Record]) -> Stage:
    for each in reversed(found):
        if isinstance(each, records.StageBegan | records.Step):
            return each.stage
    return Stage.CONNECT


def _reached(found: Sequence[Record], ends: Sequence[End], name: EndName) -> EndFacts | None:
    """One end as far as it came; None of a peer that never agreed."""
    agreed = _last(found, records.Agreed)
    known = [*ends, *([agreed.remote] if agreed and len(ends) == 1 else [])]
    at = list(EndName).index(name)
    if at >= len(known):
        return None
    end = known[at]
    path = next(_all(found, records.Path), None)
    made: records.QueuePairMade | records.Path | None = next(
        (each for each in _all(found, records.QueuePairMade) if each.end is name), None
    )
    if name is EndName.REMOTE and len(ends) == 1:
        made = path
    states = [each.state for each in _all(found, records.StateReached) if each.end is name]
    if connected := _connected(found, name):
        return _by_cm(end, connected, is_here=at < len(ends))
    return EndFacts(
        device=end.device,
        port=end.port,
        link_layer=end.link_layer,
        state=end.state,
        gid_index=end.gid_index,
        gid=end.gid,
        gid_type=end.gid_type,
        lid=end.lid,
        qp_type=end.qp_type,
        mtu=path.mtu if path else None,
        queue_pair=made.queue_pair if made else None,
        psn=made.psn if made else None,
        qp_state=states[-1] if states else None,
    )


def _connected(found: Sequence[Record], name: EndName) -> records.ConnectionMade | None:
    """What the connection manager made of one end; of a peer, as this one sees it."""
    every = {each.end: each for each in _all(found, records.ConnectionMade)}
    if name in every or EndName.LOCAL not in every:
        return every.get(name)
    ours = every[EndName.LOCAL]
    return replace(
        ours,
        end=name,
        state=None,
        queue_pair=ours.remote_queue_pair,
        psn=None,
        gid_index=None,
    )


def _by_cm(end: End, made: records.ConnectionMade, *, is_here: bool) -> EndFacts:
    """On iWARP no end has a PSN, and none knows the other's queue pair."""
    iwarp = end.link_layer is LinkLayer.ETHERNET and end.gid is None
    return EndFacts(
        device=end.device,
        port=end.port,
        link_layer=end.link_layer,
        state=end.state,
        gid_index=end.gid_index if made.gid_index is None else made.gid_index,
        gid=end.gid,
        gid_type=end.gid_type,
        lid=end.lid,
        qp_type=end.qp_type,
        mtu=made.mtu,
        queue_pair=made.queue_pair if is_here or not iwarp else None,
        psn=None if iwarp else made.psn,
        qp_state=made.state,
    )


def _connection(found: Sequence[Record]) -> Connection | None:
    """What the connection manager gave; None where it was not used."""
    steps = tuple(_cm_steps(found))
    listening, made = _last(found, records.Listening), _connected(found, EndName.LOCAL)
    joined = _last(found, records.GroupJoined)
    called = any(each.call.startswith("rdma_") for each in _all(found, records.Step))
    if not called:
        return None
    return Connection(
        steps=steps,
        address=made.address if made else listening.address if listening else None,
        peer=made.peer if made else None,
        group=joined.group if joined else None,
    )


def _cm_steps(found: Sequence[Record]) -> Iterator[CmStep]:
    began: records.EventAwaited | None = None
    for each in found:
        if isinstance(each, records.EventAwaited):
            if began:
                yield _cm_step(began, None)
            began = each
        elif began and isinstance(each, records.EventCame):
            yield _cm_step(began, each)
            began = None
    if began:
        yield _cm_step(began, None)


def _cm_step(began: records.EventAwaited, came: records.EventCame | None) -> CmStep:
    return CmStep(
        end=(came or began).end.value,
        stage=began.stage,
        awaited=began.event,
        event=CmEvent.from_number(came.number) if came else None,
        status=came.status if came else 0,
        seconds=round(came.at - began.at, 6) if came else None,
    )


def seen_events(found: Sequence[Record]) -> tuple[SeenEvent, ...]:
    """The asynchronous events that came while it ran."""
    return tuple(_event(each) for each in _all(found, records.AsyncEventCame))


def _event(came: records.AsyncEventCame) -> SeenEvent:
    known = AsyncEvent.from_number(came.number)
    return SeenEvent(
        end=came.end.value,
        device=came.device,
        number=came.number,
        name=known.constant if known else None,
        port=came.port,
        queue_pair=came.queue_pair,
        seconds=round(came.at, 6),
        meaning=EVENTS[known].meaning if known else None,
    )


def teardown(found: Sequence[Record], *, killed: bool) -> Teardown:
    """What became of the objects that a child made."""
    return _teardown(tuple(_steps(found)), killed=killed)


def _teardown(steps: Sequence[Step], *, killed: bool) -> Teardown:
    """By what was made and what was destroyed."""
    done = [step for step in steps if step.errno is None and step.seconds is not None]
    made = sum(step.call in _DESTROYERS for step in done)
    destroyed = sum(step.call in _DESTROYERS.values() for step in done)
    if not made:
        return Teardown.ABANDONED if killed and steps else Teardown.NOTHING_MADE
    if made == destroyed:
        return Teardown.CLEAN
    return Teardown.ABANDONED if killed else Teardown.FAILED


# --- how it ended ------------------------------------------------------------------------


def _died(attempt: Attempt, hanging: Step | None, number: int) -> Attempt:
    where = f"in {hanging.call}" if hanging else "between two calls"
    return replace(
        attempt,
        outcome=Outcome.DIED,
        stage=hanging.stage if hanging else attempt.stage,
        call=hanging.call if hanging else None,
        summary=f"signal {number} ended the process {where}",
    )


def _killed(
    attempt: Attempt, hanging: Step | None, signal: str | None, before: Attempt | None
) -> Attempt:
    why = f"after {signal}" if signal else "at the deadline"
    what = f"{hanging.call} had not returned" if hanging else f"{attempt.stage} had not ended"
    if before and before.outcome is not Outcome.VERIFIED:
        why += f" (before that, at {before.stage}: {before.summary})"
    if not attempt.touched and signal:
        return replace(attempt, outcome=Outcome.INTERRUPTED, summary=f"{what} {why}")
    return replace(
        attempt,
        outcome=Outcome.WATCHDOG,
        stage=hanging.stage if hanging else attempt.stage,
        call=hanging.call if hanging else None,
        summary=f"{what} {why}"
        + (
            f"; process {attempt.pid} cannot be killed"
            if attempt.pid
            else ", the process was killed"
        ),
    )


def _resulting(
    attempt: Attempt, result: records.Result, event: records.EventCame | None
) -> Attempt:
    if result.outcome is Outcome.VERIFIED:
        text = "both payloads arrived as they were sent"
        return replace(attempt, outcome=result.outcome, stage=Stage.DONE, summary=text)
    found = replace(
        attempt,
        outcome=result.outcome,
        stage=result.stage,
        summary=result.text,
        completion=result.completion,
        problems=result.problems,
    )
    more = _MORE.get(result.outcome)
    found = more(found, result) if more else found
    if result.outcome is Outcome.CM_EVENT:
        found = _ended_by(found, event)
    if found.arrived and is_lost_data(found):
        return replace(found, summary=f"{found.summary} ({counted(found.arrived)})")
    return found


def _call_failed(attempt: Attempt, result: records.Result) -> Attempt:
    call, number = result.call or "", result.errno
    why = errno_text(number, attempt.platform) if number else "it gave no errno"
    why = attempt.summary or why
    if call == "poll_cq":  # man ibv_poll_cq: negative, and no errno
        number, why = 0, f"it returned -{number}"
    text = f"{call} failed: {why}"
    if call == "ibv_get_device_list" and not number:
        text = "the verbs library does not list the device"
    return replace(attempt, call=call, errno=number, summary=text)


def _completion_error(attempt: Attempt, _: records.Result) -> Attempt:
    bad = attempt.completion
    if bad is None:
        raise Nonsense("a completion error without a completion")
    which = "receive" if bad.is_receive else "send"
    text = f"a {which} completed with {completion_text(bad.status, bad.vendor_error)}"
    return replace(attempt, summary=text)


def _peer_failed(attempt: Attempt, result: records.Result) -> Attempt:
    failure = result.peer_failure
    if failure is None:
        raise Nonsense("a failure of the peer without its words")
    attempt = replace(attempt, peer_failure=failure)
    if is_lost_data(attempt):
        text = f"data did not pass between the hosts; the peer says: {failure.text}"
    else:
        text = f"the peer failed at {failure.stage}: {failure.text}"
    return replace(attempt, summary=text)


def _mismatch(attempt: Attempt, _: records.Result) -> Attempt:
    if not attempt.problems:
        raise Nonsense("a mismatch without a problem")
    return replace(attempt, summary=attempt.problems[0].text)


def _no_data(attempt: Attempt, _: records.Result) -> Attempt:
    if attempt.arrived and not attempt.arrived.here:
        return replace(attempt, summary="nothing arrived")
    return replace(attempt, summary=f"nothing arrived any more{_after(attempt)}")


def _late(attempt: Attempt, _: records.Result) -> Attempt:
    if attempt.arrived and not attempt.arrived.here:
        return replace(attempt, summary="the deadline came before anything arrived")
    return replace(attempt, summary=f"the deadline came{_after(attempt)}")


def _no_peer(attempt: Attempt, result: records.Result) -> Attempt:
    ours = ", an address of this host itself" if attempt.peer_is_this_host else ""
    text = f"{attempt.summary}{ours}"
    # What strangers made a listener touch is no attempt.
    touched = attempt.touched and attempt.connection is None
    return replace(attempt, errno=result.errno or None, summary=text, touched=touched)


def _ended_by(attempt: Attempt, came: records.EventCame | None) -> Attempt:
    """The event that ended it, and what came with it."""
    if came is None or attempt.connection is None:
        raise Nonsense("an event that is not in the records")
    event = CmEvent.from_number(came.number)
    reason = reason_of(event, came.status) if event and came.status > 0 else None
    name = event.name if event else f"event {came.number}"
    text = f"the connection manager gave {name}: {_status(attempt, came, reason)}"
    errno = -came.status if came.status < 0 else None
    connection = replace(
        attempt.connection,
        event=event,
        status=came.status,
        reject_reason=reason if isinstance(reason, RejectReason) else None,
        sidr_status=reason if isinstance(reason, SidrStatus) else None,
        private_data=came.private_data or None,
    )
    found = replace(attempt, connection=connection, errno=errno, summary=text)
    refusal = cm_protocol.read_rejection(_bytes(came.private_data))
    by_peer = event is CmEvent.REJECTED or reason is SidrStatus.REJECT
    return _refused(found, refusal) if by_peer and refusal else found


def _bytes(hexadecimal: str) -> bytes:
    try:
        return bytes.fromhex(hexadecimal)
    except ValueError:
        return b""


def _refused(attempt: Attempt, why: cm_protocol.Refusal) -> Attempt:
    """By a peer of ours, which says why."""
    text = cm_protocol.REFUSAL_TEXT[why]
    if code := _DIFFERENT.get(why):
        problems = (Problem(code, text),)
        return replace(
            attempt, outcome=Outcome.MISMATCH, errno=None, summary=text, problems=problems
        )
    return replace(attempt, outcome=Outcome.PEER_REFUSED, errno=None, summary=text)


_DIFFERENT: Final = {
    cm_protocol.Refusal.OTHER_QP_TYPE: "qp_type_mismatch",
    cm_protocol.Refusal.OTHER_PAYLOAD: "payload_bytes_mismatch",
    cm_protocol.Refusal.OTHER_ITERATIONS: "iterations_mismatch",
    cm_protocol.Refusal.OTHER_OP: "op_mismatch",
    cm_protocol.Refusal.OTHER_BANDWIDTH: "bandwidth_seconds_mismatch",
}


def _status(
    attempt: Attempt, came: records.EventCame, reason: RejectReason | SidrStatus | None
) -> str:
    if came.status < 0:
        return errno_text(-came.status, attempt.platform)
    if reason:
        word = "reason" if isinstance(reason, RejectReason) else "status"
        return f"{word} {came.status} ({reason.name})"
    return f"status {came.status}"


def _no_event(attempt: Attempt, _: records.Result) -> Attempt:
    steps = attempt.connection.steps if attempt.connection else ()
    if not steps:
        raise Nonsense("no event, and none awaited")
    return replace(attempt, summary=f"no {steps[-1].awaited.name} came in time")


_MORE: Final[dict[Outcome, Callable[[Attempt, records.Result], Attempt]]] = {
    Outcome.NO_PEER: _no_peer,
    Outcome.NO_EVENT: _no_event,
    Outcome.CALL_FAILED: _call_failed,
    Outcome.COMPLETION_ERROR: _completion_error,
    Outcome.PEER_FAILED: _peer_failed,
    Outcome.MISMATCH: _mismatch,
    Outcome.NO_DATA: _no_data,
    Outcome.LATE: _late,
}


def _after(attempt: Attempt) -> str:
    """How far the timed loop had come."""
    return "" if attempt.rounds is None else f" after {attempt.rounds} round trips"


def _torn_down(attempt: Attempt) -> Attempt:
    """Data that arrived does not make up for an object that is still there."""
    if attempt.outcome is not Outcome.VERIFIED or attempt.teardown is not Teardown.FAILED:
        return attempt
    refused = [step for step in attempt.steps if step.stage is Stage.TEARDOWN and step.errno]
    if not refused:
        raise Nonsense("verified, and never torn down")
    failed = refused[0]
    return replace(
        attempt,
        outcome=Outcome.TEARDOWN_FAILED,
        stage=Stage.TEARDOWN,
        call=failed.call,
        errno=failed.errno,
        summary=f"the data arrived, and then {failed.call} failed: "
        f"{errno_text(failed.errno or 0, attempt.platform)}",
    )
