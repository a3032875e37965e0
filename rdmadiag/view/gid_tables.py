"""Each port with what stacks would pick from its GID table."""

from collections.abc import Callable, Iterable, Sequence

from rdmadiag.facts import Missing, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.gid.pick import Pick
from rdmadiag.gid.route import Route
from rdmadiag.gid.stacks import x_rdma
from rdmadiag.view.reconcile import DeviceView, PortView


@dataclass(frozen=True, slots=True)
class PortPicks:
    """A port, and what each stack would pick on it."""

    port: PortView
    stacks: tuple[Pick, ...]

    @property
    def missing(self) -> Missing | None:
        """Why there is no table; None where there is one."""
        return self.port.gids if isinstance(self.port.gids, Missing) else None

    @property
    def route(self) -> Route | None:
        """The row that RTR's address vector will use, if there is one."""
        return self.port.route if isinstance(self.port.route, Route) else None

    @property
    def routes_by_dead_netdev(self) -> bool:
        """Whether the routed row's netdev is down or elsewhere."""
        return self.port.route_netdev_state in (NetDevState.DOWN, NetDevState.ABSENT)


def openable(devices: Sequence[DeviceView], evidence: Evidence) -> tuple[DeviceView, ...]:
    """Without those that no program opens though it opens another one of the same PCI function.

    So are the devices for subnet management alone; RDMA netlink would say so by their type, and
    GID tables are read without it. All of them where it is not known which have a node.
    """
    sysfs = known(evidence.sysfs)
    nodes = known(sysfs.uverbs) if sysfs else None
    if nodes is None or any(isinstance(each.device, Missing) for each in nodes):
        return tuple(devices)
    opened = {each.device for each in nodes}
    functions = {_function(each) for each in devices if each.name in opened}
    return tuple(
        each
        for each in devices
        if each.name in opened or (function := _function(each)) is None or function not in functions
    )


def _function(device: DeviceView) -> str | None:
    return None if isinstance(device.pci, Missing) else device.pci.address


def tables(
    devices: Iterable[DeviceView], stacks: Callable[[PortView], tuple[Pick, ...]] | None = None
) -> tuple[PortPicks, ...]:
    """One a port, in the devices' order; without `stacks`, x/rdma is the only one."""
    picks = stacks or _x_rdma
    return tuple(PortPicks(port, picks(port)) for device in devices for port in device.ports)


def _x_rdma(port: PortView) -> tuple[Pick, ...]:
    layer = LinkLayer.UNSPECIFIED if isinstance(port.link_layer, Missing) else port.link_layer
    return () if isinstance(port.gids, Missing) else (x_rdma.pick(port.gids.entries, layer),)
