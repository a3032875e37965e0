"""The C structures of infiniband/verbs.h as ctypes sees them; no calls.

LP64 alone, Linux and Darwin. Sources: infiniband/verbs.h of rdma-core 44 and 65, which
a test compiles and compares; for Darwin the public ABI tests of tmc/apple/rdma.
"""

import ctypes
import os
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
        """Every integer field by its C name, "tm_caps.max_sge" for one of a structure in it."""
        found: dict[str, int] = {}
        for name, *_ in self._fields_:
            value: Any = getattr(self, name)
            if isinstance(value, Struct):
                found |= {f"{name}.{inner}": each for inner, each in value.numbers().items()}
            elif isinstance(value, int):
                found[name] = value
        return found


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


class IbvOdpCaps(Struct):
    """struct ibv_odp_caps; the structure per_transport_caps is spread out."""

    _fields_ = (
        ("general_caps", c_uint64),
        ("rc_odp_caps", c_uint32),
        ("uc_odp_caps", c_uint32),
        ("ud_odp_caps", c_uint32),
    )


class IbvTsoCaps(Struct):
    """struct ibv_tso_caps."""

    _fields_ = (("max_tso", c_uint32), ("supported_qpts", c_uint32))


class IbvRssCaps(Struct):
    """struct ibv_rss_caps."""

    _fields_ = (
        ("supported_qpts", c_uint32),
        ("max_rwq_indirection_tables", c_uint32),
        ("max_rwq_indirection_table_size", c_uint32),
        ("rx_hash_fields_mask", c_uint64),
        ("rx_hash_function", c_uint8),
    )


class IbvPacketPacingCaps(Struct):
    """struct ibv_packet_pacing_caps; rates in kbit/s."""

    _fields_ = (
        ("qp_rate_limit_min", c_uint32),
        ("qp_rate_limit_max", c_uint32),
        ("supported_qpts", c_uint32),
    )


class IbvTmCaps(Struct):
    """struct ibv_tm_caps."""

    _fields_ = (
        ("max_rndv_hdr_size", c_uint32),
        ("max_num_tags", c_uint32),
        ("flags", c_uint32),
        ("max_ops", c_uint32),
        ("max_sge", c_uint32),
    )


class IbvCqModerationCaps(Struct):
    """struct ibv_cq_moderation_caps; the period in µs."""

    _fields_ = (("max_cq_count", c_uint16), ("max_cq_period", c_uint16))


class IbvPciAtomicCaps(Struct):
    """struct ibv_pci_atomic_caps."""

    _fields_ = (("fetch_add", c_uint16), ("swap", c_uint16), ("compare_swap", c_uint16))


class IbvDeviceAttrEx(Struct):
    """struct ibv_device_attr_ex as rdma-core 35 to 65 have it."""

    _fields_ = (
        ("orig_attr", IbvDeviceAttr),
        ("comp_mask", c_uint32),
        ("odp_caps", IbvOdpCaps),
        ("completion_timestamp_mask", c_uint64),
        ("hca_core_clock", c_uint64),  # kHz
        ("device_cap_flags_ex", c_uint64),
        ("tso_caps", IbvTsoCaps),
        ("rss_caps", IbvRssCaps),
        ("max_wq_type_rq", c_uint32),
        ("packet_pacing_caps", IbvPacketPacingCaps),
        ("raw_packet_caps", c_uint32),
        ("tm_caps", IbvTmCaps),
        ("cq_mod_caps", IbvCqModerationCaps),
        ("max_dm_size", c_uint64),
        ("pci_atomic_caps", IbvPciAtomicCaps),
        ("xrc_odp_caps", c_uint32),
        ("phys_port_cnt_ex", c_uint32),
    )


