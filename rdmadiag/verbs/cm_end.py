"""One end of a connection that the connection manager makes: its identifier and its objects."""

from contextlib import suppress
from typing import Any, Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.ib import DataOp
from rdmadiag.verbs.cm_objects import IdContext, Identifier, IdQueuePair
from rdmadiag.verbs.completion import CompletionQueue
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE, SEND
from rdmadiag.verbs.objects import REMOTE_WRITE, Context, ProtectionDomain, QueuePair, Shape
from rdmadiag.verbs.open_end import BadCompletion, Failed, OpenEnd, StagedCaller
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import DEFAULT_SIZES, Sizes
from rdmadiag.verbs.requests import ReceiveRequest, SendRequest

CONTROL_BYTES: Final = 4096
"""Of a message that is no payload, at most."""

_MESSAGES: Final = 4  # completions of those that a queue of their own has room for


class CmEnd(OpenEnd):
    """Its queue pair is the identifier's; librdmacm moves it from state to state.

    Both ends talk over it, too: by SEND, between payloads. Where those are WRITEs or READs what
    arrives has memory and a completion queue of its own, at which the timed loop does not look.
    """

    LEAST_RECEIVE = CONTROL_BYTES
    MESSAGES = 2 * CONTROL_BYTES

    def __init__(
        self,
        call: StagedCaller,
        identifier: Identifier,
        facts: End,
        sizes: Sizes = DEFAULT_SIZES,
        *,
        events: bool = False,
    ) -> None:
        """Everything up to the queue pair, with one receive posted; raises Failed."""
        self.identifier = identifier
        super().__init__(call, identifier, facts, psn=0, sizes=sizes, events=events)
        self._out = 2 * self._area
        self._in = self._out + CONTROL_BYTES if self._inbox else self._area
        self._message = SendRequest(SEND, self.memory, self._out, 1)
        if self._inbox:
            self._receive = ReceiveRequest(RECEIVE, self.memory, self._in, CONTROL_BYTES)
        try:
            # Before the other end may send: iWARP has no RNR, and ends the connection.
            self.expect()
        except Failed:
            with suppress(Failed):
                self.close()
            raise

    def _context(self, pointer: Any) -> Context:
        return IdContext(self._call, pointer)

    @property
    def _rights(self) -> int:
        # What answers a READ of iWARP is written by the other end: RFC 5040, 5.1 and 7.2.
        reads = self.facts.op is DataOp.READ and self.identifier.is_iwarp
        return super()._rights | (REMOTE_WRITE if reads else 0)

    def _queue_pair(self, pd: ProtectionDomain) -> QueuePair:
        sizes, facts = self._sizes, self.facts
        self._inbox: CompletionQueue | None = None
        if facts.op is not DataOp.SEND:
            self._inbox = self._made.add(self.context.create_cq(_MESSAGES))
        made = IdQueuePair(
            self._call,
            pd,
            self.completions,
            self.identifier,
            facts.qp_type,
            sizes.sq_depth,
            Shape(
                sge=sizes.sge,
                inline=sizes.inline,
                receive_cq=self._inbox,
                receive_depth=sizes.rq_depth,
            ),
        )
        self.attributes = made.attributes
        return made

    def expect(self) -> None:
        """Post the buffer for the next payload or message."""
        self._do(Stage.DATA, lambda: self.queue_pair.post_recv(self._receive))

    def send_message(self, message: bytes) -> None:
        """Post a message that is no payload; the send before must have completed."""
        self.memory.write(self._out, message)
        self._message.length = len(message)
        self._do(Stage.DATA, lambda: self.queue_pair.post_send(self._message))
        self.sends += 1

    def received_message(self) -> bytes | None:
        """The message that has arrived, or None as long as none has; raises BadCompletion."""
        self.poll()
        if self._inbox:
            self._take(self._inbox)
        if not self._arrived:
            return None
        content = self.memory.read(self._in, self._arrived.pop(0).byte_length)
        self.expect()
        return content

    def last(self) -> bytes | None:
        """The message that has arrived, without room for another: the other end may have gone.

        What was still posted then completes with an error, behind that message.
        """
        for queue in filter(None, (self.completions, self._inbox)):
            with suppress(BadCompletion):
                self._take(queue)
        if not self._arrived:
            return None
        return self.memory.read(self._in, self._arrived[0].byte_length)

    def disconnect(self) -> None:
        """rdma_disconnect; raises Failed."""
        self._do(Stage.DISCONNECT, self.identifier.disconnect)

    def close(self) -> None:
        """The objects, and then the identifier; raises Failed for the first that refuses."""
        try:
            super().close()
        finally:
            self._call.stage = Stage.TEARDOWN
            try:
                self.identifier.close()
            except CallFailed as failed:
                device = self.facts.device
                raise Failed(Stage.TEARDOWN, failed.call, device, failed.errno) from failed
