"""Asynchronous events of verbs: enum ibv_event_type, and what ibv_event_type_str says of each."""

from enum import StrEnum
from typing import Self


class Element(StrEnum):
    """What an event is of: the member of struct ibv_async_event's union that holds it."""

    CQ = "completion queue"
    QP = "queue pair"
    SRQ = "shared receive queue"
    WQ = "work queue"
    PORT = "port"
    DEVICE = "device"


class AsyncEvent(StrEnum):
    """IBV_EVENT_*, by their words; ibv_get_async_event(3) says which is of what."""

    number: int
    text: str  # ibv_event_type_str
    of: Element

    def __new__(cls, word: str, number: int, of: Element, text: str) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.number = number
        member.of = of
        member.text = text
        return member

    CQ_ERR = "cq_err", 0, Element.CQ, "CQ error"
    QP_FATAL = "qp_fatal", 1, Element.QP, "local work queue catastrophic error"
    QP_REQ_ERR = "qp_req_err", 2, Element.QP, "invalid request local work queue error"
    QP_ACCESS_ERR = "qp_access_err", 3, Element.QP, "local access violation work queue error"
    COMM_EST = "comm_est", 4, Element.QP, "communication established"
    SQ_DRAINED = "sq_drained", 5, Element.QP, "send queue drained"
    PATH_MIG = "path_mig", 6, Element.QP, "path migrated"
    PATH_MIG_ERR = "path_mig_err", 7, Element.QP, "path migration request error"
    DEVICE_FATAL = "device_fatal", 8, Element.DEVICE, "local catastrophic error"
    PORT_ACTIVE = "port_active", 9, Element.PORT, "port active"
    PORT_ERR = "port_err", 10, Element.PORT, "port error"
    LID_CHANGE = "lid_change", 11, Element.PORT, "LID change"
    PKEY_CHANGE = "pkey_change", 12, Element.PORT, "P_Key change"
    SM_CHANGE = "sm_change", 13, Element.PORT, "SM change"
    SRQ_ERR = "srq_err", 14, Element.SRQ, "SRQ catastrophic error"
    SRQ_LIMIT_REACHED = "srq_limit_reached", 15, Element.SRQ, "SRQ limit reached"
    QP_LAST_WQE_REACHED = "qp_last_wqe_reached", 16, Element.QP, "last WQE reached"
    CLIENT_REREGISTER = "client_reregister", 17, Element.PORT, "client reregistration"
    GID_CHANGE = "gid_change", 18, Element.PORT, "GID table change"
    WQ_FATAL = "wq_fatal", 19, Element.WQ, "WQ fatal"
    DEVICE_SPEED_CHANGE = "device_speed_change", 20, Element.DEVICE, "Device link speed change"

    @property
    def constant(self) -> str:
        """As infiniband/verbs.h names it: "IBV_EVENT_PORT_ERR"."""
        return f"IBV_EVENT_{self.name}"

    @classmethod
    def from_number(cls, number: int) -> Self | None:
        """The event with this number; None for one that is newer than this table."""
        return next((each for each in cls if each.number == number), None)
