"""What an attempt moves once its ends are connected, however that came about.

Verified, timed, a window where one is asked for, and verified again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rdmadiag.facts.attempt import Bandwidth, Latency
from rdmadiag.facts.ib import DataOp
from rdmadiag.verbs import latency, loop
from rdmadiag.verbs.exchange import (
    SMALL_BYTES,
    STALL_SECONDS,
    content,
    stands,
    streamed,
    timed,
    untimed,
    verified,
)
from rdmadiag.verbs.open_end import OpenEnd
from rdmadiag.verbs.records import Record, Rounds, Sizes, Streamed, Timed, Verified

_WINDOW_TURN: Final = 3  # of exchange.content: what no message before had


class Payloads:
    """Of the ends that are here; raises what rdmadiag.verbs.exchange does."""

    def __init__(
        self,
        ends: Sequence[tuple[OpenEnd, bool]],
        seed: int,
        sizes: Sizes,
        write: Callable[[Record], None],
        glance: Callable[[], None],
        barrier: Callable[..., dict[str, Any]],
        *,
        is_timed: bool = True,
    ) -> None:
        """`ends` with whether each sends first; both hosts make what is sent of `seed`.

        `barrier` gives the other host's message of a step, {} where both ends are here.
        """
        self._ends = list(ends)
        self._facts = ends[0][0].facts
        self._seed = seed
        self._sizes = sizes
        self._write = write
        self._glance = glance
        self._barrier = barrier
        self._is_timed = is_timed
        self._compiled = loop.compiled()
        self._times_ns: list[int] = []
        self._bandwidth: Bandwidth | None = None
        self.rounds = 0
        """Round trips of the loop that are done."""

    def move(self) -> None:
        """Payloads in turns, verified and timed, up to the last turn."""
        if self._facts.payload_bytes > SMALL_BYTES:
            self._verify(0)
        self._verify(1)
        # What the peer sends next must find this end in its loop, not still polling here.
        self._barrier("verified")
        times_ns = self._loop()
        if self._facts.op is not DataOp.SEND:
            for end, _ in self._ends:
                end.clear()
        # A peer without a compiled loop answers late: what was timed is not the path's.
        answer = self._barrier("timed", compiled=self._compiled is not None)
        self._bandwidth = self._stream()
        if answer.get("compiled") is not False:
            self._times_ns = times_ns

    def move_last(self, glance: Callable[[], None] | None = None) -> None:
        """The last turn; `glance` is looked at instead of the one that was given."""
        verified(self._ends, self._seed, 2, glance or self._glance, self._barrier)
        self._write(Verified(verified=2))

    def figures(self) -> Iterator[Record]:
        """What was measured, once everything has been verified."""
        if self._bandwidth:
            yield Streamed(bandwidth=self._bandwidth)
        if not self._times_ns:
            return
        facts = self._facts
        # The whole of a READ is its time: the summary is of halves.
        times_ns = [2 * each if facts.op is DataOp.READ else each for each in self._times_ns]
        figures = Latency(
            **latency.summary(times_ns),
            op=facts.op,
            iterations=facts.iterations,
            bytes=facts.payload_bytes,
            loop="compiled",
            overhead=round(loop.overhead_us(self._compiled), 3),
        )
        yield Timed(latency=figures)

    def _verify(self, turn: int) -> None:
        verified(self._ends, self._seed, turn, self._glance, self._barrier)
        self._write(Verified(verified=turn))

    def _loop(self) -> list[int]:
        """Round trips in ns; none where they were not timed here."""
        facts = self._facts
        if self._compiled is None or not self._is_timed:
            untimed(self._ends, self._seed, facts.iterations, self._glance, self._progress)
            return []
        reads = facts.op is DataOp.READ
        timed_ends = [end.timed(starts=starts) for end, starts in self._ends if starts or not reads]
        if not timed_ends:
            return []  # it is read from, and has nothing to do
        made = loop.Loop(self._compiled, timed_ends, facts.iterations, self._sizes.sq_depth)
        timed(made, STALL_SECONDS[facts.qp_type], self._glance, self._progress)
        self._progress(made.rounds)
        return made.times_ns

    def _progress(self, rounds: int) -> None:
        self.rounds = rounds
        self._write(Rounds(rounds=rounds))

    def _stream(self) -> Bandwidth | None:
        """A window of WRITEs or READs from the end that starts, where it is asked for."""
        facts = self._facts
        if not facts.bandwidth_seconds:
            return None
        is_write = facts.op is DataOp.WRITE
        for end, starts in self._ends:
            end.offer(content(self._seed, _WINDOW_TURN, starts, facts.payload_bytes))
        self._barrier("window")
        found = None
        window = min(self._sizes.sq_depth, self._sizes.cq_depth)
        for end, starts in self._ends:
            if starts:
                found = streamed(end, window, facts.bandwidth_seconds, self._glance)
        self._barrier("moved")
        for end, starts in self._ends:
            if starts is not is_write:  # where the data came to
                stands(end, self._seed, _WINDOW_TURN, from_first=not starts)
        self._barrier("compared")
        if found is None:
            return None
        messages, seconds = found
        return Bandwidth(
            op=facts.op,
            bytes=facts.payload_bytes,
            messages=messages,
            seconds=round(seconds, 6),
            gbps=round(messages * facts.payload_bytes * 8 / max(seconds, 1e-9) / 1e9, 3),
            link_gbps=None,
            data_verified=True,
        )
