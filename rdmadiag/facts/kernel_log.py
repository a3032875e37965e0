"""What the kernel logged lately: /dev/kmsg."""

from rdmadiag.facts import Missing
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One record: "6,416,17717449968,-;mlx5_core 0000:08:00.0 eth0: Link down"."""

    seconds: float  # since the kernel started, as dmesg prints them
    level: int  # 0 emergency … 7 debug
    message: str


@dataclass(frozen=True, slots=True)
class KernelLogFacts:
    """The lines of the window that name RDMA, its drivers or their links; the last ones."""

    window: str  # "10m"
    lines: tuple[KernelLine, ...] | Missing
    left_out: int = 0  # older lines of the window that were too many to keep
