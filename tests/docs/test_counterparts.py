"""docs/counterparts.md: the tests that it names are there, and each row has its answer."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.counterparts import Document, State, documents, witnesses

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parent.parent.parent
DOCUMENTS = documents()


@cache
def defined(path: str) -> dict[str, ast.FunctionDef]:
    """The tests of a file, by the end of their node ids."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    return {name: node for name, node in _named("", tree.body) if _is_test(node)}


def _named(before: str, body: list[ast.stmt]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _named(f"{before}{node.name}::", node.body)
        elif isinstance(node, ast.FunctionDef):
            yield f"{before}{node.name}", node


def _is_test(node: ast.FunctionDef) -> bool:
    return node.name.startswith("test_")


@pytest.mark.parametrize("node", witnesses().values())
def test_a_test_that_is_named_exists_and_is_not_always_skipped(node: str) -> None:
    path, _, name = node.partition("::")
    assert (CHECKOUT / path).is_file()
    assert name in defined(path)
    marks = [ast.unparse(each) for each in defined(path)[name].decorator_list]
    assert not [mark for mark in marks if mark.startswith("pytest.mark.skip(")]


def test_every_test_of_the_list_shows_something() -> None:
    rows = [row for document in DOCUMENTS for row in document.rows]
    used = {key for row in rows for key in (*row.tests, *row.refusals)}
    assert set(witnesses()) <= used


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.title)
def test_each_row_stands_once_and_has_its_answer(document: Document) -> None:
    names = Counter(row.name for row in document.rows)
    assert [name for name, count in names.items() if count > 1] == []
    for row in document.rows:
        assert row.here, row.name
        if row.state is not State.OPEN:
            assert {*row.tests, *row.refusals} <= set(witnesses()), row.name
        if row.state is State.WORKS:
            assert row.tests, row.name


@pytest.mark.parametrize("number", [1, 2, 3], ids=lambda at: DOCUMENTS[at].title)
def test_of_what_verbs_are_nine_rows_in_ten_work(number: int) -> None:
    document = DOCUMENTS[number]
    assert len(document.of(State.WORKS)) >= 0.9 * len(document.rows)
