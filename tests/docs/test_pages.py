"""Generated pages and the README say what the code says."""

import re

import pytest

from docs.__main__ import FOLDER, PAGES, README
from docs.readme import readme
from rdmadiag.cli import COMMANDS
from rdmadiag.preflight.rules import CATALOGUE


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_rule_has_its_section() -> None:
    page = PAGES["rules.md"]()
    assert re.findall(r"^## (\S+)$", page, re.MULTILINE) == list(CATALOGUE)


def test_the_readme_names_every_command() -> None:
    text = README.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"rdmadiag {command}" in text


def test_the_readmes_output_is_what_the_samples_print() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("$ rdmadiag ") >= 2
    assert text == readme(text), "run `make docs`"
