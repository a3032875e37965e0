"""Numbers of the RDMA interfaces, each once.

Every member is a lowercase word (what documents print) and carries the number the
kernel and the verbs library use for it.
"""

from enum import StrEnum
from functools import cache
from typing import Final, Self

ROCE_V2_PORT: Final = 4791
"""Of UDP: IBTA, annex A17."""


class Numbered(StrEnum):
    number: int

    def __new__(cls, word: str, number: int) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.number = number
        return member

    @classmethod
    def from_number(cls, number: int) -> Self | None:
        """The member with this number; None for a number that is not in the table."""
        return _by_number(cls).get(number)  # type: ignore[return-value]


@cache
def _by_number(kind: type[Numbered]) -> dict[int, Numbered]:
    return {member.number: member for member in reversed(kind)}


class PortState(Numbered):
    """enum ib_port_state, include/rdma/ib_verbs.h."""

    NOP = "nop", 0
    DOWN = "down", 1
    INIT = "init", 2
    ARMED = "armed", 3
    ACTIVE = "active", 4
    ACTIVE_DEFER = "active_defer", 5


class PhysState(Numbered):
    """enum ib_port_phys_state, include/rdma/ib_verbs.h."""

    SLEEP = "sleep", 1
    POLLING = "polling", 2
    DISABLED = "disabled", 3
    TRAINING = "training", 4
    LINK_UP = "link_up", 5
    LINK_ERROR_RECOVERY = "link_error_recovery", 6
    PHY_TEST = "phy_test", 7


class LinkLayer(Numbered):
    """IBV_LINK_LAYER_*, infiniband/verbs.h; 100 is Apple's, x/rdma LinkLayerThunderbolt."""

    UNSPECIFIED = "unspecified", 0
    INFINIBAND = "infiniband", 1
    ETHERNET = "ethernet", 2
    THUNDERBOLT = "thunderbolt", 100


class NodeType(Numbered):
    """enum rdma_node_type, include/rdma/ib_verbs.h."""

    CA = "ca", 1
    SWITCH = "switch", 2
    ROUTER = "router", 3
    RNIC = "rnic", 4
    USNIC = "usnic", 5
    USNIC_UDP = "usnic_udp", 6
    UNSPECIFIED = "unspecified", 7


class GidType(Numbered):
    """enum ibv_gid_type, infiniband/verbs.h."""

    IB = "ib", 0
    ROCE_V1 = "roce_v1", 1
    ROCE_V2 = "roce_v2", 2


class NetnsMode(Numbered):
    """RDMA_NLDEV_SYS_ATTR_NETNS_MODE, rdma_netlink.h."""

    EXCLUSIVE = "exclusive", 0
    SHARED = "shared", 1


class DriverId(Numbered):
    """enum rdma_driver_id, rdma/ib_user_ioctl_verbs.h; the word is rdma-core's provider."""

    UNKNOWN = "unknown", 0
    MLX5 = "mlx5", 1
    MLX4 = "mlx4", 2
    CXGB3 = "cxgb3", 3
    CXGB4 = "cxgb4", 4
    MTHCA = "mthca", 5
    BNXT_RE = "bnxt_re", 6
    OCRDMA = "ocrdma", 7
    NES = "nes", 8
    IRDMA = "irdma", 9
    VMW_PVRDMA = "vmw_pvrdma", 10
    QEDR = "qedr", 11
    HNS = "hns", 12
    USNIC = "usnic", 13
    RXE = "rxe", 14
    HFI1 = "hfi1", 15
    QIB = "qib", 16
    EFA = "efa", 17
    SIW = "siw", 18
    ERDMA = "erdma", 19
    MANA = "mana", 20


class DeviceType(Numbered):
    """enum rdma_nl_dev_type, rdma/rdma_netlink.h: what kind of part of another device one is."""

    SMI = "smi", 1  # a plane of an adapter, for subnet management: it has no uverbs node


