"""One attempt from beginning to end: preflight, choice of a port, the child, what came of it."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from ipaddress import ip_address
from signal import Signals
from typing import Final, Literal

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Attempt, Outcome, Stage, Teardown
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DataOp, PortState, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host
from rdmadiag.preflight.candidate import Candidate, Wanted, are_one_thunderbolt_port, candidates
from rdmadiag.preflight.safety import Reason, assess
from rdmadiag.sources.run import gather
from rdmadiag.sources.sysfs import parse_state
from rdmadiag.sources.table import Depth
from rdmadiag.verbs import child, rtr_record
from rdmadiag.verbs.outcome import Nonsense, conclude
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import DEFAULT_SIZES, CmRequest, Record, Request, Sizes
from rdmadiag.verbs.watchdog import Watched, watch
from rdmadiag.view.reconcile import Protocol, devices
from rdmadiag.view.select import NoSuchDevice, Selector, select

_LOOKING_SHARE: Final = 0.6  # of the deadline: at most this goes to the preflight
_BOOT_ID_SECONDS: Final = 2.0
_LEAST_SECONDS: Final = 0.5  # before the deadline, from which the child puts everything back
_MOST_SECONDS: Final = 2.0
_RESERVED_SHARE: Final = 0.15
_GOING_SECONDS: Final = 0.5
"""A device that is deleted while a process has it open goes once that has ended, and not at
once: disable_device, core/device.c."""
_WAITING_SHARE: Final = 0.5  # of what is left then: at most this goes to a peer's listener


@dataclass(frozen=True, slots=True)
class Meeting:
    """How the two hosts find each other."""

    role: Literal["listen", "connect"]
    host: str
    port: int
    wait: float  # seconds, for the peer to come
    near: str | None  # this host's address on that connection, where it is known


def waiting_until(meeting: Meeting | None, now: float, deadline: float) -> float:
    """When an end stops waiting for its peer: one that connects, after a share of its time."""
    if meeting and meeting.role == "listen":
        return now + meeting.wait
    return now + (deadline - now) * _WAITING_SHARE


@dataclass(frozen=True, slots=True)
class How:
    """How the ends of this host are made and waited for; the peer's need not be so."""

    sizes: Sizes = DEFAULT_SIZES
    events: bool = False


