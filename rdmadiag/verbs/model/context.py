"""One port of a device with a queue pair and all that it needs: Context of InfinibandVerbs.jl."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, overload

from rdmadiag.facts.ib import PortState
from rdmadiag.verbs.model.capability import AnyCap
from rdmadiag.verbs.model.completion import CQ, WorkCompletion
from rdmadiag.verbs.model.constants import Access, QPState, QPType, SendFlags
from rdmadiag.verbs.model.device import Device, OpenDevice, open_device
from rdmadiag.verbs.model.lifetime import VerbsError
from rdmadiag.verbs.model.memory import MR, SGE, create_sges
from rdmadiag.verbs.model.queue_pair import QP
from rdmadiag.verbs.model.states import QPCapacity, RCConnParams
from rdmadiag.verbs.model.work_request import RecvWR, SendWR, link


class PortNotActive(VerbsError):
    """A port that is not ACTIVE; `force` opens it all the same."""


class Context:
    """A device, a protection domain, two channels, two completion queues and a queue pair in INIT.

    The sizes are InfinibandVerbs.jl's, and so is the type of the queue pair by default.
    Raises PortNotActive, NoDevice and CallFailed; what was made by then is destroyed.
    """

    def __init__(
        self,
        device: str | Device,
        port_num: int = 1,
        *,
        force: bool = False,
        send_cqe: int = 1,
        recv_cqe: int = 1,
        max_send_wr: int = 1,
        max_recv_wr: int = 1,
        max_send_sge: int = 1,
        max_recv_sge: int = 1,
        max_inline_data: int = 0,
        req_notify_send: bool = True,
        req_notify_recv: bool = True,
        solicited_only_send: bool = False,
        solicited_only_recv: bool = False,
        comp_vector: int = 0,
        qp_type: QPType = QPType.RAW_PACKET,
        access: Access = Access.NONE,
        pkey_index: int = 0,
        qkey: int = 0,
        library: str | None = None,
    ) -> None:
        opened = device.open() if isinstance(device, Device) else open_device(device, library)
        self.context: OpenDevice = opened
        self.port_num = port_num
        self.send_cqe, self.recv_cqe = send_cqe, recv_cqe
        self.solicited_only_send = solicited_only_send
        self.solicited_only_recv = solicited_only_recv
        self.remote: RCConnParams | None = None
        try:
            if not force:
                _check_active(opened, port_num)
            self.pd = opened.alloc_pd()
            # Apple's librdma may have no channels: then completions are polled.
            makes = opened.session.library.has("ibv_create_comp_channel")
            self.send_comp_channel = opened.create_comp_channel() if makes else None
            self.recv_comp_channel = opened.create_comp_channel() if makes else None
            self.req_notify_send = req_notify_send and makes
            self.req_notify_recv = req_notify_recv and makes
            self.send_cq = opened.create_cq(
                send_cqe, self.send_comp_channel, comp_vector=comp_vector
            )
            self.recv_cq = opened.create_cq(
                recv_cqe, self.recv_comp_channel, comp_vector=comp_vector
            )
            self.qp = self.pd.create_qp(
                qp_type,
                self.send_cq,
                self.recv_cq,
                cap=QPCapacity(
                    max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data
                ),
            )
            for sends in (True, False):
                if self.notifies(sends=sends):
                    self.arm(sends=sends)
            self.qp.modify_to_init(port_num, access, pkey_index=pkey_index, qkey=qkey)
        except BaseException:
            opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Destroy everything, with all that was made beside it; raises InUse and CallFailed."""
        self.context.close()

    def has(self, capability: AnyCap) -> bool:
        """Whether the device claims it: hascapability."""
        return self.context.has(capability)

    def notifies(self, *, sends: bool) -> bool:
        """Whether completions of one direction make events."""
        return self.req_notify_send if sends else self.req_notify_recv

    def queue(self, *, sends: bool) -> CQ:
        """The completion queue of one direction."""
        return self.send_cq if sends else self.recv_cq

    def arm(self, *, sends: bool) -> None:
        """Ask for the next event of one direction, as it was made to; raises CallFailed."""
        if sends:
            self.send_cq.req_notify(solicited_only=self.solicited_only_send)
        else:
            self.recv_cq.req_notify(solicited_only=self.solicited_only_recv)

    def connect(self, params: RCConnParams) -> None:
        """INIT → RTR → RTS towards a peer; raises CallFailed and WrongAttributes."""
        self.remote = params
        self.qp.modify_to_rtr(params)
        self.qp.modify_to_rts(params)

    def wait(self, seconds: float, *, sends: bool = False, count: int = 1) -> list[WorkCompletion]:
        """Completions of one direction: CQ.wait."""
        return self.queue(sends=sends).wait(seconds, count)


