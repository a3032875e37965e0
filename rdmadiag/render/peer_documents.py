"""The rows of `gids --peer --json`: pairs of ports, and each stack at both ends."""

from collections.abc import Iterable

from rdmadiag.frozen import dataclass
from rdmadiag.render.gid_documents import Pick, pick_row
from rdmadiag.view import compat, peer_picks
from rdmadiag.view.compat_rows import CompatRow
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


@dataclass(frozen=True, slots=True)
class PortsBeside:
    """A port of A and one of B, all that was held against each other, and each stack at both."""

    here: End
    there: End
    protocol: Protocol
    talks: Talks
    why: str
    rows: tuple[CompatRow, ...]
    stacks: tuple[StackPair, ...]


def beside(every: Iterable[compat.PortsBeside]) -> tuple[PortsBeside, ...]:
    """`.beside` of the document of `compat`."""
    return tuple(
        PortsBeside(
            each.here,
            each.there,
            each.protocol,
            each.talks,
            each.why,
            each.rows,
            _stacks(each.stacks),
        )
        for each in every
    )


def pairs(every: Iterable[peer_picks.PortPair]) -> tuple[PortPair, ...]:
    """`.pairs` of the document."""
    return tuple(
        PortPair(pair.local, pair.remote, pair.protocol, _stacks(pair.stacks)) for pair in every
    )


def _stacks(every: Iterable[peer_picks.StackPair]) -> tuple[StackPair, ...]:
    return tuple(
        StackPair(
            each.stack,
            each.version,
            pick_row(each.local),
            pick_row(each.remote),
            each.talks,
            each.why,
        )
        for each in every
    )
