"""Two ends of ours with a man in the middle: each step held, each way that an end can go."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pytest

from lab.attempt import Attempt, Attempts, children, free_port, until
from lab.between import ANSWERED, Between, Change, Message, Role

ALLOWED = ("--allow-rtr", "--device=rxe0")
HELD_SECONDS = 90.0  # soft RoCE of 6.1, with other kernels beside it, takes its time
WAIT_SECONDS = 12.0  # of the end that listens
WAITED_SECONDS = WAIT_SECONDS + 1.0
END_SECONDS = 5.0  # busy machines too: a command that a signal ends, a child without its own
STEPS = ("hello", "endpoint", "agree", "queue_pair", "ready", "verified", "timed", "done")
REACHED = {
    "hello": "connect",
    "endpoint": "agree",
    "agree": "agree",
    "queue_pair": "init",
    "ready": "data",
    "verified": "data",
    "timed": "data",
    "done": "data",
}


NO_DATA = {"no_data", "peer_failed"}  # the one that gives up first tells the other


def code_at(step: str) -> int:
    """Of an end that fails there: the device is opened once both ends agree."""
    return 3 if REACHED[step] in ("connect", "agree") else 2


@dataclass(frozen=True)
class Both:
    between: Between
    ends: dict[Role, Attempt]


Start = Callable[..., Both]


def stage_at(step: str, role: Role) -> str:
    """The end that listens has no peer until that one's endpoint has come."""
    return "connect" if role == "listen" and step in ANSWERED else REACHED[step]


def left_alone(step: str, role: Role, outcome: str) -> tuple[int, str, str]:
    """What an end tells whose other end goes there: the one that listens goes on listening."""
    if role == "listen" and step in ANSWERED:
        return 3, "no_peer", "connect"
    return code_at(step), outcome, REACHED[step]


@pytest.fixture
def start(attempts: Attempts, tmp_path: Path) -> Iterator[Start]:
    """`start(*options, hold=…, change=…, deadline=…, proven=True)`: both ends of one secret."""
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(token_hex(16))
    with ExitStack() as stack:

        def call(
            *options: str,
            hold: str | None = None,
            change: Change | None = None,
            deadline: float = 40.0,
            proven: bool = True,
        ) -> Both:
            port = free_port()
            between = stack.enter_context(Between(port, hold=hold, change=change))
            how = (*ALLOWED, *([f"--secret-file={secret}"] if proven else []), *options)
            listener = attempts.start(
                *how, f"--wait={WAIT_SECONDS:g}", f"--listen=127.0.0.1:{port}", deadline=deadline
            )
            connector = attempts.start(*how, f"127.0.0.1:{between.port}", deadline=deadline)
            if hold:
                assert between.held.wait(HELD_SECONDS)
            return Both(between, {"connect": connector, "listen": listener})

        yield call


def victim_at(step: str) -> tuple[Role, Role]:
    """Who goes, and who is left: in turn."""
    return ("connect", "listen") if STEPS.index(step) % 2 else ("listen", "connect")


@pytest.mark.usefixtures("nothing_left")
class TestHeld:
    """Both ends wait for the other's message of one step when something happens."""

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("step", STEPS)
    def test_an_end_whose_child_is_killed_is_lost_to_the_other(
        self, step: str, start: Start
    ) -> None:
        victim, left = victim_at(step)
        both = start(hold=step)
        os.kill(both.ends[victim].child(), signal.SIGKILL)
        ended = both.ends[victim].end()
        assert ended.result() == (2, "died", stage_at(step, victim))
        assert ended.document["summary"] == "signal 9 ended the process between two calls"
        other = both.ends[left].end(waits=WAITED_SECONDS)
        assert other.result() == left_alone(step, left, "peer_lost")

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("step", STEPS)
    def test_a_child_does_not_outlive_its_command(self, step: str, start: Start) -> None:
        left, victim = victim_at(step)
        both = start(hold=step, proven=False)  # with a secret, no message goes before another
        child = both.ends[victim].child()
        both.ends[victim].kill()
        assert both.ends[victim].end().code == -signal.SIGKILL
        assert until(lambda: child not in children(), END_SECONDS)
        other = both.ends[left].end(waits=WAITED_SECONDS)
        # The child still says so.
        assert other.result() == left_alone(step, left, "peer_failed")
        if step not in ANSWERED:
            assert "the command was killed" in other.document["summary"]

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize(
        ("step", "number"),
        [
            ("hello", signal.SIGTERM),
            ("endpoint", signal.SIGTERM),
            ("agree", signal.SIGINT),
            ("queue_pair", signal.SIGTERM),
            ("timed", signal.SIGINT),
        ],
    )
    def test_a_signal_ends_it_at_once_and_cleanly(
        self, step: str, number: signal.Signals, start: Start
    ) -> None:
        victim, left = victim_at(step)
        both = start(hold=step, proven=False)
        ended_at = both.ends[victim].seconds
        both.ends[victim].kill(number)
        ended = both.ends[victim].end()
        assert ended.seconds - ended_at < END_SECONDS
        assert ended.result() == (code_at(step), "interrupted", stage_at(step, victim))
        assert ended.document["teardown"] == ("clean" if code_at(step) == 2 else "nothing_made")
        other = both.ends[left].end(waits=WAITED_SECONDS)
        assert other.result() == left_alone(step, left, "peer_failed")
        if step not in ANSWERED:
            failure = other.document["peer_failure"]
            assert (failure["stage"], failure["text"]) == (REACHED[step], number.name)

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("step", STEPS)
    def test_a_connection_that_is_cut_ends_both(self, step: str, start: Start) -> None:
        both = start(hold=step)
        both.between.cut()
        for role, attempt in both.ends.items():
            ended = attempt.end(waits=WAITED_SECONDS)
            assert ended.result() == left_alone(step, role, "peer_lost")

    @pytest.mark.long
    def test_a_connection_without_a_word_ends_both_at_the_deadline(self, start: Start) -> None:
        pairs = {step: start(hold=step, deadline=15.0) for step in ("agree", "timed")}
        for step, both in pairs.items():
            summaries = []
            for attempt in both.ends.values():
                ended = attempt.end(waits=WAITED_SECONDS)
                assert ended.result() == (code_at(step), "peer_lost", REACHED[step])
                summaries.append(ended.document["summary"])
            # The other one may see that it has gone.
            assert f"the peer fell silent before its '{step}'" in summaries


