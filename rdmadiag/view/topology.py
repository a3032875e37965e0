"""How near each adapter is to each GPU, and which ones a job is best given.

The words for distance are those of `nvidia-smi topo -m` and NCCL (graph/topo.h): what lies
between the two decides, as far as links of sysfs and NUMA nodes show it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import is_device_name
from rdmadiag.facts.routing import RouteKind, RoutingFacts
from rdmadiag.facts.topology import Adapter, GpuFunction, GpuKind, Place, TopologyFacts
from rdmadiag.frozen import dataclass
from rdmadiag.view.reconcile import DeviceView, PortView, natural

BLUEFIELD: Final = ("0xa2d2", "0xa2d6", "0xa2dc")
"""PCI ids of BlueField 1 to 3 (pci.ids, 15b3): on hosts with other adapters too they are for
storage and management."""

_MOST_ABOVE: Final = 3  # a bond below a bridge below a VRF
_MELLANOX: Final = "0x15b3"
_DEFAULTS: Final = ("0.0.0.0/0", "::/0")


class Distance(StrEnum):
    """What lies between a GPU and an adapter; the nearest first."""

    PIX = "pix"  # one switch, or one root port
    PXB = "pxb"  # several switches, and no host bridge
    PHB = "phb"  # one host bridge
    NODE = "node"  # host bridges of one NUMA node
    SYS = "sys"  # the link between NUMA nodes
    UNKNOWN = "unknown"

    @property
    def is_below_a_switch(self) -> bool:
        """Whether data need not pass the host bridge."""
        return self in (Distance.PIX, Distance.PXB)

    @property
    def rank(self) -> int:
        """0 for the nearest."""
        return list(Distance).index(self)


class Left(StrEnum):
    """Why a port is not proposed."""

    NOT_ACTIVE = "not_active"
    NOT_ON_PCI = "not_on_pci"  # software, or a function that was not seen
    DEFAULT_ROUTE = "default_route"
    BLUEFIELD = "bluefield"  # beside adapters of another kind
    VIRTUAL_FUNCTION = "virtual_function"  # of a function that is here too


@dataclass(frozen=True, slots=True)
class Nic:
    """A port of an RDMA device."""

    device: str
    port: int
    address: str | Missing
    numa_node: int | None  # None: not known
    place: Place | Missing
    netdev: str | Missing
    rate_gbps: float | Missing
    active: bool
    left: Left | None  # None: it is proposed

    @property
    def name(self) -> str:
        """DEVICE/PORT."""
        return f"{self.device}/{self.port}"

    @property
    def for_ucx(self) -> str:
        """DEVICE:PORT."""
        return f"{self.device}:{self.port}"


@dataclass(frozen=True, slots=True)
class Near:
    """A port as a GPU sees it."""

    device: str
    port: int
    distance: Distance


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU, in the order of their PCI addresses (CUDA_DEVICE_ORDER=PCI_BUS_ID)."""

    name: str  # "GPU0", "ACC0"
    function: GpuFunction
    numa_node: int | None
    nics: tuple[Near, ...]  # the proposed ports, the nearest first
    chosen: tuple[str, ...]  # "mlx5_0:1": of the nearest its share

    @property
    def nearest(self) -> Distance:
        """Of the proposed ports."""
        return self.nics[0].distance if self.nics else Distance.UNKNOWN


@dataclass(frozen=True, slots=True)
class Export:
    """A variable to set."""

    of: str  # "host", "GPU0", "NUMA node 0"
    variable: str
    value: str


@dataclass(frozen=True, slots=True)
class Topology:
    """One host."""

    gpus: tuple[GpuView, ...]
    nics: tuple[Nic, ...]
    exports: tuple[Export, ...]
    missing: Mapping[str, Missing]  # "gpus", "adapters", "default route": what could not be read

    @property
    def proposed(self) -> tuple[Nic, ...]:
        """The ports that a job is best given."""
        return tuple(nic for nic in self.nics if nic.left is None)


