"""The answer of one stack's rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pick:
    """Which index a stack would use for a port, and what speaks against it."""

    stack: str  # "x-rdma"
    version: str  # the range of versions that the rule holds for
    index: int | None  # None: the stack picks none
    why: str  # the step of the rule that decided
    problem: str | None  # what will go wrong with it, if anything
