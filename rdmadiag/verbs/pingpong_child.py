"""The program of the child process: one bounded attempt, INIT → RTR → RTS, once.

    python -m rdmadiag.verbs.pingpong_child

A records.Request stands on stdin, which stays open for as long as the parent lives. On
stdout it writes the other records; rdmadiag.verbs.outcome reads them. No call is made
twice, whatever it answers.
"""

import random
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from ctypes import byref, c_int
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts.attempt import BadCompletion, Outcome, PeerFailure, Stage
from rdmadiag.facts.ib import DataOp, QpState
from rdmadiag.verbs import loop, meeting, open_end, peer, records
from rdmadiag.verbs.async_events import AsyncEvents
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.bringup import RemoteQueuePair
from rdmadiag.verbs.child_start import begin
from rdmadiag.verbs.exchange import Differs, Stalled
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.open_end import Failed, OpenEnd
from rdmadiag.verbs.parting import ended_by
from rdmadiag.verbs.payloads import Payloads
from rdmadiag.verbs.protocol import End, ProtocolError, mismatches, path_mtu
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import EndName, Record, Request, Result
from rdmadiag.verbs.transcript import Transcript

_EVENTS_SECONDS: Final = 0.3  # the kernel hands out a port's event by a work queue: after the
# completion that failed because of it


