"""DeepEP: NCCL's rule, NVSHMEM's, or NCCL's with constants, by branch and mode.

V2 on main sends through NCCL (Gin), the legacy mode through NVSHMEM: each with that one's
variables. The branch hybrid-ep has a copy of NCCL's scan with what the variables would set
compiled in: chosen, AF_INET, RoCE v2, no range. A pin has no effect there.
"""

from functools import partial
from typing import Final

from rdmadiag.facts.gid import Family
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, by_lid
from rdmadiag.gid.stacks import nccl, nvshmem


def constants(table: PortTable, environment: Environment) -> Answer:
    """ncclIbGetGidIndex of hybrid-ep, with its compiled-in values."""
    if table.is_infiniband:
        return nccl.with_flid(table, {}, fatal=False)
    return nccl.scan(table, Family.IPV4, 2, None)


def legacy(table: PortTable, environment: Environment) -> Answer:
    """NVSHMEM's."""
    answer = nvshmem.rule(table, environment)
    if answer.index is None or not table.is_infiniband:
        return answer
    return by_lid(answer.why, answer.index, answer.pinned_by)


STACKS: Final = (
    Stack(
        name="deepep",
        title="DeepEP",
        source="deepseek-ai/DeepEP@dd758caf",
        versions=(
            Version("main", partial(nccl.with_flid, fatal=False)),
            Version("legacy", legacy),
            Version(
                "hybrid-ep",
                constants,
                source="deepseek-ai/DeepEP@94a9f8f6 csrc/hybrid_ep/backend/ibvcore.h",
            ),
        ),
        variables=(*nccl.VARIABLES, *nvshmem.STACKS[0].variables),
        option="NCCL_IB_GID_INDEX (main) or NVSHMEM_IB_GID_INDEX (legacy); none on hybrid-ep",
    ),
)
