"""A port's GID table as a program sees it: every row up to its length, empty ones too.

`ibv_query_gid` succeeds on an empty row and gives sixteen zero bytes, so that to most
programs a hole is an IPv6 address like any other (rdma-core, libibverbs/verbs.c;
drivers/infiniband/core/cache.c).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.gid import Family, Gid, Scope
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.gid.netdev import NetDevState, netdev_state

ZERO: Final = bytes(16)
_IPV4_MULTICAST: Final = b"\xff\x0e" + bytes(8) + b"\xff\xff"
_LINK_LOCAL_64: Final = b"\xfe\x80" + bytes(6)
_NO_INTERFACE_ID: Final = bytes(8)


class Slot(NamedTuple):
    """One row. A tuple, as there are tens of thousands of them on large hosts."""

    raw: bytes
    is_empty: bool
    is_ipv4: bool  # ::ffff:a.b.c.d
    family: Family  # as NCCL, UCX and perftest tell it: IPv4 multicast counts as IPv4
    is_link_local_10: bool  # fe80::/10
    is_link_local_64: bool  # fe80::/64
    has_interface_id: bool  # raw[8:16] is not zero
    type: GidType | None  # None: not known, or an empty row
    netdev: str | None
    netdev_state: NetDevState
    is_assigned: bool  # False: an fe80:: address that its netdev does not have
    gid: Gid | None

    @property
    def is_v1(self) -> bool:
        """Whether it is RoCE v1."""
        return self.type is GidType.ROCE_V1

    @property
    def is_v2(self) -> bool:
        """Whether it is RoCE v2."""
        return self.type is GidType.ROCE_V2

    @property
    def ipv4_octets(self) -> tuple[int, int]:
        """The first two of an IPv4 address."""
        return self.raw[12], self.raw[13]

    @property
    def scope(self) -> Scope:
        """How far the address reaches."""
        return Scope.ZERO if self.gid is None else self.gid.scope


EMPTY: Final = Slot(
    raw=ZERO,
    is_empty=True,
    is_ipv4=False,
    family=Family.IPV6,
    is_link_local_10=False,
    is_link_local_64=False,
    has_interface_id=False,
    type=None,
    netdev=None,
    netdev_state=NetDevState.UNKNOWN,
    is_assigned=True,
    gid=None,
)


@dataclass(frozen=True)  # without slots: `rows` is kept once it is made
class SlotTable:
    """A port, as far as the choice of a GID depends on it."""

    device: str
    port: int
    link_layer: LinkLayer
    entries: tuple[tuple[int, Slot], ...]  # the rows in use, in order
    length: int  # ibv_port_attr.gid_tbl_len
    lid: int | None = None  # None: not known
    route: int | None = None  # the index that select_route_gid chose
    unread: tuple[int, ...] = field(default=())  # rows that could not be read, taken for empty

    @cached_property
    def rows(self) -> tuple[Slot, ...]:
        """Every row, EMPTY where there is nothing."""
        rows = [EMPTY] * self.length
        for index, slot in self.entries:
            if index < self.length:
                rows[index] = slot
        return tuple(rows)

    def at(self, index: int) -> Slot:
        """The row; EMPTY beyond the table too, which `is_inside` tells apart."""
        return self.rows[index] if self.is_inside(index) else EMPTY

    def is_inside(self, index: int) -> bool:
        """Whether the table has such a row."""
        return 0 <= index < self.length

    @property
    def is_infiniband(self) -> bool:
        """Whether the link layer is InfiniBand."""
        return self.link_layer is LinkLayer.INFINIBAND


def slot_table(
    device: str,
    port: int,
    link_layer: LinkLayer,
    entries: Sequence[GidEntry],
    length: int,
    *,
    lid: int | None = None,
    netdevs: Mapping[str, NetDevState] | None = None,
    unassigned: Collection[int] = (),
    route: int | None = None,
    unread: Sequence[int] = (),
) -> SlotTable:
    """The table of a port; `entries` are those that are not empty."""
    states = netdevs or {}
    used = tuple(
        (entry.index, _slot(entry, states, entry.index not in unassigned))
        for entry in entries
        if not entry.gid.is_zero
    )
    return SlotTable(device, port, link_layer, used, length, lid, route, tuple(unread))


def _slot(entry: GidEntry, netdevs: Mapping[str, NetDevState], is_assigned: bool) -> Slot:
    gid = entry.gid
    raw = gid.raw
    is_ipv4 = gid.is_ipv4_mapped
    return Slot(
        raw,
        False,
        is_ipv4,
        Family.IPV4 if is_ipv4 or raw.startswith(_IPV4_MULTICAST) else Family.IPV6,
        raw[0] == 0xFE and raw[1] & 0xC0 == 0x80,
        raw.startswith(_LINK_LOCAL_64),
        raw[8:] != _NO_INTERFACE_ID,
        None if isinstance(entry.type, Missing) else entry.type,
        None if isinstance(entry.netdev, Missing) else entry.netdev,
        netdev_state(entry, netdevs),
        is_assigned,
        gid,
    )
