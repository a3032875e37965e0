"""monarch: the lowest RoCE v2 row that is neither loopback, link-local nor site-local.

IPv4 is weighed by the address in it: 169.254/16 and 127/8 are out. Without such a row, as on
InfiniBand, the queue pair is not made. No variable is read. To 0.5 index 3, unless the program's
IbvConfig has another one.
"""

from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, by_lid, fails

_OLD_DEFAULT: Final = 3


def rule(table: PortTable, environment: Environment) -> Answer:
    """select_gid(port, Global, RoCEv2)."""
    found = next((each for each in table.entries if each.is_v2 and _is_global(each)), None)
    if found is None:
        return fails("no RoCE v2 row of global scope")
    return Answer(found.index, "lowest RoCE v2 row of global scope")


def _is_global(entry: GidEntry) -> bool:
    raw = entry.gid.raw
    if entry.is_ipv4:
        return raw[12] != 127 and raw[12:14] != b"\xa9\xfe"
    if raw == bytes(15) + b"\x01":
        return False
    return not (raw[0] == 0xFE and raw[1] & 0x80)


def fixed(table: PortTable, environment: Environment) -> Answer:
    """IbvConfig.gid_index."""
    why = f"index {_OLD_DEFAULT} unless IbvConfig has another one"
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID")
    return Answer(_OLD_DEFAULT, why)


STACKS: Final = (
    Stack(
        name="monarch",
        title="monarch",
        source="meta-pytorch/monarch@3fc0a66e monarch_rdma/src/backend/ibverbs/primitives.rs",
        versions=(
            Version("≥0.6", rule, since=(0, 6)),
            Version(
                "≤0.5",
                fixed,
                until=(0, 6),
                source="meta-pytorch/monarch@ac9e855e^ "
                "monarch_rdma/src/backend/ibverbs/primitives.rs",
            ),
        ),
        option="none since 0.6; IbvConfig's gid_index before",
    ),
)
