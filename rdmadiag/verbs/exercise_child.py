"""The program of the child process of `exercise`: each cell of a list, once and verified.

    python -m rdmadiag.verbs.exercise_child

A records.ExerciseRequest stands on stdin, which stays open for as long as the parent lives.
Every cell has objects of its own, two queue pairs and what they need, destroyed before the
next one; the devices are opened once. Nothing is tried twice.
"""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import byref, c_int
from typing import Any, Final

from rdmadiag.facts.attempt import Outcome, Stage
from rdmadiag.facts.exercise import CellState, Wanted
from rdmadiag.verbs import records
from rdmadiag.verbs.async_events import AsyncEvents
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.objects import Context
from rdmadiag.verbs.operation import OPERATIONS, BadStatus, Pair, Silent, Wrong
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import CellBegan, CellEnded, EndName, ExerciseRequest
from rdmadiag.verbs.side import Side
from rdmadiag.verbs.transcript import Transcript

_REQUEST_LIMIT: Final = 1 << 18  # bytes


class Run:
    """One run."""

    def __init__(self, request: ExerciseRequest, transcript: Transcript, bounds: Bounds) -> None:
        self._request = request
        self._transcript = transcript
        self._bounds = bounds
        self._contexts: list[Context] = []
        self._callers: list[RecordedCaller] = []
        self._events: list[AsyncEvents] = []
        self._psns = random.SystemRandom()

    def run(self) -> None:
        """All cells; how it ended is the records.Result that it writes."""
        self._bounds.start(self._request.deadline)
        outcome, text, failed = Outcome.VERIFIED, "", CallFailed("", 0)
        try:
            self._open()
            for cell in self._request.cells:
                self._bounds.check()
                self._try(cell)
        except Late:
            outcome = Outcome.LATE
        except Interrupted as error:
            outcome, text = Outcome.INTERRUPTED, str(error)
        except CallFailed as error:
            outcome, failed = Outcome.CALL_FAILED, error
        finally:
            self._transcript.write(records.StageBegan(stage=Stage.TEARDOWN))
            for context, caller in zip(self._contexts, self._callers, strict=False):
                caller.stage = Stage.TEARDOWN
                with suppress(CallFailed):
                    context.close()
        self._transcript.write(
            records.Result(
                outcome=outcome,
                stage=Stage.DONE,
                text=text,
                call=failed.call or None,
                errno=failed.errno,
            )
        )

    # --- the devices ---------------------------------------------------------------------

    def _open(self) -> None:
        library = self._load()
        ends = self._request.ends
        self._callers = [RecordedCaller(library, self._transcript, name) for name in EndName]
        count = c_int(0)
        devices = self._callers[0]("ibv_get_device_list", ends[0].device, byref(count))
        try:
            names = [library.call("ibv_get_device_name", devices[at]) for at in range(count.value)]
            for caller, name, end in zip(self._callers, EndName, ends, strict=True):
                if end.device.encode() not in names:
                    raise CallFailed("ibv_get_device_list", 0)
                pointer = devices[names.index(end.device.encode())]
                context = Context(caller, end.device, pointer)
                self._contexts.append(context)
                self._events.append(AsyncEvents(context, name, self._transcript.write))
        finally:
            with suppress(CallFailed):
                library.call("ibv_free_device_list", devices)

    def _load(self) -> Library:
        """It runs the library's own code, which can crash or hang like any call."""
        write = self._transcript.write
        write(records.Step(call="dlopen", stage=Stage.OPEN, end=EndName.LOCAL))
        try:
            library = Library(self._request.library)
        except (OSError, AttributeError) as error:
            write(records.Failed(errno=0))
            raise CallFailed("dlopen", 0) from error
        write(records.Returned())
        return library

    # --- one cell ------------------------------------------------------------------------

    def _try(self, cell: Wanted) -> None:
        self._transcript.write(CellBegan(cell=cell))
        with self._pair(cell) as pair:
            ended = self._ended(pair, cell)
            for each in self._events:
                each.drain()
            self._transcript.write(ended)

    @contextmanager
    def _pair(self, cell: Wanted) -> Iterator[Pair]:
        """Two ends, and their end."""
        one, other = (
            Side(cell, context, facts, caller, self._bounds, events, acts=acts)
            for context, facts, caller, events, acts in zip(
                self._contexts,
                self._request.ends,
                self._callers,
                self._events,
                (True, False),
                strict=True,
            )
        )
        made = Pair(cell, one, other, self._bounds)
        try:
            yield made
        finally:
            made.begin(Stage.TEARDOWN)
            with suppress(CallFailed):  # in the transcript
                made.close()

    def _ended(self, pair: Pair, cell: Wanted) -> CellEnded:
        psns = self._psns.sample(range(1, 1 << 24), 2)
        try:
            pair.open(psns)
            pair.begin(Stage.DATA)
            OPERATIONS[cell.operation](pair)
        except CallFailed as failed:
            return CellEnded(
                state=CellState.REFUSED, stage=pair.stage, call=failed.call, errno=failed.errno
            )
        except BadStatus as bad:
            return CellEnded(
                state=CellState.FAILED, stage=pair.stage, text=str(bad), status=bad.status
            )
        except (Silent, Wrong) as error:
            return CellEnded(state=CellState.FAILED, stage=pair.stage, text=str(error))
        return CellEnded(state=CellState.VERIFIED, stage=Stage.DATA)


def main() -> None:
    """The child's whole life."""
    request: Any = records.parse(sys.stdin.buffer.readline(_REQUEST_LIMIT))
    if not isinstance(request, ExerciseRequest):
        sys.exit("no request")
    # A provider that prints on stdout must not break our lines.
    transcript = Transcript(os.dup(1), request.start)
    os.dup2(2, 1)
    Run(request, transcript, Bounds(sys.stdin.fileno())).run()
    transcript.write(records.Done())


if __name__ == "__main__":
    main()
