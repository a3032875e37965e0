"""The program of the child process of `pingpong --cm`: one connection by librdmacm, once.

    python -m rdmadiag.verbs.cm_child

A records.CmRequest stands on stdin, which stays open for as long as the parent lives. On stdout
it writes the other records; rdmadiag.verbs.outcome reads them. No call is made twice, whatever
it answers.
"""

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts.attempt import BadCompletion, Outcome, Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.verbs import cm_protocol, loop, open_end, records
from rdmadiag.verbs.abi import FLUSHED
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.child_start import begin
from rdmadiag.verbs.cm_data import exchange
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_events import EventFailed
from rdmadiag.verbs.cm_group import introduce, join_both, meet_in_group
from rdmadiag.verbs.cm_meeting import Listening, Side
from rdmadiag.verbs.cm_objects import Identifier
from rdmadiag.verbs.cm_outcome import result_of, wrong_data
from rdmadiag.verbs.cm_protocol import Hello, Refusal
from rdmadiag.verbs.cm_steps import Steps
from rdmadiag.verbs.cm_talk import Talk
from rdmadiag.verbs.cm_ud import UdEnd
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.open_end import Failed
from rdmadiag.verbs.protocol import NONCE_BYTES, ProtocolError, read_end
from rdmadiag.verbs.protocol import memory as read_memory
from rdmadiag.verbs.records import CmRequest, EndName, Record, Result
from rdmadiag.verbs.transcript import Transcript

ESTABLISH_SECONDS: Final = 20.0
"""From a request to ESTABLISHED: each datagram of the connection manager that is lost costs 4.3 s
(CMA_CM_RESPONSE_TIMEOUT, core/cma.c)."""

DISCONNECT_SECONDS: Final = 5.0

_ATTACH_SECONDS: Final = 0.1
"""Until the end that accepts reads its socket: siw_accept (drivers/infiniband/sw/siw/siw_cm.c)
attaches the queue pair after its reply has left, and what arrives between wakes nobody."""

_EVENT_SECONDS: Final = 0.3  # for the event of what has flushed the requests


