"""How a connection is made by rdma_cm, and what its end looks like."""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.signs.sign import Errno, sign
from rdmadiag.explain.remedies import AT_PEER, DEVICES, DMESG_OF_RDMA
from rdmadiag.facts.attempt import Stage

MAKING: Final = (
    sign(
        "address-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_ADDR_ERROR|\baddr[_ ]error\b",
        ("no-rdma-at-address", "peer-unreachable"),
    ),
    sign(
        "route-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_ROUTE_ERROR",
        # RoCE resolves no route: on InfiniBand the subnet manager knew of none, or was silent.
        ("no-path", "no-subnet-manager", "no-route"),
        errno=Errno.LAST,
    ),
    sign(
        "unreachable",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_UNREACHABLE|rdma\w*\b.{0,60}\bunreachable",
        ("peer-unreachable", "no-path", "peer-not-listening"),
        ("ip route get PEER", "ip neigh", AT_PEER),
    ),
    sign(
        "rejected",
        Kind.FAILURE,
        Stage.CONNECT,
        # Another reason than 8, invalid service id: enum ib_cm_rej_reason.
        r"(?:RDMA_CM_EVENT_REJECTED|\bconnect rejected\b).*?\b(?:status|error|reason)[ =:(]{1,4}"
        r"(?!8\b)[1-9]\d{0,2}\b",
        ("peer-refused",),
    ),
    sign(
        "rejected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_(?:REJECTED|CONNECT_ERROR)|\bconnect rejected: status"
        r"|\brejected: (?:no listener|invalid service)",
        ("peer-not-listening", "peer-gone"),
        errno=Errno.LAST,
    ),
    sign(
        "device-removal",
        Kind.FAILURE,
        Stage.CONNECT,
        r"RDMA_CM_EVENT_DEVICE_REMOVAL|cma detected device removal",
        ("device-removed",),
        (DMESG_OF_RDMA, DEVICES),
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
        "efa-unreachable",
        Kind.FAILURE,
        Stage.DATA,
        r"unresponsive (?:receiver|remote|peer)|unreachable remote|reachable by EFA device",
        ("security-group", "peer-gone"),
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
