"""Known causes of an errno, by platform and stage: the same number means other things elsewhere.

Several causes of one number compete; all are given, the most reported first. A guess says
"perhaps". The stages are the words of facts.pingpong.Stage. "mlx5 cmd.c" is the kernel's
drivers/net/ethernet/mellanox/mlx5/core/cmd.c, which turns what the firmware answers into
an errno; other kernel files are under drivers/infiniband.
"""

from typing import Final

from rdmadiag.explain.cause import Cause
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.pingpong import Stage

RTR: Final = "rtr"

ANY: Final = "any"
"""The stage of what can happen at every one."""

_LIMITS: Final = Cause("rdma-cgroup", "a limit of the rdma cgroup is reached (rdma.max)")
_MEMLOCK: Final = Cause("memlock", "the limit on locked memory (ulimit -l) is too low")
QP_TOO_LARGE: Final = Cause(
    "qp-too-large", "more work requests than the device allows (max_qp_wr, max_sge)"
)
_SYNDROME: Final = Cause(
    "driver-refused", "the firmware refused the command: its syndrome says why"
)
_UNLISTED: Final = Cause(
    "provider-missing",
    "no provider library for the device, or one of another ABI than the driver's",
)

_NULL_PD: Final = (
    # ml-explore/mlx#3207, exo-explore/exo#2111
    Cause(
        "pd-exhausted",
        "protection domains are exhausted: programs that were killed leave theirs behind",
    ),
    Cause("port-down", "the port is down"),  # ml-explore/mlx PR#4530
    Cause(
        "thunderbolt-4", "the hardware is Thunderbolt 4, where RDMA is enabled and does not work"
    ),  # exo#2186
)
_NULL_MR: Final = (
    Cause(
        "mr-exhausted", "all memory regions of the device are in use: about 100"
    ),  # ml-explore/mlx#3162
    # TN3205 and llama.cpp name different flags; both are tried on Thunderbolt
    Cause("memory-not-taken", "the memory or its access flags are not what the provider takes"),
)

