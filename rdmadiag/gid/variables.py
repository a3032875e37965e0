"""Environment variables of the stacks on top of verbs: one row each.

Read from each stack's own source and documents; a variable of one stack is not read by
another, but where a row says so. A row holds how its value is read (a list of devices, a
row of the GID table), which ports it is for, and what `explain NAME` prints.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from rdmadiag.gid import variable_values as values
from rdmadiag.gid.device_lists import (
    Choice,
    exact_devices,
    exact_interfaces,
    nccl_devices,
    nccl_interfaces,
    ucx_devices,
)
from rdmadiag.gid.gid_index import checked_index, lenient_index


class Variable(NamedTuple):
    """One variable, or a family whose names begin alike."""

    name: str  # as the program reads it; with a "*" at the end for a family
    stack: str
    meaning: str
    pitfalls: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    judge: Callable[[str], str | None] | None = (
        None  # a value → what it means, or what is wrong with it
    )
    devices: Callable[[str, str], Choice | None] | None = None  # (name, value) → those it names
    interfaces: Callable[[str, str], Choice | None] | None = None  # the same, of netdevs for TCP
    gid_index: Callable[[str], int | None] | None = None  # a value → the row of a GID table
    rdma_off: Callable[[str], values.Off | None] | None = None  # a value → how it keeps RDMA out
    relaxed_ordering: tuple[str, ...] = ()  # values by which it asks for that of PCI Express
    ports: str | None = None  # the variable that chooses the ports that this one is for
    exact_sign: str = ""  # before a list of devices that is to hold names, not prefixes
    unset: str | None = None  # what the stack does without it, where that is the better way
    reported: bool = False  # a report carries it; of a family: the rows above, of others the names


def variable(name: str) -> Variable | None:
    """The row of this name, or of its family, in capitals or not."""
    wanted = name.strip().removeprefix("$").upper()
    exact = next((row for row in VARIABLES if row.name.upper() == wanted), None)
    if exact:
        return exact
    families = (row for row in VARIABLES if row.name.endswith("*"))
    fitting = (row for row in families if wanted.startswith(row.name[:-1].upper()))
    return max(fitting, key=lambda row: len(row.name), default=None)


def said_of(row: Variable, value: str) -> str | None:
    """What the value means, or what is wrong with it."""
    text = value.strip().strip("'\"")
    off = row.rdma_off(text) if row.rdma_off else None
    return off.words if off else row.judge(text) if row.judge else None


def set_indexes(environment: Mapping[str, str]) -> Iterator[tuple[Variable, int]]:
    """The variables that name a row of a GID table here, and which."""
    for row in GID_INDEXES:
        index = row.gid_index(environment.get(row.name, "")) if row.gid_index else None
        if index is not None:
            yield row, index


def choice(environment: Mapping[str, str], name: str | None) -> Choice | None:
    """What a variable chooses; None where it is not set, or chooses everything."""
    if name is None or name not in environment:
        return None
    parse = BY_NAME[name].devices
    return parse(name, environment[name]) if parse else None


_GIDS: Final = ("rdmadiag gids   # which rows there are, and which is the one to use",)
_DEVICES: Final = ("rdmadiag devices",)
_CHAIN: Final = ("rdmadiag lossless   # class → DSCP → priority → PFC of each port",)
_PROVIDERS: Final = ("cat /etc/libibverbs.d/*.driver", "IBV_SHOW_WARNINGS=1 ibv_devices")
_RELAXED: Final = ("sudo lspci -vv | grep RlxdOrd   # of the adapter: + is on",)

_PIN: Final = (
    "the right row differs between hosts, NICs and containers: 1, 3, 5, 7 and 9 have been right",
    "rows move when an address comes or goes: a pinned index is then another GID",
)

_CHOOSES: Final = "it then chooses by itself (NCCL from 2.21)"
_LIBFABRIC: Final = "Named as a setting of libfabric; `fi_info -e` lists them."
_OMPI: Final = "Named as an MCA parameter; `ompi_info --all` lists them."

VARIABLES: Final = (
    # NVIDIA/nccl 2.30.7, src/transport/net_ib
    Variable(
        "NCCL_IB_GID_INDEX",
        "NCCL, RCCL",
        "The row of the GID table to send from, on RoCE; ignored on InfiniBand. Unset or -1: "
        "chosen since 2.21 (2.20 and older: 0).",
        pitfalls=(*_PIN, "Mooncake reads it too, where MC_GID_INDEX is not set"),
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
        ports="NCCL_IB_HCA",
        unset=_CHOOSES,
    ),
    Variable(
        "NCCL_IB_HCA",
        "NCCL, RCCL",
        "The devices to use, with :PORT where wanted. Names are prefixes unless the list begins "
        'with "="; "^" leaves out.',
        pitfalls=(
            "a name that no device has leaves NCCL with TCP, and it says so at INFO only",
            "without it, NICs for management and storage are used as well",
            "names change with the driver and with udev: mlx5_0 becomes rocep1s0f0",
        ),
        next=_DEVICES,
        judge=values.hca,
        devices=nccl_devices,
        exact_sign="=",
    ),
    Variable(
        "NCCL_IB_ADDR_FAMILY",
        "NCCL, RCCL",
        "AF_INET or AF_INET6: the family of the GID that is chosen. Default AF_INET.",
        pitfalls=("a host with IPv6 addresses alone stays at row 0 without it",),
        next=_GIDS,
        judge=values.family,
    ),
    Variable(
        "NCCL_IB_ADDR_RANGE",
        "NCCL, RCCL",
        "ADDRESS/BITS: GIDs outside it are passed over when one is chosen.",
        pitfalls=("row 0 is never checked against it", "without a slash it has no effect"),
        next=_GIDS,
    ),
    Variable(
        "NCCL_IB_ROCE_VERSION_NUM",
        "NCCL, RCCL",
        "1 or 2: the RoCE version to choose. Default 2.",
        next=_GIDS,
    ),
    Variable(
        "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
        "NCCL, RCCL",
        "The row whose FLID, if it has one, routes between InfiniBand subnets. Default 1.",
        next=_GIDS,
        judge=values.gid_index,
    ),
    Variable(
        "NCCL_IB_TIMEOUT",
        "NCCL, RCCL",
        "How long the NIC waits for an acknowledgement: 4.096 µs x 2^N for one try. Default 20 "
        "(18 before 2.23).",
        pitfalls=(
            "a larger one rides out a link that flaps, and hides a peer that is gone for longer",
            "at 22 and 7 retries, a dead path is reported after two minutes or more",
        ),
        judge=values.timeout,
    ),
    Variable(
        "NCCL_IB_RETRY_CNT",
        "NCCL, RCCL",
        "Tries before completion status 12 (retry exceeded). Default 7, which is the most.",
        judge=values.retries,
    ),
    Variable(
        "NCCL_IB_TC",
        "NCCL, RCCL",
        "Traffic class of the packets: on RoCE v2, DSCP x 4. Must fit the switches' PFC and ECN.",
        pitfalls=(
            "106 is DSCP 26: what many RoCE guides set; a class that no switch knows is lossy",
        ),
        next=_CHAIN,
    ),
    Variable(
        "NCCL_IB_SL",
        "NCCL, RCCL",
        "Service level; on RoCE the priority where a NIC trusts PCP and not DSCP. Default 0.",
        next=_CHAIN,
    ),
    Variable(
        "NCCL_IB_PKEY",
        "NCCL, RCCL",
        "The row of the partition key table (not the key). Default 0.",
        pitfalls=("on some clouds row 0 holds no usable key: INIT then fails, or nothing arrives",),
        next=("grep -rv 0x0000 /sys/class/infiniband/*/ports/*/pkeys",),
        ports="NCCL_IB_HCA",
    ),
    Variable(
        "NCCL_IB_DISABLE",
        "NCCL, RCCL",
        "1: neither InfiniBand nor RoCE; everything by TCP.",
        pitfalls=("left over from a test, it makes a job slow without a word",),
        judge=values.flag,
        rdma_off=values.nccl_disabled,
    ),
    Variable(
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL, RCCL",
        "Queue pairs for each connection. More of them spread over a bond's ports and ECMP paths.",
    ),
    Variable(
        "NCCL_IB_CUDA_SUPPORT", "NCCL", "Older name of NCCL_NET_GDR_LEVEL: 0 is off, 1 is on."
    ),
    Variable(
        "NCCL_IB_PCI_RELAXED_ORDERING",
        "NCCL, RCCL",
        "Relaxed ordering of PCI Express: 0 no, 1 yes, 2 (default) where the library has it.",
        pitfalls=("without effect where the adapter's own register forbids it",),
        next=_RELAXED,
        relaxed_ordering=("1",),
        reported=True,
    ),
    Variable(
        "NCCL_NET_GDR_LEVEL",
        "NCCL, RCCL",
        "How far a GPU may be from the NIC that reads its memory: LOC, PIX, PXB, PHB, SYS.",
        pitfalls=(
            "completion status 4 with vendor error 81: try LOC; ACS or the IOMMU is in the way",
        ),
        next=("nvidia-smi topo -m", "sudo lspci -vvv | grep -i acsctl"),
    ),
    Variable("NCCL_NET_GDR_READ", "NCCL, RCCL", "1: the NIC reads GPU memory for sending, too."),
    Variable("NCCL_DMABUF_ENABLE", "NCCL", "1: GPU memory by dmabuf instead of nvidia_peermem."),
    Variable(
        "NCCL_CROSS_NIC",
        "NCCL, RCCL",
        "0: rings stay on NICs of the same number. 1: they may cross. 2 (default): they try not "
        "to.",
        pitfalls=(
            "on rail-optimised networks, 1 makes RTR fail with 110: rails do not reach each other",
        ),
    ),
    Variable(
        "NCCL_SOCKET_IFNAME",
        "NCCL, RCCL",
        "The interface for TCP: bootstrap, and data where there is no RDMA. Names are prefixes; "
        '"=" is exact, "^" leaves out.',
        pitfalls=("an interface that peers cannot reach hangs at the start, before any RDMA",),
        interfaces=nccl_interfaces,
        reported=True,
    ),
    *(
        Variable(
            f"{who}_SOCKET_IFNAME",
            stack,
            "The interface for TCP, by which processes meet: exact names.",
            pitfalls=("NCCL_SOCKET_IFNAME is not read",),
            interfaces=exact_interfaces,
            reported=True,
        )
        for who, stack in (("GLOO", "Gloo"), ("TP", "TensorPipe"))
    ),
    Variable(
        "MASTER_ADDR",
        "PyTorch",
        "The host where the processes of a job meet first (TCPStore of torch.distributed): its "
        "address or name, the same one for every process.",
        pitfalls=("a name that /etc/hosts has as 127.0.1.1 leads each host to itself",),
        next=('getent ahosts "$MASTER_ADDR"   # on each host: never 127.0.0.1 or 127.0.1.1',),
        reported=True,
    ),
    Variable(
        "WORLD_SIZE", "PyTorch", "How many processes the job has, on all hosts.", reported=True
    ),
    Variable(
        "LOCAL_WORLD_SIZE",
        "PyTorch",
        "How many of the job's processes are on this host: torchrun sets it.",
        reported=True,
    ),
    Variable(
        "NCCL_SOCKET_FAMILY", "NCCL, RCCL", "AF_INET or AF_INET6, for TCP.", judge=values.family
    ),
    Variable(
        "NCCL_NET",
        "NCCL, RCCL",
        "The network to use: IB, Socket, or a plugin's name. Fails if it "
        "is not there, where NCCL would silently take another.",
        pitfalls=("Socket is TCP alone: left over from a test, it is slow without a word",),
        rdma_off=values.nccl_by_socket,
        reported=True,
    ),
    Variable(
        "NCCL_NET_PLUGIN", "NCCL", "The plugin to load: libnccl-net-NAME.so; none for the built-in."
    ),
    Variable(
        "NCCL_DEBUG",
        "NCCL, RCCL",
        "WARN shows failures, INFO which network and devices are used.",
        pitfalls=("VERSION or unset: a fall to TCP is not seen",),
    ),
    Variable(
        "NCCL_IB_*",
        "NCCL, RCCL",
        "Named as a setting of the InfiniBand and RoCE transport.",
        reported=True,
    ),
    # NVIDIA/nvshmem
    Variable(
        "NVSHMEM_IB_GID_INDEX",
        "NVSHMEM",
        "The row of the GID table. Unset: chosen as NCCL does; NCCL's variables are not read.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
        ports="NVSHMEM_HCA_LIST",
        unset=_CHOOSES,
    ),
    Variable(
        "NVSHMEM_IB_ADDR_FAMILY", "NVSHMEM", "AF_INET or AF_INET6.", next=_GIDS, judge=values.family
    ),
    Variable(
        "NVSHMEM_IB_ADDR_RANGE",
        "NVSHMEM",
        "ADDRESS/BITS: GIDs outside it are passed over when one is chosen.",
        pitfalls=("without a slash it crashes", "row 0 is never checked against it"),
        next=_GIDS,
        judge=values.nvshmem_range,
    ),
    Variable(
        "NVSHMEM_IB_TRAFFIC_CLASS",
        "NVSHMEM",
        "Traffic class of RoCE v2 packets: DSCP x 4. Default 0.",
        pitfalls=("NCCL_IB_TC is not read",),
        next=_CHAIN,
    ),
    Variable("NVSHMEM_IB_SL", "NVSHMEM", "Service level. Default 0.", next=_CHAIN),
    Variable("NVSHMEM_IB_ROCE_VERSION_NUM", "NVSHMEM", "1 or 2: the RoCE version. Default 2."),
    Variable(
        "NVSHMEM_HCA_LIST",
        "NVSHMEM",
        "The devices to use, as NAME:PORT.",
        next=_DEVICES,
        devices=nccl_devices,
    ),
    Variable(
        "NVSHMEM_HCA_PE_MAPPING",
        "NVSHMEM",
        "The devices to use and how many processes each serves, as NAME:PORT:COUNT,….",
        next=_DEVICES,
        devices=exact_devices,
    ),
    Variable(
        "NVSHMEM_IB_ENABLE_IBGDA",
        "NVSHMEM",
        "1: the GPU posts work requests itself (IBGDA).",
        pitfalls=("needs a driver that lets the GPU map the NIC's doorbells",),
        next=("grep -e StreamMemOPs -e RegistryDwords: /proc/driver/nvidia/params",),
        judge=values.flag,
    ),
    Variable(
        "NVSHMEM_IBGDA_NIC_HANDLER",
        "NVSHMEM",
        "Who rings the NIC's doorbell: gpu, cpu (by GDRCopy), cpu_host_memory, or auto (default): "
        "the GPU where it can, else the processor.",
        pitfalls=("cpu needs the module gdrdrv",),
        reported=True,
    ),
    Variable("NVSHMEM_*", "NVSHMEM", "Named as a setting of NVSHMEM."),
    Variable("NVSHMEM_HCA_*", "NVSHMEM", "Named as a setting of NVSHMEM.", reported=True),
    Variable("NVSHMEM_IB_*", "NVSHMEM", "Named as a setting of NVSHMEM.", reported=True),
    # openucx/ucx, src/uct/ib
    Variable(
        "UCX_NET_DEVICES",
        "UCX",
        "The devices to use, as NAME:PORT: mlx5_0:1. Default all.",
        pitfalls=(
            "mlx5_0 without :1 names no port, and a device that is absent is a warning only",
            "names change with the driver and with udev: mlx5_0 becomes rocep1s0f0",
        ),
        next=("ucx_info -d | grep -E 'Transport|Device'", *_DEVICES),
        judge=values.ucx_devices,
        devices=ucx_devices,
    ),
    Variable(
        "UCX_TLS",
        "UCX",
        "The transports to use: rc, ud, dc, tcp, sm, cuda_copy, …; ^NAME leaves one out. Default "
        "all.",
        pitfalls=(
            "a list without tcp fails where RDMA does; one with it is slow there without a word",
        ),
        next=("ucx_info -d | grep Transport",),
        rdma_off=values.ucx_without_rdma,
    ),
    Variable(
        "UCX_IB_GID_INDEX",
        "UCX",
        "The row of the GID table. Default auto.",
        pitfalls=(*_PIN, "auto drops a port whose row 0 is empty, whatever else the table holds"),
        next=_GIDS,
        judge=values.ucx_gid_index,
        gid_index=checked_index,
        ports="UCX_NET_DEVICES",
        unset=_CHOOSES,
    ),
    Variable(
        "UCX_IB_ROCE_SUBNETS",
        "UCX",
        "ADDRESS/BITS,…: GIDs of these subnets alone; ^ before the list leaves them out. 1.18 "
        "and newer.",
        pitfalls=("an error beside UCX_IB_GID_INDEX, and where no GID fits",),
        next=_GIDS,
    ),
    Variable(
        "UCX_IB_FLID_ROUTE",
        "UCX",
        "y (default): the GID at 1 routes between InfiniBand subnets, if it has a FLID.",
        next=_GIDS,
        judge=values.flag,
    ),
    Variable(
        "UCX_IB_TRAFFIC_CLASS",
        "UCX",
        "Traffic class of RoCE v2 packets: DSCP x 4. Default auto, which is 106 (DSCP 26).",
        next=_CHAIN,
    ),
    Variable(
        "UCX_IB_PCI_RELAXED_ORDERING",
        "UCX",
        "Relaxed ordering of PCI Express: no, yes (fails without), try, or auto (default), which "
        "is by the processor.",
        pitfalls=("without effect where the adapter's own register forbids it",),
        next=_RELAXED,
        relaxed_ordering=("y", "yes", "on", "1", "try"),
        reported=True,
    ),
    Variable("UCX_IB_SL", "UCX", "Service level. Default auto, which is 0 on RoCE.", next=_CHAIN),
    Variable("UCX_IB_PKEY", "UCX", "The partition key (not its row), without the membership bit."),
    Variable("UCX_RC_TIMEOUT", "UCX", "How long to wait for an acknowledgement, as 1000000us."),
    Variable(
        "UCX_RC_RETRY_COUNT", "UCX", "Tries before retry exceeded. Default 7.", judge=values.retries
    ),
    Variable("UCX_RNDV_SCHEME", "UCX", "How large messages go: get_zcopy, put_zcopy or auto."),
    Variable(
        "UCX_*",
        "UCX",
        "Named as a setting of UCX; `ucx_info -c` lists them with their values.",
        reported=True,
    ),
    # HPC-X
    Variable(
        "HCOLL_MAIN_IB",
        "HCOLL",
        "The device that collective operations use, as NAME:PORT.",
        next=_DEVICES,
        devices=exact_devices,
        reported=True,
    ),
    # kvcache-ai/Mooncake
    Variable(
        "MC_GID_INDEX",
        "Mooncake",
        "The row of the GID table. Unset: NCCL_IB_GID_INDEX, else chosen.",
        pitfalls=(*_PIN, "0 meant auto before 0.3.8"),
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
        reported=True,
    ),
    Variable(
        "MC_MTU",
        "Mooncake",
        "Path MTU: 512, 1024, 2048 or 4096; at most the port's.",
        pitfalls=("larger than the port's active MTU: RTR fails with errno 22",),
        next=("ibv_devinfo | grep mtu",),
    ),
    Variable(
        "MC_IB_TC",
        "Mooncake",
        "Traffic class, 0 to 255: on RoCE v2, DSCP x 4. Default 0.",
        next=_CHAIN,
        reported=True,
    ),
    Variable(
        "MC_IB_SL", "Mooncake", "Service level, 0 to 15. Default 0.", next=_CHAIN, reported=True
    ),
    Variable(
        "MC_IB_PCI_RELAXED_ORDERING",
        "Mooncake",
        "Relaxed ordering of PCI Express: 0 no, 1 where the library has it, 2 auto. Default 0, "
        "and 1 since July 2026.",
        pitfalls=("without effect where the adapter's own register forbids it",),
        next=_RELAXED,
        relaxed_ordering=("1",),
        reported=True,
    ),
    Variable("MC_IB_PORT", "Mooncake", "The port of each device. Default 1."),
    Variable(
        "MC_FORCE_TCP",
        "Mooncake",
        "Any value, 0 and none too: the Transfer Engine installs its TCP transport alone.",
        pitfalls=("0 does not turn it off: it must not be set",),
        rdma_off=values.mooncake_by_tcp,
        reported=True,
    ),
    Variable("MC_*", "Mooncake", "Named as a setting of Mooncake's Transfer Engine."),
    # linux-rdma/rdma-core, libibverbs: init, memory, sysfs, dynamic_driver
    Variable(
        "RDMAV_FORK_SAFE",
        "libibverbs",
        "Anything but 0: memory that is registered is kept out of children of fork. IBV_FORK_SAFE "
        "is the same.",
        pitfalls=(
            "without it, a fork can leave the parent with memory that the NIC no longer reaches",
            "kernels since 5.12 with rdma-core since 35 need it no more",
        ),
        judge=values.not_zero,
    ),
    Variable("IBV_FORK_SAFE", "libibverbs", "The same as RDMAV_FORK_SAFE.", judge=values.not_zero),
    Variable(
        "RDMAV_HUGEPAGES_SAFE",
        "libibverbs",
        "Any value, with RDMAV_FORK_SAFE: huge pages are taken as such. Costs at each "
        "registration.",
    ),
    Variable(
        "RDMAV_DRIVERS",
        "libibverbs",
        "Provider libraries to load before those that /etc/libibverbs.d names, parted by : or ;. "
        "A name such as mlx5, or an absolute path without -rdmavN.so. It adds, it leaves none "
        "out; a setuid program does not read it.",
        pitfalls=(
            "a name with lib or .so in it is not found: a warning on stderr, and no device of it",
            "one that is also named in /etc/libibverbs.d is the same library, loaded once",
        ),
        next=_PROVIDERS,
        judge=values.provider_names,
    ),
    Variable(
        "IBV_DRIVERS",
        "libibverbs",
        "The older name of RDMAV_DRIVERS: read only where that is not set.",
        next=_PROVIDERS,
        judge=values.provider_names,
    ),
    Variable(
        "SYSFS_PATH",
        "libibverbs",
        "Where libibverbs looks for sysfs. Default /sys. The list of devices comes by netlink "
        "since rdma-core 26; where that does not answer it is read from sysfs, and so is "
        "modalias. A setuid program does not read it.",
        pitfalls=(
            "another folder without netlink: libibverbs lists no device at all (ENOSYS)",
            "it is read once, at the first call",
        ),
        next=("unset SYSFS_PATH", *_DEVICES),
        judge=values.sysfs_path,
        reported=True,
    ),
    Variable(
        "VERBS_LOG_LEVEL",
        "libibverbs",
        "How much library and providers write to VERBS_LOG_FILE: 0 nothing (default), 1 errors, "
        "2 warnings, 3 information, 4 debugging.",
        pitfalls=("without VERBS_LOG_FILE nothing is written, but by a build for debugging",),
        judge=values.log_level,
        reported=True,
    ),
    Variable(
        "VERBS_LOG_FILE",
        "libibverbs",
        "The file that VERBS_LOG_LEVEL writes to; lines are appended.",
        pitfalls=(
            "without VERBS_LOG_LEVEL, or where it cannot be opened, nothing is written: silently",
        ),
        next=("VERBS_LOG_LEVEL=4 VERBS_LOG_FILE=/tmp/verbs.log ibv_devinfo",),
        reported=True,
    ),
    Variable(
        "RDMAV_ALLOW_DISASSOC_DESTROY",
        "libibverbs",
        "Anything but 0: destroying an object of a device that was removed succeeds, where it "
        "would fail with EIO (5).",
        judge=values.not_zero,
    ),
    Variable(
        "MLX4_DEVICE_FATAL_CLEANUP",
        "libibverbs",
        "The older name of RDMAV_ALLOW_DISASSOC_DESTROY.",
        judge=values.not_zero,
    ),
    Variable(
        "IBV_SHOW_WARNINGS",
        "libibverbs",
        "Any value: the library says why it leaves a device out.",
        next=("IBV_SHOW_WARNINGS=1 ibv_devices",),
    ),
    Variable("IBV_*", "libibverbs", "Named as a setting or constant of libibverbs.", reported=True),
    Variable("RDMAV_*", "libibverbs", "Named as a setting of libibverbs.", reported=True),
    # linux-rdma/rdma-core, providers/mlx5
    Variable(
        "MLX5_SINGLE_THREADED",
        "libmlx5",
        "1: no locks; wrong in a program with several threads.",
        judge=values.flag,
    ),
    Variable(
        "MLX5_CQE_SIZE",
        "libmlx5",
        "64 (default) or 128: bytes of a completion entry.",
        pitfalls=("any other number: ibv_create_cq fails with EINVAL (22)",),
        judge=values.cqe_size,
    ),
    Variable(
        "MLX5_SCATTER_TO_CQE",
        "libmlx5",
        "0: small receives are not put into completions. Default 1.",
        judge=values.flag,
    ),
    Variable(
        "MLX5_TOTAL_UUARS",
        "libmlx5",
        "How many doorbell registers a context has, which its queue pairs share. Default 16.",
        pitfalls=(
            "0 or less, or more than 512: ibv_open_device fails",
            "few of them and many threads: threads wait for each other at the doorbell",
        ),
        next=_DEVICES,
        judge=values.uuars,
    ),
    Variable(
        "MLX5_NUM_LOW_LAT_UUARS",
        "libmlx5",
        "How many of them belong to one queue pair each and need no lock. Default 4.",
        pitfalls=("below 0, or more than there are but one: ibv_open_device fails",),
    ),
    Variable(
        "MLX5_SHUT_UP_BF",
        "libmlx5",
        "Anything but 0: no BlueFlame, doorbells alone; higher latency.",
        judge=values.not_zero,
    ),
    Variable(
        "MLX5_POST_SEND_PREFER_BF",
        "libmlx5",
        "0: BlueFlame for inline data alone. Default 1: for each single small request.",
        judge=values.flag,
    ),
    Variable(
        "MLX5_STALL_CQ_POLL",
        "libmlx5",
        "0: polling never waits. Anything else: it waits between empty polls. Unset: on Sandy "
        "Bridge CPUs far from the NIC alone.",
        judge=values.flag,
    ),
    Variable(
        "MLX5_STALL_NUM_LOOP",
        "libmlx5",
        "How long such a wait is, in turns of a loop. Default 60; below 0 it adapts.",
    ),
    Variable("MLX5_STALL_CQ_POLL_MIN", "libmlx5", "An adaptive wait's least cycles. Default 60."),
    Variable(
        "MLX5_STALL_CQ_POLL_MAX", "libmlx5", "An adaptive wait's most cycles. Default 100000."
    ),
    Variable(
        "MLX5_STALL_CQ_INC_STEP", "libmlx5", "By how much an adaptive wait grows. Default 100."
    ),
    Variable(
        "MLX5_STALL_CQ_DEC_STEP", "libmlx5", "By how much an adaptive wait shrinks. Default 10."
    ),
    Variable(
        "MLX5_LOCAL_CPUS",
        "libmlx5",
        "A mask of the CPUs near the NIC, instead of sysfs's local_cpus; for MLX5_STALL_CQ_POLL.",
    ),
    Variable(
        "MLX5_FREEZE_ON_ERROR_CQE",
        "libmlx5",
        "Not 0: the process stops for ever at the first completion with an error.",
        pitfalls=("left over from debugging, it looks like a hang of the job",),
    ),
    Variable(
        "MLX5_DEBUG_MASK",
        "libmlx5",
        "Bits of what a build for debugging writes: 1 queue pairs, 2 completion queues, 4 sends, "
        "8 failed sends, 16 completions, 32 memory, 64 steering.",
    ),
    Variable(
        "MLX5_DEBUG_FILE",
        "libmlx5",
        "Where it writes what went wrong: failed completions, and MLX5_DEBUG_MASK.",
    ),
    Variable(
        "MLX5_QP_SIGNATURE", "libmlx5", "Any value, 0 too: work requests of queue pairs are signed."
    ),
    Variable(
        "MLX5_SRQ_SIGNATURE", "libmlx5", "Any value, 0 too: those of shared receive queues are."
    ),
    Variable(
        "MLX5_RWQ_SIGNATURE", "libmlx5", "Any value, 0 too: those of receive work queues are."
    ),
    *(
        Variable(
            f"MLX_{what}_ALLOC_TYPE",
            "libmlx5",
            f"Where the memory of {of} comes from: ANON (default), HUGE, CONTIG, PREFER_HUGE, "
            "PREFER_CONTIG or ALL.",
            pitfalls=("HUGE or CONTIG where there is none of it: creation fails with ENOMEM",),
            judge=values.allocation,
            reported=True,
        )
        for what, of in (
            ("QP", "queue pairs"),
            ("CQ", "completion queues"),
            ("SRQ", "shared receive queues"),
            ("RWQ", "receive work queues"),
            ("MR", "regions without an address"),
        )
    ),
    Variable(
        "MLX5_*", "libmlx5", "Named as a setting or constant of the mlx5 provider.", reported=True
    ),
    Variable(
        "MLX4_*", "libmlx4", "Named as a setting or constant of the mlx4 provider.", reported=True
    ),
    # libfabric
    Variable(
        "FI_PROVIDER",
        "libfabric",
        "The providers to use; ^NAME leaves one out.",
        pitfalls=("a name that nothing fits: fi_getinfo returns -61",),
        next=("fi_info -l",),
        rdma_off=values.libfabric_without_rdma,
        reported=True,
    ),
    Variable(
        "FI_VERBS_IFACE", "libfabric", "The interface whose address the verbs provider takes."
    ),
    Variable(
        "FI_VERBS_DEVICE_NAME",
        "libfabric",
        "The device that the verbs provider uses. Default: all.",
        next=_DEVICES,
        devices=exact_devices,
    ),
    Variable(
        "FI_VERBS_GID_IDX",
        "libfabric",
        "The row of the GID table, for datagrams. Default 0.",
        pitfalls=(*_PIN, "it changes the fabric's name, and so which peers fit, for MSG as well"),
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
        ports="FI_VERBS_DEVICE_NAME",
    ),
    Variable(
        "FI_EFA_USE_DEVICE_RDMA",
        "libfabric",
        "1: EFA reads and writes by the device.",
        judge=values.flag,
    ),
    Variable("FI_*", "libfabric", _LIBFABRIC),
    Variable("FI_VERBS_*", "libfabric", _LIBFABRIC, reported=True),
    # ROCm/mori
    Variable(
        "MORI_IB_GID_INDEX",
        "MORI",
        "The row of the GID table. Unset: chosen.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
    ),
    Variable("MORI_IB_*", "MORI", "Named as a setting of MORI.", reported=True),
    # ggml-org/llama.cpp
    Variable(
        "GGML_RDMA_GID",
        "llama.cpp",
        "The row of the GID table. Unset: that of the TCP connection's local address.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
        ports="GGML_RDMA_DEV",
        reported=True,
    ),
    Variable(
        "GGML_RDMA_DEV",
        "llama.cpp",
        "The one device to look at.",
        next=_DEVICES,
        devices=exact_devices,
        reported=True,
    ),
    # uccl-project/uccl
    Variable(
        "UCCL_IB_GID_INDEX",
        "UCCL",
        "The row of the GID table for UCCL-EP. Unset: chosen; NCCL's variables are not read.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
    ),
    Variable(
        "UCCL_P2P_RDMA_GID_INDEX",
        "UCCL",
        "The row of the GID table for UCCL P2P. Unset: chosen.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
    ),
    Variable("UCCL_IB_ADDR_FAMILY", "UCCL", "AF_INET or AF_INET6.", judge=values.family),
    Variable("UCCL_IB_ADDR_RANGE", "UCCL", "ADDRESS/BITS: GIDs outside it are passed over."),
    Variable("UCCL_IB_ROCE_VERSION_NUM", "UCCL", "1 or 2: the RoCE version. Default 2."),
    Variable(
        "UCCL_IB_ROUTABLE_FLID_GID_INDEX",
        "UCCL",
        "InfiniBand: the row that may hold a FLID. Default 1.",
    ),
    Variable(
        "UCCL_IB_HCA",
        "UCCL",
        "The devices that UCCL-EP uses, as NCCL_IB_HCA, which it reads without this one.",
        next=_DEVICES,
        devices=nccl_devices,
    ),
    Variable(
        "UCCL_IB_TC",
        "UCCL",
        "Traffic class of UCCL-EP's RoCE v2 packets: DSCP x 4. Default 104.",
        pitfalls=("NCCL_IB_TC is not read",),
        next=_CHAIN,
    ),
    Variable("UCCL_IB_SL", "UCCL", "Service level of UCCL-EP. Default 3.", next=_CHAIN),
    Variable("UCCL_*", "UCCL", "Named as a setting of UCCL.", reported=True),
    # microsoft/mscclpp
    Variable(
        "MSCCLPP_IB_GID_INDEX",
        "MSCCL++",
        "The row of the GID table. Default 0.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=lenient_index,
    ),
    Variable("MSCCLPP_IB_*", "MSCCL++", "Named as a setting of MSCCL++.", reported=True),
    # Open MPI 4
    Variable(
        "OMPI_MCA_btl_openib_gid_index",
        "Open MPI 4",
        "The row of the GID table. Default 0.",
        pitfalls=_PIN,
        next=_GIDS,
        judge=values.gid_index,
        gid_index=checked_index,
        ports="OMPI_MCA_btl_openib_if_include",
    ),
    Variable(
        "OMPI_MCA_btl_openib_if_include",
        "Open MPI 4",
        "The devices that openib uses, as NAME or NAME:PORT. Default: all.",
        next=_DEVICES,
        devices=exact_devices,
    ),
    *(
        Variable(
            f"OMPI_MCA_{what}_tcp_if_include",
            "Open MPI",
            "The interfaces for TCP, as names or ADDRESS/BITS.",
            interfaces=exact_interfaces,
            reported=True,
        )
        for what in ("btl", "oob")
    ),
    Variable("OMPI_MCA_btl_openib_*", "Open MPI", _OMPI, reported=True),
    Variable("OMPI_MCA_*", "Open MPI", _OMPI),
    # libfabric psm3
    Variable(
        "PSM3_ADDR_FMT",
        "libfabric psm3",
        "0 any, 3 InfiniBand, 4 IPv4, 6 IPv6: ports of another kind are left out.",
        next=_GIDS,
    ),
    Variable(
        "PSM3_ADDR_PER_NIC",
        "libfabric psm3",
        "How many addresses each port must have. Default 1.",
        pitfalls=("a port with fewer is left out",),
        next=_GIDS,
    ),
    Variable(
        "PSM3_SUBNETS",
        "libfabric psm3",
        "Patterns of the subnets whose addresses are considered.",
        next=_GIDS,
        reported=True,
    ),
    Variable("PSM3_*", "libfabric psm3", "Named as a setting of the psm3 provider."),
    Variable(
        "PSM3_ADDR_*", "libfabric psm3", "Named as a setting of the psm3 provider.", reported=True
    ),
    # MLX
    Variable(
        "MLX_IBV_DEVICES",
        "MLX JACCL",
        "A JSON file: for each rank, the device towards each other rank; null for itself.",
        pitfalls=(
            "device names change with a reboot and with the port that the cable is in",
            "row i of rank j must name the two ends of one cable",
        ),
        next=("rdmadiag devices   # on each Mac",),
    ),
    Variable("MLX_RANK", "MLX", "This process's rank."),
    Variable(
        "MLX_JACCL_COORDINATOR",
        "MLX JACCL",
        "ADDRESS:PORT of rank 0, for TCP: before any RDMA.",
        pitfalls=(
            "errno 60, 61, 65: rank 0 is not up, nobody listens, or macOS denies the local network",
        ),
    ),
)

BY_NAME: Final = {row.name: row for row in VARIABLES}

INTERFACES: Final = tuple(row for row in VARIABLES if row.interfaces)
"""The variables that name netdevs for TCP."""

RDMA_OFF: Final = tuple(row for row in VARIABLES if row.rdma_off)
"""The variables of which a value keeps a stack from RDMA."""

RELAXED_ORDERING: Final = tuple(row for row in VARIABLES if row.relaxed_ordering)
"""The variables by which a stack asks for relaxed ordering."""

DEVICE_LISTS: Final = tuple(row for row in VARIABLES if row.devices)
"""The variables that name devices."""

GID_INDEXES: Final = tuple(row for row in VARIABLES if row.gid_index)
"""The variables that name a row of a GID table."""

_FAMILIES: Final = tuple(
    row.name[:-1] for row in VARIABLES if row.reported and row.name.endswith("*")
)

REPORTED: Final = tuple(
    sorted(row.name for row in VARIABLES if row.reported or row.name.startswith(_FAMILIES))
)
"""What a report carries, as rdmadiag.facts.environment.kept takes it: a value that no row is for
may be a secret."""
