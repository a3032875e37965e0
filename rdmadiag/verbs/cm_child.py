"""The program of the child process of `pingpong --cm`: one connection by librdmacm, once.

    python -m rdmadiag.verbs.cm_child

A records.CmRequest stands on stdin, which stays open for as long as the parent lives. On stdout
it writes the other records; rdmadiag.verbs.outcome reads them. No call is made twice, whatever
it answers.
"""

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts.attempt import BadCompletion, Outcome, Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_BYTES, DataOp, QpState, QpType
from rdmadiag.verbs import cm_protocol, loop, open_end, protocol, records
from rdmadiag.verbs.abi import FLUSHED, IbvQpAttr
from rdmadiag.verbs.bounds import Bounds, Interrupted, Late
from rdmadiag.verbs.child_start import begin
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_events import (
    RESOLVE_MILLISECONDS,
    RESOLVE_SECONDS,
    EventFailed,
    Events,
)
from rdmadiag.verbs.cm_load import loaded
from rdmadiag.verbs.cm_meeting import Listening, Side
from rdmadiag.verbs.cm_objects import AddressInfo, Datagrams, EventChannel, Identifier
from rdmadiag.verbs.cm_outcome import OtherGroup, result_of, wrong_data
from rdmadiag.verbs.cm_protocol import Hello, Refusal
from rdmadiag.verbs.cm_talk import Talk
from rdmadiag.verbs.cm_ud import Member, Sender, UdEnd, end_of
from rdmadiag.verbs.exchange import STALL_SECONDS, Stalled
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.open_end import Failed
from rdmadiag.verbs.payloads import Payloads
from rdmadiag.verbs.protocol import NONCE_BYTES, End, ProtocolError, read_end
from rdmadiag.verbs.protocol import memory as read_memory
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import CmRequest, EndName, Record, Result
from rdmadiag.verbs.transcript import Transcript

ESTABLISH_SECONDS: Final = 20.0
"""From a request to ESTABLISHED: each datagram of the connection manager that is lost costs 4.3 s
(CMA_CM_RESPONSE_TIMEOUT, core/cma.c)."""

JOIN_SECONDS: Final = 10.0
"""For a subnet manager to answer; RoCE asks nobody."""

DISCONNECT_SECONDS: Final = 5.0

