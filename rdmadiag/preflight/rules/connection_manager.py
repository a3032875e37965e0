"""What rdma_cm, and the sockets beside it, need: addresses, routing, a node, a port mapper."""

from collections.abc import Iterator
from ipaddress import ip_interface
from typing import Final

from rdmadiag.facts import DeviceNode, Missing, NetDev, known, or_else
from rdmadiag.facts.routing import MAIN_TABLE, RouteKind, RoutingFacts
from rdmadiag.gid.netdev import NOT_HERE, NetDevState, netdev_state
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.cm_device import Obstacle, PortFinder, Stop, as_gid
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.routing import Flow, Peers, RouteTables, Way

_CMA: Final = "https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/core/cma.c"
_GIDS: Final = "https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/core/roce_gid_mgmt.c"
_RP_FILTER: Final = "https://docs.kernel.org/networking/ip-sysctl.html"
_NODE: Final = "rdma_cm"
_STRICT: Final = 1
_INLINE: Final = 1024
_PROTOCOLS: Final = (Protocol.ROCE, Protocol.IWARP)


def _netdevs(case: Case) -> Iterator[tuple[PortView, NetDev]]:
    """Netdevs of active ports that are here and up, each once."""
    facts = case.evidence.netdev
    if isinstance(facts, Missing):
        return
    done = set()
    for _, port in case.ports:
        if port.protocol not in _PROTOCOLS or not port.is_active:
            continue
        for name in (*port.netdevs, port.netdev):
            found = None if isinstance(name, Missing) else facts.netdev(name)
            up = port.netdevs.get(str(name), NetDevState.UP) is NetDevState.UP
            if found and found.admin_up and up and found.name not in done:
                done.add(found.name)
                yield port, found


def _addresses(netdev: NetDev) -> Iterator[str]:
    """Those that a program may send from to another host."""
    for each in netdev.addresses:
        if each.scope == "global" and True not in (each.tentative, each.duplicate):
            yield each.address


def _has_family(port: PortView, address: str) -> bool:
    """Whether the table has a routable row, here, of another such address."""
    gid, wide = as_gid(address), ":" in address
    return any(
        each.gid.raw != gid.raw
        and each.is_ipv4 != wide
        and not each.is_link_local_10
        and netdev_state(each, port.netdevs) not in NOT_HERE
        for each in port.entries
    )


def _peer_with_gid(port: PortView, netdev: NetDev, address: str) -> str | None:
    """The peer of a point-to-point IPv4 address, where the kernel has made the GID of that."""
    rows = {entry.gid.raw for entry in port.entries}
    for each in netdev.addresses:
        if each.address == address and each.peer and ":" not in each.peer:
            return each.peer if as_gid(each.peer).raw in rows else None
    return None


def _unserved(case: Case, *obstacles: Obstacle) -> Iterator[tuple[PortView, NetDev, str, Stop]]:
    """Addresses of RDMA netdevs that rdma_cm finds no device for."""
    routing = case.evidence.routing
    if isinstance(routing, Missing):
        return
    finder = PortFinder(case.devices, case.evidence, routing)
    for port, netdev in _netdevs(case):
        if not port.entries:
            continue  # no-usable-gid has it
        for address in _addresses(netdev):
            found = finder.stop(address, netdev.name)
            # A family that the table lacks is a finding of its own.
            if found and found.obstacle in obstacles and _has_family(port, address):
                yield port, netdev, address, found


_OF_ADDRESSES: Final = ("ports", "port state", "GID table", "netdevs of GIDs", "netdev", "routing")


