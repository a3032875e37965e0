"""One end of a cell of `exercise`: its objects, and all that an operation can do there.

Every action takes and returns plain data, so that the other end can be on another host.
"""

import ctypes
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from socket import htonl, ntohl
from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.exercise import BY_WINDOW, Operation, Via, Wanted
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MigrationState, QpState, QpType
from rdmadiag.verbs import multicast
from rdmadiag.verbs.abi import IbvQpAttr, IbvRecvWr, IbvSendWr, IbvSge
from rdmadiag.verbs.async_events import AsyncEvents
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.bringup import (
    TIMEOUT,
    RemoteQueuePair,
    address_vector,
    init_attributes,
    rtr_attributes,
    rts_attributes,
)
from rdmadiag.verbs.completion import Completion, CompletionChannel
from rdmadiag.verbs.frames import Frame, Rule
from rdmadiag.verbs.loop import RECEIVE, SEND
from rdmadiag.verbs.matrix import SGE
from rdmadiag.verbs.objects import (
    LOCAL_WRITE,
    MW_BIND,
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    AddressHandle,
    Context,
    FlowRule,
    GroupMember,
    MemoryWindow,
    QueuePair,
    Shape,
    SharedReceiveQueue,
    XrcQueue,
    window_of,
)
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.requests import SEND_SIGNALED
from rdmadiag.verbs.teardown import M, Objects
from rdmadiag.verbs.transitions import Attribute
from rdmadiag.verbs.work import BIND_MW, IN, MEMORY, Completed, Piece, Target, Work

DEPTH: Final = 8
ENTRIES: Final = 32
QKEY: Final = 0x11111111
INLINE: Final = 64
"""Bytes; soft iWARP has 80 (SIW_MAX_INLINE, sw/siw/siw.h)."""
WITH_IMM: Final = 2  # enum ibv_wc_flags
WITH_INV: Final = 8 | 4
"""IBV_WC_WITH_INV, and the kernel's number of it, which soft RoCE hands to programs; to verbs
that is IBV_WC_IP_CSUM_OK, which nothing that we compare with carries."""

_RNR_RETRY: Final = 6
"""Not for ever: every receive of a cell is posted before the message, one that is not is said."""

_ACCESS: Final = {
    Operation.WRITE: REMOTE_WRITE,
    Operation.WRITE_IMM: REMOTE_WRITE,
    Operation.READ: REMOTE_READ,
    Operation.FENCE: REMOTE_READ,
    Operation.CMP_SWAP: REMOTE_ATOMIC,
    Operation.FETCH_ADD: REMOTE_ATOMIC,
    Operation.MW_TYPE_1: REMOTE_WRITE,
    Operation.MW_TYPE_2: REMOTE_WRITE,
    Operation.SEND_INV: REMOTE_WRITE,
}
"""What the target's queue pair allows, and its memory beside a local write."""


