"""Each operation of verbs between two queue pairs of this process, verified at its target."""

import ctypes
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from socket import htonl, ntohl
from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.exercise import Operation, Via, Wanted
from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs.abi import IbvRecvWr, IbvSendWr, IbvSge
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.bringup import (
    RemoteQueuePair,
    address_vector,
    init_attributes,
    rtr_attributes,
    rts_attributes,
)
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE, SEND
from rdmadiag.verbs.matrix import LENGTH, SGE
from rdmadiag.verbs.objects import (
    LOCAL_WRITE,
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    AddressHandle,
    Completion,
    CompletionChannel,
    Context,
    M,
    Objects,
    Shape,
)
from rdmadiag.verbs.protocol import End, path_mtu
from rdmadiag.verbs.recorded_caller import RecordedCaller

AREA: Final = 4096  # bytes from one part of an end's memory to the next
OUT, IN, THIRD = 0, AREA, 2 * AREA
DEPTH: Final = 8
ENTRIES: Final = 32
GRH: Final = 40  # bytes before a UD message, infiniband/verbs.h: struct ibv_grh
QKEY: Final = 0x11111111
INLINE: Final = LENGTH
STALL_SECONDS: Final = 4.0  # without a completion that must come
UNSOLICITED_SECONDS: Final = 0.1  # in which an event that must not come would have

WRITE, WRITE_IMM, MESSAGE, MESSAGE_IMM, READ, CMP_SWAP, FETCH_ADD = range(7)
"""enum ibv_wr_opcode."""
FENCE, SIGNALED, SOLICITED, AS_INLINE = 1, 2, 4, 8
"""enum ibv_send_flags."""
WITH_IMM: Final = 2  # enum ibv_wc_flags
FLUSHED: Final = 5  # IBV_WC_WR_FLUSH_ERR
SRQ_LIMIT_REACHED: Final = 15  # enum ibv_event_type

_ACCESS: Final = {
    Operation.WRITE: REMOTE_WRITE,
    Operation.WRITE_IMM: REMOTE_WRITE,
    Operation.READ: REMOTE_READ,
    Operation.FENCE: REMOTE_READ,
    Operation.CMP_SWAP: REMOTE_ATOMIC,
    Operation.FETCH_ADD: REMOTE_ATOMIC,
}
"""What the target's memory and queue pair allow, beside a local write."""


class BadStatus(Exception):
    """A work request that completed with an error."""

    def __init__(self, end: str, completion: Completion) -> None:
        what = "receive" if completion.is_receive else "send"
        super().__init__(f"a {what} of {end} completed with status {completion.status}")
        self.status = completion.status


class Silent(Exception):
    """A completion or an event that must come did not."""


class Wrong(Exception):
    """What arrived is not what was sent."""


@dataclass(frozen=True, slots=True)
class Target:
    """Memory of the other end."""

    address: int
    rkey: int


