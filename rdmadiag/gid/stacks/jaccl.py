"""MLX JACCL: sends by index 1 whatever stands there; which GID the peer gets differs.

Thunderbolt, port 1, UC. All versions set sgid_index to 1, and a GRH where the peer's GID has
an interface identifier.

To 0.31.1 the peer gets the GID at 1: zero where it is empty, and the peer then sends without
a GRH. 0.31.2 to 0.32.0 send the first IPv4 one, and memory that was never set where there is
none. Since 0.32.1 that is an error, with the ifconfig line that helps. Where the first IPv4
GID is not at 1, the peer gets another GID than the one that is sent from.
"""

from typing import Final

from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import THUNDERBOLT, Answer, Environment, Stack, Version, fails

SGID_INDEX: Final = 1


def _first_ipv4(table: PortTable) -> int | None:
    return next((entry.index for entry in table.entries if entry.is_ipv4), None)


def _other_port(table: PortTable) -> Answer | None:
    return None if table.port == 1 else Answer(None, "it uses port 1 alone", Outcome.NOT_USED)


def index_1(table: PortTable, environment: Environment) -> Answer:
    """To 0.31.1."""
    entry = table.at(SGID_INDEX)
    problem = None
    if not entry.has_interface_id:
        problem = "row 1 is empty: the peer gets a zero GID, and sends without a GRH"
    return _other_port(table) or Answer(
        SGID_INDEX,
        "index 1, sent from and given to the peer",
        problem=problem,
        advertised=SGID_INDEX,
    )


def first_ipv4(table: PortTable, environment: Environment) -> Answer:
    """0.31.2 to 0.32.0."""
    given = _first_ipv4(table)
    problem = _mismatch(table, given)
    if given is None:
        problem = "no IPv4 GID: the peer gets memory that was never set"
    return _other_port(table) or Answer(
        SGID_INDEX,
        "sends from index 1, gives the peer the first IPv4 GID",
        problem=problem,
        advertised=given,
    )


def first_ipv4_or_error(table: PortTable, environment: Environment) -> Answer:
    """0.32.1 and newer."""
    given = _first_ipv4(table)
    other = _other_port(table)
    if other is not None:
        return other
    if given is None:
        return fails("no IPv4-mapped GID: it stops, and says how to give enX an address")
    return Answer(
        SGID_INDEX,
        "sends from index 1, gives the peer the first IPv4 GID",
        problem=_mismatch(table, given),
        advertised=given,
    )


def _mismatch(table: PortTable, given: int | None) -> str | None:
    if given in (None, SGID_INDEX):
        return None
    what = "is empty" if table.at(SGID_INDEX).is_empty else "is another GID"
    return f"the peer gets GID {given}; row 1, which is sent from, {what}"


STACKS: Final = (
    Stack(
        name="jaccl",
        title="MLX JACCL",
        source="ml-explore/mlx@846d1762 mlx/distributed/jaccl/lib/jaccl/rdma.cpp",
        versions=(
            Version("≥0.32.1", first_ipv4_or_error, since=(0, 32, 1)),
            Version("0.31.2-0.32.0", first_ipv4, since=(0, 31, 2), until=(0, 32, 1)),
            Version(
                "≤0.31.1",
                index_1,
                until=(0, 31, 2),
                source="ml-explore/mlx@v0.31.1 mlx/distributed/jaccl/utils.cpp",
            ),
        ),
        link_layers=THUNDERBOLT,
        option="the order of addresses: its index is 1, so that IPv4 has to come first",
    ),
)
