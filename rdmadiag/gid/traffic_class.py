"""Which traffic class and service level each stack sends with: one row each.

On RoCE v2 the traffic class is the ToS byte of the IP header: DSCP x 4, and two bits of ECN.
"""

from collections.abc import Mapping
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.environment import WITHHELD
from rdmadiag.frozen import dataclass
from rdmadiag.gid.c_number import strtol


@dataclass(frozen=True, slots=True)
class Sender:
    """What one stack sends with, where the driver does not overrule it."""

    stack: str  # of rdmadiag.gid.registry
    title: str
    source: str  # "owner/repository@tag path"
    variable: str | None = None  # of the traffic class: a row of rdmadiag.gid.variables
    level: str | None = None  # of the service level
    option: str | None = None  # where there is no variable: what sets the class to NUMBER
    default_v2: int = 0  # without the variable, on RoCE v2; 0 on RoCE v1
    by_rdma_cm: bool = False  # default_roce_tos of rdma_cm, unless the program sets its own


@dataclass(frozen=True, slots=True)
class Sent:
    """A number that a stack sends with, and where it is from."""

    value: int | Missing
    why: str  # "NCCL_IB_TC=106", "its default"
    is_set: bool  # somebody chose it, for this process or this host
    by_driver: bool = False  # whatever the stack says


_NCCL: Final = "NVIDIA/nccl@v2.30.7-1 src/transport/net_ib/connect.cc"
_UCX: Final = "openucx/ucx@v1.21.0 src/uct/ib/base/ib_iface.c"

SENDERS: Final = (
    Sender("nccl", "NCCL", _NCCL, "NCCL_IB_TC", "NCCL_IB_SL"),
    Sender("rccl", "RCCL", "ROCm/rccl@develop src/transport/net_ib.cc", "NCCL_IB_TC", "NCCL_IB_SL"),
    Sender("ucx", "UCX", _UCX, "UCX_IB_TRAFFIC_CLASS", "UCX_IB_SL", default_v2=106),
    Sender(
        "nvshmem",
        "NVSHMEM",
        "NVIDIA/nvshmem@devel src/modules/transport/common/env_defs.h",
        "NVSHMEM_IB_TRAFFIC_CLASS",
        "NVSHMEM_IB_SL",
    ),
    Sender(
        "mooncake",
        "Mooncake",
        "kvcache-ai/Mooncake@main mooncake-transfer-engine/src/config.cpp",
        "MC_IB_TC",
        "MC_IB_SL",
    ),
    Sender(
        "rdmacm",
        "librdmacm",
        "torvalds/linux@v6.1 drivers/infiniband/core/cma.c cma_resolve_iboe_route",
        by_rdma_cm=True,
    ),
    Sender(
        "libfabric-msg",
        "libfabric verbs",
        "ofiwg/libfabric@v2.3.0 prov/verbs: connects by librdmacm",
        by_rdma_cm=True,
    ),
    Sender(
        "perftest",
        "perftest",
        "linux-rdma/perftest@v4.5 src/perftest_parameters.c",
        option="ib_write_bw --tclass NUMBER",
    ),
    Sender(
        "rc-pingpong",
        "ibv_rc_pingpong",
        "linux-rdma/rdma-core@v44.0 libibverbs/examples/rc_pingpong.c",
    ),
)

BY_STACK: Final = {each.stack: each for each in SENDERS}


def traffic_class(sender: Sender, environment: Mapping[str, str] | Missing, *, v2: bool) -> Sent:
    """The class by the variable, else the stack's default; rdma_cm's own is not known here."""
    default = sender.default_v2 if v2 else 0
    return _sent(sender, sender.variable, environment, default, 0xFF)


def service_level(sender: Sender, environment: Mapping[str, str] | Missing) -> Sent:
    """The same of the service level."""
    return _sent(sender, sender.level, environment, 0, 0xF)


def _sent(
    sender: Sender,
    variable: str | None,
    environment: Mapping[str, str] | Missing,
    default: int,
    mask: int,
) -> Sent:
    otherwise = "its default"
    if variable is None:
        return Sent(default, otherwise, is_set=False)
    if isinstance(environment, Missing):
        return Sent(environment, f"{variable} is not known", is_set=False)
    text = environment.get(variable, "")
    if text == WITHHELD:
        unknown = Missing(Why.NOT_COLLECTED, f"{variable} is set, and its value not recorded")
        return Sent(unknown, variable, is_set=True)
    # strtoull, std::stoi: a word is 0 or the default, which is the same but for UCX's "auto".
    value = strtol(text) if text and text != "auto" else None
    if value is None or value < 0:
        return Sent(default, otherwise, is_set=False)
    return Sent(value & mask, f"{variable}={text}", is_set=True)
