"""PCI configuration space, read as `lspci -vv` does: the header, and registers of capabilities.

Nothing between them: some functions hang or misbehave where a register is read that no capability
claims (lspci(8), -xxx). Registers and numbers are those of linux/pci_regs.h.
"""

import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host.answers import refusal

HEADER_BYTES: Final = 64
"""All that an ordinary user is given (pci_read_config of drivers/pci/pci-sysfs.c)."""

SPACE_BYTES: Final = 4096
EXPRESS: Final = 0x10  # PCI_CAP_ID_EXP
ACS: Final = 0x0D  # PCI_EXT_CAP_ID_ACS
ATS: Final = 0x0F  # PCI_EXT_CAP_ID_ATS

_STATUS: Final = 0x06
_HAS_LIST: Final = 0x10  # PCI_STATUS_CAP_LIST
_FIRST: Final = 0x34  # PCI_CAPABILITY_LIST
_FIRST_EXTENDED: Final = 0x100
_TO_DEVICE_CONTROL: Final = 10  # PCI_EXP_DEVCTL and what is before it
_TO_CONTROL: Final = 8  # PCI_ACS_CTRL, PCI_ATS_CTRL and what is before them

Registers = Callable[[int, int], bytes]
"""How many bytes, from which offset → those that are there, as pread(2)."""


def has_capabilities(header: bytes | bytearray) -> bool:
    """Whether the header says that there is a list of them: each PCI Express function has one."""
    return len(header) > _STATUS and bool(header[_STATUS] & _HAS_LIST)


def capabilities(registers: Registers) -> Iterator[tuple[int, int]]:
    """Id and offset of those below 256."""
    header = registers(HEADER_BYTES, 0)
    if len(header) < HEADER_BYTES or not has_capabilities(header):
        return
    at, seen = header[_FIRST] & ~3, set[int]()
    while HEADER_BYTES <= at < _FIRST_EXTENDED and at not in seen:
        seen.add(at)
        found = registers(2, at)
        if len(found) < 2 or found[0] == 0xFF:
            return
        yield found[0], at
        at = found[1] & ~3


def extended_capabilities(registers: Registers) -> Iterator[tuple[int, int]]:
    """Id and offset of those from 256 on."""
    at, seen = _FIRST_EXTENDED, set[int]()
    while _FIRST_EXTENDED <= at < SPACE_BYTES and at not in seen:
        seen.add(at)
        found = registers(4, at)
        header = int.from_bytes(found, "little")
        if len(found) < 4 or header in (0, 0xFFFFFFFF):
            return
        yield header & 0xFFFF, at
        at = header >> 20 & ~3


def gathered(registers: Registers) -> bytes:
    """What is read of a function, each at its own offset; what lies between is zero."""
    space = bytearray()

    def read(count: int, at: int) -> bytes:
        content = registers(count, at)
        if content:
            space.extend(bytes(max(0, at + len(content) - len(space))))
            space[at : at + len(content)] = content
        return content

    for number, at in capabilities(read):
        if number == EXPRESS:
            read(_TO_DEVICE_CONTROL, at)
            break
    if len(space) >= HEADER_BYTES and has_capabilities(space):
        for number, at in extended_capabilities(read):
            if number in (ACS, ATS):
                read(_TO_CONTROL, at)
    return bytes(space)


def read(path: str) -> bytes | Missing:
    """`gathered` of the file `config` of a function in sysfs."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        return refusal(error, path)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return Missing(Why.MALFORMED, f"{path}: not a regular file")
        return gathered(lambda count, at: os.pread(handle, count, at))
    except OSError as error:
        return refusal(error, path)
    finally:
        os.close(handle)
