"""What keeps rdma_cm from a peer, as far as this host shows it."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Why
from rdmadiag.facts.evidence import LINUX_ONLY
from rdmadiag.facts.routing import Neighbour, NeighbourState
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import RECORD_ANEW, Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.cm_device import Obstacle, Stop
from rdmadiag.view.peer_route import PeerRoute, Witness
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.routing import NoWay

_CMA: Final = "https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/core/cma.c"
_ADDR: Final = "https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/core/addr.c"
_MANUAL: Final = (
    "https://github.com/linux-rdma/rdma-core/blob/master/librdmacm/man/rdma_resolve_addr.3"
)
_NAMES: Final = {Protocol.ROCE: "RoCE", Protocol.IWARP: "iWARP"}
_WAYS: Final = ("ip route get {peer}", "ip rule", "ip -brief address")


@dataclass(frozen=True, slots=True)
class PeerCase:
    """What there is to judge."""

    route: PeerRoute
    expected: tuple[str, ...] = ()  # DEVICE/PORT; (): any
    has_devices: bool = True


def _asked(route: PeerRoute) -> str:
    return (
        f"from {route.asked_source} to {route.destination}"
        if route.asked_source
        else (f"to {route.destination}")
    )


def _sees(stop: Stop) -> str:
    """ "RDMA_CM_EVENT_ADDR_ERROR, status -19 (ENODEV)"."""
    if stop.call.startswith("RDMA_CM_EVENT_"):
        return f"{stop.call}, status -{stop.errno} ({stop.name})"
    return f"{stop.call}: {stop.name}"


def _proofs(route: PeerRoute) -> Iterator[Proof]:
    if route.netdev:
        how = "RTM_GETROUTE" if route.witness is Witness.KERNEL else "rules and routes"
        source = f" src {route.source}" if route.source else ""
        yield Proof("routing", f"{how} {_asked(route)}", f"dev {route.netdev}{source}")


def _stopped(case: PeerCase, *obstacles: Obstacle) -> Stop | None:
    stop = case.route.stop
    return stop if stop and stop.obstacle in obstacles else None


@rule(
    "cm-no-way",
    Severity.CRITICAL,
    "No route to the peer",
    "No rule leads to a route for the peer's address, or one that refuses it (unreachable, "
    "prohibit, blackhole). rdma_resolve_addr itself fails, before any packet.",
    (_ADDR, _MANUAL),
    remedy=(
        *_WAYS,
        "sudo ip route add {peer} via GATEWAY dev NETDEV   # or a route of its network",
    ),
)
def cm_no_way(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """As the kernel says it, or the tables."""
    route = case.route
    if stop := _stopped(case, Obstacle.NO_ROUTE, Obstacle.ROUTE_REFUSED):
        what = "no route" if stop.obstacle is Obstacle.NO_ROUTE else "a route refuses the way"
        yield this.finding(
            f"{what} {_asked(route)}: {_sees(stop)}",
            evidence=[Proof("routing", f"RTM_GETROUTE {_asked(route)}", stop.name)],
            fill={"peer": route.destination},
        )


@rule(
    "cm-source-unfit",
    Severity.CRITICAL,
    "The source address does not fit",
    "No netdev of this network namespace has the source address that was asked for, it is of "
    "another family than the peer's, or a link-local address was given without its netdev "
    "(fe80::1%eth0).",
    (_ADDR,),
    remedy=("ip -brief address",),
)
def cm_source_unfit(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """What rdma_bind_addr and rdma_resolve_addr refuse."""
    unfit = (Obstacle.SOURCE_NOT_HERE, Obstacle.FAMILIES_DIFFER, Obstacle.NO_SCOPE)
    if stop := _stopped(case, *unfit):
        said = {
            Obstacle.SOURCE_NOT_HERE: f"no netdev has {case.route.asked_source}",
            Obstacle.FAMILIES_DIFFER: "source and peer are not both IPv4 or both IPv6",
            Obstacle.NO_SCOPE: f"{case.route.destination} is link-local and names no netdev",
        }[stop.obstacle]
        value = str(case.route.asked_source or case.route.destination)
        yield this.finding(
            f"{said}: {_sees(stop)}",
            evidence=[Proof("routing", "RTM_GETROUTE, local table", value)],
        )


@rule(
    "cm-no-device",
    Severity.CRITICAL,
    "No RDMA device for this address",
    "The way to the peer leaves by a netdev that no RDMA device is made for, or that has no "
    "address: rdma_cm finds no device with a GID of the source address. A route over another "
    "netdev, or the address of an RDMA netdev as the source (rping -I, rdma_bind_addr), is needed. "
    "Unknown on a host without any device.",
    (_CMA,),
    remedy=(*_WAYS, "rdma link   # which netdevs have a device"),
)
def cm_no_device(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """ENODEV of cma_acquire_dev_by_src_ip."""
    route = case.route
    if stop := _stopped(case, Obstacle.NO_DEVICE, Obstacle.NO_SOURCE):
        way = f"the way {_asked(route)} leaves by {route.netdev}"
        if route.netdev is None:
            said = "no RDMA device"
        elif stop.obstacle is Obstacle.NO_SOURCE:
            said = f"{way}, which has no address to send from"
        else:
            said = f"{way}, which no RDMA device is on"
        yield this.finding(
            f"{said}: {_sees(stop)}",
            evidence=_proofs(route),
            fill={"peer": route.destination},
            severity=None if case.has_devices else Severity.UNKNOWN,
        )


@rule(
    "cm-address-of-other-netdev",
    Severity.CRITICAL,
    "The source address belongs to another netdev's device",
    "A device has a GID of the source address, and its row names another netdev than the one that "
    "the way leaves by. rdma_cm wants both to be the same, and finds no device.",
    (_CMA,),
    remedy=(*_WAYS, "rdmadiag gids", "# one netdev alone should have the address"),
)
def cm_address_of_other_netdev(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """cma_validate_port compares the row's netdev."""
    if stop := _stopped(case, Obstacle.OTHER_NETDEV):
        route = case.route
        yield this.finding(
            f"the GID of {route.source} is not on {route.netdev}, by which the way "
            f"{_asked(route)} leaves: {_sees(stop)}",
            evidence=_proofs(route),
            fill={"peer": route.destination},
        )


