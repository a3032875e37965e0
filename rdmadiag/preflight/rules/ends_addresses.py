"""Addresses of two hosts: one that both have, two of different subnets, one that does not work."""

from collections.abc import Iterator

from rdmadiag.facts import Missing
from rdmadiag.preflight.rules.ends_values import values_of
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import Named, Towards


@rule(
    "ends-peer-address-here",
    Severity.CRITICAL,
    "Both hosts have one address",
    "The address of the peer's RDMA netdev is an address of this host too, on whichever of its "
    "netdevs, loopback included: what is sent to it here never leaves the host, and others reach "
    "the one or the other by chance.",
    ("https://www.rfc-editor.org/rfc/rfc5227",),
    remedy=(
        "ip -brief address show to {peer}   # and at the other host",
        "sudo ip address del {peer} dev {on}   # where it does not belong",
    ),
)
def peer_address_here(this: Rule, case: Towards) -> Iterator[Finding]:
    """By the host's own addresses and its table of local routes."""
    if case.owner is not None:
        yield this.finding(
            f"{case.near.name} has {case.theirs.address} too, on {case.owner}: it is the address "
            f"of {case.theirs.place} of {case.far.name}",
            evidence=[
                Proof(
                    "routing", f"{case.theirs.address} on {case.owner}", "an address of this host"
                ),
                Proof("netdev", f"{case.far.name}: {case.theirs.netdev.name}", case.theirs.address),
            ],
            fill=values_of(case) | {"on": case.owner},
        )


@rule(
    "ends-mac-twice",
    Severity.CRITICAL,
    "Both hosts have one MAC address",
    "The netdevs of both ends have the same MAC address: a switch learns it at one port, then at "
    "the other, and the frames of each go to whoever sent last. Virtual machines and namespaces "
    "that were copied have it.",
    ("https://www.rfc-editor.org/rfc/rfc7042",),
    remedy=("ip link show {netdev}   # at both hosts", "sudo ip link set dev {netdev} address MAC"),
)
def mac_twice(this: Rule, case: Towards) -> Iterator[Finding]:
    """Of Ethernet; 00:00:00:00:00:00 is none."""
    mac = case.mine.netdev.mac
    if isinstance(mac, Missing) or mac != case.theirs.netdev.mac or not mac.strip("0:"):
        return
    if len(mac) == len("00:00:00:00:00:00"):
        yield this.finding(
            f"{case.mine.netdev.name} of {case.near.name} and {case.theirs.netdev.name} of "
            f"{case.far.name} both have {mac}",
            device=case.mine.device,
            port=case.mine.port,
            evidence=[
                Proof("netdev", f"{name}: {own.netdev.name} IFLA_ADDRESS", mac)
                for name, own in ((case.near.name, case.mine), (case.far.name, case.theirs))
            ],
            fill=values_of(case),
        )


@rule(
    "ends-subnets-differ",
    Severity.CRITICAL,
    "Two subnets, and no route between them",
    "The two addresses are in different subnets, and neither host has a route to the other's: one "
    "of them was given a wrong address or prefix length, or a router or its route is missing.",
    (),
    remedy=(
        "ip -brief address show dev {netdev}   # at both hosts",
        "sudo ip route add {peer} via GATEWAY dev {netdev}   # where a router joins the two",
    ),
)
def subnets_differ(this: Rule, case: Towards) -> Iterator[Finding]:
    """Looked at where neither end has a way."""
    mine, theirs = case.mine, case.theirs
    yield this.finding(
        f"{case.near.name} has {mine.address}/{mine.prefix_length}, {case.far.name} "
        f"{theirs.address}/{theirs.prefix_length}, and neither has a route to the other",
        device=mine.device,
        port=mine.port,
        evidence=[
            Proof("netdev", f"{name}: {own.netdev.name}", f"{own.address}/{own.prefix_length}")
            for name, own in ((case.near.name, mine), (case.far.name, theirs))
        ],
        fill=values_of(case),
    )


@rule(
    "ends-named-address-unusable",
    Severity.CRITICAL,
    "The address that was used does not work at its host",
    "A program was given this address, and the netdev that has it is down, has no carrier, or the "
    "address is tentative or a duplicate (duplicate address detection): nothing is received at it.",
    ("https://www.rfc-editor.org/rfc/rfc4862#section-5.4",),
    remedy=(
        "ip address show dev {netdev}   # DOWN, NO-CARRIER, tentative, dadfailed?",
        "sudo ip link set dev {netdev} up",
    ),
)
def named_address_unusable(this: Rule, case: Named) -> Iterator[Finding]:
    """By the netdev's flags, and the address's."""
    found = _unusable(case)
    if found is not None:
        said, proof = found
        yield this.finding(
            f"{case.address} of {case.near.name} is on {case.netdev}, which {said}"
            if proof.source == "routing"
            else f"{case.address} of {case.near.name}, on {case.netdev}, {said}",
            evidence=[proof],
            fill={"netdev": case.netdev},
        )


def _unusable(case: Named) -> tuple[str, Proof] | None:
    link, flags = case.link, case.flags
    if link is not None and link.up is False:
        return "is down", Proof("routing", f"{case.netdev} IFF_UP", "not set")
    if link is not None and link.carrier is False:
        return "has no carrier", Proof("routing", f"{case.netdev} IFF_LOWER_UP", "not set")
    if flags is not None and flags.duplicate is True:
        proof = Proof("netdev", f"{case.address} on {case.netdev}", "IFA_F_DADFAILED")
        return "is a duplicate of another host's", proof
    if flags is not None and flags.tentative is True:
        proof = Proof("netdev", f"{case.address} on {case.netdev}", "IFA_F_TENTATIVE")
        return "is tentative still", proof
    return None