class Side:
    """One end of a cell."""

    def __init__(self, cell: Wanted, context: Context, facts: End) -> None:
        self._cell = cell
        self.context = context
        self.facts = facts
        self._objects = Objects()
        self.sent: list[Completion] = []
        self.arrived: list[Completion] = []
        self.is_ud = cell.qp_type == QpType.UD
        self.ah: AddressHandle | None = None
        self.remote: RemoteQueuePair | None = None
        self._kept: list[object] = []  # what the library may still read

    def make(self, made: M) -> M:
        """Hold an object until the cell ends."""
        return self._objects.add(made)

    def close(self) -> None:
        """Destroy everything; raises CallFailed."""
        self._objects.close()

    def open(self) -> None:
        """Everything up to a queue pair in RESET; raises CallFailed."""
        cell, context = self._cell, self.context
        access = LOCAL_WRITE | _ACCESS.get(cell.operation, 0)
        self.pd = self.make(context.alloc_pd())
        self.memory = self.make(self.pd.reg_mr(3 * AREA, access))
        self.channel: CompletionChannel | None = None
        if cell.via is Via.CHANNEL:
            self.channel = self.make(context.create_channel())
        self.cq = self.make(context.create_cq(ENTRIES, self.channel))
        self.srq = self.make(self.pd.create_srq(DEPTH)) if cell.via is Via.SRQ else None
        shape = Shape(
            sge=SGE if cell.operation is Operation.SGE_LIST else 1,
            inline=INLINE if cell.operation is Operation.SEND_INLINE else 0,
            all_signaled=cell.operation is not Operation.UNSIGNALED,
            srq=self.srq,
        )
        self.qp = self.make(self.pd.create_qp(self.cq, QpType[cell.qp_type.upper()], DEPTH, shape))

    def to_init(self) -> None:
        """RESET → INIT."""
        access = _ACCESS.get(self._cell.operation, 0)
        qkey = QKEY if self.is_ud else 0
        self.qp.modify(QpState.INIT, init_attributes(self.facts, access, qkey))

    # --- work requests -------------------------------------------------------------------

    def elements(self, pieces: Sequence[tuple[int, int]]) -> "ctypes.Array[IbvSge]":
        """(offset, bytes) of the memory, each a buffer."""
        made = (IbvSge * max(1, len(pieces)))()
        for at, (offset, length) in enumerate(pieces):
            made[at] = IbvSge(self.memory.address + offset, length, self.memory.lkey)
        self._kept.append(made)
        return made

    def receives(self, *buffers: Sequence[tuple[int, int]]) -> None:
        """Post receives, linked, each of these buffers; a UD one has room for a GRH more."""
        requests = [IbvRecvWr(wr_id=RECEIVE, num_sge=len(pieces)) for pieces in buffers]
        for request, pieces, following in zip(
            requests, buffers, [*requests[1:], None], strict=True
        ):
            request.sg_list = self.elements(pieces)
            request.next = ctypes.addressof(following) if following else None
        self._kept.append(requests)
        if self.srq:
            self.srq.post_recv(requests[0])
        else:
            self.context.post_recv(self.qp.handle, requests[0])

    def receive(self, offset: int = IN, length: int = LENGTH) -> None:
        """Post one receive into one buffer."""
        self.receives([(offset, length + self.grh)] if length else [])

    @property
    def grh(self) -> int:
        """Bytes before a message."""
        return GRH if self.is_ud else 0

    def request(
        self,
        opcode: int = MESSAGE,
        pieces: Sequence[tuple[int, int]] = ((OUT, LENGTH),),
        *,
        flags: int = SIGNALED,
        immediate: int = 0,
        target: Target | None = None,
        operands: tuple[int, int] | None = None,
    ) -> IbvSendWr:
        """A work request: of an atomic one, `operands` are compare_add and swap."""
        request = IbvSendWr(
            wr_id=SEND,
            num_sge=len(pieces),
            opcode=opcode,
            send_flags=flags,
            imm_data=htonl(immediate),
        )
        request.sg_list = self.elements(pieces)
        if target and operands:
            atomic = request.wr.atomic
            atomic.remote_addr, atomic.rkey = target.address, target.rkey
            atomic.compare_add, atomic.swap = operands
        elif target:
            request.wr.rdma.remote_addr, request.wr.rdma.rkey = target.address, target.rkey
        elif self.is_ud and self.remote:
            request.wr.ud.ah = self.ah.handle if self.ah else None
            request.wr.ud.remote_qpn, request.wr.ud.remote_qkey = self.remote.queue_pair, QKEY
        self._kept.append(request)
        return request

    def post(self, *requests: IbvSendWr) -> None:
        """Post them with one call, linked; raises CallFailed."""
        for one, following in pairwise(requests):
            one.next = ctypes.addressof(following)
        self.context.post_send(self.qp.handle, requests[0])

    def target(self, offset: int = IN) -> Target:
        """This memory, for the other end."""
        return Target(self.memory.address + offset, self.memory.rkey)

    def arm(self) -> None:
        """Where it has a channel, the next completion makes an event."""
        if self.channel:
            self.cq.notify()

    def poll(self) -> bool:
        """Take what has completed; whether there was any. Raises BadStatus."""
        found = self.cq.poll()
        for completion in found:
            if completion.status:
                raise BadStatus(self.facts.device, completion)
            (self.arrived if completion.is_receive else self.sent).append(completion)
        return bool(found)


