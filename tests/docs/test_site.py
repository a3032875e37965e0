"""The documentation site without its build: pages, navigation, links and command blocks."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from docs.site.drawings import FOLDER as DRAWINGS
from docs.site.drawings import with_drawings
from docs.site.errnos import CALLS, traced
from docs.site.links import broken, elsewhere, relinked
from docs.site.pages import DOCS, PLACES, Nav, command_blocks, nav, pages
from docs.site.rules import GROUPS, group_of, rule_pages
from rdmadiag.explain.lookup import STAGES
from rdmadiag.gid.registry import files
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.preflight.verdict import Finding, Proof, Severity

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def places(found: Nav) -> Iterator[str]:
    for each in found:
        if isinstance(each, str):
            yield each
        else:
            for below in each.values():
                yield from places([below] if isinstance(below, str) else below)


def test_every_page_stands_in_the_navigation_once(made: dict[str, str]) -> None:
    assert sorted(places(nav())) == sorted(made)


def test_every_rule_has_a_page_that_says_what_the_table_says(made: dict[str, str]) -> None:
    for rule in CATALOGUE.values():
        page = made[f"rules/{rule.code}.md"]
        assert page.startswith(f"# {rule.code}\n\n**{rule.title}.**\n\n{rule.meaning}")
        assert f"| {rule.severity} |" in page
        assert all(need in page for need in rule.needs)
        assert all(line in page for line in rule.remedy)


def test_every_family_of_rules_has_one_heading() -> None:
    families = [family for group in GROUPS.values() for family in group]
    assert len(families) == len(set(families))
    assert {group_of(rule) for rule in CATALOGUE.values()} == set(GROUPS)


def test_a_rules_page_shows_a_finding_of_a_sample() -> None:
    proof = Proof("sysfs", "/sys/x", "4: ACTIVE")
    found = Finding("no-ipv4-gid", Severity.CRITICAL, "d", 1, "no GID", (proof,), (), ())
    page = rule_pages({"no-ipv4-gid": ("mac-no-ipv4-gid", found)})["rules/no-ipv4-gid.md"]
    assert "--sample mac-no-ipv4-gid" in page
    assert "critical  no GID\n  sysfs /sys/x: 4: ACTIVE\n" in page


def test_every_stack_errno_and_stage_has_a_page(made: dict[str, str]) -> None:
    assert set(CALLS) == set(STAGES)
    for place in (
        *(f"stacks/{name}.md" for name in files()),
        *(f"errnos/{name}.md" for name in traced()),
        *(f"stages/{stage}.md" for stage in STAGES),
    ):
        assert made[place].startswith("# ")
    assert "61 on Linux, 96 on macOS" in made["errnos/ENODATA.md"]
    assert "gid-row-empty" in made["stages/rtr.md"]


def test_every_page_of_docs_is_on_the_site() -> None:
    found = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert {name for name in found if not name.startswith("site/")} == set(PLACES)


def test_no_link_leads_nowhere(made: dict[str, str]) -> None:
    assert list(broken(made)) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    texts = {
        "a.md": "# A b\n[x](b/c.md) [y](b/c.md#d-e) [z](nope.md) [w](b/c.md#nope) [v](#a-b)\n",
        "b/c.md": "# `D` e\n[x](../a.md#a-b) [out](https://example.com)\n```\n[no](link.md)\n```\n",
    }
    assert list(broken(texts)) == [
        "a.md: nope.md: no such page",
        "a.md: b/c.md#nope: no such heading",
    ]


def test_links_to_other_sites_are_counted_and_the_page_says_that_they_are_not_asked(
    made: dict[str, str],
) -> None:
    texts = {"a.md": "[x](https://example.com/a) <https://example.com/b>\n```\n<http://no>\n```\n"}
    assert elsewhere(texts) == {"https://example.com/a", "https://example.com/b"}
    assert len(elsewhere(made)) > 150
    assert "Links to other sites are not: a build fetches nothing." in made["not-run.md"]


def test_links_between_pages_of_docs_become_links_of_the_site() -> None:
    text = "[r](../rules.md#no-ipv4-gid) [s](slurm.md#nhc) [t](../../tests/x.py) [h](#here)"
    assert relinked(text, "deploy/install.md", "how-to/install.md", PLACES) == (
        "[r](../rules/no-ipv4-gid.md) [s](slurm.md#nhc) t [h](#here)"
    )


def test_every_command_of_every_page_is_run_or_says_what_it_needs() -> None:
    found = command_blocks()
    assert len([block for block in found if not block.needs]) > 25
    assert {"how-to/diff.md", "how-to/install.md", "how-to/mcp.md", "tutorials/linux.md"} <= {
        block.page for block in found if not block.needs
    }
    for block in found:
        for command in block.commands:
            if not block.needs:
                assert "rdmadiag" in command or command.startswith("echo "), command


def test_what_is_not_run_is_listed(made: dict[str, str]) -> None:
    listed = made["not-run.md"]
    for block in command_blocks():
        said = "<br>".join(f"`{command}`" for command in block.commands)
        row = f"]({block.page}) | {said} | {block.needs} |"
        assert (row in listed) == bool(block.needs), block


def test_no_bar_in_the_code_of_a_table_shows_its_backslash(made: dict[str, str]) -> None:
    assert "`srun -l rdmadiag preflight --json | rdmadiag fleet merge -" in made["how-to/fleet.md"]
    barred = re.compile(r"^\|.*\\\|", re.MULTILINE)
    assert [place for place, text in made.items() if barred.search(text)] == []


@pytest.mark.parametrize("path", sorted(DRAWINGS.glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_has_a_title_a_text_and_no_colour_of_its_own(path: Path) -> None:
    drawing = parse(path).getroot()
    assert drawing.get("role") == "img"
    words = {each.tag.rpartition("}")[2] for each in drawing.iter()}
    assert {"title", "desc"} <= words
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', path.read_text(encoding="utf-8")))
    assert colours <= {"currentColor", "none"}


def test_a_drawing_stands_where_its_name_does() -> None:
    assert with_drawings("a\n\n![[qp-states]]\n\nb").count("<svg") == 1
