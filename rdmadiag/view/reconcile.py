"""One view of each port from several witnesses. Where they differ, both are kept."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

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
    first_known,
    known,
    present,
)
from rdmadiag.facts.evidence import LINUX_ONLY, NOT_ON_MACOS, Evidence
from rdmadiag.facts.ib import (
    THUNDERBOLT_TRANSPORT,
    DriverId,
    LinkLayer,
    NodeType,
    PhysState,
    PortState,
)
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NOT_HERE, NetDevState, Unusable, netdev_state
from rdmadiag.gid.route import NoRoute, Route, select_route_gid
from rdmadiag.gid.scan import route_gid_scan_limit
from rdmadiag.late import late
from rdmadiag.view.netdev_states import NetDevStates

if TYPE_CHECKING:
    from rdmadiag.facts.verbs import VerbsDevice, VerbsPort

D = TypeVar("D", "SysfsDevice", "NldevDevice", "VerbsDevice")


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
    state: PortState | Missing  # sysfs's, else nldev's, else verbs'
    phys_state: PhysState | Missing
    lid: int | Missing
    sm_lid: int | Missing
    rate: str | Missing
    gids: GidTable | Missing
    netdevs: Mapping[str, NetDevState]  # of the netdevs that its GIDs name
    namesakes: frozenset[str]  # of these, another namespace's of which this one has the name, too
    unassigned: frozenset[int]  # link-local rows whose address their netdev does not have
    unusable: Mapping[int, Unusable]  # rows whose address their netdev must not use
    route: Route | NoRoute
    sysfs: SysfsPort | None
    nldev: NldevPort | None
    verbs: "VerbsPort | None"
    is_foreign_on_mac: bool = False  # librdma shows it, and it is no Thunderbolt port
    is_omni_path: bool | None = False  # its fabric is no InfiniBand; None: not known
    pkey_index: int = 0  # of the partition key that a queue pair will use; programs use index 0

    @property
    def name(self) -> str:
        """DEVICE/PORT, as `rdma link` writes it."""
        return f"{self.device}/{self.number}"

    @property
    def states(self) -> dict[str, PortState]:
        """What each witness that answered says of the state."""
        answers = {
            "sysfs": self.sysfs.state if self.sysfs else None,
            "nldev": self.nldev.state if self.nldev else None,
            "verbs": self.verbs.state if self.verbs else None,
        }
        return {who: state for who, state in answers.items() if isinstance(state, PortState)}

    @property
    def is_active(self) -> bool:
        """Whether every witness says ACTIVE."""
        shown: tuple[SysfsPort | NldevPort | VerbsPort | None, ...]
        shown = (self.sysfs, self.nldev, self.verbs)
        known = [each.state for each in shown if each and not isinstance(each.state, Missing)]
        return bool(known) and known.count(PortState.ACTIVE) == len(known)

    @property
    def rate_gbps(self) -> float | Missing:
        """The number in the rate."""
        if isinstance(self.rate, Missing):
            return self.rate
        if self.sysfs and not isinstance(self.sysfs.rate, Missing):
            return self.sysfs.rate_gbps
        return float(self.rate.partition(" ")[0])

    @property
    def width(self) -> int | Missing:
        """The lanes in the rate: 4 of "100 Gb/sec (4X EDR)"."""
        if isinstance(self.rate, Missing):
            return self.rate
        match = _WIDTH.search(self.rate)
        return int(match[1]) if match else Missing(Why.ABSENT, f"not in {self.rate!r}")

    @property
    def pkey(self) -> int | Missing:
        """The partition key at `pkey_index`, 0 where that row is empty; InfiniBand alone."""
        if self.protocol is not Protocol.INFINIBAND or self.sysfs is None:
            return Missing(Why.ABSENT, "no partition key was read")
        keys = self.sysfs.pkeys
        return keys if isinstance(keys, Missing) else keys.get(self.pkey_index, 0)

    @property
    def netdev(self) -> str | Missing:
        """nldev's word, else the one netdev that all GIDs name, else Thunderbolt's by its name.

        Not another namespace's where this one has a netdev of the same name, which it is not, or
        may not be.
        """
        if self.protocol is Protocol.THUNDERBOLT and (own := netdev_of(self.device)):
            return own
        if self.nldev and not isinstance(self.nldev.netdev, Missing):
            return self.nldev.netdev
        if len(self.netdevs) == 1:
            name = next(iter(self.netdevs))
            if name not in self.namesakes:
                return name
            if self.netdevs[name] is NetDevState.UNKNOWN:
                return Missing(Why.NOT_COLLECTED, f"in which network namespace its {name} is")
            return Missing(Why.ABSENT, f"{name}, of another network namespace")
        return self.nldev.netdev if self.nldev else Missing(Why.ABSENT, "no GID names one netdev")

    @property
    def netdevs_here(self) -> frozenset[str]:
        """The netdevs that its GIDs name, but for those of other network namespaces."""
        return frozenset(name for name, state in self.netdevs.items() if state not in NOT_HERE)

    @property
    def entries(self) -> tuple[GidEntry, ...]:
        """The rows of its GID table that are not empty; none where it could not be read."""
        return () if isinstance(self.gids, Missing) else self.gids.entries

    @property
    def route_entry(self) -> GidEntry | None:
        """The row of the route, if there is one."""
        return self.route.entry if isinstance(self.route, Route) else None

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
    verbs: "VerbsDevice | None"
    uverbs: str | None  # "uverbs0": the character device's name, by sysfs or nldev
    driver: DriverId | str | Missing  # the PCI function's, or the one that nldev names
    provider: str | None  # the verbs driver, rdma-core's name for it
    pci: PciFunction | Missing
    ports: tuple[PortView, ...]


_WIDTH: Final = late(r"\(([0-9]{1,2})X\b")
_NO_ROUTE_BY_GID: Final = {
    Protocol.IWARP: "iWARP connects by rdma_cm and IP address, not by GID",
    Protocol.EFA: "EFA addresses peers by address handle, libfabric picks the GID",
    Protocol.USNIC: "usNIC sends UDP, not by GID",
}


def unshown(evidence: Evidence, what: str) -> Missing:
    """Why sysfs shows nothing of a device or port that another witness names."""
    if evidence.is_mac:
        return NOT_ON_MACOS
    if isinstance(evidence.sysfs, Missing):
        return evidence.sysfs
    if isinstance(evidence.sysfs.devices, Missing):
        return evidence.sysfs.devices
    return Missing(Why.ABSENT, f"sysfs does not show this {what}")


def devices(
    evidence: Evidence, gid_index: int | None = None, pkey_index: int = 0
) -> tuple[DeviceView, ...]:
    """Every device that any witness names, by name; `gid_index` is an explicit route.

    Without those that are for subnet management alone: no program of a job sees them.
    """
    sysfs, nldev, verbs = known(evidence.sysfs), known(evidence.nldev), known(evidence.verbs)
    in_sysfs = _by_name(present(sysfs.devices) if sysfs else ())
    in_nldev = _by_name(nldev.devices if nldev else ())
    in_verbs = _by_name(verbs.devices if verbs else ())
    names = in_sysfs.keys() | in_nldev.keys() | in_verbs.keys()
    names -= {name for name, device in in_nldev.items() if device.is_for_management}
    if registry := known(evidence.ioreg):
        names |= {each.name for each in present(registry.interfaces) if each.name != "?"}
    states = NetDevStates(evidence)
    witnessed = (
        _Witnesses(name, in_sysfs.get(name), in_nldev.get(name), in_verbs.get(name))
        for name in sorted(names, key=natural)
    )
    found = tuple(_device(seen, evidence, states, gid_index) for seen in witnessed)
    return found if pkey_index == 0 else tuple(_with_pkey(each, pkey_index) for each in found)


def _with_pkey(device: DeviceView, index: int) -> DeviceView:
    return replace(device, ports=tuple(replace(port, pkey_index=index) for port in device.ports))


def _by_name(each: Iterable[D]) -> dict[str, D]:
    """The first one of each name: a record may hold any number of them, and any name twice."""
    found: dict[str, D] = {}
    for device in each:
        found.setdefault(device.name, device)
    return found


@dataclass(frozen=True, slots=True)
class _Witnesses:
    """One device as each source shows it."""

    name: str
    sysfs: SysfsDevice | None
    nldev: NldevDevice | None
    verbs: "VerbsDevice | None"


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which mlx5_10 follows mlx5_9."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for letter in f"{name}\0":
        if letter.isascii() and letter.isdigit():
            digits += letter
            continue
        if digits:
            number = digits.lstrip("0")  # of any length: Python converts 4300 digits at most
            parts.append((0, len(number), number))
            digits = ""
        parts.append((1, 0, letter))
    return tuple(parts)


def ports(views: Sequence[DeviceView]) -> Iterator[PortView]:
    """The ports of all devices, in order."""
    for device in views:
        yield from device.ports


def _device(
    seen: _Witnesses, evidence: Evidence, states: NetDevStates, gid_index: int | None
) -> DeviceView:
    sysfs, nldev, verbs = seen.sysfs, seen.nldev, seen.verbs
    pci = sysfs.pci if sysfs else unshown(evidence, "device")
    verbs_driver = _verbs_driver(nldev, evidence)
    driver = verbs_driver if isinstance(pci, Missing) else pci.driver
    provider = known(verbs_driver)
    if provider is None and not isinstance(driver, Missing):
        provider = driver
    unread = sysfs.ports if sysfs and isinstance(sysfs.ports, Missing) else None
    no_port = unread or unshown(evidence, "port")
    numbers = {port.number for port in present(sysfs.ports)} if sysfs else set()
    numbers |= {port.number for port in present(nldev.ports)} if nldev else set()
    numbers |= {port.number for port in present(verbs.ports)} if verbs else set()
    return DeviceView(
        name=seen.name,
        sysfs=sysfs,
        nldev=nldev,
        verbs=verbs,
        uverbs=_uverbs(seen.name, evidence, nldev),
        driver=driver,
        provider=provider,
        pci=pci,
        ports=tuple(
            _port(number, seen, states, driver, no_port, gid_index) for number in sorted(numbers)
        ),
    )


def _verbs_driver(nldev: NldevDevice | None, evidence: Evidence) -> str | Missing:
    if evidence.is_mac:
        return LINUX_ONLY
    chardev = nldev.chardev if nldev else no_nldev(evidence)
    if isinstance(chardev, Missing):
        return chardev
    if chardev.driver is DriverId.UNKNOWN:
        return Missing(Why.ABSENT, "the driver gives no id")
    return chardev.driver


def no_nldev(evidence: Evidence) -> Missing:
    """Why nldev shows nothing of a device or port that another witness names."""
    if evidence.is_mac:
        return NOT_ON_MACOS
    if isinstance(evidence.nldev, Missing):
        return evidence.nldev
    return Missing(Why.ABSENT, "nldev does not show it")


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
    seen: _Witnesses,
    states: NetDevStates,
    driver: str | Missing,
    no_sysfs: Missing,
    gid_index: int | None,
) -> PortView:
    sysfs = seen.sysfs.port(number) if seen.sysfs else None
    nldev = seen.nldev.port(number) if seen.nldev else None
    verbs = seen.verbs.port(number) if seen.verbs else None
    every: tuple[SysfsPort | NldevPort | VerbsPort | None, ...] = (sysfs, nldev, verbs)
    with_lid: tuple[SysfsPort | VerbsPort | None, ...] = (sysfs, verbs)
    protocol, link_layer = _protocol(sysfs, seen, verbs, driver, no_sysfs)
    gids = _table(seen, sysfs, verbs, states, no_sysfs)
    netdevs: Mapping[str, NetDevState] = {}
    unassigned: frozenset[int] = frozenset()
    unusable: Mapping[int, Unusable] = {}
    route: Route | NoRoute
    if isinstance(gids, Missing):
        route = NoRoute(f"the GID table could not be read ({gids})")
    else:
        netdevs = states.of(gids, nldev)
        unassigned = states.unassigned(gids, nldev)
        unusable = states.unusable(gids)
        layer = LinkLayer.UNSPECIFIED if isinstance(link_layer, Missing) else link_layer
        route = (
            NoRoute(_NO_ROUTE_BY_GID[protocol])
            if protocol in _NO_ROUTE_BY_GID
            else select_route_gid(gids.entries, layer, gid_index, netdevs, unassigned, unusable)
        )
    return PortView(
        device=seen.name,
        number=number,
        is_software=_is_software(seen.sysfs, driver),
        link_layer=link_layer,
        protocol=protocol,
        state=first_known(*(each.state for each in every if each), no_sysfs),
        phys_state=first_known(*(each.phys_state for each in every if each), no_sysfs),
        lid=first_known(*(each.lid for each in with_lid if each), no_sysfs),
        sm_lid=first_known(*(each.sm_lid for each in with_lid if each), no_sysfs),
        rate=first_known(*(each.rate for each in with_lid if each), no_sysfs),
        gids=gids,
        netdevs=netdevs,
        namesakes=states.namesakes(netdevs),
        unassigned=unassigned,
        unusable=unusable,
        route=route,
        sysfs=sysfs,
        nldev=nldev,
        verbs=verbs,
        is_foreign_on_mac=states.is_mac and protocol is not Protocol.THUNDERBOLT,
        is_omni_path=_is_omni_path(seen.nldev, driver),
    )


def _is_omni_path(nldev: NldevDevice | None, driver: str | Missing) -> bool | None:
    """Omni-Path has InfiniBand's link layer for programs, and a wire of its own."""
    said = nldev.protocol if nldev else Missing(Why.ABSENT)
    if said == "opa" or driver == "hfi1":
        return True
    return None if isinstance(said, Missing) and isinstance(driver, Missing) else False


