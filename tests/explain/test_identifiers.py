"""What identifiers say once they are taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.line.identifiers import errno_in, plain, stage_in, status_in
from rdmadiag.explain.log.recognition.recognise import of_identifiers
from rdmadiag.facts.attempt import Stage


@pytest.mark.parametrize(
    ("text", "stage", "errno"),
    [
        ("rnic_modify_qp(RTR) returned -22", Stage.RTR, 22),
        ("cannot bring qp up, Network is unreachable", Stage.RTR, 101),
        ("qp_to_rtr: ret 113", Stage.RTR, 113),
        ("moveQueuePairToRTS failed (22)", Stage.RTS, 22),
        ("registerLocalMemory(): -12", Stage.REG_MR, 12),
        ("fi_mr_reg: -12", Stage.REG_MR, 12),
        ("make_completion_queue failed: rc=-12", Stage.CREATE_CQ, 12),
        ("createQueuePair: rc = -95", Stage.CREATE_QP, 95),
        ("alloc_pd ret=-12", Stage.ALLOC_PD, 12),
        ("openRnic: cannot open rnic, errno 13", Stage.OPEN, 13),
        ("post_recv_wr returned -12", Stage.DATA, 12),
        ("cmResolveAddress rdma -19", Stage.CONNECT, 19),
    ],
)
def test_stage_and_errno(text: str, stage: Stage, errno: int) -> None:
    """In names that no library has."""
    meaning = of_identifiers(fields(text))
    assert meaning is not None
    assert (meaning.what, meaning.fields.stage, meaning.fields.errno) == ("errno", stage, errno)
    assert meaning.causes


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Transfer failed with WcStatus::RetryExcErr", 12),
        ("retry_exceeded_error on channel 3", 12),
        ("RNR_RETRY_EXCEEDED_ERROR", 13),
        ("RemoteAccessError", 10),
        ("kLocalProtectionError", 4),
        ("WorkRequestFlushError", None),
        ("WrFlushErr", 5),
        ("remote error", None),
    ],
)
def test_status_by_its_name(text: str, status: int | None) -> None:
    """In whatever spelling; two words are too few."""
    assert status_in(plain(text)) == status


@pytest.mark.parametrize(
    "text",
    [
        "ibv_create_qp(3), ibv_destroy_qp(3), ibv_query_qp(3), ibv_create_ah(3)",
        "rnic_modify_qp(RTR) returned 0",
        "rnic_modify_qp(RTR) succeeded, ret -1",
        "create_qp: depth 128, inline 60",
        "qp_to_rtr: ret 2000",
        "INFO rnic_modify_qp(RTR) returned -22, trying again without a GID",
        "fan speed returned -22",
        "libfabric:1:efa:cq:poll_cq: err: 5 -12",
    ],
)
def test_what_says_no_failure(text: str) -> None:
    """A manual's section, a size, a number that no errno has, information, another subject."""
    assert of_identifiers(fields(text)) is None


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    """Is taken apart without an error."""
    said = plain(text)
    stage_in(said)
    status_in(said)
    number = errno_in(said)
    assert number is None or 0 < number < 134
