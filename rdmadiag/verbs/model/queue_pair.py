"""Queue pairs: made, and given work."""

from typing import TYPE_CHECKING, Any

from rdmadiag.verbs.model.completion import CQ
from rdmadiag.verbs.model.constants import (
    ALLOWED,
    ATOMIC,
    ATOMIC_BYTES,
    QPType,
    SendFlags,
)
from rdmadiag.verbs.model.lifetime import Held, Mismatch, same
from rdmadiag.verbs.model.states import QPCapacity, Stateful
from rdmadiag.verbs.model.work_request import (
    RecvWR,
    SendWR,
    linked,
    receives,
    refused,
    sends,
)
from rdmadiag.verbs.objects import QueuePair, Shape
from rdmadiag.verbs.open_context import PostFailed

if TYPE_CHECKING:
    from rdmadiag.verbs.model.domain import PD, SRQ


class QP(Stateful[QueuePair]):
    """ibv_create_qp: a send queue and a receive queue."""

    def __init__(
        self, made: QueuePair, pd: "PD", cqs: tuple[CQ, CQ], srq: "SRQ | None", qp_type: QPType
    ) -> None:
        stands_on: list[Held[Any]] = [pd, *dict.fromkeys(cqs)]
        super().__init__(pd.session, made, *stands_on, *([srq] if srq else []))
        self.pd = pd
        self.send_cq, self.recv_cq = cqs
        self.srq = srq
        self.qp_type = qp_type
        self.cap = QPCapacity.of(made.granted)
        self.qp_num = made.number

    @classmethod
    def create(
        cls,
        pd: "PD",
        qp_type: QPType,
        send_cq: CQ,
        recv_cq: CQ,
        cap: QPCapacity,
        srq: "SRQ | None",
        *,
        all_: bool,
    ) -> "QP":
        """As PD.create_qp."""
        with pd.session.lock:
            for each in (send_cq, recv_cq):
                same(pd, each, "the completion queue")
            if srq and srq.pd is not pd:
                raise Mismatch("the shared receive queue is of another protection domain")
            shape = Shape(
                sge=cap.max_send_sge,
                inline=cap.max_inline_data,
                all_signaled=all_,
                srq=srq.made if srq else None,
                receive_cq=recv_cq.made,
                receive_depth=cap.max_recv_wr,
                receive_sge=cap.max_recv_sge,
            )
            made = pd.made.create_qp(send_cq.made, qp_type.named, cap.max_send_wr, shape)
            return cls(made, pd, (send_cq, recv_cq), srq, qp_type)

    def post_send(self, wr: SendWR) -> None:
        """Post a list of sends with one call.

        Raises PostFailed, which says how many were taken, and before the library is called
        Closed, Mismatch and ValueError: memory of another domain or none, more elements than
        `cap`, an operation that the type has not.
        """
        wrs = linked(wr)
        with self.session.lock:
            made = self.made
            for each in wrs:
                self._check_send(each)
            self.pd.check([each.sg_list for each in wrs], self.cap.max_send_sge)
            requests = sends(wrs)
            try:
                made.context.post_send(made.handle, requests[0])
            except PostFailed as failed:
                at = failed.refused
                raise refused(failed.call, failed.errno, at, requests, wrs) from failed

    def post_recv(self, wr: RecvWR) -> None:
        """Post a list of receives with one call; raises as `post_send`."""
        wrs = linked(wr)
        if self.srq:
            raise Mismatch(f"{self!r} takes receives from its shared receive queue")
        with self.session.lock:
            made = self.made
            self.pd.check([each.sg_list for each in wrs], self.cap.max_recv_sge)
            requests = receives(wrs)
            try:
                made.context.post_recv(made.handle, requests[0])
            except PostFailed as failed:
                at = failed.refused
                raise refused(failed.call, failed.errno, at, requests, wrs) from failed

    def _check_send(self, wr: SendWR) -> None:
        if wr.opcode not in ALLOWED[self.qp_type]:
            raise ValueError(f"{self.qp_type.name} has no {wr.opcode.name}")
        if (self.qp_type is QPType.UD) != (wr.ah is not None):
            raise ValueError("a send of UD, and no other, needs an address handle")
        if wr.ah and wr.ah.made and wr.ah.pd is not self.pd:
            raise Mismatch("the address handle is of another protection domain")
        length = sum(each.length for each in wr.sg_list)
        if wr.opcode in ATOMIC and length != ATOMIC_BYTES:
            raise ValueError(f"an atomic is of {ATOMIC_BYTES} bytes, not of {length}")
        if wr.send_flags & SendFlags.INLINE and length > self.cap.max_inline_data:
            raise ValueError(f"{length} bytes inline, at most {self.cap.max_inline_data}")
