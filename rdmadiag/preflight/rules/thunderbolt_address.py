"""Thunderbolt RDMA ports: the bridge, addresses, and the GIDs that come of them."""

from collections.abc import Iterator
from ipaddress import IPv4Interface
from itertools import combinations
from typing import Final

from rdmadiag.facts import GidTable, Missing, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.macos import MASK, MacInterface
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.gid.route import Route
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen, verbs_answer
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.cabling import (
    TN3205,
    Cabling,
    free_subnet,
    thunderbolt_ports,
)
from rdmadiag.view.reconcile import PortView, is_asked_enough

_JACCL_INDEX: Final = 1


def _in_bridge(port: PortView, cable: Cabling) -> bool:
    """Whether a bridge is what keeps the port from an address of its own."""
    return cable.bridge is not None and not _has_ipv4_gid(port)


def _has_ipv4_gid(port: PortView) -> bool:
    return any(entry.gid.is_ipv4_mapped for entry in port.entries)


@rule(
    "port-in-bridge",
    Severity.CRITICAL,
    "Port is a member of a bridge",
    "While a bridge holds the interface it has no address and no IPv4 GID of its own: RTR fails "
    "with errno 22 on the peer and 96 here (which a missing GID or exhausted protection domains "
    "also give). A reason to expect failure, not a proof of it: one public run worked so, "
    "without a GID. A warning where the port has an IPv4 GID all the same.",
    (
        TN3205,
        "https://github.com/exo-explore/exo/issues/1390",
        "https://github.com/ml-explore/mlx/issues/3207",
    ),
    remedy=(
        "# Settings, Network, Thunderbolt Bridge: Make Inactive; or, until a reboot:",
        "sudo ifconfig {bridge} deletem {netdev}",
        "# logged in over {bridge}? Either ends your session: use another network",
        "# never destroy {bridge}: a Mac without a screen is then out of reach",
        "ifconfig {netdev} | grep 'inet '   # then it needs an address of its own",
    ),
    needs=("ports", "port state", "interfaces", "GID table"),
)
def port_in_bridge(this: Rule, case: Case) -> Iterator[Finding]:
    """bridge0 takes every Thunderbolt port by default."""
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        if cable.bridge is None or not port.is_active:
            continue
        bad = _in_bridge(port, cable)
        effect = " and has no IPv4 GID: expect RTR to fail" if bad else ""
        yield this.finding(
            f"{port.device}: {cable.netdev} is a member of {cable.bridge}{effect}",
            device=port.device,
            port=port.number,
            severity=None if bad else Severity.WARN,
            evidence=(
                Proof("mac_network", f"ifconfig {cable.bridge}", f"member: {cable.netdev}"),
                _gid_proof(port),
            ),
            fill={"bridge": cable.bridge, "netdev": cable.netdev},
        )


def _gid_proof(port: PortView) -> Proof:
    if isinstance(port.gids, Missing):
        return verbs_answer(port, "gids", port.gids)
    rows = (f"[{entry.index}] {entry.gid}" for entry in port.gids.entries)
    return verbs_answer(port, "gids", ", ".join(rows) or "none")


