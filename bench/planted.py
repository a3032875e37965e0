"""python -m bench.planted: faults planted into fleets, and what is named of them.

Each trial is a fleet with noise and one fault, measured in the rounds that the planner makes
and measured again as it asks for. Beside it the rules of two others on the same first rounds.
With --results what is done is kept: a run that was ended goes on where it was.
"""

import argparse
import gc
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import exp, log
from random import Random
from typing import Final

from bench.table import Section
from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.fit import EFFECT_LEAST, Effect, Fit, Sample, Seat, fit
from rdmadiag.fleet.matrix import judge
from rdmadiag.fleet.pair_results import End, OddKind, PairResult
from rdmadiag.fleet.retest import again
from rdmadiag.fleet.rounds import plan

NOISE: Final = 0.05
RAILS: Final = 8
STAGES: Final = 8
"""Rounds of measuring again, at most."""
BETWEEN: Final = log(1.3)
"""What another leaf adds to the time of a healthy pair."""
TUNING: Final = 11
SCORING: Final = 20261125
"""Seeds: all thresholds were chosen on the first; the tables are taken on the second, once."""
EFFECTS: Final = {
    "bandwidth −12 %": -log(0.88),
    "latency × 1.2": log(1.2),
    "bandwidth −20 %": -log(0.80),
    "latency × 1.5": log(1.5),
    "bandwidth −50 %": -log(0.50),
    "latency × 3": log(3),
}
FAULTS: Final = ("node", "NIC", "cable", "boundary", "whole fleet", "two at once", "missing end")
LEAVES: Final = {8: 4, 64: 8, 512: 16}
BLOCK: Final = 10
"""Trials of one size, kind and effect at a time."""


@dataclass(frozen=True)
class World:
    """A fleet in order, and the pairs of its first rounds."""

    hosts: int
    seats: tuple[Seat, ...]
    names: tuple[str, ...]  # of ends
    pairs: tuple[tuple[int, int, int], ...]  # sender, receiver, round

    def is_between(self, sender: int, receiver: int) -> bool:
        """Whether the two ends are on different leaves."""
        return self.seats[sender].leaf != self.seats[receiver].leaf


