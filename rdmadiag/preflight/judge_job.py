"""Whether a job is on RDMA as it ought to be, and why not: pure.

What could not be read is never "no RDMA": the status is then unknown, with the reason.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.job import Extent, JobFacts, JobProcess
from rdmadiag.frozen import dataclass
from rdmadiag.gid.variables import DEVICE_LISTS, RDMA_OFF, Variable, choice
from rdmadiag.preflight.verdict import Status
from rdmadiag.view.job import Bound, JobView
from rdmadiag.view.job_peer import BROKEN, JobPeer
from rdmadiag.view.job_stacks import mapped_stacks
from rdmadiag.view.job_tcp import TcpPath, total
from rdmadiag.view.reconcile import DeviceView, PortView

LEAST_SHARE: Final = 0.9
"""Of the bytes of the interval, from which on a job is on RDMA: ranks meet by TCP."""

IDLE_BYTES: Final = 64 * 1024
"""In the interval: below this, heartbeats."""

MEETING_BYTES: Final = 1024 * 1024
"""Of all connections since they were opened: below this, ranks that only met."""


class JobReason(StrEnum):
    """What decided."""

    ON_RDMA = "on_rdma"
    NO_TCP = "no_tcp"  # ready queue pairs, and as good as nothing by TCP
    MIXED = "mixed"
    TCP = "tcp"
    QUEUE_PAIRS_NOT_READY = "queue_pairs_not_ready"
    QUEUE_PAIRS_IN_ERROR = "queue_pairs_in_error"
    IDLE = "idle"
    SILENT = "silent"  # neither queue pairs nor connections
    ONE_SAMPLE = "one_sample"
    RDMA_UNKNOWN = "rdma_unknown"
    TCP_UNKNOWN = "tcp_unknown"
    SHARED_PORT = "shared_port"
    PEER_QUEUE_PAIRS_IN_ERROR = "peer_queue_pairs_in_error"
    NOT_JOINED = "not_joined"  # no queue pair of one part leads to the other
    PEER = "peer"  # the part at the peer decided


class CauseKind(StrEnum):
    """What keeps a job from RDMA."""

    VARIABLE = "variable"
    DEVICE_LIST = "device_list"
    NO_DEVICE = "no_device"
    NO_ACTIVE_PORT = "no_active_port"
    NO_LIBRARY = "no_library"
    NOT_OPENED = "not_opened"


@dataclass(frozen=True, slots=True)
class Because:
    """A cause that was found."""

    kind: CauseKind
    summary: str  # "UCX_TLS=tcp: none of rc, dc, ud, ib, all"
    short: str  # "UCX_TLS=tcp"
    certain: bool  # False: the library that would read a variable is not seen in the maps
    pids: tuple[int, ...]  # the processes of which it is true; () of the host
    remedy: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """What it adds up to."""

    status: Status
    reasons: tuple[JobReason, ...]  # the one that decided first
    answer: str  # one sentence
    next: tuple[str, ...]  # commands that show more


def because(facts: JobFacts, view: JobView, devices: Sequence[DeviceView]) -> tuple[Because, ...]:
    """Why a job is not, or not wholly, on RDMA: the most certain first."""
    found = [*_of_variables(facts, devices), *_of_host(facts, view, devices)]
    return tuple(sorted(found, key=lambda each: not each.certain))


def judge(facts: JobFacts, view: JobView, causes: Sequence[Because]) -> JobVerdict:
    """The verdict."""
    status, reasons, answer = _judged(view)
    if JobReason.QUEUE_PAIRS_IN_ERROR not in reasons and status is Status.WARN and causes:
        first = causes[0]
        answer += f", {'because' if first.certain else 'perhaps because'} {first.short}"
    return JobVerdict(status, reasons, answer, tuple(_next(facts, view, status, reasons)))


def judge_both(own: JobVerdict, there: JobVerdict, peer: JobPeer, hostname: str) -> JobVerdict:
    """The verdict on both parts of a job: what is as bad with this one goes before the other's."""

    def decided(status: Status, reason: JobReason, answer: str) -> JobVerdict:
        other = () if reason is JobReason.NOT_JOINED else ("rdmadiag preflight   # on the peer",)
        return JobVerdict(status, (reason, *own.reasons), answer, (*other, *own.next))

    broken = sum(each.there.state in BROKEN for each in peer.halves)
    if broken and own.status is not Status.CRITICAL:
        return decided(
            Status.CRITICAL,
            JobReason.PEER_QUEUE_PAIRS_IN_ERROR,
            f"at {hostname} the other ends of {_of_all(broken, peer.connected)} are in the error "
            "state",
        )
    if _WORSE.index(there.status) > _WORSE.index(own.status):
        return decided(there.status, JobReason.PEER, f"at {hostname} {there.answer}")
    if own.status is not Status.OK or peer.connected == 0:
        return own
    if isinstance(peer.joined, Missing):
        return decided(
            Status.UNKNOWN,
            JobReason.NOT_JOINED,
            f"{own.answer}; whether its queue pairs lead to {hostname} is not known: "
            + _said(peer.joined),
        )
    if not peer.joined:
        return decided(
            Status.UNKNOWN,
            JobReason.NOT_JOINED,
            f"{own.answer}, but none of its queue pairs leads to that job of {hostname}",
        )
    return own


