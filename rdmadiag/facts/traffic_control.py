"""What traffic control does with the packets of a netdev: qdiscs, and filters that drop."""

from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.frozen import dataclass

IN, OUT = "in", "out"
TCP: Final = 6  # IPPROTO_*
UDP: Final = 17
IPV4: Final = 0x0800  # ETH_P_*
ARP: Final = 0x0806
IPV6: Final = 0x86DD
ANY: Final = 0x0003  # ETH_P_ALL


@dataclass(frozen=True, slots=True)
class Netem:
    """struct tc_netem_qopt and its attributes: what it does to packets that leave."""

    loss: float  # shares of 1
    duplicate: float
    corrupt: float
    delay_ms: float
    bytes_per_second: int | None = None  # TCA_NETEM_RATE; None: no rate
    most_packets: int | None = None  # limit: of those that wait; what exceeds it is dropped


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """struct tc_tbf_qopt: a rate, and what may leave at once."""

    bytes_per_second: int
    burst_bytes: int  # a packet that is larger is dropped


@dataclass(frozen=True, slots=True)
class Queue:
    """struct tc_fifo_qopt: what may wait; a packet that exceeds it is dropped."""

    most_bytes: int | None  # of bfifo
    most_packets: int | None  # of pfifo


@dataclass(frozen=True, slots=True)
class Qdisc:
    """RTM_GETQDISC."""

    netdev: str
    kind: str  # TCA_KIND: "netem", "clsact", "mq"
    is_root: bool  # of all that leaves; else of a class, or of what enters
    netem: Netem | None = None
    bucket: TokenBucket | None = None  # of tbf
    queue: Queue | None = None  # of pfifo, bfifo
    # Of cake; of fq, of each flow; of htb, the ceiling of the class that what no filter chooses a
    # class for goes into. None: as fast as it may.
    bytes_per_second: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficFilter:
    """RTM_GETTFILTER: one filter of a netdev, and what it asks of a packet."""

    netdev: str
    direction: str  # IN, OUT
    kind: str  # TCA_KIND: "flower", "u32", "matchall", "bpf"
    priority: int  # the lowest is tried first
    ether_type: int  # ETH_P_ALL: of each
    drops: bool  # the first action is gact's TC_ACT_SHOT
    ends: bool  # a packet that matches is decided on: no further filter is tried
    in_hardware: bool  # TCA_CLS_FLAGS_IN_HW
    understood: bool  # every condition is in the fields below
    protocol: int | None = None  # IPPROTO_*
    source: str | None = None  # "192.0.2.0/24"
    destination: str | None = None
    source_port: int | None = None
    destination_port: int | None = None
    destination_port_last: int | None = None  # of a range that begins with it
    leads_to: str | None = None  # mirred redirects: the packet goes by this netdev instead
    limits: bool = False  # police: what exceeds a rate is dropped
    by_program: bool = False  # of bpf: its program itself decides (direct action)
    # nft's limit, iptables' limit and hashlimit: so many packets in a time match, and no more.
    up_to_rate: bool = False
    # meta skuid, skgid; iptables' owner: what the kernel itself sends has none, and never matches.
    of_owner: bool = False


@dataclass(frozen=True, slots=True)
class TrafficControl:
    """All of this network namespace; filters of netdevs that have a place for them."""

    qdiscs: tuple[Qdisc, ...]  # but those without any effect of their own
    filters: tuple[TrafficFilter, ...] | Missing
