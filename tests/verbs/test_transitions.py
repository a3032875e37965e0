"""The three steps of a queue pair, as the manual's tables and the kernel have them."""

import pytest

from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs.transitions import BRINGUP, Attribute, transition

# RDMA Aware manual, 4.5.1 to 4.5.3, "Required Attributes". For UC the kernel's
# qp_state_table asks for fewer than the manual's "connected QPs": nothing is retried there.
CONNECTED = {
    QpState.INIT: "STATE PKEY_INDEX PORT ACCESS_FLAGS",
    QpState.RTR: "STATE PATH_MTU AV DEST_QPN RQ_PSN",
    QpState.RTS: "STATE SQ_PSN",
}
RELIABLE = {
    QpState.INIT: "",
    QpState.RTR: "MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
    QpState.RTS: "TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC",
}
# The kernel's qp_state_table: one end of an XRC connection sends, the other one answers.
SENDING = {
    QpState.INIT: "",
    QpState.RTR: "",
    QpState.RTS: "TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC",
}
ANSWERING = {
    QpState.INIT: "",
    QpState.RTR: "MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
    QpState.RTS: "TIMEOUT",
}
RAW = {QpState.INIT: "STATE PORT", QpState.RTR: "STATE", QpState.RTS: "STATE"}
DATAGRAM = {
    QpState.INIT: "STATE PKEY_INDEX PORT QKEY",
    QpState.RTR: "STATE",
    QpState.RTS: "STATE SQ_PSN",
}


def mask(*names: str) -> Attribute:
    found = Attribute(0)
    for name in " ".join(names).split():
        found |= Attribute[name]
    return found


@pytest.mark.parametrize("state", [QpState.INIT, QpState.RTR, QpState.RTS])
def test_what_each_step_requires(state: QpState) -> None:
    assert transition(QpType.UC, state).required == mask(CONNECTED[state])
    assert transition(QpType.RC, state).required == mask(CONNECTED[state], RELIABLE[state])
    assert transition(QpType.UD, state).required == mask(DATAGRAM[state])
    assert transition(QpType.XRC_SEND, state).required == mask(CONNECTED[state], SENDING[state])
    assert transition(QpType.XRC_RECV, state).required == mask(CONNECTED[state], ANSWERING[state])
    assert transition(QpType.RAW_PACKET, state).required == mask(RAW[state])


@pytest.mark.parametrize("kind", list(QpType))
def test_the_steps_follow_each_other_from_reset_to_rts(kind: QpType) -> None:
    steps = BRINGUP[kind]
    assert [step.before for step in steps] == [QpState.RESET, QpState.INIT, QpState.RTR]
    assert [step.after for step in steps] == [QpState.INIT, QpState.RTR, QpState.RTS]
    assert all(not step.required & step.optional for step in steps)


def test_numbers_are_those_of_the_header() -> None:
    assert [state.number for state in QpState] == list(range(7))
    assert (QpType.RC.number, QpType.UC.number, QpType.UD.number) == (2, 3, 4)
    assert QpType.RAW_PACKET.number == 8
    assert (QpType.XRC_SEND.number, QpType.XRC_RECV.number) == (9, 10)
    assert (Attribute.STATE, Attribute.AV, Attribute.DEST_QPN) == (1, 128, 1 << 20)


def test_a_state_that_no_step_ends_in_is_refused() -> None:
    with pytest.raises(KeyError):
        transition(QpType.RC, QpState.ERR)
