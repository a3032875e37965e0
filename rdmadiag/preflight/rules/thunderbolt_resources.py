"""Thunderbolt RDMA devices: what programs hold of them, and what is left."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain.remedies import REBOOT
from rdmadiag.facts import Missing, or_else
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.macos import Holder, RdmaInterface
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.cabling import TN3205
from rdmadiag.view.mac_resources import in_use, interface
from rdmadiag.view.reconcile import Protocol

_FREE: Final = ("kill {pid}   # ends {command}", REBOOT)


@rule(
    "protection-domains-exhausted",
    Severity.CRITICAL,
    "Protection domains exhausted",
    "As many protection domains exist on the device as it allows: the next program gets NULL "
    '("Couldn\'t allocate protection domain"); errno 96 at RTR has been blamed on it too, '
    "beside a missing GID and a bridge. Programs that were killed leave theirs behind.",
    (
        "https://github.com/ml-explore/mlx/issues/3207",
        "https://github.com/exo-explore/exo/issues/2111",
    ),
    remedy=_FREE,
    needs=("devices", "resources in use"),
)
def protection_domains_exhausted(this: Rule, case: Case) -> Iterator[Finding]:
    """Counted in the registry: none is ever allocated to find out."""
    yield from _exhausted(this, case, "pd")


@rule(
    "queue-pairs-exhausted",
    Severity.CRITICAL,
    "Queue pairs exhausted",
    "All queue pairs of the device are in use. It allows one fewer than max_qp says: of 11 "
    "reported, 10 can be made, and ibv_create_qp then gives errno 16 (EBUSY), which is not "
    "transient.",
    (
        TN3205,
        "https://github.com/ml-explore/mlx/issues/3162",
        "https://github.com/ml-explore/mlx/pull/4209",
    ),
    remedy=_FREE,
    needs=("devices", "resources in use"),
)
def queue_pairs_exhausted(this: Rule, case: Case) -> Iterator[Finding]:
    """max_qp less the one that the driver keeps."""
    yield from _exhausted(this, case, "qp")


_WORD: Final = {"pd": "protection domains", "qp": "queue pairs"}


def _exhausted(this: Rule, case: Case, kind: str) -> Iterator[Finding]:
    what = _WORD[kind]
    for device in case.devices:
        found, uses = interface(device, case.evidence), in_use(device, case.evidence)
        for use in or_else(uses, ()):
            if found is None or use.kind != kind or not use.is_exhausted:
                continue
            owners = _owners(found, case.evidence)
            holders = ", ".join(f"{each.command} ({each.pid})" for each in owners)
            left = f", {found.inactive} resources without an owner" if found.inactive else ""
            yield this.finding(
                f"{device.name}: {use.count} of {use.usable} {what} are in use"
                f"{f' by {holders}' if holders else ', and no program holds them'}",
                device=device.name,
                evidence=[
                    Proof(
                        "ioreg",
                        f"ioreg -c AppleThunderboltRDMAInterface: {device.name}",
                        f"{use.count} {what}{left}",
                    )
                ],
                fill={
                    "pid": tuple(each.pid for each in owners),
                    "command": tuple(each.command for each in owners),
                },
            )


def _owners(found: RdmaInterface, evidence: Evidence) -> tuple[Holder, ...]:
    """The programs that hold the interface, but for our own child that queries verbs."""
    ours = None if isinstance(evidence.verbs, Missing) else evidence.verbs.pid
    return tuple(each for each in found.holders if each.pid != ours)


@rule(
    "resources-unknown",
    Severity.UNKNOWN,
    "Use of a device's resources unknown",
    "How many protection domains and queue pairs are in use, or may be, could not be read: "
    "whether the next program gets one is not known.",
    remedy=("ioreg -r -l -c AppleThunderboltRDMAInterface -n {device}",),
    needs=("ports",),
)
def resources_unknown(this: Rule, case: Case) -> Iterator[Finding]:
    """Of devices with an active port."""
    for device in case.devices:
        if not any(p.protocol is Protocol.THUNDERBOLT and p.is_active for p in device.ports):
            continue
        uses = in_use(device, case.evidence)
        if isinstance(uses, Missing):
            yield this.finding(
                f"{device.name}: how many of its resources are in use is not known: {uses}",
                device=device.name,
                evidence=[Proof("ioreg", f"ioreg: {device.name}", seen(uses))],
            )


@rule(
    "resources-without-owner",
    Severity.WARN,
    "Resources that wait to be freed",
    "The registry has protection domains or queue pairs that are inactive and busy: their "
    "program has ended, and the driver has not let go of them. They count against the device's "
    "limits until a reboot.",
    ("https://github.com/exo-explore/exo/issues/2111",),
    remedy=(REBOOT,),
    needs=("devices", "ioreg", "interfaces of the registry"),
)
def resources_without_owner(this: Rule, case: Case) -> Iterator[Finding]:
    for device in case.devices:
        found = interface(device, case.evidence)
        if found and found.inactive:
            yield this.finding(
                f"{device.name}: {found.inactive} protection domains or queue pairs of ended "
                "programs are still held",
                device=device.name,
                evidence=[
                    Proof("ioreg", "ioreg: IOServiceState inactive, busy", str(found.inactive))
                ],
            )


RULES: Final[tuple[Rule, ...]] = (
    protection_domains_exhausted,
    queue_pairs_exhausted,
    resources_unknown,
    resources_without_owner,
)
