"""The parent of an attempt: what it hears, what it passes on, and when it kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.facts.pingpong import Outcome, Stage, Teardown
from rdmadiag.verbs import watchdog
from rdmadiag.verbs.endpoint import Endpoint
from rdmadiag.verbs.outcome import conclude
from rdmadiag.verbs.watchdog import Watched, watch

CHECKOUT = Path(__file__).parents[2]
SCRIPT = """
device mlx5_0 node_type=1 max_qp=16 max_cq=16 max_pd=16 max_mr=16 phys_port_cnt=1
port mlx5_0 1 state=4 link_layer=2 active_mtu=5 max_mtu=5 gid_tbl_len=4
gid mlx5_0 1 1 ::ffff:192.0.2.1 type=2
"""
END = Endpoint(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    active_mtu=4096,
    mtu=1024,
    gid_index=1,
    gid=Gid.parse("::ffff:192.0.2.1"),
    gid_type=GidType.ROCE_V2,
    prefix_length=24,
    lid=0,
    qp_type=QpType.RC,
    payload_bytes=64,
    iterations=10,
    permitted=True,
)
SIGNALS = pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name
)
SLACK = 1.5  # seconds, of a busy machine

Row = dict[str, Any]


def request(library: object = "", seconds: float = 10.0, **changes: Any) -> Row:
    now = time.monotonic()
    return {
        "platform": "linux",
        "library": str(library),
        "start": now,
        "deadline": now + seconds,
        "ends": [END.message()] * 2,
        "meet": None,
        "host": "",
        "port": 0,
        "until": now,
        "secret": None,
    } | changes


def listening(wait: float = 20.0, **changes: Any) -> Row:
    until = time.monotonic() + wait
    way = {"meet": "listen", "host": "127.0.0.1", "until": until, "ends": [END.message()]}
    return request(**way | changes)


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
        fake = fake_verbs(SCRIPT + rules)
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


def of(found: Watched, ends: int = 2) -> Any:
    """What came of it."""
    return conclude(
        found.rows,
        platform="linux",
        ends=[END] * ends,
        seconds=found.seconds,
        returncode=found.returncode,
        signal=None if found.signal is None else signal.Signals(found.signal).name,
        unkillable=found.unkillable,
        pid=found.pid,
    )


# --- what it hears -----------------------------------------------------------------------


def test_rows_are_heard_as_they_come_and_all_are_kept(says: Callable[[str], None]) -> None:
    says("print('{\"a\": 1}'); print('{\"b\": 2}'); print('{\"c\": 3}', end='')")
    heard: list[Row] = []
    found = watched(request(), 1.0, heard.append)
    assert heard == list(found.rows) == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert (found.returncode, found.unkillable, found.signal) == (0, False, None)
    assert 0 < found.seconds < SLACK + 1


def test_the_child_gets_its_request_and_a_stdin_that_stays_open(
    says: Callable[[str], None],
) -> None:
    says(
        "import select, sys\n"
        "print(sys.stdin.readline())\n"
        "print('[]' if select.select([0], [], [], 0.1)[0] else '{\"open\": true}')"
    )
    asked = request()
    assert watched(asked, 1.0).rows == (asked, {"open": True})


def test_what_is_no_object_is_dropped(says: Callable[[str], None]) -> None:
    noise = [b"libmlx5: warning", b"[1]", b"7", b'"x"', b"null", b"\xff\xfe", b"{", b"[" * 99_999]
    lines = b"\n".join([*noise, b'{"a": 1}', b'{"cut": '])
    says(f"import os; os.write(1, {lines[:50_000]!r}); os.write(1, {lines[50_000:]!r})")
    found = watched(request(), 1.0)
    assert (found.rows, found.returncode) == (({"a": 1},), 0)


@given(st.lists(st.binary(max_size=30) | st.just(b'{"a": 1}\n') | st.just(b"\n"), max_size=9))
def test_any_bytes_are_rows_or_nothing_however_they_are_cut(chunks: list[bytes]) -> None:
    heard: list[Row] = []
    pieces, whole = watchdog._Lines(heard.append), watchdog._Lines(lambda row: None)
    for chunk in chunks:
        pieces.take(chunk)
    whole.take(b"".join(chunks))
    for lines in (pieces, whole):
        lines.rest()
    assert pieces.rows == whole.rows == heard
    assert all(isinstance(row, dict) for row in heard)


def test_a_child_that_writes_without_end_is_read_and_forgotten(
    says: Callable[[str], None],
) -> None:
    says(
        "import os\n"
        "os.write(1, b'{\"first\": 1}\\n')\n"
        "for _ in range(64): os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)\n"
        "os.write(1, b'\\n{\"last\": 1}\\n')"
    )
    found = watched(request(), 1.0)
    assert found.returncode == 0
    assert found.rows == ({"first": 1},)
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


def test_a_child_that_is_gone_before_it_is_asked_is_no_error_of_the_parent(
    monkeypatch: pytest.MonkeyPatch, says: Callable[[str], None]
) -> None:
    says("")
    signals = watchdog._signals

    @contextmanager
    def late(child: int) -> Iterator[Any]:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with signals(child) as told:
            yield told

    monkeypatch.setattr(watchdog, "_signals", late)
    found = watched(request(), 1.0)
    assert (found.rows, found.returncode) == ((), 0)


def test_a_child_that_is_late_is_killed_and_what_it_wrote_is_kept(
    says: Callable[[str], None],
) -> None:
    says("import time; print('{\"a\": 1}', flush=True); time.sleep(60)")
    with at_most(0.5 + SLACK):
        found = watched(request(seconds=0.3), 0.2)
    assert (found.returncode, found.rows) == (None, ({"a": 1},))


def test_one_that_has_closed_its_stdout_and_goes_on_is_killed_too(
    says: Callable[[str], None],
) -> None:
    says("import os, time; os.close(1); time.sleep(60)")
    with at_most(0.5 + SLACK):
        assert watched(request(seconds=0.3), 0.2).returncode is None


def test_one_that_even_a_kill_does_not_end_is_left_behind_and_named(
    says: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon = watchdog.abandon
    monkeypatch.setattr(watchdog, "abandon", lambda child: abandon(child) and False)
    says("import time; time.sleep(60)")
    found = watched(request(seconds=0.1), 0.1)
    assert (found.returncode, found.unkillable) == (None, True)
    assert of(found).pid == found.pid


def test_where_no_process_can_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "program", lambda _: ["/nonexistent/python"])
    assert watch(request(), 1.0) == Missing(Why.ABSENT, "python: ENOENT")


# --- when it kills -----------------------------------------------------------------------

NOBODY = watchdog._Told(0, None)  # type: ignore[arg-type]  # no signal came
PEER = {"heard": "peer", "address": "127.0.0.1:4711"}


def limit(**changes: Any) -> tuple[watchdog._Limit, float]:
    """A limit, and the time it was made."""
    asked = {"meet": "listen", "deadline": 100.0, "until": 200.0} | changes
    made = watchdog._Limit(asked, 2.0)
    return made, made._began


def test_without_a_peer_to_wait_for_it_is_the_deadline_and_the_grace() -> None:
    for meet in (None, "connect"):
        assert limit(meet=meet)[0].at([PEER], NOBODY) == 102


def test_a_child_that_listens_is_given_until_its_peer_must_have_come() -> None:
    assert limit()[0].at([], NOBODY) == 200 + watchdog.AFTER_SIGNAL_SECONDS
    assert limit(until=50.0)[0].at([], NOBODY) == 102


@pytest.mark.parametrize("more", [0, 1, 30], ids=["alone", "with a row", "with many rows"])
def test_what_it_waited_for_its_peer_is_added_once(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    made, began = limit()
    monkeypatch.setattr(time, "monotonic", lambda: began + 7)
    rows = [PEER] + [{"stage": "agree"}] * more
    assert made.at(rows, NOBODY) == pytest.approx(102 + 7)
    monkeypatch.setattr(time, "monotonic", lambda: began + 9)
    assert made.at(rows, NOBODY) == pytest.approx(102 + 7)


def test_after_a_signal_it_is_a_second() -> None:
    told = watchdog._Told(0, None)  # type: ignore[arg-type]
    told.at = 17.0
    assert limit()[0].at([], told) == 17 + watchdog.AFTER_SIGNAL_SECONDS


# --- signals -----------------------------------------------------------------------------


def on_row(name: str, value: str, number: int) -> Callable[[Row], None]:
    """Sends this process a signal when the child has written that."""

    def heard(row: Row) -> None:
        if row.get(name) == value:
            os.kill(os.getpid(), number)

    return heard


@SIGNALS
def test_a_signal_ends_the_wait_for_a_peer_at_once(number: signal.Signals) -> None:
    with at_most(SLACK):
        found = watched(listening(), 1.0, on_row("heard", "listening", number))
    attempt = of(found, ends=1)
    assert (found.returncode, found.signal) == (0, number)
    assert (attempt.outcome, attempt.stage) == (Outcome.INTERRUPTED, Stage.CONNECT)
    assert attempt.summary == number.name
    assert (attempt.touched, attempt.teardown) == (False, Teardown.NOTHING_MADE)


@SIGNALS
def test_a_signal_between_two_calls_puts_everything_back(
    library: Callable[[str], Path], number: signal.Signals
) -> None:
    slow = library("on modify_qp_to_rtr slow=200\n")
    with at_most(SLACK):
        found = watched(request(slow), 1.0, on_row("stage", "rtr", number))
    attempt = of(found)
    assert attempt.outcome is Outcome.INTERRUPTED
    assert (attempt.touched, attempt.teardown) == (True, Teardown.CLEAN)
    assert found.stderr == ""


@SIGNALS
def test_a_call_that_outlasts_a_signal_is_killed_a_second_later(
    library: Callable[[str], Path], number: signal.Signals
) -> None:
    hangs = library("on modify_qp_to_rtr hang\n")
    with at_most(watchdog.AFTER_SIGNAL_SECONDS + SLACK):
        found = watched(request(hangs), 1.0, on_row("stage", "rtr", number))
    attempt = of(found)
    assert (attempt.outcome, attempt.stage) == (Outcome.WATCHDOG, Stage.RTR)
    assert attempt.summary.startswith(f"ibv_modify_qp had not returned after {number.name}")
    assert attempt.teardown is Teardown.ABANDONED


def test_only_the_first_signal_is_passed_on(says: Callable[[str], None]) -> None:
    says(
        "import signal, time\n"
        "got = []\n"
        "for each in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(each, lambda number, frame: got.append(number))\n"
        'print(\'{"ready": "yes"}\', flush=True)\n'
        "time.sleep(0.3)\n"
        "print('{\"got\": %s}' % [int(n) for n in got])\n"
    )

    def heard(row: Row) -> None:
        if "ready" in row:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)

    found = watched(request(), 1.0, heard)
    assert found.rows[-1] == {"got": [signal.SIGINT]}
    assert found.signal == signal.SIGINT


def test_a_signal_for_a_child_that_has_just_ended_is_no_error() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    told = watchdog._Told(child.pid, None)  # type: ignore[arg-type]
    told.note(signal.SIGTERM, None)
    assert told.signal == signal.SIGTERM


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
import json, subprocess, sys
from rdmadiag.verbs import watchdog

class Telling(subprocess.Popen):
    def __init__(self, *arguments, **how):
        super().__init__(*arguments, **how)
        print(json.dumps({"pid": self.pid}), flush=True)

subprocess.Popen = Telling
request = json.loads(sys.stdin.readline())
watchdog.watch(request, 60.0, lambda row: print(json.dumps(row), flush=True))
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


def orphaned(asked: Row, name: str, value: str) -> tuple[int, float]:
    """Kills the parent when its child has come that far; the child's pid, and when."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        parent.stdin.write(json.dumps(asked).encode() + b"\n")
        parent.stdin.flush()
        pid = int(json.loads(parent.stdout.readline())["pid"])
        while json.loads(parent.stdout.readline()).get(name) != value:
            pass
        parent.kill()
    return pid, time.monotonic()


