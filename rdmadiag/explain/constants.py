"""Constants of the headers: events one by one, the others by what they begin with.

Of infiniband/verbs.h and rdma/rdma_cma.h of rdma-core, the kernel's rdma/ib_cm.h, and of mlx5's
firmware interface.
What an event has been traced to is said by the sign that its name is in a log.
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain import connection, events
from rdmadiag.facts.cm import RejectReason, SidrStatus
from rdmadiag.facts.ib import MTU_BYTES
from rdmadiag.facts.mlx5_commands import COMMANDS
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant, or one of many of a kind."""

    name: str
    of: str  # "enum ibv_event_type"
    number: int | None
    meaning: str
    effect: str | None = None  # of an event, on what it is of


_ASYNC: Final = "enum ibv_event_type"
_CM: Final = "enum rdma_cm_event_type"
_REASON: Final = "enum ib_cm_rej_reason"
_SIDR: Final = "enum ib_cm_sidr_status"
_BEFORE: Final = {
    RejectReason: "Status of RDMA_CM_EVENT_REJECTED",
    SidrStatus: "Status of RDMA_CM_EVENT_UNREACHABLE, of a UD id",
}
_ASYNC_EVENTS: Final = tuple(
    Constant(event.constant, _ASYNC, event.number, row.meaning, row.effect)
    for event, row in events.EVENTS.items()
)
_CM_EVENTS: Final = tuple(
    Constant(row.event.constant, _CM, row.event.number, row.meaning) for row in connection.EVENTS
)
EVENTS: Final = (*_ASYNC_EVENTS, *_CM_EVENTS)
STATUSES: Final = {
    row.status.constant: (
        Constant(
            row.status.constant,
            _REASON if isinstance(row.status, RejectReason) else _SIDR,
            row.status.number,
            f"{_BEFORE[type(row.status)]}: {row.meaning}. No errno.",
        ),
        row,
    )
    for row in (*connection.REASONS, *connection.SIDR)
}
"""Statuses of the connection manager, each with its row."""

_KINDS: Final = (
    ("IBV_QPT_", "enum ibv_qp_type", "A type of queue pair."),
    ("IBV_QP_", "enum ibv_qp_attr_mask", "An attribute of a queue pair, or a flag for one."),
    ("IBV_WC_", "enum ibv_wc_opcode, ibv_wc_flags", "An operation that completed, or its flag."),
    ("IBV_WR_", "enum ibv_wr_opcode", "An operation of a work request."),
    ("IBV_SEND_", "enum ibv_send_flags", "A flag of a send request."),
    ("IBV_ACCESS_", "enum ibv_access_flags", "A right on a memory region."),
    ("IBV_PORT_", "enum ibv_port_state, ibv_port_cap_flags", "A port's state or capability."),
    ("IBV_LINK_LAYER_", "infiniband/verbs.h", "A link layer."),
    ("IBV_NODE_", "enum ibv_node_type", "A kind of node."),
    ("IBV_TRANSPORT_", "enum ibv_transport_type", "A transport."),
    ("IBV_GID_TYPE_", "enum ibv_gid_type", "A type of GID."),
    ("IBV_DEVICE_", "enum ibv_device_cap_flags", "A capability of a device."),
    ("IBV_ATOMIC_", "enum ibv_atomic_cap", "What atomic operations a device has."),
    ("IBV_RATE_", "enum ibv_rate", "A rate of a path."),
    ("IBV_SRQ", "infiniband/verbs.h", "Of shared receive queues."),
    ("IBV_MIG_", "enum ibv_mig_state", "A state of path migration."),
    ("RDMA_PS_", "enum rdma_port_space", "A port space of rdma_cm."),
    ("RDMA_OPTION_", "rdma/rdma_cma.h", "An option of rdma_cm."),
    ("MLX5_CMD_OP_", "mlx5_ifc.h", "A command that the mlx5 driver gives to the firmware."),
    ("MLX5_CMD_STAT_", "mlx5/device.h", "A status with which mlx5's firmware answers a command."),
    ("MLX5_CQE_", "mlx5/device.h", "Of a completion of mlx5: its operation, format or syndrome."),
    ("MLX5_OPCODE_", "mlx5dv.h", "An operation of an mlx5 work request."),
)


_COMPLETE: Final = (
    *("IBV_EVENT_", "RDMA_CM_EVENT_", "IBV_QPS_", "IBV_MTU_"),
    *("IB_CM_REJ_", "IB_SIDR_"),
)
"""What begins so is known here in full."""


def is_constant(word: str) -> bool:
    """Whether it is named as a constant is: known, misspelt or new, it is no variable."""
    return word.strip().upper().startswith((*_COMPLETE, *(row[0] for row in _KINDS)))


def constants(word: str) -> Iterator[Constant]:
    """What a name is that programs and drivers print; none for a variable of an environment."""
    name = word.strip().upper()
    for event in EVENTS:
        if name == event.name:
            yield event
            return
    if name in STATUSES:
        yield STATUSES[name][0]
        return
    for number, size in MTU_BYTES.items():
        if name == f"IBV_MTU_{size}":
            yield Constant(name, "enum ibv_mtu", number, f"A path MTU of {size} bytes.")
    for prefix, kind, meaning in _KINDS:
        if name.startswith(prefix) and name != prefix and name.isidentifier():
            opcode = COMMANDS.get(name.removeprefix("MLX5_CMD_OP_"))
            yield Constant(name, kind, opcode, meaning)
            return
