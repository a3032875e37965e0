"""lab/plan.toml: the parts of the lab, and the shards of tests/lab/guest."""

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from lab.places import CHECKOUT

PLAN = CHECKOUT / "lab" / "plan.toml"
SHORT = "RDMADIAG_LAB_SHORT"
"""Set for the short form: tests that are marked `long`, and all but one in n of those that are
`sampled(n)`, are left out (tests/lab/conftest.py)."""


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
    pci: bool = False
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shard:
    """Test files below tests/lab/guest that share a kernel."""

    name: str
    tests: tuple[str, ...]
    short: bool = True
    cpus: int = 1


def form() -> dict[str, str]:
    """What guests are started with, so that they take the tests of this run's form."""
    return {SHORT: os.environ[SHORT]} if os.environ.get(SHORT) else {}


def in_short(*, long: bool, one_in: int, places: Iterable[int]) -> bool:
    """Whether the short form takes a test, or a case with these places in the test's tables.

    A case's place does not depend on what else is collected: what failed runs once more by its id.
    """
    return not long and sum(places) % one_in == 0


def parts() -> list[Part]:
    """In the order in which they run: replay reads what guest wrote, witnesses what all did."""
    return [Part(**row | {"tests": tuple(row.get("tests", ()))}) for row in _plan()["part"]]


def shards() -> list[Shard]:
    """In the order in which they start."""
    return [Shard(**row | {"tests": tuple(row["tests"])}) for row in _plan()["shard"]]


def _plan() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = tomllib.loads(PLAN.read_text())
    return found
