"""What the connection manager's events and statuses mean, one row each; who saw them is elsewhere.

Shared by `explain NAME`, `explain --log` and the outcome of an attempt.

>>> print(said(CmEvent.REJECTED, 8))
RDMA_CM_EVENT_REJECTED, 8 invalid_service_id: nobody listens at this port
>>> ended(CmEvent.DISCONNECTED, 0).failure
False
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain.calls import known
from rdmadiag.explain.causes import Known, Labels, all_stated
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent, IwarpStatus, RejectReason, SidrStatus
from rdmadiag.facts.errnos import errno_text
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event; of a failure the causes, the likeliest first."""

    event: CmEvent
    meaning: str
    failure: bool = False
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A status that is no errno: of REJECTED, or of UNREACHABLE where the id is a UD's."""

    status: RejectReason | SidrStatus
    meaning: str
    labels: Labels


EVENTS: Final = (
    EventRow(CmEvent.ADDR_RESOLVED, "The peer's address is resolved. No failure."),
    EventRow(
        CmEvent.ADDR_ERROR,
        "The peer's address could not be resolved to a device and a peer.",
        True,
        ("no-rdma-at-address", "peer-unreachable"),
    ),
    EventRow(CmEvent.ROUTE_RESOLVED, "The route to the peer is known. No failure."),
    EventRow(
        CmEvent.ROUTE_ERROR,
        "No route to the peer; on InfiniBand the subnet manager says so.",
        True,
        # RoCE resolves no route: on InfiniBand the subnet manager knew of none, or was silent.
        ("no-path", "no-subnet-manager", "no-route"),
    ),
    EventRow(CmEvent.CONNECT_REQUEST, "A peer wants to connect. No failure."),
    EventRow(CmEvent.CONNECT_RESPONSE, "The peer accepts. No failure."),
    EventRow(
        CmEvent.CONNECT_ERROR,
        "The connection failed while it was made.",
        True,
        ("peer-not-listening", "peer-gone"),
    ),
    EventRow(
        CmEvent.UNREACHABLE,
        "The peer does not answer, or cannot be reached. For a UD id the status is one of service "
        "id resolution and no errno: 1 nobody listens, 2 the peer's program refused.",
        True,
        ("peer-unreachable", "no-path", "peer-not-listening"),
    ),
    EventRow(
        CmEvent.REJECTED,
        "The peer refuses. The status is a reason of the CM and no errno: 8 invalid service id, "
        "nobody listens; 28 the peer's program refused; of iWARP an errno below 0.",
        True,
        ("peer-not-listening", "peer-gone"),
    ),
    EventRow(CmEvent.ESTABLISHED, "The connection is there. No failure."),
    EventRow(CmEvent.DISCONNECTED, "The connection has ended: by itself no failure."),
    EventRow(CmEvent.DEVICE_REMOVAL, "The device is being removed.", True, ("device-removed",)),
    EventRow(CmEvent.MULTICAST_JOIN, "The multicast group is joined. No failure."),
    EventRow(
        CmEvent.MULTICAST_ERROR,
        "The multicast group could not be joined, or was lost.",
        True,
        ("multicast-refused", "no-subnet-manager"),
    ),
    EventRow(
        CmEvent.ADDR_CHANGE,
        "The address moved to another device: a bond failed over.",
        True,
        ("peer-gone",),
    ),
    EventRow(CmEvent.TIMEWAIT_EXIT, "The queue pair's number may be used again. No failure."),
    EventRow(CmEvent.ADDRINFO_RESOLVED, "The service's record is resolved. No failure."),
    EventRow(
        CmEvent.ADDRINFO_ERROR,
        "The subnet manager gave no record of the service.",
        True,
        ("no-subnet-manager", "peer-not-listening"),
    ),
    EventRow(CmEvent.USER, "A program's own event: rdma_write_cm_event. No failure."),
)

_NO_PATH: Final[Labels] = ("no-path",)
_REFUSED: Final[Labels] = ("peer-refused",)
_STALE: Final[Labels] = ("connection-stale",)
_FORGOTTEN: Final[Labels] = ("peer-gone", "connection-stale")
_TOO_FEW: Final[Labels] = ("peer-out-of-resources",)

