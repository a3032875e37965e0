"""Sources that gave nothing: what was not seen must not pass for good."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.evidence import Evidence
from rdmadiag.preflight.rules.rule import Case, Rule, Speaker, rule, seen
from rdmadiag.preflight.verdict import Finding, Proof, Severity


def _sources(evidence: Evidence) -> Iterator[tuple[str, Any]]:
    for each in fields(evidence):
        yield each.name, getattr(evidence, each.name)


def _no_ib_core(evidence: Evidence) -> bool:
    return not isinstance(evidence.sysfs, Missing) and isinstance(evidence.sysfs.devices, Missing)


@rule(
    "source-failed",
    Severity.UNKNOWN,
    "A source could not be read",
    "A source hung, was refused, or answered what makes no sense. The rest of the report is "
    "complete, and whatever this source would have shown is unknown.",
)
def source_failed(speaker: Speaker, case: Case) -> Iterator[Finding]:
    """Looked, and got no answer."""
    for name, facts in _sources(case.evidence):
        missing = facts
        if name == "sysfs" and not isinstance(facts, Missing):
            missing = facts.devices  # absent: no ib_core; another rule's
            if isinstance(missing, Missing) and missing.why is Why.ABSENT:
                continue
        if not isinstance(missing, Missing) or missing.why is Why.NOT_COLLECTED:
            continue
        if name == "nldev" and missing.why is Why.ABSENT and _no_ib_core(case.evidence):
            continue  # no ib_core, no nldev: said by no-rdma-device
        yield speaker.finding(
            f"{name} could not be read: {missing}",
            evidence=[Proof(name, name, seen(missing))],
            remedy=_REMEDY.get(missing.why, ()),
        )


_REMEDY: Final = {
    Why.DENIED: ("sudo rdmadiag preflight",),
    Why.TIMEOUT: (
        "rdmadiag preflight --timeout 30",
        "ps -eo pid,stat,wchan:32,args | awk '$2 ~ /D/'   # stuck in the kernel?",
    ),
}


@rule(
    "nldev-device-refused",
    Severity.UNKNOWN,
    "nldev refuses a device or port",
    "RDMA netlink names a device or counts a port, and the question about it was refused.",
)
def nldev_device_refused(speaker: Speaker, case: Case) -> Iterator[Finding]:
    """In the dump, and not to be had."""
    if isinstance(case.evidence.nldev, Missing):
        return
    for missing in case.evidence.nldev.unreadable:
        yield speaker.finding(
            f"a device could not be read: {missing}",
            evidence=[Proof("nldev", "RDMA_NLDEV_CMD_GET", seen(missing))],
            remedy=("rdma dev",),
        )
    for device, number, missing in _refused_ports(case):
        yield speaker.finding(
            f"{device}/{number} could not be read from nldev: {missing}",
            device=device,
            port=number,
            evidence=[Proof("nldev", "RDMA_NLDEV_CMD_PORT_GET", seen(missing))],
            remedy=(f"rdma link show {device}/{number}",),
        )


def _refused_ports(case: Case) -> Iterator[tuple[str, int, Missing]]:
    for device in case.devices:
        if device.nldev:
            for number, missing in device.nldev.unreadable_ports.items():
                yield device.name, number, missing


@rule(
    "source-not-collected",
    Severity.INFO,
    "A source was not looked at",
    "The verdict rests on the other sources. Said for recorded hosts that hold only some of "
    "them, such as a copied sysfs tree.",
)
def source_not_collected(speaker: Speaker, case: Case) -> Iterator[Finding]:
    """One line for all of them; what this version never asks is not worth one."""
    names = [
        name
        for name, facts in _sources(case.evidence)
        if isinstance(facts, Missing) and facts.why is Why.NOT_COLLECTED and name != "verbs"
    ]
    if names:
        yield speaker.finding(
            f"not looked at: {', '.join(names)}",
            evidence=[Proof(name, name, seen(getattr(case.evidence, name))) for name in names],
        )


RULES: Final[tuple[Rule, ...]] = (source_failed, nldev_device_refused, source_not_collected)
