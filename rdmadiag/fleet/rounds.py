"""Who meets whom, and when: rounds of disjoint pairs that every node works out by itself.

The circle method (Kirkman 1847): one node keeps its seat, the others move on by one seat a
round, and those that sit opposite each other are a pair. In n - 1 rounds every two of n nodes
meet once; of an odd number one rests in each round.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from itertools import count, islice
from typing import Final

from rdmadiag.frozen import dataclass

Pair = tuple[str, str]
"""Sender and receiver: the one that connects and measures, and the one that listens."""


class Phase(StrEnum):
    """What the pairs of a round have in common; in the order in which they are tried."""

    SAME_RAIL = "same_rail"
    ACROSS_RAILS = "across_rails"
    LEAF_TO_LEAF = "leaf_to_leaf"
    RETEST = "retest"


@dataclass(frozen=True, slots=True)
class Round:
    """Pairs that run at once: no node is in two of them."""

    number: int  # from 1
    phase: Phase
    rails: tuple[int, int]  # of all senders, and of all receivers
    pairs: tuple[Pair, ...]
    resting: tuple[str, ...]

    def partner(self, node: str) -> str | None:
        """Whom it meets; None: it rests."""
        for one, other in self.pairs:
            if node in (one, other):
                return other if node == one else one
        return None


_MOST_ROUNDS: Final = 1_000_000


def in_order(nodes: Sequence[str], seed: int) -> tuple[str, ...]:
    """The nodes in the order of their seats: the same on every host and Python.

    Raises ValueError where a node is named twice.
    """
    if len(set(nodes)) != len(nodes):
        raise ValueError("a node is named twice")
    salt = seed.to_bytes(8, "big", signed=True)
    # Whoever sits side by side hardly ever shares a switch, which names in order mostly do.
    return tuple(
        sorted(nodes, key=lambda node: blake2b(node.encode(), key=salt, digest_size=16).digest())
    )


def meetings(number: int) -> int:
    """In how many rounds every two of so many meet."""
    return number - 1 + number % 2 if number > 1 else 0


def seats(number: int, turn: int) -> Iterator[tuple[int, int]]:
    """The pairs of so many seats in one turn, 0 to meetings(number) - 1; larger ones begin anew."""
    moving = meetings(number)
    if not moving:
        return
    turn %= moving
    steps = range(1, (moving + 1) // 2)
    pairs = [((turn + step) % moving, (turn - step) % moving) for step in steps]
    if number % 2 == 0:
        pairs.append((number - 1, turn))
    for one, other in pairs:
        # A node sits on one side for half of the turns on end: by turns it sends and receives.
        yield (other, one) if turn % 2 else (one, other)


def plan(
    nodes: Sequence[str],
    seed: int = 0,
    *,
    rails: int = 1,
    rounds: int | None = None,
    across: int = 0,
    leaves: Mapping[str, str] | None = None,
) -> Iterator[Round]:
    """Every round: same rail first, across rails, then leaf to leaf.

    `rounds` are those of each rail, None: all in which every two nodes meet. `across` is how
    many there are across rails, and of `leaves` (node → leaf) every two meet, in at most
    `rounds` rounds. Raises ValueError as in_order does.
    """
    ordered = in_order(nodes, seed)
    most = meetings(len(ordered))
    each = most if rounds is None else min(rounds, most)
    numbers = count(1)
    for turn in range(each):
        for rail in range(rails):
            # Every rail at another turn: a node meets more partners than it has rounds.
            pairs = seats(len(ordered), turn + rail * each)
            yield _round(next(numbers), Phase.SAME_RAIL, (rail, rail), ordered, pairs)
    for turn, (rail, other) in enumerate(islice(_across(rails), across)):
        pairs = seats(len(ordered), turn)
        yield _round(next(numbers), Phase.ACROSS_RAILS, (rail, other), ordered, pairs)
    for turn, pairs in enumerate(islice(_between(ordered, leaves or {}), rounds)):
        rail = turn % rails
        yield _round(next(numbers), Phase.LEAF_TO_LEAF, (rail, rail), ordered, pairs)


def _round(
    number: int,
    phase: Phase,
    rails: tuple[int, int],
    ordered: Sequence[str],
    pairs: Iterator[tuple[int, int]],
) -> Round:
    met = tuple((ordered[one], ordered[other]) for one, other in pairs)
    busy = {node for pair in met for node in pair}
    return Round(number, phase, rails, met, tuple(node for node in ordered if node not in busy))


def _across(rails: int) -> Iterator[tuple[int, int]]:
    """Two different rails each, without end; every rail is a sender before one is again."""
    if rails > 1:
        for turn in range(_MOST_ROUNDS):
            yield turn % rails, (turn + 1 + turn // rails % (rails - 1)) % rails


def _between(
    ordered: Sequence[str], leaves: Mapping[str, str]
) -> Iterator[Iterator[tuple[int, int]]]:
    """Rounds in which the nodes of one leaf meet those of another."""
    members: dict[str, list[int]] = {}
    for seat, node in enumerate(ordered):
        if node in leaves:
            members.setdefault(leaves[node], []).append(seat)
    names = sorted(members)
    for turn in range(meetings(len(names))):
        yield iter(
            [
                pair
                for one, other in seats(len(names), turn)
                for pair in zip(members[names[one]], members[names[other]], strict=False)
            ]
        )