def hascapability(context: Context | OpenDevice | Device, capability: AnyCap) -> bool:
    """Whether the device claims it; raises CallFailed."""
    return context.has(capability)


def _check_active(device: OpenDevice, port: int) -> None:
    found = PortState.from_number(device.query_port(port).state)
    if found is not PortState.ACTIVE:
        named = found.name if found else "in an unknown state"
        raise PortNotActive(f"{device.name} port {port} is {named}; force=True opens it")


# --- lists of work requests ------------------------------------------------------------

Target = Context | Sequence[MR]


def _sges(
    target: Target, bufs: Sequence[Any], num_wr: int, npad: int | Sequence[int]
) -> tuple[list[list[SGE]], list[MR]]:
    if not isinstance(target, Context):
        return create_sges(bufs, target, num_wr, npad), list(target)
    mrs: list[MR] = []
    try:
        mrs.extend(target.pd.reg_mr(each) for each in bufs)
        return create_sges(bufs, mrs, num_wr, npad), mrs
    except BaseException:
        for each in mrs:
            each.close()
        raise


Recv = tuple[list[RecvWR], list[list[SGE]], list[MR]]
Send = tuple[list[SendWR], list[list[SGE]], list[MR]]


def create_recv_wrs(
    target: Target,
    bufs: Sequence[Any],
    num_wr: int,
    npad: int | Sequence[int] = 0,
    *,
    post: bool = False,
) -> Recv:
    """`num_wr` linked receives, each into its packet of every buffer; with them SGEs and MRs.

    `target` is a Context, which registers the buffers, or their memory regions. With `post`
    they are posted, and then the queue pair of the Context is brought to RTR. The `wr_id` of
    each is its place in the list. Raises ValueError, TypeError, CallFailed and Mismatch.
    """
    sges, mrs = _sges(target, bufs, num_wr, npad)
    wrs = [RecvWR(each, wr_id=at) for at, each in enumerate(sges)]
    link(wrs)
    if post:
        post_wrs(_context(target), wrs, modify_qp=True)
    return wrs, sges, mrs


def create_send_wrs(
    target: Target,
    bufs: Sequence[Any],
    num_wr: int,
    npad: int | Sequence[int] = 0,
    *,
    offload: bool = False,
    post: bool = False,
) -> Send:
    """`num_wr` linked sends, each of its packet of every buffer; as `create_recv_wrs`.

    `offload` leaves the checksums of IPv4, TCP and UDP to the device (IBV_SEND_IP_CSUM), of
    which Capability.RAW_IP_CSUM and UD_IP_CSUM say whether it can. With `post` the queue pair
    is brought to RTS first.
    """
    sges, mrs = _sges(target, bufs, num_wr, npad)
    flags = SendFlags.IP_CSUM if offload else SendFlags.NONE
    wrs = [SendWR(each, wr_id=at, flags=flags) for at, each in enumerate(sges)]
    link(wrs)
    if post:
        post_wrs(_context(target), wrs, modify_qp=True)
    return wrs, sges, mrs


def _context(target: Target) -> Context:
    if not isinstance(target, Context):
        raise TypeError("memory regions have no queue pair to post to: give a Context")
    return target


@overload
def post_wrs(
    target: Context | QP, wrs: Sequence[RecvWR] | RecvWR, idx: int = 0, *, modify_qp: bool = False
) -> None: ...


@overload
def post_wrs(
    target: Context | QP, wrs: Sequence[SendWR] | SendWR, idx: int = 0, *, modify_qp: bool = False
) -> None: ...


def post_wrs(
    target: Context | QP,
    wrs: Sequence[RecvWR] | Sequence[SendWR] | RecvWR | SendWR,
    idx: int = 0,
    *,
    modify_qp: bool = False,
) -> None:
    """Post the list that begins with `wrs[idx]`: what it links, which may not be all of `wrs`.

    With `modify_qp` the queue pair is brought to RTR after receives are posted, and to RTS
    before sends are; a connected one to the peer of Context.remote. Raises PostFailed,
    CallFailed, IndexError, and what QP.post_send does.
    """
    first = wrs[idx] if isinstance(wrs, Sequence) else wrs
    qp = target if isinstance(target, QP) else target.qp
    remote = target.remote if isinstance(target, Context) else None
    if isinstance(first, RecvWR):
        qp.post_recv(first)
        if modify_qp:
            _bring(qp, QPState.RTR, remote)
        return
    if modify_qp:
        _bring(qp, QPState.RTS, remote)
    qp.post_send(first)


def _bring(qp: QP, state: QPState, remote: RCConnParams | None) -> None:
    """From INIT or RTR up to `state`; nothing where it is there or beyond."""
    at = qp.state
    if at is QPState.INIT:
        qp.modify_to_rtr(remote)
        at = QPState.RTR
    if at is QPState.RTR and state is QPState.RTS:
        qp.modify_to_rts(remote)
