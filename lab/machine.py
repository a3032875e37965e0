"""A machine written down from a description, in the formats that kernels document.

For samples of hardware that cannot be had here, for tests that change one thing of a
healthy base, and for benchmarks of large hosts. Formats: Documentation/ABI/stable/
sysfs-class-infiniband, rdma/rdma_netlink.h, linux/rtnetlink.h, proc(5).
"""

import re
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from errno import EACCES
from ipaddress import ip_interface
from typing import Any, Self

from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from lab import counted
from lab.hardware import ANSWERS, Answers
from lab.linked import Devlink, Ethtool
from lab.nldev_msg import nldev_msg
from lab.pci import Space, bridge, contents, gpu
from lab.transceivers import Fitted
from lab.transcript import Gids, Stop, TranscribedDevice, TranscribedPort, transcript
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.environment import kept
from rdmadiag.facts.evidence import LINUX_SOURCES, Evidence
from rdmadiag.facts.gid import Family, Gid
from rdmadiag.facts.ib import (
    MTU_BYTES,
    DriverId,
    GidType,
    LinkLayer,
    NodeType,
    PhysState,
    PortState,
)
from rdmadiag.facts.rdma_drivers import PROVIDER_FOLDER
from rdmadiag.gid.variables import REPORTED
from rdmadiag.host import netlink
from rdmadiag.host.answers import NodeStat
from rdmadiag.host.layout import KERNEL, TRANSCRIPT
from rdmadiag.host.recorded import SnapshotHost
from rdmadiag.host.recording import Recording, documents, write_folder
from rdmadiag.host.tree import Kind
from rdmadiag.sources import nldev_messages as nldev
from rdmadiag.sources.run import read

EMPTY_ROW = "0000:0000:0000:0000:0000:0000:0000:0000\n"
PAGE = 4096
_PROVIDERS = ("bnxt_re", "mlx4", "mlx5", "irdma", "rxe", "siw", "efa", "hfi1verbs")
UNSUPPORTED = Missing(Why.UNSUPPORTED, "EOPNOTSUPP")
V1, V2 = "IB/RoCE v1", "RoCE v2"

_STATE_WORD = {
    PortState.DOWN: "DOWN",
    PortState.INIT: "INIT",
    PortState.ARMED: "ARMED",
    PortState.ACTIVE: "ACTIVE",
}
_PHYS_WORD = {
    PhysState.SLEEP: "Sleep",
    PhysState.POLLING: "Polling",
    PhysState.DISABLED: "Disabled",
    PhysState.TRAINING: "PortConfigurationTraining",
    PhysState.LINK_UP: "LinkUp",
}
_INFINIBAND = 32  # ARPHRD_INFINIBAND
_ETHERNET = 1  # ARPHRD_ETHER
_MTU = {size: number for number, size in MTU_BYTES.items()}
_GID_TYPE = {V1: GidType.ROCE_V1, V2: GidType.ROCE_V2}
_LAYER_WORD = {LinkLayer.INFINIBAND: "InfiniBand", LinkLayer.ETHERNET: "Ethernet"}


@dataclass(frozen=True)
class GidRow:
    """A row that is not empty."""

    gid: str
    kind: str = V2
    netdev: str | None = None


@dataclass(frozen=True)
class Dcb:
    """What a driver answers to DCB_CMD_IEEE_GET; None: it leaves it out."""

    pfc: tuple[int, ...] | None = ()
    apps: tuple[tuple[int, int, int], ...] = ()  # selector, protocol, priority
    trust: tuple[int, ...] | None = None  # selectors
    class_of: tuple[int, ...] | None = (0,) * 8
    buffer_of: tuple[int, ...] | None = None
    buffer_bytes: tuple[int, ...] = (0,) * 8
    dcbx: int | None = 0x09  # host, IEEE
    peer_pfc: tuple[int, ...] | None = None
    peer_apps: tuple[tuple[int, int, int], ...] | None = None

    def reply(self, netdev: str) -> bytes:
        """The message: linux/dcbnl.h, and dcbnl_ieee_fill of net/dcb/dcbnl.c."""
        parts = [(1, _ets(self.class_of)), (2, _pfc(self.pfc)), (10, self._buffers())]
        parts += [(3, _apps(self.apps)), (5, _pfc(self.peer_pfc))]
        if self.trust is not None:
            parts.append((11, b"".join(netlink.attribute(1, bytes([n])) for n in self.trust)))
        if self.peer_apps is not None:
            parts.append((6, _apps(self.peer_apps)))
        ieee = b"".join(netlink.attribute(kind, raw) for kind, raw in parts if raw is not None)
        body = netlink.attribute(1, f"{netdev}\0".encode()) + netlink.attribute(13, ieee)
        if self.dcbx is not None:
            body += netlink.attribute(14, bytes([self.dcbx]))
        head = netlink.DCB_HEADER.pack(0, netlink.DCB_CMD_IEEE_GET)
        return netlink.request(netlink.RTM_GETDCB, 0, head + body)

    def _buffers(self) -> bytes | None:
        if self.buffer_of is None:
            return None
        return struct.pack("=8B8II", *self.buffer_of, *self.buffer_bytes, sum(self.buffer_bytes))


def _pfc(enabled: tuple[int, ...] | None) -> bytes | None:
    """struct ieee_pfc, its statistics at 0."""
    if enabled is None:
        return None
    return struct.pack("=BBBxHxx128x", 8, sum(1 << each for each in enabled), 0, 0)


def _ets(class_of: tuple[int, ...] | None) -> bytes | None:
    """struct ieee_ets, all classes strict."""
    return None if class_of is None else struct.pack("=BBB24x8B24x", 0, 8, 0, *class_of)


def _apps(entries: tuple[tuple[int, int, int], ...]) -> bytes:
    return b"".join(
        netlink.attribute(2 if selector == 255 else 1, struct.pack("=BBH", selector, prio, number))
        for selector, number, prio in entries
    )


@dataclass(frozen=True)
class Port:
    """A port; without a netdev it has no nldev NDEV attributes."""

    state: PortState = PortState.ACTIVE
    phys: PhysState = PhysState.LINK_UP
    layer: LinkLayer | None = LinkLayer.ETHERNET
    rate: str = "100 Gb/sec (4X EDR)"
    lid: int = 0
    sm_lid: int = 0
    gids: Mapping[int, GidRow] = field(default_factory=dict)
    gid_table_length: int = 16
    netdev: str | None = None
    nldev_state: PortState | None = None  # where nldev says something else
    pkeys: tuple[int, ...] = (0xFFFF,)
    active_mtu: int = 4096
    counters: Mapping[str, int] | None = None  # counters/; None: no such folder
    hw_counters: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Vf:
    """A virtual function, as rtnl_fill_vfinfo of net/core/rtnetlink.c says it; linux/if_link.h."""

    address: str = "0000:08:00.2"
    guid: int | None = 0x0C42A10300000099  # of node and port; None: the driver has none
    link: int = 0  # auto
    trust: int = 0xFFFFFFFF  # -1: the driver does not say
    vlan: int = 0

    def info(self, number: int) -> bytes:
        """IFLA_VF_INFO."""
        mac = bytes.fromhex("0200000000") + bytes([number & 0xFF])
        rows = [
            (1, struct.pack("=I32s", number, mac)),
            (2, struct.pack("=3I", number, self.vlan, 0)),
        ]
        rows += [(4, struct.pack("=2I", number, 1)), (5, struct.pack("=2I", number, self.link))]
        rows.append((9, struct.pack("=2I", number, self.trust)))
        for kind in (10, 11) if self.guid is not None else ():
            rows.append((kind, struct.pack("=I4xQ", number, self.guid or 0)))
        return netlink.attribute(1, b"".join(netlink.attribute(*row) for row in rows))


def vf_reply(netdev: str, vfs: Iterable[Vf]) -> bytes:
    """RTM_NEWLINK of one netdev with IFLA_VFINFO_LIST."""
    rows = b"".join(each.info(number) for number, each in enumerate(vfs))
    named = netlink.attribute(3, f"{netdev}\0".encode())
    return netlink.request(16, 0, bytes(16) + named + netlink.attribute(22, rows))


