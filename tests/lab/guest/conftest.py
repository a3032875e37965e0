"""Soft RoCE devices on the emulated host, which starts without any RDMA module loaded."""

from collections.abc import Iterator

import pytest

from lab.rxe import Rxe, add_pair, remove_pair


@pytest.fixture(scope="class")
def rxe_pair() -> Iterator[tuple[Rxe, Rxe]]:
    """rxe0 and rxe1, ready. New for every test function, and once for a class of tests.

    Building takes seconds: put tests that only look into one class.
    """
    try:
        yield add_pair()
    finally:
        remove_pair()
