"""x/rdma of tmc/apple: the first IPv4-mapped entry of the first eight, else index 1.

SelectRouteGID is made for Thunderbolt and knows no GID types. An explicit index must name a
non-zero entry. Otherwise, over the first MaxRouteGIDScan entries: never index 0 on
Thunderbolt; the first IPv4-mapped entry; then index 1; then, off Thunderbolt, the first
non-zero one. On RoCE that is the v1 twin of the entry to use.
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN
from rdmadiag.gid.stack import (
    LINUX,
    THUNDERBOLT,
    Answer,
    Environment,
    Stack,
    Version,
    complete,
)


def select(entries: Sequence[GidEntry], link_layer: LinkLayer) -> GidEntry | None:
    """The entry that SelectRouteGID would take on its own; None for none."""
    thunderbolt = link_layer is LinkLayer.THUNDERBOLT
    candidates = [
        entry
        for entry in entries
        if entry.index < MAX_ROUTE_GID_SCAN
        and not entry.gid.is_zero
        and not (thunderbolt and entry.index == 0)
    ]
    for entry in candidates:
        if entry.gid.is_ipv4_mapped:
            return entry
    for entry in candidates:
        if entry.index == 1:
            return entry
    return candidates[0] if candidates and not thunderbolt else None


def explain(entry: GidEntry) -> str:
    """Which step of the rule took `entry`."""
    if entry.gid.is_ipv4_mapped:
        return "first IPv4-mapped entry"
    if entry.index == 1:
        return "no IPv4-mapped entry, so index 1"
    return "no IPv4-mapped entry and none at index 1, so the first that is not empty"


def refusal(entries: Sequence[GidEntry], link_layer: LinkLayer) -> str:
    """Why the rule takes none of `entries`."""
    if not any(not entry.gid.is_zero for entry in entries):
        return "every GID of the port is empty"
    if link_layer is LinkLayer.THUNDERBOLT:
        return "no IPv4-mapped GID and none at index 1; index 0 is never used on Thunderbolt"
    return f"no GID among the first {MAX_ROUTE_GID_SCAN}"


def rule(table: PortTable, environment: Environment) -> Answer:
    """The same as a stack's rule; it reads no variable."""
    chosen = select(table.entries, table.link_layer)
    if chosen is None:
        why = refusal(table.entries, table.link_layer)
        return Answer(None, why, Outcome.FAILS, problem="refuses to attempt RTR")
    return Answer(chosen.index, explain(chosen))


STACKS: Final = (
    Stack(
        name="x-rdma",
        title="x/rdma",
        source="tmc/apple@9ad20fd5 x/rdma/policy.go",
        versions=(Version("0.6", rule, since=(0, 6)),),
        link_layers=LINUX | THUNDERBOLT,
        option="SelectRouteGID's preferred index",
    ),
)


def pick(entries: Sequence[GidEntry], link_layer: LinkLayer) -> Pick:
    """The rule's answer on a table of which no more is known, on any link layer."""
    (stack,) = STACKS
    length = entries[-1].index + 1 if entries else 0
    table = PortTable("", 0, link_layer, tuple(entries), length)
    return complete(rule(table, {}), stack, stack.versions[0], table)