def world(hosts: int, rounds: int) -> World:
    """So many hosts with 8 rails each."""
    seats = tuple(
        Seat(node, rail, node * LEAVES[hosts] // hosts)
        for node in range(hosts)
        for rail in range(RAILS)
    )
    names = [f"node{node:04}" for node in range(hosts)]
    number = {name: node for node, name in enumerate(names)}
    pairs = tuple(
        (number[one] * RAILS + each.rails[0], number[other] * RAILS + each.rails[1], each.number)
        for each in plan(names, rails=RAILS, rounds=rounds)
        for one, other in each.pairs
    )
    ends = tuple(f"{names[seat.node]}:mlx5_{seat.rail}" for seat in seats)
    return World(hosts, seats, ends, pairs)


Named = tuple[str, frozenset[int]]
"""Kind, and what it names: a node, ends, leaves."""


@dataclass(frozen=True)
class Planted:
    """One fault."""

    kind: str
    names: frozenset[int]
    ends: frozenset[int]  # that it touches

    def slows(self, sender: int, receiver: int, seats: Sequence[Seat]) -> bool:
        """Whether it is in the way of this pair."""
        if self.kind == "path":
            return self.names == {sender, receiver}
        if self.kind == "boundary":
            return self.names == {seats[sender].leaf, seats[receiver].leaf}
        return sender in self.ends or receiver in self.ends


def plant(kind: str, fleet: World, random: Random, hosts: Sequence[int] = ()) -> Planted:
    """A fault of this kind somewhere; not at `hosts`."""
    if kind == "boundary":
        leaves = frozenset(random.sample(range(LEAVES[fleet.hosts]), 2))
        ends = frozenset(e for e, seat in enumerate(fleet.seats) if seat.leaf in leaves)
        return Planted("boundary", leaves, ends)
    if kind == "whole fleet":
        return Planted("fleet", frozenset(), frozenset(range(len(fleet.seats))))
    while True:
        sender, receiver, _ = random.choice(fleet.pairs)
        if not {fleet.seats[sender].node, fleet.seats[receiver].node} & set(hosts):
            break
    if kind == "cable":
        return Planted("path", frozenset((sender, receiver)), frozenset((sender, receiver)))
    if kind == "node":
        node = fleet.seats[sender].node
        ends = frozenset(range(node * RAILS, (node + 1) * RAILS))
        return Planted("node", frozenset((node,)), ends)
    return Planted("nic", frozenset((sender,)), frozenset((sender,)))


def planted(kind: str, fleet: World, random: Random) -> tuple[Planted, ...]:
    """What is wrong in a trial of this kind."""
    if kind == "healthy":
        return ()
    if kind != "two at once":
        return (plant(kind, fleet, random),)
    first = plant(random.choice(("node", "NIC", "cable")), fleet, random)
    hosts = [fleet.seats[end].node for end in first.ends]
    return first, plant(random.choice(("node", "NIC", "cable")), fleet, random, hosts)


@dataclass
class Score:
    """What came of some trials."""

    trials: int = 0
    faults: int = 0
    found: int = 0
    localised: int = 0
    named: int = 0
    right: int = 0
    again: int = 0  # measurements beside those of the first rounds
    first: int = 0
    flagged: int = 0  # trials in which anything is named

    def add(self, faults: Sequence[Planted], named: Sequence[Named], fleet: World) -> None:
        """One trial."""
        self.trials += 1
        self.faults += len(faults)
        self.named += len(named)
        self.flagged += bool(named)
        for fault in faults:
            self.found += any(_touches(each, fault, fleet) for each in named)
            self.localised += (fault.kind, fault.names) in named
        self.right += sum(any(_touches(each, fault, fleet) for fault in faults) for each in named)

    def cells(self) -> tuple[str, str, str]:
        """Precision, recall, localised."""
        return (
            _share(self.right, self.named),
            _share(self.found, self.faults),
            _share(self.localised, self.faults),
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "–"


def _touches(named: Named, fault: Planted, fleet: World) -> bool:
    """Whether what is named is at least part of it."""
    kind, names = named
    if fault.kind == "fleet":
        return True  # whatever is named of it is slow
    if fault.kind == "boundary" and kind == "path":
        return {fleet.seats[end].leaf for end in names} == fault.names
    if "boundary" in (kind, fault.kind) or kind == "fleet":
        return kind == fault.kind and bool(names & fault.names)
    if kind == "node":
        return bool({fleet.seats[end].node for end in fault.ends} & names)
    return bool(names & fault.ends)


@dataclass
class Trial:
    """A fleet that can be measured."""

    fleet: World
    faults: Sequence[Planted]
    effect: float
    is_latency: bool
    random: Random
    samples: list[Sample] = field(default_factory=list)
    found: Fit | None = None  # of all samples, once nothing is measured again

    def healthy(self, sender: int, receiver: int) -> float:
        """The log cost of a pair in order."""
        return BETWEEN if self.is_latency and self.fleet.is_between(sender, receiver) else 0.0

    def measure(self, sender: int, receiver: int, number: int) -> None:
        """One pair once more."""
        effects = [
            self.effect for fault in self.faults if fault.slows(sender, receiver, self.fleet.seats)
        ]
        # Times add up; of two bandwidths the smaller is what passes.
        slower = sum(effects) if self.is_latency else max(effects, default=0.0)
        cost = self.healthy(sender, receiver) + slower + self.random.gauss(0.0, NOISE)
        self.samples.append(Sample(sender, receiver, number, cost))

    def first_rounds(self) -> None:
        """Those that the plan has."""
        for sender, receiver, number in self.fleet.pairs:
            self.measure(sender, receiver, number)

    def again(self) -> int:
        """What is measured once more, until all is decided; how many that were."""
        before, number = len(self.samples), self.fleet.pairs[-1][2]
        for stage in range(1, STAGES + 1):
            found = fit(self.samples, self.fleet.seats)
            wanted = again(self.samples, self.fleet.seats, found=found)
            if not wanted:
                self.found = found
                break
            for sender, receiver in wanted:
                self.measure(sender, receiver, number + stage)
        return len(self.samples) - before

    def expected(self) -> float:
        """What the middle of all pairs costs in order."""
        costs = sorted(self.healthy(sender, receiver) for sender, receiver, _ in self.fleet.pairs)
        return costs[len(costs) // 2]


def ours(trial: Trial) -> list[Named]:
    """What rdmadiag names."""
    found = trial.found or fit(trial.samples, trial.fleet.seats)
    named = [_named(each) for each in found.effects]
    if found.level - trial.expected() > EFFECT_LEAST:
        named.append(("fleet", frozenset()))
    return named


def _named(found: Effect) -> Named:
    name, one, other = found.part
    name = name.partition(" ")[0]
    if found.kind is OddKind.UNDECIDED:
        return "undecided", frozenset((one, other)) if name == "path" else frozenset((one,))
    names = frozenset((one, other) if name in ("path", "leaves") else (one,))
    return found.kind.value, names


def _unreported(trial: Trial) -> list[Named]:
    """What rdmadiag names where one end is missing; by all of what `judge` does."""
    missing = trial.faults[0].ends
    seats, ends = trial.fleet.seats, []
    for name, seat in zip(trial.fleet.names, seats, strict=True):
        node, _, device = name.partition(":")
        ends.append(End(node, seat.rail, device))
    results = []
    for sender, receiver, number, cost in trial.samples:
        silent = {sender, receiver} & missing
        outcome = Outcome.NO_PEER if silent else Outcome.VERIFIED
        for end in (sender, receiver):
            said = None if end in missing else outcome
            time = exp(cost) if end == sender and not silent else None
            result = PairResult(
                number, ends[sender], ends[receiver], said, time, None, by_sender=end == sender
            )
            results.append(result)
    found = judge(results)
    index = {name: end for end, name in enumerate(trial.fleet.names)}
    silent_ends = {index[each.partition(" ")[0]] for each in found.unreported}
    named: list[Named] = [("missing", frozenset((end,))) for end in silent_ends]
    return named + [(each.kind.value, frozenset()) for each in found.odd]


def cluster_kit(trial: Trial) -> list[Named]:
    """More than 2.1 times the least latency, or less than 93 % of the most bandwidth."""
    best = min(each.cost for each in trial.samples)
    most = log(2.1) if trial.is_latency else -log(0.93)
    return _of_pairs(trial, lambda each: each.cost > best + most)


def super_bench(trial: Trial) -> list[Named]:
    """More than 5 % worse than a baseline, which here is the truth of a healthy pair."""
    most = log(1.05) if trial.is_latency else -log(0.95)
    return _of_pairs(
        trial, lambda each: each.cost > trial.healthy(each.sender, each.receiver) + most
    )


def _of_pairs(trial: Trial, is_slow: Callable[[Sample], bool]) -> list[Named]:
    """Both name pairs alone. Read kindly: a node or an end all of whose pairs are slow is named."""
    seats = trial.fleet.seats
    of_node: dict[int, list[bool]] = defaultdict(list)
    of_end: dict[int, list[bool]] = defaultdict(list)
    slow = []
    for each in trial.samples:
        bad = is_slow(each)
        if bad:
            slow.append(each)
        for end in each[:2]:
            of_node[seats[end].node].append(bad)
            of_end[end].append(bad)
    nodes = {node for node, held in of_node.items() if all(held)}
    ends = {end for end, held in of_end.items() if all(held) and seats[end].node not in nodes}
    named: list[Named] = [("node", frozenset((node,))) for node in nodes]
    named += [("nic", frozenset((end,))) for end in ends]
    for each in slow:
        pair = {each.sender, each.receiver}
        if not pair & ends and not {seats[end].node for end in pair} & nodes:
            named.append(("path", frozenset(pair)))
    return named


RULES: Final[dict[str, Callable[[Trial], list[Named]]]] = {
    "ClusterKit": cluster_kit,
    "SuperBench": super_bench,
}


def trials(
    kind: str, fleet: World, name: str, numbers: Iterable[int], seed: int
) -> dict[str, Score]:
    """Trials of one kind and effect, by their numbers."""
    effect = EFFECTS[name]
    scores = {who: Score() for who in ("rdmadiag", *RULES)}
    for index in numbers:
        random = Random(f"{seed} {kind} {fleet.hosts} {len(fleet.pairs)} {name} {index}")
        is_latency = name.startswith("latency")
        if kind == "missing end":
            end = plant("NIC", fleet, random).ends
            faults: tuple[Planted, ...] = (Planted("missing", end, end),)
        else:
            faults = planted(kind, fleet, random)
        trial = Trial(fleet, faults, 0.0 if kind == "missing end" else effect, is_latency, random)
        trial.first_rounds()
        if kind == "missing end":
            scores["rdmadiag"].add(faults, _unreported(trial), fleet)
            continue
        for who, rule in RULES.items():
            scores[who].add(faults, rule(trial), fleet)
        scores["rdmadiag"].first += len(trial.samples)
        scores["rdmadiag"].again += trial.again()
        scores["rdmadiag"].add(faults, ours(trial), fleet)
    return scores


@dataclass(frozen=True)
class Row:
    """What came of some trials of one size, kind and effect."""

    hosts: int
    rounds: int
    kind: str
    effect: str
    first: int  # the number of the first trial
    scores: dict[str, Score]

    @classmethod
    def of(cls, line: str) -> "Row":
        """From its line."""
        held = json.loads(line)
        scores = {who: Score(**each) for who, each in held.pop("scores").items()}
        return cls(**held, scores=scores)

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def _tables(rows: Sequence[Row]) -> list[Section]:
    by_effect = Section(
        "By size and effect",
        "All kinds of faults together: precision / recall / localised.",
        ("hosts × 8 rails", "K", "effect", "trials", *("rdmadiag", *RULES), "again"),
    )
    by_kind = Section(
        "By size and fault",
        "Effects of a fifth and more together: precision / recall / localised.",
        ("hosts × 8 rails", "K", "fault", "trials", *("rdmadiag", *RULES), "again"),
    )
    for section in (by_effect, by_kind):
        pooled: dict[tuple[int, int, str], list[Row]] = defaultdict(list)
        for row in rows:
            is_small = EFFECTS[row.effect] < EFFECTS["latency × 1.2"]
            if row.kind != "healthy" and (section is by_effect or not is_small):
                name = row.effect if section is by_effect else row.kind
                pooled[row.hosts, row.rounds, name].append(row)
        for (hosts, rounds, name), held in pooled.items():
            sums = {who: _sum(row.scores[who] for row in held) for who in ("rdmadiag", *RULES)}
            ours_ = sums["rdmadiag"]
            cells = (" / ".join(score.cells()) for score in sums.values())
            extra = f"{100 * ours_.again / ours_.first:.0f} %" if ours_.first else "–"
            section.rows.append((str(hosts), str(rounds), name, str(ours_.trials), *cells, extra))
    healthy = Section(
        "Fleets in order",
        "How many matrices have anything named.",
        ("hosts × 8 rails", "K", "measured", "matrices", *("rdmadiag", *RULES)),
    )
    in_order: dict[tuple[int, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.kind == "healthy":
            in_order[row.hosts, row.rounds, row.effect.split(" ")[0]].append(row)
    for (hosts, rounds, measured), held in in_order.items():
        sums = {who: _sum(row.scores[who] for row in held) for who in ("rdmadiag", *RULES)}
        flagged = (str(score.flagged) for score in sums.values())
        number = str(sums["rdmadiag"].trials)
        healthy.rows.append((str(hosts), str(rounds), measured, number, *flagged))
    return [by_effect, by_kind, healthy]


def _sum(scores: Iterable[Score]) -> Score:
    total = Score()
    for score in scores:
        for each in fields(Score):
            setattr(total, each.name, getattr(total, each.name) + getattr(score, each.name))
    return total


def _blocks(options: argparse.Namespace) -> Iterator[tuple[int, str, str, range]]:
    """K, kind, effect and the numbers of some trials: some of all of them, then more of all."""
    kinds = options.kind or (*FAULTS, "healthy")
    for first in range(0, max(options.trials, options.healthy), BLOCK):
        for rounds in options.rounds or (3, 5):
            for kind in kinds:
                effects, number = options.effect or tuple(EFFECTS), options.trials
                if kind == "healthy":  # one of each metric
                    effects, number = ("bandwidth −20 %", "latency × 1.2"), options.healthy
                if numbers := range(first, min(first + BLOCK, number)):
                    for name in effects:
                        yield rounds, kind, name, numbers


def _rows(path: str) -> list[Row]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [Row.of(line) for line in file if line.endswith("\n")]


def main() -> int:
    """0."""
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=__doc__)
    parser.add_argument("--hosts", type=int, action="append", choices=tuple(LEAVES))
    parser.add_argument("--rounds", type=int, action="append", help="default: 3 and 5")
    parser.add_argument("--trials", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--healthy", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--kind", action="append", choices=(*FAULTS, "healthy"))
    parser.add_argument("--effect", action="append", choices=tuple(EFFECTS))
    parser.add_argument("--scoring", action="store_true", help="the seeds not used in tuning")
    parser.add_argument("--results", metavar="FILE", help="keep what is done there, and go on")
    parser.add_argument("--tables", action="store_true", help="of --results alone: no trial")
    parser.add_argument("--out", metavar="FILE", help="write the tables there, too")
    options = parser.parse_args()
    seed = SCORING if options.scoring else TUNING
    rows = _rows(options.results) if options.results else []
    done = {(row.hosts, row.rounds, row.kind, row.effect, row.first) for row in rows}
    gc.disable()  # Nothing that a trial leaves refers to itself.
    for hosts in () if options.tables else options.hosts or LEAVES:
        fleets = {rounds: world(hosts, rounds) for rounds in options.rounds or (3, 5)}
        for rounds, kind, name, numbers in _blocks(options):
            if (hosts, rounds, kind, name, numbers[0]) in done:
                continue
            scores = trials(kind, fleets[rounds], name, numbers, seed)
            rows.append(Row(hosts, rounds, kind, name, numbers[0], scores))
            if options.results:
                with open(options.results, "a", encoding="utf-8") as file:
                    file.write(rows[-1].line())
            cells = (" / ".join(score.cells()) for score in scores.values())
            print(hosts, rounds, kind, name, *cells, sep=" | ", file=sys.stderr, flush=True)
            gc.collect()
    text = "\n\n".join(section.text() for section in _tables(rows)) + "\n"
    print(text)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
