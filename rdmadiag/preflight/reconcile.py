"""One view of each port from several witnesses. Where they differ, both are kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from rdmadiag.facts import (
    GidEntry,
    GidTable,
    Missing,
    NldevDevice,
    NldevPort,
    PciFunction,
    SysfsDevice,
    SysfsPort,
    Why,
    present,
)
from rdmadiag.gid.gid import Family, Scope
from rdmadiag.gid.route import NetDevState, NoRoute, Route, netdev_state, select_route_gid
from rdmadiag.ib import DriverId, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.preflight.evidence import Evidence

T = TypeVar("T")


class Protocol(StrEnum):
    """How queue pairs of a port get connected."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    IWARP = "iwarp"  # by rdma_cm alone
    EFA = "efa"  # SRD and UD, by address handle
    USNIC = "usnic"  # UD over UDP
    THUNDERBOLT = "thunderbolt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PortView:
    """A port as judgement sees it."""

    device: str
    number: int
    is_software: bool  # made of a netdev (rxe, siw)
    link_layer: LinkLayer | Missing
    protocol: Protocol
    state: PortState | Missing  # sysfs's, else nldev's
    phys_state: PhysState | Missing
    lid: int | Missing
    sm_lid: int | Missing
    rate: str | Missing
    gids: GidTable | Missing
    netdevs: Mapping[str, NetDevState]  # of the netdevs that its GIDs name
    unassigned: frozenset[int]  # link-local rows whose address their netdev does not have
    route: Route | NoRoute
    sysfs: SysfsPort | None
    nldev: NldevPort | None

    @property
    def name(self) -> str:
        """DEVICE/PORT, as `rdma link` writes it."""
        return f"{self.device}/{self.number}"

    @property
    def states(self) -> dict[str, PortState]:
        """What each witness that answered says of the state."""
        heard = {
            "sysfs": self.sysfs.state if self.sysfs else None,
            "nldev": self.nldev.state if self.nldev else None,
        }
        return {who: state for who, state in heard.items() if isinstance(state, PortState)}

    @property
    def is_active(self) -> bool:
        """Whether every witness says ACTIVE."""
        return set(self.states.values()) == {PortState.ACTIVE}

    @property
    def route_entry(self) -> GidEntry | None:
        """The table's row that the route names."""
        if isinstance(self.gids, Missing) or not isinstance(self.route, Route):
            return None
        index = self.route.index
        return next((entry for entry in self.gids.entries if entry.index == index), None)

    @property
    def route_netdev_state(self) -> NetDevState:
        """The state of the netdev that the route GID names."""
        entry = self.route_entry
        return netdev_state(entry, self.netdevs) if entry else NetDevState.UNKNOWN

    @property
    def routes_by_unassigned_address(self) -> bool:
        """Whether a software device would send from an address that no netdev has.

        rxe hands its packets to the IP stack, which has no route for such a source. A
        NIC derives the peer's MAC from a link-local GID, and may well work.
        """
        entry = self.route_entry
        return self.is_software and entry is not None and entry.index in self.unassigned


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device as judgement sees it."""

    name: str
    sysfs: SysfsDevice | None
    nldev: NldevDevice | None
    uverbs: str | None  # "uverbs0": the character device's name, by sysfs or nldev
    driver: str | Missing  # the PCI function's, or the one that nldev names
    provider: str | None  # the verbs driver, rdma-core's name for it
    pci: PciFunction | Missing
    ports: tuple[PortView, ...]


_NO_ROUTE_BY_GID: Final = {
    Protocol.IWARP: "iWARP connects by rdma_cm and IP address, not by GID",
    Protocol.EFA: "EFA addresses peers by address handle, libfabric picks the GID",
    Protocol.USNIC: "usNIC sends UDP, not by GID",
}

_NO_SYSFS: Final = Missing(Why.ABSENT, "sysfs does not show this port")


def devices(evidence: Evidence, gid_index: int | None = None) -> tuple[DeviceView, ...]:
    """Every device that any witness names, by name; `gid_index` is an explicit route."""
    sysfs, nldev = evidence.sysfs, evidence.nldev
    names = set()
    if not isinstance(sysfs, Missing):
        names |= {device.name for device in present(sysfs.devices)}
    if not isinstance(nldev, Missing):
        names |= {device.name for device in nldev.devices}
    states = NetDevStates(evidence)
    return tuple(
        _device(
            name,
            evidence,
            states,
            None if isinstance(sysfs, Missing) else sysfs.device(name),
            None if isinstance(nldev, Missing) else nldev.device(name),
            gid_index,
        )
        for name in sorted(names, key=natural)
    )


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which mlx5_10 follows mlx5_9."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for letter in f"{name}\0":
        if letter.isascii() and letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return tuple(parts)


def ports(views: Sequence[DeviceView]) -> Iterator[PortView]:
    """The ports of all devices, in order."""
    for device in views:
        yield from device.ports


class NetDevStates:
    """The state of netdevs: rtnetlink's word, else /proc/net/dev and sysfs together."""

    def __init__(self, evidence: Evidence) -> None:
        self._netlink = (
            None
            if isinstance(evidence.netdev, Missing)
            else {netdev.name: netdev for netdev in evidence.netdev.netdevs}
        )
        process = evidence.process
        names = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.netdevs
        self._names = None if isinstance(names, Missing) else frozenset(names)
        ipv6 = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.ipv6
        self._ipv6 = None if isinstance(ipv6, Missing) else ipv6
        self._sysfs = (
            {}
            if isinstance(evidence.sysfs, Missing)
            else {netdev.name: netdev.operstate for netdev in evidence.sysfs.netdevs}
        )

    def state(self, name: str) -> NetDevState:
        """The state of the netdev of this name in this network namespace."""
        if self._netlink is not None:
            found = self._netlink.get(name)
            if found is None:
                return NetDevState.ABSENT
            if not found.admin_up:
                return NetDevState.DOWN
            return _by_operstate(found.operstate)
        if self._names is not None and name not in self._names:
            return NetDevState.ABSENT
        return _by_operstate(self._sysfs.get(name, Missing(Why.ABSENT)))

    def unassigned(self, gids: GidTable) -> frozenset[int]:
        """Rows with an fe80:: address that their netdev, which we can see, lacks."""
        if self._ipv6 is None:
            return frozenset()
        return frozenset(
            entry.index
            for entry in gids.entries
            if entry.gid.scope is Scope.LINK_LOCAL
            and entry.gid.family is Family.IPV6
            and not isinstance(entry.netdev, Missing)
            and self.state(entry.netdev) is not NetDevState.ABSENT
            and str(entry.gid) not in self._ipv6.get(entry.netdev, ())
        )


