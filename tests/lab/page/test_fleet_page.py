"""The page on a fleet in a real browser: quick, whole at every width, usable by keyboard, and safe
from what hosts wrote."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.chromium import Browser
from lab.merged_fleet import merged, tournament
from rdmadiag.fleet.merged import Merged
from rdmadiag.fleet.pair_results import Tournament
from rdmadiag.render.fleet_page import page
from tests.render.test_fleet_page import HOSTILE, every_text

HOSTS = 10_000
OPENS_SECONDS = 3.0
AT_ONCE_SECONDS = 0.3
"""What takes no longer does not freeze a page."""
TURNS = 5
"""Of which the quickest counts: others may have the processors."""

WHEN = datetime(2026, 11, 23, 7, 0, 0, tzinfo=UTC)
WIDTHS = (400, 900, 1600)

TIMES = """(async () => {
  const paint = { type: "paint", buffered: true };
  await new Promise((seen) => new PerformanceObserver(seen).observe(paint));
  const first = (name) => performance.getEntriesByName(name)[0].startTime;
  const loaded = performance.getEntriesByType("navigation")[0];
  return {
    interactive: loaded.domInteractive, load: loaded.loadEventEnd,
    paint: first("first-contentful-paint"), table: first("rdmadiag:table"),
  };
})()"""

SHOWN = """({
  focus: document.activeElement.id || document.activeElement.textContent.trim(),
  said: document.getElementById("shown").textContent,
  rows: [...document.querySelectorAll("#rows tr")].map((row) =>
    [...row.cells].map((cell) => cell.textContent.trim())),
  count: document.getElementById("table").getAttribute("aria-rowcount"),
  sort: Object.fromEntries([...document.querySelectorAll("#table thead th")].map((head) =>
    [head.textContent, head.getAttribute("aria-sort")])),
})"""

FEW = """(() => {
  document.getElementById("search").value = "node03";
  document.getElementById("search").dispatchEvent(new Event("input", { bubbles: true }));
})()"""

# Each text that is to be seen, with the colours of it and of what is behind it: WCAG's contrast.
CONTRAST = """(() => {
  const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => {
    const [red, green, blue] = parts(colour).map((part) =>
      part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (parts(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, noscript, .unseen, option")) continue;
    const [low, high] = [light(getComputedStyle(element).color), light(behind(element))].sort();
    const ratio = (high + 0.05) / (low + 0.05);
    found.push([ratio, walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found.sort((one, other) => one[0] - other[0]).slice(0, 5);
})()"""

# What is wider than the window and in no box that scrolls; pieces of text that a box cuts off.
CUT = """(() => {
  const wide = document.documentElement.clientWidth;
  return [...document.querySelectorAll("body *")].filter((element) => {
    if (!element.checkVisibility() || element.closest(".unseen, .skip")) return false;
    const box = element.getBoundingClientRect();
    const scrolls = element.closest(".wide, pre");
    if (!scrolls) return box.right > wide + 1 || box.left < 0;
    return false;
  }).map((element) => element.outerHTML.slice(0, 80));
})()"""


def written(
    folder: Path, fleet: Merged, pairs: Tournament | None, change: Callable[[str], str] = str
) -> Path:
    file = folder / "fleet.html"
    file.write_text(change(page(fleet, pairs, WHEN)))
    return file


def trouble(browser: Browser) -> list[Any]:
    """What the browser complained of, and what the page asked of a network."""
    return [
        event["params"]
        for event in browser.events
        if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
        or (
            event.get("method") == "Network.requestWillBeSent"
            and not event["params"]["request"]["url"].startswith("file:")
        )
    ]


def note(out: Path, name: str, found: object) -> None:
    """Into a file of the results, with how busy the machine was."""
    load = os.getloadavg()[0]
    (out / f"{name}.json").write_text(json.dumps({"load average": load, "found": found}, indent=1))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("large"), merged(HOSTS, 1), tournament(512, seed=1))


# --- how it looks ---------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_and_every_text_can_be_read(
    browser: Browser, tmp_path: Path, out: Path, width: int, dark: bool
) -> None:
    file = written(tmp_path, merged(400, 3), tournament(40, seed=3))
    browser.shape(width, dark=dark)
    browser.open(file)
    assert browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    browser.evaluate(FEW)
    browser.screenshot(out / f"fleet-{width}-{'dark' if dark else 'light'}.png", whole=True)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(CUT) == []
    assert browser.evaluate(CONTRAST)[0][0] >= 4.5
    assert trouble(browser) == []


def test_the_picture_is_drawn_in_the_colours_of_the_legend(
    browser: Browser, tmp_path: Path
) -> None:
    pairs = tournament(40, seed=3)
    browser.shape(1600, dark=False)
    browser.open(written(tmp_path, merged(40), pairs))
    found = browser.evaluate(
        """(() => {
          const canvas = document.getElementById("map");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = {};
          for (let at = 0; at < data.length; at += 4) {
            const colour = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`;
            seen[colour] = (seen[colour] || 0) + 1;
          }
          return Object.fromEntries([...document.querySelectorAll(".swatch")].map((swatch) =>
            [swatch.classList[1], seen[getComputedStyle(swatch).backgroundColor] || 0]));
        })()"""
    )
    assert found["untried"] > found["heat-0"] > found["heat-3"] > found["failed"] > 50
    assert found["heat-4"] == 0  # the slow node takes 1.6 times as long


# --- how quick it is ------------------------------------------------------------------------


def test_ten_thousand_hosts_open_within_three_seconds(
    browser: Browser, large: Path, out: Path
) -> None:
    browser.shape(1600, dark=False)
    turns = []
    for _ in range(TURNS):
        browser.open(large)
        turns.append(browser.evaluate(TIMES) | {"CPU": browser.work()["TaskDuration"] * 1000})
        assert trouble(browser) == []
    note(out, "open", {"bytes": large.stat().st_size, "ms": turns})
    assert min(max(each.values()) for each in turns) < OPENS_SECONDS * 1000
    assert large.stat().st_size < 30_000_000
    assert browser.evaluate(SHOWN)["said"] == "10,000 of 10,000 hosts"


def test_a_sort_or_a_filter_of_ten_thousand_hosts_does_not_freeze_the_page(
    browser: Browser, large: Path, out: Path
) -> None:
    browser.shape(1600, dark=False)
    browser.open(large)
    took = browser.evaluate(
        """(async () => {
          const took = {};
          const timed = async (name, act) => {
            took[name] = [];
            for (let turn = 0; turn < TURNS; turn += 1) {
              const began = performance.now();
              act(turn);
              document.body.getBoundingClientRect(); // lays it out
              took[name].push((performance.now() - began) / 1000);
              await new Promise((after) => requestAnimationFrame(after));
            }
          };
          const search = document.getElementById("search");
          const looked = (text) => {
            search.value = text;
            search.dispatchEvent(new Event("input", { bubbles: true }));
          };
          await timed("search", (turn) => looked(`node0${turn}`));
          looked("");
          for (const button of document.querySelectorAll("[data-sort]")) {
            await timed(`sort by ${button.textContent}`, () => button.click());
          }
          return took;
        })()""".replace("TURNS", str(TURNS))
    )
    note(out, "sort-and-filter", took)
    assert len(took) == 7
    assert {name: times for name, times in took.items() if min(times) > AT_ONCE_SECONDS} == {}


def test_all_rows_can_be_had_without_a_freeze(browser: Browser, large: Path, out: Path) -> None:
    browser.shape(1600, dark=False)
    browser.open(large)
    before = browser.work()["TaskDuration"]
    frames = browser.evaluate(
        """new Promise((done) => {
          const frames = [];
          const watch = (now) => {
            frames.push(now);
            if (document.querySelectorAll("#rows tr").length === 10000) done(frames);
            else requestAnimationFrame(watch);
          };
          document.getElementById("all-rows").click();
          requestAnimationFrame(watch);
        })"""
    )
    busy = browser.work()["TaskDuration"] - before
    longest = max(after - earlier for earlier, after in pairwise(frames)) / 1000
    found = {"frames": len(frames), "CPU seconds": busy, "longest frame's seconds": longest}
    note(out, "all-rows", found)
    assert busy / len(frames) < AT_ONCE_SECONDS
    assert browser.evaluate("document.getElementById('more').hidden") is True


# --- by keyboard, and for a screen reader ---------------------------------------------------


def tab_to(browser: Browser, name: str) -> None:
    """Tab until the focus is on that element; it is then marked for the eye."""
    for _ in range(120):
        browser.press("Tab")
        found = browser.evaluate(SHOWN)["focus"]
        style = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", found
        if found == name:
            return
    pytest.fail(f"no way to {name} by Tab")


def test_the_table_is_filtered_and_sorted_by_keyboard(
    browser: Browser, tmp_path: Path, out: Path
) -> None:
    fleet = merged(400, 3)
    browser.shape(1600, dark=False)
    browser.open(written(tmp_path, fleet, None))
    silent = [row.node for row in fleet.rows if row.status is None]
    assert silent

    browser.press("Tab")
    assert browser.evaluate(SHOWN)["focus"] == "Skip to the table of all hosts"
    browser.press("Enter")
    tab_to(browser, "search")
    browser.press(*"never")
    shown = browser.evaluate(SHOWN)
    assert [row[0] for row in shown["rows"]] == sorted(silent)
    assert shown["said"] == f"{len(silent)} of 400 hosts"
    assert shown["count"] == str(len(silent) + 1)
    browser.screenshot(out / "filtered-by-keyboard.png")

    tab_to(browser, "Clear")
    browser.press("Enter")
    tab_to(browser, "Host")
    browser.press("Enter")
    shown = browser.evaluate(SHOWN)
    assert shown["said"] == "400 of 400 hosts"
    assert (shown["sort"]["Host"], shown["sort"]["Status"]) == ("ascending", "none")
    assert [row[0] for row in shown["rows"]] == sorted(row.node for row in fleet.rows)[:200]
    browser.press("Space")
    shown = browser.evaluate(SHOWN)
    assert shown["sort"]["Host"] == "descending"
    assert shown["rows"][0][0] == max(row.node for row in fleet.rows)


def test_a_reason_leads_to_its_hosts_and_a_host_to_its_reason(
    browser: Browser, tmp_path: Path
) -> None:
    fleet = merged(400, 3)
    browser.shape(900, dark=False)
    browser.open(written(tmp_path, fleet, None))
    group = fleet.groups[0]
    tab_to(browser, f"Only these in the table: {group.reason}")
    browser.press("Enter")
    shown = browser.evaluate(SHOWN)
    assert shown["focus"] == "hosts"
    assert len(shown["rows"]) == group.count
    assert all(group.reason in row[2] for row in shown["rows"])
    browser.evaluate("document.querySelector('#rows a').click()")
    assert browser.evaluate("location.hash") == "#reason-0"


def test_the_remedy_can_be_copied_without_the_end_of_its_line(
    browser: Browser, tmp_path: Path
) -> None:
    browser.shape(900, dark=False)
    browser.open(written(tmp_path, merged(400, 3), None))
    browser.evaluate(
        "document.addEventListener('copy', () => { window.copied = String(getSelection()) })"
    )
    browser.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    browser.evaluate("document.querySelector('[data-copy=remedy-0]').click()")
    copied = browser.evaluate("window.copied")
    assert copied.startswith("# is there a subnet manager?\nsminfo\n")
    assert not copied.endswith("\n")
    assert browser.evaluate("document.getElementById('said').textContent") == "Copied"


def test_the_heat_map_is_read_by_the_arrow_keys(browser: Browser, tmp_path: Path) -> None:
    pairs = tournament(24, seed=3)
    browser.shape(900, dark=True)
    browser.open(written(tmp_path, merged(24), pairs))
    tab_to(browser, "map")
    browser.press("Home")
    said = "document.getElementById('square').textContent"
    first = browser.evaluate(said)
    sender, receiver = re.fullmatch(r"(\S+) → (\S+): .*", first).groups()  # type: ignore[union-attr]
    assert (sender, receiver) in {(cell.sender, cell.receiver) for cell in pairs.matrix.cells}
    browser.press("ArrowRight", "ArrowLeft", "ArrowDown", "End")
    assert browser.evaluate(said) != first
    failing = next(cell for cell in pairs.matrix.cells if cell.latency_us is None)
    row, column = (pairs.matrix.ends.index(each) for each in (failing.sender, failing.receiver))
    found = browser.evaluate(
        f"""(() => {{
          const [canvas, size, cell] = [document.getElementById("map"), 24, [{column}, {row}]];
          const box = canvas.getBoundingClientRect();
          for (let y = 0; y < box.height; y += 3) for (let x = 0; x < box.width; x += 3) {{
            canvas.dispatchEvent(new PointerEvent("pointermove",
              {{ clientX: box.left + x, clientY: box.top + y }}));
            const text = document.getElementById("square").textContent;
            if (text.startsWith("{failing.sender} → {failing.receiver}: ")) return text;
          }}
          return null;
        }})()"""
    )
    assert found is not None
    assert found.endswith("1 of 1 pair failed: no_data")


def test_a_screen_reader_is_given_a_table_with_headings_and_fields_with_names(
    browser: Browser, tmp_path: Path
) -> None:
    browser.shape(1600, dark=False)
    browser.open(written(tmp_path, merged(30, 3), tournament(8)))
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]
    roles = {role for role, _ in found}
    assert {"heading", "table", "row", "rowheader", "columnheader", "main", "navigation"} <= roles
    assert {
        ("table", "All hosts"),
        ("searchbox", "Search"),
        ("combobox", "Status"),
        ("combobox", "Reason"),
        ("combobox", "Class"),
        ("columnheader", "Host"),
        ("rowheader", "node01"),
        ("application", "Heat map"),
    } <= set(found)
    named = {"button", "link", "combobox", "searchbox", "region", "heading", "columnheader"}
    assert [role for role, name in found if role in named and not name] == []


# --- hostile text ---------------------------------------------------------------------------


@pytest.mark.parametrize("guarded", [True, False], ids=["as it is", "without its policy"])
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_nothing_that_a_host_wrote_runs(
    browser: Browser, tmp_path: Path, text: str, guarded: bool
) -> None:
    def bare(written: str) -> str:
        return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", written)

    fleet, pairs = merged(400, 3), tournament(24)
    with_reasons = sum(1 for row in fleet.rows if row.reasons and row.status)
    file = written(
        tmp_path,
        every_text(fleet, text),
        # Ends stay apart: of one end alone there is no picture.
        replace(every_text(pairs, text), matrix=_named(pairs, text)),
        str if guarded else bare,
    )
    browser.shape(400, dark=False)
    browser.open(file)
    browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    assert browser.evaluate(CUT) == []
    browser.evaluate("document.querySelectorAll('[data-sort]').forEach((each) => each.click())")
    browser.evaluate("document.querySelector('.only').click()")
    browser.evaluate(
        "document.querySelectorAll('body *').forEach((each) => "
        "each.dispatchEvent(new MouseEvent('mouseover')))"
    )
    assert browser.evaluate("typeof window.hostile") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img, svg, iframe').length") == 0
    assert browser.evaluate("document.querySelectorAll('#rows tr').length") == with_reasons
    seen = browser.evaluate("document.querySelector('#rows th').textContent")
    assert seen[:8] == text[:8] or not text[:8].isprintable()
    assert not re.search("[\u202e\u2028\u2029\x1b]", browser.evaluate("document.body.innerText"))
    assert trouble(browser) == []


def test_the_policy_itself_stops_a_script_that_came_into_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    def broken(written: str) -> str:
        attack = "<script>window.hostile = 1</script><img src=x onerror='window.hostile = 1'>"
        return written.replace("<main>", f"<main>{attack}")

    browser.shape(900, dark=False)
    browser.open(written(tmp_path, merged(30), None, broken))
    assert browser.evaluate("typeof window.hostile") == "undefined"
    assert browser.evaluate("document.querySelectorAll('#rows tr').length") == 30
    assert trouble(browser) != []


def _named(pairs: Tournament, text: str) -> Any:
    matrix = pairs.matrix
    names = {end: f"{text}{number}" for number, end in enumerate(matrix.ends)}
    cells = tuple(
        replace(cell, sender=names[cell.sender], receiver=names[cell.receiver])
        for cell in matrix.cells
    )
    return replace(matrix, ends=tuple(names.values()), cells=cells)
