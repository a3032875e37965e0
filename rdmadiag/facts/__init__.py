"""What sources find: frozen values that carry evidence and no verdict.

Here stands what Linux shows; `verbs` and `macos` beside it are imported where needed.
`Missing` stands wherever a value could not be looked at, with the reason. A field's
comment names the file, attribute or command that the value came from.
"""

from collections.abc import Iterator
from dataclasses import field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.gid import IPV4_MAPPED, IPV4_MULTICAST, Family, Gid, Scope
from rdmadiag.facts.ib import (
    DeviceType,
    DriverId,
    GidType,
    LinkLayer,
    NetnsMode,
    NodeType,
    PhysState,
    PortState,
)
from rdmadiag.frozen import dataclass

if TYPE_CHECKING:  # hosts without a bond do not pay for its classes
    from rdmadiag.facts.bonding import Bonding

T = TypeVar("T")
D = TypeVar("D")


class Why(StrEnum):
    """Why a value is missing."""

    ABSENT = "absent"  # looked, and there is no such thing
    DENIED = "denied"  # not permitted to look
    UNSUPPORTED = "unsupported"  # this kernel, driver or platform does not offer it
    TIMEOUT = "timeout"  # the deadline passed first
    MALFORMED = "malformed"  # there was something, and it made no sense
    EXHAUSTED = "exhausted"  # no process, descriptor or memory was left to look with
    NOT_COLLECTED = "not_collected"  # nobody looked


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that could not be had."""

    why: Why
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.why}: {self.detail}" if self.detail else str(self.why)


NOT_IN_RECORD = Missing(Why.NOT_COLLECTED, "not in this record")
"""Of a field that reports of older versions do not have."""


# --- the host ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """Which host this is, and who looks."""

    hostname: str  # uname -n
    platform: Literal["linux", "darwin", "unknown"]  # uname -s
    kernel: str  # uname -r
    machine: str = ""  # uname -m
    recorded: bool = False  # read back from a snapshot
    sample: str | None = None  # its name among the samples of the package


# --- sysfs: /sys/class/infiniband, /sys/class/infiniband_verbs, /sys/class/net, PCI -----


@dataclass(frozen=True, slots=True)
class GidEntry(WithNumbers):
    """One non-zero row of a GID table: ports/N/gids/I and gid_attrs/{types,ndevs}/I."""

    index: int
    gid: Gid
    type: GidType | Missing  # gid_attrs/types/I; "IB/RoCE v1" differ by link_layer
    netdev: str | Missing  # gid_attrs/ndevs/I; EINVAL where the entry has none (InfiniBand)

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands in the row."""
        return self.gid.raw == Gid.ZERO.raw

    @property
    def known_type(self) -> GidType | None:
        """The type; None where it is not known, or the row is empty."""
        return None if isinstance(self.type, Missing) else self.type

    @property
    def netdev_name(self) -> str | None:
        """The netdev; None where there is none, or it is not known."""
        return None if isinstance(self.netdev, Missing) else self.netdev

    @property
    def is_v1(self) -> bool:
        """Whether it is RoCE v1."""
        return self.type is GidType.ROCE_V1

    @property
    def is_v2(self) -> bool:
        """Whether it is RoCE v2."""
        return self.type is GidType.ROCE_V2

    @property
    def is_ipv4(self) -> bool:
        """Whether it is ::ffff:a.b.c.d."""
        return self.gid.is_ipv4_mapped

    @property
    def family_or_multicast(self) -> Family:
        """The family as NCCL, UCX and perftest see it: IPv4 multicast counts as IPv4."""
        return Family.IPV4 if self.gid.raw.startswith(_IPV4_OR_MULTICAST) else Family.IPV6

    @property
    def has_interface_id(self) -> bool:
        """Whether the last eight bytes are not all zero."""
        return self.gid.raw[8:] != _NO_INTERFACE_ID

    @property
    def is_link_local_10(self) -> bool:
        """Whether it is of fe80::/10, the prefix of RFC 4291."""
        return self.gid.raw[0] == 0xFE and self.gid.raw[1] & 0xC0 == 0x80

    @property
    def is_link_local_64(self) -> bool:
        """Whether it is of fe80::/64, the prefix that hosts use and NCCL tests for."""
        return self.gid.raw.startswith(_LINK_LOCAL_64)

    @property
    def scope(self) -> Scope:
        """How far the address reaches."""
        return self.gid.scope


