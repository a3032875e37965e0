"""librdmacm (rping, ucmatose, -R of perftest, iSER, NVMe-oF): the row of the source address.

The kernel makes a GID of the source IP address (IPv4: ::ffff:a.b.c.d), bound or found by the
route to the peer, and takes the lowest row of that GID, of the port's default type and of
the netdev that has the address in the caller's network namespace; ENODEV without one. The
default type is RoCE v2 where the port supports it; configfs can say otherwise
(default_roce_mode). InfiniBand: the GID in the IPoIB hardware address. No variable is read.

The source address is not known here: an IPv4 address of the port is taken, else a routable
IPv6 one, else link-local.

rsocket's datagrams compare the bytes alone, over rows 0 to 15, and take 0 where none fits:
on most NICs that is the v1 twin.
"""

from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Scope
from rdmadiag.gid.netdev import NOT_HERE
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, fails

_ROWS: Final = 16  # of rsocket.c
_IPOIB: Final = "that IPoIB's hardware address holds GID 0"
_MODE: Final = "that default_roce_mode in configfs was not set"


def source_row(table: PortTable) -> GidEntry | None:
    """The lowest row of the address that a program most likely sends from."""
    local = [entry for entry in table.entries if table.netdev_state(entry) not in NOT_HERE]
    return min(local, key=lambda each: (_reach(each, table), each.index), default=None)


def _reach(entry: GidEntry, table: PortTable) -> int:
    if entry.is_ipv4:
        return 0 if entry.scope is not Scope.LINK_LOCAL else 2
    if entry.is_link_local_10:
        return 4 if entry.index in table.unassigned else 3
    return 1


def rule(table: PortTable, environment: Environment) -> Answer:
    """cma_acquire_dev_by_src_ip, cma_validate_port."""
    if table.is_infiniband:
        return Answer(0, "the GID of the IPoIB interface", assumed=(_IPOIB,))
    wanted = source_row(table)
    if wanted is None:
        absent = any(table.netdev_state(each) in NOT_HERE for each in table.entries)
        where = "no GID's netdev is in this network namespace" if absent else "no GID"
        return fails(f"{where}: ENODEV")
    default = any(entry.is_v2 for entry in table.entries)
    for entry in table.entries:
        same = entry.gid == wanted.gid and entry.netdev_name == wanted.netdev_name
        if same and (entry.is_v2 or entry.known_type is None or not default):
            kind = "RoCE v2" if entry.is_v2 else "the port's default type"
            return Answer(
                entry.index,
                f"lowest row of the source address that is {kind}",
                assumed=(f"source address {_address(entry)}", _MODE),
            )
    return fails(f"{_address(wanted)} has no RoCE v2 row: ENODEV")


def _address(entry: GidEntry) -> str:
    return entry.gid.ipv4 or str(entry.gid)


def datagrams(table: PortTable, environment: Environment) -> Answer:
    """udp_svc_sgid_index."""
    if table.is_infiniband:
        return Answer(0, "the GID of the IPoIB interface", assumed=(_IPOIB,))
    wanted = source_row(table)
    if wanted is None:
        return fails("no GID of a netdev in this network namespace: ENODEV")
    for entry in table.entries:
        if entry.index < _ROWS and entry.gid == wanted.gid:
            return Answer(
                entry.index,
                "first row with the source address, whatever its type",
                assumed=(f"source address {_address(entry)}",),
            )
    return Answer(0, f"no row below {_ROWS} has the source address, so index 0")


STACKS: Final = (
    Stack(
        name="rdmacm",
        title="librdmacm",
        source="torvalds/linux@v6.1 drivers/infiniband/core/cma.c",
        versions=(Version("any", rule),),
        by_rdma_cm=True,
        option="rping -I ADDRESS, or rdma_bind_addr: the source address, not the index",
    ),
    Stack(
        name="rsocket-udp",
        title="rsocket datagrams",
        source="linux-rdma/rdma-core@691953d8 librdmacm/rsocket.c",
        versions=(Version("any", datagrams),),
        option="the source address that the socket is bound to",
    ),
)