@dataclass(frozen=True)
class Device:
    """An RDMA device behind a PCI function."""

    name: str
    ports: tuple[Port, ...]
    driver: DriverId = DriverId.MLX5
    pci_driver: str = "mlx5_core"
    pci_address: str = "0000:08:00.0"
    pci_ids: tuple[str, str, str] = ("0x15b3", "0x101d", "0x020000")
    node_type: str = "1: CA"
    node_guid: str = "0c42:a103:0000:0001"
    firmware: str = "22.31.1014"
    hca_type: str = "MT4125"
    board_id: str = "MT_0000000359"
    numa_node: int = 0
    link: tuple[str, str] = ("16.0 GT/s PCIe", "16")
    slot: tuple[str, str] = ("16.0 GT/s PCIe", "16")  # what the bridge above it can do
    root: str = "pci0000:00"
    bridge: str = "0000:00:01.0"
    switch: tuple[str, ...] = ()  # between that bridge and the function
    sys_image_guid: str | None = None  # None: the node GUID
    local_cpus: str = "0-15"
    iommu_domain: str | None = "identity"
    protocol: str = "roce"
    uverbs: int | None = 0  # the N of uverbsN
    abi_version: int = 1
    parent: str | None = None  # the netdev of a software device, which has no PCI function
    held: tuple[counted.Held, ...] | None = None  # tracked objects; None: nobody asked
    index: int | None = None  # DEV_INDEX; None: its place in the list
    vfs: tuple[Vf, ...] | Missing = ()  # of a physical function; Missing: what it answers
    physfn: str | None = None  # the physical function of a virtual one
    smi_of: str | None = None  # the device of which it is a plane, for subnet management
    answers: Answers | None = None  # of the verbs library; None: those of its hca_type


@dataclass(frozen=True)
class BondData:
    """IFLA_INFO_DATA of a bond; numbers of linux/if_bonding.h."""

    mode: int = 4  # 802.3ad
    hash_policy: int = 1  # layer3+4
    aggregator: int | None = 1
    partner_mac: str = "02:00:00:00:00:fe"

    def info(self) -> bytes:
        """IFLA_LINKINFO, as bond_fill_info of drivers/net/bonding/bond_netlink.c."""
        data = netlink.attribute(1, bytes([self.mode]))
        data += netlink.attribute(14, bytes([self.hash_policy]))
        if self.mode == 4 and self.aggregator is not None:
            active = netlink.attribute(1, struct.pack("=H", self.aggregator))
            active += netlink.attribute(5, bytes.fromhex(self.partner_mac.replace(":", "")))
            data += netlink.attribute(23, active)
        return netlink.attribute(1, b"bond\0") + netlink.attribute(2, data)


@dataclass(frozen=True)
class VlanData:
    """IFLA_INFO_DATA of a VLAN."""

    number: int
    protocol: int | None = 0x8100  # None: the kernel did not say

    def info(self) -> bytes:
        """IFLA_LINKINFO, as vlan_fill_info of net/8021q/vlan_netlink.c."""
        data = netlink.attribute(1, struct.pack("=H", self.number))
        if self.protocol is not None:
            data += netlink.attribute(5, struct.pack(">H", self.protocol))
        return netlink.attribute(1, b"vlan\0") + netlink.attribute(2, data)


@dataclass(frozen=True)
class LegData:
    """IFLA_INFO_SLAVE_DATA of a leg."""

    state: int = 0  # active
    mii: int = 0  # up
    aggregator: int | None = 1
    churn: tuple[int, int] | None = None  # the actor's and the partner's, of newer kernels

    def info(self) -> bytes:
        """IFLA_LINKINFO, as bond_fill_slave_info."""
        data = netlink.attribute(1, bytes([self.state])) + netlink.attribute(2, bytes([self.mii]))
        data += netlink.attribute(3, struct.pack("=I", 1))
        if self.aggregator is not None:
            data += netlink.attribute(6, struct.pack("=H", self.aggregator))
            data += netlink.attribute(7, b"\x3d") + netlink.attribute(8, struct.pack("=H", 0x3D))
        for kind, churn in zip((11, 12), self.churn or (), strict=False):
            data += netlink.attribute(kind, bytes([churn]))
        return netlink.attribute(4, b"bond\0") + netlink.attribute(5, data)


@dataclass(frozen=True)
class BridgePort:
    """IFLA_INFO_SLAVE_DATA of a port of a bridge."""

    state: int  # BR_STATE_*

    def info(self) -> bytes:
        """IFLA_LINKINFO, as br_port_fill_slave_info."""
        data = netlink.attribute(1, bytes([self.state]))
        return netlink.attribute(4, b"bridge\0") + netlink.attribute(5, data)


@dataclass(frozen=True)
class NetDev:
    """A netdev of the process's network namespace."""

    name: str
    up: bool = True
    mtu: int = 1500
    mac: str = "0c:42:a1:00:00:01"
    addresses: tuple[str, ...] = ()  # "192.0.2.1/24"
    flags: Mapping[str, int] = field(default_factory=dict)  # IFA_FLAGS of an address
    peers: Mapping[str, str] = field(default_factory=dict)  # of point-to-point IPv4 addresses
    kind: str | None = None  # "bond", "vlan", "bridge"
    port: BridgePort | None = None  # of a bridge
    master: str | None = None
    lower: str | None = None
    carrier: bool | None = None  # None: where it is up
    carrier_changes: int = 2
    carrier_down_count: int = 1
    arp_ignore: int = 0
    rp_filter: int = 0
    arp_filter: int = 0
    hop_limit: int | None = None  # of IPv6; None: the kernel did not say
    xdp: int | None = None  # XDP_ATTACHED_*; None: the kernel did not say
    no_arp: bool = False  # IFF_NOARP
    loopback: bool = False  # IFF_LOOPBACK
    not_local: tuple[str, ...] = ()  # addresses that the table local has lost
    bond: BondData | None = None  # of one of kind "bond"
    vlan: VlanData | None = None  # of one of kind "vlan"
    leg: LegData | None = None  # of one whose master is a bond
    stats: Mapping[str, int] | None = None  # IFLA_STATS64
    pause: tuple[int, int] | None = None  # frames sent and received
    fec: Mapping[str, tuple[int, ...]] | None = None  # "corrected_bits" and others, then by lane
    symbol_errors: int | None = None  # of eth-phy


@dataclass(frozen=True)
class Way:
    """A row of a routing table: `ip route add DESTINATION via GATEWAY dev NETDEV table TABLE`."""

    destination: str  # "192.0.2.0/24"
    netdev: str | None = None
    gateway: str | None = None
    source: str | None = None
    table: int = 254
    kind: int = 1  # RTN_UNICAST
    metric: int = 0
    hops: tuple[tuple[str, str | None], ...] = ()  # netdev, gateway: several of one row
    hop_limit: int | None = None  # RTAX_HOPLIMIT


@dataclass(frozen=True)
class Rule:
    """`ip rule add priority PRIORITY from SOURCE table TABLE`."""

    priority: int
    table: int = 254
    source: str | None = None
    destination: str | None = None
    action: int = 1  # FR_ACT_TO_TBL
    mark: int | None = None
    input: str | None = None
    output: str | None = None
    suppressed_length: int | None = None
    target: int | None = None
    flags: int = 0
    ip_proto: int | None = None
    version: int = 4


DEFAULT_RULES = (Rule(0, 255), Rule(32766, 254), Rule(32767, 253))


