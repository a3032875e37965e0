"""The timed loop: its steps, its reasons to stop, and when it returns."""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import CFUNCTYPE, POINTER, addressof, c_int, c_void_p, memset
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.ib import DataOp
from rdmadiag.verbs import loop as module
from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import (
    RECEIVE,
    SEND,
    Cause,
    Loop,
    Stopped,
    TimedChannel,
    TimedEnd,
    compiled,
    overhead_us,
)

PROGRAM = Path(__file__).with_name("loops.py")
CHECKOUT = PROGRAM.parents[2]
SOURCE = CHECKOUT / "rdmadiag" / "verbs" / "_loop.c"
DEVICES = """
device a
port a 1 state=4 max_mtu=4 gid_tbl_len=4 pkey_tbl_len=2
gid a 1 1 ::ffff:192.0.2.1
device b
port b 1 state=4 max_mtu=4 gid_tbl_len=4 pkey_tbl_len=2
gid b 1 1 ::ffff:192.0.2.2
"""
BYTES = 64
SLACK = 20.0  # seconds, of a busy machine; what never looks at the clock runs for ever


@pytest.fixture(scope="session")
def compiled_path(compile_c: Callable[..., Path]) -> str:
    """The library, made of _loop.c as it stands."""
    return str(compile_c(SOURCE, "-shared", "-fPIC", "-Wconversion"))


@pytest.fixture(scope="session")
def library(compiled_path: str) -> Any:
    """The function of that library."""
    return compiled(compiled_path)


# --- a device that follows a script --------------------------------------------------------

POST = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p))
POLL = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(IbvWc))


def completion(number: int, length: int = BYTES) -> IbvWc:
    """One that succeeded; of a send, the length is not defined."""
    return IbvWc(wr_id=number, byte_len=length, vendor_err=0xA5A5A5A5)


def failure(number: int, status: int, vendor_error: int) -> IbvWc:
    """One that failed: what ibv_poll_cq(3) does not call valid is noise."""
    made = IbvWc()
    memset(addressof(made), 0xA5, ctypes.sizeof(made))
    made.wr_id, made.status, made.vendor_err = number, status, vendor_error
    return made


SENT, RECEIVED = completion(SEND), completion(RECEIVE)
NOTHING: tuple[IbvWc, ...] = ()
Poll = int | Sequence[IbvWc]


class Device:
    """Each poll answers with the next of `polls`, then with nothing; posts succeed but for those.

    An int of `polls` is what poll_cq returns; `posts` has what the first post returns, or
    the second, and so on.
    """

    def __init__(
        self,
        *polls: Poll,
        posts: dict[int, int] | None = None,
        calls: list[str] | None = None,
        name: str = "",
    ) -> None:
        self._polls = list(polls)
        self._posts = posts or {}
        self._posted = 0
        self._name = name
        self.calls = [] if calls is None else calls
        self.post_send = POST(lambda *_: self._post("send"))
        self.post_recv = POST(lambda *_: self._post("receive"))
        self.poll_cq = POLL(self._poll)

    @property
    def over(self) -> bool:
        """Whether the script is at its end."""
        return not self._polls

    def _post(self, kind: str) -> int:
        self.calls.append(kind + self._name)
        self._posted += 1
        return self._posts.get(self._posted, 0)

    def _poll(self, _: int, room: int, completions: Any) -> int:
        answer = self._polls.pop(0) if self._polls else NOTHING
        self.calls.append("poll" + self._name)
        if isinstance(answer, int):
            return answer
        assert len(answer) <= room
        for at, each in enumerate(answer):
            completions[at] = each
        return len(answer)

    def end(self, *, starts: bool) -> TimedEnd:
        """What the loop is given."""
        pointers = (
            ctypes.cast(each, c_void_p).value or 0
            for each in (self.post_send, self.post_recv, self.poll_cq)
        )
        return TimedEnd(self._name or "mlx5_0", 1, 2, *pointers, 3, 4, starts, BYTES)


