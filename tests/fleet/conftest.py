"""Fixtures of this folder."""

from tests.fleet.fake_fleet import fleet as fleet  # noqa: PLC0414  # a fixture