@dataclass(frozen=True)
class Limits:
    """What a fleet's size is held against."""

    neighbours: int = 1024  # gc_thresh3, of IPv4 and IPv6
    overflows: int = 0  # table_fulls of IPv4, on the second of two CPUs
    ports: str = "32768\t60999"
    files: tuple[str, str] = ("1048576", "1048576")
    space: tuple[str, str] = ("unlimited", "unlimited")
    cpu: tuple[str, str] = ("unlimited", "unlimited")
    data: tuple[str, str] = ("unlimited", "unlimited")
    overcommit: int | None = None  # None: a record from before
    committed: tuple[int, int] = (4 << 20, 1 << 20)  # KiB: CommitLimit, Committed_AS
    connections: tuple[int, int] | None = None  # nf_conntrack_max, nf_conntrack_count
    cgroup: str = "0::/job7"
    room: Mapping[str, str] = field(default_factory=dict)  # files of cgroups, by their path
    # folder → rdma.max, rdma.current, and rdma.events.local of newer kernels
    rdma: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def files_row(self) -> str:
        """Of /proc/PID/limits."""
        rows = (
            ("cpu time", self.cpu, "seconds"),
            ("data size", self.data, "bytes"),
            ("open files", self.files, "files"),
            ("address space", self.space, "bytes"),
        )
        return "".join(
            f"{f'Max {name}':<26}{soft:<21}{hard:<21}{unit:<10}\n"
            for name, (soft, hard), unit in rows
        )

    def files_of(self) -> dict[str, str]:
        """As proc(5) and Documentation/admin-guide/cgroup-v2.rst have them."""
        head = "entries  allocs   table_fulls\n"
        found = {
            f"/proc/sys/net/{version}/neigh/default/gc_thresh3": f"{self.neighbours}\n"
            for version in ("ipv4", "ipv6")
        }
        rows = f"00000003 00000010 00000000\n00000003 00000000 {self.overflows:08x}\n"
        found["/proc/self/net/stat/arp_cache"] = head + rows
        found["/proc/self/net/stat/ndisc_cache"] = f"{head}00000003 00000010 00000000\n"
        found["/proc/sys/net/ipv4/ip_local_port_range"] = f"{self.ports}\n"
        found["/proc/self/cgroup"] = f"{self.cgroup}\n"
        if self.overcommit is not None:
            found["/proc/sys/vm/overcommit_memory"] = f"{self.overcommit}\n"
            found["/proc/meminfo"] = "MemTotal:        8000000 kB\n" + "".join(
                f"{name + ':':<15}{kib:>9} kB\n"
                for name, kib in zip(("CommitLimit", "Committed_AS"), self.committed, strict=True)
            )
        if self.connections is not None:
            for name, number in zip(("max", "count"), self.connections, strict=True):
                found[f"/proc/sys/net/netfilter/nf_conntrack_{name}"] = f"{number}\n"
        found |= self.room
        for folder, of_cgroup in self.rdma.items():
            files = ("rdma.max", "rdma.current", "rdma.events.local")
            found |= {
                f"{folder}/{file}": each for file, each in zip(files, of_cgroup, strict=False)
            }
        return found


@dataclass(frozen=True)
class Gpu:
    """NVIDIA GPUs, and what lets a NIC reach their memory."""

    functions: tuple[str, ...] = ("0000:17:00.0",)
    peermem: str | None = "580.65.06"
    memory_peers: tuple[str, ...] | None = ("nv_mem",)
    open_driver: bool = True
    parameters: str | None = 'EnableStreamMemOPs: 0\nRegistryDwords: ""\n'  # None: not recorded
    gdrdrv: bool = False


@dataclass(frozen=True)
class Card:
    """A GPU's PCI function."""

    address: str
    ids: tuple[str, str, str] = ("0x10de", "0x2330", "0x030200")
    numa_node: int = 0
    root: str = "pci0000:00"
    bridges: tuple[str, ...] = ()
    link: tuple[str, str] = ("32.0 GT/s PCIe", "16")
    is_suspended: bool = False
    physical: str | None = None  # physfn of a virtual function


