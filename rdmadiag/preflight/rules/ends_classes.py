"""The traffic classes that rdma_cm gives the packets of two hosts, one beside the other."""

from collections.abc import Iterator

from rdmadiag.facts import Missing
from rdmadiag.preflight.rules.ends_values import values_of
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import HostEnd, OwnAddress, Towards


@rule(
    "ends-class-differs",
    Severity.WARN,
    "rdma_cm gives the two hosts' packets different classes",
    "default_roce_tos of rdma_cm is the traffic class (IPv4 TOS) of what programs connect by it, "
    "and does not outlast a reboot. One host's is 0 and the other's is not, or one was given the "
    "DSCP where the class belongs, which is four times as much and the bits of ECN. A switch "
    "treats what the two send differently: it is kept from loss, queued or let through one way "
    "and not the other.",
    (
        "https://www.kernel.org/doc/Documentation/ABI/testing/configfs-rdma_cm",
        "https://enterprise-support.nvidia.com/s/article/howto-configure-trust-mode--l3---dscp--on-mellanox-adapters-x",
    ),
    remedy=(
        "sudo cma_roce_tos -d {device} -p {port} -t {class}",
        "# and in what sets it at each boot: it is lost with one",
    ),
)
def class_differs(this: Rule, case: Towards) -> Iterator[Finding]:
    """At the end that has none, or has the other's DSCP; which of two classes is meant is open."""
    here, there = _class(case.near, case.mine), _class(case.far, case.theirs)
    if not there or here is None or here == there or here not in (0, there >> _ECN_BITS):
        return
    yield this.finding(
        f"default_roce_tos of {case.mine.place} is {here} at {case.near.name}, of "
        f"{case.theirs.place} {there} at {case.far.name}",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof("configfs", f"{case.near.name}: {case.mine.place} default_roce_tos", str(here)),
            Proof("configfs", f"{case.far.name}: {case.theirs.place} default_roce_tos", str(there)),
        ],
        fill=values_of(case) | {"device": case.mine.device, "port": case.mine.port, "class": there},
    )


_ECN_BITS = 2
"""Below the DSCP in a traffic class: RFC 3168."""


def _class(end: HostEnd, own: OwnAddress) -> int | None:
    """What its folder in configfs has; without one nothing is known."""
    routing = end.evidence.routing
    if isinstance(routing, Missing) or isinstance(routing.roce_modes, Missing):
        return None
    tos = next((each.tos for each in routing.roce_modes if each.port == own.place), None)
    return None if isinstance(tos, Missing) else tos