@cache
def empty_entry(index: int) -> GidEntry:
    """The row at `index` where nothing stands in it: the zero GID, as ibv_query_gid gives it.

    To most programs that is an IPv6 address like any other.
    """
    return GidEntry(index, Gid.ZERO, _EMPTY, _EMPTY)


_EMPTY: Final = Missing(Why.ABSENT, "the row is empty")
_NO_INTERFACE_ID: Final = bytes(8)
_IPV4_OR_MULTICAST: Final = (IPV4_MAPPED, IPV4_MULTICAST)
_LINK_LOCAL_64: Final = b"\xfe\x80" + bytes(6)


@dataclass(frozen=True, slots=True)
class GidTable:
    """A port's GIDs without the empty rows, and how long the table is with them."""

    length: int  # number of entries in ports/N/gids
    entries: tuple[GidEntry, ...]
    unreadable: dict[int, Missing] = field(default_factory=dict)  # rows that could not be read
    asked: int | None = None  # rows that were queried, from 0; None is all of them


@dataclass(frozen=True, slots=True)
class PciFunction:
    """The PCI function behind a device, or one that could carry RDMA."""

    address: str  # "0000:08:00.0"
    driver: str | Missing  # driver link
    vendor: str | Missing  # "0x15b3"
    device: str | Missing  # "0x1017"
    pci_class: str | Missing  # "0x020000"
    numa_node: int | Missing  # numa_node; -1 is the kernel's word for "none known"
    current_link_speed: str | Missing  # "16.0 GT/s PCIe"
    current_link_width: int | Missing  # lanes
    max_link_speed: str | Missing
    max_link_width: int | Missing


@dataclass(frozen=True, slots=True)
class SysfsPort(WithNumbers):
    """/sys/class/infiniband/DEVICE/ports/N."""

    number: int
    state: PortState | Missing  # state: "4: ACTIVE"
    phys_state: PhysState | Missing  # phys_state: "5: LinkUp"
    rate: str | Missing  # rate: "100 Gb/sec (4X EDR)"
    rate_gbps: float | Missing
    link_layer: LinkLayer | Missing  # link_layer: "InfiniBand" | "Ethernet"
    lid: int | Missing
    lid_mask_count: int | Missing
    sm_lid: int | Missing
    sm_sl: int | Missing
    cap_mask: int | Missing
    has_smi: bool | Missing
    pkeys: dict[int, int] | Missing  # pkeys/I, the non-zero ones
    gids: GidTable | Missing
    # DEVICE/tc/N/traffic_class, DEVICE/ttl/N/ttl: lines, of mlx5 as NVIDIA delivers it
    traffic_class: tuple[str, ...] | Missing = NOT_IN_RECORD
    ttl: tuple[str, ...] | Missing = NOT_IN_RECORD


@dataclass(frozen=True, slots=True)
class SysfsDevice(WithNumbers):
    """/sys/class/infiniband/DEVICE."""

    name: str
    node_type: NodeType | Missing  # node_type: "1: CA"
    node_guid: str | Missing
    sys_image_guid: str | Missing
    firmware: str | Missing  # fw_ver
    hca_type: str | Missing
    board_id: str | Missing
    hw_rev: str | Missing
    node_desc: str | Missing
    parent: str | Missing  # parent: the netdev below a software device (rxe, siw)
    pci: PciFunction | Missing  # device link
    ports: tuple[SysfsPort, ...] | Missing

    def port(self, number: int) -> SysfsPort | None:
        """The port of this number, if sysfs shows it."""
        if isinstance(self.ports, Missing):
            return None
        return next((port for port in self.ports if port.number == number), None)


