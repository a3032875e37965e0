"""Each operation of verbs between two sides, verified at its target."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.events import AsyncEvent
from rdmadiag.facts.exercise import Operation, Wanted
from rdmadiag.facts.ib import MigrationState, QpState, QpType
from rdmadiag.verbs import frames, multicast
from rdmadiag.verbs.abi import FLUSHED
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.bringup import RemoteQueuePair
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.matrix import LENGTH
from rdmadiag.verbs.protocol import path_mtu
from rdmadiag.verbs.side import ENTRIES, INLINE, Side
from rdmadiag.verbs.work import (
    AS_INLINE,
    CMP_SWAP,
    FENCE,
    FETCH_ADD,
    GRH,
    IN,
    LOCAL_INV,
    MESSAGE_IMM,
    MESSAGE_INV,
    OUT,
    READ,
    SIGNALED,
    SOLICITED,
    THIRD,
    WRITE,
    WRITE_IMM,
    Completed,
    Piece,
    Work,
)

STALL_SECONDS: Final = 4.0  # without a completion that must come
UNSOLICITED_SECONDS: Final = 0.1  # in which what must not come would have
REMOTE_ACCESS: Final = 10  # IBV_WC_REM_ACCESS_ERR


class BadStatus(Exception):
    """A work request that completed with an error; its text names the request."""

    def __init__(self, side: Side, completion: Completed) -> None:
        what = "receive" if completion.is_receive else "send"
        device = side.facts.device
        super().__init__(f"a {what} of {device}")
        self.side = side
        self.status = completion.status
        self.vendor_error = completion.vendor_error


class Silent(Exception):
    """A completion or an event that must come did not."""


class Wrong(Exception):
    """What arrived is not what was sent."""


class Pair:
    """Both ends of a cell: the first one acts, the second one is its target."""

    def __init__(self, cell: Wanted, one: Side, other: Side, bounds: Bounds) -> None:
        self.cell = cell
        self.one, self.other = one, other
        self.ends = (one, other)
        self.bounds = bounds
        self.stage = Stage.OPEN
        # RC says that it lost something once it has sent it seven times: bringup.TIMEOUT.
        self.stall_seconds = 2 * STALL_SECONDS if cell.qp_type == QpType.RC else STALL_SECONDS
        self.numbers = (0, 0)  # of the queue pairs
        self.random = random.SystemRandom()
        self._srq = 0  # of XRC: the number of the other end's receive queue

    def begin(self, stage: Stage) -> None:
        """What the calls that follow are made for."""
        self.stage = stage
        for end in self.ends:
            end.stage(stage)

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
        self.begin(Stage.CREATE_QP)
        self.numbers = (self.one.open(), self.other.open())
        if self.cell.qp_type == "xrc":
            self._srq = self.other.srq_number()
        self.bring_up(psns)

    def bring_up(self, psns: Sequence[int]) -> None:
        """From RESET to RTS; raises CallFailed."""
        mtu = path_mtu(self.one.facts, self.other.facts)
        self.begin(Stage.INIT)
        for end in self.ends:
            end.to_init()
        self.begin(Stage.RTR)
        for end, peer, number, psn in zip(
            self.ends, self.ends[::-1], self.numbers[::-1], psns[::-1], strict=True
        ):
            end.to_rtr(RemoteQueuePair(number, psn, peer.facts.lid, peer.facts.gid, mtu))
        self.begin(Stage.RTS)
        for end, psn in zip(self.ends, psns, strict=True):
            end.to_rts(psn)

    @property
    def grh(self) -> int:
        """Bytes before a message."""
        return GRH if self.cell.qp_type == QpType.UD else 0

    def room(self, offset: int = IN, length: int = LENGTH) -> list[Piece]:
        """A buffer for one message; a UD one has room for a GRH more."""
        return [(offset, length + self.grh)]

    def pattern(self, length: int = LENGTH) -> bytes:
        """What nobody has sent before."""
        return self.random.randbytes(length)

    def post(self, *works: Work) -> None:
        """The first end's; raises CallFailed."""
        self.one.post(*(replace(each, srq=self._srq) for each in works))

    def collect(self, needs: Mapping[Side, tuple[int, int]]) -> None:
        """Until each side has so many sends and receives more; raises Silent and BadStatus.

        A side with a completion channel is polled once that has an event.
        """
        goals = {
            side: (len(side.sent) + sends, len(side.arrived) + receives)
            for side, (sends, receives) in needs.items()
        }
        until = time.monotonic() + self.stall_seconds
        looked = time.monotonic()
        while waiting := [
            side
            for side, (sends, receives) in goals.items()
            if len(side.sent) < sends or len(side.arrived) < receives
        ]:
            if any(self._look(side) for side in waiting):
                continue
            now = time.monotonic()
            if now - looked > _SLICE_SECONDS:
                looked = now
                self.bounds.glance()
            if now > until:
                names = ", ".join(side.facts.device for side in waiting)
                what = "event of a completion" if waiting[0].has_channel else "completion"
                raise Silent(f"no {what} at {names} within {self.stall_seconds:g} s")

    def _look(self, side: Side) -> bool:
        if not side.has_channel:
            return self.take(side)
        if not side.event(_SLICE_SECONDS):
            return False
        side.arm()
        return self.take(side)

    def take(self, side: Side) -> bool:
        """What has completed; whether there was any. Raises BadStatus."""
        found = side.poll()
        for completion in found:
            if completion.status:
                raise BadStatus(side, completion)
            (side.arrived if completion.is_receive else side.sent).append(completion)
        return bool(found)

    def nothing(self, what: str) -> None:
        """Nothing arrives at the other end for a moment; raises Wrong."""
        time.sleep(UNSOLICITED_SECONDS)
        before = len(self.other.arrived)
        self.take(self.other)
        if len(self.other.arrived) > before:
            raise Wrong(f"a message arrived {what}")

    def refused(self, status: int, what: str) -> None:
        """What the first end posted last completes with this status; raises Wrong, Silent."""
        found: list[Completed] = []

        def came() -> bool:
            found.extend(self.one.poll())
            return bool(found)

        self.eventually(came, "no completion")
        if not found[0].status:
            raise Wrong(f"not refused: {what}")
        if found[0].status != status:
            raise BadStatus(self.one, found[0])

    def came(self, side: Side, event: AsyncEvent) -> None:
        """This asynchronous event comes to a side; raises Silent."""
        self.eventually(lambda: event.number in side.async_events(), f"no {event.constant}")

    def arm(self) -> None:
        """Arms the completion queues of both ends."""
        for end in self.ends:
            end.arm()

    def eventually(self, holds: Callable[[], bool], what: str) -> None:
        """Until something holds that no completion reports; raises Silent."""
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


