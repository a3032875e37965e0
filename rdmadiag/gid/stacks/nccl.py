"""NCCL: the first IPv4 RoCE v2 entry; where there is none, index 0, silently.

InfiniBand: the row that NCCL_IB_ROUTABLE_FLID_GID_INDEX names (1), if it holds a FLID,
else 0; the GRH is used only between subnets, or where the port asks for one.
NCCL_IB_GID_INDEX is not read there since 2.22.3.

RoCE: NCCL_IB_GID_INDEX of 0 or more is taken unchecked. Otherwise, from row 1 on and with 0
as the one to beat:

- a row of the wanted family (NCCL_IB_ADDR_FAMILY, AF_INET) and range (NCCL_IB_ADDR_RANGE)
  takes over from one of the other family, whatever its type and even if it is empty;
- among rows of the wanted family, a valid one takes over if its type is the wanted one
  (NCCL_IB_ROCE_VERSION_NUM, 2) and the other's is not, or if the other is not valid.

An empty row counts as IPv6. Index 0 is never tested against the range. To 2.20 the index is
NCCL_IB_GID_INDEX, 0 by default, on InfiniBand too; 2.21 chooses on both. Before 2.26.2 an
empty row whose type has to be read is a fatal error.
"""

from functools import partial
from typing import Final

from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.address import packed_ipv4, packed_ipv6
from rdmadiag.facts.gid import Family, Gid
from rdmadiag.frozen import dataclass
from rdmadiag.gid.c_number import atoi, has_number, strtol, to_int
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

INDEX: Final = "NCCL_IB_GID_INDEX"
FAMILY: Final = "NCCL_IB_ADDR_FAMILY"
RANGE: Final = "NCCL_IB_ADDR_RANGE"
ROCE_VERSION: Final = "NCCL_IB_ROCE_VERSION_NUM"
FLID_INDEX: Final = "NCCL_IB_ROUTABLE_FLID_GID_INDEX"

_RANGE_LIMIT: Final = 127  # characters that are looked at
_FAMILY_WORD: Final = {Family.IPV4: "IPv4", Family.IPV6: "IPv6"}


