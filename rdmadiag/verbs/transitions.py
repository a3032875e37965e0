"""INIT → RTR → RTS as data: which attributes ibv_modify_qp must and may be given.

From the RDMA Aware manual, 4.5 "Queue Pair Bringup", and the kernel's qp_state_table
(drivers/infiniband/core/verbs.c), which refuses with EINVAL what is not listed.
"""

from enum import IntFlag
from typing import Final

from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.frozen import dataclass


class Attribute(IntFlag):
    """enum ibv_qp_attr_mask, infiniband/verbs.h."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    EN_SQD_ASYNC_NOTIFY = 1 << 2
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    QKEY = 1 << 6
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    CAP = 1 << 19
    DEST_QPN = 1 << 20


A = Attribute


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of a queue pair; `required` holds STATE too."""

    before: QpState
    after: QpState
    required: Attribute
    optional: Attribute


NONE: Final = Attribute(0)


def _step(
    before: QpState, after: QpState, required: Attribute, optional: Attribute = NONE
) -> Transition:
    return Transition(before, after, A.STATE | required, optional)


_OPENING: Final = A.PKEY_INDEX | A.PORT
_PATH: Final = A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN
_CHANGEABLE: Final = A.ALT_PATH | A.ACCESS_FLAGS

BRINGUP: Final[dict[QpType, tuple[Transition, Transition, Transition]]] = {
    QpType.RC: (
        _step(QpState.RESET, QpState.INIT, _OPENING | A.ACCESS_FLAGS),
        _step(
            QpState.INIT,
            QpState.RTR,
            _PATH | A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER,
            _CHANGEABLE | A.PKEY_INDEX,
        ),
        _step(
            QpState.RTR,
            QpState.RTS,
            A.SQ_PSN | A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.MAX_QP_RD_ATOMIC,
            A.CUR_STATE | _CHANGEABLE | A.MIN_RNR_TIMER | A.PATH_MIG_STATE,
        ),
    ),
    QpType.UC: (
        _step(QpState.RESET, QpState.INIT, _OPENING | A.ACCESS_FLAGS),
        _step(QpState.INIT, QpState.RTR, _PATH, _CHANGEABLE | A.PKEY_INDEX),
        _step(
            QpState.RTR,
            QpState.RTS,
            A.SQ_PSN,
            A.CUR_STATE | _CHANGEABLE | A.PATH_MIG_STATE,
        ),
    ),
    QpType.UD: (
        _step(QpState.RESET, QpState.INIT, _OPENING | A.QKEY),
        _step(QpState.INIT, QpState.RTR, NONE, A.PKEY_INDEX | A.QKEY),
        _step(QpState.RTR, QpState.RTS, A.SQ_PSN, A.CUR_STATE | A.QKEY),
    ),
    QpType.XRC_SEND: (
        _step(QpState.RESET, QpState.INIT, _OPENING | A.ACCESS_FLAGS),
        _step(QpState.INIT, QpState.RTR, _PATH, _CHANGEABLE | A.PKEY_INDEX),
        _step(
            QpState.RTR,
            QpState.RTS,
            A.SQ_PSN | A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.MAX_QP_RD_ATOMIC,
            A.CUR_STATE | _CHANGEABLE | A.PATH_MIG_STATE,
        ),
    ),
    QpType.XRC_RECV: (
        _step(QpState.RESET, QpState.INIT, _OPENING | A.ACCESS_FLAGS),
        _step(
            QpState.INIT,
            QpState.RTR,
            _PATH | A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER,
            _CHANGEABLE | A.PKEY_INDEX,
        ),
        _step(
            QpState.RTR,
            QpState.RTS,
            A.SQ_PSN | A.TIMEOUT,
            A.CUR_STATE | _CHANGEABLE | A.MIN_RNR_TIMER | A.PATH_MIG_STATE,
        ),
    ),
    QpType.RAW_PACKET: (
        _step(QpState.RESET, QpState.INIT, A.PORT),
        _step(QpState.INIT, QpState.RTR, NONE),
        _step(QpState.RTR, QpState.RTS, NONE),
    ),
}
"""The three steps from RESET to RTS of each type."""


def transition(kind: QpType, after: QpState) -> Transition:
    """The step of BRINGUP that ends in `after`; raises KeyError for a state that none ends in."""
    for step in BRINGUP[kind]:
        if step.after is after:
            return step
    raise KeyError(after)
