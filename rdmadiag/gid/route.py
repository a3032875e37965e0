"""The one policy: which GID the address vector of RTR will use.

>>> from rdmadiag.facts import GidEntry
>>> from rdmadiag.facts.gid import Gid
>>> from rdmadiag.facts.ib import GidType, LinkLayer
>>> table = [
...     GidEntry(0, Gid.parse("fe80::1"), GidType.ROCE_V2, "eth0"),
...     GidEntry(1, Gid.parse("::ffff:192.0.2.1"), GidType.ROCE_V1, "eth0"),
...     GidEntry(2, Gid.parse("::ffff:192.0.2.1"), GidType.ROCE_V2, "eth0"),
... ]
>>> route = select_route_gid(table, LinkLayer.ETHERNET)
>>> route.index, route.reason
(2, 'RoCE v2 with an IPv4 address')

The same of rows as `rdmadiag gids --json` prints them, here on Thunderbolt:

>>> rows = [{"index": 0, "gid": "fe80::1"}, {"index": 2, "gid": "::ffff:169.254.1.2"}]
>>> select_route_gid_info(rows, LinkLayer.THUNDERBOLT).index
2
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Family, Gid, Scope
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NOT_HERE, NetDevState, Unusable, netdev_state
from rdmadiag.gid.stacks import x_rdma


@dataclass(frozen=True, slots=True)
class Route:
    """The chosen row and why it was chosen."""

    entry: GidEntry
    reason: str

    @property
    def index(self) -> int:
        """The row's."""
        return self.entry.index

    @property
    def gid(self) -> Gid:
        """The row's."""
        return self.entry.gid


@dataclass(frozen=True, slots=True)
class NoRoute:
    """No entry can be used, and why."""

    reason: str


_TYPE_RANK: Final = {GidType.ROCE_V2: 0, GidType.ROCE_V1: 2, GidType.IB: 2}
_UNKNOWN_TYPE_RANK: Final = 1
_TYPE_TEXT: Final = {
    GidType.ROCE_V2: "RoCE v2",
    GidType.ROCE_V1: "RoCE v1, as there is no usable RoCE v2 entry,",
    GidType.IB: "RoCE v1, as there is no usable RoCE v2 entry,",
}


def select_route_gid(
    entries: Sequence[GidEntry],
    link_layer: LinkLayer,
    preferred: int | None = None,
    netdevs: Mapping[str, NetDevState] | None = None,
    unassigned: Collection[int] = (),
    unusable: Mapping[int, Unusable] | None = None,
) -> Route | NoRoute:
    """The route GID of a port.

    `entries` in table order, `preferred` an explicit index that must name a non-zero
    entry (None or, as in x/rdma, a negative one: none), `netdevs` the state of each netdev
    that entries name (one that is not in it is unknown, and counts like one that is up),
    `unassigned` the indexes of link-local entries whose address the netdev does not have,
    `unusable` the rows whose address its netdev has and must not use: none of them is chosen.
    """
    candidates = [entry for entry in entries if not entry.gid.is_zero]
    if preferred is not None and preferred >= 0:
        return _explicit(candidates, preferred)
    if unusable and candidates and all(entry.index in unusable for entry in candidates):
        return NoRoute(_nothing_usable(candidates[0], unusable))
    candidates = [entry for entry in candidates if entry.index not in (unusable or ())]
    if link_layer is LinkLayer.ETHERNET:
        return _ethernet(candidates, netdevs or {}, unassigned)
    if link_layer is LinkLayer.INFINIBAND:
        return _infiniband(candidates)
    chosen = x_rdma.select(candidates, link_layer)
    if chosen is None:
        return NoRoute(x_rdma.refusal(candidates, link_layer))
    return Route(chosen, x_rdma.explain(chosen))


def select_route_gid_info(
    rows: Iterable[Mapping[str, Any]], link_layer: LinkLayer, preferred: int | None = None
) -> Route | NoRoute:
    """The same policy on rows of a document: `index`, `gid`, and `type` where it is known.

    Rows of x/rdma's GIDInfo too: `Index`, `Raw` (32 hexadecimal digits), `IPv4Mapped`. Raises
    ValueError for a GID that is none, or is not what `IPv4Mapped` says; KeyError for an unknown
    type or a row without the first two.
    """
    return select_route_gid([_entry(row) for row in rows], link_layer, preferred)