DEFAULT_HOW: Final = How()
NO_CM_ON_MAC: Final = "macOS has no connection manager of RDMA: leave --cm out"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it, and what was decided before."""

    attempt: Attempt
    chosen: tuple[Candidate, ...]  # the ends of this host; or what was refused, the best first
    accepted: tuple[Reason, ...]  # that the user took on
    meeting: Meeting | None = None
    of_host: tuple[Reason, ...] = ()  # why no port was chosen, where there is none
    by_cm: bool = False
    asked: str = ""  # devices and peer as options and an argument, for a line to paste


class BrokenChild(Exception):
    """The child ended without a result: a bug of ours."""


def not_allowed(why: str, platform: Platform) -> Attempt:
    """The attempt that is not made without --allow-rtr."""
    return unattempted(Outcome.NOT_ALLOWED, Stage.GATE, why, platform)


def run(
    host: Host,
    wanted: Wanted,
    selectors: Sequence[Selector],
    meeting: Meeting | None,
    secret: bytes | None,
    start: float,
    seconds: float,
    noted: Callable[[Record], None],
    how: How = DEFAULT_HOW,
) -> Result:
    """The whole run, which ends `seconds` after `start` (time.monotonic's clock).

    To that comes what --listen waits for a peer. `noted` gets each record of the child as
    it comes. Raises NoSuchDevice, and BrokenChild.
    """
    deadline = start + seconds
    platform = host.identity.platform
    if platform == "darwin" and (never := _never_on_mac(wanted, selectors, meeting)):
        return Result(never, (), ())
    looking = start + seconds * _LOOKING_SHARE
    evidence = gather(host, looking, None, Depth())
    boot = rtr_record.boot_id(host, time.monotonic() + _BOOT_ID_SECONDS)
    against = [Reason.PRIOR_RTR_FAILURE] if rtr_record.failed_since_start(boot) else []
    near = meeting.near if meeting else None

    def ranked(selected: Sequence[Selector]) -> tuple[Candidate, ...]:
        return candidates(evidence, wanted, selected, near=near, against=against)

    try:
        if len(selectors) == 2:
            groups = [ranked([each]) for each in selectors]
        else:
            groups = [ranked(selectors)] * (1 if meeting else 2)
    except NoSuchDevice:
        if _unread(evidence, platform) is None:
            raise
        groups = [()]
    if not all(groups):
        return _without_port(evidence, selectors, platform)
    chosen = tuple(group[0] for group in groups)
    if meeting is None and are_one_thunderbolt_port(chosen):
        return Result(_towards_itself(platform), (), ())
    refused = next((each for each in chosen if each.blocking), None)
    if refused:
        name = f"{refused.end.device}/{refused.end.port}"
        text = f"the preflight forbids {'a connection' if wanted.by_cm else 'RTR'} on {name}"
        attempt = unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
        return Result(attempt, groups[chosen.index(refused)], (), meeting)
    lacking = next(filter(None, (_lacking(each, wanted.group) for each in chosen)), None)
    if lacking:
        attempt = unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, lacking, platform)
        return Result(attempt, chosen, ())
    accepted = tuple(dict.fromkeys(reason for each in chosen for reason in each.reasons))
    watched = _watch(host, wanted, chosen, meeting, secret, start, deadline, boot, noted, how)
    attempt = _looked_again(_concluded(watched, chosen, meeting, platform), host, chosen[0].end)
    return Result(attempt, chosen, accepted, meeting)


def _never_on_mac(
    wanted: Wanted, selectors: Sequence[Selector], meeting: Meeting | None
) -> Attempt | None:
    """All RDMA ports of a Mac are Thunderbolt's. No provider is loaded before this."""
    if wanted.by_cm:
        return unattempted(Outcome.NOT_SAFE, Stage.GATE, NO_CM_ON_MAC, "darwin")
    return _towards_itself("darwin") if meeting is None and len(set(selectors)) < 2 else None


def _unread(evidence: Evidence, platform: Platform) -> Missing | None:
    """Why nobody knows which ports there are; None where that is known."""
    source = evidence.verbs if platform == "darwin" else evidence.sysfs
    return source if isinstance(source, Missing) and source.why is not Why.ABSENT else None


def _without_port(evidence: Evidence, selectors: Sequence[Selector], platform: Platform) -> Result:
    if unread := _unread(evidence, platform):
        text = f"the preflight could not look for ports: {unread}"
        attempt = unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
        return Result(attempt, (), (), of_host=(Reason.PORTS_UNKNOWN,))
    text = "this host has no RDMA port" if not selectors else "the device has no port"
    attempt = unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
    selected = select(devices(evidence), selectors)
    return Result(attempt, (), (), of_host=assess(selected, evidence).host)


def _towards_itself(platform: Platform) -> Attempt:
    """RTR takes the XDomain's other end as its destination: a port is no peer of its own."""
    text = (
        "a Thunderbolt port cannot be both ends: name a peer, "
        "or two ports (--device, twice) that a cable joins"
    )
    return unattempted(Outcome.NOT_SAFE, Stage.GATE, text, platform)


def _looked_again(attempt: Attempt, host: Host, end: End) -> Attempt:
    """With this host's port as it is after a failure: it, or its device, may have gone."""
    if not attempt.touched or attempt.outcome is Outcome.VERIFIED:
        return attempt
    if host.identity.platform != "linux":
        late = Missing(Why.UNSUPPORTED, "a Mac shows it through the verbs library alone")
        return replace(attempt, port_after=late)
    path = f"/sys/class/infiniband/{end.device}/ports/{end.port}/state"
    until = time.monotonic() + _GOING_SECONDS
    while True:
        content = host.read(path)
        after = content if isinstance(content, Missing) else parse_state(content)
        if after is not PortState.ACTIVE or time.monotonic() > until:
            return replace(attempt, port_after=after)
        time.sleep(_GOING_SECONDS / 5)


def _not_on_thunderbolt(candidate: Candidate) -> str | None:
    """What TN3205 does not have."""
    if candidate.protocol is not Protocol.THUNDERBOLT:
        return None
    if candidate.end.qp_type is QpType.RC:
        return "Thunderbolt has UC queue pairs alone: leave --qp out"
    if candidate.end.op is not DataOp.SEND:
        return "Thunderbolt has SEND and RECEIVE alone: leave --op out"
    return None


def _lacking(candidate: Candidate, group: str | None) -> str | None:
    """What this kind of port has not got."""
    return _not_on_thunderbolt(candidate) or _no_datagram(candidate, group)


def _no_datagram(candidate: Candidate, group: str | None) -> str | None:
    """What a UD queue pair cannot do there."""
    end = candidate.end
    if end.qp_type is not QpType.UD:
        return None
    if candidate.protocol is Protocol.IWARP:
        return "iWARP has RC queue pairs alone, and no multicast: leave --qp and --multicast out"
    if end.payload_bytes > end.mtu:
        return (
            f"a UD message is one datagram: with the MTU of {end.device}/{end.port} "
            f"--bytes {end.mtu} is the most"
        )
    if group and _of_family(candidate, group) is None:
        family = f"IPv{ip_address(group).version}"
        return f"no {family} address leads to {end.device}/{end.port}, and the group is of {family}"
    return None


def _watch(
    host: Host,
    wanted: Wanted,
    chosen: tuple[Candidate, ...],
    meeting: Meeting | None,
    secret: bytes | None,
    start: float,
    deadline: float,
    boot: str | None,
    noted: Callable[[Record], None],
    how: How,
) -> Watched | Missing:
    platform = host.identity.platform
    seconds = deadline - start
    reserved = min(_MOST_SECONDS, max(_LEAST_SECONDS, seconds * _RESERVED_SHARE))
    now = time.monotonic()
    request = Request(
        platform=platform,
        library=child.LIBRARY[platform],
        start=now,
        deadline=deadline - reserved,
        ends=tuple(each.end for each in chosen),
        meet=meeting.role if meeting else None,
        host=meeting.host if meeting else "",
        port=meeting.port if meeting else 0,
        until=waiting_until(meeting, now, deadline - reserved),
        secret=None if secret is None else secret.hex(),
        pkey_index=wanted.pkey_index,
        sizes=how.sizes,
        events=how.events,
    )
    module = "pingpong_child"
    if wanted.by_cm:
        request, module = _by_cm(request, chosen, meeting, wanted.group), "cm_child"
    remembered = rtr_record.Remembered(chosen[0].end, boot)

    def seen(record: Record) -> None:
        noted(record)
        remembered.note(record)

    return watch(request, reserved, seen, module)


def _by_cm(
    request: Request, chosen: tuple[Candidate, ...], meeting: Meeting | None, group: str | None
) -> CmRequest:
    """The same by the connection manager, which is given an address of each end."""
    given = {each.name: getattr(request, each.name) for each in fields(request)}
    return CmRequest(
        **given,
        cm_library=child.CM_LIBRARY,
        node=child.CM_NODE,
        addresses=tuple(_source(each, meeting) for each in chosen),
        group=group,
        members=tuple(_of_family(each, group) or "" for each in chosen if group),
    )


def _of_family(candidate: Candidate, group: str) -> str | None:
    """The port's best address that can send to the group; None: it has none."""
    version = ip_address(group).version
    of_family = (each for each in candidate.addresses if ip_address(each).version == version)
    return next(of_family, None)


def _source(candidate: Candidate, meeting: Meeting | None) -> str:
    """What the identifier is bound to; "" where the kernel chooses so, or knows no way."""
    addresses = candidate.addresses or ("",)
    if meeting is None:
        return addresses[0]
    if meeting.near in addresses or (meeting.near is None and _is_numeric(meeting.host)):
        return ""
    return addresses[0]


def _is_numeric(host: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(host))
    return False


def _concluded(
    watched: Watched | Missing,
    chosen: tuple[Candidate, ...],
    meeting: Meeting | None,
    platform: Platform,
) -> Attempt:
    if isinstance(watched, Missing):
        text = f"no process could be started: {watched}"
        return unattempted(Outcome.NOT_SAFE, Stage.PREFLIGHT, text, platform)
    try:
        attempt = conclude(
            watched.records,
            platform=platform,
            ends=[each.end for each in chosen],
            returncode=watched.returncode,
            signal=None if watched.signal is None else Signals(watched.signal).name,
            unkillable=watched.unkillable,
            pid=watched.pid,
            role=meeting.role if meeting else None,
        )
    except Nonsense as error:
        raise BrokenChild(f"{error}: {watched.stderr.strip()[-500:]}") from error
    if attempt.bandwidth is None:
        return attempt
    return replace(attempt, bandwidth=replace(attempt.bandwidth, link_gbps=chosen[0].link_gbps))


def unattempted(outcome: Outcome, stage: Stage, summary: str, platform: Platform) -> Attempt:
    """The attempt that is not made; nothing was done on a device."""
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