REASONS: Final = (
    StatusRow(RejectReason.NO_QP, "the peer has no queue pair left", _TOO_FEW),
    StatusRow(RejectReason.NO_EEC, "the peer has no end-to-end context (RD)", _REFUSED),
    StatusRow(RejectReason.NO_RESOURCES, "the peer has no resources for it", _TOO_FEW),
    StatusRow(
        RejectReason.TIMEOUT,
        "messages of the connection manager were lost, or came too late",
        ("peer-unreachable", "no-path"),
    ),
    StatusRow(RejectReason.UNSUPPORTED, "the peer does not support what was asked for", _REFUSED),
    StatusRow(RejectReason.INVALID_COMM_ID, "the peer does not know the connection", _FORGOTTEN),
    StatusRow(
        RejectReason.INVALID_COMM_INSTANCE, "the peer knows another such connection", _FORGOTTEN
    ),
    StatusRow(
        RejectReason.INVALID_SERVICE_ID, "nobody listens at this port", ("peer-not-listening",)
    ),
    StatusRow(
        RejectReason.INVALID_TRANSPORT_TYPE, "the service is not of this transport", _REFUSED
    ),
    StatusRow(
        RejectReason.STALE_CONN,
        "the peer still has a connection of this queue pair's number: it is in timewait",
        _STALE,
    ),
    StatusRow(RejectReason.RDC_NOT_EXIST, "no reliable-datagram channel is there", _REFUSED),
    StatusRow(
        RejectReason.INVALID_GID,
        "the peer does not take the GID that the request names: it is none of its own",
        ("gid-does-not-route", "no-path"),
    ),
    StatusRow(RejectReason.INVALID_LID, "the peer does not take the LID of the path", _NO_PATH),
    StatusRow(RejectReason.INVALID_SL, "the peer does not take the service level", _NO_PATH),
    StatusRow(
        RejectReason.INVALID_TRAFFIC_CLASS, "the peer does not take the traffic class", _NO_PATH
    ),
    StatusRow(RejectReason.INVALID_HOP_LIMIT, "the peer does not take the hop limit", _NO_PATH),
    StatusRow(RejectReason.INVALID_PACKET_RATE, "the peer does not take the packet rate", _NO_PATH),
    *(
        StatusRow(each, f"the peer does not take the alternate path's {what}", _NO_PATH)
        for each, what in (
            (RejectReason.INVALID_ALT_GID, "GID"),
            (RejectReason.INVALID_ALT_LID, "LID"),
            (RejectReason.INVALID_ALT_SL, "service level"),
            (RejectReason.INVALID_ALT_TRAFFIC_CLASS, "traffic class"),
            (RejectReason.INVALID_ALT_HOP_LIMIT, "hop limit"),
            (RejectReason.INVALID_ALT_PACKET_RATE, "packet rate"),
            (RejectReason.INVALID_ALT_FLOW_LABEL, "flow label"),
        )
    ),
    StatusRow(
        RejectReason.PORT_CM_REDIRECT, "the peer's manager is at another port or GID", _REFUSED
    ),
    StatusRow(RejectReason.PORT_REDIRECT, "the peer wants it at another port", _REFUSED),
    StatusRow(RejectReason.INVALID_MTU, "the peer does not take the path MTU", ("mtu-mismatch",)),
    StatusRow(
        RejectReason.INSUFFICIENT_RESP_RESOURCES,
        "more outstanding READs and atomics were asked for than the peer grants",
        _TOO_FEW,
    ),
    # So does the kernel there, where the port is listened at, and not at the address that is
    # wanted, or of the other version of IP (cma_ib_id_from_event; cm_destroy_id sends it).
    StatusRow(
        RejectReason.CONSUMER_DEFINED,
        "the peer's program refused, or it listens at this port by another address",
        ("peer-refused", "peer-address-wrong"),
    ),
    StatusRow(RejectReason.INVALID_RNR_RETRY, "the peer does not take the RNR retries", _REFUSED),
    StatusRow(
        RejectReason.DUPLICATE_LOCAL_COMM_ID, "the peer has such a connection already", _STALE
    ),
    StatusRow(
        RejectReason.INVALID_CLASS_VERSION, "the peer has another version of the manager", _REFUSED
    ),
    StatusRow(RejectReason.INVALID_FLOW_LABEL, "the peer does not take the flow label", _NO_PATH),
    StatusRow(
        RejectReason.VENDOR_OPTION_NOT_SUPPORTED,
        "the peer does not know the vendor's option (enhanced connection establishment)",
        _REFUSED,
    ),
)
"""IBA 12.6.7.2; the sentences go on from "rejected:"."""

