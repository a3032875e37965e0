"""Why a connection by the connection manager ended, by its step, event and status; pure.

What an event and its status mean stands in rdmadiag.explain.connection.
"""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.calls import causes as of_errno
from rdmadiag.explain.causes import Known, Labels, all_stated, remedy
from rdmadiag.explain.connection import ended
from rdmadiag.explain.remedies import LOG, PREFLIGHT, Lines
from rdmadiag.facts.attempt import Attempt, Outcome, Stage
from rdmadiag.facts.cm import CmEvent

_LOST: Final = ("cm-datagrams-lost", "peer-host-down", "deadline-short")

_NO_EVENT: Final[dict[Stage, Labels]] = {
    Stage.RESOLVE_ADDRESS: ("peer-unreachable",),
    Stage.RESOLVE_ROUTE: ("no-path", "no-subnet-manager"),
    Stage.ESTABLISH: _LOST,
    Stage.JOIN: ("no-subnet-manager", "multicast-refused"),
    Stage.DISCONNECT: ("peer-gone", "cm-datagrams-lost"),
}
_ENDED_EARLY: Final = ("peer-gone",)
"""DISCONNECTED is no failure by itself; before the data was verified it is one."""


def causes(attempt: Attempt) -> tuple[Known, ...]:
    """Of an attempt that ended as `cm_event` or `no_event`."""
    found = attempt.connection
    if attempt.outcome is Outcome.NO_EVENT or found is None or found.event is None:
        return all_stated(_NO_EVENT.get(attempt.stage, _LOST), attempt.outcome)
    if found.event is CmEvent.DISCONNECTED:
        return all_stated(_ENDED_EARLY, attempt.outcome)
    by_event = ended(found.event, found.status).causes
    by_step = of_errno(attempt.errno, attempt.stage, attempt.platform) if attempt.errno else ()
    return by_step or by_event


def hanging(attempt: Attempt) -> tuple[Known, ...]:
    """Of a call that never returned: on iWARP the kernel's TCP connects within rdma_connect."""
    labels = _LOST[:2] if attempt.call == "rdma_connect" else ()
    return all_stated(labels, attempt.outcome)


def after(attempt: Attempt) -> Lines:
    """Templates of what to look at."""
    lines = [line for each in causes(attempt) for line in remedy(each.label, attempt.platform)]
    return (*lines, *LOG.get(attempt.platform, ()), PREFLIGHT)


def all_known() -> Iterable[tuple[Known, Outcome]]:
    """Every sentence of this file's own."""
    for labels in _NO_EVENT.values():
        for each in all_stated(labels, Outcome.NO_EVENT):
            yield each, Outcome.NO_EVENT
    for each in all_stated(_ENDED_EARLY, Outcome.CM_EVENT):
        yield each, Outcome.CM_EVENT