@rule(
    "address-without-gid",
    Severity.WARN,
    "No RDMA device for an address of an RDMA netdev",
    "The netdev of an active RoCE port has the address, and the port's GID table has no row of it "
    "on that netdev, of the type that rdma_cm uses. Programs that name the address (rping -a or "
    "-I, NFS/RDMA, NVMe-oF, iSER) get RDMA_CM_EVENT_ADDR_ERROR with ENODEV; those that choose a "
    "GID index are not concerned. Of a point-to-point IPv4 address the kernel makes the GID of "
    "its peer's instead; what is sent from that one is answered elsewhere.",
    (_CMA, _GIDS),
    remedy={
        "": (
            "rdmadiag gids --device {device}:{port}",
            "ip address show dev {netdev}",
            "# remove {address} and add it again: the kernel then makes the GID anew",
        ),
        "where it is a point-to-point address": (
            "ip address show dev {netdev}",
            "sudo ip address del {address} peer {peer} dev {netdev}",
            "sudo ip address add {address}/PREFIX dev {netdev}   # PREFIX of the subnet",
        ),
    },
    needs=_OF_ADDRESSES,
)
def address_without_gid(this: Rule, case: Case) -> Iterator[Finding]:
    """As cma_validate_port looks for it."""
    unfit = (Obstacle.NO_GID, Obstacle.OTHER_TYPE, Obstacle.NO_DEVICE)
    for port, netdev, address, stop in _unserved(case, *unfit):
        kind = " of the default type" if stop.obstacle is Obstacle.OTHER_TYPE else ""
        peer = _peer_with_gid(port, netdev, address)
        reason = f": it is point-to-point, and the GID is of its peer, {peer}" if peer else ""
        yield this.finding(
            f"{port.name}: no GID{kind} for {address} of {netdev.name}{reason}",
            device=port.device,
            port=port.number,
            evidence=[
                Proof(
                    "netdev",
                    f"RTM_GETADDR {netdev.name}",
                    f"{address} peer {peer}" if peer else address,
                )
            ],
            when="where it is a point-to-point address" if peer else "",
            fill={"address": address, "netdev": netdev.name, "peer": peer or ""},
        )


@rule(
    "address-of-other-netdev",
    Severity.WARN,
    "The GID of an address names another netdev",
    "A netdev of an RDMA port has the address, and the only GID of it names another netdev: the "
    "address is on both, or has moved and the table has not followed. rdma_cm wants both to be the "
    "same, and finds no device (ENODEV).",
    (_CMA,),
    remedy=("rdmadiag gids", "ip -brief address   # one netdev alone should have {address}"),
    needs=_OF_ADDRESSES,
)
def address_of_other_netdev(this: Rule, case: Case) -> Iterator[Finding]:
    """By the row's netdev."""
    for port, netdev, address, _ in _unserved(case, Obstacle.OTHER_NETDEV):
        yield this.finding(
            f"{netdev.name} has {address}, and its GID is another netdev's",
            device=port.device,
            port=port.number,
            evidence=[Proof("netdev", f"RTM_GETADDR {netdev.name}", address)],
            fill={"address": address},
        )


@rule(
    "address-not-local",
    Severity.CRITICAL,
    "The kernel does not take an address for its own",
    "A netdev of an RDMA port has the address, and no rule and table of this host lead it to the "
    "host itself: the local row of the address is gone, or the rule for the table local. The "
    "kernel answers no ARP for it, and drops what is sent to it, TCP, rdma_cm and soft RoCE "
    "alike; from it, packets still leave. A script that flushed tables, or moved the rule of the "
    "table local behind others, does so.",
    ("https://man7.org/linux/man-pages/man8/ip-route.8.html",),
    remedy=(
        "ip route show table local; ip rule   # 0: from all lookup local",
        "sudo ip address del {address}/{length} dev {netdev}   # a session over it ends",
        "sudo ip address add {address}/{length} dev {netdev}   # the kernel makes the row anew",
    ),
    needs=("ports", "port state", "netdevs of GIDs", "netdev", "routing tables"),
)
def address_not_local(this: Rule, case: Case) -> Iterator[Finding]:
    """By the way to the address itself; in a VRF, rows are in a table of the VRF's."""
    routing = case.evidence.routing
    if isinstance(routing, Missing) or isinstance(routing.routes, Missing):
        return
    tables = RouteTables(routing)
    in_vrf = {each.name for each in routing.links if each.master in _vrfs(routing)}
    for port, netdev in _netdevs(case):
        for each in netdev.addresses if netdev.name not in in_vrf else ():
            if each.scope != "global" or True in (each.tentative, each.duplicate):
                continue
            way = tables.lookup(Flow(each.address))
            if isinstance(way, Missing) or (isinstance(way, Way) and way.kind in _TAKEN):
                continue
            leads = way.prefix if isinstance(way, Way) else str(way)
            yield this.finding(
                f"{netdev.name} has {each.address}, and no table of this host has it as local",
                device=port.device,
                port=port.number,
                evidence=[
                    Proof("netdev", f"RTM_GETADDR {netdev.name}", each.address),
                    Proof("routing", f"way to {each.address}", leads),
                ],
                fill={
                    "address": each.address,
                    "length": each.prefix_length,
                    "netdev": netdev.name,
                },
            )


