"""campaign.names and campaign.shells: that they see what they are there to see."""

from pathlib import Path

import pytest

from campaign import names, shells
from lab.hostile import Free, free, poisoned

pytestmark = pytest.mark.once


@pytest.mark.parametrize("shell", shells.installed())
@pytest.mark.parametrize(
    "line", ["ls $(touch ran)", "ls; touch ran", "ls > ran", "ls 'open", 'ls "$(touch ran)"']
)
def test_a_line_that_does_more_than_it_says_is_seen(shell: str, line: str) -> None:
    assert shells.wrong(shell, [line]) or (shell, line) == ("zsh without comments", "ls 'open")


@pytest.mark.parametrize("shell", shells.installed())
def test_lines_that_are_quoted_are_fine(shell: str) -> None:
    lines = ["ls '$(touch ran)'   # what is there", "export X='; touch ran'", "kill 1", "# a b"]
    assert shells.wrong(shell, lines) == []


def test_what_a_terminal_would_obey_is_seen() -> None:
    found = names.Campaign(Path())
    for text in ("a\x1b[2Jb\n", "a\x9b2J\n", "a\u202eb\n", f"x\n {names.INJECTED}\n", "a\rb\n"):
        ended = names.Ended(("gids",), 0, text, "")
        found.printed(ended)
    assert len(found.broken["nothing for a terminal to obey"]) == 5
    found.printed(names.Ended(("gids",), 0, "\x1b[1mbold\x1b[0m\n", ""))
    assert len(found.broken["nothing for a terminal to obey"]) == 5


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (names._nagios, "RDMA OK - fine | status=0;;;0 | ports=2;;;0\n"),
        (names._nagios, "RDMA OK - fine\nmore | ports=2;;;0\n"),
        (names._prometheus, 'rdmadiag_x{device="a"} 1\n"} 1\n'),
        (names._prometheus, 'rdmadiag_x{device="a"} 1\nrdmadiag_x{device="a"} 0\n'),
        (names._github, "OK\n::set-output name=x::y\n"),
        (names._junit, "<testsuites tests='0'><testcase/></testsuites>"),
        (names._toml, "[host]\n[more]\n"),
        (names._json, '{"a":1}\n{"b":2}\n'),
    ],
)
def test_a_document_that_is_not_of_its_form_is_seen(grammar: names.Grammar, text: str) -> None:
    assert grammar(names.Ended((), 0, text, ""), "")


def test_what_may_be_any_text_is_found_by_its_reader() -> None:
    document = {"kind": "a", "name": "dev", "of": {"dev": "x", "kind": "a"}, "other": "a"}

    def reads(each: dict[str, object]) -> dict[str, object] | None:
        return each if each.get("kind") == "a" else None

    found = free(document, reads)
    assert found == Free(frozenset({"dev", "x"}), frozenset({"dev", "name", "of", "other"}))
    assert poisoned(document, found.only({"dev"}), "!") == {
        "kind": "a",
        "name": "dev!",
        "of": {"dev!": "x", "kind": "a"},
        "other": "a",
    }