@dataclass(frozen=True)
class Machine:
    """A whole host."""

    hostname: str
    devices: tuple[Device, ...] = ()
    netdevs: tuple[NetDev, ...] = ()
    memlock: str = "unlimited"
    uid: int = 0
    capabilities: int = 0x1FFFFFFFFFF
    container: str | None = None
    modules: tuple[str, ...] = ("ib_core", "ib_uverbs", "mlx5_ib", "rdma_cm", "rdma_ucm")
    nodes: Mapping[str, int] | None = None  # name → mode; None: one 0666 node a uverbs entry
    openable: bool = True
    libraries: bool = True
    configured: tuple[str, ...] | None = None  # of /etc/libibverbs.d; None: each that is there
    environ: Mapping[str, str] = field(default_factory=dict)
    ancestors: tuple[tuple[str, str], ...] = (("bash", "unlimited"), ("systemd", "8388608"))
    cpus_allowed: str = "0-31"
    mems_allowed: str = "0-1"
    cpus_online: str = "0-31"
    command_line: str = "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet"
    kernel: str = "6.1.0"
    gpu: Gpu | None = None
    cards: tuple[Card, ...] = ()
    arp_ignore: int = 0  # of conf/all
    rp_filter: int = 0  # of conf/all
    arp_filter: int | None = None  # of conf/all; None: a record from before
    default_ttl: int | None = None  # the same
    ways: tuple[Way, ...] = ()  # beside those of the addresses
    rules: tuple[Rule, ...] | None = DEFAULT_RULES  # None: nobody asked for rules and routes
    # replies to RTM_GETQDISC and RTM_GETTFILTER, and other ones, by their name in a record
    traffic: Mapping[str, bytes] = field(default_factory=dict)
    # netdev, address → state, or state and MAC
    neighbours: Mapping[tuple[str, str], int | tuple[int, str] | tuple[int, str, float]] = field(
        default_factory=dict
    )
    roce_modes: Mapping[str, str] = field(default_factory=dict)  # "mlx5_0/1": "RoCE v2"
    roce_tos: Mapping[str, int] = field(default_factory=dict)  # "mlx5_0/1": 104
    dcb: Mapping[str, Dcb | Missing] | None = None  # by netdev; None: nobody asked
    ethtool: Mapping[str, Ethtool | Missing] | None = None  # the same
    fitted: Mapping[str, Fitted] | None = None  # the transceivers: the same
    devlink: Mapping[str, Devlink | Missing] | None = None  # by PCI address
    pci: Mapping[str, Space | bytes] | None = None  # by address; None: that of `with_pci`
    groups: Mapping[str, str] = field(default_factory=dict)  # IOMMU groups; of others the address
    cpu: str = "cpu:type:x86,ven0000fam0006mod008F:feature:,0000"  # Sapphire Rapids
    port_mapper: bool = False
    netns_mode: int | None = 1  # None: a kernel that does not tell it
    kernel_log: tuple[str, ...] | Missing = ()  # messages; a second apart
    verbs_stderr: str = ""
    rejected: tuple[str, ...] = ()  # devices that libibverbs does not list
    boot_id: str | None = None  # None: nobody asked for counters
    uptime: float = 1000.0
    limits: Limits | None = None  # None: nobody read them
    commands: Mapping[int, str] = field(default_factory=dict)  # /proc/PID/comm
    files: Mapping[str, str] = field(default_factory=dict)  # more of them, by their path

    def change(self, **changes: Any) -> Self:
        """The same machine but for `changes`."""
        return replace(self, **changes)

    def with_port(self, device: int = 0, port: int = 0, **changes: Any) -> Self:
        """The same machine, one port changed."""
        devices = list(self.devices)
        ports = list(devices[device].ports)
        ports[port] = replace(ports[port], **changes)
        devices[device] = replace(devices[device], ports=tuple(ports))
        return replace(self, devices=tuple(devices))

    def with_pci(self, **changes: Space | bytes) -> Self:
        """The same machine, all of whose functions and bridges have configuration space.

        `changes` are by "adapter", "gpu", "bridge", or by address with "_" for ":" and ".".
        """
        kinds: dict[str, Space | bytes] = {"adapter": Space(), "gpu": gpu(), "bridge": bridge()}
        kinds |= changes
        found: dict[str, Space | bytes] = {}
        for device in self.devices:
            if device.parent:
                continue
            above = (device.bridge, *device.switch)
            found |= dict.fromkeys(above, kinds["bridge"]) | {device.pci_address: kinds["adapter"]}
        for card in self.cards:
            found |= dict.fromkeys(card.bridges, kinds["bridge"]) | {card.address: kinds["gpu"]}
        for address in found:
            found[address] = kinds.get("_" + re.sub("[:.]", "_", address), found[address])
        return replace(self, pci=found)

    def with_device(self, device: int = 0, **changes: Any) -> Self:
        """The same machine, one device changed."""
        devices = list(self.devices)
        devices[device] = replace(devices[device], **changes)
        return replace(self, devices=tuple(devices))

    def identity(self) -> Identity:
        """uname of the machine."""
        return Identity(hostname=self.hostname, platform="linux", kernel="6.1.0", machine="x86_64")

    def write(self, folder: str, about: str) -> None:
        """The machine as a snapshot folder."""
        files = self.snapshot() | {"ABOUT": f"{about.strip()}\n".encode()}
        write_folder(files, folder)

    def snapshot(self) -> dict[str, bytes]:
        """The machine as the files of a snapshot."""
        return documents(self.recording(), self.identity(), {}, recorded_at="never: built")

    def write_sysfs(self, folder: str) -> None:
        """sysfs alone, as a bare folder: every file in its place, nothing folded."""
        write_folder(
            {path[1:]: content.encode() for path, content in self.sysfs_files().items()}, folder
        )

    def host(self) -> SnapshotHost:
        """The machine as a Host, without a file being written."""
        return SnapshotHost(MemoryTree(self.snapshot()), self.hostname)

    def evidence(self) -> Evidence:
        """What every source finds on the machine, read in this process."""
        host, deadline = self.host(), time.monotonic() + 10
        names = LINUX_SOURCES if self.fitted is None else (*LINUX_SOURCES, "modules")
        return Evidence(**{name: read(name, host, deadline) for name in names})

    # --- what each source reads --------------------------------------------------------

    def recording(self) -> Recording:
        """Every answer that the machine's Host would give."""
        recording = Recording()
        recording.files |= {path: content.encode() for path, content in self.sysfs_files().items()}
        recording.files |= {path: content.encode() for path, content in self._proc().items()}
        recording.files |= {
            f"{PROVIDER_FOLDER}/{name}.driver": f"driver {name}\n".encode()
            for name in self._configured()
        }
        self._links(recording)
        self._lists(recording)
        self._nodes(recording)
        recording.environ |= kept(self.environ, REPORTED)
        recording.netlink |= self._nldev() | self._route()
        self._routing(recording)
        self._dcb(recording)
        self._vfs(recording)
        self._ethtool(recording)
        self._devlink(recording)
        for netdev in self.netdevs if self.fitted else ():
            if fitted := (self.fitted or {}).get(netdev.name):
                recording.netlink["genl-families"] = counted.families()
                fitted.recorded(self._ifindex(netdev.name), recording)
        self._log(recording)
        self._gpu(recording)
        self._pci(recording)
        self._counted(recording)
        if self.devices:
            unloadable = "libibverbs.so.1: cannot open shared object file"
            recording.verbs[TRANSCRIPT] = transcript(
                "linux",
                "libibverbs.so.1",
                self.transcribed(),
                () if self.openable else (Stop("ibv_open_device", errno=EACCES),),
                table=True,
                unloadable=None if self.libraries else unloadable,
                stderr=self.verbs_stderr,
            )
        return recording

    def transcribed(self) -> Iterator[TranscribedDevice]:
        """The devices as libibverbs lists them."""
        for device in self.devices:
            if self._is_listed(device):
                ports = tuple(map(self._transcribed_port, device.ports))
                kind = NodeType.from_number(int(device.node_type.partition(":")[0]))
                assert kind
                known = device.answers or ANSWERS.get(device.hca_type)
                yield TranscribedDevice(
                    device.name,
                    ports,
                    device.node_guid,
                    device.firmware,
                    kind,
                    limits=known.attributes if known else {},
                    extended=known.extended if known else None,
                    unread=known is None,
                )

    def _is_listed(self, device: Device) -> bool:
        """libibverbs lists what has a node, whether or not it may be opened."""
        if device.uverbs is None or device.name in self.rejected:
            return False
        return self.nodes is None or f"uverbs{device.uverbs}" in self.nodes

    def _transcribed_port(self, port: Port) -> TranscribedPort:
        names = [netdev.name for netdev in self.netdevs]
        gids = {
            index: Gids(
                row.gid,
                _GID_TYPE[row.kind] if port.layer is LinkLayer.ETHERNET else GidType.IB,
                2 + names.index(row.netdev) if row.netdev in names else 0,
            )
            for index, row in port.gids.items()
        }
        return TranscribedPort(
            state=port.state,
            layer=port.layer or LinkLayer.UNSPECIFIED,
            phys=port.phys,
            lid=port.lid,
            sm_lid=port.sm_lid,
            gids=gids,
            gid_table_length=port.gid_table_length,
            active_mtu=_MTU[port.active_mtu],
        )

    def sysfs_files(self) -> dict[str, str]:
        """Every attribute: path → content."""
        files: dict[str, str] = {}
        for device in self.devices:
            files |= _device_files(device)
        if any(device.uverbs is not None for device in self.devices):
            files["/sys/class/infiniband_verbs/abi_version"] = "6\n"
        for card in self.cards:
            files |= _card_files(card)
        for netdev in self.netdevs:
            folder = f"/sys/class/net/{netdev.name}"
            files |= {
                f"{folder}/ifindex": f"{self._ifindex(netdev.name)}\n",
                f"{folder}/operstate": "down\n"
                if netdev.carrier is False or not netdev.up
                else "up\n",
                f"{folder}/mtu": f"{netdev.mtu}\n",
                f"{folder}/address": f"{netdev.mac}\n",
            }
        files["/sys/devices/system/cpu/online"] = f"{self.cpus_online}\n"
        return files

    def _ifindex(self, name: str) -> int:
        return 2 + [netdev.name for netdev in self.netdevs].index(name)

    def _proc(self) -> dict[str, str]:
        dev = "".join(f"{each.name:>8}: 0 0\n" for each in self.netdevs)
        inet6 = "".join(
            f"{Gid.parse(address.partition('/')[0]).raw.hex()} {self._ifindex(each.name):02x} "
            f"{int(address.partition('/')[2]):02x} 00 "
            f"{each.flags.get(address.partition('/')[0], 0x80) & 0xFF:02x} {each.name}\n"
            for each in self.netdevs
            for address in each.addresses
            if ":" in address
        )
        limit = f"{self.memlock:<21}"
        more = {} if self.limits is None else self.limits.files_of()
        files = (self.limits or Limits()).files_row()
        return {
            "/proc/self/status": f"Name:\tpython3\nPPid:\t{_PARENT}\n"
            f"Uid:\t{self.uid}\t{self.uid}\t{self.uid}\t"
            f"{self.uid}\nCapEff:\t{self.capabilities:016x}\n"
            f"Cpus_allowed_list:\t{self.cpus_allowed}\nMems_allowed_list:\t{self.mems_allowed}\n",
            "/proc/self/limits": f"{files}Max locked memory         {limit}{limit}bytes     \n",
            "/proc/cmdline": f"{self.command_line}\n",
            "/proc/sys/kernel/osrelease": f"{self.kernel}\n",
            "/proc/sys/net/ipv4/conf/all/arp_ignore": f"{self.arp_ignore}\n",
            "/proc/sys/net/ipv4/conf/all/rp_filter": f"{self.rp_filter}\n",
            **_since("/proc/sys/net/ipv4/conf/all/arp_filter", self.arp_filter),
            **_since("/proc/sys/net/ipv4/ip_default_ttl", self.default_ttl),
            "/proc/self/uid_map": "         0          0 4294967295\n",
            "/proc/modules": "".join(f"{name} 16384 0 - Live 0x0\n" for name in self.modules),
            "/proc/self/net/dev": "Inter-|   Receive  |  Transmit\n face |bytes    |bytes\n" + dev,
            "/proc/self/net/if_inet6": inet6,
            "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
            "/etc/ld.so.conf.d/x86_64-linux-gnu.conf": "/usr/lib/x86_64-linux-gnu\n",
        } | (self._ancestors() | more | dict(self.files))

    def _ancestors(self) -> dict[str, str]:
        """The parent has pid 1200, its parent 1199, and so on; the last one is init."""
        files = {}
        for at, (name, memlock) in enumerate(self.ancestors):
            last = at == len(self.ancestors) - 1
            above = 0 if last else 1 if at == len(self.ancestors) - 2 else _PARENT - at - 1
            folder = f"/proc/{1 if last else _PARENT - at}"
            limit = f"{memlock:<21}{memlock:<21}"
            files[f"{folder}/status"] = f"Name:\t{name}\nPPid:\t{above}\n"
            opened = (self.limits or Limits()).files_row()
            files[f"{folder}/limits"] = f"{opened}Max locked memory         {limit}bytes     \n"
        return files

    def _log(self, recording: Recording) -> None:
        if isinstance(self.kernel_log, Missing):
            recording.refuse("log", KERNEL, self.kernel_log)
            return
        recording.logs[KERNEL] = b"".join(
            f"6,{at},{(1000 + at) * 1_000_000},-;{message}\n".encode()
            for at, message in enumerate(self.kernel_log)
        )

    def _counted_by_ethtool(self, recording: Recording) -> None:
        for netdev in self.netdevs:
            index = self._ifindex(netdev.name)
            if (netdev.pause, netdev.fec, netdev.symbol_errors) != (None, None, None):
                recording.netlink["genl-families"] = counted.families()
            if netdev.pause is not None:
                recording.netlink[f"ethtool-pause-get-{index}"] = counted.pause(
                    index, *netdev.pause
                )
            if netdev.fec is not None:
                recording.netlink[f"ethtool-fec-stats-{index}"] = counted.fec(index, **netdev.fec)
            if netdev.symbol_errors is not None:
                recording.netlink[f"ethtool-phy-{index}"] = counted.phy(index, netdev.symbol_errors)

    def _counted(self, recording: Recording) -> None:
        """What `counters` and `resources` read beside the files of ports and devices."""
        if self.boot_id is not None:
            recording.files["/proc/sys/kernel/random/boot_id"] = f"{self.boot_id}\n".encode()
            recording.files["/proc/uptime"] = f"{self.uptime:.2f} 1.00\n".encode()
        recording.links["/proc/self/ns/pid"] = "pid:[4026531836]"
        for pid, command in self.commands.items():
            recording.files[f"/proc/{pid}/comm"] = f"{command}\n".encode()
        self._counted_by_ethtool(recording)
        for at, device in enumerate(self.devices):
            index = at if device.index is None else device.index
            if device.held is not None:
                recording.netlink |= counted.dumps(index, device.held)
            for number, port in enumerate(device.ports, 1):
                if port.hw_counters is not None:
                    recording.netlink[f"nldev-stat-get-{index}-{number}"] = counted.statistics(
                        index, number, port.hw_counters
                    )

    def _gpu(self, recording: Recording) -> None:
        drivers = "/sys/bus/pci/drivers/nvidia"
        peers = "/sys/kernel/mm/memory_peers"
        if self.gpu is None:
            recording.refuse("list", drivers, Missing(Why.ABSENT, f"{drivers}: ENOENT"))
            return
        recording.listings[drivers] = ("bind", *self.gpu.functions)
        if self.gpu.peermem:
            recording.files["/sys/module/nvidia_peermem/version"] = self.gpu.peermem.encode()
        if self.gpu.memory_peers is None:
            recording.refuse("list", peers, Missing(Why.ABSENT, f"{peers}: ENOENT"))
        else:
            recording.listings[peers] = self.gpu.memory_peers
        if self.gpu.parameters is not None:
            recording.files["/proc/driver/nvidia/params"] = self.gpu.parameters.encode()
        if self.gpu.gdrdrv:
            recording.listings["/sys/module/gdrdrv"] = ("version",)
        kind = "Open Kernel Module" if self.gpu.open_driver else "Kernel Module"
        recording.files["/proc/driver/nvidia/version"] = f"NVIDIA UNIX {kind}  580.65\n".encode()

    def _pci(self, recording: Recording) -> None:
        recording.files["/sys/devices/system/cpu/modalias"] = f"{self.cpu}\n".encode()
        spaces = self.with_pci().pci if self.pci is None else self.pci
        recording.files |= contents(spaces or {})
        for address, space in (spaces or {}).items():
            folder = f"/sys/bus/pci/devices/{address}"
            self._group(recording, address)
            path = f"{folder}/power/runtime_status"
            recording.files.setdefault(path, b"active\n")
            for name, content in _ids(space):
                recording.files.setdefault(f"{folder}/{name}", f"{content}\n".encode())

    def _group(self, recording: Recording, address: str) -> None:
        group = self.groups.get(address, address)
        path = f"/sys/bus/pci/devices/{address}/iommu_group"
        recording.links[path] = f"../../../kernel/iommu_groups/{group}"

    def _links(self, recording: Recording) -> None:
        recording.links["/proc/self/ns/net"] = "net:[4026531840]"
        recording.links["/proc/1/ns/net"] = "net:[4026531840]"
        for device in self.devices:
            if device.parent:
                continue
            folder = f"/sys/class/infiniband/{device.name}/device"
            recording.links[folder] = f"../../../{device.pci_address}"
            recording.links[f"/sys/bus/pci/devices/{device.pci_address}"] = "/".join(
                (
                    f"../../../devices/{device.root}",
                    device.bridge,
                    *device.switch,
                    device.pci_address,
                )
            )
            if device.iommu_domain:
                self._group(recording, device.pci_address)
            for path in (folder, f"/sys/bus/pci/devices/{device.pci_address}"):
                recording.links[f"{path}/driver"] = f"../../../bus/pci/drivers/{device.pci_driver}"
        for card in self.cards:
            folder = f"/sys/bus/pci/devices/{card.address}"
            above = "".join(f"{each}/" for each in card.bridges)
            recording.links[folder] = f"../../../devices/{card.root}/{above}{card.address}"
            recording.links[f"{folder}/driver"] = "../../../bus/pci/drivers/nvidia"
            if card.physical:
                recording.links[f"{folder}/physfn"] = f"../{card.physical}"

    def _lists(self, recording: Recording) -> None:
        lists = recording.listings
        refuse = recording.refuse
        if self.devices:
            lists["/sys/class/infiniband"] = tuple(device.name for device in self.devices)
        else:
            refuse("list", "/sys/class/infiniband", Missing(Why.ABSENT, "ENOENT"))
        uverbs = [d for d in self.devices if d.uverbs is not None]
        if uverbs:
            names = (f"uverbs{device.uverbs}" for device in uverbs)
            lists["/sys/class/infiniband_verbs"] = ("abi_version", *names)
        for path in recording.files:
            folder, _, name = path.rpartition("/")
            if folder.endswith(("/gids", "/pkeys", "/counters", "/hw_counters")):
                lists[folder] = (*lists.get(folder, ()), name)
        for device in self.devices:
            ports = tuple(str(number) for number in range(1, len(device.ports) + 1))
            lists[f"/sys/class/infiniband/{device.name}/ports"] = ports
        functions = {d.pci_address for d in self.devices if not d.parent}
        functions |= {card.address for card in self.cards}
        lists["/sys/bus/pci/devices"] = tuple(sorted(functions))
        lists["/sys/module/ib_core"] = ()
        lists["/etc/ld.so.conf.d"] = ("x86_64-linux-gnu.conf",)
        folder = "/usr/lib/x86_64-linux-gnu"
        if self.libraries:
            lists[f"{folder}/libibverbs"] = tuple(f"lib{name}-rdmav34.so" for name in _PROVIDERS)
            lists[PROVIDER_FOLDER] = tuple(f"{name}.driver" for name in self._configured())
            recording.nodes[f"{folder}/libibverbs.so.1"] = NodeStat(
                stat.S_IFREG | 0o644, 0, 0, None
            )

    def _configured(self) -> tuple[str, ...]:
        if self.configured is not None:
            return self.configured
        return _PROVIDERS if self.libraries else ()

    def _nodes(self, recording: Recording) -> None:
        nodes = self.nodes
        if nodes is None:
            nodes = {f"uverbs{d.uverbs}": 0o666 for d in self.devices if d.uverbs is not None}
        if not nodes:
            recording.refuse(
                "list", "/dev/infiniband", Missing(Why.ABSENT, "/dev/infiniband: ENOENT")
            )
        else:
            recording.listings["/dev/infiniband"] = tuple(sorted(nodes))
        for name, mode in nodes.items():
            path = f"/dev/infiniband/{name}"
            number = int("0" + "".join(letter for letter in name if letter.isdigit()))
            recording.nodes[path] = NodeStat(stat.S_IFCHR | mode, 0, 0, f"231:{192 + number}")
            recording.openable[path] = self.openable
        for path in ("/.dockerenv", "/run/.containerenv"):
            if path == self.container:
                recording.nodes[path] = NodeStat(stat.S_IFREG | 0o644, 0, 0, None)
            else:
                recording.refuse("stat", path, Missing(Why.ABSENT, f"{path}: ENOENT"))

    def _nldev(self) -> dict[str, bytes]:
        mode = [] if self.netns_mode is None else [("SYS_ATTR_NETNS_MODE", self.netns_mode)]
        replies = {"nldev-sys-get": _reply(nldev.SYS_GET, mode)}
        dump = b""
        for at, device in enumerate(self.devices):
            index = at if device.index is None else device.index
            attributes = _device_attributes(index, device)
            dump += _reply(nldev.GET, attributes, netlink.NLM_F_MULTI)
            replies[f"nldev-get-{index}"] = _reply(nldev.GET, attributes)
            for number, port in enumerate(device.ports, 1):
                netdev = self._port_netdev(port)
                replies[f"nldev-port-get-{index}-{number}"] = _reply(
                    nldev.GET, [*_port_attributes(index, number, device, port), *netdev]
                )
            replies[f"nldev-res-ctx-get-{index}"] = b""
            replies[f"nldev-res-get-{index}"] = _reply(
                nldev.RES_GET, [("ATTR_DEV_INDEX", index), ("ATTR_RES_SUMMARY", _summary(device))]
            )
            if device.uverbs is not None:
                replies[f"nldev-get-chardev-{index}"] = _reply(
                    nldev.GET_CHARDEV,
                    [
                        ("ATTR_CHARDEV_ABI", device.abi_version),
                        ("ATTR_CHARDEV_NAME", f"uverbs{device.uverbs}"),
                        ("ATTR_CHARDEV", (231 << 8) | (192 + device.uverbs)),
                        ("ATTR_UVERBS_DRIVER_ID", device.driver.number),
                    ],
                )
        return replies | {"nldev-get": dump}

    def _port_netdev(self, port: Port) -> list[tuple[str, Any]]:
        if port.netdev is None or port.netdev not in {each.name for each in self.netdevs}:
            return []
        return [
            ("ATTR_NDEV_INDEX", self._ifindex(port.netdev)),
            ("ATTR_NDEV_NAME", port.netdev),
        ]

    def _route(self) -> dict[str, bytes]:
        links, addresses = b"", b""
        for netdev in self.netdevs:
            index = self._ifindex(netdev.name)
            carrier = netdev.up if netdev.carrier is None else netdev.carrier
            message = ifinfmsg()
            message["index"] = index
            message["ifi_type"] = _INFINIBAND if netdev.mac.count(":") == 19 else _ETHERNET
            message["flags"] = (0x1043 if netdev.up else 0x1002) | (0x80 if netdev.no_arp else 0)
            message["flags"] |= (0x10000 if carrier else 0) | (0x8 if netdev.loopback else 0)
            message["attrs"] = [
                ("IFLA_IFNAME", netdev.name),
                ("IFLA_MTU", netdev.mtu),
                ("IFLA_OPERSTATE", "UP" if carrier else "DOWN"),
                ("IFLA_CARRIER", int(carrier)),
                ("IFLA_CARRIER_CHANGES", netdev.carrier_changes),
                ("IFLA_CARRIER_DOWN_COUNT", netdev.carrier_down_count),
            ]
            octets = bytes.fromhex(netdev.mac.replace(":", ""))
            if len(octets) == 6:
                message["attrs"].append(("IFLA_ADDRESS", netdev.mac))
            if netdev.kind and netdev.bond is None and netdev.vlan is None:
                message["attrs"].append(
                    ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", netdev.kind)]})
                )
            for attribute, name in (("MASTER", netdev.master), ("LINK", netdev.lower)):
                if name:
                    message["attrs"].append((f"IFLA_{attribute}", self._ifindex(name)))
            link = _with_inet_conf(_encoded(message, 16), netdev)
            for part in (netdev.bond, netdev.vlan, netdev.leg, netdev.port):
                link = _with_attribute(link, 18, part.info()) if part else link
            if netdev.xdp is not None:
                link = _with_attribute(link, 43, netlink.attribute(2, bytes([netdev.xdp])))
            if len(octets) != 6:  # pyroute2 encodes Ethernet's alone
                link = _with_attribute(link, 1, octets)
            links += link if netdev.stats is None else counted.with_stats64(link, netdev.stats)
            addresses += _address_rows(netdev, index)
        return {"route-getlink": links, "route-getaddr": addresses}

    def _routing(self, recording: Recording) -> None:
        """Rules, routes of addresses and others, neighbours, and what rdma_cm was set to."""
        if self.rules is None:
            return
        rows = [*self.ways, *self._own_ways()]
        for version in (4, 6):
            of_version = [each for each in rows if (":" in each.destination) == (version == 6)]
            recording.netlink[f"route-getroute-{version}"] = b"".join(
                map(self._encoded_way, of_version)
            )
        rules = [*self.rules, *(replace(each, version=6) for each in DEFAULT_RULES[:2])]
        recording.netlink["route-getrule"] = b"".join(map(_encoded_rule, rules))
        recording.netlink |= {"route-getqdisc": b"", "route-getneightbl": b"", **self.traffic}
        if "nft-getchain" in self.traffic:
            recording.listings["/sys/module/nf_tables"] = ()
        recording.netlink["route-getneigh"] = b"".join(
            self._encoded_neighbour(netdev, address, known)
            for (netdev, address), known in self.neighbours.items()
        )
        folder = "/sys/kernel/config/rdma_cm"
        for port, mode in self.roce_modes.items():
            device, _, number = port.partition("/")
            path = f"{folder}/{device}/ports/{number}"
            recording.files[f"{path}/default_roce_mode"] = f"{mode}\n".encode()
            if port in self.roce_tos:
                recording.files[f"{path}/default_roce_tos"] = f"{self.roce_tos[port]}\n".encode()
            recording.listings[folder] = (*recording.listings.get(folder, ()), device)
            recording.listings[f"{folder}/{device}/ports"] = (number,)
        if not self.roce_modes:
            recording.refuse("list", folder, Missing(Why.ABSENT, f"{folder}: ENOENT"))
        row = "   1: 00000000:0F5F 00000000:0000 07\n" if self.port_mapper else ""
        recording.files["/proc/self/net/udp"] = f"  sl  local_address rem_address\n{row}".encode()
        recording.files.setdefault("/proc/sys/net/ipv4/ip_local_port_range", b"32768\t60999\n")

    def _dcb(self, recording: Recording) -> None:
        """Each netdev's answer, or its refusal."""
        for netdev in self.netdevs if self.dcb is not None else ():
            name = f"dcb-ieee-get-{self._ifindex(netdev.name)}"
            answer = (self.dcb or {}).get(netdev.name, UNSUPPORTED)
            if isinstance(answer, Missing):
                recording.refuse("netlink", name, answer)
            else:
                recording.netlink[name] = answer.reply(netdev.name)

    def _vfs(self, recording: Recording) -> None:
        """The physical functions' answers, and the links between them and the virtual ones."""
        for device in self.devices:
            folder = f"/sys/class/infiniband/{device.name}/device"
            if device.physfn:
                recording.links[f"{folder}/physfn"] = f"../{device.physfn}"
            if device.vfs == ():
                continue
            netdev = device.ports[0].netdev or ""
            recording.listings[f"{folder}/net"] = (netdev,)
            name = f"route-getlink-vf-{self._ifindex(netdev)}"
            recording.files[f"{folder}/sriov_numvfs"] = b"1\n"
            if isinstance(device.vfs, Missing):
                recording.refuse("netlink", name, device.vfs)
                continue
            recording.netlink[name] = vf_reply(netdev, device.vfs)
            for number, each in enumerate(device.vfs):
                recording.links[f"{folder}/virtfn{number}"] = f"../{each.address}"

    def _ethtool(self, recording: Recording) -> None:
        """Each netdev's answers, or its driver's refusals."""
        if self.ethtool is None:
            return
        recording.netlink["genl-families"] = counted.families()
        for netdev in self.netdevs:
            answer = self.ethtool.get(netdev.name, UNSUPPORTED)
            refused = answer if isinstance(answer, Missing) else UNSUPPORTED
            described = Ethtool() if isinstance(answer, Missing) else answer
            for name, reply in described.replies(self._ifindex(netdev.name)):
                if isinstance(answer, Missing) or reply is None:
                    recording.refuse("netlink", name, refused)
                else:
                    recording.netlink[name] = reply

    def _devlink(self, recording: Recording) -> None:
        """Each PCI function's answers, or its driver's refusals."""
        if self.devlink is None:
            return
        recording.netlink["genl-families"] = counted.families()
        reporters = b""
        for address in dict.fromkeys(each.pci_address for each in self.devices if not each.parent):
            answer = self.devlink.get(address, UNSUPPORTED)
            refused = answer if isinstance(answer, Missing) else UNSUPPORTED
            described = Devlink() if isinstance(answer, Missing) else answer
            if not isinstance(answer, Missing):
                reporters += answer.listed(address)
            for name, reply in described.replies(address):
                if isinstance(answer, Missing) or reply is None:
                    recording.refuse("netlink", name, refused)
                else:
                    recording.netlink[name] = reply
        recording.netlink["devlink-health-reporters"] = reporters

    def _own_ways(self) -> Iterator[Way]:
        """What the kernel adds with an address of a netdev that is up."""
        for netdev in self.netdevs:
            for text in netdev.addresses if netdev.up else ():
                address, _, _ = text.partition("/")
                network = ip_interface(text).network
                wide = ":" in address
                yield Way(f"{network}", netdev.name, source=None if wide else address)
                if address in netdev.not_local:
                    continue
                yield Way(
                    f"{address}/{128 if wide else 32}",
                    netdev.name,
                    source=None if wide else address,
                    table=255,
                    kind=2,
                )

    def _encoded_way(self, way: Way) -> bytes:
        destination, _, length = way.destination.partition("/")
        message = rtmsg()
        wide = ":" in destination
        message["family"] = 10 if wide else 2
        message["dst_len"] = int(length)
        message["table"] = min(way.table, 255)
        message["type"] = way.kind
        attributes: list[tuple[str, Any]] = [("RTA_TABLE", way.table)]
        if int(length):
            attributes.append(("RTA_DST", destination))
        if way.netdev:
            attributes.append(("RTA_OIF", self._ifindex(way.netdev)))
        if way.gateway:
            attributes.append(("RTA_GATEWAY", way.gateway))
        if way.source:
            attributes.append(("RTA_PREFSRC", way.source))
        if way.metric:
            attributes.append(("RTA_PRIORITY", way.metric))
        if way.hops:
            hops = []
            for netdev, gateway in way.hops:
                own = [("RTA_GATEWAY", gateway)] if gateway else []
                hops.append({"hops": 0, "oif": self._ifindex(netdev), "attrs": own})
            attributes.append(("RTA_MULTIPATH", hops))
        if way.hop_limit is not None:
            metrics = {"attrs": [("RTAX_HOPLIMIT", way.hop_limit)]}
            attributes.append(("RTA_METRICS", metrics))
        message["attrs"] = attributes
        return _encoded(message, 24)

    def _encoded_neighbour(
        self, netdev: str, address: str, known: int | tuple[int, str] | tuple[int, str, float]
    ) -> bytes:
        """Its state, MAC address, and the seconds since it was changed."""
        state, mac, *ages = known if isinstance(known, tuple) else (known, "0c:42:a1:00:00:99")
        message = ndmsg()
        message["family"] = 10 if ":" in address else 2
        message["ifindex"] = self._ifindex(netdev)
        message["state"] = state
        message["attrs"] = [("NDA_DST", address), ("NDA_LLADDR", mac)]
        for age in ages:
            ticks = int(age * 100)
            cache = {"ndm_confirmed": 0, "ndm_used": 0, "ndm_updated": ticks, "ndm_refcnt": 0}
            message["attrs"].append(("NDA_CACHEINFO", cache))
        return _encoded(message, 28)


