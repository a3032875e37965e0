"""A job's transport: what it moved by RDMA and by TCP, over which ports and netdevs.

Counters of a port count what is on the wire, with headers and what is sent again, for all that use
it: they are the job's where nothing else has a queue pair there, and the most that it can be where
something has, or where that cannot be known.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, NetDevFacts, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import OF_THE_KERNEL, NetnsMode, PortState, QpState
from rdmadiag.facts.job import JobFacts, JobSample, PortTraffic, TrafficUnit, WantedSample
from rdmadiag.facts.resources import DeviceResources, QueuePair, ResourceFacts
from rdmadiag.frozen import dataclass
from rdmadiag.gid.registry import Chosen
from rdmadiag.gid.route import Route
from rdmadiag.view.job_stacks import GidPick, gid_picks, mapped_rules
from rdmadiag.view.job_tcp import NOT_YET, TcpPath, bytes_by_tcp, tcp_paths
from rdmadiag.view.reconcile import DeviceView, PortView


class Bound(StrEnum):
    """What a number of bytes by RDMA is worth."""

    COUNTED = "counted"  # the job alone uses its ports, and they count bytes
    ESTIMATE = "estimate"  # the same, and one of them counts packets: each taken as full
    AT_MOST = "at_most"  # others use a port too, or that cannot be known


@dataclass(frozen=True, slots=True)
class JobQueuePairs:
    """Queue pairs of one type in one state on one port."""

    type: str  # a word of KernelQpType; "?" where it is not known
    state: str  # a word of QpState
    count: int


@dataclass(frozen=True, slots=True)
class ConnectedPair:
    """A queue pair of it that leads to another one."""

    device: str
    number: int  # its own QPN, which is of its device
    peer: int  # that of the other end
    state: str  # a word of QpState


MOST_PAIRS: Final = 4096
"""Connected queue pairs that are listed."""


@dataclass(frozen=True, slots=True)
class JobPort:
    """A port that the job has queue pairs on."""

    device: str
    port: int
    state: str | Missing  # a word of PortState
    queue_pairs: tuple[JobQueuePairs, ...]
    others: int | Missing  # queue pairs of others that may use it
    bytes: int | Missing  # sent and received in the interval, of all that use it
    bound: Bound
    counter: str  # where they were read
    route_gid_index: int | None  # the row that it should use; which one it uses, nothing shows
    route_gid: str | None
    picks: tuple[GidPick, ...]


@dataclass(frozen=True, slots=True)
class Transport:
    """The bytes of the interval, sent and received; TCP without what stays on the host."""

    began: float | Missing  # the first sample, in seconds since the host started
    seconds: float | Missing  # from it to the second
    rdma_bytes: int | Missing
    rdma_bound: Bound
    tcp_bytes: int | Missing
    share_rdma: float | Missing  # of both; ABSENT where nothing moved
    share_rdma_at_most: float | Missing  # the same, where the job is not alone on its ports


@dataclass(frozen=True, slots=True)
class JobView:
    """Whether the job is on RDMA, by what it moved and by what it holds, and why not."""

    transport: Transport
    ports: tuple[JobPort, ...]
    unused: tuple[str, ...]  # active ports, DEVICE/PORT, on which it has no queue pair
    tcp: tuple[TcpPath, ...] | Missing
    queue_pairs: int | Missing  # of the job, on all devices
    states: dict[str, int]  # the same by state
    opened: tuple[str, ...] | Missing  # devices, or nodes, that it has open
    hidden: int  # objects whose maker cannot be seen
    connected: tuple[ConnectedPair, ...] | Missing = NOT_IN_RECORD  # of RC and UC; at most 4096


def ports_of(facts: JobFacts, resources: ResourceFacts | Missing) -> tuple[tuple[str, int], ...]:
    """Device and port of the job's queue pairs: those whose counters are read."""
    found = {
        (device.name, pair.port)
        for device, pair in _pairs(resources)
        if pair.owner.pid in pids(facts) and not isinstance(pair.port, Missing)
    }
    return tuple(sorted(found))


