"""What the status of a work completion means: all of enum ibv_wc_status, infiniband/verbs.h.

The texts are those of ibv_wc_status_str. With any status but 0 only wr_id, status, qp_num
and vendor_err of the completion are valid (man ibv_poll_cq).

>>> completion_text(12, 129)
'status 12 (IBV_WC_RETRY_EXC_ERR: transport retry counter exceeded), vendor error 129'
"""

from typing import Final

from rdmadiag.explain.causes import Known, Labels, all_stated, remedy
from rdmadiag.explain.remedies import LOG, Lines
from rdmadiag.facts.errnos import Platform
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CompletionStatus:
    """One row of the enum."""

    number: int
    name: str  # without IBV_WC_
    text: str  # ibv_wc_status_str
    meaning: str
    labels: Labels  # of causes, the most reported first
    is_consequence: bool = False  # of an earlier failure, which is the one to look for

    @property
    def causes(self) -> tuple[Known, ...]:
        """What it has been traced to."""
        return all_stated(self.labels, f"wc {self.number}")


@dataclass(frozen=True, slots=True)
class VendorError:
    """What vendor_err means, where the device is that provider's."""

    provider: str
    meaning: str  # goes on from "vendor error N"


def completion(status: int) -> CompletionStatus | None:
    """What this status means; None for a number that the enum does not have."""
    return _BY_NUMBER.get(status)


def statuses() -> tuple[CompletionStatus, ...]:
    """The whole enum, in its order."""
    return _STATUSES


def completion_text(status: int, vendor_error: int) -> str:
    """Number, symbol, the library's text and the vendor's number in one phrase."""
    found = completion(status)
    named = f" (IBV_WC_{found.name}: {found.text})" if found else ""
    return f"status {status}{named}, vendor error {vendor_error}"


def after_completion(status: int, platform: Platform) -> Lines:
    """Templates of what to look at: the remedy of the first cause, else the kernel's log."""
    row = completion(status)
    found = remedy(row.labels[0], platform) if row and row.labels else ()
    return found or LOG.get(platform, ())


def vendor(status: int, vendor_error: int) -> VendorError | None:
    """What the vendor's number adds to the status, where that is known."""
    return _VENDOR.get((status, vendor_error))


# NVIDIA/nccl#426, #1405 (12); #1353 (5); #214, #304 (4). Of mlx5 it is the firmware's
# vendor_err_synd (providers/mlx5/cq.c of rdma-core).
_VENDOR: Final = {
    (12, 129): VendorError("mlx5", "says that the transport retries ran out"),
    (5, 249): VendorError("mlx5", "says flushed, after an earlier failure"),
    (4, 81): VendorError("mlx5", "is seen where ACS or the IOMMU redirects GPU traffic"),
}

_RELIABLE_DATAGRAM: Final = ("provider-fault",)

