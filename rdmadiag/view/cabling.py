"""Which receptacle a Thunderbolt RDMA device belongs to, and what hangs on it."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Final

from rdmadiag.facts import Missing, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.macos import (
    LogLine,
    MacInterface,
    MacNetworkFacts,
    MacosFacts,
    ThunderboltBus,
    ThunderboltPeer,
    subnet_of,
)
from rdmadiag.frozen import dataclass
from rdmadiag.late import late
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, devices, netdev_of
from rdmadiag.view.unshown import FAILED

RDMA_PROTOCOL: Final = 64087
"""0xFA57: what a Mac with RDMA switched on offers to its peer."""

TN3205: Final = "https://developer.apple.com/documentation/technotes/tn3205"

SHOW_SPEED: Final = "system_profiler SPThunderboltDataType | grep Speed"
"""What an owner can paste to see what the hardware is."""

RDMA_GBPS: Final = 80
"""Speed of a Thunderbolt 5 link; RDMA runs on nothing slower (TN3205)."""

FIRST_RELEASE: Final = (26, 2)
"""macOS with rdma_ctl and librdma (TN3205)."""

_RELEASE: Final = late(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_OTHER_SUBNETS: Final = ("172.31", "192.168")  # where 10.10.0.0/16 is the office's
_NOT_THUNDERBOLT_5: Final = "does not support Thunderbolt 5"


def says_no_thunderbolt_5(line: LogLine) -> bool:
    """Whether the driver has written that this Mac cannot."""
    return _NOT_THUNDERBOLT_5 in line.message


class Generation(StrEnum):
    """Whether this Mac's hardware can do RDMA at all."""

    THUNDERBOLT_5 = "thunderbolt_5"
    OLDER = "older"
    UNKNOWN = "unknown"  # a slow link may be due to the cable or the peer


@dataclass(frozen=True, slots=True)
class Cabling:
    """What is known around one device; None where a source does not say."""

    netdev: str | None  # "en1"
    receptacle: str | None  # "2", of "Thunderbolt 2"
    bus: ThunderboltBus | None
    interface: MacInterface | None
    bridge: str | None  # the bridge that holds the netdev

    @property
    def hosts(self) -> tuple[ThunderboltPeer, ...]:
        """The computers on this cable."""
        return tuple(peer for peer in (self.bus.peers if self.bus else ()) if peer.is_host)

    @property
    def place(self) -> str:
        """Where to put one's hand."""
        return f"receptacle {self.receptacle}" if self.receptacle else "its receptacle"


def offers_rdma(peer: ThunderboltPeer) -> bool | None:
    """Whether RDMA is switched on at the other end; None where its services are not known."""
    return None if isinstance(peer.protocols, Missing) else RDMA_PROTOCOL in peer.protocols


def cabling(device: str, evidence: Evidence) -> Cabling:
    """The cable of an RDMA device, by way of its netdev and networksetup."""
    netdev = netdev_of(device)
    network, profile = evidence.mac_network, evidence.thunderbolt
    receptacle = interface = bridge = bus = None
    if netdev and not isinstance(network, Missing):
        interface = network.interface(netdev)
        for each in present(network.interfaces):
            if netdev in each.members:
                bridge = each.name
        for port in present(network.hardware_ports):
            kind, _, number = port.name.rpartition(" ")
            if port.device == netdev and kind == "Thunderbolt":
                receptacle = number
    if receptacle and not isinstance(profile, Missing):
        bus = next((each for each in profile.buses if each.receptacle == receptacle), None)
    return Cabling(netdev, receptacle, bus, interface, bridge)


def thunderbolt_ports(
    ports: Iterable[tuple[DeviceView, PortView]], evidence: Evidence
) -> Iterator[tuple[DeviceView, PortView, Cabling]]:
    """The Thunderbolt ones of `ports`, each with its cable."""
    for device, port in ports:
        if port.protocol is Protocol.THUNDERBOLT:
            yield device, port, cabling(device.name, evidence)


def free_subnet(device: str, evidence: Evidence) -> str:
    """The first three numbers of a subnet that no interface has and no other cable is given.

    Two cables in one subnet fail (exo-explore/exo#2067).
    """
    network = evidence.mac_network
    taken = [] if isinstance(network, Missing) else list(_networks(network))
    given: dict[str, str] = {}
    for name in dict.fromkeys((*(view.name for view in devices(evidence)), device)):
        every = [each for each in _subnets(name) if each not in given.values()]
        free = (each for each in every if not any(map(IPv4Network(f"{each}.0/30").overlaps, taken)))
        given[name] = next(free, every[0])
    return given[device]


def _subnets(device: str) -> Iterator[str]:
    """The device's own first."""
    base, _, third = subnet_of(netdev_of(device) or "").rpartition(".")
    for first in (base, *_OTHER_SUBNETS):
        for step in range(240):
            yield f"{first}.{10 + (int(third) - 10 + step) % 240}"


def _networks(network: MacNetworkFacts) -> Iterator[IPv4Network]:
    for interface in present(network.interfaces):
        for address in interface.addresses:
            with suppress(ValueError):  # IPv6, or a saved report that somebody has edited
                yield IPv4Network(f"{address.address}/{address.prefix_length}", strict=False)


def is_before_rdma(macos: MacosFacts) -> bool:
    """Whether this release is known to be older than RDMA over Thunderbolt."""
    match = None if isinstance(macos.version, Missing) else _RELEASE.match(macos.version)
    return match is not None and (int(match[1]), int(match[2] or 0)) < FIRST_RELEASE


def generation(evidence: Evidence) -> Generation:
    """By the fastest receptacle, else by the driver's own words in the log."""
    log, profile = evidence.mac_log, evidence.thunderbolt
    buses = () if isinstance(profile, Missing) else profile.buses
    if any(
        not isinstance(bus.speed_gbps, Missing) and bus.speed_gbps >= RDMA_GBPS for bus in buses
    ):
        return Generation.THUNDERBOLT_5
    if any(isinstance(bus.speed_gbps, Missing) and bus.speed_gbps.why in FAILED for bus in buses):
        return Generation.UNKNOWN  # that one may be faster
    if any(bus.speed_is_maximum for bus in buses):
        return Generation.OLDER
    lines = () if isinstance(log, Missing) else log.lines
    if any(map(says_no_thunderbolt_5, lines)):
        return Generation.OLDER
    return Generation.UNKNOWN
