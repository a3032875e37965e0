"""Which stack needs what of a device, and what for; one row each, read in its source."""

from typing import Final, Literal

from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """One stack's."""

    capability: str  # `Capability.name`
    stack: str  # as `gids --stack` knows it, where it does
    strength: Literal["required", "used"]  # fails without it; or goes another, slower way
    purpose: str
    source: str  # file, and the function or message in it


NEEDS: Final = (
    Need(
        "atomic_cap", "nvshmem", "required", "remote atomics and signals of put-with-signal",
        "nvshmem src/modules/transport/ibrc/ibrc.cpp: IBV_WR_ATOMIC_FETCH_AND_ADD",
    ),
    Need(
        "atomic_cap", "deepep", "required", "counts of the low-latency kernels, by NVSHMEM IBGDA",
        "DeepEP csrc/kernels/ibgda_device.cuh: nvshmemi_ibgda_amo_nonfetch_add",
    ),
    Need(
        "atomic_cap", "mori", "required", "it registers memory for remote atomics: EINVAL",
        "mori src/application/transport/rdma: RegisterRdmaMemoryRegion",
    ),
    Need(
        "atomic_cap", "mscclpp", "required", "signals between ranks",
        "mscclpp src/core/ib.cc: stageSendAtomicAdd",
    ),
    Need(
        "atomic_cap", "ucx", "used", "atomics of one-sided MPI and SHMEM; else emulated",
        "ucx src/uct/ib/base/ib_device.c: uct_ib_device_query, atomic_cap",
    ),
    Need(
        "max_srq", "ucx", "required", "rc and dc transports receive through a shared queue",
        "ucx src/uct/ib/rc/verbs/rc_verbs_iface.c: ibv_create_srq",
    ),
    Need(
        "mem_mgt_extensions", "nvme_rdma", "required", "fast registration of nvme_rdma",
        "linux drivers/nvme/host/rdma.c: \"Memory registrations not supported\"",
    ),
    Need(
        "mem_mgt_extensions", "nfs_rdma", "required", "fast registration of xprtrdma",
        "linux net/sunrpc/xprtrdma/frwr_ops.c: frwr_query_device",
    ),
    Need(
        "mem_mgt_extensions", "smb_direct", "required", "fast registration, client and ksmbd",
        "linux fs/smb/client/smbdirect.c, fs/smb/server/transport_rdma.c: frwr_is_supported",
    ),
    Need(
        "raw_ip_csum", "dpdk", "used", "checksums in hardware",
        "dpdk drivers/net/mlx5: hw_csum of device_cap_flags_ex",
    ),
    Need(
        "raw_ip_csum", "vma", "used", "checksums in hardware",
        "libvma src/vma/ib/base/verbs_extra.h: vma_is_rx_hw_csum_supported",
    ),
    Need(
        "raw_packet_cvlan_stripping", "dpdk", "used", "VLAN tags stripped in hardware",
        "dpdk drivers/net/mlx5: hw_vlan_strip of raw_packet_caps",
    ),
    Need(
        "raw_packet_scatter_fcs", "dpdk", "used", "frames with their checksum kept",
        "dpdk drivers/net/mlx5: hw_fcs_strip of raw_packet_caps",
    ),
    Need(
        "tso_qp_types", "dpdk", "used", "segmentation in hardware",
        "dpdk drivers/net/mlx5: tso of tso_caps.supported_qpts",
    ),
    Need(
        "rss_qp_types", "dpdk", "required", "receive queues behind an indirection table",
        "dpdk drivers/net/mlx5: rss_caps, ind_table_max_size",
    ),
    Need(
        "xrc", "openmpi", "used", "X queues of the openib BTL, which refuses the device without",
        "ompi opal/mca/btl/openib/btl_openib_component.c: \"XRC on device without XRC support\"",
    ),
    Need(
        "odp_rc", "rds", "used", "memory that is not pinned, by RDMA write and read",
        "linux net/rds/ib.c: odp_capable",
    ),
    Need(
        "max_dm_size", "perftest", "used", "buffers in the device's own memory (--use_dm … )",
        "rdma-core libibverbs/examples/rc_pingpong.c: use_dm, max_dm_size",
    ),
    Need(
        "odp", "perftest", "used", "--odp",
        "rdma-core libibverbs/examples/rc_pingpong.c: use_odp, rc_odp_caps",
    ),
)  # fmt: skip
"""In the order in which they are shown."""

STACKS: Final = tuple(dict.fromkeys(each.stack for each in NEEDS))