def pids(facts: JobFacts) -> frozenset[int]:
    """Of its processes."""
    return frozenset(each.pid for each in facts.processes)


def foreign(facts: JobFacts) -> int | None:
    """A process of the job that is in another network namespace than this one."""
    own = facts.netns
    return next(
        (
            each.pid
            for each in facts.processes
            if isinstance(own, str) and isinstance(each.netns, str) and each.netns != own
        ),
        None,
    )


def sampled(facts: JobFacts, resources: ResourceFacts | Missing) -> WantedSample:
    """What a sample of it looks at."""
    return WantedSample(tuple(sorted(pids(facts))), ports_of(facts, resources), foreign(facts))


def job_view(
    facts: JobFacts,
    resources: ResourceFacts | Missing,
    devices: Sequence[DeviceView],
    evidence: Evidence,
    netdevs: NetDevFacts | Missing,
    before: JobSample | Missing,
    after: JobSample | Missing | None,
) -> JobView:
    """The whole of a job; `after` is None of a single sample."""
    own = [(device, pair) for device, pair in _pairs(resources) if pair.owner.pid in pids(facts)]
    count = (not own and _unseen(facts, resources, evidence)) or len(own)
    moved = _moved(before, after)
    views = {(port.device, port.number): port for device in devices for port in device.ports}
    rules, environment = mapped_rules(facts), facts.processes[0].environment
    ports = tuple(
        _port(place, own, resources, moved, views.get(place), rules, environment)
        for place in ports_of(facts, resources)
    )
    used = {(port.device, port.port) for port in ports}
    active = [each for each in views.values() if each.is_active]
    tcp = tcp_paths(before, after, netdevs)
    opened = _opened(facts, resources)
    rdma, bound = _rdma(ports, count, opened, own)
    seconds = moved if isinstance(moved, Missing) else moved.seconds
    return JobView(
        transport=_transport(_began(before), seconds, rdma, bound, bytes_by_tcp(tcp)),
        ports=ports,
        unused=tuple(each.name for each in active if (each.device, each.number) not in used),
        tcp=tcp,
        queue_pairs=count,
        states=dict(Counter(_word(pair.state) for _, pair in own)),
        opened=opened,
        hidden=_hidden(resources),
        connected=_connected(own, count),
    )


def _connected(
    own: Sequence[tuple[DeviceResources, QueuePair]], count: int | Missing
) -> tuple[ConnectedPair, ...] | Missing:
    """Those of a job whose queue pairs can be seen."""
    if isinstance(count, Missing):
        return count
    found = sorted(
        (device.name, pair.number, pair.peer, _word(pair.state))
        for device, pair in own
        if not isinstance(pair.peer, Missing) and pair.peer and pair.state not in _UNCONNECTED
    )
    return tuple(ConnectedPair(*each) for each in found[:MOST_PAIRS])


_UNCONNECTED: Final = (QpState.RESET, QpState.INIT)


def narrowed(view: JobView, names: Collection[str]) -> JobView:
    """The same with these ports alone, DEVICE/PORT; the bytes are those of all."""
    return replace(
        view,
        ports=tuple(each for each in view.ports if f"{each.device}/{each.port}" in names),
        unused=tuple(each for each in view.unused if each in names),
    )


def _pairs(
    resources: ResourceFacts | Missing, device: str | None = None
) -> Iterator[tuple[DeviceResources, QueuePair]]:
    for each in () if isinstance(resources, Missing) else resources.devices:
        if device in (None, each.name):
            for pair in present(each.queue_pairs):
                yield each, pair


def _word(value: object) -> str:
    return "?" if isinstance(value, Missing) else str(value)


