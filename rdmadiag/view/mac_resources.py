"""How many protection domains and queue pairs of a Thunderbolt device are in use, and may be."""

from collections.abc import Iterator
from typing import Any, Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.macos import RdmaInterface
from rdmadiag.frozen import dataclass
from rdmadiag.view.reconcile import DeviceView


@dataclass(frozen=True, slots=True)
class Use:
    """One kind of resource on one device."""

    kind: str  # "pd", "qp", of facts.resources.KINDS
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


def in_use(device: DeviceView, evidence: Evidence) -> Iterator[Use] | Missing:
    """What the registry counts against what the device reports, or why that is not known.

    Objects that hang below no interface are counted with every one: whose they are is not
    known, and a device that is taken for free when it is not costs a reboot.
    """
    found = interface(device, evidence)
    if found is None:
        registry = evidence.ioreg
        return registry if isinstance(registry, Missing) else _NOT_SHOWN
    limits = device.verbs.limits if device.verbs else _NOT_ASKED
    for value in (limits, found.protection_domains, found.queue_pairs):
        if isinstance(value, Missing):
            return value
    registry = evidence.ioreg
    assert not isinstance(registry, Missing)
    for each in present(registry.interfaces):
        for count in (each.protection_domains, each.queue_pairs):
            if isinstance(count, Missing):  # what is not its own may be this device's
                return count
    return _uses(found, limits, evidence)


_NOT_SHOWN: Final = Missing(Why.ABSENT, "the registry does not show this device")
_NOT_ASKED: Final = Missing(Why.NOT_COLLECTED, "verbs does not show this device")


def _uses(found: RdmaInterface, limits: Any, evidence: Evidence) -> Iterator[Use]:
    registry = evidence.ioreg
    assert not isinstance(registry, Missing)
    for kind, counted, limit, total in (
        ("pd", "protection_domains", limits.max_pd, registry.protection_domains),
        # Of 11 that are reported 10 can be made (TN3205; ml-explore/mlx#3162).
        ("qp", "queue_pairs", limits.max_qp - 1, registry.queue_pairs),
    ):
        counts = [getattr(each, counted) for each in present(registry.interfaces)]
        placed = sum(count for count in counts if not isinstance(count, Missing))
        unplaced = 0 if isinstance(total, Missing) else max(0, total - placed)
        if limit > 0:
            yield Use(kind, getattr(found, counted) + unplaced, limit)


def is_exhausted(device: DeviceView, evidence: Evidence) -> bool | Missing:
    """Whether the next program gets no protection domain or no queue pair."""
    uses = in_use(device, evidence)
    return uses if isinstance(uses, Missing) else any(use.is_exhausted for use in uses)
