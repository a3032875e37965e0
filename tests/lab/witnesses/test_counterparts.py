"""docs/counterparts.md names tests of the lab: of those that ran there, none was skipped always."""

import pytest

from docs.counterparts import Kind, kind, witnesses
from tests.lab.outcomes import times


@pytest.mark.parametrize("node", [each for each in witnesses().values() if kind(each) is Kind.LIVE])
def test_what_shows_a_row_was_not_skipped_in_every_part(node: str) -> None:
    found = times(node)
    if not found:
        pytest.skip("its part did not run")
    assert any(found)
