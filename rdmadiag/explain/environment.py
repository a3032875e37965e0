"""Environment variables of the stacks on top of verbs: what they mean, and what goes wrong.

Read from each stack's own source and documents; a variable of one stack is not read by
another, but for those that say so.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, or a family whose names begin alike."""

    name: str  # with a "*" at the end for a family
    stack: str
    meaning: str
    pitfalls: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    judge: Callable[[str], str | None] | None = None  # a value → what is to be said of it


def variable(name: str) -> Variable | None:
    """The row of this name, or of its family."""
    wanted = name.strip().removeprefix("$").upper()
    exact = next((row for row in VARIABLES if row.name == wanted), None)
    if exact:
        return exact
    families = [row for row in VARIABLES if row.name.endswith("*")]
    return next((row for row in families if wanted.startswith(row.name[:-1])), None)


def said_of(row: Variable, value: str) -> str | None:
    """What the value means, or what is wrong with it."""
    return row.judge(value.strip().strip("'\"")) if row.judge else None


# --- what is said of values --------------------------------------------------------------


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else None


def _gid_index(value: str) -> str | None:
    number = _number(value)
    if number is None:
        return f"{value!r} is no number: UCX refuses it, most others take it for row 0"
    if number < 0:
        return "below 0: the stack chooses for itself"
    if number > 255:
        return f"{number}: few GID tables have so many rows"
    return f"row {number} of the table of each port, unchecked: it may be empty, v1 or link-local"


def _timeout(value: str) -> str | None:
    number = _number(value)
    if number is None or not 0 <= number <= 31:
        return f"{value!r} is not between 0 and 31"
    if number == 0:
        return "0: the queue pair waits without end"
    seconds = 4.096e-6 * 2**number
    return f"4.096 µs x 2^{number} = {seconds:.3g} s for one try; hardware may take four times that"


def _retries(value: str) -> str | None:
    number = _number(value)
    if number is None or not 0 <= number <= 7:
        return f"{value!r} is not between 0 and 7, which are three bits"
    return None


def _flag(value: str) -> str | None:
    return (
        None
        if value.lower() in ("0", "1", "y", "n", "yes", "no", "true", "false")
        else (f"{value!r} is neither 0 nor 1")
    )


def _disable(value: str) -> str | None:
    if value == "1":
        return "1: no InfiniBand and no RoCE at all, TCP alone"
    return _flag(value)


def _family(value: str) -> str | None:
    if value in ("AF_INET", "AF_INET6"):
        return None
    return f"{value!r} is neither AF_INET nor AF_INET6: the default holds"


def _hca(value: str) -> str | None:
    if value.startswith("^="):
        return f"every device but exactly these: {value[2:]}"
    if value.startswith("="):
        return f"exactly these: {value[1:]}"
    if value.startswith("^"):
        return f"every device but those whose names begin so: {value[1:]}"
    return f"devices whose names begin with one of these ({value}): mlx5_1 takes mlx5_10 too"


# --- the table ---------------------------------------------------------------------------

_GIDS: Final = ("rdmadiag gids   # which rows there are, and which is the one to use",)
_DEVICES: Final = ("rdmadiag devices",)
_PIN: Final = (
    "the right row differs between hosts, NICs and containers: 1, 3, 5, 7 and 9 have been right",
    "rows move when an address comes or goes: a pinned index is then another GID",
)