_TAKEN: Final = (RouteKind.LOCAL, RouteKind.ANYCAST)


def _vrfs(routing: RoutingFacts) -> frozenset[str]:
    return frozenset(each.name for each in routing.links if each.vrf)


@rule(
    "loopback-down",
    Severity.WARN,
    "The loopback interface is down",
    "lo is down in this network namespace: nothing reaches 127.0.0.1 or "
    "localhost, and packets of a program to an address of its own host are lost, too. Launchers "
    "and the ranks of one host meet by them, and tests of one host alone. Containers and "
    "namespaces that were made by hand begin so.",
    ("https://man7.org/linux/man-pages/man7/network_namespaces.7.html",),
    remedy=("ip link show lo", "sudo ip link set dev lo up"),
    needs=("devices", "routing"),
)
def loopback_down(this: Rule, case: Case) -> Iterator[Finding]:
    """IFF_UP of the netdev with IFF_LOOPBACK."""
    routing = case.evidence.routing
    for each in () if isinstance(routing, Missing) or not case.devices else routing.links:
        if each.loopback and each.up is False:
            yield this.finding(
                f"{each.name} is down: no program reaches its own host",
                evidence=[Proof("routing", f"{each.name} IFF_UP", "not set")],
            )


def _answered_elsewhere(
    case: Case, routing: RoutingFacts
) -> Iterator[tuple[PortView, NetDev, str, str, Way]]:
    """Port, netdev, its address, a peer of the subnet, and the way that it is answered by."""
    tables = RouteTables(routing)
    facts = known(case.evidence.netdev)
    netdevs = facts.netdevs if facts else ()
    peers = Peers(each.address for row in netdevs for each in row.addresses)
    for port, netdev in _netdevs(case):
        for each in netdev.addresses:
            if each.scope != "global" or ":" in each.address:
                continue
            peer = peers.of(each.address, each.prefix_length)
            way = tables.lookup(Flow(peer, each.address)) if peer else None
            if isinstance(way, Way):
                names = {hop.netdev for hop in way.hops}
                if names and netdev.name not in names:
                    yield port, netdev, each.address, str(peer), way


@rule(
    "reverse-path-filter",
    Severity.WARN,
    "rp_filter drops what arrives at an RDMA netdev",
    "rp_filter is 1 (strict) for the netdev, and its answers to its own subnet leave by another "
    "netdev: the kernel drops IP packets that arrive there. ping, TCP (what programs exchange "
    "addresses over), soft RoCE and soft iWARP fail at this port; RoCE of a NIC's own passes it.",
    (_RP_FILTER, "https://github.com/NVIDIA/nccl/issues/1269"),
    remedy=(
        "sudo ip route add {subnet} dev {netdev} src {address} table N   # a table of its own",
        "sudo ip rule add from {address} table N",
        "sudo sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.{netdev}.rp_filter=2",
    ),
    needs=("ports", "port state", "netdevs of GIDs", "netdev", "rp_filter", "routing tables"),
)
def reverse_path_filter(this: Rule, case: Case) -> Iterator[Finding]:
    """fib_validate_source; the larger of conf/all and the netdev's own counts."""
    facts, routing = case.evidence.netdev, case.evidence.routing
    if isinstance(facts, Missing) or isinstance(routing, Missing):
        return
    for port, netdev, address, peer, way in _answered_elsewhere(case, routing):
        values = [each for each in (facts.rp_filter, netdev.rp_filter) if isinstance(each, int)]
        if len(values) == 2 and max(values) == _STRICT:
            other = min(hop.netdev for hop in way.hops)
            yield this.finding(
                f"{netdev.name} has {address}, its answers leave by {other}, and rp_filter is 1",
                device=port.device,
                port=port.number,
                evidence=[
                    Proof("netdev", f"{netdev.name} IPV4_DEVCONF_RP_FILTER", str(netdev.rp_filter)),
                    Proof("netdev", "/proc/sys/net/ipv4/conf/all/rp_filter", str(facts.rp_filter)),
                    Proof("routing", f"from {address} to {peer}", f"dev {other}"),
                ],
                fill=_fill(netdev, address),
            )


