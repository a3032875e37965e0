"""What programs and the kernel hold of RDMA devices: objects and their owners."""

from rdmadiag.facts import NOT_IN_RECORD, Missing, ResourceCount
from rdmadiag.facts.cm import CmState
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.frozen import dataclass

KINDS = ("ctx", "pd", "cq", "qp", "srq", "mr", "cm_id")
"""The kernel's words for resources, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who made an object. Neither: a process that this one may not see, or that has ended."""

    # Tgid of /proc/RES_PID/status, as numbered in this process's PID namespace; of an object
    # whose thread has ended, that of another object of its context (RES_CTXN, or its RES_PDN's).
    pid: int | None
    kernel: str | None  # RES_KERN_NAME: the module that made it


@dataclass(frozen=True, slots=True)
class QueuePair(WithNumbers):
    """One entry of RES_QP_GET."""

    number: int  # RES_LQPN
    peer: int | Missing  # RES_RQPN, of RC and UC
    port: int | Missing  # PORT_INDEX, once it has one
    type: KernelQpType | Missing  # RES_TYPE
    state: QpState | Missing  # RES_STATE
    owner: Owner


@dataclass(frozen=True, slots=True)
class CmId(WithNumbers):
    """One entry of RES_CM_ID_GET."""

    state: CmState | Missing  # RES_STATE
    local_port: int | Missing  # of RES_SRC_ADDR
    owner: Owner


@dataclass(frozen=True, slots=True)
class Held:
    """How many objects of a kind an owner has on a device."""

    owner: Owner
    count: int
    bytes: int | None = None  # of memory regions: the sum of RES_MRLEN


@dataclass(frozen=True, slots=True)
class DeviceResources:
    """The objects of one device, by owner."""

    index: int  # DEV_INDEX
    name: str
    counts: dict[str, ResourceCount] | Missing  # RES_GET; of this PID namespace alone
    queue_pairs: tuple[QueuePair, ...] | Missing
    held: dict[str, tuple[Held, ...] | Missing]  # by kind, but for queue pairs
    cm_ids: tuple[CmId, ...] | Missing = NOT_IN_RECORD


@dataclass(frozen=True, slots=True)
class ResourceFacts:
    """All devices, and the names of the processes."""

    devices: tuple[DeviceResources, ...]
    commands: dict[int, str | Missing]  # /proc/PID/comm of every owner
    # /proc/self/ns/pid. In another one the kernel neither counts nor shows what is not of it
    # (rdma_is_visible_in_pid_ns).
    initial_pidns: bool | Missing
    # /proc/sys/net/ipv4/ip_local_port_range: from these rdma_cm gives an id its port
    # (cma_alloc_any_port).
    local_ports: tuple[int, int] | Missing = NOT_IN_RECORD

    def device(self, name: str) -> DeviceResources | None:
        """The device of this name."""
        return next((device for device in self.devices if device.name == name), None)