_CAUSES: Final[dict[tuple[str, str, int], tuple[Cause, ...]]] = {
    # --- macOS ---------------------------------------------------------------------------
    # exo-explore/exo#1390, ml-explore/mlx#3468, #3207; TN3205
    ("darwin", RTR, 22): (
        Cause("no-ipv4-gid", "the port has no IPv4 GID, or the index names another entry"),
        Cause("port-in-bridge", "the port is a member of a bridge on this host or on the peer"),
    ),
    ("darwin", RTR, 60): (
        Cause("gid-index-0", "GID index 0 was used"),
        Cause(
            "shared-subnet", "no route to the peer by that interface: several cables share a subnet"
        ),
    ),
    ("darwin", RTR, 96): (
        Cause("gid-row-empty", "there is no entry at the GID index that was used"),
        # mlx PR#3389: an address at another index than the one that is sent from
        Cause("no-ipv4-gid", "the port has no IPv4 GID, or the index names another entry"),
        Cause("port-in-bridge", "the port is a member of a bridge on this host"),
        Cause("pd-exhausted", "protection domains are exhausted"),
    ),
    ("darwin", RTR, 16): (
        Cause("stale-queue-pairs", "queue pairs of programs that ended are still held: reboot"),
    ),
    ("darwin", RTR, 102): (
        Cause("rc-on-thunderbolt", "an RC queue pair: Thunderbolt has UC alone"),
    ),
    # TN3205; exo PR#1437, mlx#3777; tmc/apple: names change with a reboot
    ("darwin", Stage.OPEN, 0): (
        Cause("rdma-disabled", "RDMA is switched off, or this macOS is older than 26.2"),
        Cause("thunderbolt-4", "the hardware is Thunderbolt 4, which has no RDMA"),
        Cause("device-renamed", "the device has another name since the last reboot"),
    ),
    # NULL with which errno is not on record: both of a failed allocation are taken.
    ("darwin", Stage.ALLOC_PD, 0): _NULL_PD,
    ("darwin", Stage.ALLOC_PD, 12): _NULL_PD,
    ("darwin", Stage.REG_MR, 0): _NULL_MR,
    ("darwin", Stage.REG_MR, 12): _NULL_MR,
    ("darwin", Stage.REG_MR, 22): _NULL_MR,
    # ibv_devinfo -v of one pair of machines: max_cq 11
    ("darwin", Stage.CREATE_CQ, 0): (
        Cause("cq-exhausted", "perhaps all completion queues of the device are in use: about 11"),
    ),
    # TN3205, ml-explore/mlx#3162, PR#4209
    ("darwin", Stage.CREATE_QP, 16): (
        Cause(
            "qp-exhausted", "all queue pairs of the device are in use: one fewer than max_qp says"
        ),
        Cause("stale-queue-pairs", "queue pairs of programs that ended are still held: reboot"),
    ),
    ("darwin", Stage.CREATE_QP, 102): (
        Cause("rc-on-thunderbolt", "an RC queue pair: Thunderbolt has UC alone"),
    ),  # mlx PR#4530
    # exo-explore/exo#1711, #1973
    ("darwin", ANY, 60): (
        Cause(
            "driver-wedged", "perhaps the driver is wedged: only a replug or a reboot has helped"
        ),
    ),
    # --- Linux: opening ------------------------------------------------------------------
    # ibv_get_device_list drops what it cannot use without a word: libibverbs/init.c
    ("linux", Stage.OPEN, 0): (
        _UNLISTED,  # sriov-cni#348, Mooncake#102
        Cause("uverbs-node-missing", "the device has no node in /dev/infiniband"),
    ),
    ("linux", Stage.OPEN, 13): (
        Cause(
            "uverbs-node-not-openable",
            "this user may not open the device's node in /dev/infiniband",
        ),
    ),
    # device cgroups; ib_uverbs_open, core/uverbs_main.c
    ("linux", Stage.OPEN, 1): (
        Cause("container-without-device", "the container was not given /dev/infiniband"),
        Cause(
            "device-in-other-netns",
            "the device belongs to another network namespace (netns mode exclusive)",
        ),
    ),
    # vllm#42075, Mellanox/k8s-rdma-shared-dev-plugin#169; util/open_cdev.c of rdma-core
    ("linux", Stage.OPEN, 2): (
        Cause(
            "uverbs-node-missing",
            "the device has no node in /dev/infiniband, or the container was not given it",
        ),
        Cause("uverbs-node-stale", "the node there has the numbers of another device"),
    ),
    ("linux", Stage.OPEN, 6): (
        Cause("uverbs-node-stale", "the node is left from a device that is gone"),
    ),
    ("linux", Stage.OPEN, 19): (Cause("driver-going", "the driver's module is being removed"),),
    # openucx/ucx#6049; mlx5 cmd.c: "limits exceeded" is ENOMEM
    ("linux", Stage.OPEN, 12): (
        Cause(
            "too-many-contexts",
            "too many programs have the device open (mlx5 logs ALLOC_UAR: limits exceeded)",
        ),
        Cause("no-memory", "the kernel has no memory left"),
    ),
    # kernel/cgroup/rdma.c; mlx5_ib_alloc_ucontext, hw/mlx5/main.c
    ("linux", Stage.OPEN, 11): (
        _LIMITS,
        Cause("device-resetting", "the device is being started, stopped or reset (mlx5)"),
    ),
    # check_abi_version, libibverbs/init.c: no /sys/class/infiniband_verbs/abi_version
    ("linux", Stage.OPEN, 38): (
        Cause("ib-uverbs-not-loaded", "the module ib_uverbs is not loaded"),
        Cause("abi-mismatch", "libibverbs and the kernel have different verbs ABIs"),
    ),
    # An archived thread of linux-rdma, confirmed by the maintainer: MLNX_OFED's libraries
    ("linux", Stage.OPEN, 95): (
        Cause(
            "provider-release",
            "perhaps the provider library is not of the same release as the driver (MLNX_OFED)",
        ),
    ),
    # --- Linux: objects ------------------------------------------------------------------
    ("linux", Stage.ALLOC_PD, 12): (
        Cause("pd-exhausted", "all protection domains of the device are in use"),  # mlx5 cmd.c
        Cause("no-memory", "the kernel has no memory left"),
    ),
    ("linux", Stage.ALLOC_PD, 11): (_LIMITS,),
    # NVIDIA/nccl-tests#206, openucx/ucx#8229; ib_umem_get, core/umem.c
    ("linux", Stage.REG_MR, 12): (
        _MEMLOCK,
        Cause("mr-exhausted", "all memory regions of the device are in use"),
        Cause("no-memory", "the host has no memory left"),
    ),
    ("linux", Stage.REG_MR, 1): (
        Cause("memlock", "no memory may be locked at all: ulimit -l is 0"),
    ),
    ("linux", Stage.REG_MR, 11): (_LIMITS,),
    # deepseek-ai/DeepEP#55, NVIDIA/nccl#1939: of GPU memory; else ib_umem_get, core/umem.c
    ("linux", Stage.REG_MR, 14): (
        Cause("memory-not-mapped", "the memory is not mapped, or may not be written"),
        Cause("gdr-off", "GPU memory without nvidia_peermem or a DMA-BUF: the NIC cannot reach it"),
    ),
    # ib_check_mr_access, include/rdma/ib_verbs.h
    ("linux", Stage.REG_MR, 22): (
        Cause("access-flags", "the driver does not take these access flags"),
    ),
    ("linux", Stage.REG_MR, 95): (
        Cause("memory-kind", "the driver does not take this kind of memory"),
    ),
    # openucx/ucx#7930: the queue itself is locked memory
    ("linux", Stage.CREATE_CQ, 12): (
        _MEMLOCK,
        Cause("cq-exhausted", "all completion queues of the device are in use"),
    ),
    ("linux", Stage.CREATE_CQ, 11): (_LIMITS,),
    # create_cq, core/uverbs_cmd.c; sw/rxe/rxe_cq.c
    ("linux", Stage.CREATE_CQ, 22): (
        Cause("cq-too-large", "more entries than the device allows (max_cqe)"),
    ),
    ("linux", Stage.CREATE_QP, 12): (
        _MEMLOCK,
        Cause("qp-exhausted", "all queue pairs of the device are in use"),
        QP_TOO_LARGE,
    ),
    ("linux", Stage.CREATE_QP, 11): (_LIMITS,),
    # rxe_qp_chk_cap, sw/rxe/rxe_qp.c
    ("linux", Stage.CREATE_QP, 22): (QP_TOO_LARGE,),
    # RC alone: cxgb4, erdma, siw, and irdma of iWARP; no UC: irdma and bnxt_re
    ("linux", Stage.CREATE_QP, 95): (
        Cause("qp-type-unsupported", "the driver has no queue pairs of this type"),
    ),
    ("linux", Stage.CREATE_QP, 38): (
        Cause("qp-type-unsupported", "perhaps the driver has no queue pairs of this type"),
    ),
    # modify_qp, core/uverbs_cmd.c; mlx5_ib_modify_qp, hw/mlx5/qp.c; NVIDIA/nccl#1323
    ("linux", Stage.INIT, 22): (
        Cause("pkey-index", "the port's partition key table has no such index"),
        Cause("no-such-port", "the device has no such port"),
    ),
    # ib_security_modify_qp, core/security.c
    ("linux", Stage.INIT, 13): (
        Cause("selinux", "SELinux keeps this process from the partition key"),
    ),
    # --- Linux: the path -----------------------------------------------------------------
    # NVIDIA/nccl#2013, #749, nccl-tests#227, uccl#641, Mooncake#204. The kernel waits one
    # second for the neighbour (core/addr.c). The GID's own interface is given, so that for
    # IPv4 a missing route is no error: the peer is then looked for on the link.
    ("linux", RTR, 110): (
        Cause(
            "peer-unreachable",
            "the peer's address does not answer on the link: other subnet, VLAN, rail or port",
        ),
        Cause("no-route", "there is no route to the peer from the GID's address"),
        Cause("peer-interface-down", "the peer's interface is down, or has lost the address"),
    ),
    # NVIDIA/nccl-tests#185; ip_route_output_key_hash_rcu, net/ipv4/route.c
    ("linux", RTR, 101): (
        Cause("no-route", "there is no route to the peer from the GID's address"),
        Cause("interface-down", "the interface of the GID is down, or has lost the address"),
    ),
    # fib_props, net/ipv4/fib_semantics.c; fib6_prop, net/ipv6/route.c
    ("linux", RTR, 113): (
        Cause("no-route", "there is no route to the peer from the GID's address"),
        Cause("route-unreachable", 'a route of the type "unreachable" covers the peer'),
    ),
    # rdma_get_gid_attr, core/cache.c; NVIDIA/nccl#1573, smg#1691
    ("linux", RTR, 61): (
        Cause("gid-row-empty", "the row of the GID table at this index is empty"),
        Cause(
            "gid-row-removed", "the row was removed meanwhile: its address or its interface went"
        ),
    ),
    # NVIDIA/nccl#925, k8s-rdma-shared-dev-plugin#101; rdma_read_gid_attr_ndev_rcu
    ("linux", RTR, 19): (
        Cause("netdev-in-other-netns", "the interface of the GID is not in this network namespace"),
        Cause("gid-without-netdev", "the row of the GID table has no interface any more"),
        Cause(
            "peer-is-this-host",
            "perhaps the peer's address belongs to this host, on an interface without RDMA",
        ),
    ),
    # linux-rdma archive, rxe (EUI-64 of the MAC, and privacy addresses); Mooncake PR#3878,
    # nccl PR#2135; rdma_fill_sgid_attr, core/verbs.c; rdma_resolve_ip, core/addr.c
    ("linux", RTR, 22): (
        Cause(
            "gid-not-an-address",
            "the GID is a default link-local one that its interface does not have as an address",
        ),
        Cause("mtu-above-port", "the path MTU is larger than the port's active MTU"),
        Cause(
            "gid-index-or-family",
            "the GID table has no such index, or the two GIDs are not both IPv4 or both IPv6",
        ),
        Cause(
            "driver-refused",
            "perhaps the driver or its firmware refuses an attribute: the kernel's log may say",
        ),
    ),
    # EREMOTEIO: the firmware refused the command that DEVX passed on; its syndrome says why
    ("linux", RTR, 121): (
        Cause("driver-refused", "the firmware refuses an attribute: the syndrome says which"),
        Cause(
            "gid-index-or-family",
            "the GID table has no such index, or the two GIDs are not both IPv4 or both IPv6",
        ),
    ),
    ("linux", Stage.INIT, 121): (_SYNDROME,),
    ("linux", Stage.RTS, 121): (_SYNDROME,),
    ("linux", Stage.CREATE_QP, 121): (_SYNDROME,),
    ("linux", Stage.CREATE_CQ, 121): (_SYNDROME,),
    ("linux", Stage.REG_MR, 121): (_SYNDROME,),
    # rdma_find_ndev_for_src_ip_rcu and addr6_resolve, core/addr.c
    ("linux", RTR, 99): (
        Cause(
            "peer-address-unknown",
            "perhaps the peer's address is on no interface of this network namespace",
        ),
        Cause("no-ipv6", "perhaps an IPv6 GID, and a kernel without IPv6"),
    ),
    # siw_qp_nextstate_from_idle, sw/siw/siw_qp.c; llama.cpp PR#28494, Mooncake#53
    ("linux", Stage.RTS, 22): (
        Cause(
            "iwarp-needs-rdma-cm", "an iWARP device: its queue pairs are connected by rdma_cm alone"
        ),
        Cause("qp-error", "perhaps the queue pair has had an error since RTR"),
    ),
    # post_one_send, providers/rxe/rxe.c and mlx5_wq_overflow, providers/mlx5 of rdma-core
    ("linux", Stage.DATA, 12): (Cause("queue-full", "the queue is full"),),
    ("linux", Stage.DATA, 22): (
        Cause("qp-state", "the queue pair is in a state that takes no requests"),
        Cause("request-malformed", "the request is malformed"),
    ),
    # man ibv_dealloc_pd, ibv_destroy_cq; core/rdma_core.c
    ("linux", Stage.TEARDOWN, 16): (Cause("object-in-use", "another object still uses this one"),),
    # --- Linux: everywhere ---------------------------------------------------------------
    # rdma_lookup_get_uobject, core/rdma_core.c; mlx5 cmd.c: "internal error" is EIO
    ("linux", ANY, 5): (
        Cause("device-removed", "the device was removed or reset while it was open"),
        Cause("firmware-failed", "the device's firmware failed"),
    ),
    ("linux", ANY, 19): (Cause("device-removed", "the device or its driver was removed"),),
    # wait_func, mlx5 cmd.c
    ("linux", ANY, 110): (
        Cause("firmware-silent", "perhaps the device's firmware does not answer"),
    ),
}

