"""One bounded attempt between two kernels: data verified, and a path that fails in the middle."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ipaddress import ip_interface
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, Ended, until
from lab.between import Between
from lab.resources import in_the_middle
from lab.rxe import Rxe, wait_ready
from lab.two import ALLOWED
from rdmadiag.facts.ib import QpType
from rdmadiag.verbs.exchange import STALL_SECONDS

pytestmark = pytest.mark.usefixtures("nothing_left")

LONG = ("--bytes=65536", "--iterations=10000")  # minutes here
WAITED_SECONDS = 20.0  # more than any listener waits for the other end
COMMAND_SECONDS = 30.0

Barrier = Callable[..., None]
Exchange = Callable[..., Any]
Start = Callable[..., Attempt]
Do = Callable[[str], None]
Netem = Callable[..., AbstractContextManager[None]]
Outcomes = Callable[[Ended], set[str]]


def clean(ended: Ended) -> tuple[int, str, str]:
    """Its result, having destroyed what it made."""
    assert ended.document["teardown"] == "clean"
    return ended.result()


@pytest.mark.smoke
@pytest.mark.other_kernels(6)
@pytest.mark.stock
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        *(("rc", payload) for payload in (1, 64, 4097, 1 << 20)),
        *(("uc", payload) for payload in (1, 64, 4097)),
        pytest.param("uc", 1 << 20, marks=pytest.mark.needs("cable without loss")),
    ],
)
def test_data_is_verified_both_ways_and_both_ends_tell_the_same(
    kind: str, payload: int, start: Start, exchange: Exchange
) -> None:
    attempt = start(f"--qp={kind}", f"--bytes={payload}", "--iterations=10")
    ended = attempt.end(waits=WAITED_SECONDS)
    assert ended.result() == (0, "verified", "done")
    ours = ended.document
    assert (ours["data_verified"], ours["teardown"]) == (True, "clean")
    theirs = exchange("document", ours)
    for name in ("queue_pair", "psn", "gid", "mtu", "qp_type"):
        assert ours["local"][name] == theirs["remote"][name], name
        assert ours["remote"][name] == theirs["local"][name], name
    assert [ours["latency_us"], theirs["latency_us"]].count(None) == 1


@pytest.mark.stock
def test_an_ipv6_gid_serves_as_well(start: Start) -> None:
    ended = start("--gid-index=2").end(waits=WAITED_SECONDS)
    assert ended.result() == (0, "verified", "done")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("answers", [True, False])
def test_an_address_of_another_subnet(
    answers: bool,
    role: str,
    rxe: Rxe,
    start: Start,
    do: Do,
    barrier: Barrier,
) -> None:
    address = "198.51.100.1" if answers else "203.0.113.1"
    with (
        other_address(f"{address}/24", rxe, do, answers=answers)
        if role == "left"
        else nullcontext()
    ):
        ended = start(f"--gid-index={3 if role == 'left' else 1}").end(waits=WAITED_SECONDS)
        # Without a route Linux takes what an interface is bound to for on its link.
        if answers:
            assert clean(ended) == (0, "verified", "done")
        elif role == "right":
            assert clean(ended) == (2, "call_failed", "rtr")
            assert ended.document["errno"]["name"] == "ETIMEDOUT"
        else:
            assert clean(ended) == (2, "peer_failed", "data")
        remote = ended.document["remote" if role == "right" else "local"]
        assert remote["gid"] == f"::ffff:{address}"
        barrier("ended")


@contextmanager
def other_address(address: str, rxe: Rxe, do: Do, *, answers: bool) -> Iterator[None]:
    """Of this host for a while; without `answers`, as if a router stood in between."""
    arp_ignore = f"/proc/sys/net/ipv4/conf/{rxe.netdev}/arp_ignore"
    with open(arp_ignore, "w", encoding="ascii") as setting:
        setting.write("0" if answers else "2")  # 2: of the asker's subnet alone
    do(f"ip address add {address} dev {rxe.netdev}")
    try:
        assert until(lambda: gid(3).endswith(":ffff:" + mapped(address)), COMMAND_SECONDS)
        yield
    finally:
        do(f"ip address del {address} dev {rxe.netdev}")
        with open(arp_ignore, "w", encoding="ascii") as setting:
            setting.write("0")


def gid(index: int) -> str:
    with open(f"/sys/class/infiniband/rxe0/ports/1/gids/{index}", encoding="ascii") as file:
        return file.read().strip()


def mapped(address: str) -> str:
    """The end of the GID that stands for an IPv4 address."""
    digits = ip_interface(address).ip.packed.hex()
    return f"{digits[:4]}:{digits[4:]}"


@pytest.fixture
def outcomes(exchange: Exchange) -> Callable[[Ended], set[str]]:
    """Of both ends, this one's given: each has attempted, failed at the data and cleaned up."""

    def call(ended: Ended) -> set[str]:
        code, outcome, stage = clean(ended)
        assert (code, stage) == (2, "data")
        return {outcome, exchange("outcome", outcome)}

    return call


def assert_lost(kind: str, found: set[str]) -> None:
    """The end that knows first tells the other, which may have found out itself by then.

    UC has no error for what is lost on the way; rxe of 7.2 may complete a send with one
    (WR_FLUSH_ERR) that this host's own queue dropped.
    """
    if "completion_error" in found:
        assert found <= {"completion_error", "peer_failed"}
    else:
        assert "no_data" in found, kind
        assert found <= {"no_data", "peer_failed"}


