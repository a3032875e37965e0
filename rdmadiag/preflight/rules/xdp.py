"""Programs of XDP at the netdevs below software devices."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import known
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.rules.traffic import netdevs
from rdmadiag.preflight.verdict import Finding, Proof, Severity

NONE: Final = "none"


@rule(
    "xdp-at-port",
    Severity.WARN,
    "A program of XDP sees what a software device gets",
    "A BPF program is attached to the netdev of a software device (XDP): it gets each packet "
    "before the kernel's stack does, and may drop it or send it elsewhere, and no filter or "
    "counter of the stack shows that. What the program does is not read. A NIC's own RDMA does "
    "not pass it.",
    ("https://docs.kernel.org/bpf/index.html",),
    remedy=(
        "ip -d link show dev {netdev}   # prog/xdp: its number",
        "sudo bpftool net show dev {netdev}; sudo bpftool prog show",
        "sudo ip link set dev {netdev} xdp off   # as a trial: what attached it may need it",
    ),
    needs=("ports", "software device", "netdev", "programs of XDP"),
)
def xdp_at_port(this: Rule, case: Case) -> Iterator[Finding]:
    """By IFLA_XDP_ATTACHED."""
    facts = known(case.evidence.netdev)
    for port, name in netdevs(case) if facts else ():
        netdev = facts.netdev(name) if facts else None
        place = known(netdev.xdp) if netdev else None
        if port.is_software and place not in (None, NONE):
            yield this.finding(
                f"a program of XDP ({place}) sees what {port.name} gets by {name}, and may drop it",
                device=port.device,
                port=port.number,
                evidence=[Proof("netdev", f"{name} IFLA_XDP_ATTACHED", str(place))],
                fill={"netdev": name},
            )


RULES: Final[tuple[Rule, ...]] = (xdp_at_port,)
