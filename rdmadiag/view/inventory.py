"""Devices and ports by witness: who sees each one, and why another does not."""

from collections.abc import Iterable
from typing import Any, Final, Literal

from rdmadiag.facts import Missing, PciFunction, Why, first_known, known
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.evidence import NOT_ON_MACOS, Evidence
from rdmadiag.facts.ib import DriverId, LinkLayer, NetnsMode, NodeType, PhysState, PortState
from rdmadiag.frozen import dataclass
from rdmadiag.view.access import Provider, node_access, provider
from rdmadiag.view.discovery_path import DiscoveryPath, walk
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, no_nldev, unshown
from rdmadiag.view.unshown import without_ports

Sighting = bool | Missing
"""Seen, looked and not seen, or not looked."""


@dataclass(frozen=True, slots=True)
class SeenBy:
    """Which witness shows a device."""

    sysfs: Sighting
    nldev: Sighting
    verbs: Sighting
    uverbs_node: Sighting


@dataclass(frozen=True, slots=True)
class PortRow(WithNumbers):
    """One port of a device."""

    port: int
    state: PortState | Missing
    phys_state: PhysState | Missing
    link_layer: LinkLayer | Missing
    protocol: Protocol
    rate: str | Missing
    rate_gbps: float | Missing
    width: int | Missing  # lanes
    lid: int | Missing
    sm_lid: int | Missing
    netdev: str | Missing
    netdev_index: int | Missing


@dataclass(frozen=True, slots=True)
class DeviceRow(WithNumbers):
    """One RDMA device."""

    name: str
    seen_by: SeenBy
    why_not: tuple[str, ...]  # one sentence a witness that does not show it
    node_type: NodeType | Missing
    driver: DriverId | str | Missing
    firmware: str | Missing
    board_id: str | Missing
    node_guid: str | Missing
    sys_image_guid: str | Missing
    numa_node: int | Missing
    pci: PciFunction | Missing
    uverbs: str | None
    # With `uverbs`, what libibverbs compares when it looks again: while both stay, a program that
    # runs keeps the device, by its old name even (same_sysfs_dev of rdma-core, init.c).
    index: int | Missing  # RDMA_NLDEV_ATTR_DEV_INDEX; without it the time that sysfs was made
    ports: tuple[PortRow, ...]
    discovery: DiscoveryPath | None  # step by step until verbs can use it; Linux


def inventory(devices: Iterable[DeviceView], evidence: Evidence) -> tuple[DeviceRow, ...]:
    """One row a device, in the devices' order."""
    return tuple(_row(device, evidence) for device in devices)


def _row(device: DeviceView, evidence: Evidence) -> DeviceRow:
    seen = SeenBy(
        sysfs=_sighting(evidence.sysfs, device.sysfs),
        nldev=_sighting(evidence.nldev, device.nldev),
        verbs=_verbs(device.name, evidence),
        uverbs_node=_node(device, evidence),
    )
    nothing = unshown(evidence, "device")
    sysfs, pci = device.sysfs, device.pci
    return DeviceRow(
        name=device.name,
        seen_by=seen,
        why_not=tuple(_why_not(device, seen, evidence)),
        node_type=_of(device, "node_type", evidence),
        driver=NOT_ON_MACOS if evidence.is_mac else device.driver,
        firmware=_of(device, "firmware", evidence),
        board_id=sysfs.board_id if sysfs else nothing,
        node_guid=_node_guid(device, evidence),
        sys_image_guid=_guid(_of(device, "sys_image_guid", evidence), evidence),
        numa_node=pci if isinstance(pci, Missing) else pci.numa_node,
        pci=pci,
        uverbs=device.uverbs,
        index=device.nldev.index if device.nldev else no_nldev(evidence),
        ports=tuple(_port(port, evidence) for port in device.ports),
        discovery=walk(device, evidence),
    )


_REGISTRY_ALONE: Final = Missing(Why.ABSENT, "the registry alone names it")


