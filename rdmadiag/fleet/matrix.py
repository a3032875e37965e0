"""What the results of all rounds say: which node, adapter, path or boundary is the odd one."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import exp, log
from types import MappingProxyType
from typing import Final

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.failures import Failure, Meeting, failures
from rdmadiag.fleet.fit import (
    EFFECT_LEAST,
    PARTNERS_LEAST,
    Effect,
    Part,
    Sample,
    Seat,
    fit,
    median,
)
from rdmadiag.fleet.pair_results import (
    Cell,
    End,
    Matrix,
    OddKind,
    OddPart,
    PairResult,
    Tournament,
)
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Status, worse

NO_LEAVES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Expected:
    """What a pair of a fleet in order comes to."""

    latency_us: float | None = None
    gbps: float | None = None


NOTHING_EXPECTED: Final = Expected()


@dataclasses.dataclass(slots=True)
class _Met:
    """One pair in one round, as its ends say it."""

    of_sender: Outcome | None = None
    of_receiver: Outcome | None = None
    latency_us: float | None = None
    gbps: float | None = None


class Results:
    """The results of pairs, indexed."""

    def __init__(
        self, results: Iterable[PairResult], leaves: Mapping[str, str] = NO_LEAVES
    ) -> None:
        self.ends: dict[tuple[str, int], int] = {}
        self.devices: list[str] = []
        self.met: dict[tuple[int, int, int], _Met] = {}
        for result in results:
            self._add(result)
        nodes: dict[str, int] = {}
        numbers = {name: number for number, name in enumerate(sorted(set(leaves.values())))}
        self.leaves = tuple(numbers)
        self.seats = tuple(
            Seat(nodes.setdefault(node, len(nodes)), rail, numbers.get(leaves.get(node, ""), -1))
            for node, rail in self.ends
        )
        self.nodes = tuple(nodes)
        self.names = tuple(
            f"{node}:{device or f'rail{rail}'}"
            for (node, rail), device in zip(self.ends, self.devices, strict=True)
        )

    def _add(self, result: PairResult) -> None:
        sender, receiver = self._end(result.sender), self._end(result.receiver)
        met = self.met.setdefault((result.round, sender, receiver), _Met())
        if result.by_sender:
            met.of_sender = result.outcome
        else:
            met.of_receiver = result.outcome
        if result.outcome is Outcome.VERIFIED:
            if _is_a_figure(result.latency_us):
                met.latency_us = result.latency_us
            if _is_a_figure(result.gbps):
                met.gbps = result.gbps

    def _end(self, end: End) -> int:
        number = self.ends.setdefault((end.node, end.rail), len(self.ends))
        if number == len(self.devices):
            self.devices.append(end.device)
        elif not self.devices[number]:
            self.devices[number] = end.device
        return number

    def latencies(self) -> list[Sample]:
        """Of pairs that passed: the logarithm of their time."""
        return [
            Sample(sender, receiver, number, log(met.latency_us))
            for (number, sender, receiver), met in self.met.items()
            if met.latency_us is not None
        ]

    def bandwidths(self) -> list[Sample]:
        """Of pairs that passed: minus the logarithm of their bandwidth."""
        return [
            Sample(sender, receiver, number, -log(met.gbps))
            for (number, sender, receiver), met in self.met.items()
            if met.gbps is not None
        ]

    def meetings(self) -> list[Meeting]:
        """All attempts, each with what both of its ends found."""
        return [
            Meeting(number, sender, receiver, met.of_sender, met.of_receiver)
            for (number, sender, receiver), met in self.met.items()
        ]


def _is_a_figure(value: float | None) -> bool:
    return value is not None and 0 < value < float("inf")


def judge(
    results: Iterable[PairResult],
    leaves: Mapping[str, str] = NO_LEAVES,
    expected: Expected = NOTHING_EXPECTED,
) -> Tournament:
    """What is odd, the worst first. `leaves`: node → leaf, of those that are known."""
    held = Results(results, leaves)
    latencies, bandwidths = held.latencies(), held.bandwidths()
    odd = [_failing(each, held) for each in failures(held.meetings(), held.seats)]
    for word, samples, absolute in (
        ("latency", latencies, log(expected.latency_us) if expected.latency_us else None),
        ("bandwidth", bandwidths, -log(expected.gbps) if expected.gbps else None),
    ):
        if not samples:
            continue
        found = fit(samples, held.seats)
        if absolute is not None and (slower := found.level - absolute) > EFFECT_LEAST:
            odd.append(_fleet(word, slower, held, len(samples)))
        odd += [_slow(word, effect, samples, held) for effect in found.effects]
    odd = _joined(odd)
    return Tournament(
        len({number for number, _, _ in held.met}),
        len(held.nodes),
        _matrix(held, odd),
        tuple(odd),
        tuple(_unreported(held)),
    )


def status(found: Tournament) -> Status:
    """Critical where a part fails, a warning where one is slow, unknown where one was not seen."""
    statuses = [Status.CRITICAL if each.slower is None else Status.WARN for each in found.odd]
    if found.unreported or found.left_out or found.unplayed or not found.matrix.cells:
        statuses.append(Status.UNKNOWN)
    return reduce(worse, statuses, Status.OK)


def _fleet(word: str, slower: float, held: Results, number: int) -> OddPart:
    line = f"{word}: the middle of all pairs is {_times(word, slower)} expected"
    evidence = (f"{line} ({number} measurements)",)
    return OddPart(OddKind.FLEET, ("fleet",), exp(slower), len(held.nodes), False, evidence)


def _times(word: str, effect: float) -> str:
    """ "1.21 times what is" or "17 % below what is"."""
    if word == "latency":
        return f"{exp(effect):.2f} times what is"
    return f"{100 * (1 - exp(-effect)):.0f} % below what is"


def _slow(word: str, effect: Effect, samples: Sequence[Sample], held: Results) -> OddPart:
    slower = f"{_times(word, effect.effect)} usual for such pairs"
    number = len(effect.samples)
    lines = [f"{word}: {slower}, in {number} measurements of {effect.rounds} rounds"]
    name, _, role = effect.part[0].partition(" ")
    if role:
        lines.append(f"{word}: only where it {role}")
    names = _names((name, *effect.part[1:]), held)
    if effect.kind is OddKind.UNDECIDED:
        others = [other for rival in effect.rivals for other in _names(rival, held)]
        if effect.partners < PARTNERS_LEAST:
            others += [held.names[end] for i in effect.samples for end in samples[i][:2]]
        names = tuple(dict.fromkeys((*names, *others)))
    return OddPart(
        effect.kind, names, exp(effect.effect), effect.partners, effect.rounds > 1, tuple(lines)
    )


def _names(part: Part, held: Results) -> tuple[str, ...]:
    name, one, other = part
    name = name.partition(" ")[0]
    if name == "node":
        return (held.nodes[one],)
    if name == "end":
        return (held.names[one],)
    if name == "path":
        return held.names[one], held.names[other]
    if name == "rail":
        return (f"rail {one}",)
    return (held.leaves[one],) if name == "leaf" else (held.leaves[one], held.leaves[other])


def _failing(failure: Failure, held: Results) -> OddPart:
    said = ", ".join(f"{number} {outcome}" for outcome, number in failure.outcomes.items())
    names = (
        *(held.nodes[node] for node in failure.nodes),
        *(held.names[end] for end in failure.ends),
        *(held.leaves[leaf] for leaf in failure.leaves),
    )
    pairs = "1 pair" if failure.meetings == 1 else f"{failure.meetings} pairs"
    return OddPart(
        failure.kind,
        names,
        None,
        failure.partners,
        failure.rounds > 1,
        (f"failed: {pairs} ({said})",),
    )


def _joined(odd: Iterable[OddPart]) -> list[OddPart]:
    """Those of one part as one; what fails comes first, then what is slowest."""
    held: dict[tuple[OddKind, frozenset[str], bool], OddPart] = {}
    for each in odd:
        key = each.kind, frozenset(each.names), each.slower is None
        known = held.setdefault(key, each)
        if known is not each:
            held[key] = OddPart(
                each.kind,
                known.names,
                max(filter(None, (known.slower, each.slower)), default=None),
                max(known.partners, each.partners),
                known.repeated or each.repeated,
                (*known.evidence, *each.evidence),
            )
    return sorted(
        held.values(), key=lambda each: (each.slower is not None, -(each.slower or 0), each.names)
    )


def _unreported(held: Results) -> Iterator[str]:
    for (number, sender, receiver), met in sorted(held.met.items()):
        for end, outcome in ((sender, met.of_sender), (receiver, met.of_receiver)):
            if outcome is None:
                yield f"{held.names[end]} in round {number}"


_BAD: Final = list(Outcome)


def _worst(outcomes: Iterable[Outcome | None]) -> Outcome | None:
    """Of a pair in all its rounds; None: an end never reported."""
    found = list(outcomes)
    if None in found:
        return None
    return max(
        (each for each in found if each is not None),
        key=lambda each: (each is not Outcome.VERIFIED, _BAD.index(each)),
    )


def _matrix(held: Results, odd: Sequence[OddPart]) -> Matrix:
    first: dict[str, int] = {}
    for rank, part in enumerate(odd):
        for name in part.names:
            first.setdefault(name, rank)
    least = len(odd)

    def place(end: int) -> tuple[int, int, int, str]:
        seat = held.seats[end]
        rank = min(first.get(held.nodes[seat.node], least), first.get(held.names[end], least))
        return rank, seat.leaf, seat.rail, held.names[end]

    met: dict[tuple[int, int], list[_Met]] = defaultdict(list)
    for (_, sender, receiver), each in held.met.items():
        met[sender, receiver].append(each)
    cells = tuple(
        Cell(
            held.names[sender],
            held.names[receiver],
            _worst(outcome for each in all_of for outcome in (each.of_sender, each.of_receiver)),
            _middle(each.latency_us for each in all_of),
            _middle(each.gbps for each in all_of),
        )
        for (sender, receiver), all_of in met.items()
    )
    ends = sorted(range(len(held.names)), key=place)
    groups = tuple(held.leaves[leaf] if (leaf := held.seats[end].leaf) >= 0 else "" for end in ends)
    names = tuple(held.names[end] for end in ends)
    return Matrix(names, cells, groups if any(groups) else ())


def _middle(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None
