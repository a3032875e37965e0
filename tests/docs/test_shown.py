"""docs/shown.md: the tests that it names are there, and every rule has one."""

import ast

import pytest

from docs.shown import built, live, recorded
from rdmadiag.preflight.rules import CATALOGUE
from tests.docs.test_counterparts import CHECKOUT, defined

pytestmark = pytest.mark.once


@pytest.mark.parametrize("rule", sorted(live()))
def test_a_test_of_the_lab_that_is_named_exists_and_names_the_rule(rule: str) -> None:
    path, _, name = live()[rule].partition("::")
    assert path.startswith("tests/lab/")
    assert name in defined(path)
    assert f'"{rule}"' in (CHECKOUT / path).read_text(encoding="utf-8")
    marks = map(ast.unparse, defined(path)[name].decorator_list)
    assert not [mark for mark in marks if mark.startswith("pytest.mark.skip(")]


@pytest.mark.parametrize("node", sorted(set(built().values())))
def test_a_test_of_the_table_exists(node: str) -> None:
    path, _, name = node.partition("::")
    assert not path.startswith("tests/lab/")
    assert name.partition("[")[0] in defined(path)


def test_a_parameter_that_shows_a_rule_is_still_there(request: pytest.FixtureRequest) -> None:
    """Of the files that this run has collected, all of them in a run of the whole suite."""
    if request.config.option.keyword or any("::" in each for each in request.config.args):
        pytest.skip("a part of the tests was chosen")
    collected = {item.nodeid for item in request.session.items}
    files = {node.partition("::")[0] for node in collected}
    named = {node for node in built().values() if node.partition("::")[0] in files}
    assert named - collected == set()


def test_every_rule_was_seen_to_have_a_finding() -> None:
    """A new rule gets a row in docs/shown.toml."""
    assert [rule for rule in CATALOGUE if rule not in built()] == []


def test_no_row_is_of_a_rule_that_is_gone() -> None:
    assert {*live(), *built(), *recorded()} - set(CATALOGUE) == set()