@dataclass(frozen=True, slots=True)
class UverbsEntry:
    """/sys/class/infiniband_verbs/uverbsN: the character device of an RDMA device."""

    name: str  # "uverbs0"
    device: str | Missing  # ibdev
    dev: str | Missing  # "231:192"
    abi_version: int | Missing  # the driver's ABI
    modalias: str | Missing = NOT_IN_RECORD  # device/modalias: "pci:v000015B3d00001017…"


@dataclass(frozen=True, slots=True)
class SysfsNetDev:
    """/sys/class/net/NAME, of the namespace that this sysfs was mounted in."""

    name: str
    ifindex: int | Missing
    operstate: str | Missing
    mtu: int | Missing
    mac: str | Missing = NOT_IN_RECORD  # address


@dataclass(frozen=True, slots=True)
class SysfsFacts:
    """All that sysfs says of RDMA."""

    devices: tuple[SysfsDevice, ...] | Missing  # absent: no /sys/class/infiniband, no ib_core
    uverbs: tuple[UverbsEntry, ...] | Missing
    uverbs_abi: int | Missing  # /sys/class/infiniband_verbs/abi_version
    netdevs: tuple[SysfsNetDev, ...]  # those that GIDs name
    candidates: tuple[PciFunction, ...] | Missing  # PCI functions whose driver can carry RDMA

    def device(self, name: str) -> SysfsDevice | None:
        """The device of this name, if sysfs shows it."""
        if isinstance(self.devices, Missing):
            return None
        return next((device for device in self.devices if device.name == name), None)


# --- nldev: RDMA netlink ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NldevPort(WithNumbers):
    """RDMA_NLDEV_CMD_PORT_GET."""

    number: int  # PORT_INDEX
    state: PortState | Missing  # PORT_STATE
    phys_state: PhysState | Missing  # PORT_PHYS_STATE
    lid: int | Missing  # LID, InfiniBand only
    sm_lid: int | Missing  # SM_LID, InfiniBand only
    lmc: int | Missing  # LMC, InfiniBand only
    netdev: str | Missing  # NDEV_NAME, when it lives in this network namespace
    netdev_index: int | Missing  # NDEV_INDEX


@dataclass(frozen=True, slots=True)
class Chardev(WithNumbers):
    """RDMA_NLDEV_CMD_GET_CHARDEV for "uverbs"."""

    name: str  # CHARDEV_NAME
    abi_version: int | Missing  # CHARDEV_ABI
    dev: str | Missing  # CHARDEV as "major:minor"
    driver: DriverId | Missing  # UVERBS_DRIVER_ID


@dataclass(frozen=True, slots=True)
class ResourceCount:
    """One row of RDMA_NLDEV_CMD_RES_GET."""

    current: int  # RES_SUMMARY_ENTRY_CURR
    maximum: int | Missing  # RES_SUMMARY_ENTRY_MAX, newer kernels


@dataclass(frozen=True, slots=True)
class NldevDevice(WithNumbers):
    """RDMA_NLDEV_CMD_GET."""

    index: int  # DEV_INDEX
    name: str  # DEV_NAME
    node_type: NodeType | Missing  # DEV_NODE_TYPE
    node_guid: str | Missing  # NODE_GUID
    sys_image_guid: str | Missing  # SYS_IMAGE_GUID
    firmware: str | Missing  # FW_VERSION
    protocol: str | Missing  # DEV_PROTOCOL: "ib", "roce", "iw", "opa", "usnic"
    port_count: int | Missing  # PORT_INDEX of the device reply
    ports: tuple[NldevPort, ...] | Missing
    unreadable_ports: dict[int, Missing]  # ports that PORT_GET refused
    chardev: Chardev | Missing
    resources: dict[str, ResourceCount] | Missing
    # DEV_TYPE and PARENT_NAME, of a device that is a part of another one; Linux 6.11
    type: DeviceType | Missing = Missing(Why.ABSENT)
    parent: str | Missing = Missing(Why.ABSENT)

    @property
    def is_for_management(self) -> bool:
        """Whether the subnet manager alone has to do with it, and no program opens it."""
        return self.type is DeviceType.SMI

    def port(self, number: int) -> NldevPort | None:
        """The port of this number, if nldev shows it."""
        if isinstance(self.ports, Missing):
            return None
        return next((port for port in self.ports if port.number == number), None)


