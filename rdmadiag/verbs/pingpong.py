"""The program of the child process: one bounded attempt, INIT → RTR → RTS, once.

    python -m rdmadiag.verbs.pingpong

Its request is one line of JSON on stdin, which stays open for as long as the parent lives
(see Request). It answers with one JSON object a line, written before and after each call
on the device, so that the parent knows where it hangs; rdmadiag.verbs.outcome reads them.

    {"call": "ibv_modify_qp", "stage": "rtr", "end": "local", "device": "mlx5_0", "at": 0.18}
    {"errno": 110, "at": 3.2}

No call is made twice, whatever it answers.
"""

import json
import os
import random
import sys
import time
from contextlib import suppress
from ctypes import byref, c_int
from dataclasses import dataclass
from typing import Any, Final

from rdmadiag.facts.ib import QpState
from rdmadiag.facts.pingpong import Outcome, Stage
from rdmadiag.verbs import latency, loop, peer
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.end import BadCompletion, End, Failed, Local, Remote
from rdmadiag.verbs.endpoint import Endpoint, ProtocolError, mismatches, path_mtu, read_endpoint
from rdmadiag.verbs.exchange import Differs, Stalled, timed, verified
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.node import try_node
from rdmadiag.verbs.transcript import Transcript

_ENDS: Final = ("local", "remote")
_LIBRARY: Final = {"compiled": loop.COMPILED, "python": None}
_REACHED: Final = {Stage.RTR: QpState.RTR, Stage.RTS: QpState.RTS}
_REQUEST_LIMIT: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for; as JSON, `ends` are Endpoint.message() and `secret` is hexadecimal."""

    platform: str
    library: str
    start: float  # time.monotonic's clock, from which "at" counts
    deadline: float  # the same clock; what a listener waits for its peer is added
    ends: tuple[Endpoint, ...]  # two: both are held by this process
    meet: str | None  # "listen", "connect"; None with two ends
    host: str
    port: int
    until: float  # a peer that has not come by then does not come
    secret: bytes | None

    @classmethod
    def read(cls, line: bytes) -> "Request":
        """From the parent, which is believed."""
        fields = json.loads(line)
        fields["ends"] = tuple(map(read_endpoint, fields["ends"]))
        fields["secret"] = None if fields["secret"] is None else bytes.fromhex(fields["secret"])
        return cls(**fields)


class _Recorded:
    """Calls of the library, each written down with its stage before and after."""

    def __init__(self, library: Library, transcript: Transcript, end: str) -> None:
        self.stage = Stage.OPEN
        self._library = library
        self._transcript = transcript
        self._end = end

    def __call__(self, name: str, device: str, *arguments: Any) -> Any:
        self._transcript.write(call=name, stage=self.stage, end=self._end, device=device)
        try:
            if name == "ibv_open_device" and sys.platform == "linux":
                try_node(os.fsdecode(arguments[0].contents.dev_name))
            answer = self._library.call(name, *arguments)
        except CallFailed as failed:
            self._transcript.write(errno=failed.errno)
            raise
        self._transcript.write(answer=True)
        return answer


class Attempt:
    """One run, from the first word with the peer to the last object destroyed."""

    def __init__(self, request: Request, transcript: Transcript, bounds: Bounds) -> None:
        self._request = request
        self._transcript = transcript
        self._bounds = bounds
        self._stage = Stage.CONNECT
        self._ends: list[End] = []
        self._peer: peer.Peer | None = None
        self._loop: loop.Loop | None = None
        psns = random.SystemRandom().sample(range(1, 1 << 24), 2)
        self._psns = psns[: len(request.ends)]

    def run(self) -> None:
        """The whole attempt; what came of it is the transcript's "result"."""
        try:
            self._attempt()
        except Exception as error:
            row = self._row(error)
            if row is None:
                raise
            self._transcript.write(**row)
            self._tell(error, row)
        finally:
            self._tear_down()
            if self._peer:
                self._peer.close()
        if self._loop and self._loop.times_ns:
            self._transcript.write(
                latency=latency.summary(self._loop.times_ns),
                loop=self._loop.kind,
                overhead=round(loop.overhead_us(_LIBRARY[self._loop.kind]), 3),
            )

    def _attempt(self) -> None:
        far = self._meet()
        self._bounds.check()
        self._open()
        remotes = self._introduce(far)
        for stage in (Stage.RTR, Stage.RTS):
            self._at(stage)
            for name, end, remote in zip(_ENDS, self._ends, remotes, strict=False):
                if stage is Stage.RTR:
                    end.to_rtr(remote)
                else:
                    end.to_rts()
                self._transcript.write(state=_REACHED[stage], end=name)
                self._bounds.check()
        self._exchange(remotes)

    def _at(self, stage: Stage) -> None:
        self._stage = stage
        self._transcript.write(stage=stage)

    # --- the peer ------------------------------------------------------------------------

    def _meet(self) -> tuple[Endpoint, ...]:
        """The other end of each of ours, once they fit."""
        request = self._request
        if request.meet is None:
            self._bounds.start(request.deadline)
            one, two = request.ends
            self._at(Stage.AGREE)
            found = tuple(
                # Whether a port of this host may be used, its own preflight has decided.
                each
                for each in mismatches(one, two)
                if each.code not in ("port_not_active", "not_permitted")
            )
            if found:
                raise peer.Mismatched(found, ())
            return two, one
        self._at(Stage.CONNECT)
        way = {"listen": peer.listen, "connect": peer.connect}[request.meet]
        began = time.monotonic()
        if request.meet == "connect":
            self._bounds.start(request.deadline)
        self._peer = way(request.host, request.port, request.until, self._bounds, self._heard)
        if request.meet == "listen":
            self._bounds.start(request.deadline + time.monotonic() - began)
        self._peer.introduce(request.secret, request.meet)
        self._at(Stage.AGREE)
        remote = self._peer.agree(request.ends[0])
        self._transcript.write(agreed=remote.message())
        return (remote,)

    def _heard(self, what: str, address: str) -> None:
        self._transcript.write(heard=what, address=address)

    def _introduce(self, far: tuple[Endpoint, ...]) -> list[Remote]:
        """What each RTR needs to know."""
        ours = [(end.queue_pair.number, end.local.psn) for end in self._ends]
        theirs = [self._peer.swap_queue_pairs(*ours[0])] if self._peer else ours[::-1]
        remotes = []
        for near, there, (number, psn) in zip(self._request.ends, far, theirs, strict=True):
            mtu = path_mtu(near, there)
            remotes.append(Remote(number, psn, there.lid, there.gid, mtu))
            self._transcript.write(remote={"number": number, "psn": psn, "mtu": mtu})
        return remotes

    # --- the device ----------------------------------------------------------------------

    def _open(self) -> None:
        """Everything up to INIT, of each end."""
        request = self._request
        self._at(Stage.OPEN)
        self._transcript.write(call="dlopen", stage=Stage.OPEN, end="local", device=None)
        try:
            library = Library(request.library)
        except (OSError, AttributeError) as error:
            self._transcript.write(errno=0)
            device = request.ends[0].device
            raise Failed(Stage.OPEN, "dlopen", device, 0, str(error)) from error
        self._transcript.write(answer=True)
        call = _Recorded(library, self._transcript, "local")
        count = c_int(0)
        try:
            devices = call("ibv_get_device_list", request.ends[0].device, byref(count))
        except CallFailed as failed:
            device = request.ends[0].device
            raise Failed(Stage.OPEN, failed.call, device, failed.errno) from failed
        names = [library.call("ibv_get_device_name", devices[at]) for at in range(count.value)]
        try:
            for name, facts, psn in zip(_ENDS, request.ends, self._psns, strict=False):
                if facts.device.encode() not in names:
                    raise Failed(Stage.OPEN, "ibv_get_device_list", facts.device, 0)
                pointer = devices[names.index(facts.device.encode())]
                local = Local(
                    device=facts.device,
                    port=facts.port,
                    link_layer=facts.link_layer,
                    gid_index=facts.gid_index,
                    qp_type=facts.qp_type,
                    payload=facts.payload_bytes,
                    psn=psn,
                )
                end = End(_Recorded(library, self._transcript, name), pointer, local)
                self._ends.append(end)
                number = end.queue_pair.number
                self._transcript.write(queue_pair=number, psn=psn, end=name)
                self._bounds.check()
        finally:
            with suppress(CallFailed):
                library.call("ibv_free_device_list", devices)
        self._at(Stage.INIT)
        for name, end in zip(_ENDS, self._ends, strict=False):
            end.to_init()
            self._transcript.write(state=QpState.INIT, end=name)

    # --- data ----------------------------------------------------------------------------

    def _exchange(self, remotes: list[Remote]) -> None:
        """Verified, timed, verified again; then both ends know."""
        self._at(Stage.DATA)
        # After RTS (llama.cpp on Thunderbolt), and before the peer may send.
        for end in self._ends:
            end.expect()
        self._barrier("ready")
        # The end that connects, or the first of two on one host, sends first.
        starting = [self._request.meet != "listen", False][: len(self._ends)]
        pairs = list(zip(self._ends, starting, strict=True))
        seed = sum(end.local.psn for end in self._ends)
        seed += remotes[0].psn if self._peer else 0
        verified(pairs, seed, 1, self._glance)
        self._transcript.write(verified=1)
        # What the peer sends next must find this end in its loop, not still polling here.
        self._barrier("verified")
        sides = [end.side(starts=starts) for end, starts in pairs]
        done = timed(sides, self._request.ends[0].iterations, self._glance, self._progress)
        self._progress(done.rounds)
        self._barrier("timed")
        verified(pairs, seed, 2, self._glance)
        self._transcript.write(verified=2)
        self._barrier("done")
        self._transcript.write(result=Outcome.VERIFIED)
        self._loop = done

    def _barrier(self, step: str) -> None:
        if self._peer:
            self._peer.barrier(step)

    def _glance(self) -> None:
        self._bounds.glance()
        if self._peer:
            self._peer.glance()

    def _progress(self, rounds: int) -> None:
        self._transcript.write(rounds=rounds)

    # --- the end -------------------------------------------------------------------------

    def _tell(self, error: Exception, row: dict[str, Any]) -> None:
        """The peer learns what failed here, unless it is the peer that did."""
        if self._peer is None or isinstance(error, peer.PeerLost | peer.PeerFailed):
            return
        text = row.get("text") or row["result"]
        if row.get("call"):
            text = f"{row['call']} failed with errno {row['errno']} on {self._request.platform}"
        elif "status" in row:
            text = f"completion status {row['status']}, vendor error {row['vendor_error']}"
        self._peer.tell_failure(row["stage"], str(text))

    def _row(self, error: BaseException) -> dict[str, Any] | None:
        if isinstance(error, Failed):
            self._stage = error.stage
            return {
                "result": Outcome.CALL_FAILED,
                "call": error.call,
                "errno": error.errno,
                "stage": error.stage,
                "text": error.text,
            }
        if isinstance(error, loop.Stopped):
            return self._stopped(error)
        if isinstance(error, BadCompletion):
            at = [end.local for end in self._ends].index(error.local)
            bad = error.completion
            return self._completion(at, bad.status, bad.vendor_error, receive=bad.is_receive)
        if isinstance(error, Stalled) and self._peer:
            # It may know more than that nothing comes.
            try:
                self._glance()
            except (peer.PeerFailed, peer.PeerLost, ProtocolError, Interrupted, Late) as better:
                return self._row(better)
        for kind, outcome in _OUTCOMES.items():
            if isinstance(error, kind):
                row: dict[str, Any] = {"result": outcome, "text": str(error), "stage": self._stage}
                if isinstance(error, peer.PeerFailed):
                    row |= {"peer_stage": error.stage, "text": error.text}
                if isinstance(error, peer.Mismatched):
                    row["problems"] = [
                        [each.code, each.text] for each in (error.ours or error.theirs)
                    ]
                return row
        return None

    def _stopped(self, error: loop.Stopped) -> dict[str, Any]:
        row: dict[str, Any] = {"stage": Stage.DATA}
        if error.cause is loop.Cause.CALL_FAILED:
            return row | {
                "result": Outcome.CALL_FAILED,
                "call": error.call,
                "errno": error.errno,
            }
        if error.cause is loop.Cause.BAD_COMPLETION and error.status is not None:
            return self._completion(
                error.side, error.status, error.vendor_error, receive=error.is_receive
            )
        text = "a message arrived that was not sent"
        if error.wrong_length is not None:
            expected = self._ends[error.side].local.payload
            text = f"{error.wrong_length} bytes arrived, {expected} were sent"
        return row | {"result": Outcome.DATA_MISMATCH, "text": text}

    def _completion(
        self, at: int, status: int, vendor_error: int, *, receive: bool
    ) -> dict[str, Any]:
        name, end = _ENDS[at], self._ends[at]
        if sys.platform == "linux":
            with suppress(CallFailed):
                self._transcript.write(state=end.queue_pair.state(), end=name)
        return {
            "result": Outcome.COMPLETION_ERROR,
            "stage": Stage.DATA,
            "end": name,
            "status": status,
            "vendor_error": vendor_error,
            "receive": receive,
        }

    def _tear_down(self) -> None:
        """Each in reverse order of making; what refuses is in the transcript."""
        self._transcript.write(stage=Stage.TEARDOWN)
        for end in reversed(self._ends):
            with suppress(Failed):
                end.close()


_OUTCOMES: Final[dict[type[BaseException], Outcome]] = {
    peer.NoPeer: Outcome.NO_PEER,
    ProtocolError: Outcome.PEER_REFUSED,
    peer.Mismatched: Outcome.MISMATCH,
    peer.PeerFailed: Outcome.PEER_FAILED,
    peer.PeerLost: Outcome.PEER_LOST,
    Differs: Outcome.DATA_MISMATCH,
    Stalled: Outcome.NO_DATA,
    Late: Outcome.LATE,
    Interrupted: Outcome.INTERRUPTED,
}


def main() -> None:
    """The child's whole life."""
    request = Request.read(sys.stdin.buffer.readline(_REQUEST_LIMIT))
    # A provider that prints on stdout must not break our lines.
    transcript = Transcript(os.dup(1), request.start)
    os.dup2(2, 1)
    Attempt(request, transcript, Bounds(sys.stdin.fileno())).run()
    transcript.write(done=True)


if __name__ == "__main__":
    main()
