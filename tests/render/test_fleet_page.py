"""The page on a fleet: what it says, and that nothing in it that a host wrote is ever obeyed."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

import rdmadiag.render
from lab.merged_fleet import merged, tournament
from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.merged import Gap, Group, HostCounts, Merged, NodeRow
from rdmadiag.fleet.pair_results import Matrix, Tournament
from rdmadiag.preflight.verdict import Severity, Status
from rdmadiag.render.fleet_page import LONGEST, LONGEST_REMEDY, LONGEST_SET, MOST, page

WHEN = datetime(2026, 11, 23, 7, 0, 0, tzinfo=UTC)
FOLDER = Path(rdmadiag.render.__file__).parent
STYLE, SCRIPT = ((FOLDER / f"fleet_page.{kind}").read_text() for kind in ("css", "js"))
NOTHING = Merged(Status.UNKNOWN, HostCounts(None, 0, 0), (), (), (), (), (), ())

VOID = {"meta", "input"}
TAGS = {
    *("a", "article", "body", "button", "canvas", "code", "dd", "details", "div", "dl", "dt"),
    *("form", "h1", "h2", "h3", "head", "header", "html", "input", "label", "li", "main", "meta"),
    *("nav", "noscript", "option", "output", "p", "pre", "script", "section", "select", "span"),
    *("style", "summary", "table", "tbody", "td", "th", "thead", "time", "title", "tr", "ul"),
}

T = TypeVar("T")


class Parsed(HTMLParser):
    """A page whose tags all fit: what stands in it, and the text of its elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str]] = []  # tag, name, value
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        texts: list[str] = []
        self.elements.append((tag, {name: value or "" for name, value in attrs}, texts))
        if tag not in VOID:
            self._open.append((tag, texts))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, texts in self._open:
            texts.append(data)

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")

    def text(self, tag: str, **attributes: str) -> str:
        """Of the first such element, with single spaces."""
        return " ".join("".join(self.all(tag, **attributes)[0]).split())

    def all(self, tag: str, **attributes: str) -> list[list[str]]:
        return [
            texts
            for name, found, texts in self.elements
            if name == tag and attributes.items() <= found.items()
        ]


def data_of(parsed: Parsed, name: str) -> Any:
    return json.loads("".join(parsed.all("script", id=name)[0]))


def whole() -> tuple[Merged, Tournament]:
    """Every part of the page has something in it."""
    return merged(400, 3), tournament(24, rails=2)


