"""Messages with a cause of their own, which a wider sign would read as another's.

From the strings of the kernel (drivers/infiniband, drivers/nvme, kernel/workqueue.c), rdma-core
(iwpmd, libibumad, infiniband-diags), Open MPI's help texts, UCX's sockcm, NCCL's plugin/net.cc
and aws-ofi-nccl.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.signs.sign import Errno, sign
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA, LIBRARIES, LIMIT
from rdmadiag.facts.attempt import Stage

_OF_RDMA: Final = r"rdma|rxe|siw|ib_|iw_|iwpm|mlx[45]|mkey|bnxt_re|irdma|verbs|infiniband"

SIGNS: Final = (
    # --- memory ------------------------------------------------------------------------------
    sign(
        "translations-exhausted",
        Kind.FAILURE,
        Stage.REG_MR,
        r"allow registering part of your physical memory|\blog_(?:num_mtt|mtts_per_seg)\b"
        r"|\bincreas\w+ .{0,40}\bmtts\b|pagepool could not be registered|\bout of mtts?\b",
        ("mr-exhausted", "memlock"),
        ("cat /sys/module/mlx4_core/parameters/log_num_mtt", LIMIT),
    ),
    sign(
        "memlock-limit",
        Kind.FAILURE,
        Stage.REG_MR,
        r"\b(?:inadequate|insufficient|low|small|not enough) (?:\w+ ){0,2}"
        r"(?:memlock|locked[- ]memory)|memlock (?:rlimit|limit) (?:is )?(?:inadequate|exceeded)",
        ("memlock",),
    ),
    sign(
        "dmabuf-not-supported",
        Kind.FAILURE,
        Stage.REG_MR,
        r"reg_dmabuf_mr.{0,60}(?:unknown error 524|not supported|errno[ =:]*(?:524|95)\b)",
        ("memory-kind", "gdr-off", "provider-release"),
    ),
    # --- sockets and threads that the kernel or a daemon did not get -------------------------
    sign(
        "no-ipv6",
        Kind.FAILURE,
        Stage.CONNECT,
        r"address family not supported|\berr(?:or|no)?[ =:(]+-?97\b|\beafnosupport\b"
        r"|iwpm_socket_v6\w*.{0,40}unable|failed to create ipv6 udp tunnel",
        ("no-ipv6",),
        only=_OF_RDMA,
        errno=Errno.LAST,
    ),
    sign(
        "module-not-inserted",
        Kind.CONSEQUENCE,
        Stage.OPEN,
        r"(?:modprobe|insmod): (?:error|fatal): could not insert\b(?!.*peer_?mem)"
        r".{0,40}(?:not permitted|cannot allocate memory|no such device)",
        ("kernel-module-missing", "no-rdma-device", "no-ipv6"),
        (DMESG_OF_RDMA,),
        only=_OF_RDMA,
        errno=Errno.LAST,
    ),
    sign(
        "interrupted",
        Kind.FAILURE,
        None,
        r"failed to create a rescuer kthread .{0,60}-eintr",
        ("interrupted",),
        (DMESG_OF_RDMA,),
    ),
    sign(
        "too-many-connections",
        Kind.FAILURE,
        Stage.CONNECT,
        r"unable to create handler for new connection",
        ("open-files-limit", "no-memory"),
        ("ulimit -n   # as the job has it",),
        errno=Errno.FIRST,
    ),
    # --- modules and libraries ---------------------------------------------------------------
    sign(
        "kernel-module-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"\b(?!\w*peer_?mem)\w+: (?:disagrees about version of|unknown) symbol "
        r"_*(?:ib|ibdev|rdma|iw|mlx4|mlx5)_(?!\w*peer_mem)",
        ("kernel-module-missing",),
    ),
    sign(
        "device-not-queried",
        Kind.FAILURE,
        Stage.OPEN,
        r"could ?n[o']t get device attributes|ibv_query_device\w*.{0,40}(?:fail|error)",
        ("provider-release", "abi-mismatch", "device-removed", "firmware-failed"),
        LIBRARIES,
    ),
    sign(
        "no-network-plugin",
        Kind.FAILURE,
        Stage.OPEN,
        r"failed to initialize any net plugin",
        ("no-rdma-device", "container-without-device", "network-plugin-unfit"),
        (DEVICES, *LIBRARIES),
    ),
    sign(
        "no-provider",
        Kind.FAILURE,
        Stage.OPEN,
        r"only efa provider is supported|re-?compile libfabric with support",
        ("no-provider", "provider-missing", "no-rdma-device"),
        ("fi_info   # which providers are there?", *LIBRARIES),
    ),
    sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"failed to open '?(?:\(null\)|[\w-]+)'? port '?\d",
        ("no-rdma-device", "port-down", "uverbs-node-missing"),
        (DEVICES, DMESG_OF_RDMA),
    ),
    sign(
        "no-gid-given",
        Kind.FAILURE,
        Stage.RTR,
        r"\bgrh is mandatory",
        ("no-gid-given",),
    ),
    # --- objects -----------------------------------------------------------------------------
    sign(
        "device-lacks",
        Kind.FAILURE,
        Stage.CREATE_CQ,
        r"(?:does ?n[o']t|not) support cq resiz|cq resiz\w+ (?:is )?not supported",
        ("device-lacks-capability", "cq-too-large"),
    ),
    sign(
        "send-queue-full",
        Kind.FAILURE,
        Stage.DATA,
        r"(?:fail\w*|unable|error).{0,24}\b(?:post|send)\w*.{0,80}"
        r"(?:\(-11\)|\beagain\b|err\w*[ =:]+-11\b)",
        ("queue-full", "no-memory"),
        (DMESG_OF_RDMA,),
        only=r"mlx[45]_ib|\bib_|gsi|\bqp\b|rdma",
    ),
    # --- the device --------------------------------------------------------------------------
    sign(
        "critical-interrupt",
        Kind.FAILURE,
        None,
        r"\boicr event notification|\bpe_criterr\b",
        ("firmware-failed", "device-resetting", "driver-refused"),
        (DMESG_OF_RDMA,),
    ),
)