def opened(
    device: Device, library: Any, *, starts: bool, iterations: int = 3, depth: int = 16
) -> Loop:
    """A loop of one end."""
    return Loop(library, [device.end(starts=starts)], iterations, depth)


def finish(loop: Loop, *devices: Device) -> bool:
    """Pass after pass to the end of the scripts: whether it is done."""
    while not (done := loop.run(0.0)) and not all(device.over for device in devices):
        pass
    return done


# --- what an end does ----------------------------------------------------------------------


def test_the_end_that_starts_sends_first_and_takes_a_time_for_each_answer(
    library: Any,
) -> None:
    device = Device([SENT], [RECEIVED], NOTHING, [SENT, RECEIVED], [SENT], [RECEIVED])
    loop = opened(device, library, starts=True)
    before = time.monotonic_ns()
    assert finish(loop, device)
    assert [call for call in device.calls if call != "poll"] == [
        *("send", "receive", "send", "receive", "send", "receive")
    ]
    assert loop.rounds == 3
    assert len(loop.times_ns) == 3
    assert all(each > 0 for each in loop.times_ns)
    assert sum(loop.times_ns) <= time.monotonic_ns() - before


def test_the_other_end_answers_and_takes_no_times(library: Any) -> None:
    device = Device(NOTHING, [RECEIVED], [SENT], [RECEIVED], [SENT], [RECEIVED], NOTHING, [SENT])
    loop = opened(device, library, starts=False)
    assert finish(loop, device)
    assert [call for call in device.calls if call != "poll"] == ["receive", "send"] * 3
    assert (loop.rounds, loop.times_ns) == (3, [])


def test_a_round_trip_lasts_from_the_send_to_the_answer(library: Any) -> None:
    device = Device([SENT], [RECEIVED], [SENT], [RECEIVED])
    loop = opened(device, library, starts=True, iterations=2)
    while not loop.run(0.0):
        time.sleep(0.02)
    assert all(0.02e9 < each < 10e9 for each in loop.times_ns)


def test_the_last_answer_is_not_the_end_while_a_send_has_not_completed(
    library: Any,
) -> None:
    device = Device([RECEIVED], NOTHING, NOTHING, [SENT])
    loop = opened(device, library, starts=True, iterations=1)
    assert not loop.run(time.monotonic() - 1)
    assert finish(loop, device)
    assert device.over


def test_a_loop_that_is_done_is_done_and_calls_nothing(library: Any) -> None:
    device = Device([RECEIVED, SENT])
    loop = opened(device, library, starts=True, iterations=1)
    assert finish(loop, device)
    before = list(device.calls)
    assert loop.run(0.0)
    assert loop.run(time.monotonic() + 10)
    assert device.calls == before


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_send_waits_for_room_in_the_queue(library: Any, depth: int) -> None:
    device = Device(*[[RECEIVED]] * depth, NOTHING, NOTHING, [SENT])
    loop = opened(device, library, starts=True, iterations=9, depth=depth)
    while len(device.calls) - device.calls.count("send") < 2 * depth + 2:
        loop.run(0.0)
    assert device.calls.count("send") == depth
    finish(loop, device)
    assert device.calls.count("send") == depth + 1
    assert loop.rounds == depth


def test_two_ends_share_a_thread(library: Any) -> None:
    calls: list[str] = []
    first = Device(NOTHING, [SENT, RECEIVED], calls=calls, name="0")
    second = Device([RECEIVED], [SENT], calls=calls, name="1")
    loop = Loop(library, [first.end(starts=True), second.end(starts=False)], 1, 4)
    assert finish(loop, first, second)
    assert calls == [
        *("send0", "poll0", "poll1", "receive1", "send1"),
        *("poll0", "receive0", "poll1"),
    ]
    assert (loop.rounds, len(loop.times_ns)) == (1, 1)


# --- why it stops --------------------------------------------------------------------------


