"""lab/plan.toml: the parts of the lab, and the shards of tests/lab/guest."""

import tomllib
from dataclasses import dataclass
from typing import Any, Literal

from lab.places import CHECKOUT

PLAN = CHECKOUT / "lab" / "plan.toml"


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


def parts() -> list[Part]:
    """In the order in which they run: replay reads what guest wrote, witnesses what all did."""
    return [Part(**row | {"tests": tuple(row.get("tests", ()))}) for row in _plan()["part"]]


def shards() -> list[Shard]:
    """In the order in which they start."""
    return [Shard(**row | {"tests": tuple(row["tests"])}) for row in _plan()["shard"]]


def _plan() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = tomllib.loads(PLAN.read_text())
    return found