_WORSE: Final = tuple(Status)


def _of_all(count: int, total: int | Missing) -> str:
    return _pairs(count) if isinstance(total, Missing) else f"{count} of its {_pairs(total)}"


def _next(
    facts: JobFacts, view: JobView, status: Status, reasons: Sequence[JobReason]
) -> Iterator[str]:
    asked = facts.asked
    extent = "" if asked.extent is Extent.PROCESS else f" --{asked.extent}"
    again = f"rdmadiag job {asked.pid}{extent}"
    if status is Status.UNKNOWN and any(map(_is_denied, _evidence(facts, view))):
        yield f"sudo {again}   # as its user, or as root"
    if {JobReason.ONE_SAMPLE, JobReason.IDLE, JobReason.SILENT} & set(reasons):
        yield f"{again} --interval 10"
    if status is Status.WARN:
        yield f"rdmadiag preflight --env-from {asked.pid}   # this host, with its variables"


def _evidence(facts: JobFacts, view: JobView) -> Iterator[object]:
    yield from (view.queue_pairs, view.tcp, view.opened)
    for each in facts.processes:
        yield from (each.nodes, each.libraries, each.environment)


def _is_denied(value: object) -> bool:
    return isinstance(value, Missing) and value.why is Why.DENIED


def _judged(view: JobView) -> tuple[Status, tuple[JobReason, ...], str]:
    if isinstance(view.queue_pairs, Missing):
        return _unknown(
            JobReason.RDMA_UNKNOWN,
            f"cannot tell whether it is on RDMA: {_said(view.queue_pairs)}{_beside(view)}",
        )
    if not view.queue_pairs:
        return _without_pairs(view)
    broken = view.states.get("err", 0) + view.states.get("sqe", 0)
    if broken:
        return (
            Status.CRITICAL,
            (JobReason.QUEUE_PAIRS_IN_ERROR,),
            f"{broken} of its {_pairs(view.queue_pairs)} are in the error state{_beside(view)}",
        )
    if not any(view.states.get(state) for state in ("rtr", "rts", "sqd")):
        return (
            Status.WARN,
            (JobReason.QUEUE_PAIRS_NOT_READY,),
            f"none of its {_pairs(view.queue_pairs)} is connected: {_states(view)}{_beside(view)}",
        )
    return _with_pairs(view, view.queue_pairs)


def _without_pairs(view: JobView) -> tuple[Status, tuple[JobReason, ...], str]:
    if isinstance(view.transport.rdma_bytes, Missing):
        why = _said(view.transport.rdma_bytes)
        return _unknown(JobReason.RDMA_UNKNOWN, f"cannot tell: {why}{_beside(view)}")
    if isinstance(view.tcp, Missing):
        return _unknown(
            JobReason.TCP_UNKNOWN,
            f"it has no queue pair, and its TCP connections are not known: {_said(view.tcp)}",
        )
    away = _away(view.tcp)
    if not away:
        local = ", and TCP within this host alone" if view.tcp else " and no TCP connection"
        return _unknown(JobReason.SILENT, f"it has no queue pair{local}: it may not have begun")
    opened = total(each.total_bytes for each in away)
    if isinstance(opened, Missing):
        return (
            Status.WARN,
            (JobReason.TCP, JobReason.TCP_UNKNOWN),
            f"it has no queue pair, and {_connections(away)}{_over(away)} of unknown bytes: "
            + _said(opened),
        )
    moved = view.transport.tcp_bytes
    if opened < MEETING_BYTES and (isinstance(moved, Missing) or moved < IDLE_BYTES):
        return _unknown(
            JobReason.IDLE,
            f"it has no queue pair, and {_connections(away)} that moved {bytes_text(opened)} since "
            "they were opened: it may not have begun",
        )
    return Status.WARN, (JobReason.TCP,), f"all its bytes go by TCP{_over(away)}"