# The RDMA Aware manual, 7.2 "IBV WC Events" (its texts of WR_FLUSH_ERR and REM_INV_REQ_ERR
# are mixed up), and rdma-core's Documentation/tag_matching.md for 22 and 23.
_STATUSES: Final = (
    CompletionStatus(0, "SUCCESS", "success", "The work request completed.", ()),
    CompletionStatus(
        1,
        "LOC_LEN_ERR",
        "local length error",
        "The message is longer than the receive buffer that was posted for it.",
        (
            "payload-mismatch",
            "mtu-mismatch",  # tensorflow/tensorflow#9667
        ),
    ),
    CompletionStatus(
        2,
        "LOC_QP_OP_ERR",
        "local QP operation error",
        "The queue pair could not carry out a request of its own.",
        ("request-malformed",),
    ),
    CompletionStatus(
        3,
        "LOC_EEC_OP_ERR",
        "local EE context operation error",
        "The local end-to-end context of a reliable datagram failed.",
        _RELIABLE_DATAGRAM,
    ),
    CompletionStatus(
        4,
        "LOC_PROT_ERR",
        "local protection error",
        "A buffer of the request is not inside the memory region that its key names.",
        (
            # NVIDIA/nccl#304, #606, #2079; openucx/ucx PR#11412
            "acs-or-iommu",
            "local-key-wrong",
        ),
    ),
    CompletionStatus(
        5,
        "WR_FLUSH_ERR",
        "Work Request Flushed Error",
        "The queue pair was in the error state already, and the request was thrown away.",
        ("flushed",),
        is_consequence=True,
    ),
    CompletionStatus(
        6,
        "MW_BIND_ERR",
        "memory management operation error",
        "A memory window could not be bound.",
        ("window-domain", "access-flags"),
    ),
    CompletionStatus(
        7,
        "BAD_RESP_ERR",
        "bad response error",
        "The peer answered with an opcode that was not expected.",
        ("peer-fault",),
    ),
    CompletionStatus(
        8,
        "LOC_ACCESS_ERR",
        "local access error",
        "A local buffer was protected from a write with immediate data of the peer's.",
        ("access-flags",),
    ),
    CompletionStatus(
        9,
        "REM_INV_REQ_ERR",
        "remote invalid request error",
        "The peer found the request invalid.",
        ("peer-buffer-small", "peer-forbids"),
    ),
    CompletionStatus(
        10,
        "REM_ACCESS_ERR",
        "remote access error",
        "The peer's memory was protected from a read, a write or an atomic.",
        ("remote-key-wrong",),
    ),
    CompletionStatus(
        11,
        "REM_OP_ERR",
        "remote operation error",
        "The peer could not carry out the operation.",
        ("peer-qp-error", "peer-receive-malformed"),
    ),
    CompletionStatus(
        12,
        "RETRY_EXC_ERR",
        "transport retry counter exceeded",
        "The peer never acknowledged what was sent.",
        (
            # NVIDIA/nccl#426, #769, #1131; Mooncake#113
            "gid-does-not-route",
            "no-path",
            "mtu-too-large",  # tensorflow/tensorflow#9667
            "peer-gone",
            "link-flaps",  # nccl#905, #394
        ),
    ),
    CompletionStatus(
        13,
        "RNR_RETRY_EXC_ERR",
        "RNR retry counter exceeded",
        "The peer had no receive buffer posted, however often the request was sent.",
        ("peer-posts-no-receives",),
    ),
    CompletionStatus(
        14,
        "LOC_RDD_VIOL_ERR",
        "local RDD violation error",
        "The reliable datagram domains of queue pair and end-to-end context differ.",
        _RELIABLE_DATAGRAM,
    ),
    CompletionStatus(
        15,
        "REM_INV_RD_REQ_ERR",
        "remote invalid RD request",
        "The peer found a reliable datagram invalid.",
        _RELIABLE_DATAGRAM,
    ),
    CompletionStatus(
        16, "REM_ABORT_ERR", "aborted error", "The peer aborted the operation.", ("peer-fault",)
    ),
    CompletionStatus(
        17,
        "INV_EECN_ERR",
        "invalid EE context number",
        "The number of an end-to-end context (reliable datagram) is invalid.",
        _RELIABLE_DATAGRAM,
    ),
    CompletionStatus(
        18,
        "INV_EEC_STATE_ERR",
        "invalid EE context state",
        "An end-to-end context (reliable datagram) is in a state that forbids the request.",
        _RELIABLE_DATAGRAM,
    ),
    CompletionStatus(
        19,
        "FATAL_ERR",
        "fatal error",
        "A fatal error of the transport: driver or host may have to be restarted.",
        ("firmware-failed",),
    ),
    CompletionStatus(
        20,
        "RESP_TIMEOUT_ERR",
        "response timeout error",
        "The peer did not respond in time.",
        ("peer-not-ready",),
    ),
    CompletionStatus(
        21,
        "GENERAL_ERR",
        "general error",
        "An error of the transport that no other status describes.",
        ("see-vendor-error",),
    ),
    CompletionStatus(22, "TM_ERR", "TM error", "A tag-matching request failed.", ("tag-consumed",)),
    CompletionStatus(
        23,
        "TM_RNDV_INCOMPLETE",
        "TM software rendezvous",
        "The tag matched, and software has to fetch the message.",
        ("tag-buffer-small",),
    ),
)

_BY_NUMBER: Final = {row.number: row for row in _STATUSES}
