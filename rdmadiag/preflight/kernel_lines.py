"""Lines of the kernel's log by the device that they name, and links that went down in it."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.kernel_messages import STARTING, Kind, kind_of
from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.rdma_drivers import ALWAYS_RDMA
from rdmadiag.frozen import dataclass
from rdmadiag.late import late
from rdmadiag.view.reconcile import PortView

if TYPE_CHECKING:
    from rdmadiag.facts import SysfsFacts
    from rdmadiag.facts.kernel_log import KernelLine
    from rdmadiag.preflight.case import Case


_PCI: Final = late(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE)
_DRIVER: Final = late(r"\w+(?= [0-9a-f]{4,8}:)", re.IGNORECASE)
_WORD: Final = late(r"[^\s:,]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """The device that a line is about."""

    name: str  # "mlx5_0"; "PCI 0000:08:00.0" of one that is gone
    device: str | None  # None of one that is gone

    def __str__(self) -> str:
        return self.name


def lines_about(case: "Case", kinds: Iterable[Kind]) -> dict[Subject, list["KernelLine"]]:
    """Lines of these kinds by the device that they name.

    A device that is gone is named by its PCI address, if it was one that carries RDMA: by the
    list of PCI functions, or by the driver that wrote the line, where the function has left the
    bus. Nobody can select it, so that it is named whatever was selected. Lines about devices
    that were not selected are left out.
    """
    wanted = frozenset(kinds)
    found: dict[Subject, list[KernelLine]] = {}
    for line in _lines(case):
        if kind_of(line.message) in wanted:
            for subject in _subjects(line.message, case):
                found.setdefault(subject, []).append(line)
    return found


def _lines(case: "Case") -> Iterator["KernelLine"]:
    log = case.evidence.kernel_log
    if not isinstance(log, Missing):
        yield from present(log.lines)


def _subjects(message: str, case: "Case") -> tuple[Subject, ...]:
    address = _PCI.search(message)
    if address:
        at = address[0].lower()
        own = tuple(
            Subject(device.name, device.name)
            for device in case.devices
            if not isinstance(device.pci, Missing) and device.pci.address == at
        )
        if own or isinstance(case.evidence.sysfs, Missing):
            return own
        return (Subject(f"PCI {at}", None),) if _is_gone(at, message, case.evidence.sysfs) else ()
    words = set(_WORD.findall(message))
    return tuple(
        Subject(device.name, device.name)
        for device in case.devices
        if device.name in words or _names(device.ports) & words
    )


def _is_gone(address: str, message: str, sysfs: "SysfsFacts") -> bool:
    """Whether this function carries RDMA, and is behind none of the host's devices."""
    for device in present(sysfs.devices):
        if isinstance(device.pci, Missing):
            if device.pci.why is not Why.ABSENT:
                return False  # perhaps this one's
        elif device.pci.address == address:
            return False
    if isinstance(sysfs.devices, Missing) and sysfs.devices.why is not Why.ABSENT:
        return False
    driver = _DRIVER.match(message)
    return address in {each.address for each in present(sysfs.candidates)} or (
        driver is not None and driver[0] in ALWAYS_RDMA
    )


def _names(ports: Iterable[PortView]) -> set[str]:
    """The netdevs of these ports."""
    names: set[str] = set()
    for port in ports:
        names |= set(port.netdevs)
        if port.nldev and not isinstance(port.nldev.netdev, Missing):
            names.add(port.nldev.netdev)
    return names


def flapping(case: "Case") -> dict[Subject, list["KernelLine"]]:
    """Active devices whose link went down in the window: the lines by device.

    A driver that starts may say "Link down" before its first "Link up": no flap. An adapter that
    is no device any more went down once, at least, as it went: no flap either.
    """
    active = {port.device for _, port in case.ports if port.is_active}
    flaps: dict[Subject, list[KernelLine]] = {}
    for subject, lines in lines_about(case, (Kind.LINK_DOWN, Kind.LINK_UP)).items():
        was_up = False
        for line in lines:
            up = kind_of(line.message) is Kind.LINK_UP
            if not up and (was_up or line.seconds > STARTING):
                flaps.setdefault(subject, []).append(line)
            was_up = was_up or up
    return {
        subject: lines
        for subject, lines in flaps.items()
        if subject.device in active or (subject.device is None and len(lines) > 1)
    }
