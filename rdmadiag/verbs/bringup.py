"""What ibv_modify_qp is given on the way from RESET to RTS."""

from typing import Final

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_NUMBER, LinkLayer
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvAhAttr, IbvGid, IbvQpAttr
from rdmadiag.verbs.protocol import End

MAX_RD_ATOMIC: Final = 1
MIN_RNR_TIMER: Final = 12  # 0.64 ms, InfiniBand spec 9.7.5.2.8
TIMEOUT: Final = 17  # 4.096 us * 2**17: 537 ms; with the count below, 3.8 s of delay are no loss
RETRY_COUNT: Final = 6  # not 7, which soft RoCE never counts down: rxe_completer, rxe_comp.c
RNR_RETRY: Final = 7  # for ever: a receive is posted before the peer learns that it may send
ROCE_HOPS: Final = 64
THUNDERBOLT_HOPS: Final = 1  # TN3205


@dataclass(frozen=True, slots=True)
class RemoteQueuePair:
    """What RTR must know of the other end."""

    queue_pair: int
    psn: int
    lid: int
    gid: Gid | None
    mtu: int  # bytes, of the path


def address_vector(facts: End, remote: RemoteQueuePair) -> IbvAhAttr:
    """The way to the other end; with a GRH where this end has a GID."""
    address = IbvAhAttr(dlid=remote.lid, port_num=facts.port)
    if facts.gid_index is not None and remote.gid is not None:
        thunderbolt = facts.link_layer is LinkLayer.THUNDERBOLT
        address.is_global = 1
        address.grh.dgid = IbvGid(*remote.gid.raw)
        address.grh.sgid_index = facts.gid_index
        address.grh.hop_limit = THUNDERBOLT_HOPS if thunderbolt else ROCE_HOPS
    return address


def init_attributes(
    facts: End, access: int = 0, qkey: int = 0, *, pkey_index: int = 0
) -> IbvQpAttr:
    """RESET → INIT."""
    return IbvQpAttr(pkey_index=pkey_index, port_num=facts.port, qp_access_flags=access, qkey=qkey)


def rtr_attributes(facts: End, remote: RemoteQueuePair) -> IbvQpAttr:
    """INIT → RTR: the address vector, and what the other end will send with."""
    return IbvQpAttr(
        path_mtu=MTU_NUMBER[remote.mtu],
        dest_qp_num=remote.queue_pair,
        rq_psn=remote.psn,
        max_dest_rd_atomic=MAX_RD_ATOMIC,
        min_rnr_timer=MIN_RNR_TIMER,
        ah_attr=address_vector(facts, remote),
    )


def rts_attributes(psn: int, rnr_retry: int = RNR_RETRY) -> IbvQpAttr:
    """RTR → RTS; `psn` is what this end sends with first."""
    return IbvQpAttr(
        sq_psn=psn,
        timeout=TIMEOUT,
        retry_cnt=RETRY_COUNT,
        rnr_retry=rnr_retry,
        max_rd_atomic=MAX_RD_ATOMIC,
    )