def _with_pairs(view: JobView, count: int) -> tuple[Status, tuple[JobReason, ...], str]:
    transport = view.transport
    rdma, tcp = transport.rdma_bytes, transport.tcp_bytes
    ready = f"{_pairs(count)} on {_places(view)}"
    if isinstance(transport.seconds, Missing):
        return _unknown(
            JobReason.ONE_SAMPLE, f"it has {ready}; what they carry was not compared over time"
        )
    if isinstance(tcp, Missing):
        return _unknown(
            JobReason.TCP_UNKNOWN,
            f"it has {ready}{_carrying(view)}; its bytes by TCP are not known: {_said(tcp)}",
        )
    if isinstance(rdma, Missing):
        if tcp < IDLE_BYTES:
            return Status.OK, (JobReason.NO_TCP,), f"it has {ready}, and no traffic by TCP"
        return _unknown(
            JobReason.RDMA_UNKNOWN,
            f"it has {ready}, whose bytes are not known ({_said(rdma)}), beside "
            f"{bytes_text(tcp)} by TCP",
        )
    if rdma + tcp < IDLE_BYTES:
        return _unknown(JobReason.IDLE, f"it has {ready}, and moved nothing in the interval")
    over = _over(_away(tuple(present(view.tcp))))
    most = transport.share_rdma_at_most
    assert not isinstance(most, Missing)
    if transport.rdma_bound is Bound.AT_MOST:
        if tcp < IDLE_BYTES:
            return (
                Status.OK,
                (JobReason.NO_TCP,),
                f"it has {ready}, which others use too, and no traffic by TCP",
            )
        if most < LEAST_SHARE:
            return (
                Status.WARN,
                (JobReason.MIXED, JobReason.SHARED_PORT),
                f"at least {percent(1 - most)} of its bytes go by TCP{over}",
            )
        return _unknown(
            JobReason.SHARED_PORT,
            f"it has {ready}, which others use too: at most {percent(most)} of its bytes go by "
            "RDMA",
        )
    about = "about " if transport.rdma_bound is Bound.ESTIMATE else ""
    if most >= LEAST_SHARE:
        return (
            Status.OK,
            (JobReason.ON_RDMA,),
            f"{about}{percent(most)} of its bytes go by RDMA over {_places(view)}",
        )
    return (
        Status.WARN,
        (JobReason.MIXED,),
        f"{about}{percent(1 - most)} of its bytes go by TCP{over}",
    )


def _unknown(reason: JobReason, answer: str) -> tuple[Status, tuple[JobReason, ...], str]:
    return Status.UNKNOWN, (reason,), answer


def _away(paths: Sequence[TcpPath]) -> tuple[TcpPath, ...]:
    return tuple(each for each in paths if not each.within_host)


def _connections(paths: Sequence[TcpPath]) -> str:
    count = sum(each.connections for each in paths)
    return f"{count} TCP connection{'' if count == 1 else 's'}"


def _over(paths: Sequence[TcpPath]) -> str:
    """The netdevs, the one with most bytes first."""

    def weight(path: TcpPath) -> int:
        moved = (
            path.total_bytes if isinstance(path.interval_bytes, Missing) else path.interval_bytes
        )
        return 0 if isinstance(moved, Missing) else -moved

    names = [each.netdev for each in sorted(paths, key=weight) if isinstance(each.netdev, str)]
    return f" over {_some(names)}" if names else ""


def _places(view: JobView) -> str:
    return _some([f"{each.device}/{each.port}" for each in view.ports]) or "no port yet"


_SHOWN: Final = 4


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _states(view: JobView) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(view.states.items()))


def _pairs(count: int) -> str:
    return f"{count} queue pair{'' if count == 1 else 's'}"


