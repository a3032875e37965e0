"""One attempt from beginning to end: preflight, choice of a port, the child, what came of it."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from signal import Signals
from typing import Any, Final, Literal

from rdmadiag import rtr_record
from rdmadiag.facts import Missing
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.ib import LinkLayer, QpType
from rdmadiag.facts.pingpong import Attempt, Outcome, Stage, Teardown
from rdmadiag.host import Host
from rdmadiag.preflight.candidate import Candidate, Wanted, candidates
from rdmadiag.preflight.safety import Reason
from rdmadiag.sources.run import gather
from rdmadiag.sources.table import Depth
from rdmadiag.verbs import child
from rdmadiag.verbs.outcome import Nonsense, conclude
from rdmadiag.verbs.watchdog import Watched, watch
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.select import Selector

_LOOKING_SHARE: Final = 0.6  # of the deadline: at most this goes to the preflight
_BOOT_ID_SECONDS: Final = 2.0
_LEAST_SECONDS: Final = 0.5  # before the deadline, from which the child puts everything back
_MOST_SECONDS: Final = 2.0
_RESERVED_SHARE: Final = 0.15


@dataclass(frozen=True, slots=True)
class Meeting:
    """How the two ends find each other."""

    role: Literal["listen", "connect"]
    host: str
    port: int
    wait: float  # seconds, for the peer to come
    near: str | None  # the address of this host that the connection uses, where it is known


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it, and what was decided before."""

    attempt: Attempt
    chosen: tuple[Candidate, ...]  # the ends of this host; or what was refused, the best first
    accepted: tuple[Reason, ...]  # that the user took on
    meeting: Meeting | None = None


class BrokenChild(Exception):
    """The child ended without a word: a bug of ours."""


def not_allowed(why: str, platform: Platform) -> Attempt:
    """What is said without --allow-rtr."""
    return _unattempted(Outcome.NOT_ALLOWED, Stage.GATE, why, platform)


def run(
    host: Host,
    wanted: Wanted,
    selectors: Sequence[Selector],
    meeting: Meeting | None,
    secret: bytes | None,
    start: float,
    seconds: float,
    heard: Callable[[str], None],
) -> Result:
    """The whole run, which ends `seconds` after `start` (time.monotonic's clock).

    To that comes what it waits for a peer. `heard` is told where it listens. Raises
    NoSuchDevice, and BrokenChild.
    """
    deadline = start + seconds
    platform = host.identity.platform
    if meeting is None and platform == "darwin" and len(set(selectors)) < 2:
        # All RDMA ports of a Mac are Thunderbolt's. Nothing is asked of a provider before this.
        return Result(_towards_itself(platform), (), ())
    looking = start + seconds * _LOOKING_SHARE
    evidence = gather(host, looking, None, Depth())
    boot = rtr_record.boot_id(host, time.monotonic() + _BOOT_ID_SECONDS)
    against = [Reason.PRIOR_RTR_FAILURE] if rtr_record.failed_since_start(boot) else []
    near = meeting.near if meeting else None

    def ranked(chosen: Sequence[Selector]) -> tuple[Candidate, ...]:
        return candidates(evidence, wanted, chosen, near=near, against=against)

    if len(selectors) == 2:
        groups = [ranked([each]) for each in selectors]
    else:
        groups = [ranked(selectors)] * (1 if meeting else 2)
    if not all(groups):
        text = "this host has no RDMA port" if not selectors else "the device has no port"
        attempt = _unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
        return Result(attempt, (), ())
    ends = tuple(group[0] for group in groups)
    if meeting is None and _are_one_thunderbolt_port(ends):
        return Result(_towards_itself(platform), (), ())
    refused = next((end for end in ends if end.blocking), None)
    if refused:
        name = f"{refused.endpoint.device}/{refused.endpoint.port}"
        text = f"the preflight forbids RTR on {name}"
        attempt = _unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
        return Result(attempt, groups[ends.index(refused)], (), meeting)
    if any(_asks_too_much(end) for end in ends):
        text = "Thunderbolt has UC queue pairs alone: leave --qp out"
        return Result(_unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform), ends, ())
    accepted = tuple(dict.fromkeys(reason for end in ends for reason in end.reasons))
    watched = _watch(host, ends, meeting, secret, start, deadline, boot, heard)
    return Result(_concluded(watched, ends, meeting, platform), ends, accepted, meeting)


