"""Numbers as C reads them (C17 7.22.1.2, 7.22.1.4)."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.gid import c_number
from rdmadiag.gid.c_number import atoi, has_number, strtol, to_int


def test_the_documented_examples_hold() -> None:
    assert doctest.testmod(c_number).failed == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("08", 0),
        ("0xg", 0),
        ("+7", 7),
        ("\t-5x", -5),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("", 0),
        ("- 3", 0),
    ],
)
def test_strtol(text: str, value: int | None) -> None:
    assert strtol(text) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_what_fits_an_int_is_that_number(number: int) -> None:
    assert strtol(str(number)) == atoi(str(number)) == to_int(number) == number


@given(st.text(max_size=60))
def test_any_text_is_a_number(text: str) -> None:
    assert -(2**31) <= atoi(text) < 2**31
    assert isinstance(has_number(text), bool)
    assert strtol(text) is None or has_number(text) or strtol(text) == 0
