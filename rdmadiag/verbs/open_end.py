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
from rdmadiag.facts.ib import DataOp, LinkLayer, QpState
from rdmadiag.verbs.bringup import (
    RemoteQueuePair,
    init_attributes,
    rtr_attributes,
    rts_attributes,
)
from rdmadiag.verbs.completion import Completion, CompletionChannel, CompletionQueue
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE, SEND, TimedChannel, TimedEnd
from rdmadiag.verbs.made import Caller
from rdmadiag.verbs.objects import (
    LOCAL_WRITE,
    REMOTE_READ,
    REMOTE_WRITE,
    Context,
    MemoryRegion,
    ProtectionDomain,
    QueuePair,
    Shape,
)
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import DEFAULT_SIZES, Sizes
from rdmadiag.verbs.requests import SEND_SIGNALED, ReceiveRequest, SendRequest
from rdmadiag.verbs.teardown import M, Objects

T = TypeVar("T")

SEND_INLINE: Final = 8
"""IBV_SEND_INLINE."""

_OPCODES: Final = {DataOp.WRITE: 0, DataOp.SEND: 2, DataOp.READ: 4}
"""enum ibv_wr_opcode."""

_ACCESS: Final = {DataOp.SEND: 0, DataOp.WRITE: REMOTE_WRITE, DataOp.READ: REMOTE_READ}
"""What the other end may do with the memory, beside a local write."""


