"""What each asynchronous event means, and what it does: one row each.

From chapter 11.6.3 of volume 1 of the InfiniBand specification and ibv_get_async_event(3). What
one has been traced to is said by the sign that its name is in a log
(`explain.log.recognition.signs`).
"""

from typing import Final, NamedTuple

from rdmadiag.facts.events import AsyncEvent


class EventMeaning(NamedTuple):
    """Two sentences."""

    meaning: str
    effect: str  # on the queue pair, the port or what else it is of


_E: Final = AsyncEvent
_TO_ERROR: Final = "The queue pair goes to ERROR by itself, and what was posted is flushed"
_AS_BEFORE: Final = "Nothing changes: queue pairs and port work on."

EVENTS: Final[dict[AsyncEvent, EventMeaning]] = {
    _E.CQ_ERR: EventMeaning(
        "A completion queue has an error: it ran over, most often.",
        "Its completions are lost, and it never works again: destroy it. Each queue pair that "
        "uses it goes to ERROR, with an IBV_EVENT_QP_FATAL of its own.",
    ),
    _E.QP_FATAL: EventMeaning(
        "A queue pair failed in a way that no completion could report.",
        f"{_TO_ERROR}, if it can be; by RESET it can be used anew.",
    ),
    _E.QP_REQ_ERR: EventMeaning(
        "A peer's request on a reliable connection was malformed or not supported.",
        f"{_TO_ERROR}. The peer completes with status 9, remote invalid request.",
    ),
    _E.QP_ACCESS_ERR: EventMeaning(
        "A peer's request violated the rights of a memory region, its key or its length.",
        f"{_TO_ERROR}. The peer completes with status 10, remote access error.",
    ),
    _E.COMM_EST: EventMeaning(
        "The first message arrived before RTS. No failure.",
        "The queue pair stays in RTR until the program takes it to RTS; with rdma_cm, after "
        "rdma_notify.",
    ),
    _E.SQ_DRAINED: EventMeaning(
        "The send queue has drained, as was asked for by SQD. No failure.",
        "The queue pair is in SQD and sends nothing: its attributes may be changed, then RTS.",
    ),
    _E.PATH_MIG: EventMeaning(
        "The connection has moved to its alternate path. No failure by itself.",
        "The queue pair goes on by what was its alternate path; it has no other one until one "
        "is loaded and armed again (IBV_QP_ALT_PATH, IBV_MIG_REARM). Why did the first path fail?",
    ),
    _E.PATH_MIG_ERR: EventMeaning(
        "The connection could not move to its alternate path.",
        "The queue pair stays on its first path: where that is dead, retries run out and it "
        "goes to ERROR (status 12).",
    ),
    _E.DEVICE_FATAL: EventMeaning(
        "The device has an error that it does not recover from.",
        "Nothing on the device works any more, and objects may not even be destroyed: close the "
        "device. The driver resets it, and it may come back as a new one.",
    ),
    _E.PORT_ACTIVE: EventMeaning(
        "A port became ACTIVE: its link is back. No failure.",
        "Connections that did not run out of retries meanwhile go on; others are to be made anew.",
    ),
    _E.PORT_ERR: EventMeaning(
        "A port is ACTIVE no more: its link was lost.",
        "Queue pairs keep their state; what is sent is retried, and where the link stays away "
        "for too long they go to ERROR (status 12).",
    ),
    _E.LID_CHANGE: EventMeaning(
        "The subnet manager gave the port another LID.",
        "Connections to the old LID run out of retries; a LID that was kept is stale.",
    ),
    _E.PKEY_CHANGE: EventMeaning(
        "The subnet manager changed the port's partition keys.",
        "An index that was kept may name another key or none: queue pairs that use it no longer "
        "reach their peers.",
    ),
    _E.SM_CHANGE: EventMeaning(
        "Another subnet manager has taken over.",
        "Multicast groups and subscriptions are to be joined anew; connections go on.",
    ),
    _E.SRQ_ERR: EventMeaning(
        "A shared receive queue has an error: the device can take no receive from it.",
        "It never works again: destroy it. Each queue pair that uses it goes to ERROR, with an "
        "IBV_EVENT_QP_FATAL of its own.",
    ),
    _E.SRQ_LIMIT_REACHED: EventMeaning(
        "A shared receive queue holds fewer receives than its limit. No failure.",
        "The limit is off until it is armed again by ibv_modify_srq with IBV_SRQ_LIMIT. Empty, "
        "the queue makes peers wait (RNR).",
    ),
    _E.QP_LAST_WQE_REACHED: EventMeaning(
        "A queue pair in ERROR takes nothing more from its SRQ. No failure by itself.",
        "Once its completion queue is empty it may be destroyed, or taken to RESET.",
    ),
    _E.CLIENT_REREGISTER: EventMeaning(
        "The subnet manager asks clients to register anew.",
        "Multicast groups and subscriptions are to be joined anew; connections go on.",
    ),
    _E.GID_CHANGE: EventMeaning(
        "The port's GID table changed: an address came or went.",
        "A queue pair keeps the row that it was given; where its GID went or moved, packets are "
        "not answered and retries run out (status 12).",
    ),
    _E.WQ_FATAL: EventMeaning(
        "A work queue (ibv_create_wq) failed.",
        "The work queue goes to ERROR: it can be reset; what RSS sent to it is dropped.",
    ),
    _E.DEVICE_SPEED_CHANGE: EventMeaning(
        "The speed of one or more of the device's ports changed. No failure by itself.",
        f"{_AS_BEFORE} A rate that was kept is stale: ibv_query_port has the new one.",
    ),
}
