"""The ports of two hosts beside each other: protocols, GIDs, partitions."""

from collections.abc import Iterator

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.compat import Compat, NoTalk
from rdmadiag.view.peer_picks import Talks


@dataclass(frozen=True, slots=True)
class PortsCase:
    """The ports of both hosts beside each other."""

    here: str  # the hosts' names
    there: str
    found: Compat


@rule(
    "ends-protocols-differ",
    Severity.CRITICAL,
    "The two hosts' ports have different protocols",
    "No active port of one host has the protocol of one of the other: RoCE, iWARP, InfiniBand. "
    "None of them understands another.",
    (),
    remedy=("rdmadiag devices   # at both hosts: which of them were meant?",),
)
def protocols_differ(this: Rule, case: PortsCase) -> Iterator[Finding]:
    """Where both have active ports, and no two of one protocol."""
    if case.found.talks is Talks.NO and case.found.reason is NoTalk.PROTOCOLS:
        yield this.finding(
            f"{case.here} and {case.there}: {case.found.why}",
            evidence=[Proof("sysfs", "protocols of active ports", case.found.why)],
        )


@rule(
    "ends-no-common-gid",
    Severity.CRITICAL,
    "No GID of one host reaches one of the other",
    "Each two rows of the GID tables of the two ports differ in what cannot be bridged: RoCE v1 "
    "against v2, IPv4 against IPv6, link-local against global, different VLANs.",
    (),
    remedy=("rdmadiag gids   # at both hosts", "ip -brief address   # at both hosts"),
)
def no_common_gid(this: Rule, case: PortsCase) -> Iterator[Finding]:
    """As `compat` holds the tables against each other."""
    yield from _by_reason(this, case, NoTalk.GIDS, "GID tables")


@rule(
    "ends-no-common-partition",
    Severity.CRITICAL,
    "No partition has both ports",
    "Two InfiniBand ports exchange packets in a partition that both are in, one of them as a full "
    "member (bit 15 of the P_Key). These two have none.",
    ("https://docs.nvidia.com/networking/display/ufmenterpriseumv6191/partitions",),
    remedy=(
        "grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000   # at both hosts",
        "# at the subnet manager: add both ports to one partition, one as full",
    ),
)
def no_common_partition(this: Rule, case: PortsCase) -> Iterator[Finding]:
    """By the partition tables of both."""
    yield from _by_reason(this, case, NoTalk.PARTITIONS, "P_Key tables")


def _by_reason(this: Rule, case: PortsCase, reason: NoTalk, what: str) -> Iterator[Finding]:
    if case.found.talks is not Talks.NO:
        return
    for pair in case.found.ports:
        if pair.reason is reason:
            here, there = (f"{each.device}/{each.port}" for each in (pair.here, pair.there))
            yield this.finding(
                f"{here} of {case.here} and {there} of {case.there}: {pair.why}",
                device=pair.here.device,
                port=pair.here.port,
                evidence=[Proof("sysfs", f"{what} of {here} and {there}", pair.why)],
            )