def stopped(loop: Loop, *devices: Device) -> dict[str, Any]:
    """What the exception says, without what is as always."""
    with pytest.raises(Stopped) as caught:
        finish(loop, *devices)
    usual = {"end": 0, "device": "mlx5_0", "call": None, "errno": 0, "status": None}
    usual |= {"vendor_error": 0, "is_receive": False, "wrong_length": None}
    said = vars(caught.value)
    assert said.keys() == usual.keys() | {"cause"}
    assert said["device"] in str(caught.value)
    return {name: value for name, value in said.items() if value != usual.get(name)}


@pytest.mark.parametrize("errno", [5, 12, 22, 105])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_post_that_fails(library: Any, errno: int, sign: int) -> None:
    for place, call in enumerate(["post_send", "post_recv", "post_send"], 1):
        device = Device([SENT], [RECEIVED], [SENT], posts={place: sign * errno})
        said = stopped(opened(device, library, starts=True), device)
        assert said == {"cause": Cause.CALL_FAILED, "call": call, "errno": errno}


@pytest.mark.parametrize("errno", [1, 5, 14, 2**31])
def test_a_poll_that_fails(library: Any, errno: int) -> None:
    device = Device(NOTHING, -errno)
    said = stopped(opened(device, library, starts=False), device)
    assert said == {"cause": Cause.CALL_FAILED, "call": "poll_cq", "errno": errno}


def test_a_send_that_completes_with_an_error(library: Any) -> None:
    device = Device([SENT], [RECEIVED], [failure(SEND, 12, 129)])
    loop = opened(device, library, starts=True)
    said = stopped(loop, device)
    assert said == {"cause": Cause.BAD_COMPLETION, "status": 12, "vendor_error": 129}
    assert (loop.rounds, len(loop.times_ns)) == (1, 1)


def test_a_receive_that_completes_with_an_error(library: Any) -> None:
    device = Device([failure(RECEIVE, 5, 244)])
    said = stopped(opened(device, library, starts=False), device)
    assert said == {
        "cause": Cause.BAD_COMPLETION,
        "status": 5,
        "vendor_error": 244,
        "is_receive": True,
    }


@pytest.mark.parametrize("length", [0, 1, BYTES - 1, BYTES + 1, 2**32 - 1])
def test_a_message_of_another_length(library: Any, length: int) -> None:
    device = Device([completion(RECEIVE, length)])
    assert stopped(opened(device, library, starts=True), device) == {
        "cause": Cause.WRONG_LENGTH,
        "status": 0,
        "is_receive": True,
        "wrong_length": length,
    }
    assert device.calls == ["send", "poll"]


@pytest.mark.parametrize(
    ("polls", "is_receive"),
    [
        ([[RECEIVED], [RECEIVED]], True),
        ([[RECEIVED, RECEIVED]], True),
        ([[SENT], [SENT]], False),
        ([[completion(7)]], False),
        ([[completion(0)]], False),
    ],
    ids=[
        "a message beyond the last",
        "two messages for one",
        "a send that was never posted",
        "a work request that is none of ours",
        "a work request without a number",
    ],
)
def test_a_completion_that_nothing_explains(
    library: Any, polls: list[Poll], is_receive: bool
) -> None:
    device = Device(*polls)
    said = stopped(opened(device, library, starts=True, iterations=1), device)
    assert said.pop("is_receive", False) is is_receive
    assert said == {"cause": Cause.UNEXPECTED, "status": 0}


def test_an_answer_to_what_was_not_sent_yet(library: Any) -> None:
    device = Device([RECEIVED], [RECEIVED])
    said = stopped(opened(device, library, starts=True, depth=1), device)
    assert said == {"cause": Cause.UNEXPECTED, "status": 0, "is_receive": True}


def test_the_end_that_stopped_is_named(library: Any) -> None:
    first, second = Device(name="0"), Device([failure(RECEIVE, 1, 0)], name="1")
    ends = [first.end(starts=True), second.end(starts=False)]
    said = stopped(Loop(library, ends, 3, 4), first, second)
    assert (said["end"], said["device"]) == (1, "1")


