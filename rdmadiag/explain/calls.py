"""What an errno of a call has been traced to, by platform and stage, and what to look at.

The same number means other things on another platform and at another stage. Several causes of
one number compete: the most reported is first, and its remedy is the number's. "mlx5 cmd.c" is
the kernel's drivers/net/ethernet/mellanox/mlx5/core/cmd.c, which turns what the firmware
answers into an errno; other kernel files are under drivers/infiniband.
"""

from typing import Final

from rdmadiag.explain.causes import Known, Labels, all_stated, remedy
from rdmadiag.explain.remedies import ADDRESSES, GIDS, LOG, NO_REPEAT, PATH, PREFLIGHT, Lines
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import Platform

ANY: Final = "any"
"""What can happen at every stage that calls the device."""

_NULL_PD: Final = (
    "pd-exhausted",  # ml-explore/mlx#3207, exo-explore/exo#2111
    "port-down",  # ml-explore/mlx PR#4530
    "thunderbolt-4",  # exo#2186
    "device-absent",  # jaccl opens no device whose name the matrix of devices has wrong
)
_NULL_MR: Final = (
    "mr-exhausted",  # ml-explore/mlx#3162
    "memory-not-taken",  # TN3205 and llama.cpp name different flags; both are tried
)

_CAUSES: Final[dict[tuple[str, str, int], Labels]] = {
    # --- macOS ---------------------------------------------------------------------------
    # exo-explore/exo#1390, ml-explore/mlx#3468, #3207; TN3205
    # the bridge is the system's default, and a port in it has no IPv4 GID
    ("darwin", Stage.RTR, 22): ("port-in-bridge", "no-ipv4-gid"),
    ("darwin", Stage.RTR, 60): ("gid-index-0", "shared-subnet"),
    # mlx PR#3389: an address at another index than the one that is sent from
    ("darwin", Stage.RTR, 96): ("port-in-bridge", "no-ipv4-gid", "gid-row-empty", "pd-exhausted"),
    ("darwin", Stage.RTR, 16): ("stale-queue-pairs",),
    ("darwin", Stage.RTR, 102): ("rc-on-thunderbolt",),
    # TN3205; exo PR#1437, mlx#3777; tmc/apple: names change with a reboot
    ("darwin", Stage.OPEN, 0): ("rdma-disabled", "thunderbolt-4", "device-renamed"),
    # NULL with which errno is not on record: both of a failed allocation are taken.
    ("darwin", Stage.ALLOC_PD, 0): _NULL_PD,
    ("darwin", Stage.ALLOC_PD, 12): _NULL_PD,
    ("darwin", Stage.REG_MR, 0): _NULL_MR,
    ("darwin", Stage.REG_MR, 12): _NULL_MR,
    ("darwin", Stage.REG_MR, 14): _NULL_MR,
    ("darwin", Stage.REG_MR, 22): _NULL_MR,
    # ibv_devinfo -v of one pair of machines: max_cq 11
    ("darwin", Stage.CREATE_CQ, 0): ("cq-exhausted",),
    # TN3205, ml-explore/mlx#3162, PR#4209
    ("darwin", Stage.CREATE_QP, 16): ("qp-exhausted", "stale-queue-pairs"),
    ("darwin", Stage.CREATE_QP, 102): ("rc-on-thunderbolt",),  # mlx PR#4530
    # exo-explore/exo#1711, #1973
    ("darwin", ANY, 60): ("driver-wedged",),
    # --- Linux: opening ------------------------------------------------------------------
    # ibv_get_device_list drops what it cannot use without a word: libibverbs/init.c;
    # sriov-cni#348, Mooncake#102
    ("linux", Stage.OPEN, 0): ("provider-missing", "uverbs-node-missing"),
    ("linux", Stage.OPEN, 13): ("uverbs-node-not-openable",),
    # device cgroups; ib_uverbs_open, core/uverbs_main.c
    ("linux", Stage.OPEN, 1): ("container-without-device", "device-in-other-netns"),
    # vllm#42075, Mellanox/k8s-rdma-shared-dev-plugin#169; util/open_cdev.c of rdma-core
    ("linux", Stage.OPEN, 2): ("uverbs-node-missing", "uverbs-node-stale"),
    ("linux", Stage.OPEN, 6): ("uverbs-node-stale",),
    ("linux", Stage.OPEN, 19): ("driver-going",),
    # openucx/ucx#6049; mlx5 cmd.c: "limits exceeded" is ENOMEM
    ("linux", Stage.OPEN, 12): ("too-many-contexts", "no-memory"),
    # kernel/cgroup/rdma.c; mlx5_ib_alloc_ucontext, hw/mlx5/main.c
    ("linux", Stage.OPEN, 11): ("rdma-cgroup", "device-resetting"),
    # check_abi_version, libibverbs/init.c: no /sys/class/infiniband_verbs/abi_version
    ("linux", Stage.OPEN, 38): ("ib-uverbs-not-loaded", "abi-mismatch"),
    # An archived thread of linux-rdma, confirmed by the maintainer: MLNX_OFED's libraries
    ("linux", Stage.OPEN, 95): ("provider-release",),
    # --- Linux: objects ------------------------------------------------------------------
    ("linux", Stage.ALLOC_PD, 12): ("pd-exhausted", "no-memory"),  # mlx5 cmd.c
    ("linux", Stage.ALLOC_PD, 11): ("rdma-cgroup",),
    # NVIDIA/nccl-tests#206, openucx/ucx#8229; ib_umem_get, core/umem.c
    ("linux", Stage.REG_MR, 12): ("memlock", "mr-exhausted", "no-memory"),
    ("linux", Stage.REG_MR, 1): ("memlock",),
    ("linux", Stage.REG_MR, 11): ("rdma-cgroup",),
    # deepseek-ai/DeepEP#55, NVIDIA/nccl#1939: of GPU memory, which programs of the field register
    # more often than an address that is wrong; else ib_umem_get, core/umem.c
    ("linux", Stage.REG_MR, 14): ("gdr-off", "memory-not-mapped", "memory-kind"),
    # ib_check_mr_access, include/rdma/ib_verbs.h
    ("linux", Stage.REG_MR, 22): ("access-flags", "device-lacks-capability", "memory-not-taken"),
    ("linux", Stage.REG_MR, 95): ("memory-kind", "gdr-off"),
    # ib_uverbs_run_method, core/uverbs_ioctl.c: this kernel or driver has no such method
    ("linux", Stage.REG_MR, 93): ("gdr-off", "device-lacks-capability", "provider-release"),
    # -EOPNOTSUPP of the kernel alone, which no libc has a name for: dmabuf between GPU and NIC
    ("linux", Stage.REG_MR, 524): ("gdr-off", "memory-kind"),
    # openucx/ucx#7930: the queue itself is locked memory
    ("linux", Stage.CREATE_CQ, 12): ("memlock", "cq-exhausted"),
    ("linux", Stage.CREATE_CQ, 11): ("rdma-cgroup",),
    # ENOSPC: a table of the device is full; ENOSYS: libibverbs without the provider's function
    ("linux", Stage.CREATE_QP, 28): ("qp-exhausted",),
    ("linux", Stage.CREATE_CQ, 28): ("cq-exhausted",),
    ("linux", Stage.REG_MR, 28): ("mr-exhausted",),
    ("linux", Stage.REG_MR, 38): ("device-lacks-capability", "provider-release"),
    # create_cq, core/uverbs_cmd.c; sw/rxe/rxe_cq.c
    ("linux", Stage.CREATE_CQ, 22): ("cq-too-large",),
    ("linux", Stage.CREATE_QP, 12): ("memlock", "qp-exhausted", "qp-too-large"),
    ("linux", Stage.CREATE_QP, 11): ("rdma-cgroup",),
    # rxe_qp_chk_cap, sw/rxe/rxe_qp.c
    ("linux", Stage.CREATE_QP, 22): ("qp-too-large",),
    # RC alone: cxgb4, erdma, siw, and irdma of iWARP; no UC: irdma and bnxt_re
    ("linux", Stage.CREATE_QP, 95): ("qp-type-unsupported",),
    ("linux", Stage.CREATE_QP, 38): ("qp-type-unsupported",),
    # modify_qp, core/uverbs_cmd.c; mlx5_ib_modify_qp, hw/mlx5/qp.c; NVIDIA/nccl#1323
    ("linux", Stage.INIT, 22): ("pkey-index", "no-such-port"),
    # modify_qp, core/uverbs_cmd.c: a privileged Q_Key, which is CAP_NET_RAW's (PSM3 asks for one)
    ("linux", Stage.INIT, 1): ("raw-packet-privilege",),
    # ib_security_modify_qp, core/security.c
    ("linux", Stage.INIT, 13): ("selinux",),
    # --- Linux: the path -----------------------------------------------------------------
    # NVIDIA/nccl#2013, #749, nccl-tests#227, uccl#641, Mooncake#204. The kernel waits one
    # second for the neighbour (core/addr.c). The GID's own interface is given, so that for
    # IPv4 a missing route is no error: the peer is then looked for on the link.
    ("linux", Stage.RTR, 110): ("peer-unreachable", "no-route", "peer-interface-down"),
    # NVIDIA/nccl-tests#185; ip_route_output_key_hash_rcu, net/ipv4/route.c
    ("linux", Stage.RTR, 101): ("no-route", "interface-down"),
    # fib_props, net/ipv4/fib_semantics.c; fib6_prop, net/ipv6/route.c
    ("linux", Stage.RTR, 113): ("no-route", "route-unreachable"),
    # rdma_get_gid_attr, core/cache.c; NVIDIA/nccl#1573, smg#1691
    ("linux", Stage.RTR, 61): ("gid-row-empty", "gid-row-removed"),
    # NVIDIA/nccl#925, k8s-rdma-shared-dev-plugin#101; rdma_read_gid_attr_ndev_rcu
    ("linux", Stage.RTR, 19): ("netdev-in-other-netns", "gid-without-netdev", "peer-is-this-host"),
    # linux-rdma archive, rxe (EUI-64 of the MAC, and privacy addresses); Mooncake PR#3878,
    # nccl PR#2135; rdma_fill_sgid_attr, core/verbs.c; rdma_resolve_ip, core/addr.c
    ("linux", Stage.RTR, 22): (
        "gid-index-or-family",
        "gid-not-an-address",
        "mtu-above-port",
        "driver-refused",
    ),
    # EREMOTEIO: the firmware refused the command that DEVX passed on; its syndrome says why
    ("linux", Stage.RTR, 121): ("driver-refused", "gid-index-or-family"),
    ("linux", Stage.INIT, 121): ("driver-refused",),
    ("linux", Stage.RTS, 121): ("driver-refused",),
    ("linux", Stage.CREATE_QP, 121): ("driver-refused",),
    ("linux", Stage.CREATE_CQ, 121): ("driver-refused",),
    ("linux", Stage.REG_MR, 121): ("driver-refused",),
    # rdma_find_ndev_for_src_ip_rcu and addr6_resolve, core/addr.c
    ("linux", Stage.RTR, 99): ("peer-address-unknown", "no-ipv6"),
    # siw_qp_nextstate_from_idle, sw/siw/siw_qp.c; llama.cpp PR#28494, Mooncake#53
    ("linux", Stage.RTS, 22): ("iwarp-needs-rdma-cm", "qp-error"),
    # post_one_send, providers/rxe/rxe.c and mlx5_wq_overflow, providers/mlx5 of rdma-core
    ("linux", Stage.DATA, 12): ("queue-full",),
    ("linux", Stage.DATA, 22): ("qp-state", "request-malformed"),
    # man ibv_dealloc_pd, ibv_destroy_cq; core/rdma_core.c
    ("linux", Stage.TEARDOWN, 16): ("object-in-use",),
    # --- Linux: everywhere ---------------------------------------------------------------
    # rdma_lookup_get_uobject, core/rdma_core.c; mlx5 cmd.c: "internal error" is EIO
    ("linux", ANY, 5): ("device-removed", "firmware-failed"),
    ("linux", ANY, 19): ("device-removed",),
    ("linux", ANY, 24): ("open-files-limit",),  # each context, channel and event channel is one
    ("linux", ANY, 110): ("firmware-silent",),  # wait_func, mlx5 cmd.c
    # --- Linux: the connection manager of this host ---------------------------------------
    # ucma_open, core/ucma.c; a node that is there without its module gives ENXIO or ENODEV
    ("linux", Stage.EVENT_CHANNEL, 0): ("rdmacm-library-missing",),
    ("linux", Stage.EVENT_CHANNEL, 1): ("container-without-device",),
    ("linux", Stage.EVENT_CHANNEL, 2): ("rdma-ucm-not-loaded",),
    ("linux", Stage.EVENT_CHANNEL, 6): ("rdma-ucm-not-loaded",),
    ("linux", Stage.EVENT_CHANNEL, 13): ("rdma-cm-node-not-openable",),
    # sync_devices_list, librdmacm/cma.c: there is no device, which is ENODEV
    ("linux", Stage.EVENT_CHANNEL, 19): ("no-rdma-device", "rdma-ucm-not-loaded"),
    # rdma_bind_addr, rdma_listen: core/cma.c; cma_acquire_dev_by_src_ip
    ("linux", Stage.BIND, 19): ("no-rdma-at-address", "no-rdma-device"),
    ("linux", Stage.BIND, 98): ("cm-port-taken",),
    ("linux", Stage.BIND, 13): ("tcp-port-privileged",),  # cma_use_port, as bind(2) does
    ("linux", Stage.BIND, 99): ("not-this-hosts-address",),
    ("linux", Stage.LISTEN, 98): ("cm-port-taken",),
    # rdma_resolve_ip and what it calls: core/addr.c
    ("linux", Stage.RESOLVE_ADDRESS, 19): ("no-rdma-at-address",),
    ("linux", Stage.RESOLVE_ADDRESS, 99): ("no-rdma-at-address", "peer-is-this-host"),
    ("linux", Stage.RESOLVE_ADDRESS, 101): ("no-route",),
    ("linux", Stage.RESOLVE_ADDRESS, 110): ("peer-unreachable", "peer-interface-down"),
    ("linux", Stage.RESOLVE_ADDRESS, 113): ("no-route", "peer-unreachable"),
    # cma_resolve_iboe_route and cma_query_handler: core/cma.c
    ("linux", Stage.RESOLVE_ROUTE, 19): ("gid-without-netdev", "device-removed"),
    ("linux", Stage.RESOLVE_ROUTE, 22): ("no-path",),
    ("linux", Stage.RESOLVE_ROUTE, 110): ("no-subnet-manager", "no-path"),
    # siw_cm_upcall, sw/siw/siw_cm.c; cma_ib_handler and cma_iw_handler: core/cma.c
    ("linux", Stage.ESTABLISH, 104): ("peer-refused", "peer-gone"),
    ("linux", Stage.ESTABLISH, 110): ("cm-datagrams-lost", "peer-host-down"),
    ("linux", Stage.ESTABLISH, 111): ("peer-not-listening",),
    # rdma_join_multicast and cma_ib_mc_handler, core/cma.c; mcast_work_handler, core/multicast.c
    ("linux", Stage.JOIN, 19): ("gid-without-netdev", "device-removed"),
    ("linux", Stage.JOIN, 110): ("no-subnet-manager",),
    # --- rdma_cm, and TCP between the ends: no call on the device yet --------------------
    ("linux", Stage.CONNECT, 19): ("no-rdma-at-address", "no-rdma-device", "provider-missing"),
    ("linux", Stage.CONNECT, 98): ("cm-port-taken",),
    ("linux", Stage.CONNECT, 99): ("no-rdma-at-address", "not-this-hosts-address"),
    ("linux", Stage.CONNECT, 101): ("no-route",),
    ("linux", Stage.CONNECT, 103): ("peer-gone", "no-path"),
    ("linux", Stage.CONNECT, 104): ("peer-gone",),
    ("linux", Stage.CONNECT, 110): ("peer-unreachable", "firewall"),
    ("linux", Stage.CONNECT, 111): ("peer-not-listening",),
    ("linux", Stage.CONNECT, 113): ("no-route", "peer-unreachable"),
    # dryvist/nix-ai; exo-explore/exo#1035
    ("darwin", Stage.CONNECT, 49): ("address-absent",),
    ("darwin", Stage.CONNECT, 60): ("peer-not-there", "shared-subnet"),
    ("darwin", Stage.CONNECT, 61): ("peer-not-listening",),
    ("darwin", Stage.CONNECT, 65): ("local-network-privacy", "no-route"),
}

