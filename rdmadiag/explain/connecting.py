"""Why a connection by the connection manager ended, by its step, event and status; pure."""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.calls import causes as of_errno
from rdmadiag.explain.causes import Known, Labels, all_stated, remedy
from rdmadiag.explain.remedies import LOG, PREFLIGHT, Lines
from rdmadiag.facts.attempt import Attempt, Outcome, Stage
from rdmadiag.facts.cm import CmEvent, RejectReason

_LOST: Final = ("cm-datagrams-lost", "peer-host-down", "deadline-short")

_NO_EVENT: Final[dict[Stage, Labels]] = {
    Stage.RESOLVE_ADDRESS: ("peer-unreachable",),
    Stage.RESOLVE_ROUTE: ("path-record-missing",),
    Stage.ESTABLISH: _LOST,
    Stage.DISCONNECT: ("peer-gone", "cm-datagrams-lost"),
}
_REJECTED: Final[dict[RejectReason, Labels]] = {
    RejectReason.INVALID_SERVICE_ID: ("peer-not-listening",),
    RejectReason.CONSUMER_DEFINED: ("peer-refused",),
    RejectReason.STALE_CONN: ("stale-connection",),
    RejectReason.TIMEOUT: _LOST,
}
_EVENTS: Final[dict[CmEvent, Labels]] = {
    CmEvent.ADDR_ERROR: ("peer-unreachable", "no-rdma-at-address"),
    CmEvent.ROUTE_ERROR: ("path-record-missing",),
    CmEvent.CONNECT_ERROR: ("peer-gone",),
    CmEvent.UNREACHABLE: _LOST,
    CmEvent.REJECTED: ("peer-refused",),
    CmEvent.DISCONNECTED: ("peer-gone",),
    CmEvent.DEVICE_REMOVAL: ("device-removed",),
    CmEvent.MULTICAST_ERROR: ("path-record-missing",),
}
"""Where the status says nothing more."""


def _labels(attempt: Attempt) -> Labels:
    found = attempt.connection
    if attempt.outcome is Outcome.NO_EVENT or found is None or found.event is None:
        return _NO_EVENT.get(attempt.stage, _LOST)
    if found.event is CmEvent.REJECTED and found.reject_reason:
        return _REJECTED.get(found.reject_reason, _EVENTS[CmEvent.REJECTED])
    return _EVENTS.get(found.event, ())


def causes(attempt: Attempt) -> tuple[Known, ...]:
    """Of an attempt that ended as `cm_event` or `no_event`."""
    traced = of_errno(attempt.errno, attempt.stage, attempt.platform) if attempt.errno else ()
    gone = attempt.connection is not None and attempt.connection.event is CmEvent.DEVICE_REMOVAL
    return traced if traced and not gone else all_stated(_labels(attempt), attempt.outcome)


def after(attempt: Attempt) -> Lines:
    """Templates of what to look at."""
    lines = [line for each in causes(attempt) for line in remedy(each.label, attempt.platform)]
    return (*lines, *LOG.get(attempt.platform, ()), PREFLIGHT)


def all_known() -> Iterable[tuple[Known, Outcome]]:
    """Every sentence of this file."""
    for outcome, tables in (
        (Outcome.NO_EVENT, (_NO_EVENT,)),
        (Outcome.CM_EVENT, (_REJECTED, _EVENTS)),
    ):
        for table in tables:
            for labels in table.values():
                for each in all_stated(labels, outcome):
                    yield each, outcome