# --- whatever a device answers -----------------------------------------------------------


class Plausible(Device):
    """A device of which some polls are words: of the s and r in them, what is due is given."""

    def __init__(self, starts: bool, iterations: int, *polls: Poll | str, **of: Any) -> None:
        super().__init__(**of)
        self._polls = list(polls)
        self._starts = starts
        self._iterations = iterations
        self._sends = self._completed = self._received = 0

    def _post(self, kind: str) -> int:
        self._sends += kind == "send"
        return super()._post(kind)

    def _poll(self, cq: int, room: int, completions: Any) -> int:
        if self._polls and isinstance(self._polls[0], str):
            self._polls[0] = [each for letter in self._polls[0] for each in self._due(letter)]
        return super()._poll(cq, room, completions)

    def _due(self, letter: str) -> list[IbvWc]:
        if letter == "s" and self._completed < self._sends:
            self._completed += 1
            return [SENT]
        turn = self._received < self._sends if self._starts else self._received == self._sends
        if letter == "r" and turn and self._received < self._iterations:
            self._received += 1
            return [RECEIVED]
        return []


NUMBERS = st.sampled_from([SEND, RECEIVE, 0])
FAULTS = st.one_of(
    st.integers(-200, -1),
    st.lists(st.builds(completion, NUMBERS, st.sampled_from([BYTES, 0])), min_size=1, max_size=2),
    st.lists(
        st.builds(failure, NUMBERS, st.integers(1, 23), st.integers(0, 2**32 - 1)), max_size=1
    ),
)
SCRIPTS = st.tuples(
    st.lists(st.sampled_from(["", "s", "r", "sr", "rs", "srs"]), max_size=50),
    st.lists(FAULTS, max_size=1),
    st.lists(st.sampled_from(["s", "r"]), max_size=3),
).map(lambda parts: [each for part in parts for each in part])
FAILING = st.just({}) | st.dictionaries(st.integers(1, 20), st.sampled_from([12, -1]), max_size=1)


@given(
    scripts=st.lists(SCRIPTS, min_size=1, max_size=2),
    posts=FAILING,
    starting=st.integers(0, 1),
    iterations=st.integers(1, 8),
    depth=st.integers(1, 3),
)
def test_whatever_comes_no_round_is_made_up(
    library: Any,
    scripts: list[list[Any]],
    posts: dict[int, int],
    starting: int,
    iterations: int,
    depth: int,
) -> None:
    devices = [
        Plausible(at == starting, iterations, *polls, posts=posts, name=str(at))
        for at, polls in enumerate(scripts)
    ]
    ends = [device.end(starts=at == starting) for at, device in enumerate(devices)]
    loop = Loop(library, ends, iterations, depth)
    done, stopped = False, None
    try:
        done = finish(loop, *devices)
    except Stopped as error:
        stopped = error
    if stopped:
        assert stopped.device == str(stopped.end)
        assert (stopped.call is None) is (stopped.status is not None)
    each_rounds = [device.calls.count(f"receive{at}") for at, device in enumerate(devices)]
    assert loop.rounds == min(each_rounds)
    assert loop.rounds == iterations if done else loop.rounds <= iterations
    for at, (device, end) in enumerate(zip(devices, ends, strict=True)):
        sends = device.calls.count(f"send{at}")
        assert sends <= each_rounds[at] + end.starts
        assert sends == iterations if done else sends <= iterations
        if end.starts:
            assert len(loop.times_ns) == each_rounds[at]


# --- when it returns -----------------------------------------------------------------------


@pytest.mark.parametrize("starts", [True, False])
def test_it_returns_soon_when_nothing_comes(library: Any, starts: bool) -> None:
    device = Device()
    loop = opened(device, library, starts=starts)
    until = time.monotonic() + 0.05
    assert not loop.run(until)
    assert 0 <= time.monotonic() - until < SLACK
    assert device.calls.count("poll") > 1