def _entry(row: Mapping[str, Any]) -> GidEntry:
    if "Raw" in row:
        gid = Gid(bytes.fromhex(row["Raw"]))
        if row.get("IPv4Mapped", gid.is_ipv4_mapped) is not gid.is_ipv4_mapped:
            raise ValueError(f"IPv4Mapped is {row['IPv4Mapped']} of {gid}")
        return GidEntry(int(row["Index"]), gid, _NOT_IN_DOCUMENT, _NOT_IN_DOCUMENT)
    return GidEntry(
        int(row["index"]),
        Gid.parse(row["gid"]),
        _TYPES[row["type"]] if isinstance(row.get("type"), str) else _NOT_IN_DOCUMENT,
        row["netdev"] if isinstance(row.get("netdev"), str) else _NOT_IN_DOCUMENT,
    )


_TYPES: Final = {kind.value: kind for kind in GidType}
_NOT_IN_DOCUMENT: Final = Missing(Why.NOT_COLLECTED, "not in the document")


def _explicit(candidates: Sequence[GidEntry], preferred: int) -> Route | NoRoute:
    for entry in candidates:
        if entry.index == preferred:
            return Route(entry, "asked for by index")
    return NoRoute(f"index {preferred}, which was asked for, is empty or beyond the table")


def _nothing_usable(entry: GidEntry, unusable: Mapping[int, Unusable]) -> str:
    if unusable[entry.index] is Unusable.DUPLICATE:
        return f"{entry.gid} is on another host too: duplicate address detection failed"
    return f"{entry.gid} is tentative: duplicate address detection has not ended"


def _infiniband(candidates: Sequence[GidEntry]) -> Route | NoRoute:
    for entry in candidates:
        if entry.index == 0:
            return Route(entry, "InfiniBand routes by LID; GID 0 serves where a GRH is needed")
    return NoRoute("InfiniBand routes by LID; GID 0 is empty")


def _ethernet(
    candidates: Sequence[GidEntry],
    netdevs: Mapping[str, NetDevState],
    unassigned: Collection[int],
) -> Route | NoRoute:
    """RoCE v2 before v1; IPv4, global IPv6, link-local; what has no live netdev comes last.

    x/rdma's rule takes the first IPv4 entry whatever its type, which on most NICs is
    the RoCE v1 twin of the one that routers forward.
    """
    if not candidates:
        return NoRoute("every GID of the port is empty")
    best = min(candidates, key=lambda entry: _rank(entry, netdevs, unassigned))
    reason = f"{_type_text(best)} with {_address_text(best)}"
    state = netdev_state(best, netdevs)
    if state is NetDevState.DOWN:
        reason += f"; its netdev {best.netdev} is down"
    elif state in NOT_HERE:
        known = state is NetDevState.ELSEWHERE
        where = "in another" if known else "not in this"
        reason += f"; its netdev {best.netdev} is {where} network namespace"
    if best.index in unassigned:
        reason += f"; {best.netdev} does not have that address"
    return Route(best, reason)


def _rank(
    entry: GidEntry, netdevs: Mapping[str, NetDevState], unassigned: Collection[int]
) -> tuple[bool, int, int, int]:
    dead = netdev_state(entry, netdevs) in (NetDevState.DOWN, *NOT_HERE)
    kind = _UNKNOWN_TYPE_RANK if isinstance(entry.type, Missing) else _TYPE_RANK[entry.type]
    if entry.gid.scope is Scope.LINK_LOCAL:
        # 169.254.0.0/16 does not leave the link either, but needs no zone index.
        reach = 2 if entry.gid.family is Family.IPV4 else 3
        # The default GID (EUI-64 of the MAC) is there whatever addresses the netdev has.
        reach += entry.index in unassigned
    else:
        reach = 0 if entry.gid.family is Family.IPV4 else 1
    return dead, kind, reach, entry.index


def _type_text(entry: GidEntry) -> str:
    return "unknown type" if isinstance(entry.type, Missing) else _TYPE_TEXT[entry.type]


def _address_text(entry: GidEntry) -> str:
    family = "IPv4" if entry.gid.family is Family.IPV4 else "IPv6"
    if entry.gid.scope is Scope.LINK_LOCAL:
        return f"a link-local {family} address"
    return f"an {family} address" if family == "IPv4" else "a routable IPv6 address"
