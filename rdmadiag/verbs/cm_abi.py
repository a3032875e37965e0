"""The C structures of rdma/rdma_cma.h as ctypes sees them; no calls.

LP64 Linux. Source: rdma/rdma_cma.h of rdma-core 44 and 65, which a test compiles and compares.
"""

from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint8, c_uint16, c_uint32, c_void_p
from typing import Final

from rdmadiag.verbs.abi import IbvAhAttr, IbvContext, IbvGid, IbvQp, Struct

SockaddrStorage: Final = c_uint8 * 128
"""struct sockaddr_storage."""


class RdmaEventChannel(Struct):
    """struct rdma_event_channel; allocated by the library."""

    _fields_ = (("fd", c_int32),)


class RdmaIbAddr(Struct):
    """struct rdma_ib_addr."""

    _fields_ = (
        ("sgid", IbvGid),
        ("dgid", IbvGid),
        ("pkey", c_uint16),
        ("_end", c_uint8 * 6),  # union ibv_gid aligns its owners to 8 bytes; IbvGid does not
    )


class RdmaAddr(Struct):
    """struct rdma_addr."""

    _fields_ = (
        ("src_storage", SockaddrStorage),
        ("dst_storage", SockaddrStorage),
        ("addr", RdmaIbAddr),
    )


class RdmaRoute(Struct):
    """struct rdma_route."""

    _fields_ = (("addr", RdmaAddr), ("path_rec", c_void_p), ("num_paths", c_int32))


class RdmaCmId(Struct):
    """struct rdma_cm_id; allocated by the library."""

    _fields_ = (
        ("verbs", POINTER(IbvContext)),  # null until an address has named a device
        ("channel", POINTER(RdmaEventChannel)),
        ("context", c_void_p),
        ("qp", POINTER(IbvQp)),
        ("route", RdmaRoute),
        ("ps", c_int32),
        ("port_num", c_uint8),
        ("event", c_void_p),
        ("send_cq_channel", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq_channel", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("pd", c_void_p),
        ("qp_type", c_int32),
    )


class RdmaConnParam(Struct):
    """struct rdma_conn_param; the last two are not used where the id has a queue pair."""

    _fields_ = (
        ("private_data", c_void_p),
        ("private_data_len", c_uint8),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("qp_num", c_uint32),
    )


class RdmaUdParam(Struct):
    """struct rdma_ud_param."""

    _fields_ = (
        ("private_data", c_void_p),
        ("private_data_len", c_uint8),
        ("_gap", c_uint8 * 7),  # as at the end of RdmaIbAddr
        ("ah_attr", IbvAhAttr),
        ("qp_num", c_uint32),
        ("qkey", c_uint32),
    )


class RdmaConnEvent(Struct):
    """struct rdma_cm_event of a connection: `conn` is the union param."""

    _fields_ = (
        ("id", POINTER(RdmaCmId)),
        ("listen_id", POINTER(RdmaCmId)),
        ("event", c_int32),
        ("status", c_int32),
        ("conn", RdmaConnParam),
        ("_ud", c_uint8 * 32),  # the union is as long as its other member
    )


class RdmaUdEvent(Struct):
    """struct rdma_cm_event of UD and of multicast: `ud` is the union param."""

    _fields_ = (
        ("id", POINTER(RdmaCmId)),
        ("listen_id", POINTER(RdmaCmId)),
        ("event", c_int32),
        ("status", c_int32),
        ("ud", RdmaUdParam),
    )


class RdmaAddrinfo(Struct):
    """struct rdma_addrinfo."""

    _fields_ = (
        ("ai_flags", c_int32),
        ("ai_family", c_int32),
        ("ai_qp_type", c_int32),
        ("ai_port_space", c_int32),
        ("ai_src_len", c_uint32),
        ("ai_dst_len", c_uint32),
        ("ai_src_addr", c_void_p),
        ("ai_dst_addr", c_void_p),
        ("ai_src_canonname", c_char_p),
        ("ai_dst_canonname", c_char_p),
        ("ai_route_len", c_size_t),
        ("ai_route", c_void_p),
        ("ai_connect_len", c_size_t),
        ("ai_connect", c_void_p),
        ("ai_next", c_void_p),
    )


RAI_PASSIVE: Final = 1
RAI_NUMERICHOST: Final = 2

PS_TCP: Final = 0x0106
"""RDMA_PS_TCP: connected queue pairs."""

PS_UDP: Final = 0x0111
"""RDMA_PS_UDP: datagrams, whose addresses SIDR exchanges."""