def test_it_returns_soon_when_something_comes_at_every_poll(library: Any) -> None:
    nothing = ctypes.cast(ctypes.CDLL(None).abs, c_void_p).value or 0
    end = TimedEnd("", 0, 2, nothing, nothing, nothing, 0, 0, starts=True, payload=BYTES)
    loop = Loop(library, [end], 10_000_000, 1)
    loop.completions[0], loop.completions[1] = SENT, RECEIVED
    until = time.monotonic() + 0.05
    assert not loop.run(until)
    assert 0 <= time.monotonic() - until < SLACK
    assert 0 < loop.rounds < 10_000_000


def test_slow_polls_do_not_make_it_late(library: Any) -> None:
    device = Device()
    poll = device.poll_cq

    def slow(*arguments: Any) -> int:
        time.sleep(0.2)
        return poll(*arguments)

    device.poll_cq = POLL(slow)
    loop = opened(device, library, starts=True)
    until = time.monotonic() + 0.2
    assert not loop.run(until)
    # 64 of them, from one look at the clock to the next, are 13 s.
    assert time.monotonic() - until < SLACK


def test_a_time_that_is_past_is_one_pass(library: Any) -> None:
    device = Device()
    loop = opened(device, library, starts=False)
    for _ in range(10):
        assert not loop.run(-1.0)
    assert 9 <= device.calls.count("poll") <= 10


# --- on the fake library -------------------------------------------------------------------


@pytest.fixture
def both_ends(fake_verbs: Any, compiled_path: str) -> Iterator[Callable[..., dict[str, Any]]]:
    """What loops.py tells; nothing must be left open."""

    def ran(rules: str = "", **options: Any) -> dict[str, Any]:
        fake = fake_verbs(DEVICES + rules)
        argv = [
            sys.executable,
            PROGRAM,
            fake.library,
            json.dumps({"compiled": compiled_path, **options}),
        ]
        ended = subprocess.run(
            argv,
            env=os.environ | fake.environ | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        result: dict[str, Any] = json.loads(ended.stdout)
        return result

    return ran


# --- by WRITE and READ, and asleep ----------------------------------------------------------


class Memory(Device):
    """An end that writes: a send takes the stamp, and `answers` puts a byte where it watches."""

    def __init__(self, *polls: Poll, answers: Sequence[int] = ()) -> None:
        super().__init__(*polls)
        self.stamps: list[int] = []
        self._answers = list(answers)
        self.bytes = (ctypes.c_uint8 * 2)()

    def _post(self, kind: str) -> int:
        self.stamps.append(self.bytes[0])
        if self._answers:
            self.bytes[1] = self._answers.pop(0)
        return super()._post(kind)

    def end(self, *, starts: bool) -> TimedEnd:
        stamp = addressof(self.bytes)
        return replace(super().end(starts=starts), op=DataOp.WRITE, stamp=stamp, watch=stamp + 1)


ROUNDS = [at & 0xFF for at in range(1, 601)]


def test_what_is_written_counts_its_rounds_and_no_receive_is_posted(library: Any) -> None:
    device = Memory(*[[SENT]] * 700, answers=ROUNDS)
    loop = opened(device, library, starts=True, iterations=600)
    assert finish(loop, device)
    assert (device.stamps, loop.rounds, len(loop.times_ns)) == (ROUNDS, 600, 600)
    assert "receive" not in device.calls


def test_the_end_that_is_written_to_answers_with_the_same_count(library: Any) -> None:
    device = Memory(NOTHING, NOTHING, [SENT], [SENT], answers=[2])
    loop = opened(device, library, starts=False, iterations=2)
    assert not loop.run(0.0)
    assert device.stamps == []  # nothing has come
    device.bytes[1] = 1
    assert finish(loop, device)
    assert (device.stamps, loop.rounds, loop.times_ns) == ([1, 2], 2, [])


@pytest.mark.parametrize("byte", [0, 2, 255])
def test_another_byte_than_the_next_is_no_message(library: Any, byte: int) -> None:
    device = Memory([SENT], NOTHING, NOTHING, answers=[byte])
    loop = opened(device, library, starts=True, iterations=2)
    assert not finish(loop, device)
    assert loop.rounds == 0


def test_a_receive_that_nobody_posted_stops_a_loop_that_writes(library: Any) -> None:
    loop = opened(device := Memory([RECEIVED]), library, starts=True)
    with pytest.raises(Stopped) as caught:
        finish(loop, device)
    assert caught.value.cause is Cause.UNEXPECTED


def test_each_read_that_completes_is_a_round(library: Any) -> None:
    device = Device([SENT], NOTHING, [SENT], [SENT])
    end = replace(device.end(starts=True), op=DataOp.READ)
    loop = Loop(library, [end], 3, 16)
    assert finish(loop, device)
    assert (loop.rounds, len(loop.times_ns), device.calls.count("send")) == (3, 3, 3)
    assert "receive" not in device.calls


def test_only_the_end_that_starts_reads_and_what_is_written_is_counted(library: Any) -> None:
    device = Device()
    for end in (
        replace(device.end(starts=False), op=DataOp.READ),
        replace(device.end(starts=True), op=DataOp.WRITE),
        replace(device.end(starts=True), stamp=1, watch=2),
    ):
        with pytest.raises(ValueError, match=r"reads|rounds"):
            Loop(library, [end], 1, 1)


GET = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p))
ACK = CFUNCTYPE(None, c_void_p, ctypes.c_uint)
NOTIFY = CFUNCTYPE(c_int, c_void_p, c_int)


