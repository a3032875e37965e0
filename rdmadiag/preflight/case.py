"""What the rules of preflight are given."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rdmadiag.facts import Missing, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.frozen import dataclass
from rdmadiag.view.reconcile import DeviceView, PortView

if TYPE_CHECKING:  # imported where `--stack` or `--expect` asks for one
    from rdmadiag.facts.limits import HostLimits
    from rdmadiag.gid.registry import Chosen
    from rdmadiag.preflight.expectations.compare import Compared


@dataclass(frozen=True, slots=True)
class Lack:
    """What a rule needs and nobody could read, on the whole host or at one device or port."""

    need: str  # the name of its row in `preflight.needs`
    missing: Missing
    device: str | None = None
    port: int | None = None

    def concerns(self, device: str | None, port: int | None) -> bool:
        """Whether what is said of this place may rest on it."""
        if self.device is None or device is None:
            return True
        return self.device == device and (self.port is None or port in (None, self.port))


@dataclass(frozen=True, slots=True)
class Case:
    """What there is to judge: all the evidence, and the devices that were selected."""

    evidence: Evidence
    devices: tuple[DeviceView, ...]
    selected: bool = False  # the user named devices; an unused port is then no longer plausible
    stacks: "tuple[Chosen, ...]" = ()  # those that the user named
    expected: tuple["Compared", ...] = ()  # what was asked of this host, and whether it is so
    fleet_size: int | None = None  # hosts that this one is to work with, itself among them
    unread: tuple[Lack, ...] = ()  # what kept the rules before from their work, and failed

    @property
    def ports(self) -> Iterator[tuple[DeviceView, PortView]]:
        """The selected ports with their devices."""
        for device in self.devices:
            for port in device.ports:
                yield device, port

    @property
    def limits(self) -> "HostLimits | None":
        """Of the host and its cgroup; None where they were not read."""
        system = self.evidence.system
        return None if isinstance(system, Missing) else known(system.limits)
