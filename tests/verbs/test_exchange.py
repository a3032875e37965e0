"""What two ends send each other: payloads that nobody else makes, and a loop that may stall."""

import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.verbs import exchange
from rdmadiag.verbs.exchange import (
    Differs,
    Stalled,
    content,
    stands,
    streamed,
    timed,
    untimed,
    verified,
)

turns = st.tuples(st.integers(0, 1 << 25), st.integers(1, 9), st.booleans())


# --- content -----------------------------------------------------------------------------


@given(turns, st.integers(1, 5000))
def test_both_ends_make_the_same_content(turn: tuple[int, int, bool], length: int) -> None:
    assert content(*turn, length) == content(*turn, length)
    assert len(content(*turn, length)) == length


@given(turns, turns)
def test_no_two_turns_share_their_content(
    one: tuple[int, int, bool], other: tuple[int, int, bool]
) -> None:
    assert (content(*one, 64) == content(*other, 64)) is (one == other)


# --- one message each way ----------------------------------------------------------------


class WireEnd:
    """An end of a wire in memory: a message arrives when it is looked for `late` times."""

    def __init__(self, out: deque[bytes], into: deque[bytes], late: int = 3) -> None:
        self.facts = SimpleNamespace(payload_bytes=64, qp_type=QpType.RC, op=DataOp.SEND)
        self.channel = None
        self.sends = 0
        self._out, self._in, self._late = out, into, late

    def send(self, message: bytes) -> None:
        self._out.append(message)
        self.sends += 1

    def arrived(self) -> bytes | None:
        if not self._in:
            return None
        self._late -= 1
        return self._in.popleft() if self._late < 0 else None

    def poll(self) -> None:
        self.sends = 0


@pytest.fixture
def wire() -> tuple[WireEnd, WireEnd]:
    """Both ends of one wire."""
    there: deque[bytes] = deque()
    back: deque[bytes] = deque()
    return WireEnd(there, back), WireEnd(back, there)


