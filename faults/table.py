"""The tables: faults/cases/*.toml (one file a family), faults/tools.toml, faults/families.toml."""

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
ENDS: Final = ("left", "right")
PLACES: Final = (*ENDS, "switch")
HOSTS: Final = ("left", "right", "both", "between")
_KEYS: Final = {
    *("name", "truth", "host", "object", "stage", "causes", "rules", "setting", "tools"),
    *("make", "check", "during", "around", "env", "set", "without", "seconds"),
}


class Malformed(Exception):
    """A table is not as README.md says."""


@dataclass(frozen=True)
class Tool:
    """One that looks at a fault."""

    name: str
    server: str
    client: str
    listens: str


@dataclass(frozen=True)
class Fault:
    """One row of a family's table; README.md says what each key is."""

    name: str
    family: str
    truth: str
    host: str
    object: str
    stage: str
    causes: tuple[str, ...]
    rules: tuple[str, ...]
    tools: tuple[str, ...]
    setting: str = "rxe"
    make: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    during: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    around: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    set: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    without: str = ""
    seconds: float = 12.0

    @property
    def twins(self) -> tuple[str, ...]:
        """Its healthy twins: the same devices, one of its tools, and nothing made.

        iWARP's is rping: what connects without rdma_cm never passes there.
        """
        if self.setting == "siw":
            return ("healthy-siw-rping",)
        return tuple(f"healthy-rxe-{tool}" for tool in self.tools)


def tools() -> dict[str, Tool]:
    """By name."""
    rows = _read(HERE / "tools.toml")["tool"]
    return {name: Tool(name, **row) for name, row in rows.items()}


def faults() -> tuple[Fault, ...]:
    """All of them, in the order of the families' names."""
    known = tools()
    found: list[Fault] = []
    for path in sorted((HERE / "cases").glob("*.toml")):
        found += [_fault(path.stem, row, known) for row in _read(path)["fault"]]
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Malformed(f"two faults are called {sorted(twice)}")
    return tuple(found)


def rounds() -> dict[str, int]:
    """The round of each family."""
    return {each["name"]: each.get("round", 1) for each in _plan()["family"]}


def held_out(number: int | None = None) -> frozenset[str]:
    """The families of a round, or of all, that were drawn.

    In the order of the round's seed, until they have `at_least` faults.
    """
    drawn = set[str]()
    for each in _plan()["round"]:
        if number in (None, each["number"]):
            drawn |= _drawn(each)
    return frozenset(drawn)


def _drawn(row: Mapping[str, int]) -> set[str]:
    families = [each for each in _plan()["family"] if each.get("round", 1) == row["number"]]
    counts: dict[str, int] = {each["name"]: each["faults"] for each in families}
    order = sorted(counts)
    random.Random(row["seed"]).shuffle(order)  # noqa: S311  # a draw that can be repeated
    drawn, total = set[str](), 0
    for name in order:
        if total >= row["at_least"]:
            break
        drawn.add(name)
        total += counts[name]
    return drawn


def _plan() -> dict[str, Any]:
    return _read(HERE / "families.toml")


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _fault(family: str, row: dict[str, Any], known: Mapping[str, Tool]) -> Fault:
    name = row.get("name", "?")
    if unknown := set(row) - _KEYS:
        raise Malformed(f"{name}: no such key: {sorted(unknown)}")
    if row["host"] not in HOSTS:
        raise Malformed(f"{name}: host is one of {HOSTS}")
    if absent := set(row["tools"]) - set(known):
        raise Malformed(f"{name}: no such tool: {sorted(absent)}")
    if not row.get("check") and not any(key in row for key in ("set", "without", "during", "env")):
        raise Malformed(f"{name}: nothing shows that it took effect")
    given = dict(row)
    for key in ("causes", "rules", "tools"):
        given[key] = tuple(given.get(key, ()))
    for key in ("make", "check", "during", "around"):
        places = given.get(key, {})
        if set(places) - set(PLACES):
            raise Malformed(f"{name}: {key} is of {PLACES}")
        given[key] = {place: tuple(lines) for place, lines in places.items()}
    return Fault(family=family, **given)