def every_text(value: T, text: str) -> T:
    """The same with `text` for each word that is not of an enumeration."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return text  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(every_text(each, text) for each in value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {key: every_text(each, text) for key, each in value.items()}  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        found = {each.name: every_text(getattr(value, each.name), text) for each in fields(value)}
        return replace(value, **found)
    return value


# --- what it says -------------------------------------------------------------------------


def healthy(number: int) -> NodeRow:
    return NodeRow(f"n{number}", Status.OK, None, (), None, None)


def test_the_first_heading_and_the_title_are_the_answer() -> None:
    rows = tuple(map(healthy, range(512)))
    found = replace(NOTHING, status=Status.CRITICAL, hosts=HostCounts(510, 511, 509), rows=rows)
    parsed = Parsed(page(found, None, WHEN))
    assert parsed.text("h1") == "critical 509 of 512 hosts are fit"
    assert parsed.text("title") == "CRITICAL: 509 of 512 hosts are fit"
    assert "511 reported, 510 were expected" in parsed.text("header")
    assert parsed.text("time") == "2026-11-23 07:00:00 UTC"


def test_a_fleet_of_which_nobody_said_how_large_it_is_is_those_that_reported() -> None:
    rows = tuple(map(healthy, range(7)))
    parsed = Parsed(page(replace(NOTHING, hosts=HostCounts(None, 7, 6), rows=rows), None, WHEN))
    assert parsed.text("h1") == "unknown 6 of 7 hosts are fit"
    assert "nobody said how many" in parsed.text("header")


def test_what_is_information_is_folded_away_behind_what_is_serious() -> None:
    note, warning = (
        Group("iommu-strict", severity, "n1", 1, "x", ())
        for severity in (Severity.INFO, Severity.WARN)
    )
    parsed = Parsed(page(replace(NOTHING, groups=(warning, note, note)), None, WHEN))
    assert (
        parsed.text("details")
        == f"Notes: 2 {' '.join(['info iommu-strict 1 host n1 Copy the nodes x'] * 2)}"
    )
    assert "No host has a finding but notes." in Parsed(
        page(replace(NOTHING, groups=(note,)), None, WHEN)
    ).text("section", id="reasons")


@pytest.mark.parametrize(
    ("nodes", "offered"),
    [
        ("node[001-512,600],login1.example-a", True),
        ('node1,"$(reboot)"', False),
        ("-w,node1", False),
        ("n1;n2", False),
        ("n1\nreboot", False),
    ],
)
def test_a_set_of_nodes_is_offered_to_be_copied_where_no_shell_reads_more_into_it(
    nodes: str, offered: bool
) -> None:
    group = Group("link-not-up", Severity.CRITICAL, nodes, 2, "no link", ())
    parsed = Parsed(page(replace(NOTHING, groups=(group,)), None, WHEN))
    assert bool(parsed.all("button", **{"data-copy": "nodes-0"})) is offered


def test_a_group_has_its_nodes_its_evidence_and_lines_to_paste() -> None:
    fleet, pairs = whole()
    group = fleet.groups[0]
    parsed = Parsed(page(fleet, pairs, WHEN))
    article = parsed.text("article", id="reason-0")
    assert article.startswith(f"{group.severity} {group.reason} {group.count} hosts {group.nodes}")
    assert group.summary in article
    proof = group.evidence[0]
    assert f"{proof.source}: {proof.subject} {proof.value}" in article
    assert "".join(parsed.all("code", id="remedy-0")[0]) == (
        "# is there a subnet manager?\nsminfo\n# on its host: systemctl status opensm\n"
    )


def test_the_parts_of_a_merge_and_of_a_tournament_stand_in_their_sections() -> None:
    fleet, pairs = whole()
    parsed = Parsed(page(fleet, pairs, WHEN))
    sections = {name: parsed.text("section", id=name) for name in ("drift", "pairs", "input")}
    for drift in fleet.drift:
        assert drift.fact in sections["drift"]
        assert all(odd.value in sections["drift"] for odd in drift.odd)
    assert all(each.hardware["device"] in sections["drift"] for each in fleet.classes)
    assert "as A, but device ConnectX-6 Dx Too few to tell" in sections["drift"]
    works = parsed.text("section", id="compatibility")
    assert works.index("Cannot talk") < works.index("Not known") < works.index("Can talk")
    assert all(each.why in works for each in fleet.compatibility)
    assert all(line in sections["pairs"] for part in pairs.odd for line in part.evidence)
    assert pairs.unreported[0] in sections["pairs"]
    assert "stdin, line 17" in sections["input"]


def test_a_page_of_nothing_says_so_in_every_section() -> None:
    parsed = Parsed(page(NOTHING, None, WHEN))
    assert parsed.text("h1") == "unknown 0 of 0 hosts are fit"
    assert "No host has a finding." in parsed.text("section", id="reasons")
    assert "rdmadiag pingpong --json" in parsed.text("section", id="pairs")
    assert data_of(parsed, "hosts-data")["node"] == []
    assert parsed.all("canvas") == []


def test_a_tournament_of_no_pairs_has_no_picture() -> None:
    parsed = Parsed(page(NOTHING, Tournament(0, 0, Matrix((), ()), (), ()), WHEN))
    assert parsed.all("canvas") == []
    assert "No part stands out." in parsed.text("section", id="pairs")


def test_the_table_has_every_host_in_the_order_of_the_names() -> None:
    rows = (
        NodeRow("n10", Status.OK, "A", (), "2026-11-23T06:00:00Z", "0.1.0"),
        NodeRow("n2", Status.CRITICAL, "B", ("link-not-up",), "2026-11-23T06:00:01Z", "0.2.0"),
        NodeRow("n1", None, None, (Gap.NEVER_REPORTED,), None, None),
    )
    group = Group("link-not-up", Severity.CRITICAL, "n2", 1, "no link", ())
    found = data_of(
        Parsed(page(replace(NOTHING, rows=rows, groups=(group,)), None, WHEN)), "hosts-data"
    )
    assert found["node"] == ["n1", "n2", "n10"]
    assert [found["statuses"][each] for each in found["status"]] == ["no report", "critical", "ok"]
    assert [[found["reasons"][each] for each in of] for of in found["reason"]] == [
        ["never_reported"],
        ["link-not-up"],
        [],
    ]
    leads_to = dict(zip(found["reasons"], found["anchors"], strict=True))
    assert leads_to == {"link-not-up": 0, "never_reported": -1}
    assert [found["classes"][each] for each in found["class"]] == ["", "B", "A"]
    assert [found["versions"][each] for each in found["version"]] == ["", "0.2.0", "0.1.0"]


def test_the_picture_has_what_failed_and_how_much_slower_the_rest_is() -> None:
    pairs = tournament(24)
    found = data_of(Parsed(page(NOTHING, pairs, WHEN)), "pairs-data")
    assert found["labels"] == list(pairs.matrix.ends)
    assert len(found["squares"]) == len(pairs.matrix.cells)
    failed = [square for square in found["squares"] if square[3]]
    assert [square[4] for square in failed] == [Outcome.NO_DATA]
    slow = found["labels"].index(f"{pairs.odd[1].names[0]}:mlx5_0")
    assert found["senders"][slow][3] == pytest.approx(1.6, rel=0.1)


def test_what_is_left_out_is_counted() -> None:
    group = Group("link-not-up", Severity.WARN, "n1", 1, "x" * (LONGEST + 1), ())
    long = replace(group, nodes="n" * (LONGEST_SET + 1))
    many = replace(NOTHING, groups=(*(group,) * (MOST + 4), long))
    parsed = Parsed(page(many, None, WHEN))
    reasons = parsed.text("section", id="reasons")
    assert "5 more: rdmadiag fleet merge --json has all of them." in reasons
    assert f"{'x' * LONGEST}… (301 characters)" in reasons
    first = Parsed(page(replace(many, groups=(long,)), None, WHEN))
    assert first.all("code", id="nodes-0") == []  # a part of a set is nothing to copy
    drastic = replace(group, remedy=("rm -r /tmp/" + "x" * LONGEST_REMEDY,))
    last = Parsed(page(replace(many, groups=(drastic,)), None, WHEN))
    assert last.all("code", id="remedy-0") == []
    assert "A remedy of 4,011 characters" in last.text("article", id="reason-0")


# --- nothing of it is obeyed ----------------------------------------------------------------

HOSTILE = [
    "</script><script>window.hostile = 1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.hostile = 1">',
    "' onmouseover='window.hostile = 1",
    "</style></title></textarea><svg onload=window.hostile=1>",
    "javascript:window.hostile=1",
    "{{ 7 * 7 }}{% for x in y %}",
    "&lt;b&gt;&#60;",
    "\u202eevil\u2028\u2029\x00\x1b[2J\r\n\ud800",
    "\U0001f600" * (LONGEST + 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_text_adds_no_element_and_no_attribute(text: str) -> None:
    plain, hostile = (
        Parsed(page(every_text(fleet, word), every_text(pairs, word), WHEN))
        for word in ("a word", text)
        for fleet, pairs in [whole()]
    )
    assert hostile.tags == plain.tags


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_a_page_of_hostile_text_runs_our_script_alone(text: str) -> None:
    fleet, pairs = whole()
    written = page(every_text(fleet, text), every_text(pairs, text), WHEN)
    written.encode()  # no half of a surrogate pair
    assert all(letter.isprintable() or letter == "\n" for letter in written)
    parsed = Parsed(written)
    assert {tag for tag, _ in parsed.tags} <= TAGS
    for _, name, value in parsed.attributes:
        assert not name.startswith("on")
        assert name not in ("style", "src", "srcdoc", "action", "formaction")
        assert name != "href" or value.startswith("#")
    run = ["".join(texts) for tag, found, texts in parsed.elements if tag == "script" and not found]
    assert run == [SCRIPT]
    assert ["".join(texts) for texts in parsed.all("style")] == [STYLE]
    for name in ("hosts-data", "pairs-data"):
        island = "".join(parsed.all("script", id=name)[0])
        assert not set("<>&\u2028\u2029") & set(island)


def test_the_island_has_the_text_itself() -> None:
    rows = (NodeRow(HOSTILE[0], Status.OK, None, (), None, None),)
    parsed = Parsed(page(replace(NOTHING, rows=rows), None, WHEN))
    assert data_of(parsed, "hosts-data")["node"] == [HOSTILE[0]]


def test_the_policy_allows_our_script_and_style_by_their_hashes_and_nothing_else() -> None:
    fleet, pairs = whole()
    parsed = Parsed(page(fleet, pairs, WHEN))
    policies = [
        found["content"]
        for tag, found, _ in parsed.elements
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    directives = dict(each.strip().split(" ", 1) for each in policies[0].split(";"))

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert directives == {
        "default-src": "'none'",
        "script-src": source(SCRIPT),
        "style-src": source(STYLE),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    tags = [tag for tag, _ in parsed.tags]
    assert tags.index("meta") < tags.index("style") < tags.index("script")


def test_our_own_script_makes_no_markup_of_text_and_loads_nothing() -> None:
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval", "Function("):
        assert word not in SCRIPT
    for word in ("fetch(", "XMLHttpRequest", "import", "WebSocket", "http:", "https:"):
        assert word not in SCRIPT
    assert not re.search(r"url\(|@import|@font-face", STYLE)
    assert "</" not in SCRIPT + STYLE  # it would end their elements
    assert "<!--" not in SCRIPT + STYLE


# --- for everybody --------------------------------------------------------------------------


def test_tables_headings_and_fields_say_what_they_are() -> None:
    fleet, pairs = whole()
    parsed = Parsed(page(fleet, pairs, WHEN))
    assert all("scope" in found for tag, found, _ in parsed.elements if tag == "th")
    identifiers = [found["id"] for _, found, _ in parsed.elements if "id" in found]
    assert len(identifiers) == len(set(identifiers))
    for _, found, _ in parsed.elements:
        for name in ("aria-labelledby", "aria-describedby", "for", "data-copy"):
            assert set(found.get(name, "").split()) <= set(identifiers)
        assert found.get("href", "#hosts").removeprefix("#") in identifiers
    labels = " ".join("".join(texts) for texts in parsed.all("label"))
    assert re.findall("Search|Status|Reason|Class", labels) == [
        *("Search", "Status", "Reason", "Class")
    ]
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(levels))


def schemes() -> Iterator[tuple[str, dict[str, str]]]:
    light, dark = (
        dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    )
    assert light.keys() == dark.keys()
    yield "light", light
    yield "dark", dark


def luminance(colour: str) -> float:
    """https://www.w3.org/TR/WCAG21/#dfn-relative-luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("name", "scheme"), list(schemes()))
