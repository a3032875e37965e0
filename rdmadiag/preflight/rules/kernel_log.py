"""What drivers wrote to the kernel's log lately."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.kernel_messages import Kind, kind_of
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.kernel_log import KernelLine
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.kernel_lines import Subject, flapping, lines_about
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.rules.sources import OF_THE_LOG
from rdmadiag.preflight.verdict import Finding, Proof, Severity

_SHOWN: Final = 3
_LINE: Final = 300  # characters
_MESSAGES: Final = "/dev/kmsg"


def _proofs(lines: Sequence[KernelLine]) -> tuple[Proof, ...]:
    """The last few, as dmesg would print them."""
    return tuple(
        Proof("kernel_log", _MESSAGES, f"[{line.seconds:12.6f}] {line.message[:_LINE]}")
        for line in lines[-_SHOWN:]
    )


def _window(case: Case) -> str:
    log = case.evidence.kernel_log
    return "" if isinstance(log, Missing) else log.window


def _is_beside(subject: Subject, case: Case) -> bool:
    """An adapter that is gone, where others were selected."""
    return case.selected and subject.device is None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


@rule(
    "device-unhealthy-in-log",
    Severity.CRITICAL,
    "The driver says that its device is unhealthy",
    "In the window of the log a driver says that its device has stopped working: firmware that "
    "does not answer, a health counter that stands still, a fatal error, an uncorrectable PCIe "
    "error. A warning where it says later that the device recovered, and of an adapter that is no "
    "RDMA device any more where others were selected.",
    (
        "https://github.com/NVIDIA/nccl/issues/2157",
        "https://docs.kernel.org/networking/devlink/devlink-health.html",
    ),
    remedy=(
        "sudo devlink health",
        "sudo dmesg -T | grep -i -e health -e fatal -e AER",
        "# firmware newer? the slot, the power? a cold start clears most firmware errors",
    ),
    needs=("kernel log", "devices", "PCI function"),
)
def device_unhealthy_in_log(this: Rule, case: Case) -> Iterator[Finding]:
    """The last line on a device decides on the severity."""
    for name, lines in lines_about(case, (Kind.UNHEALTHY, Kind.RECOVERED)).items():
        bad = [line for line in lines if kind_of(line.message) is Kind.UNHEALTHY]
        if not bad:
            continue
        recovered = kind_of(lines[-1].message) is Kind.RECOVERED
        end = ", and then that it recovered" if recovered else ""
        yield this.finding(
            f"{name}: the driver logged {_times(len(bad))} in the last {_window(case)} that the "
            f"device is unhealthy{end}",
            device=name.device,
            severity=Severity.WARN if recovered or _is_beside(name, case) else None,
            evidence=_proofs(lines if recovered else bad),
        )


@rule(
    "link-flaps-in-log",
    Severity.WARN,
    "The link went down lately",
    "The port is active, or the adapter is no RDMA device now, and in the window of the log its "
    "link went down. Jobs that were "
    "connected then have failed with retries exceeded, and GIDs may have moved to other indexes. "
    "A cable or transceiver, the switch, or somebody who set the netdev down.",
    (
        "https://github.com/NVIDIA/nccl/issues/905",
        "https://github.com/NVIDIA/nccl/issues/394",
        "https://github.com/kvcache-ai/Mooncake/issues/3596",
    ),
    remedy=(
        "sudo dmesg -T | grep -i -e 'link down' -e 'link up' -e 'module event'",
        "# does it go on? then the cable, the transceiver, the switch's log",
    ),
    needs=("kernel log", "ports", "port state", "PCI function"),
)
def link_flaps_in_log(this: Rule, case: Case) -> Iterator[Finding]:
    """Of ports that are active now."""
    for name, lines in flapping(case).items():
        yield this.finding(
            f"{name}: its link went down {_times(len(lines))} in the last {_window(case)}",
            device=name.device,
            evidence=_proofs(lines),
        )


@rule(
    "contexts-exhausted-in-log",
    Severity.WARN,
    "No more user contexts",
    "The adapter refused a user access region because its limit is reached: too many processes, "
    "or contexts in each, have the device open. Those that come later fail to open it.",
    (
        "https://github.com/openucx/ucx/issues/6049",
        "https://github.com/open-mpi/ompi/issues/6854",
    ),
    remedy=(
        "rdma resource show ctx dev {name:DEVICE}   # who has it open?",
        "# fewer processes a node, or fewer contexts in each",
    ),
    needs=("kernel log", "devices", "PCI function"),
)
def contexts_exhausted_in_log(this: Rule, case: Case) -> Iterator[Finding]:
    for name, lines in lines_about(case, (Kind.CONTEXTS_EXHAUSTED,)).items():
        yield this.finding(
            f"{name} refused a user context {_times(len(lines))} in the last {_window(case)}: "
            "limits exceeded",
            device=name.device,
            evidence=_proofs(lines),
            fill={"name": name.name},
        )


@rule(
    "adapter-hot-in-log",
    Severity.WARN,
    "The adapter is hot",
    "The driver has logged a temperature above its threshold: the adapter or its transceiver "
    "slows down or switches off.",
    ("https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/index.html",),
    remedy=(
        "sensors",
        "# airflow, fans, a transceiver that is rated for this port",
    ),
    needs=("kernel log", "devices", "PCI function"),
)
def adapter_hot_in_log(this: Rule, case: Case) -> Iterator[Finding]:
    for name, lines in lines_about(case, (Kind.HOT,)).items():
        yield this.finding(
            f"{name}: the driver warned of high temperature {_times(len(lines))} in the last "
            f"{_window(case)}",
            device=name.device,
            evidence=_proofs(lines),
        )


@rule(
    "slot-power-in-log",
    Severity.INFO,
    "The slot offers little power",
    "The adapter says that its slot has advertised less power than it may need. The line is also "
    "written on healthy hosts at each start; it matters where the adapter is slow with links "
    "that are well.",
    ("https://github.com/NVIDIA/dgx-spark-playbooks/pull/108",),
    remedy=("sudo lspci -vv | grep -i SlotPowerLimit   # of the bridge above",),
    needs=("kernel log", "devices", "PCI function"),
)
def slot_power_in_log(this: Rule, case: Case) -> Iterator[Finding]:
    for name, lines in lines_about(case, (Kind.SLOT_POWER,)).items():
        yield this.finding(
            f"{name}: its slot offers less power than the adapter may need",
            device=name.device,
            evidence=_proofs(lines),
        )


@rule(
    "register-refused-in-log",
    Severity.INFO,
    "The firmware refuses to read a register",
    "ACCESS_REG failed: something read from the adapter what its firmware does not give this "
    "function, most often a monitor that reads counters. It harms nothing, and fills the log. "
    "rdmadiag reads no counters.",
    (
        "https://github.com/prometheus/node_exporter/issues/3434",
        "https://github.com/leptonai/gpud/pull/1164",
    ),
    remedy=("# which monitor reads ports/*/counters of this device? exclude it there",),
    needs=("kernel log", "devices", "PCI function"),
)
def register_refused_in_log(this: Rule, case: Case) -> Iterator[Finding]:
    for name, lines in lines_about(case, (Kind.REGISTER_REFUSED,)).items():
        yield this.finding(
            f"{name}: the firmware refused a register {_times(len(lines))} in the last "
            f"{_window(case)}",
            device=name.device,
            evidence=_proofs(lines),
        )


@rule(
    "kernel-log-unreadable",
    Severity.INFO,
    "The kernel's log could not be read",
    "Link flaps, firmware errors and the like in the last minutes would stand in the kernel's "
    "log. Where kernel.dmesg_restrict is set it is for root, and most containers do not have it. "
    "The rest of the verdict does not hang on it. Unknown where it could be read and was not.",
    ("https://docs.kernel.org/admin-guide/sysctl/kernel.html",),
    remedy={
        "": ("sudo rdmadiag preflight",),
        "where there is none": ("# it is the host's: look there",),
    },
    needs=("devices",),
)
def kernel_log_unreadable(this: Rule, case: Case) -> Iterator[Finding]:
    """Not of a record without a log."""
    log = case.evidence.kernel_log
    if not case.devices or isinstance(log, Missing) or not isinstance(log.lines, Missing):
        return
    if log.lines.why is Why.NOT_COLLECTED:
        return
    yield this.finding(
        f"the kernel's log could not be read: {log.lines}",
        severity=None if log.lines.why in OF_THE_LOG else Severity.UNKNOWN,
        evidence=[Proof("kernel_log", _MESSAGES, seen(log.lines))],
        when="where there is none" if log.lines.why is Why.ABSENT else "",
    )


RULES: Final[tuple[Rule, ...]] = (
    device_unhealthy_in_log,
    link_flaps_in_log,
    contexts_exhausted_in_log,
    adapter_hot_in_log,
    slot_power_in_log,
    register_refused_in_log,
    kernel_log_unreadable,
)