_HANGS: Final[dict[str, tuple[Cause, ...]]] = {
    # exo-explore/exo#1711, #1712, #1973, #1847; sleep: TN3205 says to disable it
    "darwin": (
        Cause(
            "driver-wedged",
            "the driver is wedged: each further program that opens the device hangs too",
        ),
        Cause(
            "wedged-after",
            "it has followed failed RTRs, idle hours, and a replug while a bridge held the port",
        ),
        Cause("mac-slept", "perhaps this Mac slept: TN3205 says to disable it"),
    ),
    "linux": (Cause("firmware-silent", "the driver or the firmware does not answer"),),
}


def causes(errno: int, stage: str, platform: Platform) -> tuple[Cause, ...]:
    """What this number at this stage has been traced to; empty where nothing is known."""
    return tuple(
        cause for where in (stage, ANY) for cause in _CAUSES.get((platform, where, errno), ())
    )


def known(stage: str, platform: Platform) -> dict[int, tuple[Cause, ...]]:
    """Every number with known causes at this stage, ANY for those that have no stage."""
    return {
        number: found
        for (system, where, number), found in _CAUSES.items()
        if (system, where) == (platform, stage)
    }


def hanging(platform: Platform) -> tuple[Cause, ...]:
    """What a call that never returns has been traced to."""
    return _HANGS.get(platform, ())
