"""What lines of the kernel's log say of RDMA devices, and of which.

    mlx5_core 0000:08:00.0 eth0: Link down
    mlx5_core 0000:08:00.0: Port module event: module 0, Cable unplugged
    bnxt_en 0000:09:00.0 eth1: NIC Link is Down
    mlx5_core 0000:08:00.0: mlx5_pcie_event:299:(pid 7): Detected insufficient power on the
    PCIe slot (27W).
    mlx5_core 0000:08:00.0: mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, …

By structure (the driver's verb and what it says of it), not by whole sentences.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from rdmadiag.facts import Missing, present
from rdmadiag.view.reconcile import PortView

if TYPE_CHECKING:
    from rdmadiag.facts.kernel_log import KernelLine
    from rdmadiag.preflight.case import Case


class Kind(StrEnum):
    """What a line says."""

    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    REGISTER_REFUSED = "register_refused"  # ACCESS_REG failed
    CONTEXTS_EXHAUSTED = "contexts_exhausted"  # ALLOC_UAR: limits exceeded
    SLOT_POWER = "slot_power"
    UNHEALTHY = "unhealthy"
    RECOVERED = "recovered"
    HOT = "hot"


_PATTERNS: Final = (
    (Kind.REGISTER_REFUSED, r"ACCESS_REG\b.*\bfailed"),
    (Kind.CONTEXTS_EXHAUSTED, r"ALLOC_UAR\b.*\blimits? exceeded"),
    (Kind.SLOT_POWER, r"insufficient power on the PCIe slot"),
    # Older kernels write "health revovery succeded".
    (Kind.RECOVERED, r"health re\w+ succ"),
    (Kind.UNHEALTHY, r"health compromised|handling bad device|health recovery failed"),
    (Kind.UNHEALTHY, r"fatal error [0-9]+ detected|will cause a leak of a command resource"),
    (Kind.UNHEALTHY, r"firmware (?:is )?(?:not responding|fatal)"),
    (Kind.UNHEALTHY, r"severity=Uncorrect\w+ \((?:Non-)?Fatal\)"),
    (Kind.HOT, r"high temperature"),
    (Kind.LINK_DOWN, r"\blink (?:is )?down\b|cable unplugged"),
    (Kind.LINK_UP, r"\blink (?:is )?up\b|cable plugged"),
)
_COMPILED: list[tuple[Kind, re.Pattern[str]]] = []

_PCI: Final = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\s:,]+")


def kind_of(message: str) -> Kind | None:
    """What a line says; None for nothing that matters here."""
    if not _COMPILED:  # where there is a line at all
        _COMPILED.extend((kind, re.compile(text, re.IGNORECASE)) for kind, text in _PATTERNS)
    return next((kind for kind, pattern in _COMPILED if pattern.search(message)), None)


def said(case: "Case", kinds: Iterable[Kind]) -> dict[str, list["KernelLine"]]:
    """Lines of these kinds by the device that they name.

    A device that is gone is named by its PCI address, if it was one that carries RDMA; lines
    about devices that were not selected are left out.
    """
    wanted = frozenset(kinds)
    found: dict[str, list[KernelLine]] = {}
    for line in _lines(case):
        if kind_of(line.message) in wanted:
            for name in _named(line.message, case):
                found.setdefault(name, []).append(line)
    return found


def _lines(case: "Case") -> Iterator["KernelLine"]:
    log = case.evidence.kernel_log
    if not isinstance(log, Missing):
        yield from present(log.lines)


def _named(message: str, case: "Case") -> tuple[str, ...]:
    address = _PCI.search(message)
    if address:
        at = address[0].lower()
        own = tuple(
            device.name
            for device in case.devices
            if not isinstance(device.pci, Missing) and device.pci.address == at
        )
        if own or case.selected or isinstance(case.evidence.sysfs, Missing):
            return own
        known = {each.address for each in present(case.evidence.sysfs.candidates)}
        return (f"PCI {at}",) if at in known else ()
    words = set(_WORD.findall(message))
    return tuple(
        device.name
        for device in case.devices
        if device.name in words or _names(device.ports) & words
    )


def _names(ports: Iterable[PortView]) -> set[str]:
    """The netdevs of these ports."""
    names: set[str] = set()
    for port in ports:
        names |= set(port.netdevs)
        if port.nldev and not isinstance(port.nldev.netdev, Missing):
            names.add(port.nldev.netdev)
    return names


STARTING: Final = 300.0
"""Seconds after the kernel started in which a link that goes down is still coming up."""


def flapping(case: "Case") -> dict[str, list["KernelLine"]]:
    """Active devices whose link went down in the window: the lines by device.

    A driver that starts may say "Link down" before its first "Link up": no flap.
    """
    active = {port.device for _, port in case.ports if port.is_active}
    flaps: dict[str, list[KernelLine]] = {}
    for name, lines in said(case, (Kind.LINK_DOWN, Kind.LINK_UP)).items():
        was_up = False
        for line in lines:
            up = kind_of(line.message) is Kind.LINK_UP
            if not up and (was_up or line.seconds > STARTING) and name in active:
                flaps.setdefault(name, []).append(line)
            was_up = was_up or up
    return flaps
