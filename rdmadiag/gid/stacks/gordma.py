"""gordma: index 0 unless another is given, unchecked; InfiniBand by LID.

`-x INDEX` of its perftest, WithGIDIndex of rdmanet. With `-R`, and by default in rdmanet,
rdma_cm chooses.
"""

from typing import Final

from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, by_lid


def rule(table: PortTable, environment: Environment) -> Answer:
    """Config's default."""
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID", 0)
    return Answer(0, "index 0 unless -x or WithGIDIndex is given")


STACKS: Final = (
    Stack(
        name="gordma",
        title="gordma",
        source="smallnest/gordma@08fd8be2 perftest/config.go",
        versions=(Version("any", rule),),
        option="gordma -x INDEX",
    ),
)
