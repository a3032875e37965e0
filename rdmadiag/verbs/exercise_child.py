"""The program of the child process of `exercise`: each cell of a list, once and verified.

    python -m rdmadiag.verbs.exercise_child

A records.ExerciseRequest stands on stdin, which stays open for as long as the parent lives.
Every cell has objects of its own, two queue pairs and what they need, destroyed before the
next one; the devices are opened once. Nothing is tried twice.

With a peer one end of each cell is there: the child that connects drives, the one that listens
serves its side, and no device is opened before both ends fit.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import byref, c_int
from dataclasses import replace
from typing import Final, cast

from rdmadiag.facts.attempt import Outcome, PeerFailure, Problem, Stage
from rdmadiag.facts.exercise import CellState, Wanted
from rdmadiag.gid.reach import Mismatch
from rdmadiag.verbs import meeting, records
from rdmadiag.verbs.async_events import AsyncEvents
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.child_start import begin
from rdmadiag.verbs.cm_load import loaded
from rdmadiag.verbs.cm_meeting import AnotherDevice
from rdmadiag.verbs.cm_side import CmPair, CmSide, Manager
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.objects import Context
from rdmadiag.verbs.operation import OPERATIONS, BadStatus, Pair, Silent, Wrong
from rdmadiag.verbs.parting import ended_by
from rdmadiag.verbs.peer import Mismatched, Peer, PeerFailed, PeerLost
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import CellBegan, CellEnded, EndName, ExerciseRequest
from rdmadiag.verbs.remote_side import Driver, PeerCallFailed, PeerNotConnected, Served
from rdmadiag.verbs.side import Side
from rdmadiag.verbs.side_calls import (
    RUN_BYTES,
    Managed,
    cells_message,
    read_cells,
    read_managed,
)
from rdmadiag.verbs.transcript import Transcript
from rdmadiag.verbs.work import NotConnected


class Run:
    """The cells of a request in turn, on objects of this process."""

    def __init__(self, request: ExerciseRequest, transcript: Transcript, bounds: Bounds) -> None:
        self._request = request
        self._transcript = transcript
        self._bounds = bounds
        self._contexts: list[Context] = []
        self._callers: list[RecordedCaller] = []
        self._events: list[AsyncEvents] = []
        self._psns = random.SystemRandom()
        self._stage = Stage.CONNECT
        self._peer: Peer | None = None
        self._driver: Driver | None = None
        self._theirs: End | None = None  # the peer's end
        self._cells = request.cells
        self._manager: Manager | None = None  # None: each queue pair is brought up by hand

    def run(self) -> None:
        """All cells; how it ended is the records.Result that it writes."""
        result = records.Result(outcome=Outcome.VERIFIED, stage=Stage.DONE)
        try:
            self._exercise()
        except Exception as error:
            ended = self._result(error)
            if ended is None:
                raise
            result = ended
            if self._peer and not isinstance(error, PeerLost | PeerFailed):
                self._peer.send_failure(_failure(result))
        finally:
            self._close()
        self._transcript.write(result)

    def _exercise(self) -> None:
        if self._request.meet is None:
            self._bounds.start(self._request.deadline)
        else:
            self._meet()
        self._stage = Stage.OPEN
        if self._request.cm_library:
            self._open_manager()
        else:
            self._open()
        if self._peer:
            self._peer.barrier("ready")
        self._stage = Stage.DATA
        if self._request.meet == "listen":
            self._serve()
            return
        for cell in self._cells:
            self._bounds.check()
            self._try(cell)
        if self._driver:
            self._driver.over()

    def _result(self, error: Exception) -> records.Result | None:
        """What this error is of a run; None for a bug of ours."""
        if isinstance(error, CallFailed):
            return records.Result(
                outcome=Outcome.CALL_FAILED,
                stage=self._stage,
                call=error.call or None,
                errno=error.errno,
            )
        if isinstance(error, AnotherDevice):
            problem = Problem("another_device", str(error))
            return records.Result(
                outcome=Outcome.MISMATCH, stage=self._stage, text=str(error), problems=(problem,)
            )
        return ended_by(error, self._stage)

    def _close(self) -> None:
        self._transcript.write(records.StageBegan(stage=Stage.TEARDOWN))
        for context, caller in zip(self._contexts, self._callers, strict=False):
            caller.stage = Stage.TEARDOWN
            with suppress(CallFailed):
                context.close()
        if self._manager:
            with suppress(CallFailed):
                self._manager.close()
        if self._peer:
            self._peer.close()

    # --- the peer ------------------------------------------------------------------------

    def _meet(self) -> None:
        """Which cells both ends want and can, once the ends fit."""
        request, bounds, write = self._request, self._bounds, self._transcript.write
        write(records.StageBegan(stage=Stage.CONNECT))
        secret = None if request.secret is None else bytes.fromhex(request.secret)
        remote = None
        if request.meet == "listen":
            began = time.monotonic()
            self._peer, remote = meeting.listen(
                request.host, request.port, request.until, bounds, write, secret, "exercise"
            )
            bounds.start(request.deadline + time.monotonic() - began)
        else:
            bounds.start(request.deadline)
            self._peer = meeting.connect(
                request.host, request.port, request.until, bounds, write, "exercise"
            )
            self._peer.introduce(secret)
        self._stage = Stage.AGREE
        write(records.StageBegan(stage=Stage.AGREE))
        by_cm = bool(request.cm_library)
        self._theirs = self._peer.agree(request.ends[0], remote, by_cm=by_cm)
        write(records.Agreed(remote=self._theirs))
        self._cells = tuple(self._agreed(self._peer))
        if request.meet == "connect":
            self._driver = Driver(self._peer)

    def _agreed(self, peer: Peer) -> Iterator[Wanted]:
        """The cells of both ends; of each other one of ours, why it is not tried."""
        ours = [(each, None) for each in self._request.cells]
        absent = [(each.cell, each.why) for each in self._request.unclaimed]
        answer = peer.barrier(
            "cells", cells=cells_message([*ours, *absent]), by_cm=bool(self._request.cm_library)
        )
        if (answer.get("by_cm") is True) is not bool(self._request.cm_library):
            text = "one of the two ends was started with --cm, the other without"
            raise Mismatched((Mismatch("cm_mismatch", text),), ())
        theirs = read_cells(answer.get("cells"))
        for cell, _ in ours:
            why, state, where = theirs.get(cell), CellState.NOT_CLAIMED, EndName.REMOTE
            if cell not in theirs:
                why, state, where = _NOT_THERE, CellState.NOT_TRIED, EndName.LOCAL
            if why is None:
                yield cell
                continue
            self._transcript.write(CellBegan(cell=cell))
            self._transcript.write(CellEnded(state=state, stage=Stage.AGREE, text=why, end=where))

    def _serve(self) -> None:
        assert self._peer
        assert self._theirs
        ours = self._request.ends[0]
        Served(
            self._peer,
            self._cells,
            (ours, self._theirs),
            lambda cell: self._side(0, cell, ours, acts=False),
            self._transcript.write,
            by_cm=self._manager is not None,
        ).serve()

    # --- the devices ---------------------------------------------------------------------

    def _open(self) -> None:
        library = self._load()
        ends = self._request.ends
        self._callers = [
            RecordedCaller(library, self._transcript, name)
            for name, _ in zip(EndName, ends, strict=False)
        ]
        count = c_int(0)
        devices = self._callers[0]("ibv_get_device_list", ends[0].device, byref(count))
        try:
            names = [library.call("ibv_get_device_name", devices[at]) for at in range(count.value)]
            for caller, name, end in zip(self._callers, EndName, ends, strict=False):
                if end.device.encode() not in names:
                    raise CallFailed("ibv_get_device_list", 0)
                pointer = devices[names.index(end.device.encode())]
                context = Context(caller, end.device, pointer)
                self._contexts.append(context)
                self._events_of(context, name)
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

    def _open_manager(self) -> None:
        """librdmacm, which opens the devices itself, and where one end waits for the other."""
        request, transcript = self._request, self._transcript
        transcript.write(records.StageBegan(stage=Stage.EVENT_CHANNEL))
        self._stage = Stage.EVENT_CHANNEL
        library = loaded(request.library, request.cm_library, request.node, transcript)
        callers = [RecordedCaller(library, transcript, name) for name in EndName]
        self._callers = callers[: len(request.ends)]
        callers[0].stage = Stage.EVENT_CHANNEL
        self._manager = manager = Manager(library, callers[0], transcript, self._bounds)
        self._stage = Stage.LISTEN
        ours = Managed(run=os.urandom(RUN_BYTES))
        if request.meet != "connect":
            manager.listen(self._callers[-1], request.addresses[-1][0], request.ends[-1])
            ours = Managed(ours.run, *manager.place)
        manager.run, manager.sources = ours.run, request.addresses[0]
        if self._peer:
            listens = request.meet == "connect"
            answer = self._peer.barrier("manager", **ours.message())
            theirs = read_managed(answer, listens=listens)
            if listens:
                manager.place = theirs.address, theirs.port
            else:
                manager.run = theirs.run

    # --- one cell ------------------------------------------------------------------------

    def _try(self, cell: Wanted) -> None:
        self._transcript.write(CellBegan(cell=cell))
        if self._manager:
            self._events.clear()
        with self._pair(cell) as pair:
            ended = self._ended(pair, cell)
            for each in self._events:
                each.drain()
            self._transcript.write(ended)
            if self._driver:
                self._driver.conclude(ended)

    def _events_of(self, context: Context, name: EndName) -> AsyncEvents:
        """Of one end, which the run looks at too."""
        self._events.append(AsyncEvents(context, name, self._transcript.write))
        return self._events[-1]

    def _side(self, at: int, cell: Wanted, facts: End, *, acts: bool) -> Side:
        if self._manager:
            return CmSide(
                cell,
                self._manager,
                facts,
                self._request.ends[at],
                self._callers[at],
                self._bounds,
                list(EndName)[at],
                self._events_of,
                acts=acts,
            )
        return Side(
            cell,
            self._contexts[at],
            facts,
            self._callers[at],
            self._bounds,
            self._events[at],
            acts=acts,
        )

    @contextmanager
    def _pair(self, cell: Wanted) -> Iterator[Pair]:
        """Two ends, and their end."""
        ends = self._request.ends
        if self._theirs:  # both hosts have it in words: the same must be true on both
            ends = (_of("connecting", ends[0]),)
        sides = [self._side(at, cell, facts, acts=not at) for at, facts in enumerate(ends)]
        if self._driver and self._theirs:
            there = self._driver.side(cell, _of("listening", self._theirs))
            sides.append(cast("Side", there))
        pair = CmPair if self._manager else Pair
        made = pair(cell, sides[0], sides[1], self._bounds)
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
                state=CellState.REFUSED,
                stage=pair.stage,
                call=failed.call,
                errno=failed.errno,
                end=EndName.REMOTE if isinstance(failed, PeerCallFailed) else EndName.LOCAL,
            )
        except BadStatus as bad:
            return CellEnded(
                state=CellState.FAILED,
                stage=pair.stage,
                text=str(bad),
                status=bad.status,
                vendor_error=bad.vendor_error,
                end=EndName.LOCAL if bad.side is pair.one else EndName.REMOTE,
            )
        except NotConnected as error:
            return CellEnded(
                state=CellState.FAILED,
                stage=pair.stage,
                text=str(error),
                end=EndName.REMOTE if isinstance(error, PeerNotConnected) else EndName.LOCAL,
            )
        except (Silent, Wrong) as error:
            return CellEnded(state=CellState.FAILED, stage=pair.stage, text=str(error))
        return CellEnded(state=CellState.VERIFIED, stage=Stage.DATA)


_NOT_THERE: Final = "the peer was not started for it"


def _of(role: str, end: End) -> End:
    """Named by its host, too."""
    return replace(end, device=f"{end.device} of the {role} host")


def _failure(result: records.Result) -> PeerFailure:
    """What the peer gets of it."""
    text = result.text or result.outcome.replace("_", " ")
    if result.call:
        text = f"{result.call} failed with errno {result.errno}"
    return PeerFailure(result.stage, text, result.outcome)


def main() -> None:
    """The child's whole life."""
    request, transcript = begin(ExerciseRequest)
    Run(request, transcript, Bounds(sys.stdin.fileno())).run()
    transcript.write(records.Done())


if __name__ == "__main__":
    main()
