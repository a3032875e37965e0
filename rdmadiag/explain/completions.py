"""What the status of a work completion means: all of enum ibv_wc_status, infiniband/verbs.h.

The texts are those of ibv_wc_status_str. With any status but 0 only wr_id, status, qp_num
and vendor_err of the completion are valid (man ibv_poll_cq).

>>> completion_text(12, 129)
'status 12 (IBV_WC_RETRY_EXC_ERR: transport retry counter exceeded), vendor error 129'
"""

from dataclasses import dataclass
from typing import Final

from rdmadiag.explain.cause import Cause


@dataclass(frozen=True, slots=True)
class CompletionStatus:
    """One row of the enum."""

    number: int
    name: str  # without IBV_WC_
    text: str  # ibv_wc_status_str
    meaning: str
    causes: tuple[Cause, ...]  # the most reported first
    is_consequence: bool = False  # of an earlier failure, which is the one to look for


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

_RELIABLE_DATAGRAM: Final = (
    Cause("provider-fault", "perhaps a fault of the provider: RC and UC have nothing of the kind"),
)

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
            Cause("payload-mismatch", "the two ends disagree about the payload"),
            Cause(
                "mtu-mismatch", "the two ends use different path MTUs"
            ),  # tensorflow/tensorflow#9667
        ),
    ),
    CompletionStatus(
        2,
        "LOC_QP_OP_ERR",
        "local QP operation error",
        "The queue pair could not carry out a request of its own.",
        (Cause("request-malformed", "the request does not fit the queue pair's attributes"),),
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
            Cause(
                "acs-or-iommu", "ACS or the IOMMU redirects peer-to-peer traffic, with GPU memory"
            ),
            Cause("local-key-wrong", "the address or the local key of the buffer is wrong"),
        ),
    ),
    CompletionStatus(
        5,
        "WR_FLUSH_ERR",
        "Work Request Flushed Error",
        "The queue pair was in the error state already, and the request was thrown away.",
        (
            Cause(
                "flushed",
                "an earlier request failed, here or at the peer: its status is the one to look for",
            ),
        ),
        is_consequence=True,
    ),
    CompletionStatus(
        6,
        "MW_BIND_ERR",
        "memory management operation error",
        "A memory window could not be bound.",
        (
            Cause("window-domain", "window and queue pair have different protection domains"),
            Cause("access-flags", "the region's access flags do not allow the window"),
        ),
    ),
    CompletionStatus(
        7,
        "BAD_RESP_ERR",
        "bad response error",
        "The peer answered with an opcode that was not expected.",
        (Cause("peer-fault", "perhaps a fault of the peer's device or driver"),),
    ),
    CompletionStatus(
        8,
        "LOC_ACCESS_ERR",
        "local access error",
        "A local buffer was protected from a write with immediate data of the peer's.",
        (Cause("access-flags", "the memory region's access flags do not allow it"),),
    ),
    CompletionStatus(
        9,
        "REM_INV_REQ_ERR",
        "remote invalid request error",
        "The peer found the request invalid.",
        (
            Cause("peer-buffer-small", "the peer's receive buffer is smaller than the message"),
            Cause("peer-forbids", "the peer's queue pair does not allow the operation"),
        ),
    ),
    CompletionStatus(
        10,
        "REM_ACCESS_ERR",
        "remote access error",
        "The peer's memory was protected from a read, a write or an atomic.",
        (
            Cause(
                "remote-key-wrong",
                "the remote key, the address or the access flags at the peer are wrong",
            ),
        ),
    ),
    CompletionStatus(
        11,
        "REM_OP_ERR",
        "remote operation error",
        "The peer could not carry out the operation.",
        (
            Cause("peer-qp-error", "the peer's queue pair has an error of its own"),
            Cause("peer-receive-malformed", "a receive that the peer posted is malformed"),
        ),
    ),
    CompletionStatus(
        12,
        "RETRY_EXC_ERR",
        "transport retry counter exceeded",
        "The peer never acknowledged what was sent.",
        (
            # NVIDIA/nccl#426, #769, #1131; Mooncake#113
            Cause(
                "gid-does-not-route",
                "on RoCE, a GID that does not route: link-local, v1, or a hard-coded index",
            ),
            Cause(
                "no-path",
                "no path between the ends: other subnet, VLAN or rail, or a switch that drops it",
            ),
            Cause(
                "mtu-too-large", "frames of the path MTU do not get through"
            ),  # tensorflow/tensorflow#9667
            Cause("peer-gone", "the peer's program ended, or its queue pair has an error"),
            Cause(
                "link-flaps", "a link that flaps or loses frames, where some messages did arrive"
            ),  # nccl#905, #394
        ),
    ),
    CompletionStatus(
        13,
        "RNR_RETRY_EXC_ERR",
        "RNR retry counter exceeded",
        "The peer had no receive buffer posted, however often the request was sent.",
        (Cause("peer-posts-no-receives", "the peer posts no receives, or too few, or too late"),),
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
        16,
        "REM_ABORT_ERR",
        "aborted error",
        "The peer aborted the operation.",
        (Cause("peer-fault", "an error at the peer"),),
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
        (Cause("firmware-failed", "perhaps the device or its driver failed"),),
    ),
    CompletionStatus(
        20,
        "RESP_TIMEOUT_ERR",
        "response timeout error",
        "The peer did not respond in time.",
        (Cause("peer-not-ready", "the peer was not ready to process requests"),),
    ),
    CompletionStatus(
        21,
        "GENERAL_ERR",
        "general error",
        "An error of the transport that no other status describes.",
        (Cause("see-vendor-error", "the vendor error and the kernel's log may say more"),),
    ),
    CompletionStatus(
        22,
        "TM_ERR",
        "TM error",
        "A tag-matching request failed.",
        (Cause("tag-consumed", "a message had consumed the tag already"),),
    ),
    CompletionStatus(
        23,
        "TM_RNDV_INCOMPLETE",
        "TM software rendezvous",
        "The tag matched, and software has to fetch the message.",
        (Cause("tag-buffer-small", "the tagged buffer is smaller than the message"),),
    ),
)

_BY_NUMBER: Final = {row.number: row for row in _STATUSES}