def _arrived(pair: Pair, side: Side, content: bytes, offset: int = IN) -> None:
    """The last message is this one."""
    length = side.arrived[-1].length
    if length != len(content) + pair.grh:
        raise Wrong(f"{length} bytes arrived, {len(content) + pair.grh} were expected")
    _same(side.read(offset + pair.grh, len(content)), content, "in what arrived")


_SEND: Final = Work()


def _message(pair: Pair, work: Work = _SEND) -> None:
    one, other = pair.ends
    content = pair.pattern()
    pair.arm()
    other.receives(pair.room())
    one.write(OUT, content)
    pair.post(work)
    pair.collect({one: (1, 0), other: (0, 1)})
    _arrived(pair, other, content)


def _send(pair: Pair) -> None:
    _message(pair)


def _immediate(pair: Pair, sent: int) -> None:
    found = pair.other.arrived[-1].immediate
    if found is None:
        raise Wrong("the completion has no immediate")
    if found != sent:
        raise Wrong(f"immediate {found:#x} arrived, {sent:#x} was sent")


def _word(pair: Pair) -> int:
    return int.from_bytes(pair.pattern(4), "big")


def _send_imm(pair: Pair) -> None:
    word = _word(pair)
    _message(pair, Work(MESSAGE_IMM, immediate=word))
    _immediate(pair, word)


