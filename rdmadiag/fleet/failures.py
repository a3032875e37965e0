"""Whose fault it is that pairs failed: what all failures have in common, and who passed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.fit import PARTNERS_LEAST, ROUNDS_LEAST, Seat
from rdmadiag.fleet.pair_results import OddKind
from rdmadiag.frozen import dataclass

PASSED: Final = Outcome.VERIFIED
UNTRIED: Final = frozenset({Outcome.NOT_ALLOWED, Outcome.INTERRUPTED})
"""Outcomes that say nothing of the pair."""
OWN: Final = frozenset({Outcome.NOT_SAFE, Outcome.DIED, Outcome.WATCHDOG, Outcome.TEARDOWN_FAILED})
"""Outcomes that are the fault of the end that reports them, whoever its partner is."""
_SHARE: Final = 0.6
"""So much of what a part takes part in fails, where it is at fault."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One pair in one round, by both its ends."""

    round: int
    sender: int  # index of an end
    receiver: int
    of_sender: Outcome | None  # None: that end never reported
    of_receiver: Outcome | None

    @property
    def reported(self) -> bool:
        """Whether both ends said something."""
        return self.of_sender is not None and self.of_receiver is not None

    @property
    def passed(self) -> bool:
        """Whether both ends verified the data."""
        return self.of_sender is PASSED and self.of_receiver is PASSED

    @property
    def failed(self) -> bool:
        """Whether it was tried, reported by both, and not verified."""
        said = {self.of_sender, self.of_receiver}
        return self.reported and not self.passed and not said <= UNTRIED | {PASSED}


@dataclass(frozen=True, slots=True)
class Failure:
    """A part that fails."""

    kind: OddKind
    nodes: tuple[int, ...]
    ends: tuple[int, ...]  # beside them
    leaves: tuple[int, ...]
    outcomes: Mapping[Outcome, int]
    meetings: int  # that failed
    partners: int
    rounds: int


_Key = tuple[str, int, int]


def failures(meetings: Sequence[Meeting], seats: Sequence[Seat]) -> Iterator[Failure]:
    """Parts that fail; a pair that one end never reported of is nobody's failure here."""
    judged = [each for each in meetings if each.passed or each.failed]
    left = {index for index, each in enumerate(judged) if each.failed}
    parts: dict[_Key, list[int]] = defaultdict(list)
    if not left:
        return
    for index, each in enumerate(judged):
        for key in _parts(each, seats):
            parts[key].append(index)
    rails: dict[int, set[int]] = defaultdict(set)
    for each in judged:
        for end in (each.sender, each.receiver):
            rails[seats[end].node].add(end)
    while found := _widest(parts, left, judged, seats, rails):
        key, failed = found
        yield _failure(key, [judged[i] for i in failed], seats)
        left -= set(failed)
    yield from _one_by_one([judged[i] for i in sorted(left)], judged, seats)


def _parts(each: Meeting, seats: Sequence[Seat]) -> Iterator[_Key]:
    """What may be at fault: of an end that says so of itself, that end alone."""
    one, other = seats[each.sender], seats[each.receiver]
    own = _own(each)
    for end in (each.sender, each.receiver) if own is None else (own,):
        yield "node", seats[end].node, 0
        yield "end", end, 0
    if own is not None:
        return
    if one.leaf >= 0 and other.leaf >= 0:
        yield "leaves", min(one.leaf, other.leaf), max(one.leaf, other.leaf)


def _widest(
    parts: Mapping[_Key, Sequence[int]],
    left: set[int],
    judged: Sequence[Meeting],
    seats: Sequence[Seat],
    rails: Mapping[int, set[int]],
) -> tuple[_Key, list[int]] | None:
    """The part that explains most failures, of those that fail nearly always."""
    best: tuple[float, int, _Key] | None = None
    rank = {"node": 2, "end": 1, "leaves": 0}
    for key, members in parts.items():
        failed = sum(index in left for index in members)
        if failed < PARTNERS_LEAST or failed < _SHARE * len(members):
            continue
        if key[0] == "end" and len(rails[seats[key[1]].node]) == 1:
            continue  # it is the node
        weight = failed * failed / len(members)
        if best is None or (weight, rank[key[0]]) > best[:2]:
            inside = [judged[i] for i in members if i in left]
            if _partners(key, inside, seats) >= PARTNERS_LEAST and (
                len({each.round for each in inside}) >= ROUNDS_LEAST
            ):
                best = weight, rank[key[0]], key
    if best is None:
        return None
    return best[2], [index for index in parts[best[2]] if index in left]


def _partners(key: _Key, members: Sequence[Meeting], seats: Sequence[Seat]) -> int:
    name, one, _ = key
    if name == "leaves":
        return len({seats[each.sender].node for each in members})
    own = one if name == "node" else seats[one].node
    met = {seats[end].node for each in members for end in (each.sender, each.receiver)}
    return len(met - {own})


def _failure(key: _Key, members: Sequence[Meeting], seats: Sequence[Seat]) -> Failure:
    name, one, other = key
    kinds = {"node": OddKind.NODE, "end": OddKind.NIC, "leaves": OddKind.BOUNDARY}
    return Failure(
        kinds[name],
        (one,) if name == "node" else (),
        (one,) if name == "end" else (),
        (one, other) if name == "leaves" else (),
        _outcomes(members),
        len(members),
        _partners(key, members, seats),
        len({each.round for each in members}),
    )


def _outcomes(members: Sequence[Meeting]) -> dict[Outcome, int]:
    found: dict[Outcome, int] = defaultdict(int)
    for each in members:
        for said in (each.of_sender, each.of_receiver):
            if said is not None and said is not PASSED:
                found[said] += 1
    return dict(found)


def _one_by_one(
    left: Sequence[Meeting], judged: Sequence[Meeting], seats: Sequence[Seat]
) -> Iterator[Failure]:
    """Failures that nothing wider explains: by what an end says of itself, or by who passed."""
    passed: dict[int, set[int]] = defaultdict(set)
    failed: dict[int, set[int]] = defaultdict(set)
    for each in judged:
        held = passed if each.passed else failed
        held[each.sender].add(seats[each.receiver].node)
        held[each.receiver].add(seats[each.sender].node)
    by_pair: dict[tuple[int, ...], list[Meeting]] = defaultdict(list)
    for each in left:
        own = _own(each)
        pair = (own,) if own is not None else tuple(sorted((each.sender, each.receiver)))
        by_pair[pair].append(each)
    for ends, members in by_pair.items():
        met = min(len(passed[end]) for end in ends)
        rounds = len({each.round for each in members})
        if len(ends) == 1:
            kind, partners = OddKind.NIC, len(failed[ends[0]])
        else:
            kind = OddKind.PATH if met >= PARTNERS_LEAST else OddKind.UNDECIDED
            partners = met
        yield Failure(kind, (), ends, (), _outcomes(members), len(members), partners, rounds)


def _own(each: Meeting) -> int | None:
    """The end that says of itself alone that it is at fault."""
    is_senders, is_receivers = each.of_sender in OWN, each.of_receiver in OWN
    if is_senders == is_receivers:
        return None
    return each.sender if is_senders else each.receiver
