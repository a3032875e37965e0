"""Each address that a finding or an explanation says leads to a page that the site has."""

import pytest

from docs.site.pages import pages
from rdmadiag.documentation import address, page_of_rule
from rdmadiag.explain.lookup import lookup
from rdmadiag.facts.errnos import ERRNOS
from rdmadiag.preflight.rules import CATALOGUE

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def built() -> set[str]:
    """Places of the pages, as MkDocs writes them: use_directory_urls is off."""
    return {place.removesuffix(".md") + ".html" for place in pages()}


def test_each_rule_has_its_page(built: set[str]) -> None:
    assert {page_of_rule(code) for code in CATALOGUE} - built == set()
    assert lookup(("link-not-up",), "linux")[0].see == "rules/link-not-up.html"  # type: ignore[union-attr]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_each_errno_that_has_a_page_names_it(built: set[str], platform: str) -> None:
    named = {
        number: lookup(("errno", str(number)), platform)[0].see  # type: ignore[arg-type,union-attr]
        for number in ERRNOS[platform]  # type: ignore[index]
    }
    assert set(named.values()) - {None} <= built
    with_causes = {
        number
        for number in named
        if number and lookup(("errno", str(number)), platform)[0].stages  # type: ignore[arg-type,union-attr]
    }
    assert {number for number, see in named.items() if see} == with_causes


@pytest.mark.parametrize(
    ("base", "whole"),
    [
        ("https://docs.example.org", "https://docs.example.org/rules/link-not-up.html"),
        ("https://docs.example.org/a/", "https://docs.example.org/a/rules/link-not-up.html"),
        ("/srv/docs/index.html", "/srv/docs/rules/link-not-up.html"),
    ],
)
def test_a_page_is_below_the_first_one(base: str, whole: str) -> None:
    assert address("rules/link-not-up.html", base) == whole
