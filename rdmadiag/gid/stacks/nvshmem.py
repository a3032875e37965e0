"""NVSHMEM: NCCL's scan under variables of its own; it reads none of NCCL's.

NVSHMEM_IB_GID_INDEX of 0 or more is taken unchecked, else the scan runs with
NVSHMEM_IB_ADDR_FAMILY, _ADDR_RANGE (::/0) and _ROCE_VERSION_NUM, on any link layer, and
errors of the queries are passed over. There is no FLID. On InfiniBand the GID is used where
the port has no LID. IBGDA with RC, and IBDEVX, abort where the type of the row is not known,
as that of an empty one is. A range without "/" is written through a null pointer.
"""

from typing import Final

from rdmadiag.facts.ib import NO_LID
from rdmadiag.gid.c_number import has_number, strtol, to_int
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import (
    Answer,
    Environment,
    Pin,
    Stack,
    Version,
    by_lid,
    fails,
    pinned,
)
from rdmadiag.gid.stacks import nccl

INDEX: Final = "NVSHMEM_IB_GID_INDEX"
FAMILY: Final = "NVSHMEM_IB_ADDR_FAMILY"
RANGE: Final = "NVSHMEM_IB_ADDR_RANGE"
ROCE_VERSION: Final = "NVSHMEM_IB_ROCE_VERSION_NUM"


def rule(table: PortTable, environment: Environment) -> Answer:
    """ib_get_gid_index."""
    answer = _chosen(table, environment)
    if not table.is_infiniband or answer.index is None:
        return answer
    if table.lid is None or table.lid in NO_LID:
        return answer
    return by_lid("InfiniBand with a LID: by LID", answer.index, answer.pinned_by)


def _chosen(table: PortTable, environment: Environment) -> Answer:
    index = _number(environment, INDEX, -1)
    if index >= 0:
        answer = pinned(index, INDEX, environment)
        if has_number(environment[INDEX]):
            return answer
        return Answer(index, f"{answer.why}, which is no number and so 0", pinned_by=INDEX)
    family = nccl.wanted_family(environment, FAMILY)
    text = environment.get(RANGE, "::/0")
    if text and "/" not in text:
        return fails(f"{RANGE}={text} has no /BITS: it crashes", pinned_by=RANGE)
    within = nccl.address_range(text, family)
    return nccl.scan(table, family, _number(environment, ROCE_VERSION, 2), within)


def _number(environment: Environment, variable: str, default: int) -> int:
    """strtol; what is no number is 0, with a line on stderr."""
    if variable not in environment:
        return default
    value = strtol(environment[variable])
    return to_int(-1 if value is None else value)


STACKS: Final = (
    Stack(
        name="nvshmem",
        title="NVSHMEM",
        source="NVIDIA/nvshmem@2d7d25f0 src/modules/transport/common/transport_ib_common.h",
        versions=(Version("3.4", rule, since=(3,)),),
        pin=Pin(INDEX, automatic=True, family=FAMILY),
        variables=(INDEX, FAMILY, RANGE, ROCE_VERSION),
    ),
)