@dataclass(frozen=True, slots=True)
class NldevFacts(WithNumbers):
    """All that RDMA netlink says."""

    devices: tuple[NldevDevice, ...]
    unreadable: tuple[Missing, ...]  # devices that the dump named and GET refused
    netns_mode: NetnsMode | Missing  # SYS_ATTR_NETNS_MODE

    def device(self, name: str) -> NldevDevice | None:
        """The device of this name, if nldev shows it."""
        return next((device for device in self.devices if device.name == name), None)


# --- netdev: rtnetlink ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """RTM_GETADDR."""

    address: str  # IFA_LOCAL or IFA_ADDRESS
    prefix_length: int  # ifa_prefixlen
    scope: str  # ifa_scope: "global", "site", "link", "host", "nowhere" or its number
    tentative: bool | Missing = NOT_IN_RECORD  # IFA_F_TENTATIVE of IFA_FLAGS, not optimistic
    duplicate: bool | Missing = NOT_IN_RECORD  # IFA_F_DADFAILED of IFA_FLAGS
    peer: str | None = None  # IFA_ADDRESS of a point-to-point address, by rtnetlink
    deprecated: bool | Missing = NOT_IN_RECORD  # IFA_F_DEPRECATED of IFA_FLAGS


@dataclass(frozen=True, slots=True)
class NetDev:
    """RTM_GETLINK, of this process's network namespace."""

    name: str  # IFLA_IFNAME
    ifindex: int  # ifi_index
    admin_up: bool  # IFF_UP
    operstate: str | Missing  # IFLA_OPERSTATE
    carrier: bool | Missing  # IFLA_CARRIER
    carrier_changes: int | Missing  # IFLA_CARRIER_CHANGES
    mtu: int | Missing  # IFLA_MTU
    mac: str | Missing  # IFLA_ADDRESS
    kind: str | Missing  # IFLA_INFO_KIND: "veth", "vlan", "bond", …
    master: str | Missing  # IFLA_MASTER: bond or bridge above it
    vlan_id: int | Missing  # IFLA_VLAN_ID
    lower: str | Missing  # IFLA_LINK in this namespace
    addresses: tuple[Address, ...]
    arp_ignore: int | Missing = NOT_IN_RECORD  # IFLA_INET_CONF in AF_INET in IFLA_AF_SPEC
    rp_filter: int | Missing = NOT_IN_RECORD  # the same
    arp_filter: int | Missing = NOT_IN_RECORD  # the same
    hop_limit: int | Missing = NOT_IN_RECORD  # IFLA_INET6_CONF in AF_INET6 in IFLA_AF_SPEC
    xdp: str | Missing = NOT_IN_RECORD  # IFLA_XDP_ATTACHED: "none", "generic", "driver"
    vlan_protocol: int | Missing = NOT_IN_RECORD  # IFLA_VLAN_PROTOCOL: 0x8100 is 802.1Q