def is_asked_enough(gids: GidTable) -> bool:
    """Whether as many rows were read as a route is chosen from."""
    return gids.asked is None or gids.asked >= route_gid_scan_limit(gids.length)


def _table(
    seen: _Witnesses,
    sysfs: SysfsPort | None,
    verbs: "VerbsPort | None",
    states: NetDevStates,
    no_sysfs: Missing,
) -> GidTable | Missing:
    """sysfs's table, which has the types; where there is no sysfs, what the library gave."""
    if sysfs and not (isinstance(sysfs.gids, Missing) and verbs):
        return sysfs.gids
    if verbs is None:
        return no_sysfs
    if isinstance(verbs.gids, Missing):
        return sysfs.gids if sysfs else verbs.gids
    return GidTable(
        length=verbs.gid_table_length,
        entries=tuple(
            GidEntry(row.index, row.gid, row.type, _netdev(seen, row.netdev_index, states))
            for row in verbs.gids
        ),
        unreadable=verbs.gids_unreadable,
        asked=verbs.gids_asked,
    )


def _netdev(seen: _Witnesses, index: int | Missing, states: NetDevStates) -> str | Missing:
    if not isinstance(index, Missing):
        return states.names.get(index, Missing(Why.ABSENT, f"no netdev has index {index}"))
    own = netdev_of(seen.name)
    return index if own is None else own


