"""Whether an active RoCE port has a GID that can carry traffic."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rdmadiag.facts import GidEntry, Missing, known
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.gid.netdev import NOT_HERE, NetDevState, Unusable, netdev_state
from rdmadiag.gid.route import NoRoute, Route, select_route_gid
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute, seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.access import in_other_netns
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.unshown import FAILED


def _roce_ports(case: Case) -> Iterator[PortView]:
    """Active RoCE ports: what a port without a link lacks is no finding of its own."""
    for _, port in case.ports:
        if port.protocol is Protocol.ROCE and port.is_active:
            yield port


_ADD_ADDRESS: Final = (
    "ip address show dev {netdev}",
    "sudo ip address add ADDRESS/PREFIX dev {netdev}",
    "# in a container: host networking, or a netdev of the NIC (SR-IOV, macvlan) in the pod",
)


def _netdev(port: PortView) -> str:
    if port.nldev and not isinstance(port.nldev.netdev, Missing):
        return port.nldev.netdev
    return next(iter(port.netdevs), "NETDEV")


@rule(
    "no-usable-gid",
    Severity.CRITICAL,
    "No usable GID",
    "The port is ACTIVE, and its GID table holds nothing to send from: every row is empty, or "
    "the best one is the default link-local GID of a software device whose netdev does not "
    "have that address. RoCE GIDs follow the IP addresses of netdevs in this namespace.",
    (
        "https://github.com/NVIDIA/nccl/issues/1573",
        "https://github.com/kvcache-ai/Mooncake/issues/1592",
    ),
    remedy=_ADD_ADDRESS,
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def no_usable_gid(this: Rule, case: Case) -> Iterator[Finding]:
    """Active RoCE ports whose table was read, and is empty or holds no address of a netdev."""
    for port in _roce_ports(case):
        if isinstance(port.gids, Missing) or port.gids.unreadable:
            continue
        length = port.gids.length
        entry = port.route_entry
        if isinstance(port.route, NoRoute) and not port.entries:
            proofs = [port_attribute(port, "gids/*", f"{length} rows, all empty")]
            summary = f"{port.name} has no GID: all {length} rows of its table are empty"
        elif port.routes_by_unassigned_address and entry:
            proofs = [
                port_attribute(port, f"gids/{entry.index}", entry.gid),
                Proof("process", "/proc/self/net/if_inet6", f"{entry.netdev} lacks {entry.gid}"),
            ]
            summary = (
                f"{port.name} has no usable GID: {entry.gid} is left, "
                f"and {entry.netdev} does not have that address"
            )
        else:
            continue
        yield this.finding(
            summary,
            device=port.device,
            port=port.number,
            evidence=proofs,
            fill={"netdev": _netdev(port)},
        )


@rule(
    "gid-table-unreadable",
    Severity.UNKNOWN,
    "GID table unreadable",
    "The GID table, or rows of it, could not be read: which GID routes is not known.",
    remedy=("grep . /sys/class/infiniband/{device}/ports/{port}/gids/*",),
    needs=("ports",),
)
def gid_table_unreadable(this: Rule, case: Case) -> Iterator[Finding]:
    """RoCE ports of which the table, or a row, is Missing."""
    for _, port in case.ports:
        if port.protocol is not Protocol.ROCE or port.sysfs is None:
            continue
        if isinstance(port.gids, Missing):
            proofs = [port_attribute(port, "gids", port.gids)]
            summary = f"{port.name}: its GID table could not be read"
        elif port.gids.unreadable:
            proofs = [
                port_attribute(port, f"gids/{index}", why)
                for index, why in list(port.gids.unreadable.items())[:3]
            ]
            count = len(port.gids.unreadable)
            summary = f"{port.name}: {count} rows of its GID table could not be read"
        else:
            continue
        yield this.finding(
            summary,
            device=port.device,
            port=port.number,
            evidence=proofs,
        )


def _unusable(case: Case, what: Unusable) -> Iterator[tuple[PortView, GidEntry]]:
    """The first row of each such address: RoCE v1 and v2 have a row each."""
    for port in _roce_ports(case):
        seen_before = set()
        for entry in port.entries:
            if port.unusable.get(entry.index) is what and entry.gid not in seen_before:
                seen_before.add(entry.gid)
                yield port, entry


def _address(case: Case, entry: GidEntry) -> str:
    """ADDRESS/PREFIX, to be pasted."""
    text, name = entry.gid.ipv4 or str(entry.gid), entry.netdev_name or ""
    netdevs, process = known(case.evidence.netdev), known(case.evidence.process)
    if netdevs and (netdev := netdevs.netdev(name)):
        rows = netdev.addresses
    else:
        rows = ((known(process.ipv6_addresses) if process else None) or {}).get(name, ())
    length = next((each.prefix_length for each in rows if each.address == text), 64)
    return f"{text}/{length}"


@rule(
    "address-duplicate",
    Severity.CRITICAL,
    "Address of a GID is on another host too",
    "Duplicate address detection found the address of a GID on another host of the link, and the "
    "kernel does not use it: packets for it go to that host. The GID stays in the table. Critical "
    "where the port has no other GID, else a warning: what hard-codes its index still sends from "
    "it.",
    ("https://www.rfc-editor.org/rfc/rfc4862#section-5.4",),
    remedy=(
        "sudo dmesg | grep 'duplicate address'   # the MAC address of the other host",
        "# once that host has given it up; or add another address instead:",
        "sudo ip address del {address} dev {netdev}",
        "sudo ip address add {address} dev {netdev}",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "address flags"),
)
def address_duplicate(this: Rule, case: Case) -> Iterator[Finding]:
    """IFA_F_DADFAILED of an address that a GID of an active RoCE port is made of."""
    for port, entry in _unusable(case, Unusable.DUPLICATE):
        yield this.finding(
            f"{port.name}: {entry.gid}, GID {entry.index}, is on another host too{_instead(port)}",
            device=port.device,
            port=port.number,
            severity=Severity.WARN if port.route_entry else None,
            evidence=_address_proofs(case, port, entry, "IFA_F_DADFAILED"),
            fill={"address": _address(case, entry), "netdev": entry.netdev},
        )


@rule(
    "address-tentative",
    Severity.UNKNOWN,
    "Address of a GID is tentative",
    "Whether another host has the address of a GID too is not known yet: duplicate address "
    "detection takes a second, and does not begin while the netdev has no carrier, or is dormant. "
    "Unknown where the port has no other GID, else a note.",
    ("https://www.rfc-editor.org/rfc/rfc4862#section-5.4",),
    remedy=(
        "sleep 2; ip -6 address show dev {netdev} tentative   # nothing: it has ended",
        "ip -brief link show dev {netdev}   # without LOWER_UP it cannot begin",
        "cat /sys/class/net/{netdev}/operstate   # dormant: it waits for a supplicant of 802.1X",
        "# none is used here? sudo ip link set dev {netdev} mode default state up",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "address flags"),
)
def address_tentative(this: Rule, case: Case) -> Iterator[Finding]:
    """IFA_F_TENTATIVE of an address that a GID of an active RoCE port is made of."""
    for port, entry in _unusable(case, Unusable.TENTATIVE):
        yield this.finding(
            f"{port.name}: {entry.gid}, GID {entry.index}, is tentative{_instead(port)}",
            device=port.device,
            port=port.number,
            severity=Severity.INFO if port.route_entry else None,
            evidence=_address_proofs(case, port, entry, "IFA_F_TENTATIVE"),
            fill={"netdev": entry.netdev},
        )


def _instead(port: PortView) -> str:
    entry = port.route_entry
    return f"; {entry.gid}, GID {entry.index}, routes" if entry else ", and there is no other GID"


def _address_proofs(case: Case, port: PortView, entry: GidEntry, flag: str) -> tuple[Proof, ...]:
    where = f"{entry.netdev} {entry.gid.ipv4 or entry.gid}"
    return (
        port_attribute(port, f"gids/{entry.index}", entry.gid),
        Proof("process", f"/proc/self/net/if_inet6: {where}", flag)
        if isinstance(case.evidence.netdev, Missing)
        else Proof("netdev", f"RTM_GETADDR {where}", flag),
    )


def _dead_route(case: Case, *states: NetDevState) -> Iterator[tuple[PortView, GidEntry]]:
    for port in _roce_ports(case):
        entry = port.route_entry
        if entry and port.route_netdev_state in states:
            yield port, entry


@rule(
    "route-netdev-down",
    Severity.CRITICAL,
    "Netdev of the route GID is down",
    "The port says ACTIVE, and the netdev that its best GID belongs to is down: RTR finds no "
    "route from that address.",
    ("https://github.com/NVIDIA/nccl/issues/749",),
    remedy=("sudo ip link set dev {netdev} up",),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def route_netdev_down(this: Rule, case: Case) -> Iterator[Finding]:
    """Active RoCE ports whose route GID, the best that is left, names a netdev that is down."""
    for port, entry in _dead_route(case, NetDevState.DOWN):
        yield this.finding(
            f"{port.name} routes by GID {entry.index} ({entry.gid}), and its netdev "
            f"{entry.netdev} is down",
            device=port.device,
            port=port.number,
            evidence=_route_proofs(case, port, entry, "down"),
            fill={"netdev": entry.netdev},
        )


@rule(
    "route-netdev-absent",
    Severity.WARN,
    "Netdev of the route GID is in another namespace",
    "The GID table names netdevs that this network namespace does not have. From Linux 5.2 on "
    "(RDMA netlink has the netns mode) the kernel routes where the netdev is: queue pairs that "
    "are connected by GID work, and what looks for the address here does not: rdma_cm, and the "
    "sockets that programs exchange their queue pairs over. Critical on older kernels, where RTR "
    "fails with ENODEV or ENODATA; unknown where RDMA netlink was not read.",
    (
        "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/101",
        "https://github.com/NVIDIA/nccl/issues/925",
    ),
    remedy=(
        "ip -brief link",
        "# a container needs host networking, or a netdev of the NIC (SR-IOV, macvlan)",
        "ip netns list   # then run in the namespace that has the netdev",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def route_netdev_absent(this: Rule, case: Case) -> Iterator[Finding]:
    """Active RoCE ports whose route GID names a netdev that this namespace does not have."""
    for device in case.devices:
        if in_other_netns(device, case.evidence):
            continue  # one cause, one finding: device-in-one-source has it
        for port, entry in _dead_route(replace(case, devices=(device,)), *NOT_HERE):
            yield this.finding(
                f"{port.name} routes by GID {entry.index} ({entry.gid}), and its netdev "
                f"{entry.netdev} is not in this network namespace",
                device=port.device,
                port=port.number,
                severity=_severity_elsewhere(port, case),
                evidence=_route_proofs(case, port, entry, "not in this namespace"),
            )


def _severity_elsewhere(port: PortView, case: Case) -> Severity | None:
    if port.route_netdev_state is NetDevState.ELSEWHERE:
        return None
    nldev = case.evidence.nldev
    mode = None if isinstance(nldev, Missing) else nldev.netns_mode
    unread = isinstance(mode, Missing) and mode.why in FAILED  # a kernel before 5.2 has none
    return Severity.UNKNOWN if port.nldev is None or unread else Severity.CRITICAL


@rule(
    "route-fallback",
    Severity.WARN,
    "Better GIDs belong to netdevs that are down or elsewhere",
    "The port has GIDs that would be preferred, and their netdevs are down or not in this "
    "network namespace: traffic takes another address, perhaps a link-local one, perhaps "
    "another VLAN's.",
    ("https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/101",),
    remedy=("ip -brief link", "rdmadiag gids --device {device}:{port}"),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def route_fallback(this: Rule, case: Case) -> Iterator[Finding]:
    """Active RoCE ports that would route by another row if every netdev were up and here."""
    for port in _roce_ports(case):
        entry = port.route_entry
        dead = {name: state for name, state in port.netdevs.items() if state in _DEAD}
        if isinstance(port.gids, Missing) or entry is None or not dead:
            continue
        better = select_route_gid(
            port.gids.entries, LinkLayer.ETHERNET, None, {}, port.unassigned, port.unusable
        )
        if not isinstance(better, Route) or better.index == entry.index:
            continue
        if port.route_netdev_state in _DEAD or _is_of_a_pod(better.entry, entry, port):
            continue
        yield this.finding(
            f"{port.name} routes by GID {entry.index} ({entry.gid}) instead of {better.index} "
            f"({better.gid}): {', '.join(_dead_text(*each) for each in dead.items())}",
            device=port.device,
            port=port.number,
            evidence=[
                port_attribute(port, f"gids/{better.index}", better.gid),
                *(_netdev_proof(case, name, state) for name, state in dead.items()),
            ],
        )


_DEAD: Final = (NetDevState.DOWN, *NOT_HERE)


def _is_of_a_pod(better: GidEntry, chosen: GidEntry, port: PortView) -> bool:
    """Whether the port is another namespace's, and this one has an address as good of its own."""
    own = known(port.nldev.netdev) if port.nldev else None
    elsewhere = own is None and netdev_state(better, port.netdevs) is NetDevState.ELSEWHERE
    return elsewhere and _quality(better) == _quality(chosen)


