"""Bits and words of infiniband/verbs.h in which a device says what it can do, each once."""

from typing import Final

from rdmadiag.facts.ib import Numbered


class DeviceCap(Numbered):
    """IBV_DEVICE_*: enum ibv_device_cap_flags, and the bits from 32 of device_cap_flags_ex."""

    RESIZE_MAX_WR = "resize_max_wr", 1 << 0
    BAD_PKEY_CNTR = "bad_pkey_cntr", 1 << 1
    BAD_QKEY_CNTR = "bad_qkey_cntr", 1 << 2
    RAW_MULTI = "raw_multi", 1 << 3
    AUTO_PATH_MIG = "auto_path_mig", 1 << 4
    CHANGE_PHY_PORT = "change_phy_port", 1 << 5
    UD_AV_PORT_ENFORCE = "ud_av_port_enforce", 1 << 6
    CURR_QP_STATE_MOD = "curr_qp_state_mod", 1 << 7
    SHUTDOWN_PORT = "shutdown_port", 1 << 8
    INIT_TYPE = "init_type", 1 << 9
    PORT_ACTIVE_EVENT = "port_active_event", 1 << 10
    SYS_IMAGE_GUID = "sys_image_guid", 1 << 11
    RC_RNR_NAK_GEN = "rc_rnr_nak_gen", 1 << 12
    SRQ_RESIZE = "srq_resize", 1 << 13
    N_NOTIFY_CQ = "n_notify_cq", 1 << 14
    MEM_WINDOW = "mem_window", 1 << 17
    UD_IP_CSUM = "ud_ip_csum", 1 << 18
    XRC = "xrc", 1 << 20
    MEM_MGT_EXTENSIONS = "mem_mgt_extensions", 1 << 21
    MEM_WINDOW_TYPE_2A = "mem_window_type_2a", 1 << 23
    MEM_WINDOW_TYPE_2B = "mem_window_type_2b", 1 << 24
    RC_IP_CSUM = "rc_ip_csum", 1 << 25
    RAW_IP_CSUM = "raw_ip_csum", 1 << 26
    MANAGED_FLOW_STEERING = "managed_flow_steering", 1 << 29
    RAW_SCATTER_FCS = "raw_scatter_fcs", 1 << 34
    PCI_WRITE_END_PADDING = "pci_write_end_padding", 1 << 36


class RawPacketCap(Numbered):
    """IBV_RAW_PACKET_CAP_*: enum ibv_raw_packet_caps."""

    CVLAN_STRIPPING = "cvlan_stripping", 1 << 0
    SCATTER_FCS = "scatter_fcs", 1 << 1
    IP_CSUM = "ip_csum", 1 << 2
    DELAY_DROP = "delay_drop", 1 << 3


class OdpCap(Numbered):
    """IBV_ODP_SUPPORT_*: enum ibv_odp_transport_cap_bits; the last two are of rdma-core 43."""

    SEND = "send", 1 << 0
    RECV = "recv", 1 << 1
    WRITE = "write", 1 << 2
    READ = "read", 1 << 3
    ATOMIC = "atomic", 1 << 4
    SRQ_RECV = "srq_recv", 1 << 5
    FLUSH = "flush", 1 << 6
    ATOMIC_WRITE = "atomic_write", 1 << 7


class AtomicCap(Numbered):
    """enum ibv_atomic_cap: atomic among the queue pairs of whom."""

    NONE = "none", 0
    HCA = "hca", 1  # of this device
    GLOB = "glob", 2  # of every device and CPU


class PciAtomicSize(Numbered):
    """enum ibv_pci_atomic_op_size."""

    BYTES_4 = "4_bytes", 1 << 0
    BYTES_8 = "8_bytes", 1 << 1
    BYTES_16 = "16_bytes", 1 << 2


