"""How the kernel looks for neighbours at the netdevs below ports."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import known
from rdmadiag.facts.routing import Soliciting
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.rules.traffic import netdevs
from rdmadiag.preflight.verdict import Finding, Proof, Severity

SYSCTL: Final = "https://docs.kernel.org/networking/ip-sysctl.html"
MEND: Final = (
    "sysctl {conf}.mcast_solicit {conf}.app_solicit",
    "sudo sysctl -w {conf}.mcast_solicit=3",
)


def conf(row: Soliciting, netdev: str) -> str:
    """The folder of the sysctls, as sysctl(8) has it: a dot in a name is a slash there."""
    return f"net.ipv{row.version}.neigh.{netdev.replace('.', '/')}"


def unsought(row: Soliciting, netdev: str) -> Proof:
    """That no neighbour is looked for."""
    return Proof("routing", f"{conf(row, netdev)}: mcast_solicit, app_solicit", "0, 0")


@rule(
    "neighbours-not-asked",
    Severity.CRITICAL,
    "The netdev looks for no neighbour",
    "mcast_solicit and app_solicit of the netdev are 0: the kernel sends no ARP request, or no "
    "neighbour solicitation of IPv6, for an address that it does not know yet, and says at once "
    "that the neighbour does not answer. What it has learnt from others goes on for a while. "
    "Without the peer's MAC address there is no TCP, no rdma_cm and no address handle of RoCE.",
    (SYSCTL,),
    remedy=MEND,
    needs=("ports", "netdev", "how neighbours are asked for"),
)
def neighbours_not_asked(this: Rule, case: Case) -> Iterator[Finding]:
    """Of each version of IP of which the netdev has an address."""
    facts, routing = known(case.evidence.netdev), known(case.evidence.routing)
    for port, name in netdevs(case) if facts and routing else ():
        assert facts is not None and routing is not None  # noqa: PT018  # both, as above
        netdev = facts.netdev(name)
        for version in (4, 6):
            row = routing.solicits(name, version)
            if row is None or not row.finds_none or netdev is None:
                continue
            if any((":" in each.address) == (version == 6) for each in netdev.addresses):
                yield this.finding(
                    f"{name} looks for no neighbour by IPv{version}",
                    device=port.device,
                    port=port.number,
                    evidence=[unsought(row, name)],
                    fill={"conf": conf(row, name)},
                )


RULES: Final[tuple[Rule, ...]] = (neighbours_not_asked,)
