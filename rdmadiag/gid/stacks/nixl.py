"""NIXL's GPUNETIO backend: its parameter gid_index, 0 by default, always as an IPv4 address.

On Ethernet the address type is IPv4 whatever the GID, so that index 0, an fe80:: GID on most
NICs, is wrong. On InfiniBand no GRH is used. NIXL's UCX plugin follows UCX.
"""

from typing import Final

from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, by_lid


def rule(table: PortTable, environment: Environment) -> Answer:
    """nixlDocaEngine, without the parameter."""
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID, no GRH", 0)
    entry = table.at(0)
    problem = None
    if not entry.is_empty and not entry.is_ipv4:
        problem = "sent as an IPv4 address, which this GID is not"
    return Answer(0, "index 0 unless gid_index is given", problem=problem)


STACKS: Final = (
    Stack(
        name="nixl-gpunetio",
        title="NIXL GPUNETIO",
        source="ai-dynamo/nixl@077e4389 src/plugins/gpunetio/gpunetio_backend.cpp",
        versions=(Version("any", rule),),
        option="the backend parameter gid_index",
    ),
)
