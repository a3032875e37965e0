"""What a rule does grows with the host, and no faster: counted in calls, which no load changes."""

import sys
from collections.abc import Callable
from functools import cache, partial
from types import FrameType

import pytest

from lab.machine import big_host
from rdmadiag.gid.registry import chosen
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules import CATALOGUE, check
from rdmadiag.preflight.rules.rule import Rule
from rdmadiag.preflight.safety import assess
from rdmadiag.view.reconcile import devices

pytestmark = pytest.mark.once

HCAS, TIMES = 3, 4
PORTS, GIDS = 2, 16
PREFIXES = {"a subnet for each netdev": 24, "one subnet": 8}
SLACK = 1.3
FIXED = 300
"""Calls that are made on a host of any size."""


@cache
def case(hcas: int, prefix: int) -> Case:
    """The host, with all stacks."""
    evidence = big_host(hcas, PORTS, GIDS, GIDS, prefix).evidence()
    return Case(evidence, devices(evidence), stacks=chosen(()))


RULES = tuple(CATALOGUE[code] for code in check(case(1, 24)).codes)
"""Those that apply to it."""


def calls(work: Callable[[], object]) -> int:
    """Of functions of Python and of C, and the steps of generators."""
    count = 0

    def look(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def require_linear(work: Callable[[Case], object], prefix: int) -> None:
    """On four times the devices at most four times the calls."""
    small, large = (calls(partial(work, case(hcas, prefix))) for hcas in (HCAS, HCAS * TIMES))
    assert large <= FIXED + SLACK * TIMES * small


@pytest.mark.slow
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("rule", RULES, ids=lambda each: each.code)
def test_a_rule(rule: Rule, prefix: int) -> None:
    require_linear(lambda of: list(rule.check(of)), prefix)


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_the_view_and_what_is_safe(prefix: int) -> None:
    require_linear(lambda of: assess(devices(of.evidence), of.evidence), prefix)