@rule(
    "no-ipv4-gid",
    Severity.CRITICAL,
    "No IPv4 GID",
    "The port is ACTIVE and publishes no IPv4-mapped GID, which it does once its interface has "
    "an IPv4 address. RTR fails with errno 22, or with 96 where a program uses an index that is "
    "empty (a bridge and exhausted protection domains give 96 too). JACCL refuses such a port. "
    "Critical where no entry can be used at all, as index 0 never is; a warning where index 1 "
    "holds another address, by which some programs connect.",
    (
        "https://github.com/ml-explore/mlx/issues/3467",
        "https://github.com/ml-explore/mlx/pull/4191",
        "https://github.com/exo-explore/exo/issues/1847",
    ),
    remedy={
        "": (
            f"sudo ifconfig {{netdev}} inet {{subnet:10.10.11}}.1 netmask {MASK} alias",
            "# at the peer, with its name of the interface: .2; every cable has its own subnet",
            "rdmadiag gids   # the entry may take a moment",
        ),
        "where the interface has an address": (
            "rdmadiag gids   # the entry follows the address, sometimes minutes later",
        ),
    },
    needs=("ports", "port state", "GID table"),
)
def no_ipv4_gid(this: Rule, case: Case) -> Iterator[Finding]:
    """Where the whole table is known, and no bridge explains it."""
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        if not port.is_active or not _is_whole(port.gids):
            continue
        if _has_ipv4_gid(port) or _in_bridge(port, cable):
            continue
        usable = isinstance(port.route, Route)
        netdev = cable.netdev or "enX"
        given = _ipv4(cable.interface)
        why, proof = f"{netdev} has no IPv4 address", "no inet"
        if cable.interface is None:
            why, proof = f"has {netdev} an IPv4 address?", _no_interface(case.evidence)
        elif given:
            why, proof = f"though {netdev} has {given[0].ip}", f"inet {given[0]}"
        yield this.finding(
            f"{port.device} has no IPv4 GID: {why}",
            device=port.device,
            port=port.number,
            severity=Severity.WARN if usable else None,
            evidence=(
                _gid_proof(port),
                Proof("mac_network", f"ifconfig {netdev}", proof),
            ),
            when="where the interface has an address" if given else "",
            fill={"netdev": netdev, "subnet": free_subnet(port.device, case.evidence)},
        )


def _no_interface(evidence: Evidence) -> str:
    network = evidence.mac_network
    found = network if isinstance(network, Missing) else network.interfaces
    return seen(found) if isinstance(found, Missing) else "no such interface"


def _is_whole(gids: GidTable | Missing) -> bool:
    """Whether a GID that is not in the table is not on the port."""
    return not isinstance(gids, Missing) and not gids.unreadable and is_asked_enough(gids)


def _ipv4(interface: MacInterface | None) -> list[IPv4Interface]:
    found = []
    for each in interface.addresses if interface else ():
        try:
            found.append(IPv4Interface(f"{each.address}/{each.prefix_length}"))
        except ValueError:  # IPv6, or a saved report that somebody has edited
            continue
    return found


@rule(
    "thunderbolt-interface-down",
    Severity.CRITICAL,
    "Interface of an active port is down",
    "The port is ACTIVE, and ifconfig shows its interface down, inactive, or not at all: the GID "
    "belongs to an address that nothing answers for.",
    (TN3205,),
    remedy=("sudo ifconfig {netdev} up", "ifconfig {netdev}"),
    needs=("ports", "port state", "interfaces", "GID table"),
)
def thunderbolt_interface_down(this: Rule, case: Case) -> Iterator[Finding]:
    """The interface of the route GID."""
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        state = port.route_netdev_state
        if not port.is_active or state not in (NetDevState.DOWN, NetDevState.ABSENT):
            continue
        interface = cable.interface
        value = f"up {interface.up}, status {seen(interface.status)}" if interface else "no such"
        yield this.finding(
            f"{port.device} is ACTIVE, and its interface {cable.netdev} is "
            f"{'down' if interface else 'not there'}",
            device=port.device,
            port=port.number,
            evidence=[Proof("mac_network", f"ifconfig {cable.netdev}", value)],
            fill={"netdev": cable.netdev},
        )


@rule(
    "thunderbolt-gids-unread",
    Severity.UNKNOWN,
    "GID table not read, or not all of it",
    "The GIDs of an ACTIVE port could not be read, rows of it were refused, or fewer rows were "
    "asked for than a route is chosen from: it is not known which GID routes.",
    remedy=("ibv_devinfo -v -d {device}",),
    needs=("ports", "port state"),
)
def thunderbolt_gids_unread(this: Rule, case: Case) -> Iterator[Finding]:
    """Where the rows that were read hold no IPv4 GID."""
    for _, port, _ in thunderbolt_ports(case.ports, case.evidence):
        if not port.is_active or _is_whole(port.gids) or _has_ipv4_gid(port):
            continue
        gids = port.gids
        what = seen(gids) if isinstance(gids, Missing) else f"{gids.asked} of {gids.length} rows"
        yield this.finding(
            f"{port.device}: which GIDs it has is not known ({what})",
            device=port.device,
            port=port.number,
            evidence=[_gid_proof(port)],
        )


