"""The parent of an attempt: what it reads, what it passes on, and when it kills."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome, Stage, Teardown
from rdmadiag.verbs import watchdog
from rdmadiag.verbs.records import (
    Connected,
    Listening,
    Record,
    Request,
    Rounds,
    Step,
    Verified,
    encode,
    parse,
)
from rdmadiag.verbs.watchdog import Watched, watch
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT, concluded, request

CHECKOUT = Path(__file__).parents[2]
SIGNALS = pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name
)
SLACK = 20.0  # seconds, of a busy machine; what must not be waited for takes a minute and more
ROUNDS = [Rounds(rounds=number) for number in range(4)]
LINES = [encode(each).decode().strip() for each in ROUNDS]


def listening(wait: float = 120.0) -> Request:
    until = time.monotonic() + wait
    return request(ends=[LINUX_END], meet="listen", host="127.0.0.1", until=until)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program of ours in the place of the child."""

    def instead(code: str) -> None:
        monkeypatch.setattr(watchdog, "program", lambda _: [sys.executable, "-S", "-c", code])

    return instead


@pytest.fixture
def library(fake_verbs: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A library that is healthy but for these rules."""

    def scripted(rules: str) -> Path:
        fake = fake_verbs(LINUX_SCRIPT + rules)
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        return fake.library

    return scripted


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def watched(*arguments: Any, **how: Any) -> Watched:
    found = watch(*arguments, **how)
    assert isinstance(found, Watched)
    return found


def of(found: Watched, asked: Request) -> Any:
    """What came of it."""
    name = None if found.signal is None else signal.Signals(found.signal).name
    return concluded(found, asked, signal=name)


# --- what it reads -----------------------------------------------------------------------


def test_records_are_seen_as_they_come_and_all_are_kept(says: Callable[[str], None]) -> None:
    says(f"print({LINES[1]!r}); print({LINES[2]!r}); print({LINES[3]!r}, end='')")
    seen: list[Record] = []
    found = watched(request(), 1.0, seen.append)
    assert seen == list(found.records) == ROUNDS[1:]
    assert (found.returncode, found.unkillable, found.signal) == (0, False, None)
    assert 0 < found.seconds < SLACK


def test_the_child_gets_its_request_and_a_stdin_that_stays_open(
    says: Callable[[str], None],
) -> None:
    says(
        "import select, sys\n"
        "print(sys.stdin.readline())\n"
        f"print('' if select.select([0], [], [], 0.1)[0] else {LINES[1]!r})"
    )
    asked = request()
    assert watched(asked, 1.0).records == (asked, ROUNDS[1])


def test_what_is_no_record_is_dropped(says: Callable[[str], None]) -> None:
    noise = [b"libmlx5: warning", b"[1]", b"7", b'"x"', b"null", b"\xff\xfe", b"{", b"[" * 99_999]
    lines = b"\n".join([*noise, LINES[1].encode(), b'{"cut": '])
    says(f"import os; os.write(1, {lines[:50_000]!r}); os.write(1, {lines[50_000:]!r})")
    found = watched(request(), 1.0)
    assert (found.records, found.returncode) == ((ROUNDS[1],), 0)


@given(
    st.lists(
        st.binary(max_size=30) | st.just(f"{LINES[1]}\n".encode()) | st.just(b"\n"), max_size=9
    )
)
def test_any_bytes_are_records_or_nothing_however_they_are_cut(chunks: list[bytes]) -> None:
    seen: list[Record] = []
    pieces, whole = watchdog._Lines(seen.append), watchdog._Lines(lambda record: None)
    for chunk in chunks:
        pieces.take(chunk)
    whole.take(b"".join(chunks))
    for lines in (pieces, whole):
        lines.rest()
    assert pieces.records == whole.records == seen
    assert all(isinstance(each, Record) for each in seen)


def test_a_child_that_writes_without_end_is_read_and_forgotten(
    says: Callable[[str], None],
) -> None:
    says(
        "import os\n"
        f"os.write(1, {LINES[1]!r}.encode() + b'\\n')\n"
        "for _ in range(64): os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)\n"
        f"os.write(1, b'\\n' + {LINES[2]!r}.encode() + b'\\n')"
    )
    found = watched(request(), 1.0)
    assert found.returncode == 0
    assert found.records == (ROUNDS[1],)
    assert found.stderr == "y" * 4096


def test_what_the_library_says_on_stderr_is_text_whatever_it_is(
    says: Callable[[str], None],
) -> None:
    says(r"import os; os.write(2, b'libibverbs: \xff\n'); os.close(2); print('{}')")
    assert watched(request(), 1.0).stderr == "libibverbs: \\xff\n"


# --- how it ends -------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_the_childs(says: Callable[[str], None], code: int) -> None:
    says(f"raise SystemExit({code})")
    assert watched(request(), 1.0).returncode == code


def test_a_child_that_is_gone_before_its_request_is_no_error_of_the_parent(
    monkeypatch: pytest.MonkeyPatch, says: Callable[[str], None]
) -> None:
    says("")
    signals = watchdog._signals

    @contextmanager
    def late(child: int) -> Iterator[Any]:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with signals(child) as passed:
            yield passed

    monkeypatch.setattr(watchdog, "_signals", late)
    found = watched(request(), 1.0)
    assert (found.records, found.returncode) == ((), 0)


def test_a_child_that_is_late_is_killed_and_what_it_wrote_is_kept(
    says: Callable[[str], None],
) -> None:
    says(f"import time; print({LINES[1]!r}, flush=True); time.sleep(60)")
    with at_most(SLACK):
        found = watched(request(seconds=1.0), 0.2)
    assert (found.returncode, found.records) == (None, (ROUNDS[1],))


def test_one_that_has_closed_its_stdout_and_goes_on_is_killed_too(
    says: Callable[[str], None],
) -> None:
    says("import os, time; os.close(1); time.sleep(60)")
    with at_most(SLACK):
        assert watched(request(seconds=0.3), 0.2).returncode is None


def test_one_that_even_a_kill_does_not_end_is_left_behind_and_named(
    says: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon = watchdog.abandon
    monkeypatch.setattr(watchdog, "abandon", lambda child: abandon(child) and False)
    says("import time; time.sleep(60)")
    asked = request(seconds=0.1)
    found = watched(asked, 0.1)
    assert (found.returncode, found.unkillable) == (None, True)
    assert of(found, asked).pid == found.pid


def test_where_no_process_can_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "program", lambda _: ["/nonexistent/python"])
    assert watch(request(), 1.0) == Missing(Why.ABSENT, "python: ENOENT")


# --- when it kills -----------------------------------------------------------------------

NO_SIGNAL = watchdog._PassedOn(0, None)  # type: ignore[arg-type]
PEER = Connected(address="127.0.0.1:4711")


def limit(**changes: Any) -> tuple[watchdog._Limit, float]:
    """A limit, and the time it was made."""
    asked = replace(request(), **{"meet": "listen", "deadline": 100.0, "until": 200.0} | changes)
    made = watchdog._Limit(asked, 2.0)
    return made, made._began


def test_without_a_peer_to_wait_for_it_is_the_deadline_and_the_grace() -> None:
    for meet in (None, "connect"):
        assert limit(meet=meet)[0].at([PEER], NO_SIGNAL) == 102


def test_a_child_that_listens_is_given_until_its_peer_must_have_come() -> None:
    assert limit()[0].at([], NO_SIGNAL) == 200 + watchdog.AFTER_SIGNAL_SECONDS
    assert limit(until=50.0)[0].at([], NO_SIGNAL) == 102


@pytest.mark.parametrize("more", [0, 30], ids=["alone", "with many records"])
def test_what_it_waited_for_its_peer_is_added_once(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    made, began = limit()
    monkeypatch.setattr(time, "monotonic", lambda: began + 7)
    seen: list[Record] = [PEER, *ROUNDS[:1] * more]
    assert made.at(seen, NO_SIGNAL) == pytest.approx(102 + 7)
    monkeypatch.setattr(time, "monotonic", lambda: began + 9)
    assert made.at(seen, NO_SIGNAL) == pytest.approx(102 + 7)


def test_after_a_signal_it_is_a_second() -> None:
    passed = watchdog._PassedOn(0, None)  # type: ignore[arg-type]
    passed.at = 17.0
    assert limit()[0].at([], passed) == 17 + watchdog.AFTER_SIGNAL_SECONDS


# --- signals -----------------------------------------------------------------------------


def once(here: Callable[[Record], bool], number: int) -> Callable[[Record], None]:
    """Sends this process a signal when the child has written that."""

    def seen(record: Record) -> None:
        if here(record):
            os.kill(os.getpid(), number)

    return seen


def at_rtr(record: Record) -> bool:
    """The first call of RTR is about to be made."""
    return isinstance(record, Step) and record.stage is Stage.RTR


@SIGNALS
def test_a_signal_ends_the_wait_for_a_peer_at_once(number: signal.Signals) -> None:
    asked = listening()
    with at_most(SLACK):
        found = watched(asked, 1.0, once(lambda each: isinstance(each, Listening), number))
    attempt = of(found, asked)
    assert (found.returncode, found.signal) == (0, number)
    assert (attempt.outcome, attempt.stage) == (Outcome.INTERRUPTED, Stage.CONNECT)
    assert attempt.summary == number.name
    assert (attempt.touched, attempt.teardown) == (False, Teardown.NOTHING_MADE)


def test_a_signal_between_two_calls_puts_everything_back(library: Callable[[str], Path]) -> None:
    asked = request(library("on modify_qp_to_rtr slow=200\n"))
    found = watched(asked, 1.0, once(at_rtr, signal.SIGTERM))
    attempt = of(found, asked)
    assert attempt.outcome is Outcome.INTERRUPTED
    assert (attempt.touched, attempt.teardown) == (True, Teardown.CLEAN)
    assert found.stderr == ""


def test_a_call_that_outlasts_a_signal_is_killed_a_second_later(
    library: Callable[[str], Path],
) -> None:
    asked = request(library("on modify_qp_to_rtr hang\n"), seconds=60.0)
    with at_most(watchdog.AFTER_SIGNAL_SECONDS + SLACK):
        found = watched(asked, 1.0, once(at_rtr, signal.SIGTERM))
    attempt = of(found, asked)
    assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.RTR)
    assert attempt.summary.startswith("ibv_modify_qp had not returned after SIGTERM")
    assert attempt.teardown is Teardown.ABANDONED


def test_only_the_first_signal_is_passed_on(says: Callable[[str], None]) -> None:
    says(
        "import signal, time\n"
        "got = []\n"
        "for each in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(each, lambda number, frame: got.append(number))\n"
        f"print({LINES[0]!r}, flush=True)\n"
        "while not got: signal.pause()\n"
        "time.sleep(0.2)\n"
        'print(\'{"kind": "rounds", "rounds": %d}\' % sum(got), flush=True)\n'
    )

    def seen(record: Record) -> None:
        if record == ROUNDS[0]:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)

    found = watched(request(), 1.0, seen)
    assert found.records[-1] == Rounds(rounds=signal.SIGINT)
    assert found.signal == signal.SIGINT


def test_a_signal_for_a_child_that_has_just_ended_is_no_error() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    passed = watchdog._PassedOn(child.pid, None)  # type: ignore[arg-type]
    passed.note(signal.SIGTERM, None)
    assert passed.signal == signal.SIGTERM


def test_handlers_are_what_they_were_whatever_happens(says: Callable[[str], None]) -> None:
    def state() -> list[object]:
        before = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(before)
        return [before, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]

    before = state()
    says("")
    watched(request(), 1.0)
    assert state() == before
    with suppress(LookupError), watchdog._signals(0):
        assert state() != before
        raise LookupError
    assert state() == before


# --- a parent that is killed -------------------------------------------------------------

PARENT = """
import subprocess, sys
from rdmadiag.verbs import watchdog
from rdmadiag.verbs.records import encode, parse

class Named(subprocess.Popen):
    def __init__(self, *arguments, **how):
        super().__init__(*arguments, **how)
        print(self.pid, flush=True)

subprocess.Popen = Named
request = parse(sys.stdin.buffer.readline())
watchdog.watch(request, 60.0, lambda record: print(encode(record).decode(), end="", flush=True))
"""


def has_ended(pid: int) -> bool:
    """Whether it is gone, or has only to be waited for by whoever has inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def orphaned(asked: Request, here: Callable[[Record], bool]) -> tuple[int, float]:
    """Kills the parent when its child has come that far; the child's pid, and when."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        parent.stdin.write(encode(asked))
        parent.stdin.flush()
        pid = int(parent.stdout.readline())
        while line := parent.stdout.readline():
            if here(parse(line)):  # type: ignore[arg-type]
                break
        parent.kill()
    assert line, "it ended before"
    return pid, time.monotonic()


def seconds_until_it_ends(pid: int, since: float) -> float:
    while not has_ended(pid):
        assert time.monotonic() - since < 60
        time.sleep(0.02)
    return time.monotonic() - since


def test_a_child_that_waits_for_its_peer_ends_with_its_parent() -> None:
    pid, since = orphaned(listening(), lambda each: isinstance(each, Listening))
    assert seconds_until_it_ends(pid, since) < SLACK


@pytest.mark.slow
def test_a_child_that_hangs_in_a_call_ends_by_the_alarm(library: Callable[[str], Path]) -> None:
    asked = request(library("on modify_qp_to_rtr hang\n"), seconds=5.0)
    pid, _ = orphaned(asked, at_rtr)
    lived = seconds_until_it_ends(pid, asked.start)
    assert 5.0 + 3.0 - 0.5 < lived < 5.0 + 3.0 + SLACK


def test_a_child_between_two_calls_puts_everything_back_for_a_parent_that_is_gone(
    fake_verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fake_verbs(LINUX_SCRIPT + "on post_send slow=20\n")
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    end = replace(LINUX_END, iterations=10_000)
    asked = request(fake.library, [end, end], seconds=60.0)
    pid, since = orphaned(asked, lambda each: isinstance(each, Verified))
    assert seconds_until_it_ends(pid, since) < SLACK
    assert [call.split()[0] for call in fake.calls][-1] == "ibv_close_device"
