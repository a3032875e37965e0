"""The interface by which processes meet over TCP, before any RDMA."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, NetDev
from rdmadiag.facts.routing import LOCAL_TABLE, RouteKind, RoutingFacts
from rdmadiag.gid.device_lists import Choice
from rdmadiag.gid.variables import INTERFACES
from rdmadiag.late import late
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.routing import Flow, NoWay, holds, lookup
from rdmadiag.view.stack_picks import variables

_OF_CONTAINERS: Final = ("docker", "veth", "virbr", "cni", "cali", "flannel", "br-")
_FEW: Final = 8


class _Unfit(StrEnum):
    """What is wrong with a netdev, in the words of the finding."""

    LOOPBACK = "loopback: no other host is reached by it"
    CONTAINERS = "by its name for containers or virtual machines of this host"
    DOWN = "down"
    LINK_LOCAL = "without an address but a link-local one"
    NO_ADDRESS = "without an address"


@rule(
    "bootstrap-interface-unfit",
    Severity.WARN,
    "A variable names an interface that peers do not reach",
    "Processes meet over TCP before any RDMA, and a variable names the interface: it is the "
    "loopback, down, without an address that peers reach, or by its name one for containers of "
    "this host. The job then hangs or fails at its start. Critical where the netdevs that it "
    "names are not there at all. A list that only excludes is not judged, nor are subnets.",
    (
        "https://github.com/NVIDIA/nccl/issues/914",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    remedy=(
        "ip -brief address   # which interface has an address that peers reach",
        "export {variable:NCCL_SOCKET_IFNAME}={netdevs:INTERFACE}",
        "unset {variable:NCCL_SOCKET_IFNAME}   # where the stack's own choice will do",
    ),
    needs=("routing", "netdev", "environment", "netdevs of this namespace"),
)
def bootstrap_interface_unfit(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a variable."""
    environment = variables(case.evidence)
    process, routing = case.evidence.process, case.evidence.routing
    if isinstance(environment, Missing) or isinstance(routing, Missing):
        return
    if isinstance(process, Missing) or isinstance(process.netdevs, Missing):
        return
    for row in INTERFACES:
        value = environment.get(row.name)
        chosen = row.interfaces(row.name, value) if row.interfaces and value else None
        if chosen is None or chosen.excludes:
            continue
        named = _named(chosen, process.netdevs)
        bad = {name: why for name in named if (why := _unfit(name, case, routing))}
        if named and len(bad) < len(named):
            continue  # one of them will do
        words = "; ".join(f"{name} is {why}" for name, why in list(bad.items())[:_FEW])
        guessed = bool(bad) and all(why is _Unfit.CONTAINERS for why in bad.values())
        absent = " ".join(map(str, chosen.parts[:_FEW]))
        yield this.finding(
            f"{row.name}={value}: {words}" if bad else f"{row.name} names {absent}: not there",
            severity=Severity.INFO if guessed else None if bad else Severity.CRITICAL,
            evidence=[
                Proof("process", f"environment: {row.name}", chosen.value),
                Proof("process", "/proc/self/net/dev", " ".join(process.netdevs[:_FEW])),
                Proof("routing", "table local", _addresses_of(named, routing)),
            ],
            fill={"variable": row.name, "netdevs": "INTERFACE"},
        )


def _named(chosen: Choice, netdevs: Sequence[str]) -> list[str]:
    return [
        name for name in netdevs if any(chosen.matches(part.name, name) for part in chosen.parts)
    ]


_LINK_LOCAL: Final = ("169.254.0.0/16", "fe80::/10")


def _unfit(name: str, case: Case, routing: RoutingFacts) -> _Unfit | None:
    """None for nothing, or nothing that is known."""
    link = next((each for each in routing.links if each.name == name), None)
    if name == "lo" or (link and link.loopback):
        return _Unfit.LOOPBACK
    netdev = _netdev(name, case)
    if netdev and not netdev.admin_up:
        return _Unfit.DOWN
    addresses = _addresses(name, routing)
    if addresses is not None and not addresses:
        return _Unfit.NO_ADDRESS
    if addresses and all(any(holds(net, each) for net in _LINK_LOCAL) for each in addresses):
        return _Unfit.LINK_LOCAL
    return _Unfit.CONTAINERS if name.startswith(_OF_CONTAINERS) else None


