"""The C structures of infiniband/verbs.h as ctypes sees them; no calls.

LP64 alone, Linux and Darwin. Sources: infiniband/verbs.h of rdma-core 44 and 65, which
a test compiles and compares; for Darwin the public ABI tests of tmc/apple/rdma.
"""

import ctypes
from ctypes import (
    POINTER,
    c_char,
    c_int32,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Final

from rdmadiag.facts.ib import GID_BYTES


class Struct(ctypes.Structure):
    """A structure whose numbers can be read as a dict."""

    def numbers(self) -> dict[str, int]:
        """Every integer field by its C name."""
        found: dict[str, Any] = {field[0]: getattr(self, field[0]) for field in self._fields_}
        return {name: value for name, value in found.items() if isinstance(value, int)}


class IbvDevice(Struct):
    """The start of struct ibv_device; allocated by the library."""

    _fields_ = (
        ("ops", c_void_p * 2),
        ("node_type", c_int32),
        ("transport_type", c_int32),
        ("name", c_char * 64),
        ("dev_name", c_char * 64),  # "uverbs0"; Linux
    )


class IbvDeviceAttr(Struct):
    """struct ibv_device_attr."""

    _fields_ = (
        ("fw_ver", c_char * 64),
        ("node_guid", c_uint64),  # big-endian
        ("sys_image_guid", c_uint64),  # big-endian
        ("max_mr_size", c_uint64),
        ("page_size_cap", c_uint64),
        ("vendor_id", c_uint32),
        ("vendor_part_id", c_uint32),
        ("hw_ver", c_uint32),
        ("max_qp", c_int32),
        ("max_qp_wr", c_int32),
        ("device_cap_flags", c_uint32),
        ("max_sge", c_int32),
        ("max_sge_rd", c_int32),
        ("max_cq", c_int32),
        ("max_cqe", c_int32),
        ("max_mr", c_int32),
        ("max_pd", c_int32),
        ("max_qp_rd_atom", c_int32),
        ("max_ee_rd_atom", c_int32),
        ("max_res_rd_atom", c_int32),
        ("max_qp_init_rd_atom", c_int32),
        ("max_ee_init_rd_atom", c_int32),
        ("atomic_cap", c_int32),
        ("max_ee", c_int32),
        ("max_rdd", c_int32),
        ("max_mw", c_int32),
        ("max_raw_ipv6_qp", c_int32),
        ("max_raw_ethy_qp", c_int32),
        ("max_mcast_grp", c_int32),
        ("max_mcast_qp_attach", c_int32),
        ("max_total_mcast_qp_attach", c_int32),
        ("max_ah", c_int32),
        ("max_fmr", c_int32),
        ("max_map_per_fmr", c_int32),
        ("max_srq", c_int32),
        ("max_srq_wr", c_int32),
        ("max_srq_sge", c_int32),
        ("max_pkeys", c_uint16),
        ("local_ca_ack_delay", c_uint8),
        ("phys_port_cnt", c_uint8),
    )


class IbvPortAttr(Struct):
    """struct ibv_port_attr up to what every library writes.

    The symbol ibv_query_port of libibverbs writes the 48 bytes up to flags; Darwin's
    writes 52. port_cap_flags2 and active_speed_ex are therefore not read.
    """

    _fields_ = (
        ("state", c_int32),
        ("max_mtu", c_int32),
        ("active_mtu", c_int32),
        ("gid_tbl_len", c_int32),
        ("port_cap_flags", c_uint32),
        ("max_msg_sz", c_uint32),
        ("bad_pkey_cntr", c_uint32),
        ("qkey_viol_cntr", c_uint32),
        ("pkey_tbl_len", c_uint16),
        ("lid", c_uint16),
        ("sm_lid", c_uint16),
        ("lmc", c_uint8),
        ("max_vl_num", c_uint8),
        ("sm_sl", c_uint8),
        ("subnet_timeout", c_uint8),
        ("init_type_reply", c_uint8),
        ("active_width", c_uint8),
        ("active_speed", c_uint8),
        ("phys_state", c_uint8),
        ("link_layer", c_uint8),
        ("flags", c_uint8),
    )


PORT_ATTR_BUFFER: Final = 128
"""Bytes to hand to ibv_query_port: more than any library's struct ibv_port_attr has."""


IbvGid: Final = c_uint8 * GID_BYTES
"""union ibv_gid, in network order."""


class IbvGidEntry(Struct):
    """struct ibv_gid_entry."""

    _fields_ = (
        ("gid", IbvGid),
        ("gid_index", c_uint32),
        ("port_num", c_uint32),
        ("gid_type", c_uint32),
        ("ndev_ifindex", c_uint32),
    )


class IbvContextOps(Struct):
    """struct ibv_context_ops: the calls that libibverbs has no symbol for; any may be null."""

    _fields_ = (
        ("_before_poll_cq", c_void_p * 11),
        ("poll_cq", c_void_p),  # (cq, entries, IbvWc[]) → their count, or negative
        ("req_notify_cq", c_void_p),  # (cq, solicited_only) → errno
        ("_before_post_send", c_void_p * 12),
        ("post_send", c_void_p),  # (qp, IbvSendWr*, IbvSendWr** that failed) → errno
        ("post_recv", c_void_p),  # (qp, IbvRecvWr*, IbvRecvWr** that failed) → errno
        ("_after_post_recv", c_void_p * 5),
    )


class IbvContext(Struct):
    """The start of struct ibv_context; allocated by the library."""

    _fields_ = (
        ("device", c_void_p),
        ("ops", IbvContextOps),
    )


class IbvMr(Struct):
    """struct ibv_mr; allocated by the library."""

    _fields_ = (
        ("context", c_void_p),
        ("pd", c_void_p),
        ("addr", c_void_p),
        ("length", c_size_t),
        ("handle", c_uint32),
        ("lkey", c_uint32),
        ("rkey", c_uint32),
    )


class IbvQp(Struct):
    """The start of struct ibv_qp; allocated by the library.

    qp_num is known to be there on Darwin too; of state and qp_type nothing is known.
    """

    _fields_ = (
        ("context", c_void_p),
        ("qp_context", c_void_p),
        ("pd", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("handle", c_uint32),
        ("qp_num", c_uint32),
        ("state", c_int32),
        ("qp_type", c_int32),
    )


class IbvQpCap(Struct):
    """struct ibv_qp_cap."""

    _fields_ = (
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
    )


class IbvQpInitAttr(Struct):
    """struct ibv_qp_init_attr."""

    _fields_ = (
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("cap", IbvQpCap),
        ("qp_type", c_int32),
        ("sq_sig_all", c_int32),
    )


class IbvGlobalRoute(Struct):
    """struct ibv_global_route."""

    _fields_ = (
        ("dgid", IbvGid),
        ("flow_label", c_uint32),
        ("sgid_index", c_uint8),
        ("hop_limit", c_uint8),
        ("traffic_class", c_uint8),
    )


class IbvAhAttr(Struct):
    """struct ibv_ah_attr."""

    _fields_ = (
        ("grh", IbvGlobalRoute),
        ("dlid", c_uint16),
        ("sl", c_uint8),
        ("src_path_bits", c_uint8),
        ("static_rate", c_uint8),
        ("is_global", c_uint8),  # whether grh counts
        ("port_num", c_uint8),
    )


class IbvQpAttr(Struct):
    """struct ibv_qp_attr."""

    _fields_ = (
        ("qp_state", c_int32),
        ("cur_qp_state", c_int32),
        ("path_mtu", c_int32),
        ("path_mig_state", c_int32),
        ("qkey", c_uint32),
        ("rq_psn", c_uint32),
        ("sq_psn", c_uint32),
        ("dest_qp_num", c_uint32),
        ("qp_access_flags", c_uint32),
        ("cap", IbvQpCap),
        ("ah_attr", IbvAhAttr),
        ("alt_ah_attr", IbvAhAttr),
        ("pkey_index", c_uint16),
        ("alt_pkey_index", c_uint16),
        ("en_sqd_async_notify", c_uint8),
        ("sq_draining", c_uint8),
        ("max_rd_atomic", c_uint8),
        ("max_dest_rd_atomic", c_uint8),
        ("min_rnr_timer", c_uint8),
        ("port_num", c_uint8),
        ("timeout", c_uint8),
        ("retry_cnt", c_uint8),
        ("rnr_retry", c_uint8),
        ("alt_port_num", c_uint8),
        ("alt_timeout", c_uint8),
        ("rate_limit", c_uint32),
        ("_end", c_uint32),  # union ibv_gid aligns its owners to 8 bytes; IbvGid does not
    )


class IbvSge(Struct):
    """struct ibv_sge."""

    _fields_ = (
        ("addr", c_uint64),
        ("length", c_uint32),
        ("lkey", c_uint32),
    )


class IbvSendWr(Struct):
    """struct ibv_send_wr; of its unions, what SEND does not need is opaque."""

    _fields_ = (
        ("wr_id", c_uint64),
        ("next", c_void_p),
        ("sg_list", POINTER(IbvSge)),
        ("num_sge", c_int32),
        ("opcode", c_int32),
        ("send_flags", c_uint32),
        ("imm_data", c_uint32),  # big-endian
        ("wr", c_uint64 * 4),  # rdma, atomic, ud
        ("qp_type", c_uint32),  # xrc
        ("bind_mw", c_uint64 * 6),  # or tso
    )


class IbvRecvWr(Struct):
    """struct ibv_recv_wr."""

    _fields_ = (
        ("wr_id", c_uint64),
        ("next", c_void_p),
        ("sg_list", POINTER(IbvSge)),
        ("num_sge", c_int32),
    )


class IbvWc(Struct):
    """struct ibv_wc. Of a failure, only wr_id, status, vendor_err and qp_num are valid."""

    _fields_ = (
        ("wr_id", c_uint64),
        ("status", c_int32),
        ("opcode", c_int32),
        ("vendor_err", c_uint32),
        ("byte_len", c_uint32),
        ("imm_data", c_uint32),  # big-endian
        ("qp_num", c_uint32),
        ("src_qp", c_uint32),
        ("wc_flags", c_uint32),
        ("pkey_index", c_uint16),
        ("slid", c_uint16),
        ("sl", c_uint8),
        ("dlid_path_bits", c_uint8),
    )
