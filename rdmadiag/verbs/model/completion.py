"""Completion channels, completion queues, and what they say."""

import time
from socket import ntohl
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.completions import completion, completion_text
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.completion import CompletionChannel, CompletionQueue
from rdmadiag.verbs.model.constants import WCFlags, WCOpcode
from rdmadiag.verbs.model.lifetime import Held, InUse, Mismatch, Session, VerbsError, same
from rdmadiag.verbs.model.numbers import within
from rdmadiag.verbs.model.waiting import readable
from rdmadiag.verbs.objects import Context

if TYPE_CHECKING:
    from rdmadiag.verbs.model.device import OpenDevice


_NAP_SECONDS: Final = 0.00001
"""Between two polls: in it another thread can have the device."""

_OPCODES: Final = {each.value: each for each in WCOpcode}
_WITHOUT_LENGTH: Final = (WCOpcode.SEND, WCOpcode.RDMA_WRITE)
"""ibv_poll_cq(3): byte_len is of what arrived here."""


class CompletionError(VerbsError):
    """A work request that completed with an error."""

    def __init__(self, failed: "WorkCompletion") -> None:
        super().__init__(f"work request {failed.wr_id}: {failed.text}")
        self.completion = failed


@dataclass(frozen=True, slots=True)
class WorkCompletion:
    """struct ibv_wc. Of one that failed the fields from `opcode` on are None: they say nothing."""

    wr_id: int
    status: int  # enum ibv_wc_status; 0: success
    vendor_err: int
    qp_num: int
    opcode: WCOpcode | int | None = None
    byte_len: int | None = None  # of a receive, and of what brought data back
    imm_data: int | None = None  # in the order of this host; None: without an immediate
    invalidated_rkey: int | None = None
    src_qp: int | None = None  # of UD: who sent it
    flags: WCFlags | None = None
    pkey_index: int | None = None
    slid: int | None = None  # of UD on InfiniBand
    sl: int | None = None
    dlid_path_bits: int | None = None

    @classmethod
    def of(cls, entry: IbvWc) -> "WorkCompletion":
        """One entry as the library wrote it."""
        if entry.status:
            return cls(entry.wr_id, entry.status, entry.vendor_err, entry.qp_num)
        flags = WCFlags(entry.wc_flags)
        number: int = entry.opcode
        opcode = _OPCODES.get(number, number)
        word = ntohl(entry.imm_data)
        return cls(
            entry.wr_id,
            entry.status,
            entry.vendor_err,
            entry.qp_num,
            opcode,
            entry.byte_len if number not in _WITHOUT_LENGTH else None,
            word if flags & WCFlags.WITH_IMM else None,
            entry.imm_data if flags & WCFlags.WITH_INV else None,
            entry.src_qp,
            flags,
            entry.pkey_index,
            entry.slid,
            entry.sl,
            entry.dlid_path_bits,
        )

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == 0

    @property
    def status_name(self) -> str:
        """ "RETRY_EXC_ERR", or the number where the enum has no such status."""
        found = completion(self.status)
        return found.name if found else str(self.status)

    @property
    def text(self) -> str:
        """The status in words, with the vendor's number."""
        return completion_text(self.status, self.vendor_err)

    def check(self) -> "WorkCompletion":
        """Itself; raises CompletionError where it failed."""
        if self.status:
            raise CompletionError(self)
        return self

    def entry(self) -> IbvWc:
        """struct ibv_wc, for ibv_init_ah_from_wc; raises CompletionError where it failed."""
        self.check()
        return IbvWc(
            wr_id=self.wr_id,
            byte_len=self.byte_len or 0,
            qp_num=self.qp_num,
            src_qp=self.src_qp or 0,
            wc_flags=int(self.flags or 0),
            pkey_index=self.pkey_index or 0,
            slid=self.slid or 0,
            sl=self.sl or 0,
            dlid_path_bits=self.dlid_path_bits or 0,
        )