def topology(devices: Sequence[DeviceView], evidence: Evidence) -> Topology:
    """From all devices, or those that were selected."""
    facts = evidence.topology
    gpus, adapters, missing = _parts(facts)
    uplinks = _uplinks(evidence.routing)
    if isinstance(uplinks, Missing):
        missing["default route"] = uplinks
    carriers = frozenset() if isinstance(uplinks, Missing) else uplinks
    nics = _nics(devices, {each.device: each for each in adapters}, carriers)
    candidates = [nic for nic in nics if nic.left is None]
    views = tuple(_gpus(gpus, candidates))
    return Topology(views, nics, tuple(_exports(views, candidates)), missing)


def _parts(
    facts: TopologyFacts | Missing,
) -> tuple[tuple[GpuFunction, ...], tuple[Adapter, ...], dict[str, Missing]]:
    if isinstance(facts, Missing):
        return (), (), {"topology": facts}
    missing = {
        name: value
        for name, value in (("gpus", facts.gpus), ("adapters", facts.adapters))
        # A host without PCI has no GPU, and one without ib_core no adapter.
        if isinstance(value, Missing) and value.why is not Why.ABSENT
    }
    return tuple(present(facts.gpus)), tuple(present(facts.adapters)), missing


# --- adapters ------------------------------------------------------------------------------


def _uplinks(routing: RoutingFacts | Missing) -> frozenset[str] | Missing:
    """The netdevs that the best default route of the main table leaves by, and their legs."""
    if isinstance(routing, Missing):
        return routing
    if isinstance(routing.routes, Missing):
        return routing.routes
    for destination in _DEFAULTS:
        rows = [
            row
            for row in routing.routes
            if row.destination == destination and row.table == 254 and row.kind is RouteKind.UNICAST
        ]
        if rows:
            least = min(row.metric for row in rows)
            found = {hop.netdev for row in rows if row.metric == least for hop in row.hops}
            for _ in range(_MOST_ABOVE):
                found |= {link.name for link in routing.links if link.master in found}
            return frozenset(found)
    return frozenset()


def _nics(
    devices: Sequence[DeviceView], adapters: Mapping[str, Adapter], uplinks: frozenset[str]
) -> tuple[Nic, ...]:
    found = [
        (device, _nic(device, port, adapters.get(device.name), uplinks))
        for device in sorted(devices, key=lambda each: natural(each.name))
        for port in device.ports
    ]
    physical = {str(each.address) for each in adapters.values()}
    # Where a host has but these, they are what there is.
    others = any(nic.left is None and not _is_bluefield(device) for device, nic in found)
    rows = []
    for device, nic in found:
        own = adapters.get(device.name)
        left = nic.left
        if left is None and own and own.physical_function in physical:
            left = Left.VIRTUAL_FUNCTION
        elif left is None and others and _is_bluefield(device):
            left = Left.BLUEFIELD
        rows.append(replace(nic, left=left))
    if not any(nic.left is None for nic in rows):
        rows = [replace(nic, left=None) if nic.left is Left.DEFAULT_ROUTE else nic for nic in rows]
    return tuple(rows)


def _nic(device: DeviceView, port: PortView, own: Adapter | None, uplinks: frozenset[str]) -> Nic:
    unseen = Missing(Why.NOT_COLLECTED, "its PCI function was not looked at")
    place = own.place if own else unseen
    left = None
    if isinstance(place, Missing) or not is_device_name(device.name):
        left = Left.NOT_ON_PCI
    elif not port.is_active:
        left = Left.NOT_ACTIVE
    elif uplinks & ({str(port.netdev)} | port.netdevs_here):
        left = Left.DEFAULT_ROUTE
    return Nic(
        device.name,
        port.number,
        own.address if own else unseen,
        None if isinstance(device.pci, Missing) else _node(device.pci.numa_node),
        place,
        port.netdev,
        port.rate_gbps,
        port.is_active,
        left,
    )


def _is_bluefield(device: DeviceView) -> bool:
    pci = device.pci
    return not isinstance(pci, Missing) and pci.vendor == _MELLANOX and pci.device in BLUEFIELD