def _unseen(
    facts: JobFacts, resources: ResourceFacts | Missing, evidence: Evidence
) -> Missing | None:
    """Why a job that shows no queue pair may have some."""
    if isinstance(resources, Missing):
        if resources.why is Why.ABSENT and foreign(facts) is None:
            return None  # the host has no RDMA device at all
        return resources
    for device in resources.devices:
        if isinstance(device.queue_pairs, Missing):
            reason = device.queue_pairs
            return Missing(reason.why, f"queue pairs of {device.name}: {reason.detail}")
    if _hidden(resources):
        return Missing(
            Why.DENIED, "objects are there whose process is not seen from this PID namespace"
        )
    nldev = evidence.nldev
    mode = nldev if isinstance(nldev, Missing) else nldev.netns_mode
    if foreign(facts) is not None and mode is not NetnsMode.SHARED:
        return Missing(
            Why.NOT_COLLECTED, "the job is in another network namespace, which may have devices"
        )
    return None


def _hidden(resources: ResourceFacts | Missing) -> int:
    if isinstance(resources, Missing):
        return 0
    rows = sum(
        row.count
        for device in resources.devices
        for kind in device.held.values()
        for row in present(kind)
        if row.owner.pid is None and row.owner.kernel is None
    )
    pairs = (pair.owner for _, pair in _pairs(resources))
    return rows + sum(owner.pid is None and owner.kernel is None for owner in pairs)


def _opened(facts: JobFacts, resources: ResourceFacts | Missing) -> tuple[str, ...] | Missing:
    """By what RDMA netlink counts as theirs, and by open descriptors."""
    found = {
        device.name
        for device in (() if isinstance(resources, Missing) else resources.devices)
        for kind in device.held.values()
        for row in present(kind)
        if row.owner.pid in pids(facts)
    }
    found |= {
        node
        for each in facts.processes
        for node in present(each.nodes)
        if node.startswith("uverbs")
    }
    refused = next(
        (each.nodes for each in facts.processes if isinstance(each.nodes, Missing)), None
    )
    if not found and refused is not None and isinstance(resources, Missing):
        return refused
    return tuple(sorted(found))


# --- bytes by RDMA ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moved:
    seconds: float | Missing
    ports: Mapping[tuple[str, int], tuple[PortTraffic, int | Missing]]


def _moved(before: JobSample | Missing, after: JobSample | Missing | None) -> _Moved | Missing:
    if after is None:
        return before if isinstance(before, Missing) else NOT_YET
    if isinstance(before, Missing):
        return before
    if isinstance(after, Missing):
        return after
    first = {(each.device, each.port): each for each in before.ports}
    ports = {}
    for each in after.ports:
        earlier = first.get((each.device, each.port))
        ports[each.device, each.port] = (each, _rise(earlier, each))
    return _Moved(_seconds(before, after), ports)


def _seconds(before: JobSample, after: JobSample) -> float | Missing:
    if isinstance(before.seconds, Missing):
        return before.seconds
    return after.seconds if isinstance(after.seconds, Missing) else after.seconds - before.seconds


_RESET: Final = Missing(Why.MALFORMED, "the counter fell in the interval: it was reset, or wrapped")


def _rise(before: PortTraffic | None, after: PortTraffic) -> int | Missing:
    """Bytes, or packets."""
    if before is None or before.source != after.source:
        return Missing(Why.NOT_COLLECTED, "it was read once")
    total = 0
    for first, second in ((before.sent, after.sent), (before.received, after.received)):
        if isinstance(first, Missing):
            return first
        if isinstance(second, Missing):
            return second
        if second < first:
            return _RESET
        total += second - first
    if after.unit is TrafficUnit.BYTES:
        return total
    size = after.packet_bytes
    return size if isinstance(size, Missing) else total * (size or 0)


