"""ds4: the first row with an IPv4 address, whatever its type; port 1, and a GRH always.

`--rdma-gid-index INDEX` is taken where ibv_query_gid succeeds, so an empty row too. Otherwise the
bytes ::ffff:a.b.c.d decide alone: on a RoCE NIC with both versions that is the v1 twin. Without
such a row, as on native InfiniBand, it ends with "no IPv4-mapped GID on the active port". No
variable is read. Made for Macs with Thunderbolt, and run on Linux with Strix Halo (pull requests
715 and 813 of antirez/ds4).
"""

from typing import Final

from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import LINUX, THUNDERBOLT, Answer, Environment, Stack, Version, fails


def rule(table: PortTable, environment: Environment) -> Answer:
    """tp_rdma_open."""
    found = next((entry for entry in table.entries if entry.is_ipv4), None)
    if found is None:
        return fails("no IPv4 row")
    return Answer(found.index, "first IPv4 row of any type")


STACKS: Final = (
    Stack(
        name="ds4",
        title="ds4",
        source="antirez/ds4@b4c5cc8a ds4_tp.c",
        versions=(Version("any", rule),),
        link_layers=LINUX | THUNDERBOLT,
        option="ds4 --rdma-gid-index INDEX",
    ),
)
