"""What surrounds the devices: PCI, CPUs, the IOMMU, GPUs, and who started this process."""

from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Limit, Missing, Why
from rdmadiag.facts.limits import HostLimits
from rdmadiag.frozen import dataclass

IN_PCI: Final = Missing(Why.NOT_COLLECTED, "the source pci has it")


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCI bridge between a device and the root complex."""

    address: str
    redirects: bool | Missing  # of older reports; now `acs` of PciConfig


@dataclass(frozen=True, slots=True)
class PciPath:
    """The way from the root complex to the PCI function behind an RDMA device."""

    device: str  # "mlx5_0"
    function: str  # "0000:08:00.0"
    bridges: tuple[Bridge, ...] | Missing  # the one next to the root first
    slot_max_link_speed: str | Missing  # of the last bridge: what the slot can do
    slot_max_link_width: int | Missing
    local_cpus: str | Missing  # local_cpulist: "0-15,32-47"
    iommu_domain: str | Missing  # iommu_group/type: "identity", "DMA", "DMA-FQ"


@dataclass(frozen=True, slots=True)
class NvidiaParameters:
    """/proc/driver/nvidia/params."""

    stream_mem_ops: bool | Missing  # EnableStreamMemOPs
    peer_mapping: bool | Missing  # PeerMappingOverride=1 in RegistryDwords


@dataclass(frozen=True, slots=True)
class Gpus:
    """NVIDIA GPUs, and what lets a NIC reach their memory."""

    functions: tuple[str, ...]  # addresses in /sys/bus/pci/drivers/nvidia; () where there is none
    peermem: str | Missing  # /sys/module/{nvidia_peermem,nv_peer_mem}/version
    memory_peers: tuple[str, ...] | Missing  # /sys/kernel/mm/memory_peers, registered clients
    open_driver: bool | Missing  # /proc/driver/nvidia/version: "Open Kernel Module"
    parameters: NvidiaParameters | Missing = NOT_IN_RECORD
    gdrdrv: bool | Missing = NOT_IN_RECORD  # /sys/module/gdrdrv: the driver of GDRCopy


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A process that this one descends from, or the one that --pid names: /proc/PID."""

    pid: int
    name: str | Missing  # Name of status
    memlock: Limit | Missing  # "Max locked memory" of limits


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """The host around its RDMA devices."""

    paths: tuple[PciPath, ...] | Missing
    cpus_online: str | Missing  # /sys/devices/system/cpu/online
    iommu_options: tuple[str, ...] | Missing  # words of /proc/cmdline with "iommu" in them
    kernel: str | Missing  # /proc/sys/kernel/osrelease
    gpus: Gpus
    ancestors: tuple[Ancestor, ...] | Missing  # the parent first, init last
    asked_pid: int | None  # --pid: `ancestors` begins with it
    limits: HostLimits | Missing = NOT_IN_RECORD