def _encoded_rule(rule: Rule) -> bytes:
    message = fibmsg()
    message["family"] = 10 if rule.version == 6 else 2
    message["table"] = min(rule.table, 255)
    message["action"] = rule.action
    message["flags"] = rule.flags
    attributes: list[tuple[str, Any]] = [
        ("FRA_TABLE", rule.table),
        ("FRA_PRIORITY", rule.priority),
        (
            "FRA_SUPPRESS_PREFIXLEN",
            0xFFFFFFFF if rule.suppressed_length is None else rule.suppressed_length,
        ),
    ]
    for name, text in (("src", rule.source), ("dst", rule.destination)):
        if text:
            address, _, length = text.partition("/")
            message[f"{name}_len"] = int(length)
            attributes.append((f"FRA_{name.upper()}", address))
    for name, value in (
        ("FWMARK", rule.mark),
        ("IIFNAME", rule.input),
        ("OIFNAME", rule.output),
        ("GOTO", rule.target),
        ("IP_PROTO", rule.ip_proto),
    ):
        if value is not None:
            attributes.append((f"FRA_{name}", value))
    message["attrs"] = attributes
    return _encoded(message, 32)


_PARENT = 1200  # the process above the one that looks


def _ids(space: Space | bytes) -> Iterator[tuple[str, str]]:
    """Files of a bridge; functions have theirs."""
    raw = space if isinstance(space, bytes) else space.content()
    vendor, number = struct.unpack_from("<HH", raw.ljust(4, b"\0"))
    yield from (("vendor", f"{vendor:#06x}"), ("device", f"{number:#06x}"))


