"""The worked examples: common tables of mlx5, of virtual functions, and of Thunderbolt."""

from collections.abc import Mapping, Sequence

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.registry import chosen
from rdmadiag.gid.route import Route, select_route_gid
from rdmadiag.gid.stack import pick

V1, V2, IB = GidType.ROCE_V1, GidType.ROCE_V2, GidType.IB
FE80, OTHER_FE80 = "fe80::e42:a1ff:fe00:1", "fe80::8c1:22ff:fe33:4"
IPV4, PRIVATE, IPV6 = "::ffff:192.168.1.5", "::ffff:10.0.0.5", "2001:db8::5"
NONE = Missing(Why.ABSENT)

Row = tuple[int, str, GidType]


def table(
    *rows: Row,
    layer: LinkLayer = LinkLayer.ETHERNET,
    length: int = 16,
    lid: int | None = None,
    netdev: str | Missing = "eth0",
    netdevs: Mapping[str, NetDevState] | None = None,
    port: int = 1,
    unassigned: Sequence[int] = (),
) -> PortTable:
    """A port with these rows, and holes between them."""
    own = NONE if layer is LinkLayer.INFINIBAND else netdev
    entries = [GidEntry(index, Gid.parse(gid), kind, own) for index, gid, kind in rows]
    route = select_route_gid(entries, layer, None, netdevs, unassigned)
    return PortTable(
        "mlx5_0",
        port,
        layer,
        tuple(entries),
        length,
        lid=lid,
        netdevs=netdevs or {},
        unassigned=unassigned,
        route=route.entry if isinstance(route, Route) else None,
    )


def twins(*gids: str) -> tuple[Row, ...]:
    """Each GID as v1 and v2."""
    rows = [(gid, kind) for gid in gids for kind in (V1, V2)]
    return tuple((index, gid, kind) for index, (gid, kind) in enumerate(rows))


A1 = table(*twins(FE80, IPV4, IPV6))
A2 = table(*twins(FE80, PRIVATE, IPV6))
A3 = table(*twins(FE80, IPV6))
A4 = table(*twins(FE80, OTHER_FE80, IPV4))
B = table((0, "fe80::c42:a103:0:1", IB), layer=LinkLayer.INFINIBAND, lid=7, length=8)
C1 = table((3, IPV4, V2))
C2 = table((3, FE80, V2))
D1 = table((0, FE80, IB), (1, "::ffff:169.254.5.6", IB), layer=LinkLayer.THUNDERBOLT, length=32)
D2 = table((0, FE80, IB), layer=LinkLayer.THUNDERBOLT, length=32)
V2_ONLY = table((0, FE80, V2), (1, IPV4, V2))
FLID = table(
    (0, "fe80::c42:a103:0:1", IB),
    (1, "fec0:0:7::c42:a103:0:1", IB),
    layer=LinkLayer.INFINIBAND,
    lid=7,
    length=8,
)
FLID_OPENIB = table(
    (0, "fe80::c42:a103:0:1", IB),
    (1, "fec0:0:7::14:500:0:1", IB),
    layer=LinkLayer.INFINIBAND,
    lid=7,
    length=8,
)


def picked(stack: str, subject: PortTable, **environment: str) -> Pick:
    """What one stack, "nccl" or "nccl@2.20", would use; the newest version by default."""
    found, version = chosen([stack])[0]
    return pick(found, version, subject, environment)


def cell(stack: str, subject: PortTable, **environment: str) -> int | str:
    """As the table of worked examples writes it."""
    found = picked(stack, subject, **environment)
    if found.outcome is Outcome.ENTRY or (found.outcome is Outcome.LID and found.index is not None):
        assert found.index is not None
        return found.index
    words = {Outcome.EMPTY: f"{found.index} empty", Outcome.OUTSIDE: f"{found.index} outside"}
    return words.get(found.outcome, found.outcome.value)
