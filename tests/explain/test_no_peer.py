"""Two hosts that do not meet over TCP: the errno says which of them, or what lies between."""

from dataclasses import replace
from typing import Literal

import pytest

from rdmadiag.explain.attempt import advice
from rdmadiag.facts.attempt import Attempt, Outcome, Stage
from rdmadiag.facts.errnos import Platform
from tests.verbs.attempts import VERIFIED


def alone(
    errno: int | None,
    role: Literal["listen", "connect"] = "connect",
    platform: Platform = "linux",
    *,
    is_this_host: bool = False,
) -> Attempt:
    return replace(
        VERIFIED,
        outcome=Outcome.NO_PEER,
        stage=Stage.CONNECT,
        remote=None,
        touched=False,
        data_verified=False,
        errno=errno,
        role=role,
        platform=platform,
        peer_is_this_host=is_this_host,
    )


@pytest.mark.parametrize(
    ("attempt", "first", "line"),
    [
        (alone(111), "nobody listens there", "ss -tln"),
        (alone(None), "a firewall drops", "ss -tln"),
        (alone(110), "a firewall drops", "ss -tln"),
        (alone(101), "there is no route to the peer", "ip route get PEER"),
        (alone(113), "the peer's address does not answer on the link", "ip route get PEER"),
        (alone(None, "listen"), "the other end was not started", "ss -tln"),
        (alone(99, "listen"), "no interface of this host has the address", "ip -brief address"),
        (alone(98, "listen"), "another program listens", "ss -tln"),
        (alone(13, "listen"), "the TCP port is one that root", "# or another port"),
        (alone(61, platform="darwin"), "nobody listens there", "netstat -an"),
        (alone(65, platform="darwin"), "macOS keeps this program", "route -n get PEER"),
        (alone(111, is_this_host=True), "the PEER that was given is an address of this", "ss -tln"),
    ],
    ids=[
        "refused",
        "no answer",
        "timed out",
        "no route",
        "no neighbour",
        "nobody came",
        "an address of another host",
        "a port that is taken",
        "a privileged port",
        "refused, on a Mac",
        "no neighbour, on a Mac",
        "this host itself",
    ],
)
def test_the_errno_has_its_own_first_cause_and_line(
    attempt: Attempt, first: str, line: str
) -> None:
    found = advice(attempt)
    assert found.causes[0].startswith(first)
    assert found.remedy[0].startswith(line)


@pytest.mark.parametrize("errno", [111, 101, 99])
def test_what_the_network_answered_was_not_dropped(errno: int) -> None:
    assert "drops" not in " ".join(advice(alone(errno)).causes)


def test_a_firewall_that_rejects_looks_like_a_neighbour_that_is_away() -> None:
    assert "a firewall that rejects" in advice(alone(113)).causes[-1]


def test_who_listened_is_not_told_that_nobody_listens() -> None:
    assert "nobody listens" not in " ".join(advice(alone(None, "listen")).causes)
