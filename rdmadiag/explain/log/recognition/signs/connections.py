"""How a connection is made by rdma_cm, and what its end looks like."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain.connection import EVENTS, REASONS, SIDR, StatusRow, groups
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, Sign, sign
from rdmadiag.explain.remedies import AT_PEER, DEVICES, DMESG_OF_RDMA
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent

_LABELS: Final = {row.event: row.labels for row in EVENTS}
_NUMBER: Final = r"\b(?:status|error|reason)[ =:(]{1,4}"


def _by_status(word: str, event: str, rows: tuple[StatusRow, ...]) -> Iterator[Sign]:
    """One sign for the statuses of the same causes."""
    for labels, numbers in groups(rows):
        several = "|".join(map(str, numbers))
        pattern = rf"(?:{event}).*?{_NUMBER}(?:{several})(?![\w.])"
        yield sign(word, Kind.FAILURE, Stage.CONNECT, pattern, labels)


_NOT_OF_A_FABRIC: Final = (
    r"(?:\b172\.1[7-9]\.\d{1,3}\.\d{1,3}|\b192\.168\.122\.\d{1,3}|\b169\.254\.\d{1,3}\.\d{1,3}"
    r"|\b127\.0\.1\.1\b|\bfe80:[0-9a-f:]+|\b(?:docker0|virbr\d|veth\w+|cni\d|flannel[\w.]*|cali\w+"
    r"|utun\d+|br-[0-9a-f]{6,}|podman\d|lxcbr\d)\b)"
)
"""What each host has of its own: bridges of containers, link-local addresses."""

MAKING: Final = (
    sign(
        "address-of-no-fabric",
        Kind.FAILURE,
        Stage.CONNECT,
        rf"\bconnect\w*\b.{{0,80}}{_NOT_OF_A_FABRIC}.{{0,120}}(?:fail|refused|unreachable|timed out"
        r"|no route|abort|cannot assign)",
        ("bootstrap-interface", "no-route", "firewall", "peer-not-listening"),
        only=r"nccl|rccl|\bucx\b|\bucc\b|gloo|btl_tcp|oob_tcp|mca_|c10d|bootstrap|hccl|oneccl"
        r"|\bccl\b|tcpstore|nvshmem|mooncake|nixl|mpi",
        errno=Errno.LAST,
    ),
    sign(
        "address-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_ADDR(?:INFO)?_ERROR|\baddr[_ ]error\b",
        _LABELS[CmEvent.ADDR_ERROR],
    ),
    sign(
        "route-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_ROUTE_ERROR",
        _LABELS[CmEvent.ROUTE_ERROR],
        errno=Errno.LAST,
    ),
    *_by_status("unreachable", "RDMA_CM_EVENT_UNREACHABLE", SIDR),
    sign(
        "unreachable",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_UNREACHABLE|rdma\w*\b.{0,60}\bunreachable",
        _LABELS[CmEvent.UNREACHABLE],
        ("ip route get PEER", "ip neigh", AT_PEER),
    ),
    *_by_status("rejected", r"RDMA_CM_EVENT_REJECTED|\bconnect rejected\b", REASONS),
    sign(
        "rejected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_(?:REJECTED|CONNECT_ERROR)|\bconnect rejected: status"
        r"|\brejected: (?:no listener|invalid service)",
        _LABELS[CmEvent.REJECTED],
        errno=Errno.LAST,
    ),
    sign(
        "device-removal",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_DEVICE_REMOVAL|cma detected device removal",
        _LABELS[CmEvent.DEVICE_REMOVAL],
        (DMESG_OF_RDMA, DEVICES),
    ),
    sign(
        "multicast-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_MULTICAST_ERROR|\brdma_join_multicast\b.{0,30}\bfail",
        _LABELS[CmEvent.MULTICAST_ERROR],
        errno=Errno.LAST,
    ),
    sign(
        "disconnected",
        Kind.CONSEQUENCE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_ADDR_CHANGE|expected.*RDMA_CM_EVENT_DISCONNECTED"
        r"|RDMA_CM_EVENT_DISCONNECTED.*(?:fail|abort|unexpected)",
        ("peer-gone",),
    ),
)

ENDING: Final = (
    sign(
        "peer-gone",
        Kind.FAILURE,
        Stage.DATA,
        r"peer process is no longer present|bad queue pair \(qp\) number",
        ("peer-gone",),
    ),
    sign(
        "peer-disconnected",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"NIXL_ERR_REMOTE_DISCONNECT|reset by remote peer|Endpoint timeout"
        r"|UCS_ERR_(?:CONNECTION_RESET|ENDPOINT_TIMEOUT)",
        ("peer-gone", "link-lost"),
        (AT_PEER, DMESG_OF_RDMA),
    ),
    sign(
        "gdr-off",
        Kind.FAILURE,
        Stage.REG_MR,
        r"neither nv_peer_mem.{0,60}skipping transport",
        ("gdr-off",),
    ),
    sign(
        "payload-mismatch",
        Kind.FAILURE,
        Stage.DATA,
        r"^(?:[^ ]{1,40} ){0,3}data mismatch!$",
        ("payload-mismatch",),
        (AT_PEER,),
    ),
)
