"""Where two sources say different things of the same device or port."""

from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing, NldevDevice, SysfsDevice
from rdmadiag.facts.ib import NetnsMode, PhysState, PortState
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute, seen, verbs_answer
from rdmadiag.preflight.rules.discovery import SHARE_NETNS
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.access import in_other_netns
from rdmadiag.view.reconcile import PortView


@rule(
    "state-disagreement",
    Severity.UNKNOWN,
    "Sources disagree about a port",
    "One source says that the port is ACTIVE and another that it is not. Either it changed "
    "between the two reads, or one of them is wrong.",
    remedy=(
        "rdmadiag preflight   # again: did the port just change?",
        "rdma link",
    ),
    needs=("ports", "witnesses"),
)
def state_disagreement(this: Rule, case: Case) -> Iterator[Finding]:
    for _, port in case.ports:
        states = port.states
        if PortState.ACTIVE not in states.values() or port.is_active:
            continue
        said = ", ".join(f"{who} says {seen(state)}" for who, state in states.items())
        yield this.finding(
            f"{port.name}: {said}",
            device=port.device,
            port=port.number,
            evidence=[_witness(port, who, state) for who, state in states.items()],
        )


def _witness(port: PortView, who: str, state: PortState) -> Proof:
    if who == "sysfs":
        return port_attribute(port, "state", state)
    if who == "verbs":
        return verbs_answer(port, "state", state)
    return Proof("nldev", f"RDMA_NLDEV_ATTR_PORT_STATE of {port.name}", seen(state))


@rule(
    "device-in-one-source",
    Severity.WARN,
    "Device seen by one source only",
    "sysfs shows a device that nldev does not, or the reverse. In exclusive netns mode a "
    "device belongs to one network namespace, while sysfs may still be another's: there the "
    "finding is critical. In shared mode the device came or went while the host was read.",
    ("https://man7.org/linux/man-pages/man8/rdma-system.8.html",),
    remedy={
        "where another namespace has it": ("rdma system show", SHARE_NETNS),
        "elsewhere": ("rdma system show", "rdma dev", "ls /sys/class/infiniband"),
    },
    needs=("every device", "nldev"),
)
def device_in_one_source(this: Rule, case: Case) -> Iterator[Finding]:
    """Only where both sources answered."""
    sysfs, nldev = case.evidence.sysfs, case.evidence.nldev
    if isinstance(sysfs, Missing) or isinstance(nldev, Missing) or nldev.unreadable:
        return
    if isinstance(sysfs.devices, Missing):
        return
    for device in case.devices:
        if bool(device.sysfs) == bool(device.nldev):
            continue
        shows, hides = ("sysfs", "nldev") if device.sysfs else ("nldev", "sysfs")
        mode = nldev.netns_mode
        elsewhere = in_other_netns(device, case.evidence)
        cause = ""
        if elsewhere:
            cause = ": netns mode is exclusive, another namespace has the device"
        elif mode is NetnsMode.SHARED:  # every namespace sees every device
            cause = ": it was made or deleted between the two reads"
        yield this.finding(
            f"{device.name}: {shows} shows it and {hides} does not{cause}",
            device=device.name,
            severity=Severity.CRITICAL if elsewhere else None,
            evidence=(
                Proof("sysfs", "/sys/class/infiniband", _names(sysfs.devices)),
                Proof("nldev", "RDMA_NLDEV_ATTR_DEV_NAME", _names(nldev.devices)),
                Proof("nldev", "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", seen(mode)),
            ),
            when="where another namespace has it" if elsewhere else "elsewhere",
        )


def _names(devices: Iterable[SysfsDevice | NldevDevice]) -> str:
    return " ".join(device.name for device in devices) or "none"


@rule(
    "state-contradicts-link",
    Severity.UNKNOWN,
    "Active without a link",
    "The port says ACTIVE, and its physical state is not LinkUp: one of the two is not true, "
    "or the port is changing.",
    ("https://docs.kernel.org/infiniband/sysfs.html",),
    remedy=(
        "rdmadiag preflight   # again: did the port just change?",
        "rdma link",
    ),
    needs=("ports", "port state", "physical state"),
)
def state_contradicts_link(this: Rule, case: Case) -> Iterator[Finding]:
    """A link in error recovery stays active for a moment; no other state does."""
    fine = (PhysState.LINK_UP, PhysState.LINK_ERROR_RECOVERY)
    for _, port in case.ports:
        if port.sysfs is None:
            continue  # what verbs alone shows of a Thunderbolt link is not its physical state
        if not port.is_active or isinstance(port.phys_state, Missing) or port.phys_state in fine:
            continue
        yield this.finding(
            f"{port.name} is ACTIVE, and its physical state is {port.phys_state}",
            device=port.device,
            port=port.number,
            evidence=(
                port_attribute(port, "state", port.state),
                port_attribute(port, "phys_state", port.phys_state),
            ),
        )


RULES: Final[tuple[Rule, ...]] = (
    state_disagreement,
    state_contradicts_link,
    device_in_one_source,
)
