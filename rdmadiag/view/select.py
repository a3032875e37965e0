"""Which devices and ports the user means."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from rdmadiag.facts.device_port import among, split
from rdmadiag.frozen import dataclass
from rdmadiag.nearest import instead

if TYPE_CHECKING:
    from rdmadiag.view.reconcile import DeviceView


@dataclass(frozen=True, slots=True)
class Selector:
    """DEVICE or DEVICE:PORT, as `--device` takes it."""

    device: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """ "mlx5_0", "mlx5_0:1", "mlx5_0/1", "a:b"; raises ValueError."""
        return cls(*split(text))


class NoSuchDevice(ValueError):
    """A selector that names nothing; the message lists what there is."""


def select(
    views: Sequence["DeviceView"], selectors: Sequence[Selector]
) -> tuple["DeviceView", ...]:
    """The devices and ports that `selectors` name, or all without any.

    Raises NoSuchDevice for a device or port that is not there.
    """
    if not selectors:
        return tuple(views)
    by_name = {view.name: view for view in views}
    wanted: dict[str, set[int] | None] = {}
    for selector in selectors:
        name, number = among(selector.device, selector.port, by_name)
        view = by_name.get(name)
        if view is None:
            hint = instead(name, by_name)
            raise NoSuchDevice(f"no RDMA device {name!r}; {hint}")
        if number is None:
            wanted[name] = None
            continue
        numbers = {port.number for port in view.ports}
        if number not in numbers:
            there = ", ".join(f"{name}:{each}" for each in sorted(numbers)) or "none"
            raise NoSuchDevice(f"no port {number} on {name!r}; there are: {there}")
        chosen = wanted.setdefault(name, set())
        if chosen is not None:
            chosen.add(number)
    kept = []
    for view in views:
        if view.name not in wanted:
            continue
        numbers_wanted = wanted[view.name]
        kept.append(
            view
            if numbers_wanted is None
            else replace(
                view, ports=tuple(port for port in view.ports if port.number in numbers_wanted)
            )
        )
    return tuple(kept)
