"""Patterns that are compiled at their first use."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import rdmadiag.explain.log
from rdmadiag.late import late


def late_ones() -> Iterator[tuple[str, "re.Pattern[str]"]]:
    """Of all modules that read logs, by name."""
    found = rdmadiag.explain.log
    for each in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
        for name, value in vars(importlib.import_module(each.name)).items():
            if type(value) is type(late("")):
                yield f"{each.name}.{name}", value


def test_each_is_one_that_compiles() -> None:
    wrong = []
    for name, pattern in late_ones():
        try:
            re.compile(pattern.pattern)
        except re.error as error:
            wrong.append((name, error))
    assert wrong == []


def test_it_answers_as_the_compiled_one() -> None:
    pattern, compiled = late(r"(\d+) (\w+)", re.ASCII), re.compile(r"(\d+) (\w+)", re.ASCII)
    assert pattern.sub(r"\2", "12 ab") == compiled.sub(r"\2", "12 ab")
    assert (pattern.pattern, pattern.flags) == (compiled.pattern, compiled.flags)


def test_what_is_wrong_is_raised_at_its_first_use() -> None:
    pattern = late("(")
    with pytest.raises(re.error):
        pattern.search("")
