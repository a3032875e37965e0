"""What each counter counts, in which unit, and how wide it is.

Names: Documentation/ABI/stable/sysfs-class-infiniband and the drivers' own tables
(drivers/infiniband/hw/*/…counters.c, sw/rxe/rxe_hw_counters.c). Widths of PortCounters:
drivers/infiniband/core/sysfs.c, PORT_PMA_ATTR(name, counter, width, offset); they stay at
their greatest value (InfiniBand Architecture Specification, vol. 1, PortCounters).
"""

from enum import StrEnum
from functools import cache
from typing import Final

from rdmadiag.facts.counters import CounterSource
from rdmadiag.frozen import dataclass


class Group(StrEnum):
    """What a rise of a counter is a sign of. Rules name groups."""

    TRAFFIC = "traffic"  # nothing wrong
    LINK_DOWN = "link_down"  # the link went down
    LINK_RECOVERY = "link_recovery"  # it trained anew
    PHYSICAL = "physical"  # damaged on the wire
    CORRECTED = "corrected"  # damaged on the wire, and corrected by FEC
    UNCORRECTABLE = "uncorrectable"  # more than FEC could correct
    DISCARD = "discard"  # dropped by this end
    RECEIVER = "receiver"  # nothing was posted to receive into
    RETRANSMISSION = "retransmission"  # lost or out of order, and sent again
    RETRIES = "retries"  # given up: a connection broke
    REFUSED = "refused"  # a program's request was refused
    CONGESTION = "congestion"  # packets were marked, or the sender was asked to slow down
    IGNORED = "ignored"  # congestion notifications that had no effect
    WAIT = "wait"  # ready to send, and no credit to
    PAUSE = "pause"  # Ethernet pause frames
    CM_RETRIES = "cm_retries"  # the connection manager sent or got a message again
    GAUGE = "gauge"  # goes up and down
    OTHER = "other"  # not known here


