"""Limits that are near, queue pairs that hang, and owners that cannot be seen."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.cm import CmState
from rdmadiag.facts.evidence import LINUX_ONLY
from rdmadiag.facts.ib import OF_THE_KERNEL, KernelQpType, QpState
from rdmadiag.facts.resources import ResourceFacts
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules.rule import RECORD_ANEW, Rule, rule
from rdmadiag.preflight.thresholds import DEFAULT, Thresholds
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.resource_usage import HolderKind, QueuePairs, Usage, local_ports

_NLDEV: Final = "https://github.com/iproute2/iproute2/blob/main/man/man8/rdma-resource.8"
_WORD: Final = {
    "ctx": "contexts",
    "pd": "protection domains",
    "cq": "completion queues",
    "qp": "queue pairs",
    "srq": "shared receive queues",
    "mr": "memory regions",
    "cm_id": "CM ids",
}
_END: Final = (
    "ps -o pid,etime,args -p {pid}",
    "kill {pid}   # if it should not be there any more",
)
_FIND: Final = ("rdma resource show", "# end or restart what holds them")
_LIST: Final = "rdma resource show qp link {device} state {state}"
_PILE: Final = {"where the holder is known": (_LIST, *_END), "elsewhere": (_LIST, *_FIND)}


@dataclass(frozen=True, slots=True)
class ResourceCase:
    """What there is to judge."""

    usages: tuple[Usage, ...]
    facts: ResourceFacts | Missing
    thresholds: Thresholds = DEFAULT


@rule(
    "no-resources",
    Severity.UNKNOWN,
    "There is no device to look at",
    "No RDMA device was found, or what its programs hold could not be read.",
    (_NLDEV,),
    remedy={
        "where there is no device": ("rdmadiag devices   # at which step it is lost",),
        "where a record leaves them out": (RECORD_ANEW,),
        "where RDMA netlink does not say": (
            "rdma resource show",
            "rdmadiag preflight   # why it is not",
        ),
        "where it does not name their owners": ("rdma resource show",),
    },
)
def no_resources(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """A device whose counts alone are known is named too: who holds them is not."""
    if not case.usages:
        yield _nothing(this, case.facts)
    for usage in case.usages:
        for what, found in (("what is in use", usage.uses), ("who holds it", usage.holders)):
            if isinstance(found, Missing):
                recorded = found.why is Why.NOT_COLLECTED
                yield this.finding(
                    f"{usage.device}: {what} is not "
                    + ("in this record" if recorded else f"known: {found}"),
                    device=usage.device,
                    evidence=[Proof("nldev", f"RDMA_NLDEV_CMD_RES_GET {usage.device}", str(found))],
                    when="where a record leaves them out"
                    if recorded
                    else "where RDMA netlink does not say",
                )
        kinds = [kind for kind, why in usage.unread.items() if why.why is not Why.UNSUPPORTED]
        if kinds and not isinstance(usage.holders, Missing):
            yield this.finding(
                f"{usage.device}: owners of {', '.join(_WORD.get(k, k) for k in kinds)} are not "
                f"known: {usage.unread[kinds[0]]}",
                device=usage.device,
                evidence=[
                    Proof("nldev", f"RES_{k.upper()}_GET", str(usage.unread[k])) for k in kinds
                ],
                when="where it does not name their owners",
            )


def _nothing(this: Rule, facts: ResourceFacts | Missing) -> Finding:
    """Without any device: there is none, or what could not look says why."""
    if isinstance(facts, Missing) and facts.why is not Why.ABSENT and facts != LINUX_ONLY:
        recorded = facts.why is Why.NOT_COLLECTED
        return this.finding(
            f"nothing is known: {facts}",
            evidence=[Proof("nldev", "RDMA_NLDEV_CMD_GET", str(facts))],
            when="where a record leaves them out"
            if recorded
            else "where RDMA netlink does not say",
        )
    summary, proofs = "no RDMA device", [Proof("nldev", "RDMA_NLDEV_CMD_GET", "no device")]
    if facts == LINUX_ONLY:  # on a Mac verbs and the registry have it
        proofs = [Proof("verbs", "ibv_get_device_list", "no device")]
    elif isinstance(facts, Missing):
        summary = f"{summary} ({facts})"
        proofs = [Proof("sysfs", "/sys/class/infiniband", str(facts))]
    return this.finding(summary, evidence=proofs, when="where there is no device")


@rule(
    "limit-reached",
    Severity.CRITICAL,
    "A device's limit is reached, or near",
    "As many objects of a kind exist as the device allows (critical), or limit_share of them "
    "(warn): the next program's ibv_create_qp, ibv_reg_mr or ibv_open_device fails with ENOMEM "
    "or EBUSY. Limits are those of RDMA netlink where it gives them, else of ibv_query_device; "
    "firmware may refuse earlier.",
    (_NLDEV, "https://github.com/openucx/ucx/issues/6049"),
    remedy={"where the holder is known": _END, "elsewhere": _FIND},
)
def limit_reached(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """With the largest holder in the summary."""
    for usage in case.usages:
        for use in present(usage.uses):
            if use.share < case.thresholds.limit_share or isinstance(use.maximum, Missing):
                continue
            most = max(
                present(usage.holders), key=lambda each: each.held.get(use.kind, 0), default=None
            )
            if most and not most.held.get(use.kind):
                most = None  # whose they are is not known
            who = f", most by {_name(most.pid, most.command)}" if most else ""
            yield this.finding(
                f"{usage.device}: {use.current} of {use.maximum} {_WORD.get(use.kind, use.kind)} "
                f"are in use{who}",
                device=usage.device,
                severity=Severity.CRITICAL if use.share >= 1 else Severity.WARN,
                evidence=[
                    Proof(
                        use.limit_from or "nldev",
                        f"{usage.device}: {use.kind}",
                        f"{use.current} of {use.maximum}",
                    )
                ],
                when="where the holder is known" if most and most.pid is not None else "elsewhere",
                fill={"pid": most.pid if most else None},
            )


def _name(pid: int | None, command: str | Missing) -> str:
    name = "a hidden process" if isinstance(command, Missing) else command
    return name if pid is None else f"{name} ({pid})"


@rule(
    "limits-unknown",
    Severity.UNKNOWN,
    "A device's limits are not known",
    "ibv_query_device says how many objects a device allows, and so does newer kernels' RDMA "
    "netlink; neither did. Whether a limit is near is not known.",
    (_NLDEV,),
    remedy=("rdmadiag preflight   # why verbs does not answer",),
)
def limits_unknown(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """One finding a device of which no limit at all is known."""
    for usage in case.usages:
        limited = [use for use in present(usage.uses) if use.has_limit]
        unknown = [use.maximum for use in limited if isinstance(use.maximum, Missing)]
        if limited and len(unknown) == len(limited):
            yield this.finding(
                f"{usage.device}: whether a limit is near is not known: {unknown[0]}",
                device=usage.device,
                evidence=[Proof("verbs", f"ibv_query_device {usage.device}", str(unknown[0]))],
            )


@rule(
    "queue-pairs-in-error",
    Severity.WARN,
    "Queue pairs in the error state",
    "A program keeps queue pairs that have failed (state ERR): their connections are broken, "
    "and it has neither closed nor mended them. It may be hung, or wait for a peer that is gone. "
    "From error_queue_pairs of one holder on.",
    (_NLDEV,),
    remedy=_PILE,
)
def queue_pairs_in_error(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """From so many on that they are not being closed just now."""
    yield from _piles(
        this, case, (QpState.ERR, QpState.SQE), case.thresholds.error_queue_pairs, "in ERR"
    )


@rule(
    "queue-pairs-stay-in-rtr",
    Severity.WARN,
    "Many queue pairs that only receive",
    "A program has many connected queue pairs in RTR that have not gone on to RTS: a connection "
    "set-up that stopped half-way, as when peers are gone, or a program that receives alone. "
    "From rtr_queue_pairs of one holder on; a second look shows whether they move.",
    (_NLDEV,),
    remedy=_PILE,
)
def queue_pairs_stay_in_rtr(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """RC and UC alone: others are not connected."""
    yield from _piles(
        this, case, (QpState.RTR,), case.thresholds.rtr_queue_pairs, "in RTR, not in RTS"
    )


def _piles(
    this: Rule, case: ResourceCase, states: tuple[QpState, ...], least: float, where: str
) -> Iterator[Finding]:
    for usage in case.usages:
        holders: dict[tuple[HolderKind, int | None, str | Missing], list[QueuePairs]] = {}
        for row in present(usage.queue_pairs):
            if row.state in states and _is_connected(row, states):
                holders.setdefault((row.holder, row.pid, row.command), []).append(row)
        for (_, pid, command), rows in holders.items():
            count = sum(row.count for row in rows)
            if count < least:
                continue
            yield this.finding(
                f"{usage.device}: {_name(pid, command)} has {count} queue pairs {where}",
                device=usage.device,
                evidence=[
                    Proof(
                        "nldev",
                        f"{usage.device}: {row.type} {row.state}",
                        f"{row.count}, of them QPN {', '.join(map(str, row.numbers))}",
                    )
                    for row in rows
                ],
                when="where the holder is known" if pid is not None else "elsewhere",
                fill={"pid": pid, "state": rows[0].state},
            )


def _is_connected(row: QueuePairs, states: tuple[QpState, ...]) -> bool:
    if row.type in OF_THE_KERNEL:
        return False
    return QpState.RTR not in states or row.type in (KernelQpType.RC, KernelQpType.UC)


@rule(
    "holders-hidden",
    Severity.INFO,
    "Some holders cannot be named",
    "Objects belong to processes that have ended, whose names may not be read, or that live in "
    "another PID namespace. Seen from within a container's PID namespace, the kernel neither "
    "counts nor shows the objects of others: a limit may be nearer than it looks.",
    (_NLDEV,),
    remedy={
        "": ("sudo rdmadiag resources   # from the host's own PID namespace",),
        "in another PID namespace": (
            "# look from the host's own PID namespace: rdmadiag resources",
        ),
    },
)
def holders_hidden(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """Once for a namespace, and for each device with hidden holders."""
    if not isinstance(case.facts, Missing) and case.facts.initial_pidns is False:
        yield this.finding(
            "this is not the host's PID namespace: objects of others are not counted here",
            evidence=[Proof("process", "/proc/self/ns/pid", "not the initial one")],
            when="in another PID namespace",
        )
    for usage in case.usages:
        hidden = [
            each
            for each in present(usage.holders)
            if each.kind is HolderKind.HIDDEN
            or (each.kind is HolderKind.PROCESS and isinstance(each.command, Missing))
        ]
        if hidden:
            count = sum(sum(each.held.values()) for each in hidden)
            yield this.finding(
                f"{usage.device}: {count} objects belong to processes that cannot be named",
                device=usage.device,
                evidence=[Proof("nldev", "RDMA_NLDEV_ATTR_RES_PID", "absent")],
            )


@rule(
    "cm-ports-near-limit",
    Severity.WARN,
    "The ports of the connection manager are used up, or nearly",
    "Each id that is bound without a port of its own gets one of ip_local_port_range, and keeps "
    "it until it is destroyed. limit_share of them are given (warn), or all (critical): "
    "rdma_resolve_addr, rdma_bind_addr and rdma_connect then fail with EADDRNOTAVAIL.",
    ("https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/core/cma.c",),
    remedy=(
        "rdma resource show cm_id",
        "# end what does not destroy its ids",
        "sudo sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
    ),
)
def cm_ports_near_limit(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """One finding for the network namespace."""
    found = case.facts if isinstance(case.facts, Missing) else local_ports(case.facts)
    if isinstance(found, Missing):
        return
    given, every = found
    if given and given >= every * case.thresholds.limit_share:
        yield this.finding(
            f"{given} of {every} local ports are given to ids of rdma_cm",
            severity=Severity.CRITICAL if given >= every else None,
            evidence=[
                Proof("nldev", "RDMA_NLDEV_ATTR_RES_SRC_ADDR", f"{given} ports"),
                Proof("process", "/proc/sys/net/ipv4/ip_local_port_range", f"{every} ports"),
            ],
        )


@rule(
    "connections-not-destroyed",
    Severity.WARN,
    "Ids of connections that have ended",
    "A holder has ended_connections or more CM ids whose connection was disconnected: it does not "
    "destroy them. Each keeps its queue pair and its port, and on InfiniBand and RoCE its numbers "
    "go through timewait only after that: a new connection of such a queue pair number is "
    "rejected with 10, stale connection.",
    ("https://github.com/linux-rdma/rdma-core/blob/master/librdmacm/man/rdma_destroy_id.3",),
    remedy={"where the holder is known": _END, "elsewhere": _FIND},
)
def connections_not_destroyed(this: Rule, case: ResourceCase) -> Iterator[Finding]:
    """Per holder."""
    for usage in case.usages:
        for row in present(usage.cm_ids):
            ended = row.state is CmState.DISCONNECT
            if not ended or row.count < case.thresholds.ended_connections:
                continue
            yield this.finding(
                f"{usage.device}: {_name(row.pid, row.command)} has {row.count} CM ids of "
                "connections that have ended",
                device=usage.device,
                evidence=[Proof("nldev", "RDMA_NLDEV_ATTR_RES_STATE", f"6: {row.state}")],
                when="where the holder is known" if row.pid else "elsewhere",
                fill={"pid": row.pid} if row.pid else {},
            )


RULES: Final[tuple[Rule, ...]] = (
    no_resources,
    limit_reached,
    limits_unknown,
    queue_pairs_in_error,
    queue_pairs_stay_in_rtr,
    cm_ports_near_limit,
    connections_not_destroyed,
    holders_hidden,
)
"""Lowest cause first."""
