"""What the Mac's log says of the RDMA driver, and what it means that it says nothing."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.errnos import errno_name
from rdmadiag.facts.macos import LogLine
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import Protocol


@rule(
    "recent-rtr-failure",
    Severity.CRITICAL,
    "A failed INIT→RTR in the log",
    "The driver has logged a failed transition since this Mac booted. A port may be wedged by "
    "it, and each further attempt makes it worse. A warning where every such line is older than "
    "this boot, unknown where it is not known when that was.",
    (
        "https://github.com/exo-explore/exo/issues/1712",
        "https://pkg.go.dev/github.com/tmc/apple/x/rdma",
    ),
    remedy={
        "since this Mac booted": (
            "# no further RTR before a reboot; then by the errno that the program gave:",
            "#   {cause:ERRNO: its causes}",
            "sudo shutdown -r now",
        ),
        "before this boot": (
            "# this Mac has rebooted since; by the errno that the program gave then:",
            "#   {cause:ERRNO: its causes}",
            "rdmadiag preflight   # without --log-last: the last minute decides",
        ),
    },
    needs=("mac_log",),
)
def recent_rtr_failure(this: Rule, case: Case) -> Iterator[Finding]:
    log = case.evidence.mac_log
    failed = [] if isinstance(log, Missing) else [line for line in log.lines if line.is_failed_rtr]
    if isinstance(log, Missing) or not failed:
        return
    this_boot = [line for line in failed if _before_boot(case, line) is False]
    unsure = not this_boot and any(_before_boot(case, line) is None for line in failed)
    shown = (this_boot or failed)[-1]
    when = "since this Mac booted" if this_boot or unsure else "before this boot"
    moment = "perhaps since this Mac booted" if unsure else when
    yield this.finding(
        f"INIT→RTR failed {len(this_boot or failed)} times {moment}, last at {shown.timestamp}"
        if len(this_boot or failed) > 1
        else f"INIT→RTR failed {moment}, at {shown.timestamp}",
        severity=None if this_boot else Severity.UNKNOWN if unsure else Severity.WARN,
        evidence=[Proof("mac_log", f"log show --last {log.window}", shown.message)],
        when=when,
        fill={"cause": tuple(_causes())},
    )


def _before_boot(case: Case, line: LogLine) -> bool | None:
    """None where it is not known when the line was written, or when this Mac booted."""
    macos = case.evidence.macos
    booted = macos if isinstance(macos, Missing) else macos.boot_seconds
    if isinstance(booted, Missing) or isinstance(line.seconds, Missing):
        return None
    return line.seconds < booted


def _causes() -> Iterator[Verbatim]:
    # The registry of causes: a twentieth of a preflight, and read after a failed RTR alone.
    from rdmadiag.explain.calls import known
    from rdmadiag.facts.attempt import Stage

    for number, found in known(Stage.RTR, "darwin").items():
        causes = "; or ".join(each.text for each in found)
        yield Verbatim(f"{number} {errno_name(number, 'darwin')}: {causes}")


@rule(
    "no-recent-log",
    Severity.UNKNOWN,
    "Nothing in the log",
    "The log can be read, and has no line of the RDMA driver in its window, though the query "
    "of the provider has just opened and closed a context, of which a healthy driver writes. "
    "Not a sign of harm; without a line there is no sign of health either, and no RTR attempt "
    "is permitted.",
    ("https://pkg.go.dev/github.com/tmc/apple/x/rdma",),
    remedy=(
        "ibv_devinfo >/dev/null && rdmadiag preflight   # opens and closes a context: a line",
        "rdmadiag preflight --log-last 1h",
    ),
    needs=("mac_log", "ports"),
)
def no_recent_log(this: Rule, case: Case) -> Iterator[Finding]:
    """Where there is a Thunderbolt port."""
    log = case.evidence.mac_log
    thunderbolt = any(port.protocol is Protocol.THUNDERBOLT for _, port in case.ports)
    if isinstance(log, Missing) or log.total or not thunderbolt:
        return
    yield this.finding(
        f"no line of the RDMA driver in the last {log.window} of the log: whether it is well "
        "is not known",
        evidence=[Proof("mac_log", f"log show --last {log.window}", "0 lines")],
    )


@rule(
    "log-incomplete",
    Severity.UNKNOWN,
    "Lines of the log could not be read",
    "Some lines that log show printed make no sense: a failed RTR may be among them.",
    remedy=("rdmadiag preflight",),
    needs=("mac_log",),
)
def log_incomplete(this: Rule, case: Case) -> Iterator[Finding]:
    log = case.evidence.mac_log
    if isinstance(log, Missing) or not log.unreadable:
        return
    yield this.finding(
        f"{log.unreadable} lines of the log could not be read",
        evidence=[Proof("mac_log", f"log show --last {log.window}", f"{log.unreadable} lines")],
    )


RULES: Final[tuple[Rule, ...]] = (recent_rtr_failure, log_incomplete, no_recent_log)