def _carrying(view: JobView) -> str:
    rdma = view.transport.rdma_bytes
    if isinstance(rdma, Missing):
        return ""
    most = "at most " if view.transport.rdma_bound is Bound.AT_MOST else ""
    return f", by which it moved {most}{bytes_text(rdma)}"


def _beside(view: JobView) -> str:
    """What is known of TCP, behind what is not of RDMA."""
    moved = view.transport.tcp_bytes
    if isinstance(moved, Missing) or not moved:
        return ""
    return f"; {bytes_text(moved)} went by TCP{_over(_away(tuple(present(view.tcp))))}"


def _said(reason: Missing) -> str:
    return reason.detail or str(reason.why)


def percent(share: float) -> str:
    """ "96 %"; never rounded to all or to nothing."""
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1:
        return "more than 99 %"
    return f"{share * 100:.0f} %"


_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def bytes_text(count: int) -> str:
    """ "1.25 GB"."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


# --- causes -----------------------------------------------------------------------------------


def _of_variables(facts: JobFacts, devices: Sequence[DeviceView]) -> Iterator[Because]:
    ports = [port for device in devices for port in device.ports]
    for row in RDMA_OFF:
        for value, having in _values(facts, row.name):
            off = row.rdma_off(value) if row.rdma_off else None
            if off:
                yield _cause(CauseKind.VARIABLE, row, value, off.words, having, sure=off.certain)
    for row in DEVICE_LISTS:
        for value, having in _values(facts, row.name):
            words = _leaves_out(row, value, ports)
            if words:
                yield _cause(CauseKind.DEVICE_LIST, row, value, words, having)


def _values(facts: JobFacts, name: str) -> Iterator[tuple[str, tuple[JobProcess, ...]]]:
    groups: dict[str, list[JobProcess]] = {}
    for each in facts.processes:
        if not isinstance(each.environment, Missing) and name in each.environment:
            groups.setdefault(each.environment[name], []).append(each)
    for value, having in groups.items():
        yield value, tuple(having)


def _cause(
    kind: CauseKind,
    row: Variable,
    value: str,
    words: str,
    having: tuple[JobProcess, ...],
    *,
    sure: bool = True,
) -> Because:
    read = mapped_stacks(having)
    mapped = any(each.strip() in read for each in row.stack.split(","))
    unseen = "" if mapped else f"; no library of {row.stack} is seen in its maps"
    return Because(
        kind,
        f"{row.name}={value}: {words}{unseen}",
        f"{row.name}={value}",
        mapped and sure,
        tuple(each.pid for each in having),
        (f"rdmadiag explain {row.name}   # what it means, and its pitfalls",),
    )


def _leaves_out(row: Variable, value: str, ports: Sequence[PortView]) -> str | None:
    chosen = choice({row.name: value}, row.name)
    active = [port for port in ports if port.is_active]
    if chosen is None or not active:
        return None
    if any(chosen.has(port.device, port.number) for port in active):
        return None
    return "leaves out every active port"


def _of_host(facts: JobFacts, view: JobView, devices: Sequence[DeviceView]) -> Iterator[Because]:
    """Without RDMA at all; of a job with queue pairs these are not causes."""
    if view.queue_pairs != 0:
        return
    ports = [port for device in devices for port in device.ports]
    if not devices:
        if isinstance(view.transport.rdma_bytes, int):
            yield Because(
                CauseKind.NO_DEVICE,
                "this host has no RDMA device",
                "this host has no RDMA device",
                True,
                (),
                ("rdmadiag preflight",),
            )
        return
    if ports and not any(port.is_active for port in ports):
        words = "no port of this host is active"
        yield Because(CauseKind.NO_ACTIVE_PORT, words, words, True, (), ("rdmadiag preflight",))
    without = [each for each in facts.processes if _maps_no_verbs(each)]
    if len(without) == len(facts.processes):
        words = "it has mapped no libibverbs"
        yield Because(
            CauseKind.NO_LIBRARY,
            f"{words}: what it runs was built, or is set, without RDMA",
            words,
            True,
            tuple(each.pid for each in without),
            (),
        )
    elif view.opened == ():
        words = "it has opened no RDMA device"
        yield Because(CauseKind.NOT_OPENED, words, words, True, (), ("rdmadiag preflight",))


def _maps_no_verbs(process: JobProcess) -> bool:
    found = process.libraries
    return not isinstance(found, Missing) and all(each.name != "ibverbs" for each in found)