class Sleeper(Device):
    """An end with a completion channel: what it polls is there once an event has come."""

    def __init__(self, *polls: Poll, refuses: int = 0) -> None:
        super().__init__(*polls)
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self._refuses = refuses
        self.get, self.ack = GET(self._get), ACK(lambda cq, count: self.calls.append("ack"))
        self.notify = NOTIFY(self._notify)

    def close(self) -> None:
        os.close(self.reading)
        os.close(self.writing)

    def _get(self, *_: Any) -> int:
        self.calls.append("get")
        os.read(self.reading, 1)
        return 0

    def _notify(self, *_: Any) -> int:
        self.calls.append("notify")
        return self._refuses

    def end(self, *, starts: bool) -> TimedEnd:
        get, ack, notify = (
            ctypes.cast(each, c_void_p).value or 0 for each in (self.get, self.ack, self.notify)
        )
        return replace(
            super().end(starts=starts), channel=TimedChannel(9, self.reading, get, ack, notify)
        )


def test_an_end_with_a_channel_sleeps_until_an_event_and_asks_for_the_next(library: Any) -> None:
    with closing(Sleeper(NOTHING, [RECEIVED, SENT])) as device:
        loop = opened(device, library, starts=True, iterations=1)
        os.write(device.writing, b".")
        assert loop.run(time.monotonic() + 5)
        # Asked for before it polls: what completes in between makes an event.
        assert device.calls == ["send", "poll", "get", "ack", "notify", "poll", "receive"]


def test_an_end_that_sleeps_polls_now_and_then_and_returns_in_time(library: Any) -> None:
    with closing(Sleeper()) as device:
        loop = opened(device, library, starts=False)
        assert not loop.run(time.monotonic() + 0.2)
        assert 2 < device.calls.count("poll") <= 400
        assert "get" not in device.calls


def test_an_event_that_cannot_be_asked_for_stops_it(library: Any) -> None:
    with closing(Sleeper(NOTHING, refuses=5)) as device:
        loop = opened(device, library, starts=False)
        os.write(device.writing, b".")
        with pytest.raises(Stopped) as caught:
            loop.run(time.monotonic() + 5)
    assert (caught.value.call, caught.value.errno) == ("req_notify_cq", 5)