_HANGS: Final[dict[str, Labels]] = {
    # exo-explore/exo#1711, #1712, #1973, #1847; sleep: TN3205 says to disable it
    "darwin": ("driver-wedged", "wedged-after", "mac-slept"),
    "linux": ("firmware-silent",),
}

_ROUTE_AND_GIDS: Final = (*PATH["linux"], GIDS)
_NEXT: Final[dict[tuple[str, str, int], Lines]] = {
    ("linux", Stage.RTR, 22): remedy("gid-not-an-address", "linux"),
    ("linux", Stage.RTR, 101): (*_ROUTE_AND_GIDS, ADDRESSES),
    ("linux", Stage.RTR, 113): (*_ROUTE_AND_GIDS, "ip route show table all type unreachable"),
    ("darwin", Stage.RTR, 102): (*remedy("rc-on-thunderbolt", "darwin"), NO_REPEAT),
}
"""Where the remedy of the first cause is not what to look at."""

_WHATEVER: Final[dict[tuple[str, str], str]] = {
    ("linux", Stage.RTS): "iwarp-needs-rdma-cm",
    ("linux", Stage.TEARDOWN): "object-in-use",
    ("darwin", Stage.OPEN): "rdma-disabled",
    ("darwin", Stage.ALLOC_PD): "pd-exhausted",
    ("darwin", Stage.REG_MR): "mr-exhausted",
    ("darwin", Stage.RTR): "no-ipv4-gid",
    ("darwin", Stage.TEARDOWN): "object-in-use",
}
"""The cause whose remedy holds at this stage for a number that has none."""