def _of(device: DeviceView, name: str, evidence: Evidence) -> Any:
    """A value of the first witness that shows the device."""
    witness = device.sysfs or device.nldev or device.verbs
    if witness is None:
        return _REGISTRY_ALONE
    value = getattr(witness, name)
    # What librdma leaves empty, macOS does not have.
    empty = isinstance(value, Missing) and value.why is Why.ABSENT and evidence.is_mac
    return NOT_ON_MACOS if empty else value


def _node_guid(device: DeviceView, evidence: Evidence) -> str | Missing:
    """On a Mac the registry's where the query gives none."""
    value = _guid(_of(device, "node_guid", evidence), evidence)
    registry = known(evidence.ioreg)
    found = registry.interface(device.name) if registry else None
    return first_known(value, found.node_guid) if found else value


def _guid(value: str | Missing, evidence: Evidence) -> str | Missing:
    """A Mac's library fills in zeros for what it does not have."""
    return NOT_ON_MACOS if evidence.is_mac and value == _ZERO_GUID else value


_ZERO_GUID: Final = "0000:0000:0000:0000"


def _port(port: PortView, evidence: Evidence) -> PortRow:
    return PortRow(
        port=port.number,
        state=port.state,
        phys_state=port.phys_state,
        link_layer=port.link_layer,
        protocol=port.protocol,
        rate=port.rate,
        rate_gbps=port.rate_gbps,
        width=port.width,
        lid=port.lid,
        sm_lid=port.sm_lid,
        netdev=port.netdev,
        netdev_index=port.nldev.netdev_index if port.nldev else no_nldev(evidence),
    )


def _sighting(source: object, found: object | None) -> Sighting:
    if isinstance(source, Missing):
        return source
    return found is not None


def _verbs(name: str, evidence: Evidence) -> Sighting:
    if isinstance(evidence.verbs, Missing):
        return evidence.verbs
    return evidence.verbs.device(name) is not None


def _node(device: DeviceView, evidence: Evidence) -> Sighting:
    access = node_access(device, evidence)
    return access if isinstance(access, Missing) else access.node is not None


def _why_not(device: DeviceView, seen: SeenBy, evidence: Evidence) -> Iterable[str]:
    """One sentence for each witness that looked and did not see the device."""
    if seen.sysfs is False:
        yield f"sysfs does not show it: {_hidden(evidence)}"
    else:
        yield from without_ports((device,), evidence).values()
    if seen.nldev is False:
        yield f"nldev does not show it: {_hidden(evidence)}"
    answered = provider(device, evidence)
    if answered in _VERBS_SAYS:
        yield _VERBS_SAYS[answered]
    yield from _without_node(device, seen, evidence)


_VERBS_SAYS: Final = {
    Provider.NOT_LISTED: "the verbs library does not list it",
    Provider.REFUSED: "the verbs library cannot open it",
}


def _without_node(device: DeviceView, seen: SeenBy, evidence: Evidence) -> Iterable[str]:
    if seen.uverbs_node is False:
        container = None if isinstance(evidence.process, Missing) else evidence.process.container
        if device.uverbs is None:
            cause = "ib_uverbs is not loaded, or does not serve it"
        elif container:
            cause = f"/dev/infiniband/{device.uverbs} is not mounted into the container"
        else:
            cause = f"udev has not made /dev/infiniband/{device.uverbs}"
        yield f"no character device: {cause}"
    access = node_access(device, evidence)
    if not isinstance(access, Missing) and access.node and access.node.openable is False:
        node = access.node
        yield f"this user may not open /dev/infiniband/{node.name} ({node.mode})"


def _hidden(evidence: Evidence) -> str:
    mode: NetnsMode | Missing | Literal[""] = (
        "" if isinstance(evidence.nldev, Missing) else evidence.nldev.netns_mode
    )
    if mode is NetnsMode.EXCLUSIVE:
        return "netns mode is exclusive, and the device is in another network namespace"
    return "it came or went between the two reads, or is in another network namespace"