def netdev_of(device: str) -> str | None:
    """The netdev of a Thunderbolt device: rdma_en1 is en1 (TN3205)."""
    return device.removeprefix("rdma_") if device.startswith("rdma_en") else None


def _is_software(sysfs: SysfsDevice | None, driver: str | Missing) -> bool:
    """rxe and siw name the netdev below them in `parent`; hardware has no such file."""
    return driver in (DriverId.RXE, DriverId.SIW) or bool(
        sysfs and not isinstance(sysfs.parent, Missing)
    )


def _protocol(
    sysfs: SysfsPort | None,
    seen: _Witnesses,
    verbs: "VerbsPort | None",
    driver: str | Missing,
    no_sysfs: Missing,
) -> tuple[Protocol, LinkLayer | Missing]:
    """How the port connects, and the link layer that follows where sysfs names none.

    Kernels before 2.6.37, and trees copied without it, have no link_layer: a channel
    adapter's is then InfiniBand, as libibverbs takes it (IBV_LINK_LAYER_UNSPECIFIED).
    """
    shown: list[SysfsPort | VerbsPort] = [sysfs] if sysfs else []
    if verbs and verbs.link_layer is not LinkLayer.UNSPECIFIED:
        shown.append(verbs)
    devices: tuple[SysfsDevice | NldevDevice | VerbsDevice | None, ...]
    devices = (seen.sysfs, seen.nldev, seen.verbs)
    link_layer = first_known(*(each.link_layer for each in shown), no_sysfs)
    node_type = first_known(*(each.node_type for each in devices if each), no_sysfs)
    said = seen.nldev.protocol if seen.nldev else Missing(Why.ABSENT)
    if seen.verbs and seen.verbs.transport == THUNDERBOLT_TRANSPORT:
        return Protocol.THUNDERBOLT, _assume(link_layer, LinkLayer.THUNDERBOLT)
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