class Pair:
    """Both ends of a cell: the first one acts, the second one is its target."""

    def __init__(
        self,
        cell: Wanted,
        contexts: Sequence[Context],
        ends: Sequence[End],
        callers: Sequence[RecordedCaller],
        bounds: Bounds,
    ) -> None:
        self._callers = callers
        self.bounds = bounds
        self.ends = [
            Side(cell, context, facts) for context, facts in zip(contexts, ends, strict=True)
        ]
        self.one, self.other = self.ends
        self._random = random.SystemRandom()

    @property
    def stage(self) -> Stage:
        """What calls are made for."""
        return self._callers[0].stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        for each in self._callers:
            each.stage = stage

    def close(self) -> None:
        """Destroy all of both ends; raises the first CallFailed."""
        refused: CallFailed | None = None
        for end in reversed(self.ends):
            try:
                end.close()
            except CallFailed as failed:
                refused = refused or failed
        if refused:
            raise refused

    def open(self, psns: Sequence[int]) -> None:
        """Make everything, and bring both queue pairs up; raises CallFailed."""
        self.stage = Stage.CREATE_QP
        for end in self.ends:
            end.open()
        self.bring_up(psns)

    def bring_up(self, psns: Sequence[int]) -> None:
        """From RESET to RTS; raises CallFailed."""
        mtu = path_mtu(self.one.facts, self.other.facts)
        for end, peer, psn in zip(self.ends, self.ends[::-1], psns[::-1], strict=True):
            facts = peer.facts
            end.remote = RemoteQueuePair(peer.qp.number, psn, facts.lid, facts.gid, mtu)
        self.stage = Stage.INIT
        for end in self.ends:
            end.to_init()
        self.stage = Stage.RTR
        for end in self.ends:
            assert end.remote
            end.qp.modify(QpState.RTR, rtr_attributes(end.facts, end.remote))
            if end.is_ud and not end.ah:
                end.ah = end.make(end.pd.create_ah(address_vector(end.facts, end.remote)))
        self.stage = Stage.RTS
        for end, psn in zip(self.ends, psns, strict=True):
            end.qp.modify(QpState.RTS, rts_attributes(psn))

    def pattern(self, length: int = LENGTH) -> bytes:
        """What nobody has sent before."""
        return self._random.randbytes(length)

    def collect(self, needs: Mapping[Side, tuple[int, int]]) -> None:
        """Until each side has so many sends and receives more; raises Silent and BadStatus."""
        goals = {
            side: (len(side.sent) + sends, len(side.arrived) + receives)
            for side, (sends, receives) in needs.items()
        }

        def missing() -> list[Side]:
            return [
                side
                for side, (sends, receives) in goals.items()
                if len(side.sent) < sends or len(side.arrived) < receives
            ]

        until = time.monotonic() + STALL_SECONDS
        looked = time.monotonic()
        while waiting := missing():
            polled = [side.poll() for side in waiting]
            if any(polled):
                continue
            if all(side.channel for side in waiting):
                self._sleep(waiting, until)
                continue
            now = time.monotonic()
            if now - looked > _SLICE_SECONDS:
                looked = now
                self.bounds.glance()
            if now > until:
                names = ", ".join(side.facts.device for side in waiting)
                raise Silent(f"no completion at {names} within {STALL_SECONDS:g} s")

    def _sleep(self, waiting: Sequence[Side], until: float) -> None:
        by_fd = {side.channel.fd: side for side in waiting if side.channel}
        ready = self.bounds.ready(list(by_fd), until)
        if not ready:
            raise Silent(f"no event on the completion channel within {STALL_SECONDS:g} s")
        for descriptor in ready:
            side = by_fd[descriptor]
            assert side.channel
            side.channel.event()
            side.cq.notify()

    def arm(self) -> None:
        """Both ends."""
        for end in self.ends:
            end.arm()

    def eventually(self, holds: Callable[[], bool], what: str) -> None:
        """Until something holds that no completion tells of; raises Silent."""
        until = time.monotonic() + STALL_SECONDS
        while not holds():
            self.bounds.check()
            if time.monotonic() > until:
                raise Silent(f"{what} within {STALL_SECONDS:g} s")
            time.sleep(_NAP_SECONDS)


