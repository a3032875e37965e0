"""MORI: a score by type and address, minus the index.

MORI_IB_GID_INDEX of 0 or more is taken unchecked; atoi: a word is 0. Otherwise v2 1000, v1
500, InfiniBand 100; IPv4 200 more, routable IPv6 100; minus the index. The highest wins;
where every row is empty, row 0.
"""

from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.gid.c_number import atoi, has_number
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Pin, Stack, Version, pinned

INDEX: Final = "MORI_IB_GID_INDEX"


def rule(table: PortTable, environment: Environment) -> Answer:
    """AutoSelectGidIndex."""
    if INDEX in environment:
        index = atoi(environment[INDEX])
        if index >= 0:
            answer = pinned(index, INDEX, environment)
            if has_number(environment[INDEX]):
                return answer
            return Answer(index, f"{answer.why}, which is no number and so 0", pinned_by=INDEX)
    scores = [(_score(entry) - entry.index, -entry.index) for entry in table.entries]
    if not scores:
        return Answer(0, "every row is empty, so index 0")
    score, index = max(scores)
    return Answer(-index, f"highest score, {score}")


def _score(entry: GidEntry) -> int:
    kind = 1000 if entry.is_v2 else 500 if entry.is_v1 else 100
    return kind + (200 if entry.is_ipv4 else 0 if entry.is_link_local_10 else 100)


STACKS: Final = (
    Stack(
        name="mori",
        title="MORI",
        source="ROCm/mori@624002c8 src/application/transport/rdma/rdma.cpp",
        versions=(Version("any", rule),),
        pin=Pin(INDEX, automatic=True),
        variables=(INDEX,),
    ),
)
