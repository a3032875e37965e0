"""The simulated InfiniBand fabric of 64 hosts."""

from collections.abc import Iterator

import pytest

from lab.fabric import Fabric


@pytest.fixture(scope="session")
def fabric() -> Iterator[Fabric]:
    """64 hosts, one for all tests of a run: leave links as they were found.

    Ports are INIT until a test calls `sweep`, ACTIVE ever after. A test that needs a fabric
    before its first sweep starts one of its own.
    """
    with Fabric(64) as running:
        yield running
