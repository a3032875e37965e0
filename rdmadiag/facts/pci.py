"""Configuration space of what data passes on its way between adapters, GPUs and memory."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.facts.topology import Place
from rdmadiag.frozen import dataclass


class Role(StrEnum):
    """Why a function is read."""

    ADAPTER = "adapter"  # behind an RDMA device; of a virtual function the physical one
    GPU = "gpu"  # GPUs and accelerators
    DATA_DIRECT = "data_direct"  # see Part
    BRIDGE = "bridge"  # above one of these


class PortKind(Numbered):
    """Device/Port Type of PCI Express Capabilities: PCI_EXP_TYPE_* of linux/pci_regs.h."""

    ENDPOINT = "endpoint", 0x0
    LEGACY_ENDPOINT = "legacy_endpoint", 0x1
    ROOT_PORT = "root_port", 0x4
    UPSTREAM_PORT = "upstream_port", 0x5  # of a switch
    DOWNSTREAM_PORT = "downstream_port", 0x6
    TO_PCI = "pci_express_to_pci", 0x7
    FROM_PCI = "pci_to_pci_express", 0x8
    ROOT_COMPLEX_ENDPOINT = "root_complex_endpoint", 0x9
    EVENT_COLLECTOR = "root_complex_event_collector", 0xA


class Part(StrEnum):
    """Functions that need ACS of their own, as rdma-core's rdma_topo has them."""

    GRACE_ROOT_PORT = "grace_root_port"
    VERA_ROOT_PORT = "vera_root_port"
    CONNECTX_SWITCH = "connectx_switch"
    BLUEFIELD_SWITCH = "bluefield_switch"
    CONNECTX = "connectx"  # 7 to 9
    DATA_DIRECT = "data_direct"  # of ConnectX-8, on the bus of a GPU


PARTS: Final[Mapping[tuple[str | Missing, str | Missing], Part]] = {
    ("0x10de", "0x22b1"): Part.GRACE_ROOT_PORT,
    ("0x10de", "0x22b2"): Part.GRACE_ROOT_PORT,
    ("0x10de", "0x22b8"): Part.GRACE_ROOT_PORT,
    ("0x10de", "0x2f95"): Part.VERA_ROOT_PORT,
    ("0x10de", "0x2f96"): Part.VERA_ROOT_PORT,
    ("0x15b3", "0x1979"): Part.CONNECTX_SWITCH,
    ("0x15b3", "0x197c"): Part.CONNECTX_SWITCH,
    ("0x15b3", "0x197b"): Part.BLUEFIELD_SWITCH,
    ("0x15b3", "0x1021"): Part.CONNECTX,
    ("0x15b3", "0x1023"): Part.CONNECTX,
    ("0x15b3", "0x1025"): Part.CONNECTX,
    ("0x15b3", "0x2100"): Part.DATA_DIRECT,
}
"""By vendor and device; at rdma-core 691953d8d502."""


class AcsBit(StrEnum):
    """A bit of the ACS Capability and Control registers: PCI_ACS_* of linux/pci_regs.h."""

    SOURCE_VALIDATION = "source_validation"
    TRANSLATION_BLOCKING = "translation_blocking"
    REQUEST_REDIRECT = "request_redirect"
    COMPLETION_REDIRECT = "completion_redirect"
    UPSTREAM_FORWARDING = "upstream_forwarding"
    EGRESS_CONTROL = "egress_control"
    DIRECT_TRANSLATED = "direct_translated"


ACS_BITS: Final = tuple(AcsBit)
"""In the order of their numbers: the first is bit 0."""


@dataclass(frozen=True, slots=True)
class Express(WithNumbers):
    """PCI Express capability: Device Capabilities and Device Control; sizes are in bytes."""

    kind: PortKind | Missing
    payload_supported: int | Missing  # DevCap, Max_Payload_Size Supported
    payload: int | Missing  # DevCtl, Max_Payload_Size
    read_request: int | Missing  # DevCtl, Max_Read_Request_Size
    relaxed_ordering: bool  # DevCtl, Enable Relaxed Ordering
    no_snoop: bool  # DevCtl, Enable No Snoop
    extended_tags: bool  # DevCtl, Extended Tag Field Enable

    @property
    def is_reserved(self) -> bool:
        """Whether Device Control says nothing of how the function sends.

        Of a virtual function all of these bits are reserved, and read as zero (Single Root I/O
        Virtualization, Device Control Register): those of the physical function count. In a
        virtual machine that distinguishes one from a physical function, which has some of them
        set after reset.
        """
        smallest = 128
        set_bits = self.relaxed_ordering or self.no_snoop or self.extended_tags
        return not set_bits and self.payload == self.read_request == smallest


@dataclass(frozen=True, slots=True)
class Acs:
    """Access Control Services."""

    supported: tuple[AcsBit, ...]
    enabled: tuple[AcsBit, ...]


@dataclass(frozen=True, slots=True)
class PciConfig:
    """A function: /sys/bus/pci/devices/ADDRESS/config. Suspended ones are not woken for it."""

    address: str  # "0000:1b:00.0"
    role: Role
    place: Place
    vendor: str | Missing  # "0x15b3"
    device: str | Missing
    express: Express | Missing
    acs: Acs | Missing  # absent where the function has none
    ats: bool | Missing  # Address Translation Services: whether enabled; absent: no capability
    iommu_group: str | Missing  # iommu_group link

    @property
    def part(self) -> Part | None:
        """What it is of those that need ACS of their own."""
        ids = (self.vendor, self.device)
        return PARTS.get(ids)


@dataclass(frozen=True, slots=True)
class Cpu:
    """/sys/devices/system/cpu/modalias of x86: numbers of the kernel (X86_VENDOR_*), CPUID's."""

    vendor: int  # 0 Intel, 2 AMD
    family: int
    model: int


@dataclass(frozen=True, slots=True)
class PciFacts:
    """What matters of the bus; without an RDMA device on it nothing is read."""

    functions: tuple[PciConfig, ...] | Missing
    cpu: Cpu | Missing
