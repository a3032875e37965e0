"""What stacks would pick on each port of a host, with the variables of a process."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.registry import Chosen
from rdmadiag.gid.stack import Stack, Version, pick
from rdmadiag.gid.variables import BY_NAME, choice
from rdmadiag.view.reconcile import PortView, Protocol

BY_GID: Final = (Protocol.INFINIBAND, Protocol.ROCE, Protocol.THUNDERBOLT)
"""Where a GID, or a LID instead of one, is chosen at all."""

_NO_VARIABLES: Final = "that no variable is set: this process's could not be read"


def variables(evidence: Evidence) -> Mapping[str, str] | Missing:
    """The environment that a report carries."""
    process = evidence.process
    return process if isinstance(process, Missing) else process.environment


def table_of(port: PortView) -> PortTable | None:
    """The port's table as stacks read it; None where there is none, or no GID is used."""
    gids = port.gids
    if isinstance(gids, Missing) or port.protocol not in BY_GID:
        return None
    if isinstance(port.link_layer, Missing) or port.link_layer is LinkLayer.UNSPECIFIED:
        return None
    unread = set(gids.unreadable)
    if gids.asked is not None:
        unread |= set(range(gids.asked, gids.length))
    return PortTable(
        port.device,
        port.number,
        port.link_layer,
        tuple(each for each in gids.entries if each.index < gids.length and not each.is_empty),
        gids.length,
        lid=None if isinstance(port.lid, Missing) else port.lid,
        netdevs=port.netdevs,
        unassigned=port.unassigned,
        unusable=port.unusable,
        route=port.route_entry,
        unread=tuple(sorted(unread)),
    )


def picks(
    port: PortView, stacks: Iterable[Chosen], environment: Mapping[str, str] | Missing
) -> tuple[Pick, ...]:
    """The answer of each rule; nothing where the port has no table."""
    if port.protocol is Protocol.IWARP:
        return tuple(_over_iwarp(stack, version) for stack, version in stacks)
    table = table_of(port)
    if table is None:
        return ()
    known = not isinstance(environment, Missing)
    own = environment if not isinstance(environment, Missing) else {}
    found = (_pick(stack, version, table, own) for stack, version in stacks)
    if known:
        return tuple(found)
    return tuple(replace(each, assumed=(*each.assumed, _NO_VARIABLES)) for each in found)


def made_for(stacks: Sequence[Chosen], port: PortView) -> tuple[Chosen, ...]:
    """The stacks that run on the port's link layer."""
    if isinstance(port.link_layer, Missing):
        return ()
    layer, iwarp = port.link_layer, port.protocol is Protocol.IWARP
    return tuple(
        chosen
        for chosen in stacks
        if (chosen[0].by_rdma_cm if iwarp else chosen[0].supports(layer))
    )


def _over_iwarp(stack: Stack, version: Version) -> Pick:
    """What becomes of a stack on iWARP, which rdma_cm alone connects."""
    return Pick(
        stack.name,
        version.name,
        None,
        "by IP address, through rdma_cm"
        if stack.by_rdma_cm
        else "cannot use iWARP: it connects queue pairs by GID, without rdma_cm",
        None if stack.by_rdma_cm else "iWARP is connected by rdma_cm alone",
        Outcome.ADDRESS if stack.by_rdma_cm else Outcome.UNSUPPORTED,
        source=version.source or stack.source,
    )


def _pick(stack: Stack, version: Version, table: PortTable, environment: Mapping[str, str]) -> Pick:
    found = pick(stack, version, table, environment)
    chosen = choice(environment, BY_NAME[stack.pin.variable].ports) if stack.pin else None
    if chosen is None or chosen.has(table.device, table.port):
        return found
    return Pick(
        stack.name,
        version.name,
        None,
        f"{chosen.variable}={chosen.value} leaves the port out",
        None,
        Outcome.NOT_USED,
        source=found.source,
    )
