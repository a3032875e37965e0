"""Why data did not arrive between two hosts whose TCP connection works; pure.

Both ends say how many messages came to them. The end that connects sends first, and each
sends the next only when the other's has come: so the counts show in which direction the
first of them was lost.
"""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.causes import Known, Labels, all_stated, stated
from rdmadiag.explain.remedies import (
    DMESG_OF_RDMA,
    MTU_OF_BOTH,
    PATH,
    PING_OF_MTU,
    PREFLIGHT_ON,
    SWITCHES,
    UDP_OF_ROCE,
    Lines,
)
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Arrived, Attempt, Outcome
from rdmadiag.facts.ib import GidType, PortState, QpType

RETRY_EXCEEDED: Final = 12
"""IBV_WC_RETRY_EXC_ERR: no acknowledgement came either."""

_LINK: Final = ("rdma link show", DMESG_OF_RDMA, PREFLIGHT_ON)
_FRAMES: Final = (PING_OF_MTU, MTU_OF_BOTH)


def is_lost_data(attempt: Attempt) -> bool:
    """Whether what ended it, at either end, is data or an answer that did not come."""
    if attempt.arrived is None:
        return False
    outcome, status, arrived = attempt.outcome, None, attempt.arrived.here
    if outcome is Outcome.PEER_FAILED and (said := attempt.peer_failure):
        if said.outcome is None or said.arrived is None:
            return False
        outcome, status, arrived = said.outcome, said.status, said.arrived
    elif attempt.completion:
        status = attempt.completion.status
    return (
        outcome is Outcome.NO_DATA
        or (outcome is Outcome.COMPLETION_ERROR and status == RETRY_EXCEEDED)
        or (outcome is Outcome.LATE and not arrived)
    )


def causes(attempt: Attempt) -> tuple[Known, ...]:
    """The likeliest first: this host's own port as it is now, then what the counts show."""
    return (*port_causes(attempt), *all_stated(_on_the_way(attempt), *_contexts(attempt)))


def port_causes(attempt: Attempt) -> tuple[Known, ...]:
    """What this host's own port shows after the failure."""
    after = attempt.port_after
    if isinstance(after, Missing) and after.why is Why.ABSENT:
        return (stated("device-removed", _AFTER),)
    if isinstance(after, PortState) and after is not PortState.ACTIVE:
        return (stated("port-went-down"),)
    return ()


def port_remedy(attempt: Attempt) -> Lines:
    """Templates of what to look at, where `port_causes` has something."""
    return _LINK if port_causes(attempt) else ()


def remedy(attempt: Attempt) -> Lines:
    """Templates of what to look at on the way."""
    if _only_small(attempt):
        return (*_FRAMES, *PATH[attempt.platform])
    filters = (
        (UDP_OF_ROCE, SWITCHES) if _is_roce_v2(attempt) and attempt.platform == "linux" else ()
    )
    return (*filters, *PATH[attempt.platform])


def _on_the_way(attempt: Attempt) -> Iterable[str]:
    if _only_small(attempt):
        yield "mtu-too-large"
    elif _is_roce_v2(attempt) and _direction(attempt):
        yield "roce-port-dropped"
    yield from silent(attempt)
    yield from _MAC if attempt.platform == "darwin" else _LINUX


def silent(attempt: Attempt) -> Labels:
    """What a queue pair of this type does not say."""
    if attempt.connection and attempt.connection.group:
        return _OF_GROUP
    return _SILENT.get(attempt.local.qp_type, ()) if attempt.local else ()


_SILENT: Final[dict[QpType, Labels]] = {
    QpType.UC: ("uc-reports-no-loss",),
    QpType.UD: ("ud-reports-no-loss",),
}
_OF_GROUP: Final[Labels] = ("multicast-not-forwarded", *_SILENT[QpType.UD])

_LINUX: Final[Labels] = ("no-path", "peer-gone", "link-flaps")
_MAC: Final[Labels] = ("link-lost", "cables-mixed-up", "mtu-mismatch", "peer-gone")
_AFTER: Final = "after the failure"


def _contexts(attempt: Attempt) -> tuple[str, ...]:
    own = ("only small",) if _only_small(attempt) else (_direction(attempt) or "",)
    return (*own, Outcome.NO_DATA)


def _only_small(attempt: Attempt) -> bool:
    return attempt.arrived is not None and attempt.arrived.only_small


def _direction(attempt: Attempt) -> str | None:
    """Where the first message was lost that was; None where some came to both ends."""
    arrived = attempt.arrived
    if arrived is None or arrived.at_peer is None:
        return "one direction" if arrived and not arrived.here else None
    if arrived.here and arrived.at_peer:
        return None
    if arrived.here:
        return "from here"
    if arrived.at_peer:
        return "to here"
    return "from here and perhaps back" if attempt.role == "connect" else "to here and perhaps back"


_DIRECTIONS: Final = (
    "one direction",
    "from here",
    "to here",
    "from here and perhaps back",
    "to here and perhaps back",
)


def _is_roce_v2(attempt: Attempt) -> bool:
    return attempt.local is not None and attempt.local.gid_type is GidType.ROCE_V2


def counted(arrived: Arrived) -> str:
    """How much came to each end, as a clause."""
    there = "" if arrived.at_peer is None else f", {arrived.at_peer} at the peer"
    return f"{arrived.here} message{'s' * (arrived.here != 1)} arrived here{there}"


def all_known() -> Iterable[Known]:
    """Every sentence of this file."""
    yield stated("device-removed", _AFTER)
    yield stated("port-went-down")
    yield stated("mtu-too-large", "only small")
    for direction in _DIRECTIONS:
        yield stated("roce-port-dropped", direction)
    yield from all_stated((*_LINUX, *_MAC, *_SILENT[QpType.UC], *_OF_GROUP), Outcome.NO_DATA)
