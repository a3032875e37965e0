"""The rows of `gids --peer --json`: pairs of ports, and each stack at both ends."""

from collections.abc import Iterable

from rdmadiag.frozen import dataclass
from rdmadiag.render.gid_documents import Pick, pick_row
from rdmadiag.view import peer_picks
from rdmadiag.view.peer_picks import End, Talks
from rdmadiag.view.reconcile import Protocol


@dataclass(frozen=True, slots=True)
class StackPair:
    """One stack, at both ends."""

    stack: str
    version: str
    local: Pick
    remote: Pick
    talks: Talks
    why: str


@dataclass(frozen=True, slots=True)
class PortPair:
    """A port here and one of the peer."""

    local: End
    remote: End
    protocol: Protocol
    stacks: tuple[StackPair, ...]


def pairs(every: Iterable[peer_picks.PortPair]) -> tuple[PortPair, ...]:
    """`.pairs` of the document."""
    return tuple(
        PortPair(
            pair.local,
            pair.remote,
            pair.protocol,
            tuple(
                StackPair(
                    each.stack,
                    each.version,
                    pick_row(each.local),
                    pick_row(each.remote),
                    each.talks,
                    each.why,
                )
                for each in pair.stacks
            ),
        )
        for pair in every
    )
