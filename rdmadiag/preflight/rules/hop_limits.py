"""How many routers this host's packets may pass."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, NetDevFacts, known
from rdmadiag.facts.routing import RouteKind
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity

SYSCTL: Final = "https://docs.kernel.org/networking/ip-sysctl.html"
MEND: Final = ("sysctl {sysctl}   # 64 by default", "sudo sysctl -w {sysctl}=64")
_LEAST: Final = 8
"""Hops: more than the routers of any one site between two of its hosts."""


def limit_of(facts: NetDevFacts, netdev: str, version: int) -> tuple[str, int] | None:
    """The sysctl that packets of this version of IP begin with, and its value, where it is known.

    As sysctl(8) has it, a dot in a name is a slash there.
    """
    if version == 4:
        value, name = known(facts.default_ttl), "net.ipv4.ip_default_ttl"
    else:
        own = facts.netdev(netdev)
        value = known(own.hop_limit) if own else None
        name = f"net.ipv6.conf.{netdev.replace('.', '/')}.hop_limit"
    return None if value is None else (name, value)


@rule(
    "hop-limit-low",
    Severity.WARN,
    "Packets of this host get past few routers",
    f"What the kernel sends may pass fewer than {_LEAST} routers (net.ipv4.ip_default_ttl, or "
    "hop_limit of a netdev's IPv6; 64 by default), and a route of this host leads by a gateway. "
    "TCP, by which programs exchange addresses, and connections of rdma_cm take it: a peer that "
    "is further away is not reached, and does not reach this host either, as its answers end on "
    "the way. Peers on the same link are.",
    (SYSCTL,),
    remedy=MEND,
    needs=("ports", "netdev", "routing tables", "hop limits"),
)
def hop_limit_low(this: Rule, case: Case) -> Iterator[Finding]:
    """Where a row of a table has a gateway, of each version of IP by itself."""
    facts, routing = known(case.evidence.netdev), known(case.evidence.routing)
    if facts is None or routing is None or isinstance(routing.routes, Missing):
        return
    found: dict[str, tuple[int, str]] = {}
    for row in routing.routes:
        version = 6 if ":" in row.destination else 4
        for hop in row.hops if row.kind is RouteKind.UNICAST else ():
            limit = limit_of(facts, hop.netdev, version) if hop.gateway else None
            if limit is not None and limit[1] < _LEAST:
                found.setdefault(limit[0], (limit[1], f"{row.destination} via {hop.gateway}"))
    for sysctl, (value, way) in found.items():
        yield this.finding(
            f"{sysctl} is {value}, and a route leads by a gateway",
            evidence=[Proof("netdev", sysctl, str(value)), Proof("routing", "route", way)],
            fill={"sysctl": sysctl},
        )


RULES: Final[tuple[Rule, ...]] = (hop_limit_low,)
