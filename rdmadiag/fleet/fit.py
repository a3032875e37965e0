"""Which few parts of a fleet explain the pairs that are slow: a sparse fit of a sparse matrix.

The model is that of a two-way table of log values: the centre of its class (inside a leaf,
between leaves, on one rail, across two), and what its sender (row), its receiver (column) and
its group add. The centres are medians, taken anew after each step as in Tukey's median polish.
Rows and columns are not: with three to five rounds a row has one to five cells, and a median of
so few takes the noise for an effect. So a part of the fleet has an effect only where all its
pairs together are further from their centre than chance makes any part of as many.

A log value's unit: 0.1 is a tenth more time, or a tenth less bandwidth, nearly.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import ceil, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

from rdmadiag.fleet.pair_results import OddKind
from rdmadiag.frozen import dataclass

SCALE_LEAST: Final = 0.05
"""Of one measurement, as a standard deviation: below it a uniform fleet differs for no reason."""
EFFECT_LEAST: Final = 0.07
"""An effect that is worth a name."""
BY_CHANCE: Final = 1e-5
"""How often a healthy fleet may have a part named, at noise that is normal on the log scale."""
PARTNERS_LEAST: Final = 3
ROUNDS_LEAST: Final = 2
_SLOW: Final = 0.6
"""Of the pairs of a part, so many at least have more than half of its effect."""
_SLOW_ENDS: Final = 0.75
"""And of the ends of a node, the ends of a group and its pairs; with fewer each is named alone."""
_SURE: Final = 9.2
"""Twice the logarithm of 100: how much likelier one part is than another that may be meant."""
_PASSES: Final = 12


class Sample(NamedTuple):
    """One measurement of one pair."""

    sender: int  # index of an end
    receiver: int
    round: int
    cost: float  # the logarithm of its time, or of one over its bandwidth: more is slower


class Seat(NamedTuple):
    """Where an end is."""

    node: int
    rail: int
    leaf: int  # -1: not known


Part = tuple[str, int, int]
"""A part that may be slow: ("end", 7, 0), ("path", 7, 12), ("leaves", 0, 3)."""

_ROLES: Final = ("", " sends", " receives")
"""Of an end and a node; the last two are slow in one role alone."""
_KINDS: Final = {
    "node": OddKind.NODE,
    "end": OddKind.NIC,
    "path": OddKind.PATH,
    "leaf": OddKind.BOUNDARY,
    "leaves": OddKind.BOUNDARY,
    "rail": OddKind.BOUNDARY,
}


@dataclass(frozen=True, slots=True)
class Effect:
    """A part that is slow."""

    kind: OddKind
    part: Part
    effect: float  # of the log value
    score: float  # standard errors
    samples: tuple[int, ...]  # indexes of those that it stands on
    partners: int
    rounds: int
    rivals: tuple[Part, ...]  # parts that explain the same nearly as well


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found, and what is left."""

    effects: tuple[Effect, ...]
    rest: tuple[float, ...]  # of each sample, after its centre and the effects
    centres: dict[int, float]  # by class
    level: float  # the middle of all pairs without the effects
    scale: float
    least_score: float

    @property
    def enough(self) -> int:
        """After how many samples of its own a part that is slower by a fifth is seen for sure."""
        return ceil(((self.least_score + 3.1) * self.scale / 0.1823) ** 2)


def fit(samples: Sequence[Sample], seats: Sequence[Seat]) -> Fit:
    """The parts that are slow, beginning with the clearest."""
    if not samples:
        return Fit((), (), {}, 0.0, SCALE_LEAST, 0.0)
    return _Fit(samples, seats).run()