class Attempt:
    """One run, from the first word with the peer to the last object destroyed."""

    def __init__(self, request: Request, transcript: Transcript, bounds: Bounds) -> None:
        self._request = request
        self._transcript = transcript
        self._bounds = bounds
        self._stage = Stage.CONNECT
        self._ends: list[OpenEnd] = []
        self._events: list[AsyncEvents] = []
        self._peer: peer.Peer | None = None
        self._payloads: Payloads | None = None
        self._figures: Iterable[Record] = ()
        psns = random.SystemRandom().sample(range(1, 1 << 24), 2)
        self._psns = psns[: len(request.ends)]

    def run(self) -> None:
        """The whole attempt; what came of it is the records.Result that it writes."""
        try:
            self._attempt()
        except Exception as error:
            result = self._result(error)
            if result is None:
                raise
            self._transcript.write(result)
            if self._peer and not isinstance(error, peer.PeerLost):
                self._part(self._peer, error, result)
        finally:
            self._tear_down()
            if self._peer:
                self._peer.close()
        for each in self._figures:
            self._transcript.write(each)

    def _attempt(self) -> None:
        remote_ends = self._meet()
        self._bounds.check()
        self._open()
        remotes = self._introduce(remote_ends)
        self._begin(Stage.RTR)
        for name, end, remote in zip(EndName, self._ends, remotes, strict=False):
            end.to_rtr(remote)
            self._reached(name, QpState.RTR)
        self._begin(Stage.RTS)
        for name, end in zip(EndName, self._ends, strict=False):
            end.to_rts()
            self._reached(name, QpState.RTS)
        self._exchange(remotes)

    def _begin(self, stage: Stage) -> None:
        self._take_events()
        self._stage = stage
        self._transcript.write(records.StageBegan(stage=stage))

    def _reached(self, name: EndName, state: QpState) -> None:
        self._transcript.write(records.StateReached(end=name, state=state))
        self._bounds.check()

    def _take_events(self, seconds: float = 0.0) -> None:
        """The asynchronous events go to the transcript; `seconds` are those of all ends."""
        for each in self._events:
            each.drain(seconds / len(self._events))

    # --- the peer ------------------------------------------------------------------------

    def _meet(self) -> tuple[End, ...]:
        """The other end of each of ours, once they fit."""
        request = self._request
        if request.meet is None:
            self._bounds.start(request.deadline)
            one, other = request.ends
            self._begin(Stage.AGREE)
            found = tuple(
                # Whether a port of this host may be used, its own preflight has decided.
                each
                for each in mismatches(one, other)
                if each.code not in ("port_not_active", "not_permitted")
            )
            if found:
                raise peer.Mismatched(found, ())
            return other, one
        self._begin(Stage.CONNECT)
        secret = None if request.secret is None else bytes.fromhex(request.secret)
        where = request.host, request.port, request.until, self._bounds, self._transcript.write
        remote: End | None = None
        if request.meet == "listen":
            began = time.monotonic()
            self._peer, remote = meeting.listen(*where, secret)
            self._bounds.start(request.deadline + time.monotonic() - began)
        else:
            self._bounds.start(request.deadline)
            self._peer = meeting.connect(*where)
            self._peer.introduce(secret)
        self._begin(Stage.AGREE)
        agreed = self._peer.agree(request.ends[0], remote)
        self._transcript.write(records.Agreed(remote=agreed))
        return (agreed,)

    def _introduce(self, remote_ends: tuple[End, ...]) -> list[RemoteQueuePair]:
        """What each RTR needs to know."""
        ours = [(end.queue_pair.number, end.psn) for end in self._ends]
        theirs = [self._peer.swap_queue_pairs(*ours[0])] if self._peer else ours[::-1]
        remotes = []
        for local, remote, (number, psn) in zip(
            self._request.ends, remote_ends, theirs, strict=True
        ):
            mtu = path_mtu(local, remote)
            remotes.append(RemoteQueuePair(number, psn, remote.lid, remote.gid, mtu))
            self._transcript.write(records.Path(queue_pair=number, psn=psn, mtu=mtu))
        self._aim()
        return remotes

    def _aim(self) -> None:
        """Each end at the memory of the other one."""
        if self._request.ends[0].op is DataOp.SEND:
            return
        exposed = [end.exposed for end in self._ends]
        theirs = [self._peer.swap_memory(*exposed[0])] if self._peer else exposed[::-1]
        for end, at in zip(self._ends, theirs, strict=True):
            end.aim(*at)

    # --- the device ----------------------------------------------------------------------

    def _open(self) -> None:
        """Everything up to INIT, of each end."""
        ends = self._request.ends
        self._begin(Stage.OPEN)
        library = self._load()
        call = RecordedCaller(library, self._transcript, EndName.LOCAL)
        count = c_int(0)
        try:
            devices = call("ibv_get_device_list", ends[0].device, byref(count))
        except CallFailed as failed:
            raise Failed(Stage.OPEN, failed.call, ends[0].device, failed.errno) from failed
        names = [library.call("ibv_get_device_name", devices[at]) for at in range(count.value)]
        try:
            for name, facts, psn in zip(EndName, ends, self._psns, strict=False):
                if facts.device.encode() not in names:
                    raise Failed(Stage.OPEN, "ibv_get_device_list", facts.device, 0)
                pointer = devices[names.index(facts.device.encode())]
                recorded = RecordedCaller(library, self._transcript, name)
                end = OpenEnd(
                    recorded,
                    pointer,
                    facts,
                    psn,
                    self._request.sizes,
                    events=self._request.events,
                )
                self._ends.append(end)
                self._events.append(AsyncEvents(end.context, name, self._transcript.write))
                number = end.queue_pair.number
                self._transcript.write(records.QueuePairMade(end=name, queue_pair=number, psn=psn))
                self._bounds.check()
        finally:
            with suppress(CallFailed):
                library.call("ibv_free_device_list", devices)
        self._begin(Stage.INIT)
        for name, end in zip(EndName, self._ends, strict=False):
            end.to_init(self._request.pkey_index)
            self._transcript.write(records.StateReached(end=name, state=QpState.INIT))

    def _load(self) -> Library:
        """It runs the library's own code, which can crash or hang like any call."""
        write = self._transcript.write
        write(records.Step(call="dlopen", stage=Stage.OPEN, end=EndName.LOCAL))
        try:
            library = Library(self._request.library)
        except (OSError, AttributeError) as error:
            write(records.Failed(errno=0))
            device = self._request.ends[0].device
            raise Failed(Stage.OPEN, "dlopen", device, 0, str(error)) from error
        write(records.Returned())
        return library

    # --- data ----------------------------------------------------------------------------

    def _exchange(self, remotes: list[RemoteQueuePair]) -> None:
        """Verified, timed, verified again; then both ends know."""
        self._begin(Stage.DATA)
        # After RTS (llama.cpp on Thunderbolt), and before the peer may send.
        for end in self._ends:
            end.ask()
            end.expect()
        self._barrier("ready")
        # The end that connects, or the local one of two on one host, sends first.
        starting = [self._request.meet != "listen", False][: len(self._ends)]
        ends = list(zip(self._ends, starting, strict=True))
        seed = sum(end.psn for end in self._ends)
        seed += remotes[0].psn if self._peer else 0
        self._payloads = payloads = Payloads(
            ends, seed, self._request.sizes, self._transcript.write, self._glance, self._barrier
        )
        payloads.move()
        payloads.move_last()
        self._barrier("done")
        self._transcript.write(Result(outcome=Outcome.VERIFIED, stage=Stage.DONE))
        self._figures = payloads.figures()

    def _barrier(self, step: str, **content: Any) -> dict[str, Any]:
        return self._peer.barrier(step, **content) if self._peer else {}

    def _glance(self) -> None:
        self._bounds.glance()
        self._take_events()
        if self._peer:
            self._peer.glance()

    # --- the end -------------------------------------------------------------------------

    def _part(self, other: peer.Peer, error: Exception, result: Result) -> None:
        """Each end says how it ended; of data that did not arrive it is one finding of two."""
        text = result.text or _WORDS.get(result.outcome, result.outcome)
        if result.call:
            text = f"{result.call} failed with errno {result.errno} on {self._request.platform}"
        elif result.completion:
            bad = result.completion
            text = f"completion status {bad.status}, vendor error {bad.vendor_error}"
        status = result.completion.status if result.completion else None
        other.send_failure(PeerFailure(result.stage, text, result.outcome, status, result.arrived))
        if result.arrived is None or isinstance(error, peer.PeerFailed | Interrupted):
            return
        if said := other.farewell():
            self._transcript.write(records.Farewell(peer_failure=said))

    def _arrived(self) -> int | None:
        """Messages of the peer."""
        if self._peer is None or self._stage is not Stage.DATA:
            return None
        return self._ends[0].arrivals + (self._payloads.rounds if self._payloads else 0)

    def _result(self, error: BaseException) -> Result | None:
        """What this error is of an attempt; None for a bug of ours."""
        found = self._outcome(error)
        return found and replace(found, arrived=self._arrived())

    def _outcome(self, error: BaseException) -> Result | None:
        if isinstance(error, Failed):
            self._stage = error.stage
            return Result(
                outcome=Outcome.CALL_FAILED,
                stage=error.stage,
                text=error.text,
                call=error.call,
                errno=error.errno,
            )
        if isinstance(error, loop.Stopped):
            return self._stopped(error)
        if isinstance(error, open_end.BadCompletion):
            bad = error.completion
            at = self._ends.index(error.end)
            return self._completion(at, bad.status, bad.vendor_error, receive=bad.is_receive)
        if isinstance(error, Stalled) and self._peer:
            # It may know more than that nothing comes.
            try:
                self._glance()
            except (peer.PeerFailed, peer.PeerLost, ProtocolError, Interrupted, Late) as better:
                return self._outcome(better)
        for kind, outcome in _OUTCOMES.items():
            if isinstance(error, kind):
                return Result(outcome=outcome, stage=self._stage, text=str(error))
        return ended_by(error, self._stage)

    def _stopped(self, error: loop.Stopped) -> Result:
        if error.cause is loop.Cause.CALL_FAILED:
            return Result(
                outcome=Outcome.CALL_FAILED,
                stage=Stage.DATA,
                call=error.call,
                errno=error.errno,
            )
        if error.cause is loop.Cause.BAD_COMPLETION and error.status is not None:
            return self._completion(
                error.end, error.status, error.vendor_error, receive=error.is_receive
            )
        text = "a message arrived that was not sent"
        if error.wrong_length is not None:
            expected = self._ends[error.end].facts.payload_bytes
            text = f"{error.wrong_length} bytes arrived, {expected} were sent"
        return Result(outcome=Outcome.DATA_MISMATCH, stage=Stage.DATA, text=text)

    def _completion(self, at: int, status: int, vendor_error: int, *, receive: bool) -> Result:
        name, end = list(EndName)[at], self._ends[at]
        if sys.platform == "linux":
            with suppress(CallFailed):
                state = end.queue_pair.state()
                self._transcript.write(records.StateReached(end=name, state=state))
        self._take_events(_EVENTS_SECONDS)
        return Result(
            outcome=Outcome.COMPLETION_ERROR,
            stage=Stage.DATA,
            completion=BadCompletion(name, status, vendor_error, receive),
        )

    def _tear_down(self) -> None:
        """The end that was opened last first; what refuses is in the transcript."""
        self._take_events()
        self._transcript.write(records.StageBegan(stage=Stage.TEARDOWN))
        for end in reversed(self._ends):
            with suppress(Failed):
                end.close()


_OUTCOMES: Final[dict[type[BaseException], Outcome]] = {
    Differs: Outcome.DATA_MISMATCH,
    Stalled: Outcome.NO_DATA,
}


_WORDS: Final = {
    Outcome.NO_DATA: "nothing arrived any more",
    Outcome.LATE: "its deadline came",
}


def main() -> None:
    """The child's whole life."""
    request, transcript = begin(Request)
    Attempt(request, transcript, Bounds(sys.stdin.fileno())).run()
    transcript.write(records.Done())


if __name__ == "__main__":
    main()
