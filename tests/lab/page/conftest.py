"""Debian's Chromium, one for all tests of a run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.chromium import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser with one tab; each test opens its own page in it."""
    with Browser() as running:
        yield running


@pytest.fixture(scope="session")
def out() -> Path:
    """Where screenshots stay."""
    return Path(os.environ["RDMADIAG_LAB_OUT"])
