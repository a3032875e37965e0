"""A path between two kernels that drops, shortens or delays: what both ends say of it."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, Ended
from lab.resources import in_the_middle
from lab.rxe import Rxe, wait_ready
from lab.two import ALLOWED, ROCE

pytestmark = pytest.mark.usefixtures("nothing_left")

WAITED_SECONDS = 20.0
LARGE = f"{ROCE} match u16 0x0400 0xfc00 at 2"
"""Of 1024 to 2047 bytes: the length of the IP packet stands at offset 2."""
KEPT = os.uname().release.startswith("6.1.")
"""Whether rxe sends on from a device that is being deleted until the last program has closed it."""

Barrier = Callable[..., None]
Exchange = Callable[..., Any]
Start = Callable[..., Attempt]
Do = Callable[[str], None]
Netem = Callable[..., AbstractContextManager[None]]


def document(ended: Ended) -> dict[str, Any]:
    """Of an attempt that failed at the data, and put everything back."""
    found: dict[str, Any] = ended.document
    assert (ended.code, found["stage"], found["teardown"]) == (2, "data", "clean"), found
    return found


# The right end connects, and sends first: what it sends is lost, or what comes back.
DIRECTIONS = {
    "right": {"right": "from this host to the peer, perhaps", "left": "from the peer to this"},
    "left": {"right": "from the peer to this", "left": "from this host to the peer"},
    "both": {"right": "from this host to the peer, perhaps", "left": "from the peer to this"},
}


@pytest.mark.sampled(3)
@pytest.mark.needs("u32")
@pytest.mark.parametrize("kind", ["rc", "uc"])
@pytest.mark.parametrize("losing", DIRECTIONS)
def test_both_ends_name_the_port_of_roce_and_the_direction_where_tcp_passes(
    losing: str, kind: str, role: str, start: Start, netem: Netem, exchange: Exchange
) -> None:
    with netem("loss 100%") if losing in (role, "both") else nullcontext():
        ours = document(start(f"--qp={kind}").end(waits=WAITED_SECONDS))
        theirs = exchange("ended", ours)
    first = ours["causes"][0]
    assert "UDP port 4791" in first
    assert DIRECTIONS[losing][role] in first
    assert not [cause for cause in ours["causes"] if "is at the peer" in cause]
    assert "4791" in " ".join(ours["next"])
    outcomes = {ours["outcome"], theirs["outcome"]}
    assert outcomes <= {"completion_error", "no_data", "peer_failed"}
    if kind == "rc":
        ends = [each["completion"] for each in (ours, theirs) if each["completion"]]
        assert {each["status"] for each in ends} == {12}, "RETRY_EXC_ERR at the end that sent"
    for here, there in ((ours, theirs), (theirs, ours)):
        assert here["arrived"]["at_peer"] == there["arrived"]["here"]


@pytest.mark.sampled(2)
@pytest.mark.needs("u32")
@pytest.mark.parametrize("losing", ["left", "right"])
def test_a_path_that_drops_large_frames_names_the_mtu_first(
    losing: str, role: str, start: Start, netem: Netem, barrier: Barrier
) -> None:
    with netem("loss 100%", LARGE) if role == losing else nullcontext():
        found = document(start("--bytes=4096").end(waits=WAITED_SECONDS))
        barrier("ended")
    assert found["causes"][0].startswith("frames of the path MTU do not get through: a small")
    assert found["next"][0].startswith("ping -M do -s 1052 ")
    assert found["arrived"]["only_small"]


@pytest.mark.needs("u32")
def test_small_messages_pass_where_large_frames_are_dropped(
    role: str, start: Start, netem: Netem, barrier: Barrier
) -> None:
    with netem("loss 100%", LARGE) if role == "left" else nullcontext():
        ended = start("--bytes=512", "--iterations=5").end(waits=WAITED_SECONDS)
        barrier("ended")
    assert ended.result() == (0, "verified", "done")


@pytest.mark.sampled(2)
@pytest.mark.needs("u32")
@pytest.mark.parametrize("kind", ["rc", "uc"])
def test_a_slow_path_is_no_loss(kind: str, start: Start, netem: Netem, barrier: Barrier) -> None:
    with netem("delay 300ms"):
        ended = start(f"--qp={kind}", "--iterations=10").end(waits=WAITED_SECONDS)
        barrier("ended")
    assert ended.result() == (0, "verified", "done")


@pytest.mark.long
@pytest.mark.needs("u32")
def test_a_slow_path_that_takes_longer_than_the_deadline_is_slow_at_both_ends(
    start: Start, netem: Netem, exchange: Exchange
) -> None:
    with netem("delay 300ms"):
        ours = document(start("--iterations=1000", deadline=15.0).end(waits=WAITED_SECONDS))
        theirs = exchange("ended", ours)
    assert "late" in {ours["outcome"], theirs["outcome"]}
    assert "slow" in " ".join(ours["causes"])
    assert not [cause for cause in ours["causes"] if "drop" in cause or "lost" in cause]


def test_a_listener_that_comes_late_is_waited_for(
    role: str, rxe: Rxe, peer: Rxe, attempts: Attempts, exchange: Exchange
) -> None:
    port = 20999
    if role == "right":
        attempt = attempts.start(*ALLOWED, f"{peer.ipv4}:{port}", deadline=30.0)
        child = attempt.child()
        assert child
        time.sleep(2.0)  # refused several times
        exchange("knocked", None)
    else:
        exchange("knocked", None)
        attempt = attempts.start(*ALLOWED, f"--listen={rxe.ipv4}:{port}", deadline=30.0)
    ended = attempt.end(waits=WAITED_SECONDS)
    assert ended.result() == (0, "verified", "done")
    if role == "right":
        assert f"nobody listens yet at {peer.ipv4}:{port}: waiting" in ended.stderr


@pytest.mark.other_kernels(3)
@pytest.mark.stock
@pytest.mark.parametrize(
    ("address", "errno", "first", "never"),
    [
        ("203.0.113.9", "ENETUNREACH", "no route", "firewall drops"),
        ("192.0.2.77", "EHOSTUNREACH", "does not answer on the link", "firewall drops"),
        ("own", "ECONNREFUSED", "an address of this host itself", "firewall"),
    ],
)
def test_who_cannot_be_reached_is_told_by_the_errno(
    address: str, errno: str, first: str, never: str, rxe: Rxe, attempts: Attempts
) -> None:
    where = rxe.ipv4 if address == "own" else address
    ended = attempts.start(*ALLOWED, where, deadline=30.0).end()
    assert ended.result() == (3, "no_peer", "connect")
    assert ended.document["errno"]["name"] == errno
    assert first in ended.document["causes"][0]
    assert never not in " ".join(ended.document["causes"])
    assert ended.document["peer_is_this_host"] == (address == "own")


@pytest.mark.needs("u32")
def test_tcp_that_is_dropped_is_no_answer_within_the_deadline(
    role: str, peer: Rxe, attempts: Attempts, netem: Netem, barrier: Barrier
) -> None:
    if role == "right":
        with netem("loss 100%", "match ip protocol 6 0xff match ip dport 20998 0xffff"):
            ended = attempts.start(*ALLOWED, f"{peer.ipv4}:20998", deadline=12.0).end()
        assert ended.result() == (3, "no_peer", "connect")
        assert ended.document["summary"].endswith("no answer")
        assert "a firewall drops" in ended.document["causes"][0]
    barrier("ended")


def test_an_address_that_is_not_of_this_host_cannot_be_listened_at(
    peer: Rxe, attempts: Attempts
) -> None:
    ended = attempts.start(*ALLOWED, f"--listen={peer.ipv4}").end()
    assert ended.document["errno"]["name"] == "EADDRNOTAVAIL"
    assert "firewall" not in " ".join(ended.document["causes"])


LONG = ("--bytes=65536", "--iterations=10000")


def test_a_link_that_went_down_in_the_middle_is_named(
    role: str, rxe: Rxe, start: Start, do: Do, barrier: Barrier
) -> None:
    attempt = start("--qp=uc", *LONG)
    in_the_middle(attempt, "rxe0")
    barrier("running")
    if role == "right":
        do(f"ip link set {rxe.netdev} down")
        try:
            found = document(attempt.end(waits=WAITED_SECONDS))
        finally:
            do(f"ip link set {rxe.netdev} up")
            do(f"ip address add {rxe.ipv6}/64 dev {rxe.netdev} nodad")  # which went with it
            wait_ready(rxe)
        assert found["port_after"] == "down"
        assert found["causes"][0] == "this host's port is no longer ACTIVE"
        assert found["next"][0] == "rdma link show"
    else:
        found = document(attempt.end(waits=WAITED_SECONDS))
        assert found["port_after"] == "active"
        assert "this host" not in found["causes"][0]
    barrier("ended")


@pytest.mark.stock
@pytest.mark.long
def test_a_device_that_was_deleted_in_the_middle_is_named(
    role: str, rxe: Rxe, start: Start, do: Do, barrier: Barrier
) -> None:
    attempt = start("--qp=uc", *LONG)
    in_the_middle(attempt, "rxe0")
    barrier("running")
    if role == "right":
        try:
            do("rdma link delete rxe0")
            ended = attempt.end(waits=WAITED_SECONDS)
        finally:
            if "rxe0" not in os.listdir("/sys/class/infiniband"):
                do(f"rdma link add rxe0 type rxe netdev {rxe.netdev}")
            wait_ready(rxe)
        found = ended.document
        if KEPT and ended.code == 0:
            assert found["outcome"] == "verified", found
        else:
            assert ended.code == 2, found
            # It goes once the run has ended, which may take longer than the second look.
            assert found["port_after"] == "down" or found["port_after"]["why"] == "absent", found
            assert found["causes"][0].startswith("this host's ")
    else:
        attempt.end(waits=WAITED_SECONDS)
    barrier("ended")