RC, UC = 2, 3
FLUSHED, NO_RECEIVE = 5, 13
"""Statuses: of a receive when its queue pair fails, of a send that finds none."""


@pytest.mark.parametrize(
    ("kind", "starting", "iterations"), [(RC, 0, 1), (UC, 1, 2), (RC, 1, 500), (UC, 0, 500)]
)
def test_every_round_is_done_and_timed(
    both_ends: Any, kind: int, starting: int, iterations: int
) -> None:
    result = both_ends(kind=kind, starting=starting, iterations=iterations)
    assert (result["done"], result["rounds"], result["runs"]) == (True, iterations, 1)
    assert len(result["times"]) == iterations
    assert all(0 < each < 20e9 for each in result["times"])


def test_one_receive_is_posted_at_each_end_when_it_is_done(both_ends: Any) -> None:
    # The sender's own receive is flushed when its second message finds none.
    assert both_ends()["after"] == [0, NO_RECEIVE, FLUSHED]


@pytest.mark.parametrize("depth", [1, 4])
def test_it_goes_on_where_it_was(both_ends: Any, depth: int) -> None:
    result = both_ends(iterations=200, depth=depth, slice=1e-5)
    assert (result["done"], result["rounds"], len(result["times"])) == (True, 200, 200)
    assert result["runs"] > 10


def test_a_round_trip_is_two_messages(both_ends: Any) -> None:
    result = both_ends("on post_send slow=20", iterations=3)
    assert all(40e6 <= each < 2e9 for each in result["times"])


@pytest.mark.parametrize("spared", [0, 3, 8])
def test_a_completion_with_an_error_stops_it(both_ends: Any, spared: int) -> None:
    result = both_ends(f"on poll_cq after={spared} wc=10,65")
    said = result["stopped"]
    assert (said["cause"], said["status"], said["vendor_error"]) == ("bad_completion", 10, 65)
    assert result["rounds"] <= spared


def test_a_message_that_is_lost_stops_rc_with_retry_exceeded(both_ends: Any) -> None:
    result = both_ends("on post_send after=6 drop")
    assert result["stopped"] == {
        "cause": "bad_completion",
        "device": "a",
        "status": 12,
        "vendor_error": 129,
    }
    assert (result["rounds"], len(result["times"])) == (3, 3)


def test_a_message_that_is_lost_leaves_uc_waiting(both_ends: Any) -> None:
    result = both_ends("on post_send after=6 drop", kind=UC, slice=0.05, seconds=0.3)
    assert (result["done"], result["rounds"], len(result["times"])) == (False, 3, 3)
    assert result["runs"] > 2


@pytest.mark.parametrize(
    ("device", "call", "spared"),
    [("a", "post_send", 0), ("b", "post_recv", 4), ("b", "poll_cq", 9)],
)
def test_a_call_that_fails_stops_it(both_ends: Any, device: str, call: str, spared: int) -> None:
    result = both_ends(f"on {call} {device} after={spared} errno=11")
    wanted = {"cause": "call_failed", "device": device, "call": call, "errno": 11}
    assert result["stopped"] == wanted | ({"end": 1} if device == "b" else {})


def test_a_peer_that_sends_less_stops_it(both_ends: Any) -> None:
    result = both_ends(sent=63)
    wanted = {"cause": "wrong_length", "device": "a", "is_receive": True, "wrong_length": 63}
    assert result["stopped"] == wanted


# --- which loop it is ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [None, b"\x7fELF of another machine"], ids=["none", "no library"]
)
def test_a_library_that_cannot_be_loaded_is_done_without(
    tmp_path: Path, content: bytes | None
) -> None:
    if content:
        (tmp_path / "_loop.so").write_bytes(content)
    assert compiled(str(tmp_path / "_loop.so")) is None


