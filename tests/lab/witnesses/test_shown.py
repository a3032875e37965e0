"""docs/shown.md names tests of the lab: in those that ran there, the rule had a finding."""

import pytest

from docs.shown import live
from tests.lab.outcomes import rules_found, times


@pytest.mark.parametrize("rule", sorted(live()))
def test_a_rule_that_is_shown_live_had_a_finding(rule: str) -> None:
    node = live()[rule]
    if not any(times(node)):
        pytest.skip("its part did not run, or has not got what the test needs")
    assert rule in rules_found()[node]
