"""Where GPUs, accelerators and RDMA devices stand on the PCI bus."""

from enum import StrEnum

from rdmadiag.facts import Missing
from rdmadiag.frozen import dataclass


class GpuKind(StrEnum):
    """What a function that adapters are to be near to is, by its PCI class."""

    GPU = "gpu"  # 0x0300, 0x0302 and 0x0380, and 0x1200 of AMD and NVIDIA
    ACCELERATOR = "accelerator"  # 0x1200 of others: Gaudi and its like


@dataclass(frozen=True, slots=True)
class Place:
    """The link of a function in /sys/bus/pci/devices, from the root to it."""

    root: str  # "pci0000:16": the host bridge
    bridges: tuple[str, ...]  # the root port first, then the ports of switches


@dataclass(frozen=True, slots=True)
class GpuFunction:
    """A GPU or an accelerator: /sys/bus/pci/devices/ADDRESS."""

    address: str  # "0000:1b:00.0"
    kind: GpuKind
    vendor: str  # "0x10de"
    device: str | Missing  # "0x2330"
    driver: str | Missing  # driver link
    numa_node: int | Missing  # -1 is the kernel's word for "none known"
    place: Place | Missing
    # A function that is suspended is not asked: newer kernels would wake it.
    current_link_speed: str | Missing  # "32.0 GT/s PCIe"
    current_link_width: int | Missing
    max_link_speed: str | Missing
    max_link_width: int | Missing


@dataclass(frozen=True, slots=True)
class Adapter:
    """The function behind an RDMA device."""

    device: str  # "mlx5_0"
    address: str | Missing  # device link; of a subfunction that of the function that it is part of
    place: Place | Missing
    # physfn link of a virtual function, where its physical one is here; None of a physical one
    physical_function: str | Missing | None


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """What stands on the PCI bus, as far as RDMA depends on it."""

    gpus: tuple[GpuFunction, ...] | Missing
    adapters: tuple[Adapter, ...] | Missing