_BACKLOG: Final = 8
_ATTACH_SECONDS: Final = 0.1
"""Until the end that accepts reads its socket: siw_accept (drivers/infiniband/sw/siw/siw_cm.c)
attaches the queue pair after its reply has left, and what arrives between wakes nobody."""

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
        self._members: list[Side] = []  # of the multicast group, by which data then goes
        self._channel: EventChannel | None = None
        self._listener: Identifier | None = None
        self._talk: Talk | None = None  # None: both ends are here
        self._payloads: Payloads | None = None
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
            self._tear_down()
        for each in self._figures:
            self._transcript.write(each)

    def _attempt(self) -> None:
        if self._request.meet != "listen":
            self._bounds.start(self._request.deadline)
        self._open()
        if self._request.meet is None and self._request.group:
            self._one_group(self._request.group)
        elif self._request.meet is None:
            self._one_host()
        elif self._request.meet == "listen":
            self._wait_for_peer()
        else:
            self._go_to_peer()
        self._exchange()
        self._disconnect()
        self._transcript.write(Result(outcome=Outcome.VERIFIED, stage=Stage.DONE))
        if self._payloads:
            self._figures = self._payloads.figures()

    def _begin(self, stage: Stage) -> None:
        self._stage = stage
        self._local.stage = self._remote.stage = stage
        self._transcript.write(records.StageBegan(stage=stage))

    # --- librdmacm -----------------------------------------------------------------------

    def _open(self) -> None:
        """Both libraries and the event channel."""
        write = self._transcript.write
        write(records.StageBegan(stage=Stage.EVENT_CHANNEL))
        request = self._request
        try:
            library = loaded(request.library, request.cm_library, request.node, self._transcript)
        except CallFailed as failed:
            text = str(failed.__cause__ or "")
            raise Failed(Stage.EVENT_CHANNEL, failed.call, "", failed.errno, text) from failed
        self._library = library
        self._local = RecordedCaller(library, self._transcript, EndName.LOCAL)
        self._remote = RecordedCaller(library, self._transcript, EndName.REMOTE)
        self._local.stage = Stage.EVENT_CHANNEL
        self._channel = self._do(Stage.EVENT_CHANNEL, lambda: EventChannel(self._local))
        self._events = Events(self._channel, library.call, self._bounds, write)

    def _do(self, stage: Stage, make: Any) -> Any:
        try:
            return make()
        except CallFailed as failed:
            device = self._request.ends[0].device
            raise Failed(stage, failed.call, device, failed.errno) from failed

    # --- the way to ESTABLISHED ----------------------------------------------------------

    def _hello(self) -> Hello:
        with_secret = self._request.secret is not None
        return Hello.of(self._request.ends[0], os.urandom(NONCE_BYTES), with_secret=with_secret)

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
        own = self._request.addresses[0]
        side = self._resolve_address(caller, EndName.LOCAL, host, port, own, self._sides)
        identifier, end = side.identifier, self._request.ends[0]
        self._begin(Stage.RESOLVE_ROUTE)
        self._do(Stage.RESOLVE_ROUTE, lambda: identifier.resolve_route(RESOLVE_MILLISECONDS))
        self._await(side, Stage.RESOLVE_ROUTE, CmEvent.ROUTE_RESOLVED, RESOLVE_SECONDS)
        side.end = self._end(caller, identifier, end)
        return side

    def _resolve_address(
        self,
        caller: RecordedCaller,
        name: EndName,
        host: str,
        port: int,
        own: str,
        among: list[Side],
    ) -> Side:
        """An identifier with a device, by which it would send there; `own` is its source."""
        end = self._request.ends[list(EndName).index(name)]
        kind = end.qp_type
        self._begin(Stage.RESOLVE_ADDRESS)
        identifier = self._do(
            Stage.RESOLVE_ADDRESS, lambda: Identifier.create(caller, self._open_channel, kind)
        )
        side = Side(name, identifier)
        among.append(side)
        infos: list[AddressInfo] = []

        def address(*arguments: Any, **more: Any) -> AddressInfo:
            infos.append(AddressInfo(caller, *arguments, **more))
            return infos[-1]

        try:
            source = None
            if own:
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
        return side

    def _end(self, caller: RecordedCaller, identifier: Identifier, facts: End) -> CmEnd:
        request = self._request
        made = end_of(facts.qp_type)
        return made(caller, identifier, facts, request.sizes, events=request.events)

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
        remote.end = self._end(self._remote, remote.identifier, self._request.ends[1])
        self._begin(Stage.ESTABLISH)
        answer = cm_protocol.answer(nonce, with_secret=hello.with_secret)
        self._do(Stage.ESTABLISH, lambda: remote.identifier.accept(answer))
        both = [local.identifier, remote.identifier]
        came = self._await(local, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS, both[1:])
        if cm_protocol.read_answer(came.private_data, hello) != nonce:
            raise ProtocolError("the private data of the answer did not arrive as it was sent")
        if isinstance(local.end, UdEnd) and isinstance(remote.end, UdEnd):
            self._introduce(local.end, remote.end, came.datagrams)
        else:
            self._await(remote, Stage.ESTABLISH, CmEvent.ESTABLISHED, ESTABLISH_SECONDS, both[:1])
        self._seed = cm_protocol.seed(hello, nonce)
        assert local.end
        if local.end.facts.op is not DataOp.SEND:
            local.end.aim(*remote.end.exposed)
            remote.end.aim(*local.end.exposed)
        for side in self._sides:
            self._show(side, self._attributes(side))

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
        if isinstance(side.end, UdEnd):
            side.end.address(came.datagrams)
            side.end.receive_from(came.datagrams)
        self._show(side, self._attributes(side))
        self._transcript.write(records.Connected(address=side.identifier.peer))
        nonce = cm_protocol.read_answer(came.private_data, hello)
        self._begin(Stage.AGREE)
        talk = Talk(side.end, self._bounds, self._glance, self._events.fd, "connect")
        talk.prove(self._secret, hello, nonce)
        self._talk = talk
        if side.identifier.is_iwarp:
            self._bounds.ready([], time.monotonic() + _ATTACH_SECONDS)
        talk.send("endpoint", group=request.group, **_endpoint(side.end))
        answer = talk.receive("endpoint")
        self._agreed(side.end, answer)
        self._seed = cm_protocol.seed(hello, nonce)
        self._meet_in_group(talk, answer.get("group"))

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
        assert met.side.end
        self._agreed(met.side.end, met.endpoint)
        met.talk.glance = self._glance
        theirs = met.endpoint.get("group")
        met.talk.send("endpoint", group=request.group, **_endpoint(met.side.end))
        self._seed = met.seed
        self._meet_in_group(met.talk, theirs)

    # --- datagrams, and multicast --------------------------------------------------------

    def _introduce(self, local: UdEnd, remote: UdEnd, found: Datagrams) -> None:
        """The end that accepted learns by the first message whom it is to answer."""
        local.address(found)
        local.receive_from(found)
        parts = self._bounds, self._glance, self._events.fd
        Talk(local, *parts, "connect").send("introduction")
        Talk(remote, *parts, "listen").receive("introduction")

    def _one_group(self, group: str) -> None:
        """Both ends are members, and none connects to the other."""
        local = self._join(self._local, EndName.LOCAL, group)
        remote = self._join(self._remote, EndName.REMOTE, group)
        self._seed = int.from_bytes(os.urandom(8), "big")
        for one, other in ((local, remote), (remote, local)):
            peer = other.identifier
            addresses = one.identifier.own, peer.own
            self._knows(one, other.queue_pair.number, peer.gid, addresses)

    def _meet_in_group(self, talk: Talk, theirs: object) -> None:
        """Where both ends want a group: join it, and say which queue pair is in it."""
        group = self._request.group
        if theirs != group:
            raise OtherGroup(group, theirs)
        if group is None:
            return
        member = self._join(self._local, EndName.LOCAL, group)
        content = {"queue_pair": member.queue_pair.number, "gid": str(member.identifier.gid)}
        talk.patience += RESOLVE_SECONDS + JOIN_SECONDS  # which the other end may take
        said = talk.barrier("joined", **content)
        met = self._sides[0].identifier
        self._knows(member, *protocol.member(said), (met.own, met.peer))

    def _join(self, caller: RecordedCaller, name: EndName, group: str) -> Member:
        """A member of the group, on this end's device."""
        at = list(EndName).index(name)
        own, facts = self._request.members[at], self._request.ends[at]
        side = self._resolve_address(caller, name, group, 0, own, self._members)
        request = self._request
        member = Member(caller, side.identifier, facts, request.sizes, events=request.events)
        side.end = member
        self._begin(Stage.JOIN)
        info = self._do(Stage.JOIN, lambda: AddressInfo(caller, group, 0, facts.qp_type))
        try:
            member.join(info)
        finally:
            info.close()
        came = self._await(side, Stage.JOIN, CmEvent.MULTICAST_JOIN, JOIN_SECONDS)
        member.address(came.datagrams)
        self._transcript.write(records.GroupJoined(end=name, group=group))
        return member

    def _knows(self, member: Member, queue_pair: int, gid: Gid, addresses: tuple[str, str]) -> None:
        """Whom a member gets its messages from: its own, and strangers', are left out.

        `addresses` are those of this end and of the other, as the connection shows them.
        """
        member.sender = Sender(queue_pair, gid)
        side = next(each for each in self._members if each.end is member)
        attributes = self._attributes(side)
        attributes.dest_qp_num = queue_pair
        self._show(side, attributes, addresses)

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

    def _attributes(self, side: Side) -> IbvQpAttr:
        assert side.end
        found: IbvQpAttr = self._do(Stage.ESTABLISH, side.end.attributes)
        return found

    def _show(
        self, side: Side, attributes: IbvQpAttr, addresses: tuple[str, str] | None = None
    ) -> None:
        """What the connection manager has made of this end."""
        end = side.end
        assert end
        path = attributes.ah_attr
        own, peer = addresses or (side.identifier.own, side.identifier.peer)
        state = QpState.from_number(attributes.qp_state)
        if state is QpState.RESET:
            state = None  # ESTABLISHED: a provider that leaves it out, as siw of Linux 6.1
        self._transcript.write(
            records.ConnectionMade(
                end=side.name,
                address=own,
                peer=peer,
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
        # The end that connects, or the local one of two on one host, sends first.
        starting = [self._request.meet != "listen", False]
        ends = [
            (side.end, starts)
            for side, starts in zip(self._members or self._sides, starting, strict=False)
            if side.end
        ]
        for end, _ in ends:
            end.ask()
        is_send = self._request.ends[0].op is DataOp.SEND
        is_ud = self._request.ends[0].qp_type is QpType.UD
        if self._talk is None and not is_send:
            self._greet(ends[0][0], ends[1][0])
        barrier = self._talk.barrier if self._talk and not is_send else _none
        self._payloads = payloads = Payloads(
            ends,
            self._seed,
            self._request.sizes,
            self._transcript.write,
            self._glance,
            barrier,
            # Between two hosts nothing keeps what one SENDs next from coming while the other
            # still waits for its own last send.
            is_timed=(self._talk is None and not is_ud) or not is_send,
        )
        payloads.move()
        if self._talk is None:
            payloads.move_last()
        elif self._request.meet == "connect":
            payloads.move_last()
            self._talk.send("done")
        else:
            assert self._sides[0].end
            self._move_last_of_listener(payloads, self._talk, self._sides[0].end)

    def _greet(self, local: CmEnd, remote: CmEnd) -> None:
        """iWARP: nothing comes from the end that accepted before it got something: RFC 5044, 7."""
        local.send_message(_GREETING)
        until = time.monotonic() + STALL_SECONDS[QpType.RC]
        got = None
        while got is None or local.sends:
            got = got or remote.received_message()
            local.poll()
            self._glance()
            if time.monotonic() > until:
                raise Stalled
        if got != _GREETING:
            raise ProtocolError("the first message did not arrive as it was sent")

    def _move_last_of_listener(self, payloads: Payloads, talk: Talk, end: CmEnd) -> None:
        """The end that connects says that it is done, and may go at once."""
        talk.glance = self._bounds.glance
        flushed: open_end.BadCompletion | None = None
        try:
            payloads.move_last(self._bounds.glance)
        except open_end.BadCompletion as error:
            flushed = error
        self._await_done(talk, end, flushed)

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

    def _glance(self) -> None:
        self._bounds.glance()
        for side in (*self._sides, *self._members):
            self._events.glance(self._stage, side.name, [side.identifier])

    # --- the end -------------------------------------------------------------------------

    def _disconnect(self) -> None:
        """The end that connected goes first; each waits for its DISCONNECTED.

        Datagrams have no connection, and no event says that the other end has gone.
        """
        if self._request.ends[0].qp_type is QpType.UD:
            return
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
        for side in reversed((*self._sides, *self._members)):
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
        moving = self._members or self._sides
        arrivals = [side.end.arrivals for side in moving if side.end]
        return replace(found, arrived=arrivals[0] if arrivals else None)

    def _outcome(self, error: BaseException) -> Result | None:
        if isinstance(error, Failed):
            self._stage = error.stage
        if isinstance(error, open_end.BadCompletion):
            return self._completion(error)
        if isinstance(error, loop.Stopped):
            return self._stopped(error)
        return result_of(error, self._stage)

    def _completion(self, error: open_end.BadCompletion) -> Result:
        bad = error.completion
        every = (*self._sides, *self._members)
        name = next(each.name for each in every if each.end is error.end)
        return self._unless_event(name, bad.status, bad.vendor_error, receive=bad.is_receive)

    def _stopped(self, error: loop.Stopped) -> Result:
        if error.cause is loop.Cause.CALL_FAILED:
            call, number = error.call, error.errno
            return Result(outcome=Outcome.CALL_FAILED, stage=Stage.DATA, call=call, errno=number)
        if error.cause is loop.Cause.BAD_COMPLETION and error.status is not None:
            return self._unless_event(
                self._sides[error.end].name,
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
                self._glance()
                while time.monotonic() < until:
                    self._bounds.ready([self._events.fd], until)
                    self._glance()
            except EventFailed as better:
                return Result(outcome=Outcome.CM_EVENT, stage=better.stage)
        return Result(
            outcome=Outcome.COMPLETION_ERROR,
            stage=self._stage,
            completion=BadCompletion(end, status, vendor, receive),
        )


_GREETING: Final = b"rdmadiag"


def _none(step: str, **content: Any) -> dict[str, Any]:
    """Of SEND, which is strictly in turns, and of two ends on one host."""
    return {}


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