class StagedCaller(Caller, Protocol):
    """A Caller that knows for which stage it calls."""

    stage: Stage

    def address(self, name: str) -> int:
        """Of a call of the library that is not made through it."""
        ...


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
    MESSAGES = 0  # bytes of memory behind the payloads

    def __init__(
        self,
        call: StagedCaller,
        pointer: Any,
        facts: End,
        psn: int,
        sizes: Sizes = DEFAULT_SIZES,
        *,
        events: bool = False,
    ) -> None:
        """Opens the device that `pointer` names, and makes everything up to the queue pair.

        `psn` is what it sends with first. With `events` it waits on a completion channel.
        """
        self._call = call
        self._sizes = sizes
        self.channel: CompletionChannel | None = None
        self._made = Objects()
        self.facts = facts
        self.psn = psn
        try:
            self.context: Context = self._make(Stage.OPEN, lambda: self._context(pointer))
            pd = self._make(Stage.ALLOC_PD, self.context.alloc_pd)
            self.memory: MemoryRegion = self._make(Stage.REG_MR, lambda: self._register(pd))
            if events:
                self.channel = self._make(Stage.CREATE_CQ, self.context.create_channel)
            self.completions: CompletionQueue = self._make(
                Stage.CREATE_CQ, lambda: self.context.create_cq(sizes.cq_depth, self.channel)
            )
            self.queue_pair: QueuePair = self._make(Stage.CREATE_QP, lambda: self._queue_pair(pd))
        except Failed:
            with suppress(Failed):  # what went wrong first matters more
                self.close()
            raise
        inline = facts.payload_bytes <= sizes.inline and facts.op is not DataOp.READ
        self._send = SendRequest(
            SEND,
            self.memory,
            self._area if facts.op is DataOp.READ else 0,
            facts.payload_bytes,
            opcode=_OPCODES[facts.op],
            flags=SEND_SIGNALED | (SEND_INLINE if inline else 0),
            sge=sizes.sge,
        )
        most = max(facts.payload_bytes, self.LEAST_RECEIVE)
        self._receive = ReceiveRequest(RECEIVE, self.memory, self._area, most, sizes.sge)
        self._arrived: list[Completion] = []
        self.arrivals = 0  # messages, apart from those of the timed loop
        self.sends = 0  # that have not completed

    def _context(self, pointer: Any) -> Context:
        return Context(self._call, self.facts.device, pointer)

    def _queue_pair(self, pd: ProtectionDomain) -> QueuePair:
        sizes = self._sizes
        shape = Shape(sge=sizes.sge, inline=sizes.inline, receive_depth=sizes.rq_depth)
        return pd.create_qp(self.completions, self.facts.qp_type, sizes.sq_depth, shape)

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

    @property
    def _rights(self) -> int:
        """Of the memory, beside a local write."""
        return _ACCESS[self.facts.op]

    def _register(self, pd: ProtectionDomain) -> MemoryRegion:
        size = 2 * self._area + self.MESSAGES
        try:
            return pd.reg_mr(size, LOCAL_WRITE | self._rights)
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
        access = _ACCESS[self.facts.op]
        attributes = init_attributes(self.facts, access, pkey_index=pkey_index)
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

    @property
    def exposed(self) -> tuple[int, int]:
        """Address and rkey of what the other end writes to, or reads."""
        offset = 0 if self.facts.op is DataOp.READ else self._area
        return self.memory.address + offset, self.memory.rkey

    def aim(self, address: int, rkey: int) -> None:
        """At what the other end exposes."""
        self._send.aim(address, rkey)

    def ask(self) -> None:
        """Where it has a channel, the next completion makes an event."""
        if self.channel:
            self._do(Stage.DATA, self.completions.notify)

    def woken(self) -> None:
        """The channel may have an event: take it, and ask for the next."""
        if self.channel and self._do(Stage.DATA, self.channel.event):
            self.ask()

    def expect(self) -> None:
        """Post the buffer for the first message; `arrived` posts it again for each next."""
        if self.facts.op is not DataOp.SEND:
            return
        self._do(Stage.DATA, lambda: self.queue_pair.post_recv(self._receive))

    def offer(self, content: bytes) -> None:
        """Put it where it is sent from, and read by the other end."""
        self.memory.write(0, content)

    def received(self, length: int) -> bytes:
        """What stands where messages arrive, and what was read is put."""
        return self.memory.read(self._area, length)

    def count(self, last: bytes) -> None:
        """Of WRITE: the last byte of what is sent."""
        self.memory.write(self.facts.payload_bytes - 1, last)

    def clear(self) -> None:
        """Zeros where messages arrive: whatever comes next can be seen, and no round is counted."""
        self.memory.write(self._area, bytes(self.facts.payload_bytes))

    def send(self, content: bytes) -> None:
        """Post one message of `payload` bytes or fewer; the one before must have completed."""
        self.offer(content)
        self.post(len(content))

    def post(self, length: int) -> None:
        """Post the work request for so many bytes: SEND or WRITE what is there, or READ."""
        if self._send.length != length:
            self._send.length = length
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
        self._take(self.completions)

    def _take(self, queue: CompletionQueue) -> None:
        for completion in self._do(Stage.DATA, queue.poll):
            if completion.status:
                raise BadCompletion(self, completion)
            if completion.is_receive:
                self._arrived.append(completion)
                self.arrivals += 1
            else:
                self.sends -= 1

    def timed(self, *, starts: bool) -> TimedEnd:
        """This end as the timed loop takes it; one receive is posted."""
        last = self.memory.address + self.facts.payload_bytes - 1
        is_write = self.facts.op is DataOp.WRITE
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
            op=self.facts.op,
            stamp=last if is_write else 0,
            watch=last + self._area if is_write else 0,
            channel=self._timed_channel(),
        )

    def _timed_channel(self) -> TimedChannel | None:
        if self.channel is None:
            return None
        return TimedChannel(
            handle=ctypes.cast(self.channel.handle, ctypes.c_void_p).value or 0,
            fd=self.channel.fd,
            get_cq_event=self._call.address("ibv_get_cq_event"),
            ack_cq_events=self._call.address("ibv_ack_cq_events"),
            req_notify_cq=self.context.ops.req_notify_cq or 0,
        )


_PAGE: Final = 16 * 1024
"""Bytes; a page of Apple silicon, and a multiple of x86's."""
