"""How many rows are read."""

import doctest

import pytest

from rdmadiag.gid import scan


@pytest.mark.parametrize(
    ("length", "requested", "route", "preflight"),
    [
        (128, 8, 8, 8),
        (128, 2, 8, 2),
        (128, 100, 8, 8),
        (3, 8, 3, 3),
        (3, 2, 3, 2),
        (0, 5, 8, 5),
        (-1, 5, 8, 5),
        (128, -1, 8, 0),
        (128, 0, 8, 0),
        (1, 0, 1, 0),
    ],
)
def test_limits(length: int, requested: int, route: int, preflight: int) -> None:
    assert scan.MAX_ROUTE_GID_SCAN == 8
    assert scan.route_gid_scan_limit(length) == route
    assert scan.preflight_gid_scan_limit(length, requested) == preflight


def test_the_examples_hold() -> None:
    results = doctest.testmod(scan)
    assert (results.failed, results.attempted) == (0, 2)
