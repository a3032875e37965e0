"""What ends an attempt from outside ends every wait, and says which it was."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from rdmadiag.verbs.bounds import HARD_SECONDS, Bounds, Interrupted, Late

MUCH_LATER = 120.0  # seconds: what a wait that does not end when it should would take
SLACK = 20.0  # seconds, of a busy machine

Way = Literal["read", "write"]


Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def pipe() -> Iterator[Ends]:
    """What the child watches, and what the parent holds: to close that is the parent's end."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.fixture
def bounds(pipe: Ends) -> Iterator[Bounds]:
    """Bounds without a deadline; signals, wakeup and timer are put back."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    before = signal.set_wakeup_fd(-1)
    made = Bounds(pipe[0].fileno())
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.set_wakeup_fd(before)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for descriptor in (made._woken, made._waker):
        os.close(descriptor)


@pytest.fixture
def silent() -> Iterator[int]:
    """A descriptor that is writable, and never readable."""
    one, other = socket.socketpair()
    with one, other:
        yield one.fileno()


@contextmanager
def after(seconds: float, what: Callable[[], object]) -> Iterator[None]:
    timer = threading.Timer(seconds, what)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def in_seconds(seconds: float) -> float:
    return time.monotonic() + seconds


def test_without_a_deadline_nothing_is_late(bounds: Bounds) -> None:
    bounds.check()
    bounds.glance()
    assert bounds.left == float("inf")


def test_what_is_left_is_never_below_nothing(bounds: Bounds) -> None:
    bounds.start(in_seconds(5))
    assert 4 < bounds.left <= 5
    bounds.start(in_seconds(-5))
    assert bounds.left == 0


def test_after_the_deadline_every_look_is_late(bounds: Bounds, silent: int) -> None:
    bounds.start(in_seconds(-0.001))
    for ask in (
        bounds.check,
        bounds.glance,
        lambda: bounds.wait(silent, "read"),
        lambda: bounds.wait(silent, "write"),
    ):
        with pytest.raises(Late):
            ask()


def test_the_deadline_ends_a_wait(bounds: Bounds, silent: int) -> None:
    bounds.start(in_seconds(0.15))
    with at_most(0.15 + SLACK), pytest.raises(Late):
        bounds.wait(silent, "read")


@pytest.mark.parametrize("way", ["read", "write"])
def test_what_is_ready_is_found_at_once_even_when_there_is_no_time_to_wait(
    bounds: Bounds, way: Way
) -> None:
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        bounds.start(in_seconds(MUCH_LATER))
        with at_most(SLACK):
            assert bounds.wait(one.fileno(), way) is True
            assert bounds.wait(one.fileno(), way, in_seconds(-1)) is True


def test_what_becomes_readable_ends_the_wait(bounds: Bounds) -> None:
    one, other = socket.socketpair()
    bounds.start(in_seconds(MUCH_LATER))
    with one, other, after(0.1, lambda: other.send(b"x")), at_most(SLACK):
        assert bounds.wait(one.fileno(), "read")


def test_the_end_of_a_stream_is_something_to_read(bounds: Bounds) -> None:
    one, other = socket.socketpair()
    other.close()
    bounds.start(in_seconds(MUCH_LATER))
    with one:
        assert bounds.wait(one.fileno(), "read")


def test_a_wait_ends_at_its_own_time_without_an_error(bounds: Bounds, silent: int) -> None:
    bounds.start(in_seconds(MUCH_LATER))
    until = in_seconds(0.15)
    with at_most(0.15 + SLACK):
        assert bounds.wait(silent, "read", until) is False
    assert time.monotonic() >= until


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_is_named_by_every_look_after_it(
    bounds: Bounds, silent: int, number: signal.Signals
) -> None:
    os.kill(os.getpid(), number)
    for ask in (bounds.check, bounds.glance, lambda: bounds.wait(silent, "write")):
        with pytest.raises(Interrupted, match=f"^{number.name}$"):
            ask()


def test_a_signal_ends_a_wait(bounds: Bounds, silent: int) -> None:
    bounds.start(in_seconds(MUCH_LATER))
    kill = after(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with at_most(SLACK), kill, pytest.raises(Interrupted, match="SIGTERM"):
        bounds.wait(silent, "read")


def test_a_signal_ends_a_wait_that_has_no_end_of_its_own(bounds: Bounds, silent: int) -> None:
    kill = after(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with at_most(SLACK), kill, pytest.raises(Interrupted, match="SIGTERM"):
        bounds.wait(silent, "read")


def test_more_signals_than_a_pipe_holds_block_nothing(bounds: Bounds) -> None:
    while True:
        try:
            os.write(bounds._waker, bytes(4096))
        except BlockingIOError:
            break
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Interrupted):
        bounds.check()


def test_a_parent_that_is_gone_ends_a_wait(bounds: Bounds, pipe: Ends, silent: int) -> None:
    bounds.start(in_seconds(MUCH_LATER))
    gone = after(0.1, pipe[1].close)
    with at_most(SLACK), gone, pytest.raises(Interrupted, match="the command was killed"):
        bounds.wait(silent, "read")


def test_a_parent_that_is_gone_is_seen_by_a_glance_and_costs_a_check_nothing(
    bounds: Bounds, pipe: Ends
) -> None:
    bounds.glance()
    pipe[1].close()
    bounds.check()
    with pytest.raises(Interrupted, match="the command was killed"):
        bounds.glance()


def test_the_alarm_is_set_for_after_the_deadline(bounds: Bounds) -> None:
    for seconds, expected in ((5, 5 + HARD_SECONDS), (-5, HARD_SECONDS)):
        bounds.start(in_seconds(seconds))
        assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(expected, abs=2)


HANGING = """
import os, time
from rdmadiag.verbs import bounds
bounds.HARD_SECONDS = 0.2
bounds.Bounds(os.pipe()[0]).start(time.monotonic() + 0.1)
while True:  # a call of the library that never returns
    pass
"""


def test_a_process_that_looks_at_nothing_is_ended_by_the_alarm() -> None:
    ran = subprocess.run([sys.executable, "-c", HANGING], timeout=60, check=False)
    assert ran.returncode == -signal.SIGALRM
