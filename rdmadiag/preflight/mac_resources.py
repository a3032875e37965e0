"""How many protection domains and queue pairs of a Thunderbolt device are in use, and may be."""

from collections.abc import Iterator
from dataclasses import dataclass

from rdmadiag.facts import Missing
from rdmadiag.facts.macos import RdmaInterface
from rdmadiag.preflight.evidence import Evidence
from rdmadiag.preflight.reconcile import DeviceView


@dataclass(frozen=True, slots=True)
class Use:
    """One kind of resource on one device."""

    what: str  # "protection domains", "queue pairs"
    count: int  # objects in the registry; nothing is ever allocated to find out
    usable: int

    @property
    def is_exhausted(self) -> bool:
        """Whether the next program gets none."""
        return self.count >= self.usable


def interface(device: DeviceView, evidence: Evidence) -> RdmaInterface | None:
    """The device in the registry."""
    registry = evidence.ioreg
    return None if isinstance(registry, Missing) else registry.interface(device.name)


def in_use(device: DeviceView, evidence: Evidence) -> Iterator[Use]:
    """What the registry counts against what the device reports; nothing where either is unknown."""
    found = interface(device, evidence)
    limits = device.verbs.limits if device.verbs else None
    if found is None or limits is None or isinstance(limits, Missing):
        return
    if limits.max_pd > 0:
        yield Use("protection domains", found.protection_domains, limits.max_pd)
    if limits.max_qp > 1:
        # Of 11 that are reported 10 can be made (TN3205; ml-explore/mlx#3162).
        yield Use("queue pairs", found.queue_pairs, limits.max_qp - 1)
