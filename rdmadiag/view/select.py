"""Which devices and ports the user means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from rdmadiag.nearest import instead
from rdmadiag.view.reconcile import DeviceView


@dataclass(frozen=True, slots=True)
class Selector:
    """DEVICE or DEVICE:PORT, as `--device` takes it."""

    device: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """ "mlx5_0", "mlx5_0:1", and "mlx5_0/1" as `rdma link` prints it; raises ValueError."""
        name, colon, port = text.replace("/", ":").partition(":")
        if not name or (colon and not (port.isascii() and port.isdigit() and len(port) <= 5)):
            raise ValueError(f"{text!r} is not DEV or DEV:PORT")
        return cls(name, int(port) if colon else None)


class NoSuchDevice(ValueError):
    """A selector that names nothing; the message lists what there is."""


def select(views: Sequence[DeviceView], selectors: Sequence[Selector]) -> tuple[DeviceView, ...]:
    """The devices and ports that `selectors` name, or all without any.

    Raises NoSuchDevice for a device or port that is not there.
    """
    if not selectors:
        return tuple(views)
    by_name = {view.name: view for view in views}
    wanted: dict[str, set[int] | None] = {}
    for selector in selectors:
        view = by_name.get(selector.device)
        if view is None:
            hint = instead(selector.device, by_name)
            raise NoSuchDevice(f"no RDMA device {selector.device!r}; {hint}")
        if selector.port is None:
            wanted[selector.device] = None
            continue
        numbers = {port.number for port in view.ports}
        if selector.port not in numbers:
            there = ", ".join(f"{view.name}:{number}" for number in sorted(numbers)) or "none"
            raise NoSuchDevice(
                f"no port {selector.port} on {selector.device!r}; there are: {there}"
            )
        chosen = wanted.setdefault(selector.device, set())
        if chosen is not None:
            chosen.add(selector.port)
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