def _netdev(name: str, case: Case) -> NetDev | None:
    facts = case.evidence.netdev
    return None if isinstance(facts, Missing) else facts.netdev(name)


def _addresses(name: str, routing: RoutingFacts) -> list[str] | None:
    """Those that the kernel takes packets for on the netdev; None where that was not read."""
    if isinstance(routing.routes, Missing):
        return None
    return [
        row.destination.partition("/")[0]
        for row in routing.routes
        if row.table == LOCAL_TABLE
        and row.kind is RouteKind.LOCAL
        and any(hop.netdev == name for hop in row.hops)
    ]


def _addresses_of(names: Sequence[str], routing: RoutingFacts) -> str:
    found = [
        f"{name} {each}" for name in names[:_FEW] for each in (_addresses(name, routing) or ())
    ]
    return ", ".join(found[:_FEW]) or "none of theirs"


@rule(
    "master-address-unfit",
    Severity.CRITICAL,
    "MASTER_ADDR is not reached from this host",
    "The processes of a job meet first at MASTER_ADDR, over TCP. This host's rules and routing "
    "tables have no way to that address, so that the job hangs or fails at its start. A warning "
    "where it is a loopback address, and WORLD_SIZE is more than LOCAL_WORLD_SIZE: each host then "
    "reaches itself. A name is not looked up; `rdmadiag route` does that.",
    (
        "https://docs.pytorch.org/docs/stable/distributed.html",
        "https://man7.org/linux/man-pages/man8/ip-route.8.html",
    ),
    remedy={
        "where there is no way": (
            "ip route get {address}",
            "# give this host a route to it, or set MASTER_ADDR to an address that all reach",
        ),
        "of a loopback": (
            "ip -brief address   # of the first host: which address do the others reach",
            "export MASTER_ADDR=ADDRESS",
        ),
    },
    needs=("environment", "routing", "routing tables"),
)
def master_address_unfit(this: Rule, case: Case) -> Iterator[Finding]:
    """By the address alone, and the ways that processes of any user have."""
    environment, routing = variables(case.evidence), case.evidence.routing
    if isinstance(environment, Missing) or isinstance(routing, Missing):
        return
    address = environment.get(MASTER, "")
    proof = Proof("process", f"environment: {MASTER}", address)
    if address == "localhost" or any(holds(net, address) for net in _LOOPBACK):
        whole, here = (environment.get(name, "") for name in (WORLD, LOCAL_WORLD))
        if _COUNT.fullmatch(whole) and _COUNT.fullmatch(here) and int(whole) > int(here):
            yield this.finding(
                f"{MASTER}={address} is each host's own loopback, and only {here} of the "
                f"{whole} processes are here",
                severity=Severity.WARN,
                evidence=[
                    proof,
                    Proof("process", f"environment: {WORLD}", whole),
                    Proof("process", f"environment: {LOCAL_WORLD}", here),
                ],
                when="of a loopback",
            )
        return
    # A condition on a packet, or on its user, may lead it by another table.
    rules = routing.rules
    if not _is_address(address) or isinstance(rules, Missing) or any(r.other for r in rules):
        return
    way = lookup(routing, Flow(address))
    if isinstance(way, NoWay):
        yield this.finding(
            f"{MASTER}={address}: this host has no way there ({_NO_WAY[way]})",
            evidence=[proof, Proof("routing", "rules and routing tables", way.value)],
            when="where there is no way",
            fill={"address": address},
        )


MASTER, WORLD, LOCAL_WORLD = "MASTER_ADDR", "WORLD_SIZE", "LOCAL_WORLD_SIZE"
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_COUNT: Final = late(r"[0-9]{1,7}")
_NO_WAY: Final = {
    NoWay.NO_ROUTE: "no route",
    NoWay.UNREACHABLE: "its route is unreachable",
    NoWay.PROHIBIT: "its route is prohibited",
    NoWay.BLACKHOLE: "its route is a blackhole",
}


def _is_address(text: str) -> bool:
    return any(holds(net, text) for net in ("0.0.0.0/0", "::/0"))


RULES: Final[tuple[Rule, ...]] = (bootstrap_interface_unfit, master_address_unfit)