class PortCap(Numbered):
    """IBV_PORT_*: enum ibv_port_cap_flags, which an InfiniBand port alone fills."""

    SM = "sm", 1 << 1
    NOTICE_SUP = "notice", 1 << 2
    TRAP_SUP = "trap", 1 << 3
    OPT_IPD_SUP = "opt_ipd", 1 << 4
    AUTO_MIGR_SUP = "auto_migr", 1 << 5
    SL_MAP_SUP = "sl_map", 1 << 6
    MKEY_NVRAM = "mkey_nvram", 1 << 7
    PKEY_NVRAM = "pkey_nvram", 1 << 8
    LED_INFO_SUP = "led_info", 1 << 9
    SYS_IMAGE_GUID_SUP = "sys_image_guid", 1 << 11
    PKEY_SW_EXT_PORT_TRAP_SUP = "pkey_sw_ext_port_trap", 1 << 12
    EXTENDED_SPEEDS_SUP = "extended_speeds", 1 << 14
    CAP_MASK2_SUP = "cap_mask2", 1 << 15
    CM_SUP = "cm", 1 << 16
    SNMP_TUNNEL_SUP = "snmp_tunnel", 1 << 17
    REINIT_SUP = "reinit", 1 << 18
    DEVICE_MGMT_SUP = "device_mgmt", 1 << 19
    VENDOR_CLASS_SUP = "vendor_class", 1 << 20
    DR_NOTICE_SUP = "dr_notice", 1 << 21
    CAP_MASK_NOTICE_SUP = "cap_mask_notice", 1 << 22
    BOOT_MGMT_SUP = "boot_mgmt", 1 << 23
    LINK_LATENCY_SUP = "link_latency", 1 << 24
    CLIENT_REG_SUP = "client_reg", 1 << 25
    IP_BASED_GIDS = "ip_based_gids", 1 << 26


class PortCap2(Numbered):
    """IBV_PORT_*: enum ibv_port_cap_flags2."""

    SET_NODE_DESC_SUP = "set_node_desc", 1 << 0
    INFO_EXT_SUP = "info_ext", 1 << 1
    VIRT_SUP = "virt", 1 << 2
    SWITCH_PORT_STATE_TABLE_SUP = "switch_port_state_table", 1 << 3
    LINK_WIDTH_2X_SUP = "link_width_2x", 1 << 4
    LINK_SPEED_HDR_SUP = "link_speed_hdr", 1 << 5
    LINK_SPEED_NDR_SUP = "link_speed_ndr", 1 << 10


class HashField(Numbered):
    """IBV_RX_HASH_*: enum ibv_rx_hash_fields."""

    SRC_IPV4 = "src_ipv4", 1 << 0
    DST_IPV4 = "dst_ipv4", 1 << 1
    SRC_IPV6 = "src_ipv6", 1 << 2
    DST_IPV6 = "dst_ipv6", 1 << 3
    SRC_PORT_TCP = "src_port_tcp", 1 << 4
    DST_PORT_TCP = "dst_port_tcp", 1 << 5
    SRC_PORT_UDP = "src_port_udp", 1 << 6
    DST_PORT_UDP = "dst_port_udp", 1 << 7
    IPSEC_SPI = "ipsec_spi", 1 << 8
    INNER = "inner", 1 << 31


class QpTypeBit(Numbered):
    """1 << enum ibv_qp_type, as supported_qpts has it."""

    RC = "rc", 1 << 2
    UC = "uc", 1 << 3
    UD = "ud", 1 << 4
    RAW_PACKET = "raw_packet", 1 << 8
    XRC_SEND = "xrc_send", 1 << 9
    XRC_RECV = "xrc_recv", 1 << 10


_COUNTED: Final = 64


def words(bits: int, table: type[Numbered]) -> tuple[str, ...]:
    """The words of the bits that are set; "bit_40" for one that the table does not know."""
    known = {each.number: str(each) for each in table}
    return tuple(known.get(1 << at, f"bit_{at}") for at in range(_COUNTED) if bits >> at & 1)
