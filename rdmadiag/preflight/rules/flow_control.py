"""Flow control of the link below a RoCE port: for all of it, or for some priorities."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.ethtool import Pause
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.lossless import LosslessPort, lossless_ports

_CISCO: Final = (
    "https://www.cisco.com/c/en/us/td/docs/iosxr/ncs5500/qos/24xx/configuration/guide/"
    "b-qos-cg-ncs5500-24xx/m-configuring-link-level-flow-control-ncs5500.html"
)


@rule(
    "pause-beside-pfc",
    Severity.WARN,
    "Pause frames and priority flow control are both on",
    "The link has priority flow control (PFC) for some priorities and pause frames for all of "
    "them. They exclude each other: which of the two a NIC or a switch obeys differs, and where "
    "it is pause, one congested priority stops all others, and RoCE with them. Drivers that know "
    "it show pause as off while PFC is on.",
    (
        "https://docs.kernel.org/networking/ethtool-netlink.html#pause-get",
        _CISCO,
    ),
    remedy=(
        "sudo ethtool --pause {netdev} autoneg off rx off tx off   # keeps PFC",
        "sudo dcb pfc show dev {netdev}   # still on? with some drivers the last one set wins",
        "# the same on the switch port",
    ),
    needs=("ports", "port state", "netdev", "bonds of netdevs", "DCB settings", "pause settings"),
)
def pause_beside_pfc(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a link; a link that two devices are on is said once."""
    done: set[str] = set()
    for port in with_pfc(case):
        pause = _pause(port, case)
        if isinstance(pause, Missing) or pause is None or str(port.netdev) in done:
            continue
        ways = [name for name, on in (("received", pause.rx), ("sent", pause.tx)) if on is True]
        if not ways or isinstance(port.pfc, Missing):
            continue
        done.add(str(port.netdev))
        on = " ".join(map(str, port.pfc))
        yield this.finding(
            f"{port.name}: {port.netdev} has PFC for {on}, and pause frames "
            f"{' and '.join(ways)} for the whole link",
            device=port.device,
            port=port.port,
            evidence=(
                Proof("dcb", f"DCB_ATTR_IEEE_PFC of {port.netdev}", f"on for priorities: {on}"),
                Proof("ethtool", f"ETHTOOL_A_PAUSE_RX of {port.netdev}", seen(pause.rx)),
                Proof("ethtool", f"ETHTOOL_A_PAUSE_TX of {port.netdev}", seen(pause.tx)),
            ),
            fill={"netdev": port.netdev},
        )


def with_pfc(case: Case) -> Iterator[LosslessPort]:
    """Active RoCE ports that have PFC for some priority, or of which that is not known."""
    for port in lossless_ports(case.devices, case.evidence, {}, ()):
        if port.pfc:
            yield port


def _pause(port: LosslessPort, case: Case) -> Pause | Missing | None:
    facts = case.evidence.ethtool
    link = facts if isinstance(facts, Missing) else facts.netdev(str(port.netdev))
    return link if isinstance(link, Missing) or link is None else link.pause


RULES: Final[tuple[Rule, ...]] = (pause_beside_pfc,)