LAYOUT = "const uint32_t rdmadiag_loop_layout[]"


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("LAYOUT_REVISION = 2", "LAYOUT_REVISION = 1"),
        ("MAX_ENDS = 2", "MAX_ENDS = 3"),
        ("BATCH = 4", "BATCH = 8"),
        (LAYOUT, LAYOUT.replace("rdmadiag_", "")),
        ("uint32_t rdmadiag_loop_run", "uint32_t another_loop_run"),
    ],
    ids=["revision", "structure", "batch", "no layout", "no function"],
)
def test_a_library_of_another_version_is_done_without(
    compile_c: Callable[..., Path], tmp_path: Path, written: str, instead: str
) -> None:
    source = SOURCE.read_text()
    assert written in source
    (tmp_path / "other.c").write_text(source.replace(written, instead))
    other = compile_c(tmp_path / "other.c", "-shared", "-fPIC")
    assert compiled(str(other)) is None


@pytest.mark.parametrize(
    ("starts", "iterations", "depth"),
    [
        ([], 1, 1),
        ([True, False, False], 1, 1),
        ([True, True], 1, 1),
        ([False, False], 1, 1),
        ([True], 0, 1),
        ([True], 1, 0),
    ],
)
def test_what_is_no_pingpong_is_refused(
    library: Any, starts: list[bool], iterations: int, depth: int
) -> None:
    device = Device()
    with pytest.raises(ValueError, match="ends"):
        Loop(library, [device.end(starts=each) for each in starts], iterations, depth)


def test_a_device_without_one_of_the_calls_is_refused(library: Any) -> None:
    with pytest.raises(CallFailed) as caught:
        Loop(library, [TimedEnd("", 1, 1, 1, 0, 1, 1, 1, starts=True, payload=1)], 1, 1)
    assert (caught.value.call, caught.value.errno) == ("ibv_context_ops", 0)


def test_the_structures_are_those_of_the_c_file(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    structures = {"wc": IbvWc, "end": module._End, "loop": module._Loop}
    places = [
        (name, field)
        for name, structure in structures.items()
        for field, *_ in structure._fields_
        if name != "wc" or field in ("wr_id", "status", "opcode", "vendor_err", "byte_len")
    ]
    asked = [f"offsetof(struct {name}, {field})" for name, field in places]
    asked += [f"sizeof(struct {name})" for name in structures]
    body = "".join(f'printf("%zu\\n", {each});\n' for each in asked)
    headers = "".join(f"#include {each}\n" for each in ("<stddef.h>", "<stdio.h>", f'"{SOURCE}"'))
    program = tmp_path / "layout.c"
    program.write_text(f"{headers}int main(void)\n{{\n{body}return 0;\n}}\n")
    printed = subprocess.run([compile_c(program)], capture_output=True, text=True, check=True)
    wanted = [getattr(structures[name], field).offset for name, field in places]
    wanted += [ctypes.sizeof(each) for each in structures.values()]
    assert [int(line) for line in printed.stdout.splitlines()] == wanted
    assert ctypes.sizeof(IbvWc) == 48


def test_it_needs_nothing_but_the_standard_library() -> None:
    program = "import sys; sys.path.append(sys.argv[1]); import rdmadiag.verbs.loop"
    subprocess.run([sys.executable, "-I", "-S", "-c", program, CHECKOUT], check=True)


# --- what it costs -------------------------------------------------------------------------


def test_the_overhead_is_measured(library: Any) -> None:
    assert 0 < overhead_us(library) < 1000


def test_a_stand_in_iteration_is_what_a_half_round_trip_needs(library: Any) -> None:
    # What overhead_us has abs do, counted: one poll, one receive and one send each.
    device = Device(*[[SENT, RECEIVED]] * 5, [SENT])
    loop = opened(device, library, starts=True, iterations=5, depth=1)
    assert finish(loop, device)
    assert {kind: device.calls.count(kind) for kind in ("poll", "receive", "send")} == {
        "poll": 5,
        "receive": 5,
        "send": 5,
    }