def _by_operstate(operstate: str | Missing) -> NetDevState:
    """RFC 2863; "unknown" is what drivers without operational states leave when up."""
    if isinstance(operstate, Missing):
        return NetDevState.UNKNOWN
    return NetDevState.UP if operstate in ("up", "unknown") else NetDevState.DOWN


def _device(
    name: str,
    evidence: Evidence,
    states: NetDevStates,
    sysfs: SysfsDevice | None,
    nldev: NldevDevice | None,
    gid_index: int | None,
) -> DeviceView:
    pci = sysfs.pci if sysfs else Missing(Why.ABSENT, "sysfs does not show this device")
    verbs_driver = _verbs_driver(nldev)
    driver = verbs_driver if isinstance(pci, Missing) else pci.driver
    provider = None if isinstance(verbs_driver, Missing) else verbs_driver
    if provider is None and not isinstance(driver, Missing):
        provider = driver
    numbers = {port.number for port in present(sysfs.ports)} if sysfs else set()
    numbers |= {port.number for port in present(nldev.ports)} if nldev else set()
    return DeviceView(
        name=name,
        sysfs=sysfs,
        nldev=nldev,
        uverbs=_uverbs(name, evidence, nldev),
        driver=driver,
        provider=provider,
        pci=pci,
        ports=tuple(
            _port(number, name, states, sysfs, nldev, driver, gid_index)
            for number in sorted(numbers)
        ),
    )


def _verbs_driver(nldev: NldevDevice | None) -> str | Missing:
    chardev = nldev.chardev if nldev else Missing(Why.NOT_COLLECTED, "nldev")
    if isinstance(chardev, Missing):
        return chardev
    if chardev.driver is DriverId.UNKNOWN:
        return Missing(Why.ABSENT, "the driver gives no id")
    return chardev.driver


def _uverbs(name: str, evidence: Evidence, nldev: NldevDevice | None) -> str | None:
    if nldev and not isinstance(nldev.chardev, Missing):
        return nldev.chardev.name
    if not isinstance(evidence.sysfs, Missing):
        for entry in present(evidence.sysfs.uverbs):
            if entry.device == name:
                return entry.name
    return None