def _address_rows(netdev: NetDev, index: int) -> bytes:
    """RTM_NEWADDR of each."""
    rows = b""
    for text in netdev.addresses:
        address, _, length = text.partition("/")
        row = ifaddrmsg()
        row["family"] = 10 if ":" in address else 2
        row["prefixlen"] = int(length)
        row["index"] = index
        row["scope"] = 253 if address.startswith("fe80") else 0
        kind = "IFA_ADDRESS" if ":" in address else "IFA_LOCAL"
        row["attrs"] = [(kind, address), ("IFA_FLAGS", netdev.flags.get(address, 0x80))]
        if peer := netdev.peers.get(address):
            row["attrs"].append(("IFA_ADDRESS", peer))
        rows += _encoded(row, 20)
    return rows


def _with_inet_conf(link: bytes, netdev: NetDev) -> bytes:
    """A link message with IFLA_AF_SPEC, whose array pyroute2 does not encode as the kernel does."""
    values = [0] * 33
    values[7], values[12], values[18] = netdev.rp_filter, netdev.arp_filter, netdev.arp_ignore
    conf = struct.pack("=HH33I", 4 + 4 * 33, 1, *values)
    inet = struct.pack("=HH", 4 + len(conf), 2) + conf
    if netdev.hop_limit is not None:
        conf = netlink.attribute(2, struct.pack("=II", 0, netdev.hop_limit))
        inet += netlink.attribute(10, conf)
    whole = link + struct.pack("=HH", 4 + len(inet), 26) + inet
    return struct.pack("=I", len(whole)) + whole[4:]