_SLICE_SECONDS: Final = 0.02
_NAP_SECONDS: Final = 0.001


def _same(got: bytes, expected: bytes, where: str) -> None:
    if got != expected:
        differ = sum(one != other for one, other in zip(got, expected, strict=True))
        raise Wrong(f"{differ} of {len(expected)} bytes differ {where}")


def _arrived(side: Side, content: bytes, offset: int = IN) -> None:
    """The last message is this one."""
    length = side.arrived[-1].byte_length
    if length != len(content) + side.grh:
        raise Wrong(f"{length} bytes arrived, {len(content) + side.grh} were expected")
    _same(side.memory.read(offset + side.grh, len(content)), content, "in what arrived")


def _message(pair: Pair, request: Callable[[], IbvSendWr], content: bytes) -> None:
    one, other = pair.ends
    pair.arm()
    other.receive()
    one.memory.write(OUT, content)
    one.post(request())
    pair.collect({one: (1, 0), other: (0, 1)})
    _arrived(other, content)


def _send(pair: Pair) -> None:
    _message(pair, pair.one.request, pair.pattern())


def _immediate(pair: Pair, sent: int) -> None:
    entry = pair.other.arrived[-1].entry
    if not entry.wc_flags & WITH_IMM:
        raise Wrong("the completion has no immediate")
    if ntohl(entry.imm_data) != sent:
        raise Wrong(f"immediate {ntohl(entry.imm_data):#x} arrived, {sent:#x} was sent")


def _word(pair: Pair) -> int:
    return int.from_bytes(pair.pattern(4), "big")


def _send_imm(pair: Pair) -> None:
    word = _word(pair)
    _message(pair, lambda: pair.one.request(MESSAGE_IMM, immediate=word), pair.pattern())
    _immediate(pair, word)