def _port(
    number: int,
    device: str,
    states: NetDevStates,
    sysfs_device: SysfsDevice | None,
    nldev_device: NldevDevice | None,
    driver: str | Missing,
    gid_index: int | None,
) -> PortView:
    sysfs = sysfs_device.port(number) if sysfs_device else None
    nldev = nldev_device.port(number) if nldev_device else None
    protocol, link_layer = _protocol(sysfs, sysfs_device, nldev_device, driver)
    gids = sysfs.gids if sysfs else _NO_SYSFS
    netdevs = {}
    unassigned: frozenset[int] = frozenset()
    route: Route | NoRoute
    if isinstance(gids, Missing):
        route = NoRoute(f"the GID table could not be read ({gids})")
    else:
        names = {entry.netdev for entry in gids.entries if not isinstance(entry.netdev, Missing)}
        netdevs = {name: states.state(name) for name in sorted(names)}
        unassigned = states.unassigned(gids)
        layer = LinkLayer.UNSPECIFIED if isinstance(link_layer, Missing) else link_layer
        route = (
            NoRoute(_NO_ROUTE_BY_GID[protocol])
            if protocol in _NO_ROUTE_BY_GID
            else select_route_gid(gids.entries, layer, gid_index, netdevs, unassigned)
        )
    return PortView(
        device=device,
        number=number,
        is_software=_is_software(sysfs_device, driver),
        link_layer=link_layer,
        protocol=protocol,
        state=_first(sysfs.state if sysfs else _NO_SYSFS, nldev.state if nldev else None),
        phys_state=_first(
            sysfs.phys_state if sysfs else _NO_SYSFS, nldev.phys_state if nldev else None
        ),
        lid=sysfs.lid if sysfs else _NO_SYSFS,
        sm_lid=sysfs.sm_lid if sysfs else _NO_SYSFS,
        rate=sysfs.rate if sysfs else _NO_SYSFS,
        gids=gids,
        netdevs=netdevs,
        unassigned=unassigned,
        route=route,
        sysfs=sysfs,
        nldev=nldev,
    )


def _is_software(sysfs: SysfsDevice | None, driver: str | Missing) -> bool:
    """rxe and siw name the netdev below them in `parent`; hardware has no such file."""
    return driver in (DriverId.RXE, DriverId.SIW) or bool(
        sysfs and not isinstance(sysfs.parent, Missing)
    )


def _first(value: T | Missing, other: T | Missing | None) -> T | Missing:
    return other if isinstance(value, Missing) and other is not None else value


def _protocol(
    sysfs: SysfsPort | None,
    sysfs_device: SysfsDevice | None,
    nldev_device: NldevDevice | None,
    driver: str | Missing,
) -> tuple[Protocol, LinkLayer | Missing]:
    """How the port connects, and the link layer that follows where sysfs names none.

    Kernels before 2.6.37, and trees copied without it, have no link_layer: a channel
    adapter's is then InfiniBand, as libibverbs takes it (IBV_LINK_LAYER_UNSPECIFIED).
    """
    link_layer = sysfs.link_layer if sysfs else _NO_SYSFS
    node_type = sysfs_device.node_type if sysfs_device else Missing(Why.ABSENT)
    if isinstance(node_type, Missing) and nldev_device:
        node_type = nldev_device.node_type
    said = nldev_device.protocol if nldev_device else Missing(Why.ABSENT)
    if node_type is NodeType.RNIC or said == "iw":
        return Protocol.IWARP, _assume(link_layer, LinkLayer.ETHERNET)
    if driver == "efa":
        return Protocol.EFA, link_layer
    if node_type in (NodeType.USNIC, NodeType.USNIC_UDP):
        return Protocol.USNIC, _assume(link_layer, LinkLayer.ETHERNET)
    if said == "roce" or link_layer is LinkLayer.ETHERNET:
        return Protocol.ROCE, _assume(link_layer, LinkLayer.ETHERNET)
    if link_layer is LinkLayer.THUNDERBOLT:
        return Protocol.THUNDERBOLT, link_layer
    if link_layer is LinkLayer.INFINIBAND or said in ("ib", "opa"):
        return Protocol.INFINIBAND, _assume(link_layer, LinkLayer.INFINIBAND)
    absent = isinstance(link_layer, Missing) and link_layer.why is Why.ABSENT
    if node_type in (NodeType.CA, NodeType.SWITCH, NodeType.ROUTER) and absent and sysfs:
        return Protocol.INFINIBAND, LinkLayer.INFINIBAND
    return Protocol.UNKNOWN, link_layer


def _assume(link_layer: LinkLayer | Missing, otherwise: LinkLayer) -> LinkLayer:
    if isinstance(link_layer, Missing) or link_layer is LinkLayer.UNSPECIFIED:
        return otherwise
    return link_layer
