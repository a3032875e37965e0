"""Messages with a cause of their own, which a wider sign would read as another's.

From the strings of the kernel (drivers/infiniband, drivers/nvme, kernel/workqueue.c), rdma-core
(iwpmd, libibumad, infiniband-diags), Open MPI's help texts, UCX's sockcm, NCCL's plugin/net.cc
and aws-ofi-nccl.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, Sign, sign
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA, LIBRARIES, LIMIT
from rdmadiag.facts.attempt import Stage

_OF_RDMA: Final = r"rdma|rxe|siw|ib_|iw_|iwpm|mlx[45]|mkey|bnxt_re|irdma|verbs|infiniband"


def _of_psm(numbers: str, *labels: str) -> Sign:
    """Enum psm2_error of psm2.h: what psm2_ep_open gave."""
    pattern = rf"\bpsm[23x]? can't open (?:hfi|nic) unit: -?\d+ \(err=(?:{numbers})\)"
    return sign("endpoint-not-opened", Kind.FAILURE, Stage.OPEN, pattern, labels)


SIGNS: Final = (
    # --- PSM: no device, a failure of it, no context, no network ------------------------------
    _of_psm("2[12]", "no-rdma-device", "provider-missing"),
    _of_psm("23", "no-rdma-device", "too-many-contexts", "memlock", "port-down"),
    _of_psm("2[58]", "too-many-contexts"),
    _of_psm("26", "port-down", "no-subnet-manager", "link-lost"),
    # --- sizes that a driver checks: rxe_cq.c, rxe_qp.c, hns_roce_qp.c ------------------------
    sign(
        "cq-too-large",
        Kind.FAILURE,
        Stage.CREATE_CQ,
        r"\bcqe ?\(?\d+\)? ?> ?max_cqe",
        ("cq-too-large",),
        ("ibv_devinfo -v | grep max_cqe",),
    ),
    sign(
        "qp-too-large",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"\b(?:sq|rq|srq|qp) size (?:error|failed|too|is too|invalid)|\bcheck (?:sq|rq|srq|qp) size"
        r"|> ?max_(?:srq_)?(?:wr|sge)\b|invalid (?:send|recv) (?:wr|sge) = \d+ > \d+",
        ("qp-too-large",),
        ("ibv_devinfo -v | grep -E 'max_(qp_wr|sge|srq_wr)'",),
    ),
    # --- a packet that LOG of netfilter names beside what becomes of it: UDP 4791 is RoCE v2 -----
    sign(
        "roce-filtered",
        Kind.FAILURE,
        Stage.DATA,
        r"\b(?:block|drop(?:ped)?|reject(?:ed)?|den(?:y|ied))\b.{0,400}\bPROTO=UDP\b"
        r".{0,60}\bDPT=4791\b",
        ("roce-port-dropped", "firewall"),
        ("sudo nft list ruleset | grep -B3 -A3 log   # which rule", "sudo ufw status verbose"),
    ),
    # --- keys: check_rkey of rxe_resp.c ------------------------------------------------------
    sign(
        "remote-key-unknown",
        Kind.FAILURE,
        Stage.DATA,
        r"\bno m[rw] match\w* rkey",
        ("remote-key-wrong",),
    ),
    # --- NCCL's ncclIbConnect, nvme_rdma_create_queue_ib, rdma_cm ids of Java and of TIRPC ----
    sign(
        "link-layers-differ",
        Kind.FAILURE,
        Stage.CONNECT,
        r"net/ib : remote .{0,40}device is incompatible with the local",
        ("link-layers-differ",),
    ),
    sign(
        "mr-pool",
        Kind.FAILURE,
        Stage.REG_MR,
        r"failed to (?:initialize|allocate|create) (?:pi )?mr pool",
        ("mr-exhausted", "device-lacks-capability", "no-memory"),
    ),
    sign(
        "no-verbs-context",
        Kind.FAILURE,
        Stage.OPEN,
        r"protection domain,? no context found|\bcm_id (?:missing|without|has no) verbs"
        r"|\bid->verbs is null",
        ("no-rdma-at-address", "no-rdma-device"),
        errno=Errno.LAST,
    ),
    sign(
        "kernel-module-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"failed to (?:find|insert|load) module ['\"]?[\w-]*(?:rdma|rxe|siw|mlx[45]|ib_|iw_|bnxt_re"
        r"|peer_?mem)",
        ("kernel-module-missing",),
    ),
    # An Ethernet port has no queue pair 0, which subnet management goes by.
    sign(
        "no-subnet-management",
        Kind.FAILURE,
        Stage.OPEN,
        r"can't open smi umad port",
        ("device-lacks-capability", "link-layers-differ", "no-rdma-device", "port-down"),
    ),
    # mlx5_cmd_out_err of a log that is cut before the status
    sign(
        "firmware-command",
        Kind.FAILURE,
        None,
        r"\b[a-z0-9_]{5,40}\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed,?$",
        ("driver-refused",),
        (DMESG_OF_RDMA,),
    ),
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
    # perftest's --use_hugepages, EAL of DPDK and SPDK
    sign(
        "huge-pages",
        Kind.FAILURE,
        Stage.REG_MR,
        r"\b(?:fail\w*|unable|cannot|can't|could(?: not|n't)) (?:to )?(?:allocate|map|reserve|get) "
        r"(?:\w+ ){0,3}huge ?pages|\bno (?:free |available )(?:[\w-]+ ){0,3}huge ?pages",
        ("hugepages-missing", "no-memory", "memory-kind"),
        ("grep -i huge /proc/meminfo   # HugePages_Free", "sudo sysctl -w vm.nr_hugepages=1024"),
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
        r".{0,40}not permitted",
        ("needs-root", "secure-boot"),
        only=_OF_RDMA,
        errno=Errno.LAST,
    ),
    sign(
        "module-not-inserted",
        Kind.CONSEQUENCE,
        Stage.OPEN,
        r"(?:modprobe|insmod): (?:error|fatal): could not insert\b(?!.*peer_?mem)"
        r".{0,40}(?:cannot allocate memory|no such device)",
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
