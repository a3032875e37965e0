"""lab/plan.toml: the parts of the lab, and the shards of tests/lab/guest."""

import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lab.places import CHECKOUT

PLAN = CHECKOUT / "lab" / "plan.toml"
SHORT = "RDMADIAG_LAB_SHORT"
"""Set for the short form: tests that are marked `long`, and all but one in n of those that are
`sampled(n)`, are left out (tests/lab/conftest.py)."""
OTHER_KERNEL = "RDMADIAG_LAB_OTHER_KERNEL"
"""Set for a part that is `sampled`: of tests that are marked `other_kernels(n)` one case in n is
taken, and none of 0: what they show is shown on the first kernel."""


@dataclass(frozen=True)
class Part:
    """A row of the plan, by the names of its columns."""

    name: str
    lab: str
    machine: Literal["here", "uml", "qemu"]
    kernel: str = ""
    only: str = ""
    short: bool = False
    beside: str = ""
    within: str = ""
    sampled: bool = False
    pci: bool = False
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shard:
    """Test files below tests/lab/guest that share a kernel."""

    name: str
    tests: tuple[str, ...]
    short: bool = True
    each_kernel: bool = False
    cpus: int = 1


def form(part: Part, pytest_args: Sequence[str]) -> dict[str, str]:
    """What the part's guests are started with, so that they take the cases of this run's form.

    Of a part that is sampled, what `pytest_args` select runs all the same.
    """
    if part.sampled and not pytest_args:
        return {SHORT: "1", OTHER_KERNEL: "1"}
    return {SHORT: "1"} if os.environ.get(SHORT) else {}


def long_form() -> list[Part]:
    """Each part whose tests are not those of another one, in the order in which they run."""
    return [part for part in parts() if not part.within]


def in_short(*, long: bool, one_in: int, places: Iterable[int]) -> bool:
    """Whether the short form takes a test, or a case with these places in the test's tables.

    A case's place does not depend on what else is collected: what failed runs once more by its id.
    """
    return not long and one_in > 0 and sum(places) % one_in == 0


def parts() -> list[Part]:
    """In the order in which they run: replay reads what guest wrote, witnesses what all did."""
    return [Part(**row | {"tests": tuple(row.get("tests", ()))}) for row in _plan()["part"]]


def shards() -> list[Shard]:
    """In the order in which they start."""
    return [Shard(**row | {"tests": tuple(row["tests"])}) for row in _plan()["shard"]]


def shards_of(part: Part) -> list[Shard]:
    """Those that the part takes in this run's form."""
    short = os.environ.get(SHORT)
    return [
        shard
        for shard in shards()
        if (shard.each_kernel or not part.sampled) and (shard.short or not short)
    ]


def _plan() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = tomllib.loads(PLAN.read_text())
    return found
