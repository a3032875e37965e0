"""What tests of sources share."""

import time

import pytest


@pytest.fixture
def commands(mac_host, monkeypatch):
    """The commands that a Mac runs from now on, each with the seconds that it may take."""
    made = []
    run = mac_host.run

    def noted(argv, deadline):
        made.append((tuple(argv), deadline - time.monotonic()))
        return run(argv, deadline)

    monkeypatch.setattr(mac_host, "run", noted)
    return made
