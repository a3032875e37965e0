"""Which pairs to measure again, and with whom: suspects with each other, and with what passed.

One measurement of a pair at a noise of 5 % does not separate a fifth less from chance, and so each
pair that might be slow is measured again; one that stays slow has both its ends tried with
others, which says whose fault it is. Only what was verified is measured again: a failure is
never tried a second time.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import log, sqrt
from typing import Final

from rdmadiag.fleet.fit import (
    PARTNERS_LEAST,
    ROUNDS_LEAST,
    Effect,
    Fit,
    Sample,
    Seat,
    fit,
)
from rdmadiag.fleet.matrix import NO_LEAVES, Results
from rdmadiag.fleet.pair_results import OddKind, PairResult
from rdmadiag.fleet.rounds import Phase, Round

SOUGHT: Final = log(1.2)
"""The smallest effect that is looked for: a fifth."""
_KEEP: Final = (2.8, 3.3)
"""A suspect is let go where it is so many standard errors below what is looked for: of pairs
that were measured once, which are nearly all, and of the few that were measured again."""
_MOST: Final = 12
"""Samples of one pair or end after which more would say nothing new."""

Ends = tuple[int, int]
"""Sender and receiver, as indexes."""


def again(
    samples: Sequence[Sample],
    seats: Sequence[Seat],
    barred: Collection[int] = (),
    found: Fit | None = None,
) -> tuple[Ends, ...]:
    """Pairs to measure once more, the most urgent first; empty: all is decided.

    `barred` are ends that take no part any more; `found` is the fit of these samples, where it
    is known already.
    """
    found = fit(samples, seats) if found is None else found
    return tuple(_Planner(samples, seats, found, barred).pairs())


def disjoint(pairs: Sequence[Ends], seats: Sequence[Seat]) -> tuple[tuple[Ends, ...], ...]:
    """The same pairs in rounds: no node is in two pairs of one, and all are on the same rails."""
    rounds: dict[tuple[int, int], list[tuple[list[Ends], set[int]]]] = defaultdict(list)
    for pair in pairs:
        one, other = (seats[end] for end in pair)
        nodes = {one.node, other.node}
        of_rails = rounds[one.rail, other.rail]
        free = next((each for each in of_rails if not nodes & each[1]), None)
        if free is None:
            free = [], set()
            of_rails.append(free)
        free[0].append(pair)
        free[1].update(nodes)
    return tuple(tuple(held) for of_rails in rounds.values() for held, _ in of_rails)


def retest(
    results: Iterable[PairResult],
    number: int,
    leaves: Mapping[str, str] = NO_LEAVES,
    barred: Collection[tuple[str, int]] = (),
) -> tuple[Round, ...]:
    """Rounds to come after those of `results`, the first of them `number`; empty: all is decided.

    `barred` are (node, rail) that take no part any more. A failure is never measured again.
    """
    held = Results(results, leaves)
    failed = {
        end for met in held.meetings() if not met.passed for end in (met.sender, met.receiver)
    }
    left_out = failed | {held.ends[end] for end in barred if end in held.ends}
    wanted: dict[Ends, int] = {}
    for samples in (held.latencies(), held.bandwidths()):
        for pair, times in Counter(again(samples, held.seats, left_out)).items():
            wanted[pair] = max(times, wanted.get(pair, 0))
    pairs = [pair for pair, times in wanted.items() for _ in range(times)]
    nodes = [held.nodes[seat.node] for seat in held.seats]
    return tuple(
        Round(
            number + index,
            Phase.RETEST,
            (held.seats[each[0][0]].rail, held.seats[each[0][1]].rail),
            tuple((nodes[sender], nodes[receiver]) for sender, receiver in each),
            (),
        )
        for index, each in enumerate(disjoint(pairs, held.seats))
    )


class _Planner:
    def __init__(
        self,
        samples: Sequence[Sample],
        seats: Sequence[Seat],
        found: Fit,
        barred: Collection[int],
    ) -> None:
        self.samples, self.seats, self.found = samples, seats, found
        self.barred = barred
        self.most = min(_MOST, found.enough)
        scale = found.scale
        self.least = [
            max(SOUGHT - _KEEP[number > 1] * scale / sqrt(number or 1), scale / 2)
            for number in range(_MOST + 1)
        ]
        self.explained = {i for effect in found.effects for i in effect.samples}
        self.of_pair: dict[Ends, list[int]] = defaultdict(list)
        self.of_end: dict[int, list[int]] = defaultdict(list)
        for index, (sender, receiver, _, _) in enumerate(samples):
            self.of_pair[sender, receiver].append(index)
            self.of_end[sender].append(index)
            self.of_end[receiver].append(index)
        self.on_rail: dict[int, list[int]] = defaultdict(list)
        for end, seat in enumerate(seats):
            if end not in barred and end in self.of_end:
                self.on_rail[seat.rail].append(end)
        self.open_pairs = self._open_pairs()
        self.open_ends = self._open_ends()
        self.suspected = self._suspected()

    def pairs(self) -> Iterator[Ends]:
        """Each as often as it needs."""
        for pair, times in self._times().items():
            if not {*pair} & {*self.barred}:
                yield from [pair] * times

    def _times(self) -> dict[Ends, int]:
        """A pair that stays slow is measured twice as often each time: fewer launches."""
        found: dict[Ends, int] = {}
        for pair in self._wanted():
            done = len(self.of_pair.get(pair, ()))
            found[pair] = max(1, min(done, self.most - done)) if pair not in found else found[pair]
        return found

    def _wanted(self) -> Iterator[Ends]:
        for effect in self.found.effects:
            yield from self._of_effect(effect)
        slow = [
            (-self._mean(members), pair)
            for pair, members in self.open_pairs
            if members[0] not in self.explained
        ]
        for _, pair in sorted(slow):
            yield pair
            if len(self.of_pair[pair]) > 1:
                yield from self._apart(pair)
        for end, number in self.open_ends:
            if end not in self.barred:
                yield from self._with_passed(end, sends=bool(number % 2))

    def _of_effect(self, effect: Effect) -> Iterator[Ends]:
        few = len(effect.samples) < self.most
        is_new = effect.partners < PARTNERS_LEAST or effect.rounds < ROUNDS_LEAST
        name, one, _ = effect.part
        if effect.kind is not OddKind.UNDECIDED and not few and not is_new:
            return
        if len(effect.samples) >= 2 * _MOST or name in ("leaf", "leaves", "rail"):
            return
        if name == "path":
            pair = next(iter(self.samples[i][:2] for i in effect.samples))
            yield pair
            yield from self._apart(pair)
            return
        role = name.partition(" ")[2]
        ends = (one,) if name.startswith("end") else self._ends_of(one)
        for end in ends:
            if end not in self.barred:
                sends = role == "sends" or (not role and bool(len(self.of_end[end]) % 2))
                yield from self._with_passed(end, sends=sends)

    def _ends_of(self, node: int) -> Iterator[int]:
        return (end for end in self.of_end if self.seats[end].node == node)

    def _apart(self, pair: Ends) -> Iterator[Ends]:
        """Both ends with others, each in the role that it had."""
        yield from self._with_passed(pair[0], sends=True)
        yield from self._with_passed(pair[1], sends=False)

    def _with_passed(self, end: int, *, sends: bool) -> Iterator[Ends]:
        """One partner that passed and is new, where there is one."""
        seat = self.seats[end]
        passed = self.on_rail[seat.rail]
        if not passed:
            return
        start = passed.index(end) if end in passed else 0
        # Neither the neighbour, which may share the fault, nor always the same for all.
        start += 1 + len(self.of_end[end]) * 7
        met = {other for index in self.of_end[end] for other in self.samples[index][:2]}
        known: int | None = None
        for step in range(len(passed)):
            other = passed[(start + step) % len(passed)]
            if self.seats[other].node == seat.node or other in self.suspected:
                continue
            if other not in met:
                known = other
                break
            known = other if known is None else known
        if known is not None:
            yield (end, known) if sends else (known, end)

    def _suspected(self) -> set[int]:
        """Ends that may be slow themselves: none of them is a partner for another."""
        found: set[int] = set()
        for effect in self.found.effects:
            if effect.kind is not OddKind.BOUNDARY:
                found |= {
                    end
                    for index in effect.samples
                    for end in self.samples[index][:2]
                    if effect.part[0] == "path" or self._is_of(end, effect)
                }
        found.update(end for end, _ in self.open_ends)
        for pair, members in self.open_pairs:
            if len(members) > 1:
                found |= {*pair}
        return found

    def _open_pairs(self) -> list[tuple[Ends, list[int]]]:
        """Pairs behind which may still be what is looked for, with their samples."""
        rest, least = self.found.rest, self.least[1]
        return [
            (pair, held)
            for pair, held in self.of_pair.items()
            if (
                rest[held[0]] > least
                if len(held) == 1
                else self._is_open(len(held), self._mean(held))
            )
        ]

    def _open_ends(self) -> list[tuple[int, int]]:
        """The same of ends, by their samples that nothing explains; with the number of these."""
        numbers, totals = [0] * len(self.seats), [0.0] * len(self.seats)
        for index, (sample, rest) in enumerate(zip(self.samples, self.found.rest, strict=True)):
            if index not in self.explained:
                for end in sample[:2]:
                    numbers[end] += 1
                    totals[end] += rest
        return [
            (end, number)
            for end in self.of_end
            if (number := numbers[end]) > 1 and self._is_open(number, totals[end] / number)
        ]

    def _is_of(self, end: int, effect: Effect) -> bool:
        name, one, _ = effect.part
        return end == one if name.startswith("end") else self.seats[end].node == one

    def _mean(self, members: Sequence[int]) -> float:
        return sum([self.found.rest[i] for i in members]) / len(members)

    def _is_open(self, number: int, mean: float) -> bool:
        """Of more than one sample."""
        return number < self.most and mean > self.least[number]
