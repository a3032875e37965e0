"""A port's GID table as a program sees it: every row up to its length, empty ones too.

`ibv_query_gid` succeeds on an empty row and gives sixteen zero bytes (rdma-core,
libibverbs/verbs.c; drivers/infiniband/core/cache.c).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rdmadiag.facts import GidEntry, empty_entry
from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.gid.netdev import NetDevState, Unusable, netdev_state


@dataclass(frozen=True)  # without slots: `rows` is kept once it is made
class PortTable:
    """A port, as far as the choice of a GID depends on it."""

    device: str
    port: int
    link_layer: LinkLayer
    entries: tuple[GidEntry, ...]  # the rows that are not empty, in order
    length: int  # ibv_port_attr.gid_tbl_len
    lid: int | None = None  # None: not known
    netdevs: Mapping[str, NetDevState] = field(default_factory=dict)  # of those that rows name
    unassigned: Collection[int] = ()  # rows with an fe80:: address that their netdev lacks
    unusable: Mapping[int, Unusable] = field(default_factory=dict)  # rows, by their index
    route: GidEntry | None = None  # the row that select_route_gid chose
    unread: tuple[int, ...] = ()  # rows that could not be read, taken for empty

    @cached_property
    def rows(self) -> tuple[GidEntry, ...]:
        """Every row."""
        rows = [*map(empty_entry, range(self.length))]
        for entry in self.entries:
            if entry.index < self.length:
                rows[entry.index] = entry
        return tuple(rows)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The family of every row, as NCCL, UCX and perftest see it."""
        return tuple(row.family_or_multicast for row in self.rows)

    @cached_property
    def _by_index(self) -> dict[int, GidEntry]:
        return {entry.index: entry for entry in self.entries if entry.index < self.length}

    def at(self, index: int) -> GidEntry:
        """The row; an empty one beyond the table too, which `is_inside` tells apart."""
        return self._by_index.get(index) or empty_entry(index)

    def is_inside(self, index: int) -> bool:
        """Whether the table has such a row."""
        return 0 <= index < self.length

    def netdev_state(self, entry: GidEntry) -> NetDevState:
        """What is known of the netdev that the row names."""
        return netdev_state(entry, self.netdevs)

    @property
    def is_infiniband(self) -> bool:
        """Whether the link layer is InfiniBand."""
        return self.link_layer is LinkLayer.INFINIBAND
