"""What libibverbs or librdma answers, called in a child process."""

from typing import Final, Literal

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import LANE_RATES, LANES, GidType, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class VerbsFailure:
    """A call that failed by its own convention."""

    call: str  # "ibv_open_device"
    device: str | None
    port: int | None
    errno: int  # of `VerbsFacts.platform`; 0 where the call gave none
    name: str  # "ENODEV"


NOT_RECORDED: Final = Missing(Why.NOT_COLLECTED, "not in this record")
"""Of what older records lack."""

Numbers = dict[str, int]
"""By the names of infiniband/verbs.h; "tm_caps.max_sge" is in a structure within."""

KILLED: Final = "killed at the deadline"
"""`Unanswered.end` of a child that was killed."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The call that the query was in when it ended without an answer."""

    call: str
    device: str | None
    port: int | None
    seconds: float  # for how long the call had been running
    end: str  # KILLED, or how the child ended by itself: "ended by signal 11"
    pid: int
    unkillable: bool  # SIGKILL did not end it: it is stuck in the kernel

    @property
    def was_killed(self) -> bool:
        """Whether the call was still running at the deadline."""
        return self.end == KILLED


@dataclass(frozen=True, slots=True)
class VerbsGid(WithNumbers):
    """One non-zero entry: _ibv_query_gid_table, or ibv_query_gid."""

    index: int
    gid: Gid
    type: GidType | Missing  # gid_type; ibv_query_gid does not say
    netdev_index: int | Missing  # ndev_ifindex


@dataclass(frozen=True, slots=True)
class VerbsPort(WithNumbers):
    """ibv_query_port, and the port's GIDs."""

    number: int
    state: PortState | Missing
    phys_state: PhysState | Missing
    link_layer: LinkLayer | Missing
    max_mtu: int | Missing  # bytes
    active_mtu: int | Missing  # bytes
    lid: int
    lmc: int
    sm_lid: int
    sm_sl: int
    active_width: int  # IBV_WIDTH_*, a bit
    active_speed: int  # IBV_SPEED_*, a bit; more than 8 bits are cut off (XDR)
    max_msg_size: int  # bytes
    gid_table_length: int
    pkey_table_length: int
    gids: tuple[VerbsGid, ...] | Missing
    gids_asked: int  # rows of the table that were queried, from 0
    gids_unreadable: dict[int, Missing]  # rows that the library refused
    attributes: Numbers | Missing = NOT_RECORDED  # all of ibv_port_attr that was written

    @property
    def rate(self) -> str | Missing:
        """As sysfs writes it: "100 Gb/sec (4X EDR)" (rate_show, core/sysfs.c)."""
        lanes, speed = LANES.get(self.active_width), LANE_RATES.get(self.active_speed)
        if lanes is None or speed is None:
            numbers = f"active_width {self.active_width}, active_speed {self.active_speed}"
            return Missing(Why.ABSENT, numbers)
        return f"{lanes * speed[0]:g} Gb/sec ({lanes}X{speed[1]})"


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """ibv_query_device: how many of each there can be."""

    max_qp: int
    max_qp_wr: int
    max_sge: int
    max_cq: int
    max_cqe: int
    max_mr: int
    max_mr_size: int  # bytes
    max_pd: int
    max_ah: int
    max_srq: int


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of struct ibv_context_ops or verbs_context."""

    name: str  # "alloc_mw"
    provider: str | None  # the file that it is in; None: the provider has none


@dataclass(frozen=True, slots=True)
class VerbsDevice(WithNumbers):
    """One device of ibv_get_device_list."""

    name: str
    node_type: NodeType | Missing
    transport: int  # ibv_transport_type; 100 is Apple's Thunderbolt
    node_guid: str | Missing
    sys_image_guid: str | Missing
    firmware: str | Missing
    vendor_id: int | Missing
    vendor_part_id: int | Missing
    hw_version: int | Missing
    port_count: int | Missing
    limits: DeviceLimits | Missing
    ports: tuple[VerbsPort, ...] | Missing
    attributes: Numbers | Missing = NOT_RECORDED  # all of ibv_device_attr
    extended: Numbers | Missing = NOT_RECORDED  # ibv_device_attr_ex without the former
    operations: tuple[Operation, ...] | Missing = NOT_RECORDED

    def port(self, number: int) -> VerbsPort | None:
        """The port of this number, if verbs showed it."""
        return next((port for port in present(self.ports) if port.number == number), None)


@dataclass(frozen=True, slots=True)
class VerbsFacts:
    """What the verbs library answers; what it answered before it hung is kept."""

    platform: Literal["linux", "darwin"]  # whose errno numbers these are
    library: str  # as it was loaded
    pid: int  # of the child that queried; its own contexts are nobody's leftovers
    devices: tuple[VerbsDevice, ...]
    failures: tuple[VerbsFailure, ...]
    unanswered: Unanswered | None
    warnings: tuple[str, ...]  # lines on stderr

    def device(self, name: str) -> VerbsDevice | None:
        """The device of this name, if the library lists it."""
        return next((device for device in self.devices if device.name == name), None)
