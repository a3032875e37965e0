"""A hundred runs, and dozens that are killed: what the kernel counts is what it was before."""

import os
import random
import signal
import time
from contextlib import closing, suppress

import pytest

from lab.attempt import Attempt, Attempts, children, until
from lab.resources import counts, unchanged

RUNS = {"exercise": 20, "pingpong": 40}  # an exercise makes some fifty queue pairs
KILLED = 30
LEAST_IN_THE_MIDDLE = 8  # of KILLED: the others' child had not begun, or had ended
ALLOWED = ("--allow-rtr", "--device=rxe0")
SECONDS = {"exercise": 120.0, "pingpong": 60.0}  # for one run: the most that each may take
ENDS = {"exercise": "done", "pingpong": "verified"}

COMMANDS = pytest.mark.parametrize(
    ("command", "options"),
    [("exercise", ()), ("pingpong", ()), ("pingpong", ("--cm",))],
    ids=["exercise", "pingpong", "pingpong --cm"],
)


def start(attempts: Attempts, command: str, options: tuple[str, ...]) -> Attempt:
    return attempts.start(*ALLOWED, *options, command=command, deadline=SECONDS[command])


@pytest.mark.usefixtures("rxe_pair")
class TestAtLength:
    @COMMANDS
    def test_each_of_many_runs_leaves_what_there_was(
        self, command: str, options: tuple[str, ...], attempts: Attempts
    ) -> None:
        before = counts()
        for number in range(RUNS[command]):
            with closing(start(attempts, command, options)) as attempt:
                ended = attempt.end()
            came = ended.document["outcome"], ended.document["teardown"]
            assert came == (ENDS[command], "clean"), ended.document
            assert counts() == before, f"after run {number + 1}"

    @COMMANDS
    def test_each_of_30_that_are_killed_at_any_moment_leaves_what_there_was(
        self, command: str, options: tuple[str, ...], attempts: Attempts
    ) -> None:
        with closing(start(attempts, command, options)) as whole:
            assert until(lambda: bool(children()), SECONDS[command])
            began = time.monotonic()
            ended = whole.end()
            with_a_child = time.monotonic() - began
        assert ended.document["outcome"] == ENDS[command], ended.document
        moments = random.Random(f"{command} {options}")
        in_the_middle = 0
        for number in range(KILLED):
            with unchanged(), closing(start(attempts, command, options)) as one:
                if number % 4 < 2:  # while it has the device; the others at any moment
                    until(lambda: bool(children()), SECONDS[command])
                    time.sleep(moments.uniform(0.0, with_a_child / 2))  # it may take less time
                else:
                    time.sleep(moments.uniform(0.0, ended.seconds))
                with_device = children()
                # The command, whose child sees that, or the child itself.
                itself = number % 2 == 0 or not with_device
                with suppress(ProcessLookupError):
                    os.kill(one.pid if itself else with_device[0], signal.SIGKILL)
                one.end()
                in_the_middle += bool(with_device)
        assert in_the_middle >= LEAST_IN_THE_MIDDLE