def _fill(netdev: NetDev, address: str) -> dict[str, str]:
    length = next(each.prefix_length for each in netdev.addresses if each.address == address)
    subnet = str(ip_interface(f"{address}/{length}").network)
    return {"netdev": netdev.name, "address": address, "subnet": subnet}


@rule(
    "no-rule-for-this-nic",
    Severity.WARN,
    "What an RDMA netdev's address answers leaves by another netdev",
    "A routing rule leads packets from this address to a table that sends them by another netdev; "
    "or the device is soft iWARP, whose sockets are routed as any others, and no rule keeps them "
    "on its netdev. rdma_cm and RoCE bind to the netdev; TCP and soft iWARP do not. Two RoCE "
    "netdevs in one subnet without any rule are arp-flux, and with rp_filter at 1 "
    "reverse-path-filter.",
    ("https://github.com/NVIDIA/nccl/issues/1269",),
    remedy=(
        "sudo ip route add {subnet} dev {netdev} src {address} table N   # a table of its own",
        "sudo ip rule add from {address} table N",
    ),
    needs=("ports", "port state", "netdevs of GIDs", "netdev", "rp_filter", "routing tables"),
)
def no_rule_for_this_nic(this: Rule, case: Case) -> Iterator[Finding]:
    """The same without strict rp_filter."""
    facts, routing = case.evidence.netdev, case.evidence.routing
    if isinstance(facts, Missing) or isinstance(routing, Missing):
        return
    for port, netdev, address, peer, way in _answered_elsewhere(case, routing):
        values = [each for each in (facts.rp_filter, netdev.rp_filter) if isinstance(each, int)]
        soft = port.is_software and port.protocol is Protocol.IWARP
        if len(values) == 2 and max(values) != _STRICT and (soft or way.table != MAIN_TABLE):
            other = min(hop.netdev for hop in way.hops)
            yield this.finding(
                f"{netdev.name} has {address}, and what it answers leaves by {other}",
                device=port.device,
                port=port.number,
                evidence=[Proof("routing", f"from {address} to {peer}", f"dev {other}")],
                fill=_fill(netdev, address),
            )


def _needs_rdma_cm(case: Case) -> str | None:
    """Who cannot do without /dev/infiniband/rdma_cm."""
    for _, port in case.ports:
        if port.protocol is Protocol.IWARP:
            return f"{port.device} is iWARP, which rdma_cm alone connects"
    for stack, _ in case.stacks:
        if stack.by_rdma_cm:
            return f"{stack.title} connects by rdma_cm"
    return None


@rule(
    "rdma-cm-node",
    Severity.WARN,
    "Programs cannot use rdma_cm here",
    "There is no /dev/infiniband/rdma_cm, or this user may not open it: rdma_create_event_channel "
    "fails, with ENOENT for both, in rping, libfabric's verbs provider, UCX's rdmacm and every "
    "iWARP program. The node is rdma_ucm's; nothing here loads it. Critical where a device is "
    "iWARP. Looked at where a device is iWARP, or a stack that was asked for connects by rdma_cm; "
    "a closed node always.",
    ("https://github.com/linux-rdma/rdma-core/blob/master/librdmacm/cma.c",),
    remedy={
        "in a container": (
            "docker run --device=/dev/infiniband/rdma_cm --device=/dev/infiniband/uverbs0 IMAGE",
        ),
        "where rdma_ucm is not loaded": ("sudo modprobe rdma_ucm",),
        "where it may not be opened": (
            "ls -l /dev/infiniband/rdma_cm",
            "# rdma-core's udev rules make it 0666; or a rule of your own, for a group",
        ),
    },
    needs=("devices", "nodes of /dev/infiniband"),
)
def rdma_cm_node(this: Rule, case: Case) -> Iterator[Finding]:
    """By the list of nodes, and access(2)."""
    process = case.evidence.process
    if isinstance(process, Missing):
        return
    nodes = or_else(process.nodes, ())  # absent: there is no such folder
    node = next((each for each in nodes if each.name == _NODE), None)
    who = _needs_rdma_cm(case)
    iwarp = any(port.protocol is Protocol.IWARP for _, port in case.ports)
    if node is None and who:
        yield this.finding(
            f"/dev/infiniband/rdma_cm does not exist: {who}",
            severity=Severity.CRITICAL if iwarp else None,
            evidence=[Proof("process", "/dev/infiniband", _listed(nodes))],
            when="in a container" if process.container else "where rdma_ucm is not loaded",
        )
    if node and node.openable is False:
        yield this.finding(
            f"/dev/infiniband/rdma_cm may not be opened by this user ({node.mode})",
            severity=Severity.CRITICAL if iwarp else None,
            evidence=[Proof("process", "/dev/infiniband/rdma_cm", node.mode)],
            when="where it may not be opened",
        )


