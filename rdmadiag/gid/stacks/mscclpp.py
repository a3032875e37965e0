"""MSCCL++: MSCCLPP_IB_GID_INDEX, 0 by default. From its documentation, not from its code."""

from typing import Final

from rdmadiag.gid.c_number import strtol, to_int
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Pin, Stack, Version, by_lid, pinned

INDEX: Final = "MSCCLPP_IB_GID_INDEX"
_UNREAD: Final = ("what its documentation says; the code was not read",)


def rule(table: PortTable, environment: Environment) -> Answer:
    """The documented default."""
    if INDEX not in environment:
        if table.is_infiniband:
            return by_lid("InfiniBand: by LID", 0)
        return Answer(0, f"index 0 unless {INDEX} is set", assumed=_UNREAD)
    index = to_int(strtol(environment[INDEX]) or 0)
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID", index, INDEX)
    answer = pinned(index, INDEX, environment)
    return Answer(index, answer.why, pinned_by=INDEX, assumed=_UNREAD)


STACKS: Final = (
    Stack(
        name="mscclpp",
        title="MSCCL++",
        source="microsoft/mscclpp docs",
        versions=(Version("any", rule),),
        pin=Pin(INDEX),
        variables=(INDEX,),
    ),
)
