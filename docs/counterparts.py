"""docs/counterparts.md: what five documents describe, and where it is here, by their rows."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parent / "counterparts.toml"


class State(StrEnum):
    """What is known of a row."""

    WORKS = "works"
    OPEN = "open"
    DELIBERATE = "deliberate"


class Kind(StrEnum):
    """What a test runs on."""

    LIVE = "live"  # a kernel with soft RoCE, soft iWARP or ibsim: tests/lab
    LIBRARY = "fake library"  # tests/verbs
    DATA = "data"  # descriptions, records, headers


@dataclass(frozen=True)
class Row:
    """A function, a type, a constant, a behaviour or a concept."""

    name: str
    here: str  # of one that does not work: why not
    tests: tuple[str, ...]  # keys
    refusals: tuple[str, ...]  # keys of tests that show how a live kernel refuses it
    state: State


@dataclass(frozen=True)
class Document:
    """One of the five, or a part."""

    title: str
    about: str
    rows: tuple[Row, ...]

    def of(self, state: State) -> list[Row]:
        """Its rows in one state."""
        return [row for row in self.rows if row.state is state]


def witnesses() -> dict[str, str]:
    """Key → node id."""
    found: dict[str, str] = _data()["tests"]
    return found


def documents() -> tuple[Document, ...]:
    """All of them in their order."""
    return tuple(
        Document(each["title"], each["about"], tuple(_row(*row) for row in each["rows"]))
        for each in _data()["document"]
    )


def _data() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def _row(name: str, here: str, keys: str, state: str = State.WORKS) -> Row:
    shown = tuple(key for key in keys.split() if not key.startswith("!"))
    refused = tuple(key[1:] for key in keys.split() if key.startswith("!"))
    return Row(name, here, shown, refused, State(state))


def kind(node: str) -> Kind:
    """By the folder of a test."""
    if node.startswith("tests/lab/"):
        return Kind.LIVE
    return Kind.LIBRARY if node.startswith("tests/verbs/") else Kind.DATA


def best(row: Row, known: dict[str, str]) -> Kind:
    """The strongest witness of a row that works."""
    kinds = {kind(known[key]) for key in row.tests}
    return next(each for each in Kind if each in kinds)


_HEAD = """\
# What the documents behind rdmadiag describe, and where it is here

Generated from docs/counterparts.toml by `make docs`; a test fails where a test that is named here
does not exist, and in the lab where one was skipped in every part.

Five documents stand behind this program: Apple's RDMA policy in Go (x/rdma), two bindings of verbs
(InfinibandVerbs.jl, gordma), the RDMA Aware manual, and a description of how rdma-core discovers
devices. Each function, type, constant, behaviour and concept of theirs is a row: what stands for it
here, and the tests that show it, by the names in the list at the end. **live** is a kernel with
soft RoCE, soft iWARP or an emulated fabric (lab/README.md); **fake library** is the verbs library
of tests/verbs/fake_verbs.c; **data** are descriptions, records and the headers of rdma-core;
**refused live** shows how soft RoCE refuses what the fake library does.
"""


def counterparts_page() -> str:
    """The page."""
    known, found = witnesses(), documents()
    parts = [_HEAD, *(_section(each, known) for each in found)]
    parts += [_summary(found, known), _tests(found, known)]
    return "\n".join(parts)


def _section(document: Document, known: dict[str, str]) -> str:
    lines = [f"## {document.title}\n", f"{document.about}\n", "| there | here | shown by |"]
    lines.append("|---|---|---|")
    lines += [
        f"| {_cell(row.name)} | {_cell(row.here)} | {_shown(row, known)} |" for row in document.rows
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _shown(row: Row, known: dict[str, str]) -> str:
    if row.state is State.OPEN:
        return "**not yet**"
    by_kind: dict[Kind, list[str]] = {}
    for key in row.tests:
        by_kind.setdefault(kind(known[key]), []).append(key)
    parts = [f"{each}: {', '.join(by_kind[each])}" for each in Kind if each in by_kind]
    parts += [f"refused live: {', '.join(row.refusals)}"] if row.refusals else []
    shown = "; ".join(parts)
    if row.state is State.DELIBERATE:
        return f"**deliberately not**; {shown}" if shown else "**deliberately not**"
    return shown


def _summary(found: tuple[Document, ...], known: dict[str, str]) -> str:
    lines = ["## How much of it works\n"]
    lines.append("| document | rows | work | live | fake library | data | not yet | not |")
    lines.append("|---|---|---|---|---|---|---|---|")
    for each in found:
        working = each.of(State.WORKS)
        kinds = [best(row, known) for row in working]
        share = f"{100 * len(working) // len(each.rows)} %"
        numbers = [kinds.count(one) for one in Kind]
        rest = (len(each.of(State.OPEN)), len(each.of(State.DELIBERATE)))
        cells = (each.title, len(each.rows), f"{len(working)} ({share})", *numbers, *rest)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines.append(
        "\nOf rows that work, each counts once, by the strongest that shows it; *not* are those"
    )
    lines.append("that are deliberately not.")
    return "\n".join(lines) + "\n"


def _tests(found: tuple[Document, ...], known: dict[str, str]) -> str:
    used = dict.fromkeys(_used(found))
    lines = ["## The tests\n", "| name | test |", "|---|---|"]
    lines += [f"| {key} | `{known[key]}` |" for key in sorted(used)]
    return "\n".join(lines) + "\n"


def _used(found: tuple[Document, ...]) -> Iterator[str]:
    for document in found:
        for row in document.rows:
            if row.state is not State.OPEN:
                yield from (*row.tests, *row.refusals)
