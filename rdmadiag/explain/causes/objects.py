"""Causes in what a device makes and holds: domains, memory, queues, partition keys."""

from typing import Final

from rdmadiag.explain.causes.cause import MAKING, OPENING, Cause, Of, Used
from rdmadiag.explain.remedies import (
    CAUSE_AT_PEER,
    DMESG,
    DMESG_OF_RDMA,
    HOLDERS,
    LEFTOVERS,
    LIMIT,
    LIMIT_IN_CONTAINER,
    LIMIT_OF_SERVICE,
    MAC_LOG,
    PARTITION_KEYS,
    PREFLIGHT,
    QUEUE_PAIRS,
    RDMA_CGROUP,
    REBOOT,
    RESOURCES,
)
from rdmadiag.facts.attempt import Stage

_DEVICE_AND_KIND: Final = (
    "cat {sysfs}/node_type   # RNIC: iWARP, which rdma_cm alone connects",
    "ibv_devinfo -v -d {device}",
    DMESG,
)
_RAISE_LIMIT: Final = (
    "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf   # log in again"
)
_REGIONS: Final = (
    "sudo rdma res show mr   # while it runs: lkey, rkey, length and pdn of each region"
)
_GPU_MEMORY: Final = "ls /sys/kernel/mm/memory_peers /sys/module/nvidia_peermem   # of GPU memory"
_TAGS: Final = "ibv_devinfo -v{on_device} | grep -E 'tag matching|max_num_tags'"
_TAGS_IN_SOFTWARE: Final = "# in software instead: UCX_RC_MLX5_TM_ENABLE=n UCX_DC_MLX5_TM_ENABLE=n"
_INIT: Final = frozenset({Stage.INIT})

