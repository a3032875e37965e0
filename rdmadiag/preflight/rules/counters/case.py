"""What the rules of counters are given, and how they point at a counter."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.counter_catalogue import Group
from rdmadiag.facts.counters import CounterFacts, CounterSource
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.thresholds import DEFAULT, Thresholds
from rdmadiag.preflight.verdict import Proof
from rdmadiag.view.counter_changes import Change, Event

ABI: Final = "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband"
MLX5: Final = (
    "https://enterprise-support.nvidia.com/s/article/understanding-mlx5-linux-counters-and-status-"
    "parameters"
)
_FILES: Final = {
    CounterSource.PORT: "/sys/class/infiniband/{device}/ports/{port}/counters/{name}",
    CounterSource.HW: "/sys/class/infiniband/{device}/ports/{port}/hw_counters/{name}",
    CounterSource.DEVICE_HW: "/sys/class/infiniband/{device}/hw_counters/{name}",
    CounterSource.CM: "/sys/class/infiniband/{device}/ports/{port}/{name}",
    CounterSource.DRIVER: "/sys/class/infiniband/{device}/{name}",
    CounterSource.NLDEV: "RDMA_NLDEV_CMD_STAT_GET {device}/{port}: {name}",
    CounterSource.NETDEV: "/sys/class/net/{netdev}/statistics/{name}",
    CounterSource.PAUSE: "ethtool --include-statistics --show-pause {netdev}: {name}",
    CounterSource.FEC: "ethtool --include-statistics --show-fec {netdev}: {name}",
    CounterSource.PHY: "ethtool --statistics {netdev} --groups eth-phy: {name}",
    CounterSource.REGISTRY: "ioreg -r -l -c AppleThunderboltIPPort: {netdev}: {name}",
}


@dataclass(frozen=True, slots=True)
class CounterCase:
    """What there is to judge: a sample, the one before it if there is one, and the changes."""

    after: CounterFacts
    before: CounterFacts | None = None
    changes: tuple[Change, ...] = ()
    thresholds: Thresholds = DEFAULT

    @property
    def filled(self) -> frozenset[tuple[str, int | None, str]]:
        """Device, port and name of the counters that came to their greatest value."""
        return frozenset(
            (each.device, each.port, each.name)
            for each in self.changes
            if each.event is Event.SATURATED and each.rise
        )

    def risen(self, *groups: Group) -> Iterator[tuple[tuple[str, int | None], list[Change]]]:
        """By device and port: the counters of a group that rose, the greatest rise first."""
        found: dict[tuple[str, int | None], list[Change]] = {}
        for each in self.changes:
            if each.group in groups and each.rise:
                found.setdefault((each.device, each.port), []).append(each)
        for place, rises in found.items():
            yield place, sorted(rises, key=lambda each: -each.rise)


def proof(change: Change) -> Proof:
    """Where a counter stands, and both its values."""
    where = subject(change.source, change.device, change.port, change.netdev, change.name)
    return Proof(change.source, where, f"{change.before} → {change.after}{_pace(change)}")


def subject(
    source: CounterSource, device: str, port: int | None, netdev: str | None, name: str
) -> str:
    if source is CounterSource.NETDEV and name.startswith("carrier_"):
        return f"/sys/class/net/{netdev}/{name}"
    return _FILES[source].format(device=device, port=port, netdev=netdev, name=name)


def _pace(change: Change) -> str:
    if isinstance(change.amount, Missing) or isinstance(change.seconds, Missing):
        return ""
    unit = change.unit.removesuffix("s") if change.amount == 1 else change.unit
    return f"  (+{change.amount} {unit} in {change.seconds:g} s)"


def place(device: str, port: int | None) -> str:
    return device if port is None else f"{device}/{port}"
