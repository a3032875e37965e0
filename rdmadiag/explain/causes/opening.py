"""Causes in devices, their nodes, drivers, firmware and libraries."""

from typing import Final

from rdmadiag.explain.causes.cause import OPENING, Cause
from rdmadiag.explain.remedies import (
    DEVICES,
    DMESG,
    DMESG_OF_RDMA,
    GIDS,
    IN_CONTAINER,
    LIBRARIES,
    LIBRARY_STDERR,
    LOAD_UVERBS,
    NODES,
    PROVIDERS,
    UCX_DEVICES,
)
from rdmadiag.facts.attempt import Stage

_NODE: Final = (NODES, LOAD_UVERBS, IN_CONTAINER)
_GONE: Final = (DMESG, "ls /sys/class/infiniband", "rdma link")
_NAMES_ASKED_FOR: Final = (
    "env | grep -E 'NCCL_IB_HCA|UCX_NET_DEVICES|MC_|FI_'   # which names are asked for?"
)
_HEALTH: Final = "sudo devlink health show   # error, or recovered since?"
_NODE_NOT_GIVEN: Final = (
    "the device has no node in /dev/infiniband, or the container was not given it"
)

ROWS: Final = (
    # --- nodes and containers ------------------------------------------------------------
    Cause(
        "container-without-device",
        "the container was not given /dev/infiniband",
        linux=(
            "rdma system show   # exclusive: a device belongs to one network namespace",
            NODES,
            IN_CONTAINER,
        ),
        confirmed_by=("uverbs-node-missing",),
    ),
    Cause(
        "device-in-other-netns",
        "the device belongs to another network namespace (netns mode exclusive)",
        linux=(
            "rdma system show",
            "sudo rdma system set netns shared   # with no other network namespace",
        ),
    ),
    Cause(
        "uverbs-node-missing",
        "the device has no node in /dev/infiniband",
        {"errno 2": _NODE_NOT_GIVEN, "no-device": _NODE_NOT_GIVEN},
        linux=_NODE,
        named_by=("uverbs-node-missing",),
        stages=OPENING,
    ),
    Cause(
        "uverbs-node-not-openable",
        "this user may not open the device's node in /dev/infiniband",
        linux=(
            NODES,
            "id   # is this user the owner, or in the group?",
            "# 0666 is the mode that the kernel asks udev for: sudo chmod 0666 NODE",
        ),
        named_by=("uverbs-node-not-openable",),
        stages=OPENING,
    ),
    Cause(
        "uverbs-node-stale",
        "the node there has the numbers of another device",
        {"errno 6": "the node is left from a device that is gone"},
        linux=_NODE,
        named_by=("uverbs-node-stale",),
        stages=OPENING,
    ),
    # --- libraries -----------------------------------------------------------------------
    Cause(
        "abi-mismatch",
        "libibverbs and the kernel have different verbs ABIs",
        {"abi-mismatch": "the provider library and the host's driver are of different releases"},
        linux=LIBRARIES,
        named_by=("driver-abi-mismatch",),
        stages=OPENING,
    ),
    Cause(
        "ib-uverbs-not-loaded",
        "the module ib_uverbs is not loaded",
        linux=(LOAD_UVERBS, "ibv_devices", DMESG),
    ),
    Cause(
        "kernel-module-missing",
        "the running kernel has no such module: its package of further modules is not installed, "
        "or the driver was built for another kernel",
        linux=(
            "modinfo ib_core rdma_rxe   # which of the modules is there?",
            "uname -r",
            "sudo apt install linux-modules-extra-$(uname -r)   # Ubuntu has some of them there",
        ),
    ),
    # libc or libfabric of the image, where the plugin was mounted or copied in
    Cause(
        "network-plugin-unfit",
        "the network plugin (libnccl-net.so) was built against another libfabric or C library, "
        "and does not load",
        linux=(
            "ldd -v libnccl-net.so   # which versions does it want, and which library has none?",
            "fi_info --version",
        ),
    ),
    # man fi_efa, ibv_fork_init(3)
    Cause(
        "fork-unsafe",
        "the process forks while memory is registered, without IBV_FORK_SAFE or RDMAV_FORK_SAFE",
        linux=(
            "env | grep -E 'FORK_SAFE|RDMAV_HUGEPAGES_SAFE'",
            "uname -r   # from 5.12 on, memory that is pinned is copied at the fork",
        ),
    ),
    # NVSHMEM's installation guide: IBGDA
    Cause(
        "gpu-peer-mapping-off",
        "the GPU may not ring the NIC's doorbells: PeerMappingOverride=1 of the nvidia module "
        "is not set",
        linux=(
            "grep -i RegistryDwords /proc/driver/nvidia/params",
            "grep -rs PeerMappingOverride /etc/modprobe.d",
        ),
    ),
    Cause(
        "no-provider",
        "no libfabric provider fits what was asked for: name, device or address",
        linux=("fi_info -l", "fi_info -p verbs", "fi_info -p efa", DEVICES),
    ),
    Cause(
        "openib-not-used",
        "Open MPI's openib was left aside; UCX is used instead where it is built in",
        linux=(
            "ompi_info | grep -E 'MCA (pml|mtl|btl):'   # is ucx among them?",
            "# by UCX: mpirun --mca pml ucx PROGRAM; without the warning: --mca btl ^openib",
        ),
    ),
    Cause(
        "provider-fault",
        "perhaps a fault of the provider: RC and UC have nothing of the kind",
        {
            "provider-crash": "the provider has crashed so with the link up, too",
            "died": "the provider library crashed",
        },
        linux=(
            PROVIDERS,
            "sudo dmesg | tail -50   # a segfault names the library",
            "# another release of rdma-core (of MLNX_OFED: of all of it) may mend it",
        ),
    ),
    Cause(
        "provider-missing",
        "no provider library for the device, or one of another ABI than the driver's",
        linux=(LIBRARY_STDERR, NODES, PROVIDERS),
        confirmed_by=("device-not-in-verbs", "driver-abi-mismatch"),
        named_by=("provider-library-missing",),
        stages=OPENING,
    ),
    Cause(
        "provider-release",
        "perhaps the provider library is not of the same release as the driver (MLNX_OFED)",
        linux=(
            "dpkg -l ibverbs-providers || rpm -q libibverbs   # of the same release as the driver?",
            "ofed_info -s   # is MLNX_OFED installed?",
            DMESG,
        ),
    ),
    Cause(
        "rdma-off-by-variable",
        "a variable switches RDMA off for the program: NCCL_IB_DISABLE=1, MC_FORCE_TCP or the like",
        linux=(
            "env | grep -E '^(NCCL|RCCL|UCX|MC|FI|OMPI)_'",
            "grep -s _DISABLE ~/.bashrc ~/.nccl.conf /etc/nccl.conf   # where it comes from",
            "unset NCCL_IB_DISABLE",
        ),
        confirmed_by=("env-turns-rdma-off",),
    ),
    Cause(
        "soft-roce-on-vlan",
        "soft RoCE is made on the interface below a VLAN, and not on the VLAN",
        linux=(
            "ip -d link show   # INTERFACE.ID@INTERFACE: the one behind the @",
            "# rdma link add rxe0 type rxe netdev INTERFACE; its GID table has the VLAN, too",
        ),
    ),
    Cause(
        "transport-unusable",
        "UCX_TLS and UCX_NET_DEVICES leave no usable transport or device",
        linux=(*UCX_DEVICES, GIDS),
    ),
    Cause(
        "verbs-library-missing",
        "libibverbs is not where the dynamic linker looks",
        linux=LIBRARIES,
        darwin=("sw_vers   # librdma.dylib is of macOS 26.2 and newer", "ibv_devices"),
        named_by=("verbs-library-missing",),
        stages=OPENING,
    ),
    # --- devices -------------------------------------------------------------------------
    Cause(
        "device-absent",
        "no usable device has the name that was asked for: renamed, or of another host",
        linux=(
            DEVICES,
            _NAMES_ASKED_FOR,
        ),
        darwin=(DEVICES, "env | grep ^MLX_   # MLX_IBV_DEVICES: names as the line above has them"),
        named_by=("env-names-absent-device",),
        stages=OPENING,
    ),
    Cause(
        "device-removed",
        "the device or its driver was removed",
        {
            "errno 5": "the device was removed or reset while it was open",
            "poll_cq": "perhaps the device was removed or reset",
            "after the failure": "this host's device is no longer there: it was deleted or reset",
        },
        linux=_GONE,
    ),
    # mlx5_ib: a virtual function without a GUID gets no LID, and rdma_cm takes it for no device
    Cause(
        "guid-zero",
        "a virtual function has no GUID: nobody gave it one, or it was not bound anew since",
        linux=(
            "ibv_devices   # which have a node GUID of zeros?",
            "ip link set PF vf N node_guid GUID port_guid GUID   # then bind its driver anew",
        ),
    ),
    Cause(
        "device-renamed",
        "the device has another name since the last reboot",
        confirmed_by=("env-names-absent-device",),
        linux=(
            DEVICES,
            _NAMES_ASKED_FOR,
            "# use the name of now; or NAME_KERNEL in 60-rdma-persistent-naming.rules keeps",
            "# mlx5_0, in a copy of it in /etc/udev/rules.d (from /usr/lib/udev/rules.d)",
        ),
        darwin=(DEVICES,),
    ),
    Cause(
        "device-resetting",
        "the device is being started, stopped or reset (mlx5)",
        confirmed_by=("device-unhealthy-in-log",),
        linux=(
            DMESG_OF_RDMA,
            _HEALTH,
            "rdma link show   # ACTIVE again?",
            "# when the device is back: start the program again",
        ),
    ),
    Cause(
        "no-rdma-device",
        "this host, or this container, has no RDMA device",
        linux=(DEVICES, *LIBRARIES),
        confirmed_by=("no-thunderbolt-rdma-device",),
        named_by=("no-rdma-device",),
        stages=OPENING,
    ),
    Cause(
        "too-many-contexts",
        "too many programs have the device open (mlx5 logs ALLOC_UAR: limits exceeded)",
        linux=(DMESG, "rdma res show ctx   # who has devices open", "free -m"),
        named_by=("contexts-exhausted-in-log",),
        stages=OPENING,
    ),
    # --- drivers, firmware, the slot -----------------------------------------------------
    Cause(
        "driver-going",
        "the driver's module is being removed",
        linux=(
            "lsmod | grep -E 'ib_uverbs|mlx5_ib|mlx4_ib|bnxt_re|irdma|efa'   # still loaded?",
            DMESG,
            "# an upgrade, a restart of openibd, modprobe -r? start again when it is loaded",
        ),
    ),
    Cause(
        "driver-refused",
        "the firmware refused the command: its syndrome says why",
        {
            "errno 22": "perhaps the driver or its firmware refuses an attribute: the kernel's "
            "log may say"
        },
        linux=(
            "sudo dmesg -T | grep -i syndrome | tail -20   # mlx5: which command, and why",
            DMESG,
            "mlxfwmanager --query   # NVIDIA: is there newer firmware?",
        ),
    ),
    Cause(
        "firmware-failed",
        "the device's firmware failed",
        {"wc 19": "perhaps the device or its driver failed"},
        named_by=("device-unhealthy-in-log",),
        stages=frozenset(Stage),
        linux=(
            "sudo dmesg -T | grep -i -e health -e fatal -e AER",
            _HEALTH,
            "# newer firmware? the slot, the power? a cold start clears most firmware errors",
        ),
    ),
    Cause(
        "firmware-silent",
        "perhaps the device's firmware does not answer",
        {"hang": "the driver or the firmware does not answer"},
        linux=_GONE,
        confirmed_by=("provider-wedged", "device-unhealthy-in-log"),
    ),
    Cause(
        "pcie-error",
        "the PCIe link of the NIC has errors",
        linux=(DMESG_OF_RDMA, "sudo lspci -vvv | grep -E 'LnkSta|UESta'"),
    ),
    Cause(
        "pcie-link-narrow",
        "the PCIe link of the NIC has fewer lanes or a lower speed than the NIC can do",
        linux=(
            "sudo lspci -vvv | grep -E 'LnkCap:|LnkSta:'   # under load: lanes and speed",
            "# the right slot, seated well, no riser between?",
        ),
        confirmed_by=("pcie-link-degraded",),
    ),
    Cause(
        "register-refused",
        "a register of the firmware was refused: usual on restricted functions",
        confirmed_by=("register-refused-in-log",),
        linux=(
            "sudo dmesg -T | grep ACCESS_REG | tail -5   # of which device, and how often?",
            "# which monitor reads ports/*/counters of this device? exclude it there",
        ),
    ),
    Cause(
        "slot-power",
        "the PCIe slot advertises less power than the NIC may want",
        confirmed_by=("slot-power-in-log",),
        linux=(
            "sudo lspci -vv | grep -i SlotPowerLimit   # of the bridge above",
            "# where the link comes up and is as fast as it should be, it does no harm",
        ),
    ),
)
