"""PCI configuration space from a description: linux/pci_regs.h, PCI Express Base Specification."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdmadiag.host.pci_config import gathered

ENDPOINT, ROOT_PORT, UPSTREAM, DOWNSTREAM = 0x0, 0x4, 0x5, 0x6
ISOLATED = 0x1D
"""What the kernel enables of ACS where there is an IOMMU: SV, RR, CR, UF (pci_std_enable_acs)."""


@dataclass(frozen=True)
class Space:
    """A function's 4096 bytes, as far as anything here reads them."""

    vendor: int = 0x15B3
    device: int = 0x101D
    kind: int = ENDPOINT
    payload_supported: int = 512
    payload: int = 256
    read_request: int = 512
    relaxed_ordering: bool = True
    no_snoop: bool = True
    extended_tags: bool = True
    acs: int | None = None  # ACS Control; None: no such capability
    acs_can: int = 0x5F
    ats: bool | None = None  # ATS Control, Enable; None: no such capability

    def content(self) -> bytes:
        """Power management at 0x40, PCI Express at 0x60; AER at 0x100, then ACS, then ATS."""
        space = bytearray(4096)
        struct.pack_into("<HHHH", space, 0, self.vendor, self.device, 0x0406, 0x0010)
        space[0x34] = 0x40
        struct.pack_into("<BBH", space, 0x40, 0x01, 0x60, 0x0003)
        control = self.relaxed_ordering << 4 | self.extended_tags << 8 | self.no_snoop << 11
        control |= _code(self.payload) << 5 | _code(self.read_request) << 12
        flags = 2 | self.kind << 4
        can = 0x8000 | _code(self.payload_supported)
        struct.pack_into("<BBHIHH", space, 0x60, 0x10, 0, flags, can, control, 0)
        rows = [(0x01, b"")]
        if self.acs is not None:
            rows.append((0x0D, struct.pack("<HH", self.acs_can, self.acs)))
        if self.ats is not None:
            rows.append((0x0F, struct.pack("<HH", 0x20, self.ats << 15)))
        for at, (number, behind) in enumerate(rows):
            here, after = 0x100 + 0x48 * at, 0x100 + 0x48 * (at + 1)
            after = 0 if at == len(rows) - 1 else after
            struct.pack_into("<I", space, here, number | 1 << 16 | after << 20)
            space[here + 4 : here + 4 + len(behind)] = behind
        return bytes(space)


def _code(size: int) -> int:
    return size.bit_length() - 8


def bridge(kind: int = ROOT_PORT, acs: int | None = 0, **changes: Any) -> Space:
    """A port of a root complex or switch, which sends little of its own."""
    own: dict[str, Any] = {"vendor": 0x8086, "device": 0x352A, "kind": kind, "acs": acs}
    own |= {"read_request": 128, "relaxed_ordering": False, "no_snoop": False}
    return Space(**(own | changes))


def gpu(**changes: Any) -> Space:
    """An NVIDIA H100."""
    own: dict[str, Any] = {"vendor": 0x10DE, "device": 0x2330}
    return Space(**(own | changes))


def contents(spaces: Mapping[str, Space | bytes]) -> dict[str, bytes]:
    """By path of the file; of a description what a live host's record has of it."""
    return {
        f"/sys/bus/pci/devices/{address}/config": each
        if isinstance(each, bytes)
        else _recorded(each.content())
        for address, each in spaces.items()
    }


def _recorded(space: bytes) -> bytes:
    return gathered(lambda count, at: space[at : at + count])
