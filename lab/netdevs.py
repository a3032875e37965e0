"""Netdevs of a described host, as rtnetlink and DCB give them."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from lab import counted
from lab.encoded import encoded
from rdmadiag.host import netlink

_INFINIBAND = 32  # ARPHRD_INFINIBAND


_ETHERNET = 1  # ARPHRD_ETHER


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
    dormant: bool = False  # it has a carrier, and waits for a supplicant
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


def link_message(netdev: NetDev, ifindex: Callable[[str], int]) -> bytes:
    """RTM_NEWLINK."""
    carrier = netdev.up if netdev.carrier is None else netdev.carrier
    message = ifinfmsg()
    message["index"] = ifindex(netdev.name)
    message["ifi_type"] = _INFINIBAND if netdev.mac.count(":") == 19 else _ETHERNET
    message["flags"] = (0x1043 if netdev.up else 0x1002) | (0x80 if netdev.no_arp else 0)
    message["flags"] |= (0x10000 if carrier else 0) | (0x8 if netdev.loopback else 0)
    message["attrs"] = [
        ("IFLA_IFNAME", netdev.name),
        ("IFLA_MTU", netdev.mtu),
        ("IFLA_OPERSTATE", ("DORMANT" if netdev.dormant else "UP") if carrier else "DOWN"),
        ("IFLA_CARRIER", int(carrier)),
        ("IFLA_CARRIER_CHANGES", netdev.carrier_changes),
        ("IFLA_CARRIER_DOWN_COUNT", netdev.carrier_down_count),
    ]
    octets = bytes.fromhex(netdev.mac.replace(":", ""))
    if len(octets) == 6:
        message["attrs"].append(("IFLA_ADDRESS", netdev.mac))
    if netdev.kind and netdev.bond is None and netdev.vlan is None:
        message["attrs"].append(("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", netdev.kind)]}))
    for attribute, name in (("MASTER", netdev.master), ("LINK", netdev.lower)):
        if name:
            message["attrs"].append((f"IFLA_{attribute}", ifindex(name)))
    link = _with_inet_conf(encoded(message, 16), netdev)
    for part in (netdev.bond, netdev.vlan, netdev.leg, netdev.port):
        link = _with_attribute(link, 18, part.info()) if part else link
    if netdev.xdp is not None:
        link = _with_attribute(link, 43, netlink.attribute(2, bytes([netdev.xdp])))
    if len(octets) != 6:  # pyroute2 encodes Ethernet's alone
        link = _with_attribute(link, 1, octets)
    return link if netdev.stats is None else counted.with_stats64(link, netdev.stats)


def address_rows(netdev: NetDev, index: int) -> bytes:
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
        rows += encoded(row, 20)
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


def _with_attribute(link: bytes, kind: int, content: bytes) -> bytes:
    """A message with one more attribute."""
    whole = link + netlink.attribute(kind, content)
    return struct.pack("=I", len(whole)) + whole[4:]
