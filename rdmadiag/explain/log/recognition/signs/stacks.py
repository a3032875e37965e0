"""What single stacks print of their own: UCX, SPDK, NVMe over RDMA, LNet, PSM, diagnostics."""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, sign
from rdmadiag.explain.remedies import ADDRESSES, AT_PEER, DEVICES, DMESG_OF_RDMA, GIDS, LIBRARIES
from rdmadiag.facts.attempt import Stage

_PATH_LOST: Final = ("no-path", "gid-does-not-route", "peer-gone", "link-lost", "mtu-too-large")
_RELEASE: Final = "provider-release"

SIGNS: Final = (
    # --- libraries that do not fit each other ------------------------------------------------
    sign(  # static inline in verbs.h: no library has them
        "inline-function-called",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:undefined symbol|could not load symbol|symbol not found)[: \"'`]{1,4}(?:lib[^ ]+: )?"
        r"ibv_(?:poll_cq|req_notify_cq|post_(?:send|recv|srq_recv|srq_ops)|wr_\w+|start_poll"
        r"|next_poll|end_poll|wc_read_\w+)\b",
        ("program-fault",),
    ),
    # of one package beside those of another: PRIVATE symbols are between libibverbs and a provider
    sign(
        "symbol-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"^(?!.*(?:\bplugin|nccl-net)).*\bversion [^\w\s]?(?!\w*private)[\w.]+.{0,4} not found",
        ("library-mismatch", _RELEASE, "verbs-library-missing", "provider-missing"),
        LIBRARIES,
        only=r"lib(?:ibverbs|rdmacm|mlx[45]|efa|fabric|bnxt_re|irdma|uc[tpsm]|ibumad)|\bmlx5dv_|\bibv_"
        r"|\bibverbs_",
    ),
    sign(
        "symbol-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"relocation error|symbol lookup error|undefined symbol"
        r"|version [^\w\s]?[\w.]+.{0,4} not (?:found|defined)",
        (_RELEASE, "verbs-library-missing", "provider-missing"),
        LIBRARIES,
        only=r"lib(?:ibverbs|rdmacm|mlx[45]|efa|bnxt_re|irdma|uct_ib|ibumad)|\bmlx5dv_|\bibv_"
        r"|\bibverbs_",
    ),
    sign(
        "network-plugin-unfit",
        Kind.FAILURE,
        Stage.OPEN,
        r"plugin.{0,400}?(?:version [^\w\s][\w.]{1,40}.{0,2} not found|undefined symbol)"
        r"|network gib not found|failed to initialize net plugin",
        ("network-plugin-unfit",),
    ),
    sign(
        "devx-unsupported",
        Kind.FAILURE,
        Stage.OPEN,
        r"devx\w*.{0,60}(?:protocol not supported|operation not supported)"
        r"|ibv_exp_\w+.{0,60}(?:returned 38|function not implemented|inappropriate ioctl)",
        (_RELEASE, "device-lacks-capability"),
        LIBRARIES,
    ),
    sign(
        "devx-refused",
        Kind.FAILURE,
        Stage.OPEN,
        r"devx_general_cmd.{0,60}remote i/o error",
        ("driver-refused", "device-lacks-capability", "provider-release"),
        LIBRARIES,
    ),
    sign(
        "devx-no-answer",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"(?:devx_obj_\w+|mlx5dv_create_cq).{0,60}(?:timed out|operation canceled)",
        ("firmware-silent", "firmware-failed", "device-removed"),
        (DMESG_OF_RDMA, DEVICES),
    ),
    sign(
        "devx-exhausted",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"devx_obj_create\((?:qp|dct|rmp|srq).{0,60}cannot allocate memory",
        ("qp-exhausted", "memlock", "no-memory"),
    ),
    sign(
        "fork",
        Kind.FAILURE,
        Stage.OPEN,
        r"operation involving a call|to the fork\(\) system call|efa provider.{0,60}\bfork\b"
        r"|ibv_fork_init.{0,40}(?:fail(?!ed, yet)|error)|fork.{0,40}memory corruption",
        ("fork-unsafe",),
        only=r"fork|operation involving",
    ),
    # --- UCX ------------------------------------------------------------------------------------
    sign(
        "ud-timeout",
        Kind.FAILURE,
        Stage.DATA,
        r"fatal: transport error: endpoint timeout|ud_(?:ep|iface)\.c.{0,80}(?:endpoint timeout"
        r"|unhandled timeout|no response|timed? ?out)|\bud endpoint\b.{0,80}(?:unhandled"
        r"|endpoint) timeout",
        _PATH_LOST,
        (AT_PEER, GIDS, DMESG_OF_RDMA),
    ),
    sign(
        "transport-not-usable",
        Kind.FAILURE,
        Stage.OPEN,
        r"no supported \w* ?(?:auxiliary )?transports",
        ("port-down", "transport-unusable", "no-usable-gid", "no-rdma-device"),
    ),
    sign(
        "endpoint-unreachable",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"(?:error (?:handler|callback)).{0,80}(?:destination is unreachable|endpoint timeout)",
        ("peer-gone", "no-path", "link-lost"),
        (AT_PEER, DMESG_OF_RDMA),
    ),
    # --- finding a device -----------------------------------------------------------------------
    sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"sys files not found \(/sys/class/infiniband|librdmacm: fatal: no rdma devices"
        r"|call to devices\(\) returned 0|no hca(?:s)? (?:found|detected)\b",
        ("no-rdma-device", "provider-missing", "container-without-device", "uverbs-node-missing"),
        (DEVICES, *LIBRARIES),
    ),
    sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:ib devices? list|get_device_list).{0,40}(?:function not implemented|\bENOSYS\b|\b38\b)"
        r"|is ib_uverbs loaded",
        ("ib-uverbs-not-loaded", "abi-mismatch", "no-rdma-device"),
    ),
    sign(
        "no-optimal-provider",
        Kind.FAILURE,
        Stage.OPEN,
        r"could ?n[o']t find any (?:optimal|suitable|usable)\w* provider|no (?:optimal|eligible"
        r"|suitable) (?:ofi |libfabric )?providers?",
        ("no-provider", "no-rdma-device"),
        only=r"ofi|fabric|efa",
    ),
    sign(
        "no-subnet-manager",
        Kind.FAILURE,
        Stage.OPEN,
        r"no sm/sa found|failed to bind to the sa\b|sa_get_handle.{0,40}(?:fail|no sm)",
        ("no-subnet-manager", "port-down"),
    ),
    sign(
        "port-not-active",
        Kind.FAILURE,
        Stage.OPEN,
        r"no (?:hfi|nic) units? (?:are|is) active"
        r"|no (?:available )?(?:hfi|opa|psm\w?) (?:device|unit|port)"
        r"|\bstate down physical_state (?:disabled|polling|linkup|sleep)",
        ("port-down", "link-lost", "no-subnet-manager"),
        (DEVICES, DMESG_OF_RDMA),
    ),
    sign(
        "port-not-active",
        Kind.FAILURE,
        Stage.OPEN,
        r"psm\d? ?(?:can't|could not|was unable to) open (?:an? )?(?:(?:hfi|nic) unit|endpoint)",
        ("port-down", "no-rdma-device", "device-removed"),
        (DEVICES, DMESG_OF_RDMA),
    ),
    sign(
        "event-channel",
        Kind.FAILURE,
        Stage.CONNECT,
        r"(?:rdma_create_event_channel|rdma(?:_cm)? event channel)"
        r".{0,60}(?:fail|error|no such)"
        r"|(?:fail\w*|unable|could ?n[o']t|cannot|could not) (?:to )?create (?:\w+ )?(?:rdma|cm)"
        r" event channel",
        ("rdma-ucm-not-loaded", "no-rdma-device", "rdma-cm-node-not-openable"),
    ),
    # --- connecting -------------------------------------------------------------------------------
    sign(
        "bind-failed",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\brdma_bind_addr\b.{0,40}fail|\bbinding address to .{1,60}fail"
        r"|kiblnd_\w+.{0,30}failed to bind .{1,60} to device"
        r"|(?:unable|fail\w*) to (?:bind|listen).{0,40}rdma"
        r"|rdma_listen.{0,40}fail",
        ("no-rdma-at-address", "not-this-hosts-address", "cm-port-taken"),
        (ADDRESSES, GIDS),
        errno=Errno.FIRST,
    ),
    sign(
        "route-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"kiblnd_\w+.{0,60}route error|\brdma route resolution error",
        ("no-path", "no-subnet-manager"),
        errno=Errno.LAST,
    ),
    sign(
        "address-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\brdma address resolution error",
        ("no-rdma-at-address", "no-route", "peer-unreachable"),
    ),
    sign(
        "rejected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"kiblnd_\w+.{0,60}rejected: (?!conn race|stale|no listener)|srp\w*: rej received",
        ("peer-refused", "peer-gone"),
    ),
    sign(
        "bootstrap",
        Kind.FAILURE,
        Stage.CONNECT,
        r"exchange handshake description|nvme nvme\d+: failed to connect queue",
        ("firewall", "peer-gone", "no-route"),
        (AT_PEER, ADDRESSES),
    ),
    sign(
        "device-lacks",
        Kind.FAILURE,
        Stage.OPEN,
        r"mode is not supported by device|device does not support (?:memory|fast|mem_mgt|local_inv"
        r"|odp|atomic|srq|frwr|remote inv)",
        ("device-lacks-capability",),
        only=r"rdma|iser|ib_|mlx|rxe|siw|verbs",
    ),
    sign(
        "lnet-timeout",
        Kind.FAILURE,
        Stage.DATA,
        r"kiblnd_\w+.{0,80}timed out (?:tx|rx|rdma)|timed out rdma with .{1,60}@o2ib",
        ("peer-gone", "no-path", "link-lost"),
        (AT_PEER, DMESG_OF_RDMA),
    ),
    sign(
        "nvme-connect",
        Kind.FAILURE,
        Stage.CONNECT,
        r"/dev/nvme-fabrics.{0,20}connection (?:refused|reset)",
        ("peer-not-listening", "peer-refused", "peer-gone"),
        errno=Errno.LAST,
    ),
    sign(
        "peer-gone",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"socketprogress\w*: connection closed by remote peer"
        r"|\bnet : connection closed by remote"
        r"|\bnet : call to (?:recv|send)\w* .{0,60}(?:connection reset|broken pipe)"
        r"|nccl warn .{0,80}connection closed by remote peer",
        ("peer-gone",),
        (AT_PEER,),
    ),
    # --- perftest, and what follows a GID that was not chosen -------------------------------------
    sign(
        "hca-not-connected",
        Kind.FAILURE,
        Stage.RTR,
        r"unable to connect the hca's through the link",
        ("no-path", "gid-does-not-route", "mtu-mismatch", "port-down", "peer-gone"),
    ),
    sign(
        "openib-not-used",
        Kind.FAILURE,
        Stage.OPEN,
        r"no openfabrics connection schemes reported|ud-capable verbs devices"
        r"|error initializing an openfabrics device",
        ("openib-not-used",),
    ),
    sign(
        "ucp-endpoint",
        Kind.FAILURE,
        Stage.CONNECT,
        r"ucp_ep_create\(.{0,40} failed: destination is unreachable",
        ("transport-unusable", "no-path", "no-usable-gid", "port-down", "no-rdma-device"),
        (DEVICES, GIDS),
    ),
    sign(
        "endpoint-shut-down",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"\bfi_e?shutdown\b|after transport endpoint shutdown",
        ("peer-gone",),
        (AT_PEER,),
    ),
    sign(
        "refused",
        Kind.FAILURE,
        Stage.CONNECT,
        r"endpoint connrefused|doca_error_connection_refused|rdma transport: connection refused",
        ("peer-not-listening", "peer-refused"),
    ),
    sign(
        "no-provider",
        Kind.FAILURE,
        Stage.OPEN,
        r"addrinfo\(\) failed.{0,200}no data available",
        ("no-provider", "no-rdma-device"),
        only=r"\bofi\b|fabric",
    ),
    sign(
        "pool-not-registered",
        Kind.FAILURE,
        Stage.REG_MR,
        r"failed to allocate memory pool chunk: input/output error|libfabric error: \(-12\)"
        r"|failure to post internal receive buffers",
        ("memlock", "mr-exhausted", "no-memory"),
        only=r"ucx|libfabric|efa",
    ),
    # --- the subnet ------------------------------------------------------------------------
    sign(
        "multicast-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"(?:multicast|broadcast) (?:join failed|group).{0,80}-110",
        ("no-subnet-manager", "no-path"),
        errno=Errno.LAST,
    ),
    sign(
        "multicast-error",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\bib\w{1,14}: .{0,30}(?:multicast join failed|failed to join|couldn't join)",
        ("multicast-refused", "no-subnet-manager"),
        errno=Errno.LAST,
    ),
    sign(
        "datagram-unanswered",
        Kind.FAILURE,
        Stage.CONNECT,
        r"_do_madrpc.{0,40}(?:failed|timed out)",
        ("no-path", "link-lost", "no-subnet-manager"),
        (DEVICES, DMESG_OF_RDMA),
        errno=Errno.LAST,
    ),
    sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"can't open umad port",
        ("no-rdma-device", "port-down", "uverbs-node-missing"),
        (DEVICES, DMESG_OF_RDMA),
    ),
    # --- the kernel ---------------------------------------------------------------------------
    sign(
        "kernel-module-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bmodule [\w-]{0,12}(?:rdma|rxe|siw|mlx[45]|ib_|iw_|bnxt_re|irdma|peer_?mem)[\w-]* "
        r"(?:not found|does not exist)"
        r"|\b(?:mlx|ib_|rdma_|iw_|nvmet?|rpcrdma|bnxt_re|irdma|qedr)\w*: "
        r"(?:disagrees about version of|unknown) symbol",
        ("kernel-module-missing",),
    ),
    sign(
        "ethernet-transmit-timeout",  # of an adapter that has no RDMA, beside one that has
        Kind.NOTE,
        None,
        r"found a tx that wasn't completed",
        ("firmware-silent", "pcie-error"),
        (DMESG_OF_RDMA,),
        only=r"\bena\b",
    ),
    sign(
        "transmit-timeout",
        Kind.FAILURE,
        None,
        r"netdev watchdog: .{0,60}timed out|\btx timeout(?: on queue| detected|!| count)"
        r"|tx_timeout: vsi"
        r"|watchdog task: transmit|found a tx that wasn't completed|\bib\d+: transmit timeout",
        ("firmware-silent", "firmware-failed", "pcie-error"),
        (DMESG_OF_RDMA,),
        only=r"mlx[45]|bnxt|irdma|\bice\b|\bi40e\b|ionic|qede|hns3|mana|\bib\d",
    ),
    sign(
        "memory-not-pinned",
        Kind.FAILURE,
        Stage.REG_MR,
        r"ib_umem_get.{0,40}fail|failed to (?:get|pin) user pages",
        ("memory-not-mapped", "memory-kind", "memlock", "gdr-off"),
        only=r"ib_|umem|mlx|rdma",
    ),
    sign(
        "gpu-mapping-off",
        Kind.FAILURE,
        Stage.OPEN,
        r"peermappingoverride|cudahostregister with iomemory failed|gpu cannot map uar",
        ("gpu-peer-mapping-off",),
    ),
)
