"""Names with numbers in them, folded."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag import ranges as module
from rdmadiag.ranges import folded, ranges


def test_the_examples_hold() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([f"mlx5_{n}/1" for n in range(64)], ["mlx5_[0-63]/1"]),
        ([f"mlx5_{n}/1" for n in range(3)], ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"]),
        ([f"mlx5_{n}/{p}" for n in range(4) for p in (1, 2)], ["mlx5_[0-3]/1", "mlx5_[0-3]/2"]),
        ([f"mlx5_{n}" for n in (0, 1, 2, 7)], ["mlx5_[0-2,7]"]),
        ([f"0000:{n:02x}:00.0" for n in range(4)], [f"0000:{n:02x}:00.0" for n in range(4)]),
        (["rxe0/1", "siw0/1"], ["rxe0/1", "siw0/1"]),
        (["", "a"], ["", "a"]),
    ],
    ids=["one number", "a few", "by the one with most values", "a gap", "PCI", "others", "none"],
)
def test_names_of_one_form_are_folded(names: list[str], expected: list[str]) -> None:
    assert folded(names) == expected


def test_a_number_with_more_digits_than_python_reads_is_no_error() -> None:
    assert folded(["a" + "1" * 5000]) == ["a" + "1" * 5000]


@given(st.sets(st.integers(0, 99), min_size=1))
def test_no_number_is_lost(numbers: set[int]) -> None:
    found: set[int] = set()
    for part in ranges(numbers).split(","):
        one, _, last = part.partition("-")
        found |= set(range(int(one), int(last or one) + 1))
    assert found == numbers
