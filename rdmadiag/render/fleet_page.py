"""One page of HTML on a whole fleet: it opens from a disk, and fetches nothing.

All text in it comes from hosts. It stands escaped in the markup, or as JSON of which no
character can end its element; the browser runs and styles by nothing but the two files of ours
beside this one, as their hashes in the page's own policy (Content Security Policy Level 3) say.
"""

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rdmadiag import __version__
from rdmadiag.fleet.merged import Compatibility, Merged, NodeRow
from rdmadiag.fleet.pair_results import Tournament
from rdmadiag.preflight.verdict import Status
from rdmadiag.quoting import printable
from rdmadiag.render.heat_map import HeatMap, Row, Tally, heat_map
from rdmadiag.render.plain import counted, pasted

FOLDER: Final = os.path.dirname(__file__)

LONGEST: Final = 300
"""Characters of one text in the page; documents have it in full."""

LONGEST_SET: Final = 20_000
"""Characters of a set of nodes that can be copied; a longer one is cut as other texts are."""

LONGEST_REMEDY: Final = 4_000
"""Characters of a remedy: one that is cut would be another command."""

LONGEST_STACKS: Final = 1_000
"""Characters of the stacks that share a row."""

LONGEST_WORD: Final = 60
"""Characters of a reason, a version, a time, the name of a class."""

MOST: Final = 200
"""Rows of a list in the page, but for the table of hosts; documents have all of them."""

MOST_VALUES: Final = 20
"""Odd values of one fact, lines of evidence of one finding."""

MOST_REASONS: Final = 8
"""Of one host in the table."""

WORST: Final = 20
"""Rows of the table that says the heat map in words."""

NO_REPORT: Final = "no report"

STATUSES: Final = ("critical", NO_REPORT, "unknown", "warn", "ok")
"""As the table sorts them."""

_ROWS: Final = {
    Row.END: "each is one end",
    Row.GROUP: "each is all ends of one group",
    Row.NODE: "each is all rails of one node",
    Row.BLOCK: "each is several ends",
}


def page(merged: Merged, tournament: Tournament | None, when: datetime) -> str:
    """The whole of it. A text beyond LONGEST, or a row beyond MOST, is said to be left out."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        counted=_counted, number=_number, pasted=pasted, text=_cut, word=_word
    )
    environment.tests["pasteable"] = lambda nodes: _PASTEABLE.fullmatch(nodes) is not None
    style, script = _file("fleet_page.css"), _file("fleet_page.js")
    pairs = heat_map(tournament.matrix) if tournament else None
    reasons = sorted({reason for row in merged.rows for reason in row.reasons[:MOST_REASONS]})
    numbers = {reason: number for number, reason in enumerate(reasons)}
    groups = list(enumerate(merged.groups[:MOST]))
    at = when.astimezone(UTC)
    return environment.get_template("fleet_page.html").render(
        merged=merged,
        tournament=tournament,
        pairs=pairs,
        total=len(merged.rows),
        serious=[(number, group) for number, group in groups if group.severity != "info"],
        notes=[(number, group) for number, group in groups if group.severity == "info"],
        when=at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        stamp=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=__version__,
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'",
        style=Markup(style),  # noqa: S704 # our own file
        script=Markup(script),  # noqa: S704 # our own file
        hosts_data=_json(_hosts(merged, numbers)),
        pairs_data=_json(_squares(pairs)) if pairs else None,
        counts=_counts(merged.rows),
        works=_by_answer(merged.compatibility),
        numbers=numbers,
        row_name=_ROWS[pairs.row] if pairs else None,
        most=MOST,
        most_values=MOST_VALUES,
        longest_set=LONGEST_SET,
        longest_remedy=LONGEST_REMEDY,
        longest_stacks=LONGEST_STACKS,
        worst=WORST,
    )


# --- text ---------------------------------------------------------------------------------


def _shown(value: object) -> object:
    """What an expression of the template prints: no character that is not to be seen."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _cut(text: str, longest: int = LONGEST) -> str:
    shown = printable(text)
    if len(shown) <= longest:
        return shown
    return f"{shown[:longest]}… ({len(shown):,} characters)"


