"""What counters say at one moment: raw values by where they were read."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.device_port import among
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.frozen import dataclass


class CounterSource(StrEnum):
    """Where a set of counters is read."""

    PORT = "port"  # ports/N/counters: PortCounters and PortCountersExtended of the IB spec
    HW = "hw"  # ports/N/hw_counters: the driver's own
    DEVICE_HW = "device_hw"  # DEVICE/hw_counters
    CM = "cm"  # ports/N/cm_*: messages of the connection manager, of InfiniBand and RoCE
    DRIVER = "driver"  # DEVICE/{fw_pages,reg_pages,mr_cache,mad_sa_cc}, where a driver has them
    NLDEV = "nldev"  # RDMA_NLDEV_CMD_STAT_GET: the second witness of hw_counters
    NETDEV = "netdev"  # struct rtnl_link_stats64, by RTM_GETLINK or statistics/ in sysfs
    PAUSE = "pause"  # ETHTOOL_MSG_PAUSE_GET with ETHTOOL_FLAG_STATS
    FEC = "fec"  # ETHTOOL_MSG_FEC_GET with ETHTOOL_FLAG_STATS
    PHY = "phy"  # ETHTOOL_MSG_STATS_GET, group eth-phy
    REGISTRY = "registry"  # ioreg: AppleThunderboltIPPort


@dataclass(frozen=True, slots=True)
class CounterSet:
    """The counters of one place, read one after the other."""

    source: CounterSource
    device: str
    port: int | None  # None: of the device as a whole
    netdev: str | None  # whose they are, for netdev, pause, fec and phy
    identity: int | None  # DEV_INDEX, or the netdev's ifindex: another one is another object
    seconds: float | Missing  # since the host started, when the first of them was read
    values: dict[str, int] | Missing
    refused: dict[str, Missing]  # counters that are there and cannot be read
    lifespan_ms: int | None = None  # hw_counters/lifespan: for how long the kernel repeats a value
    speed_mbps: int | Missing | None = None  # of fec: ETHTOOL_A_LINKMODES_SPEED
    leg: bool = False  # the netdev is one leg of the bond that the port is on as a whole

    @property
    def key(self) -> "Key":
        """What identifies this set within a sample."""
        return self.source, self.device, self.port, self.netdev if self.leg else None

    @property
    def place(self) -> str:
        """DEVICE/PORT, or DEVICE."""
        return self.device if self.port is None else f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True)
class CountedPort(WithNumbers):
    """A port that has counters, or could have."""

    number: int
    link_layer: LinkLayer | Missing  # link_layer
    netdev: str | Missing  # NDEV_NAME of PORT_GET, else the parent of rxe, or gid_attrs/ndevs


@dataclass(frozen=True, slots=True)
class CountedDevice:
    """A device whose counters were read."""

    name: str
    index: int | Missing  # DEV_INDEX: never given twice while the kernel runs
    driver: str | Missing  # device/driver link
    ports: tuple[CountedPort, ...] | Missing


@dataclass(frozen=True, slots=True)
class CounterFacts:
    """One sample."""

    boot: str | Missing  # /proc/sys/kernel/random/boot_id; kern.bootsessionuuid
    seconds: float | Missing  # since the host started: CLOCK_BOOTTIME; /proc/uptime of a record
    names: tuple[str, ...] | Missing  # all RDMA devices, the excluded ones among them
    excluded: tuple[str, ...]  # --exclude-device: nothing of these was read
    devices: tuple[CountedDevice, ...]
    sets: tuple[CounterSet, ...]
    failed: tuple[Missing, ...]  # sources that gave nothing

    def device(self, name: str) -> CountedDevice | None:
        """The device of this name, if its counters were read."""
        return next((device for device in self.devices if device.name == name), None)

    @property
    def ports(self) -> Iterator[tuple[CountedDevice, CountedPort]]:
        """All ports with their devices."""
        for device in self.devices:
            for port in present(device.ports):
                yield device, port


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which devices to read. Ports of no interest are left out as their device's are."""

    devices: Mapping[str, frozenset[int] | None] | None = None  # None: all; of one: all ports
    excluded: tuple[str, ...] = ()

    def among(self, names: Collection[str]) -> "Wanted":
        """The same of a host with devices of these names: port 1 of "a" may be the device "a:1"."""
        found: dict[str, frozenset[int] | None] = {}
        for device, ports in (self.devices or {}).items():
            if ports is None:
                found[device] = None
            for number in ports or ():
                name, port = among(device, number, names)
                before = found.setdefault(name, frozenset())
                whole = port is None or before is None
                found[name] = None if whole else (before or frozenset()) | {number}
        return replace(self, devices=found or None)

    def device(self, name: str) -> bool:
        """Whether anything of it is read."""
        return name not in self.excluded and (self.devices is None or name in self.devices)

    def port(self, name: str, number: int) -> bool:
        """Whether it is read."""
        ports = self.devices.get(name) if self.devices else None
        return ports is None or number in ports


ALL: Final = Wanted()


def narrowed(facts: CounterFacts, wanted: Wanted) -> CounterFacts:
    """The sample as if no more had been read."""
    wanted = wanted.among(tuple(present(facts.names)))
    devices = (
        replace(
            each,
            ports=each.ports
            if isinstance(each.ports, Missing)
            else tuple(port for port in each.ports if wanted.port(each.name, port.number)),
        )
        for each in facts.devices
        if wanted.device(each.name)
    )
    return replace(
        facts,
        excluded=tuple(dict.fromkeys((*facts.excluded, *wanted.excluded))),
        devices=tuple(devices),
        sets=tuple(
            each
            for each in facts.sets
            if wanted.device(each.device)
            and (each.port is None or wanted.port(each.device, each.port))
        ),
    )


Key = tuple[CounterSource, str, int | None, str | None]
"""Source, device, port, and the netdev of a leg."""


@dataclass(frozen=True, slots=True)
class Spared:
    """What an earlier sample was refused, by set and the identity that it had then."""

    sets: Mapping[tuple[Key, int | None], Missing] = field(default_factory=dict)
    counters: Mapping[tuple[Key, int | None], Mapping[str, Missing]] = field(default_factory=dict)


NOTHING: Final = Spared()


def remembered(facts: CounterFacts) -> Spared:
    """What the next sample need not try: refusals, not what was absent or late."""
    lasting = (Why.UNSUPPORTED, Why.DENIED, Why.MALFORMED)
    return Spared(
        {
            (each.key, each.identity): each.values
            for each in facts.sets
            if isinstance(each.values, Missing) and each.values.why in lasting
        },
        {
            (each.key, each.identity): {
                name: why for name, why in each.refused.items() if why.why in lasting
            }
            for each in facts.sets
            if each.refused
        },
    )
