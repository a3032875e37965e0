"""XRC: senders name a receive queue by its number, and reach it through any receiver.

The calls of the manual (ibv_open_xrc_domain, ibv_create_xrc_srq, ibv_create_xrc_rcv_qp) are
older than rdma-core; these are what took their place.
"""

from typing import TYPE_CHECKING

from rdmadiag.verbs.model.completion import CQ
from rdmadiag.verbs.model.constants import QPType
from rdmadiag.verbs.model.domain import PD, SRQ
from rdmadiag.verbs.model.lifetime import Held, same
from rdmadiag.verbs.model.numbers import within
from rdmadiag.verbs.model.states import Stateful
from rdmadiag.verbs.objects import XrcDomain, XrcQueue, XrcReceiver

if TYPE_CHECKING:
    from rdmadiag.verbs.model.device import OpenDevice


class XRCSRQ(SRQ):
    """ibv_create_srq_ex of type XRC."""

    kind = "XRC receive queue"

    def __init__(self, made: XrcQueue, pd: PD, xrcd: "XRCD", cq: CQ) -> None:
        super().__init__(pd.session, made, pd, 1, xrcd, cq)
        self.xrcd, self.cq = xrcd, cq
        self.srq_num = made.number()


class XRCRecvQP(Stateful[XrcReceiver]):
    """ibv_create_qp_ex of type XRC_RECV: it has no queues of its own."""

    qp_type = QPType.XRC_RECV

    def __init__(self, made: XrcReceiver, xrcd: "XRCD") -> None:
        super().__init__(xrcd.session, made, xrcd)
        self.xrcd = xrcd
        self.qp_num = made.number


class XRCD(Held[XrcDomain]):
    """ibv_open_xrcd: a domain of this process."""

    kind = "XRC domain"

    def __init__(self, made: XrcDomain, device: "OpenDevice") -> None:
        super().__init__(device.session, made, device)
        self.device = device

    def create_srq(self, pd: PD, cq: CQ, max_wr: int) -> XRCSRQ:
        """A receive queue whose completions come to `cq`; raises CallFailed and Mismatch."""
        same(self, pd, "the protection domain")
        same(self, cq, "the completion queue")
        with self.session.lock:
            made = pd.made.create_xrc_srq(self.made, cq.made, within(max_wr, 32, "max_wr"))
            try:
                return XRCSRQ(made, pd, self, cq)
            except BaseException:
                made.close()
                raise

    def create_recv_qp(self) -> XRCRecvQP:
        """The receiving end of a connection, in RESET; raises CallFailed."""
        with self.session.lock:
            made = self.device.made.create_xrc_receiver(self.made)
            return XRCRecvQP(made, self)


def open_xrcd(device: "OpenDevice") -> XRCD:
    """ibv_open_xrcd; raises CallFailed (EOPNOTSUPP where the provider has no XRC)."""
    with device.session.lock:
        return XRCD(device.made.open_xrcd(), device)
