"""GID tables as documents print them: the rows, the route, and what stacks would pick."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.facts.ib import GidType, LinkLayer, PortState
from rdmadiag.gid.netdev import NetDevState, netdev_state
from rdmadiag.gid.pick import Pick
from rdmadiag.gid.route import Route
from rdmadiag.gid.stacks import x_rdma
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """One entry that is not empty."""

    index: int
    gid: str
    raw: str  # as sysfs writes it
    ipv4: str | None
    family: Family
    type: GidType | Missing
    netdev: str | Missing
    netdev_state: NetDevState
    scope: Scope


@dataclass(frozen=True, slots=True)
class RouteRow:
    """The entry that RTR's address vector will use."""

    index: int
    gid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Table:
    """A port's GIDs."""

    device: str
    port: int
    link_layer: LinkLayer | Missing
    protocol: Protocol
    state: PortState | Missing
    gid_table_length: int | None
    gids_asked: int | None  # rows that were asked for, from 0; None is all of them
    gids: tuple[Row, ...]
    unreadable: dict[int, Missing]
    missing: Missing | None  # why there is no table
    route: RouteRow | None
    no_route: str | None  # why there is no route
    stacks: tuple[Pick, ...]


def tables(
    devices: Iterable[DeviceView], stacks: Callable[[PortView], tuple[Pick, ...]] | None = None
) -> tuple[Table, ...]:
    """One table a port, in the devices' order; without `stacks`, x/rdma is the only one."""
    ask = stacks or _x_rdma
    return tuple(_table(port, ask(port)) for device in devices for port in device.ports)


def _x_rdma(port: PortView) -> tuple[Pick, ...]:
    layer = LinkLayer.UNSPECIFIED if isinstance(port.link_layer, Missing) else port.link_layer
    return () if isinstance(port.gids, Missing) else (x_rdma.pick(port.gids.entries, layer),)


def _table(port: PortView, stacks: tuple[Pick, ...]) -> Table:
    gids = port.gids
    entries = gids.entries if not isinstance(gids, Missing) else ()
    route = port.route
    return Table(
        device=port.device,
        port=port.number,
        link_layer=port.link_layer,
        protocol=port.protocol,
        state=port.state,
        gid_table_length=None if isinstance(gids, Missing) else gids.length,
        gids_asked=None if isinstance(gids, Missing) else gids.asked,
        gids=tuple(_row(entry, port) for entry in entries),
        unreadable={} if isinstance(gids, Missing) else gids.unreadable,
        missing=gids if isinstance(gids, Missing) else None,
        route=(
            RouteRow(route.index, str(route.gid), route.reason)
            if isinstance(route, Route)
            else None
        ),
        no_route=None if isinstance(route, Route) else route.reason,
        stacks=stacks,
    )


def _row(entry: GidEntry, port: PortView) -> Row:
    gid = entry.gid
    return Row(
        index=entry.index,
        gid=str(gid),
        raw=gid.groups,
        ipv4=gid.ipv4,
        family=gid.family,
        type=entry.type,
        netdev=entry.netdev,
        netdev_state=netdev_state(entry, port.netdevs),
        scope=gid.scope,
    )
