"""Counters and tracked objects of a described machine, in the forms that kernels write them.

Names: drivers/infiniband/core/sysfs.c (PortCounters with the extended ones) and
hw/mlx5/counters.c. Netlink: rdma/rdma_netlink.h, linux/if_link.h, linux/ethtool_netlink.h.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rdmadiag.facts.cm import CmState
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.host import netlink
from rdmadiag.sources.netdev_counters import STATS64
from rdmadiag.sources.nldev_messages import NUMBER

BOOT_ID = "8d2f2d2e-5a1c-4a9b-9c64-0f0d7d6b1a10"
ETHTOOL_FAMILY = 21
DEVLINK_FAMILY = 22

PORT_COUNTERS = dict.fromkeys(
    (
        *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
        *("port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors"),
        *("port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors"),
        *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped"),
        *("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"),
        *("port_xmit_wait", "unicast_xmit_packets", "unicast_rcv_packets"),
        *("multicast_xmit_packets", "multicast_rcv_packets"),
    ),
    0,
)
"""With PortCountersExtended."""

MLX5_COUNTERS = dict.fromkeys(
    (
        *("rx_write_requests", "rx_read_requests", "rx_atomic_requests", "out_of_buffer"),
        *("out_of_sequence", "duplicate_request", "rnr_nak_retry_err", "packet_seq_err"),
        *("implied_nak_seq_err", "local_ack_timeout_err", "resp_local_length_error"),
        *("resp_cqe_error", "req_cqe_error", "req_remote_invalid_request"),
        *("req_remote_access_errors", "resp_remote_access_errors", "resp_cqe_flush_error"),
        *("req_cqe_flush_error", "req_transport_retries_exceeded", "req_rnr_retries_exceeded"),
        *("rp_cnp_ignored", "rp_cnp_handled", "np_ecn_marked_roce_packets", "np_cnp_sent"),
        "rx_icrc_encapsulated",
    ),
    0,
)


@dataclass(frozen=True)
class Held:
    """Objects of one kind that one owner has."""

    kind: str  # "qp", "cq", …
    count: int = 1
    pid: int | None = None
    kernel: str | None = None
    type: KernelQpType = KernelQpType.RC
    state: QpState = QpState.RTS
    first: int = 100  # the number of the first queue pair
    length: int = 0  # bytes, of each memory region
    context: int | None = None  # RES_CTXN
    pd: int | None = None  # RES_PDN
    cm_state: CmState = CmState.CONNECT
    local_port: int | None = None  # of the first CM id; the others follow


KERNEL_OWN = (
    Held("pd", 1, kernel="ib_core"),
    Held("cq", 1, kernel="ib_core"),
    Held("qp", 1, kernel="ib_core", type=KernelQpType.GSI, first=1),
)


def job(pid: int, pairs: int = 8) -> tuple[Held, ...]:
    """What a rank of a job has."""
    return (
        Held("ctx", 1, pid),
        Held("pd", 1, pid),
        Held("cq", 2, pid),
        Held("qp", pairs, pid),
        Held("mr", 4, pid, length=1 << 30),
    )


def counter_files(folder: str, counters: Mapping[str, int] | None, name: str) -> dict[str, str]:
    """counters/ or hw_counters/ below a port."""
    return {f"{folder}/{name}/{key}": f"{value}\n" for key, value in (counters or {}).items()}


def statistics(index: int, port: int, counters: Mapping[str, int]) -> bytes:
    """The reply to STAT_GET."""
    entries = b"".join(
        _nest(
            "STAT_HWCOUNTER_ENTRY",
            _text("STAT_HWCOUNTER_ENTRY_NAME", name) + _u64("STAT_HWCOUNTER_ENTRY_VALUE", value),
        )
        for name, value in counters.items()
    )
    body = _u32("DEV_INDEX", index) + _u32("PORT_INDEX", port) + _nest("STAT_HWCOUNTERS", entries)
    return netlink.request((netlink.RDMA_NL_NLDEV << 10) + 17, 0, body)


_OPS = {  # the kernel's header once more: a shared table could not be found wrong
    "qp": (10, "RES_QP"),
    "cm_id": (11, "RES_CM_ID"),
    "cq": (12, "RES_CQ"),
    "mr": (13, "RES_MR"),
    "pd": (14, "RES_PD"),
    "ctx": (22, "RES_CTX"),
    "srq": (23, "RES_SRQ"),
}


def dumps(index: int, held: Iterable[Held]) -> dict[str, bytes]:
    """The replies to every RES_*_GET dump of a device, by the name of the request."""
    rows: dict[str, bytes] = dict.fromkeys(_OPS, b"")
    for each in held:
        for at in range(each.count):
            rows[each.kind] += _nest(f"{_OPS[each.kind][1]}_ENTRY", _object(each, at))
    replies = {}
    for kind, (op, table) in _OPS.items():
        name = f"nldev-res-{kind.replace('_', '-')}-get-{index}"
        body = _u32("DEV_INDEX", index) + _nest(table, rows[kind])
        message = netlink.request((netlink.RDMA_NL_NLDEV << 10) + op, netlink.NLM_F_MULTI, body)
        replies[name] = message if rows[kind] else b""
    return replies


def summary(held: Iterable[Held]) -> dict[str, int]:
    """How many of each kind: RES_GET."""
    counts = dict.fromkeys(("pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"), 0)
    for each in held:
        counts[each.kind] += each.count
    return counts


def _object(each: Held, at: int) -> bytes:
    owner = b""
    if each.kernel:
        owner = _text("RES_KERN_NAME", each.kernel)
    elif each.pid:
        owner = _u32("RES_PID", each.pid)
    if each.context is not None:
        owner += _u32("RES_CTXN", each.context)
    if each.pd is not None:
        owner += _u32("RES_PDN", each.pd)
    if each.kind == "mr":
        return _u64("RES_MRLEN", each.length) + owner
    if each.kind == "cm_id":
        port = 0 if each.local_port is None else each.local_port + at
        address = struct.pack("=H", 2) + struct.pack(">H", port) + bytes([192, 0, 2, 1]) + bytes(8)
        return owner + _u8("RES_STATE", each.cm_state.number) + _bytes("RES_SRC_ADDR", address)
    if each.kind != "qp":
        return owner
    peer = b""
    if each.type in (KernelQpType.RC, KernelQpType.UC):
        peer = _u32("RES_RQPN", 5000 + at)
    kind, state = _u8("RES_TYPE", each.type.number), _u8("RES_STATE", each.state.number)
    return _u32("PORT_INDEX", 1) + _u32("RES_LQPN", each.first + at) + peer + kind + state + owner


def with_stats64(link: bytes, stats: Mapping[str, int]) -> bytes:
    """A link message with IFLA_STATS64."""
    values = struct.pack(f"={len(STATS64)}Q", *(stats.get(name, 0) for name in STATS64))
    whole = link + netlink.attribute(23, values)
    return struct.pack("=I", len(whole)) + whole[4:]


def families() -> bytes:
    """The reply to a dump of generic netlink's families."""
    replies = b""
    known = {"nlctrl": netlink.GENL_ID_CTRL, "ethtool": ETHTOOL_FAMILY, "devlink": DEVLINK_FAMILY}
    for name, number in known.items():
        body = netlink.GENERIC_HEADER.pack(1, 2, 0)
        body += netlink.attribute(netlink.CTRL_ATTR_FAMILY_NAME, f"{name}\0".encode())
        body += netlink.attribute(netlink.CTRL_ATTR_FAMILY_ID, struct.pack("=H", number))
        replies += netlink.request(netlink.GENL_ID_CTRL, netlink.NLM_F_MULTI, body)
    return replies


