"""Programs, kernels and scripts that were built or installed without their part for RDMA.

What compilers, linkers and configure say of it is a note: nothing of RDMA has run. A program that
runs and has no such part has failed.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import sign
from rdmadiag.explain.remedies import LIBRARIES
from rdmadiag.facts.attempt import Stage

_PART: Final = (
    r"(?:rdma|roce|infiniband|\bib\b|verbs|ucx|libfabric|\bofi\b|\befa\b|openib|openfabrics"
    r"|psm[23x]?\b|smb_?direct|nixl|gdrcopy|nvshmem|gpu ?direct|gdrdma)"
)
_PACKAGE: Final = (
    r"(?:lib)?(?:ibverbs|rdmacm|rdma-?core|mlx[45]|ibumad|ibmad|ibnetdisc\w*|osm\w+|opensm|fabric"
    r"|efa|ucx|uc[tpsm]|psm[23]?|psm_infinipath|gdrapi|gdrcopy|hcoll|sharp|verbs|ofi|cxi|rdma)"
)
_ABSENT: Final = (
    r"(?:not found|not (?:be )?found|no such file|missing|could ?n[o']t|cannot|unable|not available"
    r"|requires?|required|requested|failed|no usable|not usable|can't|without)"
)
_TOOL: Final = (
    r"(?:ib_(?:write|read|send|atomic)_(?:bw|lat)|ibv_\w+|ibstat(?:us)?|ibdev2netdev|ibnetdiscover"
    r"|ibping|iblinkinfo|ibhosts|ibqueryerrors|ibdiagnet|perfquery|sminfo|smpquery|opensm|rdma"
    r"|rping|ucmatose|ofed_info|mst|mlx(?:config|link|fwmanager|up|_\w+)|(?:mst)?flint"
    r"|show_gids|ucx_info|ucx_perftest|fi_info|fi_pingpong|nvidia-fabricmanager|lnetctl|cma_\w+)"
)

SIGNS: Final = (
    sign(
        "part-not-built",
        Kind.NOTE,
        None,
        rf"(?:infiniband|rdma)/\w+\.h\b.{{0,20}}(?:no such file|not found)"
        rf"|\b(?:uc[tpsm]/api/\w+|psm2|gdrapi|nvshmem\w*|rdma/fabric)\.h\b.{{0,20}}(?:no such file"
        rf"|not found)"
        rf"|(?:cannot find|not found for|unable to find library) -l{_PACKAGE}\b"
        rf"|\bpackage '?{_PACKAGE}'?(?:, required by '[^ ]+',)? (?:was )?not found"
        rf"|\bno package '{_PACKAGE}' found"
        rf"|\bpackage requirements \(.{{0,80}}\b{_PACKAGE}\b.{{0,80}}were not met"
        rf"|\bconfigure: (?:error|warning): .{{0,80}}{_PART}.{{0,80}}{_ABSENT}"
        rf"|\bconfigure: (?:error|warning): .{{0,80}}{_ABSENT}.{{0,80}}{_PART}"
        rf"|\bcould not find {_PACKAGE}\b|\bcmake error.{{0,120}}{_PACKAGE}\b.{{0,60}}{_ABSENT}"
        rf"|\bundefined reference to [^ \w]?(?:ibv_|rdma_|mlx5dv_|efadv_"
        r"|fi_|ucp_|uct_|psm2_)\w+"
        # a summary: "Open UCX: no", "RDMA Transport for Staging: Unconfigured"
        rf"|^(?:-- +)?[\w ]{{0,30}}{_PART}[\w ]{{0,30}}(?:\.{{2,}}|[:=])+ *(?:no|unconfigured"
        r"|not (?:found|built|configured))$",
        ("feature-not-built", "library-mismatch"),
        LIBRARIES,
    ),
    sign(
        "headers-too-old",
        Kind.NOTE,
        None,
        r"\b(?:ibv_|mlx5dv_|rdma_|efadv_|ibverbs_)\w+.{0,4}(?: undeclared|: undeclared| was not"
        r" declared| has no member)|\bstruct ibv_\w+.{0,4} has no member"
        r"|implicit declaration of function .?(?:ibv_|mlx5dv_|rdma_|efadv_)",
        ("library-mismatch", "feature-not-built"),
        LIBRARIES,
    ),
    sign(
        "part-not-there",
        Kind.FAILURE,
        Stage.OPEN,
        rf"{_PART}[^:]{{0,60}}\b(?:support )?(?:is |was )?(?:not|n't) (?:been )?(?:built|compiled"
        rf"|configured|supported by this build)\b"
        rf"|\b(?:built|compiled|configured|compile)\b.{{0,20}}\b(?:without|with no|not with)\b"
        rf"(?! nvfs).{{0,20}}{_PART}"
        rf"|\bnot (?:been )?(?:built|compiled?|configured) (?:with|in|for)\b.{{0,20}}{_PART}"
        rf"|{_PART}.{{0,40}}(?:disabled|not enabled|not included) (?:in|at|by) (?:this build|build"
        rf"|compile|configure)"
        rf"|{_PART} support (?:is )?(?:not (?:available|included|enabled|found|present)|missing)"
        rf"|\bno {_PART} support\b"
        # transports, engines and protocols that a program loads by their names
        r"|\b(?:transport(?: type)?|engine|protocol|trtype|fabric|module|plugin) ['\"]?"
        r"(?:rdma|verbs|ib|infiniband|ucx|roce)['\"]? (?:is )?(?:not (?:valid|loadable|supported"
        r"|available|found|known|registered|recogni[sz]ed)|unavailable|unknown|unsupported)"
        r"|\b(?:unknown|unsupported|invalid|no such|unable to create|cannot create|could not create"
        r"|failed to create) (?!migration)(?:\w+ )?(?:transport|engine|protocol|trtype|van)"
        r"(?: type)?:? ['\"]?(?:rdma|verbs|ib|infiniband|ucx|roce)\b"
        r"|\bnetlink_rdma\b.{0,40}(?:eprotonosupport|protocol not supported)",
        ("feature-not-built", "kernel-module-missing", "verbs-library-missing"),
        LIBRARIES,
    ),
    # nldev_newlink (drivers/infiniband/core/nldev.c): EINVAL of a type that no module has
    sign(
        "link-not-added",
        Kind.FAILURE,
        Stage.OPEN,
        r"\brdma link add\b.{0,120}(?:operation not supported|invalid argument"
        r"|protocol not supported)",
        ("kernel-module-missing", "feature-not-built", "no-rdma-at-address", "roce-udp-port-taken"),
        (
            "modinfo rdma_rxe siw   # does this kernel have the module?",
            "sudo dmesg | tail -20",
        ),
    ),
    sign(
        "link-not-added",
        Kind.FAILURE,
        Stage.OPEN,
        r"\brdma link add\b.{0,120}no such device",
        ("device-absent", "interface-down", "kernel-module-missing"),
        ("ip -brief link   # is the netdev there?",),
    ),
    sign(
        "link-not-added",
        Kind.FAILURE,
        Stage.OPEN,
        r"\brdma link add\b.{0,120}(?:file exists|device or resource busy)",
        ("object-in-use", "roce-udp-port-taken"),
        ("rdma link   # the name, or the netdev, has one",),
    ),
    # pkg/resources/rdma_device_spec.go of k8s-rdma-shared-dev-plugin: nodes that it looks for
    sign(
        "node-of-module-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bmissing rdma device spec\b.{0,120}\brdma_cm\b",
        ("rdma-ucm-not-loaded", "no-rdma-device", "resource-not-advertised"),
    ),
    sign(
        "node-of-module-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bmissing rdma device spec\b.{0,120}\b(?:issm|umad)\b",
        ("umad-missing", "no-rdma-device", "resource-not-advertised"),
    ),
    sign(
        "module-not-installed",
        Kind.NOTE,
        None,
        r"\bno module named ['\"]?(?:deep_ep\w*|mooncake\w*|nixl\w*|ucp\b|ucxx\w*|pyverbs"
        r"|nvshmem\w*|mori\b|uccl\w*|hybrid_ep\w*|mscclpp\w*|rdma\w*)"
        r"|\bplease install (?:mooncake|nixl|ucx|deep_?ep|nvshmem|libfabric|rdma-core|libibverbs)\b"
        r"|\b(?:nixl|mooncake|deep_?ep|nvshmem|ucx|libfabric) is not (?:available|installed)\b",
        ("feature-not-built", "library-mismatch"),
        LIBRARIES,
    ),
    sign(
        "command-missing",
        Kind.NOTE,
        None,
        rf"(?:^|[:/\s]){_TOOL}: (?:command )?not found\b"
        rf"|\bexec(?:utable file)?: [\"']?{_TOOL}[\"']?: (?:executable file )?not found",
        ("feature-not-built",),
        LIBRARIES,
    ),
    sign(
        "service-not-run",
        Kind.FAILURE,
        Stage.OPEN,
        r"status=203/exec|failed at step exec|\.service: failed to execute"
        r"|\.service: unable to locate executable",
        ("program-fault", "feature-not-built"),
        ("systemctl cat SERVICE | grep Exec   # is the program there, and may it be run?",),
        only=r"rdma|openibd|opensm|ibacm|iwpmd|srp_daemon|mlnx|mlx|peermem|gdrcopy|ofed|\bmst\b"
        r"|fabricmanager|infiniband",
    ),
)