def seconds_until_it_ends(pid: int, since: float) -> float:
    while not has_ended(pid):
        assert time.monotonic() - since < 20
        time.sleep(0.02)
    return time.monotonic() - since


def test_a_child_that_waits_for_its_peer_ends_with_its_parent() -> None:
    pid, since = orphaned(listening(), "heard", "listening")
    assert seconds_until_it_ends(pid, since) < SLACK


def test_a_child_that_hangs_in_a_call_ends_by_the_alarm(library: Callable[[str], Path]) -> None:
    hangs = library("on modify_qp_to_rtr hang\n")
    asked = request(hangs, seconds=1.0)
    pid, _ = orphaned(asked, "stage", "rtr")
    lived = seconds_until_it_ends(pid, asked["start"])
    assert 1.0 + 3.0 - 0.5 < lived < 1.0 + 3.0 + SLACK


def test_a_child_between_two_calls_puts_everything_back_for_a_parent_that_is_gone(
    fake_verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fake_verbs(SCRIPT + "on post_send slow=20\n")
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    ends = [END.message() | {"iterations": 10_000}] * 2
    pid, since = orphaned(request(fake.library, ends=ends), "verified", 1)
    assert seconds_until_it_ends(pid, since) < SLACK
    assert [call.split()[0] for call in fake.calls][-1] == "ibv_close_device"
