"""Libraries, device nodes and limits of a process."""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import FAILS, Errno, sign
from rdmadiag.explain.remedies import (
    DEVICES,
    IN_CONTAINER,
    LIBRARIES,
    LIMIT,
    LIMIT_IN_CONTAINER,
    LIMIT_OF_SERVICE,
    LOAD_UVERBS,
)
from rdmadiag.facts.attempt import Stage

_LIMIT_OF_LAUNCHER: Final = (
    "grep 'locked memory' /proc/$(pgrep -o 'slurmd|kubelet|dockerd')/limits   # the launcher's"
)

SIGNS: Final = (
    sign(
        "abi-mismatch",
        Kind.FAILURE,
        Stage.OPEN,
        r"does(?:n't| not) support the kernel ABI|kernel ABI.{0,30}does(?:n't| not) match",
        ("abi-mismatch", "provider-missing"),
    ),
    sign(
        "uverbs-not-loaded",
        Kind.FAILURE,
        Stage.OPEN,
        r"couldn't read uverbs abi version",
        ("ib-uverbs-not-loaded", "abi-mismatch"),
        (LOAD_UVERBS, DEVICES),
    ),
    sign(
        "no-nodes",
        Kind.FAILURE,
        Stage.OPEN,
        r"/dev/infiniband/?['\"]?[ :]+(?:no such file|does ?n[o']t exist|not found)",
        ("container-without-device", "ib-uverbs-not-loaded", "no-rdma-device"),
        (IN_CONTAINER, LOAD_UVERBS, DEVICES),
    ),
    sign(
        "no-node",
        Kind.FAILURE,
        Stage.OPEN,
        r"/dev/infiniband/uverbs\d+['\"]?[ :]+(?:no such file|does ?n[o']t exist|not found)",
        ("uverbs-node-missing", "container-without-device"),
        (IN_CONTAINER, DEVICES),
    ),
    sign(
        "selinux",
        Kind.FAILURE,
        Stage.INIT,
        r"avc:\s+denied.{0,200}\binfiniband_(?:pkey|endport)",
        ("selinux",),
        ("sudo ausearch -m avc -ts recent", "sudo semanage ibpkey -l"),
    ),
    sign(
        "cq-too-large",
        Kind.FAILURE,
        Stage.CREATE_CQ,
        r"exceed\w*.{0,30}\bmax_cqe|\bmax_cqe\b.{0,30}exceed",
        ("cq-too-large",),
        ("ibv_devinfo -v | grep max_cqe",),
    ),
    sign(
        "provider-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"no userspace device-specific driver|(?:load|open)\w* (?:the )?(?:driver"
        r"|provider).{0,60}(?:rdmav\d+|lib\w+)"
        r"|lib(?:mlx|bnxt|irdma|efa|hns|qedr|ionic)\w*-?rdmav\d+\.so",
        ("provider-missing",),
        LIBRARIES,
        only=FAILS + "|no userspace",
    ),
    sign(
        "rdmacm-library-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"librdmacm(?:-\w+)?\.(?:so|dylib)",
        ("rdmacm-library-missing",),
        only=FAILS,
    ),
    sign(
        "verbs-library-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"lib(?:ibverbs|mlx5|rdma)(?:-\w+)?\.(?:so|dylib)",
        ("verbs-library-missing",),
        only=FAILS,
    ),
    sign(
        "library-not-found",
        Kind.FAILURE,
        Stage.OPEN,
        r"\blib(?:uc[tpsm]|fabric|psm2?|psm_infinipath|nccl-net|efa)[^ ]*\.so[^ ]* => not found",
        ("library-mismatch", "verbs-library-missing", "transport-unusable"),
    ),
    sign(
        "memlock-limit",
        Kind.FAILURE,
        Stage.REG_MR,
        r"(?<!and/or that )RLIMIT_MEMLOCK|locked memory limit"
        r"|(?:memlock|locked memory)(?!(?: +(?:\(kbytes, -l\)|unlimited) +|[=:] ?)unlimited)"
        r".{0,60}(?:too low|severely|unlimited|insufficient|limits? (?:is|are)\b)",
        ("memlock",),
        (LIMIT, _LIMIT_OF_LAUNCHER, LIMIT_OF_SERVICE, LIMIT_IN_CONTAINER),
        errno=Errno.REPLACES_SIGN,  # UCX prints it beside an errno
    ),
    sign(
        "open-files-limit",
        Kind.FAILURE,
        Stage.OPEN,
        r"\btoo many open files\b",
        ("open-files-limit",),
        ("ulimit -n   # as the job has it",),
        only=r"\buc[xcs]\b|nccl|rccl|gloo|libfabric|rdma|ibv_|mooncake|nixl|nvshmem|\bmpi|pmix|c10d"
        r"|infiniband|event.?(?:fd|channel)",
        errno=Errno.REPLACES_SIGN,
    ),
    sign(
        "wrong-netns-mode",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:incorrect|wrong|invalid) RDMA subsystem network namespace|netns mode.{0,20}exclusive",
        ("device-in-other-netns",),
    ),
)
