"""In which keys and items two values differ."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.fleet.changed import Part
from rdmadiag.fleet.parts import MOST, parts

ABSENT = {"why": "absent", "detail": ""}
DENIED = {"why": "denied", "detail": "EPERM"}


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [Part("b", "2", "3")]),
        ({"a": 1}, {"b": 2}, [Part("a", "1", None), Part("b", None, "2")]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [Part("a.c", "2", "3")]),
        ({"a": ["x", "y"]}, {"a": ["y", "z"]}, [Part("a", "x", None), Part("a", None, "z")]),
        (["x", "x"], ["x"], [Part("", "x", None)]),
        (["x", "y"], ["y", "x"], []),
        ([{"a": 1}], [{"a": 2}], [Part("", "{a=1}", None), Part("", None, "{a=2}")]),
        ({"a": 1}, {"a": DENIED}, [Part("a", "1", "denied: EPERM")]),
        ({"a": 1}, {"a": ABSENT}, [Part("a", "1", "(none)")]),
        ({"state": "x", "state_number": 1}, {"state": "x", "state_number": 2}, []),
        ({"a": 1}, DENIED, []),
        ({"a": 1}, ["a"], []),
        ("a", "b", []),
        (None, {"a": 1}, []),
    ],
)
def test_what_differs(before: Any, after: Any, wanted: list[Part]) -> None:
    assert list(parts(before, after)) == wanted


def test_of_long_lists_the_first_are_given() -> None:
    assert len(parts(list(range(MOST)), list(range(MOST, 3 * MOST)))) == MOST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


@given(JSON)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert parts(value, value) == ()


@given(JSON, JSON)
def test_the_reverse_has_the_same_parts_the_other_way_round(one: Any, other: Any) -> None:
    there, back = parts(one, other), parts(other, one)
    assert {(each.name, each.after, each.before) for each in there} == {
        (each.name, each.before, each.after) for each in back
    }
