"""The end whose host has no address for the GID that its program took as its own."""

from dataclasses import replace

import pytest

from rdmadiag.explain.job.odd_host import OddHost, of_settings, without_address
from rdmadiag.explain.job.story import FirstFailure, PrintedEnd
from rdmadiag.facts.attempt import Stage
from rdmadiag.view.unusual import Unusual
from tests.explain.job.telling import placed
from tests.explain.job.test_both_ends import NO_RTR

LEFT = PrintedEnd("a", "left.log", "rxe0", "fe80::1", None)
RIGHT = PrintedEnd("b", "right.log", "rxe1", "::ffff:192.0.2.2", None)
OWN = {"a": frozenset({"fe80::1", "192.0.2.1"}), "b": frozenset({"192.0.2.2"})}
MOVED = {**OWN, "a": frozenset({"192.0.2.1"})}


def rtr() -> FirstFailure:
    first = placed({"right.log": NO_RTR}).first
    assert first is not None
    assert first.failure.stage is Stage.RTR
    return first


@pytest.mark.parametrize(
    ("addresses", "host"),
    [
        (OWN, None),
        (MOVED, "a"),
        ({**OWN, "b": frozenset({"192.0.2.9"})}, "b"),
        ({**MOVED, "b": frozenset({"192.0.2.9"})}, None),
        ({"a": frozenset({"192.0.2.1"})}, None),
        ({**MOVED, "a": frozenset()}, None),
    ],
    ids=["both have it", "left not", "right not", "neither", "one report", "nothing was read"],
)
def test_it_is_at_the_end_that_alone_has_not_its_own_address(
    addresses: dict[str, frozenset[str]], host: str | None
) -> None:
    found = without_address(rtr(), (LEFT, RIGHT), addresses)
    assert (found and found[1]) == host


def test_a_failure_at_another_step_is_not_of_it() -> None:
    first = rtr()
    first = replace(first, failure=replace(first.failure, stage=Stage.CONNECT))
    assert without_address(first, (LEFT, RIGHT), MOVED) is None
    assert without_address(None, (LEFT, RIGHT), MOVED) is None


def test_a_gid_that_is_none_is_no_address() -> None:
    assert without_address(rtr(), (replace(LEFT, gid=None), RIGHT), MOVED) is None


SET = (Unusual("rule of priority 100", "IPv4", "rules"),)


def test_of_several_pairs_each_has_the_same_odd_host_or_none_is() -> None:
    one, other = OddHost("a", SET), OddHost("b", SET)
    found = of_settings((one, one), "no-path")
    assert found is not None
    assert (found[1], found[2]) == ("a", "rule of priority 100")
    assert of_settings((one, other), "no-path") is None
    assert of_settings((), "no-path") is None