@dataclass(frozen=True, slots=True)
class NetDevFacts:
    """The netdevs of this network namespace that RDMA devices refer to."""

    netdevs: tuple[NetDev, ...]
    arp_ignore: int | Missing = NOT_IN_RECORD  # /proc/sys/net/ipv4/conf/all/arp_ignore
    rp_filter: int | Missing = NOT_IN_RECORD  # /proc/sys/net/ipv4/conf/all/rp_filter
    bonds: "tuple[Bonding, ...] | Missing" = NOT_IN_RECORD  # of those netdevs
    arp_filter: int | Missing = NOT_IN_RECORD  # /proc/sys/net/ipv4/conf/all/arp_filter
    default_ttl: int | Missing = NOT_IN_RECORD  # /proc/sys/net/ipv4/ip_default_ttl

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Imports what the annotations name: where a report is read back, and described."""
        from rdmadiag.facts.bonding import Bonding

        globals()["Bonding"] = Bonding
        return handler(source)

    def netdev(self, name: str) -> NetDev | None:
        """The netdev of this name, if the namespace has it."""
        return next((netdev for netdev in self.netdevs if netdev.name == name), None)


# --- the process that looks --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """One row of /proc/PID/limits, in bytes."""

    soft: int | Literal["unlimited"]
    hard: int | Literal["unlimited"]


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A node in /dev/infiniband."""

    name: str  # "uverbs0"
    mode: str  # "crw-rw-rw-"
    uid: int
    gid: int
    dev: str | Missing  # "231:192"
    openable: bool | Missing  # access(2) for reading and writing by this user


@dataclass(frozen=True, slots=True)
class NamedProvider:
    """A "driver" line in a file of /etc/libibverbs.d: libibverbs loads the provider."""

    name: str  # "mlx5", or a path without -rdmavN.so
    file: str


@dataclass(frozen=True, slots=True)
class VerbsLibrary:
    """Shared objects found where the dynamic linker looks; none is loaded."""

    searched: tuple[str, ...]  # folders
    libibverbs: tuple[str, ...]  # paths of libibverbs.so.1
    providers: dict[str, str]  # provider name → path of lib<name>-rdmav<abi>.so
    configured: tuple[NamedProvider, ...] | Missing = NOT_IN_RECORD


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """The context that an RDMA program started here would have."""

    uid: int | Missing  # Uid of /proc/self/status (effective)
    memlock: Limit | Missing  # "Max locked memory" of /proc/self/limits
    capabilities: tuple[str, ...] | Missing  # CapEff of /proc/self/status
    initial_userns: bool | Missing  # /proc/self/uid_map; capabilities count only there
    nodes: tuple[DeviceNode, ...] | Missing  # /dev/infiniband
    modules: tuple[str, ...] | Missing  # /proc/modules, the RDMA ones
    netns: str | Missing  # /proc/self/ns/net: "net:[4026531840]"
    initial_netns: bool | Missing  # the same as /proc/1/ns/net
    netdevs: tuple[str, ...] | Missing  # /proc/self/net/dev
    ipv6: dict[str, tuple[str, ...]] | Missing  # /proc/self/net/if_inet6: netdev → addresses
    container: str | None  # which sign of a container was seen
    library: VerbsLibrary | Missing
    environment: Missing | dict[str, str]  # RDMAV_, IBV_, MLX5_, NCCL_IB_, UCX_, …
    ipv6_addresses: dict[str, tuple[Address, ...]] | Missing = NOT_IN_RECORD  # its whole rows
    cpus_allowed: str | Missing = NOT_IN_RECORD  # Cpus_allowed_list of /proc/self/status
    mems_allowed: str | Missing = NOT_IN_RECORD  # Mems_allowed_list of it: NUMA nodes
    # /etc/rdma/rsocket/inline_default: bytes that each queue pair of an rsocket is to send inline
    rsocket_inline: int | Missing = NOT_IN_RECORD


def known(value: T | Missing) -> T | None:
    """The value, or None where it is missing."""
    return None if isinstance(value, Missing) else value


def or_else(value: T | Missing, otherwise: D) -> T | D:
    """The value, or `otherwise` where it is missing."""
    return otherwise if isinstance(value, Missing) else value


def first_known(*values: T | Missing) -> T | Missing:
    """The first value that is not missing, else the first reason."""
    return next((each for each in values if not isinstance(each, Missing)), values[0])


def present(values: "tuple[T, ...] | Missing") -> Iterator[T]:
    """The values there are; nothing where there was no look."""
    if not isinstance(values, Missing):
        yield from values
