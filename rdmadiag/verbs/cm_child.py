"""The program of the child process of `pingpong --cm`: one connection by librdmacm, once.

    python -m rdmadiag.verbs.cm_child

A records.CmRequest stands on stdin, which stays open for as long as the parent lives. On stdout
it writes the other records; rdmadiag.verbs.outcome reads them. No call is made twice, whatever
it answers.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts.attempt import BadCompletion, Latency, Outcome, Problem, Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.ib import MTU_BYTES, QpState, QpType
from rdmadiag.verbs import cm_protocol, latency, loop, open_end, records
from rdmadiag.verbs.abi import FLUSHED, IbvQpAttr
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_events import EventFailed, Events, NoEvent
from rdmadiag.verbs.cm_lib import Libraries
from rdmadiag.verbs.cm_meeting import AnotherDevice, Listening, Nobody, Side
from rdmadiag.verbs.cm_objects import AddressInfo, EventChannel, Identifier
from rdmadiag.verbs.cm_protocol import Hello, Refusal
from rdmadiag.verbs.cm_talk import Talk
from rdmadiag.verbs.exchange import (
    SMALL_BYTES,
    STALL_SECONDS,
    Differs,
    Stalled,
    timed,
    untimed,
    verified,
)
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.open_end import Failed
from rdmadiag.verbs.protocol import NONCE_BYTES, ProtocolError, read_end
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import CmRequest, EndName, Malformed, Result
from rdmadiag.verbs.transcript import Transcript

_REQUEST_LIMIT: Final = 1 << 18  # bytes

RESOLVE_MILLISECONDS: Final = 3000
"""That librdmacm is given for an address, and for a route."""

RESOLVE_SECONDS: Final = 8.0
"""For the event: the kernel looks at its own limit when a neighbour has not answered, and that
takes 3 s more."""

ESTABLISH_SECONDS: Final = 20.0
"""From a request to ESTABLISHED: each datagram of the connection manager that is lost costs 4.3 s
(CMA_CM_RESPONSE_TIMEOUT, core/cma.c)."""

DISCONNECT_SECONDS: Final = 5.0

_BACKLOG: Final = 8
_EVENT_SECONDS: Final = 0.3  # for the event of what has flushed the requests
_SLICE_SECONDS: Final = 0.002  # between two looks at the queues


class Attempt:
    """One run, from the event channel to the last object destroyed."""

    def __init__(self, request: CmRequest, transcript: Transcript, bounds: Bounds) -> None:
        self._request = request
        self._transcript = transcript
        self._bounds = bounds
        self._stage = Stage.EVENT_CHANNEL
        self._sides: list[Side] = []
        self._channel: EventChannel | None = None
        self._listener: Identifier | None = None
        self._compiled = loop.compiled()
        self._times_ns: list[int] = []
        self._talk: Talk | None = None  # None: both ends are here
        self._rounds = 0

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
            self._tear_down()
        if self._times_ns:
            end = self._request.ends[0]
            figures = Latency(
                **latency.summary(self._times_ns),
                iterations=end.iterations,
                bytes=end.payload_bytes,
                loop="compiled",
                overhead=round(loop.overhead_us(self._compiled), 3),
            )
            self._transcript.write(records.Timed(latency=figures))

    def _attempt(self) -> None:
        if self._request.meet != "listen":
            self._bounds.start(self._request.deadline)
        self._open()
        if self._request.meet is None:
            self._one_host()
        elif self._request.meet == "listen":
            self._wait_for_peer()
        else:
            self._go_to_peer()
        self._exchange()
        self._disconnect()
        self._transcript.write(Result(outcome=Outcome.VERIFIED, stage=Stage.DONE))

    def _begin(self, stage: Stage) -> None:
        self._stage = stage
        self._local.stage = self._remote.stage = stage
        self._transcript.write(records.StageBegan(stage=stage))

    # --- librdmacm -----------------------------------------------------------------------

    def _open(self) -> None:
        """Both libraries and the event channel."""
        write = self._transcript.write
        write(records.StageBegan(stage=Stage.EVENT_CHANNEL))
        self._try_node()
        write(records.Step(call="dlopen", stage=Stage.EVENT_CHANNEL, end=EndName.LOCAL))
        try:
            library = Libraries(self._request.library, self._request.cm_library)
        except (OSError, AttributeError) as error:
            write(records.Failed(errno=0))
            raise Failed(Stage.EVENT_CHANNEL, "dlopen", "", 0, str(error)) from error
        write(records.Returned())
        self._library = library
        self._local = RecordedCaller(library, self._transcript, EndName.LOCAL)
        self._remote = RecordedCaller(library, self._transcript, EndName.REMOTE)
        self._local.stage = Stage.EVENT_CHANNEL
        self._channel = self._do(Stage.EVENT_CHANNEL, lambda: EventChannel(self._local))
        self._events = Events(self._channel, library.call, self._bounds, write)

    def _try_node(self) -> None:
        """librdmacm asks the kernel for this node in a way that loads rdma_ucm: never let it."""
        call = f"open {self._request.node}"
        self._transcript.write(
            records.Step(call=call, stage=Stage.EVENT_CHANNEL, end=EndName.LOCAL)
        )
        try:
            os.close(os.open(self._request.node, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            number = error.errno or 0
            self._transcript.write(records.Failed(errno=number))
            raise Failed(Stage.EVENT_CHANNEL, call, "", number) from error
        self._transcript.write(records.Returned())

    def _do(self, stage: Stage, make: Any) -> Any:
        try:
            return make()
        except CallFailed as failed:
            device = self._request.ends[0].device
            raise Failed(stage, failed.call, device, failed.errno) from failed

    # --- the way to ESTABLISHED ----------------------------------------------------------

    def _hello(self) -> Hello:
        end = self._request.ends[0]
        with_secret = self._request.secret is not None
        nonce = os.urandom(NONCE_BYTES)
        return Hello(with_secret, end.qp_type, end.payload_bytes, end.iterations, nonce)

    def _bind(self, caller: RecordedCaller, name: EndName, address: str, port: int) -> Identifier:
        """What listens at that address."""
        kind = self._request.ends[-1].qp_type
        self._begin(Stage.BIND)
        made: Identifier = self._do(
            Stage.BIND, lambda: Identifier.create(caller, self._open_channel, kind)
        )
        self._listener = made
        info = self._do(Stage.BIND, lambda: AddressInfo(caller, address, port, kind, passive=True))
        try:
            self._do(Stage.BIND, lambda: made.bind(info))
        finally:
            info.close()
        Side.check(made, self._request.ends[-1])
        self._begin(Stage.LISTEN)
        self._do(Stage.LISTEN, lambda: made.listen(_BACKLOG))
        return made

    @property
    def _open_channel(self) -> EventChannel:
        assert self._channel
        return self._channel

    def _resolve(self, caller: RecordedCaller, host: str, port: int) -> Side:
        """This end up to its queue pair: source, address, route."""
        end = self._request.ends[0]
        kind = end.qp_type
        self._begin(Stage.RESOLVE_ADDRESS)
        identifier = self._do(
            Stage.RESOLVE_ADDRESS, lambda: Identifier.create(caller, self._open_channel, kind)
        )
        side = Side(EndName.LOCAL, identifier)
        self._sides.append(side)
        infos: list[AddressInfo] = []

        def address(*arguments: Any, **more: Any) -> AddressInfo:
            infos.append(AddressInfo(caller, *arguments, **more))
            return infos[-1]

        try:
            source = None
            if own := self._request.addresses[0]:
                source = self._do(
                    Stage.RESOLVE_ADDRESS, lambda: address(own, 0, kind, passive=True)
                )
            target = self._do(
                Stage.RESOLVE_ADDRESS, lambda: address(host, port, kind, source=source)
            )
            self._do(
                Stage.RESOLVE_ADDRESS,
                lambda: identifier.resolve_address(target, RESOLVE_MILLISECONDS),
            )
        finally:
            for each in infos:
                each.close()
        self._await(side, Stage.RESOLVE_ADDRESS, CmEvent.ADDR_RESOLVED, RESOLVE_SECONDS)
        Side.check(identifier, end)
        self._begin(Stage.RESOLVE_ROUTE)
        self._do(Stage.RESOLVE_ROUTE, lambda: identifier.resolve_route(RESOLVE_MILLISECONDS))
        self._await(side, Stage.RESOLVE_ROUTE, CmEvent.ROUTE_RESOLVED, RESOLVE_SECONDS)
        side.end = CmEnd(caller, identifier, end)
        return side

    def _await(
        self,
        side: Side,
        stage: Stage,
        awaited: CmEvent,
        seconds: float,
        watched: Sequence[Identifier] = (),
    ) -> Any:
        return self._events.wait(side.identifier, side.name, stage, awaited, seconds, watched)

    def _one_host(self) -> None:
        """Both ends: the local one goes to the remote one."""
        hello, nonce = self._hello(), os.urandom(NONCE_BYTES)
        listener = self._bind(self._remote, EndName.REMOTE, self._request.addresses[1], 0)
        host, port = self._request.addresses[1], int(listener.own.rpartition(":")[2])
        local = self._resolve(self._local, host, port)
        self._begin(Stage.ESTABLISH)
        self._do(Stage.ESTABLISH, lambda: local.identifier.connect(hello.encode()))
        waiting = Side(EndName.REMOTE, listener)
        remote = self._requested(waiting, hello, local.identifier)
        self._sides.append(remote)
        Side.check(remote.identifier, self._request.ends[1])
        remote.end = CmEnd(self._remote, remote.identifier, self._request.ends[1])
        self._begin(Stage.ESTABLISH)
        answer = cm_protocol.answer(nonce, with_secret=hello.with_secret)
        self._do(Stage.ESTABLISH, lambda: remote.identifier.accept(answer))
        both = [local.identifier, remote.identifier]
        came = self._await(local, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS, both[1:])
        if cm_protocol.read_answer(came.private_data, hello) != nonce:
            raise ProtocolError("the private data of the answer did not arrive as it was sent")
        self._await(remote, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS, both[:1])
        self._seed = cm_protocol.seed(hello, nonce)
        for each in self._sides:
            self._show(each, self._attributes(each))

    def _requested(self, listening: Side, hello: Hello, other: Identifier) -> Side:
        """The request of our own other end; whoever else comes is rejected."""
        while True:
            event = self._await(
                listening, Stage.ESTABLISH, CmEvent.CONNECT_REQUEST, ESTABLISH_SECONDS, [other]
            )
            side = Side.of_request(self._remote, self._transcript.write, EndName.REMOTE, event)
            if cm_protocol.read_hello(event.private_data) == hello:
                return side
            with suppress(CallFailed):
                side.identifier.reject(cm_protocol.rejection(Refusal.NO_HELLO))
            with suppress(CallFailed):
                side.close()

    def _go_to_peer(self) -> None:
        request, hello = self._request, self._hello()
        side = self._resolve(self._local, request.host, request.port)
        assert side.end
        self._begin(Stage.ESTABLISH)
        self._do(Stage.ESTABLISH, lambda: side.identifier.connect(hello.encode()))
        came = self._await(side, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS)
        self._show(side, self._attributes(side))
        self._transcript.write(records.Connected(address=side.identifier.peer))
        nonce = cm_protocol.read_answer(came.private_data, hello)
        self._begin(Stage.AGREE)
        talk = Talk(side.end, self._bounds, self._glance, self._events.fd)
        talk.prove(self._secret, "connect", hello, nonce)
        self._talk = talk
        talk.send("endpoint", endpoint=side.end.facts.message())
        self._agreed(talk.receive("endpoint").get("endpoint"))
        self._seed = cm_protocol.seed(hello, nonce)

    def _wait_for_peer(self) -> None:
        request = self._request
        listener = self._bind(self._local, EndName.LOCAL, request.host, request.port)
        self._transcript.write(records.Listening(address=listener.own))
        met = Listening(
            self._library,
            self._transcript,
            self._events,
            self._bounds,
            request,
            self._hello(),
            self._secret,
        ).meet(listener)
        self._sides.append(met.side)
        self._talk = met.talk
        self._bounds.start(request.deadline + met.waited)
        self._transcript.write(records.Connected(address=met.side.identifier.peer))
        self._show(met.side, met.attributes)
        self._begin(Stage.AGREE)
        self._agreed(met.endpoint)
        assert met.side.end
        met.talk.glance = self._glance
        met.talk.send("endpoint", endpoint=met.side.end.facts.message())
        self._seed = met.seed

    @property
    def _secret(self) -> bytes | None:
        return None if self._request.secret is None else bytes.fromhex(self._request.secret)

    def _agreed(self, endpoint: object) -> None:
        if not isinstance(endpoint, dict):
            raise ProtocolError("the peer's endpoint is no object")
        self._transcript.write(records.Agreed(remote=read_end(endpoint)))

    def _attributes(self, side: Side) -> IbvQpAttr:
        assert side.end
        found: IbvQpAttr = self._do(Stage.ESTABLISH, side.end.attributes)
        return found

    def _show(self, side: Side, attributes: IbvQpAttr) -> None:
        """What the connection manager has made of this end."""
        end = side.end
        assert end
        path = attributes.ah_attr
        state = QpState.from_number(attributes.qp_state)
        if state is QpState.RESET:
            state = None  # ESTABLISHED: a provider that leaves it out, as siw of Linux 6.1
        self._transcript.write(
            records.ConnectionMade(
                end=side.name,
                address=side.identifier.own,
                peer=side.identifier.peer,
                state=state,
                mtu=MTU_BYTES.get(attributes.path_mtu),
                queue_pair=end.queue_pair.number,
                psn=attributes.sq_psn,
                remote_queue_pair=attributes.dest_qp_num,
                gid_index=path.grh.sgid_index if path.is_global else None,
            )
        )

    # --- data ----------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Verified, again and again, and verified at the end: each message compared."""
        self._begin(Stage.DATA)
        starting = [self._request.meet != "listen", False]
        ends = [
            (side.end, starts)
            for side, starts in zip(self._sides, starting, strict=False)
            if side.end
        ]
        end = self._request.ends[0]
        write = self._transcript.write
        if end.payload_bytes > SMALL_BYTES:
            verified(ends, self._seed, 0, self._glance)
            write(records.Verified(verified=0))
        verified(ends, self._seed, 1, self._glance)
        write(records.Verified(verified=1))
        self._rounds_of(ends)
        self._last(ends)
        write(records.Verified(verified=2))

    def _last(self, ends: list[tuple[CmEnd, bool]]) -> None:
        """Verified once more; the end that connects says that it is, and may go at once."""
        if self._talk is None:
            verified(ends, self._seed, 2, self._glance)
        elif self._request.meet == "connect":
            verified(ends, self._seed, 2, self._glance)
            self._talk.send("done")
        else:
            flushed: open_end.BadCompletion | None = None
            try:
                verified(ends, self._seed, 2, self._bounds.glance)
            except open_end.BadCompletion as error:
                flushed = error
            self._await_done(self._talk, ends[0][0], flushed)

    def _await_done(self, talk: Talk, end: CmEnd, flushed: open_end.BadCompletion | None) -> None:
        """Raises `flushed` where the other end went without a word."""
        until = time.monotonic() + STALL_SECONDS[QpType.RC]
        while (content := end.last()) is None:
            if flushed:
                raise flushed
            if time.monotonic() > until:
                raise Stalled
            gone = self._events.fatal(self._sides[0].identifier)
            if gone and end.last() is None:
                self._glance()
            self._bounds.ready([], time.monotonic() + _SLICE_SECONDS)
            self._events.take()
        talk.read(content, "done")

    def _rounds_of(self, ends: list[tuple[CmEnd, bool]]) -> None:
        """Timed where both ends are here: between two hosts nothing keeps what one sends next
        from coming while the other still waits for its own last send."""
        iterations = self._request.ends[0].iterations
        if self._compiled is None or self._request.meet is not None:
            untimed(ends, self._seed, iterations, self._glance, self._progress)
            return
        timed_ends = [end.timed(starts=starts) for end, starts in ends]
        made = loop.Loop(self._compiled, timed_ends, iterations, self._request.sizes.sq_depth)
        timed(made, STALL_SECONDS[QpType.RC], self._glance, self._progress)
        self._progress(made.rounds)
        self._times_ns = made.times_ns

    def _glance(self) -> None:
        self._bounds.glance()
        for side in self._sides:
            self._events.glance(self._stage, side.name, [side.identifier])

    def _progress(self, rounds: int) -> None:
        self._rounds = rounds
        self._transcript.write(records.Rounds(rounds=rounds))

    # --- the end -------------------------------------------------------------------------

    def _disconnect(self) -> None:
        """The end that connected goes first; each waits for its DISCONNECTED."""
        self._begin(Stage.DISCONNECT)
        sides = self._sides if self._request.meet != "listen" else self._sides[::-1]
        first = sides[0]
        if self._request.meet != "listen":
            assert first.end
            first.end.disconnect()
            sides = sides[1:]
        for side in sides:
            self._await(side, Stage.DISCONNECT, CmEvent.DISCONNECTED, DISCONNECT_SECONDS)
            assert side.end
            with suppress(Failed):  # on iWARP there may be nothing left to answer
                side.end.disconnect()
        if self._request.meet != "listen":
            self._await(first, Stage.DISCONNECT, CmEvent.DISCONNECTED, DISCONNECT_SECONDS)

    def _tear_down(self) -> None:
        """What was made last first; what refuses is in the transcript."""
        self._transcript.write(records.StageBegan(stage=Stage.TEARDOWN))
        for side in reversed(self._sides):
            with suppress(Failed, CallFailed):
                side.close()
        for made in (self._listener, self._channel):
            if made:
                self._local.stage = self._remote.stage = Stage.TEARDOWN
                with suppress(CallFailed):
                    made.close()

    def _result(self, error: BaseException) -> Result | None:
        """What this error is of an attempt; None for a bug of ours."""
        found = self._outcome(error)
        if found is None or self._request.meet is None or self._stage is not Stage.DATA:
            return found
        arrivals = [side.end.arrivals for side in self._sides if side.end]
        return replace(found, arrived=arrivals[0] if arrivals else None)

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
        if isinstance(error, EventFailed):
            return Result(outcome=Outcome.CM_EVENT, stage=error.stage)
        if isinstance(error, NoEvent):
            return Result(outcome=Outcome.NO_EVENT, stage=error.stage)
        if isinstance(error, open_end.BadCompletion):
            return self._completion(error)
        if isinstance(error, loop.Stopped):
            return self._stopped(error)
        if isinstance(error, AnotherDevice):
            problem = Problem("another_device", str(error))
            return Result(outcome=Outcome.MISMATCH, stage=self._stage, problems=(problem,))
        for kind, outcome in _OUTCOMES.items():
            if isinstance(error, kind):
                return Result(outcome=outcome, stage=self._stage, text=str(error))
        return None

    def _completion(self, error: open_end.BadCompletion) -> Result:
        bad = error.completion
        at = next(at for at, each in enumerate(self._sides) if each.end is error.end)
        return self._unless_event(at, bad.status, bad.vendor_error, receive=bad.is_receive)

    def _stopped(self, error: loop.Stopped) -> Result:
        if error.cause is loop.Cause.CALL_FAILED:
            call, number = error.call, error.errno
            return Result(outcome=Outcome.CALL_FAILED, stage=Stage.DATA, call=call, errno=number)
        if error.cause is loop.Cause.BAD_COMPLETION and error.status is not None:
            return self._unless_event(
                error.end, error.status, error.vendor_error, receive=error.is_receive
            )
        text = "a message arrived that was not sent"
        return Result(outcome=Outcome.DATA_MISMATCH, stage=Stage.DATA, text=text)

    def _unless_event(self, at: int, status: int, vendor: int, *, receive: bool) -> Result:
        """A flushed request is what a disconnection leaves: where there is one, it says more.

        The kernel hands the event out by a work queue, a moment after the flush
        (cm_close_handler, drivers/infiniband/core/iwcm.c).
        """
        until = time.monotonic() + (_EVENT_SECONDS if status == FLUSHED else 0.0)
        with suppress(Interrupted, Late):
            try:
                self._glance()
                while time.monotonic() < until:
                    self._bounds.ready([self._events.fd], until)
                    self._glance()
            except EventFailed as better:
                return Result(outcome=Outcome.CM_EVENT, stage=better.stage)
        return Result(
            outcome=Outcome.COMPLETION_ERROR,
            stage=self._stage,
            completion=BadCompletion(self._sides[at].name, status, vendor, receive),
        )


_OUTCOMES: Final[dict[type[BaseException], Outcome]] = {
    Nobody: Outcome.NO_PEER,
    ProtocolError: Outcome.PEER_REFUSED,
    Differs: Outcome.DATA_MISMATCH,
    Stalled: Outcome.NO_DATA,
    Late: Outcome.LATE,
    Interrupted: Outcome.INTERRUPTED,
}


def main() -> None:
    """The child's whole life."""
    request = records.parse(sys.stdin.buffer.readline(_REQUEST_LIMIT))
    if not isinstance(request, CmRequest):
        sys.exit(f"no request: {request.why if isinstance(request, Malformed) else request.kind}")
    # A provider that prints on stdout must not break our lines.
    transcript = Transcript(os.dup(1), request.start)
    os.dup2(2, 1)
    Attempt(request, transcript, Bounds(sys.stdin.fileno())).run()
    transcript.write(records.Done())


if __name__ == "__main__":
    main()
