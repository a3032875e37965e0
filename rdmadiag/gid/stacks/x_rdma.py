"""x/rdma of tmc/apple: SelectRouteGID. Made for Thunderbolt; it knows no GID types.

Rule (tmc/apple x/rdma/policy.go at v0.6.10): an explicit index must name a non-zero
entry. Otherwise, over the first MaxRouteGIDScan entries: never index 0 on Thunderbolt;
the first IPv4-mapped entry; then index 1; then, off Thunderbolt, the first non-zero one.
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN
from rdmadiag.gid.stacks.pick import Pick
from rdmadiag.ib import GidType, LinkLayer

STACK: Final = "x-rdma"
VERSION: Final = "0.6"


def select(entries: Sequence[GidEntry], link_layer: LinkLayer) -> GidEntry | None:
    """The entry that SelectRouteGID would take on its own; None for none."""
    thunderbolt = link_layer is LinkLayer.THUNDERBOLT
    candidates = [
        entry
        for entry in entries
        if not entry.gid.is_zero
        and entry.index < MAX_ROUTE_GID_SCAN
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


def pick(entries: Sequence[GidEntry], link_layer: LinkLayer) -> Pick:
    """The rule's answer, with what is wrong with it on this port."""
    chosen = select(entries, link_layer)
    if chosen is None:
        why = refusal(entries, link_layer)
        return Pick(STACK, VERSION, None, why, "refuses to attempt RTR")
    problem = None
    if chosen.type is GidType.ROCE_V1:
        problem = "RoCE v1: not routable, and deaf to a peer that uses RoCE v2"
    return Pick(STACK, VERSION, chosen.index, explain(chosen), problem)