def median(values: Iterable[float]) -> float:
    """Of at least one."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


_QUARTILE: Final = 0.6745  # standard deviations from the middle of a normal distribution
_TENTH: Final = 1.2816
_OF_MEDIAN: Final = 1.57  # its variance, in that of a mean: pi / 2
_FEW: Final = 11
"""Pairs below which the spread of those in order is no estimate by quartiles."""
_FEW_SPREAD: Final = 2.0
"""The spread of n pairs, where they are few, is taken 1 + this / n times as large: by chance it
is often seen far too small."""
_FEWEST: Final = 3
"""So few pairs, those of three nodes, say nothing of their spread."""


def _middle_of_the_fast(values: Sequence[float]) -> float:
    """The middle of those that are in order, where up to half and more are slow.

    What is in order has normal noise, whose faster side nothing slow covers: the middle is as
    far above its quartile as its spread below says.
    """
    if len(values) < _FEW:
        return median(values)
    ordered = sorted(values)
    quartile, tenth = ordered[len(ordered) // 4], ordered[len(ordered) // 10]
    spread = max(SCALE_LEAST, (quartile - tenth) / (_TENTH - _QUARTILE))
    return min(median(ordered), quartile + _QUARTILE * spread)


class _Fit:
    def __init__(self, samples: Sequence[Sample], seats: Sequence[Seat]) -> None:
        self.samples, self.seats = samples, seats
        self.nodes = max((seat.node for seat in seats), default=-1) + 1
        self.rails = [0] * self.nodes
        self.by_end: tuple[list[list[int]], list[list[int]]] = (
            [[] for _ in seats],
            [[] for _ in seats],
        )
        sent, received = self.by_end
        by_pair: dict[tuple[int, int], list[int]] = {}
        for index, (sender, receiver, _, _) in enumerate(samples):
            sent[sender].append(index)
            received[receiver].append(index)
            pair = (sender, receiver) if sender < receiver else (receiver, sender)
            if pair in by_pair:
                by_pair[pair].append(index)
            else:
                by_pair[pair] = [index]
        self.by_pair = by_pair
        self.once = [members[0] for members in by_pair.values()]
        self.more = [(at, held) for at, held in enumerate(by_pair.values()) if len(held) > 1]
        self._place()
        for node, ends in self._by_node().items():
            self.rails[node] = len(ends)
        self.least_score = NormalDist().inv_cdf(1 - BY_CHANCE / max(2, self._parts()))
        self.rest: list[float] = []
        self.centres: dict[int, float] = {}
        self.scale = SCALE_LEAST

    def _place(self) -> None:
        """The class of each sample, the samples of each group, and which groups can be judged:
        those of no more than half of the samples that they compare with."""
        rails, leaves = ([seat[field] for seat in self.seats] for field in (1, 2))
        on_rail: dict[int, list[int]] = defaultdict(list)
        alike: dict[tuple[bool, int, int], list[int]] = defaultdict(list)
        for index, (sender, receiver, _, _) in enumerate(self.samples):
            rail = rails[sender]
            is_across = rail != rails[receiver]
            if not is_across:
                on_rail[rail].append(index)
            alike[is_across, leaves[sender], leaves[receiver]].append(index)
        self.classes = [0] * len(self.samples)
        self.by_group: dict[Part, list[int]] = defaultdict(list)
        of_class: dict[int, int] = defaultdict(int)
        counted: dict[tuple[Part, int], int] = defaultdict(int)
        for (is_across, leaf, other), held in alike.items():
            which = 2 * is_across + (leaf != other)
            of_class[which] += len(held)
            for index in held:
                self.classes[index] = which
            for group in _groups(leaf, other):
                self.by_group[group] += held
                counted[group, which] += len(held)
        for rail, held in on_rail.items():
            self.by_group["rail", rail, 0] = held
            for which, number in Counter([self.classes[index] for index in held]).items():
                counted[("rail", rail, 0), which] = number
        self.sizes = _sizes(of_class, counted)
        self.once_of: dict[int, list[int]] = defaultdict(list)
        for index in self.once:
            self.once_of[self.classes[index]].append(index)

    def _by_node(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for end, (seat, sent, received) in enumerate(zip(self.seats, *self.by_end, strict=True)):
            if sent or received:
                found[seat.node].append(end)
        self.ends_of = found
        return found

    def _parts(self) -> int:
        return 3 * (len(self.seats) + self.nodes) + len(self.by_pair) + len(self.sizes)

    def run(self) -> Fit:
        effects: dict[Part, float] = {}
        self._settle(effects)
        for _ in range(_PASSES):
            found = [part for part in self._clearest() if part not in effects]
            if not found:
                break
            for part in found:
                effects[part] = median(self.rest[index] for index in self._members(part))
            for _ in range(2):
                self._settle(effects)
                self._polish(effects)
            self._settle(effects)
        return self._done(self._kept(effects))

    def _polish(self, effects: dict[Part, float]) -> None:
        for part in effects:
            members = self._members(part)
            more = median(self.rest[index] for index in members)
            effects[part] += more
            for index in members:
                self.rest[index] -= more

    def _settle(self, effects: dict[Part, float]) -> None:
        """Centres, what is left of each sample, and its scale, with these effects."""
        left = [sample.cost for sample in self.samples]
        for part, effect in effects.items():
            for index in self._members(part):
                left[index] -= effect
        # One sample of each pair: those that are slow are measured more often.
        middle = median if effects else _middle_of_the_fast
        once_of = self.once_of if effects else self._without_one_node(left)
        centres = self.centres = {
            which: middle([left[index] for index in once]) for which, once in once_of.items()
        }
        rest = self.rest = [
            value - centres[which] for which, value in zip(self.classes, left, strict=True)
        ]
        base = [abs(rest[index]) for once in once_of.values() for index in once]
        few = _FEW_SPREAD / len(base) if len(self.once) < _FEW else 0.0
        least = SCALE_LEAST * (1 + few) if len(self.once) <= _FEWEST else SCALE_LEAST
        self.scale = max(least, median(base) / _QUARTILE * (1 + few))

    def _without_one_node(self, left: Sequence[float]) -> dict[int, list[int]]:
        """The pairs to begin with: of few, those that remain without the node that slows most.

        In a fleet of four, three of the six pairs are those of one node.
        """
        if len(self.once) >= _FEW:
            return self.once_of
        found = {}
        for which, once in self.once_of.items():
            pairs_of = Counter(node for index in once for node in self._nodes_of(index))
            rests = [
                [i for i in once if node not in self._nodes_of(i)]
                for node, number in pairs_of.items()
                if number > 1
            ]
            found[which] = min(
                (each for each in rests if each),
                key=lambda each: median(left[index] for index in each),
                default=once,
            )
        return found

    def _nodes_of(self, index: int) -> tuple[int, int]:
        sender, receiver = self.samples[index][:2]
        return self.seats[sender].node, self.seats[receiver].node

    def _kept(self, effects: dict[Part, float]) -> dict[Part, float]:
        """Without those that the others turned out to explain."""
        while effects:
            worst = min(effects, key=lambda part: self._score_alone(part, effects[part]))
            is_clear = self._score_alone(worst, effects[worst]) > self.least_score
            if is_clear and effects[worst] > EFFECT_LEAST:
                break
            del effects[worst]
            self._settle(effects)
            self._polish(effects)
            self._settle(effects)
        return effects

    def _score_alone(self, part: Part, effect: float) -> float:
        members = self._members(part)
        total = sum(self.rest[index] for index in members) + effect * len(members)
        return total / (self.scale * self._error(len(members)))

    def _clearest(self) -> list[Part]:
        """Those beyond chance whose samples are mostly their own; one alone where it is a group."""
        ranked = sorted(self._beyond_chance(), key=lambda each: -each[0])
        taken: set[int] = set()
        found: list[Part] = []
        for _, part in ranked:
            is_group = _KINDS[part[0].split(" ")[0]] is OddKind.BOUNDARY
            if is_group and found:
                continue
            members = self._members(part)
            if 2 * len(taken.intersection(members)) >= len(members) or not self._holds(part):
                continue
            found.append(part)
            if is_group:
                break
            taken.update(members)
        return found

    def _beyond_chance(self) -> Iterator[tuple[float, Part]]:
        yield from self._ends_beyond_chance()
        rest = self.rest
        least = self.least_score * self.scale
        totals = [rest[index] for index in self.once]
        for at, members in self.more:
            totals[at] = sum([rest[i] for i in members])
        for total, (pair, members) in zip(totals, self.by_pair.items(), strict=True):
            if total >= least and (score := self._score(total, len(members))):
                yield score, ("path", *pair)
        for group, number in self.sizes.items():
            total = sum([rest[i] for i in self.by_group[group]])
            if score := self._score(total, number):
                yield score, group

    def _ends_beyond_chance(self) -> Iterator[tuple[float, Part]]:
        """Ends and nodes."""
        out, into = [0.0] * len(self.seats), [0.0] * len(self.seats)
        for (sender, receiver, _, _), value in zip(self.samples, self.rest, strict=True):
            out[sender] += value
            into[receiver] += value
        least = self.least_score * self.scale
        nodes = [[0.0, 0.0] for _ in range(self.nodes)]
        sent, received = self.by_end
        for end, (seat, one, other) in enumerate(zip(self.seats, out, into, strict=True)):
            of_node = nodes[seat.node]
            of_node[0] += one
            of_node[1] += other
            is_clear = one >= least or other >= least or one + other >= least
            if is_clear and self.rails[seat.node] > 1:
                numbers = len(sent[end]), len(received[end])
                yield from self._in_roles("end", end, one, other, *numbers)
        for node, (one, other) in enumerate(nodes):
            if one >= least or other >= least or one + other >= least:
                ends = self.ends_of[node]
                number_out = sum([len(sent[end]) for end in ends])
                number_in = sum([len(received[end]) for end in ends])
                yield from self._in_roles("node", node, one, other, number_out, number_in)

    def _score(self, total: float, number: int) -> float:
        """Standard errors; 0 where it may be chance, or is not worth a name."""
        least = self.least_score * self.scale
        if total < least or total < EFFECT_LEAST * number:
            return 0.0
        score = total / (self.scale * self._error(number))
        return score if score > self.least_score else 0.0

    def _error(self, number: int) -> float:
        """Of the sum of so many samples, with that of the median which all are measured from."""
        return sqrt(number + number * number * _OF_MEDIAN / len(self.once))

    def _in_roles(
        self, kind: str, index: int, out: float, into: float, sent: int, received: int
    ) -> Iterator[tuple[float, Part]]:
        for role, total, number in (  # of one sample alone the path is named
            ("", out + into, sent + received),
            (" sends", out, sent),
            (" receives", into, received),
        ):
            if number > 1 and (score := self._score(total, number)):
                # A part that is slow in both roles comes before one that is in one of them.
                yield score * (0.97 if role else 1), (kind + role, index, 0)

    def _members(self, part: Part) -> list[int]:
        """The samples that it is part of."""
        kind, one, other = part
        name, _, role = kind.partition(" ")
        if name == "path":
            return self.by_pair[one, other]
        if name not in ("end", "node"):
            return sorted(self.by_group[part])
        ends = (one,) if name == "end" else self.ends_of[one]
        sides = {"": (0, 1), "sends": (0,), "receives": (1,)}[role]
        return [index for side in sides for end in ends for index in self.by_end[side][end]]

    def _ends(self, part: Part) -> set[int]:
        kind, one, other = part
        if kind == "path":
            return {one, other}
        return {one} if kind.startswith("end") else set(self.ends_of[one])

    def _holds(self, part: Part) -> bool:
        """Whether it is slow throughout: with most partners, on most rails, of most ends."""
        members = self._members(part)
        name = part[0].partition(" ")[0]
        if name == "path":
            return True
        by_pair: dict[tuple[int, int], list[float]] = defaultdict(list)
        for index in members:
            by_pair[_pair(*self.samples[index][:2])].append(self.rest[index])
        means = {pair: sum(values) / len(values) for pair, values in by_pair.items()}
        half = median(means.values()) / 2
        slow = sum(mean > half for mean in means.values())
        is_group = _KINDS[name] is OddKind.BOUNDARY
        if 2 * half < EFFECT_LEAST or slow < (_SLOW_ENDS if is_group else _SLOW) * len(means):
            return False
        if name == "end":
            return True
        if is_group and len(self._nodes(part, members)) < PARTNERS_LEAST:
            return False  # of two nodes that are all of a leaf, each is named
        own: dict[int, list[float]] = defaultdict(list)
        for pair, mean in means.items():
            for end in pair:
                if name != "node" or self.seats[end].node == part[1]:
                    own[end].append(mean)
        return sum(median(held) > half for held in own.values()) >= _SLOW_ENDS * len(own)

    def _nodes(self, group: Part, members: Sequence[int]) -> set[int]:
        """Of a leaf those on it; else all."""
        seats = (self.seats[end] for index in members for end in self.samples[index][:2])
        return {seat.node for seat in seats if group[0] != "leaf" or seat.leaf == group[1]}

    def _done(self, effects: dict[Part, float]) -> Fit:
        found = [self._effect(part, effect) for part, effect in effects.items()]
        found.sort(key=lambda each: -each.score)
        level = median([self.rest[i] + self.centres[self.classes[i]] for i in self.once])
        return Fit(
            tuple(found), tuple(self.rest), self.centres, level, self.scale, self.least_score
        )

    def _effect(self, part: Part, effect: float) -> Effect:
        members = self._members(part)
        kind = _KINDS[part[0].split(" ")[0]]
        made = Effect(
            kind,
            part,
            effect,
            self._score_alone(part, effect),
            tuple(members),
            self._partners(part, members),
            len({self.samples[index].round for index in members}),
            (),
        )
        rivals = tuple(self._rivals(made))
        few = made.partners < PARTNERS_LEAST or made.rounds < ROUNDS_LEAST
        return replace(made, kind=OddKind.UNDECIDED if rivals or few else kind, rivals=rivals)

    def _partners(self, part: Part, members: Sequence[int]) -> int:
        """Distinct ones; of a path those of the end that has fewer."""
        if part[0] == "path":
            return min(self._number_met(end) for end in part[1:])
        if part[0].startswith(("end", "node")):
            own = self._ends(part)
            return len(
                {
                    self.seats[end].node
                    for index in members
                    for end in self.samples[index][:2]
                    if end not in own
                }
            )
        return len(self._nodes(part, members))

    def _number_met(self, end: int) -> int:
        met = {self.samples[index].receiver for index in self.by_end[0][end]}
        met |= {self.samples[index].sender for index in self.by_end[1][end]}
        return len({self.seats[other].node for other in met})

    def _rivals(self, found: Effect) -> Iterator[Part]:
        """Other parts that explain what this one does nearly as well."""
        members = set(found.samples)
        for part in self._near(found):
            of_rival = self._members(part)
            if not of_rival:
                continue
            total = sum(
                self.rest[index] + (found.effect if index in members else 0.0) for index in of_rival
            )
            score = max(0.0, total / (self.scale * self._error(len(of_rival))))
            if found.score**2 - score**2 < _SURE:
                yield part

    def _near(self, found: Effect) -> Iterator[Part]:
        kind, one, other = found.part
        if kind == "path":
            for end in (one, other):
                name, index = (
                    ("end", end)
                    if self.rails[self.seats[end].node] > 1
                    else ("node", self.seats[end].node)
                )
                yield from ((name + role, index, 0) for role in _ROLES)
        elif kind.startswith("end"):
            yield from (("path", *_pair(*self.samples[i][:2])) for i in found.samples)
            if self.rails[self.seats[one].node] > 1:
                yield "node", self.seats[one].node, 0
        elif kind.startswith("node"):
            yield from (("path", *_pair(*self.samples[i][:2])) for i in found.samples)
            if self.rails[one] > 1:
                yield from (("end", end, 0) for end in self.ends_of[one])


def _sizes(of_class: Mapping[int, int], counted: Mapping[tuple[Part, int], int]) -> dict[Part, int]:
    """Samples of each group that can be judged by them."""
    found: dict[Part, int] = defaultdict(int)
    for (group, which), number in counted.items():
        if 2 * number < of_class[which]:
            found[group] += number
    return found


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


@cache
def _groups(leaf: int, other: int) -> tuple[Part, ...]:
    """Of pairs between these two leaves, or within one."""
    if leaf < 0 or other < 0:
        return ()
    between: Part = ("leaves", *_pair(leaf, other))
    return (between,) if leaf == other else (between, ("leaf", leaf, 0), ("leaf", other, 0))
