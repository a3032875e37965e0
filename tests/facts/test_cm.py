"""The connection manager's numbers are those of the headers and of the specification."""

import errno
import re
from pathlib import Path

import pytest

from rdmadiag.facts.cm import CmEvent, IwarpStatus, RejectReason, SidrStatus

RDMA_CMA = Path("/usr/include/rdma/rdma_cma.h")


def test_every_event_of_the_header_has_its_number() -> None:
    if not RDMA_CMA.exists():
        pytest.skip(f"no {RDMA_CMA}")
    body = re.search(r"enum rdma_cm_event_type \{(.*?)\}", RDMA_CMA.read_text(), re.DOTALL)
    assert body
    names = [name for name in re.findall(r"\bRDMA_\w+", body[1]) if not name.endswith("_INTERNAL")]
    assert [each.constant for each in CmEvent][: len(names)] == names
    assert [each.number for each in CmEvent] == list(range(len(CmEvent)))


def test_the_reasons_are_those_of_the_specification() -> None:
    # IBA 12.6.7.2: 1 to 33 without a gap, and 35, which Comment 9434 added.
    assert [each.number for each in RejectReason] == [*range(1, 34), 35]


@pytest.mark.parametrize(
    ("number", "constant"),
    [
        (1, "IB_CM_REJ_NO_QP"),
        (4, "IB_CM_REJ_TIMEOUT"),
        (8, "IB_CM_REJ_INVALID_SERVICE_ID"),
        (10, "IB_CM_REJ_STALE_CONN"),
        (12, "IB_CM_REJ_INVALID_GID"),
        (24, "IB_CM_REJ_PORT_CM_REDIRECT"),
        (26, "IB_CM_REJ_INVALID_MTU"),
        (28, "IB_CM_REJ_CONSUMER_DEFINED"),
        (33, "IB_CM_REJ_INVALID_ALT_FLOW_LABEL"),
        (35, "IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED"),
    ],
)
def test_a_reason_has_the_name_of_the_kernel(number: int, constant: str) -> None:
    reason = RejectReason.from_number(number)
    assert reason
    assert reason.constant == constant


def test_34_is_no_reason() -> None:
    assert RejectReason.from_number(34) is None


def test_service_id_resolution_has_six_answers() -> None:
    assert [(each.number, each.constant) for each in SidrStatus][2:4] == [
        (2, "IB_SIDR_REJECT"),
        (3, "IB_SIDR_NO_QP"),
    ]


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (IwarpStatus.CONNECTION_RESET, "ECONNRESET"),
        (IwarpStatus.CONNECTION_REFUSED, "ECONNREFUSED"),
        (IwarpStatus.TIMED_OUT, "ETIMEDOUT"),
    ],
)
def test_iwarp_has_errnos_below_0(status: IwarpStatus, name: str) -> None:
    assert errno.errorcode[-status.number] == name
