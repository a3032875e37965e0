"""Soft RoCE devices on the emulated host, which starts without any RDMA module loaded."""

from collections.abc import Iterator

import pytest

from lab.attempt import Attempts
from lab.resources import unchanged
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


@pytest.fixture
def nothing_left(rxe_pair: tuple[Rxe, Rxe], attempts: Attempts) -> Iterator[None]:
    """After the test the kernel counts what it counted before, and no process has a device."""
    with unchanged():
        yield