def pause(ifindex: int, sent: int, received: int) -> bytes:
    """The reply to ETHTOOL_MSG_PAUSE_GET with statistics."""
    header = netlink.attribute(1, struct.pack("=I", ifindex))
    stats = netlink.attribute(2, struct.pack("=Q", sent))
    stats += netlink.attribute(3, struct.pack("=Q", received))
    body = netlink.GENERIC_HEADER.pack(22, 1, 0) + netlink.attribute(0x8000 | 1, header)
    body += netlink.attribute(0x8000 | 5, stats)
    return netlink.request(ETHTOOL_FAMILY, 0, body)


def fec(ifindex: int, **counts: tuple[int, ...]) -> bytes:
    """The reply to ETHTOOL_MSG_FEC_GET with statistics: a total of each, then lanes; RS."""
    stats = b"".join(
        netlink.attribute(kind, struct.pack(f"={len(values)}Q", *values))
        for kind, name in enumerate(
            ("corrected_blocks", "uncorrectable_blocks", "corrected_bits"), 2
        )
        for values in (counts.get(name, ()),)
    )
    header = netlink.attribute(1, struct.pack("=I", ifindex))
    body = netlink.GENERIC_HEADER.pack(30, 1, 0) + netlink.attribute(0x8000 | 1, header)
    body += netlink.attribute(4, struct.pack("=I", 50)) + netlink.attribute(0x8000 | 5, stats)
    return netlink.request(ETHTOOL_FAMILY, 0, body)


def phy(ifindex: int, symbol_errors: int | None) -> bytes:
    """The reply to ETHTOOL_MSG_STATS_GET of eth-phy; None: the driver does not count."""
    group = netlink.attribute(2, struct.pack("=I", 0)) + netlink.attribute(3, struct.pack("=I", 17))
    if symbol_errors is not None:
        value = netlink.attribute(0, struct.pack("=Q", symbol_errors))
        group += netlink.attribute(0x8000 | 4, value)
    header = netlink.attribute(1, struct.pack("=I", ifindex))
    body = netlink.GENERIC_HEADER.pack(33, 1, 0) + netlink.attribute(0x8000 | 2, header)
    return netlink.request(ETHTOOL_FAMILY, 0, body + netlink.attribute(0x8000 | 4, group))


def _nest(name: str, content: bytes) -> bytes:
    return netlink.attribute(0x8000 | NUMBER[name], content)


def _bytes(name: str, content: bytes) -> bytes:
    return netlink.attribute(NUMBER[name], content)


def _u8(name: str, value: int) -> bytes:
    return netlink.attribute(NUMBER[name], struct.pack("=B", value))


def _u32(name: str, value: int) -> bytes:
    return netlink.attribute(NUMBER[name], struct.pack("=I", value))


def _u64(name: str, value: int) -> bytes:
    return netlink.attribute(NUMBER[name], struct.pack("=Q", value))


def _text(name: str, value: str) -> bytes:
    return netlink.attribute(NUMBER[name], f"{value}\0".encode())
