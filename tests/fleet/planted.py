"""Fleets with a planted fault, for the tests of the judgement: no noise unless it is asked for."""

from collections.abc import Callable, Iterable
from random import Random

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.pair_results import End, PairResult
from rdmadiag.fleet.rounds import Round, plan

Slower = Callable[[str, int, str, int], float]
"""(sender, its rail, receiver, its rail) → how many times slower: 1 is in order."""


def in_order(sender: str, rail: int, receiver: str, other: int) -> float:
    return 1.0


def nodes(number: int) -> list[str]:
    return [f"n{each:03}" for each in range(number)]


def results(
    rounds: Iterable[Round],
    slower: Slower = in_order,
    *,
    latency: float = 2.0,
    gbps: float | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> list[PairResult]:
    """What both ends say of each pair; the receiver measures nothing."""
    random = Random(seed)
    found = []
    for each in rounds:
        for one, other in each.pairs:
            ends = [
                End(node, rail, f"mlx5_{rail}")
                for node, rail in zip((one, other), each.rails, strict=True)
            ]
            factor = slower(one, each.rails[0], other, each.rails[1])
            factor *= 2.718281828 ** random.gauss(0.0, noise)
            time = latency * factor
            speed = None if gbps is None else gbps / factor
            said = (each.number, *ends, Outcome.VERIFIED)
            found.append(PairResult(*said, time, speed, by_sender=True))
            found.append(PairResult(*said, None, None, by_sender=False))
    return found


def fleet(number: int, rails: int, rounds: int) -> list[Round]:
    return list(plan(nodes(number), rails=rails, rounds=rounds))