@pytest.fixture
def glances(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each look at the peer; an end that stalls is given up soon."""
    monkeypatch.setattr(exchange, "STALL_SECONDS", {QpType.RC: 0.1})
    return []


def pairs(wire: tuple[Any, Any]) -> list[tuple[Any, bool]]:
    return [(wire[0], True), (wire[1], False)]


def test_a_message_goes_each_way(wire: tuple[WireEnd, WireEnd], glances: list[int]) -> None:
    verified(pairs(wire), 7, 1, lambda: glances.append(1))
    assert [end.sends for end in wire] == [0, 0]


def test_the_first_turn_is_small_whatever_the_payload(wire: tuple[WireEnd, WireEnd]) -> None:
    sent: list[int] = []
    for end in wire:
        end.facts.payload_bytes = 1 << 20
        forward = end.send
        end.send = lambda message, to=forward: (sent.append(len(message)), to(message))  # type: ignore[method-assign,misc]
    verified(pairs(wire), 7, 0, lambda: None)
    verified(pairs(wire), 7, 1, lambda: None)
    assert sent == [64, 64, 1 << 20, 1 << 20]


def test_one_end_of_this_process_talks_to_one_elsewhere(
    wire: tuple[WireEnd, WireEnd], glances: list[int]
) -> None:
    wire[1].send(content(7, 1, False, 64))
    verified(pairs(wire)[:1], 7, 1, lambda: glances.append(1))
    assert wire[1].arrived() is None
    assert list(wire[1]._in) == [content(7, 1, True, 64)]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (content(7, 2, False, 64), r"^6[234] of 64 bytes differ, the first at offset [01]$"),
        (content(7, 1, True, 64), r" of 64 bytes differ"),
        (content(7, 1, False, 64)[:-1] + b"\0", r"^1 of 64 bytes differ, the first at offset 63$"),
        (content(7, 1, False, 63), r"^63 bytes arrived, 64 were sent$"),
        (b"", r"^0 bytes arrived, 64 were sent$"),
    ],
    ids=["another turn's", "its own", "one byte", "one too few", "none"],
)
def test_what_was_not_sent_differs_from_what_was(
    wire: tuple[WireEnd, WireEnd], glances: list[int], sent: bytes, words: str
) -> None:
    wire[1].send(sent)
    with pytest.raises(Differs, match=words) as caught:
        verified(pairs(wire)[:1], 7, 1, lambda: None)
    assert caught.value.end is wire[0]


def test_without_a_message_it_stalls_and_looks_at_the_peer_meanwhile(
    wire: tuple[WireEnd, WireEnd], glances: list[int]
) -> None:
    with pytest.raises(Stalled):
        verified(pairs(wire)[:1], 7, 1, lambda: glances.append(1))
    assert 1 < len(glances) <= 0.1 / exchange._SLICE_SECONDS


def test_what_a_look_at_the_peer_finds_ends_the_wait(
    wire: tuple[WireEnd, WireEnd], glances: list[int]
) -> None:
    def glance() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        verified(pairs(wire)[:1], 7, 1, glance)


# --- by WRITE and READ -------------------------------------------------------------------


class MemoryEnd:
    """An end whose memory the other one writes and reads; work completes at the next poll."""

    def __init__(self, op: DataOp, length: int = 64) -> None:
        self.facts = SimpleNamespace(payload_bytes=length, qp_type=QpType.RC, op=op)
        self.channel = None
        self.sends = 0
        self.out, self.into = bytearray(length), bytearray(length)
        self.other: MemoryEnd = self
        self.moved: list[bytes] = []
        self.loses = False
        self.spoils = False
        self._due: list[int] = []

    def offer(self, message: bytes) -> None:
        self.out[: len(message)] = message

    def send(self, message: bytes) -> None:
        self.offer(message)
        self.post(len(message))

    def count(self, last: bytes) -> None:
        self.out[-1:] = last

    def post(self, length: int) -> None:
        self.sends += 1
        self._due.append(length)

    def received(self, length: int) -> bytes:
        return bytes(self.into[:length])

    def clear(self) -> None:
        self.into[:] = bytes(len(self.into))

    def poll(self) -> None:
        while self._due:
            length = self._due.pop(0)
            self.sends -= 1
            writes = self.facts.op is DataOp.WRITE
            source = self.out if writes else self.other.out
            target = self.other.into if writes else self.into
            if not self.loses:
                target[:length] = source[:length]
                self.moved.append(bytes(source[:length]))
            if self.spoils:
                target[3] ^= 1


def memories(op: DataOp) -> tuple[MemoryEnd, MemoryEnd]:
    one, other = MemoryEnd(op), MemoryEnd(op)
    one.other, other.other = other, one
    return one, other


ONE_SIDED = pytest.mark.parametrize("op", [DataOp.WRITE, DataOp.READ])


@ONE_SIDED
def test_what_stands_in_memory_is_compared_at_both_ends(op: DataOp, glances: list[int]) -> None:
    ends, steps = memories(op), list[str]()
    for turn in (0, 1, 2):
        verified(pairs(ends), 7, turn, lambda: None, steps.append)
    assert [len(end.moved) for end in ends] == [3, 3]
    assert content(7, 2, True, 64) in ends[0 if op is DataOp.WRITE else 1].moved
    # Nobody reads what the other end has not offered yet, or offers the next before it is read.
    expected = [f"{word}{turn}" for turn in (0, 1, 2) for word in ("offered", "fetched")]
    assert steps == (expected if op is DataOp.READ else [])


@ONE_SIDED
def test_one_byte_that_differs_is_found(op: DataOp, glances: list[int]) -> None:
    ends = memories(op)
    ends[0].spoils = True
    with pytest.raises(Differs, match=r"^1 of 64 bytes differ, the first at offset 3$") as caught:
        verified(pairs(ends), 7, 1, lambda: None)
    assert caught.value.end is ends[1 if op is DataOp.WRITE else 0]


def test_a_write_that_never_comes_stalls(glances: list[int]) -> None:
    ends = memories(DataOp.WRITE)
    ends[0].loses = True
    with pytest.raises(Stalled):
        verified(pairs(ends), 7, 1, lambda: None)


def test_a_read_that_brings_nothing_differs_though_it_completed(glances: list[int]) -> None:
    ends = memories(DataOp.READ)
    ends[0].loses = True
    with pytest.raises(Differs, match="bytes differ"):
        verified(pairs(ends), 7, 1, lambda: None)


def test_without_a_compiled_loop_what_is_written_counts_its_rounds(glances: list[int]) -> None:
    ends = memories(DataOp.WRITE)
    untimed(pairs(ends), 7, 300, lambda: None, lambda done: None)
    counts = [[message[-1] for message in end.moved] for end in ends]
    assert counts == [[at & 0xFF for at in range(1, 301)]] * 2


def test_without_a_compiled_loop_the_end_that_starts_reads(glances: list[int]) -> None:
    ends = memories(DataOp.READ)
    untimed(pairs(ends), 7, 5, lambda: None, lambda done: None)
    assert [len(end.moved) for end in ends] == [5, 0]


# --- a window ----------------------------------------------------------------------------


class Window(MemoryEnd):
    """Notes how many are under way."""

    def __init__(self, op: DataOp, length: int = 64) -> None:
        super().__init__(op, length)
        self.most = 0

    def post(self, length: int) -> None:
        super().post(length)
        self.most = max(self.most, self.sends)


def test_a_window_is_never_wider_and_ends_when_its_time_is_over() -> None:
    end = Window(DataOp.WRITE)
    began = time.monotonic()
    messages, seconds = streamed(end, 5, 0.1, lambda: None)  # type: ignore[arg-type]
    assert (end.most, end.sends, len(end.moved)) == (5, 0, messages)
    assert messages > 5
    assert 0.05 < seconds <= time.monotonic() - began < 10


def test_a_window_moves_no_more_than_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BANDWIDTH_BYTES_MAX", 640)
    messages, _ = streamed(Window(DataOp.READ), 4, 5.0, lambda: None)  # type: ignore[arg-type]
    assert messages == 10


def test_a_window_of_which_nothing_completes_stalls(glances: list[int]) -> None:
    end: Any = Window(DataOp.WRITE)
    end.poll = lambda: None
    with pytest.raises(Stalled):
        streamed(end, 4, 0.01, lambda: glances.append(1))
    assert glances


def test_the_last_buffer_of_a_window_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_LEFT_SECONDS", 0.05)
    one, other = memories(DataOp.WRITE)
    one.offer(content(7, 3, True, 64))
    streamed(one, 4, 0.01, lambda: None)  # type: ignore[arg-type]
    stands(other, 7, 3, from_first=True)  # type: ignore[arg-type]
    other.into[:] = content(7, 3, True, 64)
    other.into[5] ^= 1
    with pytest.raises(Differs, match=r"^1 of 64 bytes differ, the first at offset 5$"):
        stands(other, 7, 3, from_first=True)  # type: ignore[arg-type]


# --- the timed loop ----------------------------------------------------------------------


class SlowLoop:
    """A loop that gets `pace` rounds further in each slice."""

    def __init__(self, iterations: int, pace: list[int]) -> None:
        self.rounds = 0
        self._iterations, self._pace = iterations, pace

    def run(self, until: float) -> bool:
        self.rounds += self._pace.pop(0) if self._pace else 0
        return self.rounds >= self._iterations


@pytest.mark.parametrize(
    ("pace", "seen"),
    [([10], []), ([3, 3, 4], [3, 6]), ([3, 0, 0, 7], [3])],
    ids=["at once", "in slices", "with a pause"],
)
def test_progress_is_reported_while_it_goes_on(
    glances: list[int], pace: list[int], seen: list[int]
) -> None:
    progress: list[int] = []
    slices = len(pace)
    slow: Any = SlowLoop(10, pace)
    timed(slow, 0.1, lambda: glances.append(1), progress.append)
    assert progress == seen
    assert len(glances) == slices - 1


def test_a_loop_in_which_nothing_moves_any_more_stalls(glances: list[int]) -> None:
    progress: list[int] = []
    stuck: Any = SlowLoop(10, [4])
    with pytest.raises(Stalled):
        timed(stuck, 0.1, lambda: glances.append(1), progress.append)
    assert progress == [4]
    assert glances


def test_without_a_compiled_loop_as_many_messages_go_each_way(
    wire: tuple[WireEnd, WireEnd], glances: list[int]
) -> None:
    progress: list[int] = []
    sent: list[bytes] = []
    for end in wire:
        end._late = 0
        forward = end.send
        end.send = lambda message, to=forward: (sent.append(message), to(message))  # type: ignore[method-assign,misc]
    untimed(pairs(wire), 7, 5, lambda: glances.append(1), progress.append)
    assert sent == [content(7, 1, True, 64), content(7, 1, False, 64)] * 5
    assert progress[-1] == 5
    assert glances