@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.needs("u32")
@pytest.mark.parametrize("kind", ["rc", "uc"])
def test_roce_that_is_lost_in_the_middle(
    kind: str, role: str, start: Start, netem: Netem, outcomes: Outcomes, barrier: Barrier
) -> None:
    attempt = start(f"--qp={kind}", *LONG)
    in_the_middle(attempt, "rxe0")
    barrier("running")
    with netem("loss 100%") if role == "left" else nullcontext():
        ended = attempt.end(waits=WAITED_SECONDS)
        assert_lost(kind, outcomes(ended))
    assert ended.document["rounds"] > 0


@pytest.mark.needs("u32")
def test_what_is_lost_of_roce_now_and_then_is_sent_again_by_rc(
    start: Start, netem: Netem, barrier: Barrier
) -> None:
    with netem("loss 5%"):
        ended = start("--qp=rc", "--iterations=50").end(waits=WAITED_SECONDS)
        assert clean(ended) == (0, "verified", "done")
        barrier("ended")


@pytest.mark.long
@pytest.mark.needs("u32")
def test_a_fifth_of_roce_that_is_lost_ends_uc(
    start: Start, netem: Netem, outcomes: Outcomes
) -> None:
    with netem("loss 20%"):
        ended = start("--qp=uc", "--iterations=50").end(waits=WAITED_SECONDS)
        assert_lost("uc", outcomes(ended))


@contextmanager
def down(rxe: Rxe, do: Do, seconds: float) -> Iterator[None]:
    """The link of this host, for so long at least."""
    do(f"ip link set {rxe.netdev} down")
    up = time.monotonic() + seconds
    try:
        yield
    finally:
        time.sleep(max(0.0, up - time.monotonic()))
        do(f"ip link set {rxe.netdev} up")
        do(f"ip address add {rxe.ipv6}/64 dev {rxe.netdev} nodad")  # which went with it
        wait_ready(rxe)


@pytest.mark.long
def test_a_link_that_goes_down_before_rtr(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    attempts: Attempts,
    do: Do,
    barrier: Barrier,
    exchange: Exchange,
) -> None:
    if role == "left":
        listener, port = attempts.listen("127.0.0.1", *ALLOWED, deadline=14.0)
        with Between(port, address=rxe.ipv4, hold="queue_pair") as between:
            exchange("port", between.port)
            assert between.held.wait(COMMAND_SECONDS)
            barrier("held")
            time.sleep(1.0)  # until it is down
            do(f"ip neigh flush dev {rxe.netdev}")
            between.release()
            ended = listener.end(waits=WAITED_SECONDS)
        assert clean(ended) == (2, "call_failed", "rtr")
        assert ended.document["errno"]["name"] == "ETIMEDOUT"
    else:
        port = exchange("port", None)
        connector = attempts.start(*ALLOWED, f"{peer.ipv4}:{port}", deadline=14.0)
        barrier("held")
        with down(rxe, do, 4.0):
            ended = connector.end()
        assert clean(ended) == (2, "peer_lost", "init")
    barrier("ended")


def test_a_link_that_goes_down_in_the_middle(
    role: str, rxe: Rxe, start: Start, do: Do, barrier: Barrier
) -> None:
    attempt = start(*LONG)
    in_the_middle(attempt, "rxe0")
    barrier("running")
    if role == "right":
        # No word of it reaches the other end, which waits for data.
        with down(rxe, do, STALL_SECONDS[QpType.RC] + 4.0):
            ended = attempt.end()
        # What it sends has no route (LOC_QP_OP_ERR); it may have had nothing to send.
        assert clean(ended) in ((2, "completion_error", "data"), (2, "no_data", "data"))
    else:
        code, outcome, stage = clean(attempt.end(waits=WAITED_SECONDS))
        assert (code, stage) == (2, "data")
        assert outcome in ("no_data", "completion_error")
    barrier("ended")


@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.parametrize("victim", ["left", "right"])
def test_an_end_that_is_killed_in_the_middle(
    victim: str, role: str, start: Start, barrier: Barrier
) -> None:
    attempt = start(*LONG)
    in_the_middle(attempt, "rxe0")
    barrier("running")
    if role == victim:
        os.kill(attempt.child(), signal.SIGKILL)
        assert attempt.end().result() == (2, "died", "data")
    else:
        assert clean(attempt.end(waits=WAITED_SECONDS)) == (2, "peer_lost", "data")


@pytest.mark.long
def test_an_end_that_stops_in_the_middle(role: str, start: Start, barrier: Barrier) -> None:
    attempt = start(*LONG, deadline=25.0)
    in_the_middle(attempt, "rxe0")
    barrier("running")
    if role == "right":
        os.kill(attempt.child(), signal.SIGSTOP)
        ended = attempt.end()
        # As one that hangs in the kernel: its parent ends it.
        assert ended.result() == (124, "watchdog", "data")
        assert ended.document["teardown"] == "abandoned"
    else:
        code, outcome, stage = clean(attempt.end(waits=WAITED_SECONDS))
        assert (code, stage) == (2, "data")
        assert outcome in ("no_data", "completion_error")
    barrier("ended")