def _towards_itself(platform: Platform) -> Attempt:
    """RTR takes the XDomain's other end as its destination: a port is no peer of its own."""
    text = (
        "a Thunderbolt port cannot be both ends: name a peer, "
        "or two ports (--device, twice) that a cable joins"
    )
    return _unattempted(Outcome.NOT_SAFE, Stage.GATE, text, platform)


def _are_one_thunderbolt_port(ends: Sequence[Candidate]) -> bool:
    names = {(end.endpoint.device, end.endpoint.port) for end in ends}
    return len(names) == 1 and ends[0].protocol is Protocol.THUNDERBOLT


def _asks_too_much(end: Candidate) -> bool:
    return end.protocol is Protocol.THUNDERBOLT and end.endpoint.qp_type is QpType.RC


def _watch(
    host: Host,
    ends: tuple[Candidate, ...],
    meeting: Meeting | None,
    secret: bytes | None,
    start: float,
    deadline: float,
    boot: str | None,
    heard: Callable[[str], None],
) -> Watched | Missing:
    platform = host.identity.platform
    seconds = deadline - start
    reserved = min(_MOST_SECONDS, max(_LEAST_SECONDS, seconds * _RESERVED_SHARE))
    until = deadline
    if meeting and meeting.role == "listen":
        until = time.monotonic() + meeting.wait
    request: dict[str, Any] = {
        "platform": platform,
        "library": child.LIBRARY[platform],
        "start": time.monotonic(),
        "deadline": deadline - reserved,
        "ends": [end.endpoint.message() for end in ends],
        "meet": meeting.role if meeting else None,
        "host": meeting.host if meeting else "",
        "port": meeting.port if meeting else 0,
        "until": until,
        "secret": None if secret is None else secret.hex(),
    }
    record = _Record(ends[0], boot)

    def row_heard(row: dict[str, Any]) -> None:
        if row.get("heard") == "listening":
            heard(row["address"])
        record.note(row)

    return watch(request, reserved, row_heard)


class _Record:
    """Keeps rtr_record true to what the child does, on Thunderbolt."""

    def __init__(self, end: Candidate, boot: str | None) -> None:
        self._end = end.endpoint
        self._boot = boot

    def note(self, row: dict[str, Any]) -> None:
        """Before RTR it is written down; once RTR has succeeded it is taken back."""
        if self._end.link_layer is not LinkLayer.THUNDERBOLT:
            return
        # A folder that cannot be written must not keep anybody from the attempt.
        with suppress(OSError):
            if row.get("stage") == Stage.RTR and "call" not in row and "result" not in row:
                rtr_record.remember(self._boot, self._end.device, self._end.port)
            elif row.get("stage") == Stage.RTS and "call" not in row:
                rtr_record.forget(self._boot, self._end.device, self._end.port)


def _concluded(
    watched: Watched | Missing,
    ends: tuple[Candidate, ...],
    meeting: Meeting | None,
    platform: Platform,
) -> Attempt:
    if isinstance(watched, Missing):
        text = f"no process could be started: {watched}"
        return _unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
    try:
        return conclude(
            watched.rows,
            platform=platform,
            ends=[end.endpoint for end in ends],
            seconds=watched.seconds,
            returncode=watched.returncode,
            signal=None if watched.signal is None else Signals(watched.signal).name,
            unkillable=watched.unkillable,
            pid=watched.pid,
            role=meeting.role if meeting else None,
        )
    except Nonsense as error:
        raise BrokenChild(f"{error}: {watched.stderr.strip()[-500:]}") from error


def _unattempted(outcome: Outcome, stage: Stage, summary: str, platform: Platform) -> Attempt:
    return Attempt(
        outcome=outcome,
        stage=stage,
        platform=platform,
        summary=summary,
        call=None,
        errno=None,
        completion=None,
        local=None,
        remote=None,
        peer_failure=None,
        problems=(),
        data_verified=False,
        latency=None,
        teardown=Teardown.NOTHING_MADE,
        steps=(),
        touched=False,
    )