@dataclass(frozen=True, slots=True)
class AddressRange:
    """ADDRESS/BITS of NCCL_IB_ADDR_RANGE."""

    base: int
    bits: int
    width: int  # 32 or 128

    def has(self, gid: Gid) -> bool:
        """Whether the last `width` bits of the GID begin like the address."""
        if self.bits <= 0:
            return self.bits == 0  # a negative number of bits fits nothing
        shift = self.width - self.bits
        value = int.from_bytes(gid.raw[-(self.width // 8) :])
        return value >> shift == self.base >> shift


def address_range(text: str, family: Family) -> AddressRange | None:
    """What the variable means; None where it has no effect."""
    address, slash, bits = text[:_RANGE_LIMIT].partition("/")
    width = 32 if family is Family.IPV4 else 128
    if not slash:
        return None
    try:
        raw = packed_ipv4(address) if family is Family.IPV4 else packed_ipv6(address)
    except (OSError, ValueError):
        return None
    number = atoi(bits)
    return None if number > width else AddressRange(int.from_bytes(raw), number, width)


def parameter(environment: Environment, variable: str, default: int) -> int:
    """NCCL_PARAM: strtoll, so that a word is 0; empty, or too long, is the default."""
    text = environment.get(variable, "")
    value = strtol(text) if text else default
    return default if value is None else to_int(value)


def wanted_family(environment: Environment, variable: str) -> Family:
    """AF_INET unless the variable says AF_INET6 and nothing else."""
    return Family.IPV6 if environment.get(variable) == "AF_INET6" else Family.IPV4


def scan(
    table: PortTable,
    family: Family,
    roce: int,
    within: AddressRange | None,
    *,
    empty_type_is_fatal: bool = False,
) -> Answer:
    """ncclUpdateGidIndex over the table."""
    rows, families = table.rows, table.families
    current, held = 0, table.at(0)
    number, valid = roce_version(held), is_valid(held)
    unknown = False
    for index in range(1, len(rows)):
        if families[index] is not family:
            continue
        entry = rows[index]
        if within is not None and not within.has(entry.gid):
            continue
        if families[current] is family:
            if not is_valid(entry):
                continue
            if empty_type_is_fatal and held.is_empty:
                return fails(f"the type of row {current}, which is empty, cannot be read: EINVAL")
            own = roce_version(entry)
            unknown |= own is None or (number is None and not held.is_empty)
            if own != roce or (number == own and valid):
                continue
        current, held = index, entry
        number, valid = roce_version(entry), is_valid(entry)
    assumed = ("types that are not known are taken for other ones",) if unknown else ()
    return Answer(current, _why(table, current, family, roce, within), assumed=assumed)


def is_valid(entry: GidEntry) -> bool:
    """validGid."""
    return not entry.is_empty and not entry.is_link_local_64


def roce_version(entry: GidEntry) -> int | None:
    """The RoCE version, as NCCL reads it from gid_attrs/types; None where it is not known."""
    if entry.is_v2:
        return 2
    return None if isinstance(entry.type, Missing) else 1


def _why(
    table: PortTable, chosen: int, family: Family, roce: int, within: AddressRange | None
) -> str:
    word = _FAMILY_WORD[family]
    inside = "" if within is None else " in the range"
    entry = table.at(chosen)
    if entry.is_empty and chosen:
        return f"row {chosen} is empty, which counts as IPv6"
    if entry.is_empty or entry.family_or_multicast is not family:
        return f"no {word} entry{inside}, so index 0"
    if chosen and roce_version(entry) == roce and is_valid(entry):
        return f"first {word} entry{inside} that is RoCE v{roce}"
    return f"no {word} entry{inside} that is RoCE v{roce}, so index {chosen}"


def choose(table: PortTable, environment: Environment, *, fatal: bool) -> Answer:
    """The RoCE part, with the variables."""
    family = wanted_family(environment, FAMILY)
    roce = parameter(environment, ROCE_VERSION, 2)
    within = address_range(environment.get(RANGE, ""), family)
    return scan(table, family, roce, within, empty_type_is_fatal=fatal)


def pin(environment: Environment) -> Answer | None:
    """NCCL_IB_GID_INDEX, where it is set to 0 or more."""
    index = parameter(environment, INDEX, -1)
    if index < 0:
        return None
    answer = pinned(index, INDEX, environment)
    if has_number(environment[INDEX]):
        return answer
    return Answer(index, f"{answer.why}, which is no number and so 0", pinned_by=INDEX)


def with_flid(table: PortTable, environment: Environment, *, fatal: bool) -> Answer:
    """2.22.3 and newer."""
    if not table.is_infiniband:
        return pin(environment) or choose(table, environment, fatal=fatal)
    index = parameter(environment, FLID_INDEX, 1)
    if index < 0:
        return fails(f"{FLID_INDEX}={index} is no row", pinned_by=FLID_INDEX)
    flid = int.from_bytes(table.at(index).gid.raw[4:6])
    if index < table.length and flid:
        return by_lid(f"the GID at {index} has a FLID ({flid:#x}), used between subnets", index)
    return by_lid("InfiniBand: by LID; GID 0 where subnets differ", 0)


def without_flid(table: PortTable, environment: Environment) -> Answer:
    """2.21 to 2.22.2: the same on both link layers; on InfiniBand the GID is not used."""
    answer = pin(environment) or choose(table, environment, fatal=True)
    if not table.is_infiniband or answer.index is None:
        return answer
    return by_lid("InfiniBand: by LID", answer.index, answer.pinned_by)


def fixed(table: PortTable, environment: Environment) -> Answer:
    """To 2.20: the variable, or 0."""
    index = parameter(environment, INDEX, 0)
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID", index)
    if environment.get(INDEX):
        return pinned(index, INDEX, environment)
    return Answer(index, "index 0 unless NCCL_IB_GID_INDEX is set")


VARIABLES: Final = (INDEX, FAMILY, RANGE, ROCE_VERSION, FLID_INDEX)

STACKS: Final = (
    Stack(
        name="nccl",
        title="NCCL",
        source="NVIDIA/nccl@5067397c src/transport/net_ib/connect.cc",
        versions=(
            Version("≥2.26.2", partial(with_flid, fatal=False), since=(2, 26, 2)),
            Version(
                "2.22.3-2.26.1",
                partial(with_flid, fatal=True),
                since=(2, 22, 3),
                until=(2, 26, 2),
                source="NVIDIA/nccl@178b6b75 src/transport/net_ib.cc",
            ),
            Version(
                "2.21-2.22.2",
                without_flid,
                since=(2, 21),
                until=(2, 22, 3),
                source="NVIDIA/nccl@ab2b89c4 src/transport/net_ib.cc",
            ),
            Version(
                "≤2.20",
                fixed,
                until=(2, 21),
                source="NVIDIA/nccl@48bb7fec src/transport/net_ib.cc",
            ),
        ),
        pin=Pin(INDEX, automatic=True, family=FAMILY),
        variables=VARIABLES,
    ),
)