def _since(path: str, number: int | None) -> dict[str, str]:
    """A file that records from before have not."""
    return {} if number is None else {path: f"{number}\n"}


def _with_attribute(link: bytes, kind: int, content: bytes) -> bytes:
    """A message with one more attribute."""
    whole = link + netlink.attribute(kind, content)
    return struct.pack("=I", len(whole)) + whole[4:]


class MemoryTree:
    """A snapshot's files as a Tree."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._folders: dict[str, set[str]] = {"": set()}
        for name in files:
            at = name
            while at:
                folder, _, last = at.rpartition("/")
                self._folders.setdefault(folder, set()).add(last)
                at = folder

    def kind(self, name: str) -> Kind | None:
        if name in self._files:
            return "file"
        return "folder" if name in self._folders else None

    def target(self, name: str) -> str:
        return ""

    def names(self, name: str) -> tuple[str, ...] | Missing:
        if name not in self._folders:
            return Missing(Why.ABSENT, f"/{name}: ENOENT")
        return tuple(sorted(self._folders[name]))

    def read(self, name: str, limit: int) -> bytes | Missing:
        content = self._files.get(name)
        return Missing(Why.ABSENT, f"/{name}: ENOENT") if content is None else content[:limit]


def _device_files(device: Device) -> dict[str, str]:
    folder = f"/sys/class/infiniband/{device.name}"
    files = {
        f"{folder}/node_type": f"{device.node_type}\n",
        f"{folder}/node_guid": f"{device.node_guid}\n",
        f"{folder}/sys_image_guid": f"{device.sys_image_guid or device.node_guid}\n",
        f"{folder}/fw_ver": f"{device.firmware}\n",
        f"{folder}/hca_type": f"{device.hca_type}\n",
        f"{folder}/board_id": f"{device.board_id}\n",
        f"{folder}/hw_rev": "0\n",
        f"{folder}/node_desc": f"{device.name} HCA\n",
    }
    if device.parent:
        files[f"{folder}/parent"] = f"{device.parent}\n"
        return files | _verbs_files(device) | _ports_files(device)
    vendor, ids, pci_class = device.pci_ids
    for path in (f"{folder}/device", f"/sys/bus/pci/devices/{device.pci_address}"):
        files |= {
            f"{path}/vendor": f"{vendor}\n",
            f"{path}/device": f"{ids}\n",
            f"{path}/class": f"{pci_class}\n",
            f"{path}/numa_node": f"{device.numa_node}\n",
            f"{path}/current_link_speed": f"{device.link[0]}\n",
            f"{path}/current_link_width": f"{device.link[1]}\n",
            f"{path}/max_link_speed": "16.0 GT/s PCIe\n",
            f"{path}/max_link_width": "16\n",
            f"{path}/uevent": f"DRIVER={device.pci_driver}\nPCI_SLOT_NAME={device.pci_address}\n",
        }
    function = f"/sys/bus/pci/devices/{device.pci_address}"
    files[f"{function}/local_cpulist"] = f"{device.local_cpus}\n"
    if device.iommu_domain:
        files[f"{function}/iommu_group/type"] = f"{device.iommu_domain}\n"
    bridge = f"/sys/bus/pci/devices/{device.bridge}"
    files[f"{bridge}/max_link_speed"] = f"{device.slot[0]}\n"
    files[f"{bridge}/max_link_width"] = f"{device.slot[1]}\n"
    return files | _verbs_files(device) | _ports_files(device)


def _card_files(card: Card) -> dict[str, str]:
    folder = f"/sys/bus/pci/devices/{card.address}"
    vendor, number, pci_class = card.ids
    return {
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/device": f"{number}\n",
        f"{folder}/class": f"{pci_class}\n",
        f"{folder}/numa_node": f"{card.numa_node}\n",
        f"{folder}/power/runtime_status": "suspended\n" if card.is_suspended else "active\n",
        f"{folder}/current_link_speed": f"{card.link[0]}\n",
        f"{folder}/current_link_width": f"{card.link[1]}\n",
        f"{folder}/max_link_speed": "32.0 GT/s PCIe\n",
        f"{folder}/max_link_width": "16\n",
    }


def _verbs_files(device: Device) -> dict[str, str]:
    if device.uverbs is None:
        return {}
    verbs = f"/sys/class/infiniband_verbs/uverbs{device.uverbs}"
    files = {
        f"{verbs}/ibdev": f"{device.name}\n",
        f"{verbs}/dev": f"231:{192 + device.uverbs}\n",
        f"{verbs}/abi_version": f"{device.abi_version}\n",
    }
    if not device.parent:
        vendor, ids, pci_class = (each.removeprefix("0x").upper() for each in device.pci_ids)
        alias = f"pci:v0000{vendor}d0000{ids}sv0000{vendor}sd00000000bc{pci_class[:2]}"
        files[f"{verbs}/device/modalias"] = f"{alias}sc{pci_class[2:4]}i{pci_class[4:]}\n"
    return files


def _ports_files(device: Device) -> dict[str, str]:
    files: dict[str, str] = {}
    for number, port in enumerate(device.ports, 1):
        files |= _port_files(f"/sys/class/infiniband/{device.name}/ports/{number}", port)
    return files


def _port_files(folder: str, port: Port) -> dict[str, str]:
    files = {
        f"{folder}/state": f"{port.state.number}: {_STATE_WORD[port.state]}\n",
        f"{folder}/phys_state": f"{port.phys.number}: {_PHYS_WORD[port.phys]}\n",
        f"{folder}/rate": f"{port.rate}\n",
        f"{folder}/lid": f"{port.lid:#x}\n",
        f"{folder}/lid_mask_count": "0\n",
        f"{folder}/sm_lid": f"{port.sm_lid:#x}\n",
        f"{folder}/sm_sl": "0\n",
        f"{folder}/cap_mask": "0x04010000\n",
        f"{folder}/has_smi": f"{int(port.layer is LinkLayer.INFINIBAND)}\n",
    }
    files |= {f"{folder}/pkeys/{at}": f"{key:#06x}\n" for at, key in enumerate(port.pkeys)}
    if port.layer is not None:
        files[f"{folder}/link_layer"] = f"{_LAYER_WORD[port.layer]}\n"
    files |= counted.counter_files(folder, port.counters, "counters")
    files |= counted.counter_files(folder, port.hw_counters, "hw_counters")
    for index in range(port.gid_table_length):
        row = port.gids.get(index)
        files[f"{folder}/gids/{index}"] = f"{Gid.parse(row.gid).groups}\n" if row else EMPTY_ROW
        if row:
            files[f"{folder}/gid_attrs/types/{index}"] = f"{row.kind}\n"
            if row.netdev:
                files[f"{folder}/gid_attrs/ndevs/{index}"] = f"{row.netdev}\n"
    return files


def _device_attributes(index: int, device: Device) -> list[tuple[str, Any]]:
    guid = int(device.node_guid.replace(":", ""), 16)
    return [
        ("ATTR_DEV_INDEX", index),
        ("ATTR_DEV_NAME", device.name),
        ("ATTR_PORT_INDEX", len(device.ports)),
        ("ATTR_FW_VERSION", device.firmware),
        ("ATTR_NODE_GUID", guid),
        ("ATTR_SYS_IMAGE_GUID", guid),
        ("ATTR_DEV_NODE_TYPE", int(device.node_type.partition(":")[0])),
        ("ATTR_DEV_PROTOCOL", device.protocol),
        *([("ATTR_DEV_TYPE", 1), ("ATTR_PARENT_NAME", device.smi_of)] if device.smi_of else []),
    ]


def _port_attributes(index: int, number: int, device: Device, port: Port) -> list[tuple[str, Any]]:
    attributes: list[tuple[str, Any]] = [
        ("ATTR_DEV_INDEX", index),
        ("ATTR_DEV_NAME", device.name),
        ("ATTR_PORT_INDEX", number),
        ("ATTR_PORT_STATE", (port.nldev_state or port.state).number),
        ("ATTR_PORT_PHYS_STATE", port.phys.number),
    ]
    if port.layer is LinkLayer.INFINIBAND:
        attributes += [("ATTR_LID", port.lid), ("ATTR_SM_LID", port.sm_lid), ("ATTR_LMC", 0)]
    return attributes


def _summary(device: Device) -> dict[str, list[tuple[str, Any]]]:
    counts = {"pd": 2, "cq": 2, "qp": 1, "cm_id": 0, "mr": 0, "ctx": 0, "srq": 0}
    if device.held is not None:
        counts = counted.summary(device.held)
    return {
        "attrs": [
            (
                "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY",
                {
                    "attrs": [
                        ("RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME", name),
                        ("RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR", count),
                    ]
                },
            )
            for name, count in counts.items()
        ]
    }


def _reply(op: int, attributes: Iterable[tuple[str, Any]], flags: int = 0) -> bytes:
    message = nldev_msg()
    message["header"]["flags"] = flags
    message["attrs"] = [(f"RDMA_NLDEV_{name}", value) for name, value in attributes]
    return _encoded(message, (netlink.RDMA_NL_NLDEV << 10) + op, flags)


def _encoded(message: Any, kind: int, flags: int = netlink.NLM_F_MULTI) -> bytes:
    key = (type(message), kind, flags, repr([*message.items()]))
    if key not in _ENCODED:
        message["header"]["type"] = kind
        message["header"]["flags"] = flags
        message.encode()
        content = bytes(message.data)
        _ENCODED[key] = content + bytes(-len(content) % 4)
    return _ENCODED[key]


_ENCODED: dict[tuple[type, int, int, str], bytes] = {}
"""What was encoded before: machines differ in one thing, and encoding took a fifth of the tests."""


def roce_rows(netdev: str, mac: str, *addresses: str) -> dict[int, GidRow]:
    """The table that mlx5 shows: the default GID and each address, as v1 and v2 twins."""
    octets = [int(each, 16) for each in mac.split(":")]
    tail = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    gids = [str(Gid(b"\xfe\x80" + bytes(6) + tail))]
    gids += [f"::ffff:{each}" if ":" not in each else each for each in addresses]
    rows = [GidRow(gid, kind, netdev) for gid in gids for kind in (V1, V2)]
    assert all(Gid.parse(row.gid).family in Family for row in rows)
    return dict(enumerate(rows))


def with_counters(machine: Machine) -> Machine:
    """The same machine as `counters` and `resources` find it, at rest."""
    return replace(
        machine,
        boot_id=counted.BOOT_ID,
        netdevs=tuple(replace(each, stats={}, pause=(0, 0)) for each in machine.netdevs),
        devices=tuple(
            replace(
                device,
                held=counted.KERNEL_OWN,
                ports=tuple(
                    replace(
                        port,
                        counters=counted.PORT_COUNTERS,
                        hw_counters=counted.MLX5_COUNTERS,
                    )
                    for port in device.ports
                ),
            )
            for device in machine.devices
        ),
    )


def big_host(
    hcas: int, ports: int = 2, gids: int = 256, filled: int = 8, prefix: int = 24
) -> Machine:
    """A RoCE host of `hcas` devices with `filled` of `gids` rows in use on each port.

    Below 10.0.0.0/8: with a prefix of 24 each netdev has a subnet of its own.
    """
    devices, netdevs = [], []
    for number in range(hcas):
        made = []
        for port in range(ports):
            name = f"eth{number * ports + port}"
            mac = f"0c:42:a1:00:{number:02x}:{port:02x}"
            addresses = [f"10.{number}.{port}.{host}" for host in range(1, (filled - 2) // 2 + 1)]
            netdevs.append(
                NetDev(name, mac=mac, addresses=tuple(f"{a}/{prefix}" for a in addresses))
            )
            rows = roce_rows(name, mac, *addresses)
            made.append(Port(gids=rows, gid_table_length=gids, netdev=name))
        devices.append(
            Device(
                f"mlx5_{number}",
                tuple(made),
                pci_address=f"0000:{number:02x}:00.0",
                node_guid=f"0c42:a103:0000:{number:04x}",
                uverbs=number,
            )
        )
    return Machine("big", tuple(devices), tuple(netdevs))
