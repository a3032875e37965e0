"""What a Mac says of Thunderbolt RDMA outside of verbs.

Shapes from Apple's TN3205 and public captures; a value that a newer macOS writes
differently is a Missing, not an error.
"""

from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Address, Missing, present
from rdmadiag.frozen import dataclass

MASK: Final = "255.255.255.252"
"""Of the subnet of one cable, which has two ends."""


def subnet_of(netdev: str) -> str:
    """The first three numbers of a subnet for the cable of "en5", other than any other's.

    >>> subnet_of("en5"), subnet_of("en12")
    ('10.10.15', '10.10.22')
    """
    digits = "".join(letter for letter in netdev if letter in "0123456789")
    return f"10.10.{10 + int(digits[-6:] or 0) % 240}"


# --- macOS: the registry ------------------------------------------------------------------

PEER_INTERFACE: Final = "AppleThunderboltRDMAPeerInterface"
XDOMAIN_SERVICE: Final = "IOThunderboltXDomainService"
"""Classes of the registry whose objects are there where another Mac is."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A user client of an RDMA interface: IOUserClientCreator "pid 123, python3"."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class RdmaInterface:
    """AppleThunderboltRDMAInterface, "rdma_en1", with what hangs below it."""

    name: str
    node_guid: str | Missing
    power_state: int | Missing  # IOPowerManagement.CurrentPowerState; 2 is on
    protection_domains: int | Missing  # AppleThunderboltRDMAProtectionDomain below it
    queue_pairs: int | Missing  # AppleThunderboltRDMAQueuePair below it
    inactive: int  # of those, the ones that are inactive and busy: waiting to be freed
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class ThunderboltIpPort:
    """AppleThunderboltIPPort with the netdev below it."""

    netdev: str | Missing  # "BSD Name"
    link_up: bool | Missing  # IOLinkStatus, bit 1
    link_active_count: int | Missing  # IOLinkActiveCount: how often the link came up


@dataclass(frozen=True, slots=True)
class RegistryFacts:
    """ioreg, one class at a time."""

    interfaces: tuple[RdmaInterface, ...] | Missing
    peer_interfaces: int | Missing  # AppleThunderboltRDMAPeerInterface
    xdomain_services: int | Missing  # IOThunderboltXDomainService
    ip_ports: tuple[ThunderboltIpPort, ...] | Missing
    protection_domains: int | Missing  # on all interfaces
    queue_pairs: int | Missing

    def interface(self, name: str) -> RdmaInterface | None:
        """The interface of this name, if the registry has it."""
        return next((each for each in present(self.interfaces) if each.name == name), None)


# --- macOS: the log -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogLine:
    """One entry of `log show`."""

    timestamp: str  # as logged, with the zone
    seconds: float | Missing  # since the epoch
    message: str

    @property
    def is_failed_rtr(self) -> bool:
        """Whether it is the driver's INIT→RTR failure."""
        return failed_rtr_log_line(self.message)


def failed_rtr_log_line(line: str) -> bool:
    """Whether a log line holds the driver's failure marker; it writes -> or the arrow →.

    >>> failed_rtr_log_line("AppleThunderboltRDMA: Failed INIT→RTR")
    True
    """
    return "Failed INIT->RTR" in line.replace("\N{RIGHTWARDS ARROW}", "->")


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The RDMA lines of the window; of many the last ones, and every failed RTR."""

    window: str  # --last
    total: int  # lines of the RDMA driver in the window
    lines: tuple[LogLine, ...]
    unreadable: int  # lines that were no entry


# --- macOS: Thunderbolt cabling -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThunderboltPeer:
    """What hangs on a receptacle: another Mac, or a display, dock or hub."""

    name: str
    model: str | Missing  # device_name_key: "Mac17,6"
    domain_uuid: str | Missing  # a host has one, an accessory does not
    protocols: tuple[int, ...] | Missing  # protocol_id_key of services_title; 64087 is RDMA

    @property
    def is_host(self) -> bool:
        """Whether it is a computer."""
        served = not isinstance(self.protocols, Missing) and bool(self.protocols)
        return served or not isinstance(self.domain_uuid, Missing)


@dataclass(frozen=True, slots=True)
class ThunderboltBus:
    """One entry of SPThunderboltDataType: a bus and its receptacle."""

    name: str  # "thunderboltusb4_bus_0"
    model: str | Missing  # device_name_key: "Mac mini"
    domain_uuid: str | Missing
    receptacle: str | Missing  # receptacle_id_key, the N of "Thunderbolt N"
    connected: bool | Missing  # receptacle_status_key
    speed_gbps: int | Missing  # current_speed_key
    speed_is_maximum: bool  # "Up to 120 Gb/s": nothing is connected
    peers: tuple[ThunderboltPeer, ...]


@dataclass(frozen=True, slots=True)
class ThunderboltFacts:
    """system_profiler SPThunderboltDataType."""

    buses: tuple[ThunderboltBus, ...]


# --- macOS: network interfaces ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MacInterface:
    """One interface of ifconfig."""

    name: str
    up: bool  # UP in flags
    status: str | Missing  # "active", "inactive"
    mtu: int | Missing
    mac: str | Missing  # ether
    addresses: tuple[Address, ...]
    members: tuple[str, ...]  # of a bridge


@dataclass(frozen=True, slots=True)
class HardwarePort:
    """One block of networksetup -listallhardwareports."""

    name: str  # "Thunderbolt 2"
    device: str  # "en6"


@dataclass(frozen=True, slots=True)
class MacNetworkFacts:
    """Interfaces, and which receptacle each belongs to."""

    interfaces: tuple[MacInterface, ...] | Missing
    hardware_ports: tuple[HardwarePort, ...] | Missing

    def interface(self, name: str) -> MacInterface | None:
        """The interface of this name."""
        return next((each for each in present(self.interfaces) if each.name == name), None)


# --- macOS: the system --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Panic:
    """A panic report that names the RDMA driver."""

    file: str
    seconds: float | Missing  # since the epoch, from the report's own header
    line: str  # the first that names it


@dataclass(frozen=True, slots=True)
class MacosFacts:
    """The switch, the release, sleep, boot, and panics."""

    rdma_enabled: bool | Missing  # rdma_ctl status; absent: macOS before 26.2
    version: str | Missing  # sw_vers: ProductVersion
    build: str | Missing  # sw_vers: BuildVersion
    sleep_minutes: int | Missing  # pmset -g: sleep; 0 is never
    boot_seconds: float | Missing  # sysctl kern.boottime, since the epoch
    panics: tuple[Panic, ...] | Missing
    rtr_failed: bool | Missing = NOT_IN_RECORD  # failed_rtr.json of this boot: an RTR of ours
