"""ibv_rc_pingpong and its siblings: no GID at all unless `-g INDEX` is given.

With the default, -1, the peer gets a zero GID, and a queue pair gets a GRH only if the *peer's*
GID has an interface identifier. InfiniBand then works by LID; on RoCE the kernel wants a
GRH, and INIT → RTR fails with EINVAL. `-g` is taken unchecked.
"""

from typing import Final

from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, by_lid, fails


def rule(table: PortTable, environment: Environment) -> Answer:
    """Without -g."""
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID unless -g is given")
    return fails("no -g: RTR without a GRH is EINVAL on RoCE")


STACKS: Final = (
    Stack(
        name="rc-pingpong",
        title="ibv_rc_pingpong",
        source="linux-rdma/rdma-core@691953d8 libibverbs/examples/rc_pingpong.c",
        versions=(Version("any", rule),),
        option="ibv_rc_pingpong -g INDEX",
    ),
)
