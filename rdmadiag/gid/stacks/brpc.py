"""brpc: the highest row with an interface identifier, whatever it is.

-rdma_gid_index names another; if that row has none, no GID is found.
"""

from typing import Final

from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, fails


def rule(table: PortTable, environment: Environment) -> Answer:
    """FindRdmaGid, without the flag."""
    for entry in reversed(table.entries):
        if entry.has_interface_id:
            return Answer(entry.index, "highest row with an interface identifier")
    return fails("no row with an interface identifier")


STACKS: Final = (
    Stack(
        name="brpc",
        title="brpc",
        source="apache/brpc@71871ee9 src/brpc/rdma/rdma_helper.cpp",
        versions=(Version("any", rule),),
        option="-rdma_gid_index=INDEX",
    ),
)