@rule(
    "cm-no-gid",
    Severity.CRITICAL,
    "The device has no GID of the source address",
    "The netdev of the way is an RDMA device's, and its GID table has no row of the source address "
    "on that netdev of the type that rdma_cm uses: RoCE v2 where the port has it, unless "
    "default_roce_mode was set. The address was added before the device was, the netdev is above "
    "the device's own (a bridge, an ipvlan), or the mode is v1 on a device without v1.",
    (_CMA,),
    remedy=(
        "rdmadiag gids",
        "cma_roce_mode -d DEVICE -p 1   # the mode; it makes a folder in configfs",
        "# an address of the device's own netdev, or of a VLAN or macvlan on it",
    ),
)
def cm_no_gid(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """ENODEV, though the netdev has a device."""
    if stop := _stopped(case, Obstacle.NO_GID, Obstacle.OTHER_TYPE):
        route = case.route
        kind = " of the default type" if stop.obstacle is Obstacle.OTHER_TYPE else ""
        yield this.finding(
            f"no GID{kind} for {route.source} on {route.netdev}: {_sees(stop)}",
            evidence=_proofs(route),
        )


@rule(
    "cm-loopback-address",
    Severity.CRITICAL,
    "RoCE and iWARP cannot use 127.0.0.1",
    "For a loopback address rdma_cm takes the first device with an active port. It then has no "
    "netdev to make a RoCE path of, and rdma_resolve_route fails with ENODEV; iWARP has no "
    "partition key, and rdma_resolve_addr fails with EINVAL. InfiniBand can.",
    (_CMA,),
    remedy=("ip -brief address   # an address of this host's RDMA netdev reaches it too",),
)
def cm_loopback_address(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """cma_iboe_set_path_rec_l2_fields."""
    taken = case.route.taken
    if (stop := _stopped(case, Obstacle.LOOPBACK_ADDRESS)) and taken:
        yield this.finding(
            f"{case.route.destination} over {_NAMES[taken.protocol]} "
            f"({taken.device}/{taken.port}): {_sees(stop)}",
            device=taken.device,
            port=taken.port,
            evidence=[Proof("routing", "cma_any_addr", case.route.destination)],
        )


@rule(
    "cm-other-device",
    Severity.CRITICAL,
    "Another device than the one that was asked for",
    "rdma_cm takes a device by route and source address, whatever a program wants: --device named "
    "another one. Give it a source address of that device (rping -I, rdma_bind_addr), or a route.",
    (_CMA,),
    remedy=(
        "rdmadiag gids   # the addresses of each device",
        "rdmadiag route {peer} --source ADDR",
    ),
)
def cm_other_device(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """Where --device was given."""
    taken = case.route.taken
    if taken and case.expected and f"{taken.device}/{taken.port}" not in case.expected:
        yield this.finding(
            f"the way {_asked(case.route)} leads over {taken.device}/{taken.port}, not over "
            f"{', '.join(case.expected)}",
            device=taken.device,
            port=taken.port,
            evidence=_proofs(case.route),
            fill={"peer": case.route.destination},
        )


@rule(
    "cm-port-not-active",
    Severity.CRITICAL,
    "The port that rdma_cm takes is not active",
    "rdma_cm does not look at the port's state when it chooses: the connection fails later, with "
    "UNREACHABLE or at the first packet.",
    (_CMA,),
    remedy=("rdmadiag preflight --device {device}:{port}",),
)
def cm_port_not_active(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """By every witness that shows the port."""
    taken = case.route.taken
    if taken and not taken.active:
        yield this.finding(
            f"{taken.device}/{taken.port} is not active, and the way {_asked(case.route)} leads "
            "over it",
            device=taken.device,
            port=taken.port,
            evidence=_proofs(case.route),
        )


@rule(
    "cm-neighbour-failed",
    Severity.WARN,
    "The next hop does not answer",
    "The neighbour table has the next hop as FAILED, or as INCOMPLETE: it has not answered ARP or "
    "neighbour discovery. Where it goes on like that, rdma_resolve_addr ends in "
    "RDMA_CM_EVENT_ADDR_ERROR with status -110 (ETIMEDOUT).",
    (_ADDR,),
    remedy=(
        "ip neigh show {hop} dev {netdev}",
        "ping -c 1 -I {netdev} {hop}   # sends packets, as the connection would",
        "# at the peer: is the address up, on this link, in this VLAN?",
    ),
)
def cm_neighbour_failed(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """As it was when it was last tried."""
    hop = case.route.next_hop
    entry = hop.entry if hop else None
    bad = (NeighbourState.FAILED, NeighbourState.INCOMPLETE)
    if hop and isinstance(entry, Neighbour) and entry.state in bad:
        who = "the gateway" if hop.is_gateway else "the peer"
        yield this.finding(
            f"{who} {hop.address} has not answered on {entry.netdev}: {entry.state}",
            evidence=[
                Proof("routing", f"RTM_GETNEIGH {hop.address} {entry.netdev}", seen(entry.state))
            ],
            fill={"hop": hop.address, "netdev": entry.netdev},
        )


@rule(
    "cm-leaves-by-other-netdev",
    Severity.WARN,
    "What is not bound leaves by another netdev",
    "rdma_cm binds the connection to the netdev of the source address. All else from this address "
    "to the peer (TCP, ARP, a program's exchange of addresses) leaves by another netdev, and a "
    "listener here drops the peer's request where its own way back does not lead over the netdev "
    "that it came in by (validate_ipv4_net_dev). Critical where a rule of the source address leads "
    "to no way at all.",
    (_CMA, "https://github.com/torvalds/linux/commit/27cfde795a96"),
    remedy=(
        "ip route get {peer} from {source}",
        "sudo ip rule add from {source} table N   # and in N the routes of {netdev}",
    ),
)
def cm_leaves_by_other_netdev(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """The way without a netdev beside the one with it."""
    route = case.route
    other = route.unbound_netdev
    if other is None or other == route.netdev or route.taken is None:
        return
    where = "finds no way" if isinstance(other, NoWay) else f"leaves by {other}"
    yield this.finding(
        f"what is not bound to {route.netdev} {where}, from {route.source} to {route.destination}",
        severity=Severity.CRITICAL if isinstance(other, NoWay) else None,
        device=route.taken.device,
        port=route.taken.port,
        evidence=[
            *_proofs(route),
            Proof("routing", f"from {route.source} to {route.destination}", str(other)),
        ],
        fill={"peer": route.destination, "source": route.source, "netdev": route.netdev},
    )


@rule(
    "cm-redirected",
    Severity.WARN,
    "An ICMP redirect has changed the way to the peer",
    "A router said that another one is nearer, and the kernel sends there instead of where its "
    "tables say, for minutes, until that is forgotten. Where the other one passes nothing on, "
    "nothing arrives, and `ip route show` has no trace of it.",
    (
        "https://www.rfc-editor.org/rfc/rfc1812",
        "https://docs.kernel.org/networking/ip-sysctl.html",
    ),
    remedy=(
        "ip route get {peer}   # redirected, and by whom",
        "sudo ip route flush cache   # the tables count again",
        "sudo sysctl -w net.ipv4.conf.all.accept_redirects=0",
        "sudo sysctl -w net.ipv4.conf.{netdev}.accept_redirects=0",
    ),
)
def cm_redirected(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """RTCF_REDIRECTED of the row that was learned (__ip_do_redirect)."""
    route = case.route
    if route.is_redirected and route.netdev:
        where = f"to {route.next_hop.address}" if route.next_hop else f"by {route.netdev}"
        yield this.finding(
            f"packets for {route.destination} go {where}: an ICMP redirect said so",
            evidence=[
                Proof("routing", f"{route.destination} dev {route.netdev}", "redirected"),
            ],
            fill={"peer": route.destination, "netdev": route.netdev},
        )


@rule(
    "cm-ways-differ",
    Severity.INFO,
    "The kernel answers otherwise than its tables",
    "Rules and routes, as they were read, lead by another netdev than the kernel said: they "
    "changed meanwhile, or a packet filter or a tunnel decides. The kernel's word counts.",
    (_ADDR,),
    remedy=("ip route get {peer}", "ip rule", "ip route show table all"),
)
def cm_ways_differ(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """By netdev."""
    route = case.route
    if route.tables_netdev:
        yield this.finding(
            f"the kernel says {route.netdev}, the tables {route.tables_netdev}",
            evidence=_proofs(route),
            fill={"peer": route.destination},
        )


@rule(
    "cm-way-unknown",
    Severity.UNKNOWN,
    "The way to the peer is not known",
    "Rules and routes could not be read, are not in the record, or leave the choice to what only "
    "the live kernel knows: a hash over several netdevs, a VRF.",
    (_ADDR,),
    remedy={
        "where a record leaves them out": (RECORD_ANEW,),
        "elsewhere": ("ip route get {peer}", "ip rule"),
    },
)
def cm_way_unknown(this: Rule, case: PeerCase) -> Iterator[Finding]:
    """Less evidence gives no answer."""
    route = case.route
    missing = route.unknown
    if missing is None:
        return
    recorded = missing.why is Why.NOT_COLLECTED
    said = "Linux only" if missing == LINUX_ONLY else str(missing)
    names = f" ({', '.join(each.netdev for each in route.choices)})" if route.choices else ""
    yield this.finding(
        f"which way {_asked(route)}{names} is not known: {said}",
        evidence=[Proof("routing", "RTM_GETROUTE", said)],
        when="where a record leaves them out" if recorded else "elsewhere",
        fill={"peer": route.destination},
    )


RULES: Final[tuple[Rule, ...]] = (
    cm_source_unfit,
    cm_way_unknown,
    cm_no_way,
    cm_no_device,
    cm_address_of_other_netdev,
    cm_no_gid,
    cm_loopback_address,
    cm_other_device,
    cm_port_not_active,
    cm_neighbour_failed,
    cm_leaves_by_other_netdev,
    cm_redirected,
    cm_ways_differ,
)
"""Lowest cause first."""