class Attempt:
    """One run, from the event channel to the last object destroyed."""

    def __init__(self, request: CmRequest, transcript: Transcript, bounds: Bounds) -> None:
        self._request = request
        self._transcript = transcript
        self._bounds = bounds
        self._steps = Steps(request, transcript, bounds)
        self._talk: Talk | None = None  # None: both ends are here
        self._figures: Iterable[Record] = ()

    def run(self) -> None:
        """The whole attempt; what came of it is the records.Result that it writes."""
        try:
            self._attempt()
        except Exception as error:
            result = self._result(error)
            if result is None:
                raise
            self._transcript.write(result)
        finally:
            self._steps.tear_down()
        for each in self._figures:
            self._transcript.write(each)

    def _attempt(self) -> None:
        if self._request.meet != "listen":
            self._bounds.start(self._request.deadline)
        self._steps.open()
        if self._request.meet is None and self._request.group:
            join_both(self._steps, self._request.group)
            self._seed = int.from_bytes(os.urandom(8), "big")
        elif self._request.meet is None:
            self._one_host()
        elif self._request.meet == "listen":
            self._wait_for_peer()
        else:
            self._go_to_peer()
        payloads = exchange(self._steps, self._talk, self._seed)
        self._disconnect()
        self._transcript.write(Result(outcome=Outcome.VERIFIED, stage=Stage.DONE))
        self._figures = payloads.figures()

    # --- the way to ESTABLISHED ----------------------------------------------------------

    def _hello(self) -> Hello:
        with_secret = self._request.secret is not None
        return Hello.of(self._request.ends[0], os.urandom(NONCE_BYTES), with_secret=with_secret)

    def _one_host(self) -> None:
        """Both ends: the local one goes to the remote one."""
        steps = self._steps
        hello, nonce = self._hello(), os.urandom(NONCE_BYTES)
        listener = steps.bind(steps.remote, EndName.REMOTE, self._request.addresses[1], 0)
        host, port = self._request.addresses[1], int(listener.own.rpartition(":")[2])
        local = steps.resolve(steps.local, host, port)
        steps.begin(Stage.ESTABLISH)
        steps.do(Stage.ESTABLISH, lambda: local.identifier.connect(hello.encode()))
        waiting = Side(EndName.REMOTE, listener)
        remote = self._requested(waiting, hello, local.identifier)
        steps.sides.append(remote)
        Side.check(remote.identifier, self._request.ends[1])
        remote.end = steps.end(steps.remote, remote.identifier, self._request.ends[1])
        steps.begin(Stage.ESTABLISH)
        answer = cm_protocol.answer(nonce, with_secret=hello.with_secret)
        steps.do(Stage.ESTABLISH, lambda: remote.identifier.accept(answer))
        both = [local.identifier, remote.identifier]
        came = steps.wait(local, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS, both[1:])
        if cm_protocol.read_answer(came.private_data, hello) != nonce:
            raise ProtocolError("the private data of the answer did not arrive as it was sent")
        if isinstance(local.end, UdEnd) and isinstance(remote.end, UdEnd):
            introduce(steps, local.end, remote.end, came.datagrams)
        else:
            steps.wait(remote, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS, both[:1])
        self._seed = cm_protocol.seed(hello, nonce)
        assert local.end
        if local.end.facts.op is not DataOp.SEND:
            local.end.aim(*remote.end.exposed)
            remote.end.aim(*local.end.exposed)
        for side in steps.sides:
            steps.show(side, steps.attributes(side))

    def _requested(self, listening: Side, hello: Hello, other: Identifier) -> Side:
        """The request of our own other end; whoever else comes is rejected."""
        steps = self._steps
        while True:
            event = steps.wait(
                listening, Stage.ESTABLISH, CmEvent.CONNECT_REQUEST, ESTABLISH_SECONDS, [other]
            )
            side = Side.of_request(steps.remote, self._transcript.write, EndName.REMOTE, event)
            if cm_protocol.read_hello(event.private_data) == hello:
                return side
            with suppress(CallFailed):
                side.identifier.reject(cm_protocol.rejection(Refusal.NO_HELLO))
            with suppress(CallFailed):
                side.close()

    def _go_to_peer(self) -> None:
        steps, request, hello = self._steps, self._request, self._hello()
        side = steps.resolve(steps.local, request.host, request.port)
        assert side.end
        steps.begin(Stage.ESTABLISH)
        steps.do(Stage.ESTABLISH, lambda: side.identifier.connect(hello.encode()))
        came = steps.wait(side, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS)
        if isinstance(side.end, UdEnd):
            side.end.address(came.datagrams)
            side.end.receive_from(came.datagrams)
        steps.show(side, steps.attributes(side))
        self._transcript.write(records.Connected(address=side.identifier.peer))
        nonce = cm_protocol.read_answer(came.private_data, hello)
        steps.begin(Stage.AGREE)
        talk = Talk(side.end, self._bounds, steps.glance, steps.events.fd, "connect")
        talk.prove(self._secret, hello, nonce)
        self._talk = talk
        if side.identifier.is_iwarp:
            self._bounds.ready([], time.monotonic() + _ATTACH_SECONDS)
        talk.send("endpoint", group=request.group, **_endpoint(side.end))
        answer = talk.receive("endpoint")
        self._agreed(side.end, answer)
        self._seed = cm_protocol.seed(hello, nonce)
        meet_in_group(steps, talk, answer.get("group"))

    def _wait_for_peer(self) -> None:
        steps, request = self._steps, self._request
        listener = steps.bind(steps.local, EndName.LOCAL, request.host, request.port)
        self._transcript.write(records.Listening(address=listener.own))
        met = Listening(
            steps.library,
            self._transcript,
            steps.events,
            self._bounds,
            request,
            self._hello(),
            self._secret,
        ).meet(listener)
        steps.sides.append(met.side)
        self._talk = met.talk
        self._bounds.start(request.deadline + met.waited)
        self._transcript.write(records.Connected(address=met.side.identifier.peer))
        steps.show(met.side, met.attributes)
        steps.begin(Stage.AGREE)
        assert met.side.end
        self._agreed(met.side.end, met.endpoint)
        met.talk.glance = steps.glance
        theirs = met.endpoint.get("group")
        met.talk.send("endpoint", group=request.group, **_endpoint(met.side.end))
        self._seed = met.seed
        meet_in_group(steps, met.talk, theirs)

    @property
    def _secret(self) -> bytes | None:
        return None if self._request.secret is None else bytes.fromhex(self._request.secret)

    def _agreed(self, end: CmEnd, message: dict[str, Any]) -> None:
        facts = message.get("endpoint")
        if not isinstance(facts, dict):
            raise ProtocolError("the peer's endpoint is no object")
        self._transcript.write(records.Agreed(remote=read_end(facts)))
        if end.facts.op is not DataOp.SEND:
            memory = message.get("memory")
            end.aim(*read_memory(memory if isinstance(memory, dict) else {}))

    # --- the end -------------------------------------------------------------------------

    def _disconnect(self) -> None:
        """The end that connected goes first; each waits for its DISCONNECTED.

        Datagrams have no connection, and no event says that the other end has gone.
        """
        if self._request.ends[0].qp_type is QpType.UD:
            return
        steps = self._steps
        steps.begin(Stage.DISCONNECT)
        sides = steps.sides if self._request.meet != "listen" else steps.sides[::-1]
        first = sides[0]
        if self._request.meet != "listen":
            assert first.end
            first.end.disconnect()
            sides = sides[1:]
        for side in sides:
            steps.wait(side, Stage.DISCONNECT, CmEvent.DISCONNECTED, DISCONNECT_SECONDS)
            assert side.end
            with suppress(Failed):  # on iWARP there may be nothing left to answer
                side.end.disconnect()
        if self._request.meet != "listen":
            steps.wait(first, Stage.DISCONNECT, CmEvent.DISCONNECTED, DISCONNECT_SECONDS)

    def _result(self, error: BaseException) -> Result | None:
        """What this error is of an attempt; None for a bug of ours."""
        found = self._outcome(error)
        if found is None or self._request.meet is None or self._steps.stage is not Stage.DATA:
            return found
        moving = self._steps.members or self._steps.sides
        arrivals = [side.end.arrivals for side in moving if side.end]
        return replace(found, arrived=arrivals[0] if arrivals else None)

    def _outcome(self, error: BaseException) -> Result | None:
        if isinstance(error, Failed):
            self._steps.stage = error.stage
        if isinstance(error, open_end.BadCompletion):
            return self._completion(error)
        if isinstance(error, loop.Stopped):
            return self._stopped(error)
        return result_of(error, self._steps.stage)

    def _completion(self, error: open_end.BadCompletion) -> Result:
        bad = error.completion
        every = (*self._steps.sides, *self._steps.members)
        name = next(each.name for each in every if each.end is error.end)
        return self._unless_event(name, bad.status, bad.vendor_error, receive=bad.is_receive)

    def _stopped(self, error: loop.Stopped) -> Result:
        if error.cause is loop.Cause.CALL_FAILED:
            call, number = error.call, error.errno
            return Result(outcome=Outcome.CALL_FAILED, stage=Stage.DATA, call=call, errno=number)
        if error.cause is loop.Cause.BAD_COMPLETION and error.status is not None:
            return self._unless_event(
                self._steps.sides[error.end].name,
                error.status,
                error.vendor_error,
                receive=error.is_receive,
            )
        return wrong_data(error, self._request.ends[0].payload_bytes)

    def _unless_event(self, end: EndName, status: int, vendor: int, *, receive: bool) -> Result:
        """A flushed request is what a disconnection leaves: where there is one, it says more.

        The kernel hands the event out by a work queue, a moment after the flush
        (cm_close_handler, drivers/infiniband/core/iwcm.c).
        """
        until = time.monotonic() + (_EVENT_SECONDS if status == FLUSHED else 0.0)
        with suppress(Interrupted, Late):
            try:
                self._steps.glance()
                while time.monotonic() < until:
                    self._bounds.ready([self._steps.events.fd], until)
                    self._steps.glance()
            except EventFailed as better:
                return Result(outcome=Outcome.CM_EVENT, stage=better.stage)
        return Result(
            outcome=Outcome.COMPLETION_ERROR,
            stage=self._steps.stage,
            completion=BadCompletion(end, status, vendor, receive),
        )


def _endpoint(end: CmEnd) -> dict[str, Any]:
    """What the other end must know of this one."""
    found: dict[str, Any] = {"endpoint": end.facts.message()}
    if end.facts.op is not DataOp.SEND:
        found["memory"] = dict(zip(("address", "rkey"), end.exposed, strict=True))
    return found


def main() -> None:
    """The child's whole life."""
    request, transcript = begin(CmRequest)
    Attempt(request, transcript, Bounds(sys.stdin.fileno())).run()
    transcript.write(records.Done())


if __name__ == "__main__":
    main()
