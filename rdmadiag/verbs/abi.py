"""The C structures of infiniband/verbs.h as ctypes sees them; no calls.

LP64 alone, Linux and Darwin. Sources: infiniband/verbs.h of rdma-core 44 and 65, which
a test compiles and compares; for Darwin the public ABI tests of tmc/apple/rdma.
"""

import ctypes
from ctypes import (
    c_char,
    c_int32,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Final

from rdmadiag.ib import GID_BYTES


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
