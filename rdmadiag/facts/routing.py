"""What the IP stack knows of ways to peers: routes, rules, neighbours, one answer of the kernel.

rdma_cm asks the same tables (addr4_resolve, addr6_resolve of drivers/infiniband/core/addr.c).
"""

from rdmadiag.facts import NOT_IN_RECORD, Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import GidType, Numbered
from rdmadiag.facts.packet_filter import PacketFilter
from rdmadiag.facts.traffic_control import TrafficControl
from rdmadiag.frozen import dataclass

MAIN_TABLE = 254  # RT_TABLE_MAIN, linux/rtnetlink.h
LOCAL_TABLE = 255  # RT_TABLE_LOCAL


class RouteKind(Numbered):
    """RTN_*, linux/rtnetlink.h."""

    UNSPECIFIED = "unspecified", 0
    UNICAST = "unicast", 1
    LOCAL = "local", 2
    BROADCAST = "broadcast", 3
    ANYCAST = "anycast", 4
    MULTICAST = "multicast", 5
    BLACKHOLE = "blackhole", 6
    UNREACHABLE = "unreachable", 7
    PROHIBIT = "prohibit", 8
    THROW = "throw", 9
    NAT = "nat", 10


class RuleAction(Numbered):
    """FR_ACT_*, linux/fib_rules.h."""

    TO_TABLE = "to_table", 1
    GOTO = "goto", 2
    NOTHING = "nothing", 3
    BLACKHOLE = "blackhole", 6
    UNREACHABLE = "unreachable", 7
    PROHIBIT = "prohibit", 8


class NeighbourState(Numbered):
    """NUD_*, linux/neighbour.h."""

    NONE = "none", 0x00
    INCOMPLETE = "incomplete", 0x01
    REACHABLE = "reachable", 0x02
    STALE = "stale", 0x04
    DELAY = "delay", 0x08
    PROBE = "probe", 0x10
    FAILED = "failed", 0x20
    NOARP = "noarp", 0x40
    PERMANENT = "permanent", 0x80

    @property
    def is_valid(self) -> bool:
        """Whether the kernel uses the MAC in it: NUD_VALID, include/net/neighbour.h."""
        return bool(self.number & 0xDE)


class BridgePortState(Numbered):
    """BR_STATE_*, linux/if_bridge.h."""

    DISABLED = "disabled", 0
    LISTENING = "listening", 1
    LEARNING = "learning", 2
    FORWARDING = "forwarding", 3
    BLOCKING = "blocking", 4


UNANSWERED = (NeighbourState.FAILED, NeighbourState.INCOMPLETE)
"""The neighbour was looked for, and has not answered."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One way of a route."""

    netdev: str  # RTA_OIF, rtnh_ifindex; "#7" where no netdev of that number was shown
    gateway: str | None = None  # RTA_GATEWAY, RTA_VIA
    weight: int = 1  # rtnh_hops + 1
    dead: bool = False  # RTNH_F_DEAD, RTNH_F_LINKDOWN


@dataclass(frozen=True, slots=True)
class Route(WithNumbers):
    """RTM_GETROUTE: a row of a table, or the kernel's answer for one destination."""

    destination: str  # "192.0.2.0/24"
    table: int  # RTA_TABLE
    kind: RouteKind | Missing  # rtm_type
    hops: tuple[Hop, ...]
    metric: int = 0  # RTA_PRIORITY
    source: str | None = None  # RTA_PREFSRC
    from_prefix: str | None = None  # RTA_SRC: IPv6 rows for some sources alone
    tos: int = 0  # rtm_tos
    mtu: int | None = None  # RTAX_MTU
    has_nexthop_object: bool = False  # RTA_NH_ID
    hop_limit: int | None = None  # RTAX_HOPLIMIT; None: that of the sysctl
    # RTM_F_CLONED: what the kernel has learned of one destination, by an ICMP message.
    is_cached: bool = False
    is_redirected: bool = False  # RTCF_REDIRECTED, of IPv4 alone


@dataclass(frozen=True, slots=True)
class Rule(WithNumbers):
    """RTM_GETRULE."""

    version: int  # 4, 6
    priority: int  # FRA_PRIORITY
    action: RuleAction | Missing
    table: int  # FRA_TABLE
    inverted: bool = False  # FIB_RULE_INVERT
    source: str | None = None  # FRA_SRC
    destination: str | None = None  # FRA_DST
    input: str | None = None  # FRA_IIFNAME
    output: str | None = None  # FRA_OIFNAME
    mark: tuple[int, int] | None = None  # FRA_FWMARK, FRA_FWMASK
    users: tuple[int, int] | None = None  # FRA_UID_RANGE
    tos: int = 0
    target: int | None = None  # FRA_GOTO
    suppressed_length: int | None = None  # FRA_SUPPRESS_PREFIXLEN; None: nothing is suppressed
    other: tuple[str, ...] = ()  # conditions that depend on a packet: "sport"


