"""Sources that gave nothing: what was not seen is unknown, not ok."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, Evidence
from rdmadiag.preflight.case import Case, Lack
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.access import Library, library, node_access


def _no_ib_core(evidence: Evidence) -> bool:
    return not isinstance(evidence.sysfs, Missing) and isinstance(evidence.sysfs.devices, Missing)


_AGAIN: Final = {
    "where it was refused": ("sudo rdmadiag preflight",),
    "where it was late": (
        "rdmadiag preflight --timeout 30",
        "ps -eo pid,stat,wchan:32,args | awk '$2 ~ /D/'   # stuck in the kernel?",
    ),
    "where it was late on a Mac": (
        "rdmadiag preflight --timeout 30",
        "ps -axo pid,stat,command | awk '$2 ~ /U/'   # stuck in the kernel?",
    ),
    "elsewhere": ("rdmadiag preflight --json | jq .evidence",),
}


OF_THE_LOG: Final = (Why.DENIED, Why.ABSENT, Why.UNSUPPORTED)
"""Of an ordinary user, of a container, and of a system without one."""


_NOTES: Final = {"kernel_log": OF_THE_LOG, "libraries": (Why.DENIED, Why.ABSENT)}
"""Sources that are not for everybody, and a host is no less healthy for it."""


def _when(missing: Missing, evidence: Evidence) -> str:
    """Which of those lines."""
    if missing.why is Why.DENIED:
        return "where it was refused"
    if missing.why is Why.TIMEOUT:
        return "where it was late on a Mac" if evidence.is_mac else "where it was late"
    return "elsewhere"


@rule(
    "source-failed",
    Severity.UNKNOWN,
    "A source could not be read",
    "A source hung, was refused, or answered what makes no sense. The rest of the report is "
    "complete, and whatever this source would have shown is unknown.",
    remedy=_AGAIN,
)
def source_failed(this: Rule, case: Case) -> Iterator[Finding]:
    for name, missing in case.evidence.missing.items():
        if name == "sysfs" and _no_ib_core(case.evidence) and missing.why is Why.ABSENT:
            continue  # another rule's
        if missing.why is Why.NOT_COLLECTED:
            continue
        if missing in (LINUX_ONLY, MACOS_ONLY) or _is_said_elsewhere(name, missing, case):
            continue
        yield this.finding(
            f"{name} could not be read: {missing}",
            severity=Severity.INFO if missing.why in _NOTES.get(name, ()) else None,
            evidence=[Proof(name, name, seen(missing))],
            when=_when(missing, case.evidence),
        )


def _is_said_elsewhere(name: str, missing: Missing, case: Case) -> bool:
    """Whether a rule that names the cause has a finding: no-rdma-device, or one on access."""
    if missing.why is not Why.ABSENT:
        return False
    if name == "nldev":
        return _no_ib_core(case.evidence)
    if name != "verbs" or isinstance(case.evidence.sysfs, Missing):
        return False
    return all(
        library(device, case.evidence) is Library.NO_LIBIBVERBS
        or getattr(node_access(device, case.evidence), "node", device) is None
        for device in case.devices
    )


@rule(
    "system-not-supported",
    Severity.UNKNOWN,
    "System not supported",
    "rdmadiag reads Linux and macOS; on this system there was nothing that it could look at.",
)
def system_not_supported(this: Rule, case: Case) -> Iterator[Finding]:
    evidence = case.evidence
    if evidence.sysfs == evidence.verbs == LINUX_ONLY and evidence.macos == MACOS_ONLY:
        yield this.finding(
            "this is neither Linux nor macOS: nothing could be looked at",
            evidence=[Proof("sysfs", "sysfs", seen(evidence.sysfs))],
        )


@rule(
    "source-incomplete",
    Severity.UNKNOWN,
    "Part of a source could not be read",
    "A file, a folder or a command that rules rest on could not be read: what it would have "
    "shown is unknown. A note where no rule rests on it.",
    remedy=_AGAIN,
)
def source_incomplete(this: Rule, case: Case) -> Iterator[Finding]:
    unread = _by_missing(case.unread)
    for name in ("macos", "ioreg", "mac_network"):
        facts = getattr(case.evidence, name)
        if isinstance(facts, Missing):
            continue
        for part in fields(facts):
            missing = getattr(facts, part.name)
            if not isinstance(missing, Missing) or missing == NOT_IN_RECORD:
                continue
            if part.name == "rdma_enabled":
                continue  # the switch has a rule of its own
            yield this.finding(
                f"{name}: {part.name} could not be read: {missing}",
                severity=None
                if unread.pop(missing, None) or part.name not in _DECIDE_NOTHING
                else Severity.INFO,
                evidence=[Proof(name, part.name, seen(missing))],
                when=_when(missing, case.evidence),
            )
    for missing, lacks in unread.items():
        lack = lacks[0]
        port = f"/{lack.port}" if lack.port else ""
        where = f"{lack.device}{port}: " if lack.device else ""
        yield this.finding(
            f"{where}{' and '.join(dict.fromkeys(each.need for each in lacks))} could not be "
            f"read: {missing}",
            device=lack.device,
            port=lack.port,
            evidence=[Proof("needs", lack.need, seen(missing))],
            when=_when(missing, case.evidence),
        )


def _by_missing(unread: Iterable[Lack]) -> dict[Missing, list[Lack]]:
    found: dict[Missing, list[Lack]] = {}
    for lack in unread:
        found.setdefault(lack.missing, []).append(lack)
    return found


_DECIDE_NOTHING: Final = ("panics", "sleep_minutes", "boot_seconds", "build", "version")


@rule(
    "nldev-device-refused",
    Severity.UNKNOWN,
    "nldev refuses a device or port",
    "RDMA netlink names a device or counts a port, and the question about it was refused, or "
    "the device was deleted before it was answered.",
    remedy={
        "of a device": ("rdma dev",),
        "of a port": ("rdma link show {device}/{port}",),
    },
)
def nldev_device_refused(this: Rule, case: Case) -> Iterator[Finding]:
    if isinstance(case.evidence.nldev, Missing):
        return
    for missing in case.evidence.nldev.unreadable:
        yield this.finding(
            missing.detail
            if missing.why is Why.ABSENT
            else f"a device could not be read: {missing}",
            evidence=[Proof("nldev", "RDMA_NLDEV_CMD_GET", seen(missing))],
            when="of a device",
        )
    for device, number, missing in _refused_ports(case):
        yield this.finding(
            f"{device}/{number} could not be read from nldev: {missing}",
            device=device,
            port=number,
            evidence=[Proof("nldev", "RDMA_NLDEV_CMD_PORT_GET", seen(missing))],
            when="of a port",
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
    "them, such as a copied sysfs tree. Unknown where nothing that shows ports was looked at, "
    "and on Macs, where each source decides something.",
)
def source_not_collected(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for all of them."""
    names = [
        name
        for name in case.evidence.missing
        if getattr(getattr(case.evidence, name), "why", None) is Why.NOT_COLLECTED
        and getattr(case.evidence, name) != NOT_IN_RECORD  # of a version that had no such source
    ]
    blind = {"sysfs", "nldev", "verbs"} <= set(names)
    if names:
        yield this.finding(
            f"not looked at: {', '.join(names)}",
            # A Mac's verdict rests on all of its sources, a Linux host's on one that shows ports.
            severity=Severity.UNKNOWN if blind or case.evidence.is_mac else None,
            evidence=[Proof(name, name, seen(getattr(case.evidence, name))) for name in names],
        )


RULES: Final[tuple[Rule, ...]] = (
    system_not_supported,
    source_failed,
    source_incomplete,
    nldev_device_refused,
    source_not_collected,
)