VARIABLES: Final = (
    # NVIDIA/nccl 2.30.7, src/transport/net_ib
    Variable(
        "NCCL_IB_GID_INDEX",
        "NCCL, RCCL",
        "The row of the GID table to send from, on RoCE; ignored on InfiniBand. Unset or -1: "
        "chosen since 2.21 (2.20 and older: 0).",
        (*_PIN, "Mooncake reads it too, where MC_GID_INDEX is not set"),
        _GIDS,
        _gid_index,
    ),
    Variable(
        "NCCL_IB_HCA",
        "NCCL, RCCL",
        "The devices to use, with :PORT where wanted. Names are prefixes unless the list begins "
        'with "="; "^" leaves out.',
        (
            "a name that no device has leaves NCCL with TCP, and it says so at INFO only",
            "without it, NICs for management and storage are used as well",
            "names change with the driver and with udev: mlx5_0 becomes rocep1s0f0",
        ),
        _DEVICES,
        _hca,
    ),
    Variable(
        "NCCL_IB_ADDR_FAMILY",
        "NCCL, RCCL",
        "AF_INET or AF_INET6: the family of the GID that is chosen. Default AF_INET.",
        ("a host with IPv6 addresses alone stays at row 0 without it",),
        _GIDS,
        _family,
    ),
    Variable(
        "NCCL_IB_ADDR_RANGE",
        "NCCL, RCCL",
        "ADDRESS/BITS: GIDs outside it are passed over when one is chosen.",
        ("row 0 is never checked against it", "without a slash it has no effect"),
        _GIDS,
    ),
    Variable(
        "NCCL_IB_ROCE_VERSION_NUM",
        "NCCL, RCCL",
        "1 or 2: the RoCE version to choose. Default 2.",
        (),
        _GIDS,
    ),
    Variable(
        "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
        "NCCL, RCCL",
        "The row whose FLID, if it has one, routes between InfiniBand subnets. Default 1.",
        (),
        _GIDS,
        _gid_index,
    ),
    Variable(
        "NCCL_IB_TIMEOUT",
        "NCCL, RCCL",
        "How long the NIC waits for an acknowledgement: 4.096 µs x 2^N for one try. Default 20 "
        "(18 before 2.23).",
        (
            "a larger one rides out a link that flaps, and hides a peer that is gone for longer",
            "at 22 and 7 retries, a dead path is reported after two minutes or more",
        ),
        (),
        _timeout,
    ),
    Variable(
        "NCCL_IB_RETRY_CNT",
        "NCCL, RCCL",
        "Tries before completion status 12 (retry exceeded). Default 7, which is the most.",
        (),
        (),
        _retries,
    ),
    Variable(
        "NCCL_IB_TC",
        "NCCL, RCCL",
        "Traffic class of the packets: on RoCE v2, DSCP x 4. Must fit the switches' PFC and ECN.",
        ("106 is DSCP 26: what many RoCE guides set; a class that no switch knows is lossy",),
        ("sudo mlnx_qos -i INTERFACE   # which DSCP is lossless?",),
    ),
    Variable("NCCL_IB_SL", "NCCL, RCCL", "Service level, on InfiniBand. Default 0."),
    Variable(
        "NCCL_IB_PKEY",
        "NCCL, RCCL",
        "The row of the partition key table (not the key). Default 0.",
        ("on some clouds row 0 holds no usable key: INIT then fails, or nothing arrives",),
        ("grep -rv 0x0000 /sys/class/infiniband/*/ports/*/pkeys",),
    ),
    Variable(
        "NCCL_IB_DISABLE",
        "NCCL, RCCL",
        "1: neither InfiniBand nor RoCE; everything by TCP.",
        ("left over from a test, it makes a job slow without a word",),
        (),
        _disable,
    ),
    Variable(
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL, RCCL",
        "Queue pairs for each connection. More of them spread over a bond's ports and ECMP paths.",
    ),
    Variable(
        "NCCL_IB_CUDA_SUPPORT",
        "NCCL",
        "Older name of NCCL_NET_GDR_LEVEL: 0 is off, 1 is on.",
    ),
    Variable(
        "NCCL_NET_GDR_LEVEL",
        "NCCL, RCCL",
        "How far a GPU may be from the NIC that reads its memory: LOC, PIX, PXB, PHB, SYS.",
        ("completion status 4 with vendor error 81: try LOC; ACS or the IOMMU is in the way",),
        ("nvidia-smi topo -m", "sudo lspci -vvv | grep -i acsctl"),
    ),
    Variable("NCCL_NET_GDR_READ", "NCCL, RCCL", "1: the NIC reads GPU memory for sending, too."),
    Variable(
        "NCCL_DMABUF_ENABLE",
        "NCCL",
        "1: GPU memory by dmabuf instead of nvidia_peermem.",
    ),
    Variable(
        "NCCL_CROSS_NIC",
        "NCCL, RCCL",
        "0: rings stay on NICs of the same number. 1: they may cross. 2 (default): they try not "
        "to.",
        ("on rail-optimised networks, 1 makes RTR fail with 110: rails do not reach each other",),
    ),
    Variable(
        "NCCL_SOCKET_IFNAME",
        "NCCL, RCCL",
        "The interface for TCP: bootstrap, and data where there is no RDMA. Names are prefixes; "
        '"=" is exact, "^" leaves out.',
        ("an interface that peers cannot reach hangs at the start, before any RDMA",),
    ),
    Variable("NCCL_SOCKET_FAMILY", "NCCL, RCCL", "AF_INET or AF_INET6, for TCP.", (), (), _family),
    Variable(
        "NCCL_NET",
        "NCCL, RCCL",
        "The network to use: IB, Socket, or a plugin's name. Fails if it "
        "is not there, where NCCL would silently take another.",
    ),
    Variable(
        "NCCL_NET_PLUGIN",
        "NCCL",
        "The plugin to load: libnccl-net-NAME.so; none for the built-in.",
    ),
    Variable(
        "NCCL_DEBUG",
        "NCCL, RCCL",
        "WARN shows failures, INFO which network and devices are used.",
        ("VERSION or unset: a fall to TCP is not seen",),
    ),
    Variable("NCCL_IB_*", "NCCL, RCCL", "A setting of the InfiniBand and RoCE transport."),
    # openucx/ucx, src/uct/ib
    Variable(
        "UCX_NET_DEVICES",
        "UCX",
        "The devices to use, as NAME:PORT: mlx5_0:1. Default all.",
        (
            "mlx5_0 without :1 names no port, and a device that is absent is a warning only",
            "names change with the driver and with udev: mlx5_0 becomes rocep1s0f0",
        ),
        ("ucx_info -d | grep -E 'Transport|Device'", *_DEVICES),
        lambda value: (
            None
            if ":" in value or value == "all" or not re.search(r"mlx|bnxt|roce|ib", value)
            else f"{value!r} has no :PORT, as in mlx5_0:1"
        ),
    ),
    Variable(
        "UCX_TLS",
        "UCX",
        "The transports to use: rc, ud, dc, tcp, sm, cuda_copy, …; ^NAME leaves one out. Default "
        "all.",
        ("a list without tcp fails where RDMA does; one with it is slow there without a word",),
        ("ucx_info -d | grep Transport",),
    ),
    Variable(
        "UCX_IB_GID_INDEX",
        "UCX",
        "The row of the GID table. Default auto.",
        (*_PIN, "auto drops a port whose row 0 is empty, whatever else the table holds"),
        _GIDS,
        lambda value: None if value == "auto" else _gid_index(value),
    ),
    Variable(
        "UCX_IB_ROCE_SUBNETS",
        "UCX",
        "ADDRESS/BITS,…: GIDs of these subnets alone; ^ before the list leaves them out. 1.18 "
        "and newer.",
        ("an error beside UCX_IB_GID_INDEX, and where no GID fits",),
        _GIDS,
    ),
    Variable(
        "UCX_IB_FLID_ROUTE",
        "UCX",
        "y (default): the GID at 1 routes between InfiniBand subnets, if it has a FLID.",
        (),
        _GIDS,
        _flag,
    ),
    Variable("UCX_IB_TRAFFIC_CLASS", "UCX", "Traffic class of RoCE v2 packets: DSCP x 4."),
    Variable(
        "UCX_IB_PKEY",
        "UCX",
        "The partition key (not its row), without the membership bit.",
    ),
    Variable("UCX_RC_TIMEOUT", "UCX", "How long to wait for an acknowledgement, as 1000000us."),
    Variable(
        "UCX_RC_RETRY_COUNT", "UCX", "Tries before retry exceeded. Default 7.", (), (), _retries
    ),
    Variable("UCX_RNDV_SCHEME", "UCX", "How large messages go: get_zcopy, put_zcopy or auto."),
    Variable("UCX_*", "UCX", "A setting of UCX; `ucx_info -c` lists them with their values."),
    # rdma-core
    Variable(
        "RDMAV_FORK_SAFE",
        "libibverbs",
        "Any value: memory that is registered is kept out of children of fork. IBV_FORK_SAFE is "
        "the same.",
        (
            "without it, a fork can leave the parent with memory that the NIC no longer reaches",
            "kernels since 5.12 with rdma-core since 35 need it no more",
        ),
    ),
    Variable("IBV_FORK_SAFE", "libibverbs", "The same as RDMAV_FORK_SAFE."),
    Variable(
        "RDMAV_HUGEPAGES_SAFE",
        "libibverbs",
        "With RDMAV_FORK_SAFE: huge pages are taken as such. Costs at each registration.",
    ),
    Variable(
        "IBV_SHOW_WARNINGS",
        "libibverbs",
        "Any value: the library says why it leaves a device out.",
        (),
        ("IBV_SHOW_WARNINGS=1 ibv_devices",),
    ),
    Variable("IBV_*", "libibverbs", "A setting of libibverbs."),
    Variable("RDMAV_*", "libibverbs", "A setting of libibverbs."),
    Variable(
        "MLX5_SINGLE_THREADED", "libmlx5", "1: no locks; wrong in a program with several threads."
    ),
    Variable("MLX5_CQE_SIZE", "libmlx5", "64 or 128: bytes of a completion entry."),
    Variable("MLX5_SCATTER_TO_CQE", "libmlx5", "0: small receives are not put into completions."),
    Variable("MLX5_*", "libmlx5", "A setting of the mlx5 provider."),
    # libfabric
    Variable(
        "FI_PROVIDER",
        "libfabric",
        "The providers to use; ^NAME leaves one out.",
        ("a name that nothing fits: fi_getinfo returns -61",),
        ("fi_info -l",),
    ),
    Variable(
        "FI_VERBS_IFACE", "libfabric", "The interface whose address the verbs provider takes."
    ),
    Variable(
        "FI_VERBS_GID_IDX",
        "libfabric",
        "The row of the GID table, for datagrams. Default 0.",
        (*_PIN, "it changes the fabric's name, and so which peers fit, for MSG as well"),
        _GIDS,
        _gid_index,
    ),
    Variable(
        "FI_EFA_USE_DEVICE_RDMA",
        "libfabric",
        "1: EFA reads and writes by the device.",
        (),
        (),
        _flag,
    ),
    Variable("FI_*", "libfabric", "A setting of libfabric; `fi_info -e` lists them."),
    # Open MPI 4
    Variable(
        "OMPI_MCA_BTL_OPENIB_GID_INDEX",
        "Open MPI 4",
        "The row of the GID table. Default 0.",
        _PIN,
        _GIDS,
        _gid_index,
    ),
    Variable("OMPI_MCA_*", "Open MPI", "An MCA parameter; `ompi_info --all` lists them."),
    # NVIDIA/nvshmem
    Variable(
        "NVSHMEM_IB_GID_INDEX",
        "NVSHMEM",
        "The row of the GID table. Unset: chosen as NCCL does; NCCL's variables are not read.",
        _PIN,
        _GIDS,
        _gid_index,
    ),
    Variable("NVSHMEM_IB_ADDR_FAMILY", "NVSHMEM", "AF_INET or AF_INET6.", (), _GIDS, _family),
    Variable(
        "NVSHMEM_IB_ADDR_RANGE",
        "NVSHMEM",
        "ADDRESS/BITS: GIDs outside it are passed over when one is chosen.",
        ("without a slash it crashes", "row 0 is never checked against it"),
        _GIDS,
        lambda value: None if "/" in value else f"{value!r} has no /BITS: NVSHMEM crashes",
    ),
    Variable("NVSHMEM_IB_ROCE_VERSION_NUM", "NVSHMEM", "1 or 2: the RoCE version. Default 2."),
    Variable("NVSHMEM_HCA_LIST", "NVSHMEM", "The devices to use, as NAME:PORT.", (), _DEVICES),
    Variable(
        "NVSHMEM_IB_ENABLE_IBGDA",
        "NVSHMEM",
        "1: the GPU posts work requests itself (IBGDA).",
        ("needs a driver that lets the GPU map the NIC's doorbells",),
        (),
        _flag,
    ),
    Variable("NVSHMEM_*", "NVSHMEM", "A setting of NVSHMEM."),
    # kvcache-ai/Mooncake
    Variable(
        "MC_GID_INDEX",
        "Mooncake",
        "The row of the GID table. Unset: NCCL_IB_GID_INDEX, else chosen.",
        (*_PIN, "0 meant auto before 0.3.8"),
        _GIDS,
        _gid_index,
    ),
    Variable(
        "MC_MTU",
        "Mooncake",
        "Path MTU: 512, 1024, 2048 or 4096; at most the port's.",
        ("larger than the port's active MTU: RTR fails with errno 22",),
        ("ibv_devinfo | grep mtu",),
    ),
    Variable("MC_IB_PORT", "Mooncake", "The port of each device. Default 1."),
    Variable("MC_*", "Mooncake", "A setting of Mooncake's Transfer Engine."),
    # MLX
    Variable(
        "MLX_IBV_DEVICES",
        "MLX JACCL",
        "A JSON file: for each rank, the device towards each other rank; null for itself.",
        (
            "device names change with a reboot and with the port that the cable is in",
            "row i of rank j must name the two ends of one cable",
        ),
        ("rdmadiag devices   # on each Mac",),
    ),
    Variable("MLX_RANK", "MLX", "This process's rank."),
    Variable(
        "MLX_JACCL_COORDINATOR",
        "MLX JACCL",
        "ADDRESS:PORT of rank 0, for TCP: before any RDMA.",
        ("errno 60, 61, 65: rank 0 is not up, nobody listens, or macOS denies the local network",),
    ),
    # others
    Variable(
        "MSCCLPP_IB_GID_INDEX",
        "MSCCL++",
        "The row of the GID table. Default 0.",
        _PIN,
        _GIDS,
        _gid_index,
    ),
    Variable(
        "MORI_IB_GID_INDEX",
        "MORI",
        "The row of the GID table. Unset: chosen.",
        _PIN,
        _GIDS,
        _gid_index,
    ),
    Variable(
        "PSM3_ADDR_FMT",
        "libfabric psm3",
        "0 any, 3 InfiniBand, 4 IPv4, 6 IPv6: ports of another kind are left out.",
        (),
        _GIDS,
    ),
    Variable(
        "PSM3_ADDR_PER_NIC",
        "libfabric psm3",
        "How many addresses each port must have. Default 1.",
        ("a port with fewer is left out",),
        _GIDS,
    ),
    Variable(
        "PSM3_SUBNETS",
        "libfabric psm3",
        "Patterns of the subnets whose addresses are considered.",
        (),
        _GIDS,
    ),
    Variable("PSM3_*", "libfabric psm3", "A setting of the psm3 provider."),
)
