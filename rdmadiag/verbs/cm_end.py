"""One end of a connection that the connection manager makes: its identifier and its objects."""

from contextlib import suppress
from typing import Any

from rdmadiag.facts.attempt import Stage
from rdmadiag.verbs.cm_objects import IdContext, Identifier, IdQueuePair
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.objects import Context, ProtectionDomain, QueuePair
from rdmadiag.verbs.open_end import BadCompletion, Failed, OpenEnd, StagedCaller
from rdmadiag.verbs.protocol import End

CONTROL_BYTES = 4096
"""Of a message that is no payload, at most."""


class CmEnd(OpenEnd):
    """Its queue pair is the identifier's; librdmacm moves it from state to state."""

    LEAST_RECEIVE = CONTROL_BYTES

    def __init__(self, call: StagedCaller, identifier: Identifier, facts: End) -> None:
        """Everything up to the queue pair, with one receive posted; raises Failed."""
        self.identifier = identifier
        super().__init__(call, identifier, facts, psn=0)
        try:
            # Before the other end may send: iWARP has no RNR, and ends the connection.
            self.expect()
        except Failed:
            with suppress(Failed):
                self.close()
            raise

    def _context(self, pointer: Any) -> Context:
        return IdContext(self._call, pointer)

    def _queue_pair(self, pd: ProtectionDomain) -> QueuePair:
        kind = self.facts.qp_type
        depth = self._sizes.sq_depth
        made = IdQueuePair(self._call, pd, self.completions, self.identifier, kind, depth)
        self.attributes = made.attributes
        return made

    def last(self) -> bytes | None:
        """The message that has arrived, without room for another: the other end may have gone.

        What was still posted then completes with an error, behind that message.
        """
        with suppress(BadCompletion):
            self.poll()
        if not self._arrived:
            return None
        return self.memory.read(self._area, self._arrived[0].byte_length)

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