def _quality(entry: GidEntry) -> tuple[object, ...]:
    return entry.known_type, entry.gid.family, entry.scope is Scope.LINK_LOCAL


def _dead_text(name: str, state: NetDevState) -> str:
    where = "down" if state is NetDevState.DOWN else "not in this network namespace"
    return f"{name} is {where}"


def _sendable(case: Case) -> Iterator[tuple[PortView, tuple[GidEntry, ...]]]:
    """Ports whose whole table is known, and whose route no graver rule finds fault with."""
    for port in _roce_ports(case):
        if isinstance(port.gids, Missing) or port.gids.unreadable or port.route_entry is None:
            continue
        if port.route_netdev_state not in _DEAD and not port.routes_by_unassigned_address:
            yield port, port.gids.entries


def _route_proof(port: PortView) -> Proof:
    entry = port.route_entry
    assert entry
    return port_attribute(port, f"gids/{entry.index}", entry.gid)


@rule(
    "gid-link-local-only",
    Severity.WARN,
    "Link-local GIDs alone",
    "Every GID of the port is link-local: its netdev has no address but fe80:: (or 169.254). It "
    "reaches peers on the same link at most; programs that look for an IPv4 GID find none, and "
    "those that take what is there time out when the peer is behind a router or another VLAN. Of a "
    "soft RoCE device on lo every GID is the loopback's: no other host reaches it at all.",
    (
        "https://github.com/NVIDIA/nccl/issues/426",
        "https://github.com/kvcache-ai/Mooncake/issues/113",
        "https://github.com/openucx/ucx/issues/10939",
    ),
    remedy={
        "": _ADD_ADDRESS,
        "where its netdev is the loopback": (
            "sudo rdma link delete {device}",
            "sudo rdma link add {device} type rxe netdev NETDEV   # one with an address",
        ),
    },
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def gid_link_local_only(this: Rule, case: Case) -> Iterator[Finding]:
    """Ports with a route, all of whose GIDs are fe80:: or 169.254, or the loopback's."""
    for port, entries in _sendable(case):
        scopes = {entry.gid.scope for entry in entries}
        if not scopes <= {Scope.LINK_LOCAL, Scope.LOOPBACK}:
            continue
        entry = port.route_entry
        assert entry
        loopback = Scope.LINK_LOCAL not in scopes
        yield this.finding(
            f"{port.name} has GIDs of the loopback alone ({entry.gid}): no other host reaches it"
            if loopback
            else f"{port.name} has link-local GIDs alone; the best is {entry.index} ({entry.gid})",
            device=port.device,
            port=port.number,
            evidence=[_route_proof(port)],
            fill={"netdev": _netdev(port)},
            when="where its netdev is the loopback" if loopback else "",
        )


@rule(
    "gid-v1-only",
    Severity.WARN,
    "RoCE v1 GIDs alone",
    "No GID of the port is RoCE v2. RoCE v1 is an Ethernet protocol of its own: it passes no "
    "router, and what a peer sends as RoCE v2 is not received. The adapter may be too old for "
    "v2, or its driver may be set to v1.",
    (
        "https://github.com/NVIDIA/nccl/issues/426",
        "https://github.com/NVIDIA/nccl/issues/769",
    ),
    remedy=(
        "cma_roce_mode -d {device} -p {port}   # the mode of rdma_cm",
        "# a driver option or newer firmware may bring RoCE v2; both ends need the same",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def gid_v1_only(this: Rule, case: Case) -> Iterator[Finding]:
    """Ports all of whose GIDs are known to be RoCE v1."""
    for port, entries in _sendable(case):
        if any(entry.type is not GidType.ROCE_V1 for entry in entries):
            continue
        yield this.finding(
            f"{port.name} has RoCE v1 GIDs alone: "
            "not routable, and a peer that uses RoCE v2 does not receive them",
            device=port.device,
            port=port.number,
            evidence=[
                port_attribute(port, f"gid_attrs/types/{entry.index}", "IB/RoCE v1")
                for entry in entries[:2]
            ],
        )


@rule(
    "gid-ipv6-only",
    Severity.WARN,
    "No IPv4 GID",
    "The port has routable IPv6 GIDs and none of an IPv4 address. Many programs pick IPv4 GIDs "
    "alone and then say that no GID is suitable, or take index 0; they need the index "
    "or the family set.",
    (
        "https://github.com/kvcache-ai/Mooncake/issues/1593",
        "https://github.com/uccl-project/uccl/issues/803",
    ),
    remedy=(
        "export NCCL_IB_GID_INDEX={index}   # or NCCL_IB_ADDR_FAMILY=AF_INET6",
        "export UCX_IB_GID_INDEX={index}",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "addresses of GIDs"),
)
def gid_ipv6_only(this: Rule, case: Case) -> Iterator[Finding]:
    """Ports whose route is a routable IPv6 GID, not RoCE v1, and that have no IPv4 GID."""
    for port, entries in _sendable(case):
        entry = port.route_entry
        assert entry
        if any(each.gid.family is Family.IPV4 for each in entries):
            continue
        if entry.gid.scope is Scope.LINK_LOCAL or entry.type is GidType.ROCE_V1:
            continue
        yield this.finding(
            f"{port.name} has no IPv4 GID; programs must be set to use {entry.index} ({entry.gid})",
            device=port.device,
            port=port.number,
            evidence=[_route_proof(port)],
            fill={"index": entry.index},
        )


def _netdev_proof(case: Case, name: str, state: str) -> Proof:
    """rtnetlink's word on a netdev, else that of the files that say as much."""
    if not isinstance(case.evidence.netdev, Missing):
        return Proof("netdev", name, state)
    if isinstance(case.evidence.process, Missing) or state == "down":
        return Proof("sysfs", f"/sys/class/net/{name}/operstate", state)
    return Proof("process", f"/proc/self/net/dev: {name}", state)


def _route_proofs(case: Case, port: PortView, entry: GidEntry, netdev: str) -> tuple[Proof, ...]:
    return (
        port_attribute(port, f"gids/{entry.index}", entry.gid),
        port_attribute(port, f"gid_attrs/ndevs/{entry.index}", seen(entry.netdev)),
        _netdev_proof(case, f"{entry.netdev}", netdev),
    )


RULES: Final[tuple[Rule, ...]] = (
    no_usable_gid,
    gid_table_unreadable,
    route_netdev_down,
    route_netdev_absent,
    route_fallback,
    address_duplicate,
    address_tentative,
    gid_v1_only,
    gid_link_local_only,
    gid_ipv6_only,
)
