"""The tables of verbs.transitions, attribute by attribute, against the kernel that checks them."""

import ipaddress
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import Rxe
from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs.transitions import Attribute, transition

PROGRAM = Path(__file__).with_name("bringup.py")
CHECKOUT = PROGRAM.parents[3]
EINVAL = 22


@pytest.fixture(scope="class")
def answers(rxe_pair: tuple[Rxe, Rxe], run: Callable[..., Any]) -> list[Any]:
    """Every combination that was tried, and its errno."""
    rxe = rxe_pair[0]
    gid = ipaddress.IPv6Address(f"::ffff:{rxe.ipv4}").packed.hex()
    argv = ["env", f"PYTHONPATH={CHECKOUT}", sys.executable, str(PROGRAM), rxe.name, "1", gid]
    done = run(argv, timeout=120)
    assert done.returncode == 0, done.stderr
    kinds, states = {each.value: each for each in QpType}, {each.value: each for each in QpState}
    return [
        (kinds[kind], states[after], Attribute(mask), errno)
        for kind, after, mask, errno in json.loads(done.stdout)
    ]


class TestTheKernel:
    def test_takes_each_step_with_what_is_required(self, answers: list[Any]) -> None:
        taken = [
            (kind, after)
            for kind, after, mask, errno in answers
            if mask == transition(kind, after).required and not errno
        ]
        assert len(taken) == 9

    def test_refuses_each_step_without_any_one_of_them(self, answers: list[Any]) -> None:
        for kind, after, mask, errno in answers:
            if transition(kind, after).required & ~mask:
                assert errno == EINVAL, (kind, after, mask)

    def test_takes_what_is_optional_and_refuses_what_is_neither(self, answers: list[Any]) -> None:
        for kind, after, mask, errno in answers:
            step = transition(kind, after)
            more = mask & ~step.required
            if more and more & step.optional:
                assert errno == 0, (kind, after, mask)
            elif more:
                assert errno == EINVAL, (kind, after, mask)
