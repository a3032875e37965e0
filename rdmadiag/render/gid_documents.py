"""The rows of `gids --json`: what is printed of a GID table and of a pick."""

from collections.abc import Iterable

from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.facts.ib import GidType, LinkLayer, PortState
from rdmadiag.frozen import dataclass
from rdmadiag.gid import pick as gid_pick
from rdmadiag.gid.netdev import NetDevState, Unusable, netdev_state
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.route import Route
from rdmadiag.view.gid_tables import PortPicks
from rdmadiag.view.reconcile import PortView, Protocol


@dataclass(frozen=True, slots=True)
class Row(WithNumbers):
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
    unusable: Unusable | None  # by duplicate address detection; None: nothing says so


@dataclass(frozen=True, slots=True)
class RouteRow:
    """The entry that RTR's address vector will use."""

    index: int
    gid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pick(WithNumbers):
    """Which index a stack would use for a port, and why that may fail."""

    stack: str
    version: str
    index: int | None
    why: str
    problem: str | None
    outcome: Outcome = Outcome.ENTRY
    gid: str | None = None
    type: GidType | None = None
    scope: Scope | None = None
    netdev: str | None = None
    agrees: bool | None = None
    advertised_index: int | None = None
    pinned_by: str | None = None
    assumed: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Table(WithNumbers):
    """A port's GIDs."""

    device: str
    port: int
    link_layer: LinkLayer | Missing
    protocol: Protocol
    state: PortState | Missing
    gid_table_length: int | None
    gids_asked: int | None  # rows that were read, from 0; None is all of them
    gids: tuple[Row, ...]
    unreadable: dict[int, Missing]
    missing: Missing | None  # why there is no table
    route: RouteRow | None
    no_route: str | None  # why there is no route
    stacks: tuple[Pick, ...]


def tables(every: Iterable[PortPicks]) -> tuple[Table, ...]:
    """`.ports` of the document."""
    return tuple(map(_table, every))


def _table(one: PortPicks) -> Table:
    port = one.port
    gids = None if isinstance(port.gids, Missing) else port.gids
    route = port.route
    return Table(
        device=port.device,
        port=port.number,
        link_layer=port.link_layer,
        protocol=port.protocol,
        state=port.state,
        gid_table_length=gids.length if gids else None,
        gids_asked=gids.asked if gids else None,
        gids=tuple(_row(entry, port) for entry in gids.entries) if gids else (),
        unreadable=gids.unreadable if gids else {},
        missing=one.missing,
        route=(
            RouteRow(route.index, str(route.gid), route.reason)
            if isinstance(route, Route)
            else None
        ),
        no_route=None if isinstance(route, Route) else route.reason,
        stacks=tuple(map(pick_row, one.stacks)),
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
        unusable=port.unusable.get(entry.index),
    )


def pick_row(pick: gid_pick.Pick) -> Pick:
    """What is printed of a pick."""
    entry = pick.entry
    return Pick(
        stack=pick.stack,
        version=pick.version,
        index=pick.index,
        why=pick.why,
        problem=pick.problem,
        outcome=pick.outcome,
        gid=str(entry.gid) if entry else None,
        type=entry.known_type if entry else None,
        scope=entry.scope if entry else None,
        netdev=entry.netdev_name if entry else None,
        agrees=pick.agrees,
        advertised_index=pick.advertised_index,
        pinned_by=pick.pinned_by,
        assumed=pick.assumed,
        source=pick.source,
    )
