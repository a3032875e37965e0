"""Programs run in turn, and the ratio of two of them."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Self

from bench.child import Command, Cost, CouldNotRun, measure

LEAST_PAIRS = 11  # fewer are a trial
_CHUNK = 1 << 16  # bytes; the bench itself has to stay small


@dataclass(frozen=True)
class Spread:
    """Middle and ends of some figures."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Self:
        """Of at least one figure."""
        return cls(median(figures), min(figures), max(figures))


def median(figures: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle."""
    ordered = sorted(figures)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Of the pairs, each taken in one round; a pair whose second is not above 0 counts as ∞."""
    return Spread.of([a / b if b > 0 else inf for a, b in zip(ours, theirs, strict=True)])


def in_turn(
    commands: Sequence[Command],
    rounds: int,
    seconds: float,
    repeats: Callable[[Command], int] = lambda command: 1,
) -> dict[Command, list[Cost]]:
    """Every command once, checked and not counted; then `rounds` times all of them in turn.

    One that is short beside its noise can have `repeats` in a round, whose medians are then the
    figures of that round. `seconds` is the deadline of each single run.
    """
    for command in commands:
        check(command, seconds)
    costs: dict[Command, list[Cost]] = {command: [] for command in commands}
    for _ in range(rounds):
        for command in commands:
            runs = [measure(command, seconds) for _ in range(repeats(command))]
            costs[command].append(
                Cost(
                    median([run.wall for run in runs]),
                    median([run.cpu for run in runs]),
                    max(run.peak for run in runs),
                )
            )
    return costs


def check(command: Command, seconds: float) -> None:
    """Run it once and see that it prints what it should; CouldNotRun if not."""
    with tempfile.NamedTemporaryFile() as file:
        measure(command, seconds, stdout=file.name)
        seen = _count(file.name, command.key) if command.key else 0
        if seen != command.count:
            key = command.key.decode()
            raise CouldNotRun(f"{command.name}: {key} {seen} times, not {command.count}")


def _count(path: str, key: bytes) -> int:
    seen, rest = 0, b""
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            text = rest + chunk
            seen += text.count(key)
            rest = text[-(len(key) - 1) :]
    return seen
