"""One end of a path on this host: from the open device to a queue pair that can send.

The only module that changes state on a device, with the objects that it makes. A step is
made once. What failed is a `Failed` with its stage; what was made before it is destroyed
by `close`, whatever happened.
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.ib import LinkLayer, QpState
from rdmadiag.verbs.bringup import (
    RemoteQueuePair,
    init_attributes,
    rtr_attributes,
    rts_attributes,
)
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE, SEND, TimedEnd
from rdmadiag.verbs.objects import (
    LOCAL_WRITE,
    REMOTE_READ,
    REMOTE_WRITE,
    Caller,
    Completion,
    CompletionQueue,
    Context,
    M,
    MemoryRegion,
    Objects,
    ProtectionDomain,
    QueuePair,
    ReceiveRequest,
    SendRequest,
)
from rdmadiag.verbs.protocol import End

T = TypeVar("T")

DEPTH: Final = 16
"""Work requests that each queue holds: one receive is ever posted, and few sends."""


class StagedCaller(Caller, Protocol):
    """A Caller that knows for which stage it calls."""

    stage: Stage


class Failed(Exception):
    """A step that did not succeed; `errno` is 0 where the call gave none."""

    def __init__(self, stage: Stage, call: str, device: str, errno: int, text: str = "") -> None:
        super().__init__(f"{stage}: {call} of {device}: {text or f'errno {errno}'}")
        self.stage = stage
        self.call = call
        self.device = device
        self.errno = errno
        self.text = text


class BadCompletion(Exception):
    """A work request that completed with an error."""

    def __init__(self, end: "OpenEnd", completion: Completion) -> None:
        super().__init__(f"{end.facts.device}: status {completion.status}")
        self.end = end
        self.completion = completion


class OpenEnd:
    """The objects of one end, each made by the step of its name."""

    LEAST_RECEIVE = 0  # bytes that a receive takes, however small the payload is

    def __init__(self, call: StagedCaller, pointer: Any, facts: End, psn: int) -> None:
        """Opens the device that `pointer` names, and makes everything up to the queue pair.

        `psn` is what it sends with first.
        """
        self._call = call
        self._made = Objects()
        self.facts = facts
        self.psn = psn
        try:
            self.context: Context = self._make(Stage.OPEN, lambda: self._context(pointer))
            pd = self._make(Stage.ALLOC_PD, self.context.alloc_pd)
            self.memory: MemoryRegion = self._make(Stage.REG_MR, lambda: self._register(pd))
            self.completions: CompletionQueue = self._make(
                Stage.CREATE_CQ, lambda: self.context.create_cq(2 * DEPTH)
            )
            self.queue_pair: QueuePair = self._make(Stage.CREATE_QP, lambda: self._queue_pair(pd))
        except Failed:
            with suppress(Failed):  # what went wrong first matters more
                self.close()
            raise
        self._send = SendRequest(SEND, self.memory, 0, facts.payload_bytes)
        most = max(facts.payload_bytes, self.LEAST_RECEIVE)
        self._receive = ReceiveRequest(RECEIVE, self.memory, self._area, most)
        self._arrived: list[Completion] = []
        self.arrivals = 0  # messages, apart from those of the timed loop
        self.sends = 0  # that have not completed

    def _context(self, pointer: Any) -> Context:
        return Context(self._call, self.facts.device, pointer)

    def _queue_pair(self, pd: ProtectionDomain) -> QueuePair:
        return pd.create_qp(self.completions, self.facts.qp_type, DEPTH)

    @property
    def _area(self) -> int:
        """Bytes of each half of the memory: whole pages for what is sent and what arrives."""
        return -(-self.facts.payload_bytes // _PAGE) * _PAGE

    def _make(self, stage: Stage, make: Callable[[], M]) -> M:
        return self._made.add(self._do(stage, make))

    def _do(self, stage: Stage, make: Callable[[], T]) -> T:
        self._call.stage = stage
        try:
            return make()
        except CallFailed as failed:
            raise Failed(stage, failed.call, self.facts.device, failed.errno) from failed

    def _register(self, pd: ProtectionDomain) -> MemoryRegion:
        size = 2 * self._area
        try:
            return pd.reg_mr(size, LOCAL_WRITE)
        except CallFailed:
            if self.facts.link_layer is not LinkLayer.THUNDERBOLT:
                raise
        # TN3205 has LOCAL_WRITE alone; llama.cpp found a provider that refuses just that.
        return pd.reg_mr(size, LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE)

    def close(self) -> None:
        """Destroy everything in TEARDOWN_ORDER; raises Failed for the first that refuses."""
        self._do(Stage.TEARDOWN, self._made.close)

    # --- the three steps -----------------------------------------------------------------

    def to_init(self, pkey_index: int = 0) -> None:
        """RESET → INIT."""
        attributes = init_attributes(self.facts, pkey_index=pkey_index)
        self._do(Stage.INIT, lambda: self.queue_pair.modify(QpState.INIT, attributes))

    def to_rtr(self, remote: RemoteQueuePair) -> None:
        """INIT → RTR: the address vector, and what the other end will send with."""
        attributes = rtr_attributes(self.facts, remote)
        self._do(Stage.RTR, lambda: self.queue_pair.modify(QpState.RTR, attributes))

    def to_rts(self) -> None:
        """RTR → RTS."""
        attributes = rts_attributes(self.psn)
        self._do(Stage.RTS, lambda: self.queue_pair.modify(QpState.RTS, attributes))

    # --- data ----------------------------------------------------------------------------

    def expect(self) -> None:
        """Post the buffer for the first message; `arrived` posts it again for each next."""
        self._do(Stage.DATA, lambda: self.queue_pair.post_recv(self._receive))

    def send(self, content: bytes) -> None:
        """Post one message of `payload` bytes or fewer; the one before must have completed."""
        self.memory.write(0, content)
        self._send.length = len(content)
        self._do(Stage.DATA, lambda: self.queue_pair.post_send(self._send))
        self.sends += 1

    def arrived(self) -> bytes | None:
        """The message that has arrived, or None as long as none has; raises BadCompletion."""
        self.poll()
        if not self._arrived:
            return None
        content = self.memory.read(self._area, self._arrived.pop(0).byte_length)
        self.expect()
        return content

    def poll(self) -> None:
        """Take what has completed; raises BadCompletion for a status that is not 0."""
        for completion in self._do(Stage.DATA, self.completions.poll):
            if completion.status:
                raise BadCompletion(self, completion)
            if completion.is_receive:
                self._arrived.append(completion)
                self.arrivals += 1
            else:
                self.sends -= 1

    def timed(self, *, starts: bool) -> TimedEnd:
        """This end as the timed loop takes it; one receive is posted."""
        return TimedEnd(
            device=self.facts.device,
            qp=ctypes.cast(self.queue_pair.handle, ctypes.c_void_p).value or 0,
            cq=self.completions.handle,
            post_send=self.context.ops.post_send,
            post_recv=self.context.ops.post_recv,
            poll_cq=self.context.ops.poll_cq,
            send_request=ctypes.addressof(self._send.request),
            receive_request=ctypes.addressof(self._receive.request),
            starts=starts,
            payload=self.facts.payload_bytes,
        )


_PAGE: Final = 16 * 1024
"""Bytes; a page of Apple silicon, and a multiple of x86's."""
