"""Of `lossless` alone: what keeps it from an answer."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.lossless import chains
from rdmadiag.preflight.rules.rule import RECORD_ANEW, Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.lossless import Cell, Chain, LosslessPort


@rule(
    "lossless-unknown",
    Severity.UNKNOWN,
    "Whether packets are kept from loss is not known",
    "The driver of the NIC gives no PFC (soft RoCE, a virtual function, a driver without DCB), "
    "the netdev is in another network namespace, or the record is older than what it needs. That "
    "is not the same as off: firmware may be set without the driver's word.",
    ("https://github.com/torvalds/linux/blob/v6.1/net/dcb/dcbnl.c",),
    remedy={
        "where a record leaves it out": (RECORD_ANEW,),
        "elsewhere": ("dcb pfc show dev {netdev:NETDEV}", "dcb app show dev {netdev:NETDEV}"),
    },
)
def lossless_unknown(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a port."""
    for port in chains(case):
        unknown = [each for each in port.chains if each.lossless is None]
        if not unknown:
            continue
        missing = _why(port, unknown[0])
        recorded = missing.why is Why.NOT_COLLECTED
        yield this.finding(
            f"{port.name}: {_NAMES[unknown[0].cell or Cell.PFC]} is not known: {seen(missing)}",
            device=port.device,
            port=port.port,
            evidence=[Proof("dcb", f"DCB_CMD_IEEE_GET of {seen(port.netdev)}", seen(missing))],
            when="where a record leaves it out" if recorded else "elsewhere",
            fill={"netdev": () if isinstance(port.netdev, Missing) else port.netdev},
        )


_NAMES: Final = {
    Cell.CLASS: "the class that is sent with",
    Cell.TRUST: "what the NIC trusts",
    Cell.PRIORITY: "the priority",
    Cell.PFC: "PFC",
}


def _why(port: LosslessPort, chain: Chain) -> Missing:
    for each in (port.pfc, port.trust, chain.traffic_class, chain.priority):
        if isinstance(each, Missing):
            return each
    return Missing(Why.NOT_COLLECTED)


RULES: Final[tuple[Rule, ...]] = (lossless_unknown,)
