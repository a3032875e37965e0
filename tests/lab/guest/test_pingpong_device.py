"""An exchange that runs when its device changes, or when a signal ends it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, children, until
from lab.resources import queue_pair_states, unchanged
from lab.rxe import Rxe

ALLOWED = ("--allow-rtr", "--device=rxe0")
LONG = ("--bytes=1048576", "--iterations=10000")  # minutes here
COMMAND_SECONDS = 30.0
SETTLE_SECONDS = 3.0

# rxe of 6.1 fails the send itself; that of 7.2 only flushes it with the queue.
NO_ROUTE = "LOC_QP_OP_ERR" if os.uname().release.startswith("6.1.") else "WR_FLUSH_ERR"

Pair = tuple[Rxe, Rxe]
Run = Callable[..., Any]


def running(attempts: Attempts, *options: str, deadline: float = 40.0) -> Attempt:
    """A run in the middle of its exchange."""
    attempt = attempts.start(*ALLOWED, *options, deadline=deadline)
    assert until(lambda: "RTS" in queue_pair_states("rxe0"), deadline)
    time.sleep(1.0)  # through the verified message
    return attempt


def do(run: Run, command: str) -> None:
    done = run(command.split(), timeout=COMMAND_SECONDS)
    assert done.returncode == 0, done.stderr


# What the live kernel answers: a queue pair whose packets have no route goes to ERR.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["rc", "uc"])
@pytest.mark.parametrize(
    ("change", "event"),
    [
        ("ip link set veth0 down", "IBV_EVENT_PORT_ERR"),
        ("ip address del 192.0.2.1/24 dev veth0", "IBV_EVENT_GID_CHANGE"),
    ],
    ids=["down", "address"],
)
def test_without_a_route_a_send_completes_with_an_error(
    change: str, event: str, kind: str, rxe_pair: Pair, attempts: Attempts, run: Run
) -> None:
    with unchanged():
        attempt = running(attempts, f"--qp={kind}", *LONG)
        do(run, change)
        changed = attempt.seconds
        ended = attempt.end()
    assert ended.result() == (2, "completion_error", "data")
    assert ended.document["completion"]["name"] == NO_ROUTE
    assert ended.document["rounds"] > 0
    assert event in {each["name"] for each in ended.document["events"]}
    assert ended.document["teardown"] == "clean"
    assert ended.seconds - changed < 2.0


def test_a_netdev_that_is_deleted_takes_its_device_with_it(
    rxe_pair: Pair, attempts: Attempts, run: Run
) -> None:
    attempt = running(attempts, *LONG)
    do(run, "ip link del veth0")
    ended = attempt.end()
    assert ended.result() == (2, "completion_error", "data")
    assert ended.document["teardown"] == "clean"
    assert until(lambda: "rxe0" not in os.listdir("/sys/class/infiniband"), SETTLE_SECONDS)
    assert not children()


def test_a_device_that_is_deleted_stays_until_its_run_ends(
    rxe_pair: Pair, attempts: Attempts
) -> None:
    # 6.1's rxe cannot take a device from a process: the command waits, the exchange goes on.
    attempt = running(attempts, *LONG, deadline=20.0)
    with subprocess.Popen(["rdma", "link", "del", "rxe0"]) as deleting:
        ended = attempt.end()
        assert ended.result() == (2, "late", "data")
        assert ended.document["teardown"] == "clean"
        assert deleting.wait(COMMAND_SECONDS) == 0
    assert os.listdir("/sys/class/infiniband") == ["rxe1"]


@pytest.mark.long
def test_a_cable_that_is_cut_is_nothing_to_two_ends_on_one_host(
    rxe_pair: Pair, attempts: Attempts, run: Run
) -> None:
    with unchanged():
        attempt = running(attempts, "--bytes=1048576", "--iterations=200", deadline=40.0)
        do(run, "ip link set veth1 down")
        ended = attempt.end()
    assert ended.result() == (0, "verified", "done")
    lost = [each for each in ended.document["events"] if each["name"] == "IBV_EVENT_PORT_ERR"]
    assert {(each["end"], each["port"]) for each in lost} == {("local", 1), ("remote", 1)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(
    number: signal.Signals, rxe_pair: Pair, attempts: Attempts
) -> None:
    with unchanged():
        attempt = running(attempts, *LONG)
        signalled = attempt.seconds
        attempt.kill(number)
        ended = attempt.end()
        assert ended.seconds - signalled < 2.0
        assert ended.result() == (2, "interrupted", "data")
        assert ended.document["teardown"] == "clean"
