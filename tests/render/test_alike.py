"""Which sentences say the same of two devices."""

import doctest

import pytest

from rdmadiag.render import alike
from rdmadiag.render.alike import form


def test_the_example_holds() -> None:
    assert doctest.testmod(alike).failed == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mlx5_0 is slow", "mlx5_11 is slow"),
        ("mlx5_0/1 has no GID", "mlx5_1/2 has no GID"),
        ("/dev/infiniband/uverbs0 does not exist", "/dev/infiniband/uverbs7 does not exist"),
        ("PCI 0000:08:00.0 has no device", "PCI 0000:a9:00.1 has no device"),
        ("ib0 is down", "ib1 is down"),
    ],
)
def test_they_differ_in_names_alone(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("link at 8 GT/s x8", "link at 8 GT/s x4"),
        ("rate 400G expected", "rate 200G expected"),
        ("uses MTU 1024", "uses MTU 512"),
        ("all 256 rows are empty", "all 16 rows are empty"),
    ],
)
def test_they_differ_in_what_they_say(one: str, other: str) -> None:
    assert form(one) != form(other)


@pytest.mark.parametrize("unit", ["a", "a.", "ab-", "_", "0000:"])
def test_a_long_name_takes_no_longer_than_it_is_long(unit: str) -> None:
    """Half an hour where each split of its letters is tried."""
    assert form(f"{unit * 50_000}!") == f"{unit * 50_000}!"