class Side:
    """One end; every call raises CallFailed."""

    def __init__(
        self,
        cell: Wanted,
        context: Context | None,
        facts: End,
        caller: RecordedCaller,
        bounds: Bounds,
        events: AsyncEvents | None,
        *,
        acts: bool,
    ) -> None:
        """`acts`: it sends first; the other end is its target.

        A subclass whose `open` finds the device gives none.
        """
        self.facts = facts
        self.sent: list[Completed] = []  # what poll gave; the operation keeps them
        self.arrived: list[Completed] = []
        self.has_channel = cell.via is Via.CHANNEL
        self._cell = cell
        if context and events:
            self._context, self._events = context, events
        self._caller = caller
        self._bounds = bounds
        self._acts = acts
        self._objects = Objects()
        self._is_ud = cell.qp_type == QpType.UD
        self._ah: AddressHandle | None = None
        self._remote: RemoteQueuePair | None = None
        self._far_queue_pair = 0  # of UD
        self._window: MemoryWindow | None = None
        self._member: GroupMember | None = None
        self._interest: multicast.Interest | None = None
        self._rule: FlowRule | None = None
        self._last: Completion | None = None  # that is a receive
        self._kept: list[object] = []  # what the library may still read

    def stage(self, stage: Stage) -> None:
        """What the calls that follow are made for."""
        self._caller.stage = stage

    def _make(self, made: M) -> M:
        """Hold an object until the cell ends."""
        return self._objects.add(made)

    # --- from nothing to RTS, and away ---------------------------------------------------

    def open(self) -> int:
        """Everything up to a queue pair in RESET, whose number it returns."""
        cell, context = self._cell, self._context
        self._pd = self._make(context.alloc_pd())
        self._memory = self._make(self._pd.reg_mr(MEMORY, LOCAL_WRITE | self._rights()))
        self._channel: CompletionChannel | None = None
        if self.has_channel:
            self._channel = self._make(context.create_channel())
        self._cq = self._make(context.create_cq(ENTRIES, self._channel))
        self._srq: SharedReceiveQueue | None = None
        if cell.qp_type == "xrc":
            self._qp = self._open_xrc()
            return self._qp.number
        if cell.via is Via.SRQ:
            self._srq = self._make(self._pd.create_srq(DEPTH))
        shape = Shape(
            sge=SGE if cell.operation is Operation.SGE_LIST else 1,
            inline=INLINE if cell.operation is Operation.SEND_INLINE else 0,
            all_signaled=cell.operation is not Operation.UNSIGNALED,
            srq=self._srq,
        )
        self._qp = self._make(self._queue_pair(QpType[cell.qp_type.upper()], shape))
        return self._qp.number

    def _rights(self) -> int:
        """Of its memory, beside a local write."""
        operation = self._cell.operation
        return MW_BIND if operation in BY_WINDOW else _ACCESS.get(operation, 0)

    def _queue_pair(self, kind: QpType, shape: Shape) -> QueuePair:
        return self._pd.create_qp(self._cq, kind, DEPTH, shape)

    def _open_xrc(self) -> QueuePair:
        if self._acts:
            return self._make(self._pd.create_qp(self._cq, QpType.XRC_SEND, DEPTH))
        domain = self._make(self._context.open_xrcd())
        self._srq = self._make(self._pd.create_xrc_srq(domain, self._cq, DEPTH))
        return self._make(self._context.create_xrc_receiver(domain))

    def srq_number(self) -> int:
        """XRC: what names the receive queue of this end."""
        assert isinstance(self._srq, XrcQueue)
        return self._srq.number()

    def to_init(self) -> None:
        """RESET → INIT."""
        access = _ACCESS.get(self._cell.operation, 0)
        qkey = QKEY if self._is_ud else 0
        self._qp.modify(QpState.INIT, init_attributes(self.facts, access, qkey))

    def to_rtr(self, remote: RemoteQueuePair) -> None:
        """INIT → RTR; UD gets an address handle."""
        self._remote, self._far_queue_pair = remote, remote.queue_pair
        self._qp.modify(QpState.RTR, rtr_attributes(self.facts, remote))
        if self._is_ud and not self._ah:
            self._ah = self._make(self._pd.create_ah(address_vector(self.facts, remote)))

    def to_rts(self, psn: int) -> None:
        """RTR → RTS; `psn` is what it sends with first."""
        self._qp.modify(QpState.RTS, rts_attributes(psn, _RNR_RETRY))

    def end(self, after: QpState) -> None:
        """To ERR or RESET."""
        self._qp.end(after)

    def close(self) -> None:
        """Destroy everything."""
        try:
            self._objects.close()
        finally:
            if self._interest:
                self._interest.close()

    # --- a queue pair that is at work ----------------------------------------------------

    def drain(self) -> None:
        """RTS → SQD, with an event once the send queue has drained."""
        attributes = IbvQpAttr(qp_state=QpState.SQD.number, en_sqd_async_notify=1)
        self._qp.modify_by(attributes, Attribute.STATE | Attribute.EN_SQD_ASYNC_NOTIFY)

    def resume(self) -> None:
        """SQD → RTS."""
        self._qp.modify_by(IbvQpAttr(qp_state=QpState.RTS.number), Attribute.STATE)

    def load_path(self) -> None:
        """RTS: the path that it has as its alternate one, too, to be armed."""
        assert self._remote
        attributes = IbvQpAttr(
            path_mig_state=MigrationState.REARM.number,
            alt_ah_attr=address_vector(self.facts, self._remote),
            alt_port_num=self.facts.port,
            alt_timeout=TIMEOUT,
        )
        self._qp.modify_by(attributes, Attribute.ALT_PATH | Attribute.PATH_MIG_STATE)

    def migrate(self) -> None:
        """RTS: go by the alternate path from now on."""
        attributes = IbvQpAttr(path_mig_state=MigrationState.MIGRATED.number)
        self._qp.modify_by(attributes, Attribute.PATH_MIG_STATE)

    def migration(self) -> int:
        """enum ibv_mig_state, as the device has it."""
        attributes, _ = self._qp.query(Attribute.PATH_MIG_STATE)
        found: int = attributes.path_mig_state
        return found

    # --- memory --------------------------------------------------------------------------

    def write(self, offset: int, content: bytes) -> None:
        """Put `content` there."""
        self._memory.write(offset, content)

    def read(self, offset: int, length: int) -> bytes:
        """What stands there."""
        return self._memory.read(offset, length)

    def target(self, offset: int = IN) -> Target:
        """This memory, for the other end."""
        return Target(self._memory.address + offset, self._memory.rkey)

    # --- work requests -------------------------------------------------------------------

    def receives(self, *buffers: Sequence[Piece]) -> None:
        """Post receives, linked, each into these pieces."""
        requests = [IbvRecvWr(wr_id=RECEIVE, num_sge=len(pieces)) for pieces in buffers]
        for request, pieces, following in zip(
            requests, buffers, [*requests[1:], None], strict=True
        ):
            request.sg_list = self._elements(pieces)
            request.next = ctypes.addressof(following) if following else None
        self._kept.append(requests)
        if self._srq:
            self._srq.post_recv(requests[0])
        else:
            self._context.post_recv(self._qp.handle, requests[0])

    def post(self, *works: Work) -> None:
        """Post them with one call, linked."""
        self._must_send()
        requests = [self._request(each) for each in works]
        for one, following in pairwise(requests):
            one.next = ctypes.addressof(following)
        self._kept.append(requests)
        self._context.post_send(self._qp.handle, requests[0])

    def _elements(self, pieces: Sequence[Piece]) -> "ctypes.Array[IbvSge]":
        made = (IbvSge * max(1, len(pieces)))()
        for at, (offset, length) in enumerate(pieces):
            made[at] = IbvSge(self._memory.address + offset, length, self._memory.lkey)
        self._kept.append(made)
        return made

    def _must_send(self) -> None:
        """A peer may ask for anything; providers take a send queue for granted."""
        if self._cell.qp_type == "xrc" and not self._acts:
            raise AssertionError("the receiving end of XRC has no send queue")

    def _request(self, work: Work) -> IbvSendWr:
        if self._is_ud and (work.target or not self._ah):
            # struct ibv_send_wr has target and address handle, a pointer, in the same place.
            raise AssertionError("a UD message goes to an address handle, and to no memory")
        request = IbvSendWr(
            wr_id=SEND,
            num_sge=len(work.pieces),
            opcode=work.opcode,
            send_flags=work.flags,
            imm_data=htonl(work.immediate) if work.invalidate is None else work.invalidate,
            qp_type=work.srq,
        )
        request.sg_list = self._elements(work.pieces)
        target = work.target
        if target and work.operands:
            atomic = request.wr.atomic
            atomic.remote_addr, atomic.rkey = target.address, target.rkey
            atomic.compare_add, atomic.swap = work.operands
        elif target:
            request.wr.rdma.remote_addr, request.wr.rdma.rkey = target.address, target.rkey
        elif self._ah:
            request.wr.ud.ah = self._ah.handle
            request.wr.ud.remote_qpn, request.wr.ud.remote_qkey = self._far_queue_pair, QKEY
        return request

    def answer(self, grh: int = IN) -> None:
        """UD: what follows goes back to where the last message, at this offset, came from."""
        assert self._last
        self._ah = self._make(
            self._pd.create_ah_from_wc(
                self._last.entry, self._memory.address + grh, self.facts.port
            )
        )

    # --- memory windows ------------------------------------------------------------------

    def window(self, kind: int) -> None:
        """A window of type 1 or 2 on the memory of this end, bound to nothing."""
        self._window = self._make(self._pd.alloc_mw(kind))

    def bind(self, offset: int, length: int) -> int:
        """Post what binds the window there, for writing; its rkey once that has completed.

        Of type 1 a length of 0 unbinds it.
        """
        self._must_send()
        window = self._window
        if window is None or not window.is_open:  # else its handle is freed memory
            raise AssertionError("no window")
        if window.kind == 1:
            window.bind(self._qp, SEND, self._memory, offset, length)
            return window.rkey
        request = IbvSendWr(wr_id=SEND, opcode=BIND_MW, send_flags=SEND_SIGNALED)
        request.bind_mw.mw = ctypes.cast(window.handle, ctypes.c_void_p).value
        request.bind_mw.rkey = window.next_rkey()
        request.bind_mw.bind_info = window_of(self._memory, offset, length)
        self._kept.append(request)
        self._context.post_send(self._qp.handle, request)
        window.rkey = request.bind_mw.rkey
        return window.rkey

    def close_window(self) -> None:
        """Destroys the memory window."""
        assert self._window
        self._window.close()

    # --- multicast -----------------------------------------------------------------------

    def join(self, group: bytes) -> None:
        """Get what is sent to this group; of the IP layer's part only what it can do."""
        with suppress(OSError):  # hardware does without
            at = self.facts.device, self.facts.port, self.facts.gid_index or 0
            self._interest = multicast.Interest(multicast.netdev_of(*at), group)
        self._member = self._make(GroupMember(self._caller, self._qp, group))

    def leave(self) -> None:
        """Detaches from the multicast group, and leaves it."""
        assert self._member
        self._member.close()
        if self._interest:
            self._interest.close()

    def address_group(self, group: bytes) -> None:
        """What follows goes to this group."""
        remote = RemoteQueuePair(multicast.QUEUE_PAIR, 0, 0, Gid(group), 0)
        self._ah = self._make(self._pd.create_ah(address_vector(self.facts, remote)))
        self._far_queue_pair = multicast.QUEUE_PAIR

    # --- raw frames ----------------------------------------------------------------------

    def steer(self, frame: Frame) -> None:
        """A rule by which frames of this kind come here."""
        self._rule = self._make(FlowRule(self._caller, self._qp, Rule(frame, self.facts.port)))

    def unsteer(self) -> None:
        """Destroys the flow rule."""
        assert self._rule
        self._rule.close()

    # --- what has happened ---------------------------------------------------------------

    def poll(self) -> tuple[Completed, ...]:
        """What has completed since the last look, perhaps nothing."""
        found = self._cq.poll()
        receives = [each for each in found if each.is_receive and not each.status]
        self._last = receives[-1] if receives else self._last
        return tuple(_completed(each) for each in found)

    def arm(self, *, solicited_only: bool = False) -> None:
        """Where it has a channel, the next completion makes an event."""
        if self._channel:
            self._cq.notify(solicited_only=solicited_only)

    def event(self, seconds: float) -> bool:
        """Whether the channel had an event within this time; it is taken."""
        assert self._channel
        if not self._bounds.ready([self._channel.fd], time.monotonic() + seconds):
            return False
        return self._channel.event()

    def async_events(self) -> tuple[int, ...]:
        """enum ibv_event_type of those since the last look, perhaps none."""
        return self._events.take()

    # --- its queues ----------------------------------------------------------------------

    def limit_srq(self, requests: int) -> None:
        """An event when fewer receives than this are left."""
        assert self._srq
        self._srq.limit(requests)

    def resize_cq(self, entries: int) -> None:
        """Room for so many completions."""
        self._cq.resize(entries)


def _completed(found: Completion) -> Completed:
    if found.status:
        return Completed(found.is_receive, found.status, vendor_error=found.vendor_error)
    entry = found.entry
    immediate = ntohl(entry.imm_data) if entry.wc_flags & WITH_IMM else None
    invalidated = entry.imm_data if entry.wc_flags & WITH_INV else None
    return Completed(found.is_receive, 0, found.byte_length, immediate, entry.src_qp, invalidated)