def _port(
    place: tuple[str, int],
    own: Sequence[tuple[DeviceResources, QueuePair]],
    resources: ResourceFacts | Missing,
    moved: _Moved | Missing,
    view: PortView | None,
    rules: Sequence[Chosen],
    environment: Mapping[str, str] | Missing,
) -> JobPort:
    device, number = place
    mine = [pair for of, pair in own if (of.name, pair.port) == place]
    groups = Counter((_word(pair.type), _word(pair.state)) for pair in mine)
    others = _others(place, [pair for of, pair in own if of.name == device], resources)
    traffic, rise = _traffic(place, moved)
    alone = others == 0
    estimated = traffic is not None and traffic.unit is TrafficUnit.PACKETS
    return JobPort(
        device=device,
        port=number,
        state=_NO_VIEW if view is None else _state(view.state),
        queue_pairs=tuple(
            JobQueuePairs(kind, state, count) for (kind, state), count in sorted(groups.items())
        ),
        others=others,
        bytes=rise,
        bound=Bound.AT_MOST if not alone else Bound.ESTIMATE if estimated else Bound.COUNTED,
        counter=traffic.source if traffic else "",
        route_gid_index=view.route.index if view and isinstance(view.route, Route) else None,
        route_gid=str(view.route.gid) if view and isinstance(view.route, Route) else None,
        picks=tuple(gid_picks(view, rules, environment)) if view else (),
    )


_NO_VIEW: Final = Missing(Why.ABSENT, "no witness shows the port")


def _state(state: PortState | Missing) -> str | Missing:
    return state if isinstance(state, Missing) else str(state)


def _others(
    place: tuple[str, int], own: Sequence[QueuePair], resources: ResourceFacts | Missing
) -> int | Missing:
    """Queue pairs of anybody else that may be on the port, but those that manage it."""
    if isinstance(resources, Missing):
        return resources
    if resources.initial_pidns is not True:
        return Missing(Why.DENIED, "from this PID namespace others' queue pairs are not seen")
    device, number = place
    mine = {pair.number for pair in own}
    return sum(
        pair.number not in mine
        and pair.type not in OF_THE_KERNEL
        and (isinstance(pair.port, Missing) or pair.port in (0, number))
        for _, pair in _pairs(resources, device)
    )


def _traffic(
    place: tuple[str, int], moved: _Moved | Missing
) -> tuple[PortTraffic | None, int | Missing]:
    if isinstance(moved, Missing):
        return None, moved
    return moved.ports.get(place, (None, Missing(Why.NOT_COLLECTED, "its counters were not read")))


def _rdma(
    ports: Sequence[JobPort],
    count: int | Missing,
    opened: tuple[str, ...] | Missing,
    own: Sequence[tuple[DeviceResources, QueuePair]],
) -> tuple[int | Missing, Bound]:
    if isinstance(count, Missing):
        return count, Bound.AT_MOST
    if not count:
        if isinstance(opened, Missing):
            return opened, Bound.AT_MOST
        if opened:
            return _UNTRACKED, Bound.AT_MOST
        return 0, Bound.COUNTED
    if not ports:
        if all(pair.state in (QpState.RESET, QpState.INIT) for _, pair in own):
            return 0, Bound.COUNTED  # none has a port yet
        return Missing(Why.ABSENT, "its queue pairs show no port"), Bound.AT_MOST
    total = 0
    for port in ports:
        if isinstance(port.bytes, Missing):
            return port.bytes, Bound.AT_MOST
        total += port.bytes
    bounds = {port.bound for port in ports}
    worst = (Bound.AT_MOST, Bound.ESTIMATE, Bound.COUNTED)
    return total, next(each for each in worst if each in bounds)


_UNTRACKED: Final = Missing(
    Why.UNSUPPORTED,
    "it has a device open, and RDMA netlink lists no queue pair: those that a program makes by "
    "DevX are not listed",
)


def _began(before: JobSample | Missing) -> float | Missing:
    return before if isinstance(before, Missing) else before.seconds


def _transport(
    began: float | Missing,
    seconds: float | Missing,
    rdma: int | Missing,
    bound: Bound,
    tcp: int | Missing,
) -> Transport:
    share: float | Missing
    if isinstance(rdma, Missing):
        share = rdma
    elif isinstance(tcp, Missing):
        share = tcp
    elif not rdma + tcp:
        share = Missing(Why.ABSENT, "nothing moved")
    else:
        share = rdma / (rdma + tcp)
    shared = Missing(Why.UNSUPPORTED, "others use its ports too, or cannot be seen")
    claimed = bound is not Bound.AT_MOST or isinstance(share, Missing)
    return Transport(began, seconds, rdma, bound, tcp, share if claimed else shared, share)
