"""How many routers this host's packets may pass."""

from collections.abc import Iterator, Mapping
from typing import Final

from rdmadiag.facts import Missing, NetDevFacts, known
from rdmadiag.facts.routing import Route
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity

SYSCTL: Final = "https://docs.kernel.org/networking/ip-sysctl.html"
MEND: Final = {
    "by a sysctl": ("sysctl {sysctl}   # 64 by default", "sudo sysctl -w {sysctl}=64"),
    "by a route": (
        "ip route show {prefix} table all   # hoplimit",
        "# the route anew, without hoplimit: sudo ip route replace",
    ),
}
_LEAST: Final = 8
"""Hops: more than the routers of any one site between two of its hosts."""


@dataclass(frozen=True, slots=True)
class Limited:
    """How many hops the packets of one way may take, and what says so."""

    most: int
    name: str  # of a sysctl; "hoplimit of the route 192.0.2.0/24"
    when: str  # of the remedies
    proof: Proof
    fill: Mapping[str, str]


def limited(facts: NetDevFacts, netdev: str, row: Route) -> Limited | None:
    """That of the route, else the sysctl's of the netdev; None where it is not known.

    As sysctl(8) has it, a dot in a name is a slash there.
    """
    if row.hop_limit is not None:
        name, value = f"hoplimit of the route {row.destination}", row.hop_limit
        proof = Proof("routing", f"{row.destination} RTAX_HOPLIMIT", str(value))
        return Limited(value, name, "by a route", proof, {"prefix": row.destination})
    if ":" not in row.destination:
        most, name = known(facts.default_ttl), "net.ipv4.ip_default_ttl"
    else:
        own = facts.netdev(netdev)
        most = known(own.hop_limit) if own else None
        name = f"net.ipv6.conf.{netdev.replace('.', '/')}.hop_limit"
    if most is None:
        return None
    return Limited(most, name, "by a sysctl", Proof("netdev", name, str(most)), {"sysctl": name})


@rule(
    "hop-limit-low",
    Severity.WARN,
    "Packets of this host get past few routers",
    f"What the kernel sends may pass fewer than {_LEAST} routers (net.ipv4.ip_default_ttl, or "
    "hop_limit of a netdev's IPv6; 64 by default; or hoplimit of the route itself), and a route of "
    "this host leads by a gateway. "
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
    found: dict[str, tuple[Limited, str]] = {}
    for row in routing.routes:
        for hop in row.hops:  # of a kind that was not read, too: unicast rows alone have gateways
            limit = limited(facts, hop.netdev, row) if hop.gateway else None
            if limit is not None and limit.most < _LEAST:
                found.setdefault(limit.name, (limit, f"{row.destination} via {hop.gateway}"))
    for limit, way in found.values():
        yield this.finding(
            f"{limit.name} is {limit.most}, and a route leads by a gateway",
            evidence=[limit.proof, Proof("routing", "route", way)],
            when=limit.when,
            fill=limit.fill,
        )


RULES: Final[tuple[Rule, ...]] = (hop_limit_low,)