def _word(text: str) -> str:
    return _cut(text, LONGEST_WORD)


def _counted(number: int, noun: str) -> str:
    """ "1 host", "10,000 hosts"."""
    return counted(number, noun).replace(str(number), f"{number:,}", 1)


def _number(value: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f}"


_PASTEABLE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*")
"""A set of nodes that no shell reads anything else into; one with a quoted name is none."""


# --- what the page consists of --------------------------------------------------------------


def _file(name: str) -> str:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    """A source of a policy: what stands between the tags has this digest."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(value: object) -> Markup:
    """JSON for a script element; what could end the element, or a line, stands as an escape."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704 # of which nothing is markup any more


def _counts(rows: Iterable[NodeRow]) -> list[tuple[str, int]]:
    """How many hosts of each status, the worst first."""
    found = Counter(_status(row) for row in rows)
    return [(status, found[status]) for status in STATUSES if found[status]]


def _status(row: NodeRow) -> str:
    return str(row.status) if isinstance(row.status, Status) else NO_REPORT


def _by_answer(every: Iterable[Compatibility]) -> dict[bool | None, list[Compatibility]]:
    found: dict[bool | None, list[Compatibility]] = {False: [], None: [], True: []}
    for each in every:
        found[each.works].append(each)
    return found


def _anchors(merged: Merged) -> Mapping[str, int]:
    """The number of the first group of each reason: where the table of hosts leads to."""
    shown = list(enumerate(merged.groups))[:MOST]
    return {group.reason: number for number, group in reversed(shown)}


# --- data of the table and of the picture -----------------------------------------------------


def _hosts(merged: Merged, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Columns, in the order of the names; words that repeat stand once."""
    rows = sorted(merged.rows, key=lambda row: _natural(row.node))
    classes = sorted({row.hardware_class or "" for row in rows}, key=_natural)
    versions = sorted({row.version or "" for row in rows}, key=_natural)
    anchors = _anchors(merged)
    return {
        "statuses": STATUSES,
        "reasons": [_word(reason) for reason in numbers],
        "anchors": [anchors.get(reason, -1) for reason in numbers],
        "classes": [_word(each) for each in classes],
        "versions": [_word(each) for each in versions],
        "node": [_cut(row.node) for row in rows],
        "status": [STATUSES.index(_status(row)) for row in rows],
        "class": _places(classes, [row.hardware_class or "" for row in rows]),
        "reason": [[numbers[reason] for reason in row.reasons[:MOST_REASONS]] for row in rows],
        "more": {
            number: len(row.reasons) - MOST_REASONS
            for number, row in enumerate(rows)
            if len(row.reasons) > MOST_REASONS
        },
        "at": [_word(row.generated_at or "") for row in rows],
        "version": _places(versions, [row.version or "" for row in rows]),
    }


def _places(words: list[str], values: Iterable[str]) -> list[int]:
    numbers = {word: number for number, word in enumerate(words)}
    return [numbers[value] for value in values]


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """node2 before node10; a number before a word."""
    parts = _NUMBERS.split(text)
    return tuple(
        (0, int(part), part) if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in parts
        if part
    )


_NUMBERS: Final = re.compile(r"([0-9]{1,18})")


def _squares(pairs: HeatMap) -> dict[str, Any]:
    """Of the picture; a tally is [tried, failed, outcome, times slower, µs, Gb/s], null: none."""
    return {
        "labels": [_cut(label) for label in pairs.labels],
        "squares": [
            [row, column, *_tally(tally, tally.worst)]
            for (row, column), tally in pairs.squares.items()
        ],
        "senders": [_tally(tally, tally.middle) for tally in pairs.senders],
        "receivers": [_tally(tally, tally.middle) for tally in pairs.receivers],
    }


def _tally(tally: Tally, slower: float | None) -> list[object]:
    outcome = str(tally.outcome) if tally.outcome else "not reported"
    return [
        tally.tried,
        tally.failed,
        outcome if tally.failed else None,
        None if slower is None else round(slower, 3),
        None if tally.latency_us is None else round(tally.latency_us, 2),
        None if tally.gbps is None else round(tally.gbps, 2),
    ]