@dataclass(frozen=True, slots=True)
class AddressLabel:
    """RTM_GETADDRLABEL: a row of the policy table by which an IPv6 source is chosen (RFC 6724)."""

    prefix: str  # IFAL_ADDRESS, ifal_prefixlen: "fc00::/7"
    label: int  # IFAL_LABEL
    netdev: str | None = None  # ifal_index: of this one's addresses alone


@dataclass(frozen=True, slots=True)
class Neighbour(WithNumbers):
    """RTM_GETNEIGH."""

    address: str  # NDA_DST
    netdev: str
    state: NeighbourState | Missing  # ndm_state
    mac: str | None  # NDA_LLADDR
    updated_s: float | None = None  # ndm_updated of NDA_CACHEINFO: seconds since it was changed


@dataclass(frozen=True, slots=True)
class Soliciting:
    """RTM_GETNEIGHTBL: how often a neighbour is asked for, before it counts as unreachable."""

    version: int  # 4: ARP; 6: neighbour discovery
    netdev: str | None  # NDTPA_IFINDEX; None: what a netdev gets that is made
    multicast: int  # NDTPA_MCAST_PROBES, mcast_solicit: one that is not known yet
    unicast: int  # NDTPA_UCAST_PROBES, ucast_solicit: one that was
    by_program: int  # NDTPA_APP_PROBES, app_solicit: by a program that listens to netlink

    @property
    def finds_none(self) -> bool:
        """Whether one that is not known yet is not looked for at all (neigh_max_probes)."""
        return self.multicast == 0 and self.by_program == 0


@dataclass(frozen=True, slots=True)
class Link(WithNumbers):
    """RTM_GETLINK: as much of each netdev as a way depends on."""

    name: str
    ifindex: int
    loopback: bool  # IFF_LOOPBACK
    no_arp: bool  # IFF_NOARP
    vrf: bool  # IFLA_INFO_KIND
    type: int  # ifi_type: 1 Ethernet, 32 InfiniBand, 772 loopback
    master: str | None = None  # IFLA_MASTER: a bond, a bridge, a VRF
    up: bool | None = None  # IFF_UP; None: a report that did not say
    carrier: bool | None = None  # IFF_LOWER_UP
    kind: str | None = None  # IFLA_INFO_KIND: "bridge", "vlan"; None: hardware
    lower: str | None = None  # IFLA_LINK in this namespace
    vlan_id: int | None = None  # IFLA_VLAN_ID
    port_state: BridgePortState | None = None  # IFLA_BRPORT_STATE, of a port of a bridge


@dataclass(frozen=True, slots=True)
class RoceMode(WithNumbers):
    """/sys/kernel/config/rdma_cm/DEVICE/ports/N, where it is there."""

    port: str  # "mlx5_0/1"
    type: GidType | Missing  # default_roce_mode
    tos: int | Missing = NOT_IN_RECORD  # default_roce_tos: the traffic class, DSCP x 4


@dataclass(frozen=True, slots=True)
class RoutingFacts:
    """The tables of this network namespace, and what rdma_cm was set to."""

    links: tuple[Link, ...]
    routes: tuple[Route, ...] | Missing  # of all tables, without broadcast, multicast, anycast
    rules: tuple[Rule, ...] | Missing
    # A folder that is not there says nothing: the mode stays when the folder is removed.
    roce_modes: tuple[RoceMode, ...] | Missing
    port_mapper: bool | Missing  # a UDP socket on port 3935 in /proc/self/net/udp: iwpmd
    neighbours: tuple[Neighbour, ...] | Missing = NOT_IN_RECORD
    traffic_control: TrafficControl | Missing = NOT_IN_RECORD
    packet_filter: PacketFilter | Missing = NOT_IN_RECORD
    # Of both tables, and of netdevs that differ from them.
    soliciting: tuple[Soliciting, ...] | Missing = NOT_IN_RECORD
    address_labels: tuple[AddressLabel, ...] | Missing = NOT_IN_RECORD

    def solicits(self, netdev: str, version: int) -> Soliciting | None:
        """How this netdev asks for neighbours; None where that is not known."""
        known = () if isinstance(self.soliciting, Missing) else self.soliciting
        rows = [each for each in known if each.version == version]
        own = next((each for each in rows if each.netdev == netdev), None)
        return own or next((each for each in rows if each.netdev is None), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the kernel: RTM_GETROUTE, with what rdma_cm itself puts into it."""

    destination: str
    source: str | None = None
    ifindex: int | None = None  # of the netdev that rdma_cm has bound the id to


@dataclass(frozen=True, slots=True)
class KernelAnswer:
    """What it said; absent: there is no route (ENETUNREACH, EHOSTUNREACH)."""

    asked: Asked
    route: Route | Missing


@dataclass(frozen=True, slots=True)
class TowardsFacts:
    """What concerns one peer, and is in no report of the host."""

    answers: tuple[KernelAnswer, ...]
    neighbours: tuple[Neighbour, ...] | Missing
    # /proc/sys/net/ipv4/fib_multipath_hash_policy: 0 addresses alone, 1 ports and protocol, too
    ipv4_hash_policy: int | Missing = NOT_IN_RECORD
