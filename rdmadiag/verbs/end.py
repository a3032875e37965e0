"""One end of a path: everything from the open device to a queue pair that can send.

The only module that changes state on a device, with the objects that it makes. A step is
made once. What failed is a `Failed` with its stage; what was made before it is destroyed
in reverse order by `close`, whatever happened.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from rdmadiag.gid.gid import Gid
from rdmadiag.ib import MTU_BYTES, LinkLayer, QpState, QpType
from rdmadiag.verbs.abi import IbvGid, IbvQpAttr
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.objects import (
    Caller,
    Completion,
    CompletionQueue,
    Context,
    MemoryRegion,
    QueuePair,
    ReceiveRequest,
    SendRequest,
)

T = TypeVar("T")

DEPTH: Final = 16
"""Work requests that each queue holds; one of each is ever outstanding."""

MAX_RD_ATOMIC: Final = 1
MIN_RNR_TIMER: Final = 12  # 0.64 ms, InfiniBand spec 9.7.5.2.8
TIMEOUT: Final = 14  # 4.096 us * 2**14: 67 ms; what the manual recommends
RETRY_COUNT: Final = 7
RNR_RETRY: Final = 7
ROCE_HOPS: Final = 64
THUNDERBOLT_HOPS: Final = 1  # TN3205

_MTU_NUMBER: Final = {size: number for number, size in MTU_BYTES.items()}


class Stage(StrEnum):
    """How far an end has come; a failure carries the one that it happened in."""

    OPEN = "open"
    ALLOC_PD = "alloc_pd"
    REG_MR = "reg_mr"
    CREATE_CQ = "create_cq"
    CREATE_QP = "create_qp"
    INIT = "init"
    RTR = "rtr"
    RTS = "rts"
    DATA = "data"
    TEARDOWN = "teardown"


class Failed(Exception):
    """A step that did not succeed; `errno` is 0 where the call gave none."""

    def __init__(self, stage: Stage, call: str, device: str, errno: int) -> None:
        super().__init__(f"{stage}: {call} of {device}: errno {errno}")
        self.stage = stage
        self.call = call
        self.device = device
        self.errno = errno


class BadCompletion(Exception):
    """A work request that completed with an error."""

    def __init__(self, device: str, completion: Completion) -> None:
        super().__init__(f"{device}: status {completion.status}")
        self.device = device
        self.completion = completion


@dataclass(frozen=True, slots=True)
class Local:
    """What this end is made with."""

    device: str
    port: int
    link_layer: LinkLayer
    gid_index: int | None  # None: InfiniBand without a GRH
    qp_type: QpType
    payload: int  # bytes
    psn: int


@dataclass(frozen=True, slots=True)
class Remote:
    """What RTR must know of the other end."""

    queue_pair: int
    psn: int
    lid: int
    gid: Gid | None
    mtu: int  # bytes, of the path


class End:
    """The objects of one end, each made by the step of its name."""

    def __init__(self, call: Caller, pointer: Any, local: Local) -> None:
        """Opens the device that `pointer` names, and makes everything up to the queue pair."""
        self._made = ExitStack()
        self.local = local
        self.stage = Stage.OPEN
        try:
            self.context: Context = self._make(
                Stage.OPEN, lambda: Context(call, local.device, pointer)
            )
            pd = self._make(Stage.ALLOC_PD, self.context.alloc_pd)
            self.memory: MemoryRegion = self._make(Stage.REG_MR, lambda: pd.reg_mr(2 * self._area))
            self.completions: CompletionQueue = self._make(
                Stage.CREATE_CQ, lambda: self.context.create_cq(2 * DEPTH)
            )
            self.queue_pair: QueuePair = self._make(
                Stage.CREATE_QP, lambda: pd.create_qp(self.completions, local.qp_type, DEPTH)
            )
        except Failed:
            with suppress(CallFailed):  # what went wrong first matters more
                self._made.close()
            raise
        self._send = SendRequest(1, self.memory, 0, local.payload)
        self._receive = ReceiveRequest(2, self.memory, self._area, local.payload)
        self._held: list[Completion] = []

    @property
    def _area(self) -> int:
        """Bytes of each half of the memory: whole pages for what is sent and what arrives."""
        return -(-self.local.payload // _PAGE) * _PAGE

    def _make(self, stage: Stage, make: Callable[[], T]) -> T:
        return self._made.enter_context(self._do(stage, make))  # type: ignore[arg-type]

    def _do(self, stage: Stage, make: Callable[[], T]) -> T:
        self.stage = stage
        try:
            return make()
        except CallFailed as failed:
            raise Failed(stage, failed.call, self.local.device, failed.errno) from failed

    def close(self) -> None:
        """Destroy everything in reverse order; raises Failed for the first that refuses."""
        self._do(Stage.TEARDOWN, self._made.close)

    # --- the three steps -----------------------------------------------------------------

    def to_init(self) -> None:
        """RESET → INIT."""
        attributes = IbvQpAttr(pkey_index=0, port_num=self.local.port, qp_access_flags=0)
        self._do(Stage.INIT, lambda: self.queue_pair.modify(QpState.INIT, attributes))

    def to_rtr(self, remote: Remote) -> None:
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
        address.port_num = self.local.port
        if self.local.gid_index is not None and remote.gid is not None:
            thunderbolt = self.local.link_layer is LinkLayer.THUNDERBOLT
            address.is_global = 1
            address.grh.dgid = IbvGid(*remote.gid.raw)
            address.grh.sgid_index = self.local.gid_index
            address.grh.hop_limit = THUNDERBOLT_HOPS if thunderbolt else ROCE_HOPS
        self._do(Stage.RTR, lambda: self.queue_pair.modify(QpState.RTR, attributes))

    def to_rts(self) -> None:
        """RTR → RTS."""
        attributes = IbvQpAttr(
            sq_psn=self.local.psn,
            timeout=TIMEOUT,
            retry_cnt=RETRY_COUNT,
            rnr_retry=RNR_RETRY,
            max_rd_atomic=MAX_RD_ATOMIC,
        )
        self._do(Stage.RTS, lambda: self.queue_pair.modify(QpState.RTS, attributes))

    # --- data ----------------------------------------------------------------------------

    def expect(self) -> None:
        """Post the buffer for the next message; what an earlier one left in it is wiped."""
        self.memory.write(self._area, bytes(self.local.payload))
        self._do(Stage.DATA, lambda: self.queue_pair.post_recv(self._receive))

    def send(self, content: bytes) -> None:
        """Post one message of `payload` bytes."""
        self.memory.write(0, content)
        self._do(Stage.DATA, lambda: self.queue_pair.post_send(self._send))

    def arrived(self) -> bytes | None:
        """The message that has arrived, or None as long as none has."""
        found = self._taken(receive=True)
        return None if found is None else self.memory.read(self._area, found.byte_length)

    def sent(self) -> bool:
        """Whether the message that was posted has completed."""
        return self._taken(receive=False) is not None

    def _taken(self, *, receive: bool) -> Completion | None:
        """The next completion of one kind; raises BadCompletion for a status that is not 0."""
        for completion in self._do(Stage.DATA, self.completions.poll):
            if completion.status:
                raise BadCompletion(self.local.device, completion)
            self._held.append(completion)
        for completion in self._held:
            if completion.is_receive is receive:
                self._held.remove(completion)
                return completion
        return None


_PAGE: Final = 16 * 1024
"""Bytes; a page of Apple silicon, and a multiple of x86's."""