def _send_inline(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern(INLINE)
    other.receives(pair.room())
    one.write(OUT, content)
    pair.post(Work(pieces=((OUT, INLINE),), flags=SIGNALED | AS_INLINE))
    one.write(OUT, bytes(INLINE))  # it is free again: what arrives was copied
    pair.collect({one: (1, 0), other: (0, 1)})
    _arrived(pair, other, content)


def _send_solicited(pair: Pair) -> None:
    one, other = pair.ends
    other.arm(solicited_only=True)
    other.receives(pair.room(), pair.room(THIRD))
    plain, marked = pair.pattern(), pair.pattern()
    one.write(OUT, plain)
    one.arm()
    pair.post(Work())
    pair.collect({one: (1, 0)})
    if other.event(UNSOLICITED_SECONDS):
        raise Wrong("a message that was not solicited made an event")
    one.write(OUT, marked)
    one.arm()
    pair.post(Work(flags=SIGNALED | SOLICITED))
    if not other.event(STALL_SECONDS):
        raise Silent(f"no event of a solicited message within {STALL_SECONDS:g} s")
    pair.take(other)
    if len(other.arrived) != 2:
        raise Wrong(f"{len(other.arrived)} messages stood before the event, 2 were sent")
    pair.collect({one: (1, 0)})
    _same(other.read(IN + pair.grh, LENGTH), plain, "in the first message")
    _same(other.read(THIRD + pair.grh, LENGTH), marked, "in the solicited message")


def _write(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    one.write(OUT, content)
    pair.post(Work(WRITE, target=other.target()))
    pair.collect({one: (1, 0)})
    # Of UC a completed WRITE has left, no more.
    pair.eventually(lambda: other.read(IN, LENGTH) == content, "the WRITE did not arrive")


def _write_imm(pair: Pair) -> None:
    one, other = pair.ends
    content, word = pair.pattern(), _word(pair)
    pair.arm()
    other.receives([])
    one.write(OUT, content)
    pair.post(Work(WRITE_IMM, immediate=word, target=other.target()))
    pair.collect({one: (1, 0), other: (0, 1)})
    _immediate(pair, word)
    _same(other.read(IN, LENGTH), content, "in the target of the WRITE")


def _read(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    other.write(IN, content)
    one.arm()
    pair.post(Work(READ, target=other.target()))
    pair.collect({one: (1, 0)})
    _same(one.read(OUT, LENGTH), content, "in what READ brought")


_WORD: Final = 8  # bytes of an atomic


def _atomic(pair: Pair, opcode: int, operands: tuple[int, int], before: int, after: int) -> None:
    """One atomic: the old value comes back, the new one stands there."""
    one, other = pair.ends
    pair.post(Work(opcode, ((OUT, _WORD),), target=other.target(), operands=operands))
    pair.collect({one: (1, 0)})
    for side, offset, expected, where in (
        (one, OUT, before, "came back"),
        (other, IN, after, "stands at the target"),
    ):
        found = int.from_bytes(side.read(offset, _WORD), _ORDER)
        if found != expected:
            raise Wrong(f"{found:#x} {where}, {expected:#x} was expected")


_ORDER: Final = "little"
"""Of all 64-bit machines that have RDMA; an atomic is in the order of the host."""


def _cmp_swap(pair: Pair) -> None:
    old, new = (int.from_bytes(pair.pattern(_WORD), _ORDER) for _ in range(2))
    pair.other.write(IN, old.to_bytes(_WORD, _ORDER))
    _atomic(pair, CMP_SWAP, (old, new), old, new)
    _atomic(pair, CMP_SWAP, (old, 0), new, new)  # it does not compare equal: nothing is swapped


def _fetch_add(pair: Pair) -> None:
    old, more = (int.from_bytes(pair.pattern(_WORD - 1), _ORDER) for _ in range(2))
    pair.other.write(IN, old.to_bytes(_WORD, _ORDER))
    _atomic(pair, FETCH_ADD, (more, 0), old, old + more)


def _sge_list(pair: Pair) -> None:
    one, other = pair.ends
    content = pair.pattern()
    cuts = (0, 40, 140, LENGTH)
    pieces = []
    for at, (start, end) in enumerate(pairwise(cuts)):
        place = OUT + start + at * 64  # with a gap before each
        one.write(place, content[start:end])
        pieces.append((place, end - start))
    half = LENGTH // 2
    other.receives([*pair.room(length=half), (THIRD, LENGTH - half)])
    pair.post(Work(pieces=tuple(pieces)))
    pair.collect({one: (1, 0), other: (0, 1)})
    got = other.read(IN + pair.grh, half) + other.read(THIRD, LENGTH - half)
    _same(got, content, "over the buffers")


def _three(pair: Pair, flags: Sequence[int], sends: int, *, linked: bool) -> None:
    one, other = pair.ends
    contents = [pair.pattern() for _ in flags]
    other.receives(*(pair.room(IN + at * 512) for at in range(len(flags))))
    works = []
    for at, (content, flag) in enumerate(zip(contents, flags, strict=True)):
        one.write(OUT + at * LENGTH, content)
        works.append(Work(pieces=((OUT + at * LENGTH, LENGTH),), flags=flag))
    for each in [works] if linked else [[work] for work in works]:
        pair.post(*each)
    pair.collect({one: (sends, 0), other: (0, len(flags))})
    for at, content in enumerate(contents):
        got = other.read(IN + at * 512 + pair.grh, LENGTH)
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
    other.write(IN, content)
    other.receives(pair.room(THIRD))
    # Without the fence it may send what stood there before the READ came back.
    pair.post(Work(READ, target=other.target()), Work(flags=SIGNALED | FENCE))
    pair.collect({one: (2, 0), other: (0, 1)})
    _arrived(pair, other, content, THIRD)


def _reply(pair: Pair) -> None:
    one, other = pair.ends
    one.receives(pair.room())
    _send(pair)
    source, answer = other.arrived[-1].source, pair.pattern()
    other.answer()
    if source != pair.numbers[0]:
        raise Wrong(f"source queue pair {source:#x}, it was {pair.numbers[0]:#x}")
    other.write(OUT, answer)
    other.post(Work())
    pair.collect({other: (1, 0), one: (0, 1)})
    _arrived(pair, one, answer)


def _srq_limit(pair: Pair) -> None:
    one, other = pair.ends
    other.async_events()
    other.receives(*(pair.room(IN + at * 512) for at in range(3)))
    other.limit_srq(2)
    for _ in range(2):
        pair.post(Work())
        pair.collect({one: (1, 0), other: (0, 1)})
    pair.came(other, AsyncEvent.SRQ_LIMIT_REACHED)


def _resize_cq(pair: Pair) -> None:
    pair.one.resize_cq(2 * ENTRIES)
    _send(pair)


def _flush(pair: Pair) -> None:
    other = pair.other
    other.receives(pair.room())
    other.end(QpState.ERR)
    found: list[Completed] = []

    def came() -> bool:
        found.extend(other.poll())
        return bool(found)

    pair.eventually(came, "what was posted did not complete")
    if found[0].status != FLUSHED:
        raise Wrong(f"status {found[0].status}, {FLUSHED} (flushed) was expected")


def _reset(pair: Pair) -> None:
    _send(pair)
    for end in pair.ends:
        end.end(QpState.RESET)
    pair.bring_up([_word(pair) >> 8, _word(pair) >> 8])
    pair.begin(Stage.DATA)
    _send(pair)


def _window(pair: Pair, kind: int, shut: Callable[[int], None]) -> None:
    """A WRITE through a window, and one that is refused after it was shut."""
    one, other = pair.ends
    other.window(kind)
    rkey = other.bind(IN, LENGTH)
    pair.collect({other: (1, 0)})
    target = replace(other.target(), rkey=rkey)
    content = pair.pattern()
    one.write(OUT, content)
    pair.post(Work(WRITE, target=target))
    pair.collect({one: (1, 0)})
    _same(other.read(IN, LENGTH), content, "in the window")
    shut(rkey)
    before = other.read(IN, LENGTH)
    one.write(OUT, pair.pattern())
    pair.post(Work(WRITE, target=target))
    pair.refused(REMOTE_ACCESS, "a WRITE through a window that was shut")
    _same(other.read(IN, LENGTH), before, "behind a window that was shut")


def _mw_type_1(pair: Pair) -> None:
    def shut(_rkey: int) -> None:
        pair.other.bind(IN, 0)
        pair.collect({pair.other: (1, 0)})

    _window(pair, 1, shut)


def _mw_type_2(pair: Pair) -> None:
    def shut(rkey: int) -> None:
        pair.other.post(Work(LOCAL_INV, (), invalidate=rkey))
        pair.collect({pair.other: (1, 0)})

    _window(pair, 2, shut)


def _send_inv(pair: Pair) -> None:
    def shut(rkey: int) -> None:
        _message(pair, Work(MESSAGE_INV, invalidate=rkey))
        found = pair.other.arrived[-1].invalidated
        if found != rkey:
            said = "no rkey" if found is None else f"rkey {found:#x}"
            raise Wrong(f"the completion says that {said} was invalidated, it was {rkey:#x}")

    _window(pair, 2, shut)


def _multicast(pair: Pair) -> None:
    one, other = pair.ends
    assert other.facts.gid
    group = multicast.drawn(other.facts.gid, pair.random)
    other.join(group)
    one.address_group(group)
    _send(pair)
    other.leave()
    other.receives(pair.room())
    pair.post(Work())
    pair.collect({one: (1, 0)})
    pair.nothing("after it had left the group")


def _sqd(pair: Pair) -> None:
    one, other = pair.ends
    _send(pair)
    one.drain()
    pair.came(one, AsyncEvent.SQ_DRAINED)
    content = pair.pattern()
    other.receives(pair.room())
    one.write(OUT, content)
    pair.post(Work())
    pair.nothing("out of a send queue that was drained")
    one.resume()
    try:
        pair.collect({one: (1, 0), other: (0, 1)})
    except Silent as error:  # soft RoCE of Linux 6.1
        raise Silent("what was posted in SQD did not leave in RTS") from error
    _arrived(pair, other, content)


def _alt_path(pair: Pair) -> None:
    one, other = pair.ends
    _send(pair)
    for end in pair.ends:
        end.load_path()
    _send(pair)
    armed = MigrationState.ARMED.number
    pair.eventually(lambda: one.migration() == armed, "the alternate path was not armed")
    one.migrate()
    _send(pair)
    pair.came(other, AsyncEvent.PATH_MIG)


def _frame(pair: Pair) -> None:
    one, other = pair.ends
    frame = frames.drawn(pair.cell.operation, pair.random)
    content = frames.content(frame, pair.pattern())
    other.steer(frame)
    room = pair.room(length=len(content))
    work = Work(pieces=((OUT, len(content)),))
    other.receives(room)
    one.write(OUT, content)
    pair.post(work)
    pair.collect({one: (1, 0)})
    try:
        pair.collect({other: (0, 1)})
    except Silent as error:
        if (one.facts.device, one.facts.port) != (other.facts.device, other.facts.port):
            raise
        raise Silent("the frame did not come back to the port that sent it: name two") from error
    _arrived(pair, other, content)
    other.unsteer()
    other.receives(room)
    pair.post(work)
    pair.collect({one: (1, 0)})
    pair.nothing("after its rule was destroyed")


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
    Operation.MW_TYPE_1: _mw_type_1,
    Operation.MW_TYPE_2: _mw_type_2,
    Operation.SEND_INV: _send_inv,
    Operation.MULTICAST: _multicast,
    Operation.SQD: _sqd,
    Operation.ALT_PATH: _alt_path,
    Operation.FRAME_ETH: _frame,
    Operation.FRAME_IPV4: _frame,
    Operation.FRAME_TCP: _frame,
    Operation.FRAME_UDP: _frame,
}
"""Each raises CallFailed, BadStatus, Silent or Wrong."""