class QpType(Numbered):
    """enum ibv_qp_type, infiniband/verbs.h."""

    RC = "rc", 2
    UC = "uc", 3
    UD = "ud", 4
    RAW_PACKET = "raw_packet", 8
    XRC_SEND = "xrc_send", 9
    XRC_RECV = "xrc_recv", 10


class MigrationState(Numbered):
    """enum ibv_mig_state, infiniband/verbs.h."""

    MIGRATED = "migrated", 0
    REARM = "rearm", 1
    ARMED = "armed", 2


class KernelQpType(Numbered):
    """enum ib_qp_type, include/rdma/ib_verbs.h: what nldev shows."""

    SMI = "smi", 0
    GSI = "gsi", 1
    RC = "rc", 2
    UC = "uc", 3
    UD = "ud", 4
    RAW_IPV6 = "raw_ipv6", 5
    RAW_ETHERTYPE = "raw_ethertype", 6
    RAW_PACKET = "raw_packet", 8
    XRC_INI = "xrc_ini", 9
    XRC_TGT = "xrc_tgt", 10
    DRIVER = "driver", 255


OF_THE_KERNEL = (KernelQpType.SMI, KernelQpType.GSI)
"""Queue pairs that the kernel itself keeps on every port, for management."""


class DataOp(StrEnum):
    """What an end of a pingpong moves its data by."""

    SEND = "send"
    WRITE = "write"
    READ = "read"


class QpState(Numbered):
    """enum ibv_qp_state, infiniband/verbs.h."""

    RESET = "reset", 0
    INIT = "init", 1
    RTR = "rtr", 2
    RTS = "rts", 3
    SQD = "sqd", 4
    SQE = "sqe", 5
    ERR = "err", 6


MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
"""enum ibv_mtu, infiniband/verbs.h → bytes."""

MTU_NUMBER = {size: number for number, size in MTU_BYTES.items()}

ROCE_HEADERS = 96
"""Bytes that the kernel takes off a netdev's MTU: GRH, UDP, BTH, extensions, ICRC
(include/rdma/ib_addr.h, iboe_get_mtu)."""


def roce_mtu(netdev_mtu: int) -> int | None:
    """The RoCE MTU that fits a netdev's; None for one that is too small for any."""
    fitting = (size for size in MTU_BYTES.values() if size + ROCE_HEADERS <= netdev_mtu)
    return max(fitting, default=None)


THUNDERBOLT_TRANSPORT = 100
"""ibv_device.transport_type of Apple's library."""

LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
"""enum ib_port_width, rdma/ib_verbs.h → lanes."""

LANE_RATES = {
    1: (2.5, ""),
    2: (5.0, " DDR"),
    4: (10.0, " QDR"),
    8: (10.0, " FDR10"),
    16: (14.0, " FDR"),
    32: (25.0, " EDR"),
    64: (50.0, " HDR"),
    128: (100.0, " NDR"),
}
"""enum ib_port_speed, rdma/ib_verbs.h → Gb/s of a lane, and the word of sysfs's `rate`."""

PKEY_BASE = 0x7FFF
"""The bits of a P_Key that name the partition; a row without any of them is empty (IBA 10.9)."""

PKEY_FULL = 0x8000
"""Full membership: limited members of a partition do not reach each other."""

NO_LID = frozenset({0, 0xFFFF})
"""LIDs of a port that no subnet manager has configured: 0, and the permissive LID that
some ConnectX firmware shows instead."""

GID_BYTES = 16

DEVICE_NAME_BYTES = 63
"""IB_DEVICE_NAME_MAX without its NUL, include/uapi/rdma/rdma_netlink.h."""


def is_device_name(text: str) -> bool:
    """Whether a device can have this name: it is one folder of sysfs, and one line of text.

    The kernel itself refuses no control character to root's `rdma dev set`; no driver gives one.
    """
    fits = 0 < len(text.encode("utf-8", "surrogateescape")) <= DEVICE_NAME_BYTES
    return fits and text not in (".", "..") and "/" not in text and text.isprintable()
