"""Virtual functions (SR-IOV) of RDMA devices: what the physical function's driver has of each."""

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass


class LinkPolicy(Numbered):
    """IFLA_VF_LINK_STATE_*: the link that a virtual function is shown."""

    AUTO = "auto", 0  # the physical function's own
    ENABLE = "enable", 1  # up, whatever that is
    DISABLE = "disable", 2  # down, whatever that is


@dataclass(frozen=True, slots=True)
class VirtualFunction(WithNumbers):
    """IFLA_VF_INFO; absent: the driver does not give it."""

    number: int
    address: str | Missing  # virtfnN of the physical function: "0000:08:00.2"
    mac: str | Missing  # IFLA_VF_MAC
    node_guid: str | Missing  # IFLA_VF_IB_NODE_GUID, as /sys/class/infiniband writes it
    port_guid: str | Missing  # IFLA_VF_IB_PORT_GUID
    link: LinkPolicy | Missing  # IFLA_VF_LINK_STATE
    trust: bool | Missing  # IFLA_VF_TRUST
    spoof_check: bool | Missing  # IFLA_VF_SPOOFCHK
    vlan: int | Missing  # IFLA_VF_VLAN; 0 is none


@dataclass(frozen=True, slots=True)
class PhysicalFunction:
    """A physical function with virtual ones, by its netdev."""

    netdev: str
    functions: tuple[VirtualFunction, ...] | Missing


@dataclass(frozen=True, slots=True)
class VfFacts:
    """SR-IOV of the functions below RDMA devices, and below their netdevs."""

    physical: tuple[PhysicalFunction, ...]
    virtual: dict[str, str]  # RDMA device on a virtual function → "0000:08:00.0", its physfn