def causes(errno: int, stage: str, platform: Platform) -> tuple[Known, ...]:
    """What this number at this stage has been traced to; empty where nothing is known."""
    stages = (stage,) if stage == Stage.CONNECT else (stage, ANY)
    return tuple(each for where in stages for each in _stated(platform, where, errno))


def known(stage: str, platform: Platform) -> dict[int, tuple[Known, ...]]:
    """Every number with causes at this stage, ANY for those of every stage."""
    return {
        number: _stated(platform, stage, number)
        for system, where, number in _CAUSES
        if (system, where) == (platform, stage)
    }


def _stated(platform: str, stage: str, errno: int) -> tuple[Known, ...]:
    labels = _CAUSES.get((platform, stage, errno), ())
    return all_stated(labels, f"errno {errno}", stage, platform)


def hanging(platform: Platform) -> tuple[Known, ...]:
    """What a call that never returns has been traced to."""
    return all_stated(_HANGS.get(platform, ()), "hang")


def after_call(errno: int | None, stage: str, platform: Platform) -> Lines:
    """Templates of what to look at, by stage and errno, else by the errno, else by the stage."""
    for where in (stage, ANY):
        if errno is not None and (found := _remedy(errno, where, platform)):
            return found
    if label := _WHATEVER.get((platform, stage)):
        return remedy(label, platform)
    return (*LOG.get(platform, ()), PREFLIGHT)


def _remedy(errno: int, stage: str, platform: Platform) -> Lines:
    labels = _CAUSES.get((platform, stage, errno), ())
    found = _NEXT.get((platform, stage, errno))
    return found or (remedy(labels[0], platform) if labels else ())
