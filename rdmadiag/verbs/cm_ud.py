"""One end that sends datagrams: the UD queue pair of an identifier.

Whither it sends is what SIDR's answer or a join has given, or where the first message came from.
"""

from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_BYTES, MTU_NUMBER, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvAhAttr, IbvQpAttr
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_objects import AddressInfo, Datagrams, Membership
from rdmadiag.verbs.completion import Completion
from rdmadiag.verbs.grh import GRH_BYTES, source
from rdmadiag.verbs.loop import RECEIVE
from rdmadiag.verbs.objects import AddressHandle, MemoryRegion, ProtectionDomain, QueuePair
from rdmadiag.verbs.protocol import ProtocolError
from rdmadiag.verbs.requests import ReceiveRequest

QKEY: Final = 0x01234567
"""RDMA_UDP_QKEY, rdma/rdma_cma.h: of all of RDMA_PS_UDP."""

RECEIVES: Final = 8
"""That are always posted, where the queues have room: nobody says when a datagram finds none."""

WITH_GRH: Final = 1  # enum ibv_wc_flags

_SLOT: Final = GRH_BYTES + max(MTU_BYTES.values())


@dataclass(frozen=True, slots=True)
class Sender:
    """Whom a datagram is from."""

    queue_pair: int
    gid: Gid | None  # None: it had no GRH

    def is_as(self, other: "Sender") -> bool:
        """Whether nothing that is known of both differs."""
        same = self.gid is None or other.gid is None or self.gid == other.gid
        return same and self.queue_pair == other.queue_pair


class UdEnd(CmEnd):
    """Its messages come from one sender: what others send is left out."""

    sender: Sender | None = None  # None: whoever sends first, whom it answers
    strangers = 0  # datagrams that were left out
    _way: IbvAhAttr | None = None
    _far_queue_pair = 0
    _posted = 0
    _taken = 0

    def _register(self, pd: ProtectionDomain) -> MemoryRegion:
        sizes = self._sizes
        self._receives = min(RECEIVES, sizes.rq_depth, sizes.cq_depth - 1)
        return pd.reg_mr(max(self._area + self._receives * _SLOT, 2 * self._area + self.MESSAGES))

    def _queue_pair(self, pd: ProtectionDomain) -> QueuePair:
        self._pd = pd
        made = super()._queue_pair(pd)
        of_queue_pair = self.attributes
        self.attributes = lambda: self._described(of_queue_pair())
        return made

    def _described(self, found: IbvQpAttr) -> IbvQpAttr:
        """With the path, which a UD queue pair knows nothing of."""
        found.path_mtu = MTU_NUMBER[self.facts.mtu]
        found.dest_qp_num = self._far_queue_pair
        if self._way:
            found.ah_attr = self._way
        return found

    # --- whither -------------------------------------------------------------------------

    def address(self, found: Datagrams) -> None:
        """What is sent goes where an event of the connection manager says; raises Failed."""
        self._way = found.way
        handle = self._make(Stage.ESTABLISH, lambda: self._pd.create_ah(found.way))
        self._send_to(handle, found.queue_pair, found.qkey)

    def receive_from(self, found: Datagrams) -> None:
        """Take messages from that queue pair alone."""
        gid = Gid(bytes(found.way.grh.dgid)) if found.way.is_global else None
        self.sender = Sender(found.queue_pair, gid)

    def _send_to(self, handle: AddressHandle, queue_pair: int, qkey: int) -> None:
        request = self._send.request.wr.ud
        request.ah, request.remote_qpn, request.remote_qkey = handle.handle, queue_pair, qkey
        self._far_queue_pair = queue_pair

    # --- datagrams -----------------------------------------------------------------------

    def send(self, content: bytes) -> None:
        """As of every end; raises ProtocolError for what is longer than a datagram."""
        if len(content) > self.facts.mtu:
            raise ProtocolError(
                f"a message of {len(content)} bytes is more than a datagram "
                f"at the port's MTU of {self.facts.mtu} bytes"
            )
        super().send(content)

    def send_message(self, message: bytes) -> None:
        """As a payload is sent."""
        self.send(message)

    def received_message(self) -> bytes | None:
        """A message of the peer; None where none has arrived."""
        return self.arrived()

    def expect(self) -> None:
        """Post as many receives as are to be there; they complete in order."""
        while self._posted - self._taken < self._receives:
            self._do(Stage.DATA, self._post_next)
            self._posted += 1

    def _post_next(self) -> None:
        at = self._slot(self._posted)
        request = ReceiveRequest(RECEIVE, self.memory, at, _SLOT, self._sizes.sge)
        self.queue_pair.post_recv(request)

    def _slot(self, number: int) -> int:
        return self._area + number % self._receives * _SLOT

    def arrived(self) -> bytes | None:
        """The next message of the sender, without its GRH."""
        self.poll()
        while self._arrived:
            completion, at = self._arrived.pop(0), self._slot(self._taken)
            is_theirs = self._is_theirs(completion, at)
            length = max(0, completion.byte_length - GRH_BYTES)
            content = self.memory.read(at + GRH_BYTES, length)
            self._taken += 1
            self.expect()
            if is_theirs:
                return content
            self.arrivals -= 1
            self.strangers += 1
        return None

    def _is_theirs(self, completion: Completion, at: int) -> bool:
        entry = completion.entry
        grh = source(self.memory.read(at, GRH_BYTES)) if entry.wc_flags & WITH_GRH else None
        found = Sender(entry.src_qp, grh)
        if self.sender is None:
            self.sender = found
            address = self.memory.address + at
            handle = self._make(
                Stage.ESTABLISH,
                lambda: self._pd.create_ah_from_wc(entry, address, self.facts.port),
            )
            self._send_to(handle, entry.src_qp, QKEY)
        return found.is_as(self.sender)

    def last(self) -> bytes | None:
        """As `arrived`: no end of a connection flushes what was posted."""
        return self.arrived()

    def disconnect(self) -> None:
        """Datagrams have no connection that could be ended."""


class Member(UdEnd):
    """It is in a multicast group: what it sends goes to all members."""

    _membership: Membership | None = None

    def join(self, group: AddressInfo) -> None:
        """rdma_join_multicast; raises Failed. MULTICAST_JOIN follows, which attaches it."""
        caller, identifier = self._call, self.identifier
        self._membership = self._do(Stage.JOIN, lambda: Membership(caller, identifier, group))

    def close(self) -> None:
        """Leave it first; raises Failed as every end."""
        self._call.stage = Stage.TEARDOWN
        try:
            if self._membership:
                self._do(Stage.TEARDOWN, self._membership.close)
        finally:
            super().close()


def end_of(kind: QpType) -> type[CmEnd]:
    """What an end with such a queue pair is."""
    return UdEnd if kind is QpType.UD else CmEnd
