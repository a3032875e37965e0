"""NCCL GIN (GPU-initiated, GDAKI too): NCCL's own function, so NCCL's rule and variables.

GDAKI takes port 1 of each device ("assume 1 for mlx5 devices"), whichever port NCCL chose.
"""

from functools import partial
from typing import Final

from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Pin, Stack, Version, fails
from rdmadiag.gid.stacks import nccl

_PORT: Final = 1


def gdaki(table: PortTable, environment: Environment) -> Answer:
    """getGidIndex of the collective's communicator, which is ncclIbGetGidIndex."""
    if table.port != _PORT:
        return fails(f"GDAKI uses port {_PORT} of a device alone")
    return nccl.with_flid(table, environment, fatal=False)


STACKS: Final = (
    Stack(
        name="gin",
        title="NCCL GIN",
        source="NVIDIA/nccl@5067397c src/transport/net_ib/gin.cc",
        versions=(
            Version("gdaki", gdaki, source="NVIDIA/nccl@5067397c src/transport/net_ib/gdaki"),
            Version("proxy", partial(nccl.with_flid, fatal=False)),
        ),
        pin=Pin(nccl.INDEX, automatic=True, family=nccl.FAMILY),
        variables=nccl.VARIABLES,
    ),
)