def _send_inline(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    other.receive()
    one.memory.write(OUT, content)
    one.post(one.request(flags=SIGNALED | AS_INLINE))
    one.memory.write(OUT, bytes(LENGTH))  # it is free again: what arrives was copied
    pair.collect({one: (1, 0), other: (0, 1)})
    _arrived(other, content)


def _send_solicited(pair: Pair) -> None:
    one, other = pair.ends
    assert other.channel
    other.cq.notify(solicited_only=True)
    other.receives([(IN, LENGTH + other.grh)], [(THIRD, LENGTH + other.grh)])
    plain, marked = pair.pattern(), pair.pattern()
    one.memory.write(OUT, plain)
    one.arm()
    one.post(one.request())
    pair.collect({one: (1, 0)})
    if pair.bounds.ready([other.channel.fd], time.monotonic() + UNSOLICITED_SECONDS):
        raise Wrong("a message that was not solicited made an event")
    one.memory.write(OUT, marked)
    one.arm()
    one.post(one.request(flags=SIGNALED | SOLICITED))
    if not pair.bounds.ready([other.channel.fd], time.monotonic() + STALL_SECONDS):
        raise Silent(f"no event of a solicited message within {STALL_SECONDS:g} s")
    other.channel.event()
    pair.collect({one: (1, 0), other: (0, 2)})
    _same(other.memory.read(IN + other.grh, LENGTH), plain, "in the first message")
    _same(other.memory.read(THIRD + other.grh, LENGTH), marked, "in the solicited message")


def _write(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    one.memory.write(OUT, content)
    one.post(one.request(WRITE, target=other.target()))
    pair.collect({one: (1, 0)})
    # Of UC a completed WRITE has left, no more.
    pair.eventually(lambda: other.memory.read(IN, LENGTH) == content, "the WRITE did not arrive")


def _write_imm(pair: Pair) -> None:
    one, other = pair.ends
    content, word = pair.pattern(), _word(pair)
    pair.arm()
    other.receive(length=0)
    one.memory.write(OUT, content)
    one.post(one.request(WRITE_IMM, immediate=word, target=other.target()))
    pair.collect({one: (1, 0), other: (0, 1)})
    _immediate(pair, word)
    _same(other.memory.read(IN, LENGTH), content, "in the target of the WRITE")


def _read(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    other.memory.write(IN, content)
    one.arm()
    one.post(one.request(READ, [(OUT, LENGTH)], target=other.target()))
    pair.collect({one: (1, 0)})
    _same(one.memory.read(OUT, LENGTH), content, "in what READ brought")


_WORD: Final = 8  # bytes of an atomic


def _atomic(pair: Pair, opcode: int, operands: tuple[int, int], before: int, after: int) -> None:
    """One atomic: the old value comes back, the new one stands there."""
    one, other = pair.ends
    request = one.request(opcode, [(OUT, _WORD)], target=other.target(), operands=operands)
    one.post(request)
    pair.collect({one: (1, 0)})
    for memory, offset, expected, where in (
        (one.memory, OUT, before, "came back"),
        (other.memory, IN, after, "stands at the target"),
    ):
        found = int.from_bytes(memory.read(offset, _WORD), _ORDER)
        if found != expected:
            raise Wrong(f"{found:#x} {where}, {expected:#x} was expected")


_ORDER: Final = "little"
"""Of all 64-bit machines that have RDMA; an atomic is in the order of the host."""


def _cmp_swap(pair: Pair) -> None:
    old, new = (int.from_bytes(pair.pattern(_WORD), _ORDER) for _ in range(2))
    pair.other.memory.write(IN, old.to_bytes(_WORD, _ORDER))
    _atomic(pair, CMP_SWAP, (old, new), old, new)
    _atomic(pair, CMP_SWAP, (old, 0), new, new)  # it does not compare equal: nothing is swapped


def _fetch_add(pair: Pair) -> None:
    old, more = (int.from_bytes(pair.pattern(_WORD - 1), _ORDER) for _ in range(2))
    pair.other.memory.write(IN, old.to_bytes(_WORD, _ORDER))
    _atomic(pair, FETCH_ADD, (more, 0), old, old + more)


def _sge_list(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    cuts = (0, 40, 140, LENGTH)
    pieces = []
    for at, (start, end) in enumerate(pairwise(cuts)):
        place = OUT + start + at * 64  # with a gap before each
        one.memory.write(place, content[start:end])
        pieces.append((place, end - start))
    half = LENGTH // 2
    first = (IN, half + other.grh)
    other.receives([first, (THIRD, LENGTH - half)])
    one.post(one.request(pieces=pieces))
    pair.collect({one: (1, 0), other: (0, 1)})
    got = other.memory.read(IN + other.grh, half) + other.memory.read(THIRD, LENGTH - half)
    _same(got, content, "over the buffers")


def _three(pair: Pair, flags: Sequence[int], sends: int, *, linked: bool) -> None:
    one, other = pair.ends
    contents = [pair.pattern() for _ in flags]
    room = LENGTH + other.grh
    other.receives(*([(IN + at * 512, room)] for at in range(len(flags))))
    requests = []
    for at, (content, flag) in enumerate(zip(contents, flags, strict=True)):
        one.memory.write(OUT + at * LENGTH, content)
        requests.append(one.request(pieces=[(OUT + at * LENGTH, LENGTH)], flags=flag))
    if linked:
        one.post(*requests)
    else:
        for request in requests:
            one.post(request)
    pair.collect({one: (sends, 0), other: (0, len(flags))})
    for at, content in enumerate(contents):
        got = other.memory.read(IN + at * 512 + other.grh, LENGTH)
        _same(got, content, f"in message {at + 1}")
    if len(one.sent) != sends:
        raise Wrong(f"{len(one.sent)} sends completed, {sends} were signaled")


def _wr_list(pair: Pair) -> None:
    _three(pair, (SIGNALED,) * 3, 3, linked=True)


def _unsignaled(pair: Pair) -> None:
    _three(pair, (0, 0, SIGNALED), 1, linked=False)


def _fence(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    other.memory.write(IN, content)
    other.receive(THIRD)
    read = one.request(READ, [(OUT, LENGTH)], target=other.target())
    # Without the fence it may send what stood there before the READ came back.
    one.post(read, one.request(flags=SIGNALED | FENCE))
    pair.collect({one: (2, 0), other: (0, 1)})
    _arrived(other, content, THIRD)


def _reply(pair: Pair) -> None:
    one, other = pair.ends
    one.receive()
    _send(pair)
    entry, answer = other.arrived[-1].entry, pair.pattern()
    grh = other.memory.address + IN
    other.ah = other.make(other.pd.create_ah_from_wc(entry, grh, other.facts.port))
    assert other.remote
    if entry.src_qp != other.remote.queue_pair:
        raise Wrong(f"source queue pair {entry.src_qp:#x}, it was {other.remote.queue_pair:#x}")
    other.memory.write(OUT, answer)
    other.post(other.request())
    pair.collect({other: (1, 0), one: (0, 1)})
    _arrived(one, answer)


def _srq_limit(pair: Pair) -> None:
    one, other = pair.ends
    assert other.srq
    while other.context.async_event() is not None:
        pass
    other.receives(*([(IN + at * 512, LENGTH)] for at in range(3)))
    other.srq.limit(2)
    for _ in range(2):
        one.post(one.request())
        pair.collect({one: (1, 0), other: (0, 1)})
    events: list[int] = []

    def came() -> bool:
        event = other.context.async_event()
        events.extend([] if event is None else [event])
        return SRQ_LIMIT_REACHED in events

    pair.eventually(came, "no IBV_EVENT_SRQ_LIMIT_REACHED")


def _resize_cq(pair: Pair) -> None:
    pair.one.cq.resize(2 * ENTRIES)
    _send(pair)


def _flush(pair: Pair) -> None:
    other = pair.other
    other.receive()
    other.qp.end(QpState.ERR)
    found: list[Completion] = []

    def came() -> bool:
        found.extend(other.cq.poll())
        return bool(found)

    pair.eventually(came, "what was posted did not complete")
    if found[0].status != FLUSHED:
        raise Wrong(f"status {found[0].status}, {FLUSHED} (flushed) was expected")


def _reset(pair: Pair) -> None:
    _send(pair)
    for end in pair.ends:
        end.qp.end(QpState.RESET)
    pair.bring_up([_word(pair) >> 8, _word(pair) >> 8])
    pair.stage = Stage.DATA
    _send(pair)


OPERATIONS: Final[dict[Operation, Callable[[Pair], None]]] = {
    Operation.SEND: _send,
    Operation.SEND_IMM: _send_imm,
    Operation.SEND_INLINE: _send_inline,
    Operation.SEND_SOLICITED: _send_solicited,
    Operation.WRITE: _write,
    Operation.WRITE_IMM: _write_imm,
    Operation.READ: _read,
    Operation.CMP_SWAP: _cmp_swap,
    Operation.FETCH_ADD: _fetch_add,
    Operation.SGE_LIST: _sge_list,
    Operation.WR_LIST: _wr_list,
    Operation.UNSIGNALED: _unsignaled,
    Operation.FENCE: _fence,
    Operation.REPLY: _reply,
    Operation.SRQ_LIMIT: _srq_limit,
    Operation.RESIZE_CQ: _resize_cq,
    Operation.FLUSH: _flush,
    Operation.RESET: _reset,
}
"""Each raises CallFailed, BadStatus, Silent or Wrong."""
