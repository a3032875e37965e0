"""UCCL: NCCL's rule in its collectives and, with a fallback, in EP; a rule of its own in P2P.

Collectives (the plugin for NCCL): NCCL's rule, FLID included, under NCCL's variables; an empty row
whose type has to be read is an error.

EP: the same scan under UCCL_IB_GID_INDEX, UCCL_IB_ADDR_FAMILY, _ADDR_RANGE, _ROCE_VERSION_NUM and
UCCL_IB_ROUTABLE_FLID_GID_INDEX, read by atoi; it reads none of NCCL's. Since March 2026, where what
was found is empty or link-local, the first valid row of that RoCE version, else the first valid
one, of either family.

P2P: UCCL_P2P_RDMA_GID_INDEX, unchecked; else on InfiniBand 0, and on RoCE the first IPv4 row that
is v2, else the first v2 row, else 3.
"""

from functools import partial
from typing import Final

from rdmadiag.gid.c_number import atoi, has_number
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

INDEX: Final = "UCCL_IB_GID_INDEX"
FAMILY: Final = "UCCL_IB_ADDR_FAMILY"
RANGE: Final = "UCCL_IB_ADDR_RANGE"
ROCE_VERSION: Final = "UCCL_IB_ROCE_VERSION_NUM"
FLID_INDEX: Final = "UCCL_IB_ROUTABLE_FLID_GID_INDEX"
P2P_INDEX: Final = "UCCL_P2P_RDMA_GID_INDEX"

_P2P_DEFAULT: Final = 3


def _number(environment: Environment, variable: str, default: int) -> int:
    return atoi(environment[variable]) if variable in environment else default


def _pin(environment: Environment, variable: str) -> Answer:
    index = _number(environment, variable, 0)
    answer = pinned(index, variable, environment)
    if has_number(environment[variable]):
        return answer
    return Answer(index, f"{answer.why}, which is no number and so 0", pinned_by=variable)


def expert_parallel(table: PortTable, environment: Environment, *, again: bool) -> Answer:
    """ncclIbGetGidIndex of ep/include/rdma_util.hpp; `again`: with the fallback."""
    if table.is_infiniband:
        index = _number(environment, FLID_INDEX, 1)
        if index < 0:
            return fails(f"{FLID_INDEX}={index} is no row", pinned_by=FLID_INDEX)
        flid = int.from_bytes(table.at(index).gid.raw[4:6])
        if index < table.length and flid:
            return by_lid(f"the GID at {index} has a FLID ({flid:#x})", index)
        return by_lid("InfiniBand: by LID", 0)
    if _number(environment, INDEX, -1) >= 0:
        return _pin(environment, INDEX)
    family = nccl.wanted_family(environment, FAMILY)
    roce = _number(environment, ROCE_VERSION, 2)
    within = nccl.address_range(environment.get(RANGE, ""), family)
    answer = nccl.scan(table, family, roce, within)
    if not again or answer.index is None or nccl.is_valid(table.at(answer.index)):
        return answer
    valid = [entry for entry in table.entries if nccl.is_valid(entry)]
    chosen = next((each for each in valid if nccl.roce_version(each) == roce), None)
    found = chosen or next(iter(valid), None)
    if found is None:
        return answer
    kind = f"first routable entry that is RoCE v{roce}" if chosen else "first routable entry"
    return Answer(found.index, f"{answer.why}; then the {kind}", assumed=answer.assumed)


def peer_to_peer(table: PortTable, environment: Environment) -> Answer:
    """RdmaContext::detect_gid."""
    if P2P_INDEX in environment:
        return _pin(environment, P2P_INDEX)
    if table.is_infiniband:
        return fails("GID 0 is empty") if table.at(0).is_empty else by_lid("InfiniBand: GID 0", 0)
    v2 = [entry for entry in table.entries if entry.is_v2]
    ipv4 = next((entry for entry in v2 if entry.is_ipv4), None)
    if ipv4 is not None:
        return Answer(ipv4.index, "first IPv4 entry that is RoCE v2")
    if v2:
        return Answer(v2[0].index, "no IPv4 entry that is RoCE v2, so the first that is RoCE v2")
    return Answer(_P2P_DEFAULT, f"no entry that is RoCE v2, so index {_P2P_DEFAULT}")


STACKS: Final = (
    Stack(
        name="uccl-collective",
        title="UCCL collectives",
        source="uccl-project/uccl@da914a20 collective/rdma/util_rdma.h",
        versions=(Version("any", partial(nccl.with_flid, fatal=True)),),
        pin=Pin(nccl.INDEX, automatic=True, family=nccl.FAMILY),
        variables=nccl.VARIABLES,
    ),
    Stack(
        name="uccl-ep",
        title="UCCL-EP",
        source="uccl-project/uccl@da914a20 ep/include/rdma_util.hpp",
        versions=(
            Version("with-fallback", partial(expert_parallel, again=True)),
            Version(
                "without-fallback",
                partial(expert_parallel, again=False),
                source="uccl-project/uccl@6a6c1845^ ep/include/rdma_util.hpp",
            ),
        ),
        pin=Pin(INDEX, automatic=True, family=FAMILY),
        variables=(INDEX, FAMILY, RANGE, ROCE_VERSION, FLID_INDEX),
    ),
    Stack(
        name="uccl-p2p",
        title="UCCL P2P",
        source="uccl-project/uccl@da914a20 p2p/rdma/rdma_context.cc",
        versions=(Version("any", peer_to_peer),),
        pin=Pin(P2P_INDEX, automatic=True),
        variables=(P2P_INDEX,),
    ),
)
