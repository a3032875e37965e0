"""Families of messages of single stacks, from the strings in their sources.

UCX src/uct and src/ucp; libfabric prov/efa, prov/verbs and prov/psm3; NVSHMEM's ibrc and ibgda;
SPDK lib/nvme and lib/nvmf; DPDK drivers/common/mlx5; MVAPICH's mrail; Intel MPI; Mooncake's
transfer engine; infiniband-diags and opensm of rdma-core; the kernel's nvme-rdma, srp, iser,
o2iblnd and xprtrdma.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, Sign, sign
from rdmadiag.explain.remedies import ADDRESSES, AT_PEER, DEVICES, DMESG_OF_RDMA, GIDS, LIBRARIES
from rdmadiag.facts.attempt import Stage

_NO_DEVICE: Final = (
    "no-rdma-device",
    "provider-missing",
    "port-down",
    "uverbs-node-missing",
    "container-without-device",
)
_PATH_LOST: Final = ("peer-gone", "no-path", "link-lost", "gid-does-not-route", "port-down")


def _none_found(pattern: str, *labels: str, only: str | None = None) -> Sign:
    return sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        pattern,
        labels or _NO_DEVICE,
        (DEVICES, *LIBRARIES),
        only=only,
        errno=Errno.FIRST,
    )


def _lost(word: str, pattern: str, only: str | None = None) -> Sign:
    return sign(
        word,
        Kind.FAILURE,
        Stage.DATA,
        pattern,
        _PATH_LOST,
        (AT_PEER, GIDS, DMESG_OF_RDMA),
        only=only,
    )


SIGNS: Final = (
    # --- UCX ---------------------------------------------------------------------------------
    sign(
        "gdrcopy-not-opened",
        Kind.FAILURE,
        Stage.REG_MR,
        r"failed to open gdr copy|gdr_open\w*.{0,20} fail",
        ("gdrdrv-missing", "gdr-off", "container-without-device"),
    ),
    sign(
        "gdrcopy-not-mapped",
        Kind.FAILURE,
        Stage.REG_MR,
        r"gdr_(?:pin_buffer|map)\w*.{0,20} fail",
        ("gpu-bar-exhausted", "gdr-off", "gdrdrv-missing"),
    ),
    sign(
        "gpu-direct-refused",
        Kind.FAILURE,
        Stage.REG_MR,
        r"could ?n[o']t enable gpudirect rdma|dmabuf support requested but not found"
        r"|ucx-cuda.{0,40}(?:not found|missing)",
        ("gdr-off", "memory-kind", "acs-or-iommu"),
    ),
    sign(
        "tag-matching",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"failed to create tm (?:xrq|control qp)|mp srq is requested, but not supported",
        ("device-lacks-capability", "provider-release", "firmware-failed"),
        errno=Errno.LAST,
    ),
    sign(
        "qp-attributes-refused",
        Kind.FAILURE,
        Stage.RTR,
        r"error modifying (?:dct|qp|dci) to (?:rtr|rts)|devx_qp_modify\(\d+\) failed, syndrome",
        ("driver-refused", "mtu-above-port", "gid-index-or-family", "gid-row-empty"),
        (GIDS, DMESG_OF_RDMA),
        errno=Errno.LAST,
        only=r"invalid argument|remote i/o|bad parameter|syndrome",
    ),
    sign(
        "transport-not-usable",
        Kind.FAILURE,
        Stage.OPEN,
        r"no (?:remote ep address|cm|auxiliary|am|rma|amo) .{0,40}(?:lane|transport)"
        r"|asymmetric endpoint configuration|none of the available components supports"
        r"|network devices? '[^']{1,80}' (?:is|are) not available|the tls list is empty"
        r"|transport '[^']{1,40}' is not available",
        ("transport-unusable", "no-rdma-device", "port-down", "device-absent", "no-usable-gid"),
        only=r"ucx|uc[tp]_|lane|listener",
    ),
    sign(
        "endpoint-error",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"ucs_err_(?:unreachable|endpoint_timeout|connection_reset|rejected|not_connected|io_error)"
        r"|(?:error|err) '(?:destination is unreachable|endpoint timeout"
        r"|connection reset by remote peer)'"
        r"|ucx.{0,120}(?:endpoint is not connected|keepalive.{0,40}(?:fail|timeout|error))"
        r"|endpoint 0x[0-9a-f]+ (?:has been|was) (?:closed|reset)",
        ("peer-gone", "no-path", "link-lost", "transport-unusable"),
        (AT_PEER, DMESG_OF_RDMA),
    ),
    # --- NVSHMEM and DeepEP ------------------------------------------------------------------
    sign(
        "gpu-memory-not-registered",
        Kind.FAILURE,
        Stage.REG_MR,
        r"(?:mem(?:ory)?|heap|mr) registration failed|register heap memory handle failed"
        r"|ib(?:rc|gda|gda_)\w*.{0,40}(?:reg_mem|mem_handle|dmabuf).{0,60}(?:fail|error|null)"
        r"|devx_umem_reg\w*.{0,40}(?:fail|error|invalid|cannot)",
        ("gdr-off", "memlock", "memory-kind", "acs-or-iommu", "gpu-peer-mapping-off"),
        only=r"nvshmem|ibrc|ibgda|transport|umem|gpu|cuda",
    ),
    sign(
        "gpu-mapping-off",
        Kind.FAILURE,
        Stage.OPEN,
        r"ibgda_alloc_and_map_qp_uar|(?:uar|doorbell|bf).{0,60}(?:gpu|cudahostregister).{0,60}fail"
        r"|cudahostregister.{0,60}iomemory",
        ("gpu-peer-mapping-off", "driver-refused"),
    ),
    sign(
        "transport-not-usable",
        Kind.FAILURE,
        Stage.OPEN,
        r"init failed for (?:remote )?transport|unable to (?:initialize|load) (?:any )?transports?"
        r"|building transport map failed|no (?:remote )?transports? (?:found|connected)"
        r"|transport.{0,30}(?:is not|not) (?:available|initialized)"
        r"|nvshmem_remote_transport.{0,60}(?:fail|unable|not)",
        ("no-rdma-device", "gdr-off", "provider-missing", "transport-unusable", "port-down"),
        (DEVICES, *LIBRARIES),
        only=r"nvshmem|shmem|ibgda|ibrc",
    ),
    # --- libfabric and its users -------------------------------------------------------------
    sign(
        "gpu-memory-not-registered",
        Kind.FAILURE,
        Stage.REG_MR,
        r"net/ofi .{0,80}unable to (?:register|create) (?:memory|.{0,12}mr)"
        r"|fi_mr_reg\w*.{0,80}(?:fail|error|-\d).{0,120}(?:hmem|cuda|rocr|ze|neuron|dmabuf)",
        ("gdr-off", "memory-kind", "memlock", "mr-exhausted", "fork-unsafe"),
        errno=Errno.LAST,
    ),
    sign(
        "no-provider",
        Kind.FAILURE,
        Stage.OPEN,
        r"unable to find a protocol that worked|net/ofi .{0,60}initialization failed"
        r"|fabric is not available and fallback fabric is not enabled"
        r"|requested provider .{0,60}(?:not found|not available)|no fabric providers?"
        r"|ofi get address vector map failed|unable to find a compatible (?:ofi )?provider"
        r"|failed to initialize (?:rdma|sendrecv|rdma\+?) protocol",
        ("no-provider", "no-rdma-device", "provider-missing", "provider-release"),
        (DEVICES, *LIBRARIES),
    ),
    sign(
        "fabric-object",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"couldn'?t (?:open|create|allocate) (?:ep|endpoint|cq|av|domain|a fabric|fabric)\b"
        r"|error (?:creating|opening|enabling) (?:an? )?(?:endpoint|ep|domain)",
        ("no-provider", "memlock", "qp-exhausted", "device-lacks-capability", "no-rdma-device"),
        errno=Errno.LAST,
        only=r"net/ofi|\bofi\b|fabric|efa",
    ),
    # --- PSM2 and PSM3: hfp_verbs, psm_error.c, opa_service.c --------------------------------
    sign(
        "contexts-used-up",
        Kind.FAILURE,
        Stage.OPEN,
        r"assign_context command failed: device or resource busy",
        ("too-many-contexts",),
        (DEVICES, DMESG_OF_RDMA),
    ),
    sign(
        "contexts-used-up",
        Kind.FAILURE,
        Stage.OPEN,
        r"assign_context command failed|no free (?:\w+ )?contexts?|hfi_userinit.{0,60}busy"
        r"|driver.{0,20}(?:out of|no) contexts",
        ("too-many-contexts", "device-resetting", "port-down"),
        (DEVICES, DMESG_OF_RDMA),
    ),
    sign(
        "port-not-active",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:hfi|nic|selected) unit \d+ is not active|port state is not (?:active|up|running)"
        r"|could not detect network connectivity|network is down.{0,40}psm"
        r"|psm.{0,60}network is down",
        ("port-down", "no-subnet-manager", "link-lost"),
        (DEVICES, DMESG_OF_RDMA),
    ),
    _none_found(r"no hfi units? found|detected no hfis|did not detect any rdma devices"),
    _lost(
        "psm-unreachable",
        r"psm\w? ?(?:ep )?connect\w*.{0,60}(?:timeout|timed out|unreachable|could not|fail)"
        r"|endpoint(?:s)? could not be reached",
    ),
    _lost("request-failed", r"(?:send|recv) desc error in msg|handle_cqe\].{0,60}error"),
    # --- MPI ---------------------------------------------------------------------------------
    _none_found(
        r"no active hcas? found|rdma_(?:open|find_active)\w*.{0,80}(?:fail|no |not )"
        r"|could ?n[o']t open (?:any )?(?:hca|ib device)|ibv_get_device_list.{0,40}(?:null"
        r"|fail|empty)",
    ),
    _none_found(
        r"\bdapl\b.{0,80}(?:fail|not found|could not|cannot|no )|dat_(?:ia_open"
        r"|registry)\w*.{0,60}fail"
        r"|cannot open dynamic library lib(?:dat|dapl|psm|fabric|ibverbs)\w*\.so",
        "verbs-library-missing",
        "no-rdma-device",
        "provider-missing",
        "no-provider",
    ),
    # --- DPDK --------------------------------------------------------------------------------
    _none_found(
        r"no verbs device matches|verbs device not found|are kernel drivers loaded",
        "no-rdma-device",
        "kernel-module-missing",
        "provider-missing",
        "device-in-other-netns",
    ),
    sign(
        "verbs-library-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"cannot load glue library|missing run-?time dependency on rdma-core",
        ("verbs-library-missing", "provider-missing", "provider-release"),
        LIBRARIES,
    ),
    # --- SPDK, NVMe over RDMA, SRP, iSER -----------------------------------------------------
    _none_found(
        r"rdma device array was empty|rdma_get_devices\w* failed|no rdma devices? (?:found"
        r"|available)"
        r"|unable to find a corresponding device",
        "no-rdma-device",
        "no-rdma-at-address",
        "provider-missing",
        "uverbs-node-missing",
    ),
    sign(
        "bind-failed",
        Kind.FAILURE,
        Stage.CONNECT,
        r"rdma_cm_(?:bind_addr|listen)\(\) failed|is still failed\(\d+\) to listen"
        r"|unable to listen on address",
        ("no-rdma-at-address", "not-this-hosts-address", "cm-port-taken", "interface-down"),
        (ADDRESSES, GIDS),
        only=r"rdma|nvmf|spdk",
    ),
    sign(
        "cq-too-large",
        Kind.FAILURE,
        Stage.CREATE_CQ,
        r"exceeds device max_cqe|cq resize (?:failed|not supported)|doesn't support cq resize",
        ("cq-too-large", "device-lacks-capability"),
    ),
    _lost(
        "request-unanswered",
        r"cq transport error -?6|(?:isert|iser|srpt?).{0,80}(?:timed? ?out|timeout)",
    ),
    # --- Lustre and NFS ----------------------------------------------------------------------
    sign(
        "address-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"kiblnd_\w+.{0,80}(?:addr(?:ess)? error|can'?t resolve|unreachable) -?\d*"
        r"|kiblnd_\w+.{0,60}can'?t (?:find|open) (?:ib )?(?:interface|device)",
        ("peer-unreachable", "no-rdma-at-address", "no-route", "interface-down"),
        (ADDRESSES, GIDS),
    ),
    _lost(
        "lnet-lost",
        r"\b[\w.]+@o2ib\d* .{0,60}(?:unreachable|timed out|is dead|down|went away)"
        r"|kiblnd_\w+.{0,80}(?:conn\[\d+\]|closing conn|error -\d+)",
    ),
    # --- Mooncake ----------------------------------------------------------------------------
    sign(
        "peer-handshake",
        Kind.FAILURE,
        Stage.CONNECT,
        r"(?:active|passive) handshake rpc failed|failed to (?:receive|send"
        r"|complete).{0,30}handshake"
        r"|reject(?:ed|ing)? (?:the )?handshake|handshake.{0,40}(?:refused|reject|timed? ?out"
        r"|mismatch)"
        r"|(?:invalid|inconsistent) argument.{0,60}peer nic|cannot find.{0,30}peer.{0,10}nic"
        r"|failed to (?:get|find|retrieve) segment desc",
        ("peer-gone", "firewall", "peer-not-listening", "peer-refused", "no-path"),
        (AT_PEER, ADDRESSES),
        only=r"rdma|endpoint|transfer|mooncake|segment|handshake",
    ),
    sign(
        "key-of-address",
        Kind.FAILURE,
        Stage.DATA,
        r"(?:address|memory) (?:0x[0-9a-f]+ )?(?:is )?not registered(?: by any)?"
        r"|cannot select device for"
        r"|selectdevice failed",
        ("remote-key-wrong", "local-key-wrong", "mr-exhausted"),
        only=r"transfer|rdma|mooncake|efa|device|transport",
    ),
    # --- diagnostics and the subnet manager --------------------------------------------------
    _none_found(
        r"osm_vendor_open_port: .{0,10}unable to find requested ca guid",
        "device-absent",
        "no-subnet-manager",
        "port-down",
    ),
    _none_found(
        r"no local ports detected|osm_vendor_\w+.{0,80}(?:unable|fail|no )"
        r"|ib(?:panic|error|warn).{0,60}(?:can'?t|could not|failed to) (?:resolve|open|find)",
        "port-down",
        "no-rdma-device",
        "uverbs-node-missing",
        "container-without-device",
    ),
    sign(
        "datagram-unanswered",
        Kind.FAILURE,
        Stage.CONNECT,
        r"(?:\bmads?\b|\bsmps?\b|path record|sa query|perfquery|ibping"
        r"|sminfo).{0,40}(?:timed? ?out|timeout"
        r"|no response|completed with error|failed)",
        ("no-subnet-manager", "no-path", "link-lost", "port-down"),
        (DEVICES, DMESG_OF_RDMA),
        only=r"\bmad|smp|umad|opensm|osm_|\bsa\b|ib_sa|path record|lid|ibwarn|iberror|ibpanic"
        r"|perfquery|sminfo",
        errno=Errno.LAST,
    ),
    # --- Kubernetes --------------------------------------------------------------------------
    sign(
        "wrong-netns-mode",
        Kind.FAILURE,
        Stage.OPEN,
        r"rdma subsystem namespace awareness mode is set to shared, expecting",
        ("netns-mode-shared",),
    ),
    sign(
        "device-not-moved",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:move|moving|set(?:ting)?) .{0,40}rdma.{0,60}(?:netns|namespace)"
        r"|rdma.{0,60}(?:netns|namespace).{0,60}(?:fail|error|busy|invalid|denied)"
        r"|rdma subsystem.{0,40}(?:mode|namespace)",
        ("device-in-other-netns", "netdev-in-other-netns", "container-without-device"),
        only=r"fail|error|unable|cannot|could not|not supported|busy",
    ),
    _none_found(
        r"(?:no|cannot find|failed to (?:get|find)|unable to find) (?:any )?rdma (?:devices?"
        r"|resources?|cdev|char)"
        r"|missing rdma device spec",
        "no-rdma-device",
        "uverbs-node-missing",
        "container-without-device",
        "device-in-other-netns",
    ),
    # --- drivers -----------------------------------------------------------------------------
    _lost("asynchronous-event", r"abnormal ae_id|irdma.{0,60}\bae_id\b"),
    sign(
        "driver-refused",
        Kind.FAILURE,
        None,
        r"cmdq\[0x[\da-f]+\]=0x[\da-f]+ status 0x0*[1-9a-f]|failed to process command"
        r"|comp_status \d"
        r"|failed to (?:modify (?:qp to hw|hw qp)|create hw (?:cq|qp)|register (?:user )?mr)"
        r"|change qp state"
        r"|^(?!.*\baccess_reg\(.*status bad (?:operation|parameter|resource)\()"
        r".*syndrome \(?0x[0-9a-f]{4,8}",
        ("driver-refused", "firmware-failed", "device-lacks-capability"),
        (DMESG_OF_RDMA, DEVICES),
        only=r"bnxt|efa|irdma|hns|qed|ionic|mlx|erdma|mana",
    ),
    sign(
        "firmware-silent",
        Kind.FAILURE,
        None,
        r"mfw (?:is )?not respons|mfw failed to respond|driver didn't receive (?:an?y? )?msi"
        r"|wait for completion \(?(?:polling|interrupt)?\)?.{0,10}timeout|cmdq? (?:move tail"
        r"|wait).{0,60}timeout"
        r"|mailbox.{0,40}(?:timeout|timed out)|admin ?q\w*.{0,40}(?:timeout|timed out|no response)",
        ("firmware-silent", "firmware-failed", "pcie-error"),
        (DMESG_OF_RDMA, DEVICES),
        only=r"hns|qed|efa|ena|irdma|ice|i40|bnxt|mlx|ionic|mana|erdma|hfi|cxgb",
    ),
)
