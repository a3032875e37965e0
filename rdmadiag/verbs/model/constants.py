"""The numbers of infiniband/verbs.h that a program passes and gets, by their names there."""

from enum import IntEnum, IntFlag
from typing import Final

from rdmadiag.facts.events import AsyncEvent
from rdmadiag.facts.ib import QpState, QpType


class QPType(IntEnum):
    """enum ibv_qp_type."""

    RC = 2
    UC = 3
    UD = 4
    RAW_PACKET = 8
    XRC_SEND = 9
    XRC_RECV = 10

    @property
    def named(self) -> QpType:
        """Its row in the table of types."""
        found = QpType.from_number(self)
        if found is None:
            raise KeyError(self.name)
        return found


class QPState(IntEnum):
    """enum ibv_qp_state."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6

    @property
    def named(self) -> QpState:
        """Its row in the table of states."""
        return QpState[self.name]


class Access(IntFlag):
    """IBV_ACCESS_*: what the device may do with memory, and the peer of a queue pair."""

    NONE = 0
    LOCAL_WRITE = 1 << 0
    REMOTE_WRITE = 1 << 1
    REMOTE_READ = 1 << 2
    REMOTE_ATOMIC = 1 << 3
    MW_BIND = 1 << 4
    RELAXED_ORDERING = 1 << 20


class Opcode(IntEnum):
    """enum ibv_wr_opcode: of a request of a send queue."""

    WRITE = 0
    WRITE_WITH_IMM = 1
    SEND = 2
    SEND_WITH_IMM = 3
    READ = 4
    ATOMIC_CMP_AND_SWP = 5
    ATOMIC_FETCH_AND_ADD = 6


class SendFlags(IntFlag):
    """enum ibv_send_flags."""

    NONE = 0
    FENCE = 1 << 0
    SIGNALED = 1 << 1
    SOLICITED = 1 << 2
    INLINE = 1 << 3
    IP_CSUM = 1 << 4


class WCOpcode(IntEnum):
    """enum ibv_wc_opcode."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    COMP_SWAP = 3
    FETCH_ADD = 4
    BIND_MW = 5
    LOCAL_INV = 6
    TSO = 7
    FLUSH = 8
    ATOMIC_WRITE = 9
    RECV = 1 << 7
    RECV_RDMA_WITH_IMM = (1 << 7) + 1


class WCFlags(IntFlag):
    """enum ibv_wc_flags."""

    NONE = 0
    GRH = 1 << 0
    WITH_IMM = 1 << 1
    IP_CSUM_OK = 1 << 2
    WITH_INV = 1 << 3


EventType = AsyncEvent
"""enum ibv_event_type."""

_TARGETED: Final = (Opcode.WRITE, Opcode.WRITE_WITH_IMM, Opcode.READ)
_ATOMIC: Final = (Opcode.ATOMIC_CMP_AND_SWP, Opcode.ATOMIC_FETCH_AND_ADD)
_MESSAGES: Final = (Opcode.SEND, Opcode.SEND_WITH_IMM)

ALLOWED: Final[dict[QPType, frozenset[Opcode]]] = {
    QPType.RC: frozenset(Opcode),
    QPType.UC: frozenset((*_MESSAGES, Opcode.WRITE, Opcode.WRITE_WITH_IMM)),
    QPType.UD: frozenset(_MESSAGES),
    QPType.RAW_PACKET: frozenset((Opcode.SEND,)),
    QPType.XRC_SEND: frozenset(Opcode),
    QPType.XRC_RECV: frozenset(),
}
"""The operations of each type: the table of ibv_post_send(3)."""

WITH_IMM: Final = frozenset((Opcode.SEND_WITH_IMM, Opcode.WRITE_WITH_IMM))
TARGETED: Final = frozenset(_TARGETED)
ATOMIC: Final = frozenset(_ATOMIC)

ATOMIC_BYTES: Final = 8
GRH_BYTES: Final = 40
"""What stands before the message in a receive buffer of UD: struct ibv_grh."""