def changing(step: str, role: Role, change: Callable[[Message], None]) -> Change:
    """Changes what that end says at that step."""

    def passed(sender: Role, message: Message) -> Message:
        if (sender, message.get("step")) == (role, step):
            change(message)
        return message

    return passed


def other_number(message: Message) -> None:
    message["number"] ^= 0x400000


def other_gid(message: Message) -> None:
    message["endpoint"]["gid"] = "::ffff:192.0.2.77"


@pytest.mark.usefixtures("nothing_left")
class TestChanged:
    """What an end is told of the other is not so."""

    def test_a_queue_pair_that_is_not_there_completes_nothing_of_rc(self, start: Start) -> None:
        both = start("--qp=rc", proven=False, change=changing("queue_pair", "listen", other_number))
        one, two = (attempt.end(waits=WAITED_SECONDS) for attempt in both.ends.values())
        assert one.result()[0] == two.result()[0] == 2
        found = {one.document["outcome"], two.document["outcome"]}
        assert found in ({"completion_error", "peer_failed"}, {"completion_error"})
        for ended in (one, two):
            assert ended.document["stage"] == "data"
            assert ended.document["teardown"] == "clean"
            assert (ended.document["completion"] or {"status": 12})["status"] == 12

    def test_a_queue_pair_that_is_not_there_gets_nothing_of_uc(self, start: Start) -> None:
        both = start("--qp=uc", proven=False, change=changing("queue_pair", "listen", other_number))
        one, two = (attempt.end(waits=WAITED_SECONDS) for attempt in both.ends.values())
        assert {one.document["outcome"], two.document["outcome"]} in ({"no_data"}, NO_DATA)
        for ended in (one, two):
            assert (ended.code, ended.document["stage"]) == (2, "data")
            assert ended.document["teardown"] == "clean"

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("step", ["endpoint", "queue_pair", "ready"])
    def test_where_both_know_a_secret_it_is_noticed(self, step: str, start: Start) -> None:
        both = start(change=changing(step, "connect", lambda message: message.update(odd=1)))
        ended = both.ends["listen"].end(waits=WAITED_SECONDS)
        assert ended.result()[1] == "peer_refused"
        assert "somebody changed its message on the way" in ended.document["summary"]
        both.between.cut()
        both.ends["connect"].end()

    @pytest.mark.parametrize("liar", ["listen", "connect"])
    def test_an_address_that_nobody_has_fails_at_rtr(self, liar: Role, start: Start) -> None:
        both = start(proven=False, change=changing("endpoint", liar, other_gid))
        ended = {role: each.end(waits=WAITED_SECONDS) for role, each in both.ends.items()}
        truthful = ended.pop("connect" if liar == "listen" else "listen")
        # ib_core asks the neighbour for its MAC address, and 6.1 waits a second for it.
        assert truthful.result() == (2, "call_failed", "rtr")
        assert truthful.document["errno"]["name"] == "ETIMEDOUT"
        assert truthful.document["teardown"] == "clean"
        assert ended[liar].result() == (2, "peer_failed", "data")
        assert ended[liar].document["peer_failure"]["stage"] == "rtr"