class Unit(StrEnum):
    """Of what a counter counts."""

    BYTES = "bytes"
    PACKETS = "packets"
    EVENTS = "events"
    TICKS = "ticks"  # of a clock of unknown rate
    OBJECTS = "objects"
    BITS = "bits"
    BLOCKS = "blocks"  # codewords of FEC


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a counter counts, its unit and its width."""

    group: Group
    unit: Unit
    scale: int = 1  # amount in `unit` of one count
    bits: int = 64
    saturates: bool = False  # stays at its greatest value instead of starting over


_G, _U = Group, Unit

_SATURATING: Final[dict[str, tuple[Group, Unit, int]]] = {
    "symbol_error": (_G.PHYSICAL, _U.EVENTS, 16),
    "link_error_recovery": (_G.LINK_RECOVERY, _U.EVENTS, 8),
    "link_downed": (_G.LINK_DOWN, _U.EVENTS, 8),
    "port_rcv_errors": (_G.PHYSICAL, _U.PACKETS, 16),
    # Marked bad by whoever sent them: damaged further up the path.
    "port_rcv_remote_physical_errors": (_G.OTHER, _U.PACKETS, 16),
    "port_rcv_switch_relay_errors": (_G.OTHER, _U.PACKETS, 16),
    "port_xmit_discards": (_G.DISCARD, _U.PACKETS, 16),
    "port_xmit_constraint_errors": (_G.OTHER, _U.PACKETS, 8),
    "port_rcv_constraint_errors": (_G.OTHER, _U.PACKETS, 8),
    "local_link_integrity_errors": (_G.PHYSICAL, _U.EVENTS, 4),
    "excessive_buffer_overrun_errors": (_G.PHYSICAL, _U.EVENTS, 4),
    "VL15_dropped": (_G.OTHER, _U.PACKETS, 16),
    "port_xmit_wait": (_G.WAIT, _U.TICKS, 32),
}

_WIDE: Final[dict[str, tuple[Unit, int]]] = {  # 64 bits in PortCountersExtended, 32 without
    "port_xmit_data": (_U.BYTES, 4),  # PortXmitData counts octets divided by 4
    "port_rcv_data": (_U.BYTES, 4),
    "port_xmit_packets": (_U.PACKETS, 1),
    "port_rcv_packets": (_U.PACKETS, 1),
    "unicast_xmit_packets": (_U.PACKETS, 1),
    "unicast_rcv_packets": (_U.PACKETS, 1),
    "multicast_xmit_packets": (_U.PACKETS, 1),
    "multicast_rcv_packets": (_U.PACKETS, 1),
}
ONLY_EXTENDED: Final = frozenset({"unicast_xmit_packets", "unicast_rcv_packets"})
"""Their presence says that the port has PortCountersExtended."""

_FEC: Final[dict[str, tuple[Group, Unit]]] = {  # as ethtool --include-statistics names them
    "corrected_blocks": (_G.CORRECTED, _U.BLOCKS),
    "uncorrectable_blocks": (_G.UNCORRECTABLE, _U.BLOCKS),
    "corrected_bits": (_G.CORRECTED, _U.BITS),
}

# fmt: off
_DRIVERS: Final[dict[Group, tuple[str, ...]]] = {
    Group.LINK_DOWN: (
        "link_downed", "carrier_down_count", "carrier_changes", "IOLinkActiveCount",
    ),
    Group.PHYSICAL: (
        "rx_icrc_encapsulated", "rx_crc_errors", "rx_frame_errors", "rx_length_errors",
        "rcv_icrc_errs", "rx_invalid_icrc_cnt", "SymbolErrorDuringCarrier",
    ),
    Group.DISCARD: (
        "rx_roce_discards", "tx_roce_discards", "rx_drops", "rx_missed_errors",
        "rx_over_errors", "rx_fifo_errors", "tx_fifo_errors", "roce_slow_restart_drops",
        "ip4InDiscards", "ip6InDiscards", "ip4OutDiscards", "ip6OutDiscards",
    ),
    Group.RECEIVER: (
        "out_of_buffer", "rnr_nak_retry_err", "rcvd_rnr_err", "send_rnr_err",
        "rnr_naks_rcvd", "oos_drop_count_rnr",
    ),
    Group.RETRANSMISSION: (
        "out_of_sequence", "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err",
        "duplicate_request", "dup_req", "to_retransmits", "seq_err_naks_rcvd", "missing_resp",
        "out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "oos_drop_count",
        "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "retransSegs",
        "tcpRetransSegs", "retrans_bytes", "retrans_pkts", "retrans_timeout_events",
        "RetransSegs", "rx_out_of_sequence",
    ),
    Group.RETRIES: (
        "req_transport_retries_exceeded", "req_rnr_retries_exceeded", "max_retry_exceeded",
        "retry_exceeded_err", "retry_rnr_exceeded_err", "impaired_remote_conn_events",
        "unresponsive_remote_events",
    ),
    Group.REFUSED: (
        "req_remote_access_errors", "resp_remote_access_errors", "req_remote_invalid_request",
        "resp_local_length_error", "remote_access_err", "remote_invalid_req_err",
        "remote_op_err", "local_protection_err", "bad_resp_err", "local_qp_op_err",
    ),
    Group.CONGESTION: (
        "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "cnpHandled",
        "cnpSent", "RxECNMrkd", "cc_rx_ce_pkts", "cc_rx_cnp_pkts", "cc_tx_cnp_pkts",
        "rx_cnp_pkts", "tx_cnp_pkts", "rx_ecn_marked_pkts", "roce_slow_restart_cnps",
    ),
    Group.IGNORED: ("rp_cnp_ignored", "cnpIgnored"),
    Group.PAUSE: ("rx_pause_frames", "tx_pause_frames"),
    Group.TRAFFIC: (
        "rx_write_requests", "rx_read_requests", "rx_atomic_requests", "rx_dct_connect",
        "sent_pkts", "rcvd_pkts", "rdma_sends", "rdma_recvs", "ack_deferred",
        "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "multicast", "rx_pkts", "tx_pkts",
        "rdma_tx_packets", "rdma_rx_packets", "rdma_tx_bytes", "rdma_rx_bytes",
        "rx_compressed", "tx_compressed",
    ),
}
# fmt: on
_GROUP: Final = {name: group for group, names in _DRIVERS.items() for name in names}
_GAUGES: Final = ("active_", "watermark_")  # bnxt_re

_MLX5_32: Final = frozenset(
    {  # fields of query_q_counter_out, 32 bits each: drivers/infiniband/hw/mlx5/counters.c
        "rx_write_requests", "rx_read_requests", "rx_atomic_requests", "rx_dct_connect",
        "out_of_buffer", "out_of_sequence", "duplicate_request", "rnr_nak_retry_err",
        "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err",
        "resp_local_length_error", "resp_cqe_error", "req_cqe_error",
        "req_remote_invalid_request", "req_remote_access_errors",
        "resp_remote_access_errors", "resp_cqe_flush_error", "req_cqe_flush_error",
        "req_transport_retries_exceeded", "req_rnr_retries_exceeded",
        "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
        "roce_slow_restart_cnps", "roce_slow_restart_trans",
    }
)  # fmt: skip
_MLX5: Final = ("mlx5_core", "mlx5_ib", "mlx5")


@cache
def meaning(source: CounterSource, name: str, driver: str | None, *, extended: bool) -> Meaning:
    """What is known of a counter; `extended`: the port has PortCountersExtended.

    A counter that nobody has described is one of 64 bits that says nothing by itself.
    """
    if source is CounterSource.PORT:
        return _of_port(name, extended=extended)
    if source is CounterSource.CM:  # drivers/infiniband/core/cm.c, cm_counter_groups
        again = name.startswith(("cm_tx_retries/", "cm_rx_duplicates/"))
        return Meaning(Group.CM_RETRIES if again else Group.TRAFFIC, Unit.EVENTS)
    if source is CounterSource.DRIVER:
        return _of_driver(name)
    if source is CounterSource.FEC:
        return _of_fec(name)
    if name.startswith(_GAUGES):
        return Meaning(Group.GAUGE, Unit.OBJECTS)
    plain = name.removeprefix("vport_")
    in_driver = source in (CounterSource.HW, CounterSource.DEVICE_HW, CounterSource.NLDEV)
    narrow = in_driver and driver in _MLX5 and plain in _MLX5_32
    return Meaning(_GROUP.get(plain, Group.OTHER), _unit(plain), bits=32 if narrow else 64)


def _of_port(name: str, *, extended: bool) -> Meaning:
    if name in _WIDE:
        unit, scale = _WIDE[name]
        bits = 64 if extended or name not in _NARROW_TOO else 32
        return Meaning(Group.TRAFFIC, unit, scale, bits, saturates=bits == 32)
    if name in _SATURATING:
        group, unit, bits = _SATURATING[name]
        return Meaning(group, unit, bits=bits, saturates=True)
    return Meaning(_GROUP.get(name, Group.OTHER), _unit(name))


def _of_fec(name: str) -> Meaning:
    """ "corrected_bits", or of one lane "corrected_bits/lane0", which the total has in it."""
    what, _, lane = name.partition("/")
    group, unit = _FEC.get(what, (Group.OTHER, Unit.EVENTS))
    return Meaning(Group.OTHER if lane else group, unit)


def _of_driver(name: str) -> Meaning:
    if name.rpartition("/")[2] in ("miss", "drops", "time_sa_mad"):
        return Meaning(Group.OTHER, Unit.EVENTS)
    return Meaning(Group.GAUGE, Unit.OBJECTS)


_NARROW_TOO: Final = frozenset(
    {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"}
)


def _unit(name: str) -> Unit:
    lowered = name.lower()
    if "bytes" in lowered or "octets" in lowered:
        return Unit.BYTES
    packets = ("packets", "pkts", "frames", "dropped", "discards", "out_of_", "icrc")
    return Unit.PACKETS if any(word in lowered for word in packets) else Unit.EVENTS
