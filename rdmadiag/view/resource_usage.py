"""Objects in use beside the device's limits, and who holds them: one table, whatever the system."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why, present
from rdmadiag.facts.cm import CmState
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.facts.macos import RdmaInterface
from rdmadiag.facts.resources import KINDS, CmId, DeviceResources, Owner, QueuePair, ResourceFacts
from rdmadiag.facts.verbs import DeviceLimits
from rdmadiag.frozen import dataclass
from rdmadiag.view.mac_resources import in_use
from rdmadiag.view.reconcile import DeviceView

_LIMITS: Final = {"pd": "max_pd", "cq": "max_cq", "qp": "max_qp", "srq": "max_srq", "mr": "max_mr"}
"""The field of ibv_query_device for each kind; contexts and CM ids have none."""


class HolderKind(StrEnum):
    """Who holds objects."""

    PROCESS = "process"
    KERNEL = "kernel"
    HIDDEN = "hidden"  # a process that may not be seen here, or has ended


@dataclass(frozen=True, slots=True)
class Use:
    """One kind of object on one device."""

    kind: str  # of KINDS
    current: int
    maximum: int | Missing
    limit_from: str  # "nldev", "verbs", "" where there is none

    @property
    def has_limit(self) -> bool:
        """Whether devices limit this kind at all."""
        return self.kind in _LIMITS

    @property
    def share(self) -> float:
        """Of the limit; 0 where that is not known."""
        return 0.0 if isinstance(self.maximum, Missing) or not self.maximum else self._share

    @property
    def _share(self) -> float:
        assert not isinstance(self.maximum, Missing)
        return self.current / self.maximum


@dataclass(frozen=True, slots=True)
class Holder:
    """One process or kernel module, and what it has on one device."""

    kind: HolderKind
    pid: int | None
    command: str | Missing  # the process's name, or the kernel module's
    held: dict[str, int]  # by kind
    memory_bytes: int | None  # of its memory regions


@dataclass(frozen=True, slots=True)
class QueuePairs(WithNumbers):
    """Queue pairs of one type in one state that one holder has."""

    type: KernelQpType | Missing
    state: QpState | Missing
    count: int
    holder: HolderKind
    pid: int | None
    command: str | Missing
    numbers: tuple[int, ...]  # the first of them


@dataclass(frozen=True, slots=True)
class CmIds(WithNumbers):
    """Ids of the connection manager in one state that one holder has."""

    state: CmState | Missing
    count: int
    holder: HolderKind
    pid: int | None
    command: str | Missing


@dataclass(frozen=True, slots=True)
class Usage:
    """One device."""

    device: str
    uses: tuple[Use, ...] | Missing
    holders: tuple[Holder, ...] | Missing  # the one with the most queue pairs first
    queue_pairs: tuple[QueuePairs, ...] | Missing
    unread: dict[str, Missing] = field(default_factory=dict)  # kinds whose owners are not known
    cm_ids: tuple[CmIds, ...] | Missing = NOT_IN_RECORD


_NUMBERS_SHOWN: Final = 8
_NO_COUNT: Final = Missing(Why.ABSENT, "neither RDMA netlink nor the registry counts it")
_NO_LIMIT: Final = Missing(Why.ABSENT, "no limit is known")
_NOT_IN_VERBS: Final = Missing(Why.ABSENT, "verbs does not show the device")
_ON_MAC: Final = Missing(Why.UNSUPPORTED, "the registry names programs, not what each one holds")


def usages(
    devices: Sequence[DeviceView], facts: ResourceFacts | Missing, evidence: Evidence
) -> tuple[Usage, ...]:
    """Every device's; on a Mac what the registry shows."""
    if evidence.is_mac:
        return tuple(_on_mac(device, evidence) for device in devices)
    return tuple(_on_linux(device, facts, evidence) for device in devices)


def _on_linux(device: DeviceView, facts: ResourceFacts | Missing, evidence: Evidence) -> Usage:
    limits = _limits(device, evidence)
    found = facts if isinstance(facts, Missing) else facts.device(device.name)
    if isinstance(found, DeviceResources):
        assert isinstance(facts, ResourceFacts)
        return Usage(
            device=device.name,
            uses=_uses(device, found, limits),
            holders=_holders(found, facts),
            queue_pairs=found.queue_pairs
            if isinstance(found.queue_pairs, Missing)
            else tuple(_queue_pairs(found.queue_pairs, facts)),
            cm_ids=found.cm_ids
            if isinstance(found.cm_ids, Missing)
            else tuple(_cm_ids(found.cm_ids, facts)),
            unread={
                kind: rows
                for kind, rows in {"qp": found.queue_pairs, **found.held}.items()
                if isinstance(rows, Missing)
            },
        )
    reason = found or Missing(Why.ABSENT, "RDMA netlink does not show the device")
    uses = _uses(device, None, limits) if device.nldev else reason
    return Usage(device.name, uses, reason, reason)


def _limits(device: DeviceView, evidence: Evidence) -> DeviceLimits | Missing:
    if device.verbs:
        return device.verbs.limits
    return evidence.verbs if isinstance(evidence.verbs, Missing) else _NOT_IN_VERBS