def _service(cable: Cabling) -> str:
    """The network service of the cable's receptacle, as macOS names it."""
    return f"Thunderbolt {cable.receptacle or 'N'}"


@rule(
    "ipv4-gid-not-index-1",
    Severity.WARN,
    "IPv4 GID not at index 1",
    "The order of the table differs by macOS release and by the order in which addresses came. "
    "JACCL finds the IPv4 entry and then sends by index 1 whatever stands there: errno 22, or "
    "96 where it is empty. Programs that use the index they found are not concerned.",
    (
        "https://github.com/ml-explore/mlx/pull/3389",
        "https://github.com/ml-explore/mlx/pull/3468",
    ),
    remedy=(
        (
            "sudo networksetup -setnetworkserviceenabled {service} off && "
            "sudo networksetup -setnetworkserviceenabled {service} on"
        ),
        "# then give {netdev} its address again; on macOS 27 the order stays",
    ),
    needs=("ports", "port state", "GID table"),
)
def ipv4_gid_not_index_1(this: Rule, case: Case) -> Iterator[Finding]:
    """The route GID is right; only a fixed index is not."""
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        if not port.is_active or isinstance(port.gids, Missing):
            continue
        mapped = [entry.index for entry in port.gids.entries if entry.gid.is_ipv4_mapped]
        if not mapped or _JACCL_INDEX in mapped:
            continue
        yield this.finding(
            f"{port.device}: the IPv4 GID is at index {mapped[0]}, and JACCL sends by index "
            f"{_JACCL_INDEX}: MLX will fail here",
            device=port.device,
            port=port.number,
            evidence=[_gid_proof(port)],
            fill={"service": _service(cable), "netdev": cable.netdev},
        )


@rule(
    "shared-subnet",
    Severity.WARN,
    "Several cables in one subnet",
    "A Thunderbolt interface has an address in a subnet that another interface has too: which "
    "one a packet leaves by is not certain, and errno 60, flapping nodes and empty ring cycles "
    "have been the result. Self-assigned 169.254 addresses are not counted.",
    (
        "https://github.com/exo-explore/exo/issues/2067",
        "https://github.com/ml-explore/mlx/issues/3755",
    ),
    remedy=(
        "# a subnet of its own for every cable, .1 here and .2 at the peer:",
        f"sudo networksetup -setmanual {{service}} {{subnet:10.10.11}}.1 {MASK}",
    ),
    needs=("ports", "interfaces"),
)
def shared_subnet(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for each pair of addresses."""
    network = case.evidence.mac_network
    if isinstance(network, Missing):
        return
    held = [
        (interface.name, address)
        for interface in present(network.interfaces)
        for address in _ipv4(interface)
        if interface.up and not address.is_link_local and not address.is_loopback
    ]
    cables = {c.netdev: c for _, _, c in thunderbolt_ports(case.ports, case.evidence)}
    for (name, one), (other, two) in combinations(held, 2):
        if name == other or not {name, other} & cables.keys():
            continue
        if not one.network.overlaps(two.network):
            continue
        netdev = name if name in cables else other
        yield this.finding(
            f"{name} ({one}) and {other} ({two}) share a subnet",
            device=f"rdma_{netdev}",
            evidence=[
                Proof("mac_network", f"ifconfig {name}", f"inet {one}"),
                Proof("mac_network", f"ifconfig {other}", f"inet {two}"),
            ],
            fill={
                "service": _service(cables[netdev]),
                "subnet": free_subnet(f"rdma_{netdev}", case.evidence),
            },
        )


RULES: Final[tuple[Rule, ...]] = (
    thunderbolt_interface_down,
    port_in_bridge,
    no_ipv4_gid,
    thunderbolt_gids_unread,
    ipv4_gid_not_index_1,
    shared_subnet,
)