class IbvPortAttr(Struct):
    """struct ibv_port_attr up to what every library writes.

    The symbol ibv_query_port of libibverbs writes the 48 bytes up to flags, the function of
    struct verbs_context port_cap_flags2 too; Darwin's writes 52. active_speed_ex is not read.
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
        ("port_cap_flags2", c_uint16),
    )


FLUSHED: Final = 5
"""IBV_WC_WR_FLUSH_ERR."""

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
        ("_before_alloc_mw", c_void_p * 7),
        ("alloc_mw", c_void_p),
        ("bind_mw", c_void_p),
        ("dealloc_mw", c_void_p),
        ("_before_poll_cq", c_void_p),
        ("poll_cq", c_void_p),  # (cq, entries, IbvWc[]) → their count, or negative
        ("req_notify_cq", c_void_p),  # (cq, solicited_only) → errno
        ("_before_post_srq_recv", c_void_p * 7),
        ("post_srq_recv", c_void_p),
        ("_before_post_send", c_void_p * 4),
        ("post_send", c_void_p),  # (qp, IbvSendWr*, IbvSendWr** that failed) → errno
        ("post_recv", c_void_p),  # (qp, IbvRecvWr*, IbvRecvWr** that failed) → errno
        ("_after_post_recv", c_void_p * 5),
    )


_MUTEX_BYTES: Final = 48 if os.uname().machine == "aarch64" else 40
"""sizeof(pthread_mutex_t) of glibc and musl on LP64."""


class IbvContext(Struct):
    """struct ibv_context; allocated by the library. On Darwin, up to the mutex alone."""

    _fields_ = (
        ("device", c_void_p),
        ("ops", IbvContextOps),
        ("cmd_fd", c_int32),
        ("async_fd", c_int32),
        ("num_comp_vectors", c_int32),
        ("_mutex", c_uint64 * (_MUTEX_BYTES // 8)),
        ("abi_compat", c_void_p),
    )


class VerbsContext(Struct):
    """struct verbs_context up to the struct ibv_context that it ends with.

    It grows at its beginning: `sz` says how much of it the library has. Only there where
    abi_compat is ABI_IS_EXTENDED; never on Darwin.
    """

    _fields_ = (
        ("query_port", c_void_p),  # (context, port, IbvPortAttr*, size) → errno
        ("advise_mr", c_void_p),
        ("alloc_null_mr", c_void_p),
        ("read_counters", c_void_p),
        ("attach_counters_point_flow", c_void_p),
        ("create_counters", c_void_p),
        ("destroy_counters", c_void_p),
        ("reg_dm_mr", c_void_p),
        ("alloc_dm", c_void_p),
        ("free_dm", c_void_p),
        ("modify_flow_action_esp", c_void_p),
        ("destroy_flow_action", c_void_p),
        ("create_flow_action_esp", c_void_p),
        ("modify_qp_rate_limit", c_void_p),
        ("alloc_parent_domain", c_void_p),
        ("dealloc_td", c_void_p),
        ("alloc_td", c_void_p),
        ("modify_cq", c_void_p),
        ("post_srq_ops", c_void_p),
        ("destroy_rwq_ind_table", c_void_p),
        ("create_rwq_ind_table", c_void_p),
        ("destroy_wq", c_void_p),
        ("modify_wq", c_void_p),
        ("create_wq", c_void_p),
        ("query_rt_values", c_void_p),
        ("create_cq_ex", c_void_p),
        ("_priv", c_void_p),
        ("query_device_ex", c_void_p),  # (context, input, IbvDeviceAttrEx*, size) → errno
        ("ibv_destroy_flow", c_void_p),
        ("_placeholder2", c_void_p),
        ("ibv_create_flow", c_void_p),
        ("_placeholder1", c_void_p),
        ("open_qp", c_void_p),
        ("create_qp_ex", c_void_p),
        ("get_srq_num", c_void_p),
        ("create_srq_ex", c_void_p),
        ("open_xrcd", c_void_p),
        ("close_xrcd", c_void_p),
        ("_placeholder3", c_uint64),
        ("sz", c_size_t),
    )


ABI_IS_EXTENDED: Final = (1 << 64) - 1
"""__VERBS_ABI_IS_EXTENDED."""


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


class IbvCompChannel(Struct):
    """struct ibv_comp_channel; allocated by the library."""

    _fields_ = (("context", c_void_p), ("fd", c_int32), ("refcnt", c_int32))


class IbvSrqAttr(Struct):
    """struct ibv_srq_attr."""

    _fields_ = (("max_wr", c_uint32), ("max_sge", c_uint32), ("srq_limit", c_uint32))


class IbvSrqInitAttr(Struct):
    """struct ibv_srq_init_attr."""

    _fields_ = (("srq_context", c_void_p), ("attr", IbvSrqAttr))


class IbvTmCap(Struct):
    """struct ibv_tm_cap."""

    _fields_ = (("max_num_tags", c_uint32), ("max_ops", c_uint32))


class IbvSrqInitAttrEx(Struct):
    """struct ibv_srq_init_attr_ex."""

    _fields_ = (
        ("srq_context", c_void_p),
        ("attr", IbvSrqAttr),
        ("comp_mask", c_uint32),
        ("srq_type", c_int32),
        ("pd", c_void_p),
        ("xrcd", c_void_p),
        ("cq", c_void_p),
        ("tm_cap", IbvTmCap),
    )


class IbvXrcdInitAttr(Struct):
    """struct ibv_xrcd_init_attr."""

    _fields_ = (("comp_mask", c_uint32), ("fd", c_int32), ("oflags", c_int32))


class IbvRxHashConf(Struct):
    """struct ibv_rx_hash_conf."""

    _fields_ = (
        ("rx_hash_function", c_uint8),
        ("rx_hash_key_len", c_uint8),
        ("rx_hash_key", c_void_p),
        ("rx_hash_fields_mask", c_uint64),
    )


class IbvQpInitAttrEx(Struct):
    """struct ibv_qp_init_attr_ex; what stands before comp_mask is struct ibv_qp_init_attr."""

    _fields_ = (
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("cap", IbvQpCap),
        ("qp_type", c_int32),
        ("sq_sig_all", c_int32),
        ("comp_mask", c_uint32),
        ("pd", c_void_p),
        ("xrcd", c_void_p),
        ("create_flags", c_uint32),
        ("max_tso_header", c_uint16),
        ("rwq_ind_tbl", c_void_p),
        ("rx_hash_conf", IbvRxHashConf),
        ("source_qpn", c_uint32),
        ("send_ops_flags", c_uint64),
    )


class IbvMw(Struct):
    """struct ibv_mw; allocated by the library."""

    _fields_ = (
        ("context", c_void_p),
        ("pd", c_void_p),
        ("rkey", c_uint32),
        ("handle", c_uint32),
        ("type", c_int32),
    )


class IbvMwBindInfo(Struct):
    """struct ibv_mw_bind_info."""

    _fields_ = (
        ("mr", c_void_p),
        ("addr", c_uint64),
        ("length", c_uint64),
        ("mw_access_flags", c_uint32),
    )


class IbvMwBind(Struct):
    """struct ibv_mw_bind."""

    _fields_ = (("wr_id", c_uint64), ("send_flags", c_uint32), ("bind_info", IbvMwBindInfo))


_Mac: Final = c_uint8 * 6


class IbvFlowEthFilter(Struct):
    """struct ibv_flow_eth_filter."""

    _fields_ = (
        ("dst_mac", _Mac),
        ("src_mac", _Mac),
        ("ether_type", c_uint16),  # big-endian
        ("vlan_tag", c_uint16),  # big-endian
    )


class IbvFlowSpecEth(Struct):
    """struct ibv_flow_spec_eth."""

    _fields_ = (
        ("type", c_int32),
        ("size", c_uint16),
        ("val", IbvFlowEthFilter),
        ("mask", IbvFlowEthFilter),
    )


class IbvFlowIpv4Filter(Struct):
    """struct ibv_flow_ipv4_filter."""

    _fields_ = (("src_ip", c_uint32), ("dst_ip", c_uint32))  # big-endian


class IbvFlowSpecIpv4(Struct):
    """struct ibv_flow_spec_ipv4."""

    _fields_ = (
        ("type", c_int32),
        ("size", c_uint16),
        ("val", IbvFlowIpv4Filter),
        ("mask", IbvFlowIpv4Filter),
    )


class IbvFlowIpv4ExtFilter(Struct):
    """struct ibv_flow_ipv4_ext_filter."""

    _fields_ = (
        ("src_ip", c_uint32),  # big-endian
        ("dst_ip", c_uint32),  # big-endian
        ("proto", c_uint8),
        ("tos", c_uint8),
        ("ttl", c_uint8),
        ("flags", c_uint8),
    )


class IbvFlowSpecIpv4Ext(Struct):
    """struct ibv_flow_spec_ipv4_ext."""

    _fields_ = (
        ("type", c_int32),
        ("size", c_uint16),
        ("val", IbvFlowIpv4ExtFilter),
        ("mask", IbvFlowIpv4ExtFilter),
    )


class IbvFlowTcpUdpFilter(Struct):
    """struct ibv_flow_tcp_udp_filter."""

    _fields_ = (("dst_port", c_uint16), ("src_port", c_uint16))  # big-endian


class IbvFlowSpecTcpUdp(Struct):
    """struct ibv_flow_spec_tcp_udp."""

    _fields_ = (
        ("type", c_int32),
        ("size", c_uint16),
        ("val", IbvFlowTcpUdpFilter),
        ("mask", IbvFlowTcpUdpFilter),
    )


class IbvFlowAttr(Struct):
    """struct ibv_flow_attr; its specs follow it in memory."""

    _fields_ = (
        ("comp_mask", c_uint32),
        ("type", c_int32),
        ("size", c_uint16),  # with the specs
        ("priority", c_uint16),
        ("num_of_specs", c_uint8),
        ("port", c_uint8),
        ("flags", c_uint32),
    )


class IbvFlow(Struct):
    """struct ibv_flow; allocated by the library."""

    _fields_ = (("comp_mask", c_uint32), ("context", c_void_p), ("handle", c_uint32))


class IbvAsyncEvent(Struct):
    """struct ibv_async_event."""

    _fields_ = (("element", c_void_p), ("event_type", c_int32))


class IbvSge(Struct):
    """struct ibv_sge."""

    _fields_ = (
        ("addr", c_uint64),
        ("length", c_uint32),
        ("lkey", c_uint32),
    )


class _Rdma(ctypes.Structure):
    _fields_ = (("remote_addr", c_uint64), ("rkey", c_uint32))


class _Atomic(ctypes.Structure):
    _fields_ = (
        ("remote_addr", c_uint64),
        ("compare_add", c_uint64),
        ("swap", c_uint64),
        ("rkey", c_uint32),
    )


class _Ud(ctypes.Structure):
    _fields_ = (("ah", c_void_p), ("remote_qpn", c_uint32), ("remote_qkey", c_uint32))


class _Wr(ctypes.Union):
    _fields_ = (("rdma", _Rdma), ("atomic", _Atomic), ("ud", _Ud))


class _BindMw(ctypes.Structure):
    _fields_ = (("mw", c_void_p), ("rkey", c_uint32), ("bind_info", IbvMwBindInfo))


class IbvSendWr(Struct):
    """struct ibv_send_wr."""

    _fields_ = (
        ("wr_id", c_uint64),
        ("next", c_void_p),
        ("sg_list", POINTER(IbvSge)),
        ("num_sge", c_int32),
        ("opcode", c_int32),
        ("send_flags", c_uint32),
        ("imm_data", c_uint32),  # big-endian; of *_INV invalidate_rkey, which is not
        ("wr", _Wr),
        ("qp_type", c_uint32),  # xrc.remote_srqn
        ("bind_mw", _BindMw),  # or tso
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