SIDR: Final = (
    StatusRow(SidrStatus.UNSUPPORTED, "nobody listens at this port", ("peer-not-listening",)),
    StatusRow(SidrStatus.REJECT, "the peer's program refused", _REFUSED),
    StatusRow(SidrStatus.NO_QP, "the peer's program has no queue pair for it", _REFUSED),
    StatusRow(SidrStatus.REDIRECT, "the peer wants it at another port", _REFUSED),
    StatusRow(
        SidrStatus.UNSUPPORTED_VERSION, "the peer has another version of the manager", _REFUSED
    ),
)

IWARP: Final = {
    # Drivers differ: siw gives ECONNRESET for the peer's refusal, others ECONNREFUSED
    # (siw_proc_mpareply, process_mpa_reply of cxgb4).
    IwarpStatus.CONNECTION_RESET: "the peer's program refused, or its host ended the connection",
    IwarpStatus.CONNECTION_REFUSED: "nobody listens at this port, or the peer's program refused",
    IwarpStatus.TIMED_OUT: "the peer did not answer",
}

_EVENTS: Final = {each.event: each for each in EVENTS}
_STATUSES: Final = {each.status: each for each in (*REASONS, *SIDR)}


@dataclass(frozen=True, slots=True)
class Ending:
    """One event with its status, as an outcome and a log have it."""

    event: CmEvent
    status: int
    failure: bool
    reason: RejectReason | SidrStatus | None  # what the status is, where it is no errno
    errno: int | None  # what it is, where it is one
    causes: tuple[Known, ...]


def reason_of(event: CmEvent, status: int) -> RejectReason | SidrStatus | None:
    """What a status above 0 is; None for 0, an errno, and a number that is not in the table."""
    if event is CmEvent.REJECTED:
        return RejectReason.from_number(status)
    return SidrStatus.from_number(status) if event is CmEvent.UNREACHABLE and status else None


def ended(event: CmEvent, status: int) -> Ending:
    """What an event with this status means."""
    row, reason = _EVENTS[event], reason_of(event, status)
    errno = -status if status < 0 else None
    labels = _STATUSES[reason].labels if reason else row.labels
    causes = all_stated(labels, event, Stage.CONNECT) if row.failure else ()
    if errno and row.failure:
        first = known(Stage.CONNECT, "linux").get(errno, ())
        own = {each.label for each in first}
        causes = (*first, *(each for each in causes if each.label not in own))
    return Ending(event, status, row.failure, reason, errno, causes)


def said(event: CmEvent, status: int) -> str:
    """ "RDMA_CM_EVENT_REJECTED, 8 invalid_service_id: nobody listens at this port"."""
    reason = reason_of(event, status)
    if reason:
        return f"{event.constant}, {reason.number} {reason}: {_STATUSES[reason].meaning}"
    if status < 0:
        iwarp = next((text for each, text in IWARP.items() if each.number == status), None)
        more = f": {iwarp}" if iwarp and event is CmEvent.REJECTED else ""
        return f"{event.constant}, {errno_text(-status, 'linux')}{more}"
    return event.constant if status == 0 else f"{event.constant}, status {status}"


def groups(rows: tuple[StatusRow, ...]) -> Iterator[tuple[Labels, tuple[int, ...]]]:
    """Statuses that have the same causes, together."""
    found: dict[Labels, list[int]] = {}
    for row in rows:
        found.setdefault(row.labels, []).append(row.status.number)
    for labels, numbers in found.items():
        yield labels, tuple(sorted(numbers))