def test_every_text_stands_out_from_what_is_behind_it(name: str, scheme: dict[str, str]) -> None:
    for text in ("text", "dim", "link"):
        for ground in ("ground", "panel"):
            assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
    for status in ("critical", "warn", "unknown", "ok", "none", "info"):
        assert contrast(scheme[f"on-{status}"], scheme[status]) >= 4.5, status
    assert contrast(scheme["focus"], scheme["ground"]) >= 3.0


@pytest.mark.parametrize(("name", "scheme"), list(schemes()))
def test_what_is_hot_stands_out_from_what_is_usual(name: str, scheme: dict[str, str]) -> None:
    steps = [luminance(scheme[f"heat-{step}"]) for step in range(5)]
    assert steps in (sorted(steps), sorted(steps, reverse=True))
    for hot in ("heat-3", "heat-4", "failed"):
        assert contrast(scheme[hot], scheme["untried"]) >= 3.0, hot
    assert contrast(scheme["cross"], scheme["failed"]) >= 4.5


# --- sizes ----------------------------------------------------------------------------------


def test_ten_thousand_hosts_are_a_page_of_a_few_megabytes() -> None:
    written = page(merged(10_000), tournament(512), WHEN)
    assert len(written.encode()) < 3_000_000
    assert len(data_of(Parsed(written), "hosts-data")["node"]) == 10_000


@pytest.mark.slow
def test_ten_thousand_hosts_that_write_all_they_may_are_a_page_of_thirty_megabytes() -> None:
    rows = tuple(
        NodeRow(
            f"{number:05}" + "n" * 9999,
            Status.WARN,
            f"{number}" + "c" * 9999,
            tuple(f"{number % 500} {other}" + "r" * 9999 for other in range(30)),
            "t" * 9999,
            f"{number}" + "v" * 9999,
        )
        for number in range(500)
    )
    remedy = "r" * LONGEST_REMEDY
    groups = tuple(
        Group(f"{number}", Severity.WARN, "n" * LONGEST_SET, 1, "s" * 9999, (remedy,))
        for number in range(300)
    )
    written = page(replace(NOTHING, rows=rows, groups=groups), None, WHEN)
    without = page(replace(NOTHING, groups=groups), None, WHEN)
    size, rest = len(written.encode()), len(without.encode())
    assert rest + (size - rest) * 10_000 / len(rows) < 30_000_000
