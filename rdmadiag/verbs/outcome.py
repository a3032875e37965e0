"""From the lines that the child of an attempt wrote to what came of it; pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from rdmadiag.explain.completions import completion_text
from rdmadiag.facts.errnos import Platform, errno_text
from rdmadiag.facts.ib import QpState
from rdmadiag.facts.pingpong import (
    Attempt,
    BadCompletion,
    EndFacts,
    Latency,
    Outcome,
    PeerFailure,
    Problem,
    Stage,
    Step,
    Teardown,
)
from rdmadiag.verbs.endpoint import Endpoint, read_endpoint

Row = dict[str, Any]

_DESTROYERS: Final = {
    "ibv_open_device": "ibv_close_device",
    "ibv_alloc_pd": "ibv_dealloc_pd",
    "ibv_reg_mr": "ibv_dereg_mr",
    "ibv_create_cq": "ibv_destroy_cq",
    "ibv_create_qp": "ibv_destroy_qp",
}

_STATES: Final = {state.value: state for state in QpState}


class Nonsense(ValueError):
    """Lines that no child of ours writes, or none at all: a bug of ours."""


def conclude(
    rows: Sequence[Row],
    *,
    platform: Platform,
    ends: Sequence[Endpoint],
    seconds: float,
    returncode: int | None = 0,
    signal: str | None = None,
    unkillable: bool = False,
    pid: int | None = None,
    role: Literal["listen", "connect"] | None = None,
) -> Attempt:
    """What the child's lines say, and how it ended: `returncode` None where it was killed.

    `ends` are this host's, `seconds` the child's life, `signal` the name of the one that
    was passed on to it. Raises Nonsense.
    """
    steps = tuple(_steps(rows, seconds))
    result = next((row for row in reversed(rows) if "result" in row), None)
    stage = _last_stage(rows)
    local, remote = _ends(rows, ends)
    attempt = Attempt(
        outcome=Outcome.VERIFIED,
        stage=stage,
        platform=platform,
        summary="",
        call=None,
        errno=None,
        completion=None,
        local=local,
        remote=remote,
        peer_failure=None,
        problems=(),
        data_verified=any(row.get("verified") == 2 for row in rows),
        latency=_latency(rows, ends),
        teardown=_teardown(steps, killed=returncode is None or returncode < 0),
        steps=steps,
        touched=any(step.call == "ibv_open_device" for step in steps),
        rounds=next((row["rounds"] for row in reversed(rows) if "rounds" in row), None),
        pid=pid if unkillable else None,
        role=role,
    )
    hanging = next((step for step in reversed(steps) if step.seconds is None), None)
    if returncode is not None and returncode < 0 and signal is None:
        return _died(attempt, hanging, -returncode)
    unfinished = result is None or attempt.teardown is Teardown.ABANDONED
    if returncode is None and (hanging or unfinished):
        before = _resulting(attempt, result) if result else None
        return _killed(attempt, hanging, signal, before)
    if result is None:
        if signal is None:
            raise Nonsense(f"no result, exit code {returncode}")
        return replace(attempt, outcome=Outcome.INTERRUPTED, summary=signal)
    return _torn_down(_resulting(attempt, result))


# --- what the lines say ------------------------------------------------------------------


def _steps(rows: Sequence[Row], seconds: float) -> Iterable[Step]:
    opened: Row | None = None
    for row in rows:
        if "call" in row and "stage" in row and "end" in row:
            if opened:
                yield _step(opened, None, None)
            opened = row
        elif opened and ("answer" in row or ("errno" in row and "result" not in row)):
            yield _step(opened, row["at"], row.get("errno"))
            opened = None
    if opened:
        yield _step(opened, None, None)


def _step(opened: Row, ended: float | None, errno: int | None) -> Step:
    return Step(
        end=opened["end"],
        stage=Stage(opened["stage"]),
        call=opened["call"],
        seconds=None if ended is None else round(ended - opened["at"], 6),
        errno=errno,
    )


def _last_stage(rows: Sequence[Row]) -> Stage:
    for row in reversed(rows):
        if "stage" in row and "result" not in row:
            return Stage(row["stage"])
    return Stage.CONNECT


def _ends(rows: Sequence[Row], ends: Sequence[Endpoint]) -> tuple[EndFacts, EndFacts | None]:
    agreed = next((row["agreed"] for row in rows if "agreed" in row), None)
    far = ends[1] if len(ends) > 1 else read_endpoint(agreed) if agreed else None
    pairs = [row for row in rows if "queue_pair" in row]
    paths = [row["remote"] for row in rows if "remote" in row]
    found: list[EndFacts | None] = []
    for name, facts in (("local", ends[0]), ("remote", far)):
        if facts is None:
            found.append(None)
            continue
        own = next((row for row in pairs if row["end"] == name), {})
        if name == "remote" and paths and len(ends) == 1:
            own = {"queue_pair": paths[0]["number"], "psn": paths[0]["psn"]}
        states = [row["state"] for row in rows if "state" in row and row.get("end") == name]
        found.append(
            EndFacts(
                device=facts.device,
                port=facts.port,
                link_layer=facts.link_layer,
                state=facts.state,
                gid_index=facts.gid_index,
                gid=facts.gid,
                gid_type=facts.gid_type,
                lid=facts.lid,
                qp_type=facts.qp_type,
                mtu=paths[0]["mtu"] if paths else None,
                queue_pair=own.get("queue_pair"),
                psn=own.get("psn"),
                qp_state=_STATES.get(states[-1]) if states else None,
            )
        )
    local, remote = found
    assert local is not None
    return local, remote


def _latency(rows: Sequence[Row], ends: Sequence[Endpoint]) -> Latency | None:
    row = next((row for row in rows if "latency" in row), None)
    if row is None:
        return None
    figures = row["latency"]
    return Latency(
        min=figures["min"],
        median=figures["median"],
        p99=figures["p99"],
        max=figures["max"],
        iterations=ends[0].iterations,
        bytes=ends[0].payload_bytes,
        loop=row["loop"],
        overhead=row["overhead"],
        histogram=tuple((bound, count) for bound, count in figures["histogram"]),
    )


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


def _resulting(attempt: Attempt, result: Row) -> Attempt:
    outcome = Outcome(result["result"])
    if outcome is Outcome.VERIFIED:
        text = "both payloads arrived as they were sent"
        return replace(attempt, stage=Stage.DONE, summary=text)
    found = replace(
        attempt,
        outcome=outcome,
        stage=Stage(result["stage"]),
        summary=str(result.get("text", "")),
    )
    more = _MORE.get(outcome)
    return more(found, result) if more else found


def _call_failed(attempt: Attempt, result: Row) -> Attempt:
    call, number = str(result["call"]), int(result["errno"])
    told = errno_text(number, attempt.platform) if number else "it gave no errno"
    told = attempt.summary or told
    if call == "poll_cq":  # man ibv_poll_cq: negative, and no errno
        number, told = 0, f"it returned -{number}"
    text = f"{call} failed: {told}"
    if call == "ibv_get_device_list" and not number:
        text = "the verbs library does not list the device"
    return replace(attempt, call=call, errno=number, summary=text)


def _completion_error(attempt: Attempt, result: Row) -> Attempt:
    bad = BadCompletion(result["end"], result["status"], result["vendor_error"], result["receive"])
    which = "receive" if bad.is_receive else "send"
    text = f"a {which} completed with {completion_text(bad.status, bad.vendor_error)}"
    return replace(attempt, completion=bad, summary=text)


def _peer_failed(attempt: Attempt, result: Row) -> Attempt:
    failure = PeerFailure(result["peer_stage"], attempt.summary)
    text = f"the peer failed at {failure.stage}: {failure.text}"
    return replace(attempt, peer_failure=failure, summary=text)


def _mismatch(attempt: Attempt, result: Row) -> Attempt:
    problems = tuple(Problem(code, text) for code, text in result["problems"])
    return replace(attempt, problems=problems, summary=problems[0].text)


def _no_data(attempt: Attempt, _: Row) -> Attempt:
    return replace(attempt, summary=f"nothing arrived any more{_after(attempt)}")


def _late(attempt: Attempt, _: Row) -> Attempt:
    return replace(attempt, summary=f"the deadline came{_after(attempt)}")


_MORE: Final[dict[Outcome, Callable[[Attempt, Row], Attempt]]] = {
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