class CompChannel(Held[CompletionChannel]):
    """ibv_create_comp_channel: where completion queues say that something has completed."""

    kind = "completion channel"

    def __init__(self, session: Session, made: CompletionChannel, device: "OpenDevice") -> None:
        super().__init__(session, made, device)
        self._waiting = 0

    @property
    def fd(self) -> int:
        """Readable when there is an event; it does not block."""
        return self.made.fd

    def settle(self) -> None:
        """Raises InUse where a thread waits on it."""
        if self._waiting:
            raise InUse(f"{self!r}: {self._waiting} threads wait for an event of it")

    def get_event(self, seconds: float) -> "CQ | None":
        """ibv_get_cq_event, waited for so long: the queue that it is of, None where none came.

        It is counted in the queue's `unacked` until `ack`; the queue makes no further event
        before its next `req_notify`. Raises CallFailed.
        """
        until = time.monotonic() + seconds
        while True:
            with self.session.lock:
                address, descriptor = self.made.take(), self.made.fd
                if address is not None:
                    return self._queue(address)
                self._waiting += 1
            try:
                if not readable(descriptor, until):
                    return None
            finally:
                with self.session.lock:
                    self._waiting -= 1

    def _queue(self, address: int) -> "CQ | None":
        for each in self.users:
            if isinstance(each, CQ) and each.address == address:
                each.unacked += 1
                return each
        return None


class CQ(Held[CompletionQueue]):
    """ibv_create_cq: what says that work requests have completed."""

    kind = "completion queue"

    def __init__(
        self,
        session: Session,
        made: CompletionQueue,
        device: "OpenDevice",
        channel: CompChannel | None,
        cqe: int,
    ) -> None:
        super().__init__(session, made, device, *([channel] if channel else []))
        self.channel = channel
        self.cqe = cqe  # asked for
        self.unacked = 0  # events taken from the channel and not acknowledged

    @classmethod
    def create(
        cls,
        device: "OpenDevice",
        context: Context,
        cqe: int,
        channel: CompChannel | None,
        vector: int,
    ) -> "CQ":
        """As OpenDevice.create_cq."""
        _sized(cqe)
        with device.session.lock:
            if channel:
                same(device, channel, "the completion channel")
            made = context.create_cq(cqe, channel.made if channel else None, vector)
            return cls(device.session, made, device, channel, cqe)

    def settle(self) -> None:
        """Acknowledge what was not: ibv_destroy_cq waits for that for ever."""
        self.ack()

    def poll(self, entries: int | None = None) -> list[WorkCompletion]:
        """What has completed, at most `entries` or as many as asked for; raises CallFailed."""
        with self.session.lock:
            return [WorkCompletion.of(each) for each in self.made.take(entries)]

    def req_notify(self, *, solicited_only: bool = False) -> None:
        """ibv_req_notify_cq: the next completion makes an event; raises CallFailed.

        What had completed before makes none: poll once more after it.
        """
        if not self.channel:
            raise Mismatch(f"{self!r} has no completion channel")
        with self.session.lock:
            self.made.notify(solicited_only=solicited_only)

    def ack(self, events: int | None = None) -> None:
        """ibv_ack_cq_events: so many, all by default; raises ValueError for more than there are."""
        with self.session.lock:
            count = self.unacked if events is None else events
            if not 0 <= count <= self.unacked:
                raise ValueError(f"{count} events to acknowledge, {self.unacked} were taken")
            if count:
                self.unacked -= count
                self.made.ack(count)

    def resize(self, cqe: int) -> None:
        """ibv_resize_cq; raises CallFailed."""
        _sized(cqe)
        with self.session.lock:
            self.made.resize(cqe)
            self.cqe = cqe

    def wait(self, seconds: float, count: int = 1) -> list[WorkCompletion]:
        """At least `count` completions, or what there is when the seconds are over.

        By events where it has a channel, whose events of other queues are taken too; else by
        polling. Raises CallFailed.
        """
        until, found = time.monotonic() + seconds, self.poll()
        while len(found) < count and time.monotonic() < until:
            if self.channel:
                self.req_notify()
                if more := self.poll():
                    found += more
                    continue
                if queue := self.channel.get_event(until - time.monotonic()):
                    queue.ack()
            else:
                time.sleep(_NAP_SECONDS)
            found += self.poll()
        return found


def _sized(cqe: int) -> None:
    """Raises ValueError for a number that is no size, or no int of C."""
    if not within(cqe, 31, "cqe") > 0:
        raise ValueError("a completion queue of no entries")
