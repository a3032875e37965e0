"""YDB's interconnect: the row of the TCP connection's local address; RoCE alone, any port.

Rows whose lower half is zero are left out, and the others are sorted by their bytes; the one that
equals the connection's local IPv6 address (IPv4 as ::ffff:a.b.c.d) is taken. None: TCP. No variable
is read. Until November 2025 the type was not looked at, so that of two rows of one address either
may come first, mostly the lower one, which is RoCE v1. Since then (pull request 29694) the RoCE v2
one is taken, by its own description: how was not read.

The local address is not known here: an IPv4 address of the port is taken, else a routable IPv6 one,
else link-local.
"""

from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, fails
from rdmadiag.gid.stacks.rdmacm import source_row

_FROM: Final = "that the TCP connection is from {}"
_V2: Final = "that of two rows the RoCE v2 one is taken, as its pull request says"
_LOWER: Final = "that of two rows of one address the lower one is found"


def rule(table: PortTable, environment: Environment) -> Answer:
    """Since pull request 29694."""
    twins = _twins(table)
    found = next((each for each in twins if each.is_v2), None) or next(iter(twins), None)
    return _answer(found, _V2 if len(twins) > 1 else None)


def any_type(table: PortTable, environment: Environment) -> Answer:
    """TRdmaLinkManager::GetCtx."""
    twins = _twins(table)
    return _answer(next(iter(twins), None), _LOWER if len(twins) > 1 else None)


def _twins(table: PortTable) -> list[GidEntry]:
    """The rows of the local address, in order."""
    source = None if table.is_infiniband else source_row(table)
    if source is None or not any(source.gid.raw[8:]):
        return []
    return [each for each in table.entries if each.gid == source.gid]


def _answer(found: GidEntry | None, assumed: str | None) -> Answer:
    if found is None:
        return fails("no row of the local address: TCP")
    more = () if assumed is None else (assumed,)
    return Answer(
        found.index,
        "row of the local address",
        assumed=(_FROM.format(found.gid.ipv4 or found.gid), *more),
    )


STACKS: Final = (
    Stack(
        name="ydb",
        title="YDB",
        source="ydb-platform/ydb@aa2e1357 ydb/library/actors/interconnect/rdma/link_manager.cpp",
        versions=(
            Version("since-2025-12", rule, source="ydb-platform/ydb@aa2e1357, pull request 29694"),
            Version("to-2025-11", any_type),
        ),
        option="none: the address of the node's interconnect",
    ),
)