def _uses(
    device: DeviceView, found: DeviceResources | None, limits: DeviceLimits | Missing
) -> tuple[Use, ...] | Missing:
    counts = found.counts if found else device.nldev.resources if device.nldev else _NO_COUNT
    if isinstance(counts, Missing):
        return counts
    uses = []
    for kind in (*KINDS, *sorted(set(counts) - set(KINDS))):
        if kind not in counts:
            continue
        maximum, source = counts[kind].maximum, "nldev"
        if isinstance(maximum, Missing) and kind in _LIMITS:
            source = "verbs"
            if isinstance(limits, Missing):
                maximum = limits
            else:
                maximum = getattr(limits, _LIMITS[kind]) or _NO_LIMIT
        known = not isinstance(maximum, Missing)
        uses.append(Use(kind, counts[kind].current, maximum, source if known else ""))
    return tuple(uses)


def _holders(found: DeviceResources, facts: ResourceFacts) -> tuple[Holder, ...] | Missing:
    held: dict[Owner, dict[str, int]] = {}
    memory: dict[Owner, int] = {}
    for pair in present(found.queue_pairs):
        counts = held.setdefault(pair.owner, {})
        counts["qp"] = counts.get("qp", 0) + 1
    for kind, rows in found.held.items():
        for row in present(rows):
            held.setdefault(row.owner, {})[kind] = row.count
            if row.bytes is not None:
                memory[row.owner] = row.bytes
    if not held and isinstance(found.queue_pairs, Missing):
        return found.queue_pairs
    holders = (
        Holder(*_named(owner, facts), dict(sorted(counts.items(), key=_order)), memory.get(owner))
        for owner, counts in held.items()
    )
    return tuple(
        sorted(
            holders,
            key=lambda each: (
                each.kind is HolderKind.KERNEL,
                -each.held.get("qp", 0),
                -sum(each.held.values()),
                each.pid or 0,
            ),
        )
    )


def _order(row: tuple[str, int]) -> int:
    return KINDS.index(row[0]) if row[0] in KINDS else len(KINDS)


def _named(owner: Owner, facts: ResourceFacts) -> tuple[HolderKind, int | None, str | Missing]:
    if owner.kernel is not None:
        return HolderKind.KERNEL, None, owner.kernel
    if owner.pid is None:
        return HolderKind.HIDDEN, None, Missing(Why.ABSENT, "no process of this PID namespace")
    return HolderKind.PROCESS, owner.pid, facts.commands.get(owner.pid, Missing(Why.ABSENT))


def _queue_pairs(pairs: Sequence[QueuePair], facts: ResourceFacts) -> Iterator[QueuePairs]:
    groups: dict[tuple[Owner, object, object], list[QueuePair]] = {}
    for pair in pairs:
        groups.setdefault((pair.owner, pair.type, pair.state), []).append(pair)
    for (owner, _, _), rows in sorted(groups.items(), key=lambda each: -len(each[1])):
        kind, pid, command = _named(owner, facts)
        numbers = tuple(row.number for row in rows[:_NUMBERS_SHOWN])
        yield QueuePairs(rows[0].type, rows[0].state, len(rows), kind, pid, command, numbers)


def _cm_ids(ids: Sequence[CmId], facts: ResourceFacts) -> Iterator[CmIds]:
    groups = Counter((each.owner, each.state) for each in ids)
    for (owner, state), count in groups.most_common():
        yield CmIds(state, count, *_named(owner, facts))


def local_ports(facts: ResourceFacts) -> tuple[int, int] | Missing:
    """How many ports rdma_cm has given to ids, and of how many: those of all devices are one."""
    if isinstance(facts.local_ports, Missing):
        return facts.local_ports
    first, last = facts.local_ports
    given = {
        each.local_port
        for device in facts.devices
        for each in present(device.cm_ids)
        if isinstance(each.local_port, int) and first <= each.local_port <= last
    }
    return len(given), last - first + 1


# --- macOS ---------------------------------------------------------------------------------


def _on_mac(device: DeviceView, evidence: Evidence) -> Usage:
    registry = evidence.ioreg
    found = None if isinstance(registry, Missing) else registry.interface(device.name)
    if found is None:
        reason = registry if isinstance(registry, Missing) else _NO_COUNT
        return Usage(device.name, reason, reason, _ON_MAC)
    return Usage(device.name, _uses_on_mac(device, found, evidence), _clients(found), _ON_MAC)


def _uses_on_mac(
    device: DeviceView, found: RdmaInterface, evidence: Evidence
) -> tuple[Use, ...] | Missing:
    limited = in_use(device, evidence)
    if not isinstance(limited, Missing):
        return tuple(Use(each.kind, each.count, each.usable, "verbs") for each in limited)
    counted = {"pd": found.protection_domains, "qp": found.queue_pairs}
    known = [
        Use(kind, count, _limit(device, kind), "")
        for kind, count in counted.items()
        if not isinstance(count, Missing)
    ]
    return tuple(known) or limited


def _limit(device: DeviceView, kind: str) -> Missing:
    limits: DeviceLimits | Missing = device.verbs.limits if device.verbs else _NO_LIMIT
    return limits if isinstance(limits, Missing) else _NO_LIMIT


def _clients(found: RdmaInterface) -> tuple[Holder, ...]:
    return tuple(
        Holder(HolderKind.PROCESS, each.pid, each.command, {}, None) for each in found.holders
    )
