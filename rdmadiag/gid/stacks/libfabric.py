"""libfabric: three providers, three rules.

verbs, DGRAM: FI_VERBS_GID_IDX (0 to 255, 0 by default), unchecked, of port 1 whatever the
port; a value out of range stops the provider.

verbs, MSG: rdma_cm. Yet the name of its fabric is made of the subnet prefix of the GID that
FI_VERBS_GID_IDX names, so that the variable decides which peers are of one fabric.

psm3: on Ethernet RoCE v2 alone; the first IPv4 row whose address a local interface has, else
the first such IPv6 row, fe80:: included. PSM3_ADDR_FMT restricts the family (3 InfiniBand,
4 IPv4, 6 IPv6), PSM3_SUBNETS the subnets, PSM3_ADDR_PER_NIC says how many there must be. On
InfiniBand the first row with an interface identifier. A type that cannot be read will do.
"""

from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Family
from rdmadiag.gid.c_number import has_number, strtol, to_int
from rdmadiag.gid.netdev import NOT_HERE
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Pin, Stack, Version, fails, pinned
from rdmadiag.gid.stacks import rdmacm

GID_IDX: Final = "FI_VERBS_GID_IDX"
ADDR_FMT: Final = "PSM3_ADDR_FMT"
ADDR_PER_NIC: Final = "PSM3_ADDR_PER_NIC"
SUBNETS: Final = "PSM3_SUBNETS"

_HIGHEST: Final = 255
_INFINIBAND, _IPV4, _IPV6 = 3, 4, 6  # PSMI_ADDR_FMT_*
_MOST_ADDRESSES: Final = 32  # PSMI_MAX_RAILS


def _gid_idx(environment: Environment) -> int:
    value = strtol(environment[GID_IDX]) if GID_IDX in environment else 0
    return to_int(-1 if value is None else value)


def datagrams(table: PortTable, environment: Environment) -> Answer:
    """vrb_dgram_av: sgid_index."""
    index = _gid_idx(environment)
    if not 0 <= index <= _HIGHEST:
        return fails(f"{GID_IDX}={environment[GID_IDX]} is not 0 to 255", pinned_by=GID_IDX)
    if table.port != 1:
        return Answer(None, "its datagrams go through port 1 alone", Outcome.NOT_USED)
    if GID_IDX not in environment:
        return Answer(0, f"index 0 unless {GID_IDX} is set")
    answer = pinned(index, GID_IDX, environment)
    if has_number(environment[GID_IDX]):
        return answer
    return Answer(index, f"{answer.why}, which is no number and so 0", pinned_by=GID_IDX)


def messages(table: PortTable, environment: Environment) -> Answer:
    """rdma_cm, with the fabric's name beside it."""
    index = _gid_idx(environment)
    if not 0 <= index <= _HIGHEST:
        return fails(f"{GID_IDX}={environment[GID_IDX]} is not 0 to 255", pinned_by=GID_IDX)
    answer = rdmacm.rule(table, environment)
    prefix = table.at(index).gid.raw[:8].hex().lstrip("0") or "0"
    why = f"{answer.why}; its fabric is IB-0x{prefix}, by the GID at {index}"
    return Answer(answer.index, why, answer.outcome, assumed=answer.assumed)


def psm3(table: PortTable, environment: Environment) -> Answer:
    """psm3_hfp_verbs_get_port_subnet, for the first address of the port."""
    form = strtol(environment.get(ADDR_FMT, "0")) or 0
    if form not in (0, _INFINIBAND, _IPV4, _IPV6):
        return fails(f"{ADDR_FMT}={environment[ADDR_FMT]} is none of 0, 3, 4, 6", ADDR_FMT)
    by = ADDR_FMT if form else None
    if table.is_infiniband:
        if form in (_IPV4, _IPV6):
            return Answer(None, f"{ADDR_FMT} asks for Ethernet", Outcome.DROPS_PORT, pinned_by=by)
        first = next((each.index for each in table.entries if each.has_interface_id), None)
        if first is None:
            return Answer(None, "no row with an interface identifier", Outcome.DROPS_PORT)
        return Answer(first, "first row with an interface identifier")
    if form == _INFINIBAND:
        return Answer(None, f"{ADDR_FMT} asks for InfiniBand", Outcome.DROPS_PORT, pinned_by=by)
    needed = strtol(environment.get(ADDR_PER_NIC, "1")) or 0
    if not 1 <= needed <= _MOST_ADDRESSES:
        needed = 1
    assumed = (f"that {SUBNETS} lets the address pass",) if environment.get(SUBNETS) else ()
    for family, code in ((Family.IPV4, _IPV4), (Family.IPV6, _IPV6)):
        rows = [each.index for each in table.entries if _fits(each, family, table)]
        if len(rows) >= needed and form in (0, code):
            word = "IPv4" if family is Family.IPV4 else "IPv6"
            why = f"first RoCE v2 row with an {word} address of this host"
            return Answer(rows[0], why, assumed=assumed)
    return Answer(
        None,
        f"fewer than {needed} RoCE v2 rows with an address of this host"
        if needed > 1
        else "no RoCE v2 row with an address of this host",
        Outcome.DROPS_PORT,
        assumed=assumed,
    )


def _fits(entry: GidEntry, family: Family, table: PortTable) -> bool:
    """A netmask is looked up by address among the interfaces of this network namespace."""
    is_v2 = entry.is_v2 or entry.known_type is None
    if entry.is_ipv4 is not (family is Family.IPV4) or not is_v2:
        return False
    absent = table.netdev_state(entry) in NOT_HERE
    return not absent and entry.index not in table.unassigned


_SOURCE: Final = "ofiwg/libfabric@af8ddbe9 prov"

STACKS: Final = (
    Stack(
        name="libfabric-dgram",
        title="libfabric verbs DGRAM",
        source=f"{_SOURCE}/verbs/src/verbs_dgram_av.c",
        versions=(Version("any", datagrams),),
        pin=Pin(GID_IDX),
        variables=(GID_IDX,),
    ),
    Stack(
        name="libfabric-msg",
        title="libfabric verbs MSG",
        source=f"{_SOURCE}/verbs/src/verbs_ep.c",
        versions=(Version("any", messages),),
        by_rdma_cm=True,
        option="the source address, or FI_VERBS_IFACE; FI_VERBS_GID_IDX names the fabric alone",
        variables=(GID_IDX,),
    ),
    Stack(
        name="libfabric-psm3",
        title="libfabric psm3",
        source=f"{_SOURCE}/psm3/psm3/hal_verbs/verbs_service.c",
        versions=(Version("any", psm3),),
        option="PSM3_ADDR_FMT=4 or 6, PSM3_SUBNETS: the family and subnet, not the index",
        variables=(ADDR_FMT, ADDR_PER_NIC, SUBNETS),
    ),
)