ROWS: Final = (
    # --- memory --------------------------------------------------------------------------
    Cause(
        "access-flags",
        "the driver does not take these access flags",
        {
            "wc 6": "the region's access flags do not allow the window",
            "wc 8": "the memory region's access flags do not allow it",
        },
        linux=(
            "rdmadiag capabilities{on}   # remote atomics, memory windows, on-demand paging?",
            "# REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well, a window MW_BIND",
        ),
    ),
    Cause(
        "acs-or-iommu",
        "ACS or the IOMMU redirects peer-to-peer traffic, with GPU memory",
        linux=(
            DMESG,
            "cat /proc/cmdline   # iommu=pt?",
            "sudo lspci -vvv | grep -i acsctl   # ReqRedir+ on a bridge: ACS redirects",
        ),
        confirmed_by=("acs-for-this-topology", "iommu-translates"),
    ),
    Cause(
        "gdr-off",
        "GPU memory is not registered with the NIC: nvidia_peermem or dmabuf is missing",
        linux=(
            "sudo modprobe nvidia_peermem",
            "ls /sys/kernel/mm/memory_peers /sys/module/nvidia_peermem",
        ),
        confirmed_by=("gpu-memory-unreachable",),
    ),
    Cause(
        "local-key-wrong",
        "the address or the local key of the buffer is wrong",
        linux=(
            _REGIONS,
            "# buffer and lkey belong to one region, in the domain (pdn) of the queue pair",
        ),
    ),
    Cause(
        "memlock",
        "the limit on locked memory (ulimit -l) is too low",
        {"errno 1": "no memory may be locked at all: ulimit -l is 0"},
        linux=(
            LIMIT,
            _RAISE_LIMIT,
            LIMIT_OF_SERVICE,
            LIMIT_IN_CONTAINER,
            "rdma res show {device}   # or are its objects used up?",
        ),
        named_by=("memlock-too-low", "launcher-memlock-too-low"),
        stages=MAKING,
    ),
    Cause(
        "memory-kind",
        "the driver does not take this kind of memory",
        linux=(
            _GPU_MEMORY,
            "# GPU memory by way of the host: NCCL_NET_GDR_LEVEL=LOC, UCX_IB_GPU_DIRECT_RDMA=no",
            "# memory that is mapped from a file: tmpfs and huge pages can be registered",
        ),
    ),
    Cause(
        "memory-not-mapped",
        "the memory is not mapped, or may not be written",
        linux=(
            "cat /proc/PID/maps   # is the address in it, and with w?",
            _GPU_MEMORY,
            "# memory that may not be written is registered without IBV_ACCESS_LOCAL_WRITE",
        ),
    ),
    Cause(
        "memory-not-taken",
        "the memory or its access flags are not what the provider takes",
        linux=(LIMIT, _GPU_MEMORY, DMESG),
        darwin=(MAC_LOG,),
    ),
    Cause(
        "mr-exhausted",
        "all memory regions of the device are in use",
        {"darwin": "all memory regions of the device are in use: about 100"},
        darwin=(HOLDERS, "ibv_devinfo -v -d {device} | grep max_mr", PREFLIGHT),
        linux=(
            RESOURCES,
            "ibv_devinfo -v{on_device} | grep max_mr",
            "# end the programs that hold them, or register larger regions, and fewer",
        ),
    ),
    Cause(
        "no-memory",
        "the kernel has no memory left",
        {
            "huge-pages": "the host has no huge pages left, where the program wants its buffers",
            "address-space-limit-low": "the program may have no more address space (ulimit -v)",
            "data-limit-low": "the program may have no more data (ulimit -d)",
            "committed-memory-near-limit": "the kernel promises no more memory "
            "(vm.overcommit_memory is 2)",
            "died": "perhaps somebody else ended the process: the kernel, when memory ran out",
        },
        linux=("free -m", "grep -i huge /proc/meminfo   # HugePages_Free", "ulimit -v", DMESG),
        darwin=("vm_stat", MAC_LOG),
        named_by=("address-space-limit-low", "data-limit-low", "committed-memory-near-limit"),
        stages=MAKING,
    ),
    Cause(
        "remote-key-wrong",
        "a remote key, an address or access flags are wrong",
        {"wc 10": "the remote key, the address or the access flags at the peer are wrong"},
        linux=(CAUSE_AT_PEER, DMESG),
        darwin=(CAUSE_AT_PEER, MAC_LOG),
    ),
    Cause(
        "window-domain",
        "window and queue pair have different protection domains",
        linux=(
            "sudo rdma res show mr; sudo rdma res show qp   # while it runs: is pdn the same?",
            "# region, window and queue pair are made in one protection domain",
        ),
    ),
    # --- domains and queues --------------------------------------------------------------
    Cause(
        "cq-exhausted",
        "all completion queues of the device are in use",
        {"darwin": "perhaps all completion queues of the device are in use: about 11"},
        linux=(
            RESOURCES,
            "ibv_devinfo -v{on_device} | grep -w max_cq",
            "# end the programs that hold them, or share one queue between queue pairs",
        ),
        darwin=(HOLDERS, REBOOT),
    ),
    Cause(
        "cq-overrun",
        "more completions came than the queue holds",
        {"poll_cq": "perhaps more completions came than the queue holds"},
        linux=(DMESG_OF_RDMA,),
    ),
    Cause(
        "device-lacks-capability",
        "perhaps the device does not have what is asked of it: remote atomics, on-demand paging",
        linux=("rdmadiag capabilities{on}   # what it says it can do, and who needs it",),
        confirmed_by=("stack-lacks-capability",),
    ),
    Cause(
        "receive-queue-failed",
        "the device can take no receive from the queue: its memory is gone, or firmware failed",
        linux=(DMESG_OF_RDMA,),
    ),
    Cause(
        "cq-too-large",
        "more entries than the device allows (max_cqe)",
        linux=("ibv_devinfo -v{on_device} | grep max_cqe", DMESG),
    ),
    Cause(
        "object-in-use",
        "another object still uses this one",
        linux=(LEFTOVERS["linux"], DMESG),
        darwin=(LEFTOVERS["darwin"], REBOOT),
    ),
    Cause(
        "pd-exhausted",
        "all protection domains of the device are in use",
        {
            "darwin": "protection domains are exhausted: programs that were killed leave theirs "
            "behind",
            "errno 96": "protection domains are exhausted",
            "provider-crash": "protection domains are exhausted: the program went on without",
        },
        linux=("rdma res show {device}", DMESG, "free -m"),
        darwin=(HOLDERS, "ibv_devinfo -d {device} | grep state   # PORT_DOWN?", PREFLIGHT, REBOOT),
        confirmed_by=("protection-domains-exhausted",),
    ),
    Cause(
        "qp-error",
        "perhaps the queue pair has had an error since RTR",
        linux=(
            QUEUE_PAIRS,
            DMESG_OF_RDMA,
            "# the first completion that is no success and not flushed (5) says why",
        ),
        darwin=("# the first completion that is no success and not flushed (5) says why", MAC_LOG),
    ),
    Cause(
        "qp-exhausted",
        "all queue pairs of the device are in use",
        {"darwin": "all queue pairs of the device are in use: one fewer than max_qp says"},
        darwin=(HOLDERS, REBOOT),
        confirmed_by=("queue-pairs-exhausted",),
        linux=(
            RESOURCES,
            "ibv_devinfo -v{on_device} | grep -w max_qp",
            "# end what holds them; or fewer: NCCL_IB_QPS_PER_CONNECTION=1, UCX_TLS=dc_x,self,sm",
        ),
    ),
    Cause(
        "qp-state",
        "the queue pair is in a state that takes no requests",
        linux=(
            "rdma res show qp   # of each its state, while the program runs: RTS?",
            "# sends can be posted from RTS on, receives from INIT on; after ERR: connect anew",
        ),
    ),
    Cause(
        "qp-too-large",
        "more work requests than the device allows (max_qp_wr, max_sge)",
        confirmed_by=("rsocket-inline-large",),
        linux=("ibv_devinfo -v{on_device} | grep -E 'max_qp_wr|max_sge'", DMESG),
    ),
    Cause(
        "qp-type-unsupported",
        "the driver has no queue pairs of this type",
        {"errno 38": "perhaps the driver has no queue pairs of this type"},
        linux=_DEVICE_AND_KIND,
    ),
    Cause(
        "open-files-limit",
        "the limit on open files (ulimit -n) is reached",
        linux=("ulimit -n", "# for a service: LimitNOFILE= in its unit"),
        named_by=("open-files-limit-low",),
        stages=OPENING | MAKING | {Stage.CONNECT},
    ),
    Cause(
        "argument-refused",
        "the program refuses one of its arguments, before it asks the device",
        linux=("# the line says which argument, and often its bounds",),
        darwin=(
            "# the line says which argument, and often its bounds",
            "env | grep ^MLX_   # MLX_IBV_DEVICES: a file with a list of lists of device names",
        ),
    ),
    Cause(
        "queue-full",
        "the queue is full",
        linux=(
            "ibv_devinfo -v{on_device} | grep -E 'max_qp_wr|max_cqe'   # the most it can hold",
            "# poll completions first; or a deeper queue: max_send_wr, of perftest -t",
        ),
    ),
    Cause(
        "rdma-cgroup",
        "a limit of the rdma cgroup is reached (rdma.max)",
        linux=(
            RDMA_CGROUP,
            DMESG,
        ),
        named_by=("rdma-cgroup-limit",),
        stages=OPENING | MAKING | {Stage.ALLOC_PD},
    ),
    Cause(
        "request-malformed",
        "the request does not fit the queue pair's attributes",
        linux=(
            "ibv_devinfo -v{on_device} | grep -E 'max_sge|max_qp_wr|atomic_cap'",
            "# too much inline, too many buffers, a READ on UC or UD, a UD message above the MTU?",
        ),
    ),
    # --- what a queue pair is given ------------------------------------------------------
    Cause(
        "iwarp-needs-rdma-cm",
        "an iWARP device: its queue pairs are connected by rdma_cm alone",
        linux=_DEVICE_AND_KIND,
        confirmed_by=("iwarp-device",),
        excluded_by=(Used.NO_IWARP,),
        of=Of.BOTH,
    ),
    Cause(
        "no-such-port",
        "the device has no such port",
        linux=("rdmadiag devices   # how many ports has each?",),
        darwin=("rdmadiag devices   # how many ports has each?",),
    ),
    Cause(
        "pkey-index",
        "the port's partition key table has no such index",
        linux=(PARTITION_KEYS, "ibv_devinfo -d {device}   # its ports", DMESG),
        named_by=("env-pkey-index", "no-usable-pkey"),
        stages=_INIT,
    ),
    Cause(
        "bounce-buffers-full",
        "the bounce buffers of DMA (swiotlb) are full: the guest's memory is encrypted, or the "
        "device reaches a part of it alone",
        linux=(
            "sudo dmesg | grep -iE 'swiotlb|software IO TLB|Memory Encryption'",
            "# swiotlb=SLABS on the kernel command line: more of them",
        ),
    ),
    Cause(
        "partition-limited",
        "the port is no more than a limited member of its partition (a P_Key below 0x8000)",
        linux=(
            PARTITION_KEYS,
            "# the subnet manager: full membership for this port, in partitions.conf or UFM",
        ),
    ),
    Cause(
        "selinux",
        "SELinux keeps this process from the partition key",
        linux=("getenforce", "sudo ausearch -m avc -ts recent", PARTITION_KEYS),
    ),
    # --- completions of no queue pair that we make ---------------------------------------
    Cause(
        "see-vendor-error",
        "the vendor error and the kernel's log may say more",
        linux=(
            "rdmadiag explain wc STATUS --vendor-err NUMBER   # as the line has them",
            DMESG_OF_RDMA,
        ),
    ),
    Cause(
        "tag-buffer-small",
        "the tagged buffer is smaller than the message",
        linux=(
            "# post a receive of that tag that is as large as its longest message",
            _TAGS_IN_SOFTWARE,
        ),
    ),
    Cause(
        "tag-consumed",
        "a message had consumed the tag already",
        linux=(_TAGS, _TAGS_IN_SOFTWARE),
    ),
)
