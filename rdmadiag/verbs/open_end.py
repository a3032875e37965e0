"""One end of a path on this host: from the open device to a queue pair that can send.

The only module that changes state on a device, with the objects that it makes. A step is
made once. What failed is a `Failed` with its stage; what was made before it is destroyed
in reverse order by `close`, whatever happened.
"""

import ctypes
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_BYTES, LinkLayer, QpState
from rdmadiag.verbs.abi import IbvGid, IbvQpAttr
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
    MemoryRegion,
    ProtectionDomain,
    QueuePair,
    ReceiveRequest,
    SendRequest,
)
from rdmadiag.verbs.protocol import End

T = TypeVar("T")

DEPTH: Final = 16
"""Work requests that each queue holds: one receive is ever posted, and few sends."""

MAX_RD_ATOMIC: Final = 1
MIN_RNR_TIMER: Final = 12  # 0.64 ms, InfiniBand spec 9.7.5.2.8
TIMEOUT: Final = 14  # 4.096 us * 2**14: 67 ms; what the manual recommends
RETRY_COUNT: Final = 7
RNR_RETRY: Final = 7
ROCE_HOPS: Final = 64
THUNDERBOLT_HOPS: Final = 1  # TN3205

_MTU_NUMBER: Final = {size: number for number, size in MTU_BYTES.items()}


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


@dataclass(frozen=True, slots=True)
class RemoteQueuePair:
    """What RTR must know of the other end."""

    queue_pair: int
    psn: int
    lid: int
    gid: Gid | None
    mtu: int  # bytes, of the path


class OpenEnd:
    """The objects of one end, each made by the step of its name."""

    def __init__(self, call: StagedCaller, pointer: Any, facts: End, psn: int) -> None:
        """Opens the device that `pointer` names, and makes everything up to the queue pair.

        `psn` is what it sends with first.
        """
        self._call = call
        self._made = ExitStack()
        self.facts = facts
        self.psn = psn
        try:
            self.context: Context = self._make(
                Stage.OPEN, lambda: Context(call, facts.device, pointer)
            )
            pd = self._make(Stage.ALLOC_PD, self.context.alloc_pd)
            self.memory: MemoryRegion = self._make(Stage.REG_MR, lambda: self._register(pd))
            self.completions: CompletionQueue = self._make(
                Stage.CREATE_CQ, lambda: self.context.create_cq(2 * DEPTH)
            )
            self.queue_pair: QueuePair = self._make(
                Stage.CREATE_QP, lambda: pd.create_qp(self.completions, facts.qp_type, DEPTH)
            )
        except Failed:
            with suppress(Failed):  # what went wrong first matters more
                self.close()
            raise
        self._send = SendRequest(SEND, self.memory, 0, facts.payload_bytes)
        self._receive = ReceiveRequest(RECEIVE, self.memory, self._area, facts.payload_bytes)
        self._arrived: list[Completion] = []
        self.sends = 0  # that have not completed

    @property
    def _area(self) -> int:
        """Bytes of each half of the memory: whole pages for what is sent and what arrives."""
        return -(-self.facts.payload_bytes // _PAGE) * _PAGE

    def _make(self, stage: Stage, make: Callable[[], T]) -> T:
        return self._made.enter_context(self._do(stage, make))  # type: ignore[arg-type]

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
        """Destroy everything in reverse order; raises Failed for the first that refuses."""
        self._do(Stage.TEARDOWN, self._made.close)

    # --- the three steps -----------------------------------------------------------------

    def to_init(self, pkey_index: int = 0) -> None:
        """RESET → INIT."""
        attributes = IbvQpAttr(pkey_index=pkey_index, port_num=self.facts.port, qp_access_flags=0)
        self._do(Stage.INIT, lambda: self.queue_pair.modify(QpState.INIT, attributes))

    def to_rtr(self, remote: RemoteQueuePair) -> None:
        """INIT → RTR: the address vector, and what the other end will send with."""
        attributes = IbvQpAttr(
            path_mtu=_MTU_NUMBER[remote.mtu],
            dest_qp_num=remote.queue_pair,
            rq_psn=remote.psn,
            max_dest_rd_atomic=MAX_RD_ATOMIC,
            min_rnr_timer=MIN_RNR_TIMER,
        )
        address = attributes.ah_attr
        address.dlid = remote.lid
        address.port_num = self.facts.port
        if self.facts.gid_index is not None and remote.gid is not None:
            thunderbolt = self.facts.link_layer is LinkLayer.THUNDERBOLT
            address.is_global = 1
            address.grh.dgid = IbvGid(*remote.gid.raw)
            address.grh.sgid_index = self.facts.gid_index
            address.grh.hop_limit = THUNDERBOLT_HOPS if thunderbolt else ROCE_HOPS
        self._do(Stage.RTR, lambda: self.queue_pair.modify(QpState.RTR, attributes))

    def to_rts(self) -> None:
        """RTR → RTS."""
        attributes = IbvQpAttr(
            sq_psn=self.psn,
            timeout=TIMEOUT,
            retry_cnt=RETRY_COUNT,
            rnr_retry=RNR_RETRY,
            max_rd_atomic=MAX_RD_ATOMIC,
        )
        self._do(Stage.RTS, lambda: self.queue_pair.modify(QpState.RTS, attributes))

    # --- data ----------------------------------------------------------------------------

    def expect(self) -> None:
        """Post the buffer for the first message; `arrived` posts it again for each next."""
        self._do(Stage.DATA, lambda: self.queue_pair.post_recv(self._receive))

    def send(self, content: bytes) -> None:
        """Post one message of `payload` bytes; the one before must have completed."""
        self.memory.write(0, content)
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