def _node(number: int | Missing) -> int | None:
    return None if isinstance(number, Missing) or number < 0 else number


# --- distances -----------------------------------------------------------------------------


def distance(
    first: Place | Missing, one: int | None, second: Place | Missing, other: int | None
) -> Distance:
    """Between two functions, with the NUMA node of each."""
    if isinstance(first, Missing) or isinstance(second, Missing):
        return Distance.UNKNOWN
    if first.root == second.root:
        shared = 0
        for here, there in zip(first.bridges, second.bridges, strict=False):
            if here != there:
                break
            shared += 1
        if not shared:
            return Distance.PHB
        # Below the switch that they share each has the port of that switch alone.
        deepest = max(len(first.bridges), len(second.bridges)) - shared
        return Distance.PIX if deepest <= 1 else Distance.PXB
    if one is None or other is None:
        return Distance.UNKNOWN
    return Distance.NODE if one == other else Distance.SYS


def _gpus(functions: Sequence[GpuFunction], nics: Sequence[Nic]) -> Iterator[GpuView]:
    numbers = dict.fromkeys(GpuKind, 0)
    made = []
    for each in sorted(functions, key=lambda each: each.address):
        name = f"{'GPU' if each.kind is GpuKind.GPU else 'ACC'}{numbers[each.kind]}"
        numbers[each.kind] += 1
        node = _node(each.numa_node)
        rows = [
            Near(nic.device, nic.port, distance(each.place, node, nic.place, nic.numa_node))
            for nic in nics
        ]
        made.append((name, each, node, tuple(sorted(rows, key=lambda row: row.distance.rank))))
    alike: dict[tuple[str, ...], list[str]] = {}  # the nearest ports → the GPUs that share them
    nearest = {name: _nearest(near) for name, _, _, near in made}
    for name, ports in nearest.items():
        alike.setdefault(ports, []).append(name)
    for name, function, node, near in made:
        ports = nearest[name]
        group = alike[ports]
        yield GpuView(name, function, node, near, _share(ports, group.index(name), len(group)))


def _nearest(near: Sequence[Near]) -> tuple[str, ...]:
    known = [each for each in near if each.distance is not Distance.UNKNOWN]
    return tuple(
        f"{each.device}:{each.port}" for each in known if each.distance is known[0].distance
    )


def _share(ports: tuple[str, ...], at: int, of: int) -> tuple[str, ...]:
    """What the GPU at `at` of `of` gets: each as many, and none without one."""
    if len(ports) <= of:
        return ports[at * len(ports) // of :][:1]
    return ports[at * len(ports) // of : (at + 1) * len(ports) // of]


# --- what to set ---------------------------------------------------------------------------


def _exports(gpus: Sequence[GpuView], nics: Sequence[Nic]) -> Iterator[Export]:
    if not nics:
        return
    chosen = {name for gpu in gpus for name in gpu.chosen}
    own = [nic for nic in nics if nic.for_ucx in chosen] or list(nics)
    yield Export("host", "NCCL_IB_HCA", for_nccl(own))
    if not gpus:
        nodes = dict.fromkeys(nic.numa_node for nic in nics)
        for node in sorted(nodes, key=lambda each: -1 if each is None else each):
            there = ",".join(nic.for_ucx for nic in nics if nic.numa_node == node)
            name = "host" if node is None else f"NUMA node {node}"
            yield Export(name, "UCX_NET_DEVICES", there)
    for gpu in gpus:
        if gpu.chosen:
            yield Export(gpu.name, "UCX_NET_DEVICES", ",".join(gpu.chosen))


def for_nccl(nics: Sequence[Nic]) -> str:
    """A list of exact names: "=mlx5_0,mlx5_1:2"."""
    ports: dict[str, list[int]] = {}
    for nic in nics:
        ports.setdefault(nic.device, []).append(nic.port)
    names = (
        name if numbers == [1] else ",".join(f"{name}:{number}" for number in numbers)
        for name, numbers in ports.items()
    )
    return "=" + ",".join(names)