def _listed(nodes: tuple[DeviceNode, ...]) -> str:
    return ", ".join(each.name for each in nodes) or "no node"


_BY_SOCKETS: Final = ("erdma",)
"""Adapters whose driver connects by a socket of the kernel: drivers/infiniband/hw/erdma/erdma_cm.c.
"""


@rule(
    "iwarp-port-mapper-absent",
    Severity.WARN,
    "No iWARP port mapper",
    "A NIC's iWARP shares its address with the host's TCP, and iwpmd keeps their ports apart. "
    "Without it rdma_cm uses the port as it is: a connection of a program on the same port can be "
    "taken for the other's, and a peer that runs iwpmd asks in vain and then waits for each "
    "connection. Soft iWARP and eRDMA, which connect by the kernel's own sockets, need none.",
    ("https://github.com/linux-rdma/rdma-core/blob/master/iwpmd/iwpmd.8.in",),
    remedy=("sudo systemctl enable --now iwpmd   # rdma-core",),
    needs=("ports", "software device", "driver of the PCI function", "port mapper"),
)
def iwarp_port_mapper_absent(this: Rule, case: Case) -> Iterator[Finding]:
    """Of adapters whose ports the host's TCP does not know; iwpmd has UDP port 3935."""
    routing = case.evidence.routing
    if isinstance(routing, Missing) or routing.port_mapper is not False:
        return
    for device in case.devices:
        ports = [each for each in device.ports if each.protocol is Protocol.IWARP]
        if ports and not ports[0].is_software and device.driver not in _BY_SOCKETS:
            yield this.finding(
                f"{device.name} is iWARP, and no port mapper runs (iwpmd)",
                device=device.name,
                evidence=[Proof("routing", "/proc/self/net/udp, port 3935", "no socket")],
            )


@rule(
    "rsocket-inline-large",
    Severity.WARN,
    "rsockets are set to send more inline than devices take",
    "/etc/rdma/rsocket/inline_default asks for queue pairs that send so many bytes inline, for all "
    f"programs that use rsockets (rstream, rcopy, LD_PRELOAD of librspreload). More than {_INLINE} "
    "is more than most devices take: rdma_create_qp fails with EINVAL, and the program says only "
    "that it is not connected. The other end sees a connection that is refused. Without the file "
    "it is 64.",
    ("https://man7.org/linux/man-pages/man7/rsocket.7.html",),
    remedy=(
        "cat /etc/rdma/rsocket/inline_default",
        "sudo rm /etc/rdma/rsocket/inline_default   # 64, as without it",
    ),
    needs=("devices", "settings of rsockets"),
)
def rsocket_inline_large(this: Rule, case: Case) -> Iterator[Finding]:
    """The sizes of queues are cut to what the device has (rs_set_qp_size); this is not."""
    process = known(case.evidence.process)
    wanted = known(process.rsocket_inline) if process and case.devices else None
    if wanted is not None and wanted > _INLINE:
        yield this.finding(
            f"rsockets ask for {wanted} bytes inline",
            evidence=[Proof("process", "/etc/rdma/rsocket/inline_default", str(wanted))],
        )


RULES: Final[tuple[Rule, ...]] = (
    rdma_cm_node,
    rsocket_inline_large,
    address_not_local,
    address_of_other_netdev,
    address_without_gid,
    reverse_path_filter,
    no_rule_for_this_nic,
    iwarp_port_mapper_absent,
    loopback_down,
)
"""Lowest cause first."""
